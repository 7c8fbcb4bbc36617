//! Servers that break the rules, each for ten minutes: the client keeps what it has, says what the
//! matter is, asks neither often nor for ever, and takes up again when the server behaves.

use std::sync::Arc;
use std::time::Duration;

use chancery_client::bootstrap::{Node, XdsServer};
use chancery_client::credentials::ChannelCredentials;
use chancery_client::dial::Dial;
use chancery_client::{Bootstrap, Client, Event, Options, RawWatch, TypeUrl};
use tokio::time::{Instant, timeout, timeout_at};

use crate::stage;
use crate::stage::message::CDS;
use crate::stage::theatre::{Manner, Seen, Theatre};
use crate::stage::{door, within};

/// The outcome of a time with a hostile server.
#[derive(Debug)]
struct Outcome {
    /// The events of a watch that had a value before.
    told: Vec<String>,
    /// The events of a watch that began meanwhile, of a resource that does not exist.
    late: Vec<String>,
    /// The record of the server.
    seen: Seen,
    /// The events of the watch with the value when the server behaved again.
    after: Vec<String>,
}

const HOSTILITY: Duration = Duration::from_secs(600);

/// Has a value from a good server, ten hostile minutes, and a good server again.
async fn outlive(manner: Manner) -> Outcome {
    let (door, dial) = door();
    let theatre = Theatre::new(door, Manner::Good("kept"));
    let client = client(Arc::clone(&dial));
    let mut watch = client.watch_raw(&TypeUrl::new(CDS), "a");
    assert_eq!(next(&mut watch).await, "a kept");
    theatre.act(manner);
    theatre.seen();
    let end = Instant::now() + HOSTILITY;
    let mut other = client.watch_raw(&TypeUrl::new(CDS), "b");
    let (told, late) = tokio::join!(until(&mut watch, end), until(&mut other, end));
    let seen = theatre.seen();
    drop(other);
    theatre.act(Manner::Good("new"));
    let mut after = Vec::new();
    while after.last().is_none_or(|last| last != "a new") {
        after.push(timeout(HOSTILITY, next(&mut watch)).await.expect("the client recovers"));
    }
    let held = client.resources().len();
    assert_eq!(held, 1, "nothing is kept that nobody watches");
    drop((watch, client));
    // A client leaves nothing but tasks behind, and each of them can dial.
    tokio::time::sleep(HOSTILITY).await;
    assert_eq!(Arc::strong_count(&dial), 1, "nothing is left of the client");
    Outcome { told, late, seen, after }
}

fn client(dial: Arc<dyn Dial>) -> Client {
    let channel = ChannelCredentials::Insecure;
    let server = XdsServer { uri: "xds.test:1".to_owned(), channel, ..XdsServer::default() };
    let node = Node { id: "test".to_owned(), ..Node::default() };
    let bootstrap = Bootstrap { servers: vec![server], node, ..Bootstrap::default() };
    let options = Options { dial, max_response_bytes: 1 << 20, ..Options::default() };
    Client::new(&bootstrap, options).unwrap()
}

/// All that a watch hears until then.
async fn until(watch: &mut RawWatch, end: Instant) -> Vec<String> {
    let mut all = Vec::new();
    while let Ok(event) = timeout_at(end, next(watch)).await {
        all.push(event);
    }
    all
}

/// The next event of a watch, as text: the name, and the text in the cluster or the error.
async fn next(watch: &mut RawWatch) -> String {
    match within(watch.next()).await.expect("the client lives") {
        Event::Changed { name, value: Ok(value) } => {
            let body = value.resource.body();
            format!("{name} {}", String::from_utf8_lossy(&body[name.len() + 5..]))
        }
        Event::Changed { name, value: Err(error) } => format!("{name} none {:?}", error.kind),
        Event::Ambient { name, error: Some(error) } => format!("{name} but {:?}", error.kind),
        Event::Ambient { name, error: None } => format!("{name} fine"),
        Event::Complete => "settled".to_owned(),
        Event::Failed { error } => format!("failed {:?}", error.kind),
    }
}

impl Outcome {
    /// The server was asked so seldom: a wait that grows to two minutes leaves little in ten.
    fn is_patient(&self) {
        let Seen { connections, calls, requests, .. } = &self.seen;
        assert!(*connections <= 25 && *calls <= 25 && *requests <= 50, "{self:?}");
        assert!(*connections >= 1, "it is tried: {self:?}");
    }
}

/// A server that nothing can be heard of (C-037, C-067, C-069, C-073).
async fn is_away(manner: Manner) {
    let outcome = outlive(manner).await;
    outcome.is_patient();
    assert_eq!(outcome.told, ["a but Unreachable"], "{manner:?}");
    assert_eq!(outcome.late, ["b none Unreachable"], "{manner:?}");
    assert_eq!(outcome.after, ["a new"], "{manner:?}");
}

/// C-037, C-067, C-069, C-073
#[tokio::test(start_paused = true)]
async fn what_is_no_server_of_http_2_is_away() {
    is_away(Manner::Babbling).await;
    is_away(Manner::Deaf).await;
}

