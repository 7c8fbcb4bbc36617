//! One connection, and the view that each channel has of it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use chancery_calls::balancing::SubchannelState;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::backoff::Backoff;
use super::dial::dial;
use super::ended::{Ended, SHUTDOWN};
use super::{ConnectionSettings, Inbox, InboxKey, Keepalive, Sender};
use crate::dice::ThreadDice;
use crate::metrics::{
    CONNECTIONS_FAILED, CONNECTIONS_MADE, CONNECTIONS_OPEN, DISCONNECT_ERROR, DISCONNECTIONS,
    MetricsRecorder, recorder,
};

/// A connection to an address, shared by all who need it. When the last one lets go, calls that are
/// under way end as they would, and the connection closes after them.
pub(super) struct Connection {
    address: SocketAddr,
    settings: Arc<ConnectionSettings>,
    state: Mutex<ConnectionState>,
    /// Closed when nobody needs the connection any more.
    needed: watch::Sender<()>,
}

#[derive(Default)]
struct ConnectionState {
    phase: Phase,
    backoff: Backoff,
    /// The number of times that keepalive was made twice as patient, because the peer wants it (gRFC A8).
    patience: u32,
    listeners: BTreeMap<u64, Listener>,
}

#[derive(Default)]
enum Phase {
    #[default]
    Idle,
    Connecting,
    Ready(Sender),
    Failed(Arc<str>),
}

/// A channel that is told of the states.
struct Listener {
    inbox: Weak<Inbox>,
    key: InboxKey,
}

/// The view of one channel of a connection. Dropping it lets go of the connection.
#[derive(Debug)]
pub(crate) struct Subchannel {
    connection: Arc<Connection>,
    id: u64,
}

impl Subchannel {
    pub(super) fn new(connection: Arc<Connection>, inbox: &Arc<Inbox>, key: InboxKey) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        {
            let mut state = connection.lock();
            let told = state.phase.told();
            if told != SubchannelState::Idle {
                inbox.state(key, told);
            }
            state.listeners.insert(id, Listener { inbox: Arc::downgrade(inbox), key });
        }
        Self { connection, id }
    }

    /// Connects, if the connection is idle.
    pub(crate) fn connect(&self) {
        self.connection.connect();
    }

    /// Returns what sends calls, while the connection is ready.
    pub(crate) fn sender(&self) -> Option<Sender> {
        match &self.connection.lock().phase {
            Phase::Ready(sender) => Some(sender.clone()),
            _ => None,
        }
    }
}

impl Drop for Subchannel {
    fn drop(&mut self) {
        self.connection.lock().listeners.remove(&self.id);
    }
}

impl Connection {
    pub(super) fn new(address: SocketAddr, settings: Arc<ConnectionSettings>) -> Arc<Self> {
        let (needed, _) = watch::channel(());
        Arc::new(Self { address, settings, state: Mutex::default(), needed })
    }

    fn connect(self: &Arc<Self>) {
        {
            let mut state = self.lock();
            if !matches!(state.phase, Phase::Idle) {
                return;
            }
            state.phase = Phase::Connecting;
            state.tell();
        }
        // The task holds no strong reference while it waits: it ends when all subchannels are dropped.
        tokio::spawn(run(Arc::downgrade(self), self.needed.subscribe()));
    }

    fn set(&self, phase: Phase) {
        let before = {
            let mut state = self.lock();
            let before = std::mem::replace(&mut state.phase, phase);
            state.tell();
            before
        };
        // The sender of a connection is dropped without the lock.
        drop(before);
    }

    /// No code that panics runs under the lock.
    fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionState {
    /// Returns the keepalive of the next connection.
    fn keepalive(&self, settings: &ConnectionSettings) -> Option<Keepalive> {
        settings.keepalive.map(|keepalive| keepalive.patient(self.patience))
    }

    /// A connection has ended.
    fn ended(&mut self, ended: Ended) {
        if ended.has_too_many_pings {
            self.patience = self.patience.saturating_add(1);
        }
    }

    /// Tells all who listen. That is under the lock, so that each hears of the states in their order; a
    /// mailbox waits for nobody.
    fn tell(&self) {
        let state = self.phase.told();
        for Listener { inbox, key } in self.listeners.values() {
            if let Some(inbox) = inbox.upgrade() {
                inbox.state(*key, state.clone());
            }
        }
    }
}

/// Lets the connection be made again if its task ends, also where a runtime is shut down.
struct Idle(Weak<Connection>);

impl Drop for Idle {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.set(Phase::Idle);
        }
    }
}

