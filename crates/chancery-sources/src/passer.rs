//! Orders to let edits pass that wait behind faults, for the thread that follows a directory.
//!
//! Nobody waits for that thread without a bound: an order that it has not taken can be taken back. Not here: what
//! passes (`behind`).

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chancery_catalog::Layer;

use crate::watch::Wakeup;

/// Lets edits pass that wait behind faults in other files of their layers. Clones are the same.
#[derive(Clone, Debug)]
pub struct Passer {
    orders: Orders,
    wakeup: Wakeup,
}

/// The fate of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// It was carried out.
    Done,
    /// It was taken back, and nothing of it passes.
    TakenBack,
    /// It was begun and was not over in time: it may pass yet.
    Begun,
}

/// The orders that were not taken so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orders(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    /// The number of the next order.
    next: u64,
    orders: Vec<Order>,
}

/// An order: layers, each with the digest of what somebody read.
#[derive(Debug)]
pub(crate) struct Order {
    number: u64,
    pub(crate) layers: Vec<(Layer, u128)>,
    done: SyncSender<()>,
}

impl Passer {
    pub(crate) fn new(orders: Orders, wakeup: Wakeup) -> Self {
        Self { orders, wakeup }
    }

    /// Lets pass what waits in these layers ([`BehindFaults`](crate::BehindFaults)), if it has these digests. The files
    /// with faults stay as they were until they have none. It is reported as a load before this returns. If the thread
    /// does not come to it within this time, the order is taken back.
    pub fn pass(&self, layers: Vec<(Layer, u128)>, within: Duration) -> Passing {
        let (number, is_done) = self.orders.add(layers);
        self.wakeup.notify();
        self.orders.wait(number, &is_done, within)
    }
}

impl Orders {
    /// Takes all orders.
    pub(crate) fn take(&self) -> Vec<Order> {
        std::mem::take(&mut self.lock().orders)
    }

    fn add(&self, layers: Vec<(Layer, u128)>) -> (u64, Receiver<()>) {
        let (done, is_done) = sync_channel(1);
        let mut waiting = self.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.orders.push(Order { number, layers, done });
        (number, is_done)
    }

    fn wait(&self, number: u64, is_done: &Receiver<()>, within: Duration) -> Passing {
        if is_done.recv_timeout(within).is_ok() {
            return Passing::Done;
        }
        // Those of others wait on.
        let waiting = self.lock().orders.extract_if(.., |order| order.number == number).next();
        if waiting.is_some() {
            return Passing::TakenBack;
        }
        // One that was taken reads no file, so it does not take long.
        match is_done.recv_timeout(within) {
            Ok(()) => Passing::Done,
            Err(_) => Passing::Begun,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Order {
    /// Tells that it was carried out.
    pub(crate) fn carried_out(self) {
        self.done.send(()).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_is_taken_back_takes_no_other_with_it() {
        let orders = Orders::default();
        let ((one, one_is_done), (other, other_is_done)) =
            (orders.add(vec![(Layer::Base, 1)]), orders.add(vec![(Layer::Base, 2)]));
        assert_eq!(orders.wait(one, &one_is_done, Duration::ZERO), Passing::TakenBack);
        let taken = orders.take();
        assert_eq!(taken.iter().map(|order| order.layers[0].1).collect::<Vec<_>>(), [2]);
        // One that was begun may pass yet, until it is carried out.
        assert_eq!(orders.wait(other, &other_is_done, Duration::ZERO), Passing::Begun);
        taken.into_iter().for_each(Order::carried_out);
        assert_eq!(orders.wait(other, &other_is_done, Duration::ZERO), Passing::Done);
    }
}
