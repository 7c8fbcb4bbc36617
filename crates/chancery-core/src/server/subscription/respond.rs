//! Responses: the keys that are owed, in the form of the variant.
//!
//! SotW tells of a removal by leaving it out of a complete state (S-056, [grouping resources]), or
//! not at all; delta lists it (S-067, [incremental xDS]). Both say why a name is not given (S-068,
//! [xRFC TP3]). No name is twice in a response (S-060, [duplicate names]).
//!
//! [grouping resources]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#grouping-resources-into-responses
//! [incremental xDS]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#incremental-xds
//! [duplicate names]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#duplicate-resource-names
//! [xRFC TP3]: https://github.com/cncf/xds/blob/main/proposals/TP3-xds-error-propagation.md

use std::collections::BTreeSet;
use std::sync::Arc;

use super::flight::{Contents, Mention, SentResponse};
use super::given_clusters::GivenClusters;
use super::interest::Spelling;
use super::merge_lookup::MergeLookup;
use super::{ClientCopy, Reported, Subscription};
use crate::server::{Entries, Response, ResponseEntry, Segment, Settings};
use crate::{Api, ErrorDetail, NameError, PART_SUFFIX, Resource, Time, Variant, Version};

/// A response, and the clusters it gives the client that are new or changed.
#[derive(Debug)]
pub(crate) struct NextResponse {
    pub(crate) response: Response,
    pub(crate) given: GivenClusters,
}

/// The part of the ledger that goes into one response.
#[derive(Debug, Default)]
struct Due {
    mentions: Vec<Mention>,
    given: Vec<(Arc<Resource>, bool)>,
    entries: Vec<Segment>,
    removed: BTreeSet<Spelling>,
    /// The globs among the keys that have members.
    inhabited: BTreeSet<Spelling>,
    /// The approximate size of the entries and removals on the wire.
    bytes: usize,
    /// The approximate size of the errors that may come with them.
    errors: usize,
}

impl Due {
    /// Returns true if a response would have entries or removals. SotW has no removals for most
    /// types, so that there may be mentions without either.
    fn has_content(&self) -> bool {
        !self.entries.is_empty() || !self.removed.is_empty()
    }
}

impl Subscription {
    /// The next response, if there is one and it may be sent.
    pub(crate) fn poll(
        &mut self,
        now: Time,
        nonce: u64,
        settings: &Settings,
    ) -> Option<NextResponse> {
        if !self.has_snapshot || self.first_request.is_some() {
            return None;
        }
        if !self.flight.may_send_next(now, settings.ack_wait) {
            return self.beat(now, nonce);
        }
        if self.awaits_source(now, settings) {
            return self.beat(now, nonce);
        }
        if let Some(step) = self.shared_step(settings) {
            return Some(self.respond_with_step(now, nonce, step));
        }
        self.has_unanswered_request = false;
        let is_due = self.must_respond || self.owes_end();
        if self.ledger.owes_nothing() && !is_due && self.missing_names.is_empty() {
            return self.beat(now, nonce);
        }
        self.respond_with_owed(now, nonce, settings)
    }

    /// Responds with what is owed, and with errors.
    fn respond_with_owed(
        &mut self,
        now: Time,
        nonce: u64,
        settings: &Settings,
    ) -> Option<NextResponse> {
        let is_due = self.must_respond || self.owes_end();
        let due = self.collect(now, settings);
        self.update_missing_names(&due);
        let errors = self.name_errors(&due, settings);
        let silent = !due.has_content() && errors.is_empty();
        let changed = !silent || (self.is_full_state() && !due.mentions.is_empty());
        if !changed && !is_due {
            return self.beat(now, nonce);
        }
        self.must_respond = false;
        let Due { mentions, mut given, entries, removed, .. } = due;
        given.extend(self.refused_in_whole_state(&mentions));
        let entries = if self.is_full_state() { self.full_state() } else { entries };
        let mut response = self.respond(now, nonce, entries, mentions);
        self.schedule_beat(now, self.is_full_state());
        response.removed = removed.into_iter().collect();
        response.errors = errors;
        Some(NextResponse { response, given: GivenClusters::Own(given) })
    }

    /// The clusters that the client has rejected, and that a whole state contains beside these keys. The client
    /// takes them for changed ones when it accepts the whole (S-099).
    fn refused_in_whole_state(&self, mentions: &[Mention]) -> Vec<(Arc<Resource>, bool)> {
        if self.api() != Api::Cds || !self.is_full_state() || !self.is_rejected() {
            return Vec::new();
        }
        // The keys that were owed come in order.
        let is_mentioned =
            |key: &Spelling| mentions.binary_search_by(|mention| mention.key.cmp(key)).is_ok();
        let refused = self.ledger.refused_keys().filter(|key| !is_mentioned(key));
        // It may hold an older one of the name.
        refused.filter_map(|key| Some((Arc::clone(self.view(key)?), false))).collect()
    }

