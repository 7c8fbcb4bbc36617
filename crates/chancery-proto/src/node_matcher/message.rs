//! The messages of matchers, as in `type/matcher/v3`. Field numbers are compared with the descriptors
//! by the tests of the module.

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireNodeMatcher {
    #[prost(message, optional, tag = "1")]
    pub(super) node_id: Option<WireStringMatcher>,
    #[prost(message, repeated, tag = "2")]
    pub(super) node_metadatas: Vec<WireStructMatcher>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireStringMatcher {
    #[prost(oneof = "WireStringPattern", tags = "1, 2, 3, 5, 7, 8")]
    pub(super) pattern: Option<WireStringPattern>,
    #[prost(bool, tag = "6")]
    pub(super) ignore_case: bool,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum WireStringPattern {
    #[prost(string, tag = "1")]
    Exact(String),
    #[prost(string, tag = "2")]
    Prefix(String),
    #[prost(string, tag = "3")]
    Suffix(String),
    #[prost(message, tag = "5")]
    SafeRegex(WireRegex),
    #[prost(string, tag = "7")]
    Contains(String),
    /// An extension of Envoy, which is not opened.
    #[prost(bytes = "vec", tag = "8")]
    Custom(Vec<u8>),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireRegex {
    #[prost(string, tag = "2")]
    pub(super) regex: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireStructMatcher {
    #[prost(message, repeated, tag = "2")]
    pub(super) path: Vec<WireSegment>,
    #[prost(message, optional, tag = "3")]
    pub(super) value: Option<WireValueMatcher>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireSegment {
    #[prost(string, tag = "1")]
    pub(super) key: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireValueMatcher {
    #[prost(oneof = "WireValuePattern", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub(super) pattern: Option<WireValuePattern>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum WireValuePattern {
    #[prost(message, tag = "1")]
    Null(WireNothing),
    #[prost(message, tag = "2")]
    Double(WireDoubleMatcher),
    #[prost(message, tag = "3")]
    Text(WireStringMatcher),
    #[prost(bool, tag = "4")]
    Bool(bool),
    #[prost(bool, tag = "5")]
    Present(bool),
    #[prost(message, boxed, tag = "6")]
    List(Box<WireListMatcher>),
    #[prost(message, tag = "7")]
    Or(WireOrMatcher),
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct WireNothing {}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct WireDoubleMatcher {
    #[prost(oneof = "WireDoublePattern", tags = "1, 2")]
    pub(super) pattern: Option<WireDoublePattern>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub(super) enum WireDoublePattern {
    #[prost(message, tag = "1")]
    Range(WireDoubleRange),
    #[prost(double, tag = "2")]
    Exact(f64),
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct WireDoubleRange {
    #[prost(double, tag = "1")]
    pub(super) start: f64,
    #[prost(double, tag = "2")]
    pub(super) end: f64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireListMatcher {
    #[prost(message, optional, tag = "1")]
    pub(super) one_of: Option<WireValueMatcher>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireOrMatcher {
    #[prost(message, repeated, tag = "1")]
    pub(super) value_matchers: Vec<WireValueMatcher>,
}
