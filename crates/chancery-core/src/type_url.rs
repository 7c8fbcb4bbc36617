//! Resource types, and the rules of the protocol that differ between them.
//!
//! The machines know no types: a type that nobody registered is served by the default rules (S-009).
//! The rules that the protocol has for single types are in one row of [`TABLE`] each, for v3 and v2
//! names alike. They are the order of one change (S-096, [eventual consistency]), the types whose
//! SotW responses are complete (S-056, [grouping resources]), and the legacy wildcard (S-050, [how
//! the client specifies resources]).
//!
//! [eventual consistency]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#eventual-consistency-considerations
//! [grouping resources]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#grouping-resources-into-responses
//! [how the client specifies resources]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#how-the-client-specifies-what-resources-to-return

use std::fmt;
use std::sync::Arc;

/// The type of a resource: a full type URL, and the protocol's rules for it.
///
/// A type of the table is a pointer to its row, so that thousands of streams share no reference
/// count and hold no text.
#[derive(Clone)]
pub struct TypeUrl {
    row: &'static Row,
    /// The URL, if it is not in the table.
    other: Option<Arc<str>>,
}

/// The rules of the protocol for one type.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeRules {
    /// The usual short name, as in `cds`; the generic rules have none.
    pub short: &'static str,
    /// The API, if the machines treat it differently.
    pub api: Api,
    /// The rank of the type in one change on an aggregated stream (S-096).
    pub rank: u8,
    /// True if a SotW response is the whole state, so that the client deletes what it leaves out
    /// (S-056, S-059).
    pub full_state: bool,
    /// True if a first request without names is a wildcard (S-050, S-053).
    pub legacy_wildcard: bool,
}

/// The APIs of xDS that the machines tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names of the APIs are their own documentation")]
#[non_exhaustive]
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

impl Api {
    /// Returns true if clients ask for other resources because of some of this API.
    pub fn leads_on(self) -> bool {
        match self {
            Self::Cds | Self::Lds | Self::Fcds | Self::Srds => true,
            Self::Rds | Self::Vhds | Self::Ecds => true,
            Self::Eds | Self::Leds | Self::Sds | Self::Rtds | Self::Other => false,
        }
    }
}

impl TypeUrl {
    /// A type by its URL; the usual prefix may be left out.
    pub fn new(url: &str) -> Self {
        let message = url.strip_prefix(PREFIX).unwrap_or(url);
        if let Some(row) = TABLE.iter().find(|row| row.message() == message) {
            return Self { row, other: None };
        }
        let url = if url.contains('/') { url.into() } else { format!("{PREFIX}{url}").into() };
        Self { row: &OTHER, other: Some(url) }
    }

    /// The URL as it stands on the wire.
    pub fn as_str(&self) -> &str {
        self.other.as_deref().unwrap_or(self.row.url)
    }

    /// The full name of the message, without the prefix.
    pub fn message_name(&self) -> &str {
        Self::message_name_in(self.as_str())
    }

    /// The full name of the message in a URL. The prefix may be anything or missing.
    pub fn message_name_in(url: &str) -> &str {
        url.rsplit_once('/').map_or(url, |(_, name)| name)
    }

    /// The rules of the protocol for this type.
    pub fn rules(&self) -> &'static TypeRules {
        &self.row.rules
    }

    /// The API of this type.
    pub fn api(&self) -> Api {
        self.row.rules.api
    }

    /// The short name, as `cds`; for types without one, the name of the message.
    pub fn short(&self) -> &str {
        let short = self.row.rules.short;
        if short.is_empty() { self.message_name() } else { short }
    }

    /// All types of the table: the v3 ones first, then v2.
    pub fn known() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| Self { row, other: None })
    }

    /// The position of this type in one change on an aggregated stream: rank, then name.
    pub(crate) fn order(&self) -> (u8, &str) {
        (self.row.rules.rank, self.as_str())
    }
}

impl PartialEq for TypeUrl {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.row, other.row) && self.other == other.other
    }
}
impl Eq for TypeUrl {}

/// Types sort in the order one change is sent in (S-096).
impl Ord for TypeUrl {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // Most types that are compared are of the table and the same.
        if self == other {
            return std::cmp::Ordering::Equal;
        }
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
        self.as_str().hash(state);
    }
}

impl fmt::Display for TypeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for TypeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}

/// One row of the table.
struct Row {
    url: &'static str,
    rules: TypeRules,
}

impl Row {
    fn message(&self) -> &'static str {
        self.url.strip_prefix(PREFIX).unwrap_or(self.url)
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
/// The type of Envoy's rate limit service, which has no short name. The service takes a response
/// for the whole state.
const RATE_LIMIT: TypeRules = rules("", Api::Other, 90, true, true);
static OTHER: Row = Row { url: "", rules: rules("", Api::Other, 90, false, true) };

macro_rules! row {
    ($message:literal, $rules:ident) => {
        Row { url: concat!("type.googleapis.com/", $message), rules: $rules }
    };
}

/// The types of Appendix A of `docs/rules/server.md`, and that of Envoy's rate limit service: v3
/// names, then v2 names.
static TABLE: [Row; 20] = [
    row!("envoy.config.cluster.v3.Cluster", CDS),
    row!("envoy.config.endpoint.v3.ClusterLoadAssignment", EDS),
    row!("envoy.config.endpoint.v3.LbEndpoint", LEDS),
    row!("envoy.config.listener.v3.Listener", LDS),
    row!("envoy.config.listener.v3.FilterChain", FCDS),
    row!("envoy.config.route.v3.ScopedRouteConfiguration", SRDS),
    row!("envoy.config.route.v3.RouteConfiguration", RDS),
    row!("envoy.config.route.v3.VirtualHost", VHDS),
    row!("envoy.extensions.transport_sockets.tls.v3.Secret", SDS),
    row!("envoy.config.core.v3.TypedExtensionConfig", ECDS),
    row!("envoy.service.runtime.v3.Runtime", RTDS),
    row!("ratelimit.config.ratelimit.v3.RateLimitConfig", RATE_LIMIT),
    row!("envoy.api.v2.Cluster", CDS),
    row!("envoy.api.v2.ClusterLoadAssignment", EDS),
    row!("envoy.api.v2.Listener", LDS),
    row!("envoy.api.v2.ScopedRouteConfiguration", SRDS),
    row!("envoy.api.v2.RouteConfiguration", RDS),
    row!("envoy.api.v2.route.VirtualHost", VHDS),
    row!("envoy.api.v2.auth.Secret", SDS),
    row!("envoy.service.discovery.v2.Runtime", RTDS),
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

    #[test]
    fn types_are_equal_if_their_urls_are() {
        let urls = [
            "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            "example.com/envoy.config.cluster.v3.Cluster",
            "type.googleapis.com/envoy.api.v2.Cluster",
            "type.googleapis.com/foo.Bar",
            "foo.Baz",
        ];
        let types = urls.map(TypeUrl::new);
        for one in &types {
            assert_eq!(*one, TypeUrl::new(one.as_str()));
            assert_eq!(types.iter().filter(|other| *other == one).count(), 1);
        }
        assert!(TypeUrl::known().all(|known| TypeUrl::new(known.message_name()) == known));
    }
}
