//! From a decoded message to a resource of the core, and from bytes to a decoded message.
//!
//! The name comes from the body unless a [`Wrapper`] gives one, the bytes are canonical, and the
//! facts the machines need are read out. A type nobody registered is served like any other, as
//! long as it comes as bytes with a name: those bytes are kept as they are.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::{Api, Facts, InvalidName, Link, Resource, ResourceName, TypeUrl};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage};

use crate::schema::Schema;
use crate::{canonical, facts};

mod v2;
pub use v2::to_v2;

/// What `envoy.service.discovery.v3.Resource` says around a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wrapper {
    /// The name, where it is not the body's.
    pub name: Option<String>,
    /// How long a client may use the resource without hearing of it.
    pub ttl: Option<Duration>,
    /// Other names it is found under.
    pub aliases: Vec<String>,
}

/// Why a body is no resource: the fault of who wrote it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// Neither the body nor a wrapper names it.
    #[error("a `{type_name}` has no name of its own and needs a `Resource` with one around it")]
    Unnamed {
        /// The message.
        type_name: String,
    },
    /// A virtual host is asked for by the name of its route configuration too (S-092), which its
    /// body does not say.
    #[error(
        "virtual host `{name}` needs a `Resource` around it, named `ROUTE_CONFIGURATION/{name}`"
    )]
    UnnamedHost {
        /// The name in the body.
        name: String,
    },
    /// The field that names it is empty.
    #[error("a `{type_name}` has an empty `{field}`")]
    EmptyName {
        /// The message.
        type_name: String,
        /// Its naming field.
        field: String,
    },
    /// The name is malformed.
    #[error("a `{type_name}` has a malformed name")]
    Name {
        /// The message.
        type_name: String,
        /// What is wrong with it.
        source: InvalidName,
    },
    /// An `xdstp:` name embeds the type of its resource, and this is another one (S-116).
    #[error("`{name}` names a `{named}`, but the resource is a `{type_name}`")]
    TypeInName {
        /// The name as written.
        name: String,
        /// The type in it.
        named: String,
        /// The message.
        type_name: String,
    },
    /// A glob collection is asked for, and is never itself a resource (S-117).
    #[error("`{name}` names a collection of `{type_name}`, and no single one")]
    Glob {
        /// The name as written.
        name: String,
        /// The message.
        type_name: String,
    },
    /// The bytes are not of the type they are said to be.
    #[error("the bytes are no `{type_name}`")]
    Decode {
        /// The message.
        type_name: String,
        /// What the decoder met.
        source: prost::DecodeError,
    },
}

impl ResourceError {
    /// This and what is behind it, in one line.
    pub(crate) fn with_causes(&self) -> String {
        let mut message = self.to_string();
        let mut source = self.source();
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        message
    }
}

/// The resource with this message for a body.
///
/// # Errors
/// When it has no name, or a wrong one.
pub fn resource(
    type_url: &TypeUrl,
    message: &DynamicMessage,
    wrapper: Wrapper,
) -> Result<Resource, ResourceError> {
    let name = match &wrapper.name {
        Some(name) => checked_name(type_url, name)?,
        None => checked_name(type_url, &name_in(type_url, message)?)?,
    };
    let facts = facts::facts(type_url, message);
    build(type_url, name, canonical::encode(message).into(), facts, wrapper)
}

/// The resource with these bytes for a body: made canonical if the type is known, kept if not.
///
/// # Errors
/// When the bytes are not of the type, or it has no name, or a wrong one.
pub fn resource_from_bytes(
    schema: &Schema,
    type_url: &TypeUrl,
    bytes: &Bytes,
    wrapper: Wrapper,
) -> Result<Resource, ResourceError> {
    let type_name = type_url.message_name();
    let Some(descriptor) = schema.message(type_name) else {
        let unnamed = || ResourceError::Unnamed { type_name: type_name.to_owned() };
        let name = checked_name(type_url, wrapper.name.as_deref().ok_or_else(unnamed)?)?;
        return build(type_url, name, bytes.clone(), Facts::default(), wrapper);
    };
    let message = DynamicMessage::decode(descriptor, bytes.clone())
        .map_err(|source| ResourceError::Decode { type_name: type_name.to_owned(), source })?;
    resource(type_url, &message, wrapper)
}

/// What a body refers to: nothing, if it is not of its type.
pub fn links(schema: &Schema, type_url: &TypeUrl, body: &Bytes) -> Vec<Link> {
    let Some(descriptor) = schema.message(type_url.as_str()) else { return Vec::new() };
    let message = DynamicMessage::decode(descriptor, body.clone());
    message.map_or_else(|_| Vec::new(), |message| facts::facts(type_url, &message).links)
}

fn build(
    type_url: &TypeUrl,
    name: ResourceName,
    body: Bytes,
    facts: Facts,
    wrapper: Wrapper,
) -> Result<Resource, ResourceError> {
    let aliases = wrapper.aliases.iter().map(|alias| checked_name(type_url, alias));
    Ok(Resource::new(name, body)
        .with_ttl(wrapper.ttl)
        .with_aliases(aliases.collect::<Result<_, _>>()?)
        .with_facts(facts))
}

fn name_in(type_url: &TypeUrl, message: &DynamicMessage) -> Result<String, ResourceError> {
    let field = naming_field(&message.descriptor());
    let text =
        |field: &FieldDescriptor| message.get_field(field).as_str().unwrap_or_default().to_owned();
    own_name(type_url, field.as_ref().map(|field| (field.name(), text(field))))
}

/// The field in which bodies of a type name themselves.
pub(crate) fn naming_field(descriptor: &MessageDescriptor) -> Option<FieldDescriptor> {
    let fields = ["name", "cluster_name"].into_iter();
    let is_text = |field: &FieldDescriptor| field.kind() == Kind::String && !field.is_list();
    fields.filter_map(|name| descriptor.get_field_by_name(name)).find(is_text)
}

/// The name that a body gives itself; `found` is the naming field of its type, and what it says.
pub(crate) fn own_name(
    type_url: &TypeUrl,
    found: Option<(&str, String)>,
) -> Result<String, ResourceError> {
    let type_name = || type_url.message_name().to_owned();
    match found {
        None => Err(ResourceError::Unnamed { type_name: type_name() }),
        Some((field, name)) if name.is_empty() => {
            Err(ResourceError::EmptyName { type_name: type_name(), field: field.to_owned() })
        }
        Some((_, name)) if type_url.api() == Api::Vhds && !name.contains('/') => {
            Err(ResourceError::UnnamedHost { name })
        }
        Some((_, name)) => Ok(name),
    }
}

/// Whether this is the type of what goes around a resource; the prefix does not matter.
pub(crate) fn is_wrapper(type_url: &str) -> bool {
    let name = type_url.rsplit_once('/').map_or(type_url, |(_, name)| name);
    matches!(name, "envoy.service.discovery.v3.Resource" | "envoy.api.v2.Resource")
}

fn checked_name(type_url: &TypeUrl, text: &str) -> Result<ResourceName, ResourceError> {
    let type_name = || type_url.message_name().to_owned();
    let name = ResourceName::parse(text)
        .map_err(|source| ResourceError::Name { type_name: type_name(), source })?;
    if name.is_glob() {
        return Err(ResourceError::Glob { name: text.to_owned(), type_name: type_name() });
    }
    if let Some(parts) = name.xdstp()
        && parts.type_name != type_url.message_name()
    {
        let named = parts.type_name.to_owned();
        let name = text.to_owned();
        return Err(ResourceError::TypeInName { name, named, type_name: type_name() });
    }
    Ok(name)
}

#[cfg(test)]
mod tests;
