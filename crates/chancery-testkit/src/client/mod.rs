//! Reference clients: all types of one stream, SotW or delta, as values without I/O.
//!
//! ```text
//!    want, ask_again                         receive
//!          |                                    |
//!          v                                    v
//!   +----------------------- Client -----------------------+
//!   | per type: interest, what the server was told, held   |
//!   +------------------------------------------------------+
//!          |
//!          v   poll: requests and answers, one response one answer
//! ```
//!
//! The client is simple on purpose: it does what the protocol asks of clients and nothing clever,
//! so that what it holds in the end is what a correct server made it hold. It rejects a response
//! with one bad resource as a whole and keeps what it has. What it drops, it drops when the request
//! that says so leaves, because only then can the server know.
//!
//! It is also a witness: [`Client::receive`] returns a [`Fault`] for each response no correct
//! server sends, whatever the timing. Rules that depend on what the server knew when it sent are
//! not here but in the referee of [`crate::sim`], who stands at the server's end of the wire.

mod delta;
mod interest;
mod sotw;
mod subscription;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use chancery_core::server::Response;
use chancery_core::{ErrorDetail, Node, Request, Resource, Time, TypeUrl, Variant};

use crate::response_rules::ResponseRules;
pub use interest::Interest;
pub use subscription::HeldResource;
use subscription::Subscription;

/// A response no correct server sends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server broke the protocol: {0}")]
pub struct Fault(pub String);

/// What a client thinks of one body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It can be used.
    Good,
    /// It cannot be used: the response that holds it is rejected, with this text.
    Bad(String),
    /// It is not of the type the response says (S-008).
    Foreign,
}

/// How a client judges bodies.
pub type Judge = fn(&TypeUrl, &Resource) -> Verdict;

/// What real clients do differently from each other, and some do wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quirks {
    /// Says `*` where an empty first request would mean the same (S-049).
    pub star: bool,
    /// The first request of a type on a stream carries the nonce of the stream before (T-02).
    pub foreign_nonce: bool,
    /// Does not answer, and forgets the nonce, once the last name of a type is dropped (T-03).
    pub forgetful: bool,
    /// Begins each stream as if it had never had another: no versions, nothing held (S-077).
    pub blank: bool,
    /// Changes subscriptions and answers in separate messages even if both are due (T-34).
    pub separate: bool,
    /// Asks for each name it needs in a request of its own, and waits for no answer in between, as
    /// grpc-go and grpc-java do (S-037).
    pub piecemeal: bool,
}

/// A client with one stream.
#[derive(Clone, Debug)]
pub struct Client {
    variant: Variant,
    node: Arc<Node>,
    quirks: Quirks,
    judge: Judge,
    subscriptions: BTreeMap<TypeUrl, Subscription>,
    due: VecDeque<DueRequest>,
    stream: Option<StreamState>,
}

/// What belongs to one stream and is forgotten with it.
#[derive(Clone, Debug, Default)]
struct StreamState {
    introduced: bool,
    shape: ResponseRules,
}

/// A request the client owes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum DueRequest {
    /// The subscription changed, or is repeated.
    Ask { type_url: TypeUrl, repeat: bool },
    /// A response wants an answer.
    Answer { type_url: TypeUrl, answer: ResponseAnswer },
}

/// An ACK, or with an error a NACK.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ResponseAnswer {
    nonce: Arc<str>,
    error: Option<ErrorDetail>,
}

impl Client {
    /// A client that has no stream yet and wants nothing.
    pub fn new(variant: Variant, node: Arc<Node>, quirks: Quirks, judge: Judge) -> Self {
        Self {
            variant,
            node,
            quirks,
            judge,
            subscriptions: BTreeMap::new(),
            due: VecDeque::new(),
            stream: None,
        }
    }

    /// Which form of the protocol it speaks.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// Changes what the client wants of one type.
    pub fn want(&mut self, type_url: &TypeUrl, interest: Interest) {
        let topic = self.subscriptions.entry(type_url.clone()).or_default();
        if topic.interest != interest {
            topic.interest = interest;
            self.due.push_back(DueRequest::Ask { type_url: type_url.clone(), repeat: false });
        }
    }

    /// What the client wants of one type.
    pub fn interest(&self, type_url: &TypeUrl) -> Interest {
        self.subscriptions.get(type_url).map(|topic| topic.interest.clone()).unwrap_or_default()
    }

    /// Says once more what the server was told already. In delta, the client has dropped `name`
    /// and wants it again (S-075).
    pub fn ask_again(&mut self, type_url: &TypeUrl, name: &Arc<str>) {
        let Some(topic) = self.subscriptions.get_mut(type_url) else { return };
        if self.variant == Variant::Delta && topic.interest.names.contains(name) {
            topic.resubscribe.insert(Arc::clone(name));
        }
        self.due.push_back(DueRequest::Ask { type_url: type_url.clone(), repeat: true });
    }

    /// A stream was opened.
    pub fn open(&mut self) {
        self.stream = Some(StreamState::default());
        self.due.clear();
        for (type_url, topic) in &mut self.subscriptions {
            topic.open(self.quirks.blank);
            self.due.push_back(DueRequest::Ask { type_url: type_url.clone(), repeat: false });
        }
    }

