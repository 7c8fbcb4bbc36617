//! The lines of items: types with their fields and variants, traits, functions, constants.
//!
//! Each line is the declaration as it would be written, with the path in place of the name and
//! without the body. ` { .. }` at the end of a struct says that it has fields which are not
//! public, and at the end of a trait's function that an implementation may leave it out.

use syn::{Attribute, Fields, Generics, Item, TraitItem, Visibility};

use super::conditions::{Conditions, conditions, prefix};
use super::listing::{ApiLine, Rank};
use super::modules::ItemId;
use super::names::NameReplacer;
use super::public::PublicPath;
use super::spell::text;

/// The lines of one item as they are written, at the place where it is shown.
pub(super) struct ItemLines<'a, 'b> {
    names: &'a mut NameReplacer<'b>,
    place: &'a PublicPath,
    lines: Vec<ApiLine>,
}

/// The lines of an item, without those of its implementations.
pub(super) fn lines(id: ItemId, place: &PublicPath, names: &mut NameReplacer<'_>) -> Vec<ApiLine> {
    let item = &names.scope.source.items[id].item;
    let mut shown = ItemLines { names, place, lines: Vec::new() };
    shown.item(item);
    shown.lines
}

impl ItemLines<'_, '_> {
    fn item(&mut self, item: &Item) {
        let path = self.place.path.join("::");
        match item {
            Item::Const(item) => {
                let ty = self.names.text(&*item.ty);
                self.declare(&item.attrs, format!("pub const {path}: {ty}"));
            }
            Item::Static(item) => {
                let ty = self.names.text(&*item.ty);
                self.declare(&item.attrs, format!("pub static {path}: {ty}"));
            }
            Item::Fn(item) => {
                let function = function(self.names, &item.sig, &path, &[]);
                self.declare(&item.attrs, format!("pub {function}"));
            }
            Item::Type(item) => {
                let (generics, bounds) = self.generics(&item.generics);
                let ty = self.names.text(&*item.ty);
                self.declare(&item.attrs, format!("pub type {path}{generics} = {ty}{bounds}"));
            }
            Item::Macro(item) => self.declare(&item.attrs, format!("macro_rules! {path}")),
            Item::Struct(item) => self.structure(item),
            Item::Union(item) => self.declare(&item.attrs, format!("pub union {path}")),
            Item::Enum(item) => self.enumeration(item),
            Item::Trait(item) => self.interface(item),
            other => self.declare(&[], format!("{path}: {}", text(other))),
        }
    }

    fn structure(&mut self, item: &syn::ItemStruct) {
        let path = self.place.path.join("::");
        let (generics, bounds) = self.generics(&item.generics);
        let is_public = |field: &syn::Field| matches!(field.vis, Visibility::Public(_));
        let tail = match &item.fields {
            Fields::Unit => format!("{bounds};"),
            Fields::Unnamed(fields) => {
                let fields = fields.unnamed.iter();
                let shown = fields.map(|field| match is_public(field) {
                    true => format!("pub {}", self.names.text(&field.ty)),
                    false => "_".to_owned(),
                });
                format!("({}){bounds}", shown.collect::<Vec<_>>().join(", "))
            }
            Fields::Named(fields) if fields.named.iter().all(is_public) => bounds,
            Fields::Named(_) => format!("{bounds} {{ .. }}"),
        };
        self.declare(&item.attrs, format!("pub struct {path}{generics}{tail}"));
        let Fields::Named(fields) = &item.fields else { return };
        for field in fields.named.iter().filter(|field| is_public(field)) {
            let Some(name) = &field.ident else { continue };
            let ty = self.names.text(&field.ty);
            self.part(&field.attrs, &name.to_string(), format!("pub {path}::{name}: {ty}"));
        }
    }

    fn enumeration(&mut self, item: &syn::ItemEnum) {
        let path = self.place.path.join("::");
        let (generics, bounds) = self.generics(&item.generics);
        self.declare(&item.attrs, format!("pub enum {path}{generics}{bounds}"));
        for variant in &item.variants {
            let name = variant.ident.to_string();
            let fields = self.variant_fields(&variant.fields);
            let value = variant.discriminant.as_ref();
            let value = value.map(|(_, value)| format!(" = {}", self.names.text(value)));
            let text = format!("{path}::{name}{fields}{}", value.unwrap_or_default());
            self.part(&variant.attrs, &name, text);
        }
    }

    fn variant_fields(&mut self, fields: &Fields) -> String {
        let texts = fields.iter().map(|field| {
            let name = field.ident.as_ref().map(|name| format!("{name}: "));
            format!("{}{}", name.unwrap_or_default(), self.names.text(&field.ty))
        });
        let texts = texts.collect::<Vec<_>>().join(", ");
        match fields {
            Fields::Unit => String::new(),
            Fields::Unnamed(_) => format!("({texts})"),
            Fields::Named(_) => format!(" {{ {texts} }}"),
        }
    }

    fn interface(&mut self, item: &syn::ItemTrait) {
        let path = self.place.path.join("::");
        let (generics, bounds) = self.generics(&item.generics);
        let supers = bounded(self.names, &item.supertraits);
        self.declare(&item.attrs, format!("pub trait {path}{generics}{supers}{bounds}"));
        for item in &item.items {
            self.interface_item(&path, item);
        }
    }

