//! One client and its stream to a server, if it has one: two machines and the wire between them.
//!
//! It also checks what can be seen from both ends: that nothing waits without need, and that
//! Envoy's traffic finds its clusters. Not here: the rules at the server's end (`referee`), the
//! delays of the wire (`lane`), and the history (`fleet`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::server::{Event, Input, Response, Settings};
use chancery_core::{Request, Scope, Snapshot, Time, TypeUrl, Variant};

use super::lane::Lane;
use super::profile::{Profile, SubscriptionStyle};
use super::referee::{Referee, ResponseContent};
use super::rng::Rng;
use super::status_check;
use super::world::type_url;
use crate::client::{Client, Fault, Interest};
use crate::compared_machine::ComparedMachine;

/// A client, its stream and the server's end of it.
#[derive(Debug)]
pub(super) struct ClientConnection {
    label: String,
    profile: Arc<Profile>,
    pub(super) client: Client,
    stream: Option<SimulatedStream>,
    /// The snapshot that its server publishes.
    published: Arc<Snapshot>,
    /// The time from which the client takes responses off the wire.
    reads_from: Time,
    /// The beginning of the time in which the client did not read all that was sent.
    stalls_since: Time,
    /// True if the client had everything it should have at some time on this stream.
    steady: bool,
    pub(super) trace: Option<Vec<String>>,
    /// The number of responses on all streams so far, without those that only refresh TTLs.
    pub(super) responses: usize,
}

#[derive(Debug)]
struct SimulatedStream {
    server: ComparedMachine,
    referee: Referee,
    identified: bool,
    up: Lane<Request>,
    down: Lane<Response>,
}

impl ClientConnection {
    pub(super) fn new(
        label: String,
        profile: &Arc<Profile>,
        client: Client,
        published: Arc<Snapshot>,
    ) -> Self {
        Self {
            label,
            profile: Arc::clone(profile),
            client,
            stream: None,
            published,
            reads_from: Time::default(),
            stalls_since: Time::default(),
            steady: false,
            trace: None,
            responses: 0,
        }
    }

    /// Opens a stream to a server that publishes this snapshot.
    pub(super) fn open(&mut self, now: Time, published: &Arc<Snapshot>) {
        self.note(now, || "--- stream opened".to_owned());
        self.published = Arc::clone(published);
        let settings: Arc<Settings> = Arc::clone(&self.profile.settings);
        let features = self.profile.node.features();
        let variant = self.client.variant();
        self.stream = Some(SimulatedStream {
            server: ComparedMachine::new(variant, Scope::Aggregated, Arc::clone(&settings)),
            referee: Referee::new(now, variant, settings, features, Arc::clone(published)),
            identified: false,
            up: Lane::new(),
            down: Lane::new(),
        });
        self.steady = false;
        self.client.expire(now);
        self.client.open();
    }

    /// Loses the stream with all messages under way. The server's machine is dropped, and with it all
    /// memory of the stream (S-011).
    pub(super) fn cut(&mut self, now: Time) {
        if self.stream.take().is_some() {
            self.note(now, || "--- stream lost".to_owned());
        }
        self.client.lose();
    }

    pub(super) fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Makes the server of the client publish this snapshot.
    pub(super) fn publish(&mut self, now: Time, snapshot: &Arc<Snapshot>) -> Result<(), Fault> {
        self.published = Arc::clone(snapshot);
        match &self.stream {
            Some(stream) if stream.identified => self.give(now),
            _ => Ok(()),
        }
    }

    /// Makes the client take nothing off the wire for that time.
    pub(super) fn stall(&mut self, now: Time, time: Duration) {
        self.note(now, || format!("--- reads nothing for {time:?}"));
        if self.stream.as_ref().is_none_or(|stream| stream.down.is_empty()) {
            self.stalls_since = now;
        }
        self.reads_from = self.reads_from.max(now + time);
    }

    /// Runs both machines until nothing more can happen at this time.
    pub(super) fn run(&mut self, now: Time, rng: &mut Rng) -> Result<(), Fault> {
        let mut is_new = false;
        loop {
            let mut moved = self.client_sends(now, rng);
            moved |= self.server_receives(now)?;
            moved |= self.server_sends(now, rng)?;
            moved |= self.client_receives(now)?;
            moved |= self.subscribe_to_references();
            if !moved {
                if is_new {
                    self.check_status()?;
                }
                return self.check_waits(now);
            }
            is_new = true;
        }
    }

