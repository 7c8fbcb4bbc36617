//! Watches over gRPC, against the server of this project on real sockets.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_client::bootstrap::Node;
use chancery_client::options::Variant;
use chancery_client::watch::ErrorKind;
use chancery_client::{Bootstrap, Clients, Event, Options, ResourceType, TypeUrl};
use chancery_testkit::{TestEventKind, TestServer};
use futures_core::Stream;

use crate::watching::{Cluster, client, clusters, heard, quick, server, snapshot, within};

/// All ways to speak gRPC.
fn ways() -> impl Iterator<Item = Options> {
    let variants = [Variant::Sotw, Variant::Delta].into_iter();
    variants.flat_map(|variant| {
        [true, false].map(|aggregated| Options { variant, aggregated, ..quick() })
    })
}

/// C-029, C-040, C-042
#[tokio::test]
async fn a_watch_follows_its_resource_over_every_kind_of_stream() {
    for options in ways() {
        let server = TestServer::start(snapshot(&[("a", "1"), ("b", "1")])).await.unwrap();
        let client = client(vec![self::server(server.address())], options);
        let mut one = client.watch_raw(&clusters(), "a");
        let mut all = client.watch_raw(&clusters(), "*");
        assert_eq!(heard(&mut one).await, "a=1");
        assert_eq!(heard(&mut all).await, "a=1");
        assert_eq!(heard(&mut all).await, "b=1");
        assert_eq!(heard(&mut all).await, "settled");
        server.publish(snapshot(&[("a", "2"), ("c", "1")]));
        assert_eq!(heard(&mut one).await, "a=2");
        let mut news = vec![heard(&mut all).await, heard(&mut all).await, heard(&mut all).await];
        news.sort();
        assert_eq!(news, ["a=2", "b none Missing", "c=1"]);
    }
}

/// C-055, C-063, C-070
#[tokio::test]
async fn a_program_says_what_is_bad_and_keeps_what_is_good() {
    let server = TestServer::start(snapshot(&[("bad", "1"), ("good", "1")])).await.unwrap();
    let client = client(vec![self::server(server.address())], quick());
    let mut good = client.watch::<Cluster>("good");
    let mut bad = client.watch::<Cluster>("bad");
    let Some(Event::Changed { value: Ok(value), .. }) = within(good.next()).await else { panic!() };
    assert_eq!(*value.value, Cluster("good of 10 bytes".to_owned()));
    assert_eq!(*value.server, *server.address().to_string());
    let Some(Event::Changed { value: Err(error), .. }) = within(bad.next()).await else { panic!() };
    assert_eq!(error.kind, ErrorKind::Rejected);
    assert!(
        error.to_string().contains("`bad`") && error.to_string().contains("it is bad"),
        "{error}"
    );
    loop {
        if let TestEventKind::Rejected { error, .. } = server.event().await.kind {
            assert!(error.contains("`bad`: it is bad"), "{error}");
            break;
        }
    }
}

#[tokio::test]
async fn what_stands_for_many_is_no_question() {
    let client = client(vec![server("127.0.0.1:1")], quick());
    for name in ["*", "xdstp://a/envoy.config.cluster.v3.Cluster/b/*"] {
        let error = within(client.get::<Cluster>(name)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Name);
        assert!(error.to_string().contains("watch it"), "{error}");
    }
}

#[tokio::test]
async fn watches_end_with_their_client() {
    let server = TestServer::start(snapshot(&[("a", "1")])).await.unwrap();
    let client = client(vec![self::server(server.address())], quick());
    let mut watch = client.watch_raw(&clusters(), "a");
    assert_eq!(heard(&mut watch).await, "a=1");
    let waiting = tokio::spawn(async move { watch.next().await.is_none() });
    let other = client.clone();
    assert!(client.close(Duration::from_secs(60)).await);
    assert!(within(waiting).await.unwrap());
    assert_eq!(within(other.get::<Cluster>("a")).await.unwrap_err().kind, ErrorKind::Broken);
}

/// Waits for the next item, as combinators of streams do.
async fn item<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    within(poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx))).await
}

/// C-047
#[tokio::test]
async fn a_watch_is_a_stream_of_events() {
    let server = TestServer::start(snapshot(&[("a", "1")])).await.unwrap();
    let client = client(vec![self::server(server.address())], quick());
    let mut typed = client.watch::<Cluster>("a");
    let mut raw = client.watch_raw(&clusters(), "*");
    let Some(Event::Changed { value: Ok(value), .. }) = item(&mut typed).await else { panic!() };
    assert_eq!(value.value.0, "a of 7 bytes");
    assert!(matches!(item(&mut raw).await, Some(Event::Changed { value: Ok(_), .. })));
    assert!(matches!(item(&mut raw).await, Some(Event::Complete)));
    // An event that was taken by the one is none for the other.
    server.publish(snapshot(&[("a", "2")]));
    assert_eq!(heard(&mut raw).await, "a=2");
    server.publish(snapshot(&[]));
    assert!(matches!(item(&mut raw).await, Some(Event::Changed { value: Err(_), .. })));
    assert!(client.close(Duration::from_secs(60)).await);
    while item(&mut typed).await.is_some() {}
    assert!(item(&mut raw).await.is_none());
    assert!(item(&mut raw).await.is_none());
}

