//! The node of a request, as in
//! [`base.proto`](https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/core/v3/base.proto), to
//! and from the core's value.
//!
//! Fields for which the core has no value are not read. Not here: the requests that contain the
//! node (`decode_request`, `encode_request`), and its JSON (`crate::json`).

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_core::{Locality, Node, Value};
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireNode {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(string, tag = "2")]
    pub(super) cluster: String,
    #[prost(message, optional, tag = "3")]
    pub(super) metadata: Option<WireStruct>,
    #[prost(message, optional, tag = "4")]
    pub(super) locality: Option<WireLocality>,
    /// The version in v2, as `<commit>/<version>/...`.
    #[prost(string, tag = "5")]
    pub(super) build_version: String,
    #[prost(string, tag = "6")]
    pub(super) user_agent_name: String,
    #[prost(string, tag = "7")]
    pub(super) user_agent_version: String,
    #[prost(message, optional, tag = "8")]
    pub(super) user_agent_build_version: Option<WireBuildVersion>,
    #[prost(string, repeated, tag = "10")]
    pub(super) client_features: Vec<String>,
    #[prost(btree_map = "string, message", tag = "12")]
    pub(super) dynamic_parameters: BTreeMap<String, WireContextParams>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireLocality {
    #[prost(string, tag = "1")]
    pub(super) region: String,
    #[prost(string, tag = "2")]
    pub(super) zone: String,
    #[prost(string, tag = "3")]
    pub(super) sub_zone: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct WireBuildVersion {
    #[prost(message, optional, tag = "1")]
    pub(super) version: Option<WireSemanticVersion>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct WireSemanticVersion {
    #[prost(uint32, tag = "1")]
    pub(super) major: u32,
    #[prost(uint32, tag = "2")]
    pub(super) minor: u32,
    #[prost(uint32, tag = "3")]
    pub(super) patch: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireContextParams {
    #[prost(btree_map = "string, string", tag = "1")]
    pub(super) params: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireStruct {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(super) fields: BTreeMap<String, WireValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireList {
    #[prost(message, repeated, tag = "1")]
    pub(super) values: Vec<WireValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireValue {
    #[prost(oneof = "WireKind", tags = "1, 2, 3, 4, 5, 6")]
    pub(super) kind: Option<WireKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum WireKind {
    #[prost(int32, tag = "1")]
    Null(i32),
    #[prost(double, tag = "2")]
    Number(f64),
    #[prost(string, tag = "3")]
    Text(String),
    #[prost(bool, tag = "4")]
    Bool(bool),
    #[prost(message, tag = "5")]
    Struct(WireStruct),
    #[prost(message, tag = "6")]
    List(WireList),
}

impl From<WireNode> for Node {
    fn from(node: WireNode) -> Self {
        let user_agent_version = node.version();
        let locality = node.locality.map(Locality::from).unwrap_or_default();
        let parameters = node.dynamic_parameters.into_iter();
        Self {
            id: node.id,
            cluster: node.cluster,
            locality,
            metadata: Arc::new(node.metadata.map(map_of).unwrap_or_default()),
            user_agent_name: node.user_agent_name,
            user_agent_version,
            client_features: node.client_features.into(),
            dynamic_parameters: parameters.map(|(of, context)| (of, context.params)).collect(),
        }
    }
}

impl From<WireLocality> for Locality {
    fn from(locality: WireLocality) -> Self {
        let WireLocality { region, zone, sub_zone } = locality;
        Self { region, zone, sub_zone }
    }
}

impl WireNode {
    fn version(&self) -> String {
        if let Some(version) = self.user_agent_build_version.and_then(|build| build.version) {
            return version.to_string();
        }
        if !self.user_agent_version.is_empty() {
            return self.user_agent_version.clone();
        }
        self.build_version.split('/').nth(1).unwrap_or(&self.build_version).to_owned()
    }
}

impl std::fmt::Display for WireSemanticVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

fn map_of(fields: WireStruct) -> BTreeMap<String, Value> {
    fields.fields.into_iter().map(|(key, value)| (key, value.into())).collect()
}

impl From<WireValue> for Value {
    fn from(value: WireValue) -> Self {
        match value.kind {
            None | Some(WireKind::Null(_)) => Self::Null,
            Some(WireKind::Number(number)) => Self::Number(number),
            Some(WireKind::Text(text)) => Self::Text(text),
            Some(WireKind::Bool(yes)) => Self::Bool(yes),
            Some(WireKind::Struct(fields)) => Self::Map(map_of(fields)),
            Some(WireKind::List(list)) => {
                Self::List(list.values.into_iter().map(Self::from).collect())
            }
        }
    }
}

impl From<&Node> for WireNode {
    fn from(node: &Node) -> Self {
        let locality = WireLocality::from(&node.locality);
        let parameters = node.dynamic_parameters.iter();
        Self {
            id: node.id.clone(),
            cluster: node.cluster.clone(),
            metadata: (!node.metadata.is_empty()).then(|| struct_of(&node.metadata)),
            locality: (locality != WireLocality::default()).then_some(locality),
            build_version: String::new(),
            user_agent_name: node.user_agent_name.clone(),
            user_agent_version: node.user_agent_version.clone(),
            user_agent_build_version: None,
            client_features: node.client_features.to_vec(),
            dynamic_parameters: parameters
                .map(|(of, params)| (of.clone(), WireContextParams { params: params.clone() }))
                .collect(),
        }
    }
}

impl From<&Locality> for WireLocality {
    fn from(locality: &Locality) -> Self {
        let Locality { region, zone, sub_zone } = locality.clone();
        Self { region, zone, sub_zone }
    }
}

fn struct_of(fields: &BTreeMap<String, Value>) -> WireStruct {
    WireStruct { fields: fields.iter().map(|(key, value)| (key.clone(), value.into())).collect() }
}

impl From<&Value> for WireValue {
    fn from(value: &Value) -> Self {
        let kind = match value {
            Value::Null => WireKind::Null(0),
            Value::Bool(yes) => WireKind::Bool(*yes),
            Value::Number(number) => WireKind::Number(*number),
            Value::Text(text) => WireKind::Text(text.clone()),
            Value::List(values) => {
                WireKind::List(WireList { values: values.iter().map(Self::from).collect() })
            }
            Value::Map(fields) => WireKind::Struct(struct_of(fields)),
        };
        Self { kind: Some(kind) }
    }
}
