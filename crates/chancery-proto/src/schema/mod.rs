//! The descriptors of every message that a resource may contain.
//!
//! [`Schema::bundled`] knows all of xDS v3, v2 and Envoy's contrib extensions, as `build.rs` found
//! them. [`Schema::with_descriptor_set`] adds a user's own extensions. The discovery services,
//! their paths and their types come from the descriptors too ([`Schema::services`], S-001, [RPC
//! Services and
//! Methods](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#rpc-services-and-methods-for-each-variant)),
//! so a route cannot be misspelt.
//!
//! A `Schema` is a shared pointer: clones are cheap.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use chancery_core::TypeUrl;
use prost::Message;
use prost_reflect::{
    DescriptorError, DescriptorPool, DynamicMessage, FileDescriptor, MessageDescriptor,
    MethodDescriptor, ServiceDescriptor,
};

use crate::rules::Rules;

/// The known messages and services.
#[derive(Clone)]
pub struct Schema {
    pool: DescriptorPool,
    /// The words by which a text is known to hold secrets of messages that a user added, once
    /// somebody has asked.
    secret_words: Arc<OnceLock<BTreeSet<String>>>,
    /// The rules of the messages, once somebody has asked.
    rules: Arc<OnceLock<Rules>>,
}

/// A discovery service: one that answers `DiscoveryRequest`s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The full name, as in `envoy.service.cluster.v3.ClusterDiscoveryService`.
    pub name: String,
    /// Its methods.
    pub methods: Vec<Method>,
}

/// A method of a discovery service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method {
    /// The name alone, as in `StreamClusters`.
    pub name: String,
    /// The path of the method in gRPC: `/SERVICE/METHOD`.
    pub path: String,
    /// The form of its requests and responses.
    pub kind: MethodKind,
    /// The type of its resources. It is `None` for the aggregated service, whose requests state the
    /// type.
    pub type_url: Option<TypeUrl>,
    /// The path in REST, if the method has one.
    pub rest_path: Option<String>,
    /// True for a method of v2.
    pub v2: bool,
}

/// The forms in which a method sends resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodKind {
    /// A stream on which each response is the state of the world.
    Sotw,
    /// A stream of changes.
    Delta,
    /// One request and one response, as in REST.
    Fetch,
}

/// The reason why a descriptor set cannot be used; its author is at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The bytes are no `FileDescriptorSet`, an import is missing, or a definition contradicts a
    /// known one.
    #[error("the bytes are no complete `FileDescriptorSet`")]
    Descriptors(#[source] DescriptorError),
}

impl Schema {
    /// The descriptors that are built into Chancery. They are decoded once, on first use.
    pub fn bundled() -> Self {
        static BUNDLED: LazyLock<Schema> = LazyLock::new(|| {
            let bytes: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
            let pool = DescriptorPool::decode(bytes).expect("build.rs decoded the same bytes");
            Schema::of(pool)
        });
        BUNDLED.clone()
    }

    /// Adds the files of an encoded `FileDescriptorSet`, which contains its imports or relies on
    /// known ones. A file with a known name is skipped, and the known file stays.
    ///
    /// # Errors
    /// Fails if the bytes are no descriptor set, an import is missing, or a name is defined twice.
    pub fn with_descriptor_set(&self, bytes: &[u8]) -> Result<Self, SchemaError> {
        let mut pool = self.pool.clone();
        pool.decode_file_descriptor_set(bytes).map_err(SchemaError::Descriptors)?;
        Ok(Self::of(pool))
    }

    fn of(pool: DescriptorPool) -> Self {
        Self { pool, secret_words: Arc::default(), rules: Arc::default() }
    }

    /// The message of a type URL. The prefix of the URL may be anything or missing.
    pub fn message(&self, type_url: &str) -> Option<MessageDescriptor> {
        self.pool.get_message_by_name(TypeUrl::message_name_in(type_url))
    }

    /// The pool of all descriptors.
    pub fn pool(&self) -> &DescriptorPool {
        &self.pool
    }

    /// The rules of the messages. They are read once, on first use, which takes some milliseconds.
    pub fn rules(&self) -> &Rules {
        self.rules.get_or_init(|| Rules::new(&self.pool))
    }

    /// The words of `sensitive` for the messages that a user added, which are worked out once.
    pub(crate) fn secret_words(
        &self,
        find: impl FnOnce() -> BTreeSet<String>,
    ) -> &BTreeSet<String> {
        self.secret_words.get_or_init(find)
    }

