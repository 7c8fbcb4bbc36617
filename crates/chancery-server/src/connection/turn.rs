//! The turns of connections whose peers keep the workers busy.
//!
//! A connection gives its worker back after a slice of work. That alone is not fair: a peer with a
//! thousand connections, each of which has some work, delays everybody by a thousand pieces. So the
//! connections of a peer that worked for long lately take turns, however short each piece was: as many as
//! there are workers have a place, and peers come one after the other. When those with a place have kept
//! a worker for a while, each that would begin there waits in its place until the worker has looked at its
//! sockets, and so comes after everybody else who waits for that worker. The others do nothing until they have
//! a place. So a turn costs little where nobody else waits. A peer that is not busy waits for nobody's turn.
//!
//! Not here: who is busy (`budget::recent_work`), the slice (`crate::slice`), and long work beside the
//! workers.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use super::executor::wake_after_others;
use crate::budget::PeerShare;
use crate::places::{Place, PlaceRequest, Places};
use crate::turns::Line;

/// The time for which connections with a place work before their worker looks at its sockets.
const WHILE: Duration = Duration::from_millis(20);
/// The same for a peer beside which there is no other one. It delays only who connects.
const WHILE_ALONE: Duration = Duration::from_millis(100);

thread_local! {
    /// The time for which connections with a place worked since this worker looked at its sockets.
    static WORKED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The turn of one connection.
#[derive(Default)]
pub(super) struct Turn(TurnState);

#[derive(Default)]
enum TurnState {
    #[default]
    NotAsked,
    Waiting(Box<PlaceRequest>),
    /// The connection has its place, and begins when the worker has looked at its sockets.
    Next(Place),
}

/// The permission for one poll of a connection.
pub(super) struct TurnTaken {
    begun: Instant,
    place: Option<Place>,
}

impl Turn {
    /// Waits for the turn of the connection, if its peer has to take turns. It is in this line of those
    /// of its peer.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        peer: &Arc<PeerShare>,
        line: impl FnOnce() -> Line,
        places: &Places,
    ) -> Poll<TurnTaken> {
        let begun = Instant::now();
        let request = match std::mem::take(&mut self.0) {
            TurnState::NotAsked if !peer.is_busy(begun) => {
                return Poll::Ready(TurnTaken { begun, place: None });
            }
            TurnState::NotAsked => match places.take_free() {
                Some(place) => return self.begin(cx, peer, begun, place),
                None => Box::new(places.request(peer, line())),
            },
            TurnState::Waiting(request) => request,
            TurnState::Next(place) => {
                WORKED.set(Duration::ZERO);
                return Poll::Ready(TurnTaken { begun, place: Some(place) });
            }
        };
        match request.poll(cx) {
            Poll::Ready(place) => self.begin(cx, peer, begun, place),
            Poll::Pending => {
                self.0 = TurnState::Waiting(request);
                Poll::Pending
            }
        }
    }

    /// Begins in this place, at once or when the worker has looked at its sockets.
    fn begin(
        &mut self,
        cx: &mut Context<'_>,
        peer: &PeerShare,
        begun: Instant,
        place: Place,
    ) -> Poll<TurnTaken> {
        let most = if peer.is_alone() { WHILE_ALONE } else { WHILE };
        if WORKED.get() < most {
            return Poll::Ready(TurnTaken { begun, place: Some(place) });
        }
        wake_after_others(cx);
        self.0 = TurnState::Next(place);
        Poll::Pending
    }
}

