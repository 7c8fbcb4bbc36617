//! Places for encodings, beside the resources and lists that they encode.
//!
//! The core knows no encoding. It has the places, so that the bytes live as long as the resource or
//! list, and a driver fills each of them once.

use std::sync::OnceLock;

use bytes::Bytes;

use crate::TypeUrl;

/// The form of the entries of a response. A resource of one type has one encoding in each form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Resources without a wrapper, in SotW.
    Bare,
    /// Resources in a wrapper, in SotW (S-085, [SotW
    /// TTL](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#sotw-ttl)).
    Wrapped,
    /// Resources in a wrapper, in delta (S-084,
    /// [`Resource`](https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/discovery/v3/discovery.proto#envoy-v3-api-msg-service-discovery-v3-resource)).
    Delta,
}

/// A place for each form.
pub(crate) struct PerForm<T>([OnceLock<T>; 3]);

/// The places for the encodings of one resource. They are made for the first encoding, because most
/// resources are sent in one form, and many as parts of lists only. A clone has no encodings.
#[derive(Default)]
pub(crate) struct ResourceEncodings(OnceLock<Box<TypedEncodings>>);

/// The encodings of a resource of one type.
struct TypedEncodings {
    type_url: TypeUrl,
    encodings: PerForm<Bytes>,
}

impl ResourceEncodings {
    /// The encoding of the resource as one of this type and in this form. If there is none yet,
    /// `encode` makes it.
    pub(crate) fn get_or_encode(
        &self,
        type_url: &TypeUrl,
        form: Form,
        encode: impl FnOnce() -> Bytes,
    ) -> Bytes {
        let kept = self.0.get_or_init(|| {
            let encodings = PerForm::default();
            Box::new(TypedEncodings { type_url: type_url.clone(), encodings })
        });
        if kept.type_url != *type_url {
            return encode(); // One resource under two types is rare.
        }
        kept.encodings.place(form).get_or_init(encode).clone()
    }
}

impl<T> PerForm<T> {
    /// The place for one form.
    pub(crate) fn place(&self, form: Form) -> &OnceLock<T> {
        let [bare, wrapped, delta] = &self.0;
        match form {
            Form::Bare => bare,
            Form::Wrapped => wrapped,
            Form::Delta => delta,
        }
    }
}

impl<T> Default for PerForm<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| OnceLock::new()))
    }
}

impl Clone for ResourceEncodings {
    fn clone(&self) -> Self {
        Self::default()
    }
}
