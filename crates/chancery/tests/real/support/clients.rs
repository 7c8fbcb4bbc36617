//! Where the real clients and servers are, and what happens without them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs that `cargo xtask fetch` installed.
#[derive(Clone, Debug)]
pub(crate) struct RealClients {
    real: PathBuf,
}

/// The programs that `cargo xtask fetch` makes.
const PARTS: [&str; 11] = [
    "envoy-1.40.0",
    "envoy-1.36.2",
    "python",
    "node",
    "go-client",
    "go-server",
    "grpc-go",
    "grpc-java",
    "rate-limit",
    "rust-control-plane",
    "tonic-xds-client",
];

/// The clients and servers; or nothing, said aloud, if some are not installed and this is not CI.
pub(crate) fn clients() -> Option<RealClients> {
    let real = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/real");
    if !are_there(&real, &PARTS) {
        return None;
    }
    Some(RealClients { real: real.canonicalize().expect("it exists") })
}

/// Returns true if all of these parts are there; otherwise it is said aloud, or this is CI and fails.
fn are_there(real: &Path, parts: &[&'static str]) -> bool {
    let missing = |part: &&&str| !real.join(format!("{part}.stamp")).exists();
    let missing: Vec<_> = parts.iter().filter(missing).copied().collect();
    if missing.is_empty() {
        return true;
    }
    let missing = missing.join(", ");
    assert!(
        std::env::var_os("CHANCERY_CI").is_none(),
        "real clients and servers are not installed: {missing}: `cargo xtask fetch`"
    );
    // Not a print macro: the test runner would keep it to itself.
    let note = format!(
        "\nSKIPPED: real clients and servers are not installed: {missing}; run `cargo xtask fetch`\n"
    );
    std::io::stderr().write_all(note.as_bytes()).ok();
    false
}

impl RealClients {
    /// The binary of one version of Envoy.
    pub(crate) fn envoy(&self, version: &str) -> Command {
        Command::new(self.real.join(format!("envoy-{version}")).join("envoy"))
    }

    /// The directory with good configurations of others, which few tests need.
    pub(crate) fn corpus(&self) -> Option<PathBuf> {
        are_there(&self.real, &["corpus"]).then(|| self.real.join("corpus"))
    }

    /// One of our Python programs, with grpcio and Sovereign.
    pub(crate) fn python(&self, program: &str) -> Command {
        let mut command = Command::new(self.real.join("python/bin/python"));
        command.arg(source("python").join(program));
        command
    }

    /// One of our Node programs, with grpc-js.
    pub(crate) fn node(&self, program: &str) -> Command {
        let mut command = Command::new("node");
        command.env("NODE_PATH", self.real.join("node/node_modules"));
        command.arg(source("node").join(program));
        command
    }

    /// Our client on the gRPC project's channel for tonic.
    pub(crate) fn tonic(&self) -> Command {
        Command::new(self.real.join("tonic-xds-client"))
    }

    /// Our client on go-control-plane's client.
    pub(crate) fn go(&self) -> Command {
        Command::new(self.real.join("go-client"))
    }

    /// Our client or server with gRPC for Go; what it is to be comes first.
    pub(crate) fn grpc_go(&self, role: &str) -> Command {
        let mut command = Command::new(self.real.join("grpc-go"));
        command.arg(role);
        command
    }

    /// Our client or server with gRPC for Java, in a small JVM that starts quickly.
    pub(crate) fn grpc_java(&self, role: &str) -> Command {
        let part = self.real.join("grpc-java");
        let mut classes = part.join("classes").into_os_string();
        classes.push(":");
        classes.push(part.join("lib/*"));
        let mut command = Command::new("java");
        command.args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        command.arg("-cp").arg(classes).args(["Hello", role]);
        command
    }

    /// The xDS client of Envoy's rate limit service.
    pub(crate) fn rate_limit(&self) -> Command {
        Command::new(self.real.join("rate-limit"))
    }

    /// Our server on go-control-plane.
    pub(crate) fn go_server(&self) -> Command {
        Command::new(self.real.join("go-server"))
    }

    /// The server on rust-control-plane that is measured beside Chancery.
    pub(crate) fn rust_control_plane(&self) -> Command {
        Command::new(self.real.join("rust-control-plane"))
    }
}

fn source(dir: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real").join(dir)
}
