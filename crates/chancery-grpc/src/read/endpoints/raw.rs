//! The messages of an assignment down to its endpoints, which stay bytes.
//!
//! They are read by hand, as nothing of an endpoint that is known has to be copied. Fields have the numbers and
//! types that Envoy gives them. Those that gRPC does not use are skipped, like any that a reader does not know.

use bytes::Buf;
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::endpoint::v3::cluster_load_assignment::Policy;
use envoy_types::pb::google::protobuf::UInt32Value;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost::{DecodeError, Message};

/// A `ClusterLoadAssignment`.
#[derive(Debug, Default)]
pub(super) struct RawAssignment<'a> {
    pub(super) endpoints: Vec<RawLocality<'a>>,
    pub(super) policy: Option<Policy>,
}

/// A `LocalityLbEndpoints`.
#[derive(Debug, Default)]
pub(super) struct RawLocality<'a> {
    pub(super) locality: Option<core::Locality>,
    /// Each is an `LbEndpoint`.
    pub(super) lb_endpoints: Vec<&'a [u8]>,
    pub(super) load_balancing_weight: Option<UInt32Value>,
    pub(super) priority: u32,
    pub(super) metadata: Option<core::Metadata>,
}

/// A field of a message, as it is written.
enum Field<'a> {
    Bytes(&'a [u8]),
    Number(u64),
    /// One of a kind that no field has here.
    Other,
}

impl<'a> RawAssignment<'a> {
    pub(super) fn read(mut message: &'a [u8]) -> Result<Self, String> {
        let mut read = Self::default();
        while let Some((number, field)) = next(&mut message)? {
            match (number, field) {
                (2, Field::Bytes(locality)) => read.endpoints.push(RawLocality::read(locality)?),
                (4, Field::Bytes(policy)) => merge(&mut read.policy, policy)?,
                (2 | 4, _) => return Err(of_another_kind("ClusterLoadAssignment", number)),
                _ => {}
            }
        }
        Ok(read)
    }
}

impl<'a> RawLocality<'a> {
    fn read(mut message: &'a [u8]) -> Result<Self, String> {
        let mut read = Self::default();
        while let Some((number, field)) = next(&mut message)? {
            match (number, field) {
                (1, Field::Bytes(locality)) => merge(&mut read.locality, locality)?,
                (2, Field::Bytes(endpoint)) => read.lb_endpoints.push(endpoint),
                (3, Field::Bytes(weight)) => merge(&mut read.load_balancing_weight, weight)?,
                #[expect(clippy::cast_possible_truncation, reason = "as protobuf says")]
                (5, Field::Number(priority)) => read.priority = priority as u32,
                (9, Field::Bytes(metadata)) => merge(&mut read.metadata, metadata)?,
                (1 | 2 | 3 | 5 | 9, _) => {
                    return Err(of_another_kind("LocalityLbEndpoints", number));
                }
                _ => {}
            }
        }
        Ok(read)
    }
}

/// Takes the next field from the beginning of a message.
fn next<'a>(message: &mut &'a [u8]) -> Result<Option<(u32, Field<'a>)>, String> {
    if !message.has_remaining() {
        return Ok(None);
    }
    let text = |error: DecodeError| error.to_string();
    let (number, kind) = decode_key(message).map_err(text)?;
    let field = match kind {
        WireType::Varint => Field::Number(decode_varint(message).map_err(text)?),
        WireType::LengthDelimited => {
            let length = decode_varint(message).map_err(text)?;
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let (bytes, rest) = message.split_at_checked(length).ok_or("the message is cut off")?;
            *message = rest;
            Field::Bytes(bytes)
        }
        _ => {
            skip_field(kind, number, message, DecodeContext::default()).map_err(text)?;
            Field::Other
        }
    };
    Ok(Some((number, field)))
}

/// Reads a message field. Protobuf merges one that occurs twice.
fn merge<M: Message + Default>(into: &mut Option<M>, bytes: &[u8]) -> Result<(), String> {
    into.get_or_insert_default().merge(bytes).map_err(|error| error.to_string())
}

fn of_another_kind(message: &str, number: u32) -> String {
    format!("field {number} of `{message}` is of another kind")
}
