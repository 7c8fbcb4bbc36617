//! The mail of the driver of a channel, from subchannels and callers. It is bounded by what there is to tell
//! of, and not by how often: of each subchannel the last states are kept. Whoever asks about calls bounds
//! how many do so at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chancery_calls::balancing::{Description, SubchannelId, SubchannelState, Wake};
use chancery_core::client::WatchError;
use tokio::sync::{Notify, oneshot};

/// The mail of a driver.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    mail: Mutex<Mail>,
    arrived: Notify,
}

/// A subchannel of one cluster of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InboxKey {
    pub(crate) cluster: u64,
    pub(crate) subchannel: SubchannelId,
}

/// Everything that has arrived.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    pub(crate) states: BTreeMap<InboxKey, Vec<SubchannelState>>,
    pub(crate) wakes: BTreeMap<u64, BTreeSet<Wake>>,
    pub(crate) questions: Vec<Question>,
    /// True if somebody has let go of a cluster.
    pub(crate) has_unused: bool,
    /// True if the driver has ended, and nobody answers questions any more.
    is_closed: bool,
}

/// A question about the way of a call.
#[derive(Debug)]
pub(crate) struct Question {
    /// The cluster that the way leads to, if it leads to one.
    pub(crate) cluster: Option<u64>,
    pub(crate) answer: oneshot::Sender<Answer>,
}

/// The answer to a question about the way of a call.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The cluster with all below it, if there is anything to say of it yet.
    pub(crate) balancing: Option<Description>,
    /// The clusters and endpoints that the way leaves out, and why.
    pub(crate) left_out: Vec<String>,
    /// The reasons why something on the way may be older than what the control plane has.
    pub(crate) outdated: Vec<Arc<WatchError>>,
}

impl Inbox {
    /// A subchannel has another state.
    pub(crate) fn state(&self, key: InboxKey, state: SubchannelState) {
        {
            let mut mail = self.lock();
            let states = mail.states.entry(key).or_default();
            if states.last() == Some(&state) {
                return;
            }
            states.push(state);
            if states.len() > KEPT {
                states.remove(0);
            }
        }
        self.arrived.notify_one();
    }

    /// Forgets what is said of a subchannel, which is to have another connection.
    pub(crate) fn forget(&self, key: InboxKey) {
        self.lock().states.remove(&key);
    }

    /// A picker wants something of a cluster to be connected.
    pub(crate) fn wake(&self, cluster: u64, wake: Wake) {
        self.lock().wakes.entry(cluster).or_default().insert(wake);
        self.arrived.notify_one();
    }

    /// Somebody asks about the way of a call to a cluster, or to none.
    pub(crate) fn ask(&self, cluster: Option<u64>) -> oneshot::Receiver<Answer> {
        let (answer, answered) = oneshot::channel();
        {
            let mut mail = self.lock();
            if mail.is_closed {
                return answered;
            }
            mail.questions.retain(|question| !question.answer.is_closed());
            mail.questions.push(Question { cluster, answer });
        }
        self.arrived.notify_one();
        answered
    }

    /// Somebody has let go of a cluster, which may be the last one.
    pub(crate) fn unused(&self) {
        self.lock().has_unused = true;
        self.arrived.notify_one();
    }

    /// The driver has ended. Whoever has asked hears that there is no answer.
    pub(crate) fn close(&self) {
        let ended = Mail { is_closed: true, ..Mail::default() };
        // Those who wait for an answer are woken after the lock is released.
        let left = std::mem::replace(&mut *self.lock(), ended);
        drop(left);
    }

    /// Waits until something has arrived.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Takes everything out.
    pub(crate) fn take(&self) -> Mail {
        let mut mail = self.lock();
        let is_closed = mail.is_closed;
        std::mem::replace(&mut mail, Mail { is_closed, ..Mail::default() })
    }

    /// No code that panics runs under the lock.
    fn lock(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of states that are kept of a subchannel. A policy needs to see a failure and that it is
/// over, in this order.
const KEPT: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_an_answer_of_a_driver_that_has_ended() {
        let inbox = Inbox::default();
        let mut before = inbox.ask(None);
        assert_eq!(inbox.take().questions.len(), 1);
        let mut left = inbox.ask(Some(1));
        inbox.close();
        let mut after = inbox.ask(None);
        for answered in [&mut before, &mut left, &mut after] {
            assert_eq!(answered.try_recv().err(), Some(oneshot::error::TryRecvError::Closed));
        }
        assert!(inbox.take().questions.is_empty());
    }
}
