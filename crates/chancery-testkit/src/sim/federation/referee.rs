//! The rules that must hold all the way, whatever happens: seen from the wire and from the
//! watchers.
//!
//! - A watcher hears of no value that the server it is said to be from did not send.
//! - A version is claimed to no server but the one that gave it, and for all that it stands for.
//! - A server is given up when it is in trouble, and only for the next one (C-087, C-090).
//! - A server that fails is not hammered (C-069).
//! - Each response is answered once, in turn, and with the right verdict (C-062, C-063).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::client::{
    self, AuthorityKey, ErrorKind, Event, Machine, ServerId, StreamId, WatchEvent,
};
use chancery_core::server::Response;
use chancery_core::{Request, Resource, Time, TypeUrl, Variant};

use super::audience::SimulatedWatch;
use super::plan::FederationPlan;

/// All that was seen so far.
#[derive(Debug, Default)]
pub(super) struct Referee {
    /// The bodies that servers sent, by server, type and name.
    sent: BTreeMap<(ServerId, TypeUrl, Arc<str>), Sent>,
    /// The same of an earlier run.
    left: BTreeMap<(ServerId, TypeUrl, Arc<str>), Sent>,
    /// The versions of whole responses.
    versions: BTreeSet<(ServerId, TypeUrl, Arc<str>)>,
    believed: BTreeMap<AuthorityKey, ServerId>,
    /// Streams that ended unheard, and were not heard since.
    troubled: BTreeSet<StreamId>,
    /// Types that were asked for on streams that are open, and under `None` who asks.
    asked: BTreeSet<(StreamId, Option<TypeUrl>)>,
    attempts: BTreeMap<StreamId, VecDeque<Time>>,
    /// Responses that were read and not answered.
    unanswered: BTreeMap<(StreamId, TypeUrl), VecDeque<ExpectedAnswer>>,
    /// The version that each server knows to be accepted.
    accepted: BTreeMap<(ServerId, TypeUrl), Arc<str>>,
}

/// The thing that the answer to a response has to say.
#[derive(Debug)]
struct ExpectedAnswer {
    nonce: Arc<str>,
    version: Arc<str>,
    is_bad: bool,
}

#[derive(Debug, Default)]
struct Sent {
    bodies: BTreeSet<Bytes>,
    versions: BTreeSet<String>,
}

impl Referee {
    /// The server that each authority believes.
    pub(super) fn believed(&self, plan: &FederationPlan, key: &AuthorityKey) -> ServerId {
        let first = plan.authority(key).servers[0];
        self.believed.get(key).copied().unwrap_or(first)
    }

    /// Nothing is watched under an authority any more.
    pub(super) fn deserted(&mut self, key: &AuthorityKey) {
        self.believed.remove(key);
    }

    /// Returns true if a server ever sent this.
    pub(super) fn was_sent(
        &self,
        server: ServerId,
        type_url: &TypeUrl,
        name: &str,
        body: &Bytes,
    ) -> bool {
        let sent = self.sent.get(&(server, type_url.clone(), name.into()));
        sent.is_some_and(|sent| sent.bodies.contains(body))
    }

    /// A server sent this in an earlier run.
    pub(super) fn left(&mut self, server: ServerId, type_url: &TypeUrl, resource: &Resource) {
        let key = (server, type_url.clone(), resource.name().shared());
        let left = self.left.entry(key).or_default();
        left.bodies.insert(resource.body().clone());
        left.versions.insert(resource.version().to_string());
    }

    /// A stream is to be opened.
    pub(super) fn opens(&mut self, now: Time, stream: &StreamId) -> Result<(), String> {
        let attempts = self.attempts.entry(stream.clone()).or_default();
        attempts.retain(|at| *at + MINUTE > now);
        attempts.push_back(now);
        if attempts.len() > ATTEMPTS {
            return Err(format!("{} attempts in a minute (C-069)", attempts.len()));
        }
        Ok(())
    }

    /// The client let a stream go.
    pub(super) fn closed(&mut self, stream: &StreamId) {
        self.troubled.remove(stream);
        self.asked.retain(|(id, _)| id != stream);
        self.unanswered.retain(|(id, _), _| id != stream);
    }

    pub(super) fn stream_ended(&mut self, stream: &StreamId, heard: bool) {
        self.closed(stream);
        if !heard {
            self.troubled.insert(stream.clone());
        }
    }

