//! The making of a channel: its target, and the bootstrap if it is not that of the process.

use std::sync::Arc;

use chancery_calls::Dice;
use chancery_calls::balancing::CustomPolicies;
use chancery_client::bootstrap::{InvalidTarget, NamingError, Target};
use chancery_client::{Bootstrap, BootstrapError, Clients, Options};

use super::driver::Driver;
use super::security::ChannelSecurity;
use super::shared::Shared;
use super::{Channel, Credentials};
use crate::certificates::Certificates;
use crate::connect::Keepalive;
use crate::dice::ThreadDice;
use crate::process;
use crate::read::surroundings::Surroundings;

/// Makes a channel.
#[derive(Clone, Debug)]
pub struct ChannelBuilder {
    target: String,
    bootstrap: Option<Bootstrap>,
    authority: Option<String>,
    credentials: Option<Credentials>,
    keepalive: Option<Keepalive>,
}

/// The reason why a channel cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The target is malformed.
    #[error(transparent)]
    Target(#[from] InvalidTarget),
    /// The target has a scheme that this channel does not know.
    #[error("`{0}` is no target of `xds:`; other schemes are not supported")]
    Scheme(String),
    /// The target has an authority that the bootstrap does not have.
    #[error(transparent)]
    Naming(#[from] NamingError),
    /// The bootstrap is missing, or cannot be used.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
}

impl ChannelBuilder {
    /// Begins a channel to this target, as in `xds:///orders:8080`.
    pub fn new(target: &str) -> Self {
        Self {
            target: target.to_owned(),
            bootstrap: None,
            authority: None,
            credentials: None,
            keepalive: None,
        }
    }

    /// Uses this bootstrap instead of the one of the process.
    #[must_use]
    pub fn bootstrap(mut self, bootstrap: Bootstrap) -> Self {
        self.bootstrap = Some(bootstrap);
        self
    }

    /// Uses this name of the service for routing and for servers, instead of the one in the target.
    #[must_use]
    pub fn authority(mut self, authority: &str) -> Self {
        self.authority = Some(authority.to_owned());
        self
    }

    /// Secures connections to endpoints by these. Without them the control plane decides: TLS for the clusters
    /// that it has settings of TLS for, and no encryption for others.
    #[must_use]
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Asks endpoints that are silent whether they are still there. Without it they are not asked, as in other
    /// implementations of gRPC.
    #[must_use]
    pub fn keepalive(mut self, keepalive: Keepalive) -> Self {
        self.keepalive = Some(keepalive.polite());
        self
    }

    /// Makes the channel. It connects to the control plane at once, and to endpoints when there are
    /// calls.
    ///
    /// # Errors
    /// If the target is malformed, or the bootstrap is missing or cannot be used.
    ///
    /// # Panics
    /// Outside of a runtime of tokio.
    pub fn build(self) -> Result<Channel, ChannelError> {
        let scheme = self.target.split_once(':').map(|(scheme, _)| scheme);
        if scheme != Some("xds") {
            return Err(ChannelError::Scheme(self.target));
        }
        let target: Target = self.target.parse()?;
        let clients = match self.bootstrap {
            Some(bootstrap) => Arc::new(Clients::new(bootstrap, options())?),
            None => process::clients()?,
        };
        let client = clients.for_target(&target)?;
        let listener = clients.bootstrap().target(&target)?.place.name;
        let authority = self.authority.unwrap_or_else(|| target.data_plane_authority());
        let credentials =
            self.credentials.unwrap_or_else(|| Credentials::xds(Credentials::insecure()));
        let certificates = Certificates::new(clients.bootstrap());
        let security = ChannelSecurity::new(&credentials, certificates, &authority, self.keepalive);
        let shared = Arc::new(Shared::new(authority.into(), ThreadDice.roll()));
        let surroundings = Surroundings::new(clients.bootstrap(), CustomPolicies::default());
        let driver = Driver::new(Arc::clone(&shared), client, listener, surroundings, security);
        let driver = tokio::spawn(driver.run()).abort_handle();
        Ok(Channel::of(shared, driver))
    }
}

/// The options of the clients of channels: they reject what gRPC rejects.
pub(crate) fn options() -> Options {
    Options { grpc_validation: true, ..Options::default() }
}
