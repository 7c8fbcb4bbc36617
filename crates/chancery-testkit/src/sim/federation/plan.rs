//! The things that a seed decides once: servers, authorities, how each of them is spoken to, and
//! the waits.
//!
//! The plan does not change during a history. Not here: the content of servers and their outages
//! (`host`), the resources of an earlier run (`stock`), and the order of events (`federation`).

use std::sync::Arc;
use std::time::Duration;

use chancery_core::client::{
    self, AuthorityKey, Fallback, Protocol, ServerFeatures, ServerId, ServerKey, Setup,
};
use chancery_core::server::Settings;
use chancery_core::{Node, TypeUrl, Variant};

use crate::script;
use crate::sim::rng::Rng;

/// Everything that stays the same for one seed.
#[derive(Debug)]
pub(super) struct FederationPlan {
    pub(super) setup: Setup,
    pub(super) servers: Vec<ServerId>,
    pub(super) authorities: Vec<SimulatedAuthority>,
    /// The behaviour of servers.
    pub(super) settings: Arc<Settings>,
    /// The longest time that a message takes.
    pub(super) delay: Duration,
    /// The number of responses that fit on the wire.
    pub(super) window: usize,
    pub(super) dangers: Dangers,
}

/// The things that may happen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dangers {
    /// Bodies that are rejected.
    pub(super) bad: bool,
    /// Resources with a time to live.
    pub(super) ttl: bool,
    /// Watchers that read late.
    pub(super) slow: bool,
    /// Servers that are away, silent, or close their streams.
    pub(super) outages: bool,
    /// Equal bodies on all servers.
    pub(super) alike: bool,
    /// Responses that are said twice in a row.
    pub(super) drafts: bool,
    /// Resources of an earlier run.
    pub(super) stock: bool,
}

/// The servers that answer for some names.
#[derive(Debug)]
pub(super) struct SimulatedAuthority {
    pub(super) key: AuthorityKey,
    pub(super) servers: Vec<ServerId>,
    pub(super) fallback: Fallback,
}

/// The types that are watched: one whose absence means deletion, and two whose does not.
pub(super) const TYPES: [&str; 3] = ["cds", "eds", "rds"];

/// The longest wait of a client between two attempts.
pub(super) const BACKOFF: Duration = Duration::from_secs(30);

impl FederationPlan {
    pub(super) fn new(rng: &mut Rng, seed: u64) -> Self {
        let settings = client::Settings {
            backoff_max: BACKOFF,
            idle: *rng.one_of(&[Duration::from_secs(5), Duration::from_secs(300)]),
            jitter: if rng.chance(50) { 0.0 } else { 0.2 },
            seed,
            ..client::Settings::default()
        };
        let features = ["xds.config.resource-in-sotw", "xds.config.supports-resource-ttl"];
        let client_features = features.iter().map(|it| (*it).to_owned()).collect();
        let node = Node { id: "node".to_owned(), client_features, ..Node::default() };
        let mut setup = Setup::new(Arc::new(node), settings);
        let count = 1 + rng.below(4);
        let servers: Vec<_> = (0..count).map(|number| server(rng, &mut setup, number)).collect();
        let authorities =
            ["#old", "a", "b"].map(|label| authority(rng, &mut setup, &servers, label));
        let dangers = Dangers {
            bad: false,
            ttl: rng.chance(20),
            slow: rng.chance(30),
            outages: rng.chance(85),
            alike: rng.chance(30),
            drafts: rng.chance(40),
            stock: false,
        };
        // Of a response that is rejected, nothing is renewed, and the client uses what is good of
        // it.
        let dangers = Dangers { bad: !dangers.ttl && rng.chance(30), ..dangers };
        // A resource with a TTL is not kept for another run.
        let dangers = Dangers { stock: !dangers.ttl && rng.chance(40), ..dangers };
        let settings = Settings { report_missing: rng.chance(30), ..Settings::default() };
        Self {
            setup,
            servers,
            authorities: authorities.into(),
            settings: Arc::new(settings),
            delay: Duration::from_millis(*rng.one_of(&[1, 50, 1000])),
            window: usize::try_from(1 + rng.below(3)).unwrap_or(1),
            dangers,
        }
    }

