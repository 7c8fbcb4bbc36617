//! The lines of implementations: methods of types, and the traits they have.
//!
//! Traits are gathered in one line for each type, derived ones and others alike, because it is no
//! change for users when a derived implementation is written by hand. One with associated types
//! has a line of its own. What the compiler finds out by itself, such as `Send`, is not here.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Generics, ImplItem, Item, Visibility};

use super::conditions::{Conditions, prefix};
use super::items::{function, inner, marks, parameters, predicates, where_clause};
use super::listing::{ApiLine, Rank};
use super::modules::{Implementation, ItemId};
use super::names::NameReplacer;
use super::public::PublicPath;
use super::scope::PathTarget;

/// The traits of a crate's types while they are gathered.
#[derive(Default)]
pub(super) struct Traits {
    simple: BTreeMap<ImplHeader, BTreeSet<String>>,
    lines: Vec<ApiLine>,
}

/// All of an implementation but for the trait.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ImplHeader {
    path: Vec<String>,
    conditions: Conditions,
    generics: String,
    subject: String,
    clause: String,
}

impl Traits {
    /// One line for each header, and those of implementations with more to say.
    pub(super) fn lines(self) -> impl Iterator<Item = ApiLine> {
        let simple = self.simple.into_iter().map(|(header, traits)| {
            let traits = traits.into_iter().collect::<Vec<_>>().join(" + ");
            header.impl_line(&traits, "")
        });
        simple.chain(self.lines)
    }

    fn add(&mut self, header: ImplHeader, name: &str, associated: &[String]) {
        if associated.is_empty() {
            self.simple.entry(header).or_default().insert(name.to_owned());
        } else {
            let body = format!(" {{ {} }}", associated.join(", "));
            self.lines.push(header.impl_line(name, &body));
        }
    }

    /// Takes in an `impl Trait for Type`, and returns true if users can name all that is in it.
    pub(super) fn implementation(
        &mut self,
        given: &Implementation,
        names: &mut NameReplacer<'_>,
    ) -> bool {
        let Some((path, _)) = &given.item.trait_ else { return false };
        let generics = &given.item.generics;
        names.know(generics);
        let name = names.text(path);
        let in_trait = std::mem::take(&mut names.local);
        let subject = names.text(&*given.item.self_ty);
        let in_subject = std::mem::take(&mut names.local);
        let named = || in_subject.iter().chain(&in_trait);
        let places = &names.public.items;
        if named().any(|id| !places.contains_key(id)) {
            return false;
        }
        let Some(place) = named().find_map(|id| places.get(id)) else { return false };
        let header = ImplHeader {
            path: place.path.clone(),
            conditions: &place.conditions | &given.conditions,
            generics: parameters(names, generics),
            subject,
            clause: where_clause(&predicates(names, generics)),
        };
        let associated = given.item.items.iter().filter_map(|item| match item {
            ImplItem::Type(item) => {
                names.know(&item.generics);
                let generics = parameters(names, &item.generics);
                Some(format!("type {}{generics} = {}", item.ident, names.text(&item.ty)))
            }
            _ => None,
        });
        let associated: Vec<_> = associated.collect();
        let sign = if given.item.modifiers.polarity.is_some() { "!" } else { "" };
        self.add(header, &format!("{sign}{name}"), &associated);
        true
    }

    /// Takes in the derived traits of a public type.
    pub(super) fn derived(&mut self, id: ItemId, place: &PublicPath, names: &mut NameReplacer<'_>) {
        let (attributes, generics, fields): (_, _, Vec<&syn::Field>) =
            match &names.scope.source.items[id].item {
                Item::Struct(item) => (&item.attrs, &item.generics, item.fields.iter().collect()),
                Item::Enum(item) => {
                    let fields = item.variants.iter().flat_map(|variant| &variant.fields);
                    (&item.attrs, &item.generics, fields.collect())
                }
                _ => return,
            };
        let derives = attributes.iter().filter(|attribute| attribute.path().is_ident("derive"));
        let list = syn::punctuated::Punctuated::<syn::Path, syn::Token![,]>::parse_terminated;
        let paths: Vec<_> =
            derives.filter_map(|derive| derive.parse_args_with(list).ok()).flatten().collect();
        names.know(generics);
        for path in paths {
            for name in derived(&path, &fields, names) {
                let header = header(place, generics, &name, names);
                self.add(header, &name, &[]);
            }
        }
    }
}

impl ImplHeader {
    fn impl_line(&self, traits: &str, body: &str) -> ApiLine {
        let Self { generics, subject, clause, .. } = self;
        let start = prefix(&self.conditions);
        let text = format!("{start}impl{generics} {traits} for {subject}{clause}{body}");
        ApiLine::new(&self.path, Rank::Implementation, text)
    }
}

