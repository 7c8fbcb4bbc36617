//! The settings of the transports: limits and times, each with a name and a default.
//!
//! The settings of the protocol itself are [`chancery_core::server::Settings`].

use std::time::Duration;

use chancery_core::server::Settings;

use crate::budget::{AvailableMemory, Budget, Network, PeerLimits};
use crate::random;
use crate::slice::cores;
use crate::status::StatusBounds;

/// All settings of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The `control_plane.identifier` of responses: the same while the instance lives, another one
    /// after a restart (S-027). The default is `chancery-` and a random number.
    pub control_plane: String,
    /// True if v2 clients are served. Otherwise, which is the default, they get the status
    /// `UNIMPLEMENTED`, or 404 over REST (S-010).
    pub v2: bool,
    /// True if secrets may go to any peer. Otherwise, which is the default, they go only over
    /// mutual TLS, a Unix socket or loopback (S-137).
    pub secrets_anywhere: bool,
    /// The times and limits of the protocol.
    pub protocol: Settings,
    /// The limits of the transports.
    pub limits: Limits,
    /// The times of the transports.
    pub times: Times,
    /// The bounds of what is kept for those who ask what clients hold.
    pub status: StatusBounds,
}

/// The limits of the transports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The size of a request in bytes; 64 MiB. A delta client that reconnects lists all it holds,
    /// and 100,000 names with their versions are some 10 MB (S-110). A larger request is refused
    /// with `RESOURCE_EXHAUSTED`.
    pub max_request_bytes: usize,
    /// The number of bytes that the server holds for all its clients together: requests that
    /// arrive, subscriptions, and responses that wait to be read; a quarter of the memory that the
    /// process may use. A peer that holds more than is left for others gets no more, and its streams
    /// end with `RESOURCE_EXHAUSTED`. The resources themselves do not count.
    pub memory: usize,
    /// The networks of balancers and proxies, each of which stands for many clients: their addresses
    /// have no bound of their own on memory, streams and connections. None by default.
    pub balancers: Vec<Network>,
    /// The number of discovery streams, polls and calls of the program's own services at once;
    /// 100,000. Further ones are refused with `RESOURCE_EXHAUSTED` or 503 without a wait, because a
    /// slow answer is worse than none (S-111). So are those of a peer that has more of them than are
    /// left for others.
    pub max_streams: usize,
    /// The number of different sets of values that nodes may state at once, of which no peer has more than are
    /// left for others; 20,000. That of all together is a limit of the catalog
    /// ([`Catalog::limit_values`](chancery_catalog::Catalog::limit_values)).
    pub max_node_values: usize,
    /// The number of streams of one connection; 1,000. A client that has that many waits.
    pub max_streams_per_connection: u32,
    /// The number of connections at once; 50,000. Further ones are closed as soon as they are
    /// accepted, and so are those of an address that has more of them than are left for others.
    pub max_connections: usize,
    /// The number of TLS handshakes at once; 256. Further ones wait, within their handshake
    /// timeout. A handshake that takes longer than 200 ms gives its place to another one and goes
    /// on, because it only waits for its peer.
    pub max_handshakes: usize,
    /// The number of streams that send a response above [`Limits::BIG_RESPONSE`] at once; 4 for
    /// each core. In a mass reconnect the first clients then get their whole response, instead of
    /// every client a slice of it. The others wait for a permit.
    pub max_big_responses: usize,
}

/// The times of the transports.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// The time from the connection to the end of its handshake and to the first bytes of HTTP, and
    /// the time from the head of a poll to the end of its body; 10 s each.
    pub handshake_timeout: Duration,
    /// The time for which a connection may be without any request; 5 min.
    pub idle_timeout: Duration,
    /// The age at which a connection is asked to go, so that clients spread over new replicas (S-112); 1 h.
    /// `None`: never.
    pub max_connection_age: Option<Duration>,
    /// The part of the age that is random, so that clients do not move together; 0.2.
    pub age_jitter: f64,
    /// The time for which a stream that must end may wait for its first answer, and a connection for
    /// its streams; 30 s.
    pub grace: Duration,
    /// The time at shutdown over which connections are sent GOAWAY, one after the other; 5 s.
    pub drain: Duration,
    /// The time without bytes from a peer after which TCP probes it, which an idle client does not
    /// notice; 60 s. The connection ends after [`Times::keepalive_timeout`] more without an answer.
    pub tcp_keepalive: Option<Duration>,
    /// The time without bytes from a peer after which it is sent an HTTP/2 ping (S-113); 20 min,
    /// because TCP finds dead peers sooner. Lower it where proxies in between cut quiet
    /// connections. Pings of clients are always answered, however many.
    pub http2_keepalive: Option<Duration>,
    /// The time for the answer to a probe; 30 s.
    pub keepalive_timeout: Duration,
    /// The time for which a poll over REST is held when there is nothing new; 800 ms, which is
    /// below the one second after which Envoy gives up by default (S-021). A client that states its
    /// own timeout is held for four fifths of that, if that is less.
    pub rest_hold: Duration,
    /// The time in which a client that has bytes to read has to take 4 KiB of them, or all if they are
    /// fewer, and the time for a request on a stream to arrive whole; 60 s. Then its stream ends, or its connection if the
    /// socket takes nothing. A client that has nothing to read, or that does not answer what it has
    /// read, is never ended for that (S-108, S-109).
    pub stall_timeout: Duration,
    /// The interval at which certificate files are checked for changes; 5 s.
    pub tls_reload: Duration,
}

impl Limits {
    /// The size in bytes from which a response is big.
    pub const BIG_RESPONSE: usize = 256 * 1024;

    /// The part of these limits that one peer may have where there are no others.
    #[must_use]
    pub fn of_one_peer(&self) -> PeerLimits {
        Budget::new(self).of_one_peer()
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            control_plane: format!("chancery-{:08x}", random::u64() >> 32),
            v2: false,
            secrets_anywhere: false,
            protocol: Settings::default(),
            limits: Limits::default(),
            times: Times::default(),
            status: StatusBounds::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_request_bytes: 64 * 1024 * 1024,
            memory: AvailableMemory::of_this_process().for_clients(),
            balancers: Vec::new(),
            max_streams: 100_000,
            max_node_values: chancery_catalog::Catalog::MOST_VALUES,
            max_streams_per_connection: 1_000,
            max_connections: 50_000,
            max_handshakes: 256,
            max_big_responses: 4 * cores(),
        }
    }
}

impl Default for Times {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(300),
            max_connection_age: Some(Duration::from_secs(3600)),
            age_jitter: 0.2,
            grace: Duration::from_secs(30),
            drain: Duration::from_secs(5),
            tcp_keepalive: Some(Duration::from_secs(60)),
            http2_keepalive: Some(Duration::from_secs(1200)),
            keepalive_timeout: Duration::from_secs(30),
            rest_hold: Duration::from_millis(800),
            stall_timeout: Duration::from_secs(60),
            tls_reload: Duration::from_secs(5),
        }
    }
}
