//! Places of which there are few, and that peers take in [turns](crate::turns).
//!
//! A place that becomes free is handed to the request whose turn it is, which is woken by the thread that had
//! the place. So each thread wakes another request, and they do not all run on one of them.
//!
//! Not here: what is done in a place (`acceptor`, `connection`), and permits that end by themselves
//! (`grpc::send_permits`).

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::budget::PeerShare;
use crate::turns::{Line, Ticket, Turns};

/// A number of places.
#[derive(Clone)]
pub(crate) struct Places(Arc<Mutex<PlacesState>>);

struct PlacesState {
    free: usize,
    turns: Turns,
    /// The requests that have a place and do not know it yet.
    handed: HashSet<Ticket>,
}

/// The wait for a place. It is given up when this is dropped.
pub(crate) struct PlaceRequest {
    places: Places,
    peer: Arc<PeerShare>,
    ticket: Ticket,
}

/// A place, which is free again when it is dropped.
pub(crate) struct Place(Places);

impl Places {
    pub(crate) fn new(count: usize) -> Self {
        let (turns, handed) = (Turns::default(), HashSet::new());
        Self(Arc::new(Mutex::new(PlacesState { free: count.max(1), turns, handed })))
    }

    /// Waits for a place.
    pub(crate) async fn take(&self, peer: &Arc<PeerShare>, line: Line) -> Place {
        let request = self.request(peer, line);
        poll_fn(|cx| request.poll(cx)).await
    }

    /// Takes a place that is free, if nobody waits for one.
    pub(crate) fn take_free(&self) -> Option<Place> {
        let mut places = self.lock();
        if places.free == 0 || !places.turns.is_empty() {
            return None;
        }
        places.free -= 1;
        Some(Place(self.clone()))
    }

    /// Asks for a place.
    pub(crate) fn request(&self, peer: &Arc<PeerShare>, line: Line) -> PlaceRequest {
        let ticket = self.lock().turns.add(peer, line);
        PlaceRequest { places: self.clone(), peer: Arc::clone(peer), ticket }
    }

    /// No code panics with the lock held.
    fn lock(&self) -> MutexGuard<'_, PlacesState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PlacesState {
    /// Hands a place that nobody has any more to the next request. Returns its waker.
    fn hand_on(&mut self) -> Option<Waker> {
        let Some((next, waker)) = self.turns.take_first() else {
            self.free += 1;
            return None;
        };
        self.handed.insert(next);
        Some(waker)
    }

    /// Wakes the next request if a place is free.
    fn wake_next(&self) {
        if self.free > 0 {
            self.turns.wake_first();
        }
    }
}

impl PlaceRequest {
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Place> {
        let mut places = self.places.lock();
        if places.handed.remove(&self.ticket) {
            return Poll::Ready(Place(self.places.clone()));
        }
        if !places.turns.is_first(&self.peer, self.ticket, cx.waker()) || places.free == 0 {
            return Poll::Pending;
        }
        places.free -= 1;
        places.turns.take_first();
        places.wake_next();
        Poll::Ready(Place(self.places.clone()))
    }
}

impl Drop for PlaceRequest {
    fn drop(&mut self) {
        let mut places = self.places.lock();
        if places.handed.remove(&self.ticket) {
            drop(places);
            drop(Place(self.places.clone()));
        } else {
            places.turns.remove(&self.peer, self.ticket);
            places.wake_next();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let next = self.0.lock().hand_on();
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::turns::tests::peers;

    #[test]
    fn a_free_place_is_taken_at_once_if_nobody_waits() {
        let (places, peers) = (Places::new(1), peers(1));
        let place = places.take_free().expect("it is free");
        assert!(places.take_free().is_none());
        let requests = [0, 0].map(|peer| places.request(&peers[peer], Line::End));
        drop(place);
        assert!(places.take_free().is_none(), "another one waits for it");
        drop(requests);
        assert!(places.take_free().is_some());
    }

    #[test]
    fn each_place_wakes_another_request() {
        let (places, peers) = (Places::new(2), peers(1));
        let both = [places.take_free(), places.take_free()];
        let requests: Vec<_> = (0..3).map(|_| places.request(&peers[0], Line::End)).collect();
        drop(both);
        let cx = Context::from_waker(Waker::noop());
        let have = |request: &PlaceRequest| request.poll(&cx).map(std::mem::forget).is_ready();
        assert_eq!(requests.iter().map(have).collect::<Vec<_>>(), [true, true, false]);
    }

    #[tokio::test]
    async fn peers_take_places_in_turn() {
        let (places, peers) = (Places::new(1), peers(2));
        let (said, heard) = mpsc::channel();
        let mut all = tokio::task::JoinSet::new();
        let first = places.take(&peers[0], Line::End).await;
        for peer in [0, 0, 0, 0, 1] {
            let (places, share, said) = (places.clone(), Arc::clone(&peers[peer]), said.clone());
            all.spawn(async move {
                let _place = places.take(&share, Line::End).await;
                said.send(peer)
            });
        }
        tokio::task::yield_now().await;
        drop(first);
        while let Some(done) = all.join_next().await {
            done.unwrap().unwrap();
        }
        let order: Vec<_> = heard.try_iter().collect();
        assert_eq!(order.len(), 5);
        assert!(order[..2].contains(&1), "{order:?}");
    }
}
