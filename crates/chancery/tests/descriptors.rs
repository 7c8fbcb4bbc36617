//! The server where the system allows it few open files.

use std::fs;
use std::net::TcpStream;

use crate::daemon::{Program, Server};

const CLUSTER: &str =
    "- name: one\n  \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n";

/// A server with so many descriptors. The shell sets both limits, so that it cannot raise them.
fn started(dir: &tempfile::TempDir, descriptors: usize) -> Server {
    let binary = env!("CARGO_BIN_EXE_chancery");
    let script = format!(
        "ulimit -n {descriptors} && exec '{binary}' serve '{}' \"$@\"",
        dir.path().display()
    );
    Server::start_by(Program::new("sh").args(["-c", &script, "sh"]), &[])
}

#[test]
fn connections_leave_descriptors_for_probes_and_files() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("clusters.yaml"), CLUSTER).unwrap();
    let mut server = started(&dir, 200);
    assert!(server.log_has("fewer connections"));
    let idle: Vec<_> =
        (0..300).filter_map(|_| TcpStream::connect(("127.0.0.1", server.port)).ok()).collect();
    assert_eq!(server.admin("/ready").0, 200, "beside {} idle connections", idle.len());
    fs::write(dir.path().join("more.yaml"), CLUSTER.replace("one", "two")).unwrap();
    assert!(server.log_has("resources=2"));
}

#[test]
fn with_very_few_descriptors_probes_and_files_have_theirs_and_the_log_says_what_one_client_may_take()
 {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("clusters.yaml"), CLUSTER).unwrap();
    let mut server = started(&dir, 64);
    assert!(server.log_has("one client may have 24, and all others the other 8"));
    let idle = |port| (0..100).filter_map(move |_| TcpStream::connect(("127.0.0.1", port)).ok());
    let idle: Vec<_> = idle(server.port).chain(idle(server.admin)).collect();
    for file in ["two", "three"] {
        fs::write(dir.path().join(file).with_extension("yaml"), CLUSTER.replace("one", file))
            .unwrap();
        assert_eq!(server.admin("/ready").0, 200, "beside {} idle connections", idle.len());
    }
    assert!(server.log_has("resources=3"));
}
