//! Clients tell what they want and hold while they are connected, and a load lands on them.

use std::sync::Arc;
use std::time::Duration;

use chancery_server::{
    Config, Fleet, LookQuery, Outcome, ResourceQuery, ResourceSelection, ResourceState, StatusBook,
    StatusEventKind, StreamState,
};

use crate::common;
use crate::common::client::{GrpcStream, Http2Client};
use crate::common::message::{SotwRequest, SotwResponse, Status};
use crate::common::{ADS_SOTW, CDS, Running, within};

/// A client with one stream for clusters.
struct Client {
    stream: GrpcStream,
    last: Option<SotwResponse>,
}

impl Client {
    async fn open(server: &Running, id: &str, names: &[&str]) -> Self {
        let client = Http2Client::connect(server.address).await;
        let mut stream = client.open(ADS_SOTW).await.unwrap();
        let mut first = SotwRequest::first(CDS, names);
        first.node.as_mut().unwrap().id = id.to_owned();
        stream.send(&first);
        Self { stream, last: None }
    }

    async fn receive(&mut self) {
        self.last = Some(within(self.stream.next()).await.unwrap());
    }

    fn acknowledge(&mut self) {
        self.stream.send(&SotwRequest::ack(self.last.as_ref().unwrap(), &[]));
    }

    fn reject(&mut self, why: &str) {
        let mut request = SotwRequest::ack(self.last.as_ref().unwrap(), &[]);
        request.error = Some(Status { code: 13, message: why.to_owned() });
        self.stream.send(&request);
    }

    async fn take(&mut self) {
        self.receive().await;
        self.acknowledge();
    }
}

/// Waits until the streams are as they should be.
async fn until(book: &StatusBook, what: &str, is_so: impl Fn(&Fleet) -> bool) -> Arc<Fleet> {
    let waiting = async {
        loop {
            let fleet = book.fleet();
            if is_so(&fleet) {
                return fleet;
            }
            book.changed_since(fleet.mark()).await;
        }
    };
    let waited = tokio::time::timeout(common::PATIENCE, waiting).await;
    waited.unwrap_or_else(|_| panic!("waited in vain until {what}: {:#?}", book.fleet()))
}

fn state(fleet: &Fleet, id: &str) -> Option<StreamState> {
    fleet.nodes().iter().find(|node| node.id == id)?.state
}

#[tokio::test]
async fn a_load_has_landed_when_all_have_acknowledged_it_and_not_before() {
    let server = Running::start(Config::default()).await;
    let book = server.store.status();
    server.publish(&[("a", "1")]);
    let (mut one, mut two) =
        (Client::open(&server, "one", &[]).await, Client::open(&server, "two", &[]).await);
    one.take().await;
    two.take().await;
    within(book.landed(book.load(), |_| true)).await;
    server.publish(&[("a", "2")]);
    let load = book.load();
    one.take().await;
    two.receive().await;
    until(&book, "one is in step", |fleet| state(fleet, "one") == Some(StreamState::InStep)).await;
    let landing = book.landing(load, |_| true);
    assert_eq!((landing.outcome(), landing.landed(), landing.counted()), (Outcome::Waiting, 1, 2));
    let only_one = book.landing(load, |it| it.node == Some("one"));
    assert_eq!(only_one.outcome(), Outcome::Landed);
    two.acknowledge();
    let landing = within(book.landed(load, |_| true)).await;
    assert_eq!((landing.outcome(), landing.landed()), (Outcome::Landed, 2));
}

