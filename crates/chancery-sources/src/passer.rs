//! Orders to let edits pass that wait behind faults, for the thread that follows a directory.
//!
//! Nobody waits for that thread without a bound: an order that it has not taken can be taken back. Not here: what
//! passes (`behind`).

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chancery_catalog::Layer;

use crate::watch::Wakeup;

/// Lets edits pass that wait behind faults in other files of their layers. Clones are the same.
#[derive(Clone, Debug)]
pub struct Passer {
    orders: Orders,
    wakeup: Wakeup,
}

/// The orders that were not taken so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orders(Arc<Mutex<Vec<Order>>>);

/// An order: layers, each with the digest of what somebody read.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) layers: Vec<(Layer, u128)>,
    done: SyncSender<()>,
}

impl Passer {
    pub(crate) fn new(orders: Orders, wakeup: Wakeup) -> Self {
        Self { orders, wakeup }
    }

    /// Lets pass what waits in these layers ([`BehindFaults`](crate::BehindFaults)), if it has these digests. The files
    /// with faults stay as they were until they have none. It is reported as a load before this returns. Returns
    /// false if the thread did not come to it within this time: then the order is taken back.
    pub fn pass(&self, layers: Vec<(Layer, u128)>, within: Duration) -> bool {
        let (done, is_done) = sync_channel(1);
        self.orders.add(Order { layers, done });
        self.wakeup.notify();
        self.orders.wait(&is_done, within)
    }
}

impl Orders {
    /// Takes all orders.
    pub(crate) fn take(&self) -> Vec<Order> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, order: Order) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(order);
    }

    fn wait(&self, is_done: &Receiver<()>, within: Duration) -> bool {
        if is_done.recv_timeout(within).is_ok() {
            return true;
        }
        // Those that wait are dropped, and each of their senders with them.
        drop(self.take());
        // One that was taken reads no file, so it does not take long.
        is_done.recv_timeout(within).is_ok()
    }
}

impl Order {
    /// Tells that it was carried out.
    pub(crate) fn carried_out(self) {
        self.done.send(()).ok();
    }
}
