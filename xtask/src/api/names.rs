//! Names in signatures, replaced by those a user of the crate would write.
//!
//! Two sources that mean the same get the same text, whatever they import, and a type that is
//! exchanged for another of the same name is seen. The items of other crates that occur are
//! remembered: they are part of the interface.

use std::collections::BTreeSet;

use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Generics, Ident, Path, PathArguments, PathSegment, Token, Type, TypePath};

use super::aliases::Arguments;
use super::modules::{ItemId, ModuleId};
use super::public::Public;
use super::scope::{CrateScope, PathTarget, STANDARD, is_prelude};
use super::spell::text;

/// The names in the signatures of a crate that are not its own.
#[derive(Default)]
pub(super) struct Mentions {
    /// Items of other crates, by path.
    pub(super) foreign: BTreeSet<String>,
    /// Names that lead nowhere.
    pub(super) unknown: BTreeSet<String>,
}

/// Replaces the names of one declaration.
pub(super) struct NameReplacer<'a> {
    pub(super) scope: &'a CrateScope<'a>,
    pub(super) public: &'a Public,
    pub(super) module: ModuleId,
    /// The generic parameters that are known where the names stand.
    parameters: BTreeSet<String>,
    mentions: &'a mut Mentions,
    /// The items of this crate that were named, in order.
    pub(super) local: Vec<ItemId>,
}

impl<'a> NameReplacer<'a> {
    pub(super) fn new(
        scope: &'a CrateScope<'a>,
        public: &'a Public,
        module: ModuleId,
        mentions: &'a mut Mentions,
    ) -> Self {
        Self { scope, public, module, parameters: BTreeSet::new(), mentions, local: Vec::new() }
    }

    /// Makes the generic parameters of a declaration known.
    pub(super) fn know(&mut self, generics: &Generics) {
        let types = generics.type_params().map(|parameter| parameter.ident.to_string());
        let constants = generics.const_params().map(|parameter| parameter.ident.to_string());
        self.parameters.extend(types.chain(constants));
    }

    /// The text of a type, a bound or another part of a signature with its names replaced.
    pub(super) fn text<T: Visited>(&mut self, tree: &T) -> String {
        let mut tree = tree.clone();
        tree.visit(self);
        text(&tree)
    }

    /// The path of an item of this crate as its users write it; below `crate::`, its own, if they
    /// cannot name it.
    pub(super) fn path_of(&self, item: ItemId) -> Vec<String> {
        if let Some(place) = self.public.items.get(&item) {
            let root = &place.path[0];
            let is_taken = place.path.len() == 1 && is_prelude(root);
            let is_taken = is_taken || self.scope.crates.contains(root) || root == STANDARD;
            let prefix = is_taken.then(|| "crate".to_owned());
            return prefix.into_iter().chain(place.path.iter().cloned()).collect();
        }
        let declared = &self.scope.source.items[item];
        let module = &self.scope.source.modules[declared.module].path;
        let start = std::iter::once("crate".to_owned()).chain(module.iter().cloned());
        start.chain([declared.name.clone()]).collect()
    }

    /// The parts to write for a path, and the number of its own parts that they stand for.
    fn replacement(&mut self, path: &[String]) -> Option<(Vec<String>, usize)> {
        let first = path.first().map_or("", String::as_str);
        if first == "Self" || self.parameters.contains(first) {
            return None;
        }
        let Some(resolved) = self.scope.resolve_item(self.module, path) else {
            self.mentions.unknown.insert(path.join("::"));
            return None;
        };
        let parts = match resolved.target {
            PathTarget::Item(id) => {
                self.local.push(id);
                self.path_of(id)
            }
            PathTarget::Variant(id, name) => {
                let mut path = self.path_of(id);
                path.push(name);
                path
            }
            PathTarget::Foreign(path) => {
                self.mentions.note_foreign(&path);
                path
            }
            PathTarget::Module(_) => return None,
        };
        Some((parts, resolved.used))
    }

    /// The alias that a type is written as, if users cannot name that.
    fn hidden_alias(&self, ty: &Type) -> Option<ItemId> {
        let Type::Path(TypePath { qself: None, path, .. }) = ty else { return None };
        let words: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        if words.len() == 1 && self.parameters.contains(&words[0]) {
            return None;
        }
        let resolved = self.scope.resolve_item(self.module, &words)?;
        let PathTarget::Item(id) = resolved.target else { return None };
        let is_alias = matches!(self.scope.source.items[id].item, syn::Item::Type(_));
        (is_alias && !self.public.items.contains_key(&id)).then_some(id)
    }

    /// Replaces a hidden alias by what it stands for, with the names of the module it is in.
    fn expand(&mut self, ty: &mut Type, alias: ItemId) {
        let scope = self.scope;
        let declared = &scope.source.items[alias];
        let (Type::Path(used), syn::Item::Type(item)) = (&mut *ty, &declared.item) else { return };
        visit_mut::visit_path_mut(self, &mut used.path);
        let (mut generics, mut meant) = (item.generics.clone(), (*item.ty).clone());
        let module = std::mem::replace(&mut self.module, declared.module);
        let parameters = std::mem::take(&mut self.parameters);
        self.know(&item.generics);
        self.visit_generics_mut(&mut generics);
        self.visit_type_mut(&mut meant);
        (self.module, self.parameters) = (module, parameters);
        Arguments::of(&generics, used).visit_type_mut(&mut meant);
        *ty = meant;
    }

