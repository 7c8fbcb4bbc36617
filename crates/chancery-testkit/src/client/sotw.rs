//! The state-of-the-world variant: each request states the whole subscription.

use std::sync::Arc;

use chancery_core::server::Response;
use chancery_core::{Names, SotwRequest, Time, TypeUrl};

use super::subscription::Subscription;
use super::{Quirks, ResponseAnswer};

/// A request, and its part in the change of a subscription.
pub(super) enum NextRequest {
    /// The request says the whole change.
    Whole(SotwRequest),
    /// Another request has to follow at once, which completes the change.
    Halfway(SotwRequest),
}

impl Subscription {
    /// The next request of this type; `None` if it would have no content.
    pub(super) fn sotw_request(
        &mut self,
        type_url: &TypeUrl,
        repeat: bool,
        answer: Option<ResponseAnswer>,
        quirks: &Quirks,
    ) -> Option<NextRequest> {
        let first = self.sent_interest.is_none();
        let idle = match &self.sent_interest {
            Some(told) => *told == self.interest,
            None => self.interest.is_nothing(),
        };
        if idle && answer.is_none() && (first || !repeat) {
            return None;
        }
        if first {
            // The interest may be another one than when the stream was opened.
            self.forget_version_of_others();
        }
        // An empty list would still mean everything, so the wildcard has to be named first.
        let legacy_ends = !first && !self.named && self.interest.is_nothing();
        let names =
            if legacy_ends { ["*"].iter().collect() } else { self.sotw_names(type_url, quirks) };
        self.named |= !names.is_empty();
        if !legacy_ends {
            self.send_interest();
        }
        let (answered, error) = answer.map_or((None, None), |it| (Some(it.nonce), it.error));
        let nonce = match answered {
            Some(nonce) => {
                self.nonce = Arc::clone(&nonce);
                nonce
            }
            None if first => {
                // A nonce means nothing on another stream (S-029), though some say it there once.
                let foreign = std::mem::take(&mut self.nonce);
                if quirks.foreign_nonce { foreign } else { "".into() }
            }
            None => Arc::clone(&self.nonce),
        };
        let (type_url, version) = (type_url.as_str().into(), Arc::clone(&self.version));
        let request = SotwRequest { node: None, type_url, version, nonce, names, error };
        Some(if legacy_ends { NextRequest::Halfway(request) } else { NextRequest::Whole(request) })
    }

    fn sotw_names(&self, type_url: &TypeUrl, quirks: &Quirks) -> Names {
        let implied = self.interest.names.is_empty()
            && !self.named
            && !quirks.star
            && type_url.rules().legacy_wildcard;
        let star = (self.interest.all && !implied).then(|| Arc::from("*"));
        star.into_iter().chain(self.interest.names.iter().cloned()).collect()
    }

    /// Takes an accepted response. What is absent from a full state is gone (S-057).
    pub(super) fn apply_sotw(&mut self, now: Time, response: &Response) {
        self.accept(&response.version);
        if response.type_url.rules().full_state {
            self.held.retain(|name, _| response.entries.iter().any(|entry| entry.name == *name));
        }
        for entry in response.entries.iter() {
            if self.wants(&entry.name) {
                self.store(now, &entry);
            }
        }
    }
}
