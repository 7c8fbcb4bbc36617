//! What a response says: the part of the ledger that is due, in the form of the variant.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::flight::{Contents, Mention, SentResponse};
use super::given_clusters::GivenClusters;
use super::interest::Spelling;
use super::merge_lookup::MergeLookup;
use super::{ClientCopy, Reported, Subscription};
use crate::server::{Entries, Response, ResponseEntry, Segment, Settings};
use crate::step::entry_size;
use crate::{Api, ErrorDetail, NameError, Resource, Time, Variant, Version};

/// A response, and the clusters it gives the client that it did not have in this form.
#[derive(Debug)]
pub(crate) struct NextResponse {
    pub(crate) response: Response,
    pub(crate) given: GivenClusters,
}

/// What is due of the ledger.
#[derive(Debug, Default)]
struct Due {
    mentions: Vec<Mention>,
    given: Vec<(Arc<Resource>, bool)>,
    entries: Vec<Segment>,
    removed: BTreeSet<Spelling>,
    /// What entries and removals take on the wire, roughly, and what errors may.
    bytes: usize,
    errors: usize,
}

impl Due {
    /// Returns true if a response would have entries or removals. What SotW cannot say that is gone
    /// needs no response.
    fn has_content(&self) -> bool {
        !self.entries.is_empty() || !self.removed.is_empty()
    }
}

impl Subscription {
    /// The next response, if one is due and may go.
    pub(crate) fn poll(
        &mut self,
        now: Time,
        nonce: u64,
        settings: &Settings,
    ) -> Option<NextResponse> {
        if !self.has_snapshot || self.first_request.is_some() {
            return None;
        }
        if !self.flight.is_clear(now, settings.ack_wait) {
            return self.beat(now, nonce);
        }
        if self.awaits_source(now, settings) {
            return self.beat(now, nonce);
        }
        if let Some(step) = self.shared_step(settings) {
            return Some(self.respond_with_step(now, nonce, step));
        }
        self.has_unanswered_request = false;
        let due = self.collect(now, settings);
        self.update_missing_names(&due.mentions);
        let errors = self.name_errors(&due, settings);
        let silent = !due.has_content() && errors.is_empty();
        let changed = !silent || (self.is_full_state() && !due.mentions.is_empty());
        if !changed && !self.must_respond {
            return self.beat(now, nonce);
        }
        self.must_respond = false;
        let Due { mentions, given, entries, removed, .. } = due;
        let entries = if self.is_full_state() { self.full_state() } else { entries };
        let response = self.respond(now, nonce, entries, mentions);
        self.schedule_beat(now, self.is_full_state());
        let response = Response { removed: removed.into_iter().collect(), errors, ..response };
        Some(NextResponse { response, given: GivenClusters::Own(given) })
    }

    /// A response with these entries, which speaks of this and is under way from now on.
    pub(super) fn respond(
        &mut self,
        now: Time,
        nonce: u64,
        entries: Vec<Segment>,
        mentions: Vec<Mention>,
    ) -> Response {
        let response = self.start_response(now, nonce, Contents::new(mentions));
        Response { entries: entries.into(), ..response }
    }

    /// An empty response that is under way from now on.
    pub(super) fn start_response(&mut self, now: Time, nonce: u64, contents: Contents) -> Response {
        let version = self.version();
        let nonce: Arc<str> = nonce.to_string().into();
        let sent = SentResponse {
            nonce: Arc::clone(&nonce),
            version: Arc::clone(&version),
            at: now,
            contents,
        };
        if let Some(given_up) = self.flight.push(sent) {
            self.set_verdict_unknown(&given_up.contents);
        }
        Response {
            variant: self.variant,
            type_url: self.type_url.clone(),
            version,
            nonce,
            entries: Entries::default(),
            removed: Vec::new(),
            errors: Vec::new(),
            wrapped: self.features.wrapped_sotw,
        }
    }

    /// Everything the client is subscribed to and that exists (S-045, S-056).
    pub(super) fn full_state(&self) -> Vec<Segment> {
        let mut entries = Vec::new();
        if self.interest.wildcard() {
            for resource in self.ledger.target().iter() {
                entries.push(self.entry(&resource.name().shared(), resource));
            }
        }
        entries.extend(self.ledger.kept().map(|(key, resource)| self.entry(key, resource)));
        for key in self.interest.names() {
            entries.extend(self.view(key).map(|resource| self.entry(key, resource)));
        }
        one_for_each_name(entries)
    }