/// The traits that a derive gives.
fn derived(path: &syn::Path, fields: &[&syn::Field], names: &mut NameReplacer<'_>) -> Vec<String> {
    if !is_error(path, names) {
        return vec![names.text(path)];
    }
    let is_from = |field: &&&syn::Field| field.attrs.iter().any(|it| it.path().is_ident("from"));
    let sources = fields.iter().filter(is_from);
    let from: Vec<_> = sources.map(|field| format!("From<{}>", names.text(&field.ty))).collect();
    from.into_iter().chain(["std::fmt::Display", "std::error::Error"].map(str::to_owned)).collect()
}

/// Returns true if the derive is that of `thiserror`, which leaves no trace of its crate.
fn is_error(path: &syn::Path, names: &NameReplacer<'_>) -> bool {
    let words: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
    let resolved = names.scope.resolve_item(names.module, &words);
    resolved.is_some_and(|it| {
        it.target == PathTarget::Foreign(vec!["thiserror".into(), "Error".into()])
    })
}

/// The header of a derived implementation: each type parameter must have the trait, too.
fn header(
    place: &PublicPath,
    generics: &Generics,
    name: &str,
    names: &mut NameReplacer<'_>,
) -> ImplHeader {
    let mut bare = generics.clone();
    for parameter in &mut bare.params {
        match parameter {
            syn::GenericParam::Type(parameter) => parameter.default = None,
            syn::GenericParam::Const(parameter) => parameter.default = None,
            syn::GenericParam::Lifetime(_) => {}
        }
    }
    let mut demands = predicates(names, generics);
    let types = generics.type_params().map(|parameter| format!("{}: {name}", parameter.ident));
    demands.extend(types);
    let arguments = generics.params.iter().map(|parameter| match parameter {
        syn::GenericParam::Type(parameter) => parameter.ident.to_string(),
        syn::GenericParam::Const(parameter) => parameter.ident.to_string(),
        syn::GenericParam::Lifetime(parameter) => parameter.lifetime.to_string(),
    });
    let arguments: Vec<_> = arguments.collect();
    let path = place.path.join("::");
    let subject = match arguments.is_empty() {
        true => path,
        false => format!("{path}<{}>", arguments.join(", ")),
    };
    ImplHeader {
        path: place.path.clone(),
        conditions: place.conditions.clone(),
        generics: parameters(names, &bare),
        subject,
        clause: where_clause(&demands),
    }
}

/// The public functions and constants of an `impl Type`.
pub(super) fn inherent(given: &Implementation, names: &mut NameReplacer<'_>) -> Vec<ApiLine> {
    let Some(id) = names.scope.subject(given.module, &given.item.self_ty) else {
        return Vec::new();
    };
    let Some(place) = names.public.items.get(&id) else { return Vec::new() };
    let generics = &given.item.generics;
    names.know(generics);
    let subject = names.text(&*given.item.self_ty);
    let bounds = bounds(names, generics);
    let outer = &place.conditions | &given.conditions;
    let shown = given.item.items.iter().filter_map(|item| {
        let (attributes, visibility, name) = match item {
            ImplItem::Fn(item) => (&item.attrs, &item.vis, &item.sig.ident),
            ImplItem::Const(item) => (&item.attrs, &item.vis, &item.ident),
            _ => return None,
        };
        let is_public = matches!(visibility, Visibility::Public(_));
        let conditions = inner(&outer, attributes).filter(|_| is_public)?;
        let path = format!("{subject}::{name}");
        let text = match item {
            ImplItem::Fn(item) => function(names, &item.sig, &path, &bounds),
            ImplItem::Const(item) => format!("const {path}: {}", names.text(&item.ty)),
            _ => return None,
        };
        let text = format!("{}{}pub {text}", prefix(&conditions), marks(attributes));
        let mut path = place.path.clone();
        path.push(name.to_string());
        Some(ApiLine::new(&path, Rank::Declaration, text))
    });
    shown.collect()
}

/// The bounds that an `impl` puts on its parameters, those of its `where` too.
fn bounds(names: &mut NameReplacer<'_>, generics: &Generics) -> Vec<String> {
    let bounded = generics.params.iter().filter(|parameter| match parameter {
        syn::GenericParam::Type(parameter) => !parameter.bounds.is_empty(),
        syn::GenericParam::Lifetime(parameter) => !parameter.bounds.is_empty(),
        syn::GenericParam::Const(_) => true,
    });
    let inline: Vec<_> = bounded.map(|parameter| names.text(parameter)).collect();
    inline.into_iter().chain(predicates(names, generics)).collect()
}
