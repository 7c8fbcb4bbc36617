//! References that lead nowhere, in all that somebody sees, and what is said of them (S-103).
//!
//! Nothing is written out again while every audience lacks what it lacked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_proto::complete::Dangling;

use crate::audience::Audience;

/// The references that lead nowhere, by audience. Audiences without any are left out.
pub(crate) type Lacking = Vec<(Audience, Arc<[Dangling]>)>;

/// The references that lead nowhere, and what is said of them.
#[derive(Clone, Default)]
pub(crate) struct DanglingReferences {
    found: Arc<Lacking>,
    pub(crate) texts: Arc<BTreeSet<String>>,
}

impl DanglingReferences {
    /// This if it is still what is found, or what is found now.
    pub(crate) fn follow(self, found: Lacking) -> Self {
        let same = |((one, before), (other, now)): (&(Audience, Arc<_>), &(Audience, Arc<_>))| {
            one == other && Arc::ptr_eq(before, now)
        };
        if self.found.len() == found.len() && self.found.iter().zip(&found).all(same) {
            return self;
        }
        Self { texts: Arc::new(texts(&found)), found: Arc::new(found) }
    }
}

/// One text for each reference, whatever the number of audiences that lack its target.
fn texts(found: &Lacking) -> BTreeSet<String> {
    // The v2 form of a resource lacks what the resource lacks, and says so in the same words.
    let mut texts: BTreeMap<String, BTreeSet<&Audience>> = BTreeMap::new();
    for (audience, all) in found {
        for dangling in all.iter() {
            let text = format!("{dangling}; {}", dangling.hint());
            texts.entry(text).or_default().insert(audience);
        }
    }
    let written = |(text, audiences): (String, BTreeSet<&Audience>)| match audiences.first() {
        Some(one) if audiences.len() == 1 => format!("for {one}: {text}"),
        _ => format!("for {} audiences: {text}", audiences.len()),
    };
    texts.into_iter().map(written).collect()
}
