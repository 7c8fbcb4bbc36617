//! Simulated clients over real connections: each is a reference client that asks for what Envoy asks for, and knows
//! what it holds and what has happened to it.
//!
//! Not here: the protocol (`chancery_testkit::client`), and what the server says of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use chancery_core::client::{Response as Read, ResponseItem};
use chancery_core::server::{Response, ResponseEntry};
use chancery_core::{Node, Resource, Time, TypeUrl, Variant};
use chancery_proto::frames::{Messages, framed};
use chancery_proto::reply::Reader;
use chancery_proto::wire::encode_request;
use chancery_testkit::client::{Client, Interest, Quirks, Verdict};
use h2::{RecvStream, SendStream};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::wait::BOUND;

/// A simulated client. It ends with the runtime that it runs on.
pub(super) struct Simulated {
    pub(super) id: String,
    shared: Arc<Shared>,
}

/// Shared with the task of the client.
struct Shared {
    client: Mutex<Client>,
    history: Mutex<History>,
    /// True if it answers nothing that it is sent, and keeps nothing of it either.
    is_silent: AtomicBool,
    /// True if it is to leave and not to come back.
    leaves: AtomicBool,
    /// Woken when one of these changes, or the stream is to be opened anew.
    changed: Notify,
}

/// The things that have happened to a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct History {
    /// The streams on which it has asked for something.
    pub(super) appeared: usize,
    /// The streams of those that have ended.
    pub(super) gone: usize,
    /// The responses that it rejected.
    pub(super) rejected: usize,
}

/// The word in a body that some clients reject.
pub(super) const UNLUCKY: &str = "unlucky";

/// The types that a client asks for by the names of what it has of another one.
const NAMED: [(&str, &str); 2] = [
    ("envoy.config.cluster.v3.Cluster", "envoy.config.endpoint.v3.ClusterLoadAssignment"),
    ("envoy.config.listener.v3.Listener", "envoy.config.route.v3.RouteConfiguration"),
];

impl Simulated {
    /// Starts a client of a server on this port. If it is `picky`, it rejects [`UNLUCKY`] bodies.
    pub(super) fn start(
        tasks: &mut JoinSet<()>,
        id: String,
        port: u16,
        variant: Variant,
        picky: bool,
    ) -> Self {
        let node = Arc::new(Node { id: id.clone(), ..Node::default() });
        let judge = if picky { picky_judge } else { kind_judge };
        let mut client = Client::new(variant, node, Quirks::default(), judge);
        NAMED.iter().for_each(|(all, _)| client.want(&TypeUrl::new(all), Interest::all()));
        let shared = Arc::new(Shared {
            client: Mutex::new(client),
            history: Mutex::default(),
            is_silent: AtomicBool::new(false),
            leaves: AtomicBool::new(false),
            changed: Notify::new(),
        });
        tasks.spawn(live(Arc::clone(&shared), port, variant));
        Self { id, shared }
    }

    /// The versions of the resources that it holds, by `TYPE/NAME`.
    pub(super) fn holds(&self) -> BTreeMap<String, String> {
        let client = lock(&self.shared.client);
        let of_type = |type_url: &TypeUrl| {
            let short = type_url.short().to_owned();
            let held = client.held(type_url);
            let held = held.map(move |(name, held)| {
                (format!("{short}/{name}"), held.resource.version().to_string())
            });
            held.collect::<Vec<_>>()
        };
        client.types().flat_map(of_type).collect()
    }

    /// Returns true if the resource that it holds under this name has this word in it.
    pub(super) fn has(&self, type_url: &TypeUrl, name: &str, word: &str) -> bool {
        let client = lock(&self.shared.client);
        let held = client.held(type_url).find(|(it, _)| &***it == name);
        held.is_some_and(|(_, held)| contains(&held.resource, word))
    }

    /// Its history so far.
    pub(super) fn history(&self) -> History {
        *lock(&self.shared.history)
    }

    /// Ends the stream, and opens another one at once.
    pub(super) fn reconnect(&self) {
        self.shared.changed.notify_one();
    }

    /// Ends the stream for good.
    pub(super) fn leave(&self) {
        self.shared.leaves.store(true, Ordering::Release);
        self.shared.changed.notify_one();
    }

    /// From now on it takes no answer of the server in, until it is woken by another stream.
    pub(super) fn fall_silent(&self) {
        self.shared.is_silent.store(true, Ordering::Release);
    }

    /// It answers again, on another stream.
    pub(super) fn come_back(&self) {
        self.shared.is_silent.store(false, Ordering::Release);
        self.shared.changed.notify_one();
    }
}

fn kind_judge(_: &TypeUrl, _: &Resource) -> Verdict {
    Verdict::Good
}

