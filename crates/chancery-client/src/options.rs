//! What a program can set about its client that no bootstrap says.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::Variant;
use chancery_core::client::{ClientSettings, Protocol};

use crate::dial::{Dial, Sockets};

/// How a client speaks to its servers.
#[derive(Clone)]
pub struct Options {
    /// State of the world, or delta. Delta says less where much is watched; not every server knows
    /// it.
    pub variant: Variant,
    /// Whether one stream carries all types (ADS), or each type has its own.
    pub aggregated: bool,
    /// The waits of the protocol.
    pub settings: ClientSettings,
    /// How long a connection may take, all handshakes included.
    pub connect_timeout: Duration,
    /// After how long a silent connection is asked whether it lives. Servers of gRPC send away who
    /// asks more often than every five minutes.
    pub keepalive_interval: Duration,
    /// How long a connection may take to say that it lives.
    pub keepalive_timeout: Duration,
    /// The largest response that is read, in bytes. A server that sends a larger one cannot be
    /// used.
    pub max_response_bytes: usize,
    /// What makes the sockets.
    pub dial: Arc<dyn Dial>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            variant: Variant::Sotw,
            aggregated: true,
            settings: ClientSettings::default(),
            connect_timeout: Duration::from_secs(20),
            keepalive_interval: Duration::from_secs(5 * 60),
            keepalive_timeout: Duration::from_secs(20),
            max_response_bytes: 64 * 1024 * 1024,
            dial: Arc::new(Sockets),
        }
    }
}

impl Options {
    pub(crate) fn protocol(&self) -> Protocol {
        Protocol { variant: self.variant, aggregated: self.aggregated, refresh: None }
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
