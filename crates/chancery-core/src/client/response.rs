//! A response as a client reads it: decoded, each resource judged, nothing decided yet.
//!
//! The core cannot read a body. The driver hands over what its decoders said of each resource,
//! good or bad, and the machine decides what that means for the response and for the watchers.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{NameError, Resource, ResourceName, TypeUrl, Variant};

/// A `DiscoveryResponse` or a `DeltaDiscoveryResponse`, received.
#[derive(Clone, Debug)]
pub struct Response {
    /// Which of the two messages it was.
    pub variant: Variant,
    /// The type it is about.
    pub type_url: TypeUrl,
    /// SotW `version_info`, delta `system_version_info`.
    pub version: Arc<str>,
    /// What the answer has to carry.
    pub nonce: Arc<str>,
    /// The resources, or what is wrong with them.
    pub resources: Vec<Result<ResponseItem, InvalidResource>>,
    /// Names that are no more. Delta only.
    pub removed: Vec<Arc<str>>,
    /// Why names are not given.
    pub errors: Vec<NameError>,
}

/// One resource of a response that can be used.
#[derive(Clone, Debug)]
pub enum ResponseItem {
    /// It has a body.
    Resource(ReceivedResource),
    /// It has none.
    Heartbeat(HeartbeatResource),
}

/// A resource with its body.
#[derive(Clone, Debug)]
pub struct ReceivedResource {
    /// Name, body, TTL and aliases; the version is explicit where the protocol gave one.
    pub resource: Arc<Resource>,
    /// What a decoder made of the body.
    pub decoded: Option<DecodedBody>,
}

/// A wrapper without a body: the resource lives on unchanged (a heartbeat), or its aliases cannot
/// be resolved.
#[derive(Clone, Debug)]
pub struct HeartbeatResource {
    /// The name in the wrapper.
    pub name: ResourceName,
    /// Further names in the wrapper.
    pub aliases: Vec<ResourceName>,
    /// The version in the wrapper.
    pub version: Arc<str>,
    /// How long the resource may be used from now on.
    pub ttl: Option<Duration>,
}

/// A resource that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidResource {
    /// Which one, if that can be told.
    pub name: Option<ResourceName>,
    /// What is wrong, for the server's operator.
    pub why: String,
}

impl ResponseItem {
    /// Returns all names of the resource.
    pub(super) fn names(&self) -> impl Iterator<Item = &ResourceName> {
        let (name, aliases) = match self {
            Self::Resource(received) => (received.resource.name(), received.resource.aliases()),
            Self::Heartbeat(heartbeat) => (&heartbeat.name, heartbeat.aliases.as_slice()),
        };
        std::iter::once(name).chain(aliases)
    }
}

impl HeartbeatResource {
    /// Returns all names of the resource.
    pub(super) fn names(&self) -> impl Iterator<Item = &ResourceName> {
        std::iter::once(&self.name).chain(&self.aliases)
    }
}

impl fmt::Display for InvalidResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "`{name}`: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

impl Response {
    /// Finds this fault with all of it, also if there is nothing in it.
    pub fn reject(&mut self, why: &str) {
        let flaw = |name| Err(InvalidResource { name, why: why.to_owned() });
        for item in &mut self.resources {
            *item = flaw(match item {
                Ok(ResponseItem::Resource(given)) => Some(given.resource.name().clone()),
                Ok(ResponseItem::Heartbeat(bare)) => Some(bare.name.clone()),
                Err(found) => found.name.take(),
            });
        }
        if self.resources.is_empty() {
            self.resources.push(flaw(None));
        }
        self.removed.clear();
        self.errors.clear();
    }
}

/// What a decoder made of a body. Opaque here, and shared by all watchers.
#[derive(Clone)]
pub struct DecodedBody(pub Arc<dyn Any + Send + Sync>);

/// What was read may hold secrets (S-138).
impl fmt::Debug for DecodedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DecodedBody")
    }
}
