//! The making of a server: its address, its bootstrap, and its limits.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use chancery_client::bootstrap::NamingError;
use chancery_client::watch::WatchError;
use chancery_client::{Bootstrap, BootstrapError, Client, Clients};

use super::Server;
use super::connection::Limits;
use super::security::ServerSecurity;
use super::state::{OnState, ServingState, States};
use crate::channel::Credentials;
use crate::read::quoted;
use crate::read::surroundings::Surroundings;
use crate::{extend, process};

/// Makes a server.
#[must_use]
pub struct ServerBuilder {
    address: String,
    bootstrap: Option<Bootstrap>,
    on_state: Option<OnState>,
    credentials: Credentials,
    limits: Limits,
    max_connections: usize,
    methods: BTreeSet<String>,
}

/// The reason why a server cannot be made, or has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address is malformed.
    #[error("`{}` is no address of a socket, as `0.0.0.0:50051`", quoted(.0))]
    Address(String),
    /// The address cannot be bound to.
    #[error("the server cannot be bound to {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// The listening socket cannot be used.
    #[error("the listening socket cannot be used")]
    Socket(#[source] io::Error),
    /// The bootstrap has no name for the listener of a server.
    #[error(transparent)]
    Naming(#[from] NamingError),
    /// The bootstrap is missing, or cannot be used.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// The credentials say TLS, and name no certificate for the server.
    #[error("the credentials of a server need a certificate with its key (`identity`)")]
    NoCertificate,
    /// Nothing can be asked of the control plane, now or later.
    #[error("the listener cannot be watched: {}", .0.text)]
    Watch(Arc<WatchError>),
}

/// The things that the driver of a server is made of. A client needs a runtime, so it is made last.
pub(super) struct Start {
    pub(super) security: ServerSecurity,
    pub(super) clients: Arc<Clients>,
    listener: String,
}

impl ServerBuilder {
    /// Begins a server that is bound to this address, as in `0.0.0.0:50051`.
    pub fn new(address: &str) -> Self {
        let address = address.to_owned();
        let (limits, max_connections) = (Limits::default(), MAX_CONNECTIONS);
        let credentials = Credentials::xds(Credentials::insecure());
        Self {
            address,
            bootstrap: None,
            on_state: None,
            credentials,
            limits,
            max_connections,
            methods: BTreeSet::new(),
        }
    }

    /// Uses this bootstrap instead of the one of the process.
    pub fn bootstrap(mut self, bootstrap: Bootstrap) -> Self {
        self.bootstrap = Some(bootstrap);
        self
    }

    /// Tells this function when the server begins to serve, and why when it does not. Without one, the log is
    /// told. The function runs on the task that accepts connections, and must not block.
    pub fn on_state(
        mut self,
        told: impl FnMut(SocketAddr, &ServingState) + Send + 'static,
    ) -> Self {
        self.on_state = Some(Box::new(told));
        self
    }

    /// Secures connections by these credentials. By default they are
    /// `Credentials::xds(Credentials::insecure())`: TLS for the filter chains for which the control plane asks
    /// for it, and no encryption for the others.
    ///
    /// The files of [`Credentials::tls`] have the certificate of the server. If they have authorities, clients
    /// must show a certificate that one of them has signed.
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// Gives connections this time to end their calls when the listener has changed or is gone, and when the
    /// server shuts down. By default it is 10 minutes.
    pub fn drain_grace(mut self, grace: Duration) -> Self {
        self.limits.grace = grace.min(LONGEST);
        self
    }

    /// Gives connections this time until they have begun to speak HTTP/2, with TLS before that. By default it is 20 seconds.
    pub fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.limits.handshake = timeout.min(LONGEST);
        self
    }

    /// Closes connections at once when so many are open. By default it is 10,000.
    pub fn max_connections(mut self, most: usize) -> Self {
        self.max_connections = most;
        self
    }

    /// Lets these methods, as `orders.v1.Orders/Get`, have their names in
    /// [metrics](crate::set_metrics_recorder). All others are `other`, because a service does not tell which it has,
    /// and clients choose what they call.
    pub fn measured_methods<'a>(mut self, methods: impl IntoIterator<Item = &'a str>) -> Self {
        let methods = methods.into_iter().map(|method| method.trim_start_matches('/').to_owned());
        self.methods.extend(methods);
        self
    }

    /// Makes the server, and binds it to its address.
    ///
    /// # Errors
    /// If the address is malformed or taken, or the bootstrap is missing or cannot be used.
    pub fn build(self) -> Result<Server, ServerError> {
        let address: SocketAddr =
            self.address.parse().map_err(|_| ServerError::Address(self.address))?;
        let clients = match self.bootstrap {
            Some(bootstrap) => process::clients_of(bootstrap)?,
            None => process::clients()?,
        };
        let security = ServerSecurity::new(&self.credentials, clients.bootstrap())?;
        let bind = |source| ServerError::Bind { address, source };
        let listener = TcpListener::bind(address).map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let name = clients.bootstrap().listener(&address.to_string())?.place.name;
        let start = Start { security, clients, listener: name.as_str().to_owned() };
        let (limits, max_connections) = (self.limits, self.max_connections);
        let (states, methods) = (States::new(self.on_state), Arc::new(self.methods));
        Ok(Server { listener, address, start, states, limits, max_connections, methods })
    }
}

impl Start {
    /// Returns the client of all servers of these clients.
    pub(super) fn client(&self) -> Result<Client, BootstrapError> {
        self.clients.for_servers()
    }

    /// Returns what the reader of resources looks at beside them.
    pub(super) fn surroundings(&self) -> Surroundings {
        Surroundings::new(self.clients.bootstrap(), extend::policies())
    }

    /// Returns the name of the listener.
    pub(super) fn listener(&self) -> &str {
        &self.listener
    }
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The longest time that a limit can be, so that it can be added to any other: a year.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// The number of connections that a server has by default.
const MAX_CONNECTIONS: usize = 10_000;
