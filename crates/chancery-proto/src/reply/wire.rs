//! Reads the two responses of gRPC by hand. Resources are most of their bytes, and are not copied
//! before they are checked.
//!
//! A fault in the bytes of one wrapper is an error of that resource alone.

use bytes::Bytes;
use chancery_core::client::Response;
use chancery_core::{NameError, TypeUrl, Variant};
use prost::Message;

use super::judge::{Judge, RawBody, RawResource, ttl};
use super::{Reader, canonical, canonical_error};
use crate::resource::is_wrapper;
use crate::wire::fields::{Fields, Outcome, located, merge, text};
use crate::wire::{DecodeError, Malformed, WireDuration, WireResourceError};

pub(super) fn read(
    reader: &Reader,
    variant: Variant,
    expected: Option<&TypeUrl>,
    message: &Bytes,
) -> Result<Response, DecodeError> {
    let expected_message = match variant {
        Variant::Sotw => "DiscoveryResponse",
        Variant::Delta => "DeltaDiscoveryResponse",
    };
    let fault = |source| DecodeError { expected: expected_message, source };
    let envelope = envelope(variant, message).map_err(fault)?;
    let type_url = match (envelope.type_url, expected) {
        ("", None) => return Err(fault(Malformed::Untyped)),
        ("", Some(expected)) => expected.clone(),
        (said, _) => TypeUrl::new(said),
    };
    let mut judge = Judge::new(reader, &type_url);
    let mut fields = Fields(message);
    while let Some((number, value)) = fields.next().map_err(fault)? {
        if number == RESOURCES {
            judge.add(match variant {
                Variant::Sotw => sotw_resource(message, value),
                Variant::Delta => wrapped(message, value),
            });
        }
    }
    Ok(Response {
        variant,
        version: envelope.version.into(),
        nonce: envelope.nonce.into(),
        resources: judge.finish(),
        removed: envelope.removed,
        errors: envelope.errors,
        type_url,
    })
}

/// The number of the field `resources`, in both messages.
const RESOURCES: u32 = 2;

/// The fields of a response other than `resources`. They are read first, because the type often
/// stands behind the resources.
#[derive(Default)]
struct Envelope<'a> {
    version: &'a str,
    type_url: &'a str,
    nonce: &'a str,
    removed: Vec<std::sync::Arc<str>>,
    errors: Vec<NameError>,
}

fn envelope(variant: Variant, message: &[u8]) -> Outcome<Envelope<'_>> {
    let mut envelope = Envelope::default();
    let mut fields = Fields(message);
    while let Some((number, value)) = fields.next()? {
        match (number, variant) {
            (1, _) => envelope.version = text(value)?,
            (4, _) => envelope.type_url = text(value)?,
            (5, _) => envelope.nonce = text(value)?,
            (6, Variant::Delta) => envelope.removed.push(canonical(text(value)?)),
            (8, Variant::Delta) => envelope.removed.push(canonical(located(value)?)),
            (7, Variant::Sotw) | (9, Variant::Delta) => envelope.errors.push(error(value)?),
            _ => {}
        }
    }
    Ok(envelope)
}

fn error(value: &[u8]) -> Outcome<NameError> {
    Ok(canonical_error(WireResourceError::decode(value)?.into()))
}

/// Reads an `Any` that contains a resource, or a wrapper around one (C-036).
fn sotw_resource<'m>(message: &Bytes, any: &'m [u8]) -> Result<RawResource<'m>, String> {
    let (type_url, value) = any_in(any).map_err(|fault| entry_fault(&fault, "Any"))?;
    if is_wrapper(type_url) {
        return wrapped(message, value);
    }
    Ok(RawResource {
        body: Some(RawBody { type_url, bytes: Ok(own_bytes(message, value)) }),
        ..RawResource::default()
    })
}

/// Reads a `Resource`.
fn wrapped<'m>(message: &Bytes, wrapper: &'m [u8]) -> Result<RawResource<'m>, String> {
    read_wrapper(message, wrapper).map_err(|fault| entry_fault(&fault, "Resource"))
}

fn read_wrapper<'m>(message: &Bytes, wrapper: &'m [u8]) -> Outcome<RawResource<'m>> {
    let mut entry = RawResource::default();
    let (mut body, mut span) = (None, None::<WireDuration>);
    let mut fields = Fields(wrapper);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => entry.version = text(value)?,
            2 => {
                // No serializer writes an `Any` in two parts; the last one counts.
                body = Some(any_in(value)?);
            }
            3 => entry.name = text(value)?.into(),
            4 => entry.aliases.push(text(value)?.into()),
            6 => merge(&mut span, value)?,
            // A `ResourceName`, which replaces an absent name.
            8 if entry.name.is_empty() => entry.name = located(value)?.into(),
            _ => {}
        }
    }
    entry.body =
        body.map(|(type_url, value)| RawBody { type_url, bytes: Ok(own_bytes(message, value)) });
    entry.ttl = span.map(|span| ttl(span.seconds, span.nanos));
    Ok(entry)
}

fn any_in(any: &[u8]) -> Outcome<(&str, &[u8])> {
    let (mut type_url, mut bytes) = ("", &[][..]);
    let mut fields = Fields(any);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => type_url = text(value)?,
            2 => bytes = value,
            _ => {}
        }
    }
    Ok((type_url, bytes))
}

fn entry_fault(fault: &Malformed, expected: &str) -> String {
    format!("an entry of `resources` is no `{expected}`: {fault}")
}

/// The bytes of a body, for the cache. A slice of the message would keep the whole message in
/// memory as long as one of its resources lives: twenty megabytes for one cluster, if the others
/// were replaced since. So the body is copied unless it is a large part of the message.
fn own_bytes(message: &Bytes, body: &[u8]) -> Bytes {
    if body.len() >= message.len() / 4 {
        message.slice_ref(body)
    } else {
        Bytes::copy_from_slice(body)
    }
}
