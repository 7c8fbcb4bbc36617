//! The descriptor pool: every message the resources of a server may be made of.
//!
//! [`Schema::bundled`] knows all of xDS v3, the old v2 and Envoy's contrib extensions, as `build.rs`
//! found them; [`Schema::with_descriptor_set`] adds a user's own extensions. Which discovery
//! services exist, under which paths and for which resources, is read from the descriptors too
//! ([`Schema::services`], S-001), so a route cannot be misspelt.
//!
//! A `Schema` is a shared pointer: cloning it is cheap.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use chancery_core::TypeUrl;
use prost::Message;
use prost_reflect::{
    DescriptorError, DescriptorPool, DynamicMessage, FileDescriptor, MessageDescriptor,
    MethodDescriptor, ServiceDescriptor,
};

/// All messages and services that are known.
#[derive(Clone)]
pub struct Schema {
    pool: DescriptorPool,
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
    /// How it speaks.
    pub kind: MethodKind,
    /// What it discovers; `None` for the aggregated service, where each request says.
    pub type_url: Option<TypeUrl>,
    /// Where it is found in REST, for methods that are.
    pub rest_path: Option<String>,
    /// Whether it belongs to v2 of the protocol.
    pub v2: bool,
}

/// The ways to ask for resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodKind {
    /// A stream on which each response is the state of the world.
    Sotw,
    /// A stream of changes.
    Delta,
    /// One question, one answer; the form of REST.
    Fetch,
}

/// Why a descriptor set cannot be used: the fault of who made it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// Its bytes are no `FileDescriptorSet`, or it lacks an import, or contradicts what is known.
    #[error("the bytes are no complete `FileDescriptorSet`")]
    Descriptors(#[source] DescriptorError),
}

impl Schema {
    /// What this build of Chancery knows by itself. It is decoded once, on first use.
    pub fn bundled() -> Self {
        static BUNDLED: LazyLock<Schema> = LazyLock::new(|| {
            let bytes: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
            let pool = DescriptorPool::decode(bytes).expect("build.rs decoded the same bytes");
            Schema { pool }
        });
        BUNDLED.clone()
    }

    /// This schema and the files of an encoded `FileDescriptorSet`, which holds its imports too
    /// or relies on what is known already. A file of a known name is skipped: the known one stays.
    ///
    /// # Errors
    /// When the bytes are no descriptor set, an import is missing, or a name is defined twice.
    pub fn with_descriptor_set(&self, bytes: &[u8]) -> Result<Self, SchemaError> {
        let mut pool = self.pool.clone();
        pool.decode_file_descriptor_set(bytes).map_err(SchemaError::Descriptors)?;
        Ok(Self { pool })
    }

    /// The message of a type URL; its prefix may be anything or missing.
    pub fn message(&self, type_url: &str) -> Option<MessageDescriptor> {
        let name = type_url.rsplit_once('/').map_or(type_url, |(_, name)| name);
        self.pool.get_message_by_name(name)
    }

    /// The descriptors themselves.
    pub fn pool(&self) -> &DescriptorPool {
        &self.pool
    }

    /// The discovery services (Appendix A), by name; those of v2 if `v2`.
    pub fn services(&self, v2: bool) -> Vec<Service> {
        let mut services: Vec<_> =
            self.discovery_services(v2).map(|(_, service)| service).collect();
        services.sort_by(|one, other| one.name.cmp(&other.name));
        services
    }

    /// An encoded `FileDescriptorSet` with the discovery services and all they import, imports
    /// first, and nothing else: what gRPC reflection shows.
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
    /// `None` if it has no method that answers discovery requests, or does not say for which
    /// resources although it is not the aggregated service (that of rate limit servers).
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

/// Files with everything they import, imports first.
#[derive(Default)]
struct Closure {
    names: BTreeSet<String>,
    set: EncodedSet,
}

/// A `FileDescriptorSet` whose files are encoded already, with the options that are extensions.
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
