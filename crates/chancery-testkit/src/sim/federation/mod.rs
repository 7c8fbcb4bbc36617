//! One client, its authorities and their servers, in virtual time: [`Federation`].
//!
//! ```text
//!     watchers, prompt and slow
//!        |  ^
//!        v  |            referee: what was sent, claimed, believed and told
//!      client::Machine  ------------------------------------------+
//!        |  ^                                                     |
//!   lane v  | lane     one link for each stream                   |
//!      server::Machine ...     hosts: up, down, mute, curt, hasty     |
//!        |                                                        v
//!      Snapshot            changed, taken away, moved      verdict, after quiet
//! ```
//!
//! A seed draws the servers (SotW or delta, one stream or one for each type), three authorities
//! with up to three of them each, and then a history: edits, outages, lost streams, watchers that
//! come, go and come again, some of them slow. It may begin with what an earlier run left, of which
//! some is gone or other meanwhile. In the end nothing moves any more, first with the servers as
//! they are then, and again with all of them up, and each watcher believes what the best server
//! has. When all watchers are gone, nothing is left.

mod audience;
mod double;
mod host;
mod link;
mod plan;
mod referee;
mod stock;
mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::client::{AuthorityKey, Effect, Event, Input, Machine, StreamId, WatchId};
use chancery_core::server::Response;
use chancery_core::{ErrorDetail, Time, TypeUrl, Variant};

use super::History;
use super::rng::Rng;
use crate::client::Fault;
use audience::{SimulatedWatch, View, event_text};
use double::Draft;
use host::{Host, Mood};
use link::{Link, LinkState};
use plan::{BACKOFF, FederationPlan, NAMES, TYPES, type_url};
use referee::{Referee, request_line, response_line};
use verdict::FinalState;

/// A client of several servers, and all that happens to them.
#[derive(Debug)]
pub struct Federation {
    rng: Rng,
    now: Time,
    plan: FederationPlan,
    hosts: Vec<Host>,
    client: Machine,
    links: BTreeMap<StreamId, Link>,
    watches: Vec<SimulatedWatch>,
    referee: Referee,
    /// Responses that say something new, and what watchers were told.
    news: usize,
    trace: Option<Vec<String>>,
}

