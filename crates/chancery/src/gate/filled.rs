//! References that lead nowhere for nodes that state values, as a reason to hold a change back.
//!
//! A node may choose a name by what it states, so that nobody sees in the files where it leads. What connected nodes
//! see is filled for a bounded number of different ones, before and after the change. The names that they chose are
//! in no sentence (S-138): the template stands for them. Not here: what does not depend on values (`dangling`).

use std::collections::BTreeSet;
use std::sync::Arc;

use chancery_catalog::{Audience, External, Seen, SeenReferences, lost_references};
use chancery_core::Node;
use chancery_proto::schema::Schema;

use super::allowing::Allowing;
use super::dangling::{matters, sentence};
use super::loss::{Listed, Reason};
use super::place::Places;
use crate::serve::DANGLING_REFERENCE;

/// The reason, if references of what these nodes see would lead nowhere.
pub(super) fn reason(
    schema: &Schema,
    (external, allowing): (&External, &Allowing),
    (audience, nodes): (&Audience, &[Arc<Node>]),
    [before, after]: [&Seen; 2],
) -> Option<Reason> {
    let needs = [before, after].map(Seen::needs);
    if needs[1].is_nothing() || allowing.codes.allow(DANGLING_REFERENCE) {
        return None;
    }
    let (places, mut known, mut told) =
        (Places::new(before, after), BTreeSet::new(), BTreeSet::new());
    for node in nodes {
        let [Ok(then), Ok(now)] = needs.each_ref().map(|needs| needs.stated_by(Some(node))) else {
            continue;
        };
        let key = (then, now);
        if known.contains(&key) {
            continue;
        }
        if known.len() >= MOST_FILLED {
            break;
        }
        let views = [before.filled(&key.0), after.filled(&key.1)];
        if let [Some(then), Some(now)] = &views {
            let [old, new] = [then, now].map(|seen| SeenReferences {
                snapshot: seen.snapshot(),
                dangling: seen.dangling(),
            });
            let (lost, _) = lost_references(schema, audience, external, Some(old), new, MOST);
            for one in lost.iter().filter(|one| matters(one)) {
                let from = &one.reference;
                // What leads nowhere without values is told anyway.
                let Some(name) = now.name_of_target(&key.1, from) else { continue };
                if !allowing.allows_in(DANGLING_REFERENCE, after, &from.type_url, &from.name) {
                    told.insert(sentence(one, Some(&name), places));
                }
            }
        }
        known.insert(key);
    }
    let mut listed = Listed::default();
    told.into_iter().for_each(|one| listed.add_words(|| one));
    (listed.count > 0).then_some(Reason::Dangling(listed))
}

/// The sets of values for which what nodes see is made.
const MOST_FILLED: usize = 100;

/// The references of one of them that are looked at.
const MOST: usize = 20;
