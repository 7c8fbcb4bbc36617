//! Loads, rejections, moves, clients that come, go and hang, in an order that a seed draws: a load is never
//! told to have landed before it has, and is told soon after.
//!
//! The sessions are the real ones, and so are the store, the catalog and the book. A stream is driven as its
//! connection drives it: when it was woken, when a message has come, and when its deadline has passed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use chancery_catalog::{Catalog, ChangeSet, Entry, Key, Layer, Origin, OverlayNames};
use chancery_core::{
    ErrorDetail, Node, Request, Resource, Snapshot, SotwRequest, TypeUrl, Variant,
};
use chancery_proto::{frames, wire};
use prost::Message;
use tokio::time::{Instant, advance};

use super::framing::Frames;
use super::session::{Responded, StreamSession};
use crate::server_state::{ServerParts, ServerState, StreamPermit};
use crate::{
    Assign, Audiences, Client as Asking, Config, Metrics, Outcome, Peer, Policy, Refusal, Schema,
    StatusBook, StreamState,
};

#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../../tests/common/message.rs"]
mod message;

/// The group of each node, which may change.
#[derive(Clone, Default)]
struct Groups(Arc<Mutex<BTreeMap<String, &'static str>>>);

impl Assign for Groups {
    fn group(&self, client: &Asking<'_>, _: &OverlayNames) -> Result<Option<String>, Refusal> {
        let node = client.node.ok_or_else(Refusal::anonymous)?;
        let groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(groups.get(&node.id).map(|group| (*group).to_owned()))
    }
}

/// Notes that a stream was woken.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// The resources that a client has, by name.
type Held = BTreeMap<String, Bytes>;

/// A client, with its stream if it has one.
struct Client {
    id: String,
    /// The names it asks for; all, if there are none.
    names: Vec<Arc<str>>,
    held: Held,
    version: Arc<str>,
    stream: Option<Stream>,
    /// When it lost its last stream.
    lost: Option<Instant>,
    /// The last load at which it had all that it should have.
    landed: u64,
    /// True if it answers nothing.
    hangs: bool,
}

struct Stream {
    session: StreamSession,
    woken: Arc<Woken>,
    /// True if the server knows where the client belongs.
    placed: bool,
    found: frames::Messages,
    /// Requests on the way to the server.
    up: VecDeque<Bytes>,
    /// Responses that the client has not answered.
    down: VecDeque<message::SotwResponse>,
}

fn cds() -> TypeUrl {
    TypeUrl::new("envoy.config.cluster.v3.Cluster")
}

fn peer() -> Arc<Peer> {
    let address = Some("127.0.0.1:7".parse().unwrap());
    Arc::new(Peer { address, tls: false, certificates: Vec::new() })
}

/// A generator of numbers: the same seed gives the same ones.
struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

struct World {
    rng: Rng,
    shared: Arc<ServerState>,
    audiences: Audiences<Groups>,
    groups: Groups,
    book: StatusBook,
    clients: Vec<Client>,
    log: Vec<String>,
}

const LAYERS: [&str; 3] = ["", "g", "h"];

impl World {
    fn new(seed: u64) -> Self {
        let groups = Groups::default();
        let audiences = Audiences::new(Catalog::new(), groups.clone());
        let shared = Arc::new(ServerState::new(ServerParts {
            store: audiences.store(),
            policy: Box::new(audiences.clone()),
            observers: Vec::new(),
            config: Config::default(),
            metrics: Metrics::default(),
            schema: Schema::bundled(),
            load_reports: None,
            csds: None,
        }));
        let mut world = Self {
            rng: Rng(seed.wrapping_mul(2_654_435_769).wrapping_add(1)),
            shared,
            book: audiences.store().status(),
            audiences,
            groups,
            clients: Vec::new(),
            log: Vec::new(),
        };
        for layer in LAYERS {
            world.put(layer, &format!("first{layer}"), "1");
        }
        let names: [&[&str]; 4] = [&[], &["a"], &["b", "first"], &[]];
        names.iter().enumerate().for_each(|(at, names)| world.add_client(at, names));
        // Two clients with one id.
        world.add_client(0, &[]);
        world
    }

    fn add_client(&mut self, number: usize, names: &[&str]) {
        self.clients.push(Client {
            id: format!("n{number}"),
            names: names.iter().map(|name| Arc::from(*name)).collect(),
            held: Held::new(),
            version: "".into(),
            stream: None,
            lost: None,
            landed: 0,
            hangs: false,
        });
    }

    /// The same server, with no clients and other chances.
    fn beside(&self, seed: usize) -> Self {
        Self {
            rng: Rng(u64::try_from(seed).unwrap()),
            shared: Arc::clone(&self.shared),
            audiences: self.audiences.clone(),
            groups: self.groups.clone(),
            book: self.book.clone(),
            clients: Vec::new(),
            log: Vec::new(),
        }
    }

    fn layer(name: &str) -> Layer {
        if name.is_empty() { Layer::Base } else { Layer::Group(name.into()) }
    }

    fn put(&mut self, layer: &str, name: &str, body: &str) {
        let mut changes = ChangeSet::new("test");
        let cluster = message::Cluster { name: name.to_owned(), alt_stat_name: body.to_owned() };
        let resource = Resource::new(name.parse().unwrap(), cluster.encode_to_vec().into());
        changes.put(&Self::layer(layer), &cds(), Entry::new(resource, Origin::program("test")));
        self.commit(changes, format!("{layer}/{name}={body}"));
    }

    fn remove(&mut self, layer: &str, name: &str) {
        let mut changes = ChangeSet::new("test");
        let key = Key { type_url: cds(), name: name.parse().unwrap() };
        changes.remove(&Self::layer(layer), key);
        self.commit(changes, format!("{layer}/{name} goes"));
    }

    fn commit(&mut self, changes: ChangeSet, what: String) {
        self.audiences.commit(changes);
        self.log.push(format!("load {}: {what}", self.book.load()));
        self.note_landed();
    }

    /// The resources that a client should have now.
    fn wanted(&self, client: &Client) -> Held {
        let node = Node { id: client.id.clone(), ..Node::default() };
        let asking = Asking { node: Some(&node), peer: &peer() };
        let name = self.audiences.audience(&asking).unwrap();
        let audience = name.audience().unwrap();
        let snapshot: Arc<Snapshot> = self.audiences.catalog().seen_by(&audience).unwrap().snapshot;
        let is_wanted = |it: &&Arc<Resource>| {
            client.names.is_empty() || client.names.iter().any(|name| **name == *it.name().as_str())
        };
        let all = snapshot.set(&cds()).iter().filter(is_wanted);
        all.map(|it| (it.name().to_string(), it.body().clone())).collect()
    }

    /// Notes which clients have what they should have.
    fn note_landed(&mut self) {
        let load = self.book.load();
        for at in 0..self.clients.len() {
            if self.clients[at].held == self.wanted(&self.clients[at]) {
                self.clients[at].landed = load;
            }
        }
    }

    fn step(&mut self) {
        let at = self.rng.below(self.clients.len());
        match self.rng.below(20) {
            0..=2 => {
                let (layer, name) = (LAYERS[self.rng.below(3)], ["a", "b", "c"][self.rng.below(3)]);
                match self.rng.below(8) {
                    0 => self.remove(layer, name),
                    1 => self.put(layer, name, "bad"),
                    _ => {
                        let body = self.rng.below(5).to_string();
                        self.put(layer, name, &body);
                    }
                }
            }
            3 => self.move_node(at),
            4 => self.lose(at),
            5 => self.open(at),
            6 => {
                self.clients[at].hangs = self.rng.below(4) == 0;
            }
            7..=10 => self.answer(at),
            11..=13 => self.deliver(at),
            _ => self.run(at, false),
        }
        self.note_landed();
        self.check();
    }

    fn move_node(&mut self, at: usize) {
        let id = self.clients[at].id.clone();
        let group = LAYERS[self.rng.below(3)];
        self.log.push(format!("{id} moves to {group:?}"));
        let mut groups = self.groups.0.lock().unwrap();
        match group {
            "" => groups.remove(&id),
            group => groups.insert(id, group),
        };
        drop(groups);
        self.audiences.assign(self.groups.clone());
    }

    fn open(&mut self, at: usize) {
        if self.clients[at].stream.is_some() {
            return;
        }
        let share = self.shared.budget.share_of(&peer());
        let permit = StreamPermit::take(&self.shared, &share).unwrap();
        let session = StreamSession::open(permit, peer(), Variant::Sotw, None);
        let client = &mut self.clients[at];
        self.log.push(format!("{} opens a stream with {}", client.id, client.version));
        let first = SotwRequest {
            node: Some(Arc::new(Node { id: client.id.clone(), ..Node::default() })),
            version: Arc::clone(&client.version),
            ..client.request()
        };
        client.hangs = false;
        client.stream = Some(Stream {
            session,
            woken: Arc::new(Woken(AtomicBool::new(true))),
            placed: false,
            found: frames::Messages::new(1 << 20),
            up: [wire::encode_request(&Request::Sotw(first))].into(),
            down: VecDeque::new(),
        });
    }

    fn lose(&mut self, at: usize) {
        let client = &mut self.clients[at];
        if let Some(stream) = client.stream.take() {
            self.log.push(format!("{} loses its stream", client.id));
            if stream.placed {
                client.lost = Some(Instant::now());
            }
        }
    }

    /// A message of a client arrives.
    fn deliver(&mut self, at: usize) {
        let client = &mut self.clients[at];
        let Some(stream) = &mut client.stream else { return };
        let Some(request) = stream.up.pop_front() else { return };
        self.log.push(format!("a request of {} arrives", client.id));
        let later = stream.session.receive(&request, Instant::now()).unwrap();
        assert!(later.is_none(), "it is short");
        stream.placed = true;
        self.run(at, true);
    }

    /// A client answers a response.
    fn answer(&mut self, at: usize) {
        let client = &mut self.clients[at];
        let Some(stream) = client.stream.as_mut().filter(|_| !client.hangs) else { return };
        let Some(response) = stream.down.pop_front() else { return };
        let decode = |any: &message::Any| message::Cluster::decode(&*any.value).unwrap();
        let all: Vec<_> = response.resources.iter().map(decode).collect();
        let bad = all.iter().find(|cluster| cluster.alt_stat_name == "bad");
        let error = bad.map(|bad| ErrorDetail { code: 3, message: format!("{}: no", bad.name) });
        self.log.push(format!("{} answers {}: {error:?}", client.id, response.nonce));
        if error.is_none() {
            let body = |it: &message::Cluster| (it.name.clone(), it.encode_to_vec().into());
            client.held = all.iter().map(body).collect();
            client.version = response.version.as_str().into();
        }
        let nonce = response.nonce.as_str().into();
        let request = SotwRequest { nonce, error, ..client.request() };
        let request = wire::encode_request(&Request::Sotw(request));
        client.stream.as_mut().unwrap().up.push_back(request);
    }

    /// Has the stream of a client do what is due, if it was woken.
    fn run(&mut self, at: usize, is_polled: bool) {
        let client = &mut self.clients[at];
        let Some(stream) = &mut client.stream else { return };
        let now = Instant::now();
        let is_due = stream.session.deadline().is_some_and(|deadline| deadline <= now);
        if !stream.woken.0.swap(false, Ordering::AcqRel) && !is_polled && !is_due {
            return;
        }
        self.log.push(format!("{} runs", client.id));
        let waker = Waker::from(Arc::clone(&stream.woken));
        let cx = Context::from_waker(&waker);
        stream.session.poll_audience(&cx, now).unwrap();
        let mut out = Frames::default();
        while let Responded::Added = stream.session.respond(&mut out, now).unwrap() {}
        stream.session.note(now);
        assert!(stream.session.answer_looks(now).is_none());
        while let Some(chunk) = out.pop() {
            stream.found.push(chunk);
        }
        while let Some(message) = stream.found.next().unwrap() {
            stream.down.push_back(message::SotwResponse::decode(message).unwrap());
        }
    }

    /// Checks that nothing is told to have landed that has not.
    fn check(&mut self) {
        let newest = self.book.load();
        let load = newest.saturating_sub(u64::try_from(self.rng.below(3)).unwrap());
        let landing = self.book.landing(load, |_| true);
        if landing.outcome() == Outcome::Landed {
            let grace = landing.fleet().grace;
            for client in self.clients.iter().filter(|client| client.landed < load) {
                let counts = match &client.stream {
                    Some(stream) => stream.placed,
                    None => client.lost.is_some_and(|lost| lost.elapsed() < grace),
                };
                assert!(!counts, "load {load} has not landed on {}: {:#?}", client.id, self.log);
            }
            // A node has to have what its group of now has, also if it moved without a load.
            let is_placed = |client: &&Client| client.stream.as_ref().is_some_and(|it| it.placed);
            for client in self.clients.iter().filter(|it| load == newest && is_placed(it)) {
                let (id, wanted) = (&client.id, self.wanted(client));
                assert_eq!(client.held, wanted, "{id} lacks load {load}: {:#?}", self.log);
            }
        }
        for stream in landing.never() {
            let node = stream.node.as_ref().unwrap();
            let client = self.clients.iter().find(|client| client.id == node.id).unwrap();
            let wanted = self.wanted(client);
            let is_bad = wanted
                .values()
                .any(|body| message::Cluster::decode(&**body).unwrap().alt_stat_name == "bad");
            let is_silent = stream.state == StreamState::Silent;
            assert!(is_bad || is_silent, "{} is {:?}: {:#?}", node.id, stream, self.log);
        }
    }

    /// Lets everything come to rest, with clients that answer.
    async fn rest(&mut self) {
        for layer in LAYERS {
            for name in ["a", "b", "c"] {
                self.put(layer, name, "good");
            }
        }
        self.clients.iter_mut().for_each(|client| client.hangs = false);
        for _ in 0..200 {
            for at in 0..self.clients.len() {
                self.open(at);
                while self.clients[at].stream.as_ref().is_some_and(|it| !it.up.is_empty()) {
                    self.deliver(at);
                }
                self.run(at, false);
                while self.clients[at].stream.as_ref().is_some_and(|it| !it.down.is_empty()) {
                    self.answer(at);
                }
            }
            self.note_landed();
            self.check();
            advance(Duration::from_millis(50)).await;
        }
        let landing = self.book.landing(self.book.load(), |_| true);
        let told: Vec<_> = landing.waiting().collect();
        assert_eq!(landing.outcome(), Outcome::Landed, "{told:#?} {:#?}", self.log);
        assert_eq!(landing.landed(), self.clients.len());
        assert!(landing.fleet().streams.iter().all(|it| it.state == StreamState::InStep));
    }
}

impl Client {
    fn request(&self) -> SotwRequest {
        SotwRequest {
            type_url: cds().as_str().into(),
            names: self.names.iter().cloned().collect(),
            version: Arc::clone(&self.version),
            ..SotwRequest::default()
        }
    }
}

fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("CHANCERY_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CHANCERY_SIM_SEEDS").unwrap_or(count),
    }
}