/// C-067, C-069
#[tokio::test(start_paused = true)]
async fn streams_that_end_without_a_response_are_an_outage() {
    is_away(Manner::Trailers).await;
    is_away(Manner::Half).await;
    is_away(Manner::Noise).await;
    is_away(Manner::Huge).await;
}

/// The events when a stream goes on which a server that owed something never spoke (C-067).
const UNHEARD: [&str; 2] = ["a but Unreachable", "a new"];

/// C-065, C-068: nothing was lost. What the server does not answer does not exist.
#[tokio::test(start_paused = true)]
async fn a_server_that_takes_streams_and_is_silent_is_there() {
    for manner in [Manner::Mute, Manner::Bare] {
        let outcome = outlive(manner).await;
        outcome.is_patient();
        assert!(outcome.told.is_empty(), "{outcome:?}");
        assert_eq!(outcome.late, ["b none Missing"]);
        assert_eq!(outcome.after, UNHEARD);
    }
}

/// C-035: such responses are not answered, and say nothing of what was asked for.
#[tokio::test(start_paused = true)]
async fn types_that_nobody_asked_for_are_ignored() {
    let outcome = outlive(Manner::Foreign).await;
    outcome.is_patient();
    assert!(outcome.told.is_empty() && outcome.seen.rejections.is_empty(), "{outcome:?}");
    assert_eq!(outcome.late, ["b none Missing"]);
    assert_eq!(outcome.after, UNHEARD);
}

/// C-062, C-063, C-064
#[tokio::test(start_paused = true)]
async fn a_resource_of_another_type_is_rejected() {
    let outcome = outlive(Manner::WrongInside).await;
    outcome.is_patient();
    let rejections = &outcome.seen.rejections;
    assert!(!rejections.is_empty() && rejections.iter().all(|why| why.contains("Listener")));
    assert_eq!(outcome.late, ["b none Rejected"], "it may be the one that has no name");
    assert_eq!(outcome.after.last().unwrap(), "a new");
}

/// C-062, C-063, C-064
#[tokio::test(start_paused = true)]
async fn one_name_for_two_resources_is_rejected() {
    let outcome = outlive(Manner::Twice).await;
    outcome.is_patient();
    assert!(outcome.seen.rejections.iter().all(|why| why.contains("`a`")), "{outcome:?}");
    assert_eq!(outcome.told, ["a but Rejected"]);
    assert_eq!(outcome.after, ["a new"]);
}

/// C-031, C-049, C-062: each response is answered, whatever its nonce.
#[tokio::test(start_paused = true)]
async fn nonces_that_are_not_new_are_answered_as_they_are() {
    let outcome = outlive(Manner::Stale).await;
    outcome.is_patient();
    assert!(outcome.told.is_empty(), "{outcome:?}");
    assert_eq!(outcome.late, ["b none Missing"]);
    assert_eq!(outcome.after, ["a new"]);
}

/// C-034, C-050: five thousand of them, twenty times, leave nothing behind.
#[tokio::test(start_paused = true)]
async fn resources_that_nobody_asked_for_are_not_kept() {
    let outcome = outlive(Manner::Unasked).await;
    outcome.is_patient();
    assert!(outcome.told.is_empty() && outcome.seen.rejections.is_empty(), "{outcome:?}");
    assert_eq!(outcome.after, ["a new"]);
}

/// C-068, C-069: no error, and no hurry: a stream is opened a second after the one before.
#[tokio::test(start_paused = true)]
async fn streams_and_connections_that_do_not_last_are_opened_again_without_haste() {
    for manner in [Manner::Hasty, Manner::Aging] {
        let outcome = outlive(manner).await;
        let Seen { calls, requests, .. } = &outcome.seen;
        assert!((100..=800).contains(calls) && *requests <= 2400, "{outcome:?}");
        assert!(outcome.told.is_empty(), "{outcome:?}");
        assert_eq!(outcome.after, ["a new"]);
    }
}

/// C-037, C-067: over a socket of the system, where time cannot be paused.
#[tokio::test]
async fn a_port_that_speaks_something_else_is_given_up_and_tried_again() {
    let listener = stage::listen().await;
    let address = listener.local_addr().unwrap();
    let channel = ChannelCredentials::Insecure;
    let server = XdsServer { uri: address.to_string(), channel, ..XdsServer::default() };
    let bootstrap = Bootstrap { servers: vec![server], ..Bootstrap::default() };
    let mut options = Options::default();
    options.settings.backoff = Duration::from_millis(20);
    let client = Client::new(&bootstrap, options).unwrap();
    let mut watch = client.watch_raw(&TypeUrl::new(CDS), "a");
    for _ in 0..3 {
        let (mut io, _) = within(listener.accept()).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut io, b"SSH-2.0-test\r\n").await.unwrap();
    }
    assert_eq!(next(&mut watch).await, "a none Unreachable");
    let (io, _) = within(listener.accept()).await.unwrap();
    let mut peer = stage::Peer::over(io);
    let mut call = peer.call().await.unwrap();
    assert!(call.heard().await.is_some());
    call.say(&stage::message::response("1", &[stage::message::cluster("a", "good")]));
    assert_eq!(next(&mut watch).await, "a good");
}
