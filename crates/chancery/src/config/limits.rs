//! The `limits` table: every wait and limit an operator can set, with its default and its cost.
//!
//! Each default is taken from the crate that applies the limit, so it is written down once. A limit
//! whose default follows from the machine is none until somebody sets it, so that it is printed
//! for no other machine and no change of the machine is taken for a change of the configuration.

use std::num::{NonZeroU32, NonZeroUsize};

use chancery_catalog::Catalog;
use chancery_core::TypeUrl;
use chancery_core::server::Settings;
use chancery_server::{AvailableMemory, Limits as ServerLimits, Times};
use chancery_sources::Options;
use serde::{Deserialize, Serialize};

use super::network::NetworkText;
use super::units::{Size, Span, SpanOrNever};

/// Waits and limits.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a mapping")]
pub(crate) struct LimitsTable {
    /// The time a response may stay unanswered before the next response of its type is sent anyway.
    /// Default: 10s.
    pub(crate) ack_wait: Span,
    /// The time that routes and listeners wait for the endpoints of clusters that are new to a
    /// client. Default: 10s.
    pub(crate) warm_wait: Span,
    /// The time that the removal of a resource waits until the client has acknowledged the resources
    /// that used it before. Default: 20s.
    pub(crate) removal_wait: Span,
    /// Responses larger than this are split where the protocol allows it. Default: 4032KiB, because
    /// many clients accept at most 4 MiB.
    pub(crate) max_response_bytes: Size,
    /// The number of names on one stream, of all types together. Default: 250000.
    pub(crate) max_names: Count,
    /// The bytes of one name, version or type URL. Default: 4KiB.
    pub(crate) max_name_length: Size,
    /// The bytes of all names on one stream, of all types together, and of all names and versions in
    /// one request. Default: 64MiB, which is 250000 names of 268 bytes.
    pub(crate) max_name_bytes: Size,
    /// The number of types on one stream. Default: 256.
    pub(crate) max_types: Count,
    /// The bytes of a client's description of itself. Default: 1MiB, because an Envoy with all
    /// extensions has 80KiB.
    pub(crate) max_node_bytes: Size,
    /// Types, as `eds` or as the name of the message, whose first request subscribes to everything
    /// if it has no names. Default: none besides those of the protocol.
    pub(crate) wildcard_types: Vec<String>,
    /// Types whose first request subscribes to nothing if it has no names. Default: none besides
    /// those of the protocol.
    pub(crate) named_types: Vec<String>,
    /// True if a SotW client gets a response that lists the names it subscribed to and that do not
    /// exist. Default: false, because few clients read it.
    pub(crate) report_missing: bool,

    /// The bytes of one request. Default: 64MiB, because a delta client that reconnects lists all
    /// resources it holds.
    pub(crate) max_request_bytes: Size,
    /// The memory that the server holds for all clients together: requests that arrive,
    /// subscriptions, and responses that wait to be read. A client that holds more than is left for
    /// others gets no more. Default: a quarter of the memory that the process may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<Size>,
    /// The networks of balancers and proxies, each of whose addresses stands for many clients: they
    /// may hold more than is left for others. Default: none.
    pub(crate) balancers: Vec<NetworkText>,
    /// The number of discovery streams and polls at the same time; more are refused. Default:
    /// 100000.
    pub(crate) max_streams: Count,
    /// The number of different sets of values that nodes may state at the same time; a node with another one
    /// is refused. Default: 20000.
    pub(crate) max_node_values: Count,
    /// The number of streams on one connection; the client has to wait before it opens more.
    /// Default: 1000.
    pub(crate) max_streams_per_connection: NonZeroU32,
    /// The number of connections at the same time; more are closed when they are accepted. Default:
    /// 50000.
    pub(crate) max_connections: Count,
    /// The number of TLS handshakes at the same time; more wait. Default: 256.
    pub(crate) max_handshakes: Count,
    /// The number of streams that send a large response at the same time; more wait for their turn.
    /// Default: 4 for each core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_big_responses: Option<Count>,
    /// This key has no effect any more, because encodings are kept with their resources. It is
    /// accepted so that files that have it still load.
    #[serde(skip_serializing)]
    pub(crate) max_cache_bytes: Option<Size>,

