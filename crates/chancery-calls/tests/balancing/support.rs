//! A network without sockets for trees of policies: addresses answer, refuse or say nothing, and time
//! passes when a test says so.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chancery_calls::balancing::{
    Action, CallEnd, Connectivity, Counted, Ejection, Endpoint, EndpointLocality, Health,
    LoadWatch, Node, Permit, Pick, PickArgs, Picked, PolicyConfig, PolicyTarget, SubchannelId,
    SubchannelState, Switch, Tree, Weights,
};
use chancery_calls::{Dice, SeededDice};
use chancery_core::client::load::OrcaReport;
use chancery_core::{Locality, Time};
use http::HeaderMap;

/// The backoff of this network, which is the same for each attempt.
pub(crate) const BACKOFF: Duration = Duration::from_secs(1);

/// Something that happens to the network.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Disturbance {
    Up,
    Down,
    Silence,
    Refusal,
    Time,
}

/// A tree with the network that it lives in.
pub(crate) struct Play<N = Switch> {
    pub(crate) tree: Tree<N, SeededDice>,
    pub(crate) now: Time,
    /// The addresses that answer, at once if they are not silent.
    pub(crate) up: BTreeSet<SocketAddr>,
    /// The addresses that say nothing at all.
    silent: BTreeSet<SocketAddr>,
    subchannels: BTreeMap<SubchannelId, Subchannel>,
    /// The attempts to connect, in order.
    pub(crate) dialled: Vec<SocketAddr>,
    pub(crate) resolutions: usize,
    pub(crate) ejections: Vec<Ejection>,
    pub(crate) weights: Vec<Weights>,
    pub(crate) dice: SeededDice,
    /// The permits of calls that do not end.
    pub(crate) permits: Vec<Permit>,
    last_permit: Option<Permit>,
    /// True if a session has chosen for the last call.
    pub(crate) by_session: bool,
}

struct Subchannel {
    address: SocketAddr,
    state: SubchannelState,
    idle_at: Option<Time>,
    watch: Option<LoadWatch>,
}

/// Returns the address of a short name: `3` is 10.0.0.3:80, and `v6.3` is [::3]:80.
pub(crate) fn address(name: &str) -> SocketAddr {
    match name.strip_prefix("v6.") {
        Some(last) => format!("[::{last}]:80").parse(),
        None => format!("10.0.0.{name}:80").parse(),
    }
    .expect("an address")
}

/// Returns the end of a call, without a report.
pub(crate) fn end(succeeded: bool) -> CallEnd<'static> {
    CallEnd { succeeded, now: Time::default(), report: None }
}

/// Returns endpoints as in `1 2+v6.2 3*5`: addresses of one endpoint are joined by `+`, and a weight
/// follows `*`.
pub(crate) fn endpoints(text: &str) -> Vec<Arc<Endpoint>> {
    in_locality("", 1, text)
}

/// The same in a zone with a weight.
pub(crate) fn in_locality(zone: &str, weight: u32, text: &str) -> Vec<Arc<Endpoint>> {
    let name = Locality { zone: zone.to_owned(), ..Locality::default() };
    let locality = Arc::new(EndpointLocality { name, weight });
    text.split_whitespace()
        .map(|word| {
            let (names, weight) = word.split_once('*').unwrap_or((word, "1"));
            Arc::new(Endpoint {
                addresses: names.split('+').map(address).collect(),
                weight: weight.parse().expect("a weight"),
                locality: Arc::clone(&locality),
                health: Health::Unknown,
                hostname: "".into(),
                hash_key: None,
            })
        })
        .collect()
}

/// Returns endpoints with the configuration of their policy.
pub(crate) fn target(config: &PolicyConfig, endpoints: &[Arc<Endpoint>]) -> PolicyTarget {
    PolicyTarget { config: config.clone(), endpoints: endpoints.into(), note: None }
}

impl Play {
    pub(crate) fn new() -> Self {
        Self::of(1)
    }

