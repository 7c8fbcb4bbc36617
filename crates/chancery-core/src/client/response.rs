//! A response as a client reads it: decoded, each resource judged, nothing decided yet.
//!
//! The core cannot read a body. The driver hands over what its decoders said of each resource,
//! good or bad, and the machine decides what that means for the response and for the watchers.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::printable::Printable;
use crate::{NameError, Resource, ResourceName, TypeUrl, Variant};

/// A `DiscoveryResponse` or a `DeltaDiscoveryResponse`, received.
#[derive(Clone, Debug)]
pub struct Response {
    /// The form of the message.
    pub variant: Variant,
    /// The type it is about.
    pub type_url: TypeUrl,
    /// SotW `version_info`, delta `system_version_info`.
    pub version: Arc<str>,
    /// The nonce that the answer has to carry.
    pub nonce: Arc<str>,
    /// The resources, or the faults of those that cannot be used.
    pub resources: Vec<Result<ResponseItem, InvalidResource>>,
    /// The names that are no more. Delta only.
    pub removed: Vec<Arc<str>>,
    /// The reasons why names are not given.
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
    /// The body as a decoder read it.
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
    /// The time for which the resource may be used from now on.
    pub ttl: Option<Duration>,
}

/// A resource that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidResource {
    /// Its name, if that can be told.
    pub name: Option<ResourceName>,
    /// The fault, for the server's operator.
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
            Some(name) => write!(f, "`{}`: {}", Printable(name), Printable(&self.why)),
            None => write!(f, "{}", Printable(&self.why)),
        }
    }
}

impl Response {
    /// Makes all of its resources invalid for this reason, also if there are none.
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

/// A body as a decoder read it. It is opaque here, and shared by all watchers.
#[derive(Clone)]
pub struct DecodedBody(pub Arc<dyn Any + Send + Sync>);

/// A body may hold secrets (S-138).
impl fmt::Debug for DecodedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DecodedBody")
    }
}
