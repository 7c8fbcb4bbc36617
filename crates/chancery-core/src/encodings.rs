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
    /// The resource as JSON, for polls over REST. Few servers have any, so it is in a box.
    json: OnceLock<Box<Bytes>>,
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
        match self.of(type_url) {
            Some(kept) => kept.encodings.place(form).get_or_init(encode).clone(),
            None => encode(),
        }
    }

    /// The JSON of the resource as one of this type. If there is none yet, `write` writes it; what
    /// cannot be written is not kept.
    pub(crate) fn get_or_write_json<E>(
        &self,
        type_url: &TypeUrl,
        write: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        let Some(kept) = self.of(type_url) else { return write() };
        if let Some(json) = kept.json.get() {
            return Ok((**json).clone());
        }
        let written = write()?;
        Ok((**kept.json.get_or_init(|| Box::new(written))).clone())
    }

    /// The places for the encodings as one type; `None` if they are taken by another type, because
    /// one resource under two types is rare.
    fn of(&self, type_url: &TypeUrl) -> Option<&TypedEncodings> {
        let kept = self.0.get_or_init(|| {
            let (encodings, json) = (PerForm::default(), OnceLock::new());
            Box::new(TypedEncodings { type_url: type_url.clone(), encodings, json })
        });
        (kept.type_url == *type_url).then_some(kept)
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
