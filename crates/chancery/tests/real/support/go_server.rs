//! A management server on go-control-plane, whose content the test says.

use std::path::Path;

use serde_json::Value;

use super::clients::RealClients;
use super::ports::Port;
use super::process::Process;

/// A running server.
pub(crate) struct GoServer {
    process: Process,
    streams: Port,
    polls: Port,
}

impl GoServer {
    /// Serves resources from one of its caches, `snapshot` or `linear`, and returns once it does.
    pub(crate) fn serve(
        clients: &RealClients,
        test: &Path,
        cache: &str,
        resources: &Value,
    ) -> Self {
        let ports = [Port::reserve(), Port::reserve()];
        Self::serve_on(ports, clients, test, cache, resources)
    }

    /// Serves on these ports, gRPC first.
    pub(crate) fn serve_on(
        [streams, polls]: [Port; 2],
        clients: &RealClients,
        test: &Path,
        cache: &str,
        resources: &Value,
    ) -> Self {
        let mut command = clients.go_server();
        command.args(["--listen", &streams.address(), "--rest", &polls.address()]);
        let name = format!("go-server-{}", streams.number());
        let process = Process::start_told(test, &name, command.args(["--cache", cache]));
        let mut server = Self { process, streams, polls };
        server.publish(resources);
        server
    }

    /// These are all resources from now on. Returns when the server has been told.
    pub(crate) fn publish(&mut self, resources: &Value) {
        let mark = self.process.mark();
        self.process.tell(&resources.to_string());
        self.process.says_after(mark, "published ");
    }

    /// Waits until a client has rejected something for this reason.
    pub(crate) fn is_refused(&self, why: &str) {
        self.process.says(&format!("rejected: {why}"));
    }

    /// Where gRPC is served.
    pub(crate) fn address(&self) -> String {
        self.streams.address()
    }

    /// Where REST is served.
    pub(crate) fn rest(&self) -> String {
        format!("http://{}", self.polls.address())
    }

    /// Ends it as a crash would, and hands over its ports.
    pub(crate) fn stop(self) -> [Port; 2] {
        let Self { process, streams, polls } = self;
        drop(process);
        [streams, polls]
    }
}