    fn interface_item(&mut self, path: &str, item: &TraitItem) {
        match item {
            TraitItem::Const(item) => {
                let ty = self.names.text(&item.ty);
                let given = if item.default.is_some() { " = .." } else { "" };
                let text = format!("const {path}::{}: {ty}{given}", item.ident);
                self.part(&item.attrs, &item.ident.to_string(), text);
            }
            TraitItem::Fn(item) => {
                let name = item.sig.ident.to_string();
                let function = function(self.names, &item.sig, &format!("{path}::{name}"), &[]);
                let given = if item.default.is_some() { " { .. }" } else { "" };
                self.part(&item.attrs, &name, format!("{function}{given}"));
            }
            TraitItem::Type(item) => {
                let (generics, where_clause) = self.generics(&item.generics);
                let bounds = bounded(self.names, &item.bounds);
                let text = format!("type {path}::{}{generics}{bounds}{where_clause}", item.ident);
                self.part(&item.attrs, &item.ident.to_string(), text);
            }
            other => self.declare(&[], format!("{path}: {}", text(other))),
        }
    }

    /// The generic parameters of the item and its `where`.
    fn generics(&mut self, generics: &Generics) -> (String, String) {
        self.names.know(generics);
        (parameters(self.names, generics), where_clause(&predicates(self.names, generics)))
    }

    fn declare(&mut self, attributes: &[Attribute], text: String) {
        let start = format!("{}{}", prefix(&self.place.conditions), marks(attributes));
        let line = ApiLine::new(&self.place.path, Rank::Declaration, format!("{start}{text}"));
        self.lines.push(line);
    }

    /// A field, a variant or an item of a trait.
    fn part(&mut self, attributes: &[Attribute], name: &str, text: String) {
        let Some(own) = conditions(attributes) else { return };
        let start = format!("{}{}", prefix(&(&self.place.conditions | &own)), marks(attributes));
        let mut path = self.place.path.clone();
        path.push(name.to_owned());
        self.lines.push(ApiLine::new(&path, Rank::Declaration, format!("{start}{text}")));
    }
}

/// A function with its path in place of its name. `outer` has the bounds of the `impl` around it.
pub(super) fn function(
    names: &mut NameReplacer<'_>,
    signature: &syn::Signature,
    path: &str,
    outer: &[String],
) -> String {
    names.know(&signature.generics);
    let generics = parameters(names, &signature.generics);
    let inputs: Vec<_> = signature.inputs.iter().map(|input| names.text(input)).collect();
    let output = match &signature.output {
        syn::ReturnType::Default => String::new(),
        output => format!(" {}", names.text(output)),
    };
    let own = predicates(names, &signature.generics);
    let clause = where_clause(&outer.iter().cloned().chain(own).collect::<Vec<_>>());
    let words = [
        signature.constness.map(|_| "const ".to_owned()),
        signature.asyncness.map(|_| "async ".to_owned()),
        matches!(signature.safety, syn::Safety::Unsafe(_)).then(|| "unsafe ".to_owned()),
        signature.abi.as_ref().map(|abi| format!("{} ", text(abi))),
    ];
    let words: String = words.into_iter().flatten().collect();
    format!("{words}fn {path}{generics}({}){output}{clause}", inputs.join(", "))
}

/// `<'a, T: Bound>`, or nothing.
pub(super) fn parameters(names: &mut NameReplacer<'_>, generics: &Generics) -> String {
    let texts: Vec<_> = generics.params.iter().map(|parameter| names.text(parameter)).collect();
    if texts.is_empty() { String::new() } else { format!("<{}>", texts.join(", ")) }
}

/// The bounds in the `where` of a declaration.
pub(super) fn predicates(names: &mut NameReplacer<'_>, generics: &Generics) -> Vec<String> {
    let clause = generics.where_clause.iter();
    clause.flat_map(|clause| &clause.predicates).map(|demand| names.text(demand)).collect()
}

/// ` where A: B, C: D`, or nothing.
pub(super) fn where_clause(predicates: &[String]) -> String {
    if predicates.is_empty() { String::new() } else { format!(" where {}", predicates.join(", ")) }
}

/// `: A + B`, or nothing.
fn bounded<'a>(
    names: &mut NameReplacer<'_>,
    bounds: impl IntoIterator<Item = &'a syn::TypeParamBound>,
) -> String {
    let texts: Vec<_> = bounds.into_iter().map(|bound| names.text(bound)).collect();
    if texts.is_empty() { String::new() } else { format!(": {}", texts.join(" + ")) }
}

/// The attributes of an item that bind its users.
pub(super) fn marks(attributes: &[Attribute]) -> String {
    let marks = attributes.iter().filter_map(|attribute| {
        let is = |name| attribute.path().is_ident(name);
        let is_hidden = is("doc") && text(&attribute.meta) == "doc(hidden)";
        match () {
            () if is_hidden || is("non_exhaustive") || is("repr") => Some(text(&attribute.meta)),
            () if is("deprecated") => Some("deprecated".to_owned()),
            () => None,
        }
    });
    marks.map(|mark| format!("#[{mark}] ")).collect()
}

/// The conditions of something inside of an item, if it can exist at all.
pub(super) fn inner(outer: &Conditions, attributes: &[Attribute]) -> Option<Conditions> {
    conditions(attributes).map(|own| outer | &own)
}
