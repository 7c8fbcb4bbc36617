//! Whole conversations with a server whose bytes are written here.

use super::*;
use crate::bytes::Damage;
use crate::workload::Readers;
use crate::xds::proto::{field, fields};
use crate::xds::{Expect, Node, PlannedSubscription, Protocol, types};

struct TestClient {
    session: XdsSession,
    measurements: Arc<Measurements>,
    /// The frames the client has written: kind, stream, payload.
    sent: Vec<(u8, u32, Vec<u8>)>,
}

impl TestClient {
    fn new(protocol: Protocol, expect: u32) -> Self {
        let names = vec!["a".to_owned(), "b".to_owned()];
        let url = types::parse_type("eds").unwrap();
        let expect = if expect == 0 { Expect::Response } else { Expect::Resources(expect) };
        let initial_versions = vec![("a".into(), "1".into())];
        let subscription =
            PlannedSubscription { url, names, initial_versions, expect, probe: false };
        let node = Node { id: "n-{}".into(), cluster: "c".into(), metadata: Vec::new() };
        let plan =
            Arc::new(RequestPlan::aggregated(protocol, vec![subscription], node, (false, "a:1")));
        let readers = Readers { clients: 1, ..Readers::default() };
        let measurements = Arc::new(Measurements::new(readers, 1, 1));
        let session = XdsSession::open(plan, Arc::clone(&measurements), 0, &mut Vec::new());
        Self { session, measurements, sent: Vec::new() }
    }

    fn receives(&mut self, bytes: &[u8]) {
        let mut out = Vec::new();
        self.session.feed(bytes, &mut out).unwrap();
        self.collects(&out);
    }

    fn opens(&mut self, ack_mode: AckMode) {
        let mut out = Vec::new();
        self.session.open_client(0, ack_mode, &mut out).unwrap();
        self.collects(&out);
    }

    fn collects(&mut self, mut out: &[u8]) {
        while let [a, b, c, kind, _, s, t, u, v, rest @ ..] = out {
            let (payload, rest) = rest.split_at(u32::from_be_bytes([0, *a, *b, *c]) as usize);
            self.sent.push((*kind, u32::from_be_bytes([*s, *t, *u, *v]), payload.to_vec()));
            out = rest;
        }
    }

    /// The requests of the stream so far, without the prefix of gRPC.
    fn requests(&self) -> Vec<Vec<u8>> {
        let data = self.sent.iter().filter(|(kind, ..)| *kind == 0);
        let bytes: Vec<u8> = data.flat_map(|(_, _, payload)| payload.clone()).collect();
        let (mut rest, mut requests) = (&bytes[..], Vec::new());
        while let [0, a, b, c, d, more @ ..] = rest {
            let (request, more) = more.split_at(u32::from_be_bytes([*a, *b, *c, *d]) as usize);
            requests.push(request.to_vec());
            rest = more;
        }
        requests
    }