    /// The time at which something happens next by itself.
    pub(super) fn wake(&self, now: Time) -> Option<Time> {
        let stream = self.stream.as_ref();
        let arrival =
            stream.and_then(|stream| stream.down.arrival()).map(|at| at.max(self.reads_from));
        let deadline = stream.filter(|stream| stream.down.len() < self.profile.window);
        let times = [
            stream.and_then(|stream| stream.up.arrival()),
            arrival,
            deadline.and_then(|stream| stream.server.deadline()),
            self.client.expiry(),
        ];
        times.into_iter().flatten().min().map(|at| at.max(now))
    }

    fn client_sends(&mut self, now: Time, rng: &mut Rng) -> bool {
        self.client.expire(now);
        let Some(request) = self.client.poll() else { return false };
        self.note(now, || format!("  > {}", request_line(&request)));
        let delay = self.profile.delay(rng);
        if let Some(stream) = &mut self.stream {
            stream.up.send(now, delay, request);
        }
        true
    }

    fn server_receives(&mut self, now: Time) -> Result<bool, Fault> {
        let Some(stream) = &mut self.stream else { return Ok(false) };
        let Some(request) = stream.up.receive(now) else { return Ok(false) };
        if !stream.identified {
            // The server chooses a snapshot once it knows who asks.
            stream.referee.published(now, &self.published);
        }
        stream.referee.received(&request);
        let line = self.trace.as_ref().map(|_| request_line(&request));
        let events = stream.server.handle(now, Input::Request(request));
        let events =
            events.map_err(|violation| Fault(format!("the stream was closed: {violation}")))?;
        let identified =
            events.iter().any(|event| matches!(event, Event::Identified(_) | Event::Anonymous));
        if let Some(line) = line {
            self.note(now, || format!("  = {line}"));
        }
        if identified {
            self.give(now)?;
        }
        Ok(true)
    }

    fn give(&mut self, now: Time) -> Result<(), Fault> {
        let snapshot = Arc::clone(&self.published);
        self.note(now, || format!("  = snapshot {}", snapshot_line(&snapshot)));
        let Some(stream) = &mut self.stream else { return Ok(()) };
        stream.identified = true;
        stream.referee.published(now, &snapshot);
        let events = stream.server.handle(now, Input::Snapshot(snapshot));
        events.map(drop).map_err(|violation| Fault(format!("the stream was closed: {violation}")))
    }

    fn server_sends(&mut self, now: Time, rng: &mut Rng) -> Result<bool, Fault> {
        let delay = self.profile.delay(rng);
        let window = self.profile.window;
        let Some(stream) = self.stream.as_mut().filter(|stream| stream.down.len() < window) else {
            return Ok(false);
        };
        let response = stream.server.poll(now);
        if let Some(fault) = stream.server.fault() {
            return Err(Fault(fault.to_owned()));
        }
        let Some(response) = response else {
            let overdue = stream.server.deadline().filter(|deadline| *deadline <= now);
            return match overdue {
                Some(_) => {
                    Err(Fault("the deadline is past and there is nothing to send".to_owned()))
                }
                None => Ok(false),
            };
        };
        let verdict = stream.referee.sent(now, &response);
        let line = self.trace.as_ref().map(|_| response_line(&response));
        stream.down.send(now, delay, response.clone());
        if let Some(line) = line {
            self.note(now, || format!("< {line}"));
        }
        self.responses +=
            usize::from(verdict.as_ref().is_ok_and(|it| *it == ResponseContent::News));
        if self.responses > 20_000 {
            return Err(Fault("the server never stops sending".to_owned()));
        }
        verdict.map(|_| true)
    }

