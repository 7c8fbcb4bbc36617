//! Outlier detection: endpoints whose calls fail are taken out for a while (C-149, gRFC A50, A61, A75).
//!
//! ```text
//!   calls end --> Counts of their endpoint --each interval--> outliers --> Node::ejected, for each
//!                                                                          subchannel of the endpoint
//! ```
//!
//! It stands above whatever has the connections, also above all priorities of a cluster. An endpoint that
//! is out keeps its connections, and is connected again if they break.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::Time;

use self::counts::{Calls, Counters, Counting, Counts};
use super::connectivity::{Connectivity, SubchannelState};
use super::context::{Context, Part, SubchannelId, Trace};
use super::counted::{Counted, Ejection, Unenforced};
use super::description::Description;
use super::endpoint::{Endpoint, EndpointKey};
use super::node::{Branch, Node};
use super::picker::{Picker, Wake};
use super::roster::{OfEndpoint, Roster, Seated};

mod config;
mod counts;
mod outliers;

pub use self::config::{Detection, FailurePercentage, Percent, SuccessRate};
pub use self::outliers::DetectionMethod;

/// No configuration makes a client look more often than this.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// A node with outlier detection.
#[derive(Clone, Debug)]
pub struct DetectionTarget<C> {
    /// The name of the cluster, for metrics.
    pub cluster: Arc<str>,
    /// When endpoints are taken out.
    pub detection: Arc<Detection>,
    /// All endpoints of the node. Others are never taken out.
    pub endpoints: Arc<[Arc<Endpoint>]>,
    /// The configuration of the node.
    pub node: C,
}

/// Takes endpoints of a node out.
#[derive(Debug)]
pub struct OutlierDetection<N: Node> {
    target: DetectionTarget<N::Config>,
    node: N,
    endpoints: Roster<Watched>,
    /// The endpoints of addresses.
    keys: HashMap<SocketAddr, EndpointKey>,
    /// The subchannels of the node, by their addresses.
    subchannels: BTreeMap<SocketAddr, BTreeSet<SubchannelId>>,
    addresses: BTreeMap<SubchannelId, SocketAddr>,
    counters: Arc<Counters>,
    /// When the present interval has begun.
    interval_began: Option<Time>,
    picker: Option<OwnPicker>,
}

/// The picker that was made, with what it was made of.
#[derive(Debug)]
struct OwnPicker {
    picker: Arc<dyn Picker>,
    inner: Arc<dyn Picker>,
    counters: Arc<Counters>,
}

/// An endpoint.
#[derive(Debug)]
struct Watched {
    key: EndpointKey,
    addresses: Arc<[SocketAddr]>,
    counts: Arc<Counts>,
    /// When it was taken out, if it is out.
    ejected_at: Option<Time>,
    /// The number of times that it was taken out, less those intervals that it was in since then.
    times: u32,
}

impl Watched {
    fn new(key: EndpointKey, addresses: Arc<[SocketAddr]>) -> Self {
        Self { key, addresses, counts: Arc::default(), ejected_at: None, times: 0 }
    }
}

impl OfEndpoint for Watched {
    fn key(&self) -> &EndpointKey {
        &self.key
    }
}

