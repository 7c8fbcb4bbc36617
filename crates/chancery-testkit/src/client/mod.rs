//! Reference clients: all types of one stream, SotW or delta, as values without I/O.
//!
//! ```text
//!    want, ask_again                         receive
//!          |                                    |
//!          v                                    v
//!   +----------------------- Client -----------------------+
//!   | per type: interest, interest sent, resources held    |
//!   +------------------------------------------------------+
//!          |
//!          v   poll: requests and answers, one response one answer
//! ```
//!
//! The client is simple on purpose. It does what the protocol asks of clients and nothing more, so
//! that the resources it holds in the end are those that a correct server sent. It rejects a response
//! with one bad resource as a whole and keeps the resources it has. It drops a resource when the
//! request that unsubscribes from it leaves, because only then can the server know.
//!
//! It also checks the server: [`Client::receive`] returns a [`Fault`] for each response that no
//! correct server sends, whatever the timing. Rules that depend on what the server knew when it sent
//! the response are not here. The referee of [`crate::sim`] checks them at the server's end.

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
use sotw::NextRequest;
pub use subscription::HeldResource;
use subscription::Subscription;

/// The error for a response that no correct server sends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server broke the protocol: {0}")]
pub struct Fault(pub String);

/// The client's verdict on one body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The body can be used.
    Good,
    /// The body cannot be used: the whole response is rejected, with this text.
    Bad(String),
    /// The body is not of the type that the response states (S-008).
    Foreign,
}

/// The function by which a client judges bodies.
pub type Judge = fn(&TypeUrl, &Resource) -> Verdict;

/// Differences between real clients, some of which are mistakes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quirks {
    /// Says `*` where an empty first request would mean the same (S-049).
    pub star: bool,
    /// The first request of a type on a stream carries the nonce of the stream before (T-02).
    pub foreign_nonce: bool,
    /// Does not answer, and forgets the nonce, once the last name of a type is dropped (T-03).
    pub forgetful: bool,
    /// Forgets all resources and versions before each stream (S-077).
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

/// The state of one stream, which is dropped with it.
#[derive(Clone, Debug, Default)]
struct StreamState {
    introduced: bool,
    rules: ResponseRules,
}

