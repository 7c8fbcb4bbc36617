//! The things that all channels of a process share: connections, the counts of calls under way, and clients of the
//! control plane.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use chancery_calls::balancing::InFlight;
use chancery_calls::filters::faults::ActiveFaults;
use chancery_client::status::ClientConfig;
use chancery_client::{Bootstrap, BootstrapError, Clients};
use tokio::task::JoinSet;

use crate::channel::options;
use crate::connect::Pool;

/// The connections of the process.
pub(crate) fn pool() -> &'static Pool {
    static POOL: LazyLock<Pool> = LazyLock::new(Pool::default);
    &POOL
}

/// Returns the count of the calls under way to a cluster and service, which all channels share
/// (C-147).
pub(crate) fn in_flight(cluster: &str, service: &str) -> Arc<InFlight> {
    type Counts = HashMap<(String, String), Weak<InFlight>>;
    static COUNTS: LazyLock<Mutex<Counts>> = LazyLock::new(Mutex::default);
    let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (cluster.to_owned(), service.to_owned());
    if let Some(count) = counts.get(&key).and_then(Weak::upgrade) {
        return count;
    }
    if counts.len() >= counts.capacity() {
        counts.retain(|_, count| count.strong_count() > 0);
    }
    let count = Arc::default();
    counts.insert(key, Arc::downgrade(&count));
    count
}

/// The faults that are injected in the process at this time (C-150).
pub(crate) fn active_faults() -> &'static ActiveFaults {
    static FAULTS: LazyLock<ActiveFaults> = LazyLock::new(ActiveFaults::default);
    &FAULTS
}

/// Makes clients with a bootstrap of their own, which the process tells of too.
pub(crate) fn clients_of(mut bootstrap: Bootstrap) -> Result<Arc<Clients>, BootstrapError> {
    if !bootstrap.states_user_agent {
        // Control planes tell clients of gRPC from others by the beginning of it.
        let node = &mut bootstrap.node;
        node.user_agent_name = "gRPC Rust (Chancery)".to_owned();
        node.user_agent_version = env!("CARGO_PKG_VERSION").to_owned();
        bootstrap.states_user_agent = true;
    }
    let clients = Arc::new(Clients::new(bootstrap, options())?);
    let mut all = all_clients();
    all.retain(|known| known.strong_count() > 0);
    all.push(Arc::downgrade(&clients));
    Ok(clients)
}

/// Returns the state of all that the channels and servers of this process watch, for tools that ask by CSDS: the
/// source of a [`StatusServer`](crate::StatusServer). It has no secrets.
///
/// ```no_run
/// use chancery_grpc::StatusServer;
///
/// # async fn example() -> std::io::Result<()> {
/// let server = StatusServer::start(([127, 0, 0, 1], 15099).into(), chancery_grpc::client_status).await?;
/// # let _ = server;
/// # Ok(())
/// # }
/// ```
pub fn client_status() -> Vec<ClientConfig> {
    let all: Vec<_> = all_clients().iter().filter_map(Weak::upgrade).collect();
    all.iter().flat_map(|clients| clients.status()).collect()
}

/// Closes the conversations of this process with its control planes, for a program that ends: they hear of the calls
/// that were counted since the last load report. Channels fail their calls after that, and no server hears of
/// changes any more. Returns true if all control planes have ended their streams within this time.
///
/// ```no_run
/// # async fn example() {
/// chancery_grpc::close_clients(std::time::Duration::from_secs(1)).await;
/// # }
/// ```
pub async fn close_clients(patience: Duration) -> bool {
    let all: Vec<_> = all_clients().iter().filter_map(Weak::upgrade).collect();
    let mut closing = JoinSet::new();
    for clients in all {
        closing.spawn(async move { clients.close(patience).await });
    }
    closing.join_all().await.into_iter().all(|is_quiet| is_quiet)
}

/// All clients that are in use, by their bootstraps.
fn all_clients() -> MutexGuard<'static, Vec<Weak<Clients>>> {
    static ALL: Mutex<Vec<Weak<Clients>>> = Mutex::new(Vec::new());
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the clients of the process, with the bootstrap that the environment names. An error is
/// told again to the next who asks, who may have set the environment.
pub(crate) fn clients() -> Result<Arc<Clients>, BootstrapError> {
    static CLIENTS: Mutex<Option<Arc<Clients>>> = Mutex::new(None);
    let mut known = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(clients) = &*known {
        return Ok(Arc::clone(clients));
    }
    let clients = clients_of(Bootstrap::discover(None)?)?;
    *known = Some(Arc::clone(&clients));
    Ok(clients)
}
