//! What a delta request says: names to add and names to take out.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::interest::Spelling;
use super::{First, Held, Subscription};
use crate::{DeltaRequest, Event, Resource, Settings, Violation};

impl Subscription {
    /// Takes the names of a request, whatever its nonce: names are sent once, so dropping one
    /// would lose it for good (S-074).
    pub(crate) fn request_delta(
        &mut self,
        request: &DeltaRequest,
        is_first: bool,
        settings: &Settings,
    ) -> Result<Option<Event>, Violation> {
        if is_first {
            // Later messages may carry a map too, and it means nothing (S-077).
            self.first = Some(First::Delta(request.initial_versions.iter().cloned().collect()));
        }
        if request.subscribe.is_empty() && request.unsubscribe.is_empty() {
            // A wildcard even if it brings versions: that is how Envoy reconnects (S-052).
            return Ok(is_first.then(|| self.start_without_names(settings)));
        }
        // Subscribe first: `*` in both lists means no wildcard, and nothing yet (S-082).
        let cancelled = request.unsubscribe.iter().any(|name| **name == *"*");
        for name in &request.subscribe {
            self.subscribe(name, is_first, cancelled);
        }
        let mut asks = !request.subscribe.is_empty();
        for name in &request.unsubscribe {
            asks |= self.unsubscribe(name);
        }
        self.check_size(settings)?;
        if asks {
            self.flight.release(); // Asking lets the next response go (S-042).
        }
        Ok(Some(self.subscribed()))
    }

    /// On the first message of a type, what the client holds in its current version need not be
    /// sent again (S-076); what it holds and should not is removed.
    pub(super) fn begin_delta(&mut self, held: &BTreeMap<Spelling, Arc<str>>) {
        if held.is_empty() {
            if !self.interest.has_members() {
                // All names are owed already.
                self.books.sent = Arc::clone(&self.books.target);
            }
            return;
        }
        let target = Arc::clone(&self.books.target);
        self.begin_members(held, &target);
        let named: Vec<Spelling> = self.interest.names().iter().cloned().collect();
        for name in named {
            let current = self.interest.resolve(&target, &name, self.by_host());
            if current.is_some_and(|current| self.is_current(held.get(&name), current)) {
                self.books.owed.remove(&name);
            } else if held.contains_key(&name) {
                self.books.owed.insert(name, Held::Doubtful);
            }
        }
        if self.books.owed.is_empty() {
            self.must_answer = false;
            self.asked = false;
        }
        self.books.sent = target;
    }

    fn begin_members(
        &mut self,
        held: &BTreeMap<Spelling, Arc<str>>,
        target: &Arc<crate::ResourceSet>,
    ) {
        if !self.interest.has_members() {
            return;
        }
        for member in target.iter().filter(|member| self.interest.spans(member.name())) {
            let key = member.name().shared();
            if !self.is_current(held.get(&key), member) {
                let has_other = held.contains_key(&key);
                let holds = if has_other { Held::Doubtful } else { Held::Nothing };
                self.books.owed.entry(key).or_insert(holds);
            }
        }
        let gone = held.keys().filter(|key| target.get(key).is_none());
        for key in gone.filter(|key| self.interest.covers(key)) {
            self.books.owe(key);
        }
    }

    /// A client whose resource expired cannot rebuild it from a heartbeat, and its map may be
    /// older than that: what has a TTL is always sent (S-088, T-33).
    fn is_current(&self, held: Option<&Arc<str>>, current: &Resource) -> bool {
        let expires = self.features.ttl && current.ttl().is_some();
        !expires && held.is_some_and(|version| current.version().matches(version))
    }

    fn subscribe(&mut self, name: &Spelling, is_first: bool, cancelled: bool) {
        if !is_first && let Some(First::Delta(held)) = &mut self.first {
            held.remove(name); // Asked for again before the first answer: it must be sent.
        }
        if **name == *"*" {
            self.interest.note_named();
            if !cancelled {
                self.subscribe_to_all();
            }
            return;
        }
        self.asked = true;
        self.interest.insert(name, &self.type_url);
        // Always answered: the client may have dropped it and asked again (S-075).
        self.books.owe(name);
        if let Some(glob) = self.interest.globs().get(name) {
            for member in self.books.sent.members(glob) {
                self.books.owed.insert(member.name().shared(), Held::Unknown);
            }
        }
    }

    fn subscribe_to_all(&mut self) {
        self.asked = true;
        if self.turn_wildcard(true).1 {
            return;
        }
        self.must_answer = true;
        let sent = Arc::clone(&self.books.sent);
        for member in sent.iter() {
            self.books.owe(&member.name().shared());
        }
    }

    /// Takes a name out; says whether that has to be answered.
    fn unsubscribe(&mut self, name: &Spelling) -> bool {
        if **name == *"*" {
            self.turn_wildcard(false);
            self.books.forget_uncovered(&self.interest);
            return false;
        }
        let Some(name) = &self.interest.spelling_of(name) else { return false };
        self.missing.remove(name);
        let was_glob = self.interest.globs().contains_key(name);
        self.interest.remove(name);
        if was_glob {
            self.books.forget_uncovered(&self.interest);
        } else if self.interest.wildcard() {
            // Beside a wildcard the client cannot tell whether the resource stays (S-081).
            self.books.owe(name);
            return true;
        } else if !self.interest.covers(name) {
            self.books.forget(name);
        }
        false
    }
}
