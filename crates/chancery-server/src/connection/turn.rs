//! The turns of connections whose peers keep the workers busy.
//!
//! A connection gives its worker back after a slice of work. That alone is not fair: a peer with a
//! thousand connections, each of which always has a slice of work, delays everybody by a thousand
//! slices. So the connections of a peer that was at work for long several times take turns: as many as
//! there are workers have a place, and peers come one after the other. Each begins when its worker has
//! looked at its sockets. A peer whose work is short waits for nobody's turn.
//!
//! Not here: the slice (`crate::slice`), and long work beside the workers.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use super::executor::wake_after_others;
use crate::budget::PeerShare;
use crate::places::{Place, PlaceRequest, Places};
use crate::turns::Line;

/// The time from which on one poll is long.
const LONG: Duration = Duration::from_millis(5);
/// The time for which a connection with a long poll takes turns.
const MOMENT: Duration = Duration::from_secs(1);

/// The turn of one connection.
#[derive(Default)]
pub(super) struct Turn {
    state: TurnState,
    /// The time of the last poll that was long.
    long_at: Option<Instant>,
}

#[derive(Default)]
enum TurnState {
    #[default]
    NotAsked,
    Waiting(Box<PlaceRequest>),
    /// The connection has its place, and begins when the worker has looked at its sockets: one slice
    /// of work after another would keep it from that.
    Next(Place),
}

/// The permission for one poll of a connection.
pub(super) struct TurnTaken {
    begun: Instant,
    _place: Option<Place>,
}

impl Turn {
    /// Waits for the turn of the connection, if its peer has to take turns. It is in this line of those
    /// of its peer.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        peer: &Arc<PeerShare>,
        line: Line,
        places: &Places,
    ) -> Poll<TurnTaken> {
        let begun = Instant::now();
        let request = match std::mem::take(&mut self.state) {
            TurnState::NotAsked if !peer.is_busy(begun, self.was_long(begun)) => {
                return Poll::Ready(TurnTaken { begun, _place: None });
            }
            TurnState::NotAsked => Box::new(places.request(peer, line)),
            TurnState::Waiting(request) => request,
            TurnState::Next(place) => {
                return Poll::Ready(TurnTaken { begun, _place: Some(place) });
            }
        };
        self.state = match request.poll(cx) {
            Poll::Pending => TurnState::Waiting(request),
            Poll::Ready(place) => {
                wake_after_others(cx);
                TurnState::Next(place)
            }
        };
        Poll::Pending
    }

    /// Ends the poll for which the turn was taken, and notes how long it took.
    pub(super) fn end(&mut self, taken: TurnTaken, peer: &PeerShare) {
        let now = Instant::now();
        if now.duration_since(taken.begun) >= LONG {
            self.long_at = Some(now);
            peer.was_busy(now);
        }
    }

    /// Returns true if a poll of this connection was long a moment ago.
    fn was_long(&self, now: Instant) -> bool {
        self.long_at.is_some_and(|at| now.duration_since(at) < MOMENT)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::turns::tests::peers;

    /// Begins a poll; `None` if the connection has to wait.
    fn begun(turn: &mut Turn, peer: &Arc<PeerShare>, places: &Places) -> Option<TurnTaken> {
        match turn.poll(&mut Context::from_waker(Waker::noop()), peer, Line::End, places) {
            Poll::Ready(taken) => Some(taken),
            Poll::Pending => None,
        }
    }

    async fn long_poll(turn: &mut Turn, peer: &Arc<PeerShare>, places: &Places) {
        let taken = begun(turn, peer, places).expect("it does not wait");
        tokio::time::advance(LONG).await;
        turn.end(taken, peer);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_are_at_work_for_long_take_turns_and_others_do_not_wait() {
        let (places, peers) = (Places::new(1), peers(2));
        let mut turns: Vec<_> = (0..4).map(|_| Turn::default()).collect();
        for at in [0, 1, 0, 1, 0, 1, 0, 1] {
            long_poll(&mut turns[at], &peers[0], &places).await;
        }
        // The first one has its place, and begins after the others of its worker.
        assert!(begun(&mut turns[0], &peers[0], &places).is_none());
        assert!(begun(&mut turns[1], &peers[0], &places).is_none());
        assert!(begun(&mut turns[2], &peers[0], &places).is_some(), "it was never long");
        assert!(begun(&mut turns[3], &peers[1], &places).is_some(), "its peer is not busy");
        let first = begun(&mut turns[0], &peers[0], &places).expect("it has its place");
        assert!(begun(&mut turns[1], &peers[0], &places).is_none());
        turns[0].end(first, &peers[0]);
        assert!(begun(&mut turns[1], &peers[0], &places).is_none());
        assert!(begun(&mut turns[1], &peers[0], &places).is_some());
        tokio::time::advance(MOMENT).await;
        assert!(begun(&mut turns[0], &peers[0], &places).is_some(), "that is long ago");
    }

    #[tokio::test(start_paused = true)]
    async fn all_connections_of_a_peer_take_turns_if_many_were_at_work_for_long() {
        let (places, peers) = (Places::new(1), peers(1));
        for _ in 0..64 {
            long_poll(&mut Turn::default(), &peers[0], &places).await;
        }
        assert!(begun(&mut Turn::default(), &peers[0], &places).is_none());
    }
}