    /// The time from the start of a connection to the end of its handshake, and to its first byte.
    /// Default: 10s.
    pub(crate) handshake_timeout: Span,
    /// The time a connection may be open without any request. Default: 5m.
    pub(crate) idle_timeout: Span,
    /// The age at which the server asks a client to reconnect, so that clients spread over new
    /// replicas; or `never`. Default: 1h.
    pub(crate) max_connection_age: SpanOrNever,
    /// The fraction of that age that is random, from 0 to 1. Default: 0.2.
    pub(crate) age_jitter: Fraction,
    /// The time that a stream which must end may wait for its first answer, and that a connection
    /// which must end may wait for its streams. Default: 30s.
    pub(crate) grace: Span,
    /// The time over which the server spreads the end of its connections at shutdown. Default: 5s.
    pub(crate) drain: Span,
    /// The silence after which a peer is probed on TCP, or `never`. Default: 1m.
    pub(crate) tcp_keepalive: SpanOrNever,
    /// The silence after which a peer is sent an HTTP/2 ping, or `never`. Default: 20m.
    pub(crate) http2_keepalive: SpanOrNever,
    /// The time that the answer to a probe or ping may take. Default: 30s.
    pub(crate) keepalive_timeout: Span,
    /// The time that a poll over REST is held when there is nothing new. Default: 800ms, because
    /// Envoy gives up after 1s.
    pub(crate) rest_hold: Span,
    /// The time for which a client that has bytes to read may take none of them, before its stream
    /// or connection ends. Default: 1m.
    pub(crate) stall_timeout: Span,
    /// The interval at which certificate files are checked for changes. Default: 5s.
    pub(crate) tls_reload: Span,

    /// The size of a file; a larger one is a fault. Default: a 64th of the memory that the process
    /// may use, and 64MiB at most, because a file takes some sixty times its size while it is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_file_bytes: Option<Size>,
    /// The bytes of all files together, each counted under each of its names; a directory with more is
    /// not loaded. Default: a 16th of the memory that the process may use, and 4GiB at most, but as
    /// many as one file may have, because what is read of a directory takes two to eight times its
    /// size, and twice as much while all of it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_directory_bytes: Option<Size>,
    /// The number of files; a directory with more is not loaded, nor one with more than twice as many
    /// directories. Default: 100000.
    pub(crate) max_files: Count,
    /// The time that a changed directory must be quiet before it is read. Default: 100ms.
    pub(crate) settle: Span,
    /// The time after which a directory is read although it does not become quiet. Default: 500ms.
    pub(crate) settle_bound: Span,
    /// The interval at which all files are checked for changes that had no event. Default: 2s.
    pub(crate) sweep: Span,
}

/// A number of things, at least one.
type Count = NonZeroUsize;

/// A fraction, from 0 to 1.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(try_from = "f64", into = "f64")]
pub(crate) struct Fraction(f64);

/// The error for a number that is no fraction.
#[derive(Debug, thiserror::Error)]
#[error("{0} is not between 0 and 1")]
pub(crate) struct InvalidFraction(f64);

impl TryFrom<f64> for Fraction {
    type Error = InvalidFraction;
    fn try_from(number: f64) -> Result<Self, InvalidFraction> {
        if (0.0..=1.0).contains(&number) { Ok(Self(number)) } else { Err(InvalidFraction(number)) }
    }
}

impl From<Fraction> for f64 {
    fn from(share: Fraction) -> Self {
        share.0
    }
}

