//! One xDS server, wherever it is named: in a bootstrap, in the configuration of a load-balancing
//! policy, for load reports (C-014).

use std::sync::Arc;

use chancery_core::client::{ServerFeatures, ServerKey};

use super::scheme::Scheme;
use crate::credentials::{Alpn, CallCredentials, ChannelCredentials, Credentials};

/// A server and how it is spoken to. Two are the same if all of this is: then they share a channel
/// (C-075).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct XdsServer {
    /// `server_uri`: where it is, and so how it is spoken to. Any name of gRPC; `http://…` and
    /// `https://…` for REST; `file:…` and `path:…` for a file or a directory of files.
    pub uri: String,
    /// The chosen one of `channel_creds`. By default TLS, with the authorities of the system.
    pub channel: ChannelCredentials,
    /// All known ones of `call_creds`.
    pub calls: Vec<CallCredentials>,
    /// The known ones of `server_features`.
    pub features: ServerFeatures,
}

impl XdsServer {
    /// Returns its credentials as they are while a client runs. Nothing is read yet.
    pub fn credentials(&self, alpn: Alpn) -> Credentials {
        Credentials::new(&self.uri, &self.channel, &self.calls, alpn)
    }

    /// Returns the way it is spoken to. The error is the rest of a sentence about its URI.
    pub(crate) fn scheme(&self) -> Result<Scheme, String> {
        Scheme::of(&self.uri, &self.channel)
    }

    /// What tells it from others, as the protocol's machine keeps it.
    pub fn key(&self) -> ServerKey {
        let calls = self.calls.iter().map(|call| format!(" + {call}"));
        let credentials = calls.fold(self.channel.to_string(), |text, call| text + &call);
        ServerKey {
            uri: Arc::from(self.uri.as_str()),
            credentials: credentials.into(),
            features: self.features,
        }
    }
}
