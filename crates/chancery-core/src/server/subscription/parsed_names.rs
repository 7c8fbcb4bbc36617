//! The names of an interest that are more than their texts: globs, names that have another canonical
//! form, and names that are not valid.
//!
//! Not here: the plain names, and which of the names are subscribed to (`interest`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::interest::Spelling;
use crate::server::held_bytes;
use crate::{ResourceName, TypeUrl};

/// The names of an interest that are more than their texts.
#[derive(Debug, Default)]
pub(super) struct ParsedNames {
    pub(super) globs: BTreeMap<Spelling, ResourceName>,
    /// The names whose canonical form is another text.
    pub(super) respelled: BTreeMap<Spelling, ResourceName>,
    /// The names that are no valid name of this type, each with its fault.
    pub(super) malformed: BTreeMap<Spelling, String>,
    /// The spellings of each glob and of each name whose canonical form is another text, by the
    /// canonical name.
    spellings: BTreeMap<ResourceName, Spellings>,
    /// The number of names that have had several spellings.
    several_spellings: usize,
    /// The bytes of canonical forms and faults, as [`held_bytes`] counts them.
    texts: usize,
}

/// The spellings of one name. Few names have more than one, and a client can write one in many.
#[derive(Debug)]
enum Spellings {
    One(Spelling),
    Several(BTreeSet<Spelling>),
}

impl ParsedNames {
    pub(super) const fn new() -> Self {
        Self {
            globs: BTreeMap::new(),
            respelled: BTreeMap::new(),
            malformed: BTreeMap::new(),
            spellings: BTreeMap::new(),
            several_spellings: 0,
            texts: 0,
        }
    }

    /// Adds a name, if it is more than its text.
    pub(super) fn add(&mut self, name: &Spelling, type_url: &TypeUrl) {
        match ResourceName::parse(name) {
            Err(fault) => self.set_malformed(name, fault.to_string()),
            Ok(parsed) => self.classify(name, parsed, type_url),
        }
    }

    /// Takes a name out. Returns true if it was a glob.
    pub(super) fn remove(&mut self, name: &Spelling) -> bool {
        let glob = self.globs.remove(name);
        let is_glob = glob.is_some();
        if let Some(parsed) = glob.or_else(|| self.respelled.remove(name)) {
            self.texts -= held_bytes::text(parsed.as_str().len());
            if self.spellings.get_mut(&parsed).is_some_and(|known| known.remove(name))
                && let Some(Spellings::Several(_)) = self.spellings.remove(&parsed)
            {
                self.several_spellings -= 1;
            }
        }
        let fault = self.malformed.remove(name);
        self.texts -= fault.map_or(0, |fault| held_bytes::text(fault.len()));
        is_glob
    }

    /// The first spelling of a glob, or of a name that the client does not spell canonically.
    pub(super) fn first_spelling(&self, canonical: &ResourceName) -> Option<&Spelling> {
        match self.spellings.get(canonical)? {
            Spellings::One(spelling) => Some(spelling),
            Spellings::Several(spellings) => spellings.first(),
        }
    }

    /// Returns true if every name that is no glob is valid, and is spelled canonically.
    pub(super) fn is_plain(&self) -> bool {
        self.respelled.is_empty() && self.malformed.is_empty()
    }

    /// The bytes that are kept for the client, about.
    pub(super) fn held_bytes(&self) -> usize {
        const SPELLING: usize = size_of::<Spelling>();
        let spelled = self.globs.len() + self.respelled.len();
        self.texts
            + held_bytes::tree(spelled, 2 * SPELLING)
            + held_bytes::tree(self.spellings.len(), SPELLING + size_of::<Spellings>())
            + held_bytes::tree(spelled - self.spellings.len(), SPELLING)
            + self.several_spellings * held_bytes::NODE * SPELLING
            + held_bytes::tree(self.malformed.len(), SPELLING + size_of::<String>())
    }

    /// Puts a parsed name where it belongs. An `xdstp:` name of another type than the one asked for
    /// is invalid (S-116).
    fn classify(&mut self, name: &Spelling, parsed: ResourceName, type_url: &TypeUrl) {
        let other = parsed.xdstp().filter(|parts| parts.type_name != type_url.message_name());
        if let Some(parts) = other {
            let fault = format!("`{name}` is of type `{}`", parts.type_name);
            self.set_malformed(name, fault);
        } else if parsed.is_glob() {
            self.add_spelling(name, &parsed);
            self.globs.insert(Arc::clone(name), parsed);
        } else if parsed.as_str() != &**name {
            self.add_spelling(name, &parsed);
            self.respelled.insert(Arc::clone(name), parsed);
        }
    }

    fn add_spelling(&mut self, name: &Spelling, parsed: &ResourceName) {
        self.texts += held_bytes::text(parsed.as_str().len());
        match self.spellings.get_mut(parsed) {
            Some(Spellings::Several(known)) => drop(known.insert(Arc::clone(name))),
            Some(Spellings::One(known)) => {
                let both = [&*known, name].map(Arc::clone);
                self.spellings.insert(parsed.clone(), Spellings::Several(both.into()));
                self.several_spellings += 1;
            }
            None => {
                self.spellings.insert(parsed.clone(), Spellings::One(Arc::clone(name)));
            }
        }
    }

    fn set_malformed(&mut self, name: &Spelling, fault: String) {
        self.texts += held_bytes::text(fault.len());
        self.malformed.insert(Arc::clone(name), fault);
    }
}

impl Spellings {
    /// Takes a spelling out. Returns true if none is left.
    fn remove(&mut self, spelling: &Spelling) -> bool {
        match self {
            Self::One(_) => true,
            Self::Several(known) => {
                known.remove(spelling);
                known.is_empty()
            }
        }
    }
}
