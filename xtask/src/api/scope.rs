//! Resolution of names: from a path as a module writes it to the item it means.
//!
//! Names are looked up as the compiler does it: in the module, through its globs, among the crates
//! it depends on, in the prelude. Visibility is not checked again here; the compiler has done so.

use std::collections::BTreeSet;

use syn::{Item, Type};

use super::modules::{CrateSource, ItemId, Meaning, ModuleId};

/// The end of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathTarget {
    Module(ModuleId),
    Item(ItemId),
    /// A variant of an enum of this crate.
    Variant(ItemId, String),
    /// The path of an item of another crate, or of the standard library.
    Foreign(Vec<String>),
}

/// A target, and how many parts of the path led there; the others name what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResolvedPath {
    pub(super) target: PathTarget,
    pub(super) used: usize,
}

/// The standard library.
pub(super) const STANDARD: &str = "std";

/// Names that every module knows.
const PRELUDE: &str = "\
    AsMut AsRef AsyncFn AsyncFnMut AsyncFnOnce Box Clone Copy Debug Default DoubleEndedIterator \
    Drop Eq Err ExactSizeIterator Extend Fn FnMut FnOnce From FromIterator Future Hash Into \
    IntoFuture IntoIterator Iterator None Ok Option Ord PartialEq PartialOrd Result Send Sized \
    Some String Sync ToOwned ToString TryFrom TryInto Unpin Vec";

/// Types of the language.
const PRIMITIVES: &str =
    "bool char f32 f64 i128 i16 i32 i64 i8 isize str u128 u16 u32 u64 u8 usize";

/// Names that are the same with and without their path.
const SHORT: [(&str, &str); 20] = [
    ("std::borrow::ToOwned", "ToOwned"),
    ("std::boxed::Box", "Box"),
    ("std::clone::Clone", "Clone"),
    ("std::cmp::Eq", "Eq"),
    ("std::cmp::Ord", "Ord"),
    ("std::cmp::PartialEq", "PartialEq"),
    ("std::cmp::PartialOrd", "PartialOrd"),
    ("std::convert::AsRef", "AsRef"),
    ("std::convert::From", "From"),
    ("std::convert::TryFrom", "TryFrom"),
    ("std::default::Default", "Default"),
    ("std::fmt::Debug", "Debug"),
    ("std::future::Future", "Future"),
    ("std::hash::Hash", "Hash"),
    ("std::iter::FromIterator", "FromIterator"),
    ("std::iter::IntoIterator", "IntoIterator"),
    ("std::iter::Iterator", "Iterator"),
    ("std::ops::Drop", "Drop"),
    ("std::string::String", "String"),
    ("std::vec::Vec", "Vec"),
];

/// Returns true if every module knows the name.
pub(super) fn is_prelude(name: &str) -> bool {
    is_primitive(name) || PRELUDE.split(' ').any(|known| known == name)
}

fn is_primitive(name: &str) -> bool {
    PRIMITIVES.split(' ').any(|known| known == name)
}

/// The one path of an item of another crate: `core` and `alloc` are `std`, and names of the prelude
/// stand alone.
fn foreign(mut path: Vec<String>) -> Vec<String> {
    if matches!(path.first().map(String::as_str), Some("core" | "alloc")) {
        path[0] = STANDARD.to_owned();
    }
    let whole = path.join("::");
    match SHORT.iter().find(|(long, _)| *long == whole) {
        Some((_, short)) => vec![(*short).to_owned()],
        None => path,
    }
}

/// A crate's declarations and the names of the crates it may use.
pub(super) struct CrateScope<'a> {
    pub(super) source: &'a CrateSource,
    pub(super) crates: &'a BTreeSet<String>,
}

/// The names that are being followed, so that `use a::a` ends.
type VisitedNames = Vec<(ModuleId, String)>;