    /// Replaces the first `count` parts of a path and returns how many they have become.
    fn replace(&mut self, path: &mut Path, count: usize) -> usize {
        let start = path.leading_colon.take().map(|_| String::new());
        let skipped = usize::from(start.is_some());
        let words = path.segments.iter().take(count).map(|part| part.ident.to_string());
        let words: Vec<String> = start.into_iter().chain(words).collect();
        let Some((parts, used)) = self.replacement(&words) else { return count };
        let used = used - skipped;
        let arguments = path.segments[used - 1].arguments.clone();
        let rest = path.segments.iter().skip(used).cloned();
        let new = parts.iter().map(|part| segment(part));
        let mut segments: Punctuated<PathSegment, Token![::]> = new.chain(rest).collect();
        segments[parts.len() - 1].arguments = arguments;
        path.segments = segments;
        count - used + parts.len()
    }
}

impl Mentions {
    /// Adds what another declaration names.
    pub(super) fn take(&mut self, other: Self) {
        self.foreign.extend(other.foreign);
        self.unknown.extend(other.unknown);
    }

    /// Remembers an item of another crate: up to its type, without what belongs to that.
    pub(super) fn note_foreign(&mut self, path: &[String]) {
        let is_type = |part: &String| part.starts_with(|char: char| char.is_ascii_uppercase());
        let end = path.iter().position(is_type).map_or(path.len(), |at| at + 1);
        if path[0] != STANDARD && !(path.len() == 1 && is_prelude(&path[0])) {
            self.foreign.insert(path[..end].join("::"));
        }
    }
}

fn segment(name: &str) -> PathSegment {
    let span = proc_macro2::Span::call_site();
    let ident = match name.strip_prefix("r#") {
        Some(name) => Ident::new_raw(name, span),
        None => Ident::new(name, span),
    };
    PathSegment { ident, arguments: PathArguments::None }
}

/// A part of a syntax tree in which names can be replaced.
pub(super) trait Visited: Clone + ToTokens {
    fn visit(&mut self, names: &mut NameReplacer<'_>);
}

macro_rules! visited {
    ($($tree:ty: $visit:ident),* $(,)?) => {
        $(impl Visited for $tree {
            fn visit(&mut self, names: &mut NameReplacer<'_>) {
                names.$visit(self);
            }
        })*
    };
}

visited! {
    Path: visit_path_mut,
    Type: visit_type_mut,
    syn::Expr: visit_expr_mut,
    syn::FnArg: visit_fn_arg_mut,
    syn::GenericParam: visit_generic_param_mut,
    syn::ReturnType: visit_return_type_mut,
    syn::TypeParamBound: visit_type_param_bound_mut,
    syn::WherePredicate: visit_where_predicate_mut,
}

impl VisitMut for NameReplacer<'_> {
    fn visit_attributes_mut(&mut self, attributes: &mut Vec<Attribute>) {
        attributes.clear();
    }

    fn visit_path_mut(&mut self, path: &mut Path) {
        self.replace(path, path.segments.len());
        visit_mut::visit_path_mut(self, path);
    }

    fn visit_type_mut(&mut self, ty: &mut Type) {
        match self.hidden_alias(ty) {
            Some(alias) => self.expand(ty, alias),
            None => visit_mut::visit_type_mut(self, ty),
        }
    }

    /// In `<T as Trait>::Name` the trait is what is replaced, and in `<T>::Name` nothing.
    fn visit_type_path_mut(&mut self, typed: &mut TypePath) {
        let Some(own) = &mut typed.qself else {
            return self.visit_path_mut(&mut typed.path);
        };
        self.visit_type_mut(&mut own.ty);
        if own.position > 0 {
            own.position = self.replace(&mut typed.path, own.position);
        }
        visit_mut::visit_path_mut(self, &mut typed.path);
    }

    fn visit_angle_bracketed_generic_arguments_mut(
        &mut self,
        arguments: &mut syn::AngleBracketedGenericArguments,
    ) {
        arguments.colon2_token = None;
        arguments.args.pop_punct();
        visit_mut::visit_angle_bracketed_generic_arguments_mut(self, arguments);
    }

    fn visit_parenthesized_generic_arguments_mut(
        &mut self,
        arguments: &mut syn::ParenthesizedGenericArguments,
    ) {
        arguments.inputs.pop_punct();
        visit_mut::visit_parenthesized_generic_arguments_mut(self, arguments);
    }

    fn visit_type_fn_ptr_mut(&mut self, pointer: &mut syn::TypeFnPtr) {
        pointer.inputs.pop_punct();
        visit_mut::visit_type_fn_ptr_mut(self, pointer);
    }

    /// The comma of a tuple with one element says that it is a tuple.
    fn visit_type_tuple_mut(&mut self, tuple: &mut syn::TypeTuple) {
        if tuple.elems.len() > 1 {
            tuple.elems.pop_punct();
        }
        visit_mut::visit_type_tuple_mut(self, tuple);
    }

    /// Only the names of arguments are shown, not how they are taken apart.
    fn visit_pat_type_mut(&mut self, argument: &mut syn::PatType) {
        let name = match &*argument.pat {
            syn::Pat::Ident(pattern) => pattern.ident.clone(),
            _ => Ident::new("_", proc_macro2::Span::call_site()),
        };
        *argument.pat = syn::Pat::Verbatim(name.to_token_stream());
        argument.attrs.clear();
        self.visit_type_mut(&mut argument.ty);
    }

    /// `mut self` is a matter of the body.
    fn visit_receiver_mut(&mut self, receiver: &mut syn::Receiver) {
        receiver.mutability = None;
        visit_mut::visit_receiver_mut(self, receiver);
    }
}
