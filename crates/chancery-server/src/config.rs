//! The settings of the transports: limits and times, each with a name and a default.
//!
//! The settings of the protocol itself are [`chancery_core::server::Settings`].

use std::time::Duration;

use chancery_core::server::Settings;

use crate::random;

/// All settings of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The `control_plane.identifier` of responses: the same while the instance lives, another one
    /// after a restart (S-027). The default is `chancery-` and a random number.
    pub control_plane: String,
    /// True if v2 clients are served. False, the default: they get the status `UNIMPLEMENTED`, over
    /// REST 404 (S-010).
    pub v2: bool,
    /// True if secrets may go to any peer. False, the default: only over mutual TLS, a Unix socket or
    /// loopback (S-137).
    pub secrets_anywhere: bool,
    /// The times and limits of the protocol.
    pub protocol: Settings,
    /// The limits of the transports.
    pub limits: Limits,
    /// The times of the transports.
    pub times: Times,
}

/// The limits of the transports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one request, 64 MiB: a delta client that reconnects lists all it holds, and
    /// 100,000 names with their versions are some 10 MB (S-110). More is `RESOURCE_EXHAUSTED`.
    pub max_request_bytes: usize,
    /// Discovery streams, polls and calls of the program's own services at once, 100,000. More are
    /// refused with `RESOURCE_EXHAUSTED` or 503 at once, because a slow answer is worse than none
    /// (S-111).
    pub max_streams: usize,
    /// Streams of one connection, 1,000. The client waits when it has that many.
    pub max_streams_per_connection: u32,
    /// Connections at once, 50,000. More are closed as soon as they are accepted.
    pub max_connections: usize,
    /// TLS handshakes at once, 256. More wait, within their handshake timeout. One that takes longer
    /// than 200 ms gives its place to others and goes on, because it only waits for its peer.
    pub max_handshakes: usize,
    /// Streams that are sending a response above [`Limits::BIG_RESPONSE`] at once, 4 for each
    /// core: the first clients of a mass reconnect are then served in full, not all of them in
    /// slices. The others wait for a permit.
    pub max_big_responses: usize,
}

/// The times of the transports.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// From the connection to the end of its handshake, and to the first bytes of HTTP; from the
    /// head of a poll to the end of its body; 10 s.
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
    /// The time over which connections are asked to go at shutdown, one after the other; 5 s.
    pub drain: Duration,
    /// The silence after which a peer is probed on TCP, which an idle client does not notice; 60 s.
    /// The connection ends after [`Times::keepalive_timeout`] more without an answer.
    pub tcp_keepalive: Option<Duration>,
    /// The silence after which a peer is sent an HTTP/2 ping (S-113); 20 min, because TCP finds dead
    /// peers sooner. Lower it where proxies in between cut quiet connections.
    /// Pings of clients are always answered, however many.
    pub http2_keepalive: Option<Duration>,
    /// The time for the answer to a probe; 30 s.
    pub keepalive_timeout: Duration,
    /// The time for which a poll over REST is held when there is nothing new; 800 ms, which is below
    /// the one second after which Envoy gives up by default (S-021). A client that says how long it
    /// waits is held for four fifths of that, if that is less.
    pub rest_hold: Duration,
    /// The interval at which certificate files are checked for changes; 5 s.
    pub tls_reload: Duration,
}

impl Limits {
    /// A response of so many bytes or more is big.
    pub const BIG_RESPONSE: usize = 256 * 1024;
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
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            max_request_bytes: 64 * 1024 * 1024,
            max_streams: 100_000,
            max_streams_per_connection: 1_000,
            max_connections: 50_000,
            max_handshakes: 256,
            max_big_responses: 4 * cores,
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
            tls_reload: Duration::from_secs(5),
        }
    }
}