    /// The client read a response.
    pub(super) fn response_read(&mut self, stream: &StreamId, reply: &client::Response) {
        self.troubled.remove(stream);
        let (id, url) = (stream.clone(), reply.type_url.clone());
        if !self.asked.contains(&(id.clone(), Some(url.clone()))) {
            return; // C-035
        }
        let is_bad = reply.resources.iter().any(Result::is_err);
        let accepted = self.accepted.entry((id.server, url.clone())).or_default();
        if !is_bad {
            *accepted = Arc::clone(&reply.version);
        }
        let (nonce, version) = (Arc::clone(&reply.nonce), Arc::clone(accepted));
        let verdict = ExpectedAnswer { nonce, version, is_bad };
        self.unanswered.entry((id, url)).or_default().push_back(verdict);
    }

    /// C-062, C-063: what is said of a type while responses are not answered answers the oldest.
    fn answers(&mut self, stream: &StreamId, request: &Request) -> Result<(), String> {
        let key = (stream.clone(), TypeUrl::new(request.type_url()));
        let owed = self.unanswered.get_mut(&key).and_then(VecDeque::pop_front);
        let Some(owed) = owed else {
            return match request.error() {
                Some(_) => Err("nothing was said that could be rejected (C-062)".to_owned()),
                None => Ok(()),
            };
        };
        let version = match request {
            Request::Sotw(it) => &*it.version,
            Request::Delta(_) => &*owed.version,
        };
        if *request.nonce() == *owed.nonce
            && request.error().is_some() == owed.is_bad
            && *version == *owed.version
        {
            return Ok(());
        }
        Err(format!("the answer has to be that to {owed:?} (C-062, C-063)"))
    }

    /// Nothing is left to be answered.
    pub(super) fn is_answered(&self) -> Result<(), String> {
        match self.unanswered.iter().find(|(_, owed)| !owed.is_empty()) {
            Some(((stream, url), owed)) => {
                Err(format!("{} of {stream:?} is not answered: {owed:?} (C-062)", url.short()))
            }
            None => Ok(()),
        }
    }

    /// A server sent something.
    pub(super) fn sent(&mut self, server: ServerId, response: &Response) {
        let (url, version) = (&response.type_url, &response.version);
        self.versions.insert((server, url.clone(), Arc::clone(version)));
        for entry in response.entries.iter().filter(|entry| !entry.heartbeat) {
            let Some(resource) = &entry.resource else { continue };
            let sent = self.sent.entry((server, url.clone(), Arc::clone(&entry.name))).or_default();
            sent.bodies.insert(resource.body().clone());
            sent.versions.insert(resource.version().to_string());
        }
    }

    /// The client says something.
    pub(super) fn asks(
        &mut self,
        plan: &FederationPlan,
        client: &Machine,
        stream: &StreamId,
        request: &Request,
    ) -> Result<(), String> {
        let is_first = self.asked.insert((stream.clone(), None));
        if is_first != request.node().is_some() {
            return Err("only the first request says who asks (C-030)".to_owned());
        }
        self.answers(stream, request)?;
        let type_url = TypeUrl::new(request.type_url());
        let is_first = self.asked.insert((stream.clone(), Some(type_url.clone())));
        match request {
            Request::Sotw(it) if is_first && !it.version.is_empty() => {
                self.claims(plan, client, stream.server, &type_url, &it.version)
            }
            Request::Sotw(_) => Ok(()),
            Request::Delta(it) => {
                if !is_first && !it.initial_versions.is_empty() {
                    return Err("versions are claimed late (C-040)".to_owned());
                }
                // No version at all is that of no resource.
                let mut claimed = it.initial_versions.iter().filter(|(_, it)| !it.is_empty());
                let wrong = claimed.find(|(name, version)| {
                    let key = (stream.server, type_url.clone(), (*name).into());
                    let mut known =
                        [self.sent.get(&key), self.left.get(&key)].into_iter().flatten();
                    !known.any(|sent| sent.versions.contains(*version))
                });
                wrong.map_or(Ok(()), |(name, version)| {
                    Err(format!("`{name}` is claimed at {version}, which was never sent (C-040)"))
                })
            }
        }
    }

    /// C-031: a version says what is held, so nothing may be held that is from another server.
    fn claims(
        &self,
        plan: &FederationPlan,
        client: &Machine,
        server: ServerId,
        type_url: &TypeUrl,
        version: &Arc<str>,
    ) -> Result<(), String> {
        if !self.versions.contains(&(server, type_url.clone(), Arc::clone(version))) {
            return Err(format!("version {version} is claimed, which was never sent (C-031)"));
        }
        let of_type = client.resources().filter(|one| one.type_url == type_url);
        for one in of_type.filter(|one| self.is_asked(plan, one.authority, server)) {
            if one.cached.is_some_and(|held| held.server != server) {
                let name = one.name;
                return Err(format!("a version is claimed, and `{name}` is not of it (C-031)"));
            }
        }
        Ok(())
    }