    pub(super) fn delay(&self, rng: &mut Rng) -> Duration {
        rng.time(self.delay)
    }

    pub(super) fn protocol(&self, server: ServerId) -> Protocol {
        let found = self.setup.find(server).map(|server| server.protocol);
        found.expect("the servers of a plan are in its setup")
    }

    pub(super) fn authority(&self, key: &AuthorityKey) -> &SimulatedAuthority {
        let found = self.authorities.iter().find(|authority| authority.key == *key);
        found.expect("only names of the plan's authorities are watched")
    }

    /// Returns true if there are names for all that an authority has: SotW knows no globs (S-117).
    pub(super) fn has_groups(&self, authority: &SimulatedAuthority) -> bool {
        let mut servers = authority.servers.iter();
        authority.key == AuthorityKey::Old
            || servers.all(|id| self.protocol(*id).variant() == Variant::Delta)
    }

    /// For people.
    pub(super) fn describe(&self) -> String {
        let mut text =
            format!("{:?}, delay {:?}, window {}", self.dangers, self.delay, self.window);
        for (id, server) in self.setup.servers() {
            let (protocol, features) = (server.protocol, server.key.features);
            let is_aggregated = matches!(protocol, Protocol::Stream { aggregated: true, .. });
            let shape = if is_aggregated { "ADS" } else { "per type" };
            text += &format!("\n  s{}: {:?} {shape} {features:?}", id.index(), protocol.variant());
        }
        for authority in &self.authorities {
            let places: Vec<_> =
                authority.servers.iter().map(|id| format!("s{}", id.index())).collect();
            let (key, fallback) = (&authority.key, authority.fallback);
            text += &format!("\n  {key}: {} {fallback:?}", places.join(" "));
        }
        text
    }
}

fn server(rng: &mut Rng, setup: &mut Setup, number: u64) -> ServerId {
    let features = ServerFeatures {
        fail_on_data_errors: rng.chance(30),
        resource_timer_is_transient_error: rng.chance(20),
        trusted: false,
    };
    let uri = format!("s{number}").into();
    let key = ServerKey { uri, credentials: "insecure".into(), features };
    let variant = *rng.one_of(&[Variant::Sotw, Variant::Delta]);
    setup.server(key, Protocol::Stream { variant, aggregated: rng.chance(70) })
}

/// Some of the servers, in any order.
fn authority(
    rng: &mut Rng,
    setup: &mut Setup,
    servers: &[ServerId],
    label: &str,
) -> SimulatedAuthority {
    let key = match label {
        "#old" => AuthorityKey::Old,
        name => AuthorityKey::Named(name.into()),
    };
    let mut left = servers.to_vec();
    let count = 1 + rng.below(u64::try_from(left.len()).unwrap_or(1).min(3));
    let mut chosen = Vec::new();
    for _ in 0..count {
        let one = *rng.one_of(&left);
        left.retain(|id| *id != one);
        chosen.push(one);
    }
    let fallback = if rng.chance(80) { Fallback::Needed } else { Fallback::Reachability };
    setup.authority(key.clone(), chosen.clone(), fallback);
    SimulatedAuthority { key, servers: chosen, fallback }
}

/// A name that somebody may watch or publish: four of each authority and type.
pub(super) fn name(authority: &AuthorityKey, type_url: &TypeUrl, number: u64) -> String {
    format!("{}x{number}", prefix(authority, type_url))
}

/// All names of an authority: `*`, or the glob of a collection.
pub(super) fn group(authority: &AuthorityKey, type_url: &TypeUrl) -> String {
    format!("{}*", prefix(authority, type_url))
}

fn prefix(authority: &AuthorityKey, type_url: &TypeUrl) -> String {
    match authority {
        AuthorityKey::Old => String::new(),
        AuthorityKey::Named(name) => format!("xdstp://{name}/{}/g/", type_url.message_name()),
    }
}

/// The number of names of each authority and type.
pub(super) const NAMES: u64 = 4;

/// One of [`TYPES`].
pub(super) fn type_url(short: &str) -> TypeUrl {
    script::type_url(short)
}