impl CrateScope<'_> {
    /// All that a path of a module means; nothing if it is not known.
    pub(super) fn resolve(&self, module: ModuleId, path: &[String]) -> Vec<ResolvedPath> {
        self.resolve_path(module, path, &mut VisitedNames::new())
    }

    /// The type, trait or constant that a path in a signature means. `str` is the type, although
    /// a module of that name may be imported.
    pub(super) fn resolve_item(&self, module: ModuleId, path: &[String]) -> Option<ResolvedPath> {
        if let [name] = path
            && is_primitive(name)
        {
            return Some(ResolvedPath { target: PathTarget::Foreign(path.to_vec()), used: 1 });
        }
        let all = self.resolve(module, path);
        let is_type = |resolved: &&ResolvedPath| match &resolved.target {
            PathTarget::Item(id) => !matches!(
                self.source.items[*id].item,
                Item::Fn(_) | Item::Const(_) | Item::Static(_) | Item::Macro(_)
            ),
            PathTarget::Foreign(_) | PathTarget::Variant(..) => true,
            PathTarget::Module(_) => false,
        };
        let found = all.iter().find(is_type).or_else(|| all.first());
        found.cloned()
    }

    /// The type that an `impl` is for, if it is one of this crate; aliases are looked through.
    pub(super) fn subject(&self, module: ModuleId, ty: &Type) -> Option<ItemId> {
        let Type::Path(typed) = ty else { return None };
        let words: Vec<_> = typed.path.segments.iter().map(|part| part.ident.to_string()).collect();
        let PathTarget::Item(id) = self.resolve_item(module, &words)?.target else { return None };
        let declared = &self.source.items[id];
        match &declared.item {
            Item::Type(alias) => self.subject(declared.module, &alias.ty),
            _ => Some(id),
        }
    }

    fn resolve_path(
        &self,
        module: ModuleId,
        path: &[String],
        following: &mut VisitedNames,
    ) -> Vec<ResolvedPath> {
        let Some(first) = path.first() else { return Vec::new() };
        let start = match first.as_str() {
            "" => return self.start_foreign(&path[1..], 2),
            "crate" => vec![PathTarget::Module(0)],
            "self" => vec![PathTarget::Module(module)],
            "super" => {
                let parent = self.source.modules[module].parent;
                parent.map(PathTarget::Module).into_iter().collect()
            }
            name => self.lookup(module, name, following),
        };
        if start.is_empty() {
            return self.start_foreign(path, 1);
        }
        start.into_iter().flat_map(|target| self.descend(target, path, 1, following)).collect()
    }

    /// The rest of a path, from where its first parts led.
    fn descend(
        &self,
        target: PathTarget,
        path: &[String],
        used: usize,
        following: &mut VisitedNames,
    ) -> Vec<ResolvedPath> {
        let next = path.get(used);
        match (target, next) {
            (PathTarget::Module(module), Some(name)) if name == "super" => {
                let parent = self.source.modules[module].parent.map(PathTarget::Module);
                let parents = parent.into_iter();
                parents.flat_map(|it| self.descend(it, path, used + 1, following)).collect()
            }
            (PathTarget::Module(module), Some(name)) => {
                let targets = self.lookup(module, name, following);
                let targets = targets.into_iter();
                targets.flat_map(|it| self.descend(it, path, used + 1, following)).collect()
            }
            (PathTarget::Item(id), Some(name)) if self.is_variant(id, name) => {
                vec![ResolvedPath { target: PathTarget::Variant(id, name.clone()), used: used + 1 }]
            }
            (PathTarget::Foreign(mut start), Some(_)) => {
                start.extend_from_slice(&path[used..]);
                vec![ResolvedPath { target: PathTarget::Foreign(foreign(start)), used: path.len() }]
            }
            (target, _) => vec![ResolvedPath { target, used }],
        }
    }

    fn is_variant(&self, id: ItemId, name: &str) -> bool {
        match &self.source.items[id].item {
            Item::Enum(item) => item.variants.iter().any(|variant| variant.ident == name),
            _ => false,
        }
    }

    /// A path that begins with a crate or a name of the prelude.
    fn start_foreign(&self, path: &[String], skipped: usize) -> Vec<ResolvedPath> {
        let Some(first) = path.first() else { return Vec::new() };
        if self.crates.contains(first) || matches!(first.as_str(), "std" | "core" | "alloc") {
            let target = PathTarget::Foreign(foreign(path.to_vec()));
            return vec![ResolvedPath { target, used: path.len() + skipped - 1 }];
        }
        if is_prelude(first) {
            return vec![ResolvedPath {
                target: PathTarget::Foreign(vec![first.clone()]),
                used: 1,
            }];
        }
        Vec::new()
    }

    /// All that a name means in a module, imports followed.
    fn lookup(
        &self,
        module: ModuleId,
        name: &str,
        following: &mut VisitedNames,
    ) -> Vec<PathTarget> {
        let here = (module, name.to_owned());
        if following.contains(&here) {
            return Vec::new();
        }
        following.push(here);
        let mut targets = Vec::new();
        for entry in self.source.modules[module].names.get(name).into_iter().flatten() {
            match &entry.meaning {
                Meaning::Module(id) => targets.push(PathTarget::Module(*id)),
                Meaning::Item(id) => targets.push(PathTarget::Item(*id)),
                Meaning::Use(path) => {
                    let ends = self.resolve_path(module, path, following).into_iter();
                    targets.extend(ends.map(|resolved| resolved.target));
                }
            }
        }
        if targets.is_empty() {
            targets = self.lookup_in_globs(module, name, following);
        }
        following.pop();
        targets
    }

    fn lookup_in_globs(
        &self,
        module: ModuleId,
        name: &str,
        following: &mut VisitedNames,
    ) -> Vec<PathTarget> {
        let mut targets = Vec::new();
        for glob in &self.source.modules[module].globs {
            for resolved in self.resolve_path(module, &glob.path, following) {
                match resolved.target {
                    PathTarget::Module(id) => targets.extend(self.lookup(id, name, following)),
                    PathTarget::Item(id) if self.is_variant(id, name) => {
                        targets.push(PathTarget::Variant(id, name.to_owned()));
                    }
                    _ => {}
                }
            }
        }
        targets
    }
}
