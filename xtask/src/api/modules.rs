//! The modules of one crate as its sources declare them, private ones too.
//!
//! Not here: which names lead where ([`super::scope`]) and which of them a user reaches
//! ([`super::public`]).

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use proc_macro2::TokenStream;
use syn::{Attribute, Item, ItemImpl, ItemMod, ItemUse, UseTree, Visibility};

use super::conditions::{Conditions, conditions};

/// An index into [`CrateSource::modules`]; the root is 0.
pub(super) type ModuleId = usize;

/// An index into [`CrateSource::items`].
pub(super) type ItemId = usize;

/// The declarations of one crate.
#[derive(Default)]
pub(super) struct CrateSource {
    pub(super) modules: Vec<Module>,
    pub(super) items: Vec<Declared>,
    pub(super) impls: Vec<Implementation>,
    pub(super) calls: Vec<MacroCall>,
    /// The bodies of the crate's own macros, by name.
    pub(super) macros: BTreeMap<String, TokenStream>,
}

/// A module and the names it declares.
#[derive(Default)]
pub(super) struct Module {
    /// The names of the modules from the root to this one.
    pub(super) path: Vec<String>,
    pub(super) parent: Option<ModuleId>,
    pub(super) is_public: bool,
    pub(super) conditions: Conditions,
    pub(super) names: BTreeMap<String, Vec<NameMeaning>>,
    pub(super) globs: Vec<Glob>,
}

/// One meaning of a name in a module. A name may have several: a function and a module, say.
pub(super) struct NameMeaning {
    pub(super) meaning: Meaning,
    pub(super) is_public: bool,
    pub(super) conditions: Conditions,
}

pub(super) enum Meaning {
    Module(ModuleId),
    Item(ItemId),
    Use(Vec<String>),
}

/// A `use path::*`.
pub(super) struct Glob {
    pub(super) path: Vec<String>,
    pub(super) is_public: bool,
    pub(super) conditions: Conditions,
}

/// An item that has a name.
pub(super) struct Declared {
    pub(super) module: ModuleId,
    pub(super) name: String,
    pub(super) item: Item,
    pub(super) is_public: bool,
    /// Its own conditions and those of the modules around it.
    pub(super) conditions: Conditions,
}

pub(super) struct Implementation {
    pub(super) module: ModuleId,
    pub(super) item: ItemImpl,
    pub(super) conditions: Conditions,
}

/// A macro that is called where items stand.
pub(super) struct MacroCall {
    pub(super) module: ModuleId,
    pub(super) name: String,
    pub(super) tokens: TokenStream,
    pub(super) conditions: Conditions,
}

/// The text of a file by its path.
pub(super) type ReadFile<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The place of a file among the sources.
struct ModuleFile {
    file: String,
    /// The directory in which its child modules are.
    dir: String,
}

impl CrateSource {
    /// Reads the crate whose root is the file `lib`.
    pub(super) fn read(lib: &str, read: ReadFile<'_>) -> Result<Self> {
        let mut source = Self::default();
        source.modules.push(Module { is_public: true, ..Module::default() });
        let dir = lib.rsplit_once('/').map_or("", |(dir, _)| dir);
        let place = ModuleFile { file: lib.to_owned(), dir: dir.to_owned() };
        let items = parse(lib, read)?.with_context(|| format!("{lib}: is missing"))?;
        source.take_all(0, items, &place, read)?;
        Ok(source)
    }

    fn take_all(
        &mut self,
        module: ModuleId,
        items: Vec<Item>,
        place: &ModuleFile,
        read: ReadFile<'_>,
    ) -> Result<()> {
        items.into_iter().try_for_each(|item| self.take(module, item, place, read))
    }

    fn take(
        &mut self,
        module: ModuleId,
        item: Item,
        place: &ModuleFile,
        read: ReadFile<'_>,
    ) -> Result<()> {
        let Some(own) = conditions(attributes(&item)) else { return Ok(()) };
        let conditions = &self.modules[module].conditions | &own;
        match item {
            Item::Mod(item) => return self.take_module(module, item, conditions, place, read),
            Item::Use(item) => self.take_use(module, &item, &own),
            Item::Impl(item) => self.impls.push(Implementation { module, item, conditions }),
            Item::Macro(item) => self.take_macro(module, item, conditions),
            Item::ExternCrate(_) | Item::ForeignMod(_) | Item::Verbatim(_) => {
                bail!("{}: a kind of item that no listing can show", place.file)
            }
            item => self.declare(module, item, conditions),
        }
        Ok(())
    }

    fn declare(&mut self, module: ModuleId, item: Item, conditions: Conditions) {
        let Some((name, visibility)) = declared(&item) else { return };
        let is_public = matches!(visibility, Visibility::Public(_));
        let meaning = Meaning::Item(self.items.len());
        let entry = NameMeaning { meaning, is_public, conditions: conditions.clone() };
        self.modules[module].names.entry(name.clone()).or_default().push(entry);
        self.items.push(Declared { module, name, item, is_public, conditions });
    }

