//! A `DiscoveryResponse` in protobuf's wire format.
//!
//! Binary files have no lines, so a fault names the resource by its index in the response.

use prost_reflect::{DynamicMessage, Value as Field};

use super::Parsed;
use super::collect::{Collector, Location};
use super::tree::RESPONSE;
use crate::schema::Schema;
use crate::syntax::Fault;

/// The resources of a response.
pub(super) fn parse(schema: &Schema, bytes: &[u8]) -> Parsed {
    let mut collector = Collector::default();
    let response =
        schema.message(RESPONSE).map(|descriptor| DynamicMessage::decode(descriptor, bytes));
    let response = match response {
        Some(Ok(response)) => response,
        Some(Err(error)) => {
            let fault = Fault::new(format!("no `DiscoveryResponse`: {error}"));
            collector.parsed.faults.push(fault);
            return collector.parsed;
        }
        None => return collector.parsed,
    };
    let resources = response.get_field_by_name("resources");
    let resources = resources.as_deref().and_then(Field::as_list).unwrap_or_default();
    if resources.is_empty() && response.unknown_fields().next().is_some() {
        // Most bytes decode as something: an empty response with unknown fields is not a real one.
        let fault = Fault::new("no `DiscoveryResponse`: it has no resources, but unknown fields");
        collector.parsed.faults.push(fault);
    }
    for (index, any) in resources.iter().enumerate() {
        let place = Location { node: None, path: format!("resources[{index}]") };
        if let Some(any) = any.as_message() {
            collector.add_any(schema, any, &place);
        }
    }
    collector.parsed.faults.iter_mut().for_each(|fault| fault.confidential = true);
    collector.parsed
}