    fn failures(&self) -> Vec<String> {
        self.measurements.state().failures()
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn settings(window: u32) -> Vec<u8> {
    frame(4, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat())
}

fn response(resources: u32) -> Vec<u8> {
    let mut body = Vec::new();
    field(&mut body, 1, b"v");
    (0..resources).for_each(|_| field(&mut body, 2, b"resource"));
    field(&mut body, 4, types::parse_type("eds").unwrap().as_str().as_bytes());
    field(&mut body, 5, b"nonce");
    let mut message = vec![0];
    message.extend((body.len() as u32).to_be_bytes());
    message.extend(body);
    message
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    fields(bytes).map(|(number, _)| number).collect()
}

#[test]
fn a_client_subscribes_receives_and_acknowledges() {
    for (protocol, first, answer) in [
        (Protocol::Delta, vec![1, 2, 3, 3, 5], vec![2, 6]),
        (Protocol::Sotw, vec![2, 4, 3, 3], vec![4, 3, 3, 1, 5]),
    ] {
        let mut client = TestClient::new(protocol, 0);
        client.receives(&settings(65_535));
        client.opens(AckMode::Acks);
        client.receives(&frame(0, 0, 1, &response(3)));
        let requests = client.requests();
        assert_eq!(numbers(&requests[0]), first);
        assert_eq!(numbers(&requests[1]), answer);
        assert_eq!(client.measurements.state().unanswered, 0);
        let traffic = client.measurements.traffic();
        assert_eq!((traffic.messages, traffic.resources, traffic.resource_bytes), (1, 3, 24));
        assert_eq!(traffic.payload, response(3).len() as u64 - 5);
    }
}

#[test]
fn ack_modes_differ_in_the_answer_alone() {
    for (ack_mode, answers) in [(AckMode::Silent, 0), (AckMode::Nacks, 1)] {
        let mut client = TestClient::new(Protocol::Delta, 0);
        client.receives(&settings(65_535));
        client.opens(ack_mode);
        client.receives(&frame(0, 0, 1, &response(1)));
        assert_eq!(client.requests().len(), 1 + answers);
    }
}

#[test]
fn responses_are_counted_however_they_are_cut() {
    let bytes = [response(2), response(0), response(1)].concat();
    for cut in 0..=bytes.len() {
        let mut client = TestClient::new(Protocol::Delta, 3);
        client.receives(&settings(65_535));
        client.opens(AckMode::Acks);
        client.receives(&frame(0, 0, 1, &bytes[..cut]));
        client.receives(&frame(0, 0, 1, &bytes[cut..]));
        assert_eq!(client.measurements.traffic().messages, 3, "cut at {cut}");
        assert_eq!(client.requests().len(), 4);
        assert!(client.session.answered(), "three resources were expected, and came");
    }
}

#[test]
fn requests_wait_for_the_window_and_come_whole() {
    let mut client = TestClient::new(Protocol::Delta, 0);
    client.receives(&settings(7));
    client.opens(AckMode::Acks);
    assert!(client.session.has_unsent());
    assert_eq!(client.sent.last().unwrap().2.len(), 7);
    client.receives(&frame(0, 0, 1, &response(1)));
    while client.session.has_unsent() {
        client.receives(&frame(8, 0, 1, &10_u32.to_be_bytes()));
    }
    let requests = client.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(numbers(&requests[0]), [1, 2, 3, 3, 5]);
    assert_eq!(numbers(&requests[1]), [2, 6]);
}

#[test]
fn the_end_of_a_stream_is_reported_in_words_and_once() {
    let mut block = vec![0x88, 0x00, 11];
    block.extend(b"grpc-status\x018");
    let ends: [(Vec<u8>, &str); 5] = [
        (frame(1, 5, 1, &block), "RESOURCE_EXHAUSTED"),
        (frame(3, 0, 1, &[0, 0, 0, 7]), "REFUSED_STREAM"),
        (frame(0, 1, 1, b""), "without a status"),
        (frame(0, 0, 1, b"\x01\0\0\0\x01x"), "compresses"),
        (frame(0, 0, 1, b"\0\0\0\0\x01\x07"), "no discovery response"),
    ];
    for (bytes, reason) in ends {
        let mut client = TestClient::new(Protocol::Delta, 0);
        client.receives(&settings(65_535));
        client.opens(AckMode::Acks);
        client.receives(&bytes);
        client.session.close("closed");
        let failures = client.failures();
        assert!(failures.len() == 1 && failures[0].contains(reason), "{failures:?}");
        assert_eq!(client.measurements.state().alive, 0);
    }
}

#[test]
fn a_connection_that_is_ended_says_why() {
    let mut client = TestClient::new(Protocol::Delta, 0);
    client.receives(&settings(65_535));
    client.opens(AckMode::Acks);
    client.receives(&frame(7, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 11, b'x']));
    client.session.close("the server closed the connection");
    assert!(client.failures()[0].contains("ENHANCE_YOUR_CALM: x"), "{:?}", client.failures());
}

#[test]
fn more_streams_than_the_server_takes_are_not_opened() {
    let mut client = TestClient::new(Protocol::Delta, 0);
    client.receives(&frame(4, 0, 0, &[0, 3, 0, 0, 0, 1]));
    client.opens(AckMode::Acks);
    let refused = client.session.open_client(1, AckMode::Acks, &mut Vec::new());
    assert!(refused.unwrap_err().contains("1 streams on a connection"));
}

#[test]
fn hostile_bytes_never_panic() {
    let valid = [
        settings(100),
        frame(1, 4, 1, &[0x88]),
        frame(0, 0, 1, &[response(2), response(1)].concat()),
        frame(8, 0, 1, &9_u32.to_be_bytes()),
        frame(1, 5, 1, b"\x40\x0bgrpc-status\x018"),
    ]
    .concat();
    let mut damage = Damage::new(0x2545_f491_4f6c_dd1d);
    for round in 0..2000 {
        let mut bytes = valid.clone();
        damage.apply(&mut bytes, 1 + round % 4);
        let mut client = TestClient::new(Protocol::Delta, 0);
        client.session.feed(&settings(1000), &mut Vec::new()).unwrap();
        client.session.record_versions();
        client.opens(AckMode::Acks);
        for piece in bytes.chunks(1 + round % 50) {
            if client.session.feed(piece, &mut Vec::new()).is_err() {
                break;
            }
        }
        client.session.close("over");
        assert_eq!(client.measurements.state().alive, 0);
    }
}
