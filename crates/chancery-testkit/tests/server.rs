//! The real server of the testkit, with reference clients on real connections.
#![allow(clippy::unwrap_used, reason = "a test fails by panics")]
#![cfg(feature = "server")]

mod common;

use std::sync::Arc;

use chancery_core::{Node, Variant};
use chancery_testkit::client::{Client, Interest, Quirks};
use chancery_testkit::{TestEventKind, TestServer};
use common::{ReferenceStream, clusters, endpoints, holds, judge, snapshot};
use tokio::net::TcpStream;

fn client(variant: Variant, id: &str) -> Client {
    let node = Arc::new(Node { id: id.to_owned(), ..Node::default() });
    let mut client = Client::new(variant, node, Quirks::default(), judge);
    client.want(&clusters(), Interest::all());
    client.want(&endpoints(), Interest::names(["a"]));
    client
}

async fn connect(server: &TestServer, client: &mut Client) -> ReferenceStream {
    let io = TcpStream::connect(server.address()).await.unwrap();
    let mut stream = ReferenceStream::open(io, client.variant()).await.unwrap();
    client.open();
    stream.flush(client).unwrap();
    stream
}

#[tokio::test]
async fn both_variants_follow_what_is_published() {
    for variant in [Variant::Sotw, Variant::Delta] {
        let server = TestServer::start(snapshot(&[("a", 1), ("b", 1)])).await.unwrap();
        let mut client = client(variant, "n");
        let mut stream = connect(&server, &mut client).await;
        assert_eq!(stream.next(&mut client).await.unwrap(), "cds a@1 b@1");
        assert_eq!(stream.next(&mut client).await.unwrap(), "eds a@1");
        stream.flush(&mut client).unwrap();
        server.publish(snapshot(&[("a", 2), ("b", 1)]));
        stream.next(&mut client).await.unwrap();
        assert_eq!(stream.next(&mut client).await.unwrap(), "eds a@2");
        assert_eq!(holds(&client, &clusters()), ["a@2", "b@1"]);
        server.stop().await;
    }
}

#[tokio::test]
async fn a_stream_tells_that_all_it_was_owed_has_landed() {
    for variant in [Variant::Sotw, Variant::Delta] {
        let server = TestServer::start(snapshot(&[("a", 1)])).await.unwrap();
        let mut client = client(variant, "n");
        let mut stream = connect(&server, &mut client).await;
        for expected in ["cds a@1", "eds a@1"] {
            assert_eq!(stream.next(&mut client).await.unwrap(), expected);
            stream.flush(&mut client).unwrap();
        }
        let mut accepted = Vec::new();
        loop {
            match server.event().await.kind {
                TestEventKind::Acknowledged { type_url, .. } => accepted.push(type_url),
                TestEventKind::Landed => break,
                _ => {}
            }
        }
        assert_eq!(accepted, [clusters(), endpoints()], "{variant:?}");
        server.stop().await;
    }
}

#[tokio::test]
async fn audiences_see_their_own_and_events_tell_what_clients_make_of_it() {
    let server = TestServer::start_audiences(|node| node.id.as_str().into()).await.unwrap();
    server.publish_to("blue", snapshot(&[("a", 1)]));
    server.publish_to("red", snapshot(&[("a", 13)]));
    let (mut blue, mut red) = (client(Variant::Delta, "blue"), client(Variant::Sotw, "red"));

    let mut stream = connect(&server, &mut blue).await;
    assert_eq!(server.event().await.kind, TestEventKind::Connected);
    assert_eq!(stream.next(&mut blue).await.unwrap(), "cds a@1");
    stream.flush(&mut blue).unwrap();
    server.acknowledged(&clusters()).await;

    let mut stream = connect(&server, &mut red).await;
    assert_eq!(stream.next(&mut red).await.unwrap(), "cds a@13");
    stream.flush(&mut red).unwrap();
    let rejected = loop {
        let event = server.event().await;
        if let TestEventKind::Rejected { error, .. } = event.kind {
            break (event.node, event.audience, error);
        }
    };
    let (node, audience) = (Some("red".to_owned()), Some("red".into()));
    assert_eq!(rejected, (node, audience, "`a`: it is unlucky".to_owned()));
    assert!(holds(&red, &clusters()).is_empty());
}

#[tokio::test]
async fn each_server_has_its_own_port() {
    let one = TestServer::start(snapshot(&[])).await.unwrap();
    let other = TestServer::start(snapshot(&[])).await.unwrap();
    assert_ne!(one.address(), other.address());
    assert!(one.address().port() < 32_768);
    assert!(one.grpc_bootstrap("n").contains(&one.address().to_string()));
}
