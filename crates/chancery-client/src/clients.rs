//! One client for each target, shared by all channels to it, and one for all servers of the process
//! (C-058).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use chancery_core::client::Target;
use tokio::time::timeout;

use crate::bootstrap::{Bootstrap, BootstrapError};
use crate::client::Client;
use crate::options::Options;
use crate::session::Session;
use crate::status;
use chancery_proto::wire::ClientConfig;

/// The clients of a process, each for as long as somebody uses it.
///
/// Channels to one target share one client, so that a failure of one target's servers does not
/// concern another target (gRFC A71).
pub struct Clients {
    bootstrap: Bootstrap,
    options: Options,
    all: Mutex<BTreeMap<ClientScope, Weak<Session>>>,
}

/// The purpose of a client: `client_scope` in CSDS.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ClientScope {
    Target(String),
    Servers,
}

impl Clients {
    /// Takes the bootstrap of all clients. Each client is made when it is first needed.
    ///
    /// # Errors
    /// If the bootstrap cannot be used.
    pub fn new(bootstrap: Bootstrap, options: Options) -> Result<Self, BootstrapError> {
        bootstrap.check()?;
        Ok(Self { bootstrap, options, all: Mutex::default() })
    }

    /// Returns the bootstrap that all clients share.
    pub fn bootstrap(&self) -> &Bootstrap {
        &self.bootstrap
    }

    /// Returns the client of all channels to this target.
    ///
    /// # Errors
    /// If the bootstrap cannot be used.
    ///
    /// # Panics
    /// Outside of a runtime of tokio.
    pub fn for_target(&self, target: &Target) -> Result<Client, BootstrapError> {
        self.client(ClientScope::Target(target.to_string()))
    }

    /// Returns the client of all servers in this process.
    ///
    /// # Errors
    /// If the bootstrap cannot be used.
    ///
    /// # Panics
    /// Outside of a runtime of tokio.
    pub fn for_servers(&self) -> Result<Client, BootstrapError> {
        self.client(ClientScope::Servers)
    }

    /// Returns the state of each client with its scope, which is what CSDS answers for a process.
    pub fn status(&self) -> Vec<ClientConfig> {
        let live = self.live();
        let states = live
            .iter()
            .map(|(scope, session)| status::client_config(&session.engine, scope.name()));
        states.collect()
    }

    /// Closes all clients in an orderly way, as [`Client::close`] closes one: a program that ends calls
    /// this. Returns true if all servers have ended their streams within this time.
    pub async fn close(&self, patience: Duration) -> bool {
        let live = self.live();
        live.iter().for_each(|(_, session)| session.begin_close());
        let all_ended = async {
            for (_, session) in &live {
                session.streams_ended().await;
            }
        };
        let is_quiet = timeout(patience, all_ended).await.is_ok();
        live.iter().for_each(|(_, session)| session.engine.end_watches());
        is_quiet
    }

    fn live(&self) -> Vec<(ClientScope, Arc<Session>)> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(|(scope, it)| Some((scope.clone(), it.upgrade()?))).collect()
    }

    fn client(&self, scope: ClientScope) -> Result<Client, BootstrapError> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, session| session.strong_count() > 0);
        if let Some(session) = all.get(&scope).and_then(Weak::upgrade) {
            return Ok(Client::of(session));
        }
        let mut options = self.options.clone();
        options.disk_cache = options.disk_cache.map(|cache| match &scope {
            ClientScope::Target(target) => cache.part(&format!("target-{target}")),
            ClientScope::Servers => cache.part("servers"),
        });
        let client = Client::new(&self.bootstrap, options)?;
        all.insert(scope, Arc::downgrade(client.session()));
        Ok(client)
    }
}

impl ClientScope {
    fn name(&self) -> &str {
        match self {
            Self::Target(target) => target,
            Self::Servers => "#server",
        }
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The scopes are copied: the writer may be code of the program, and must not run under the
        // lock.
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let scopes: Vec<_> = all.keys().cloned().collect();
        drop(all);
        f.debug_struct("Clients").field("scopes", &scopes).finish_non_exhaustive()
    }
}
