//! Responses that arrive together: each is answered, in turn, and a server that does not read the
//! answers is not read either (C-062, C-063).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_client::bootstrap::XdsServer;
use chancery_client::credentials::ChannelCredentials;
use chancery_client::dial::Dial;
use chancery_client::options::Variant;
use chancery_client::{Bootstrap, Client, Event, Options, TypeUrl};
use chancery_proto::wire::{decode_delta, decode_sotw};
use tokio::time::timeout;

use crate::stage;
use crate::stage::message::{CDS, LDS, cluster, field, reply, response};
use crate::stage::{Call, Door, Peer, door};

fn client(uri: &str, variant: Variant, dial: Option<Arc<dyn Dial>>) -> Client {
    let channel = ChannelCredentials::Insecure;
    let server = XdsServer { uri: uri.to_owned(), channel, ..XdsServer::default() };
    let bootstrap = Bootstrap { servers: vec![server], ..Bootstrap::default() };
    let mut options = Options { variant, ..Options::default() };
    options.settings.patience = Duration::ZERO; // Nobody reads the watches.
    let dial = dial.unwrap_or_else(|| Arc::clone(&options.dial));
    Client::new(&bootstrap, Options { dial, ..options }).unwrap()
}

/// The call on which a client asks for its first resource, after it was heard.
async fn called(peer: &mut Peer) -> Call {
    let mut call = within(peer.call()).await.unwrap();
    within(call.heard()).await.unwrap();
    call
}

async fn within<F: Future>(future: F) -> F::Output {
    timeout(Duration::from_secs(20), future).await.expect("what is waited for happens")
}

/// Version, nonce, and whether it rejects something.
fn sotw(message: &Bytes) -> (String, String, bool) {
    let request = decode_sotw(message).unwrap();
    (request.version.to_string(), request.nonce.to_string(), request.error.is_some())
}

/// C-062, C-063: over a socket of the system, in one write.
#[tokio::test]
async fn responses_of_one_read_are_answered_in_turn() {
    let listener = stage::listen().await;
    let uri = listener.local_addr().unwrap().to_string();
    let client = client(&uri, Variant::Sotw, None);
    let mut watch = client.watch_raw(&TypeUrl::new(CDS), "a");
    let mut peer = Peer::over(within(listener.accept()).await.unwrap().0);
    let mut call = called(&mut peer).await;
    call.say(&reply(CDS, "1", &[(LDS, cluster("a", "bad"))]));
    call.say(&response("2", &[cluster("a", "good")]));
    call.say(&response("3", &[cluster("a", "one"), cluster("a", "two")]));
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers.push(sotw(&within(call.heard()).await.unwrap()));
    }
    let answer = |version: &str, nonce: &str, bad| (version.to_owned(), nonce.to_owned(), bad);
    assert_eq!(answers, [answer("", "1", true), answer("7", "2", false), answer("7", "3", true)]);
    loop {
        if let Event::Changed { value: Ok(value), .. } = within(watch.next()).await.unwrap() {
            assert!(value.resource.body().ends_with(b"good"));
            break;
        }
    }
}

/// C-040, C-062, C-063
#[tokio::test]
async fn responses_of_delta_of_one_read_are_answered_in_turn() {
    let listener = stage::listen().await;
    let uri = listener.local_addr().unwrap().to_string();
    let client = client(&uri, Variant::Delta, None);
    let _watch = client.watch_raw(&TypeUrl::new(CDS), "a");
    let mut peer = Peer::over(within(listener.accept()).await.unwrap().0);
    let mut call = called(&mut peer).await;
    let said = |nonce: &str, type_url: &str| {
        let any = [field(1, type_url.as_bytes()), field(2, &cluster("a", nonce))].concat();
        let resource = [field(3, b"a"), field(1, nonce.as_bytes()), field(2, &any)].concat();
        [field(2, &resource), field(4, CDS.as_bytes()), field(5, nonce.as_bytes())].concat()
    };
    call.say(&said("1", LDS));
    call.say(&said("2", CDS));
    let mut answers = Vec::new();
    for _ in 0..2 {
        let answer = decode_delta(&within(call.heard()).await.unwrap()).unwrap();
        answers.push((answer.nonce.to_string(), answer.error.is_some()));
    }
    assert_eq!(answers, [("1".to_owned(), true), ("2".to_owned(), false)]);
}

/// C-062: in memory, where time passes only when nothing else can happen; and less of it than a server
/// has to read what is said to it.
#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_read_is_not_read_for_ever() {
    let (mut door, dial): (Door, _) = door();
    let client = client("xds.test:1", Variant::Sotw, Some(dial));
    let _watch = client.watch_raw(&TypeUrl::new(CDS), "a");
    let mut peer = Peer::with_window(door.next().await.1, ROOM);
    let mut call = called(&mut peer).await;
    for number in 1..=RESPONSES {
        call.say(&response(&number.to_string(), &[cluster("a", "same")]));
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let read = client.metrics().resource_updates_valid.values().sum::<u64>();
    assert!(read > 10 && read < 60, "{read} responses were read, and nobody listens");
    for number in 1..=RESPONSES {
        let answer = sotw(&within(call.heard()).await.unwrap());
        assert_eq!(answer, ("7".to_owned(), number.to_string(), false));
    }
}

/// The number of responses that wait to be read.
const RESPONSES: u64 = 1000;

/// The number of bytes of answers that fit on the stream.
const ROOM: u32 = 1000;
