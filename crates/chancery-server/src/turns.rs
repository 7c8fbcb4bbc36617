//! Requests of peers, in turn: one of each peer after another, and those of one peer in the order in
//! which they were made, unless one goes first.
//!
//! A peer with thousands of requests delays another one by one request and not by thousands. Not here:
//! the thing that is waited for, and the time for which it may be held (`grpc::send_permits`,
//! `places`).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use crate::budget::PeerShare;

/// Requests that wait.
#[derive(Default)]
pub(crate) struct Turns {
    /// The peers that wait, in the order of their turns. The first one has requests.
    order: VecDeque<PeerNumber>,
    /// The requests of each of these peers.
    waiting: HashMap<PeerNumber, Requests>,
    /// The number of the newest ticket.
    last: u64,
}

/// The requests of one peer, in each line oldest first.
#[derive(Default)]
struct Requests {
    front: VecDeque<(u64, Waker)>,
    end: VecDeque<(u64, Waker)>,
}

/// A request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket {
    number: u64,
    line: Line,
}

/// The place of a request among those of its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Line {
    /// Before the others: it ends something that was begun, and frees what that holds.
    Front,
    /// After the others.
    End,
}

/// The number of a peer, which no other one has while it waits.
type PeerNumber = usize;

/// The share is kept as long as its peer waits, so its address is no other's.
fn number(peer: &Arc<PeerShare>) -> PeerNumber {
    Arc::as_ptr(peer).addr()
}

impl Turns {
    /// Adds a request of a peer. Returns its ticket.
    pub(crate) fn add(&mut self, peer: &Arc<PeerShare>, line: Line) -> Ticket {
        let peer = number(peer);
        self.last += 1;
        let requests = self.waiting.entry(peer).or_insert_with(|| {
            self.order.push_back(peer);
            Requests::default()
        });
        requests.of(line).push_back((self.last, Waker::noop().clone()));
        Ticket { number: self.last, line }
    }

    /// Returns true if it is the turn of a request. If not, `waker` is woken when it is.
    pub(crate) fn is_first(
        &mut self,
        peer: &Arc<PeerShare>,
        ticket: Ticket,
        waker: &Waker,
    ) -> bool {
        let is_next = self.order.front() == Some(&number(peer));
        let Some(requests) = self.waiting.get(&number(peer)) else { return false };
        let is_before = ticket.line == Line::Front || requests.front.is_empty();
        self.find(peer, ticket, waker) == Some(0) && is_before && is_next
    }

    /// Returns true if a request waits. Its waker is this one from now on.
    pub(crate) fn waits(&mut self, peer: &Arc<PeerShare>, ticket: Ticket, waker: &Waker) -> bool {
        self.find(peer, ticket, waker).is_some()
    }

    /// Returns true if no request waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Removes the request whose turn it is, and gives the turn to the next peer.
    pub(crate) fn take_first(&mut self) -> Option<(Ticket, Waker)> {
        let peer = self.order.front()?;
        let first = self.waiting.get_mut(peer).and_then(Requests::take_first);
        self.order.rotate_left(1);
        self.forget_gone();
        first
    }

    /// Removes a request that waits no more. Another one may have its turn then.
    pub(crate) fn remove(&mut self, peer: &Arc<PeerShare>, ticket: Ticket) {
        if let Some(requests) = self.waiting.get_mut(&number(peer))
            && let Some(position) = requests.find(ticket)
        {
            requests.of(ticket.line).remove(position);
            self.forget_gone();
        }
    }

    /// Wakes the request whose turn it is.
    pub(crate) fn wake_first(&self) {
        let first = self.order.front().and_then(|peer| self.waiting.get(peer));
        if let Some((_, waker)) = first.and_then(Requests::first) {
            waker.wake_by_ref();
        }
    }

    /// The position of a request among those in its line, with its new waker.
    fn find(&mut self, peer: &Arc<PeerShare>, ticket: Ticket, waker: &Waker) -> Option<usize> {
        let requests = self.waiting.get_mut(&number(peer))?;
        let position = requests.find(ticket)?;
        requests.of(ticket.line)[position].1.clone_from(waker);
        Some(position)
    }

    /// Forgets peers that wait no more when their turn comes.
    fn forget_gone(&mut self) {
        while let Some(peer) = self.order.front()
            && self.waiting.get(peer).and_then(Requests::first).is_none()
        {
            self.waiting.remove(peer);
            self.order.pop_front();
        }
    }
}

impl Requests {
    fn of(&mut self, line: Line) -> &mut VecDeque<(u64, Waker)> {
        match line {
            Line::Front => &mut self.front,
            Line::End => &mut self.end,
        }
    }

    fn first(&self) -> Option<&(u64, Waker)> {
        self.front.front().or_else(|| self.end.front())
    }

    fn take_first(&mut self) -> Option<(Ticket, Waker)> {
        let line = if self.front.is_empty() { Line::End } else { Line::Front };
        let (number, waker) = self.of(line).pop_front()?;
        Some((Ticket { number, line }, waker))
    }

    /// The position of a request in its line, which is sorted by number.
    fn find(&mut self, ticket: Ticket) -> Option<usize> {
        let line = self.of(ticket.line);
        line.binary_search_by_key(&ticket.number, |(number, _)| *number).ok()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::config::Limits;
    use crate::policy::Peer;

    /// Shares of as many peers.
    pub(crate) fn peers(count: u8) -> Vec<Arc<PeerShare>> {
        let budget = Budget::new(&Limits::default());
        let peer = |host: u8| {
            let address = Some(([192, 0, 2, host], 1).into());
            budget.share_of(&Peer { address, tls: false, certificates: Vec::new() })
        };
        (0..count).map(peer).collect()
    }

    #[test]
    fn peers_come_one_after_another_and_requests_of_one_in_their_order() {
        let (mut turns, peers) = (Turns::default(), peers(3));
        let many: Vec<_> = (0..4).map(|_| turns.add(&peers[0], Line::End)).collect();
        let (one, two) = (turns.add(&peers[1], Line::End), turns.add(&peers[2], Line::End));
        turns.remove(&peers[0], many[1]);
        let [first, second] = [Line::Front; 2].map(|line| turns.add(&peers[0], line));
        let of_many = [(0, many[0]), (0, many[2]), (0, many[3])];
        let order = [[(0, first), (1, one), (2, two), (0, second)].as_slice(), &of_many].concat();
        for (peer, ticket) in order {
            assert!(turns.is_first(&peers[peer], ticket, Waker::noop()), "{ticket:?}");
            assert_eq!(turns.take_first().map(|(ticket, _)| ticket), Some(ticket));
        }
        assert!(turns.is_empty() && turns.waiting.is_empty());
    }
}
