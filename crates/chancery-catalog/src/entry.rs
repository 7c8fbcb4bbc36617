//! Entries: what a layer says of resources, and where each comes from.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use chancery_core::{Resource, ResourceName, TypeUrl};
use chancery_proto::document::Position;
use chancery_proto::patch::Patch;
use chancery_proto::values::NodeValues;

/// The type and the name that a resource is found under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The type of the resource.
    pub type_url: TypeUrl,
    /// Its name.
    pub name: ResourceName,
}

/// The word of a layer about a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The resource, or its difference from the one below.
    pub content: EntryContent,
    /// The place it comes from.
    pub origin: Origin,
    /// The relation of the resource to what stands at that place.
    pub form: Form,
    /// The fields of the resource that differ by node.
    pub values: Option<Arc<NodeValues>>,
}

/// A resource as a layer has it: all of it, or how it differs from that of the layers below.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryContent {
    /// The resource, in place of any of that name below.
    Whole(Arc<Resource>),
    /// Some fields of the resource below are others.
    Patch(Arc<Patch>),
    /// The resource below of this name is not there.
    Removal(ResourceName),
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

    /// The key of what a layer says of a resource of this type.
    pub fn of_content(type_url: &TypeUrl, content: &EntryContent) -> Self {
        Self { type_url: type_url.clone(), name: content.name().clone() }
    }
}

impl Entry {
    /// A resource that stands at its origin.
    pub fn new(resource: impl Into<Arc<Resource>>, origin: Origin) -> Self {
        Self::of(EntryContent::Whole(resource.into()), origin)
    }

    /// An entry with this content, which stands at its origin.
    pub fn of(content: EntryContent, origin: Origin) -> Self {
        Self { content, origin, form: Form::Written, values: None }
    }

    /// The same entry, with fields that differ by node.
    #[must_use]
    pub fn with_values(self, values: Option<Arc<NodeValues>>) -> Self {
        Self { values, ..self }
    }

    /// Returns true if both say the same, wherever it stands.
    pub fn says_same(&self, other: &Self) -> bool {
        let digest = |entry: &Self| entry.values.as_ref().map(|values| values.digest());
        self.content.says_same(&other.content) && digest(self) == digest(other)
    }

    /// Returns true if both have the same content by having the same pieces of memory. Removals have none.
    pub(crate) fn is_identical(&self, other: &Self) -> bool {
        let is_same = match (&self.content, &other.content) {
            (EntryContent::Whole(one), EntryContent::Whole(other)) => Arc::ptr_eq(one, other),
            (EntryContent::Patch(one), EntryContent::Patch(other)) => Arc::ptr_eq(one, other),
            (EntryContent::Removal(_), EntryContent::Removal(_)) => true,
            _ => false,
        };
        let values = match (&self.values, &other.values) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        is_same && values
    }

    /// The resource, if it is whole.
    pub fn resource(&self) -> Option<&Arc<Resource>> {
        self.content.resource()
    }

    /// A resource that is made of the one at its origin.
    pub fn derived(resource: impl Into<Arc<Resource>>, origin: Origin) -> Self {
        Self { form: Form::Derived, ..Self::new(resource, origin) }
    }
}

impl EntryContent {
    /// The resource, if it is whole.
    pub fn resource(&self) -> Option<&Arc<Resource>> {
        match self {
            Self::Whole(resource) => Some(resource),
            Self::Patch(_) | Self::Removal(_) => None,
        }
    }

    /// Returns true if both say the same, wherever the fields of a patch stand.
    pub fn says_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Patch(one), Self::Patch(other)) => {
                one.name() == other.name() && one.digest() == other.digest()
            }
            (one, other) => one == other,
        }
    }

    /// The name of the resource.
    pub fn name(&self) -> &ResourceName {
        match self {
            Self::Whole(resource) => resource.name(),
            Self::Patch(patch) => patch.name(),
            Self::Removal(name) => name,
        }
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
