//! Resources of the core, made from decoded messages or from bytes.
//!
//! The name comes from the body unless a [`Wrapper`] gives one, the bytes are canonical, and the
//! facts that the machines need are read from the body. A resource of a type without descriptor is
//! served like any other if it comes as bytes with a name; its bytes are not changed. [`to_v2`]
//! converts a resource for v2 clients, [`links`] lists the references in a body, and [`domains`] and others
//! answer what traffic it takes, and [`refused_in_place`] if a client that runs can take another form of it.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::{Api, Facts, InvalidName, Link, Resource, ResourceName, TypeUrl};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage};

use crate::schema::Schema;
use crate::{canonical, facts, sensitive};

mod in_place;
mod routes;
mod subsets;
mod traffic;
mod v2;
mod wanted;
pub use in_place::{accepted_types, extension_type, refused_in_place, refused_in_turn};
pub use routes::{HostRoutes, host_routes};
pub use subsets::{
    LbMetadata, NoSubset, SubsetRequest, Subsets, lb_metadata, subset_requests, subsets,
};
pub use traffic::{domains, hands_over, is_unbound, lacks_endpoints, lacks_routes, unanswering};
pub use v2::to_v2;
pub use wanted::{ShownSecrets, WantedSecret, secret_kind, shown_secrets, wanted_secrets};

/// The fields of `envoy.service.discovery.v3.Resource` around a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wrapper {
    /// The name, if the wrapper has one.
    pub name: Option<String>,
    /// The time for which a client may use the resource without hearing of it again.
    pub ttl: Option<Duration>,
    /// Other names of the resource.
    pub aliases: Vec<String>,
}

/// The reason why a body is not a resource; its author is at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// Neither the body nor a wrapper names it.
    #[error("a `{type_name}` has no name of its own and needs a `Resource` with one around it")]
    Unnamed {
        /// The message type.
        type_name: String,
    },
    /// A virtual host is asked for by the name of its route configuration too (S-092), and its body
    /// does not contain that name.
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
        /// The message type.
        type_name: String,
        /// The field for the name.
        field: String,
    },
    /// The name is malformed.
    #[error("a `{type_name}` has a malformed name")]
    Name {
        /// The message type.
        type_name: String,
        /// The fault in the name.
        source: InvalidName,
    },
    /// An `xdstp:` name contains the type of its resource, and this one contains another type
    /// (S-116).
    #[error("`{name}` names a `{named}`, but the resource is a `{type_name}`")]
    TypeInName {
        /// The name as written.
        name: String,
        /// The type in the name.
        named: String,
        /// The message type.
        type_name: String,
    },
    /// The name is that of a glob collection, which can be asked for but is not a resource (S-117).
    #[error("`{name}` names a collection of `{type_name}`, and no single one")]
    Glob {
        /// The name as written.
        name: String,
        /// The message type.
        type_name: String,
    },
    /// The bytes are not of the type they are said to be.
    #[error("the bytes are no `{type_name}`")]
    Decode {
        /// The message type.
        type_name: String,
        /// The error of the decoder.
        source: prost::DecodeError,
    },
}

impl ResourceError {
    /// This error and its causes, in one line.
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

/// Creates the resource with this message as body.
///
/// # Errors
/// Fails if the resource has no name, or one that is not valid.
pub fn resource(
    type_url: &TypeUrl,
    message: &DynamicMessage,
    wrapper: Wrapper,
) -> Result<Resource, ResourceError> {
    let name = match &wrapper.name {
        Some(name) => checked_name(type_url, name)?,
        None => name_of(type_url, message)?,
    };
    let facts = facts::facts(type_url, message);
    build(type_url, name, canonical::encode(message).into(), facts, wrapper)
}

/// Creates the resource with these bytes as body. The bytes become canonical if the type is known,
/// and stay as they are if not.
///
/// # Errors
/// Fails if the bytes are not of the type, or if the resource has no name, or one that is not
/// valid.
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

/// The references in a body that requests follow: from listeners to routes, clusters and endpoints, and
/// not to the services that a data plane may call beside them (authorization, access logs). There are
/// none if the bytes are not of the type.
pub fn links(schema: &Schema, type_url: &TypeUrl, body: &Bytes) -> Vec<Link> {
    let message = decoded(schema, type_url, body);
    message.map_or_else(Vec::new, |message| facts::path_links(type_url, &message))
}

/// The paths of the fields in which a body refers to a resource, as in
/// `virtual_hosts[0].routes[1].route.cluster`, so many at most. There are none if the bytes are not of
/// the type.
pub fn places_of_link(
    schema: &Schema,
    type_url: &TypeUrl,
    body: &Bytes,
    target: &Link,
    most: usize,
) -> Vec<String> {
    let target = (&target.type_url, &target.name);
    let message = decoded(schema, type_url, body);
    message.map_or_else(Vec::new, |message| facts::places_of(type_url, &message, target, most))
}

/// The paths of all fields in which a body refers to resources of an API, with these, so many at most: one walk where
/// [`places_of_link`] needs one for each of them. There are none if the bytes are not of the type.
pub fn link_places(
    schema: &Schema,
    type_url: &TypeUrl,
    body: &Bytes,
    api: Api,
    most: usize,
) -> Vec<(String, Link)> {
    let message = decoded(schema, type_url, body);
    message.map_or_else(Vec::new, |message| facts::link_places(type_url, &message, api, most))
}

fn decoded(schema: &Schema, type_url: &TypeUrl, body: &Bytes) -> Option<DynamicMessage> {
    DynamicMessage::decode(schema.message(type_url.as_str())?, body.clone()).ok()
}

fn build(
    type_url: &TypeUrl,
    name: ResourceName,
    body: Bytes,
    facts: Facts,
    wrapper: Wrapper,
) -> Result<Resource, ResourceError> {
    // The canonical bytes have all texts as they are, those in an `Any` and in fields that no
    // descriptor has too.
    let sensitive = facts.sensitive || sensitive::has_private_key(&body);
    let facts = Facts { sensitive, ..facts };
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

/// The field in which messages of a type have their name.
pub(crate) fn naming_field(descriptor: &MessageDescriptor) -> Option<FieldDescriptor> {
    let fields = ["name", "cluster_name"].into_iter();
    let is_text = |field: &FieldDescriptor| field.kind() == Kind::String && !field.is_list();
    fields.filter_map(|name| descriptor.get_field_by_name(name)).find(is_text)
}

/// The name in a body. `found` is the naming field of its type with its text, and `None` for a type
/// without such a field.
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

/// The name that a message gives itself.
pub(crate) fn name_of(
    type_url: &TypeUrl,
    message: &DynamicMessage,
) -> Result<ResourceName, ResourceError> {
    checked_name(type_url, &name_in(type_url, message)?)
}

/// Returns true for the type of a wrapper, with any prefix.
pub(crate) fn is_wrapper(type_url: &str) -> bool {
    let name = TypeUrl::message_name_in(type_url);
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
