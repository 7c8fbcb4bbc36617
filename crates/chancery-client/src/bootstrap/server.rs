//! One xDS server, wherever it is named: in a bootstrap, in the configuration of a load-balancing
//! policy, for load reports (C-014).

use std::sync::Arc;

use chancery_core::client::{ServerFeatures, ServerKey};

use super::scheme::Scheme;
use crate::credentials::{Alpn, CallCredentials, ChannelCredentials, Credentials};

/// A server, with its credentials and features. Servers that are equal in all of this share one
/// connection (C-075).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct XdsServer {
    /// `server_uri`: the address, whose scheme states the kind of the server. It is any name of
    /// gRPC, `http://…` or `https://…` for REST, or `file:…` or `path:…` for a file or a directory
    /// of files.
    pub uri: String,
    /// The first of `channel_creds` that is known. By default TLS, with the certificate authorities
    /// of the system.
    pub channel: ChannelCredentials,
    /// The `call_creds` that are known.
    pub calls: Vec<CallCredentials>,
    /// The `server_features` that are known.
    pub features: ServerFeatures,
}

impl XdsServer {
    /// Returns the credentials that are used while a client runs. Nothing is read yet.
    pub fn credentials(&self, alpn: Alpn) -> Credentials {
        Credentials::new(&self.uri, &self.channel, &self.calls, alpn)
    }

    /// Returns the kind of the server. The error is the rest of a sentence about its URI.
    pub(crate) fn scheme(&self) -> Result<Scheme, String> {
        Scheme::of(&self.uri, &self.channel)
    }

    /// Returns the key by which the machine tells this server from others.
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
