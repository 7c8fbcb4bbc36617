//! The ACK or NACK in a request: the client's verdict on an earlier response.
//!
//! The first request with the nonce of a response under way answers that response (S-037, [resource
//! updates]; S-083). If older responses are under way, the client has read them too, because it
//! reads in order; its verdict on them stays unknown. A NACK is a request with an error, and nothing
//! else is ([S-032][NACK]).
//!
//! [resource updates]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#resource-updates
//! [NACK]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#nack

use std::sync::Arc;

use super::Subscription;
use super::flight::{Contents, SentResponse};
use crate::server::{Event, RejectedResources, Rejection};
use crate::{Api, ErrorDetail, Time};

/// The nonce of a request, and its error if it is a NACK.
pub(crate) struct AckOrNack<'a> {
    pub(crate) nonce: &'a str,
    pub(crate) error: Option<ErrorDetail>,
}

/// A response that the client has read.
#[derive(Debug)]
pub(crate) struct ReadResponse {
    pub(crate) nonce: Arc<str>,
    pub(crate) verdict: ResponseVerdict,
    contents: Contents,
}

/// The client's verdict on a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseVerdict {
    Accepted,
    Rejected,
    /// The client answered a later response and never this one (S-037).
    Unknown,
}

impl Subscription {
    /// Takes in the ACK or NACK of a request, and adds events of it. Returns the responses that the
    /// client has read: those whose verdict stays unknown, oldest first, and the one that it
    /// answered.
    pub(crate) fn receive(
        &mut self,
        now: Time,
        ack_or_nack: AckOrNack<'_>,
        events: &mut Vec<Event>,
    ) -> (Vec<ReadResponse>, Option<ReadResponse>) {
        let AckOrNack { nonce, error } = ack_or_nack;
        let skipped = self.flight.take_older_than(nonce);
        let skipped =
            if skipped.is_empty() { Vec::new() } else { self.record_unanswered(skipped, events) };
        let Some(sent) = self.flight.take(nonce, error.is_none().then_some(now)) else {
            if error.is_none() {
                self.ledger.accept_late(nonce);
            }
            events.extend(self.stale_event(nonce));
            return (skipped, None);
        };
        (skipped, Some(self.record_answer(now, sent, error, events)))
    }

    /// Takes in the answer to a response. A NACK is a request with an error, and nothing else is
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
        let verdict =
            if error.is_none() { ResponseVerdict::Accepted } else { ResponseVerdict::Rejected };
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
                let resources = Box::new(self.rejected_resources(&answered.contents));
                self.refuse(&answered.contents);
                let rejection = Rejection::new(Arc::clone(&version), &error);
                self.rejection = Some(Box::new(rejection));
                Event::Nacked { type_url, version, nonce, error, resources }
            }
        });
        answered
    }

    /// Takes in that the client read responses, the oldest first, and did not answer them.
    fn record_unanswered(
        &mut self,
        skipped: Vec<SentResponse>,
        events: &mut Vec<Event>,
    ) -> Vec<ReadResponse> {
        self.set_verdict_unknown(&skipped);
        let skipped = skipped.into_iter().map(|SentResponse { nonce, contents, .. }| {
            let type_url = self.type_url.clone();
            events.push(Event::Skipped { type_url, nonce: Arc::clone(&nonce) });
            ReadResponse { nonce, verdict: ResponseVerdict::Unknown, contents }
        });
        skipped.collect()
    }

    /// The event of a nonce that answers no response under way. A request that only changes names
    /// has the nonce of the response answered last, or none; these are no event.
    fn stale_event(&self, nonce: &str) -> Option<Event> {
        let is_ordinary = nonce.is_empty() || self.flight.is_answered(nonce);
        let type_url = &self.type_url;
        (!is_ordinary).then(|| Event::Stale { type_url: type_url.clone(), nonce: nonce.into() })
    }

    /// Takes in that the client accepted a response.
    fn accept(&mut self, contents: &Contents) {
        if self.is_full_state() {
            self.ledger.accept_all();
        } else {
            self.ledger.accept(contents);
        }
    }

    /// The resources of a rejected response that its reason may quote. One with the whole state has also
    /// those that it does not mention because the client had them.
    fn rejected_resources(&self, contents: &Contents) -> RejectedResources {
        if self.api() == Api::Sds {
            return RejectedResources::left_out();
        }
        let mut rejected = RejectedResources::default();
        for mention in contents.iter() {
            mention.resource.iter().for_each(|resource| rejected.add(resource));
        }
        if self.is_full_state() {
            let sensitive = self.ledger.may_have_sent().filter(|it| it.facts().sensitive);
            sensitive.for_each(|resource| rejected.add(resource));
            rejected.is_cut |= self.ledger.may_supersede_secret();
        }
        rejected.sorted()
    }

    /// Takes in that the client rejected a response. A newer response with the whole state has all
    /// that this one had, so the answer to the newer one counts for both.
    fn refuse(&mut self, contents: &Contents) {
        if !(self.is_full_state() && self.flight.merge_into_next(std::iter::once(contents))) {
            self.ledger.refuse(contents, &self.flight, &self.interest);
        }
    }

    /// Takes in that the verdicts on responses, the oldest first, stay unknown. As with a rejection,
    /// the answer to a newer response with the whole state counts for all.
    pub(super) fn set_verdict_unknown(&mut self, responses: &[SentResponse]) {
        let contents = responses.iter().map(|sent| &sent.contents);
        if self.is_full_state() && self.flight.merge_into_next(contents) {
            return;
        }
        for SentResponse { nonce, contents, .. } in responses {
            self.ledger.set_verdict_unknown(nonce, contents, &self.interest);
        }
    }
}

impl ReadResponse {
    /// Returns true if the response mentions this name.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        self.contents.mentions(name)
    }
}
