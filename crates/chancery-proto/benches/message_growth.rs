//! Each kind of message that a client can send, in any size: decoded, taken by the machine of its
//! stream, and answered.
//!
//!     message_growth KIND SIZE TIMES
//!
//! Made for counting instructions: a run that sends the message once and one that only prepares it
//! (TIMES is 0) differ by the message itself. What a message costs must not grow faster than its size,
//! and neither than the size of what its stream keeps (`cargo xtask growth`). The time of a large
//! message is printed, for those who look for what takes longest. Not here: messages of a usual
//! size, whose cost is recorded (`chancery-core/benches/hot_paths.rs`).
#![expect(clippy::print_stdout, reason = "it tells what there is")]

use std::process::ExitCode;
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::server::{Input, Machine, Settings, rest};
use chancery_core::{
    DeltaRequest, ErrorDetail, Facts, Link, Names, Node, Request, Resource, Scope, Snapshot,
    SotwRequest, Time, TypeUrl, Value, Variant, Versions,
};
use chancery_proto::json::request_from_json_within;
use chancery_proto::wire;

/// A message that is ready to be sent.
type Message = Box<dyn FnOnce()>;

/// Makes a message of a size, and the state of the stream it is for.
type Kind = fn(usize) -> Message;

const KINDS: [(&str, Kind); 43] = [
    ("sotw-names", |size| Client::sotw(size).asks(numbers(0..size))),
    ("sotw-names-missing", |size| Client::sotw(0).asks(numbers(0..size))),
    ("sotw-names-other", |size| {
        Client::sotw(size * 2).after(numbers(0..size)).asks(numbers(size / 2..size + size / 2))
    }),
    ("sotw-names-one-more", |size| {
        Client::sotw(size).after(numbers(0..size)).asks(numbers(0..size + 1))
    }),
    ("sotw-names-doubled", |size| Client::sotw(size).asks((0..size).map(|at| number(at % 7)))),
    ("sotw-wildcard", |size| Client::new(Variant::Sotw, CDS, clusters(size)).asks(all())),
    ("sotw-wildcard-and-names", |size| {
        Client::new(Variant::Sotw, CDS, clusters(size)).asks(all().chain(numbers(0..size)))
    }),
    ("sotw-wildcard-again", |size| {
        Client::sotw(size).after(numbers(0..1)).asks(all().chain(numbers(0..1)))
    }),
    ("delta-wildcard-again", |size| Client::delta(size).after(all()).asks(all())),
    ("delta-wildcard-leave", |size| Client::delta(size).after(all()).leaves(all())),
    ("delta-names", |size| Client::delta(size).asks(numbers(0..size))),
    ("delta-names-missing", |size| Client::delta(0).asks(numbers(0..size))),
    ("delta-names-again", |size| {
        Client::delta(size).after(numbers(0..size)).asks(numbers(0..size))
    }),
    ("delta-leave", |size| {
        Client::delta(size).after(numbers(0..size)).leaves(numbers(0..size / 2))
    }),
    ("delta-leave-beside-wildcard", |size| {
        Client::delta(size).after(all().chain(numbers(0..size))).leaves(numbers(0..size / 2))
    }),
    ("delta-xdstp", |size| Client::delta(size).asks((0..size).map(spelled))),
    ("delta-xdstp-leave", |size| {
        Client::delta(size).after((0..size).map(spelled)).leaves((0..size / 2).map(spelled))
    }),
    ("delta-xdstp-leave-respelled", |size| {
        Client::delta(size).after((0..size).map(spelled)).leaves((0..size / 2).map(canonical))
    }),
    ("delta-xdstp-long-query", |size| Client::delta(1).asks((0..size).map(long_query))),
    ("delta-malformed", |size| Client::delta(0).asks((0..size).map(|at| format!("xdstp://{at}")))),
    ("delta-globs", |size| Client::delta(size).asks((0..size).map(glob))),
    ("delta-globs-again", |size| {
        Client::delta(size).after((0..size).map(glob)).asks((0..size).map(glob))
    }),
    ("delta-globs-leave", |size| {
        Client::delta(size).after((0..size).map(glob)).leaves((0..size / 2).map(glob))
    }),
    ("delta-globs-leave-one", |size| {
        Client::delta(size).after((0..size).map(glob)).leaves(std::iter::once(glob(0)))
    }),
    ("delta-globs-nested", |size| {
        let deep = |at: usize| format!("{PREFIX}/{}*?p={at:08}", "d/".repeat(at % 64));
        Client::delta(size).asks((0..size).map(deep))
    }),
    ("delta-versions", |size| {
        let (subscribe, initial_versions) = (numbers(0..size).collect(), versions(size));
        let type_url = EDS.into();
        let request = DeltaRequest { type_url, subscribe, initial_versions, ..Default::default() };
        Client::delta(size).sends(&Request::Delta(request))
    }),
    ("delta-versions-then-globs", |size| Client::returning(size).asks((0..size).map(glob))),
    ("delta-versions-then-one-glob", |size| Client::returning(size).asks(std::iter::once(glob(0)))),
    ("vhds-hosts", |size| {
        let hosts = (0..size).map(|at| format!("route/host-{at}.example.com"));
        Client::new(Variant::Delta, VHDS, virtual_hosts(size)).asks(hosts)
    }),
    ("vhds-hosts-missing", |size| {
        let hosts = (0..size).map(|at| format!("route/host-{at}.example.org"));
        Client::new(Variant::Delta, VHDS, virtual_hosts(size)).asks(hosts)
    }),
    ("vhds-host-long", |size| {
        let host = format!("route/{}", "h".repeat(size));
        Client::new(Variant::Delta, VHDS, virtual_hosts(8)).asks(std::iter::once(host))
    }),
    ("vhds-host-long-without-hosts", |size| {
        let host = format!("route/{}", "h".repeat(size));
        Client::new(Variant::Delta, VHDS, Snapshot::new()).asks(std::iter::once(host))
    }),
    ("nack", |size| {
        let mut client = Client::new(Variant::Sotw, CDS, clusters(size));
        client.send(&client.request(all()));
        let nack = client.answer(1, Some("no"), Names::default());
        client.sends(&nack)
    }),
    ("nack-of-the-first-of-many", |size| {
        let mut client = Client::delta(size);
        client.send_parts(size);
        let nack = client.answer(1, Some("no"), Names::default());
        client.sends(&nack)
    }),
    ("ack-of-the-last-of-many", |size| {
        let mut client = Client::new(Variant::Sotw, CDS, Snapshot::new());
        client.send_parts(size);
        let ack = client.answer(client.nonces, None, Names::from_iter(["x"]));
        client.sends(&ack)
    }),
    ("error-detail", |size| {
        let client = Client::sotw(1);
        let nack = client.answer(1, Some(&"e".repeat(size)), Names::default());
        client.sends(&nack)
    }),
    ("node-metadata", |size| {
        let client = Client::sotw(0);
        let request = client.request_of(node(size, 0));
        client.sends(&request)
    }),
    ("node-parameters", |size| {
        let mut client = Client::sotw(0);
        client.tell(&client.request_of(node(0, size)));
        let request = client.request_of(node(1, size + 1));
        client.sends(&request)
    }),
    ("node-parameters-beside-metadata", |size| {
        let mut client = Client::sotw(0);
        client.tell(&client.request_of(node(size, 0)));
        let request = client.request_of(node(0, 1));
        client.sends(&request)
    }),
    ("locators", |size| {
        let client = Client::sotw(size);
        let mut message = wire::encode_request(&client.request(std::iter::empty())).to_vec();
        (0..size).for_each(|at| message.extend(field(7, &locator(at))));
        client.sends_bytes(message.into())
    }),
    ("small-beside-warming-clusters", |size| {
        let mut client = Client::new(Variant::Sotw, CDS, clusters(size));
        client.send(&client.request(all()));
        client.send(&client.answer(1, None, Names::from_iter(["*"])));
        client.type_url = EDS;
        client.send(&client.request(numbers(0..size)));
        client.type_url = RDS;
        client.asks(numbers(0..1))
    }),
    ("json-names", |size| {
        let names: Vec<_> = (0..size).map(|at| format!("{:?}", number(at))).collect();
        poll(endpoints(size), format!("{{\"resource_names\": [{}]}}", names.join(",")))
    }),
    ("json-node", |size| {
        let fields: Vec<_> = (0..size).map(|at| format!("\"key-{at}\": [{{\"a\": 1}}]")).collect();
        let node = format!("{{\"id\": \"n\", \"metadata\": {{{}}}}}", fields.join(","));
        poll(Snapshot::new(), format!("{{\"node\": {node}}}"))
    }),
];

