//! The public paths of a crate: for each item and module the one by which a user names it.
//!
//! An item that is reachable by several paths is shown at the shortest of them, the first in
//! alphabetical order among equals; at the others stands a `pub use`.

use std::collections::{BTreeMap, BTreeSet};

use super::conditions::Conditions;
use super::modules::{Glob, ItemId, Meaning, ModuleId, NameMeaning};
use super::scope::{CrateScope, PathTarget};

/// A path from the root of the crate, and the conditions under which it exists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PublicPath {
    pub(super) path: Vec<String>,
    pub(super) conditions: Conditions,
}

/// A name that leads to something which is shown elsewhere, or is of another crate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reexport {
    pub(super) place: PublicPath,
    pub(super) target: PathTarget,
    /// True of `pub use target::*`.
    pub(super) is_glob: bool,
}

/// All that a user of the crate can name.
#[derive(Default)]
pub(super) struct Public {
    pub(super) items: BTreeMap<ItemId, PublicPath>,
    pub(super) modules: BTreeMap<ModuleId, PublicPath>,
    pub(super) reexports: Vec<Reexport>,
}

/// Walks from the root through everything public, one level of modules after the other.
pub(super) fn public(scope: &CrateScope<'_>) -> Public {
    let mut public = Public::default();
    let root = PublicPath { path: Vec::new(), conditions: Conditions::new() };
    public.modules.insert(0, root.clone());
    let mut level = vec![(root, 0)];
    while !level.is_empty() {
        let mut next = Vec::new();
        for (place, module) in level {
            let mut walk =
                ModuleWalk { scope, public: &mut public, place: &place, next: &mut next };
            walk.module(module);
        }
        next.sort();
        level = next;
    }
    public
}

/// The walk through one public module.
struct ModuleWalk<'a> {
    scope: &'a CrateScope<'a>,
    public: &'a mut Public,
    place: &'a PublicPath,
    next: &'a mut Vec<(PublicPath, ModuleId)>,
}

impl ModuleWalk<'_> {
    fn module(&mut self, module: ModuleId) {
        let scope = self.scope;
        let names = &scope.source.modules[module].names;
        for (name, entries) in names {
            entries.iter().for_each(|entry| self.name(module, name, entry, &Conditions::new()));
        }
        let own: BTreeSet<&str> = names.keys().map(String::as_str).collect();
        let globs = scope.source.modules[module].globs.iter();
        globs.filter(|glob| glob.is_public).for_each(|glob| self.glob(module, glob, &own));
    }

    fn name(&mut self, module: ModuleId, name: &str, entry: &NameMeaning, outer: &Conditions) {
        if !entry.is_public {
            return;
        }
        let conditions = &entry.conditions | outer;
        match &entry.meaning {
            Meaning::Module(id) => self.reach(name, &PathTarget::Module(*id), &conditions),
            Meaning::Item(id) => self.reach(name, &PathTarget::Item(*id), &conditions),
            Meaning::Use(path) => {
                for resolved in self.scope.resolve(module, path) {
                    self.reach(name, &resolved.target, &conditions);
                }
            }
        }
    }

    /// The public names of a module that is imported whole, but for those the importer has itself.
    fn glob(&mut self, module: ModuleId, glob: &Glob, own: &BTreeSet<&str>) {
        let scope = self.scope;
        for resolved in scope.resolve(module, &glob.path) {
            let PathTarget::Module(id) = resolved.target else {
                let place = self.below("*", &glob.conditions);
                self.public.reexports.push(Reexport {
                    place,
                    target: resolved.target,
                    is_glob: true,
                });
                continue;
            };
            for (name, entries) in &scope.source.modules[id].names {
                if !own.contains(name.as_str()) {
                    entries.iter().for_each(|entry| self.name(id, name, entry, &glob.conditions));
                }
            }
            let globs = scope.source.modules[id].globs.iter();
            globs.filter(|glob| glob.is_public && id != module).for_each(|glob| {
                self.glob(id, glob, own);
            });
        }
    }

    /// Notes that a name of this module leads to a target, if that is public at all.
    fn reach(&mut self, name: &str, target: &PathTarget, conditions: &Conditions) {
        let place = self.below(name, conditions);
        let source = self.scope.source;
        let is_new = match target {
            PathTarget::Module(id) if !source.modules[*id].is_public => return,
            PathTarget::Item(id) if !source.items[*id].is_public => return,
            PathTarget::Module(id) => !self.public.modules.contains_key(id),
            PathTarget::Item(id) => !self.public.items.contains_key(id),
            PathTarget::Variant(..) | PathTarget::Foreign(_) => false,
        };
        match target {
            PathTarget::Module(id) if is_new => {
                self.next.push((place.clone(), *id));
                self.public.modules.insert(*id, place);
            }
            PathTarget::Item(id) if is_new => {
                let conditions = &place.conditions | &source.items[*id].conditions;
                self.public.items.insert(*id, PublicPath { conditions, ..place });
            }
            _ => {
                let target = target.clone();
                self.public.reexports.push(Reexport { place, target, is_glob: false });
            }
        }
    }

    fn below(&self, name: &str, conditions: &Conditions) -> PublicPath {
        let mut path = self.place.path.clone();
        path.push(name.to_owned());
        PublicPath { path, conditions: &self.place.conditions | conditions }
    }
}
