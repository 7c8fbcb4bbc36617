//! A file of resources, read as the daemon reads its directory
//! ([C-043](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#filesystem-subscriptions)).

use chancery_core::client::{InvalidResource, ReceivedResource, Response, ResponseItem};
use chancery_core::{TypeUrl, Variant};
use xxhash_rust::xxh3::xxh3_128;

use super::Reader;
use crate::document::{Fault, Format, ParsedResource, parse};

pub(super) fn read(
    reader: &Reader,
    expected: &TypeUrl,
    format: Format,
    bytes: &[u8],
) -> Result<Response, Vec<Fault>> {
    let parsed = parse(&reader.schema, format, bytes);
    if !parsed.faults.is_empty() {
        return Err(parsed.faults);
    }
    // A file that was cut while it was written must not remove its resources.
    if parsed.is_blank {
        return Err(vec![Fault::new("is empty; where nothing is meant, an empty list says so")]);
    }
    let items = parsed.resources.into_iter().map(|resource| item(reader, expected, resource));
    Ok(Response {
        variant: Variant::Sotw,
        type_url: expected.clone(),
        // A hash of the content: nobody has to remember to change it.
        version: format!("{:032x}", xxh3_128(bytes)).into(),
        nonce: "".into(),
        resources: items.collect(),
        removed: Vec::new(),
        errors: Vec::new(),
    })
}

fn item(
    reader: &Reader,
    expected: &TypeUrl,
    parsed: ParsedResource,
) -> Result<ResponseItem, InvalidResource> {
    let ParsedResource { type_url, resource, position, .. } = parsed;
    let invalid = |why| InvalidResource { name: Some(resource.name().clone()), why };
    if type_url.message_name() != expected.message_name() {
        // The error has no name: a resource of the expected type may have the same one.
        let name = resource.name();
        let why = format!("{position}: `{name}` is a `{type_url}` in a file of `{expected}`");
        return Err(InvalidResource { name: None, why });
    }
    let reading =
        reader.decoder.decode(expected, resource.name(), resource.body()).map_err(invalid)?;
    Ok(ResponseItem::Resource(ReceivedResource { resource, decoded: reading }))
}
