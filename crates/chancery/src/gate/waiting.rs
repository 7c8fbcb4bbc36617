//! The edits that a held state consists of, in words: whoever confirms it lets all of them pass.
//!
//! A slip and the edits after it are one state for clients. Not here: the reasons to hold it (`loss` and others).

use std::collections::BTreeSet;

use chancery_catalog::{Key, Seen};

use super::loss::Listed;
use super::place::Places;

/// The resources by which what an audience would see differs from what it sees: `+cds `shop` (a.yaml:1)`.
pub(super) fn edits(before: &Seen, after: &Seen) -> Listed {
    let places = Places::new(before, after);
    let [from, to] = [before, after].map(|seen| seen.snapshot());
    let types: BTreeSet<_> = from.types().chain(to.types()).collect();
    let mut listed = Listed::default();
    for type_url in types {
        for change in from.set(type_url).diff(to.set(type_url)) {
            let sign = match (&change.old, &change.new) {
                (None, _) => '+',
                (_, None) => '-',
                _ => '~',
            };
            let named = || places.named(type_url, &change.name);
            listed.add_words(|| format!("{sign}{} {}", type_url.short(), named()));
        }
    }
    for Key { type_url, name } in differing(before, after) {
        let named = || places.named(&type_url, &name);
        listed.add_words(|| format!("~values of {} {}", type_url.short(), named()));
    }
    listed
}

/// The resources of which other fields are filled with values of nodes, or with other ones.
fn differing(before: &Seen, after: &Seen) -> BTreeSet<Key> {
    let [from, to] = [before, after].map(|seen| {
        let all = seen.filled_values().into_iter();
        all.map(|it| (it.key, it.value.path, it.value.template)).collect::<BTreeSet<_>>()
    });
    from.symmetric_difference(&to).map(|(key, ..)| key.clone()).collect()
}