    pub(crate) fn update(
        &mut self,
        config: &PolicyConfig,
        endpoints: &[Arc<Endpoint>],
    ) -> &mut Self {
        self.update_to(&target(config, endpoints))
    }
}

impl<N: Node> Play<N> {
    /// Returns a tree of any kind, with the dice of this seed.
    pub(crate) fn of(seed: u64) -> Self {
        Self {
            tree: Tree::new(SeededDice(seed)),
            now: Time::default(),
            up: BTreeSet::new(),
            silent: BTreeSet::new(),
            subchannels: BTreeMap::new(),
            dialled: Vec::new(),
            resolutions: 0,
            ejections: Vec::new(),
            weights: Vec::new(),
            dice: SeededDice(seed + 1),
            permits: Vec::new(),
            last_permit: None,
            by_session: false,
        }
    }

    /// These addresses answer from now on.
    pub(crate) fn up(&mut self, names: &str) -> &mut Self {
        for name in names.split_whitespace() {
            self.silent.remove(&address(name));
            self.up.insert(address(name));
        }
        self
    }

    /// These refuse from now on, and their connections break.
    pub(crate) fn down(&mut self, names: &str) -> &mut Self {
        for name in names.split_whitespace() {
            self.up.remove(&address(name));
        }
        let up = &self.up;
        let lost = self
            .subchannels
            .iter()
            .filter(|(_, it)| it.state == SubchannelState::Ready && !up.contains(&it.address));
        for id in lost.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.tell(id, SubchannelState::Idle);
        }
        self.run()
    }

    /// Attempts to reach these do not end.
    pub(crate) fn silent(&mut self, names: &str) -> &mut Self {
        self.silent.extend(names.split_whitespace().map(address));
        self
    }

    /// Does to an address what `kind` says, or lets time pass. Returns what it was.
    pub(crate) fn disturb(
        &mut self,
        kind: Disturbance,
        name: &str,
        dice: &mut SeededDice,
    ) -> String {
        match kind {
            Disturbance::Up => {
                self.up(name);
                format!("{name} is up")
            }
            Disturbance::Down => {
                self.down(name);
                format!("{name} is down")
            }
            Disturbance::Silence => {
                self.silent(name);
                format!("{name} says nothing from now on")
            }
            Disturbance::Refusal => {
                self.refuse(name);
                format!("{name} refuses what it left hanging")
            }
            Disturbance::Time => {
                let time = Duration::from_millis(dice.below(15_000));
                self.pass(time);
                format!("{time:?} pass")
            }
        }
    }

    /// The attempts that say nothing fail now, and later ones are answered.
    pub(crate) fn refuse(&mut self, names: &str) -> &mut Self {
        self.refuse_at(&names.split_whitespace().map(address).collect())
    }

    fn refuse_at(&mut self, addresses: &BTreeSet<SocketAddr>) -> &mut Self {
        self.silent.retain(|address| !addresses.contains(address));
        let failed = self.subchannels.iter().filter(|(_, it)| {
            it.state == SubchannelState::Connecting && addresses.contains(&it.address)
        });
        for (id, address) in failed.map(|(id, it)| (*id, it.address)).collect::<Vec<_>>() {
            self.tell(id, SubchannelState::Failed(format!("{address} refuses").into()));
        }
        self.run()
    }

    /// Ends whatever hangs, and lets so much time pass that all is connected that can be.
    pub(crate) fn calm_down(&mut self) -> &mut Self {
        self.silent.clear();
        self.refuse_at(&self.subchannels.values().map(|it| it.address).collect());
        self.pass(Duration::from_secs(60))
    }

    pub(crate) fn update_to(&mut self, config: &N::Config) -> &mut Self {
        self.tree.update(config, self.now);
        self.run()
    }

    /// Lets time pass, with all that falls into it.
    pub(crate) fn pass(&mut self, time: Duration) -> &mut Self {
        let end = self.now + time;
        loop {
            let backoff = self.subchannels.values().filter_map(|it| it.idle_at).min();
            let next = [self.tree.deadline(), backoff].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            let due = self
                .subchannels
                .iter()
                .filter(|(_, it)| it.idle_at.is_some_and(|at| at <= self.now));
            for id in due.map(|(id, _)| *id).collect::<Vec<_>>() {
                self.subchannels.get_mut(&id).expect("it was there").idle_at = None;
                self.tell(id, SubchannelState::Idle);
            }
            self.tree.on_time(self.now);
            self.run();
        }
        self.now = end;
        self
    }

    /// Does what the tree asks for, until there is nothing more to do.
    pub(crate) fn run(&mut self) -> &mut Self {
        for _ in 0..100_000 {
            match self.tree.next_action() {
                Some(action) => self.act(action),
                None => return self,
            }
        }
        panic!("the tree never comes to rest");
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Create { id, address, .. } => {
                let subchannel = Subchannel {
                    address,
                    state: SubchannelState::Idle,
                    idle_at: None,
                    watch: None,
                };
                assert!(self.subchannels.insert(id, subchannel).is_none(), "each id is new");
            }
            Action::Connect(id) => {
                let subchannel = &self.subchannels[&id];
                assert_eq!(
                    subchannel.state,
                    SubchannelState::Idle,
                    "only an idle one is connected"
                );
                self.dialled.push(subchannel.address);
                let address = subchannel.address;
                self.tell(id, SubchannelState::Connecting);
                if self.silent.contains(&address) {
                    return;
                }
                if self.up.contains(&address) {
                    self.tell(id, SubchannelState::Ready);
                } else {
                    self.tell(id, SubchannelState::Failed(format!("{address} refuses").into()));
                }
            }
            Action::Close(id) => {
                self.subchannels.remove(&id).expect("each is closed once");
            }
            Action::WatchLoad { id, watch } => {
                let subchannel = self.subchannels.get_mut(&id).expect("it is not closed");
                assert_eq!(subchannel.state, SubchannelState::Ready, "it ends with a connection");
                subchannel.watch = watch;
            }
            Action::Count(Counted::Ejection(ejection)) => self.ejections.push(ejection),
            Action::Count(Counted::Weights(weights)) => self.weights.push(weights),
            Action::Count(other) => panic!("nobody looks at {other:?}"),
            Action::Resolve => self.resolutions += 1,
        }
    }

    fn tell(&mut self, id: SubchannelId, state: SubchannelState) {
        let Some(subchannel) = self.subchannels.get_mut(&id) else { return };
        subchannel.state = state.clone();
        if state != SubchannelState::Ready {
            subchannel.watch = None;
        }
        subchannel.idle_at =
            matches!(state, SubchannelState::Failed(_)).then(|| self.now + BACKOFF);
        self.tree.subchannel(id, &state, self.now);
    }

    /// The server at this address says how loaded it is, if it is asked to. Returns how often it is to
    /// say that.
    pub(crate) fn report(&self, name: &str, report: &OrcaReport) -> Option<Duration> {
        let mut all = self.subchannels.values();
        let watch = all.find(|it| it.address == address(name))?.watch.clone()?;
        watch.watcher.reported(report, self.now);
        Some(watch.period)
    }

    /// The number of subchannels that exist.
    pub(crate) fn open(&self) -> usize {
        self.subchannels.len()
    }

    pub(crate) fn state(&self) -> Connectivity {
        self.tree.connectivity()
    }

    /// Picks once, and does what the picker wants.
    pub(crate) fn pick(&mut self) -> Pick {
        self.pick_with(None, &HeaderMap::new())
    }

    /// Picks for a call with this hash and these headers.
    pub(crate) fn pick_with(&mut self, hash: Option<u64>, metadata: &HeaderMap) -> Pick {
        self.pick_for(None, hash, metadata)
    }

    fn pick_for(
        &mut self,
        session: Option<&[SocketAddr]>,
        hash: Option<u64>,
        metadata: &HeaderMap,
    ) -> Pick {
        let picker = self.tree.picker().expect("there was an update");
        let dice = &mut self.dice;
        let (path, wake, permit, by_session) = ("/s/m", None, None, false);
        let mut call = PickArgs { path, metadata, hash, session, dice, wake, permit, by_session };
        let pick = picker.pick(&mut call);
        let wake = call.wake;
        self.last_permit = call.permit;
        self.by_session = call.by_session;
        if let Pick::To(picked) = &pick {
            let subchannel = self.subchannels.get(&picked.subchannel).expect("it is not closed");
            assert_eq!(subchannel.state, SubchannelState::Ready);
            assert!(picked.endpoint.addresses.contains(&subchannel.address));
        }
        if let Some(wake) = wake {
            self.tree.wake(wake, self.now);
            self.run();
        }
        pick
    }

    /// Returns where a call goes: `to 10.0.0.1:80`, `queue` or `fail: …`.
    pub(crate) fn call(&mut self) -> String {
        let pick = self.pick();
        self.text_of(pick)
    }

    /// The same for a call with this hash.
    pub(crate) fn call_by(&mut self, hash: u64) -> String {
        let pick = self.pick_with(Some(hash), &HeaderMap::new());
        self.text_of(pick)
    }

    /// The same for a call that has a session with the endpoint of these addresses, or begins one.
    pub(crate) fn call_of_session(&mut self, addresses: &str) -> String {
        let pick = self.pick_of_session(addresses);
        self.text_of(pick)
    }

    /// Picks for such a call.
    pub(crate) fn pick_of_session(&mut self, addresses: &str) -> Pick {
        let addresses: Vec<_> = addresses.split_whitespace().map(address).collect();
        self.pick_for(Some(&addresses), None, &HeaderMap::new())
    }

    /// Returns the endpoint of a call that has a session with it.
    pub(crate) fn picked_of_session(&mut self, name: &str) -> Picked {
        match self.pick_of_session(name) {
            Pick::To(picked) if self.by_session => picked,
            other => panic!("the session does not go on: {other:?}"),
        }
    }

    /// The same for a call with values of one header.
    pub(crate) fn call_with(&mut self, header: &'static str, values: &[&'static str]) -> String {
        let name = http::HeaderName::from_static(header);
        let values = values.iter().map(|value| http::HeaderValue::from_static(value));
        let metadata = values.map(|value| (name.clone(), value)).collect();
        let pick = self.pick_with(None, &metadata);
        self.text_of(pick)
    }

    fn text_of(&self, pick: Pick) -> String {
        match pick {
            Pick::To(picked) => format!("to {}", self.address_of(&picked)),
            Pick::Queue => "queue".to_owned(),
            Pick::Fail(failure) => format!("fail: {}", failure.message),
            Pick::Drop(failure) => format!("drop: {}", failure.message),
        }
    }

    /// Makes a call that does not end before its permit is dropped.
    pub(crate) fn long_call(&mut self) -> String {
        let to = self.call();
        self.permits.extend(self.last_permit.take());
        to
    }

    /// Returns how many of `count` calls go to each address; every call must go somewhere.
    pub(crate) fn spread(&mut self, count: usize) -> BTreeMap<SocketAddr, usize> {
        let mut spread = BTreeMap::new();
        for _ in 0..count {
            let Pick::To(picked) = self.pick() else { panic!("a call went nowhere") };
            *spread.entry(self.address_of(&picked)).or_default() += 1;
        }
        spread
    }

    /// The addresses that are connected.
    pub(crate) fn ready(&self) -> BTreeSet<SocketAddr> {
        let ready = self.subchannels.values().filter(|it| it.state == SubchannelState::Ready);
        ready.map(|it| it.address).collect()
    }

    pub(crate) fn address_of(&self, picked: &Picked) -> SocketAddr {
        self.subchannels[&picked.subchannel].address
    }

    /// Forgets the attempts until now, and returns them.
    pub(crate) fn dialled(&mut self) -> Vec<SocketAddr> {
        std::mem::take(&mut self.dialled)
    }
}
