//! SotW requests, each of which states the whole subscription (S-044, [unsubscribing]).
//!
//! A first request also has a version, which may spare a client with a wildcard all that it has
//! (S-043, [version]).
//!
//! [unsubscribing]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#unsubscribing-from-resources
//! [version]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#ack-nack-and-resource-type-instance-version

use std::sync::Arc;

use super::interest::{Spelling, spellings};
use super::{FirstRequest, Subscription, empty_means_everything};
use crate::server::{Event, Settings};
use crate::{Names, SotwRequest, Time};

/// The effect of a request on the wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WildcardEdit {
    /// The wildcard stays as it was.
    None,
    /// The client is subscribed to the wildcard from now on.
    Started,
    /// The client is not subscribed to the wildcard any more.
    Ended,
}

impl Subscription {
    /// Takes the names of a request, whatever its nonce is: requests arrive in order, so the newest
    /// one always has the current names (S-036, S-038). Returns the event of a changed
    /// subscription.
    pub(crate) fn request_sotw(
        &mut self,
        now: Time,
        request: &SotwRequest,
        is_first: bool,
        settings: &Settings,
    ) -> Option<Event> {
        if is_first {
            self.reconnected = !request.version.is_empty();
            self.first_request = Some(Box::new(FirstRequest::Sotw(Arc::clone(&request.version))));
        }
        if request.names.is_empty() && !self.interest.ever_named() {
            return is_first.then(|| self.start_without_names(settings));
        }
        self.interest.set_ever_named();
        self.settle_names_before_wildcard(now, &request.names);
        // The wildcard comes first, so that names that were subscribed to before are not owed again
        // because of it.
        let wildcard = self.set_wildcard(request.names.contains("*"));
        let (added, removed) = self.replace_names(request);
        let changed = !added.is_empty() || !removed.is_empty() || wildcard != WildcardEdit::None;
        if !changed && !is_first {
            return None;
        }
        if !added.is_empty() || wildcard == WildcardEdit::Started {
            if !is_first
                && let Some(FirstRequest::Sotw(version)) = self.first_request.as_deref_mut()
            {
                // The client asked again before the first response, so it may have dropped what it
                // had.
                *version = "".into();
            }
            self.has_unanswered_request = true;
            self.flight.release(); // A request for more lets the next response go (S-042).
        }
        self.ledger.retain_covered(&self.interest);
        self.missing_names.retain(|name, _| self.interest.is_named(name));
        Some(self.subscribed(added, removed))
    }

    /// Starts a subscription whose first request names nothing. It is a wildcard for some types and
    /// nothing for the others (S-050).
    pub(super) fn start_without_names(&mut self, settings: &Settings) -> Event {
        if empty_means_everything(&self.type_url, settings) {
            self.interest.set_wildcard(true);
            self.must_respond = true;
            self.has_unanswered_request = true;
        } else {
            self.unnamed_event_due = true;
        }
        self.subscribed(Vec::new(), Vec::new())
    }

    /// Starts a subscription with the version of an earlier stream. A client with a wildcard that
    /// is at the current version is sent nothing (S-043). Named resources are sent all the same:
    /// the version may have been given for other names.
    pub(super) fn begin_sotw(&mut self, version: &str) {
        let target = self.ledger.target();
        let refreshes = self.features.ttl && target.timed().next().is_some();
        if self.interest.is_everything()
            && !refreshes
            && !version.is_empty()
            && target.version().matches(version)
        {
            self.ledger.trust_client_at_target();
            self.must_respond = false;
            self.has_unanswered_request = false;
        } else if !self.interest.has_members() {
            // All names are owed already.
            self.ledger.move_to_target();
        }
    }

    /// Replaces the names by those of the request (S-044). Returns the names that were added, and
    /// those that were removed.
    fn replace_names(&mut self, request: &SotwRequest) -> (Vec<Spelling>, Vec<Spelling>) {
        let stated = request.names.digest().to_ne_bytes();
        if self.names_digest.replace(stated) == Some(stated) {
            return (Vec::new(), Vec::new());
        }
        let wanted = spellings(&request.names);
        let had = self.interest.all_names();
        let gone: Vec<_> =
            had.filter(|name| wanted.binary_search(name).is_err()).cloned().collect();
        for name in &gone {
            self.interest.remove(name);
        }
        // An added name is sent even if it did not change, and even if it was sent before (S-046).
        let wanted = wanted.into_iter().map(|name| self.ledger.resubscribe(name)).collect();
        let new = self.interest.extend(wanted, &self.type_url);
        self.ledger.owe_all(new.clone());
        for name in gone.iter().filter(|name| self.interest.covers(name)) {
            self.ledger.keep_unsubscribed(name);
        }
        (new, gone)
    }

    /// Brings the ledger up to the target if these names start the wildcard and responses are under way. A
    /// resource that is gone by then, and that the client did not ask for any more, is no removal that
    /// waits: it must not come back as a member (S-049).
    pub(super) fn settle_names_before_wildcard(&mut self, now: Time, names: &Names) {
        if !self.flight.is_empty() && !self.interest.wildcard() && names.contains("*") {
            self.ledger.advance(now, &self.interest);
        }
    }

    /// Starts or ends the wildcard.
    pub(super) fn set_wildcard(&mut self, wildcard: bool) -> WildcardEdit {
        let had = self.interest.wildcard();
        self.interest.set_wildcard(wildcard);
        match (had, wildcard) {
            (false, true) => {
                self.must_respond = true;
                self.ledger.owe_members(&self.interest, self.flight.given());
                WildcardEdit::Started
            }
            (true, false) => {
                self.must_respond = false;
                WildcardEdit::Ended
            }
            (true, true) | (false, false) => WildcardEdit::None,
        }
    }
}
