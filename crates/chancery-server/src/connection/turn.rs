//! The turns of connections whose peers keep the workers busy.
//!
//! A connection gives its worker back after a slice of work. That alone is not fair: a peer with a
//! thousand connections, each of which always has a slice of work, delays everybody by a thousand
//! slices. So the connections of a peer that was at work for long take turns at as many places as there
//! are workers, and peers one after the other. A peer whose work is short waits for nobody's turn.
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

/// The time of one poll from which on the peer is one that keeps the workers busy.
const LONG: Duration = Duration::from_millis(2);

/// The turn of one connection.
#[derive(Default)]
pub(super) struct Turn(TurnState);

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
    /// Waits for the turn of the connection, if its peer has to take turns.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        peer: &Arc<PeerShare>,
        places: &Places,
    ) -> Poll<TurnTaken> {
        let begun = Instant::now();
        let request = match std::mem::take(&mut self.0) {
            TurnState::NotAsked if !peer.is_busy(begun) => {
                return Poll::Ready(TurnTaken { begun, _place: None });
            }
            TurnState::NotAsked => Box::new(places.request(peer, Line::End)),
            TurnState::Waiting(request) => request,
            TurnState::Next(place) => {
                return Poll::Ready(TurnTaken { begun, _place: Some(place) });
            }
        };
        self.0 = match request.poll(cx) {
            Poll::Pending => TurnState::Waiting(request),
            Poll::Ready(place) => {
                wake_after_others(cx);
                TurnState::Next(place)
            }
        };
        Poll::Pending
    }
}

impl TurnTaken {
    /// Notes the time that the poll took.
    pub(super) fn end(self, peer: &PeerShare) {
        let now = Instant::now();
        if now.duration_since(self.begun) >= LONG {
            peer.was_busy(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::turns::tests::peers;

    #[tokio::test(start_paused = true)]
    async fn connections_of_a_busy_peer_take_turns_and_others_do_not_wait() {
        let (places, peers) = (Places::new(1), peers(2));
        let mut cx = Context::from_waker(Waker::noop());
        let mut turns: Vec<_> = (0..3).map(|_| Turn::default()).collect();
        let Poll::Ready(first) = turns[0].poll(&mut cx, &peers[0], &places) else {
            panic!("nobody was busy")
        };
        first.end(&peers[0]);
        assert!(turns[1].poll(&mut cx, &peers[0], &places).is_ready(), "the work was short");
        let Poll::Ready(long) = turns[0].poll(&mut cx, &peers[0], &places) else {
            panic!("nobody was busy")
        };
        tokio::time::advance(LONG).await;
        long.end(&peers[0]);
        // The first one has its place, and begins after the others of its worker.
        assert!(turns[0].poll(&mut cx, &peers[0], &places).is_pending());
        assert!(turns[1].poll(&mut cx, &peers[0], &places).is_pending());
        assert!(turns[2].poll(&mut cx, &peers[1], &places).is_ready());
        let Poll::Ready(held) = turns[0].poll(&mut cx, &peers[0], &places) else {
            panic!("it has its place")
        };
        assert!(turns[1].poll(&mut cx, &peers[0], &places).is_pending());
        held.end(&peers[0]);
        assert!(turns[1].poll(&mut cx, &peers[0], &places).is_pending());
        assert!(turns[1].poll(&mut cx, &peers[0], &places).is_ready());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(turns[0].poll(&mut cx, &peers[0], &places).is_ready(), "that is long ago");
    }
}
