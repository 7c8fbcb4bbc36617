//! Where the real clients are, and what happens without them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The clients that `cargo xtask fetch` installed.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    real: PathBuf,
}

/// The clients; or nothing, said aloud, if they are not installed and this is not CI.
pub(crate) fn clients() -> Option<Clients> {
    let real = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/real");
    if real.join("tonic-xds-client.stamp").exists() {
        return Some(Clients { real: real.canonicalize().expect("it exists") });
    }
    assert!(
        std::env::var_os("CHANCERY_CI").is_none(),
        "the real clients are not installed: `cargo xtask fetch`"
    );
    // Not a print macro: the test runner would keep it to itself.
    let note = b"\nSKIPPED: the real clients are not installed; run `cargo xtask fetch`\n";
    std::io::stderr().write_all(note).ok();
    None
}

impl Clients {
    /// The binary of one version of Envoy.
    pub(crate) fn envoy(&self, version: &str) -> Command {
        Command::new(self.real.join(format!("envoy-{version}")).join("envoy"))
    }

    /// One of our Python programs, with grpcio.
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
}

fn source(dir: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real").join(dir)
}