/// A request the client owes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum DueRequest {
    /// The subscription changed, or is repeated.
    Ask { type_url: TypeUrl, repeat: bool },
    /// A response has to be answered.
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

    /// The variant of the protocol that the client speaks.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// Changes what the client wants of one type.
    pub fn want(&mut self, type_url: &TypeUrl, interest: Interest) {
        let subscription = self.subscriptions.entry(type_url.clone()).or_default();
        if subscription.interest != interest {
            subscription.interest = interest;
            self.due.push_back(DueRequest::Ask { type_url: type_url.clone(), repeat: false });
        }
    }

    /// The interest of the client in one type.
    pub fn interest(&self, type_url: &TypeUrl) -> Interest {
        self.subscriptions
            .get(type_url)
            .map(|subscription| subscription.interest.clone())
            .unwrap_or_default()
    }

    /// Repeats the last subscription. In delta, the client has dropped `name` and subscribes to it
    /// again (S-075).
    pub fn ask_again(&mut self, type_url: &TypeUrl, name: &Arc<str>) {
        let Some(subscription) = self.subscriptions.get_mut(type_url) else { return };
        if self.variant == Variant::Delta && subscription.interest.names.contains(name) {
            subscription.resubscribe.insert(Arc::clone(name));
        }
        self.due.push_back(DueRequest::Ask { type_url: type_url.clone(), repeat: true });
    }

    /// Takes in that a stream was opened.
    pub fn open(&mut self) {
        self.stream = Some(StreamState::default());
        self.due.clear();
        for (type_url, subscription) in &mut self.subscriptions {
            subscription.open(self.quirks.blank);
            self.due.push_back(DueRequest::Ask { type_url: type_url.clone(), repeat: false });
        }
    }

    /// Takes in that the stream ended.
    pub fn lose(&mut self) {
        self.stream = None;
        self.due.clear();
    }

    /// Returns true if there is a stream.
    pub fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Takes a response. It is applied as a whole, or not at all if one resource is bad.
    ///
    /// # Errors
    /// Returns a fault if no correct server sends such a response at this point.
    pub fn receive(&mut self, now: Time, response: &Response) -> Result<(), Fault> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        stream.rules.fault(response).map_or(Ok(()), |fault| Err(Fault(fault)))?;
        let short = response.type_url.short();
        if response.variant != self.variant {
            return Err(Fault(format!("a {short} response is of the other variant")));
        }
        let asked = self
            .subscriptions
            .get_mut(&response.type_url)
            .filter(|subscription| subscription.sent_interest.is_some());
        let Some(subscription) = asked else {
            return Err(Fault(format!("{short} was never asked for (T-21)")));
        };
        subscription.check(response)?;
        let error = rejection(self.judge, response)?;
        subscription.record_received(response);
        if error.is_none() {
            match self.variant {
                Variant::Sotw => subscription.apply_sotw(now, response),
                Variant::Delta => subscription.apply_delta(now, response),
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

    /// Drops the resources whose TTL has passed (S-086).
    pub fn expire(&mut self, now: Time) {
        for subscription in self.subscriptions.values_mut() {
            subscription
                .held
                .retain(|_, holding| holding.expires.is_none_or(|expires| expires > now));
        }
    }

    /// The time at which the next resource expires.
    pub fn expiry(&self) -> Option<Time> {
        let held = self.subscriptions.values().flat_map(|subscription| subscription.held.values());
        held.filter_map(|holding| holding.expires).min()
    }

    /// The resources of one type that the client holds, by name.
    pub fn held(
        &self,
        type_url: &TypeUrl,
    ) -> impl Iterator<Item = (&Arc<str>, &HeldResource)> + use<'_> {
        self.subscriptions
            .get(type_url)
            .into_iter()
            .flat_map(|subscription| subscription.held.iter())
    }

    /// The types that the client was ever interested in, in sending order.
    pub fn types(&self) -> impl Iterator<Item = &TypeUrl> {
        self.subscriptions.keys()
    }

    /// Returns true if the last response of the type was rejected.
    pub fn rejects(&self, type_url: &TypeUrl) -> bool {
        self.subscriptions.get(type_url).is_some_and(|subscription| subscription.rejects)
    }

    fn request(&mut self, due: DueRequest) -> Option<Request> {
        let (type_url, repeat, answer) = match due {
            DueRequest::Ask { type_url, repeat } => (type_url, repeat, None),
            DueRequest::Answer { type_url, answer } => (type_url, false, Some(answer)),
        };
        let subscription = self.subscriptions.get_mut(&type_url)?;
        subscription.drop_unasked();
        if answer.is_some() && self.quirks.forgetful && subscription.forget_nonce() {
            return None;
        }
        match self.variant {
            Variant::Sotw => {
                let next = subscription.sotw_request(&type_url, repeat, answer, &self.quirks)?;
                let request = match next {
                    NextRequest::Whole(request) => request,
                    NextRequest::Halfway(request) => {
                        self.due.push_front(DueRequest::Ask { type_url, repeat: false });
                        request
                    }
                };
                Some(Request::Sotw(request))
            }
            Variant::Delta => {
                let separate = self.quirks.separate && answer.is_some();
                if separate {
                    self.due
                        .push_front(DueRequest::Ask { type_url: type_url.clone(), repeat: false });
                }
                subscription.delta_request(&type_url, answer, &self.quirks).map(Request::Delta)
            }
        }
    }

    /// Adds the node to the first request of a stream.
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

/// The error with which the client rejects the response; `None` if it accepts it.
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