    fn take_module(
        &mut self,
        parent: ModuleId,
        item: ItemMod,
        conditions: Conditions,
        place: &ModuleFile,
        read: ReadFile<'_>,
    ) -> Result<()> {
        if item.attrs.iter().any(|attribute| attribute.path().is_ident("path")) {
            bail!("{}: `#[path]` of `mod {}` is not followed", place.file, item.ident);
        }
        let name = item.ident.to_string();
        let is_public = matches!(item.vis, Visibility::Public(_));
        let id = self.modules.len();
        let mut path = self.modules[parent].path.clone();
        path.push(name.clone());
        let entry =
            NameMeaning { meaning: Meaning::Module(id), is_public, conditions: conditions.clone() };
        self.modules[parent].names.entry(name.clone()).or_default().push(entry);
        let parent = Some(parent);
        self.modules.push(Module { path, parent, is_public, conditions, ..Module::default() });
        let dir = format!("{}/{name}", place.dir);
        if let Some((_, items)) = item.content {
            return self.take_all(id, items, &ModuleFile { file: place.file.clone(), dir }, read);
        }
        for file in [format!("{dir}.rs"), format!("{dir}/mod.rs")] {
            if let Some(items) = parse(&file, read)? {
                return self.take_all(id, items, &ModuleFile { file, dir }, read);
            }
        }
        bail!("{}: no file for `mod {name}`", place.file)
    }

    fn take_use(&mut self, module: ModuleId, item: &ItemUse, conditions: &Conditions) {
        let is_public = matches!(item.vis, Visibility::Public(_));
        let mut leaves = Vec::new();
        let start = if item.leading_colon.is_some() { vec![String::new()] } else { Vec::new() };
        walk(&item.tree, start, &mut leaves);
        let module = &mut self.modules[module];
        for (path, leaf) in leaves {
            let conditions = conditions.clone();
            match leaf {
                Leaf::Name(name) => {
                    let entry = NameMeaning { meaning: Meaning::Use(path), is_public, conditions };
                    module.names.entry(name).or_default().push(entry);
                }
                Leaf::Glob => module.globs.push(Glob { path, is_public, conditions }),
            }
        }
    }

    /// An exported macro is an item of the root, wherever it stands.
    fn take_macro(&mut self, module: ModuleId, item: syn::ItemMacro, conditions: Conditions) {
        let Some(name) = &item.ident else {
            let name = item.mac.path.segments.last().map(|it| it.ident.to_string());
            let (name, tokens) = (name.unwrap_or_default(), item.mac.tokens);
            self.calls.push(MacroCall { module, name, tokens, conditions });
            return;
        };
        let name = name.to_string();
        self.macros.insert(name.clone(), item.mac.tokens.clone());
        if item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export")) {
            let meaning = Meaning::Item(self.items.len());
            let entry = NameMeaning { meaning, is_public: true, conditions: conditions.clone() };
            self.modules[0].names.entry(name.clone()).or_default().push(entry);
            let item = Item::Macro(item);
            self.items.push(Declared { module: 0, name, item, is_public: true, conditions });
        }
    }
}

/// The end of one path of a `use`.
enum Leaf {
    Name(String),
    Glob,
}

/// All paths of a `use`, groups and renames taken apart.
fn walk(tree: &UseTree, mut path: Vec<String>, leaves: &mut Vec<(Vec<String>, Leaf)>) {
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            walk(&part.tree, path, leaves);
        }
        UseTree::Name(name) if name.ident == "self" => {
            let name = path.last().cloned().unwrap_or_default();
            leaves.push((path, Leaf::Name(name)));
        }
        UseTree::Name(name) => {
            path.push(name.ident.to_string());
            leaves.push((path, Leaf::Name(name.ident.to_string())));
        }
        UseTree::Rename(rename) => {
            if rename.ident != "self" {
                path.push(rename.ident.to_string());
            }
            leaves.push((path, Leaf::Name(rename.rename.to_string())));
        }
        UseTree::Glob(_) => leaves.push((path, Leaf::Glob)),
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| walk(tree, path.clone(), leaves));
        }
    }
}

/// The items of a file, if there is such a file.
fn parse(file: &str, read: ReadFile<'_>) -> Result<Option<Vec<Item>>> {
    let Some(text) = read(file) else { return Ok(None) };
    let parsed = syn::parse_file(&text).with_context(|| format!("{file}: is not Rust"))?;
    Ok(Some(parsed.items))
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The name and the visibility of an item that has both. `const _` has no name.
fn declared(item: &Item) -> Option<(String, &Visibility)> {
    let (name, visibility) = match item {
        Item::Const(item) if item.ident == "_" => return None,
        Item::Const(item) => (&item.ident, &item.vis),
        Item::Enum(item) => (&item.ident, &item.vis),
        Item::Fn(item) => (&item.sig.ident, &item.vis),
        Item::Static(item) => (&item.ident, &item.vis),
        Item::Struct(item) => (&item.ident, &item.vis),
        Item::Trait(item) => (&item.ident, &item.vis),
        Item::TraitAlias(item) => (&item.ident, &item.vis),
        Item::Type(item) => (&item.ident, &item.vis),
        Item::Union(item) => (&item.ident, &item.vis),
        _ => return None,
    };
    Some((name.to_string(), visibility))
}
