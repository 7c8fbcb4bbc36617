//! The nodes that a server knows, as a command takes their place.

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_core::{Locality, Node, Value};

use super::{AdminClient, encoded};
use crate::admin::{NODES, NodeRow, NodesDocument};
use crate::exit::Failure;

/// A node that is connected to the server.
#[derive(Clone, Debug)]
pub(crate) struct ConnectedNode {
    /// All that decides on what it is given.
    pub(crate) node: Node,
    /// The group that it is in by the rules of the server.
    pub(crate) group: Option<String>,
    /// True if it has files of its own there.
    pub(crate) own_files: bool,
    /// The parts of it that nobody is told, with the reasons, in words.
    pub(crate) left_out: Vec<String>,
}

/// The nodes that a server told of.
#[derive(Debug, Default)]
pub(crate) struct ConnectedNodes {
    pub(crate) nodes: Vec<ConnectedNode>,
    /// The number of others, which were not asked for because there are too many.
    pub(crate) others: usize,
}

impl AdminClient {
    /// The nodes that are connected, or those with this id.
    pub(crate) fn nodes(&self, id: Option<&str>) -> Result<ConnectedNodes, Failure> {
        let mut path = format!("{NODES}?limit={ON_A_PAGE}");
        path += &id.map(|id| format!("&id={}", encoded(id))).unwrap_or_default();
        let (mut all, mut after) = (Vec::new(), String::new());
        loop {
            let reply = self.get(&format!("{path}{after}"))?;
            let document: NodesDocument = self.document(&reply)?;
            all.extend(document.nodes.into_iter().map(ConnectedNode::from));
            match document.next {
                Some(next) if all.len() < MOST => after = format!("&after={}", encoded(&next)),
                next => {
                    // Nodes come and go between two pages, so there may be more than were counted.
                    let others = document.count.saturating_sub(all.len());
                    let others = next.map_or(0, |_| others.max(1));
                    return Ok(ConnectedNodes { nodes: all, others });
                }
            }
        }
    }
}

impl From<NodeRow> for ConnectedNode {
    fn from(row: NodeRow) -> Self {
        let locality = row.locality;
        let metadata = row.metadata.into_iter().map(|(key, value)| (key, value_of(value)));
        let node = Node {
            id: row.id,
            cluster: row.cluster,
            locality: Locality {
                region: locality.region,
                zone: locality.zone,
                sub_zone: locality.sub_zone,
            },
            user_agent_name: row.user_agent,
            user_agent_version: row.user_agent_version,
            metadata: Arc::new(metadata.collect()),
            ..Node::default()
        };
        let left_out = row.left_out.iter().map(|it| format!("{} ({})", it.part, it.why.word()));
        let (group, own_files) = (row.group, row.own_files);
        Self { node, group, own_files, left_out: left_out.collect() }
    }
}

/// The value of metadata that JSON stands for.
pub(crate) fn value_of(json: serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match json {
        Json::Null => Value::Null,
        Json::Bool(is) => Value::Bool(is),
        // The numbers of metadata are doubles.
        Json::Number(number) => Value::Number(number.as_f64().unwrap_or_default()),
        Json::String(text) => Value::Text(text),
        Json::Array(values) => Value::List(values.into_iter().map(value_of).collect()),
        Json::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| (key, value_of(value)));
            Value::Map(fields.collect::<BTreeMap<_, _>>())
        }
    }
}

/// The number of nodes that are asked for at once.
const ON_A_PAGE: usize = 1000;

/// The number of nodes after which no others are asked for.
const MOST: usize = 100_000;
