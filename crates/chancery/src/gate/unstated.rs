//! Values that a change asks nodes for and that nodes with open streams do not state, and values that it takes from
//! them, as reasons to hold it back.
//!
//! Such a node would be refused, and keeps what it has until it is restarted. Not here: which values are needed,
//! and what fits (`chancery_catalog`), and the refusal of a node that comes (`chancery_server`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_catalog::{Audience, FilledValue, Seen, Unstated};
use chancery_core::Node;
use chancery_core::printable::{Printable, cut};

use super::loss::{Listed, Reason};
use super::place::{self, Places};

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
            Err(unstated) => Some(told(&unstated)),
            Ok(stated) => match known.get(&stated) {
                Some(why) => Option::clone(why),
                None if known.len() >= MOST_FILLED => continue,
                None => {
                    let why = after.filled_with(&stated).err().map(|unstated| told(&unstated));
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

/// The reason, if fields are filled for some of these nodes no more and keep what stands in the place of a value: no
/// node was to be served that.
pub(super) fn unfilled(nodes: &[Arc<Node>], before: &Seen, after: &Seen) -> Option<Reason> {
    let found = before.no_longer_filled(after);
    let needs = before.needs();
    if found.is_empty() || !nodes.iter().any(|node| needs.stated_by(Some(node)).is_ok()) {
        return None;
    }
    let places = Places::new(before, after);
    let mut listed = Listed::default();
    for FilledValue { key, value, .. } in &found {
        listed.add_words(|| {
            let at = places.leading(&key.type_url, &key.name);
            let (kind, path) = (key.type_url.short(), Printable(cut(&value.path, LONGEST_PATH)));
            let template = Printable(cut(&value.template, LONGEST_PATH));
            format!(
                "{at}{kind} `{}`: `{path}` is filled with `{template}` no more, and keeps what stands there in place of \
                 it; write a value for all nodes there",
                key.name
            )
        });
    }
    Some(Reason::Unfilled(listed))
}

/// The fault, and the place of the line that asks for the value.
fn told(unstated: &Unstated) -> String {
    let place = match unstated {
        Unstated::NoNode(_, by) | Unstated::Missing(_, _, by) => Some(&by.origin),
        Unstated::Unfit(unfit) => Some(&unfit.origin),
        _ => None,
    };
    let place = place.map(|origin| format!(" ({})", place::text(origin))).unwrap_or_default();
    format!("{unstated}{place}")
}

/// The sets of values for which the resources are filled, to see if they fit: that takes some 0.1 ms each.
const MOST_FILLED: usize = 2000;

/// The bytes of an id that are shown.
const LONGEST_ID: usize = 128;

/// The bytes of a path and of a text with placeholders that are shown.
const LONGEST_PATH: usize = 256;