    fn client_receives(&mut self, now: Time) -> Result<bool, Fault> {
        let Some(stream) = &mut self.stream else { return Ok(false) };
        if now < self.reads_from {
            return Ok(false);
        }
        let Some(response) = stream.down.receive(now) else { return Ok(false) };
        if self.reads_from >= self.stalls_since + self.profile.settings.removal_wait {
            // A removal that has waited as long goes before the change that ends the use (S-098).
            self.steady = false;
        }
        if stream.down.is_empty() {
            self.stalls_since = self.reads_from;
        }
        self.client.receive(now, &response)?;
        self.note(now, || format!("    {} arrived", response.nonce));
        self.check_traffic()?;
        Ok(true)
    }

    /// Subscribes to the resources that those of the client refer to. Returns true if that changes
    /// a subscription.
    fn subscribe_to_references(&mut self) -> bool {
        let mut news = false;
        let steps: &[(&str, &str)] = match self.profile.style {
            SubscriptionStyle::Random => &[],
            SubscriptionStyle::Envoy => &[("cds", "eds"), ("lds", "rds")],
            SubscriptionStyle::Grpc => &[("lds", "rds"), ("rds", "cds"), ("cds", "eds")],
        };
        for (from, to) in steps {
            let held = self.client.held(&type_url(from));
            let links = held.flat_map(|(_, holding)| &holding.resource.facts().links);
            let names: BTreeSet<_> = links.map(|link| link.name.shared()).collect();
            news |= self.want(&type_url(to), names);
        }
        news
    }

    /// Subscribes to these names, or to one more of them if the client asks for them one by one.
    /// Returns true if that changes the subscription.
    fn want(&mut self, url: &TypeUrl, mut names: BTreeSet<Arc<str>>) -> bool {
        let before = self.client.interest(url).names;
        if self.profile.quirks.piecemeal {
            let next = names.difference(&before).next().cloned();
            names = names.intersection(&before).cloned().chain(next).collect();
        }
        let news = names != before;
        self.client.want(url, Interest { all: false, names });
        news
    }

    /// Checks S-097: when nothing is under way, a client that accepts everything has all it
    /// subscribes to. The only thing the server may then wait for is the client's request for the
    /// endpoints of a cluster.
    fn check_waits(&self, now: Time) -> Result<(), Fault> {
        let Some(stream) = &self.stream else { return Ok(()) };
        let answers = !self.profile.quirks.forgetful && !self.profile.dangers.bad;
        let still = stream.identified && stream.up.is_empty() && stream.down.is_empty();
        let waits = stream.server.deadline().filter(|until| *until > now + ASKING);
        match waits.filter(|_| answers && still && !self.profile.dangers.ttl) {
            Some(until) => self.lacks_nothing().map_err(|Fault(why)| {
                let wait = until.0.saturating_sub(now.0);
                Fault(format!("{why}, and the server waits {wait:?} for nothing (S-037, S-097)"))
            }),
            None => Ok(()),
        }
    }

    /// Checks that the status of the stream is what the client holds, but for what is under way to the server.
    fn check_status(&mut self) -> Result<(), Fault> {
        let forgets = self.profile.dangers.ttl;
        let Some(stream) = &mut self.stream else { return Ok(()) };
        stream.server.landed();
        if !stream.up.is_empty() || !stream.identified {
            return Ok(());
        }
        let Some(stream) = &self.stream else { return Ok(()) };
        let machine = stream.server.machine();
        status_check::check(machine, &self.client, forgets)?;
        let holds_all = |url: &TypeUrl| if forgets { Ok(()) } else { self.holds_all(url) };
        status_check::check_has_landed(machine, holds_all)
    }

    fn lacks_nothing(&self) -> Result<(), Fault> {
        self.client.types().try_for_each(|url| self.holds_all(url))
    }

    /// Checks S-097: once Envoy has a complete configuration, it stays complete, so that no request
    /// of its users fails.
    fn check_traffic(&mut self) -> Result<(), Fault> {
        if self.profile.style != SubscriptionStyle::Envoy
            || self.profile.dangers.bad
            || self.profile.dangers.ttl
        {
            return Ok(());
        }
        self.steady = self.steady || self.check_settled().is_ok();
        match self.unusable().filter(|_| self.steady) {
            Some(why) => Err(Fault(format!("{why}: requests fail (S-097)"))),
            None => Ok(()),
        }
    }

