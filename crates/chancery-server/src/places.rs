//! Places of which there are few, and that peers take in [turns](crate::turns).
//!
//! Not here: what is done in a place (`acceptor`, `connection`), and permits that end by themselves
//! (`grpc::send_permits`).

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use crate::budget::PeerShare;
use crate::turns::{Line, Ticket, Turns};

/// A number of places.
#[derive(Clone)]
pub(crate) struct Places(Arc<Mutex<PlacesState>>);

struct PlacesState {
    free: usize,
    turns: Turns,
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
        Self(Arc::new(Mutex::new(PlacesState { free: count.max(1), turns: Turns::default() })))
    }

    /// Waits for a place.
    pub(crate) async fn take(&self, peer: &Arc<PeerShare>, line: Line) -> Place {
        let request = self.request(peer, line);
        poll_fn(|cx| request.poll(cx)).await
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

impl PlaceRequest {
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Place> {
        let mut places = self.places.lock();
        if !places.turns.is_first(&self.peer, self.ticket, cx.waker()) || places.free == 0 {
            return Poll::Pending;
        }
        places.free -= 1;
        places.turns.take_first();
        places.turns.wake_first();
        Poll::Ready(Place(self.places.clone()))
    }
}

impl Drop for PlaceRequest {
    fn drop(&mut self) {
        let mut places = self.places.lock();
        places.turns.remove(&self.peer, self.ticket);
        places.turns.wake_first();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.0.lock();
        places.free += 1;
        places.turns.wake_first();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::turns::tests::peers;

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
