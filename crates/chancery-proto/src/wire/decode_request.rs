//! Reading discovery requests by hand.
//!
//! An acknowledgement is a few bytes for every response, and a client that reconnects may name ten
//! thousand resources. So texts are copied directly to where they are kept, and fields that nobody
//! uses are skipped. The messages inside are rare, and `prost` decodes them.

use std::sync::Arc;

use chancery_core::server::RequestLimits;
use chancery_core::{DeltaRequest, ErrorDetail, Names, SotwRequest};

use super::fields::{Fields, Outcome, located, merge, pair, text};
use super::node::WireNode;
use super::node_memory::count_node;
use super::{DecodeError, WireStatus};
use crate::request_size::RequestSize;

/// Decodes a `DiscoveryRequest` of v3 or v2, of any size.
///
/// # Errors
/// Fails if the bytes are no such message, or one that is nested too deeply.
pub fn decode_sotw(bytes: &[u8]) -> Result<SotwRequest, DecodeError> {
    decode_sotw_within(bytes, &RequestLimits::NONE)
}

/// Decodes a `DiscoveryRequest` of v3 or v2 that keeps to the limits.
///
/// # Errors
/// As [`decode_sotw`], and if the request exceeds a limit.
pub fn decode_sotw_within(
    bytes: &[u8],
    limits: &RequestLimits,
) -> Result<SotwRequest, DecodeError> {
    sotw(bytes, limits).map_err(|source| DecodeError { expected: "DiscoveryRequest", source })
}

/// Decodes a `DeltaDiscoveryRequest` of v3 or v2, of any size.
///
/// # Errors
/// Fails if the bytes are no such message, or one that is nested too deeply.
pub fn decode_delta(bytes: &[u8]) -> Result<DeltaRequest, DecodeError> {
    decode_delta_within(bytes, &RequestLimits::NONE)
}

/// Decodes a `DeltaDiscoveryRequest` of v3 or v2 that keeps to the limits.
///
/// # Errors
/// As [`decode_delta`], and if the request exceeds a limit.
pub fn decode_delta_within(
    bytes: &[u8],
    limits: &RequestLimits,
) -> Result<DeltaRequest, DecodeError> {
    delta(bytes, limits).map_err(|source| DecodeError { expected: "DeltaDiscoveryRequest", source })
}

fn sotw(bytes: &[u8], limits: &RequestLimits) -> Outcome<SotwRequest> {
    let mut size = RequestSize::new(limits);
    let mut request = SotwRequest::default();
    let (mut node, mut error) = (None, None);
    let mut fields = Fields(bytes);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => request.version = text(value)?.into(),
            2 => merge_node(&mut node, value, &mut size)?,
            3 => push(&mut request.names, text(value)?, &mut size)?,
            4 => request.type_url = type_url(value, &size)?,
            5 => request.nonce = text(value)?.into(),
            6 => merge::<WireStatus>(&mut error, value)?,
            // Locators name resources too; their parameters are ignored. Without them, a request
            // that has only locators would look like one without names, which can mean everything
            // (S-050).
            7 => push(&mut request.names, located(value)?, &mut size)?,
            _ => {}
        }
    }
    request.node = node.map(|node| Arc::new(node.into()));
    request.error = error.map(ErrorDetail::from);
    Ok(request)
}

fn delta(bytes: &[u8], limits: &RequestLimits) -> Outcome<DeltaRequest> {
    let mut size = RequestSize::new(limits);
    let mut request = DeltaRequest::default();
    let (mut node, mut error) = (None, None);
    let mut fields = Fields(bytes);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => merge_node(&mut node, value, &mut size)?,
            2 => request.type_url = type_url(value, &size)?,
            3 => push(&mut request.subscribe, text(value)?, &mut size)?,
            4 => push(&mut request.unsubscribe, text(value)?, &mut size)?,
            5 => {
                let (name, version) = pair(value)?;
                size.add_name(request.initial_versions.len(), name, version)?;
                request.initial_versions.push(name, version);
            }
            6 => request.nonce = text(value)?.into(),
            7 => merge::<WireStatus>(&mut error, value)?,
            8 => push(&mut request.subscribe, located(value)?, &mut size)?,
            9 => push(&mut request.unsubscribe, located(value)?, &mut size)?,
            _ => {}
        }
    }
    request.node = node.map(|node| Arc::new(node.into()));
    request.error = error.map(ErrorDetail::from);
    Ok(request)
}

fn push(names: &mut Names, name: &str, size: &mut RequestSize) -> Outcome<()> {
    size.add_name(names.len(), name, "")?;
    names.push(name);
    Ok(())
}

fn type_url(value: &[u8], size: &RequestSize) -> Outcome<Arc<str>> {
    let type_url = text(value)?;
    size.check_type_url(type_url)?;
    Ok(type_url.into())
}

/// Decodes a node within its limits.
pub(super) fn merge_node(
    node: &mut Option<WireNode>,
    value: &[u8],
    size: &mut RequestSize,
) -> Outcome<()> {
    size.add_node(value.len())?;
    let memory = size.node_memory();
    if !memory.has_room_for(value.len()) {
        count_node(value, memory)?;
    }
    merge(node, value)
}