impl Federation {
    /// Draws one.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let plan = FederationPlan::new(&mut rng, seed);
        let mut hosts: Vec<_> = plan.servers.iter().map(|id| Host::new(*id)).collect();
        for host in &mut hosts {
            for _ in 0..rng.below(20) {
                host.edit(&mut rng, plan.dangers);
            }
        }
        Self {
            rng,
            now: Time::default(),
            client: Machine::new(plan.setup.clone()),
            plan,
            hosts,
            links: BTreeMap::new(),
            watches: Vec::new(),
            referee: Referee::default(),
            news: 0,
            trace: None,
        }
    }

    fn operation(&mut self) -> Result<(), Fault> {
        let place = self.draw(self.hosts.len());
        match self.rng.below(16) {
            0..=3 => self.edit(place),
            4 => self.hand_over(place),
            5..=8 => self.watch_some(),
            9 => self.unwatch_some(false),
            10 => self.unwatch_some(true),
            11 | 12 if self.plan.dangers.outages => {
                let moods = [Mood::Up, Mood::Up, Mood::Down, Mood::Mute, Mood::Curt, Mood::Hasty];
                let mood = *self.rng.one_of(&moods);
                self.set_mood(place, mood);
                Ok(())
            }
            13 if self.plan.dangers.outages => {
                self.lose_some();
                Ok(())
            }
            14 => {
                self.block_some();
                Ok(())
            }
            15 if self.plan.dangers.slow => {
                self.slow_some();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn draw(&mut self, count: usize) -> usize {
        usize::try_from(self.rng.draw() >> 1).unwrap_or(0) % count.max(1)
    }

    fn edit(&mut self, place: usize) -> Result<(), Fault> {
        for _ in 0..=self.rng.below(3) {
            let line = self.hosts[place].edit(&mut self.rng, self.plan.dangers);
            self.note(|| format!("* {line}"));
        }
        self.publish(place)
    }

    fn hand_over(&mut self, from: usize) -> Result<(), Fault> {
        let to = self.draw(self.hosts.len());
        if from == to {
            return Ok(());
        }
        let mut other = self.hosts[to].clone();
        let line = self.hosts[from].hand_over(&mut self.rng, &mut other, self.plan.dangers);
        self.hosts[to] = other;
        self.note(|| format!("* moved {line}"));
        self.publish(from)?;
        self.publish(to)
    }

    fn publish(&mut self, place: usize) -> Result<(), Fault> {
        let host = &self.hosts[place];
        let mut links = self.links.iter_mut().filter(|(id, _)| id.server == host.id);
        links.try_for_each(|(_, link)| link.publish(self.now, &host.snapshot))
    }

    fn set_mood(&mut self, place: usize, mood: Mood) {
        self.note(|| format!("* s{place} is {mood:?}"));
        let host = &mut self.hosts[place];
        host.mood = mood;
        if matches!(mood, Mood::Down | Mood::Curt) {
            let links = self.links.iter_mut().filter(|(id, _)| id.server == host.id);
            links.for_each(|(_, link)| link.ends = Some((self.now, "the server went away")));
        }
    }

    fn lose_some(&mut self) {
        let at = self.draw(self.links.len());
        if let Some(link) = self.links.values_mut().nth(at) {
            link.ends = Some((self.now, "it was lost"));
        }
    }

    fn block_some(&mut self) {
        let time = self.rng.time(Duration::from_secs(10));
        let at = self.draw(self.links.len());
        if let Some(link) = self.links.values_mut().nth(at) {
            link.writes_from = link.writes_from.max(self.now + time);
        }
    }

    fn slow_some(&mut self) {
        let time = self.rng.time(Duration::from_secs(20));
        let at = self.draw(self.watches.len());
        if let Some(watch) = self.watches.get_mut(at) {
            watch.reads_from = self.now + time;
        }
    }

    fn watch_some(&mut self) -> Result<(), Fault> {
        if self.watches.len() >= 12 {
            return Ok(());
        }
        let at = self.draw(self.plan.authorities.len());
        let authority = self.plan.authorities[at].key.clone();
        let short = *self.rng.one_of(&TYPES);
        let url = type_url(short);
        let has_groups = self.plan.has_groups(&self.plan.authorities[at]);
        let name = if has_groups && self.rng.chance(25) {
            plan::group(&authority, &url)
        } else {
            plan::name(&authority, &url, self.rng.below(NAMES))
        };
        self.watch(authority, url, name)
    }

    fn watch(
        &mut self,
        authority: AuthorityKey,
        type_url: TypeUrl,
        name: String,
    ) -> Result<(), Fault> {
        self.watch_as(authority, type_url, name, View::default(), self.now)
    }

    /// Watches as somebody who believes something already, and reads from then on.
    fn watch_as(
        &mut self,
        authority: AuthorityKey,
        type_url: TypeUrl,
        name: String,
        view: View,
        reads_from: Time,
    ) -> Result<(), Fault> {
        let id = self.client.watch(self.now, &type_url, &name);
        let (since, ready) = (self.now, false);
        let watch =
            SimulatedWatch { id, authority, type_url, name, since, reads_from, ready, view };
        self.note(|| format!("+ {}", watch.label()));
        self.watches.push(watch);
        self.handle_input(Input::TimePassed)
    }

    /// Ends a watch; and makes the same again, at once.
    fn unwatch_some(&mut self, again: bool) -> Result<(), Fault> {
        let at = self.draw(self.watches.len());
        if at >= self.watches.len() {
            return Ok(());
        }
        let SimulatedWatch { authority, type_url, name, id, .. } = self.watches.remove(at);
        self.unwatch(id, &authority);
        self.note(|| format!("- {} {name}", type_url.short()));
        if again {
            return self.watch(authority, type_url, name);
        }
        self.handle_input(Input::TimePassed)
    }

    fn unwatch(&mut self, id: WatchId, authority: &AuthorityKey) {
        self.client.unwatch(self.now, id);
        if !self.watches.iter().any(|watch| watch.authority == *authority) {
            self.referee.deserted(authority);
        }
    }

    /// Lets time pass, and everything happen in it.
    fn pass(&mut self, time: Duration) -> Result<(), Fault> {
        let end = self.now + time;
        loop {
            self.rest()?;
            match self.wake().filter(|wake| *wake <= end) {
                Some(wake) if wake > self.now => self.now = wake,
                Some(_) => return Err(Fault("something is due and does not happen".to_owned())),
                None => break,
            }
        }
        self.now = end;
        Ok(())
    }

    /// Lets everything happen that can happen now.
    fn rest(&mut self) -> Result<(), Fault> {
        for _ in 0..10_000 {
            let mut moved = self.tick()?;
            for id in self.links.keys().cloned().collect::<Vec<_>>() {
                moved |= self.move_link(&id)?;
            }
            moved |= self.attend()?;
            if !moved {
                return self.nobody_waits();
            }
        }
        Err(Fault("it never comes to rest".to_owned()))
    }

    fn wake(&mut self) -> Option<Time> {
        let (hosts, window, client) = (&self.hosts, self.plan.window, &self.client);
        let links = self.links.iter().filter_map(|(id, link)| {
            let reads = hosts[id.server.index()].mood != Mood::Mute;
            link.wake(window, reads, client.may_read(id))
        });
        let links = links.min();
        let watches = self.watches.iter().filter(|watch| watch.ready).map(|it| it.reads_from).min();
        [links, watches, self.client.deadline()].into_iter().flatten().min()
    }

    fn tick(&mut self) -> Result<bool, Fault> {
        let due = self.client.deadline().is_some_and(|at| at <= self.now);
        if due {
            self.handle_input(Input::TimePassed)?;
        }
        Ok(due)
    }

    /// Tells the client something, and does what it wants then.
    fn handle_input(&mut self, input: Input) -> Result<(), Fault> {
        for event in self.client.handle(self.now, input) {
            match &event {
                Event::FellBack { authority, server } => {
                    self.note(|| format!("    {authority} falls back to s{}", server.index()));
                }
                Event::Reverted { authority, server } => {
                    self.note(|| format!("    {authority} comes back to s{}", server.index()));
                }
                _ => {}
            }
            self.referee.happened(&self.plan, &event).map_err(Fault)?;
        }
        self.take_effects()?;
        self.attend().map(drop)
    }

    fn take_effects(&mut self) -> Result<(), Fault> {
        while let Some(effect) = self.client.poll() {
            match effect {
                Effect::Open(id) => {
                    self.referee.opens(self.now, &id).map_err(Fault)?;
                    let at = self.now + self.plan.delay(&mut self.rng);
                    let variant = self.plan.protocol(id.server).variant();
                    let link = Link::new(at, variant, &id, &self.plan.settings);
                    self.links.insert(id, link);
                }
                Effect::Close(id) => {
                    self.note(|| format!("{} closed", label(&id)));
                    self.referee.closed(&id);
                    self.links.remove(&id);
                }
                Effect::Send(id) => {
                    if let Some(link) = self.links.get_mut(&id) {
                        link.due = true;
                    }
                }
                Effect::Notify(id) => {
                    let watch = self.watches.iter_mut().find(|watch| watch.id == id);
                    watch.into_iter().for_each(|watch| watch.ready = true);
                }
                Effect::Read(_) => {}
            }
        }
        Ok(())
    }

    /// Watchers that are not slow take in what there is.
    fn attend(&mut self) -> Result<bool, Fault> {
        let mut moved = false;
        for at in 0..self.watches.len() {
            let watch = &mut self.watches[at];
            if !watch.ready || watch.reads_from > self.now {
                continue;
            }
            watch.ready = false;
            moved = true;
            let prompt = !self.plan.dangers.slow;
            while let Some(event) = self.client.event(watch.id) {
                self.news += 1;
                if let Some(trace) = &mut self.trace {
                    let line = format!("  ! {}: {}", watch.label(), event_text(&event));
                    trace.push(format!("{:>9.3} {line}", self.now.0.as_secs_f64()));
                }
                let verdict = watch.view.take_event(&event, prompt);
                let verdict =
                    verdict.and_then(|()| self.referee.judge_event(&self.plan, watch, &event));
                verdict.map_err(|why| Fault(format!("{}: {why}", watch.label())))?;
            }
            let id = watch.id;
            self.client.applied(id);
        }
        self.take_effects()?;
        Ok(moved)
    }

    /// One round of a stream.
    fn move_link(&mut self, id: &StreamId) -> Result<bool, Fault> {
        let Some(link) = self.links.get(id) else { return Ok(false) };
        match (link.state, link.ends) {
            (LinkState::Opening(at), _) if at <= self.now => return self.open(id).map(|()| true),
            (LinkState::Opening(_), _) => return Ok(false),
            (LinkState::Open, Some((at, why))) if at <= self.now => {
                return self.end_stream(id, why).map(|()| true);
            }
            (LinkState::Open, _) => {}
        }
        Ok(self.send_request(id)? | self.serve(id)? | self.receive(id)?)
    }

    fn open(&mut self, id: &StreamId) -> Result<(), Fault> {
        let mood = self.hosts[id.server.index()].mood;
        if mood == Mood::Down {
            return self.end_stream(id, "nobody is there");
        }
        self.note(|| format!("{} opened", label(id)));
        if let Some(link) = self.links.get_mut(id) {
            link.state = LinkState::Open;
            link.ends = (mood == Mood::Curt).then_some((self.now, "it is curt"));
        }
        self.handle_input(Input::Opened(id.clone()))
    }

    fn end_stream(&mut self, id: &StreamId, why: &str) -> Result<(), Fault> {
        let Some(link) = self.links.remove(id) else { return Ok(()) };
        self.note(|| format!("{} ends: {why}", label(id)));
        self.referee.stream_ended(id, link.heard);
        let error = ErrorDetail { code: ErrorDetail::UNAVAILABLE, message: why.to_owned() };
        self.handle_input(Input::Ended(id.clone(), error))
    }

    /// The client says what is due.
    fn send_request(&mut self, id: &StreamId) -> Result<bool, Fault> {
        let due = self.links.get(id).is_some_and(|it| it.due && it.writes_from <= self.now);
        if !due {
            return Ok(false);
        }
        while let Some(request) = self.client.request(self.now, id) {
            self.note(|| format!("{} > {}", label(id), request_line(&request)));
            let verdict = self.referee.asks(&self.plan, &self.client, id, &request);
            verdict.map_err(|why| Fault(format!("{}: {why}", label(id))))?;
            let delay = self.plan.delay(&mut self.rng);
            if let Some(link) = self.links.get_mut(id) {
                link.up.send(self.now, delay, request);
            }
        }
        self.links.get_mut(id).into_iter().for_each(|link| link.due = false);
        Ok(true)
    }

    /// The server reads, and says what it has to say.
    fn serve(&mut self, id: &StreamId) -> Result<bool, Fault> {
        let host = &self.hosts[id.server.index()];
        let (mood, snapshot) = (host.mood, Arc::clone(&host.snapshot));
        let (now, window) = (self.now, self.plan.window);
        let Some(link) = self.links.get_mut(id).filter(|_| mood != Mood::Mute) else {
            return Ok(false);
        };
        let mut moved = false;
        while link.serve(now, &snapshot)? {
            moved = true;
        }
        let mut lines = Vec::new();
        while link.ends.is_none() {
            let delay = self.plan.delay(&mut self.rng);
            let drafts = self.plan.dangers.drafts && self.rng.chance(20);
            let draft = drafts.then(|| Draft::draw(&mut self.rng, self.plan.dangers));
            let Some((response, draft)) = link.next_response(now, window, delay, draft) else {
                break;
            };
            moved = true;
            lines.extend(draft.inspect(|draft| self.referee.sent(id.server, draft)));
            self.referee.sent(id.server, &response);
            self.news += usize::from(says_something(&response));
            if mood == Mood::Hasty {
                link.ends = Some((now + self.plan.delay + Duration::from_millis(1), "it is hasty"));
            }
            lines.push(response);
        }
        for response in &lines {
            self.note(|| format!("{} < {}", label(id), response_line(response)));
        }
        Ok(moved)
    }

    fn receive(&mut self, id: &StreamId) -> Result<bool, Fault> {
        let mut moved = false;
        // As many as one read of the wire brings, before anything is written.
        for _ in 0..=self.rng.below(4) {
            if !self.client.may_read(id) {
                break;
            }
            let Some(link) = self.links.get_mut(id) else { break };
            let Some(response) = link.down.receive(self.now) else { break };
            link.heard = true;
            self.note(|| format!("{}   {} arrived", label(id), response.nonce));
            let reply = link::read(response);
            self.referee.response_read(id, &reply);
            self.handle_input(Input::Received(id.clone(), reply))?;
            moved = true;
        }
        Ok(moved)
    }

    /// Nobody waits for long without a word, if nothing disturbs the servers.
    fn nobody_waits(&self) -> Result<(), Fault> {
        if self.plan.dangers.outages || self.plan.dangers.slow {
            return Ok(());
        }
        let waits =
            |watch: &&SimulatedWatch| !watch.view.heard && watch.since + PATIENCE < self.now;
        match self.watches.iter().find(waits) {
            Some(watch) => Err(Fault(format!("{} waits without a word", watch.label()))),
            None => Ok(()),
        }
    }

    /// Lets nothing happen any more but time, and sees what is true then.
    fn quiet(&mut self) -> Result<(), Fault> {
        for watch in &mut self.watches {
            watch.reads_from = watch.reads_from.min(self.now);
        }
        self.pass(Duration::from_secs(600))?;
        self.settled()?;
        let before = self.news;
        self.pass(Duration::from_secs(600))?;
        if self.news != before {
            return Err(Fault("something is told although nothing changes".to_owned()));
        }
        self.settled()
    }

    fn settled(&self) -> Result<(), Fault> {
        self.referee.is_answered().map_err(Fault)?;
        let (plan, hosts, links) = (&self.plan, &self.hosts, &self.links);
        let (watches, referee, client) = (&self.watches, &self.referee, &self.client);
        FinalState { plan, hosts, links, watches, referee, client }.settled().map_err(Fault)
    }

    /// Nobody watches anything any more.
    fn leave(&mut self) -> Result<(), Fault> {
        while !self.watches.is_empty() {
            self.unwatch_some(false)?;
        }
        self.pass(Duration::from_secs(3600))?;
        if let Some(left) = self.client.resources().next() {
            return Err(Fault(format!("`{}` is left (C-050)", left.name)));
        }
        if let Some(id) = self.links.keys().next() {
            return Err(Fault(format!("{} is left (C-039)", label(id))));
        }
        match self.client.deadline() {
            Some(at) => Err(Fault(format!("something is due at {at:?} for nobody"))),
            None => Ok(()),
        }
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9.3} {}", self.now.0.as_secs_f64(), line()));
        }
    }
}