/// An open connection in the metrics, until this is dropped.
struct Open {
    recorder: Option<&'static dyn MetricsRecorder>,
    /// The reason for its end.
    reason: &'static str,
}

impl Open {
    fn counted() -> Self {
        let recorder = recorder();
        if let Some(recorder) = recorder {
            recorder.add(&CONNECTIONS_MADE, 1, &[]);
            recorder.change(&CONNECTIONS_OPEN, 1, &[]);
        }
        Self { recorder, reason: SHUTDOWN }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(recorder) = self.recorder {
            recorder.change(&CONNECTIONS_OPEN, -1, &[]);
            recorder.add(&DISCONNECTIONS, 1, &[(DISCONNECT_ERROR, self.reason)]);
        }
    }
}

/// The endpoint of a connection for people: its address, or the name of one that has none here.
fn shown(settings: &ConnectionSettings, address: SocketAddr) -> String {
    settings.via.name().unwrap_or_else(|| address.to_string())
}

/// Makes one connection and runs it until it is lost. It ends when nobody needs it.
async fn run(connection: Weak<Connection>, mut needed: watch::Receiver<()>) {
    let _idle = Idle(Weak::clone(&connection));
    let began = Instant::now();
    let Some(shared) = connection.upgrade() else { return };
    let (address, settings) = (shared.address, Arc::clone(&shared.settings));
    let keepalive = shared.lock().keepalive(&settings);
    drop(shared);
    let dialled = tokio::select! {
        dialled = timeout(CONNECT_TIMEOUT, dial(address, &settings, keepalive)) => dialled,
        _ = needed.changed() => return,
    };
    let dialled = dialled.unwrap_or_else(|_| Err(format!("no answer within {CONNECT_TIMEOUT:?}")));
    match dialled {
        Ok((sender, running)) => {
            let Some(shared) = connection.upgrade() else { return };
            shared.lock().backoff.succeeded();
            shared.set(Phase::Ready(sender));
            drop(shared);
            let mut open = Open::counted();
            // It ends when the peer closes it, or when all who send on it are gone and the calls
            // that are under way have ended.
            let ended = running.await;
            if ended.has_too_many_pings {
                // The program has to be told (gRFC A8).
                let endpoint = shown(&settings, address);
                tracing::warn!(
                    endpoint,
                    "the peer has closed the connection: it is asked too much, as by keepalive"
                );
            }
            if let Some(shared) = connection.upgrade() {
                open.reason = ended.reason;
                shared.lock().ended(ended);
            }
        }
        Err(error) => {
            let Some(shared) = connection.upgrade() else { return };
            if let Some(recorder) = recorder() {
                recorder.add(&CONNECTIONS_FAILED, 1, &[]);
            }
            let backoff = shared.lock().backoff.failed(&mut ThreadDice);
            let endpoint = shown(&settings, address);
            shared.set(Phase::Failed(format!("{endpoint}: {error}").into()));
            drop(shared);
            tokio::select! {
                () = sleep_until(began + backoff) => {}
                _ = needed.changed() => {}
            }
        }
    }
}

impl Phase {
    fn told(&self) -> SubchannelState {
        match self {
            Self::Idle => SubchannelState::Idle,
            Self::Connecting => SubchannelState::Connecting,
            Self::Ready(_) => SubchannelState::Ready,
            Self::Failed(error) => SubchannelState::Failed(Arc::clone(error)),
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The time that an attempt has, as in other implementations of gRPC.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_minds_is_asked_less_often() {
        let keepalive = Some(Keepalive::after(Duration::from_secs(10)));
        let settings = ConnectionSettings { keepalive, ..ConnectionSettings::default() };
        let mut state = ConnectionState::default();
        let mut times = Vec::new();
        for has_too_many_pings in [false, true, true, false] {
            state.ended(Ended { reason: SHUTDOWN, has_too_many_pings });
            times.extend(state.keepalive(&settings).map(|keepalive| keepalive.time.as_secs()));
        }
        assert_eq!(times, [10, 20, 40, 40]);
    }
}
