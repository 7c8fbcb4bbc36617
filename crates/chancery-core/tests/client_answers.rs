//! A client's answers: one for each response, in turn, whatever is read before anything is said.
//!
//! Each test names the rules it proves (`docs/rules`). The language of the scripts is that of
//! [`chancery_testkit::script`].

use std::sync::Arc;

use chancery_core::client::{
    AuthorityKey, Effect, Fallback, Input, Machine, Protocol, Response, ServerFeatures, ServerKey,
    Settings, Setup, StreamId,
};
use chancery_core::{Node, Request, Scope, Time, TypeUrl, Variant};
use chancery_testkit::script::client;

/// A client with one stream of SotW, on which it asks for clusters.
struct Conversation {
    client: Machine,
    stream: StreamId,
}

impl Conversation {
    fn streaming() -> Self {
        let mut setup = Setup::new(Arc::new(Node::default()), Settings::default());
        let features = ServerFeatures::default();
        let key = ServerKey { uri: "one".into(), credentials: "insecure".into(), features };
        let protocol = Protocol::Stream { variant: Variant::Sotw, aggregated: true };
        let server = setup.server(key, protocol);
        setup.authority(AuthorityKey::Old, vec![server], Fallback::Needed);
        let mut client = Machine::new(setup);
        let stream = StreamId { server, scope: Scope::Aggregated };
        client.watch(Time::default(), &clusters(), "a");
        client.handle(Time::default(), Input::Opened(stream.clone()));
        Self { client, stream }
    }

    fn request(&mut self) -> Option<Request> {
        self.client.request(Time::default(), &self.stream)
    }

    fn may_read(&self) -> bool {
        self.client.may_read(&self.stream)
    }

    /// Returns true if the driver is told to read on.
    fn reads(&mut self) -> bool {
        let effects: Vec<_> = std::iter::from_fn(|| self.client.poll()).collect();
        effects.contains(&Effect::Read(self.stream.clone()))
    }

    /// A response without resources comes.
    fn hear(&mut self, nonce: &str) {
        let reply = Response {
            variant: Variant::Sotw,
            type_url: clusters(),
            version: nonce.into(),
            nonce: nonce.into(),
            resources: Vec::new(),
            removed: Vec::new(),
            errors: Vec::new(),
        };
        let input = Input::Received(self.stream.clone(), reply);
        self.client.handle(Time::default(), input);
    }
}

fn clusters() -> TypeUrl {
    TypeUrl::new("envoy.config.cluster.v3.Cluster")
}

#[test]
fn responses_that_come_together_are_answered_in_turn() {
    // C-062, C-063: each with what was accepted by then; new names wait for the newest nonce
    client(
        "% server one
         + u eds a
         < one open
         > one open
         < one eds a node
         > one eds v=1 n=1 a@1
         < one eds a v=1 n=1
         ! u a@1
         | one eds v=2 n=2 a@!bad
         ! u a but rejected
         | one eds v=3 n=3 a@3
         ! u a@3
         | one eds v=4 n=4 a@!worse
         ! u a but rejected
         + v eds b
         < one eds a v=1 n=2 error=`a`: bad
         < one eds a v=3 n=3
         < one eds a b v=3 n=4 error=`a`: worse",
    );
}

#[test]
fn responses_of_delta_that_come_together_are_answered_in_turn() {
    // C-040, C-062, C-063
    client(
        "% server one delta
         + u eds a
         < one open
         + v cds x
         > one open
         < one cds +x node
         < one eds +a
         | one eds n=1 a@!bad
         ! u a none rejected
         | one cds n=2 x@1
         ! v x@1
         | one eds n=3 a@1
         ! u a@1
         + w eds b
         < one cds n=2
         < one eds +b n=1 error=`a`: bad
         < one eds n=3",
    );
}

#[test]
fn everything_that_is_taken_back_in_words_waits_for_the_newest_nonce() {
    // C-033, C-062
    client(
        "% server one
         + w cds *
         < one open
         > one open
         < one cds node
         | one cds v=1 n=1 a@1
         ! w a@1
         ! w complete
         | one cds v=2 n=2 a@2
         ! w a@2
         - w
         < one cds v=1 n=1
         < one cds * v=2 n=2
         < one cds v=2 n=2",
    );
}

#[test]
fn a_server_that_does_not_read_is_not_read_for_ever() {
    // C-062: so many answers are owed, and no more
    let mut client = Conversation::streaming();
    let answered = |client: &mut Conversation| {
        let nonces = std::iter::from_fn(|| client.request()).map(|it| it.nonce().to_owned());
        nonces.collect::<Vec<_>>()
    };
    assert_eq!(answered(&mut client), [""]);
    let mut read = Vec::new();
    while client.may_read() {
        assert!(read.len() < 1000, "it reads without end");
        read.push((read.len() + 1).to_string());
        client.hear(read.last().unwrap());
    }
    assert!(read.len() > 1, "a server that is ahead is read");
    assert_eq!(client.request().unwrap().nonce(), "1");
    assert!(client.may_read() && client.reads(), "there is room again, and that is said");
    assert_eq!(answered(&mut client), read[1..]);
}