    /// Takes what is due from what is owed, up to the size of one response (S-110).
    fn collect(&mut self, now: Time, settings: &Settings) -> Due {
        let mut due = Due::default();
        if self.ledger.owes_nothing() {
            return due;
        }
        let mut owed = self.ledger.take_owed().into_iter();
        let mut left = Vec::new();
        let target = self.ledger.target();
        let mut walk = MergeLookup::new(&self.interest, target, owed.len());
        for (key, held) in owed.by_ref() {
            let kept = self.ledger.kept_under(&key);
            let what = kept.or_else(|| walk.find(&key)).cloned();
            let is_single = what.is_none() && !self.interest.globs().contains_key(&key);
            if is_single
                && self.interest.is_pending(target, &key)
                && self.source_waits.waits_for(now, &key, settings)
            {
                left.push((key, held));
                continue;
            }
            let gone = (key.len() + 8, error_size(&key));
            let (size, error) = what.as_deref().map_or(gone, |found| (entry_size(found), 0));
            let bytes = due.bytes + due.errors + size + error;
            let full = due.has_content() && bytes > settings.max_response_bytes;
            if full && !self.is_full_state() {
                left.push((key, held));
                break;
            }
            if self.add_due(&mut due, &key, what.as_ref(), &held) {
                due.bytes += size;
                due.errors += error;
                let is_new = held.is_new() && !self.reconnected;
                due.mentions.push(Mention { key, what, is_new });
            }
        }
        drop(walk);
        self.ledger.put_back_owed(left.into_iter().chain(owed));
        if !self.source_waits.is_idle() {
            self.source_waits.retain(|key| self.ledger.owes(key));
        }
        due.entries = one_for_each_name(due.entries);
        if !due.removed.is_empty() {
            for entry in &due.entries {
                due.removed.remove(entry.name()); // One name, one statement (S-060).
            }
        }
        due
    }

    /// Adds what a key is owed; says whether anything was.
    fn add_due(
        &self,
        due: &mut Due,
        key: &Spelling,
        what: Option<&Arc<Resource>>,
        held: &ClientCopy,
    ) -> bool {
        match (what, held) {
            (None, ClientCopy::Nothing) => return false,
            (Some(now), ClientCopy::Has(before)) if now == before => return false,
            (Some(resource), _) => {
                due.entries.push(self.entry(key, resource));
                if self.api() == Api::Cds {
                    let is_new = held.is_new() && !self.reconnected;
                    due.given.push((Arc::clone(resource), is_new));
                }
            }
            (None, held) if self.variant == Variant::Delta => self.add_removal(due, key, held),
            // SotW says it by absence, or not at all (S-058, S-066).
            (None, _) => {}
        }
        true
    }

    /// What a delta client is told about a name that does not exist (S-067, S-080, S-093).
    fn add_removal(&self, due: &mut Due, key: &Spelling, held: &ClientCopy) {
        if let Some(glob) = self.interest.globs().get(key) {
            if self.ledger.target().members(glob).next().is_none() {
                due.removed.insert(Arc::clone(key));
            }
            return;
        }
        match held {
            // Unless the resource only lost this alias: then it changed, and is among the entries.
            ClientCopy::Has(old) if !self.interest.same_name(key, old.name()) => {
                due.removed.insert(old.name().shared());
            }
            // Nobody has the host: Envoy fails the paused request on an alias without a body.
            ClientCopy::Unknown | ClientCopy::Doubtful
                if self.interest.is_by_host() && self.interest.is_named(key) =>
            {
                let unresolved = ResponseEntry {
                    name: Arc::clone(key),
                    aliases: vec![Arc::clone(key)],
                    resource: None,
                    ttl: false,
                    heartbeat: false,
                };
                due.entries.push(Segment::Own(Arc::new(unresolved)));
            }
            _ => drop(due.removed.insert(Arc::clone(key))),
        }
    }

    /// An entry under the name it has to go by, with the further name it was asked by.
    fn entry(&self, key: &Spelling, resource: &Arc<Resource>) -> Segment {
        let ttl = self.sends_ttl() && resource.ttl().is_some();
        if !ttl && **key == *resource.name().as_str() {
            return Segment::Resource(Arc::clone(resource));
        }
        let entry = ResponseEntry { ttl, ..ResponseEntry::of(resource) };
        if self.interest.same_name(key, resource.name()) {
            return Segment::Own(Arc::new(ResponseEntry { name: Arc::clone(key), ..entry }));
        }
        let aliases = with_alias(entry.aliases, key);
        Segment::Own(Arc::new(ResponseEntry { aliases, ..entry }))
    }