    /// The stream ended.
    pub fn lose(&mut self) {
        self.stream = None;
        self.due.clear();
    }

    /// Whether there is a stream.
    pub fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Takes a response: all of it, or with one bad resource nothing.
    ///
    /// # Errors
    /// When no correct server sends such a response here.
    pub fn receive(&mut self, now: Time, response: &Response) -> Result<(), Fault> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        stream.shape.fault(response).map_or(Ok(()), |fault| Err(Fault(fault)))?;
        let short = response.type_url.short();
        if response.variant != self.variant {
            return Err(Fault(format!("a {short} response is of the other variant")));
        }
        let asked = self
            .subscriptions
            .get_mut(&response.type_url)
            .filter(|topic| topic.sent_interest.is_some());
        let Some(topic) = asked else {
            return Err(Fault(format!("{short} was never asked for (T-21)")));
        };
        topic.check(response)?;
        let error = rejection(self.judge, response)?;
        topic.record_received(response);
        if error.is_none() {
            match self.variant {
                Variant::Sotw => topic.apply_sotw(now, response),
                Variant::Delta => topic.apply_delta(now, response),
            }
        }
        let answer = ResponseAnswer { nonce: Arc::clone(&response.nonce), error };
        self.due.push_back(DueRequest::Answer { type_url: response.type_url.clone(), answer });
        Ok(())
    }

    /// The next request, if one is due and there is a stream.
    pub fn poll(&mut self) -> Option<Request> {
        self.stream.as_ref()?;
        while let Some(due) = self.due.pop_front() {
            if let Some(request) = self.request(due) {
                return Some(self.introduced(request));
            }
        }
        None
    }

    /// Drops what has not been refreshed in time (S-086).
    pub fn expire(&mut self, now: Time) {
        for topic in self.subscriptions.values_mut() {
            topic.held.retain(|_, holding| holding.expires.is_none_or(|expires| expires > now));
        }
    }

    /// When something expires next.
    pub fn expiry(&self) -> Option<Time> {
        let held = self.subscriptions.values().flat_map(|topic| topic.held.values());
        held.filter_map(|holding| holding.expires).min()
    }

    /// What the client holds of one type, by name.
    pub fn held(
        &self,
        type_url: &TypeUrl,
    ) -> impl Iterator<Item = (&Arc<str>, &HeldResource)> + use<'_> {
        self.subscriptions.get(type_url).into_iter().flat_map(|topic| topic.held.iter())
    }

    /// The types it ever wanted something of, in sending order.
    pub fn types(&self) -> impl Iterator<Item = &TypeUrl> {
        self.subscriptions.keys()
    }

    /// Whether a response of the type was rejected, and none accepted since.
    pub fn rejects(&self, type_url: &TypeUrl) -> bool {
        self.subscriptions.get(type_url).is_some_and(|topic| topic.rejects)
    }

    fn request(&mut self, due: DueRequest) -> Option<Request> {
        let (type_url, repeat, answer) = match due {
            DueRequest::Ask { type_url, repeat } => (type_url, repeat, None),
            DueRequest::Answer { type_url, answer } => (type_url, false, Some(answer)),
        };
        let topic = self.subscriptions.get_mut(&type_url)?;
        topic.drop_unasked();
        if answer.is_some() && self.quirks.forgetful && topic.forget_nonce() {
            return None;
        }
        match self.variant {
            Variant::Sotw => {
                let (request, more) =
                    topic.sotw_request(&type_url, repeat, answer, &self.quirks)?;
                if more {
                    self.due.push_front(DueRequest::Ask { type_url, repeat: false });
                }
                Some(Request::Sotw(request))
            }
            Variant::Delta => {
                let separate = self.quirks.separate && answer.is_some();
                if separate {
                    self.due
                        .push_front(DueRequest::Ask { type_url: type_url.clone(), repeat: false });
                }
                topic.delta_request(&type_url, answer, &self.quirks).map(Request::Delta)
            }
        }
    }

    /// The first request of a stream says who is asking.
    fn introduced(&mut self, mut request: Request) -> Request {
        let Some(stream) = &mut self.stream else { return request };
        if !std::mem::replace(&mut stream.introduced, true) {
            let node = Some(Arc::clone(&self.node));
            match &mut request {
                Request::Sotw(request) => request.node = node,
                Request::Delta(request) => request.node = node,
            }
        }
        request
    }
}

/// Why the response is rejected, if it is.
fn rejection(judge: Judge, response: &Response) -> Result<Option<ErrorDetail>, Fault> {
    let mut bad = Vec::new();
    for entry in response.entries.iter().filter(|entry| !entry.heartbeat) {
        let Some(resource) = &entry.resource else { continue };
        match judge(&response.type_url, resource) {
            Verdict::Good => {}
            Verdict::Bad(why) => bad.push(format!("`{}`: {why}", entry.name)),
            Verdict::Foreign => {
                let (name, short) = (&entry.name, response.type_url.short());
                return Err(Fault(format!(
                    "`{name}` in a {short} response is not {short} (S-008)"
                )));
            }
        }
    }
    let rejected = !bad.is_empty();
    Ok(rejected.then(|| ErrorDetail { code: 3, message: bad.join("; ") }))
}
