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

mod allowing;
mod behind;
mod change;
mod clash;
mod confirmation;
mod dangling;
mod expired;
mod filled;
mod fresh;
mod held;
mod in_place;
mod loss;
mod memory;
mod moves;
mod notices;
mod place;
mod secret_kinds;
mod silent;
mod steps;
mod subsets;
mod switched;
mod unstated;
mod users;
mod waiting;
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use chancery_catalog::{Audience, External, Gate, Seen};
use chancery_core::Node;
use chancery_proto::document::RuleCheck;
use chancery_proto::resource::WantedSecret;
use chancery_proto::schema::Schema;
use chancery_sources::LayerChecks;

use self::allowing::Allowing;
use self::behind::WaitingLayer;
pub(crate) use self::behind::audience_of;
use self::change::Between;
pub(crate) use self::confirmation::{NotConfirmed, Selection};
pub(crate) use self::held::{Held, HeldRow, Token};
use self::loss::{Counts, Measure};
pub(crate) use self::loss::{Listed, Reason};
use self::memory::HeldBefore;
pub(crate) use self::memory::{GateMemory, KeptAudience};
pub(crate) use self::moves::{Move, name_nodes};
use self::notices::Lost;
use self::place::{FieldSteps, Places};
pub(crate) use self::secret_kinds::{Mismatch, has_secrets, may_refer, mismatches, told};
use self::steps::Steps;
use self::switched::ClusterPlaces;
pub(crate) use self::unstated::NodesByAudience;
pub(crate) use self::users::{Use, Users};
use self::window::Window;
use crate::config::{Config, ExternalNames, GateConfig, GateMode};

/// The judge of loads. Clones are the same.
#[derive(Clone)]
pub(crate) struct LoadGate(Arc<Shared>);

/// Finds the nodes with open streams.
type FindUsers = Box<dyn Fn() -> Users + Send + Sync>;

/// Finds the nodes with open streams, and what they say of themselves.
type FindNodes = Box<dyn Fn() -> NodesByAudience + Send + Sync>;

struct Shared {
    schema: Schema,
    /// The time since the beginning.
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
    find_users: OnceLock<FindUsers>,
    find_nodes: OnceLock<FindNodes>,
    /// The nodes with open streams, once they were looked for while one commit is judged.
    users: Mutex<Option<Arc<Users>>>,
    /// The same with all that they say of themselves.
    nodes: Mutex<Option<Arc<NodesByAudience>>>,
    /// The domains that changes take away, and the parts without answers that they bring, while one commit is
    /// judged.
    lost: Steps<Lost>,
    unanswered: Steps<Vec<Finding>>,
    /// The secrets that resources refer to, with the kinds that their places take.
    wanted: Steps<Vec<WantedSecret>>,
    /// The certificates that changes make worse, likewise.
    expired: Steps<expired::Worse>,
    /// The reasons why clients that run do not take another form of a resource, likewise.
    in_place: Steps<Option<String>>,
    /// The places of fields that are told, likewise.
    fields: FieldSteps,
    /// The places at which resources refer to clusters, likewise.
    clusters: ClusterPlaces,
    /// The requests for subsets, and the endpoints that they may find, likewise.
    subsets: subsets::Known,
    state: Mutex<State>,
}