impl<N: Node> OutlierDetection<N> {
    /// Lets the node handle something, and takes note of its subchannels.
    fn with_node(&mut self, cx: &mut Context<'_>, handle: impl FnOnce(&mut N, &mut Context<'_>)) {
        let mut next = cx.trail.len();
        handle(&mut self.node, cx);
        while let Some(trace) = cx.trail.get(next).copied() {
            next += 1;
            match trace {
                Trace::Leads(id, address) => {
                    self.subchannels.entry(address).or_default().insert(id);
                    self.addresses.insert(id, address);
                    self.count_for(id, address);
                    if self.endpoint_at(address).is_some_and(|it| it.ejected_at.is_some()) {
                        self.node.ejected(id, true, cx);
                    }
                }
                Trace::Gone(Part::Subchannel(id)) => self.forget(id),
                Trace::Made(_) | Trace::Gone(Part::Endpoint(_)) => {}
            }
        }
    }

    fn forget(&mut self, id: SubchannelId) {
        let Some(address) = self.addresses.remove(&id) else { return };
        if let Some(others) = self.subchannels.get_mut(&address) {
            others.remove(&id);
            if others.is_empty() {
                self.subchannels.remove(&address);
            }
        }
    }

    fn endpoint_at(&self, address: SocketAddr) -> Option<&Watched> {
        self.endpoints.get(self.keys.get(&address)?)
    }

    /// Calls to a subchannel count for the endpoint that has its address now.
    fn count_for(&mut self, id: SubchannelId, address: SocketAddr) {
        let counts = self.endpoint_at(address).map(|it| Arc::clone(&it.counts));
        let counters = Arc::make_mut(&mut self.counters);
        if counters.len() <= id.slot() {
            counters.resize(id.slot() + 1, None);
        }
        counters[id.slot()] = counts;
    }

    /// Takes the endpoints of an update. One with the same addresses is the same. Returns the addresses of those
    /// that came and of those that went.
    fn watch(&mut self, endpoints: &[Arc<Endpoint>]) -> BTreeSet<SocketAddr> {
        let (mut changed, mut place) = (BTreeSet::new(), 0);
        for endpoint in endpoints {
            match self.endpoints.seat(place, endpoint) {
                Seated::Known => {}
                Seated::New(key) => {
                    let addresses = Arc::clone(&endpoint.addresses);
                    changed.extend(addresses.iter().copied());
                    self.keys.extend(addresses.iter().map(|address| (*address, key.clone())));
                    self.endpoints.insert(place, Watched::new(key, addresses));
                }
                Seated::Twice => continue,
            }
            place += 1;
        }
        for gone in self.endpoints.cut(place) {
            changed.extend(gone.addresses.iter().copied());
            for address in &*gone.addresses {
                if self.keys.get(address) == Some(&gone.key) {
                    self.keys.remove(address);
                }
            }
        }
        changed
    }

    /// Tells the node of the subchannels at these addresses, whose endpoint is another one now.
    fn retell(
        &mut self,
        changed: &BTreeSet<SocketAddr>,
        was_out: &BTreeSet<SubchannelId>,
        cx: &mut Context<'_>,
    ) {
        for address in changed {
            let ids: Vec<_> = self.subchannels_of(&[*address]);
            let is_out = self.endpoint_at(*address).is_some_and(|it| it.ejected_at.is_some());
            for id in ids {
                self.count_for(id, *address);
                if is_out != was_out.contains(&id) {
                    self.with_node(cx, |node, cx| node.ejected(id, is_out, cx));
                }
            }
        }
    }

    fn out(&self) -> BTreeSet<SubchannelId> {
        let out = self.watched().iter().filter(|it| it.ejected_at.is_some());
        out.flat_map(|it| self.subchannels_of(&it.addresses)).collect()
    }

    fn watched(&self) -> &[Watched] {
        self.endpoints.items()
    }

    fn subchannels_of(&self, addresses: &[SocketAddr]) -> Vec<SubchannelId> {
        addresses.iter().filter_map(|it| self.subchannels.get(it)).flatten().copied().collect()
    }

    /// Begins intervals, goes on with the present one, or ends them and lets all in again.
    fn configure(&mut self, cx: &mut Context<'_>) {
        if !self.target.detection.is_enabled() {
            self.interval_began = None;
            for place in 0..self.watched().len() {
                self.endpoints.items_mut()[place].times = 0;
                self.let_in(place, cx);
            }
        } else if self.interval_began.is_none() {
            self.interval_began = Some(cx.now);
            for endpoint in self.watched() {
                endpoint.counts.take();
            }
        }
    }

    fn interval_ends(&self) -> Option<Time> {
        let interval = self.target.detection.interval.max(SHORTEST_INTERVAL);
        self.interval_began.map(|began| began + interval)
    }

    /// Looks at the calls of the interval that has ended.
    fn sweep(&mut self, cx: &mut Context<'_>) {
        self.interval_began = Some(cx.now);
        let detection = Arc::clone(&self.target.detection);
        let calls: Vec<Calls> = self.watched().iter().map(|it| it.counts.take()).collect();
        let mut out = self.watched().iter().filter(|it| it.ejected_at.is_some()).count();
        for (place, method) in outliers::outliers(&detection, &calls) {
            if self.watched()[place].ejected_at.is_none() {
                let unenforced = self.judge(method, out, cx);
                if unenforced.is_none() {
                    out += 1;
                    self.take_out(place, cx);
                }
                let cluster = Arc::clone(&self.target.cluster);
                cx.count(Counted::Ejection(Ejection { cluster, method, unenforced }));
            }
        }
        for place in 0..self.watched().len() {
            let endpoint = &mut self.endpoints.items_mut()[place];
            match endpoint.ejected_at {
                None => endpoint.times = endpoint.times.saturating_sub(1),
                Some(at) if at + detection.ejection_time(endpoint.times) <= cx.now => {
                    self.let_in(place, cx);
                }
                Some(_) => {}
            }
        }
    }

    /// Returns the reason why an outlier stays, while so many are out.
    fn judge(
        &self,
        method: DetectionMethod,
        out: usize,
        cx: &mut Context<'_>,
    ) -> Option<Unenforced> {
        let detection = &self.target.detection;
        let most = usize::from(detection.max_ejection_percent.of_hundred());
        if out * 100 >= most * self.watched().len() {
            return Some(Unenforced::MaxEjectionOverflow);
        }
        let success_rate = || detection.success_rate.as_ref().map(|it| it.enforcement);
        let failures = || detection.failure_percentage.as_ref().map(|it| it.enforcement);
        let enforcement = match method {
            DetectionMethod::SuccessRate => success_rate(),
            DetectionMethod::FailurePercentage => failures(),
        };
        let chance = enforcement.map_or(0, Percent::of_hundred);
        let is_enforced = cx.dice().below(100) < u64::from(chance);
        (!is_enforced).then_some(Unenforced::EnforcementPercentage)
    }

    fn take_out(&mut self, place: usize, cx: &mut Context<'_>) {
        let endpoint = &mut self.endpoints.items_mut()[place];
        endpoint.ejected_at = Some(cx.now);
        endpoint.times += 1;
        self.tell(place, true, cx);
    }

    fn let_in(&mut self, place: usize, cx: &mut Context<'_>) {
        if self.endpoints.items_mut()[place].ejected_at.take().is_some() {
            self.tell(place, false, cx);
        }
    }

    fn tell(&mut self, place: usize, is_ejected: bool, cx: &mut Context<'_>) {
        for id in self.subchannels_of(&self.watched()[place].addresses) {
            self.with_node(cx, |node, cx| node.ejected(id, is_ejected, cx));
        }
    }
}

