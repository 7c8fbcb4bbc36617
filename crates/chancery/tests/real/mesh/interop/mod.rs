//! gRPC's own interop cases: our channel and server against those of gRPC for Go, by targets of `xds:`.
//!
//! The cases are those of gRPC's interop test descriptions that need nothing but the test service; the messages are
//! written by hand.

mod client;
mod messages;
mod server;

use chancery_grpc::ChannelBuilder;
use serde_json::Value;

use self::client::Client;
use self::server::TestService;
use super::resources::Service;
use super::runtime;
use super::servers::{ours, program};
use crate::grpc::{LOOPBACK, bootstrap, server, server_listener};
use crate::support::chancery::{Chancery, Directory};
use crate::support::clients::{RealClients, clients};
use crate::support::ports::Port;
use crate::support::process::Process;
use crate::support::wait;

const CASES: [&str; 14] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "cancel_after_begin",
    "cancel_after_first_response",
    "timeout_on_sleeping_server",
    "custom_metadata",
    "status_code_and_message",
    "special_status_message",
    "unimplemented_method",
    "unimplemented_service",
];

const TARGET: &str = "xds:///interop";

/// A management server that leads to one server of the test service.
struct Rig {
    programs: RealClients,
    port: Port,
    bootstrap: Value,
    _chancery: Chancery,
    dir: tempfile::TempDir,
}

/// Runs a test if the real clients are there.
fn with_rig(test: impl FnOnce(&Rig)) {
    let Some(programs) = clients() else { return };
    let port = Port::reserve();
    let dir = tempfile::tempdir().expect("there is a temporary directory");
    let directory = Directory::new(dir.path(), "config");
    directory.write("server.yaml", &server_listener(LOOPBACK, &port, "interop", ""));
    let routes = "[{match: {prefix: /}, route: {cluster: interop}}]";
    let service = Service::new("interop", routes).cluster("interop", "");
    let service = service.endpoints("interop", &[(0, 1, &[port.number()])], "");
    directory.write("client.yaml", &service.0);
    let chancery = Chancery::serve(&directory);
    let bootstrap = bootstrap(&[server(&format!("127.0.0.1:{}", chancery.port()))]);
    test(&Rig { programs, port, bootstrap, _chancery: chancery, dir });
}

impl Rig {
    /// Runs all cases over a channel of ours.
    fn our_client_passes(&self) {
        let runtime = runtime();
        let bootstrap = self.bootstrap.to_string().parse().expect("a bootstrap");
        let channel = {
            let _guard = runtime.enter();
            ChannelBuilder::new(TARGET).bootstrap(bootstrap).build().expect("a channel")
        };
        let client = Client(channel);
        for case in CASES {
            let passed = runtime
                .block_on(async { tokio::time::timeout(wait::BOUND, client.run(case)).await });
            passed
                .unwrap_or_else(|_| panic!("{case} does not end"))
                .unwrap_or_else(|status| panic!("{case}: {status}"));
        }
    }

    /// Runs all cases in the client of gRPC for Go.
    fn their_client_passes(&self) {
        let path = self.dir.path().join("bootstrap-client.json");
        std::fs::write(&path, self.bootstrap.to_string()).expect("the directory is ours");
        let mut command = self.programs.grpc_go("interop-client");
        command.arg(TARGET).args(CASES).env("GRPC_XDS_BOOTSTRAP", path);
        let mut process = Process::start(self.dir.path(), "interop-client", &mut command);
        let ended = wait::until("the cases to end", || process.ended());
        let output = process.output();
        assert!(ended.success(), "{output}");
        for case in CASES {
            let line = format!("passed: {case}");
            assert!(output.lines().any(|it| it == line), "no `{line}`: {output}");
        }
    }
}

/// C-094, C-102, C-148: our client has what gRPC's own cases ask of one, with a server of gRPC for Go.
#[test]
fn our_client_passes_with_a_server_of_go() {
    with_rig(|rig| {
        let mut command = rig.programs.grpc_go("interop-server");
        command.args([&rig.port.number().to_string(), "xds"]);
        let _server = program(rig.dir.path(), "go", command, &rig.bootstrap);
        rig.our_client_passes();
    });
}

/// C-140, C-144: our server has what gRPC's own cases ask of one, with the client of gRPC for Go and with ours.
#[test]
fn our_server_passes_with_clients_of_go_and_of_ours() {
    with_rig(|rig| {
        let _server = ours(&rig.port, &rig.bootstrap, TestService);
        rig.their_client_passes();
        rig.our_client_passes();
    });
}
