//! The making of a channel: its target, and all that the program chooses.

use std::sync::Arc;

use chancery_calls::Dice;
use chancery_calls::balancing::PolicyConfig;
use chancery_client::bootstrap::{InvalidTarget, NamingError, Target};
use chancery_client::{Bootstrap, BootstrapError, Options};

use super::credentials::Ordinary;
use super::direct::DirectDriver;
use super::driver::Driver;
use super::environment_proxy::ProxyVariables;
use super::ordinary_target::{Demand, OrdinaryTarget};
use super::security::ChannelSecurity;
use super::shared::Shared;
use super::ways::Ways;
use super::{Channel, Credentials};
use crate::certificates::Certificates;
use crate::connect::Keepalive;
use crate::dice::ThreadDice;
use crate::read::quoted;
use crate::read::surroundings::Surroundings;
use crate::{extend, process};

/// Makes a channel.
#[derive(Clone, Debug)]
pub struct ChannelBuilder {
    target: String,
    bootstrap: Option<Bootstrap>,
    authority: Option<String>,
    credentials: Option<Credentials>,
    keepalive: Option<Keepalive>,
    policy: Option<ChannelPolicy>,
    is_proxied: bool,
}

/// The choice among the addresses of a target without a control plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChannelPolicy {
    /// `pick_first`: all calls go to the first address that answers.
    #[default]
    PickFirst,
    /// `round_robin`: each call goes to the next address that answers.
    RoundRobin,
}

/// The reason why a channel cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The target of `xds:` is malformed.
    #[error(transparent)]
    Target(#[from] InvalidTarget),
    /// The target is malformed, or of a kind that this channel does not know.
    #[error("`{target}` is no target of a channel: {problem}")]
    OrdinaryTarget {
        /// The target.
        target: String,
        /// The problem.
        problem: String,
    },
    /// The target says not how connections are secured, and the program did not choose it.
    #[error(
        "`{0}` does not say how connections are secured; choose `credentials`, or write `https://`"
    )]
    NoCredentials(String),
    /// The target is a URL whose scheme says something else than the credentials that the program chose.
    #[error("the scheme of `{0}` does not go with the `credentials` that were chosen")]
    Credentials(String),
    /// The environment names a proxy that cannot be used.
    #[error("the proxy of the environment (`https_proxy`) cannot be used: {0}")]
    Proxy(String),
    /// A policy was chosen for a target of `xds:`, whose policies are those of the control plane.
    #[error("`{0}` has the policies of its control plane, and no other can be chosen")]
    Policy(String),
    /// The target has an authority that the bootstrap does not have.
    #[error(transparent)]
    Naming(#[from] NamingError),
    /// The bootstrap is missing, or cannot be used.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
}

impl ChannelBuilder {
    /// Begins a channel to this target, as in `xds:///orders:8080`, `dns:///orders.example:8080`,
    /// `ipv4:10.0.0.1:80,10.0.0.2:80`, `unix:/run/orders.sock` or `https://orders.example`. A target without a scheme is a name of DNS.
    pub fn new(target: &str) -> Self {
        Self {
            target: target.to_owned(),
            bootstrap: None,
            authority: None,
            credentials: None,
            keepalive: None,
            policy: None,
            is_proxied: true,
        }
    }

    /// Uses this bootstrap instead of the one of the process. Only targets of `xds:` need one.
    #[must_use]
    pub fn bootstrap(mut self, bootstrap: Bootstrap) -> Self {
        self.bootstrap = Some(bootstrap);
        self
    }

    /// Uses this name of the service for routing and for servers, instead of the one in the target. It is also the
    /// host that certificates have to be for, where no control plane lists other names.
    #[must_use]
    pub fn authority(mut self, authority: &str) -> Self {
        self.authority = Some(authority.to_owned());
        self
    }

    /// Secures connections to endpoints by these. Without them the control plane decides about a target of `xds:`:
    /// TLS for the clusters that it has settings of TLS for, and no encryption for others. Of other targets only
    /// URLs can do without.
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

