//! The choice among filter chains: the most specific match, step by step.
//!
//! Each step keeps what matches best and forgets the rest: the range of the destination, then the transport,
//! the type of the source, its range, its port. A chain that matches better in an earlier step wins, and
//! nothing is found if it does not match in a later one; there is no way back.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr};

use super::{ChainMatch, SourceType, TransportMatch};
use crate::matching::AddressRange;

/// The rules that all chains of a listener may have together. Lists multiply, and no listener means that.
const MAX_RULES: usize = 100_000;

/// A connection that has been accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivedConnection {
    /// The server's address.
    pub local: IpAddr,
    /// The address and port of the peer.
    pub peer: SocketAddr,
}

/// The filter chains of a listener.
#[derive(Clone, Debug)]
pub struct FilterChains<T> {
    chains: Vec<T>,
    default: Option<T>,
    destinations: Destinations,
}

// From the most specific key to the least in each map.
type Destinations = BTreeMap<RangeKey, BTreeMap<TransportMatch, BTreeMap<SourceType, Sources>>>;
type Sources = BTreeMap<RangeKey, BTreeMap<Option<u16>, usize>>;

/// A range, or all addresses. The order is from the longest prefix to the shortest; all addresses, of both
/// versions of IP, are less specific than a range of 0 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RangeKey {
    bits: Reverse<Option<u8>>,
    range: Option<AddressRange>,
}

/// One combination of the conditions of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the fields are those of the match")]
pub struct ChainRule {
    pub destination: Option<AddressRange>,
    pub transport: TransportMatch,
    pub source_type: SourceType,
    pub source: Option<AddressRange>,
    pub source_port: Option<u16>,
}

impl<T> FilterChains<T> {
    /// Takes chains, and the one for connections that none matches. Two chains with one rule are refused.
    pub fn new(
        chains: Vec<(ChainMatch, T)>,
        default: Option<T>,
    ) -> Result<Self, FilterChainsError> {
        let mut destinations = Destinations::new();
        let mut rules = 0;
        for (index, (chain_match, _)) in chains.iter().enumerate() {
            if !chain_match.is_possible() {
                continue;
            }
            rules += chain_match.rule_count();
            if rules > MAX_RULES {
                return Err(FilterChainsError::TooManyRules);
            }
            for rule in chain_match.rules() {
                if let Some(first) = insert(&mut destinations, &rule, index) {
                    return Err(FilterChainsError::Duplicate { first, second: index, rule });
                }
            }
        }
        let chains = chains.into_iter().map(|(_, chain)| chain).collect();
        Ok(Self { chains, default, destinations })
    }

    /// The chain of a connection; `None` if the connection is to be closed without a byte.
    pub fn choose(&self, connection: &ArrivedConnection) -> Option<&T> {
        match self.find(connection) {
            Some(index) => self.chains.get(index),
            None => self.default.as_ref(),
        }
    }

    /// Returns true if no connection has a chain.
    pub fn is_empty(&self) -> bool {
        self.destinations.is_empty() && self.default.is_none()
    }

    /// All chains in their order, the default last.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chains.iter().chain(&self.default)
    }

    fn find(&self, connection: &ArrivedConnection) -> Option<usize> {
        let (local, peer) = (connection.local.to_canonical(), connection.peer.ip().to_canonical());
        let transports = best(&self.destinations, local)?;
        // Both transports that are possible match every connection.
        let types = transports.values().next()?;
        let source_type = match peer == local || peer.is_loopback() {
            true => SourceType::SameIpOrLoopback,
            false => SourceType::External,
        };
        let sources = types.get(&source_type).or_else(|| types.get(&SourceType::Any))?;
        let ports = best(sources, peer)?;
        ports.get(&Some(connection.peer.port())).or_else(|| ports.get(&None)).copied()
    }
}

impl ChainMatch {
    fn rule_count(&self) -> usize {
        let count = |list: usize| list.max(1);
        count(self.destinations.len())
            .saturating_mul(count(self.sources.len()))
            .saturating_mul(count(self.source_ports.len()))
    }

    /// All combinations of the conditions.
    fn rules(&self) -> impl Iterator<Item = ChainRule> {
        each(&self.destinations).flat_map(move |destination| {
            each(&self.sources).flat_map(move |source| {
                each(&self.source_ports).map(move |source_port| ChainRule {
                    destination,
                    transport: self.transport,
                    source_type: self.source_type,
                    source,
                    source_port,
                })
            })
        })
    }
}

/// The values of a condition, or one without a value.
fn each<V: Copy>(values: &[V]) -> impl Iterator<Item = Option<V>> {
    let none = values.is_empty().then_some(None);
    values.iter().copied().map(Some).chain(none)
}

/// Adds a rule. Returns the chain that has it already, if one does.
fn insert(destinations: &mut Destinations, rule: &ChainRule, index: usize) -> Option<usize> {
    let transports = destinations.entry(RangeKey::new(rule.destination)).or_default();
    let types = transports.entry(rule.transport).or_default();
    let sources = types.entry(rule.source_type).or_default();
    let ports = sources.entry(RangeKey::new(rule.source)).or_default();
    let mut is_new = false;
    let first = *ports.entry(rule.source_port).or_insert_with(|| {
        is_new = true;
        index
    });
    (!is_new).then_some(first)
}

fn best<V>(ranges: &BTreeMap<RangeKey, V>, address: IpAddr) -> Option<&V> {
    let mut matching =
        ranges.iter().filter(|(key, _)| key.range.is_none_or(|range| range.contains(address)));
    matching.next().map(|(_, value)| value)
}

impl RangeKey {
    fn new(range: Option<AddressRange>) -> Self {
        Self { bits: Reverse(range.map(|range| range.bits())), range }
    }
}

/// Filter chains that are refused. The fault is that of whoever wrote the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterChainsError {
    /// A combination of conditions is there twice, so that the choice would be arbitrary.
    Duplicate {
        /// The place of the chain that has it first.
        first: usize,
        /// The place of the other chain, or of the same one.
        second: usize,
        /// The combination.
        rule: ChainRule,
    },
    /// The lists of conditions have too many combinations.
    TooManyRules,
}

impl Display for FilterChainsError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate { first, second, rule } => {
                write!(f, "filter chains {first} and {second} match the same connections: {rule}")
            }
            Self::TooManyRules => {
                write!(f, "the filter chains have more than {MAX_RULES} combinations of conditions")
            }
        }
    }
}

impl Error for FilterChainsError {}

impl Display for ChainRule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let range = |range: Option<AddressRange>| {
            range.map_or_else(|| "any address".to_owned(), |range| range.to_string())
        };
        let (from, to) = (range(self.source), range(self.destination));
        write!(f, "from {from} to {to}, source type {}", self.source_type)?;
        match self.source_port {
            Some(port) => write!(f, ", source port {port}")?,
            None => f.write_str(", any source port")?,
        }
        match self.transport {
            TransportMatch::RawBuffer => f.write_str(", transport `raw_buffer`"),
            TransportMatch::Any | TransportMatch::Other => Ok(()),
        }
    }
}