impl<N: Node> Node for OutlierDetection<N> {
    type Config = DetectionTarget<N::Config>;

    fn new(target: &Self::Config) -> Self {
        Self {
            target: target.clone(),
            node: N::new(&target.node),
            endpoints: Roster::default(),
            keys: HashMap::new(),
            subchannels: BTreeMap::new(),
            addresses: BTreeMap::new(),
            counters: Arc::default(),
            interval_began: None,
            picker: None,
        }
    }

    fn update(&mut self, target: &Self::Config, cx: &mut Context<'_>) {
        self.target.clone_from(target);
        let was_out = self.out();
        let changed = self.watch(&target.endpoints);
        self.retell(&changed, &was_out, cx);
        self.configure(cx);
        self.with_node(cx, |node, cx| node.update(&target.node, cx));
    }
}

impl<N: Node> Branch for OutlierDetection<N> {
    fn subchannel(&mut self, id: SubchannelId, state: &SubchannelState, cx: &mut Context<'_>) {
        self.with_node(cx, |node, cx| node.subchannel(id, state, cx));
    }

    fn ejected(&mut self, id: SubchannelId, is_ejected: bool, cx: &mut Context<'_>) {
        self.with_node(cx, |node, cx| node.ejected(id, is_ejected, cx));
    }

    fn wake(&mut self, wake: Wake, cx: &mut Context<'_>) {
        self.with_node(cx, |node, cx| node.wake(wake, cx));
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        if self.interval_ends().is_some_and(|at| at <= cx.now) {
            self.sweep(cx);
        }
        self.with_node(cx, N::on_time);
    }

    fn deadline(&self) -> Option<Time> {
        [self.interval_ends(), self.node.deadline()].into_iter().flatten().min()
    }

    fn connectivity(&self) -> Connectivity {
        self.node.connectivity()
    }

    fn picker(&mut self) -> Arc<dyn Picker> {
        let inner = self.node.picker();
        if !self.target.detection.is_enabled() {
            return inner;
        }
        if let Some(own) = &self.picker
            && Arc::ptr_eq(&own.inner, &inner)
            && Arc::ptr_eq(&own.counters, &self.counters)
        {
            return Arc::clone(&own.picker);
        }
        let counters = Arc::clone(&self.counters);
        let counting = Counting { inner: Arc::clone(&inner), counters: Arc::clone(&counters) };
        let picker: Arc<dyn Picker> = Arc::new(counting);
        self.picker = Some(OwnPicker { picker: Arc::clone(&picker), inner, counters });
        picker
    }

    /// Endpoints say themselves that they were taken out.
    fn describe(&self) -> Description {
        self.node.describe()
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        self.with_node(cx, N::close);
    }
}