const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
const RDS: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
const VHDS: &str = "type.googleapis.com/envoy.config.route.v3.VirtualHost";
const PREFIX: &str = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let kind = words.first().and_then(|word| KINDS.iter().find(|(name, _)| name == word));
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<usize>().ok());
    let (Some((_, kind)), Some(size), Some(times)) = (kind, number(1), number(2)) else {
        KINDS.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    };
    let message = kind(size);
    let start = std::time::Instant::now();
    if times == 0 {
        // A message that is sent keeps its stream, too.
        std::mem::forget(message);
    } else {
        message();
    }
    println!("{:?}", start.elapsed());
    ExitCode::SUCCESS
}

/// A client, and the machine of its stream.
struct Client {
    machine: Machine,
    variant: Variant,
    type_url: &'static str,
    /// The number of responses so far.
    nonces: usize,
}

impl Client {
    fn sotw(resources: usize) -> Self {
        Self::new(Variant::Sotw, EDS, endpoints(resources))
    }

    fn delta(resources: usize) -> Self {
        Self::new(Variant::Delta, EDS, endpoints(resources))
    }

    fn new(variant: Variant, type_url: &'static str, snapshot: Snapshot) -> Self {
        let mut client = Self::without_snapshot(variant, type_url);
        let taken = client.machine.handle(Time::default(), Input::Snapshot(Arc::new(snapshot)));
        taken.expect("a snapshot breaks no rule");
        client
    }