impl Default for LimitsTable {
    fn default() -> Self {
        let (protocol, server) = (Settings::default(), ServerLimits::default());
        let (times, source) = (Times::default(), Options::new(""));
        Self {
            ack_wait: Span(protocol.ack_wait),
            warm_wait: Span(protocol.warm_wait),
            removal_wait: Span(protocol.removal_wait),
            max_response_bytes: Size(protocol.max_response_bytes),
            max_names: count(protocol.max_names),
            max_name_length: Size(protocol.max_name_length),
            max_name_bytes: Size(protocol.max_name_bytes),
            max_types: count(protocol.max_types),
            max_node_bytes: Size(protocol.max_node_bytes),
            wildcard_types: Vec::new(),
            named_types: Vec::new(),
            report_missing: protocol.report_missing,
            max_request_bytes: Size(server.max_request_bytes),
            memory: None,
            balancers: server.balancers.into_iter().map(NetworkText).collect(),
            max_streams: count(server.max_streams),
            max_node_values: count(Catalog::MOST_VALUES),
            max_streams_per_connection: NonZeroU32::new(server.max_streams_per_connection)
                .unwrap_or(NonZeroU32::MIN),
            max_connections: count(server.max_connections),
            max_handshakes: count(server.max_handshakes),
            max_big_responses: None,
            max_cache_bytes: None,
            handshake_timeout: Span(times.handshake_timeout),
            idle_timeout: Span(times.idle_timeout),
            max_connection_age: SpanOrNever(times.max_connection_age),
            age_jitter: Fraction(times.age_jitter),
            grace: Span(times.grace),
            drain: Span(times.drain),
            tcp_keepalive: SpanOrNever(times.tcp_keepalive),
            http2_keepalive: SpanOrNever(times.http2_keepalive),
            keepalive_timeout: Span(times.keepalive_timeout),
            rest_hold: Span(times.rest_hold),
            stall_timeout: Span(times.stall_timeout),
            tls_reload: Span(times.tls_reload),
            max_file_bytes: None,
            max_directory_bytes: None,
            max_files: count(source.max_files),
            settle: Span(source.settle),
            settle_bound: Span(source.settle_bound),
            sweep: Span(source.sweep),
        }
    }
}

/// The part of the memory that a file may have: it takes some sixty times its size while it is read.
const FILES_IN_MEMORY: u64 = 64;

/// The part of the memory that all files may have together: what is read of them takes some eight
/// times their size, and twice as much while all of them change.
const DIRECTORIES_IN_MEMORY: u64 = 16;

impl LimitsTable {
    /// The size of a file, where the process may use so much memory.
    pub(crate) fn file_bytes(&self, memory: AvailableMemory) -> u64 {
        let most = Options::new("").max_file_bytes;
        let stated = self.max_file_bytes.map(|stated| stated.0 as u64);
        stated.unwrap_or_else(|| most.min(memory.bytes / FILES_IN_MEMORY))
    }

    /// The bytes of all files together, where the process may use so much memory.
    pub(crate) fn directory_bytes(&self, memory: AvailableMemory) -> u64 {
        let most = Options::new("").max_directory_bytes;
        let stated = self.max_directory_bytes.map(|stated| stated.0 as u64);
        stated.unwrap_or_else(|| {
            most.min(memory.bytes / DIRECTORIES_IN_MEMORY).max(self.file_bytes(memory))
        })
    }

    /// The limits of the protocol machine.
    pub(crate) fn protocol(&self) -> Settings {
        let stated = |types: &[String], wildcard: bool| {
            types.iter().map(move |name| (type_url(name), wildcard)).collect::<Vec<_>>()
        };
        let mut legacy_wildcard = stated(&self.wildcard_types, true);
        legacy_wildcard.extend(stated(&self.named_types, false));
        Settings {
            ack_wait: self.ack_wait.0,
            warm_wait: self.warm_wait.0,
            removal_wait: self.removal_wait.0,
            max_response_bytes: self.max_response_bytes.0,
            max_names: self.max_names.get(),
            max_name_length: self.max_name_length.0,
            max_name_bytes: self.max_name_bytes.0,
            max_types: self.max_types.get(),
            max_node_bytes: self.max_node_bytes.0,
            legacy_wildcard,
            report_missing: self.report_missing,
            ..Settings::default()
        }
    }

    /// The limits on the load that a server accepts.
    pub(crate) fn server(&self) -> ServerLimits {
        let of_this_machine = ServerLimits::default();
        ServerLimits {
            max_request_bytes: self.max_request_bytes.0,
            memory: self.memory.map_or(of_this_machine.memory, |memory| memory.0),
            balancers: self.balancers.iter().map(|network| network.0).collect(),
            max_streams: self.max_streams.get(),
            max_node_values: self.max_node_values.get(),
            max_streams_per_connection: self.max_streams_per_connection.get(),
            max_connections: self.max_connections.get(),
            max_handshakes: self.max_handshakes.get(),
            max_big_responses: self
                .max_big_responses
                .map_or(of_this_machine.max_big_responses, Count::get),
        }
    }