/// C-053
#[tokio::test]
async fn a_watch_that_failed_says_so_and_ends() {
    let client = client(vec![server("127.0.0.1:1")], quick());
    for (name, kind) in [
        ("xdstp://nobody/envoy.config.cluster.v3.Cluster/x", ErrorKind::Authority),
        ("xdstp://nobody/x", ErrorKind::Name),
    ] {
        let mut watch = client.watch::<Cluster>(name);
        let Some(Event::Failed { error }) = within(watch.next()).await else { panic!("{name}") };
        assert_eq!(error.kind, kind);
        assert!(within(watch.next()).await.is_none());
    }
}

/// C-046, C-065
#[tokio::test]
async fn one_question_has_one_answer() {
    let server = TestServer::start(snapshot(&[("a", "1")])).await.unwrap();
    let mut options = quick();
    options.settings.missing_after = Duration::from_millis(50);
    let client = client(vec![self::server(server.address())], options);
    let cluster = within(client.get::<Cluster>("a")).await.unwrap();
    assert_eq!(*cluster.value, Cluster("a of 7 bytes".to_owned()));
    let error = within(client.get::<Cluster>("gone")).await.unwrap_err();
    assert!(error.is_missing(), "{error}");
    let error = within(client.get::<Cluster>("xdstp://nobody/envoy.config.cluster.v3.Cluster/x"));
    assert_eq!(error.await.unwrap_err().kind, ErrorKind::Authority);
}

/// C-067, C-087, C-089
#[tokio::test]
async fn another_server_is_asked_while_the_first_is_away() {
    let first = TestServer::start(snapshot(&[("a", "1")])).await.unwrap();
    let second = TestServer::start(snapshot(&[("a", "2"), ("b", "2")])).await.unwrap();
    let servers = vec![server(first.address()), server(second.address())];
    let client = client(servers, quick());
    let mut one = client.watch_raw(&clusters(), "a");
    assert_eq!(heard(&mut one).await, "a=1");
    first.stop().await;
    assert_eq!(heard(&mut one).await, "a but Unreachable");
    let mut other = client.watch_raw(&clusters(), "b");
    assert_eq!(heard(&mut other).await, "b=2");
    // The new value may say that the trouble is over.
    while heard(&mut one).await != "a=2" {}
}

/// C-067, C-073: nobody listens where the server should be.
#[tokio::test]
async fn a_server_that_cannot_be_reached_is_told_of_at_once() {
    let client = client(vec![server("127.0.0.1:1")], quick());
    let mut watch = client.watch_raw(&clusters(), "a");
    assert_eq!(heard(&mut watch).await, "a none Unreachable");
    let Event::Changed { value: Err(error), .. } =
        within(client.watch_raw(&clusters(), "b").next()).await.unwrap()
    else {
        panic!()
    };
    let text = error.to_string();
    assert!(text.contains("127.0.0.1:1") && text.contains("`test`"), "{text}");
}

/// C-039: a client that is dropped leaves.
#[tokio::test]
async fn a_client_ends_with_its_last_watch() {
    let server = TestServer::start(snapshot(&[("a", "1")])).await.unwrap();
    let client = client(vec![self::server(server.address())], quick());
    let mut watch = client.watch_raw(&clusters(), "a");
    drop(client);
    assert_eq!(heard(&mut watch).await, "a=1");
    drop(watch);
    loop {
        if let TestEventKind::Gone = server.event().await.kind {
            break;
        }
    }
}

/// C-062: for whoever tests a server.
#[tokio::test]
async fn everything_can_be_rejected_and_the_server_hears_of_it_before_the_end() {
    for options in ways() {
        let server = TestServer::start(snapshot(&[("a", "1")])).await.unwrap();
        let options = Options { reject: Some("a test".to_owned()), ..options };
        let client = client(vec![self::server(server.address())], options);
        let mut watch = client.watch_raw(&clusters(), "*");
        assert_eq!(heard(&mut watch).await, "a none Rejected");
        assert_eq!(heard(&mut watch).await, "settled");
        assert!(within(client.close(Duration::from_secs(20))).await);
        let mut rejected = None;
        loop {
            match server.event().await.kind {
                TestEventKind::Rejected { error, .. } => rejected = Some(error),
                TestEventKind::Gone => break,
                _ => {}
            }
        }
        assert_eq!(rejected.as_deref(), Some("`a`: a test"));
    }
}