impl History for Federation {
    fn record(&mut self) {
        self.trace.get_or_insert_default();
    }

    fn trace(&self) -> Vec<String> {
        let lines = self.trace.iter().flatten().cloned();
        std::iter::once(self.plan.describe()).chain(lines).collect()
    }

    fn live(&mut self, operations: u64) -> Result<(), Fault> {
        if self.plan.dangers.stock {
            self.resume()?;
        }
        for _ in 0..operations {
            let pause = *self.rng.one_of(&[0, 10, 500, 4000, 20_000, 60_000]);
            let pause = self.rng.time(Duration::from_millis(pause + 1));
            self.pass(pause)?;
            self.operation()?;
        }
        for place in 0..self.hosts.len() {
            let down = self.plan.dangers.outages && self.rng.chance(30);
            self.set_mood(place, if down { Mood::Down } else { Mood::Up });
        }
        self.quiet()?;
        for place in 0..self.hosts.len() {
            self.set_mood(place, Mood::Up);
        }
        self.quiet()?;
        self.leave()
    }
}

/// Returns true if a response is more than a heartbeat. Of a whole state, that has bodies, too.
fn says_something(response: &Response) -> bool {
    let whole = response.variant == Variant::Sotw && response.type_url.rules().full_state;
    let refreshes = whole && response.entries.iter().any(|entry| entry.ttl);
    let says = response.entries.iter().any(|entry| !entry.heartbeat) && !refreshes;
    says || !response.removed.is_empty() || !response.errors.is_empty()
}

fn label(id: &StreamId) -> String {
    let short = id.scope.only().map(|url| format!("/{}", url.short())).unwrap_or_default();
    format!("s{}{short}", id.server.index())
}

/// The time that a server has, and some on the way.
const PATIENCE: Duration = Duration::from_secs(45).saturating_add(BACKOFF);