    /// Chooses among the addresses of a target without a control plane in this way. A target that is reached by way of
    /// a proxy, or at a socket of Unix, has one.
    #[must_use]
    pub fn policy(mut self, policy: ChannelPolicy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Connects to a target without a control plane itself, also if the environment names a proxy
    /// (`https_proxy`). Targets of `xds:` never have that one.
    #[must_use]
    pub fn without_proxy(mut self) -> Self {
        self.is_proxied = false;
        self
    }

    /// Makes the channel. It connects to the control plane or resolves the name at once, and connects to endpoints
    /// when there are calls.
    ///
    /// # Errors
    /// If the target is malformed, or does not go with what was chosen, or the bootstrap is missing or cannot be
    /// used.
    ///
    /// # Panics
    /// Outside of a runtime of tokio.
    pub fn build(self) -> Result<Channel, ChannelError> {
        let scheme = self.target.split_once(':').map(|(scheme, _)| scheme);
        match scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("xds")) {
            true => self.build_xds(),
            false => self.build_direct(),
        }
    }

    fn build_xds(self) -> Result<Channel, ChannelError> {
        if self.policy.is_some() {
            return Err(ChannelError::Policy(quoted(&self.target).into()));
        }
        let target: Target = self.target.parse()?;
        let clients = match self.bootstrap {
            Some(bootstrap) => process::clients_of(bootstrap)?,
            None => process::clients()?,
        };
        let client = clients.for_target(&target)?;
        let listener = clients.bootstrap().target(&target)?.place.name;
        let authority = self.authority.unwrap_or_else(|| target.data_plane_authority());
        let default = || Credentials::xds(Credentials::insecure());
        let credentials = self.credentials.unwrap_or_else(default);
        let certificates = Certificates::new(clients.bootstrap());
        let security = ChannelSecurity::new(&credentials, certificates, &authority, self.keepalive);
        let shared = Arc::new(Shared::new(&self.target, authority.into(), ThreadDice.roll()));
        let surroundings = Surroundings::new(clients.bootstrap(), extend::policies());
        let driver = Driver::new(Arc::clone(&shared), client, listener, surroundings, security);
        let driver = tokio::spawn(driver.run()).abort_handle();
        Ok(Channel::of(shared, driver, Some(clients)))
    }

    fn build_direct(self) -> Result<Channel, ChannelError> {
        let shown = || quoted(&self.target).into_owned();
        let target = OrdinaryTarget::read(&self.target);
        let target =
            target.map_err(|problem| ChannelError::OrdinaryTarget { target: shown(), problem })?;
        let credentials = match (target.demand, self.credentials) {
            (None, None) => return Err(ChannelError::NoCredentials(shown())),
            (Some(Demand::Plain), None) => Credentials::insecure(),
            (Some(Demand::Tls), None) => Credentials::tls(Default::default()),
            (demand, Some(credentials)) => {
                let is_plain = credentials.ordinary == Ordinary::Insecure;
                if demand.is_some_and(|demand| (demand == Demand::Plain) != is_plain) {
                    return Err(ChannelError::Credentials(shown()));
                }
                credentials
            }
        };
        let variables = match self.is_proxied {
            true => ProxyVariables::of_process(),
            false => ProxyVariables::default(),
        };
        let ways = Ways::of(target.place, &variables).map_err(ChannelError::Proxy)?;
        let Ways { place, common, own } = ways;
        let authority = self.authority.unwrap_or(target.authority);
        let security =
            ChannelSecurity::new(&credentials, Certificates::default(), &authority, self.keepalive);
        let policy = match self.policy.unwrap_or_default() {
            ChannelPolicy::PickFirst => PolicyConfig::PickFirst { shuffle: false },
            ChannelPolicy::RoundRobin => PolicyConfig::RoundRobin,
        };
        let shared = Arc::new(Shared::new(&target.canonical, authority.into(), ThreadDice.roll()));
        let (of_driver, settings) = (Arc::clone(&shared), security.ordinary(common, own));
        let driver = DirectDriver::new(of_driver, target.name, place, policy, settings);
        let driver = tokio::spawn(driver.run()).abort_handle();
        Ok(Channel::of(shared, driver, None))
    }
}

/// The options of the clients of channels: they reject what gRPC rejects.
pub(crate) fn options() -> Options {
    Options { grpc_validation: true, ..Options::default() }
}
