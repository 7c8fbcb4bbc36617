//! The incremental protocol: each request says what changed in the subscription.

use std::sync::Arc;

use chancery_core::server::Response;
use chancery_core::{DeltaRequest, Time, TypeUrl, Versions};

use super::subscription::Subscription;
use super::{HeldResource, Quirks, ResponseAnswer};

impl Subscription {
    /// The next request of this type; `None` if it would have no content.
    pub(super) fn delta_request(
        &mut self,
        type_url: &TypeUrl,
        answer: Option<ResponseAnswer>,
        quirks: &Quirks,
    ) -> Option<DeltaRequest> {
        let before = self.sent_interest.clone();
        let mut request =
            DeltaRequest { type_url: type_url.as_str().into(), ..DeltaRequest::default() };
        if answer.is_none() || !quirks.separate {
            self.changes(type_url, quirks, &mut request);
        }
        let says_nothing = request.subscribe.is_empty() && request.unsubscribe.is_empty();
        let first = before.is_none();
        if says_nothing && answer.is_none() && (!first || self.interest.is_nothing()) {
            return None;
        }
        if first && quirks.foreign_nonce {
            request.nonce = Arc::clone(&self.nonce);
        }
        if let Some(answer) = answer {
            self.nonce = Arc::clone(&answer.nonce);
            (request.nonce, request.error) = (answer.nonce, answer.error);
        }
        Some(request)
    }

    /// Writes the difference between the interest and the interest that was last sent.
    fn changes(&mut self, type_url: &TypeUrl, quirks: &Quirks, request: &mut DeltaRequest) {
        let first = self.sent_interest.is_none();
        let told = self.sent_interest.clone().unwrap_or_default();
        let wanted = self.interest.clone();
        if first && wanted.is_nothing() {
            return;
        }
        let implied =
            first && wanted.names.is_empty() && !quirks.star && type_url.rules().legacy_wildcard;
        if wanted.all && !told.all && !implied {
            request.subscribe.push("*");
        }
        if told.all && !wanted.all {
            request.unsubscribe.push("*");
        }
        let again: Vec<_> = std::mem::take(&mut self.resubscribe).into_iter().collect();
        let again = again
            .into_iter()
            .filter(|name| wanted.names.contains(name) && told.names.contains(name));
        let again: Vec<Arc<str>> = again.collect();
        again.iter().for_each(|name| drop(self.held.remove(name)));
        request.subscribe.extend(wanted.names.difference(&told.names));
        request.subscribe.extend(again);
        request.unsubscribe.extend(told.names.difference(&wanted.names));
        self.send_interest();
        if first {
            request.initial_versions = self.versions();
        }
    }

    /// The versions of the resources the client holds, which it states when it reconnects (S-076).
    fn versions(&self) -> Versions {
        let held = self.held.iter();
        let version = |(name, holding): (&Arc<str>, &HeldResource)| {
            (Arc::clone(name), holding.resource.version().to_string())
        };
        held.map(version).collect()
    }

    /// Takes an accepted response.
    pub(super) fn apply_delta(&mut self, now: Time, response: &Response) {
        self.accept(&response.version);
        for name in &response.removed {
            self.held.remove(name);
        }
        for entry in response.entries.iter() {
            if self.wants(&entry.name) {
                self.store(now, &entry);
            }
        }
    }
}