/// C-055
#[tokio::test]
async fn a_decoder_may_know_more_than_a_resource_says() {
    let server = TestServer::start(snapshot(&[("a", "1"), ("b", "1")])).await.unwrap();
    let client = client(vec![self::server(server.address())], quick());
    let known = ["a".to_owned()];
    client.decode_with(move |name, _| match known.iter().any(|known| known == name) {
        true => Ok(Cluster(format!("the known {name}"))),
        false => Err("the bootstrap does not know it".to_owned()),
    });
    let cluster = within(client.get::<Cluster>("a")).await.unwrap();
    assert_eq!(*cluster.value, Cluster("the known a".to_owned()));
    let Err(error) = within(client.get::<Cluster>("b")).await else { panic!() };
    assert!(error.to_string().contains("the bootstrap does not know it"), "{error}");
    // The first decoder of a type counts.
    client.decode_as::<Cluster>();
    let mut watch = client.watch::<Cluster>("a");
    let Some(Event::Changed { value: Ok(again), .. }) = within(watch.next()).await else {
        panic!()
    };
    assert_eq!(*again.value, Cluster("the known a".to_owned()));
}

/// C-074
#[tokio::test]
async fn a_panic_is_heard_of_by_every_watch() {
    struct Broken;
    impl ResourceType for Broken {
        const TYPE_URL: &'static str = "envoy.config.cluster.v3.Cluster";
        fn decode(_: &str, _: &Bytes) -> Result<Self, String> {
            panic!("the decoder has a bug")
        }
    }
    let server = TestServer::start(snapshot(&[("a", "1")])).await.unwrap();
    let client = client(vec![self::server(server.address())], quick());
    let mut other =
        client.watch_raw(&TypeUrl::new("envoy.config.route.v3.RouteConfiguration"), "r");
    let Err(error) = within(client.get::<Broken>("a")).await else { panic!() };
    assert_eq!(error.kind, ErrorKind::Broken);
    assert!(error.to_string().contains("the decoder has a bug"), "{error}");
    assert_eq!(heard(&mut other).await, "failed Broken");
    assert!(other.next().await.is_none());
    let late = client.watch_raw(&clusters(), "late");
    let mut late = late;
    assert_eq!(heard(&mut late).await, "failed Broken");
}

/// C-038, C-053: everybody adds watches before they are done with what they were told.
#[tokio::test]
async fn thousands_of_watches_from_within_a_watch_stop_nobody() {
    let names: Vec<_> = (0..5000).map(|number| format!("c{number}")).collect();
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let server = TestServer::start(snapshot(&all)).await.unwrap();
    for options in ways() {
        let client = Arc::new(client(vec![self::server(server.address())], options));
        let mut first = client.watch_raw(&clusters(), "c0");
        assert_eq!(heard(&mut first).await, "c0=1");
        let mut watches: Vec<_> =
            names.iter().map(|name| client.watch_raw(&clusters(), name)).collect();
        for (watch, name) in watches.iter_mut().zip(&names) {
            assert_eq!(heard(watch).await, format!("{name}=1"));
        }
    }
}

/// C-058
#[tokio::test]
async fn channels_to_one_target_share_one_client_and_one_stream() {
    let server = TestServer::start(snapshot(&[("a", "1")])).await.unwrap();
    let servers = vec![self::server(server.address())];
    let node = Node { id: "test".to_owned(), ..Node::default() };
    let bootstrap = Bootstrap { servers, node, ..Bootstrap::default() };
    let clients = Clients::new(bootstrap, quick()).unwrap();
    let target = "xds:///service".parse().unwrap();
    let channels: Vec<_> = (0..10).map(|_| clients.for_target(&target).unwrap()).collect();
    let mut watches: Vec<_> =
        channels.iter().map(|client| client.watch_raw(&clusters(), "a")).collect();
    for watch in &mut watches {
        assert_eq!(heard(watch).await, "a=1");
    }
    let mut other =
        clients.for_target(&"xds:///other".parse().unwrap()).unwrap().watch_raw(&clusters(), "a");
    assert_eq!(heard(&mut other).await, "a=1");
    drop((channels, watches));
    let mut opened = 0;
    loop {
        match server.event().await.kind {
            TestEventKind::Connected => opened += 1,
            TestEventKind::Gone => break,
            _ => {}
        }
    }
    assert_eq!(opened, 2, "one for each target");
}

/// C-050: each question forgets its answer, and the next one is asked again.
#[tokio::test]
async fn the_same_question_can_be_asked_again_at_once() {
    let server = TestServer::start(snapshot(&[("a", "1")])).await.unwrap();
    for options in ways() {
        let client = client(vec![self::server(server.address())], options);
        for _ in 0..20 {
            let cluster = within(client.get::<Cluster>("a")).await.unwrap();
            assert_eq!(*cluster.value, Cluster("a of 7 bytes".to_owned()));
        }
    }
}
