//! What a request says of an earlier response: accepted, rejected, or nothing any more.

use std::sync::Arc;

use super::Subscription;
use super::flight::{Contents, Sent};
use crate::{ErrorDetail, Event, Time, Variant};

/// What a request said besides its names.
pub(crate) struct Receipt<'a> {
    pub(crate) nonce: &'a str,
    pub(crate) error: Option<ErrorDetail>,
}

/// A response the client answered.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) nonce: Arc<str>,
    pub(crate) accepted: bool,
    contents: Contents,
}

impl Subscription {
    /// Books the answer to an earlier response, and says what it was.
    pub(crate) fn receive(
        &mut self,
        now: Time,
        receipt: Receipt<'_>,
    ) -> Option<(Event, Option<Answered>)> {
        let Receipt { nonce, error } = receipt;
        if nonce.is_empty() {
            return None;
        }
        // In SotW only the newest response can be answered, because the names of the request
        // belong to it (S-037). Delta answers are booked one by one (S-083).
        if self.variant == Variant::Sotw && !self.flight.is_newest(nonce) {
            return Some((self.superseded(nonce, error.is_some()), None));
        }
        let Some(sent) = self.flight.take_through(nonce) else {
            return Some((self.superseded(nonce, false), None));
        };
        let Sent { nonce, version, at, contents } = sent;
        let type_url = self.type_url.clone();
        let answered = Answered { nonce: Arc::clone(&nonce), accepted: error.is_none(), contents };
        // NACK is the presence of an error and nothing else (S-032).
        let event = match error {
            None => {
                self.accept(&answered.contents);
                let after = now.0.saturating_sub(at.0);
                Event::Acked { type_url, version, nonce, after }
            }
            Some(error) => {
                self.books.refuse(&answered.contents, &self.flight, &self.interest, self.by_host());
                Event::Nacked { type_url, version, nonce, error }
            }
        };
        Some((event, Some(answered)))
    }

    /// A superseded response is neither accepted nor rejected. If the client says that it could
    /// not take it, though, what it spoke of is still to be delivered one day.
    fn superseded(&mut self, nonce: &str, failed: bool) -> Event {
        if failed && let Some(sent) = self.flight.take(nonce) {
            self.books.refuse(&sent.contents, &self.flight, &self.interest, self.by_host());
        }
        Event::Stale { type_url: self.type_url.clone(), nonce: nonce.into() }
    }

    fn accept(&mut self, contents: &Contents) {
        if self.is_full_state() {
            self.books.accept_all();
        } else {
            self.books.accept(contents);
        }
    }
}

impl Answered {
    /// Whether the response spoke of this name.
    pub(crate) fn speaks_of(&self, name: &str) -> bool {
        self.contents.speaks_of(name)
    }
}