fn picky_judge(_: &TypeUrl, resource: &Resource) -> Verdict {
    match contains(resource, UNLUCKY) {
        true => Verdict::Bad(format!("`{}` is unlucky", resource.name())),
        false => Verdict::Good,
    }
}

fn contains(resource: &Resource, word: &str) -> bool {
    resource.body().windows(word.len()).any(|part| part == word.as_bytes())
}

/// One stream after the other.
async fn live(shared: Arc<Shared>, port: u16, variant: Variant) {
    while !shared.leaves.load(Ordering::Acquire) {
        let mut connection = JoinSet::new();
        // Without a server there is no test any more, or it fails by what this client lacks.
        let Some(mut wire) = Wire::open(&mut connection, port, variant).await else { return };
        lock(&shared.client).open();
        wire.flush(&shared);
        lock(&shared.history).appeared += 1;
        loop {
            tokio::select! {
                () = shared.changed.notified() => break,
                message = wire.message() => {
                    let Some(message) = message else { break };
                    if !shared.is_silent.load(Ordering::Acquire) {
                        take(&shared, &response(variant, &message));
                        wire.flush(&shared);
                    }
                }
            }
        }
        lock(&shared.client).lose();
        lock(&shared.history).gone += 1;
        connection.shutdown().await;
    }
}

/// Takes a response, and asks for what follows from what it has then.
fn take(shared: &Shared, response: &Response) {
    let mut client = lock(&shared.client);
    let taken = client.receive(Time::default(), response);
    assert!(taken.is_ok(), "{taken:?}");
    if client.rejects(&response.type_url) {
        lock(&shared.history).rejected += 1;
    }
    for (all, named) in NAMED {
        let names: Vec<_> =
            client.held(&TypeUrl::new(all)).map(|(name, _)| Arc::clone(name)).collect();
        client.want(&TypeUrl::new(named), Interest::names(names.iter().map(|name| &**name)));
    }
}

/// A response as the reference client takes it.
fn response(variant: Variant, message: &Bytes) -> Response {
    let reader = Reader::new(chancery_proto::Schema::bundled().clone());
    let read: Read = reader.read(variant, None, message).expect("the server sends responses");
    let entry = |item| match item {
        Ok(ResponseItem::Resource(read)) => Some(ResponseEntry {
            name: read.resource.name().to_string().into(),
            aliases: Vec::new(),
            resource: Some(read.resource),
            ttl: false,
            heartbeat: false,
        }),
        other => panic!("nothing here is bad or has a TTL: {other:?}"),
    };
    Response {
        variant,
        entries: read.resources.into_iter().filter_map(entry).collect(),
        type_url: read.type_url,
        version: read.version,
        nonce: read.nonce,
        removed: read.removed,
        errors: read.errors,
        wrapped: variant == Variant::Delta,
    }
}

/// An aggregated stream.
struct Wire {
    send: SendStream<Bytes>,
    body: RecvStream,
    messages: Messages,
}

impl Wire {
    /// Opens a stream on a connection of its own, which is driven by a task; `None` if nobody answers.
    async fn open(connection: &mut JoinSet<()>, port: u16, variant: Variant) -> Option<Self> {
        let method = match variant {
            Variant::Sotw => "StreamAggregatedResources",
            Variant::Delta => "DeltaAggregatedResources",
        };
        let request = http::Request::post(format!(
            "http://localhost/envoy.service.discovery.v3.AggregatedDiscoveryService/{method}"
        ));
        let request = request.header("content-type", "application/grpc").header("te", "trailers");
        let request = request.body(()).expect("the request is one");
        let opened = async {
            let io = TcpStream::connect(("127.0.0.1", port)).await?;
            let (send, driver) = h2::client::handshake(io).await?;
            connection.spawn(async move { drop(driver.await) });
            let (response, send) = send.ready().await?.send_request(request, false)?;
            let body = response.await?.into_body();
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>((send, body))
        };
        let (send, body) = timeout(BOUND, opened).await.ok()?.ok()?;
        Some(Self { send, body, messages: Messages::new(usize::MAX) })
    }

    /// Sends what is due.
    fn flush(&mut self, shared: &Shared) {
        let mut client = lock(&shared.client);
        while let Some(request) = client.poll() {
            // If the connection is gone, the next read says so.
            _ = self.send.send_data(framed(&encode_request(&request)), false);
        }
    }

    /// The next message, or `None` at the end. Cancel-safe.
    async fn message(&mut self) -> Option<Bytes> {
        loop {
            if let Some(message) = self.messages.next().expect("the server frames well") {
                return Some(message);
            }
            let chunk = self.body.data().await?.ok()?;
            self.body.flow_control().release_capacity(chunk.len()).ok()?;
            self.messages.push(chunk);
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
