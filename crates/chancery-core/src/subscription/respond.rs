//! What a response says: the part of the books that is due, in the form of the variant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use super::flight::{Contents, Sent, Spoken};
use super::interest::Spelling;
use super::{Held, Subscription};
use crate::{
    Entry, ErrorDetail, NameError, Resource, Response, Settings, ShareKey, Time, Variant, Version,
};

/// A response, and what it gives the client that it did not have.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) response: Response,
    pub(crate) given: Vec<Given>,
}

/// A resource that a response gives to a client that did not have it in this form.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) resource: Arc<Resource>,
    /// Whether the client had none of that name.
    pub(crate) is_new: bool,
}

/// What is due of the books.
#[derive(Debug, Default)]
struct Due {
    spoken: Vec<Spoken>,
    given: Vec<Given>,
    entries: BTreeMap<Spelling, Entry>,
    removed: BTreeSet<Spelling>,
    /// What entries and removals take on the wire, roughly, and what errors may.
    bytes: usize,
    errors: usize,
}

impl Subscription {
    /// The next response, if one is due and may go.
    pub(crate) fn poll(&mut self, now: Time, nonce: u64, settings: &Settings) -> Option<Reply> {
        if !self.ready || self.first.is_some() {
            return None;
        }
        if !self.flight.is_clear(now, settings.ack_wait) {
            return self.beat(now, nonce);
        }
        self.asked = false;
        let due = self.collect(settings);
        self.note_missing(&due.spoken);
        let errors = self.unreported(&due, settings);
        let silent = due.entries.is_empty() && due.removed.is_empty() && errors.is_empty();
        let changed = !silent || (self.is_full_state() && !due.spoken.is_empty());
        if !changed && !self.must_answer {
            return self.beat(now, nonce);
        }
        self.must_answer = false;
        let Due { spoken, given, entries, removed, .. } = due;
        let entries =
            if self.is_full_state() { self.full_state() } else { entries.into_values().collect() };
        let reply = self.reply(now, nonce, entries, removed.into_iter().collect(), errors, spoken);
        self.schedule_beat(now, self.is_full_state());
        Some(Reply { given, ..reply })
    }

    /// Builds the response and notes that it is under way.
    pub(super) fn reply(
        &mut self,
        now: Time,
        nonce: u64,
        entries: Vec<Entry>,
        removed: Vec<Spelling>,
        errors: Vec<NameError>,
        mut spoken: Vec<Spoken>,
    ) -> Reply {
        if self.is_full_state() {
            spoken.extend(self.flight.absorb());
        }
        let version: Arc<str> = self.version().into();
        let contents = Contents::new(spoken);
        let (nonce, at): (Arc<str>, _) = (nonce.to_string().into(), now);
        self.flight.push(Sent {
            nonce: Arc::clone(&nonce),
            version: Arc::clone(&version),
            at,
            contents,
        });
        let response = Response {
            variant: self.variant,
            type_url: self.type_url.clone(),
            version,
            nonce,
            share: share_key(&entries),
            entries,
            removed,
            errors,
            wrapped: self.features.wrapped_sotw,
        };
        Reply { response, given: Vec::new() }
    }

    /// Everything the client is subscribed to and that exists (S-045, S-056).
    pub(super) fn full_state(&self) -> Vec<Entry> {
        let mut entries = BTreeMap::new();
        if self.interest.wildcard() {
            for resource in self.books.target.iter() {
                self.add_entry(&mut entries, &resource.name().shared(), resource);
            }
        }
        let kept = self.books.kept.iter().map(|(key, kept)| (key, &kept.resource));
        for (key, resource) in kept {
            self.add_entry(&mut entries, key, resource);
        }
        for key in self.interest.names() {
            if let Some(resource) = self.view(key) {
                self.add_entry(&mut entries, key, resource);
            }
        }
        entries.into_values().collect()
    }

    /// Takes what is due from what is owed, up to the size of one response (S-110).
    fn collect(&mut self, settings: &Settings) -> Due {
        let mut due = Due::default();
        while let Some((key, held)) = self.books.owed.pop_first() {
            let gone = (key.len() + 8, error_size(&key));
            let (size, error) = self.view(&key).map_or(gone, |found| (entry_size(found), 0));
            let bytes = due.bytes + due.errors + size + error;
            let full = !due.spoken.is_empty() && bytes > settings.max_response_bytes;
            if full && !self.is_full_state() {
                self.books.owed.insert(key, held);
                break;
            }
            if self.add_due(&mut due, &key, &held) {
                due.bytes += size;
                due.errors += error;
                let what = self.view(&key).cloned();
                let is_new = held.is_new() && !self.returning;
                due.spoken.push(Spoken { key, what, is_new });
            }
        }
        for entry in due.entries.keys() {
            due.removed.remove(entry); // One name, one statement (S-060).
        }
        due
    }

    /// Adds what a key is owed; says whether anything was.
    fn add_due(&self, due: &mut Due, key: &Spelling, held: &Held) -> bool {
        let current = self.view(key).cloned();
        match (&current, held) {
            (None, Held::Nothing) => return false,
            (Some(now), Held::Has(before)) if now == before => return false,
            (Some(resource), _) => {
                self.add_entry(&mut due.entries, key, resource);
                let is_new = held.is_new() && !self.returning;
                let given = Given { resource: Arc::clone(resource), is_new };
                due.given.push(given);
            }
            (None, held) if self.variant == Variant::Delta => self.add_gone(due, key, held),
            // SotW says it by absence, or not at all (S-058, S-066).
            (None, _) => {}
        }
        true
    }

