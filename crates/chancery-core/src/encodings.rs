//! Places for encodings, beside what they are encodings of.
//!
//! The core knows no encoding. It keeps the places, so that the bytes live as long as what they are
//! made of, and a driver fills them, each once.

use std::sync::OnceLock;

use bytes::Bytes;

use crate::TypeUrl;

/// The form of the entries of a response. For one type, a resource has one encoding in each form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Bare resources, in SotW.
    Bare,
    /// Resources in a wrapper, in SotW (S-085).
    Wrapped,
    /// Resources in a wrapper, in delta (S-084).
    Delta,
}

/// A place for each form.
pub(crate) struct PerForm<T>([OnceLock<T>; 3]);

/// The places for the encodings of one resource: none until there is one, because most resources
/// are sent in one form, and many as parts of lists only. A copy begins anew.
#[derive(Default)]
pub(crate) struct ResourceEncodings(OnceLock<Box<TypedEncodings>>);

/// The encodings of a resource of one type.
struct TypedEncodings {
    type_url: TypeUrl,
    encodings: PerForm<Bytes>,
}

impl ResourceEncodings {
    /// The encoding of the resource, of this type and in a form, made by `encode` if nobody did
    /// before.
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
            return encode(); // The same body under another type: that is rare.
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
