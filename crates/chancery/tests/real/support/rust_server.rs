//! The server on rust-control-plane that is measured beside Chancery.
//!
//! It serves clusters `bench-000000` and so on, state of the world over an aggregated stream, to
//! the nodes `bench-0` to `bench-9`. Streams of one node would lose updates, so each client of a
//! test is a node of its own. What tells the versions of a cluster apart is the number of the
//! change, in ten digits.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use super::clients::RealClients;
use super::ports::Port;
use super::process::Process;
use super::wait;

/// A running server.
pub(crate) struct RustServer {
    process: Process,
    listen: Port,
    /// Where it is told to change something.
    control: String,
}

impl RustServer {
    /// Serves so many clusters, and returns once it does.
    pub(crate) fn serve(clients: &RealClients, test: &Path, clusters: usize) -> Self {
        Self::serve_on(Port::reserve(), clients, test, clusters)
    }

    /// Serves on this port.
    pub(crate) fn serve_on(
        listen: Port,
        clients: &RealClients,
        test: &Path,
        clusters: usize,
    ) -> Self {
        let mut command = clients.rust_control_plane();
        command.args(["--listen", &listen.address(), "--types", "cds", "--nodes", "9"]);
        command.args(["--resources", &clusters.to_string(), "--bytes", "0"]);
        let name = format!("rust-control-plane-{}", listen.number());
        let mut process = Process::start(test, &name, &mut command);
        let control = wait::until("rust-control-plane to serve", || {
            if let Some(status) = process.ended() {
                panic!("it ended: {status}\n{}", process.output());
            }
            let output = process.output();
            let (_, told) = output.split_once("ready ")?.1.split_once("control=")?;
            Some(told.split_once('\n')?.0.to_owned())
        });
        Self { process, listen, control }
    }

    /// Has it change the next cluster: the last one first, with two of them.
    pub(crate) fn change(&self) {
        let mut stream = TcpStream::connect(&self.control).expect("it listens for orders");
        stream.set_read_timeout(Some(PATIENCE)).expect("the time is not zero");
        stream.write_all(b"change\n").expect("it reads orders");
        let mut answer = String::new();
        let read = BufReader::new(stream).read_line(&mut answer);
        assert!(read.is_ok() && answer == "ok\n", "{answer}: {}", self.process.output());
    }

    pub(crate) fn address(&self) -> String {
        self.listen.address()
    }

    /// Ends it as a crash would, and hands over its port.
    pub(crate) fn stop(self) -> Port {
        let Self { process, listen, .. } = self;
        drop(process);
        listen
    }
}

/// Far more than an order takes.
const PATIENCE: Duration = Duration::from_secs(40);
