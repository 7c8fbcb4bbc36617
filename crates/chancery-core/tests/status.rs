//! The status of a stream: what is wanted, sent, acknowledged, rejected and waited for.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::server::{Input, Machine, Rejection, Settings, WaitReason};
use chancery_core::{
    DeltaRequest, ErrorDetail, Facts, Link, Pending, Request, Resource, Scope, Snapshot,
    SotwRequest, Time, Variant,
};
use chancery_testkit::script::type_url;

/// A delta stream and its clock.
struct TimedStream {
    machine: Machine,
    now: Time,
}

impl TimedStream {
    fn open() -> Self {
        let settings = Arc::new(Settings::default());
        let machine = Machine::new(Variant::Delta, Scope::Aggregated, settings);
        Self { machine, now: Time::default() }
    }

    fn show(&mut self, snapshot: &Snapshot) {
        self.handle(Input::Snapshot(Arc::new(snapshot.clone())));
    }

    fn request(&mut self, short: &str, subscribe: &[&str], nonce: &str, error: Option<&str>) {
        let error = error.map(|text| ErrorDetail { code: 3, message: text.to_owned() });
        let request = DeltaRequest {
            type_url: type_url(short).as_str().into(),
            subscribe: subscribe.iter().map(|name| Arc::from(*name)).collect(),
            nonce: nonce.into(),
            error,
            ..DeltaRequest::default()
        };
        self.handle(Input::Request(Request::Delta(request)));
    }

    fn handle(&mut self, input: Input) {
        let events = self.machine.handle(self.now, input);
        events.expect("the client of these tests breaks no rule");
    }

    fn poll(&mut self) -> usize {
        std::iter::from_fn(|| self.machine.poll(self.now)).count()
    }

    /// The status of a type: names, versions sent and acknowledged, rejection, and waits.
    fn status(&self, short: &str) -> String {
        let all = self.machine.status();
        let found = all.into_iter().find(|status| status.type_url.short() == short).unwrap();
        let names: Vec<_> = found.wanted.names().collect();
        let star = if found.wanted.everything() { "*" } else { "" };
        let version = |version: &Option<Arc<str>>| version.is_some();
        let rejected = found.rejection.map(|rejection| rejection.error.message.clone());
        format!(
            "{star}{} sent={} acked={} rejected={} waits={:?}",
            names.join(","),
            version(&found.sent),
            found.sent == found.acknowledged && version(&found.acknowledged),
            rejected.unwrap_or_default(),
            found.waits.iter().map(|wait| wait.reason).collect::<Vec<_>>()
        )
    }

    fn waits(&self, short: &str) -> Vec<(WaitReason, Option<Time>)> {
        let mut all = self.machine.status();
        let status = all.find(|status| status.type_url.short() == short).unwrap();
        status.waits.iter().map(|wait| (wait.reason, wait.until)).collect()
    }
}

#[test]
fn a_stream_tells_when_its_client_last_acknowledged_a_type() {
    // S-134
    let mut stream = TimedStream::open();
    let mut snapshot = Snapshot::new();
    snapshot.insert(&type_url("cds"), resource("a", "1"));
    stream.show(&snapshot);
    let at = |stream: &TimedStream| {
        let mut all = stream.machine.status();
        all.find(|status| status.type_url.short() == "cds").unwrap().acknowledged_at
    };
    stream.request("cds", &[], "", None);
    assert_eq!((stream.poll(), at(&stream)), (1, None));
    stream.now = seconds(1);
    stream.request("cds", &[], "1", None);
    assert_eq!(at(&stream), Some(seconds(1)));
    snapshot.insert(&type_url("cds"), resource("a", "2"));
    stream.show(&snapshot);
    assert_eq!(stream.poll(), 1);
    stream.now = seconds(2);
    stream.request("cds", &[], "2", Some("no weight"));
    assert_eq!(at(&stream), Some(seconds(1)), "it accepted nothing since");
}

fn resource(name: &str, body: &'static str) -> Resource {
    Resource::new(name.parse().unwrap(), Bytes::from_static(body.as_bytes()))
}

fn seconds(count: u64) -> Time {
    Time(Duration::from_secs(count))
}

