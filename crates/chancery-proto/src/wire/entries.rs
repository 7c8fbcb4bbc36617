//! The resources of a response, encoded by hand so that each body is copied once.
//!
//! Most of them are encoded once for all responses that contain them, because the segments of a
//! response keep their encodings. In protobuf the parts of a message may stand one after another in
//! any number, so a response is the list of these bytes.
//!
//! A SotW entry is an `Any`, or an `Any` around a `Resource` (S-085, [SotW
//! TTL](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#sotw-ttl)). A delta entry
//! is a `Resource` (S-084,
//! [`discovery.proto`](https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/discovery/v3/discovery.proto#envoy-v3-api-msg-service-discovery-v3-resource)).
//! Both responses have their entries in field 2.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes};
use chancery_core::server::{Form, Response, ResponseEntry, Segment};
use chancery_core::{Resource, TypeUrl};
use prost::encoding::encode_varint;

use super::encode_tail;
use super::put::{field_size, put_field, put_header};

/// Encodes the `resources` of a response: the bytes of each of its segments, one after another.
pub fn encode_entries(response: &Response) -> impl Iterator<Item = Bytes> + '_ {
    let (type_url, form) = (&response.type_url, response.form());
    let put = move |out: &mut Vec<u8>, entry: &ResponseEntry| put_entry(out, type_url, form, entry);
    response.entries.segments().iter().map(move |segment| match segment {
        Segment::Run(run) => {
            run.encoding(form, |out, resource| put(out, &ResponseEntry::of(resource)))
        }
        Segment::Resource(resource) => encode_resource(type_url, form, resource),
        Segment::Own(entry) => alone(type_url, form, entry),
    })
}

/// Encodes a resource under its own name, as a segment of a response. The bytes are kept with the
/// resource, so they are the same the next time.
pub fn encode_resource(type_url: &TypeUrl, form: Form, resource: &Arc<Resource>) -> Bytes {
    resource.encoding(type_url, form, || alone(type_url, form, &ResponseEntry::of(resource)))
}

fn alone(type_url: &TypeUrl, form: Form, entry: &ResponseEntry) -> Bytes {
    let mut out = Vec::with_capacity(room_for(entry));
    put_entry(&mut out, type_url, form, entry);
    Bytes::from(out)
}

/// Encodes a whole response, for a server that sends it once.
pub fn encode_response(response: &Response, control_plane: &str) -> Vec<u8> {
    let mut out = Vec::new();
    encode_entries(response).for_each(|segment| out.put_slice(&segment));
    out.put_slice(&encode_tail(response, control_plane));
    out
}

fn put_entry(out: &mut Vec<u8>, type_url: &TypeUrl, form: Form, entry: &ResponseEntry) {
    match (form, &entry.resource) {
        (Form::Bare, Some(resource)) => put_any(out, type_url.as_str(), &body(entry, resource)),
        (Form::Bare | Form::Wrapped, _) => {
            put_any(out, wrapper_of(type_url), &wrapped(type_url, entry));
        }
        (Form::Delta, _) => put_field(out, 2, &wrapped(type_url, entry)),
    }
}

/// Encodes a `Resource`. Without a body it is a heartbeat (S-087) or says that an alias cannot be
/// resolved (S-093); the latter has no version either.
fn wrapped(type_url: &TypeUrl, entry: &ResponseEntry) -> Vec<u8> {
    let mut out = Vec::with_capacity(room_for(entry));
    put_field(&mut out, 3, entry.name.as_bytes());
    for alias in &entry.aliases {
        put_field(&mut out, 4, alias.as_bytes());
    }
    let Some(resource) = &entry.resource else { return out };
    put_field(&mut out, 1, resource.version().to_string().as_bytes());
    if !entry.heartbeat {
        put_any(&mut out, type_url.as_str(), &body(entry, resource));
    }
    if let Some(ttl) = resource.ttl().filter(|_| entry.ttl) {
        put_field(&mut out, 6, &duration(ttl));
    }
    out
}

/// The type URL of the wrapper `Resource`, which has a name of its own in v2.
fn wrapper_of(type_url: &TypeUrl) -> &'static str {
    let name = type_url.message_name();
    if name.starts_with("envoy.api.v2.") || name.starts_with("envoy.service.discovery.v2.") {
        "type.googleapis.com/envoy.api.v2.Resource"
    } else {
        "type.googleapis.com/envoy.service.discovery.v3.Resource"
    }
}

/// The body, with its name in the spelling that the client asked for (S-062, S-114).
///
/// Only an `xdstp:` name has several spellings. A canonical body begins with its name, which is
/// field 1 of every type that has one. If a field occurs twice, the last one counts.
fn body<'a>(entry: &ResponseEntry, resource: &'a Resource) -> Cow<'a, [u8]> {
    let body = resource.body();
    match own_name(body) {
        Some(own) if own.starts_with(b"xdstp://") && *own != *entry.name.as_bytes() => {
            let mut respelled = body.to_vec();
            put_field(&mut respelled, 1, entry.name.as_bytes());
            respelled.into()
        }
        _ => Cow::Borrowed(body),
    }
}

/// The value of field 1, if the body begins with it.
fn own_name(body: &[u8]) -> Option<&[u8]> {
    let mut rest = body.strip_prefix(&[1 << 3 | 2])?;
    let length = usize::try_from(prost::encoding::decode_varint(&mut rest).ok()?).ok()?;
    rest.get(..length)
}

/// Writes an `Any` as field 2: `resources` of a SotW response, `resource` of a `Resource`.
fn put_any(out: &mut Vec<u8>, type_url: &str, value: &[u8]) {
    let size = field_size(type_url.len()) + field_size(value.len());
    put_header(out, 2, size);
    put_field(out, 1, type_url.as_bytes());
    put_field(out, 2, value);
}

fn duration(time: Duration) -> Vec<u8> {
    let mut out = Vec::with_capacity(12);
    out.put_u8(1 << 3);
    encode_varint(time.as_secs(), &mut out);
    if time.subsec_nanos() > 0 {
        out.put_u8(2 << 3);
        encode_varint(time.subsec_nanos().into(), &mut out);
    }
    out
}

/// An estimate of the size of an entry. One that is too small costs a reallocation.
fn room_for(entry: &ResponseEntry) -> usize {
    const AROUND_A_BODY: usize = 192;
    let body = entry.resource.as_deref().map_or(0, |resource: &Resource| resource.body().len());
    AROUND_A_BODY + entry.name.len() + if entry.heartbeat { 0 } else { body }
}
