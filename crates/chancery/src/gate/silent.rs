//! Listeners that go with their file, and what answers nothing any more, as reasons to hold a change back.
//!
//! Nothing refers to a listener, so no reference tells that it is missed. Who removes one of several from a file
//! means it; a file that is not there any more may be a slip. Not here: the loss of all listeners, or of most
//! (`loss`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use chancery_catalog::{Origin, Seen};
use chancery_core::printable::{Printable, cut};
use chancery_core::{Api, Resource, ResourceName, TypeUrl};
use chancery_proto::resource::{hands_over, is_unbound, unanswering};
use chancery_proto::schema::Schema;

use super::Finding;
use super::allowing::Allowing;
use super::fresh::fresh;
use super::loss::{Listed, Reason};
use super::place::Places;
use super::steps::Steps;

/// The reason, if files are gone from which this audience has listeners, or virtual hosts that are asked for by
/// their domains, and as many others do not take their place.
pub(super) fn file_gone(before: &Seen, after: &Seen) -> Option<Reason> {
    let mut gone: BTreeMap<&Arc<Path>, Vec<(TypeUrl, ResourceName)>> = BTreeMap::new();
    for type_url in before.snapshot().types().filter(|it| is_root(it)) {
        let (set, next) = (before.snapshot().set(type_url), after.snapshot().set(type_url));
        // The loss of a type says so of all that it has; others in the same number replace what goes.
        if next.is_empty() || next.len() >= set.len() {
            continue;
        }
        for change in set.diff(next).filter(|it| it.new.is_none()) {
            let Some(Origin::File { path, .. }) = before.origin(type_url, &change.name) else {
                continue;
            };
            if gone.contains_key(path) || !after.has_file(path) {
                gone.entry(path).or_default().push((type_url.clone(), change.name));
            }
        }
    }
    let mut listed = Listed::default();
    for (path, resources) in gone {
        listed.add_words(|| sentence(path, &resources));
    }
    (listed.count > 0).then_some(Reason::FileGone(listed))
}

/// Returns true for types to which clients subscribe without a resource that refers to them.
fn is_root(type_url: &TypeUrl) -> bool {
    matches!(type_url.api(), Api::Lds | Api::Vhds)
}

fn sentence(path: &Path, resources: &[(TypeUrl, ResourceName)]) -> String {
    let named = resources.iter().take(MOST_NAMED);
    let named = named.map(|(type_url, name)| format!("{} `{name}`", type_url.short()));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match resources.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let path = path.display().to_string();
    format!("{} has gone with {named}{more}, which nodes use", Printable(cut(&path, LONGEST_PATH)))
}

/// Adds the resources that come, which Envoy takes and which answer no request, and that did before or were not
/// there.
pub(super) fn add_unanswered(
    schema: &Schema,
    (known, allowing): (&Steps<Vec<Finding>>, &Allowing),
    [before, after]: [&Seen; 2],
    listed: &mut Listed,
) {
    let places = Places::new(before, after);
    let is_looked_at = |it: &&TypeUrl| matches!(it.api(), Api::Lds | Api::Cds | Api::Eds);
    for type_url in after.snapshot().types().filter(is_looked_at) {
        let (set, next) = (before.snapshot().set(type_url), after.snapshot().set(type_url));
        for change in set.diff(next).take(MOST_LOOKED_AT) {
            let of = |it: Option<&Arc<Resource>>| {
                it.map(|it| unanswering(schema, type_url, it.body())).unwrap_or_default()
            };
            let (old, new) = (change.old.as_ref(), change.new.as_ref());
            let find = || {
                let now = of(new);
                let was = if now.is_empty() { Vec::new() } else { of(old) };
                let now = fresh(&was, now, |it| it.code, |it| &it.path);
                now.iter().map(|it| (it.code, it.to_string())).collect()
            };
            let Some(found) = known.of((old, new), find) else { break };
            let is_told = |code: &str| !allowing.allows_inside(code, after, type_url, &change.name);
            for (_, found) in found.iter().filter(|(code, _)| is_told(code)) {
                let (at, kind) = (places.leading(type_url, &change.name), type_url.short());
                let found = Printable(cut(found, LONGEST_FINDING));
                listed.add_words(|| format!("{at}{kind} `{}`: {found}", change.name));
            }
        }
    }
}

/// Adds the listeners that bind to no port any more, where no other one hands connections to them.
pub(super) fn add_unbound(schema: &Schema, [before, after]: [&Seen; 2], listed: &mut Listed) {
    let places = Places::new(before, after);
    for type_url in after.snapshot().types().filter(|it| it.api() == Api::Lds) {
        let (set, next) = (before.snapshot().set(type_url), after.snapshot().set(type_url));
        let is_unbound = |it: &Resource| is_unbound(schema, type_url, it.body());
        for change in set.diff(next).take(MOST_LOOKED_AT) {
            let (Some(old), Some(new)) = (&change.old, &change.new) else { continue };
            let hands_over = |it: &Arc<Resource>| hands_over(schema, type_url, it.body());
            if !is_unbound(new) || is_unbound(old) || next.iter().take(MOST_WALKED).any(hands_over)
            {
                continue;
            }
            let (at, name) = (places.leading(type_url, &change.name), &change.name);
            listed.add_words(|| {
                format!(
                    "{at}lds `{name}`: bind_to_port: is false, and no listener hands connections over, so that \
                     nobody can connect"
                )
            });
        }
    }
}

/// The listeners among which one is looked for that hands connections over.
const MOST_WALKED: usize = 10_000;

/// The resources of a file that are named.
const MOST_NAMED: usize = 3;
/// The resources of a type that are looked at.
const MOST_LOOKED_AT: usize = 100;
/// The bytes of a finding that are shown: it has the keys of maps in it.
const LONGEST_FINDING: usize = 1024;
/// The bytes of a path that are shown.
const LONGEST_PATH: usize = 512;
