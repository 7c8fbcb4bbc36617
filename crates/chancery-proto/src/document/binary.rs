//! A `DiscoveryResponse` in protobuf's wire format.
//!
//! Binary files have no lines, so a fault names the resource by its index in the response.

use prost_reflect::{DynamicMessage, Value as Field};

use super::collect::{Collector, Location};
use super::dialect::Dialect;
use super::tree::RESPONSE;
use super::{Checks, Parsed};
use crate::schema::Schema;
use crate::syntax::{Fault, FaultList};

/// The resources of a response.
pub(super) fn parse(schema: &Schema, bytes: &[u8], checks: Checks) -> Parsed {
    let mut collector = Collector::new(checks);
    let response =
        schema.message(RESPONSE).map(|descriptor| DynamicMessage::decode(descriptor, bytes));
    let response = match response {
        Some(Ok(response)) => response,
        Some(Err(error)) => {
            let fault = Fault::new(format!("no `DiscoveryResponse`: {error}"));
            return Parsed { faults: vec![fault.confidential()], ..Parsed::default() };
        }
        None => return Parsed::default(),
    };
    let resources = response.get_field_by_name("resources");
    let resources = resources.as_deref().and_then(Field::as_list).unwrap_or_default();
    if resources.is_empty() && response.unknown_fields().next().is_some() {
        // Most bytes decode as something: an empty response with unknown fields is not a real one.
        let fault = Fault::new("no `DiscoveryResponse`: it has no resources, but unknown fields");
        collector.faults.push(|| fault);
    }
    for (index, any) in resources.iter().enumerate() {
        let path = format!("resources[{index}]");
        let place = Location { node: None, dialect: Dialect::Json, path };
        if let Some(any) = any.as_message() {
            collector.add_any(schema, any, &place);
        }
    }
    let (faults, more_faults) = FaultList::merged([std::mem::take(&mut collector.faults)]);
    let faults = faults.into_iter().map(Fault::confidential).collect();
    let (violations, more_violations) = collector.violations(true);
    // An empty message is encoded as no bytes. A response that is meant has a field at least.
    let (resources, is_blank) = (collector.resources, bytes.is_empty());
    let edits = Vec::new();
    Parsed { resources, edits, faults, more_faults, violations, more_violations, is_blank }
}
