//! The gate: a load that would take much away from an audience, or make its references lead nowhere, is held back
//! until somebody confirms it.
//!
//! ```text
//!   commit --> Catalog --asks--> LoadGate:  change (snapshots) + window (time) --> loss (reasons)
//!                                   |
//!                                   +-- held, news --> ChangeApplier: log, metrics, /config, /ready
//!                                   +<- confirm ------ admin interface
//! ```
//!
//! It remembers numbers and digests, and no states: those that somebody still sees are the catalog's.
//! Not here: where a held audience is served from (`chancery-catalog`), and who may confirm (`admin`).

mod change;
mod clash;
mod dangling;
mod expired;
mod held;
mod loss;
mod moves;
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use chancery_catalog::{Audience, External, Gate, Seen};
use chancery_proto::schema::Schema;

pub(crate) use self::held::{Held, HeldRow, Token};
pub(crate) use self::loss::{Listed, Reason};
use self::loss::{Measure, reasons};
pub(crate) use self::moves::Move;
use self::window::Window;
use crate::config::{Config, ExternalNames, GateConfig, GateMode};

/// The judge of loads. Clones are the same.
#[derive(Clone)]
pub(crate) struct LoadGate(Arc<Shared>);

/// Returns true if nodes use a group, or a node of its own.
type InUse = Box<dyn Fn(&Audience) -> bool + Send + Sync>;

struct Shared {
    schema: Schema,
    /// The time since the beginning.
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
    in_use: OnceLock<InUse>,
    state: Mutex<State>,
}

struct State {
    config: GateConfig,
    names: ExternalNames,
    /// The names that clients know from elsewhere.
    external: External,
    /// The largest states that audiences had of late and have no more; those are few.
    windows: BTreeMap<Audience, Window>,
    held: BTreeMap<Audience, Held>,
    /// The moves of nodes that are held back: of all of them, or none.
    moves: Option<Held>,
    confirmed: BTreeSet<(Audience, Token)>,
    news: News,
}

/// The outcomes of judgements since they were taken last, a bounded number of them.
#[derive(Default)]
pub(crate) struct News {
    /// The first of the events.
    pub(crate) events: Vec<(Outcome, Held)>,
    /// The number of the others.
    pub(crate) more: usize,
}

/// The fate of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// It is held back.
    HeldBack,
    /// It was held back already, and holds back a later edit too.
    Waits,
    /// It goes live, as `warn` says.
    Warned,
    /// It goes live, because somebody confirmed it.
    Confirmed,
    /// It goes live after `gate.pass-after`.
    TimeIsOver,
    /// It is no loss any more.
    Mended,
}

/// The audiences that somebody confirms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// All.
    All,
    /// Those of these groups, with the nodes in them.
    Groups(Vec<String>),
}

/// The error for a confirmation that lets nothing pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotConfirmed {
    /// Nothing is held back from these audiences.
    #[error("nothing is held back there")]
    Nothing,
    /// The content is another one than the token is of.
    #[error("what is held back has changed: its token is {0}")]
    Changed(Token),
}

impl LoadGate {
    /// A gate that has judged nothing.
    pub(crate) fn new(config: &Config, schema: Schema) -> Self {
        let started = Instant::now();
        Self::with_clock(config, schema, move || started.elapsed())
    }

    fn with_clock(
        config: &Config,
        schema: Schema,
        clock: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        let names = ExternalNames::new(config);
        let state = State {
            config: config.gate.clone(),
            external: names.for_catalog(),
            names,
            windows: BTreeMap::new(),
            held: BTreeMap::new(),
            moves: None,
            confirmed: BTreeSet::new(),
            news: News::default(),
        };
        let (clock, in_use) = (Box::new(clock), OnceLock::new());
        Self(Arc::new(Shared { schema, clock, in_use, state: Mutex::new(state) }))
    }

    /// The types by which it reads resources.
    pub(crate) fn schema(&self) -> &Schema {
        &self.0.schema
    }

    /// States how to find out if nodes belong to an audience. Until then none does.
    pub(crate) fn ask_for_users(&self, in_use: impl Fn(&Audience) -> bool + Send + Sync + 'static) {
        self.0.in_use.set(Box::new(in_use)).ok();
    }

    /// Puts other settings in force. Returns true if they differ: what is held has to be judged again.
    pub(crate) fn configure(&self, config: &Config) -> bool {
        let names = ExternalNames::new(config);
        let mut state = self.lock();
        let differs = state.config != config.gate || state.names != names;
        state.config.clone_from(&config.gate);
        state.external = names.for_catalog();
        state.names = names;
        differs
    }

    /// The changes that are held back, by audience.
    pub(crate) fn held(&self) -> Vec<Held> {
        self.held_from(&Selection::All)
    }