    /// What a delta client is told about a name that does not exist (S-067, S-080, S-093).
    fn add_gone(&self, due: &mut Due, key: &Spelling, held: &Held) {
        if let Some(glob) = self.interest.globs().get(key) {
            if self.books.target.members(glob).next().is_none() {
                due.removed.insert(Arc::clone(key));
            }
            return;
        }
        match held {
            // Unless the resource only lost this alias: then it changed, and is among the entries.
            Held::Has(old) if !self.interest.same_name(key, old.name()) => {
                due.removed.insert(old.name().shared());
            }
            // Nobody has the host: Envoy fails the paused request on an alias without a body.
            Held::Unknown | Held::Doubtful if self.by_host() && self.interest.names_it(key) => {
                let unresolved = Entry {
                    name: Arc::clone(key),
                    aliases: vec![Arc::clone(key)],
                    resource: None,
                    ttl: false,
                    heartbeat: false,
                };
                due.entries.insert(Arc::clone(key), unresolved);
            }
            _ => drop(due.removed.insert(Arc::clone(key))),
        }
    }

    /// Adds an entry under the name it has to go by, with the further names it was asked by.
    fn add_entry(
        &self,
        entries: &mut BTreeMap<Spelling, Entry>,
        key: &Spelling,
        resource: &Arc<Resource>,
    ) {
        let direct = self.interest.same_name(key, resource.name());
        let name = if direct { Arc::clone(key) } else { resource.name().shared() };
        let ttl = self.tells_ttl() && resource.ttl().is_some();
        let entry =
            entries.entry(Arc::clone(&name)).or_insert_with(|| entry_for(&name, resource, ttl));
        if !direct && !entry.aliases.contains(key) {
            entry.aliases.push(Arc::clone(key));
        }
    }

    /// Keeps track of which single names do not exist.
    fn note_missing(&mut self, spoken: &[Spoken]) {
        for Spoken { key, .. } in spoken {
            let named = self.interest.names_it(key);
            let exists = self.view(key).is_some()
                || self
                    .interest
                    .globs()
                    .get(key)
                    .is_some_and(|glob| self.books.target.members(glob).next().is_some());
            if exists || !named {
                self.missing.remove(key);
            } else {
                self.missing.entry(Arc::clone(key)).or_insert(false);
            }
        }
    }

    /// Why names are not given, once for each (S-068). In SotW they ride on a response that is
    /// sent anyway, unless the operator wants clients told at once (S-066).
    fn unreported(&mut self, due: &Due, settings: &Settings) -> Vec<NameError> {
        let rides = !due.entries.is_empty()
            || self.must_answer
            || self.is_full_state() && !due.spoken.is_empty();
        let tells = self.variant == Variant::Delta || settings.report_missing || rides;
        if !tells || self.by_host() {
            return Vec::new();
        }
        let mut errors = Vec::new();
        let mut room = settings.max_response_bytes.saturating_sub(due.bytes);
        let (interest, withheld) = (&self.interest, self.withheld);
        for (name, reported) in self.missing.iter_mut().filter(|(_, reported)| !**reported) {
            // What does not fit rides on a later response (S-110).
            let Some(left) = room.checked_sub(error_size(name)) else { break };
            (room, *reported) = (left, true);
            errors.push(NameError { name: Arc::clone(name), error: why(interest, name, withheld) });
        }
        errors
    }

    /// The version of what the client should see, what it keeps for a while included.
    fn version(&self) -> String {
        let target = &self.books.target;
        if self.books.kept.is_empty() {
            return target.version().to_string();
        }
        match target.version() {
            Version::Explicit(text) => format!("{text}~union"),
            Version::Content(digest) => {
                let kept = self.books.kept.values().map(|kept| &kept.resource);
                let digest =
                    kept.fold(digest, |sum, kept| sum.wrapping_add(kept.share_of_type_version()));
                Version::Content(digest).to_string()
            }
        }
    }
}

/// An entry under its own name.
pub(super) fn entry_for(name: &Spelling, resource: &Arc<Resource>, ttl: bool) -> Entry {
    Entry {
        name: Arc::clone(name),
        aliases: resource.aliases().iter().map(|alias| alias.shared()).collect(),
        resource: Some(Arc::clone(resource)),
        ttl,
        heartbeat: false,
    }
}

/// The code says what the client should make of it (S-070): a name that does not exist, or that it
/// may not have, need not be kept.
fn why(interest: &super::Interest, name: &str, withheld: bool) -> ErrorDetail {
    let (code, message) = match interest.malformed(name) {
        Some(fault) => (INVALID_ARGUMENT, fault.to_owned()),
        None if withheld => (PERMISSION_DENIED, format!("`{name}` is withheld from this peer")),
        None => (NOT_FOUND, format!("there is no `{name}`")),
    };
    ErrorDetail { code, message }
}

/// Roughly what an error takes, which says the name twice.
fn error_size(name: &str) -> usize {
    2 * name.len() + 40
}

/// Roughly what an entry takes on the wire: the body, the name twice, and the wrapping.
fn entry_size(resource: &Resource) -> usize {
    resource.body().len() + 2 * resource.name().as_str().len() + 128
}

fn share_key(entries: &[Entry]) -> Option<ShareKey> {
    if entries.is_empty() {
        return None;
    }
    let mut hash = Xxh3::new();
    for entry in entries {
        hash.update(entry.name.as_bytes());
        hash.update(&[0, u8::from(entry.ttl), u8::from(entry.heartbeat)]);
        for alias in &entry.aliases {
            hash.update(alias.as_bytes());
            hash.update(&[0]);
        }
        if let Some(resource) = &entry.resource {
            hash.update(&resource.content().to_le_bytes());
            resource.version().hash_into(&mut hash);
        }
    }
    Some(ShareKey(hash.digest128()))
}

const INVALID_ARGUMENT: i32 = 3;
const NOT_FOUND: i32 = 5;
const PERMISSION_DENIED: i32 = 7;