    /// The discovery services in the order of their names, without those of v2 unless `v2` is true.
    pub fn services(&self, v2: bool) -> Vec<Service> {
        let mut services: Vec<_> =
            self.discovery_services(v2).map(|(_, service)| service).collect();
        services.sort_by(|one, other| one.name.cmp(&other.name));
        services
    }

    /// An encoded `FileDescriptorSet` with the discovery services and all their imports, imports
    /// first, and nothing else. gRPC reflection shows these.
    pub fn service_descriptors(&self, v2: bool) -> Vec<u8> {
        let mut closure = Closure::default();
        for (service, _) in self.discovery_services(v2) {
            closure.add(&service.parent_file());
        }
        closure.set.encode_to_vec()
    }

    fn discovery_services(
        &self,
        v2: bool,
    ) -> impl Iterator<Item = (ServiceDescriptor, Service)> + '_ {
        self.pool.services().filter_map(move |descriptor| {
            let service = Service::of(&descriptor)?;
            let wanted = v2 || service.methods.iter().all(|method| !method.v2);
            wanted.then_some((descriptor, service))
        })
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schema({} files)", self.pool.files().len())
    }
}

impl Service {
    /// Reads a service. The result is `None` if it has no method that answers discovery requests,
    /// or if it states no type although it is not the aggregated service (the service of rate limit
    /// servers).
    fn of(descriptor: &ServiceDescriptor) -> Option<Self> {
        let type_url = resource_type(descriptor);
        if type_url.is_none() && descriptor.name() != "AggregatedDiscoveryService" {
            return None;
        }
        let methods: Vec<_> = descriptor
            .methods()
            .filter_map(|method| Method::of(descriptor, &method, type_url.as_ref()))
            .collect();
        let name = descriptor.full_name().to_owned();
        (!methods.is_empty()).then_some(Self { name, methods })
    }
}

impl Method {
    fn of(
        service: &ServiceDescriptor,
        descriptor: &MethodDescriptor,
        type_url: Option<&TypeUrl>,
    ) -> Option<Self> {
        let input = descriptor.input();
        let (package, message) = input.full_name().rsplit_once('.')?;
        let v2 = match package {
            "envoy.service.discovery.v3" => false,
            "envoy.api.v2" => true,
            _ => return None,
        };
        let kind = match message {
            "DiscoveryRequest" if descriptor.is_client_streaming() => MethodKind::Sotw,
            "DiscoveryRequest" => MethodKind::Fetch,
            "DeltaDiscoveryRequest" => MethodKind::Delta,
            _ => return None,
        };
        Some(Self {
            name: descriptor.name().to_owned(),
            path: format!("/{}/{}", service.full_name(), descriptor.name()),
            kind,
            type_url: type_url.cloned(),
            rest_path: rest_path(descriptor),
            v2,
        })
    }
}

/// The option `(envoy.annotations.resource).type` of a service.
fn resource_type(service: &ServiceDescriptor) -> Option<TypeUrl> {
    let pool = service.parent_pool();
    let name = text_option(pool, &service.options(), "envoy.annotations.resource", "type")?;
    Some(TypeUrl::new(&name))
}

/// The option `(google.api.http).post` of a method.
fn rest_path(method: &MethodDescriptor) -> Option<String> {
    text_option(method.parent_pool(), &method.options(), "google.api.http", "post")
}

/// A text field of an option that is a message; `None` if it is not set.
pub(crate) fn text_option(
    pool: &DescriptorPool,
    options: &DynamicMessage,
    extension: &str,
    field: &str,
) -> Option<String> {
    let extension = pool.get_extension_by_name(extension)?;
    let option = options.get_extension(&extension);
    let text = option.as_message()?.get_field_by_name(field)?.as_str()?.to_owned();
    (!text.is_empty()).then_some(text)
}

/// Files with all their imports, imports first.
#[derive(Default)]
struct Closure {
    names: BTreeSet<String>,
    set: EncodedSet,
}

/// A `FileDescriptorSet` with encoded files, so that options which are extensions are not lost.
#[derive(Clone, PartialEq, Message)]
struct EncodedSet {
    #[prost(bytes = "vec", repeated, tag = "1")]
    files: Vec<Vec<u8>>,
}

impl Closure {
    fn add(&mut self, file: &FileDescriptor) {
        if !self.names.insert(file.name().to_owned()) {
            return;
        }
        for import in file.dependencies() {
            self.add(&import);
        }
        self.set.files.push(file.encode_to_vec());
    }
}

#[cfg(test)]
mod tests;