    /// The changes that are held back from these, by audience.
    pub(crate) fn held_from(&self, whom: &Selection) -> Vec<Held> {
        let state = self.lock();
        let held = state.held.values().chain(&state.moves);
        let mut held: Vec<_> = held.filter(|held| whom.has(&held.audience)).cloned().collect();
        held.sort_by(|one, other| one.audience.cmp(&other.audience));
        held
    }

    /// Returns true if something was held back for long enough.
    pub(crate) fn is_due(&self) -> bool {
        let (now, state) = ((self.0.clock)(), self.lock());
        state.held.values().chain(&state.moves).any(|held| state.is_over(held, now))
    }

    /// Notes that these may pass, if what is held back from them has this token. Returns them. They
    /// pass when the catalog has them judged again, and until [`end_confirmation`](Self::end_confirmation).
    ///
    /// # Errors
    /// If there are none, or what is held back is another content.
    pub(crate) fn confirm(&self, whom: &Selection, token: &str) -> Result<Vec<Held>, NotConfirmed> {
        let selected = self.held_from(whom);
        if selected.is_empty() {
            return Err(NotConfirmed::Nothing);
        }
        let present = Token::of_all(&selected);
        if present.to_string() != token {
            return Err(NotConfirmed::Changed(present));
        }
        let mut state = self.lock();
        let marks = selected.iter().map(|held| (held.audience.clone(), held.token));
        state.confirmed.extend(marks);
        Ok(selected)
    }

    /// Forgets what was confirmed. Returns those of them that are still held back, because their content
    /// changed meanwhile.
    pub(crate) fn end_confirmation(&self, confirmed: &[Held]) -> Vec<Held> {
        let mut state = self.lock();
        state.confirmed.clear();
        let is_of = |held: &&Held| confirmed.iter().any(|one| one.audience == held.audience);
        state.held.values().chain(&state.moves).filter(is_of).cloned().collect()
    }

    /// The outcomes of judgements since this was asked last.
    pub(crate) fn take_news(&self) -> News {
        std::mem::take(&mut self.lock().news)
    }

    /// Returns true if the layer that makes an audience is gone, and nobody needs it.
    fn is_unused(&self, audience: &Audience, is_gone: bool) -> bool {
        is_gone && !self.0.in_use.get().is_some_and(|in_use| in_use(audience))
    }

    /// The reason why references of an audience hold a change back. What base lacks, groups may have, so
    /// that matters only to nodes in no group.
    fn dangling(&self, audience: &Audience, change: [&Seen; 2]) -> Option<Reason> {
        let external = {
            let state = self.lock();
            (state.config.dangling != GateMode::Off).then(|| state.external.clone())?
        };
        let reason = dangling::reason(&self.0.schema, &external, audience, change)?;
        let is_base = *audience == Audience::default();
        let is_used = || self.0.in_use.get().is_some_and(|in_use| in_use(audience));
        (!is_base || is_used()).then_some(reason)
    }

    /// No code that can panic runs under this lock, and none of the catalog or the store.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate for LoadGate {
    fn lets_pass(&self, audience: &Audience, before: Option<&Seen>, after: &Seen) -> bool {
        // The first state of an audience takes nothing away from it.
        let Some(before) = before else { return true };
        let is_gone = before.has_own_layer() && !after.has_own_layer();
        let is_unused = self.is_unused(audience, is_gone);
        let dangling = self.dangling(audience, [before, after]);
        let expired = expired::reason(&self.0.schema, before.snapshot(), after.snapshot());
        let now = (self.0.clock)();
        let mut state = self.lock();
        // Nodes of which somebody was told may only be away for a moment.
        let is_unused = is_unused && !state.held.contains_key(audience);
        let GateConfig { messages, loss, dangling: references, .. } = state.config;
        let looks = [messages, loss, references].iter().any(|it| *it != GateMode::Off);
        if is_unused || !looks {
            state.forget(audience);
            return true;
        }
        let may_be_empty = |name: &str| state.config.may_be_empty.matches(name);
        let mut change = change::between(before.snapshot(), after.snapshot(), may_be_empty);
        // Nodes of a group that extends another go on with that one's files.
        if is_gone && audience.node.is_none() && !after.extends_group() {
            change.group_gone = audience.group.as_deref().map(str::to_owned);
        }
        let mut largest = state
            .windows
            .get(audience)
            .map_or(change.before, |window| window.largest(now, change.before));
        if let Some(held) = state.held.get(audience) {
            largest = largest.largest(held.largest);
        }
        let mut reasons = match state.config.loss {
            GateMode::Off => Vec::new(),
            GateMode::Enforce | GateMode::Warn => {
                reasons(&change, &largest, state.config.loss_percent.0)
            }
        };
        reasons.extend(dangling);
        if state.config.loss != GateMode::Off {
            reasons.extend(expired);
        }
        if messages != GateMode::Off {
            reasons.extend(clash::reasons([before, after]));
        }
        if reasons.is_empty() {
            state.pass_without_loss(audience, &change, now);
            return true;
        }
        let held = Held {
            token: Token::of(audience, after.snapshot(), after.has_own_layer()),
            audience: audience.clone(),
            reasons,
            largest,
            since: now,
            at: SystemTime::now(),
        };
        state.decide(held, now)
    }

