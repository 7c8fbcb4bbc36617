//! Requests through an Envoy of the fleet, all the time: each has to be answered, and as its node should.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::support::http::{Connection, Reply};
use crate::support::tls::CertificateAuthority;
use crate::support::wait;

/// Between two requests: a constant load, and not all that the machine can bear.
const PACE: Duration = Duration::from_millis(4);
/// The rounds in which a failure would show.
const ROUNDS: u64 = 3;
/// The failures that are told.
const MOST: usize = 5;

/// The address of a listener.
#[derive(Clone)]
pub(super) enum Door {
    Unix(PathBuf),
    Tcp(u16),
    Tls(u16, Arc<CertificateAuthority>),
}

/// A request, and what has to be in its answer.
#[derive(Clone)]
pub(super) struct Probe {
    pub(super) door: Door,
    pub(super) host: &'static str,
    pub(super) with: &'static [&'static str],
    pub(super) without: &'static [&'static str],
}

/// The requests through one Envoy.
pub(super) struct Load(Arc<Shared>);

struct Shared {
    name: &'static str,
    probes: Vec<Probe>,
    stopped: AtomicBool,
    paused: AtomicBool,
    is_idle: AtomicBool,
    rounds: AtomicU64,
    failures: Mutex<Vec<String>>,
}

impl Probe {
    /// The body of a good answer in the clear.
    pub(super) fn reply(&self) -> Option<String> {
        let host = format!("Host: {}", self.host);
        let reply = match &self.door {
            Door::Unix(path) => Connection::open_unix(path).ok()?.get("/", &[&host]),
            Door::Tcp(port) | Door::Tls(port, _) => {
                Connection::open(*port).ok()?.get("/", &[&host])
            }
        };
        reply.ok().filter(|reply| reply.status == 200).map(|reply| reply.body)
    }

    /// Asks once.
    pub(super) fn ask(&self) -> Result<(), String> {
        let host = format!("Host: {}", self.host);
        let reply = match &self.door {
            Door::Unix(path) => {
                Connection::open_unix(path).and_then(|mut it| it.get("/", &[&host]))
            }
            Door::Tcp(port) => Connection::open(*port).and_then(|mut it| it.get("/", &[&host])),
            Door::Tls(port, authority) => match authority.ask(*port) {
                Some((head, _)) if &head == b"HTTP/1.1 200" => return Ok(()),
                found => return Err(format!("over TLS {:?}", found.map(|(head, _)| head))),
            },
        };
        let Reply { status, body, .. } =
            reply.map_err(|fault| format!("{}: {fault}", self.host))?;
        let has_all = self.with.iter().all(|words| body.contains(words));
        let is_as_it_should = has_all && !self.without.iter().any(|words| body.contains(words));
        (status == 200 && is_as_it_should)
            .then_some(())
            .ok_or_else(|| format!("{}: {status} {body}", self.host))
    }
}

impl Load {
    pub(super) fn start(name: &'static str, probes: Vec<Probe>) -> Self {
        let shared = Arc::new(Shared {
            name,
            probes,
            stopped: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            is_idle: AtomicBool::new(false),
            rounds: AtomicU64::new(0),
            failures: Mutex::default(),
        });
        let run = Arc::clone(&shared);
        thread::spawn(move || run.run());
        Self(shared)
    }

    /// Waits for whole rounds that begin now.
    pub(super) fn goes_on(&self) {
        let until = self.0.rounds.load(Ordering::Acquire) + ROUNDS;
        let what = format!("requests through {}", self.0.name);
        wait::holds(&what, || self.0.rounds.load(Ordering::Acquire) >= until);
    }

    /// Stops asking while something is done.
    pub(super) fn without(&self, done: impl FnOnce()) {
        self.0.paused.store(true, Ordering::Release);
        wait::holds("the load to rest", || self.0.is_idle.load(Ordering::Acquire));
        done();
        let answers = || self.0.probes.iter().all(|probe| probe.ask().is_ok());
        wait::holds(&format!("answers of {}", self.0.name), answers);
        self.0.paused.store(false, Ordering::Release);
        thread::park_timeout(PACE);
    }

    /// The first failures since it was asked.
    pub(super) fn take_failures(&self) -> Vec<String> {
        std::mem::take(&mut self.0.failures.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.stopped.store(true, Ordering::Release);
    }
}

impl Shared {
    fn run(&self) {
        while !self.stopped.load(Ordering::Acquire) {
            let paused = self.paused.load(Ordering::Acquire);
            self.is_idle.store(paused, Ordering::Release);
            if !paused {
                self.round();
            }
            thread::park_timeout(PACE);
        }
    }

    fn round(&self) {
        for probe in &self.probes {
            if let Err(failure) = probe.ask() {
                let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
                if failures.len() < MOST {
                    failures.push(format!("{}: {failure}", self.name));
                }
            }
            thread::park_timeout(PACE);
        }
        self.rounds.fetch_add(1, Ordering::AcqRel);
    }
}
