//! One resource: a name, the bytes that are sent, and the few facts that the machines need.
//!
//! The core cannot read a body. Where the protocol depends on the content of one (the endpoints a
//! cluster waits for, the domains of a virtual host), the core reads [`Facts`], which
//! `chancery-proto` extracts when it builds the resource.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::encodings::{Form, ResourceEncodings};
use crate::{ResourceName, TypeUrl};

/// A version. Equal texts mean equal content, and nothing else follows from a text (S-030,
/// [resource type instance
/// version](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#ack-nack-and-resource-type-instance-version)).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// A hash of the content: the same on every replica and after every restart (S-031).
    Content(u128),
    /// A text that a library user stated; clients get it unchanged.
    Explicit(Arc<str>),
}

/// One resource: immutable, encoded once, shared by every stream.
#[derive(Clone)]
pub struct Resource {
    name: ResourceName,
    body: Bytes,
    content: u128,
    version: Version,
    ttl: Option<Duration>,
    aliases: Vec<ResourceName>,
    facts: Facts,
    encodings: ResourceEncodings,
}

/// The facts about a body that the machines need and cannot read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The resources this one refers to, as far as they come from a management server: the load
    /// assignment of a cluster, the routes of a listener, the clusters of a route, and so on.
    pub links: Vec<Link>,
    /// The domains of a virtual host, as they are in its body (S-092,
    /// [VHDS](https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/vhds)).
    pub hosts: Vec<Box<str>>,
    /// The addresses that a listener has for itself: Envoy refuses the second listener with one of them. Of a scope
    /// of routes the key, likewise.
    pub addresses: Vec<Box<str>>,
    /// The digest of the `vhds` field of a route configuration, if it has one (S-094).
    pub vhds: Option<u128>,
    /// True for a cluster whose loads are reported to the server that gave it (C-082).
    pub reports_to_server: bool,
    /// True for a cluster that is made of others, those of its links that lead to clusters.
    pub is_aggregate: bool,
    /// True if a field holds a secret, whatever the type (S-137): strangers are not sent the
    /// resource.
    pub sensitive: bool,
    /// The number of endpoints in a load assignment or a cluster, or of routes in a route
    /// configuration, a virtual host or a listener. It says how much a client loses with the resource.
    pub parts: u32,
}

/// A reference from one resource to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The type of the resource that is referred to.
    pub type_url: TypeUrl,
    /// Its name.
    pub name: ResourceName,
    /// True if the client asks for the resource on the stream that the referring one came on
    /// (`ads`, `self`).
    pub aggregated: bool,
}

impl Version {
    /// Returns true if a client wrote this version.
    pub fn matches(&self, wire: &str) -> bool {
        match self {
            Self::Content(hash) => *wire.as_bytes() == digits(*hash),
            Self::Explicit(text) => **text == *wire,
        }
    }

    /// The version as it stands on the wire.
    pub(crate) fn to_text(&self) -> Arc<str> {
        match self {
            // The digits are text; the general way is for the compiler.
            Self::Content(hash) => match std::str::from_utf8(&digits(*hash)) {
                Ok(digits) => digits.into(),
                Err(_) => self.to_string().into(),
            },
            Self::Explicit(text) => Arc::clone(text),
        }
    }

    pub(crate) fn hash_into(&self, hash: &mut Xxh3) {
        match self {
            Self::Content(content) => hash.update(&content.to_le_bytes()),
            Self::Explicit(text) => hash.update(text.as_bytes()),
        }
    }
}

/// The digits of a hash. A reconnecting client states thousands of versions, and writing one as
/// text to compare is much cheaper than reading each as a number.
fn digits(hash: u128) -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(hash.to_be_bytes()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Content(hash) => write!(f, "{hash:032x}"),
            Self::Explicit(text) => f.write_str(text),
        }
    }
}

impl Resource {
    /// A resource whose version is a hash of its content.
    ///
    /// `body` is the encoded message alone, without the `Any` around it. For versions that are
    /// equal across replicas it must be canonical: the same content, the same bytes.
    pub fn new(name: ResourceName, body: Bytes) -> Self {
        let content = xxh3_128(&body);
        let version = Version::Content(content);
        Self {
            name,
            body,
            content,
            version,
            ttl: None,
            aliases: Vec::new(),
            facts: Facts::default(),
            encodings: ResourceEncodings::default(),
        }
    }

    /// Lets clients forget the resource when it has not been refreshed for `ttl` (S-086).
    #[must_use]
    pub fn with_ttl(mut self, ttl: Option<Duration>) -> Self {
        self.ttl = ttl;
        self.hash_again()
    }

    /// Adds other names the resource is found under (S-091).
    #[must_use]
    pub fn with_aliases(mut self, aliases: Vec<ResourceName>) -> Self {
        self.aliases = aliases;
        self.hash_again()
    }

