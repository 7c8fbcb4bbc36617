//! The resources that a client may quote when it rejects a response: all that hold a secret are told,
//! or it is told that some are not (S-138).
//!
//! Not here: what is taken out of the client's words (`chancery-proto`, `chancery-server`).

use std::sync::Arc;

use bytes::Bytes;
use chancery_core::server::{Event, Input, Machine, RejectedResources, Settings};
use chancery_core::{
    ErrorDetail, Facts, Request, Resource, Scope, Snapshot, SotwRequest, Time, TypeUrl, Variant,
};

const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const SDS: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

/// A SotW client of one type.
struct Client {
    machine: Machine,
    type_url: &'static str,
}

impl Client {
    fn new(type_url: &'static str) -> Self {
        let settings = Arc::new(Settings::default());
        Self { machine: Machine::new(Variant::Sotw, Scope::Aggregated, settings), type_url }
    }

    /// Sees resources with these names and bodies. Bodies that begin with `key` are secrets.
    fn see(&mut self, resources: &[(&str, &'static str)]) {
        let mut snapshot = Snapshot::new();
        for (name, body) in resources {
            let facts = Facts { sensitive: body.starts_with("key"), ..Facts::default() };
            let resource =
                Resource::new(name.parse().unwrap(), Bytes::from_static(body.as_bytes()));
            snapshot.insert(&TypeUrl::new(self.type_url), resource.with_facts(facts));
        }
        self.machine.handle(Time::default(), Input::Snapshot(Arc::new(snapshot))).unwrap();
    }

    fn send(&mut self, names: &[&str], nonce: &str, error: Option<ErrorDetail>) -> Vec<Event> {
        let (type_url, nonce) = (self.type_url.into(), nonce.into());
        let names = names.iter().collect();
        let request = SotwRequest { type_url, nonce, names, error, ..SotwRequest::default() };
        self.machine.handle(Time::default(), Input::Request(Request::Sotw(request))).unwrap()
    }

    fn ask(&mut self, names: &[&str], nonce: &str) {
        self.send(names, nonce, None);
    }

    /// Takes the next response, which has that nonce.
    fn take(&mut self, nonce: &str) {
        assert_eq!(*self.machine.poll(Time::default()).unwrap().nonce, *nonce);
    }

    /// Rejects a response. Returns what the client may quote.
    fn reject(&mut self, names: &[&str], nonce: &str) -> RejectedResources {
        let events = self.send(names, nonce, Some(ErrorDetail::default()));
        let resources = events.into_iter().find_map(|event| match event {
            Event::Nacked { resources, .. } => Some(*resources),
            _ => None,
        });
        resources.unwrap()
    }
}

/// A client that has a whole state with `key 1`, which none of its names that changed has.
fn client_with_a_key() -> Client {
    let mut client = Client::new(CDS);
    client.see(&[("a", "1"), ("b", "key 1")]);
    client.ask(&["*"], "");
    client.take("1");
    client.ask(&["*"], "1");
    client.see(&[("a", "2"), ("b", "key 1")]);
    client.take("2");
    client
}

#[test]
fn a_whole_state_may_be_quoted_as_a_whole() {
    let rejected = client_with_a_key().reject(&["*"], "2");
    assert!(!rejected.is_cut);
    assert!(rejected.resources.iter().any(|it| it.body() == "key 1"));
}

#[test]
fn a_client_may_quote_a_secret_that_was_superseded_while_it_read() {
    for later in [("b", "key 2"), ("b", "none"), ("c", "1")] {
        let mut client = client_with_a_key();
        client.ask(&["*", "c"], "1"); // It asks for more before it answers.
        client.see(&[("a", "2"), later]);
        client.take("3");
        assert!(client.reject(&["*", "c"], "2").is_cut, "{later:?}");
    }
}

#[test]
fn what_was_superseded_before_a_response_is_not_quoted_in_its_rejection() {
    let mut client = client_with_a_key();
    client.ask(&["*", "c"], "1");
    client.see(&[("a", "2"), ("b", "none")]);
    client.take("3");
    client.ask(&["*", "c"], "2");
    client.ask(&["*", "c"], "3");
    client.see(&[("a", "3"), ("b", "none")]);
    client.take("4");
    assert!(!client.reject(&["*", "c"], "4").is_cut);
}

#[test]
fn secrets_of_sds_are_all_left_out() {
    let mut client = Client::new(SDS);
    client.see(&[("s", "key")]);
    client.ask(&["s"], "");
    client.take("1");
    let rejected = client.reject(&["s"], "1");
    assert!(rejected.is_cut);
    assert_eq!(rejected.resources, []);
}
