//! A change as nodes see it whose values are filled in: an address or a reference may be wrong for them alone.
//!
//! Not here: values that a node does not state (`unstated`), and what is wrong with a state (`chancery_catalog`).

use std::collections::BTreeSet;
use std::sync::Arc;

use chancery_catalog::{Needs, Seen};
use chancery_core::Node;

/// The states before and after a change, for each set of values that some of these nodes state. Nodes that could
/// not be served are left out.
pub(super) fn changes(nodes: &[Arc<Node>], before: &Seen, after: &Seen) -> Vec<[Seen; 2]> {
    let needs = [before.needs(), after.needs()];
    if needs.iter().all(Needs::is_nothing) {
        return Vec::new();
    }
    // Many nodes state the same.
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    // The first node is the one that is told of, at each load the same.
    let mut nodes: Vec<_> = nodes.iter().collect();
    nodes.sort_by(|one, other| one.id.cmp(&other.id));
    for node in nodes {
        let stated = needs.each_ref().map(|needs| needs.stated_by(Some(node)).ok());
        let [_, Some(now)] = &stated else { continue };
        if known.contains(&stated) {
            continue;
        }
        if known.len() >= MOST_JUDGED {
            break;
        }
        if let Ok(now) = after.filled_with(now) {
            let then = stated[0].as_ref().and_then(|then| before.filled_with(then).ok());
            found.push([then.unwrap_or_else(|| before.clone()), now]);
        }
        known.insert(stated);
    }
    found
}

/// The sets of values with which a change is judged: that takes some 0.1 ms each, at each load.
const MOST_JUDGED: usize = 200;
