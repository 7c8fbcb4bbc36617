//! The paths of the core that run once for each stream and change, one at a time, as often as told:
//!
//!     hot_paths PATH TIMES
//!
//! Made for counting instructions: two runs that differ in TIMES alone differ by the path itself,
//! so that what sets it up does not count (`cargo xtask counts`). Not here: time, which depends on
//! the machine (`cargo xtask bench`).
#![expect(clippy::print_stdout, reason = "it tells what there is")]

use std::process::ExitCode;
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::server::{Input, Machine, Response, Settings};
use chancery_core::{
    DeltaRequest, Names, Request, Resource, Scope, Snapshot, SotwRequest, Time, TypeUrl, Variant,
    Versions,
};

/// A path, taken that many times.
type Path = fn(usize);

const PATHS: [(&str, Path); 9] = [
    ("delta-wildcard", |times| pushes(AcceptingStream::delta(&["*"]), 1000, times)),
    ("delta-named", |times| pushes(AcceptingStream::delta(&[&name(7)]), 1000, times)),
    ("delta-untouched", |times| pushes(AcceptingStream::delta(&[&name(1), &name(2)]), 1000, times)),
    ("sotw-named", |times| pushes(AcceptingStream::sotw(&[&name(7)]), 1000, times)),
    ("sotw-untouched", |times| pushes(AcceptingStream::sotw(&[&name(1), &name(2)]), 1000, times)),
    ("sotw-everything", |times| pushes(AcceptingStream::sotw(&[]), 1000, times)),
    ("commit", commits),
    ("subscribe", subscriptions),
    ("reconnect", reconnects),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let path = words.first().and_then(|word| PATHS.iter().find(|(name, _)| name == word));
    let times = words.get(1).and_then(|word| word.parse().ok());
    let (Some((_, run)), Some(times)) = (path, times) else {
        PATHS.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    };
    run(times);
    ExitCode::SUCCESS
}

/// One stream whose client accepts everything at once.
struct AcceptingStream {
    machine: Machine,
    variant: Variant,
    type_url: TypeUrl,
    names: Names,
}

impl AcceptingStream {
    /// Clusters for who wants all, endpoints for who names them.
    fn new(variant: Variant, names: &[&str]) -> Self {
        let everything = names.is_empty();
        let of =
            if everything { "cluster.v3.Cluster" } else { "endpoint.v3.ClusterLoadAssignment" };
        let machine = Machine::new(variant, Scope::Aggregated, Arc::new(Settings::default()));
        let names = names.iter().collect();
        let type_url = TypeUrl::new(&format!("envoy.config.{of}"));
        Self { machine, variant, type_url, names }
    }

    fn delta(names: &[&str]) -> Self {
        Self::new(Variant::Delta, names)
    }

    fn sotw(names: &[&str]) -> Self {
        Self::new(Variant::Sotw, names)
    }

    fn see(&mut self, snapshot: &Arc<Snapshot>) {
        self.tell(Input::Snapshot(Arc::clone(snapshot)));
    }

    fn ask(&mut self, held: Versions) {
        let type_url = self.type_url.as_str().into();
        let names = self.names.clone();
        let request = match self.variant {
            Variant::Sotw => Request::Sotw(SotwRequest { type_url, names, ..Default::default() }),
            Variant::Delta => Request::Delta(DeltaRequest {
                type_url,
                subscribe: names,
                initial_versions: held,
                ..Default::default()
            }),
        };
        self.tell(Input::Request(request));
    }

    /// Takes all there is to take, and accepts it; says how much there was.
    fn drain(&mut self) -> usize {
        let mut entries = 0;
        while let Some(response) = self.machine.poll(Time::default()) {
            entries += response.entries.len();
            let ack = self.ack(&response);
            self.tell(Input::Request(ack));
        }
        entries
    }

    fn ack(&self, response: &Response) -> Request {
        let type_url = self.type_url.as_str().into();
        let nonce = Arc::clone(&response.nonce);
        match self.variant {
            Variant::Sotw => {
                let (version, names) = (Arc::clone(&response.version), self.names.clone());
                let request = SotwRequest { type_url, version, nonce, names, ..Default::default() };
                Request::Sotw(request)
            }
            Variant::Delta => {
                Request::Delta(DeltaRequest { type_url, nonce, ..Default::default() })
            }
        }
    }

    fn tell(&mut self, input: Input) {
        self.machine.handle(Time::default(), input).expect("the client keeps to the protocol");
    }
}

/// One resource changes, again and again, and the stream is brought there each time.
fn pushes(mut stream: AcceptingStream, resources: usize, times: usize) {
    let one = snapshot(&stream.type_url, resources);
    let mut other = one.clone();
    other.insert(&stream.type_url, resource(7, "other"));
    let both = [Arc::new(one), Arc::new(other)];
    stream.see(&both[0]);
    stream.ask(Versions::default());
    stream.drain();
    for at in 1..=times {
        stream.see(&both[at % 2]);
        stream.drain();
    }
}

/// One resource of many is replaced in a copy of the snapshot.
fn commits(times: usize) {
    let type_url = TypeUrl::new("envoy.config.cluster.v3.Cluster");
    let mut current = Arc::new(snapshot(&type_url, 10_000));
    for at in 0..times {
        let mut next = (*current).clone();
        next.insert(&type_url, resource(at * 7919 % 10_000, "other"));
        current = Arc::new(next);
    }
}

/// A new stream asks for half of two thousand names.
fn subscriptions(times: usize) {
    for _ in times_over(times, |_| Versions::default(), 1000) {}
}

/// A new stream asks for half of two thousand names, and has all of them.
fn reconnects(times: usize) {
    let held = |snapshot: &Snapshot| {
        let set = snapshot.set(&endpoints());
        let all = set.iter().take(1000);
        all.map(|one| (one.name().shared(), one.version().to_string())).collect()
    };
    for _ in times_over(times, held, 0) {}
}

fn times_over(
    times: usize,
    held: impl Fn(&Snapshot) -> Versions,
    expected: usize,
) -> impl Iterator<Item = ()> {
    let snapshot = Arc::new(snapshot(&endpoints(), 2000));
    let held = held(&snapshot);
    let names: Vec<String> = (0..1000).map(name).collect();
    (0..times).map(move |_| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut stream = AcceptingStream::delta(&names);
        stream.see(&snapshot);
        stream.ask(held.clone());
        assert_eq!(stream.drain(), expected);
    })
}

fn endpoints() -> TypeUrl {
    TypeUrl::new("envoy.config.endpoint.v3.ClusterLoadAssignment")
}

fn snapshot(type_url: &TypeUrl, resources: usize) -> Snapshot {
    let mut snapshot = Snapshot::new();
    for at in 0..resources {
        snapshot.insert(type_url, resource(at, "one"));
    }
    snapshot
}

fn resource(at: usize, text: &str) -> Resource {
    let mut body = text.repeat(100).into_bytes();
    body.extend_from_slice(name(at).as_bytes());
    Resource::new(name(at).parse().expect("it is not empty"), Bytes::from(body))
}

fn name(at: usize) -> String {
    format!("resource-{at:06}")
}
