//! No request is lost while routes move between clusters that come and go.
//!
//! Eight connections ask an Envoy all the time. Meanwhile every edit of the directory
//! replaces the one cluster, its endpoints and the route to it, all at once: a server that sent
//! them in a wrong order, or took the old cluster away too early, would fail a request.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::support::backend::Backend;
use crate::support::bootstrap::{Bootstrap, Transport};
use crate::support::chancery::{Chancery, Directory};
use crate::support::clients::clients;
use crate::support::envoy::{Envoy, VERSIONS};
use crate::support::http::Connection;
use crate::support::ports::Port;
use crate::support::resources::{Source, cluster, endpoints, listener, rds, routes};
use crate::support::wait;

const CONNECTIONS: usize = 8;
/// Between two requests of a connection: a constant load, and not all that the machine can bear,
/// or it would starve the tests beside it.
const PACE: Duration = Duration::from_millis(4);
const CHANGES: usize = 500;

/// A constant load of requests, and the number of them that were answered.
#[derive(Debug, Default)]
struct Load {
    stopped: AtomicBool,
    answered: AtomicU64,
}

impl Load {
    /// Asks until told to stop; anything but an answer of a backend is a failure.
    fn run(&self, port: u16) -> Result<(), String> {
        let mut connection = open(port)?;
        while !self.stopped.load(Ordering::Relaxed) {
            let asked = self.answered.load(Ordering::Relaxed);
            let reply = connection
                .get("/", &[])
                .map_err(|fault| format!("after {asked} answers: {fault}"))?;
            if reply.status != 200 {
                return Err(format!("after {asked} answers: {reply:?}"));
            }
            self.answered.fetch_add(1, Ordering::Relaxed);
            thread::sleep(PACE);
            if reply.last {
                connection = open(port)?;
            }
        }
        Ok(())
    }
}

/// Ends the load with the scope that has it.
struct StopAtEnd<'a>(&'a Load);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stopped.store(true, Ordering::Relaxed);
    }
}

fn open(port: u16) -> Result<Connection, String> {
    Connection::open(port).map_err(|fault| format!("cannot connect: {fault}"))
}

/// One whole configuration: a route to one cluster, which alternates between two backends.
fn state(number: usize, backends: &[Backend; 2]) -> String {
    let name = format!("svc-{number}");
    let backend = backends[number % 2].port();
    routes("r1", &name) + &cluster(&name, Source::Ads) + &endpoints(&name, &[backend])
}

fn no_request_is_lost(kind: &str) {
    let Some(clients) = clients() else { return };
    // One load at a time.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().expect("there is a temporary directory");
    let backends = [Backend::start("even"), Backend::start("odd")];
    let edge = Port::reserve();
    let directory = Directory::new(dir.path(), "config");
    directory.write("lds.yaml", &listener("l1", edge.number(), &rds("r1", Source::Ads), ""));
    directory.write("state.yaml", &state(0, &backends));
    let chancery = Chancery::serve(&directory);
    let bootstrap = Bootstrap::ads(kind).server("xds", chancery.port(), Transport::H2c);
    let mut envoy = Envoy::start(&clients, VERSIONS[0], dir.path(), &bootstrap, edge.number());
    envoy.is_live();
    envoy.answers_from("even");

    let load = Load::default();
    thread::scope(|scope| {
        let run = || load.run(edge.number());
        let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(run)).collect();
        // Also when a wait below panics: the scope ends only after its threads.
        let stop = StopAtEnd(&load);
        for number in 1..=CHANGES {
            if threads.iter().any(thread::ScopedJoinHandle::is_finished) {
                break;
            }
            directory.write("state.yaml", &state(number, &backends));
            wait::holds(&format!("change {number} to land"), || {
                envoy.has_cluster(&format!("svc-{number}"))
                    && !envoy.has_cluster(&format!("svc-{}", number - 1))
            });
        }
        drop(stop);
        for thread in threads {
            assert_eq!(thread.join().expect("it does not panic"), Ok(()));
        }
    });
    envoy.refused_nothing();
    assert!(load.answered.into_inner() > 1000, "there was load");
}

// S-096, S-097, S-098
#[test]
fn no_request_is_lost_over_sotw() {
    no_request_is_lost("GRPC");
}

// S-096, S-097, S-098
#[test]
fn no_request_is_lost_over_delta() {
    no_request_is_lost("DELTA_GRPC");
}
