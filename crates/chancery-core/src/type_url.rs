//! Resource types, and what the protocol says differently about each.
//!
//! The machines are type-agnostic: a type nobody registered is served by the default rules. What
//! the protocol does say about single types is one row of [`TABLE`], for v3 and v2 names alike.

use std::fmt;
use std::sync::Arc;

/// The type of a resource: a full type URL, and the protocol's rules for it.
#[derive(Clone)]
pub struct TypeUrl {
    url: Arc<str>,
    rules: &'static TypeRules,
}

/// What the protocol says differently about one type.
#[derive(Debug, PartialEq, Eq)]
pub struct TypeRules {
    /// The usual short name, as in `cds`; the generic rules have none.
    pub short: &'static str,
    /// Which API this is, if the machines must know.
    pub api: Api,
    /// Where the type stands when one change is sent on an aggregated stream (S-096).
    pub rank: u8,
    /// Whether a SotW response is the whole state, so that absence deletes (S-056, S-059).
    pub full_state: bool,
    /// Whether a first request without names means everything (S-050, S-053).
    pub legacy_wildcard: bool,
}

/// The APIs of xDS that the machines tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names of the APIs are their own documentation")]
pub enum Api {
    Cds,
    Eds,
    Leds,
    Lds,
    Fcds,
    Srds,
    Rds,
    Vhds,
    Sds,
    Ecds,
    Rtds,
    Other,
}

impl TypeUrl {
    /// A type by its URL; the usual prefix may be left out.
    pub fn new(url: &str) -> Self {
        let message = url.strip_prefix(PREFIX).unwrap_or(url);
        let rules =
            TABLE.iter().find(|(name, _)| *name == message).map_or(&OTHER, |(_, rules)| rules);
        let url = if url.contains('/') { url.into() } else { format!("{PREFIX}{url}").into() };
        Self { url, rules }
    }

    /// The URL as it stands on the wire.
    pub fn as_str(&self) -> &str {
        &self.url
    }

    /// The full name of the message, without the prefix.
    pub fn message_name(&self) -> &str {
        self.url.rsplit_once('/').map_or(&self.url, |(_, name)| name)
    }

    /// What the protocol says about this type.
    pub fn rules(&self) -> &'static TypeRules {
        self.rules
    }

    /// Which API this is.
    pub fn api(&self) -> Api {
        self.rules.api
    }

    /// `cds` and the like; the message name for types without a short one.
    pub fn short(&self) -> &str {
        if self.rules.short.is_empty() { self.message_name() } else { self.rules.short }
    }

    /// All types the table knows: the v3 ones first, then v2.
    pub fn known() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|(name, _)| Self::new(name))
    }

    /// The position of this type in one change on an aggregated stream: rank, then name.
    pub(crate) fn order(&self) -> (u8, &str) {
        (self.rules.rank, &self.url)
    }
}

impl PartialEq for TypeUrl {
    fn eq(&self, other: &Self) -> bool {
        self.url == other.url
    }
}
impl Eq for TypeUrl {}

/// Types sort in the order one change is sent in (S-096).
impl Ord for TypeUrl {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}
impl PartialOrd for TypeUrl {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl std::hash::Hash for TypeUrl {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.url.hash(state);
    }
}

impl fmt::Display for TypeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl fmt::Debug for TypeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}

const PREFIX: &str = "type.googleapis.com/";

const fn rules(
    short: &'static str,
    api: Api,
    rank: u8,
    full_state: bool,
    legacy_wildcard: bool,
) -> TypeRules {
    TypeRules { short, api, rank, full_state, legacy_wildcard }
}

const CDS: TypeRules = rules("cds", Api::Cds, 10, true, true);
const EDS: TypeRules = rules("eds", Api::Eds, 20, false, false);
const LEDS: TypeRules = rules("leds", Api::Leds, 30, false, false);
const LDS: TypeRules = rules("lds", Api::Lds, 40, true, true);
const FCDS: TypeRules = rules("fcds", Api::Fcds, 45, false, true);
const SRDS: TypeRules = rules("srds", Api::Srds, 50, true, true);
const RDS: TypeRules = rules("rds", Api::Rds, 60, false, false);
const VHDS: TypeRules = rules("vhds", Api::Vhds, 70, false, false);
const SDS: TypeRules = rules("sds", Api::Sds, 80, false, false);
const ECDS: TypeRules = rules("ecds", Api::Ecds, 82, false, true);
const RTDS: TypeRules = rules("rtds", Api::Rtds, 84, false, true);
static OTHER: TypeRules = rules("", Api::Other, 90, false, true);

/// Appendix A of the catalogue: v3 names, then v2 names.
static TABLE: [(&str, TypeRules); 19] = [
    ("envoy.config.cluster.v3.Cluster", CDS),
    ("envoy.config.endpoint.v3.ClusterLoadAssignment", EDS),
    ("envoy.config.endpoint.v3.LbEndpoint", LEDS),
    ("envoy.config.listener.v3.Listener", LDS),
    ("envoy.config.listener.v3.FilterChain", FCDS),
    ("envoy.config.route.v3.ScopedRouteConfiguration", SRDS),
    ("envoy.config.route.v3.RouteConfiguration", RDS),
    ("envoy.config.route.v3.VirtualHost", VHDS),
    ("envoy.extensions.transport_sockets.tls.v3.Secret", SDS),
    ("envoy.config.core.v3.TypedExtensionConfig", ECDS),
    ("envoy.service.runtime.v3.Runtime", RTDS),
    ("envoy.api.v2.Cluster", CDS),
    ("envoy.api.v2.ClusterLoadAssignment", EDS),
    ("envoy.api.v2.Listener", LDS),
    ("envoy.api.v2.ScopedRouteConfiguration", SRDS),
    ("envoy.api.v2.RouteConfiguration", RDS),
    ("envoy.api.v2.route.VirtualHost", VHDS),
    ("envoy.api.v2.auth.Secret", SDS),
    ("envoy.service.discovery.v2.Runtime", RTDS),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_change_is_sent_clusters_first_and_routes_after_listeners() {
        // S-096
        let mut types: Vec<_> = ["lds", "rds", "cds", "vhds", "eds", "srds"]
            .iter()
            .filter_map(|short| TypeUrl::known().find(|url| url.short() == *short))
            .collect();
        types.sort();
        let order: Vec<_> = types.iter().map(TypeUrl::short).collect();
        assert_eq!(order, ["cds", "eds", "lds", "srds", "rds", "vhds"]);
    }

    #[test]
    fn a_type_nobody_registered_has_the_default_rules() {
        // S-009
        let private = TypeUrl::new("type.googleapis.com/foo.Bar");
        assert_eq!(private.api(), Api::Other);
        assert_eq!(private.message_name(), "foo.Bar");
        assert_eq!(private.short(), "foo.Bar");
        assert!(!private.rules().full_state);
    }

    #[test]
    fn the_prefix_may_be_left_out() {
        let short = TypeUrl::new("envoy.config.cluster.v3.Cluster");
        assert_eq!(short.as_str(), "type.googleapis.com/envoy.config.cluster.v3.Cluster");
        assert_eq!(short, TypeUrl::new(short.as_str()));
    }
}
