//! The playing of a client's script: one client, its clock, and the transcript.
//!
//! Each line is one input; all that the client then does is written down, and the caller compares
//! it with the script. Not here: the form of the lines (`line`), the comparison (`watching`), and
//! the scripts of a server (`script::conversation`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_core::client::{
    AuthorityKey, CachedResource, Effect, ErrorKind, Fallback, Input, Machine, Protocol, RateLimit,
    ServerFeatures, ServerId, ServerKey, Settings, Setup, StreamId, WatchEvent, WatchId,
};
use chancery_core::{ErrorDetail, Node, Request, Scope, Time, TypeUrl, Variant};

use super::line::{Line, Place};
use crate::script::duration::duration;
use crate::script::render;

pub(super) struct Life {
    client: Machine,
    servers: BTreeMap<String, ServerId>,
    watches: BTreeMap<WatchId, ScriptWatch>,
    /// Streams that may have something to say, while the wire is busy.
    unsaid: BTreeSet<StreamId>,
    now: Time,
    text: String,
}

struct ScriptWatch {
    name: String,
    slow: bool,
}

impl Life {
    /// A client with all that the settings of the script say.
    pub(super) fn new(lines: &[Line]) -> Self {
        let mut settings = Settings { jitter: 0.0, ..Settings::default() };
        for line in lines {
            if let Line::Setting { key, value } = line {
                apply_setting(&mut settings, key, value);
            }
        }
        let node = Node { id: "node".to_owned(), ..Node::default() };
        let mut setup = Setup::new(Arc::new(node), settings);
        let mut servers = BTreeMap::new();
        let mut order = Vec::new();
        for line in lines {
            if let Line::Server { name, words } = line {
                let id = server(&mut setup, name, words);
                servers.insert(name.clone(), id);
                order.push(id);
            }
        }
        setup.authority(AuthorityKey::Old, order, Fallback::Needed);
        for line in lines {
            if let Line::Authority { name, words } = line {
                let key = match name.as_str() {
                    "#old" => AuthorityKey::Old,
                    "''" => AuthorityKey::Named("".into()),
                    name => AuthorityKey::Named(name.into()),
                };
                let chain = words.iter().filter_map(|word| servers.get(word).copied()).collect();
                let reachability = words.iter().any(|word| word == "reachability");
                let fallback = if reachability { Fallback::Reachability } else { Fallback::Needed };
                setup.authority(key, chain, fallback);
            }
        }
        Self {
            client: Machine::new(setup),
            servers,
            watches: BTreeMap::new(),
            unsaid: BTreeSet::new(),
            now: Time::default(),
            text: String::new(),
        }
    }

    /// Plays one line and writes down what comes of it.
    pub(super) fn play(&mut self, text: &str, line: Line) -> Result<(), String> {
        self.note(&render::spaced(text));
        match line {
            Line::Server { .. } | Line::Authority { .. } | Line::Setting { .. } => {}
            Line::Watch { name, type_url, resource, slow } => {
                let id = self.client.watch(self.now, &type_url, &resource);
                self.watches.insert(id, ScriptWatch { name, slow });
            }
            Line::Unwatch(name) => {
                let id = self.watch(&name)?;
                self.client.unwatch(self.now, id);
                self.watches.remove(&id);
            }
            Line::Take(name) => {
                let id = self.watch(&name)?;
                self.take(id);
            }
            Line::Opened(place) => {
                let stream = self.stream(&place)?;
                self.client.handle(self.now, Input::Opened(stream));
            }
            Line::Ended(place, error) => {
                let stream = self.stream(&place)?;
                self.client.handle(self.now, Input::Ended(stream, error));
            }
            Line::Unchanged(place) => {
                let stream = self.stream(&place)?;
                self.client.handle(self.now, Input::Unchanged(stream));
            }
            Line::Unusable(place, why) => {
                let stream = self.stream(&place)?;
                let input = Input::Unusable(stream, ErrorKind::Rejected, why);
                self.client.handle(self.now, input);
            }
            Line::Restored { type_url, resource } => {
                let server = self.servers.values().next().copied().ok_or("there is no server")?;
                let version = resource.version().to_string().into();
                let resource = Arc::new(resource);
                let (at, expires) = (self.now, None);
                let held = CachedResource {
                    resource,
                    decoded: None,
                    version,
                    last_updated: at,
                    server,
                    expires,
                };
                self.client.restore(type_url, held);
            }
            Line::Said { server, reply } => self.receive_response(&server, reply)?,
            Line::Wait(time) => self.pass_time_until(self.now + time),
        }
        let busy = text.starts_with('|');
        if !busy {
            std::mem::take(&mut self.unsaid).iter().for_each(|stream| self.send(stream));
        }
        self.drain(busy);
        Ok(())
    }