    /// Returns true if an authority asks a server.
    pub(super) fn is_asked(
        &self,
        plan: &FederationPlan,
        key: &AuthorityKey,
        server: ServerId,
    ) -> bool {
        let (servers, believed) = (&plan.authority(key).servers, self.believed(plan, key));
        let asked = servers.iter().take_while(|one| **one != believed);
        asked.chain([&believed]).any(|one| *one == server)
    }

    /// Judges what the client did.
    pub(super) fn happened(&mut self, plan: &FederationPlan, event: &Event) -> Result<(), String> {
        match event {
            Event::FellBack { authority, server } => {
                let before = self.believed(plan, authority);
                let mut after = plan.authority(authority).servers.iter();
                if after.find(|one| **one == before).and_then(|_| after.next()) != Some(server) {
                    return Err(format!("{authority} falls back to another than the next (C-087)"));
                }
                if !self.troubled.iter().any(|stream| stream.server == before) {
                    return Err(format!("{authority} gives a server up that is there (C-087)"));
                }
                self.believed.insert(authority.clone(), *server);
            }
            Event::Reverted { authority, server } => {
                let before = self.believed(plan, authority);
                if before == *server || !self.is_asked(plan, authority, *server) {
                    return Err(format!("{authority} comes back to no better server (C-089)"));
                }
                self.believed.insert(authority.clone(), *server);
            }
            _ => {}
        }
        Ok(())
    }

    /// Judges what a watcher was told.
    pub(super) fn judge_event(
        &self,
        plan: &FederationPlan,
        watch: &SimulatedWatch,
        event: &WatchEvent,
    ) -> Result<(), String> {
        match event {
            WatchEvent::Changed { name, value: Ok(held) } => {
                let (body, server) = (held.resource.body(), held.server);
                if !watch.covers(name) {
                    return Err(format!("`{name}` is not what is watched"));
                }
                if !plan.authority(&watch.authority).servers.contains(&server) {
                    return Err(format!("`{name}` is from a server of another authority (C-078)"));
                }
                let left = self.left.get(&(server, watch.type_url.clone(), Arc::clone(name)));
                let was_left = left.is_some_and(|left| left.bodies.contains(body));
                if !was_left && !self.was_sent(server, &watch.type_url, name, body) {
                    return Err(format!("`{name}` was never sent like that"));
                }
                Ok(())
            }
            WatchEvent::Changed { name, value: Err(error) }
                if error.kind == ErrorKind::Unreachable =>
            {
                // C-090
                let last = plan.authority(&watch.authority).servers.last().copied();
                if error.server != last {
                    return Err(format!("`{name}` hears of trouble while there is another server"));
                }
                Ok(())
            }
            WatchEvent::Changed { .. }
            | WatchEvent::Ambient { .. }
            | WatchEvent::Complete
            | WatchEvent::Failed { .. } => Ok(()),
        }
    }
}

/// A request, for people.
pub(super) fn request_line(request: &Request) -> String {
    let short = TypeUrl::new(request.type_url()).short().to_owned();
    let error = request.error().map(|error| format!(" error={}", error.message));
    let says = match request {
        Request::Sotw(it) => {
            let names: Vec<_> = it.names.iter().collect();
            format!("[{}] v={:.4}", names.join(" "), it.version)
        }
        Request::Delta(it) => {
            let more: Vec<_> = it.subscribe.iter().collect();
            let less: Vec<_> = it.unsubscribe.iter().collect();
            let held = it.initial_versions.iter().map(|(name, it)| format!("{name}:{it:.4}"));
            let held: Vec<_> = held.collect();
            format!("+[{}] -[{}] init=[{}]", more.join(" "), less.join(" "), held.join(" "))
        }
    };
    format!("{short} {says} n={}{}", request.nonce(), error.unwrap_or_default())
}

/// A response, for people.
pub(super) fn response_line(response: &Response) -> String {
    let entries = response.entries.iter().map(|entry| match &entry.resource {
        Some(_) if entry.heartbeat => format!("({})", entry.name),
        Some(resource) => format!("{{{}}}", String::from_utf8_lossy(resource.body())),
        None => format!("{}?", entry.name),
    });
    let entries: Vec<_> = entries.collect();
    let errors: Vec<_> = response.errors.iter().map(|error| format!("!{}", error.name)).collect();
    let removed = match response.variant {
        Variant::Delta => format!(" -[{}]", response.removed.join(" ")),
        Variant::Sotw => String::new(),
    };
    let (short, version, nonce) = (response.type_url.short(), &response.version, &response.nonce);
    format!("{short} v={version:.4} n={nonce} {}{removed} {}", entries.join(" "), errors.join(" "))
}

const MINUTE: Duration = Duration::from_secs(60);

/// A stream that was opened for good may be opened again after a second.
const ATTEMPTS: usize = 80;
