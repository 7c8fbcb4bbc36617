//! Aliases that users cannot name: the type behind one, with the arguments put in.
//!
//! The compiler looks through an alias, so a private one may stand in a public signature, and a
//! change of it is a change of the interface.

use std::collections::BTreeMap;

use syn::visit_mut::{self, VisitMut};
use syn::{GenericArgument, GenericParam, Generics, Lifetime, PathArguments, Type, TypePath};

/// The arguments of one use of an alias, by the name of the parameter.
#[derive(Default)]
pub(super) struct Arguments {
    types: BTreeMap<String, Type>,
    lifetimes: BTreeMap<String, Lifetime>,
}

impl Arguments {
    /// The arguments of an alias with these parameters as it is used; the defaults of those left out.
    pub(super) fn of(generics: &Generics, used: &TypePath) -> Self {
        let mut arguments = Self::default();
        let given = match used.path.segments.last().map(|part| &part.arguments) {
            Some(PathArguments::AngleBracketed(given)) => given.args.iter().collect(),
            _ => Vec::new(),
        };
        let mut lifetimes = given.iter().filter_map(|argument| match argument {
            GenericArgument::Lifetime(lifetime) => Some(lifetime.clone()),
            _ => None,
        });
        let mut types = given.iter().filter_map(|argument| match argument {
            GenericArgument::Type(ty) => Some(ty.clone()),
            _ => None,
        });
        for parameter in &generics.params {
            match parameter {
                GenericParam::Lifetime(parameter) => {
                    let name = parameter.lifetime.to_string();
                    arguments.lifetimes.extend(lifetimes.next().map(|given| (name, given)));
                }
                GenericParam::Type(parameter) => {
                    let default = parameter.default.as_ref().map(|(_, ty)| ty.clone());
                    let given = types.next().or(default);
                    arguments.types.extend(given.map(|given| (parameter.ident.to_string(), given)));
                }
                GenericParam::Const(_) => {}
            }
        }
        arguments
    }
}

impl VisitMut for Arguments {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        let parameter = match ty {
            Type::Path(path) if path.qself.is_none() => path.path.get_ident(),
            _ => None,
        };
        match parameter.and_then(|name| self.types.get(&name.to_string())) {
            Some(given) => *ty = given.clone(),
            None => visit_mut::visit_type_mut(self, ty),
        }
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if let Some(given) = self.lifetimes.get(&lifetime.to_string()) {
            *lifetime = given.clone();
        }
    }
}