    /// The whole transcript.
    pub(super) fn finish(self) -> String {
        self.text
    }

    fn receive_response(&mut self, server: &str, said: super::line::Said) -> Result<(), String> {
        let place = Place { server: server.to_owned(), scope: Scope::Aggregated };
        let mut stream = self.stream(&place)?;
        let protocol = self.client.setup().find(stream.server).map(|server| server.protocol);
        let protocol = protocol.ok_or("no such server")?;
        let reply = said.reply(protocol.variant());
        stream.scope = protocol.scope_of(&reply.type_url);
        if !self.client.may_read(&stream) {
            return Err("the stream waits for a slow watcher".to_owned());
        }
        self.client.handle(self.now, Input::Received(stream, reply));
        Ok(())
    }

    fn pass_time_until(&mut self, end: Time) {
        while let Some(at) = self.client.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.client.handle(self.now, Input::TimePassed);
            self.drain(false);
        }
        self.now = end;
    }

    /// Does what the client wants; unless the wire is `busy`, that is also to say something.
    fn drain(&mut self, busy: bool) {
        while let Some(effect) = self.client.poll() {
            match effect {
                Effect::Open(stream) => self.note(&format!("< {} open", self.label(&stream))),
                Effect::Close(stream) => self.note(&format!("< {} close", self.label(&stream))),
                Effect::Send(stream) if busy => {
                    self.unsaid.insert(stream);
                }
                Effect::Send(stream) => self.send(&stream),
                Effect::Notify(watch) => {
                    if self.watches.get(&watch).is_some_and(|watch| !watch.slow) {
                        self.take(watch);
                    }
                }
                Effect::Read(stream) => {
                    if self.watches.values().any(|watch| watch.slow) {
                        self.note(&format!("! {} reads", self.label(&stream)));
                    }
                }
            }
        }
    }

    fn send(&mut self, stream: &StreamId) {
        while let Some(request) = self.client.request(self.now, stream) {
            let server = self.label(&StreamId { server: stream.server, scope: Scope::Aggregated });
            self.note(&format!("< {server} {}", request_text(&request)));
        }
    }

    /// Whoever was told nothing has nothing to apply.
    fn take(&mut self, id: WatchId) {
        let mut told = false;
        while let Some(event) = self.client.event(id) {
            told = true;
            let name = self.watches.get(&id).map(|watch| watch.name.clone()).unwrap_or_default();
            self.note(&format!("! {name} {}", event_text(&event)));
        }
        if told {
            self.client.applied(id);
        }
    }

    fn watch(&self, name: &str) -> Result<WatchId, String> {
        let found = self.watches.iter().find(|(_, watch)| watch.name == name);
        found.map(|(id, _)| *id).ok_or_else(|| format!("nobody watches as `{name}`"))
    }

    fn stream(&self, place: &Place) -> Result<StreamId, String> {
        let server = self.servers.get(&place.server).copied();
        let server = server.ok_or_else(|| format!("there is no server `{}`", place.server))?;
        Ok(StreamId { server, scope: place.scope.clone() })
    }

    fn label(&self, stream: &StreamId) -> String {
        let name = self.servers.iter().find(|(_, id)| **id == stream.server);
        let name = name.map(|(name, _)| name.as_str()).unwrap_or_default();
        match &stream.scope {
            Scope::Only(type_url) => format!("{name}/{}", type_url.short()),
            Scope::Aggregated => name.to_owned(),
        }
    }

    fn note(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

fn server(setup: &mut Setup, name: &str, words: &[String]) -> ServerId {
    let has = |word: &str| words.iter().any(|one| one == word);
    let features = ServerFeatures {
        fail_on_data_errors: has("fail_on_data_errors"),
        resource_timer_is_transient_error: has("resource_timer_is_transient_error"),
        trusted: false,
    };
    let key = ServerKey { uri: name.into(), credentials: "insecure".into(), features };
    let variant = if has("delta") { Variant::Delta } else { Variant::Sotw };
    let refresh = words.iter().find_map(|word| word.strip_prefix("refresh="));
    let protocol = match refresh.and_then(|time| duration(time).ok()) {
        Some(refresh) => Protocol::Poll { refresh },
        None => Protocol::Stream { variant, aggregated: !has("per-type") },
    };
    setup.server(key, protocol)
}

fn apply_setting(settings: &mut Settings, key: &str, value: &str) {
    let time = || duration(value).unwrap_or_default();
    match key {
        "missing_after" => settings.missing_after = time(),
        "timeout_after" => settings.timeout_after = time(),
        "idle" => settings.idle = time(),
        "patience" => settings.patience = time(),
        "backoff" => settings.backoff = time(),
        "backoff_max" => settings.backoff_max = time(),
        "burst" => limit(settings).burst = value.parse().unwrap_or(1),
        "interval" => limit(settings).interval = time(),
        "factor" => settings.backoff_factor = value.parse().unwrap_or(1.0),
        _ => panic!("`{key}` is no setting"),
    }
}

fn limit(settings: &mut Settings) -> &mut RateLimit {
    settings.rate_limit.get_or_insert_default()
}

/// Returns a request as the text of a script.
fn request_text(request: &Request) -> String {
    let mut words = vec![TypeUrl::new(request.type_url()).short().to_owned()];
    match request {
        Request::Sotw(request) => {
            words.extend(request.names.iter().map(str::to_owned));
            if !request.version.is_empty() {
                words.push(format!("v={}", request.version));
            }
        }
        Request::Delta(request) => {
            words.extend(request.subscribe.iter().map(|name| format!("+{name}")));
            words.extend(request.unsubscribe.iter().map(|name| format!("-{name}")));
            let versions = request.initial_versions.iter();
            words.extend(versions.map(|(name, version)| format!("init={name}:{version}")));
        }
    }
    if !request.nonce().is_empty() {
        words.push(format!("n={}", request.nonce()));
    }
    if request.node().is_some() {
        words.push("node".to_owned());
    }
    if let Some(ErrorDetail { message, .. }) = request.error() {
        words.push(format!("error={message}"));
    }
    words.join(" ")
}

/// Returns an event of a watcher as the text of a script.
fn event_text(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Changed { name, value: Ok(held) } => {
            format!("{name}@{}", String::from_utf8_lossy(held.resource.body()))
        }
        WatchEvent::Changed { name, value: Err(error) } => {
            format!("{name} none {}", kind(error.kind))
        }
        WatchEvent::Ambient { name, error: Some(error) } => {
            format!("{name} but {}", kind(error.kind))
        }
        WatchEvent::Ambient { name, error: None } => format!("{name} fine"),
        WatchEvent::Complete => "complete".to_owned(),
        WatchEvent::Failed { error } => format!("- none {}", kind(error.kind)),
    }
}

fn kind(kind: ErrorKind) -> String {
    match kind {
        ErrorKind::Refused(code) => ErrorDetail::name_of(code).unwrap_or("refused").to_owned(),
        kind => format!("{kind:?}").to_lowercase(),
    }
}
