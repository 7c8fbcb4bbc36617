//! Entries: the resources of a layer, and where each comes from.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use chancery_core::{Resource, ResourceName, TypeUrl};
use chancery_proto::document::Position;

/// The type and the name that a resource is found under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The type of the resource.
    pub type_url: TypeUrl,
    /// Its name.
    pub name: ResourceName,
}

/// A resource of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The resource.
    pub resource: Arc<Resource>,
    /// The place it comes from.
    pub origin: Origin,
    /// The relation of the resource to what stands at that place.
    pub form: Form,
}

/// The place a resource comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// A file, and the place in it where the resource begins.
    File {
        /// The path of the file.
        path: Arc<Path>,
        /// The place in the file.
        position: Position,
    },
    /// A key of a key-value store.
    Key {
        /// The key, as the store spells it.
        key: Arc<str>,
    },
    /// Another management server.
    Peer {
        /// The address of the server.
        address: Arc<str>,
    },
    /// The program that Chancery is part of.
    Program {
        /// The part of the program, in words of its own.
        name: Arc<str>,
    },
}

/// The relation of a resource to what stands at its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The origin holds this resource.
    Written,
    /// The origin holds a resource of another type, which this one is made of (the v2 form of a v3
    /// resource, S-010).
    Derived,
}

impl Key {
    /// The key of a resource of this type.
    pub fn of(type_url: &TypeUrl, resource: &Resource) -> Self {
        Self { type_url: type_url.clone(), name: resource.name().clone() }
    }
}

impl Entry {
    /// A resource that stands at its origin.
    pub fn new(resource: impl Into<Arc<Resource>>, origin: Origin) -> Self {
        Self { resource: resource.into(), origin, form: Form::Written }
    }

    /// A resource that is made of the one at its origin.
    pub fn derived(resource: impl Into<Arc<Resource>>, origin: Origin) -> Self {
        Self { form: Form::Derived, ..Self::new(resource, origin) }
    }
}

impl Origin {
    /// A part of the program, by name.
    pub fn program(name: &str) -> Self {
        Self::Program { name: name.into() }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, position } => write!(f, "{}:{}", path.display(), position.line),
            Self::Key { key } => write!(f, "key `{key}`"),
            Self::Peer { address } => write!(f, "server `{address}`"),
            Self::Program { name } => write!(f, "program `{name}`"),
        }
    }
}
