//! The options of a client: the settings of a program that no bootstrap has.

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

/// The options of a client.
#[derive(Clone)]
pub struct Options {
    /// The variant of the protocol. Delta sends less if much is watched, and supports globs, but
    /// not every server has it. By default state of the world.
    pub variant: Variant,
    /// True if one stream carries all types (ADS), and false if each type has its own. By default
    /// true.
    pub aggregated: bool,
    /// The waits and limits of the protocol.
    pub settings: Settings,
    /// The time for a connection, all handshakes included, and until the server allows a stream on
    /// it. A server may leave no room for a request for half of this time. By default 20 seconds.
    pub connect_timeout: Duration,
    /// The time without bytes from the server after which it is sent a ping. The default is five
    /// minutes, because gRPC servers close connections that send pings more often.
    pub keepalive_interval: Duration,
    /// The time for the answer to that ping. By default 20 seconds.
    pub keepalive_timeout: Duration,
    /// The time from a response of a REST server to the next poll; a poll for new names is sent at
    /// once. A random part is added ([`jitter`](Settings::jitter)). By default ten seconds.
    pub rest_refresh: Duration,
    /// The time for a response of a REST server. It is sent with the poll
    /// (`x-envoy-expected-rq-timeout-ms`), for servers that hold polls until something changes. By
    /// default one second.
    pub rest_timeout: Duration,
    /// The time from a check of a file to the next one. By default one second.
    pub file_refresh: Duration,
    /// The largest response that is read, in bytes. A server that sends a larger one counts as
    /// unreachable. By default 64 MiB.
    pub max_response_bytes: usize,
    /// The directory that keeps the cache for the next run. By default there is none.
    pub disk_cache: Option<DiskCache>,
    /// True if the client rejects what gRPC clients must reject: routes and endpoints that come
    /// from another source than the stream, load reports to another server than that of the
    /// cluster, and a cluster with an `xdstp:` name that does not name its endpoints. Set it in
    /// programs that connect to endpoints as gRPC does, and not in those that show the
    /// configuration of Envoy. By default false.
    pub grpc_validation: bool,
    /// The reason with which every response is rejected, to see how servers handle rejections. By
    /// default `None`: responses are judged by their content.
    pub reject: Option<String>,
    /// Makes the sockets. By default those of the system.
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
    /// Returns the protocol of a server.
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
