//! The status of a client's resources: the state of each, what is kept of it, and what an RPC gets.
//!
//! Each test names the rules it proves (`docs/rules`). Scripts show the messages and the events, and
//! not the state of a resource, so the machine is driven by hand here.

use std::sync::Arc;
use std::time::Duration;

use chancery_core::client::{
    AuthorityKey, ErrorKind, Event, Fallback, Input, InvalidResource, Machine, Protocol,
    ReceivedResource, ResourceState, Response, ResponseItem, ServerFeatures, ServerKey, Settings,
    Setup, StreamId, WatchError, WatchEvent, WatchId,
};
use chancery_core::{ErrorDetail, NameError, Node, Resource, Scope, Time, TypeUrl, Variant};

const CDS: &str = "envoy.config.cluster.v3.Cluster";

/// A client of one server, and the cluster `a` that it watches.
struct Life {
    client: Machine,
    stream: StreamId,
    watch: WatchId,
    now: Time,
    version: u32,
}

/// The answer of a server about the cluster `a`.
enum Said {
    Body(&'static str),
    Bad(&'static str),
    /// There is a resource that nobody can name.
    Nameless(&'static str),
    Error(i32),
    Nothing,
}

impl Life {
    fn new(features: ServerFeatures) -> Self {
        let node = Node { id: "node".to_owned(), ..Node::default() };
        let mut setup = Setup::new(Arc::new(node), Settings::default());
        let key = ServerKey { uri: "one".into(), credentials: "insecure".into(), features };
        let server =
            setup.server(key, Protocol::Stream { variant: Variant::Sotw, aggregated: true });
        setup.authority(AuthorityKey::Old, vec![server], Fallback::Needed);
        let mut client = Machine::new(setup);
        let watch = client.watch(Time::default(), &TypeUrl::new(CDS), "a");
        let stream = StreamId { server, scope: Scope::Aggregated };
        Self { client, stream, watch, now: Time::default(), version: 0 }
    }

    /// One whose stream is open and whose request is sent.
    fn open(features: ServerFeatures) -> Self {
        let mut life = Self::new(features);
        life.opened();
        life
    }

    fn opened(&mut self) {
        while self.client.poll().is_some() {}
        self.client.handle(self.now, Input::Opened(self.stream.clone()));
        while self.client.request(self.now, &self.stream).is_some() {}
    }

    fn says(&mut self, said: Said) {
        self.version += 1;
        let name = || "a".parse().unwrap();
        let (mut items, mut errors) = (Vec::new(), Vec::new());
        match said {
            Said::Body(body) => {
                let resource = Arc::new(Resource::new(name(), body.as_bytes().into()));
                items
                    .push(Ok(ResponseItem::Resource(ReceivedResource { resource, decoded: None })));
            }
            Said::Bad(why) => {
                items.push(Err(InvalidResource { name: Some(name()), why: why.to_owned() }))
            }
            Said::Nameless(why) => {
                items.push(Err(InvalidResource { name: None, why: why.to_owned() }))
            }
            Said::Error(code) => errors.push(NameError {
                name: "a".into(),
                error: ErrorDetail { code, message: "because".to_owned() },
            }),
            Said::Nothing => {}
        }
        let reply = Response {
            variant: Variant::Sotw,
            type_url: TypeUrl::new(CDS),
            version: self.version.to_string().into(),
            nonce: self.version.to_string().into(),
            resources: items,
            removed: Vec::new(),
            errors,
        };
        self.client.handle(self.now, Input::Received(self.stream.clone(), reply));
        while self.client.request(self.now, &self.stream).is_some() {}
    }

    fn waits(&mut self, time: Duration) {
        self.now = self.now + time;
        self.client.handle(self.now, Input::TimePassed);
    }

    /// The state, and what is held.
    fn state(&self) -> (ResourceState, Option<String>) {
        let status = self.client.resources().next().unwrap();
        let body = |held: &chancery_core::client::CachedResource| {
            String::from_utf8(held.resource.body().to_vec()).unwrap()
        };
        (status.state, status.cached.map(body))
    }

    /// The last event of the watcher, if it is an error.
    fn error(&mut self) -> Arc<WatchError> {
        let mut last = None;
        while let Some(event) = self.client.event(self.watch) {
            last = match event {
                WatchEvent::Changed { value: Err(error), .. }
                | WatchEvent::Ambient { error: Some(error), .. } => Some(error),
                _ => last,
            };
        }
        last.unwrap()
    }
}

const DROPS: ServerFeatures = ServerFeatures {
    fail_on_data_errors: true,
    resource_timer_is_transient_error: false,
    trusted: false,
};
const LATE: ServerFeatures = ServerFeatures {
    fail_on_data_errors: false,
    resource_timer_is_transient_error: true,
    trusted: false,
};
const KEEPS: ServerFeatures = ServerFeatures {
    fail_on_data_errors: false,
    resource_timer_is_transient_error: false,
    trusted: false,
};
const NOT_FOUND: i32 = 5;

/// C-054: from nothing to each of the states, without a value.
#[test]
fn a_resource_that_was_asked_for_can_come_to_every_state() {
    use ResourceState::{Acked, DoesNotExist, Nacked, ReceivedError, Requested, Timeout};
    let came_to = |said| {
        let mut life = Life::open(KEEPS);
        assert_eq!(life.state(), (Requested, None));
        life.says(said);
        life.state()
    };
    assert_eq!(came_to(Said::Body("x")), (Acked, Some("x".to_owned())));
    assert_eq!(came_to(Said::Bad("no")), (Nacked, None));
    assert_eq!(came_to(Said::Error(NOT_FOUND)), (ReceivedError, None));
    assert_eq!(came_to(Said::Nothing), (Requested, None), "absence says nothing of the unknown");
    let overdue = |features, time| {
        let mut life = Life::open(features);
        life.waits(Duration::from_secs(time));
        life.state()
    };
    assert_eq!(overdue(KEEPS, 14), (Requested, None));
    assert_eq!(overdue(KEEPS, 15), (DoesNotExist, None));
    assert_eq!(overdue(LATE, 29), (Requested, None));
    assert_eq!(overdue(LATE, 30), (Timeout, None));
    assert_eq!(Life::new(KEEPS).state(), (Requested, None), "before there is a stream");
}

/// C-054, C-070: from each state to each other, with the value kept or dropped.
#[test]
fn every_state_may_follow_every_other() {
    use ResourceState::{Acked, DoesNotExist, Nacked, ReceivedError};
    let kept = |drops: bool| (!drops).then(|| "x".to_owned());
    for (features, drops) in [(KEEPS, false), (DROPS, true)] {
        let all: [(fn() -> Said, ResourceState); 3] = [
            (|| Said::Bad("no"), Nacked),
            (|| Said::Nothing, DoesNotExist),
            (|| Said::Error(NOT_FOUND), ReceivedError),
        ];
        for (first, state) in all {
            let mut life = Life::open(features);
            life.says(Said::Body("x"));
            life.says(first());
            assert_eq!(life.state(), (state, kept(drops)));
            for (second, next) in all {
                // A resource that is not kept any more cannot be missing from a response.
                let next = if drops && next == DoesNotExist { state } else { next };
                let mut life = Life::open(features);
                life.says(Said::Body("x"));
                life.says(first());
                life.says(second());
                assert_eq!(life.state(), (next, kept(drops)), "{state:?}");
                life.says(Said::Body("y"));
                assert_eq!(life.state(), (Acked, Some("y".to_owned())));
            }
        }
    }
    for features in [KEEPS, LATE] {
        let mut life = Life::open(features);
        life.waits(Duration::from_secs(60));
        life.says(Said::Body("y"));
        assert_eq!(life.state(), (Acked, Some("y".to_owned())), "an answer may come late");
    }
}

/// C-061, C-063
#[test]
fn the_last_rejection_is_kept_beside_what_is_used() {
    let mut life = Life::open(KEEPS);
    life.says(Said::Body("x"));
    life.waits(Duration::from_secs(3));
    life.says(Said::Bad("no port"));
    let status = life.client.resources().next().unwrap();
    let held = status.cached.unwrap();
    assert_eq!(
        (&*held.version, &held.resource.body()[..], held.last_updated),
        ("1", &b"x"[..], Time::default())
    );
    let rejection = status.rejection.unwrap();
    assert_eq!((&*rejection.version, &*rejection.why), ("2", "no port"));
    assert_eq!(rejection.at, Time(Duration::from_secs(3)));
    life.says(Said::Body("y"));
    assert_eq!(life.client.resources().next().unwrap().rejection, None);
}

/// C-072: whatever a server says, an RPC fails for want of configuration.
#[test]
fn no_code_of_a_server_is_the_code_of_an_rpc() {
    const UNAVAILABLE: i32 = 14;
    for code in 0..=17 {
        let mut life = Life::open(KEEPS);
        life.says(Said::Error(code));
        let error = life.error();
        assert_eq!(error.kind, ErrorKind::Refused(code));
        assert_eq!(error.kind.code(), UNAVAILABLE);
        // The original is inside the text.
        assert!(error.text.contains("because"), "{error}");
    }
    let kinds = [
        ErrorKind::Authority,
        ErrorKind::Unreachable,
        ErrorKind::Missing,
        ErrorKind::Late,
        ErrorKind::Rejected,
        ErrorKind::Broken,
    ];
    assert_eq!(kinds.map(ErrorKind::code), [UNAVAILABLE; 6]);
    assert_eq!(ErrorKind::Name.code(), 3, "the caller's own fault");
}

/// C-072
#[test]
fn an_error_names_the_node_the_resource_and_the_server() {
    let told = |act: fn(&mut Life)| {
        let mut life = Life::open(KEEPS);
        act(&mut life);
        life.error().text.to_string()
    };
    let refused = told(|life| life.says(Said::Error(NOT_FOUND)));
    let rejected = told(|life| life.says(Said::Bad("no")));
    let overdue = told(|life| life.waits(Duration::from_secs(15)));
    for text in [refused, rejected, overdue] {
        for part in ["`node`", "`a`", "one"] {
            assert!(text.contains(part), "{text}: {part}");
        }
    }
    let unreachable = told(|life| {
        let error = ErrorDetail { code: 14, message: "refused".to_owned() };
        life.client.handle(life.now, Input::Ended(life.stream.clone(), error));
    });
    for part in ["`node`", "one", "refused"] {
        assert!(unreachable.contains(part), "{unreachable}: {part}");
    }
}

/// C-054, C-064
#[test]
fn a_resource_that_may_be_the_nameless_one_is_rejected() {
    let mut life = Life::open(KEEPS);
    life.says(Said::Nameless("garbage"));
    assert_eq!(life.state(), (ResourceState::Nacked, None));
    let error = life.error();
    assert!(error.is_nameless && error.kind == ErrorKind::Rejected, "{error}");
    for part in ["`node`", "`a`", "one", "without a name", "garbage"] {
        assert!(error.text.contains(part), "{error}: {part}");
    }
    life.says(Said::Body("x"));
    assert_eq!(life.state(), (ResourceState::Acked, Some("x".to_owned())));
}

/// C-056, C-064: what keeps resources for the next run asks this before it forgets one.
#[test]
fn what_may_be_the_nameless_one_is_not_known_to_be_missing() {
    let mut life = Life::open(KEEPS);
    life.client.watch(life.now, &TypeUrl::new(CDS), "*");
    while life.client.request(life.now, &life.stream).is_some() {}
    let (url, other) = (TypeUrl::new(CDS), "other".parse().unwrap());
    life.says(Said::Body("x"));
    assert!(life.client.is_known_missing(&url, &other));
    life.says(Said::Nameless("garbage"));
    assert!(!life.client.is_known_missing(&url, &other));
    life.says(Said::Body("x"));
    assert!(life.client.is_known_missing(&url, &other));
}

/// C-069: whoever looks on is told when the next attempt is.
#[test]
fn the_next_attempt_is_known_while_a_server_cannot_be_reached() {
    let mut life = Life::new(ServerFeatures::default());
    let server = life.stream.server;
    assert_eq!(life.client.active_server(&AuthorityKey::Old), Some(server));
    assert_eq!(life.client.next_attempt(server), None, "one goes on");
    for _ in 0..2 {
        while life.client.poll().is_some() {}
        let ended = Input::Ended(life.stream.clone(), ErrorDetail::default());
        let events = life.client.handle(life.now, ended);
        let Some(Event::Ended { wait, .. }) = events.first() else { panic!("{events:?}") };
        let at = life.client.next_attempt(server).unwrap();
        assert_eq!(at, life.now + *wait);
        assert!(!wait.is_zero());
        life.now = at;
        life.client.handle(at, Input::TimePassed);
        assert_eq!(life.client.next_attempt(server), None, "one goes on");
    }
}
