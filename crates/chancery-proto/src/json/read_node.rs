//! Reading the node of a request in proto3 JSON.
//!
//! The parts of a node that can be small as text and large in memory are counted while they are read
//! (`read_value`). As on the gRPC wire, only the fields that the core uses are read. Not here: the
//! request (`read_request`).

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_core::{Locality, Node, Value};
use serde::de::Error as _;
use serde_json::value::RawValue;

use super::JsonError;
use super::read_value::{read_fields, read_texts};
use crate::node_memory::NodeMemory;

/// Reads a node; `null` is none.
pub(super) fn read_node(
    text: &RawValue,
    memory: &mut NodeMemory,
) -> Result<Option<Node>, JsonError> {
    let node: Option<JsonNode<'_>> =
        serde_json::from_str(text.get()).map_err(JsonError::Request)?;
    node.map(|node| node.read(memory)).transpose()
}

#[derive(serde::Deserialize)]
struct JsonNode<'a> {
    id: Option<String>,
    cluster: Option<String>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    locality: Option<JsonLocality>,
    #[serde(alias = "buildVersion")]
    build_version: Option<String>,
    #[serde(alias = "userAgentName")]
    user_agent_name: Option<String>,
    #[serde(alias = "userAgentVersion")]
    user_agent_version: Option<String>,
    #[serde(alias = "userAgentBuildVersion")]
    user_agent_build_version: Option<JsonBuildVersion>,
    #[serde(alias = "clientFeatures", borrow)]
    client_features: Option<&'a RawValue>,
    #[serde(alias = "dynamicParameters", borrow)]
    dynamic_parameters: Option<&'a RawValue>,
}

#[derive(Default, serde::Deserialize)]
struct JsonLocality {
    region: Option<String>,
    zone: Option<String>,
    #[serde(alias = "subZone")]
    sub_zone: Option<String>,
}

#[derive(serde::Deserialize)]
struct JsonBuildVersion {
    version: Option<JsonSemanticVersion>,
}

#[derive(serde::Deserialize)]
struct JsonSemanticVersion {
    #[serde(alias = "majorNumber")]
    major_number: Option<JsonNumber>,
    #[serde(alias = "minorNumber")]
    minor_number: Option<JsonNumber>,
    patch: Option<JsonNumber>,
}

/// An integer, as a number or as text.
#[derive(serde::Deserialize)]
#[serde(untagged)]
pub(super) enum JsonNumber {
    Number(i64),
    Text(String),
}

impl JsonNumber {
    pub(super) fn value(&self) -> i64 {
        match self {
            Self::Number(number) => *number,
            Self::Text(text) => text.parse().unwrap_or(0),
        }
    }
}

impl JsonNode<'_> {
    fn version(&self) -> String {
        let build = self.user_agent_build_version.as_ref();
        if let Some(version) = build.and_then(|build| build.version.as_ref()) {
            let part = |number: &Option<JsonNumber>| number.as_ref().map_or(0, JsonNumber::value);
            let minor = part(&version.minor_number);
            return format!("{}.{minor}.{}", part(&version.major_number), part(&version.patch));
        }
        let v2 = || self.build_version.as_deref().and_then(|build| build.split('/').nth(1));
        self.user_agent_version.as_deref().or_else(v2).unwrap_or_default().to_owned()
    }

    fn read(self, memory: &mut NodeMemory) -> Result<Node, JsonError> {
        let user_agent_version = self.version();
        let locality = self.locality.unwrap_or_default();
        let parameters = read_fields(self.dynamic_parameters, memory)?;
        Ok(Node {
            id: self.id.unwrap_or_default(),
            cluster: self.cluster.unwrap_or_default(),
            locality: Locality {
                region: locality.region.unwrap_or_default(),
                zone: locality.zone.unwrap_or_default(),
                sub_zone: locality.sub_zone.unwrap_or_default(),
            },
            metadata: Arc::new(read_fields(self.metadata, memory)?),
            user_agent_name: self.user_agent_name.unwrap_or_default(),
            user_agent_version,
            client_features: read_texts(self.client_features, memory)?.into(),
            dynamic_parameters: parameters
                .into_iter()
                .map(|(of, context)| Ok((of, parameters_of(context)?)))
                .collect::<Result<_, _>>()
                .map_err(JsonError::Request)?,
        })
    }
}

/// The parameters of one type, from a `ContextParams`.
fn parameters_of(context: Value) -> Result<BTreeMap<String, String>, serde_json::Error> {
    let no_map = || serde_json::Error::custom("dynamic parameters are no map of texts");
    let Value::Map(mut fields) = context else { return Err(no_map()) };
    let params = match fields.remove("params") {
        None | Some(Value::Null) => BTreeMap::new(),
        Some(Value::Map(params)) => params,
        Some(_) => return Err(no_map()),
    };
    let text = |value| match value {
        Value::Text(text) => Ok(text),
        _ => Err(no_map()),
    };
    params.into_iter().map(|(key, value)| Ok((key, text(value)?))).collect()
}