    /// States the version instead of hashing the content. The caller promises that it changes
    /// exactly when the content does.
    #[must_use]
    pub fn with_version(mut self, version: &str) -> Self {
        self.version = Version::Explicit(version.into());
        self.encodings = ResourceEncodings::default();
        self
    }

    /// Adds the facts that the machines need and cannot read.
    #[must_use]
    pub fn with_facts(mut self, facts: Facts) -> Self {
        self.facts = facts;
        self
    }

    /// The name.
    pub fn name(&self) -> &ResourceName {
        &self.name
    }

    /// The encoded message.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The version of this content.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The time for which a client may use the resource without a refresh.
    pub fn ttl(&self) -> Option<Duration> {
        self.ttl
    }

    /// The other names that the resource is found under.
    pub fn aliases(&self) -> &[ResourceName] {
        &self.aliases
    }

    /// The encoding of this resource as one of this type and in this form. If there is none yet,
    /// `encode` makes it.
    pub fn encoding(
        &self,
        type_url: &TypeUrl,
        form: Form,
        encode: impl FnOnce() -> Bytes,
    ) -> Bytes {
        self.encodings.get_or_encode(type_url, form, encode)
    }

    /// The JSON of this resource as one of this type. If there is none yet, `write` writes it.
    ///
    /// # Errors
    /// The error of `write`.
    pub fn json<E>(
        &self,
        type_url: &TypeUrl,
        write: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        self.encodings.get_or_write_json(type_url, write)
    }

    /// The facts about the body.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The rough size of an entry on the wire: the body, the name twice, and the wrapping.
    pub(crate) fn entry_size(&self) -> usize {
        self.body.len() + 2 * self.name.as_str().len() + 128
    }

    /// The load assignment that a cluster waits for on the stream it came on.
    pub(crate) fn endpoints(&self) -> Option<&ResourceName> {
        let links = self.facts.links.iter().filter(|link| link.aggregated);
        links.filter(|link| link.type_url.api() == crate::Api::Eds).map(|link| &link.name).next()
    }

    /// The share of this resource in the version of its type. The version is the sum of the shares:
    /// it does not depend on the order of resources, and is kept up to date in O(changed).
    pub(crate) fn share_of_type_version(&self) -> u128 {
        let mut hash = Xxh3::new();
        hash.update(self.name.as_str().as_bytes());
        hash.update(&[0]);
        self.version.hash_into(&mut hash);
        hash.digest128()
    }

    /// Computes the version again. A client has to be sent a new TTL or alias too, so these count
    /// as content.
    fn hash_again(mut self) -> Self {
        let mut hash = Xxh3::new();
        hash.update(&self.body);
        if let Some(ttl) = self.ttl {
            hash.update(&ttl.as_nanos().to_le_bytes());
        }
        for alias in &self.aliases {
            hash.update(alias.as_str().as_bytes());
            hash.update(&[0]);
        }
        self.content = hash.digest128();
        self.encodings = ResourceEncodings::default();
        if let Version::Content(_) = self.version {
            self.version = Version::Content(self.content);
        }
        self
    }
}

/// Two resources of one name are the same if their versions are, and what a stated version may not
/// tell: TTL, aliases and facts. The bodies do not count, because the same content can be written in
/// several ways.
impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
            && self.name == other.name
            && self.ttl == other.ttl
            && self.aliases == other.aliases
            && self.facts == other.facts
    }
}
impl Eq for Resource {}

/// A body may contain secrets and is never printed (S-138).
impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{} ({} bytes)", self.name, self.version, self.body.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(body: &'static str) -> Resource {
        Resource::new("a".parse().unwrap(), Bytes::from_static(body.as_bytes()))
    }

    #[test]
    fn a_version_names_content_and_nothing_else() {
        // S-031, S-078
        assert_eq!(resource("x").version(), resource("x").version());
        assert_ne!(resource("x").version(), resource("y").version());
        let text = resource("x").version().to_string();
        assert!(resource("x").version().matches(&text));
        assert!(!resource("y").version().matches(&text));
    }

    #[test]
    fn a_changed_ttl_or_alias_is_a_changed_resource() {
        let plain = resource("x");
        let ttl = resource("x").with_ttl(Some(Duration::from_secs(3)));
        let alias = resource("x").with_aliases(vec!["b".parse().unwrap()]);
        assert_ne!(plain.version(), ttl.version());
        assert_ne!(plain.version(), alias.version());
        assert_eq!(ttl.with_ttl(None).version(), plain.version());
    }

    #[test]
    fn an_explicit_version_comes_back_verbatim() {
        let resource = resource("x").with_version("v 1\u{e9}").with_ttl(None);
        assert_eq!(resource.version().to_string(), "v 1\u{e9}");
        assert!(resource.version().matches("v 1\u{e9}"));
    }

    #[test]
    fn a_body_is_never_printed() {
        // S-138
        assert!(!format!("{:?}", resource("secret")).contains("secret"));
    }
}