    /// Starts a response with these entries. It is under way from now on.
    pub(super) fn respond(
        &mut self,
        now: Time,
        nonce: u64,
        entries: Vec<Segment>,
        mentions: Vec<Mention>,
    ) -> Response {
        let entries = entries.into();
        self.start_response(now, nonce, entries, Contents::new(mentions))
    }

    /// Starts a response. It is under way from now on.
    pub(super) fn start_response(
        &mut self,
        now: Time,
        nonce: u64,
        entries: Entries,
        contents: Contents,
    ) -> Response {
        let version = self.version();
        let nonce: Arc<str> = nonce.to_string().into();
        let sent = SentResponse {
            nonce: Arc::clone(&nonce),
            version: Arc::clone(&version),
            at: now,
            contents,
        };
        if self.flight.is_empty() {
            self.ledger.forget_superseded();
        }
        let given_up = self.flight.push(sent);
        if !given_up.is_empty() {
            self.set_verdict_unknown(&given_up);
        }
        Response {
            variant: self.variant,
            type_url: self.type_url.clone(),
            version,
            nonce,
            entries,
            removed: Vec::new(),
            errors: Vec::new(),
            wrapped: self.features.wrapped_sotw,
        }
    }

    /// Every resource that the client is subscribed to (S-045, S-056).
    pub(super) fn full_state(&self) -> Vec<Segment> {
        let mut entries = Vec::new();
        if self.interest.wildcard() {
            for resource in self.ledger.target().iter() {
                entries.push(self.segment_of(&resource.name().shared(), resource));
            }
        }
        entries.extend(self.ledger.kept().map(|(key, resource)| self.segment_of(key, resource)));
        for key in self.interest.names() {
            entries.extend(self.view(key).map(|resource| self.segment_of(key, resource)));
        }
        one_for_each_name(entries)
    }

    /// Takes keys out of what is owed, up to the size of one response (S-110).
    fn collect(&mut self, now: Time, settings: &Settings) -> Due {
        let mut due = Due::default();
        self.is_cut = false;
        if self.ledger.owes_nothing() {
            return due;
        }
        due.inhabited = self.inhabited(self.ledger.owed_keys());
        let mut owed = self.ledger.take_owed().into_iter();
        let mut left = Vec::new();
        let target = self.ledger.target();
        let mut walk = MergeLookup::new(&self.interest, target, owed.len());
        for (key, held) in owed.by_ref() {
            let kept = self.ledger.kept_under(&key);
            let resource = kept.or_else(|| walk.find(&key)).cloned();
            let is_single = resource.is_none() && !self.interest.globs().contains_key(&key);
            if is_single
                && self.interest.is_pending(target, &key)
                && self.source_waits.waits_for(now, &key, settings)
            {
                left.push((key, held));
                continue;
            }
            let (size, error) = match &resource {
                Some(resource) => (resource.entry_size(), 0),
                None => (key.len() + 8, error_size(&key)),
            };
            let bytes = due.bytes + due.errors + size + error;
            let full = bytes > settings.max_response_bytes && due.has_content();
            if full && !self.is_full_state() {
                left.push((key, held));
                self.is_cut = true;
                break;
            }
            if self.add_due(&mut due, &key, resource.as_ref(), &held) {
                due.bytes += size;
                due.errors += error;
                let is_new = held.is_new() && !self.reconnected;
                due.mentions.push(Mention { key, resource, is_new });
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
                due.removed.remove(entry.name()); // No name is in both (S-060).
            }
        }
        due
    }

    /// Adds a key to a response. Returns false if the client need not be told about it.
    fn add_due(
        &self,
        due: &mut Due,
        key: &Spelling,
        resource: Option<&Arc<Resource>>,
        held: &ClientCopy,
    ) -> bool {
        match (resource, held) {
            (None, ClientCopy::Nothing) => return false,
            (Some(now), ClientCopy::Has(before)) if now == before => return false,
            (Some(resource), _) => {
                due.entries.push(self.segment_of(key, resource));
                if self.api() == Api::Cds {
                    let is_new = held.is_new() && !self.reconnected;
                    due.given.push((Arc::clone(resource), is_new));
                }
            }
            (None, held) if self.variant == Variant::Delta => self.add_removal(due, key, held),
            // SotW says it by leaving the name out, or not at all (S-058, S-066).
            (None, _) => {}
        }
        true
    }