    /// The description of a route that leads to a missing cluster, if there is one.
    fn unusable(&self) -> Option<String> {
        let clusters = type_url("cds");
        for (route, holding) in self.client.held(&type_url("rds")) {
            for link in &holding.resource.facts().links {
                if !self.client.held(&clusters).any(|(name, _)| **name == *link.name.as_str()) {
                    return Some(format!(
                        "route `{route}` leads to `{}`, which the client lacks",
                        link.name
                    ));
                }
            }
        }
        None
    }

    /// Checks that the client holds exactly the resources of the snapshot that it subscribes to, and
    /// that the server owes it nothing.
    pub(super) fn check_settled(&self) -> Result<(), Fault> {
        let Some(stream) = &self.stream else { return Err(Fault("there is no stream".to_owned())) };
        for url in self.client.types() {
            self.holds_exactly(url)?;
        }
        stream.referee.check_settled()
    }

    fn holds_all(&self, url: &TypeUrl) -> Result<(), Fault> {
        let (interest, set, short) =
            (self.client.interest(url), self.published.set(url), url.short());
        for resource in set.iter().filter(|it| interest.covers(it.name().as_str())) {
            let name = resource.name().as_str();
            match self.client.held(url).find(|(held, _)| ***held == *name) {
                Some((_, held)) if held.resource.version() == resource.version() => {}
                Some(_) => return Err(Fault(format!("the client has an old {short} `{name}`"))),
                None => return Err(Fault(format!("the client lacks {short} `{name}`"))),
            }
        }
        Ok(())
    }

    fn holds_exactly(&self, url: &TypeUrl) -> Result<(), Fault> {
        self.holds_all(url)?;
        let (set, short) = (self.published.set(url), url.short());
        // SotW cannot take single resources away (S-058).
        let says_all = self.client.variant() == Variant::Delta || url.rules().full_state;
        let extra = self.client.held(url).find(|(name, _)| says_all && set.get(name).is_none());
        extra.map_or(Ok(()), |(name, _)| {
            Err(Fault(format!("the client still has {short} `{name}`")))
        })
    }

    fn note(&mut self, now: Time, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9.3} {} {}", now.0.as_secs_f64(), self.label, line()));
        }
    }
}

/// The time that a server may wait for the request for the endpoints of a cluster.
const ASKING: Duration = Duration::from_millis(250);

fn snapshot_line(snapshot: &Snapshot) -> String {
    let all = snapshot.types().map(|url| {
        let names: Vec<_> = snapshot.set(url).iter().map(body).collect();
        names.join("; ")
    });
    all.collect::<Vec<_>>().join(" | ")
}

fn body(resource: &Arc<chancery_core::Resource>) -> String {
    String::from_utf8_lossy(resource.body()).trim_end_matches(" -> ").to_owned()
}

fn joined(names: &chancery_core::Names) -> String {
    names.iter().collect::<Vec<_>>().join(" ")
}

fn request_line(request: &Request) -> String {
    match request {
        Request::Sotw(it) => format!(
            "{} [{}] v={:.4} n={}{}",
            TypeUrl::new(&it.type_url).short(),
            joined(&it.names),
            it.version,
            it.nonce,
            it.error.as_ref().map(|error| format!(" error={}", error.message)).unwrap_or_default(),
        ),
        Request::Delta(it) => format!(
            "{} +[{}] -[{}] n={} init=[{}]{}",
            TypeUrl::new(&it.type_url).short(),
            joined(&it.subscribe),
            joined(&it.unsubscribe),
            it.nonce,
            it.initial_versions
                .iter()
                .map(|(name, version)| format!("{name}:{version:.4}"))
                .collect::<Vec<_>>()
                .join(" "),
            it.error.as_ref().map(|error| format!(" error={}", error.message)).unwrap_or_default(),
        ),
    }
}

fn response_line(response: &Response) -> String {
    let entries = response.entries.iter().map(|entry| match &entry.resource {
        Some(_) if entry.heartbeat => format!("({})", entry.name),
        Some(resource) => format!("{{{}}}", body(resource)),
        None => format!("{}?", entry.name),
    });
    let entries: Vec<_> = entries.collect();
    format!(
        "{} v={:.4} n={} {} -[{}]",
        response.type_url.short(),
        response.version,
        response.nonce,
        entries.join(" "),
        response.removed.join(" "),
    )
}
