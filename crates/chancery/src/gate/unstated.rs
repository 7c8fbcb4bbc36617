//! Values that a change asks nodes for and that nodes with open streams do not state, as a reason to hold it back.
//!
//! Such a node would be refused, and keeps what it has until it is restarted. Not here: which values are needed,
//! and what fits (`chancery_catalog`), and the refusal of a node that comes (`chancery_server`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_catalog::{Audience, FilledValue, Key, Seen};
use chancery_core::Node;
use chancery_core::printable::{Printable, cut};

use super::loss::{Listed, Reason};
use super::place::Places;

/// The nodes with open streams, by their audience without values.
pub(crate) type NodesByAudience = BTreeMap<Audience, Vec<Arc<Node>>>;

/// The reason, if some of these nodes could not be served after the change.
pub(super) fn reason(nodes: &[Arc<Node>], before: &Seen, after: &Seen) -> Option<Reason> {
    if nodes.is_empty() || before.fills_same(after) {
        return None;
    }
    let needs = after.needs();
    // Many nodes state the same, and a node may have several streams.
    let (mut known, mut looked_at) = (BTreeMap::new(), BTreeSet::new());
    let mut listed = Listed::default();
    let mut seen: Vec<&Arc<Node>> = nodes.iter().collect();
    seen.sort_by(|one, other| one.id.cmp(&other.id));
    for node in seen {
        let stated = needs.stated_by(Some(node));
        // Several Envoys may have one id, and state other things beside it.
        if !looked_at.insert((&node.id, stated.as_ref().ok().cloned())) {
            continue;
        }
        let why = match stated {
            Err(unstated) => Some(unstated.to_string()),
            Ok(stated) => match known.get(&stated) {
                Some(why) => Option::clone(why),
                None if known.len() >= MOST_FILLED => continue,
                None => {
                    let why = after.fits(&stated).err().map(|unstated| unstated.to_string());
                    known.insert(stated, why.clone());
                    why
                }
            },
        };
        if let Some(why) = why {
            let id = cut(&node.id, LONGEST_ID);
            listed.add_words(|| format!("node `{}`: {why}", Printable(&*id)));
        }
    }
    (listed.count > 0).then_some(Reason::Unstated(listed))
}

/// The reason, if fields that were filled have what is written in the resource: nodes would get the same value of a
/// port or a name, which is mostly none that is meant for anybody.
pub(super) fn unfilled(before: &Seen, after: &Seen) -> Option<Reason> {
    let filled: BTreeSet<_> =
        after.filled_values().into_iter().map(|it| (it.key, it.value.path)).collect();
    let places = Places::new(before, after);
    let mut listed = Listed::default();
    for FilledValue { key, value, .. } in before.filled_values() {
        let Key { type_url, name } = &key;
        let [old, new] =
            [before, after].map(|seen| seen.snapshot().set(type_url).get(name.as_str()));
        if new.is_some() && old == new && !filled.contains(&(key.clone(), value.path.clone())) {
            let path = cut(&value.path, LONGEST_ID);
            listed.add_words(|| {
                let named = places.named(type_url, name);
                format!("`{}` of {} {named}", Printable(path), type_url.short())
            });
        }
    }
    (listed.count > 0).then_some(Reason::Unfilled(listed))
}

/// The sets of values for which the resources are filled, to see if they fit: that takes some 0.1 ms each.
const MOST_FILLED: usize = 2000;

/// The bytes of an id that are shown.
const LONGEST_ID: usize = 128;