/// A finding about a resource: its code, and a sentence.
type Finding = (&'static str, String);

struct State {
    config: GateConfig,
    /// The findings that hold nothing back.
    allowing: Arc<Allowing>,
    /// The time of the start.
    started: Duration,
    /// The time of the first start.
    begun: Duration,
    names: ExternalNames,
    /// The clients of each layer.
    checks: Arc<LayerChecks>,
    /// The names that clients know from elsewhere.
    external: External,
    /// The largest states that audiences had of late and have no more; those are few.
    windows: BTreeMap<Audience, Window>,
    held: BTreeMap<Audience, Held>,
    /// Those that were held back before a restart, until they are judged again.
    held_before: BTreeMap<Audience, HeldBefore>,
    moves_before: Option<HeldBefore>,
    /// The audiences of nodes before a restart, which come back one after the other.
    used_before: BTreeSet<Audience>,
    /// The moves of nodes that are held back: of all of them, or none.
    moves: Option<Held>,
    /// The edits that wait behind faults in other files.
    behind: BTreeMap<Audience, WaitingLayer>,
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
    /// It is no loss, and somebody may miss something.
    Noticed,
}

impl LoadGate {
    /// A gate that has judged nothing.
    pub(crate) fn new(config: &Config, schema: Schema) -> Self {
        let started = Instant::now();
        Self::with_clock(config, schema, move || BEFORE + started.elapsed())
    }

    fn with_clock(
        config: &Config,
        schema: Schema,
        clock: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        let names = ExternalNames::new(config);
        let state = State {
            config: config.gate.clone(),
            allowing: Arc::new(Allowing::new(&config.allow)),
            started: clock(),
            begun: clock(),
            external: names.for_catalog(),
            checks: Arc::new(config.checks()),
            names,
            windows: BTreeMap::new(),
            held: BTreeMap::new(),
            held_before: BTreeMap::new(),
            moves_before: None,
            used_before: BTreeSet::new(),
            moves: None,
            behind: BTreeMap::new(),
            confirmed: BTreeSet::new(),
            news: News::default(),
        };
        let (clock, find_users) = (Box::new(clock), OnceLock::new());
        let (find_nodes, nodes) = (OnceLock::new(), Mutex::default());
        let (users, state) = (Mutex::default(), Mutex::new(state));
        let (lost, unanswered, wanted) = (Steps::default(), Steps::default(), Steps::default());
        let (expired, in_place) = (Steps::default(), Steps::default());
        let shared = Shared {
            schema,
            clock,
            find_users,
            find_nodes,
            users,
            nodes,
            lost,
            unanswered,
            wanted,
            expired,
            in_place,
            fields: FieldSteps::default(),
            clusters: ClusterPlaces::default(),
            subsets: subsets::Known::default(),
            state,
        };
        Self(Arc::new(shared))
    }

    /// The types by which it reads resources.
    pub(crate) fn schema(&self) -> &Schema {
        &self.0.schema
    }

    /// States how to find the nodes with open streams. Until then nobody knows.
    pub(crate) fn ask_for_users(&self, find: impl Fn() -> Users + Send + Sync + 'static) {
        self.0.find_users.set(Box::new(find)).ok();
    }

    /// States how to find the nodes with open streams, by the audiences that they belong to.
    pub(crate) fn ask_for_nodes(&self, find: impl Fn() -> NodesByAudience + Send + Sync + 'static) {
        self.0.find_nodes.set(Box::new(find)).ok();
    }

    /// States when the first start was, which counts for `gate.warn-for`.
    pub(crate) fn begun_at(&self, first: SystemTime) {
        let age = SystemTime::now().duration_since(first).unwrap_or_default();
        self.lock().begun = (self.0.clock)().saturating_sub(age);
    }

    /// The rest of the time in which it only warns, if that is not over.
    pub(crate) fn warns_for(&self) -> Option<Duration> {
        let now = (self.0.clock)();
        self.lock().warns_for(now)
    }

    /// These checks of the directory, with the rules of messages as they count now.
    pub(crate) fn due(&self, mut checks: LayerChecks) -> LayerChecks {
        let only_warns = self.warns_for().is_some();
        let rules = match self.lock().config.rules() {
            RuleCheck::Fault if only_warns => RuleCheck::Warn,
            rules => rules,
        };
        let all = [&mut checks.shared, &mut checks.other_groups].into_iter();
        all.chain(checks.groups.values_mut()).for_each(|checks| checks.rules = rules);
        checks
    }

    /// Returns true if nothing is held back and the rules of messages are looked at: what the files say is served.
    pub(crate) fn knows_all(&self) -> bool {
        self.held().is_empty() && self.lock().config.rules() != RuleCheck::Off
    }

    /// Returns true if its own settings are those of this configuration.
    pub(crate) fn has_settings(&self, config: &Config) -> bool {
        self.lock().config == config.gate
    }

    /// Puts other settings in force. Returns true if they differ: what is held has to be judged again.
    pub(crate) fn configure(&self, config: &Config) -> bool {
        let names = ExternalNames::new(config);
        let are_others_allowed = self.set_allowed(&config.allow);
        let mut state = self.lock();
        let differs = are_others_allowed || state.config != config.gate || state.names != names;
        state.config.clone_from(&config.gate);
        state.external = names.for_catalog();
        state.checks = Arc::new(config.checks());
        state.names = names;
        differs
    }

    /// Returns true if something was held back for long enough.
    pub(crate) fn is_due(&self) -> bool {
        let (now, state) = ((self.0.clock)(), self.lock());
        state.held.values().chain(&state.moves).any(|held| state.is_over(held, now))
    }

    /// The outcomes of judgements since this was asked last.
    pub(crate) fn take_news(&self) -> News {
        std::mem::take(&mut self.lock().news)
    }

    /// The use of an audience, if anybody knows it; until streams are counted, that before a restart.
    fn use_of(&self, audience: &Audience) -> Option<Use> {
        match self.0.find_users.get() {
            Some(find) => {
                let found = {
                    let mut users = self.0.users.lock().unwrap_or_else(PoisonError::into_inner);
                    users.get_or_insert_with(|| Arc::new(find())).of(audience)
                };
                let found = if self.gets_files(audience) { Use::Used } else { found };
                let is_missed =
                    found == Use::Unused && self.lock().is_missed(audience, (self.0.clock)());
                Some(if is_missed { Use::Used } else { found })
            }
            None => self.lock().used_before.contains(audience).then_some(Use::Used),
        }
    }

    /// Returns true if a node is connected that has files of its own from now on.
    fn gets_files(&self, audience: &Audience) -> bool {
        let Some(id) = &audience.node else { return false };
        let of_group = Audience::of(audience.group.clone(), None);
        let nodes = self.nodes();
        nodes.get(&of_group).is_some_and(|nodes| nodes.iter().any(|it| *it.id == **id))
    }

    /// The nodes with open streams, by their audience without values.
    fn nodes(&self) -> Arc<NodesByAudience> {
        let Some(find) = self.0.find_nodes.get() else { return Arc::default() };
        let mut known = self.0.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.get_or_insert_with(|| Arc::new(find())))
    }

    /// Returns true if something is held back from a node that belongs to another group by now.
    pub(crate) fn holds_for_nobody(&self) -> bool {
        let of_some = |it: &&Audience| it.node.is_some() || it.group.is_some();
        let held: Vec<_> = self.lock().held.keys().filter(of_some).cloned().collect();
        let users = self.0.find_users.get().filter(|_| !held.is_empty()).map(|find| find());
        users.is_some_and(|users| held.iter().any(|it| users.of(it) == Use::Elsewhere))
    }

    /// The reason why references of an audience hold a change back. What base lacks, groups may have, so
    /// that matters only to nodes in no group.
    fn dangling(&self, audience: &Audience, change: [&Seen; 2]) -> Option<Reason> {
        let (external, allowing) = {
            let state = self.lock();
            let is_off = state.config.dangling == GateMode::Off;
            (!is_off).then(|| (state.external.clone(), Arc::clone(&state.allowing)))?
        };
        let schema = &self.0.schema;
        let (told, known) = ((&external, &*allowing), (&self.0.fields, &self.0.clusters));
        let reason = dangling::reason(schema, told, known, audience, change)?;
        let is_base = *audience == Audience::default();
        (!is_base || self.use_of(audience) == Some(Use::Used)).then_some(reason)
    }

    /// The numbers and losses of a change.
    fn change(
        &self,
        audience: &Audience,
        [before, after]: [&Seen; 2],
        config: &GateConfig,
    ) -> loss::Change {
        let between = self.between(before, after);
        let mut change = between.read(|name| config.may_be_empty.matches(name));
        let is_gone = before.has_own_layer() && !after.has_own_layer();
        // Nodes of a group that extends another go on with that one's files.
        if is_gone && audience.node.is_none() && !after.extends_group() {
            change.group_gone = audience.group.as_deref().map(str::to_owned);
        }
        if config.dangling == GateMode::Enforce {
            between.forgive_unreferred(&mut change, before.extends_group());
        }
        change
    }

    /// All reasons to hold a change back.
    fn reasons(
        &self,
        audience: &Audience,
        [before, after]: [&Seen; 2],
        (change, largest): (&loss::Change, &Counts),
        config: &GateConfig,
    ) -> Vec<Reason> {
        let mut reasons = Vec::new();
        let allowing = Arc::clone(&self.lock().allowing);
        if config.loss != GateMode::Off {
            let between = self.between(before, after);
            let percent = config.loss_percent.0;
            reasons = loss::reasons(change, largest, percent, |it| between.lost_from(it));
            // A file matters only to those who use it now.
            let file_gone = silent::file_gone(before, after);
            reasons.extend(file_gone.filter(|_| self.use_of(audience) == Some(Use::Used)));
            let known = &self.0.expired;
            reasons.extend(expired::reason(&self.0.schema, (known, &allowing), before, after));
            if !before.fills_same(after) {
                let nodes = self.nodes();
                let of_audience = nodes.get(audience).map_or(&[][..], |nodes| nodes);
                reasons.extend(unstated::reason(of_audience, before, after));
                reasons.extend(unstated::unfilled(of_audience, before, after));
            }
        }
        reasons.extend(self.flaws(audience, [before, after], (&allowing, config)));
        for [before, after] in self.filled(audience, before, after) {
            let of_nodes = self.flaws(audience, [&before, &after], (&allowing, config));
            // A fault for all is told once, and one for several nodes by the first of them.
            let told: BTreeSet<_> = reasons.iter().map(Reason::kind).collect();
            reasons.extend(of_nodes.into_iter().filter(|it| !told.contains(it.kind())));
        }
        reasons
    }

    /// The change as the connected nodes see it that state values.
    fn filled(&self, audience: &Audience, before: &Seen, after: &Seen) -> Vec<[Seen; 2]> {
        let nodes = self.nodes();
        filled::changes(nodes.get(audience).map_or(&[][..], |nodes| nodes), before, after)
    }

    /// The notice of what goes live and may be missed: of what all see, or else of what is filled for the nodes.
    fn notice(&self, audience: &Audience, [before, after]: [&Seen; 2]) -> Option<Reason> {
        let notice = |before: &Seen, after: &Seen| {
            notices::notice(&self.0.schema, &self.0.lost, before, after)
        };
        let of_nodes = || {
            let filled = self.filled(audience, before, after);
            filled.iter().find_map(|[before, after]| notice(before, after))
        };
        let is_same = before.fills_same(after);
        notice(before, after).or_else(|| if is_same { None } else { of_nodes() })
    }

    /// The reasons to hold a change back for what is wrong with all resources together.
    fn flaws(
        &self,
        audience: &Audience,
        [before, after]: [&Seen; 2],
        (allowing, config): (&Allowing, &GateConfig),
    ) -> Vec<Reason> {
        let mut reasons: Vec<_> = self.dangling(audience, [before, after]).into_iter().collect();
        if config.messages != GateMode::Off {
            let checks = Arc::clone(&self.lock().checks);
            reasons.extend(clash::reasons((allowing, &checks), audience, before, after));
            let known = (&self.0.in_place, allowing);
            // A client that comes later has nothing in place.
            let in_place = in_place::reason(&self.0.schema, known, before, after);
            reasons.extend(in_place.filter(|_| self.use_of(audience) == Some(Use::Used)));
            reasons.extend(self.unanswered(allowing, [before, after]));
        }
        reasons
    }

    /// The reason, if requests get no answer any more, or nobody can connect, though Envoy takes what comes.
    fn unanswered(&self, allowing: &Allowing, change: [&Seen; 2]) -> Option<Reason> {
        let (schema, mut listed) = (&self.0.schema, Listed::default());
        silent::add_unanswered(schema, (&self.0.unanswered, allowing), change, &mut listed);
        silent::add_unbound(schema, change, &mut listed);
        secret_kinds::add((schema, &self.0.wanted), allowing, change, &mut listed);
        subsets::add((schema, &self.0.subsets), change, &mut listed);
        (!listed.is_nothing()).then_some(Reason::Unanswered(listed))
    }

    /// Returns true if nobody has an audience whose state would be held back: its layer is gone and no node needs
    /// it, its node belongs to another group by now, or it is base, and all nodes are in groups.
    fn is_unused(&self, audience: &Audience, is_gone: bool) -> bool {
        let is_base = *audience == Audience::default();
        // Nodes of which somebody was told may only be away for a moment.
        let is_known = self.lock().is_known(audience);
        match self.use_of(audience) {
            Some(Use::Used) => false,
            Some(Use::Elsewhere) => true,
            Some(Use::Unused) => (is_gone || is_base) && !is_known,
            None => is_gone && !is_known,
        }
    }

    fn between<'a>(&'a self, before: &'a Seen, after: &'a Seen) -> Between<'a> {
        let places = Places::new(before, after);
        Between {
            schema: &self.0.schema,
            before: before.snapshot(),
            after: after.snapshot(),
            places,
        }
    }

    /// No code that can panic runs under this lock, and none that takes another one.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate for LoadGate {
    fn lets_pass(&self, audience: &Audience, before: Option<&Seen>, after: &Seen) -> bool {
        // The first state of an audience takes nothing away from it.
        let Some(before) = before else { return true };
        let is_gone = before.has_own_layer() && !after.has_own_layer();
        let config = self.lock().config.clone();
        let GateConfig { messages, loss, dangling, .. } = config;
        if [messages, loss, dangling].iter().all(|it| *it == GateMode::Off) {
            self.lock().forget(audience);
            return true;
        }
        let change = self.change(audience, [before, after], &config);
        let now = (self.0.clock)();
        let largest = self.lock().largest(audience, &change, now);
        let reasons = self.reasons(audience, [before, after], (&change, &largest), &config);
        let token = Token::of(audience, after.snapshot(), after.has_own_layer())
            .with_edits(after.unapplied().iter())
            .with_values(&after.filled_values());
        let (audience, at, edits) = (audience.clone(), SystemTime::now(), Listed::default());
        let mut held = Held { token, audience, reasons, edits, largest, since: now, at };
        if held.reasons.is_empty() {
            let notice = self.notice(&held.audience, [before, after]);
            let notice = notice.filter(|_| self.use_of(&held.audience) != Some(Use::Unused));
            let mut state = self.lock();
            state.pass_without_loss(&held, &change, now);
            state.tell(notice, held);
            return true;
        }
        let is_unused = self.is_unused(&held.audience, is_gone);
        held.edits = waiting::edits(before, after);
        let mut state = self.lock();
        if is_unused {
            state.forget(&held.audience);
            return true;
        }
        state.decide(held, now)
    }

    fn audience_of(&self, node: &str) -> Option<Audience> {
        let nodes = self.nodes();
        let is_it = |it: &Arc<Node>| it.id == node;
        let (audience, _) = nodes.iter().find(|(_, nodes)| nodes.iter().any(is_it))?;
        Some(Audience::of(audience.group.clone(), Some(node.into())))
    }

    fn judged(&self, held: &mut dyn Iterator<Item = &Audience>) {
        let now = (self.0.clock)();
        self.0.users.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.0.nodes.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.0.lost.clear();
        self.0.unanswered.clear();
        self.0.wanted.clear();
        self.0.expired.clear();
        self.0.in_place.clear();
        self.0.fields.clear();
        self.0.clusters.clear();
        self.0.subsets.clear();
        let mut state = self.lock();
        if !state.held.is_empty() || !state.held_before.is_empty() {
            let held: BTreeSet<_> = held.collect();
            // One that a fault holds too could not be judged.
            let of_now = |audience: &Audience| held.contains(audience);
            let (kept, gone) = std::mem::take(&mut state.held_before)
                .into_iter()
                .partition(|(audience, _)| of_now(audience));
            state.held_before = kept;
            let gone: BTreeMap<Audience, HeldBefore> = gone;
            gone.into_values().for_each(|one| state.news.add(Outcome::Mended, one.0));
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
        if let Some(before) = self.held_before.get(&loss.audience).filter(|it| it.is(loss.token)) {
            (loss.since, loss.at) = (before.0.since, before.0.at);
        }
        let Some(outcome) = self.outcome(&mut loss, known.as_ref(), now) else {
            // Nothing else is seen, but some of the reasons may pass by now, or stand on other lines.
            self.held.insert(loss.audience.clone(), loss);
            return false;
        };
        self.news.add(outcome, loss.clone());
        if outcome.is_live() {
            // A loss that was meant is the state with which later ones are compared.
            self.forget(&loss.audience);
        } else {
            self.held_before.remove(&loss.audience);
            self.held.insert(loss.audience.clone(), loss);
        }
        outcome.is_live()
    }

    /// The outcome for a loss, beside the one that is held so far; `None` if it is the same, and stays held.
    fn outcome(&self, loss: &mut Held, known: Option<&Held>, now: Duration) -> Option<Outcome> {
        let is_confirmed = self.confirmed.contains(&(loss.audience.clone(), loss.token));
        match known {
            _ if !loss.reasons.iter().any(|reason| self.enforces(reason, now)) => {
                Some(Outcome::Warned)
            }
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
    fn enforces(&self, reason: &Reason, now: Duration) -> bool {
        let mode = match reason {
            Reason::Dangling(_) | Reason::Cycle(_) => self.config.dangling,
            // Broken rules of the messages, which only several of them together have.
            Reason::Clash(_)
            | Reason::InPlace(_)
            | Reason::Unapplied(_)
            | Reason::Unanswered(_) => self.config.messages,
            _ => self.config.loss,
        };
        mode == GateMode::Enforce && self.warns_for(now).is_none()
    }

    /// The rest of the time in which nothing is enforced, if that is not over.
    fn warns_for(&self, now: Duration) -> Option<Duration> {
        let until = self.begun.saturating_add(self.config.warn_for.0?);
        until.checked_sub(now).filter(|rest| !rest.is_zero())
    }

    /// The most that an audience had of late, or when the first of its states was held.
    fn largest(&self, audience: &Audience, change: &loss::Change, now: Duration) -> Counts {
        let window = self.windows.get(audience);
        let largest = window.map_or(change.before, |window| window.largest(now, change.before));
        let held = self.held.get(audience).map(|held| held.largest);
        let held_before = self.held_before.get(audience).map(|before| before.0.largest);
        held.into_iter().chain(held_before).fold(largest, Counts::largest)
    }

    /// Has somebody told of a change that passes.
    fn tell(&mut self, notice: Option<Reason>, mut passed: Held) {
        passed.reasons.extend(notice);
        if !passed.reasons.is_empty() {
            self.news.add(Outcome::Noticed, passed);
        }
    }

    fn pass_without_loss(&mut self, passed: &Held, change: &loss::Change, now: Duration) {
        let audience = &passed.audience;
        let before = self.held_before.remove(audience).map(|before| before.0);
        if let Some(held) = self.held.remove(audience).or(before) {
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

    /// Returns true if nodes of an audience may only be away for a moment: something is held back from
    /// them, or they were there before a restart and have had no time to come back.
    fn is_missed(&self, audience: &Audience, now: Duration) -> bool {
        let may_come = now < self.started + TIME_TO_COME_BACK;
        self.is_known(audience) || (may_come && self.used_before.contains(audience))
    }

    /// Returns true if something was held back from an audience.
    fn is_known(&self, audience: &Audience) -> bool {
        self.held.contains_key(audience) || self.held_before.contains_key(audience)
    }

    fn forget(&mut self, audience: &Audience) {
        self.held.remove(audience);
        self.held_before.remove(audience);
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

/// The time on the clock of the gate when it begins, so that there is room for what was before.
const BEFORE: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The time in which nodes come back after a restart.
pub(crate) const TIME_TO_COME_BACK: Duration = Duration::from_secs(600);

/// The number of events that are kept until somebody asks for them.
const MOST_EVENTS: usize = 1000;

#[cfg(test)]
mod tests;
