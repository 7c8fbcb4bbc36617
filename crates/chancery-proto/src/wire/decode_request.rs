//! Reading discovery requests by hand.
//!
//! An acknowledgement is a few bytes for every response, and a client that reconnects may name ten
//! thousand resources. So texts are copied directly to where they are kept, and fields that nobody
//! uses are skipped. The messages inside are rare, and `prost` decodes them.

use std::sync::Arc;

use chancery_core::{DeltaRequest, ErrorDetail, SotwRequest};

use super::fields::{Fields, Outcome, located, merge, pair, text};
use super::node::WireNode;
use super::{DecodeError, WireStatus};

/// Decodes a `DiscoveryRequest` of v3 or v2.
///
/// # Errors
/// Fails if the bytes are no such message, or one that is nested too deeply.
pub fn decode_sotw(bytes: &[u8]) -> Result<SotwRequest, DecodeError> {
    sotw(bytes).map_err(|source| DecodeError { expected: "DiscoveryRequest", source })
}

/// Decodes a `DeltaDiscoveryRequest` of v3 or v2.
///
/// # Errors
/// Fails if the bytes are no such message, or one that is nested too deeply.
pub fn decode_delta(bytes: &[u8]) -> Result<DeltaRequest, DecodeError> {
    delta(bytes).map_err(|source| DecodeError { expected: "DeltaDiscoveryRequest", source })
}

fn sotw(bytes: &[u8]) -> Outcome<SotwRequest> {
    let mut request = SotwRequest::default();
    let (mut node, mut error) = (None, None);
    let mut fields = Fields(bytes);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => request.version = text(value)?.into(),
            2 => merge::<WireNode>(&mut node, value)?,
            3 => request.names.push(text(value)?),
            4 => request.type_url = text(value)?.into(),
            5 => request.nonce = text(value)?.into(),
            6 => merge::<WireStatus>(&mut error, value)?,
            // Locators name resources too; their parameters are ignored. Without them, a request
            // that has only locators would look like one without names, which can mean everything
            // (S-050).
            7 => request.names.push(&located(value)?),
            _ => {}
        }
    }
    request.node = node.map(|node| Arc::new(node.into()));
    request.error = error.map(ErrorDetail::from);
    Ok(request)
}

fn delta(bytes: &[u8]) -> Outcome<DeltaRequest> {
    let mut request = DeltaRequest::default();
    let (mut node, mut error) = (None, None);
    let mut fields = Fields(bytes);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => merge::<WireNode>(&mut node, value)?,
            2 => request.type_url = text(value)?.into(),
            3 => request.subscribe.push(text(value)?),
            4 => request.unsubscribe.push(text(value)?),
            5 => {
                let (name, version) = pair(value)?;
                request.initial_versions.push(name, version);
            }
            6 => request.nonce = text(value)?.into(),
            7 => merge::<WireStatus>(&mut error, value)?,
            8 => request.subscribe.push(&located(value)?),
            9 => request.unsubscribe.push(&located(value)?),
            _ => {}
        }
    }
    request.node = node.map(|node| Arc::new(node.into()));
    request.error = error.map(ErrorDetail::from);
    Ok(request)
}