    /// Adds the statement that a name does not exist, for a delta client (S-067, S-080, S-093).
    fn add_removal(&self, due: &mut Due, key: &Spelling, held: &ClientCopy) {
        if self.interest.globs().contains_key(key) {
            if !due.inhabited.contains(key) {
                due.removed.insert(Arc::clone(key));
            }
            return;
        }
        match held {
            // The resource is gone under its own name. If it only lost this alias, it has changed
            // and is among the entries, which take precedence.
            ClientCopy::Has(old) if !self.interest.same_name(key, old.name()) => {
                due.removed.insert(old.name().shared());
            }
            // No virtual host has this domain. Envoy fails the paused request when it gets an alias
            // without a body.
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

    /// Those of these keys that are globs with members. All are looked for at once.
    fn inhabited<'a>(&'a self, keys: impl Iterator<Item = &'a Spelling>) -> BTreeSet<Spelling> {
        if self.interest.globs().is_empty() {
            return BTreeSet::new();
        }
        let globs = keys.filter_map(|key| Some((key, self.interest.globs().get(key)?)));
        let globs: Vec<_> = globs.collect();
        let inhabited = self.ledger.target().inhabited(globs.iter().map(|(_, glob)| *glob));
        let found = globs.into_iter().filter(|(_, glob)| inhabited.contains(glob));
        found.map(|(key, _)| Arc::clone(key)).collect()
    }

    /// The entry of a resource under the name in the client's spelling. A name that is an alias is
    /// listed as one.
    fn segment_of(&self, key: &Spelling, resource: &Arc<Resource>) -> Segment {
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

    /// Adds the names of a response that do not exist to `missing_names`, and takes out those that
    /// do.
    fn update_missing_names(&mut self, due: &Due) {
        for Mention { key, resource, .. } in &due.mentions {
            if resource.is_some() || due.inhabited.contains(key) || !self.interest.is_named(key) {
                self.missing_names.remove(key);
            } else {
                self.missing_names.entry(Arc::clone(key)).or_insert(Reported::NotYet);
            }
        }
    }

    /// The errors that say why names are not given, each once (S-068). In SotW they are added to a
    /// response that is sent anyway, unless the operator wants them sent at once (S-066).
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
            // An error that does not fit goes into a later response (S-110).
            let Some(left) = room.checked_sub(error_size(name)) else { break };
            (room, *reported) = (left, Reported::Yes);
            errors.push(NameError {
                name: Arc::clone(name),
                error: reason_for(interest, name, permission_denied),
            });
        }
        errors
    }

    /// The version of the state that the client has once it accepts this response.
    ///
    /// A part of a wildcard or a glob that was too large for one response (S-110) has another
    /// version than the whole. Otherwise a client that loses its stream between the parts would
    /// seem to have the whole (S-043), and nothing in the protocol says that there is more.
    fn version(&self) -> Arc<str> {
        let version = self.version_of_all();
        let sotw_wildcard = self.variant == Variant::Sotw && self.interest.wildcard();
        // The client states it when it comes back, and lacks what it rejected of an earlier response.
        let rejects_some = !self.is_full_state() && self.is_rejected();
        let lacks_some = sotw_wildcard && (self.is_behind() || rejects_some);
        if lacks_some || self.is_part() {
            format!("{version}{PART_SUFFIX}").into()
        } else {
            version
        }
    }

    /// Returns true if an answer was cut, and the rest of its members is owed.
    fn is_part(&self) -> bool {
        self.owes_end() && !self.ledger.owes_nothing()
    }

    /// Returns true if the newest response said that more comes. The client waits for the end then,
    /// also if nothing is left of the rest.
    fn owes_end(&self) -> bool {
        self.is_cut && self.interest.has_members()
    }

    /// The version of all that the client should see and keeps for a while.
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

/// Sorts entries by name, and merges those of one name, so that all names the client asked by are
/// in one entry (S-060).
fn one_for_each_name(mut entries: Vec<Segment>) -> Vec<Segment> {
    if entries.is_sorted_by(|one, next| one.name() < next.name()) {
        return entries;
    }
    entries.sort_by(|one, other| one.name().cmp(other.name()));
    let mut merged = Vec::with_capacity(entries.len());
    let mut entries = entries.into_iter().peekable();
    while let Some(first) = entries.next() {
        let same = std::iter::from_fn(|| entries.next_if(|next| next.name() == first.name()));
        let same: Vec<_> = same.collect();
        merged.push(if same.is_empty() { first } else { merge(first, &same) });
    }
    merged
}

/// Merges entries of one name. Thousands of names that a client asked by can be one resource.
fn merge(first: Segment, others: &[Segment]) -> Segment {
    let Some(entry) = first.entries().next() else { return first };
    let mut aliases = Vec::new();
    let mut seen = BTreeSet::new();
    let all = std::iter::once(&first).chain(others);
    for alias in all.flat_map(Segment::entries).flat_map(|entry| entry.aliases) {
        if seen.insert(Arc::clone(&alias)) {
            aliases.push(alias);
        }
    }
    Segment::Own(Arc::new(ResponseEntry { aliases, ..entry }))
}

fn with_alias(mut aliases: Vec<Spelling>, alias: &Spelling) -> Vec<Spelling> {
    if !aliases.contains(alias) {
        aliases.push(Arc::clone(alias));
    }
    aliases
}

/// The reason why a name is not given. The code tells the client what to do (S-070): it may drop a
/// resource that does not exist or that it has no permission for.
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

/// The approximate size of an error on the wire, which has the name twice.
fn error_size(name: &str) -> usize {
    2 * name.len() + 40
}