    /// The times that the server waits.
    pub(crate) fn times(&self) -> Times {
        Times {
            handshake_timeout: self.handshake_timeout.0,
            idle_timeout: self.idle_timeout.0,
            max_connection_age: self.max_connection_age.0,
            age_jitter: self.age_jitter.0,
            grace: self.grace.0,
            drain: self.drain.0,
            tcp_keepalive: self.tcp_keepalive.0,
            http2_keepalive: self.http2_keepalive.0,
            keepalive_timeout: self.keepalive_timeout.0,
            rest_hold: self.rest_hold.0,
            stall_timeout: self.stall_timeout.0,
            tls_reload: self.tls_reload.0,
        }
    }

    /// Writes the limits on reading a directory into `options`.
    pub(crate) fn apply_to(&self, options: &mut Options, memory: AvailableMemory) {
        options.max_file_bytes = self.file_bytes(memory);
        options.max_directory_bytes = self.directory_bytes(memory);
        options.max_files = self.max_files.get();
        options.settle = self.settle.0;
        options.settle_bound = self.settle_bound.0;
        options.sweep = self.sweep.0;
    }
}

/// A default of another crate, which is a plain number there and never zero.
fn count(number: usize) -> Count {
    Count::new(number).unwrap_or(Count::MIN)
}

/// The type with this short name, as in `eds`, or else with this message name.
fn type_url(name: &str) -> TypeUrl {
    TypeUrl::known().find(|known| known.short() == name).unwrap_or_else(|| TypeUrl::new(name))
}

#[cfg(test)]
mod tests {
    use chancery_server::MemoryBound;

    use super::*;

    #[test]
    fn what_is_not_written_is_as_the_crates_have_it() {
        let limits: LimitsTable = serde_json::from_str("{}").unwrap();
        assert_eq!(limits.protocol(), Settings::default());
        assert_eq!(limits.server(), ServerLimits::default());
        assert_eq!(limits.times(), Times::default());
        let mut options = Options::new("dir");
        let plenty = AvailableMemory { bytes: u64::MAX, bound: MemoryBound::Machine };
        limits.apply_to(&mut options, plenty);
        assert_eq!(options, Options::new("dir"));
    }

    #[test]
    fn types_are_named_short_or_in_full() {
        // S-053
        let text = r#"{"wildcard-types": ["eds"], "named-types": ["foo.Bar"]}"#;
        let limits: LimitsTable = serde_json::from_str(text).unwrap();
        let stated = limits.protocol().legacy_wildcard;
        let eds = TypeUrl::new("envoy.config.endpoint.v3.ClusterLoadAssignment");
        assert_eq!(stated, [(eds, true), (TypeUrl::new("foo.Bar"), false)]);
    }

    #[test]
    fn senseless_numbers_are_refused() {
        for wrong in [
            r#"{"max-streams": 0}"#,
            r#"{"age-jitter": 1.5}"#,
            r#"{"grace": 30}"#,
            r#"{"max-stream": 1}"#,
            r#"{"balancers": ["10.0.0.0/33"]}"#,
        ] {
            assert!(serde_json::from_str::<LimitsTable>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_printed_can_be_read_again() {
        let limits = LimitsTable::default();
        let printed = serde_json::to_string(&limits).unwrap();
        assert_eq!(serde_json::from_str::<LimitsTable>(&printed).unwrap(), limits);
    }

    #[test]
    fn a_limit_that_follows_from_the_machine_is_printed_only_if_it_is_set() {
        let printed = |limits: &LimitsTable| serde_json::to_value(limits).unwrap();
        let keys = ["memory", "max-big-responses"];
        let defaults = printed(&LimitsTable::default());
        assert_eq!(keys.map(|key| defaults.get(key)), [None, None]);
        let set = serde_json::json!({"memory": "1MiB", "max-big-responses": 3});
        let set: LimitsTable = serde_json::from_value(set).unwrap();
        let of_set = printed(&set);
        assert_eq!(keys.map(|key| of_set[key].to_string()), ["\"1MiB\"", "3"]);
        assert_eq!((set.server().memory, set.server().max_big_responses), (1 << 20, 3));
    }
}
