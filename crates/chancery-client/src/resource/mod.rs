//! Resources, and the values that a program makes of them.

#[cfg(feature = "envoy-types")]
mod envoy_types;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use chancery_core::client::ServerId;
pub use chancery_core::client::{CachedResource, DecodedBody};
pub use chancery_core::{
    Api, InvalidName, Resource, ResourceName, Time, TypeRules, TypeUrl, Version,
};
use chancery_proto::reply::Decoder;

use crate::drop_later::DropLater;

/// A type of resources, decoded and checked.
///
/// An error of [`decode`](Self::decode) rejects the resource, and the server is sent the reason.
/// The other resources of the same response are used.
///
/// ```
/// use bytes::Bytes;
/// use chancery_client::ResourceType;
///
/// /// A cluster, as far as this program cares.
/// struct Cluster(Bytes);
///
/// impl ResourceType for Cluster {
///     const TYPE_URL: &'static str = "envoy.config.cluster.v3.Cluster";
///
///     fn decode(_name: &str, body: &Bytes) -> Result<Self, String> {
///         if body.is_empty() { Err("it is empty".to_owned()) } else { Ok(Self(body.clone())) }
///     }
/// }
/// ```
pub trait ResourceType: Send + Sync + Sized + 'static {
    /// The full name of the message; `type.googleapis.com/` may be left out.
    const TYPE_URL: &'static str;

    /// Reads a body.
    ///
    /// # Errors
    /// The reason why the body cannot be used, for the operator of the server. It must quote no
    /// secrets.
    fn decode(name: &str, body: &Bytes) -> Result<Self, String>;
}

/// A resource that came from a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Received<T> {
    /// The value that the type made of it; `()` for bytes.
    pub value: Arc<T>,
    /// Its name and bytes.
    pub resource: Arc<Resource>,
    /// The version of the resource, if the protocol has one; otherwise that of its response.
    pub version: Arc<str>,
    /// The URI of the server that it came from.
    pub server: Arc<str>,
    /// The id of that server, for [`Client::server`](crate::Client::server).
    pub server_id: ServerId,
}

/// The decoders of all types that are watched as values.
#[derive(Default)]
pub(crate) struct Decoders(RwLock<HashMap<TypeUrl, Decode>>);

type Decode = Arc<dyn Fn(&str, &Bytes) -> Result<DecodedBody, String> + Send + Sync>;

impl Decoders {
    /// Decodes bodies of the type as `T` from now on, unless another type came first.
    pub(crate) fn add<T: ResourceType>(&self, type_url: &TypeUrl) {
        self.add_function(type_url, T::decode);
    }

    /// Decodes bodies of the type by a function from now on, unless another one came first.
    pub(crate) fn add_function<T: ResourceType>(
        &self,
        type_url: &TypeUrl,
        decode: impl Fn(&str, &Bytes) -> Result<T, String> + Send + Sync + 'static,
    ) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.entry(type_url.clone()).or_insert_with(|| {
            Arc::new(move |name, body| {
                let value = DropLater::new(Arc::new(decode(name, body)?));
                Ok(DecodedBody(Arc::new(value)))
            })
        });
    }
}

impl Decoder for Decoders {
    fn decode(
        &self,
        type_url: &TypeUrl,
        name: &ResourceName,
        body: &Bytes,
    ) -> Result<Option<DecodedBody>, String> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let decode = all.get(type_url).cloned();
        drop(all);
        decode.map(|decode| decode(name.as_str(), body)).transpose()
    }
}

/// Returns the value of a resource. It was decoded when it arrived, unless its client did not decode
/// resources as `T` then.
///
/// # Errors
/// The reason why it is no `T`. There is none for a resource that was decoded as one.
pub fn decoded<T: ResourceType>(cached: &CachedResource) -> Result<Arc<T>, String> {
    let value = cached.decoded.as_ref().and_then(|decoded| decoded.0.downcast_ref::<DropLater>());
    if let Some(value) = value.and_then(DropLater::get) {
        return Ok(value);
    }
    T::decode(cached.resource.name().as_str(), cached.resource.body()).map(Arc::new)
}
