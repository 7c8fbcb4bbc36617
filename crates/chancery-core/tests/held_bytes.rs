//! The estimate of what a stream keeps for its peer, compared with what the process takes.
//!
//! There is one test, so that nothing else takes memory meanwhile. Each case makes several streams
//! and looks at the last ones, because these find the memory again that earlier ones took for a
//! moment only.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_core::server::{Input, Machine, Settings};
use chancery_core::{
    DeltaRequest, ErrorDetail, Node, Request, Scope, Snapshot, SotwRequest, Time, Value, Variant,
    Versions,
};

const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";

#[test]
fn the_estimate_is_near_the_truth() {
    let mut comparison = Comparison::default();
    compare_versions(&mut comparison);
    compare_names(&mut comparison);
    compare_names_that_were_left(&mut comparison);
    let faults = comparison.faults;
    assert!(faults.is_empty(), "{faults:#?}");
}

/// The streams so far, and the cases in which the estimate is wrong.
#[derive(Default)]
struct Comparison {
    streams: Vec<Machine>,
    faults: Vec<String>,
}

impl Comparison {
    /// Compares what streams that are made like this tell with what they take.
    fn compare(&mut self, case: &str, machine: impl Fn() -> Machine) {
        self.streams.extend((0..3).map(|_| machine()));
        let before = resident();
        let streams: Vec<_> = (0..4).map(|_| machine()).collect();
        let taken = resident() - before;
        let held = streams.iter().map(Machine::held_bytes).sum::<usize>();
        self.streams.extend(streams);
        if held.abs_diff(taken) > taken / 4 {
            self.faults.push(format!("{case}: {held} bytes are told and {taken} are taken"));
        }
    }
}

/// Streams that stated versions of an earlier one.
fn compare_versions(comparison: &mut Comparison) {
    comparison.compare("versions of an earlier stream", || {
        let mut machine = machine(Variant::Delta);
        let held = names("v", 60_000).map(|name| (name, "0123456789abcdef"));
        tell(&mut machine, delta(std::iter::empty(), held.collect()));
        machine
    });
    comparison.compare("versions that are discarded", || {
        let mut machine = machine(Variant::Delta);
        let held = names("d", 40_000).map(|name| (name, "0123456789abcdef"));
        tell(&mut machine, delta(std::iter::empty(), held.collect()));
        let prefix = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment";
        let globs = (0..1_000).map(|at| format!("{prefix}/{at:02000}/*"));
        tell(&mut machine, delta(names("d", 20_000).chain(globs), Versions::default()));
        machine
    });
    comparison.compare("versions of resources that are gone", || {
        let mut machine = machine(Variant::Delta);
        let held = names("g", 60_000).map(|name| (name, "0123456789abcdef"));
        tell(&mut machine, delta(all(), held.collect()));
        see(&mut machine);
        machine.poll(Time::default()).unwrap();
        machine
    });
}

/// Streams that ask for names of all kinds, and one with a large node.
fn compare_names(comparison: &mut Comparison) {
    comparison.compare("names before there is a snapshot", || {
        let mut machine = machine(Variant::Delta);
        tell(&mut machine, delta(names("n", 40_000), Versions::default()));
        machine
    });
    comparison.compare("names that exist nowhere", || {
        let mut machine = machine(Variant::Delta);
        see(&mut machine);
        tell(&mut machine, delta(names("m", 40_000), Versions::default()));
        acknowledge(&mut machine);
        machine
    });
    comparison.compare("names of SotW that exist nowhere", || {
        let mut machine = machine(Variant::Sotw);
        see(&mut machine);
        tell(&mut machine, sotw(names("s", 40_000)));
        while machine.poll(Time::default()).is_some() {}
        machine
    });
    comparison.compare("names that are long", || {
        let mut machine = machine(Variant::Delta);
        let names = (0..8_000).map(|at| format!("{at:04000}"));
        tell(&mut machine, delta(names, Versions::default()));
        machine
    });
    comparison.compare("globs and other spellings", || {
        let mut machine = machine(Variant::Delta);
        let prefix = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment";
        let names = (0..10_000).flat_map(|at| {
            [format!("{prefix}/{at}/*"), format!("{prefix}/{at}?b=1&a=2"), format!("xdstp://{at}")]
        });
        tell(&mut machine, delta(names, Versions::default()));
        machine
    });
    comparison.compare("two spellings of each name", || {
        let mut machine = machine(Variant::Delta);
        let prefix = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment";
        let spelled = |at: usize| ["b=1&a=2", "a=2&&b=1"].map(|it| format!("{prefix}/{at}?{it}"));
        tell(&mut machine, delta((0..10_000).flat_map(spelled), Versions::default()));
        machine
    });
    comparison.compare("a node", || {
        let mut machine = machine(Variant::Delta);
        let part = |at: usize| {
            let inner: BTreeMap<_, _> = [("key".to_owned(), Value::Number(1.0))].into();
            (format!("{at:020}"), Value::List(vec![Value::Map(inner), Value::Text(at.to_string())]))
        };
        let metadata = Arc::new((0..8_000).map(part).collect());
        let node = Node { id: "id".to_owned(), metadata, ..Node::default() };
        let mut request = delta(names("x", 1), Versions::default());
        request.introduce(&Arc::new(node));
        tell(&mut machine, request);
        machine
    });
}