    fn without_snapshot(variant: Variant, type_url: &'static str) -> Self {
        let machine = Machine::new(variant, Scope::Aggregated, Arc::new(Settings::default()));
        Self { machine, variant, type_url, nonces: 0 }
    }

    /// A client that has stated what it holds, and for which there is no snapshot yet.
    fn returning(size: usize) -> Self {
        let mut client = Self::without_snapshot(Variant::Delta, EDS);
        let (type_url, initial_versions) = (EDS.into(), versions(size));
        let request = DeltaRequest { type_url, initial_versions, ..DeltaRequest::default() };
        client.send(&Request::Delta(request));
        client
    }

    /// The client after it has asked for names.
    fn after(mut self, names: impl Iterator<Item = String>) -> Self {
        self.tell(&self.request(names));
        self
    }

    fn request(&self, names: impl Iterator<Item = String>) -> Request {
        let (type_url, names) = (self.type_url.into(), names.collect());
        match self.variant {
            Variant::Sotw => Request::Sotw(SotwRequest { type_url, names, ..Default::default() }),
            Variant::Delta => {
                Request::Delta(DeltaRequest { type_url, subscribe: names, ..Default::default() })
            }
        }
    }

    fn request_of(&self, node: Node) -> Request {
        let mut request = self.request(numbers(0..1));
        request.introduce(&Arc::new(node));
        request
    }

    /// The answer to a response.
    fn answer(&self, nonce: usize, error: Option<&str>, names: Names) -> Request {
        let (type_url, nonce) = (self.type_url.into(), nonce.to_string().into());
        let error = error.map(|text| ErrorDetail { code: 3, message: text.to_owned() });
        match self.variant {
            Variant::Sotw => {
                Request::Sotw(SotwRequest { type_url, nonce, names, error, ..Default::default() })
            }
            Variant::Delta => {
                Request::Delta(DeltaRequest { type_url, nonce, error, ..Default::default() })
            }
        }
    }

    /// Sends a request, and takes the responses.
    fn send(&mut self, request: &Request) {
        self.take(&wire::encode_request(request));
    }

    /// Sends a request, and acknowledges the responses.
    fn tell(&mut self, request: &Request) {
        let mut answered = self.nonces;
        self.send(request);
        let names = match request {
            Request::Sotw(request) => request.names.clone(),
            Request::Delta(_) => Names::default(),
        };
        while answered < self.nonces {
            answered += 1;
            self.send(&self.answer(answered, None, names.clone()));
        }
    }

    /// Asks for names in many requests, and answers none of the responses.
    fn send_parts(&mut self, size: usize) {
        let part = size / 30;
        for at in 0..30 {
            self.send(&self.request(numbers(at * part..(at + 1) * part)));
        }
    }

    fn take(&mut self, message: &[u8]) {
        let limits = Settings { max_name_length: usize::MAX, ..Settings::default() };
        let limits = limits.request_limits();
        let request = match self.variant {
            Variant::Sotw => wire::decode_sotw_within(message, &limits).map(Request::Sotw),
            Variant::Delta => wire::decode_delta_within(message, &limits).map(Request::Delta),
        };
        let request = Input::Request(request.expect("the message is within the limits"));
        let now = Time::default();
        drop(self.machine.handle(now, request).expect("the stream goes on"));
        while let Some(response) = self.machine.poll(now) {
            self.nonces += 1;
            drop(wire::encode_entries(&response).collect::<Vec<_>>());
            drop(wire::encode_tail(&response, "control plane"));
        }
        let _ = (self.machine.landed(), self.machine.deadline(), self.machine.held_bytes());
    }

    fn asks(self, names: impl Iterator<Item = String>) -> Message {
        let request = self.request(names);
        self.sends(&request)
    }