#[tokio::test(start_paused = true)]
async fn a_load_is_never_told_to_have_landed_early_and_is_told_in_the_end() {
    for seed in seeds(150) {
        let mut world = World::new(seed);
        world.log.push(format!("replay it with CHANCERY_SIM_SEED={seed}"));
        for _ in 0..150 {
            world.step();
            let pause = [0, 0, 1, 20, 150, 3_000][world.rng.below(6)];
            advance(Duration::from_millis(pause)).await;
        }
        world.rest().await;
    }
}

/// Clients on threads of their own, while another thread loads and asks. All of them want the same.
#[tokio::test]
async fn a_load_is_not_told_to_have_landed_early_by_threads_that_race() {
    let mut world = World::new(0);
    let (seen, stop) = (Arc::new([0; 4].map(AtomicU64::new)), Arc::new(AtomicBool::new(false)));
    let offset = world.book.load();
    let threads: Vec<_> = (0..4)
        .map(|at| {
            let mut world = world.beside(at);
            world.add_client(at, &[]);
            let (seen, stop) = (Arc::clone(&seen), Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    world.open(0);
                    world.deliver(0);
                    world.run(0, false);
                    world.answer(0);
                    world.log.clear();
                    let told = world.clients[0].held.get("a").map(|body| {
                        message::Cluster::decode(&**body).unwrap().alt_stat_name.parse().unwrap()
                    });
                    // The answer is delivered in the next round, so this comes before it.
                    seen[at].store(told.unwrap_or(0), Ordering::Release);
                    if world.rng.below(100) == 0 {
                        world.lose(0);
                    }
                }
            })
        })
        .collect();
    let mut landings = 0;
    for number in 1..=60u64 {
        world.put("", "a", &number.to_string());
        let load = world.book.load();
        assert_eq!(load, offset + number);
        if number % 10 == 0 {
            world.audiences.store().reassign();
        }
        for _ in 0..20 {
            let landing = world.book.landing(load, |_| true);
            let lacks = seen.iter().filter(|seen| seen.load(Ordering::Acquire) < number).count();
            if landing.outcome() == Outcome::Landed && landing.landed() == 4 {
                assert_eq!(lacks, 0, "load {number} was told to have landed early");
                landings += 1;
                break;
            }
            std::thread::yield_now();
        }
    }
    stop.store(true, Ordering::Release);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(landings > 0, "nothing has landed");
}
