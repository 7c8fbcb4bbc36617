//! What a program can set about its client that no bootstrap says.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use chancery_core::Variant;
use chancery_core::client::Protocol;
pub use chancery_core::client::{RateLimit, Settings};

use crate::bootstrap::XdsServer;
use crate::bootstrap::scheme::Scheme;
use crate::dial::{Dial, Sockets};
use crate::disk_cache::DiskCache;

/// How a client speaks to its servers.
#[derive(Clone)]
pub struct Options {
    /// State of the world, or delta. Delta says less where much is watched, and can ask for globs;
    /// not every server knows it. By default state of the world.
    pub variant: Variant,
    /// Whether one stream carries all types (ADS), or each type has its own.
    pub aggregated: bool,
    /// The waits of the protocol.
    pub settings: Settings,
    /// The time that a connection may take, all handshakes included, and a server may take to allow
    /// for a stream on it. Half as long it may leave no room for a request that is due.
    pub connect_timeout: Duration,
    /// After how long a silent connection is asked whether it lives. Servers of gRPC send away who
    /// asks more often than every five minutes.
    pub keepalive_interval: Duration,
    /// How long a connection may take to say that it lives.
    pub keepalive_timeout: Duration,
    /// Of a REST server: how long after an answer it is polled again, but for new names, which are
    /// asked for at once. A part is added by chance
    /// ([`jitter`](Settings::jitter)). By default ten seconds.
    pub rest_refresh: Duration,
    /// How long a REST server may take to answer. Servers that hold a poll until something changes
    /// are told (`x-envoy-expected-rq-timeout-ms`). By default one second.
    pub rest_timeout: Duration,
    /// How long after a look at a file the next one comes. By default one second.
    pub file_refresh: Duration,
    /// The largest response that is read, in bytes. A server that sends a larger one cannot be
    /// used.
    pub max_response_bytes: usize,
    /// Where what is held is kept for the next run. By default it is not.
    pub disk_cache: Option<DiskCache>,
    /// Whether what gRPC clients must refuse is rejected: routes and endpoints from elsewhere than
    /// the stream, loads reported elsewhere than to the server of the cluster, a cluster with an
    /// `xdstp:` name that does not name its endpoints. Programs that connect to what they watch as
    /// gRPC does want it; those that look at what Envoy gets do not.
    pub grpc_validation: bool,
    /// Rejects all that any server says, for this reason: to see what servers make of that.
    pub reject: Option<String>,
    /// What makes the sockets.
    pub dial: Arc<dyn Dial>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            variant: Variant::Sotw,
            aggregated: true,
            settings: Settings::default(),
            connect_timeout: Duration::from_secs(20),
            keepalive_interval: Duration::from_secs(5 * 60),
            keepalive_timeout: Duration::from_secs(20),
            rest_refresh: Duration::from_secs(10),
            rest_timeout: Duration::from_secs(1),
            file_refresh: Duration::from_secs(1),
            max_response_bytes: 64 * 1024 * 1024,
            disk_cache: None,
            grpc_validation: false,
            reject: None,
            dial: Arc::new(Sockets),
        }
    }
}

impl Options {
    /// How this server is spoken to.
    pub(crate) fn protocol(&self, server: &XdsServer) -> Protocol {
        match server.scheme() {
            Ok(Scheme::Rest(_)) => Protocol::Poll { refresh: self.rest_refresh },
            Ok(Scheme::Files(_)) => Protocol::Poll { refresh: self.file_refresh },
            Ok(Scheme::Grpc) | Err(_) => {
                Protocol::Stream { variant: self.variant, aggregated: self.aggregated }
            }
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("variant", &self.variant)
            .field("aggregated", &self.aggregated)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
