//! References that lead nowhere: in what which audience sees, and what is said of them (S-103).
//!
//! Nothing is written out again while every audience lacks what it lacked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_proto::references::Dangling;

use crate::catalog::audience::Audience;
use crate::fault::Warning;

/// What each audience lacks. Those that lack nothing are left out.
pub(crate) type Lacks = Vec<(Audience, Arc<[Dangling]>)>;

/// What was found to lead nowhere, and what is said of it.
#[derive(Clone, Default)]
pub(crate) struct DanglingReferences {
    found: Arc<Lacks>,
    pub(crate) warnings: Arc<BTreeSet<Warning>>,
}

impl DanglingReferences {
    /// This if it is still what is found, or what is found now.
    pub(crate) fn follow(self, found: Lacks) -> Self {
        let same = |((one, before), (other, now)): (&(Audience, Arc<_>), &(Audience, Arc<_>))| {
            one == other && Arc::ptr_eq(before, now)
        };
        if self.found.len() == found.len() && self.found.iter().zip(&found).all(same) {
            return self;
        }
        Self { warnings: Arc::new(warnings(&found)), found: Arc::new(found) }
    }
}

/// Each is told once, for all audiences it is missing in.
fn warnings(found: &Lacks) -> BTreeSet<Warning> {
    // The v2 form of a resource lacks what the resource lacks, and says so in the same words.
    let mut texts: BTreeMap<String, BTreeSet<&Audience>> = BTreeMap::new();
    for (audience, all) in found {
        for dangling in all.iter() {
            let text = format!("{dangling}; {}", dangling.hint());
            texts.entry(text).or_default().insert(audience);
        }
    }
    let told = |(text, audiences): (String, BTreeSet<&Audience>)| match audiences.first() {
        Some(one) if audiences.len() == 1 => Warning::general(format!("for {one}: {text}")),
        _ => Warning::general(format!("for {} audiences: {text}", audiences.len())),
    };
    texts.into_iter().map(told).collect()
}
