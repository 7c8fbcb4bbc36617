//! References that lead nowhere, in all that somebody sees, and what is said of them (S-103).
//!
//! Nothing is written out again while every audience lacks what it lacked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_proto::complete::Dangling;

use crate::audience::Audience;

/// The references that lead nowhere, by audience. Audiences without any are left out.
pub(crate) type Lacking = Vec<(Audience, Arc<[Dangling]>)>;

/// A reference that leads nowhere, and everybody for whom it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DanglingReference {
    /// The reference.
    pub reference: Dangling,
    /// The audiences that see it and lack its target.
    pub audiences: Vec<Audience>,
}

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

impl DanglingReferences {
    /// Each reference once.
    pub(crate) fn references(&self) -> Vec<DanglingReference> {
        let each = by_text(&self.found).into_values().map(|(reference, audiences)| {
            let audiences = audiences.into_iter().cloned().collect();
            DanglingReference { reference: reference.clone(), audiences }
        });
        each.collect()
    }
}

/// The references and those who lack their targets, by what is said of each.
fn by_text(found: &Lacking) -> BTreeMap<String, (&Dangling, BTreeSet<&Audience>)> {
    // The v2 form of a resource lacks what the resource lacks, and says so in the same words.
    let mut texts = BTreeMap::new();
    for (audience, all) in found {
        for dangling in all.iter() {
            let text = format!("{dangling}; {}", dangling.hint());
            let (_, audiences) = texts.entry(text).or_insert_with(|| (dangling, BTreeSet::new()));
            audiences.insert(audience);
        }
    }
    texts
}

/// One text for each reference, whatever the number of audiences that lack its target.
fn texts(found: &Lacking) -> BTreeSet<String> {
    type Lacked<'a> = (&'a Dangling, BTreeSet<&'a Audience>);
    let written = |(text, (_, audiences)): (String, Lacked<'_>)| match audiences.first() {
        Some(one) if audiences.len() == 1 => format!("for {one}: {text}"),
        _ => format!("for {} audiences: {text}", audiences.len()),
    };
    by_text(found).into_iter().map(written).collect()
}
