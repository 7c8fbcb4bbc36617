//! The messages of an assignment down to its endpoints, which stay bytes.
//!
//! The fields have the numbers and types that Envoy gives them; those that gRPC does not use are left out, and
//! are skipped like any that a reader does not know.

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::endpoint::v3::cluster_load_assignment::Policy;
use envoy_types::pb::google::protobuf::UInt32Value;

/// A `ClusterLoadAssignment`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RawAssignment {
    #[prost(message, repeated, tag = "2")]
    pub(super) endpoints: Vec<RawLocality>,
    #[prost(message, optional, tag = "4")]
    pub(super) policy: Option<Policy>,
}

/// A `LocalityLbEndpoints`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RawLocality {
    #[prost(message, optional, tag = "1")]
    pub(super) locality: Option<core::Locality>,
    /// Each is an `LbEndpoint`.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(super) lb_endpoints: Vec<Bytes>,
    #[prost(message, optional, tag = "3")]
    pub(super) load_balancing_weight: Option<UInt32Value>,
    #[prost(uint32, tag = "5")]
    pub(super) priority: u32,
    #[prost(message, optional, tag = "9")]
    pub(super) metadata: Option<core::Metadata>,
}