    fn judged(&self, held: &mut dyn Iterator<Item = &Audience>) {
        let now = (self.0.clock)();
        let mut state = self.lock();
        if !state.held.is_empty() {
            let held: BTreeSet<_> = held.collect();
            let all = std::mem::take(&mut state.held);
            for (audience, one) in all {
                if held.contains(&audience) {
                    state.held.insert(audience, one);
                } else {
                    state.news.add(Outcome::Mended, one);
                }
            }
        }
        state.windows.retain(|_, window| {
            window.forget_old(now);
            !window.is_empty()
        });
    }
}

impl State {
    /// Decides on a loss. Returns true if it goes live.
    fn decide(&mut self, mut loss: Held, now: Duration) -> bool {
        let known = self.held.get(&loss.audience).cloned();
        let Some(outcome) = self.outcome(&mut loss, known.as_ref(), now) else { return false };
        self.news.add(outcome, loss.clone());
        if outcome.is_live() {
            // A loss that was meant is the state with which later ones are compared.
            self.forget(&loss.audience);
        } else {
            self.held.insert(loss.audience.clone(), loss);
        }
        outcome.is_live()
    }

    /// The outcome for a loss, beside the one that is held so far; `None` if it is the same, and stays held.
    fn outcome(&self, loss: &mut Held, known: Option<&Held>, now: Duration) -> Option<Outcome> {
        let is_confirmed = self.confirmed.contains(&(loss.audience.clone(), loss.token));
        match known {
            _ if loss.reasons.iter().all(|reason| !self.enforces(reason)) => Some(Outcome::Warned),
            _ if is_confirmed => Some(Outcome::Confirmed),
            Some(known) if known.token == loss.token => {
                (loss.since, loss.at) = (known.since, known.at);
                self.is_over(loss, now).then_some(Outcome::TimeIsOver)
            }
            Some(known) if known.has_reasons_like(loss) => Some(Outcome::Waits),
            _ => Some(Outcome::HeldBack),
        }
    }

    /// Returns true if this reason holds something back, and is not only warned of.
    fn enforces(&self, reason: &Reason) -> bool {
        let mode = match reason {
            Reason::Dangling(_) => self.config.dangling,
            // Broken rules of the messages, which only several of them together have.
            Reason::Clash(_) | Reason::Unapplied(_) => self.config.messages,
            _ => self.config.loss,
        };
        mode == GateMode::Enforce
    }

    fn pass_without_loss(&mut self, audience: &Audience, change: &loss::Change, now: Duration) {
        if let Some(held) = self.held.remove(audience) {
            self.news.add(Outcome::Mended, held);
        }
        if let Some(window) = self.windows.get_mut(audience).filter(|_| change.forgiven > 0) {
            window.forgive(change.forgiven);
        }
        let mut before = change.before;
        before.take(Measure::Endpoints, change.forgiven);
        if before.exceeds(&change.after) {
            self.windows.entry(audience.clone()).or_default().ended(now, before);
        }
    }

    fn forget(&mut self, audience: &Audience) {
        self.held.remove(audience);
        self.windows.remove(audience);
    }

    /// Returns true if what is held passes by now because of its age.
    fn is_over(&self, held: &Held, now: Duration) -> bool {
        let pass_after = self.config.pass_after.0;
        pass_after.is_some_and(|length| now.saturating_sub(held.since) >= length)
    }
}

impl Outcome {
    fn is_live(self) -> bool {
        !matches!(self, Self::HeldBack | Self::Waits)
    }
}

impl News {
    fn add(&mut self, outcome: Outcome, held: Held) {
        if self.events.len() < MOST_EVENTS {
            self.events.push((outcome, held));
        } else {
            self.more += 1;
        }
    }
}

impl Held {
    fn has_reasons_like(&self, other: &Self) -> bool {
        let kinds = |held: &Self| held.reasons.iter().map(Reason::kind).collect::<Vec<_>>();
        kinds(self) == kinds(other)
    }
}

impl Selection {
    fn has(&self, audience: &Audience) -> bool {
        match self {
            Self::All => true,
            Self::Groups(groups) => {
                audience.group.as_deref().is_some_and(|group| groups.iter().any(|it| it == group))
            }
        }
    }
}

/// The number of events that are kept until somebody asks for them.
const MOST_EVENTS: usize = 1000;

#[cfg(test)]
mod tests;
