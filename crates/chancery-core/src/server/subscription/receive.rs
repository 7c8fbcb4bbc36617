//! What a request says of an earlier response: accepted, rejected, or nothing any more.
//!
//! The first request that carries the nonce of a response under way is its answer (S-037, S-083).
//! Responses that are older and were not answered are skipped: the client has read them, because
//! it reads in order, and nobody will hear what it made of them.

use std::sync::Arc;

use super::Subscription;
use super::flight::{Contents, SentResponse};
use crate::server::Event;
use crate::server::Rejection;
use crate::{ErrorDetail, Time};

/// What a request said besides its names.
pub(crate) struct AckOrNack<'a> {
    pub(crate) nonce: &'a str,
    pub(crate) error: Option<ErrorDetail>,
}

/// A response that the client has read.
#[derive(Debug)]
pub(crate) struct ReadResponse {
    pub(crate) nonce: Arc<str>,
    pub(crate) verdict: Verdict,
    contents: Contents,
}

/// The client's verdict on a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted,
    Rejected,
    /// The client answered a later response and never this one (S-037).
    Unknown,
}

impl Subscription {
    /// Ledger the answer to an earlier response. Says what happened, and which responses the client
    /// has read, oldest first.
    pub(crate) fn receive(
        &mut self,
        now: Time,
        ack_or_nack: AckOrNack<'_>,
        events: &mut Vec<Event>,
    ) -> (Vec<ReadResponse>, Option<ReadResponse>) {
        let AckOrNack { nonce, error } = ack_or_nack;
        let mut skipped = Vec::new();
        while let Some(sent) = self.flight.take_older_than(nonce) {
            skipped.push(self.record_unanswered(sent, events));
        }
        let Some(sent) = self.flight.take(nonce, error.is_none()) else {
            events.extend(self.stale_event(nonce));
            return (skipped, None);
        };
        (skipped, Some(self.record_answer(now, sent, error, events)))
    }

    /// The client answered this response. A NACK is the presence of an error and nothing else
    /// (S-032).
    fn record_answer(
        &mut self,
        now: Time,
        sent: SentResponse,
        error: Option<ErrorDetail>,
        events: &mut Vec<Event>,
    ) -> ReadResponse {
        let SentResponse { nonce, version, at, contents } = sent;
        let type_url = self.type_url.clone();
        let verdict = if error.is_none() { Verdict::Accepted } else { Verdict::Rejected };
        let answered = ReadResponse { nonce: Arc::clone(&nonce), verdict, contents };
        events.push(match error {
            None => {
                self.accept(&answered.contents);
                if self.ledger.has_no_refused() {
                    self.rejection = None;
                }
                if self.sends_ttl() {
                    // A resource that was refused until now has to be refreshed from now on.
                    self.schedule_beat(now, false);
                }
                let after = now.0.saturating_sub(at.0);
                Event::Acked { type_url, version, nonce, after }
            }
            Some(error) => {
                self.refuse(&answered.contents);
                let rejection = Rejection::new(Arc::clone(&version), &error);
                self.rejection = Some(Box::new(rejection));
                Event::Nacked { type_url, version, nonce, error }
            }
        });
        answered
    }

    /// The client has read this response, and what it made of it is not known.
    fn record_unanswered(&mut self, sent: SentResponse, events: &mut Vec<Event>) -> ReadResponse {
        let SentResponse { nonce, contents, .. } = sent;
        self.set_verdict_unknown(&contents);
        let type_url = self.type_url.clone();
        events.push(Event::Skipped { type_url, nonce: Arc::clone(&nonce) });
        ReadResponse { nonce, verdict: Verdict::Unknown, contents }
    }

    /// The request answers nothing that is under way. Requests that only change names carry the
    /// nonce of the response before, if any; other nonces are worth a note.
    fn stale_event(&self, nonce: &str) -> Option<Event> {
        let is_ordinary = nonce.is_empty() || self.flight.is_answered(nonce);
        let type_url = &self.type_url;
        (!is_ordinary).then(|| Event::Stale { type_url: type_url.clone(), nonce: nonce.into() })
    }

    fn accept(&mut self, contents: &Contents) {
        if self.is_full_state() {
            self.ledger.accept_all();
        } else {
            self.ledger.accept(contents);
        }
    }

    /// A whole state that is under way speaks of all that those before it did: what the client
    /// makes of that one counts.
    fn refuse(&mut self, contents: &Contents) {
        if !(self.is_full_state() && self.flight.merge_into_next(contents)) {
            self.ledger.refuse(contents, &self.flight, &self.interest);
        }
    }

    /// The client's verdict on this is not known, and never will be.
    pub(super) fn set_verdict_unknown(&mut self, contents: &Contents) {
        if !(self.is_full_state() && self.flight.merge_into_next(contents)) {
            self.ledger.set_verdict_unknown(contents, &self.interest);
        }
    }
}

impl ReadResponse {
    /// Whether the response spoke of this name.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        self.contents.mentions(name)
    }
}
