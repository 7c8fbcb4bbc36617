//! The server where the system allows it few open files.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]

mod daemon;

use std::fs;
use std::net::TcpStream;

use daemon::{Program, Server};

const CLUSTER: &str =
    "- name: one\n  \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n";

#[test]
fn connections_leave_descriptors_for_probes_and_files() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("clusters.yaml"), CLUSTER).unwrap();
    // The shell sets both limits, so that the server cannot raise them.
    let binary = env!("CARGO_BIN_EXE_chancery");
    let script =
        format!("ulimit -n 200 && exec '{binary}' serve '{}' \"$@\"", dir.path().display());
    let mut command = Program::new("sh");
    let mut server = Server::start_by(command.args(["-c", &script, "sh"]), &[]);
    assert!(server.log_has("fewer connections"));
    let idle: Vec<_> =
        (0..300).filter_map(|_| TcpStream::connect(("127.0.0.1", server.port)).ok()).collect();
    assert_eq!(server.admin("/ready").0, 200, "beside {} idle connections", idle.len());
    fs::write(dir.path().join("more.yaml"), CLUSTER.replace("one", "two")).unwrap();
    assert!(server.log_has("resources=2"));
}