#[test]
fn a_stream_tells_what_is_wanted_sent_acknowledged_and_rejected() {
    // S-032, S-042
    let mut stream = TimedStream::open();
    let mut snapshot = Snapshot::new();
    stream.request("eds", &["a", "b"], "", None);
    assert_eq!(stream.status("eds"), "a,b sent=false acked=false rejected= waits=[Snapshot]");
    snapshot.insert(&type_url("eds"), resource("a", "1"));
    stream.show(&snapshot);
    assert_eq!(stream.poll(), 1);
    assert_eq!(stream.status("eds"), "a,b sent=true acked=false rejected= waits=[Answer]");
    let until = Some(seconds(0) + Settings::default().ack_wait);
    assert_eq!(stream.waits("eds"), [(WaitReason::Answer, until)]);
    stream.request("eds", &[], "1", None);
    assert_eq!(stream.status("eds"), "a,b sent=true acked=true rejected= waits=[]");
    snapshot.insert(&type_url("eds"), resource("a", "2"));
    stream.show(&snapshot);
    assert_eq!(stream.poll(), 1);
    stream.request("eds", &[], "2", Some("no weight"));
    assert_eq!(stream.status("eds"), "a,b sent=true acked=false rejected=no weight waits=[]");
    snapshot.insert(&type_url("eds"), resource("a", "3"));
    stream.show(&snapshot);
    assert_eq!(stream.poll(), 1);
    stream.request("eds", &[], "3", None);
    assert_eq!(stream.status("eds"), "a,b sent=true acked=true rejected= waits=[]");
}

#[test]
fn a_stream_tells_what_it_waits_for_and_until_when() {
    // S-097, S-098
    let mut stream = TimedStream::open();
    let mut snapshot = Snapshot::new();
    let (cds, eds, rds) = (type_url("cds"), type_url("eds"), type_url("rds"));
    snapshot.insert(&cds, resource("x", "1"));
    snapshot.insert(&rds, resource("r", "1"));
    stream.show(&snapshot);
    stream.request("cds", &["*"], "", None);
    stream.request("rds", &["r"], "", None);
    assert_eq!(stream.poll(), 2);
    stream.request("cds", &[], "1", None);
    stream.request("rds", &[], "2", None);
    let links = vec![Link { type_url: eds.clone(), name: "y".parse().unwrap(), aggregated: true }];
    let facts = Facts { links, ..Facts::default() };
    snapshot.insert(&cds, resource("y", "1").with_facts(facts));
    snapshot.insert(&rds, resource("r", "2"));
    snapshot.set_pending(&eds, Pending::Everything);
    snapshot.remove(&cds, &"x".parse().unwrap());
    stream.now = seconds(5);
    stream.show(&snapshot);
    stream.request("eds", &["y"], "", None);
    assert_eq!(stream.poll(), 1);
    stream.request("cds", &[], "3", None);
    assert_eq!(stream.poll(), 0);
    let settings = Settings::default();
    let wait = |reason, wait| (reason, Some(seconds(5) + wait));
    assert_eq!(stream.waits("cds"), [wait(WaitReason::Removals(1), settings.removal_wait)]);
    assert_eq!(stream.waits("eds"), [wait(WaitReason::Source(1), settings.source_wait)]);
    assert_eq!(stream.waits("rds"), [wait(WaitReason::Clusters, settings.warm_wait)]);
}

#[test]
fn a_stream_does_not_wait_for_names_that_were_replaced() {
    let (cds, now) = (type_url("cds"), Time::default());
    let mut machine = Machine::new(Variant::Sotw, Scope::Aggregated, Arc::new(Settings::default()));
    let mut snapshot = Snapshot::new();
    snapshot.set_pending(&cds, Pending::Everything);
    machine.handle(now, Input::Snapshot(Arc::new(snapshot))).unwrap();
    for name in ["a", "b", "c"] {
        let (type_url, names) = (cds.as_str().into(), [name].iter().collect());
        let request = SotwRequest { type_url, names, ..SotwRequest::default() };
        machine.handle(now, Input::Request(Request::Sotw(request))).unwrap();
        assert!(machine.poll(now).is_none());
    }
    let status = machine.status().next().unwrap();
    let waits: Vec<_> = status.waits.iter().map(|wait| wait.reason).collect();
    assert_eq!(waits, [WaitReason::Source(1)]);
}

#[test]
fn of_a_clients_words_no_more_is_kept_than_is_worth_it() {
    let mut stream = TimedStream::open();
    let mut snapshot = Snapshot::new();
    snapshot.insert(&type_url("eds"), resource("a", "1"));
    stream.show(&snapshot);
    stream.request("eds", &["a"], "", None);
    assert_eq!(stream.poll(), 1);
    let words = format!("a{}", "\u{e9}".repeat(Rejection::MAX_MESSAGE));
    stream.request("eds", &[], "1", Some(&words));
    let status = stream.machine.status().next().unwrap();
    let kept = &status.rejection.unwrap().error.message;
    assert_eq!(kept.len(), Rejection::MAX_MESSAGE - 1, "a character is not cut");
}
