//! The state of each resource on a stream: not sent, not answered, acknowledged, rejected, and the others.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::server::{Input, Machine, ResourceQuery, ResourceSelection, Settings};
use chancery_core::{
    DeltaRequest, ErrorDetail, Pending, Request, Resource, Scope, Snapshot, Time, Variant,
};
use chancery_testkit::script::type_url;

struct Stream {
    machine: Machine,
    now: Time,
}

impl Stream {
    fn open() -> Self {
        let settings = Arc::new(Settings::default());
        let machine = Machine::new(Variant::Delta, Scope::Aggregated, settings);
        Self { machine, now: Time::default() }
    }

    fn show(&mut self, resources: &[(&str, &'static str)]) {
        let mut snapshot = Snapshot::new();
        for (name, body) in resources {
            let body = Bytes::from_static(body.as_bytes());
            snapshot.insert(&type_url("eds"), Resource::new(name.parse().unwrap(), body));
        }
        self.see(snapshot);
    }

    fn see(&mut self, snapshot: Snapshot) {
        self.machine.handle(self.now, Input::Snapshot(Arc::new(snapshot))).unwrap();
    }

    fn request(&mut self, subscribe: &[&str], nonce: &str, error: Option<&str>) {
        let error = error.map(|text| ErrorDetail { code: 3, message: text.to_owned() });
        let request = DeltaRequest {
            type_url: type_url("eds").as_str().into(),
            subscribe: subscribe.iter().map(|name| Arc::from(*name)).collect(),
            nonce: nonce.into(),
            error,
            ..DeltaRequest::default()
        };
        self.machine.handle(self.now, Input::Request(Request::Delta(request))).unwrap();
    }

    fn poll(&mut self) -> Option<String> {
        let response = self.machine.poll(self.now)?;
        self.machine.landed();
        Some(response.nonce.to_string())
    }

    fn page(&self, selection: ResourceSelection, after: Option<&str>, limit: usize) -> String {
        let query = ResourceQuery { selection, after: after.map(Arc::from), limit };
        let page = self.machine.status().next().unwrap().resources(&query);
        let body = |it: &Option<Arc<Resource>>| match it {
            Some(resource) => String::from_utf8(resource.body().to_vec()).unwrap(),
            None => "-".to_owned(),
        };
        let one = page.resources.iter().map(|it| {
            format!("{}:{:?}:{}<{}", it.name, it.state, body(&it.wanted), body(&it.given))
        });
        let more = if page.is_cut { " ..." } else { "" };
        one.collect::<Vec<_>>().join(" ") + more
    }

    fn all(&self) -> String {
        self.page(ResourceSelection::All, None, 100)
    }
}

#[test]
fn a_resource_is_not_sent_then_not_answered_then_acknowledged() {
    let mut stream = Stream::open();
    stream.request(&["a", "z"], "", None);
    assert_eq!(stream.all(), "a:Undecided:-<- z:Undecided:-<-");
    stream.show(&[("a", "1")]);
    assert_eq!(stream.all(), "a:NotSent:1<- z:NotSent:-<-");
    assert_eq!(stream.poll().unwrap(), "1");
    assert_eq!(stream.all(), "a:Unanswered:1<1 z:Unanswered:-<-");
    stream.request(&[], "1", None);
    assert_eq!(stream.all(), "a:Acknowledged:1<1 z:Missing:-<-");
    stream.show(&[("a", "2")]);
    assert_eq!(stream.all(), "a:NotSent:2<1 z:Missing:-<-");
}

#[test]
fn a_rejected_resource_is_told_beside_the_one_that_is_held() {
    // S-034, S-035
    let mut stream = Stream::open();
    stream.request(&["a", "b", "c"], "", None);
    stream.show(&[("a", "1"), ("b", "1"), ("c", "1")]);
    stream.poll();
    stream.request(&[], "1", None);
    stream.show(&[("a", "2"), ("b", "2"), ("c", "1")]);
    stream.poll();
    stream.request(&[], "2", Some("no"));
    let all = "a:Rejected:2<2 b:Rejected:2<2 c:Acknowledged:1<1";
    assert_eq!(stream.all(), all);
    let unsettled = stream.page(ResourceSelection::Unsettled, None, 100);
    assert_eq!(unsettled, "a:Rejected:2<2 b:Rejected:2<2");
    let status = stream.machine.status().next().unwrap();
    assert_eq!(status.suspects().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((status.unsettled.rejected, stream.machine.rejected_types()), (2, 1));
    stream.show(&[("a", "3"), ("b", "2"), ("c", "1")]);
    assert_eq!(stream.machine.rejected_types(), 0, "there is something newer for it");
}

#[test]
fn a_removal_waits_and_is_told_until_it_is_acknowledged() {
    // S-098
    let mut stream = Stream::open();
    stream.request(&["*"], "", None);
    stream.show(&[("a", "1"), ("b", "1")]);
    stream.poll();
    stream.request(&[], "1", None);
    stream.show(&[("b", "1")]);
    assert_eq!(stream.all(), "a:NotSent:-<1 b:Acknowledged:1<1");
    stream.poll();
    assert_eq!(stream.all(), "a:Unanswered:-<- b:Acknowledged:1<1");
    stream.request(&[], "2", None);
    assert_eq!(stream.all(), "b:Acknowledged:1<1");
}

#[test]
fn a_name_of_which_the_source_knows_nothing_yet_is_undecided() {
    let mut stream = Stream::open();
    stream.request(&["a"], "", None);
    let mut snapshot = Snapshot::new();
    snapshot.set_pending(&type_url("eds"), Pending::Everything);
    stream.see(snapshot);
    stream.poll();
    assert_eq!(stream.all(), "a:Undecided:-<-");
    stream.now = stream.now + Duration::from_secs(3600);
    assert_eq!(stream.poll().unwrap(), "1");
}

#[test]
fn pages_have_each_resource_once_and_in_order() {
    let mut stream = Stream::open();
    stream.request(&["*", "b", "y", "x"], "", None);
    stream.show(&[("a", "1"), ("b", "1"), ("c", "1")]);
    stream.poll();
    let page = |after, limit| stream.page(ResourceSelection::All, after, limit);
    assert_eq!(page(None, 2), "a:Unanswered:1<1 b:Unanswered:1<1 ...");
    assert_eq!(page(Some("b"), 2), "c:Unanswered:1<1 x:Unanswered:-<- ...");
    assert_eq!(page(Some("x"), 2), "y:Unanswered:-<-");
    assert_eq!(page(None, 0), " ...");
    let named = |name: &str| stream.page(ResourceSelection::Named(name.into()), None, 1);
    assert_eq!(named("c"), "c:Unanswered:1<1");
    assert_eq!(named("nobody"), "nobody:Missing:-<-", "the wildcard would have it");
}