#[tokio::test]
async fn a_rejection_is_told_with_its_reason_until_it_is_repaired() {
    // S-032, S-034
    let server = Running::start(Config::default()).await;
    let book = server.store.status();
    server.publish(&[("a", "1"), ("b", "1")]);
    let mut bad = Client::open(&server, "bad", &[]).await;
    let mut good = Client::open(&server, "good", &[]).await;
    bad.take().await;
    good.take().await;
    within(book.landed(book.load(), |_| true)).await;
    server.publish(&[("a", "2"), ("b", "1")]);
    let load = book.load();
    bad.receive().await;
    bad.reject("a: no such thing");
    good.take().await;
    let landing = within(book.landed(load, |_| true)).await;
    assert_eq!((landing.outcome(), landing.landed()), (Outcome::Never, 1));
    let stream = landing.never().next().unwrap();
    assert_eq!(stream.state, StreamState::Rejected);
    let rejections = book.rejections(stream.id);
    assert_eq!(rejections[0].error.message, "a: no such thing");
    assert_eq!(rejections[0].suspects, ["a".into()], "`b` was not changed");
    assert_eq!(rejections[0].named, ["a".into()]);
    let looks = within(book.look([stream.id], LookQuery::types(), common::PATIENCE)).await;
    let details = &looks.answers[0].1.types[0];
    assert_eq!(details.suspects, ["a".into()]);
    assert!(details.rejected.is_some() && details.acknowledged != details.rejected);

    server.publish(&[("a", "3"), ("b", "1")]);
    bad.take().await;
    good.take().await;
    let landing = within(book.landed(book.load(), |_| true)).await;
    assert_eq!(landing.outcome(), Outcome::Landed);
    assert_eq!(book.rejections(stream.id), []);
    let events = book.events_after(0, 100).events;
    let kinds = events.iter().filter_map(|event| match &event.kind {
        StatusEventKind::Rejected { stream, .. } => Some(("rejected", stream.id)),
        StatusEventKind::Repaired { stream, .. } => Some(("repaired", stream.id)),
        _ => None,
    });
    let expected = [("rejected", stream.id), ("repaired", stream.id)];
    assert_eq!(kinds.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_stream_tells_the_state_of_its_resources() {
    let server = Running::start(Config::default()).await;
    let book = server.store.status();
    server.publish(&[("a", "1"), ("b", "1")]);
    let mut client = Client::open(&server, "n", &[]).await;
    client.take().await;
    within(book.landed(book.load(), |_| true)).await;
    server.publish(&[("a", "2"), ("b", "1")]);
    client.receive().await;
    let id = book.fleet().streams[0].id;
    let selection = ResourceSelection::All;
    let query = ResourceQuery { selection, after: None, limit: 10 };
    let query = LookQuery::resources(None, query);
    let looks = within(book.look([id, 77], query, Duration::from_secs(10))).await;
    assert_eq!((looks.gone, looks.unanswered), (vec![77], vec![]));
    let page = &looks.answers[0].1.types[0].resources;
    let states = page.resources.iter().map(|it| (&*it.name, it.state));
    let expected = [("a", ResourceState::Unanswered), ("b", ResourceState::Acknowledged)];
    assert_eq!(states.collect::<Vec<_>>(), expected);
    assert!(!page.is_cut);
}

#[tokio::test]
async fn a_client_that_is_gone_is_waited_for_no_longer_than_the_grace() {
    let mut config = Config::default();
    config.status.grace = Duration::from_millis(300);
    let server = Running::start(config).await;
    let book = server.store.status();
    server.publish(&[("a", "1")]);
    let (mut one, mut two) =
        (Client::open(&server, "one", &[]).await, Client::open(&server, "two", &[]).await);
    one.take().await;
    two.take().await;
    within(book.landed(book.load(), |_| true)).await;
    drop(two);
    until(&book, "two is gone", |fleet| state(fleet, "two").is_none()).await;
    server.publish(&[("a", "2")]);
    one.take().await;
    until(&book, "one is in step", |fleet| state(fleet, "one") == Some(StreamState::InStep)).await;
    let waited = book.landing(book.load(), |_| true);
    assert_eq!((waited.outcome(), waited.gone().len()), (Outcome::Waiting, 1));
    let landing = within(book.landed(book.load(), |_| true)).await;
    assert_eq!((landing.outcome(), landing.counted()), (Outcome::Landed, 1));
    let gone = &landing.fleet().gone[0];
    assert_eq!((&*gone.node, gone.landed), ("two", book.load() - 1));
    let mut two = Client::open(&server, "two", &[]).await;
    two.take().await;
    until(&book, "two is back", |fleet| fleet.gone.is_empty()).await;
}

#[tokio::test]
async fn a_client_that_polls_has_what_it_was_given_when_it_states_the_version() {
    // S-022
    let mut config = Config::default();
    config.times.rest_hold = Duration::from_millis(50);
    let server = Running::start(config).await;
    let book = server.store.status();
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let poll = |version: &str| {
        let poll = format!(r#"{{"node": {{"id": "poller"}}, "versionInfo": "{version}"}}"#);
        let client = &client;
        async move {
            let json = ("content-type", "application/json");
            let path = "/v3/discovery:clusters";
            let response = client.request(http::Method::POST, path, &[json], &poll).await;
            let body: serde_json::Value =
                serde_json::from_slice(response.body()).unwrap_or_default();
            body["versionInfo"].as_str().unwrap_or_default().to_owned()
        }
    };
    let outcome = || book.landing(book.load(), |_| true).outcome();
    let first = poll("").await;
    assert_eq!(outcome(), Outcome::Waiting, "it was given it, and has not said that it has it");
    assert_eq!(poll(&first).await, "");
    assert_eq!(outcome(), Outcome::Landed);
    server.publish(&[("a", "2")]);
    assert_eq!(outcome(), Outcome::Waiting);
    let second = poll(&first).await;
    assert_eq!(outcome(), Outcome::Waiting);
    // It does not accept it.
    for _ in 0..2 {
        assert_eq!(poll(&first).await, second);
    }
    let landing = book.landing(book.load(), |_| true);
    assert_eq!(landing.outcome(), Outcome::Never);
    let stream = landing.never().next().unwrap();
    let versions = stream.poll.as_ref().unwrap();
    assert_eq!(stream.state, StreamState::Rejected);
    assert_eq!((&*versions.stated, versions.given.as_deref()), (&*first, Some(&*second)));
    let looks = within(book.look([stream.id], LookQuery::types(), common::PATIENCE)).await;
    assert_eq!(looks.polls, [stream.id]);
    poll(&second).await;
    assert_eq!(outcome(), Outcome::Landed);
}

#[tokio::test]
async fn a_rejection_is_told_as_long_as_the_client_wants_what_it_rejects() {
    // S-032, S-044
    let server = Running::start(Config::default()).await;
    let book = server.store.status();
    server.publish(&[("a", "1"), ("b", "1")]);
    let mut bad = Client::open(&server, "bad", &["a"]).await;
    let rejects = |bad: &mut Client, names: &[&str], why: &str| {
        let mut request = SotwRequest::ack(bad.last.as_ref().unwrap(), names);
        request.error = Some(Status { code: 13, message: why.to_owned() });
        bad.stream.send(&request);
    };
    let told = || {
        let fleet = book.fleet();
        let notes = fleet.streams.iter().flat_map(|stream| book.rejections(stream.id));
        notes.map(|note| note.error.message).collect::<Vec<_>>()
    };
    bad.receive().await;
    let version = bad.last.as_ref().unwrap().version.clone();
    rejects(&mut bad, &["a"], "no a");
    until(&book, "the first rejection is told", |_| told() == ["no a"]).await;
    bad.stream.send(&SotwRequest::ack(bad.last.as_ref().unwrap(), &["a", "b"]));
    bad.receive().await;
    assert_eq!(bad.last.as_ref().unwrap().version, version);
    rejects(&mut bad, &["a", "b"], "no b");
    until(&book, "the second rejection is told", |_| told() == ["no b"]).await;
    bad.stream.send(&SotwRequest::ack(bad.last.as_ref().unwrap(), &[]));
    until(&book, "nothing is rejected", |_| told() == [""; 0]).await;
    let events = book.events_after(0, usize::MAX).events;
    let is_end = |kind: &StatusEventKind| matches!(kind, StatusEventKind::Repaired { .. });
    assert_eq!(events.iter().filter(|event| is_end(&event.kind)).count(), 1);
}

#[tokio::test]
async fn a_client_that_does_not_answer_is_silent_and_is_not_waited_for() {
    let mut config = Config::default();
    config.status.silent_after = Duration::from_millis(200);
    let server = Running::start(config).await;
    let book = server.store.status();
    server.publish(&[("a", "1")]);
    let mut hangs = Client::open(&server, "hangs", &[]).await;
    let mut fine = Client::open(&server, "fine", &[]).await;
    hangs.receive().await;
    fine.take().await;
    let landing = within(book.landed(book.load(), |_| true)).await;
    assert_eq!((landing.outcome(), landing.landed()), (Outcome::Never, 1));
    let stream = landing.never().next().unwrap();
    assert_eq!(stream.state, StreamState::Silent);
    assert!(stream.unanswered.unwrap() >= Duration::from_millis(200));
    hangs.acknowledge();
    let landing = within(async {
        loop {
            let landing = book.landed(book.load(), |_| true).await;
            if landing.outcome() == Outcome::Landed {
                return landing;
            }
            book.changed_since(landing.fleet().mark()).await;
        }
    })
    .await;
    assert_eq!(landing.landed(), 2);
}

#[tokio::test]
async fn a_client_that_reads_nothing_answers_no_look_and_others_do() {
    let server = Running::start(Config::default()).await;
    let book = server.store.status();
    let large = "x".repeat(300_000);
    server.publish(&[("a", &large)]);
    let connection =
        Http2Client::with_window(tokio::net::TcpStream::connect(server.address).await.unwrap(), 1)
            .await;
    let mut stuck = connection.open(ADS_SOTW).await.unwrap();
    stuck.send(&SotwRequest::first(CDS, &[]));
    let mut fine = Client::open(&server, "fine", &[]).await;
    fine.take().await;
    let fleet = until(&book, "both are there", |fleet| {
        fleet.streams.iter().filter(|stream| stream.seen > 0).count() == 2
    })
    .await;
    let ids = fleet.streams.iter().map(|stream| stream.id);
    let looks = within(book.look(ids, LookQuery::types(), Duration::from_millis(300))).await;
    let of_fine = fleet.streams.iter().find(|it| it.node.as_ref().unwrap().id == "fine").unwrap();
    let answers: Vec<_> = looks.answers.iter().map(|(id, _)| *id).collect();
    assert_eq!(answers, [of_fine.id]);
    assert_eq!(looks.unanswered.len(), 1);
}

#[tokio::test]
async fn two_clients_with_one_id_are_told_and_both_have_to_acknowledge() {
    let server = Running::start(Config::default()).await;
    let book = server.store.status();
    server.publish(&[("a", "1")]);
    let mut one = Client::open(&server, "same", &[]).await;
    let client = Http2Client::connect_from([127, 0, 0, 2], server.address).await;
    let mut stream = client.open(ADS_SOTW).await.unwrap();
    let mut first = SotwRequest::first(CDS, &[]);
    let node = first.node.as_mut().unwrap();
    (node.id, node.cluster) = ("same".to_owned(), "other".to_owned());
    stream.send(&first);
    let mut two = Client { stream, last: None };
    one.take().await;
    two.receive().await;
    let fleet = until(&book, "one is in step", |fleet| {
        fleet.streams.iter().any(|stream| stream.state == StreamState::InStep)
    })
    .await;
    let nodes = fleet.nodes();
    assert_eq!((nodes.len(), nodes[0].streams.len()), (1, 2));
    assert!(nodes[0].claims_differ && nodes[0].several_peers);
    assert_eq!(nodes[0].state, Some(StreamState::Pending));
    let landing = book.landing(book.load(), |it| it.node == Some("same"));
    assert_eq!((landing.outcome(), landing.counted()), (Outcome::Waiting, 2));
    two.acknowledge();
    let landing = within(book.landed(book.load(), |_| true)).await;
    assert_eq!((landing.outcome(), landing.landed()), (Outcome::Landed, 2));
}

#[tokio::test]
async fn a_client_is_not_back_because_another_one_has_its_id() {
    let server = Running::start(Config::default()).await;
    let book = server.store.status();
    server.publish(&[("a", "1")]);
    let mut lost = Client::open(&server, "same", &[]).await;
    lost.take().await;
    let mut stays = Client::open(&server, "same", &[]).await;
    stays.take().await;
    within(book.landed(book.load(), |_| true)).await;
    server.publish(&[("a", "2")]);
    lost.receive().await;
    drop(lost);
    stays.take().await;
    until(&book, "one has it, and one is gone", |fleet| {
        fleet.gone.len() == 1 && fleet.streams.iter().all(|stream| stream.landed == book.load())
    })
    .await;
    let landing = book.landing(book.load(), |_| true);
    assert_eq!((landing.outcome(), landing.gone().len()), (Outcome::Waiting, 1));
    let mut back = Client::open(&server, "same", &[]).await;
    back.take().await;
    let landing = within(book.landed(book.load(), |_| true)).await;
    assert_eq!((landing.outcome(), landing.landed()), (Outcome::Landed, 2));
}

#[tokio::test]
async fn a_reader_of_events_goes_on_where_it_was_and_is_told_what_it_missed() {
    let mut config = Config::default();
    config.status.events = 3;
    let server = Running::start(config).await;
    let book = server.store.status();
    let mut client = Client::open(&server, "n", &[]).await;
    server.publish(&[("a", "1")]);
    client.take().await;
    within(book.landed(book.load(), |_| true)).await;
    let seen = book.last_event();
    let waiting = tokio::spawn({
        let book = book.clone();
        async move { book.event_after(seen).await }
    });
    server.publish(&[("a", "2")]);
    within(waiting).await.unwrap();
    let page = book.events_after(seen, 10);
    assert_eq!(page.missed, 0);
    let is_load =
        |load| matches!(page.events[0].kind, StatusEventKind::Loaded { load: of } if of == load);
    assert!(is_load(book.load()), "{page:?}");
    for body in ["3", "4", "5", "6", "7"] {
        server.publish(&[("a", body)]);
    }
    let page = book.events_after(seen, 2);
    assert!(page.missed >= 3, "{page:?}");
    assert_eq!(page.events.len(), 2);
    assert_eq!(page.events[0].id, seen + page.missed + 1);
    assert_eq!(page.next, page.events[1].id);
}

#[tokio::test]
async fn the_time_of_a_load_ends_with_the_last_acknowledgement() {
    let server = Running::start(Config::default()).await;
    let book = server.store.status();
    let mut client = Client::open(&server, "n", &[]).await;
    server.publish(&[("a", "1")]);
    client.receive().await;
    assert!(book.oldest_load().is_some());
    client.acknowledge();
    let acknowledged = within(book.landed(book.load(), |_| true)).await;
    let since = acknowledged.fleet().streams[0].acknowledged.unwrap();
    let load = within(async {
        loop {
            let load = book.loads().remove(0);
            if load.landed_after.is_some() {
                return load;
            }
            book.changed_since(book.fleet().mark()).await;
        }
    })
    .await;
    assert_eq!((load.number, load.streams, load.superseded), (book.load(), 1, false));
    // It is not the time at which somebody looked.
    assert!(load.landed_after.unwrap() + since <= load.age, "{load:?}");
    assert_eq!(book.oldest_load(), None);
}