impl TurnTaken {
    /// Ends the poll for which the turn was taken, and notes how long it took.
    pub(super) fn end(self, peer: &PeerShare) {
        let now = Instant::now();
        let took = now.duration_since(self.begun);
        peer.worked(now, took);
        if self.place.is_some() {
            WORKED.set(WORKED.get().saturating_add(took));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::turns::tests::peers;

    const SHORT: Duration = Duration::from_micros(600);

    /// A server with a worker whose sockets were looked at, and peers of which the first ones are busy.
    struct Test {
        places: Places,
        peers: Vec<Arc<PeerShare>>,
    }

    impl Test {
        fn new(places: usize, busy: usize) -> Self {
            WORKED.set(Duration::ZERO);
            let peers = peers(3);
            for peer in &peers[..busy] {
                peer.worked(Instant::now(), Duration::from_millis(150));
            }
            Self { places: Places::new(places), peers }
        }

        /// Begins a poll; `None` if the connection has to wait.
        fn begun(&self, turn: &mut Turn, peer: usize) -> Option<TurnTaken> {
            self.begun_in(Line::End, turn, peer)
        }

        fn begun_in(&self, line: Line, turn: &mut Turn, peer: usize) -> Option<TurnTaken> {
            let cx = &mut Context::from_waker(Waker::noop());
            match turn.poll(cx, &self.peers[peer], || line, &self.places) {
                Poll::Ready(taken) => Some(taken),
                Poll::Pending => None,
            }
        }

        /// Polls a connection for a short time. Returns false if it has to wait.
        async fn polled(&self, turn: &mut Turn, peer: usize) -> bool {
            let Some(taken) = self.begun(turn, peer) else { return false };
            tokio::time::advance(SHORT).await;
            taken.end(&self.peers[peer]);
            true
        }
    }

    fn turns<const COUNT: usize>() -> [Turn; COUNT] {
        std::array::from_fn(|_| Turn::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_short_polls_on_many_connections_waits_for_the_others_of_its_worker() {
        let test = Test::new(4, 0);
        let mut all = turns::<3_000>();
        let mut begun = Duration::ZERO;
        for turn in &mut all {
            if test.polled(turn, 0).await {
                begun += SHORT;
            }
        }
        assert!(begun < Duration::from_millis(125), "{begun:?}");
        assert!(test.polled(&mut Turn::default(), 1).await, "its peer is not busy");
    }

    #[tokio::test(start_paused = true)]
    async fn connections_of_a_busy_peer_begin_one_after_another_once_the_worker_has_looked() {
        let test = Test::new(1, 1);
        let [mut first, mut second, mut third] = turns();
        while test.polled(&mut first, 0).await {}
        // The first one has its place, and begins after the others of its worker.
        assert!(test.begun(&mut second, 0).is_none());
        assert!(test.begun_in(Line::Front, &mut third, 0).is_none());
        assert!(test.polled(&mut first, 0).await, "the worker has looked at its sockets");
        assert!(test.begun(&mut second, 0).is_none(), "one that ends goes first");
        assert!(test.polled(&mut third, 0).await, "it worked for a short time since then");
        assert!(test.polled(&mut second, 0).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_peer_seldom_waits_for_others_and_less_often_if_there_are_none() {
        let mut test = Test::new(1, 1);
        let mut waits = [0; 2];
        for waited in &mut waits {
            for turn in &mut turns::<1_000>() {
                if !test.polled(turn, 0).await {
                    *waited += 1;
                    assert!(test.polled(turn, 0).await, "it waits once");
                }
            }
            test.peers.truncate(1);
            WORKED.set(Duration::ZERO);
        }
        assert_eq!(waits, [999 / 34, 999 / 167], "polls of 20 ms, and of 100 ms");
    }

    #[tokio::test(start_paused = true)]
    async fn busy_peers_come_one_after_another_whatever_the_number_of_their_connections() {
        let test = Test::new(1, 2);
        let mut many = turns::<1_000>();
        let mut one = Turn::default();
        let taken = test.begun(&mut Turn::default(), 0).expect("the place is free");
        assert!(many.iter_mut().all(|turn| test.begun(turn, 0).is_none()));
        assert!(test.begun(&mut one, 1).is_none());
        taken.end(&test.peers[0]);
        assert!(test.polled(&mut many[0], 0).await);
        assert!(test.begun(&mut many[1], 0).is_none());
        assert!(test.polled(&mut one, 1).await, "it is second");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_was_busy_long_ago_waits_for_nobody() {
        let test = Test::new(1, 1);
        let _place = test.places.take_free();
        assert!(test.begun(&mut Turn::default(), 0).is_none());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(test.begun(&mut Turn::default(), 0).is_some());
    }
}