/// Streams that asked for names and do not want them any more.
fn compare_names_that_were_left(comparison: &mut Comparison) {
    comparison.compare("names that are unsubscribed beside a wildcard", || {
        let mut machine = machine(Variant::Delta);
        let long = || (0..3_000).map(|at| format!("{at:04000}"));
        tell(&mut machine, changes(all().chain(long()), long()));
        machine
    });
    comparison.compare("names and globs that are unsubscribed beside a wildcard", || {
        let mut machine = machine(Variant::Delta);
        let prefix = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment";
        for round in 0..30 {
            let globs = (0..50).map(|at| format!("{prefix}/{round}/{at:04000}/*"));
            let long = (0..100).map(|at| format!("{round}/{at:04000}")).chain(globs);
            tell(&mut machine, changes(all().chain(long.clone()), long));
        }
        machine
    });
    comparison.compare("names that are replaced beside a wildcard", || {
        let mut machine = machine(Variant::Sotw);
        for round in 0..10 {
            let names = names(&format!("r{round}"), 10_000);
            tell(&mut machine, sotw(all().chain(names)));
        }
        machine
    });
    comparison.compare("names that are unsubscribed and whose removal is rejected", || {
        let mut machine = machine(Variant::Delta);
        see(&mut machine);
        tell(&mut machine, delta(all(), Versions::default()));
        acknowledge(&mut machine);
        for round in 0..5 {
            let names = || names(&format!("u{round}"), 5_000);
            tell(&mut machine, delta(names(), Versions::default()));
            acknowledge(&mut machine);
            tell(&mut machine, changes(std::iter::empty(), names()));
            answer(&mut machine, Some(&ErrorDetail::default()));
        }
        machine
    });
}

fn machine(variant: Variant) -> Machine {
    Machine::new(variant, Scope::Aggregated, Arc::new(Settings::default()))
}

fn see(machine: &mut Machine) {
    machine.handle(Time::default(), Input::Snapshot(Arc::new(Snapshot::new()))).unwrap();
}

fn tell(machine: &mut Machine, request: Request) {
    machine.handle(Time::default(), Input::Request(request)).unwrap();
}

/// Takes all responses, and accepts each.
fn acknowledge(machine: &mut Machine) {
    answer(machine, None);
}

/// Takes all responses, and answers each.
fn answer(machine: &mut Machine, error: Option<&ErrorDetail>) {
    while let Some(response) = machine.poll(Time::default()) {
        let (type_url, nonce, error) = (EDS.into(), response.nonce, error.cloned());
        let answer = DeltaRequest { type_url, nonce, error, ..DeltaRequest::default() };
        tell(machine, Request::Delta(answer));
    }
}

fn all() -> impl Iterator<Item = String> {
    std::iter::once("*".to_owned())
}

fn sotw(names: impl Iterator<Item = String>) -> Request {
    let (type_url, names) = (EDS.into(), names.collect());
    Request::Sotw(SotwRequest { type_url, names, ..SotwRequest::default() })
}

/// A request that subscribes names and unsubscribes others.
fn changes(
    subscribe: impl Iterator<Item = String>,
    unsubscribe: impl Iterator<Item = String>,
) -> Request {
    Request::Delta(DeltaRequest {
        type_url: EDS.into(),
        subscribe: subscribe.collect(),
        unsubscribe: unsubscribe.collect(),
        ..DeltaRequest::default()
    })
}

fn delta(names: impl Iterator<Item = String>, initial_versions: Versions) -> Request {
    Request::Delta(DeltaRequest {
        type_url: EDS.into(),
        subscribe: names.collect(),
        initial_versions,
        ..DeltaRequest::default()
    })
}

fn names(prefix: &str, count: usize) -> impl Iterator<Item = String> + use<> {
    let prefix = prefix.to_owned();
    (0..count)
        .map(move |at| format!("{prefix}/outbound|8080||service-{at}.namespace.svc.cluster.local"))
}

/// The bytes of memory of the process.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}
