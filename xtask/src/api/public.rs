//! The public paths of a crate: for each item and module the one by which a user names it.
//!
//! An item that is reachable by several paths is shown at the shortest of them, the first in
//! alphabetical order among equals; at the others stands a `pub use`.

use std::collections::{BTreeMap, BTreeSet};

use super::conditions::{Conditions, prefix};
use super::listing::{Line, Rank};
use super::modules::{Glob, ItemId, Meaning, ModuleId, Name};
use super::names::{Mentions, Names};
use super::scope::{Scope, Target};

/// A path from the root of the crate, and the conditions under which it exists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) path: Vec<String>,
    pub(super) conditions: Conditions,
}

/// A name that leads to something which is shown elsewhere, or is of another crate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reexport {
    pub(super) place: Place,
    pub(super) target: Target,
    /// True of `pub use target::*`.
    pub(super) is_glob: bool,
}

/// All that a user of the crate can name.
#[derive(Default)]
pub(super) struct Public {
    pub(super) items: BTreeMap<ItemId, Place>,
    pub(super) modules: BTreeMap<ModuleId, Place>,
    pub(super) reexports: Vec<Reexport>,
}

impl Public {
    /// The lines of modules and of names that lead elsewhere.
    pub(super) fn lines(&self, scope: &Scope<'_>, mentions: &mut Mentions) -> Vec<Line> {
        let mut lines = Vec::new();
        for place in self.modules.values().filter(|place| !place.path.is_empty()) {
            let text = format!("{}pub mod {}", prefix(&place.conditions), place.path.join("::"));
            lines.push(Line::new(&place.path, Rank::Declaration, text));
        }
        for reexport in &self.reexports {
            let place = &reexport.place;
            let mut target = self.path_of(&reexport.target, scope, mentions);
            target.push_str(if reexport.is_glob { "::*" } else { "" });
            let start = prefix(&place.conditions);
            let name = place.path.join("::");
            let is_same = !reexport.is_glob && target.rsplit("::").next() == Some(&name);
            let rename = if is_same { String::new() } else { format!(" as {name}") };
            let text = format!("{start}pub use {target}{rename}");
            lines.push(Line::new(&place.path, Rank::Declaration, text));
        }
        lines
    }

    /// The path at which the target of a `pub use` is shown.
    fn path_of(&self, target: &Target, scope: &Scope<'_>, mentions: &mut Mentions) -> String {
        let item = |id, mentions| Names::new(scope, self, 0, mentions).path_of(id).join("::");
        match target {
            Target::Module(id) => {
                self.modules.get(id).map_or_else(String::new, |place| place.path.join("::"))
            }
            Target::Item(id) => item(*id, mentions),
            Target::Variant(id, name) => format!("{}::{name}", item(*id, mentions)),
            Target::Foreign(path) => {
                mentions.note_foreign(path);
                path.join("::")
            }
        }
    }
}

/// Walks from the root through everything public, one level of modules after the other.
pub(super) fn public(scope: &Scope<'_>) -> Public {
    let mut public = Public::default();
    let root = Place { path: Vec::new(), conditions: Conditions::new() };
    public.modules.insert(0, root.clone());
    let mut level = vec![(root, 0)];
    while !level.is_empty() {
        let mut next = Vec::new();
        for (place, module) in level {
            let mut walk = Walk { scope, public: &mut public, place: &place, next: &mut next };
            walk.module(module);
        }
        next.sort();
        level = next;
    }
    public
}

/// The walk through one public module.
struct Walk<'a> {
    scope: &'a Scope<'a>,
    public: &'a mut Public,
    place: &'a Place,
    next: &'a mut Vec<(Place, ModuleId)>,
}

impl Walk<'_> {
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

    fn name(&mut self, module: ModuleId, name: &str, entry: &Name, outer: &Conditions) {
        if !entry.is_public {
            return;
        }
        let conditions = &entry.conditions | outer;
        match &entry.meaning {
            Meaning::Module(id) => self.reach(name, &Target::Module(*id), &conditions),
            Meaning::Item(id) => self.reach(name, &Target::Item(*id), &conditions),
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
            let Target::Module(id) = resolved.target else {
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
    fn reach(&mut self, name: &str, target: &Target, conditions: &Conditions) {
        let place = self.below(name, conditions);
        let source = self.scope.source;
        let is_new = match target {
            Target::Module(id) if !source.modules[*id].is_public => return,
            Target::Item(id) if !source.items[*id].is_public => return,
            Target::Module(id) => !self.public.modules.contains_key(id),
            Target::Item(id) => !self.public.items.contains_key(id),
            Target::Variant(..) | Target::Foreign(_) => false,
        };
        match target {
            Target::Module(id) if is_new => {
                self.next.push((place.clone(), *id));
                self.public.modules.insert(*id, place);
            }
            Target::Item(id) if is_new => {
                let conditions = &place.conditions | &source.items[*id].conditions;
                self.public.items.insert(*id, Place { conditions, ..place });
            }
            _ => {
                let target = target.clone();
                self.public.reexports.push(Reexport { place, target, is_glob: false });
            }
        }
    }

    fn below(&self, name: &str, conditions: &Conditions) -> Place {
        let mut path = self.place.path.clone();
        path.push(name.to_owned());
        Place { path, conditions: &self.place.conditions | conditions }
    }
}
