//! The same calls by the same resources through every gRPC: the C core, Go, grpc-js and `chancery-grpc`.
//!
//! Each test serves a few services, makes batches of calls in all clients, and compares where they went. A batch by
//! chance has its bounds. Not here: resources that clients reject (`grpc::judged`).

mod backends;
mod balancing;
mod clients;
#[path = "../../../src/call/codec.rs"]
mod codec;
mod failing;
mod interop;
mod load;
mod resources;
mod routing;
mod security;
mod servers;
mod sessions;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use self::backends::Backends;
use self::clients::{Client, Outcome};
use self::resources::Service;
use crate::grpc::{bootstrap, server};
use crate::support::chancery::{Chancery, Directory};
use crate::support::clients::{RealClients, clients};

/// The code of a call that could not go anywhere.
const UNAVAILABLE: u32 = 14;

/// The management server with the services of a test, and the clients.
struct Mesh {
    clients: Vec<Client>,
    /// The number of batches so far, which makes the name of each.
    batches: usize,
    _chancery: Chancery,
    _dir: tempfile::TempDir,
}

/// Runs a test with these services if the real clients are there.
fn with_mesh(
    services: impl FnOnce(&Backends) -> Vec<Service>,
    test: impl FnOnce(&mut Mesh, &Backends),
) {
    let Some(programs) = clients() else { return };
    let backends = Backends::start();
    let dir = tempfile::tempdir().expect("there is a temporary directory");
    let directory = Directory::new(dir.path(), "config");
    for (number, service) in services(&backends).into_iter().enumerate() {
        directory.write(&format!("service-{number}.yaml"), &service.0);
    }
    let chancery = Chancery::serve(&directory);
    let bootstrap = bootstrap(&[server(&format!("127.0.0.1:{}", chancery.port()))]);
    let clients = started(&programs, dir.path(), &bootstrap);
    let mut mesh = Mesh { clients, batches: 0, _chancery: chancery, _dir: dir };
    test(&mut mesh, &backends);
}

fn started(programs: &RealClients, dir: &std::path::Path, bootstrap: &Value) -> Vec<Client> {
    vec![
        Client::ours(bootstrap),
        Client::program("C-core", dir, programs.python("calls.py"), bootstrap),
        Client::program("Go", dir, programs.grpc_go("calls"), bootstrap),
        Client::program("Node", dir, programs.node("calls.js"), bootstrap),
    ]
}

/// One thread that runs tasks.
fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().expect("a runtime")
}

/// Calls of one path.
#[derive(Clone, Copy)]
struct Batch<'a> {
    service: &'a str,
    path: &'a str,
    metadata: &'a [(&'a str, &'a str)],
    count: usize,
    at_once: usize,
    timeout: f64,
}

impl<'a> Batch<'a> {
    /// One call.
    fn one(service: &'a str, path: &'a str) -> Self {
        Self { service, path, metadata: &[], count: 1, at_once: 1, timeout: 20.0 }
    }

    fn with(self, metadata: &'a [(&'a str, &'a str)]) -> Self {
        Self { metadata, ..self }
    }

    fn times(self, count: usize) -> Self {
        Self { count, at_once: 4, ..self }
    }

    fn json(&self, id: &str) -> Value {
        let mut metadata: Vec<_> =
            self.metadata.iter().map(|(name, value)| json!([name, value])).collect();
        metadata.push(json!(["call", id]));
        json!({
            "target": format!("xds:///{}", self.service), "path": self.path, "metadata": metadata,
            "count": self.count, "at_once": self.at_once, "timeout": self.timeout,
        })
    }
}

impl Mesh {
    /// Makes calls in every client, and returns how they ended, by client.
    fn calls(&mut self, batch: Batch<'_>) -> Vec<(&'static str, Vec<Outcome>)> {
        self.batches += 1;
        let number = self.batches;
        let ended = self.clients.iter_mut().map(|client| {
            let id = format!("{}-{number}", client.name);
            let outcomes = client.calls(&batch.json(&id));
            assert_eq!(outcomes.len(), batch.count, "{}: {outcomes:?}", client.name);
            (client.name, outcomes)
        });
        ended.collect()
    }

    /// Goes on with these clients alone.
    fn only(&mut self, names: &[&str]) {
        self.clients.retain(|client| names.contains(&client.name));
        assert_eq!(self.clients.len(), names.len());
    }

    /// Makes one call in every client, which ends in all of them as it should: with the name of a backend, or
    /// with a code.
    #[track_caller]
    fn agree(&mut self, batch: Batch<'_>, expected: Result<&str, u32>) {
        for (client, outcomes) in self.calls(batch) {
            let ended = outcomes[0].backend();
            assert_eq!(
                ended, expected,
                "{client} {} {:?}: {:?}",
                batch.path, batch.metadata, outcomes[0]
            );
        }
    }

    /// Makes calls in every client, and returns how many of each went to each backend or ended with each code.
    fn spread(&mut self, batch: Batch<'_>) -> Vec<(&'static str, BTreeMap<String, usize>)> {
        let ended = self.calls(batch).into_iter().map(|(client, outcomes)| {
            let mut spread = BTreeMap::new();
            for outcome in &outcomes {
                let key = outcome.backend().map_or_else(|code| code.to_string(), str::to_owned);
                *spread.entry(key).or_default() += 1;
            }
            (client, spread)
        });
        ended.collect()
    }

    /// Makes calls in every client, of which a part goes to this backend or ends with this code: within five
    /// standard deviations.
    #[track_caller]
    fn share(&mut self, batch: Batch<'_>, of: &str, part: f64) {
        let (calls, expected) = (batch.count as f64, batch.count as f64 * part);
        let deviation = (calls * part * (1.0 - part)).sqrt();
        for (client, spread) in self.spread(batch) {
            let found = *spread.get(of).unwrap_or(&0) as f64;
            assert!(
                (found - expected).abs() <= 5.0 * deviation,
                "{client}: {spread:?}, {expected} of `{of}`"
            );
        }
    }
}