    /// Keeps track of which single names do not exist.
    fn update_missing_names(&mut self, mentions: &[Mention]) {
        for Mention { key, what, .. } in mentions {
            if what.is_some() {
                self.missing_names.remove(key);
                continue;
            }
            let glob = self.interest.globs().get(key);
            let exists =
                glob.is_some_and(|glob| self.ledger.target().members(glob).next().is_some());
            if exists || !self.interest.is_named(key) {
                self.missing_names.remove(key);
            } else {
                self.missing_names.entry(Arc::clone(key)).or_insert(Reported::NotYet);
            }
        }
    }

    /// Why names are not given, once for each (S-068). In SotW they ride on a response that is
    /// sent anyway, unless the operator wants clients told at once (S-066).
    fn name_errors(&mut self, due: &Due, settings: &Settings) -> Vec<NameError> {
        let rides = !due.entries.is_empty()
            || self.must_respond
            || self.is_full_state() && !due.mentions.is_empty();
        let tells = self.variant == Variant::Delta || settings.report_missing || rides;
        if !tells || self.interest.is_by_host() {
            return Vec::new();
        }
        let mut errors = Vec::new();
        let mut room = settings.max_response_bytes.saturating_sub(due.bytes);
        let (interest, permission_denied) = (&self.interest, self.permission_denied);
        for (name, reported) in self.missing_names.iter_mut() {
            if *reported == Reported::Yes {
                continue;
            }
            // What does not fit rides on a later response (S-110).
            let Some(left) = room.checked_sub(error_size(name)) else { break };
            (room, *reported) = (left, Reported::Yes);
            errors.push(NameError {
                name: Arc::clone(name),
                error: reason_for(interest, name, permission_denied),
            });
        }
        errors
    }

    /// The version of what the client has once it accepts what it is sent now.
    ///
    /// A part of everything that was too large for one response (S-110) has another version than
    /// the whole: a client that loses its stream in between must not seem to have all (S-043).
    fn version(&self) -> Arc<str> {
        let version = self.version_of_all();
        let sotw_wildcard = self.variant == Variant::Sotw && self.interest.wildcard();
        let is_part = sotw_wildcard && !self.ledger.owes_nothing();
        if is_part { format!("{version}~part").into() } else { version }
    }

    /// The version of what the client should see, what it keeps for a while included.
    fn version_of_all(&self) -> Arc<str> {
        let target = self.ledger.target();
        let kept = self.ledger.kept();
        if kept.len() == 0 {
            return target.version_text();
        }
        match target.version() {
            Version::Explicit(text) => format!("{text}~union").into(),
            Version::Content(digest) => {
                let shares = kept.map(|(_, resource)| resource.share_of_type_version());
                let digest = shares.fold(digest, u128::wrapping_add);
                Version::Content(digest).to_string().into()
            }
        }
    }
}

/// Sorts entries by name, and puts those of one name together with all names it was asked by
/// (S-060).
fn one_for_each_name(mut entries: Vec<Segment>) -> Vec<Segment> {
    if entries.is_sorted_by(|one, next| one.name() < next.name()) {
        return entries;
    }
    entries.sort_by(|one, other| one.name().cmp(other.name()));
    entries.dedup_by(|later, first| {
        let is_same = later.name() == first.name();
        if is_same {
            *first = merged(first, later);
        }
        is_same
    });
    entries
}

/// Two entries of one name as one.
fn merged(first: &Segment, later: &Segment) -> Segment {
    let mut entries = first.entries().chain(later.entries());
    let Some(entry) = entries.next() else { return first.clone() };
    let aliases = entries.flat_map(|later| later.aliases);
    let aliases = aliases.fold(entry.aliases, |all, alias| with_alias(all, &alias));
    Segment::Own(Arc::new(ResponseEntry { aliases, ..entry }))
}

fn with_alias(mut aliases: Vec<Spelling>, alias: &Spelling) -> Vec<Spelling> {
    if !aliases.contains(alias) {
        aliases.push(Arc::clone(alias));
    }
    aliases
}

/// The code says what the client should make of it (S-070): a name that does not exist, or that it
/// may not have, need not be kept.
fn reason_for(interest: &super::Interest, name: &str, permission_denied: bool) -> ErrorDetail {
    let (code, message) = match interest.malformed(name) {
        Some(fault) => (ErrorDetail::INVALID_ARGUMENT, fault.to_owned()),
        None if permission_denied => {
            (ErrorDetail::PERMISSION_DENIED, format!("`{name}` is withheld from this peer"))
        }
        None => (ErrorDetail::NOT_FOUND, format!("there is no `{name}`")),
    };
    ErrorDetail { code, message }
}

/// Roughly what an error takes, which says the name twice.
fn error_size(name: &str) -> usize {
    2 * name.len() + 40
}