    fn leaves(self, names: impl Iterator<Item = String>) -> Message {
        let (type_url, unsubscribe) = (self.type_url.into(), names.collect());
        let request = DeltaRequest { type_url, unsubscribe, ..DeltaRequest::default() };
        self.sends(&Request::Delta(request))
    }

    fn sends(self, request: &Request) -> Message {
        self.sends_bytes(wire::encode_request(request))
    }

    fn sends_bytes(mut self, message: Bytes) -> Message {
        Box::new(move || {
            self.take(&message);
            std::mem::forget((self, message));
        })
    }
}

/// A poll over REST, as far as it is read and decided here.
fn poll(snapshot: Snapshot, text: String) -> Message {
    Box::new(move || {
        let settings = Settings::default();
        let request = request_from_json_within(text.as_bytes(), &settings.request_limits());
        let request = request.expect("the poll is within the limits");
        drop(rest::answer(&snapshot, &TypeUrl::new(EDS), &request, &settings));
        std::mem::forget((snapshot, text));
    })
}

/// Half of the resources have plain names, and half are in one collection.
fn endpoints(count: usize) -> Snapshot {
    let mut snapshot = Snapshot::new();
    for name in (0..count).flat_map(|at| [number(at), canonical(at)]) {
        snapshot.insert(&TypeUrl::new(EDS), resource(&name));
    }
    snapshot
}

fn clusters(count: usize) -> Snapshot {
    let mut snapshot = Snapshot::new();
    for name in numbers(0..count) {
        let link = name.parse().expect("it is a name");
        let links = vec![Link { type_url: TypeUrl::new(EDS), name: link, aggregated: true }];
        let facts = Facts { links, ..Facts::default() };
        snapshot.insert(&TypeUrl::new(CDS), resource(&name).with_facts(facts));
        snapshot.insert(&TypeUrl::new(EDS), resource(&name));
    }
    snapshot
}

/// Virtual hosts with domains of all kinds, one of which is `*.example.com`.
fn virtual_hosts(count: usize) -> Snapshot {
    let mut snapshot = Snapshot::new();
    let mut add = |name: &str, hosts: Vec<Box<str>>| {
        let facts = Facts { hosts, ..Facts::default() };
        snapshot.insert(&TypeUrl::new(VHDS), resource(name).with_facts(facts));
    };
    add("route/all", vec!["*.example.com".into()]);
    for at in 0..count {
        add(&format!("route/{at}"), vec![format!("{at}.net").into(), format!("*.{at}.net").into()]);
    }
    snapshot
}

fn resource(name: &str) -> Resource {
    Resource::new(name.parse().expect("it is a name"), Bytes::copy_from_slice(name.as_bytes()))
}

fn versions(count: usize) -> Versions {
    (0..count).map(|at| (canonical(at), "0123456789abcdef")).collect()
}

fn node(metadata: usize, parameters: usize) -> Node {
    let entry = |at: usize| (format!("key-{at}"), Value::List(vec![Value::Number(1.0)]));
    let parameter = |at: usize| (format!("key-{at}"), "value".to_owned());
    let parameters = (0..parameters).map(parameter).collect();
    Node {
        id: "id".to_owned(),
        metadata: Arc::new((0..metadata).map(entry).collect()),
        dynamic_parameters: [(EDS.to_owned(), parameters)].into(),
        ..Node::default()
    }
}

fn all() -> impl Iterator<Item = String> {
    std::iter::once("*".to_owned())
}

fn numbers(range: std::ops::Range<usize>) -> impl Iterator<Item = String> {
    range.map(number)
}

fn number(at: usize) -> String {
    format!("resource-{at:08}")
}

/// A name of a collection, which is not spelled canonically.
fn spelled(at: usize) -> String {
    format!("{PREFIX}/{at:08}?b=1&a=2")
}

/// A name with as many parameters as it may have, which are not in their order.
fn long_query(at: usize) -> String {
    let query: Vec<_> = (0..32).map(|at| format!("{}=", 99 - at)).collect();
    format!("{PREFIX}/{at}?{}", query.join("&"))
}

/// The canonical name of the same resource.
fn canonical(at: usize) -> String {
    format!("{PREFIX}/{at:08}?a=2&b=1")
}

/// One of many globs that have nothing but their parameters of their own.
fn glob(at: usize) -> String {
    format!("{PREFIX}/*?a=2&b={at:08}")
}

/// A locator with a name, and a parameter beside it.
fn locator(at: usize) -> Vec<u8> {
    let parameters = field(1, &[field(1, b"k"), field(2, b"v")].concat());
    [field(1, number(at).as_bytes()), field(2, &parameters)].concat()
}

/// A field of a message, whose length has to be below 128.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let length = u8::try_from(value.len()).expect("it is short");
    [&[number << 3 | 2, length][..], value].concat()
}
