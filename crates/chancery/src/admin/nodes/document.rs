//! The document of `/api/v1/nodes`, as the server writes it and commands read it. Keys may be added.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A page of the nodes that are connected.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct NodesDocument {
    /// The number of all nodes that were asked for.
    pub(crate) count: usize,
    /// Those on this page, by their ids.
    pub(crate) nodes: Vec<NodeRow>,
    /// The text to give as `after` for the next page, if there is one.
    pub(crate) next: Option<String>,
    /// The number of all streams whose client does not say which node it is.
    pub(crate) anonymous: usize,
}

/// A node that is connected. Streams with the same id and cluster, in the same audience, are one.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct NodeRow {
    pub(crate) id: String,
    pub(crate) cluster: String,
    pub(crate) locality: LocalityRow,
    /// The name of the program, as `envoy`.
    pub(crate) user_agent: String,
    pub(crate) user_agent_version: String,
    /// The group by the rules, whether or not it has files.
    pub(crate) group: Option<String>,
    /// The audience, in words.
    pub(crate) audience: String,
    /// True if it has files of its own.
    pub(crate) own_files: bool,
    /// The layers that it sees, the weakest first, in words.
    pub(crate) layers: Vec<String>,
    /// The number of open streams.
    pub(crate) streams: usize,
    /// The number of polls over REST that are being answered.
    pub(crate) polls: usize,
    /// The first of the addresses that it comes from.
    pub(crate) peers: Vec<String>,
    /// The seconds since 1970 at which the oldest of its streams was opened.
    pub(crate) since: u64,
    pub(crate) metadata: Map<String, Value>,
    /// The first of the parts that are not shown.
    pub(crate) left_out: Vec<LeftOut>,
}

/// The place of a node.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct LocalityRow {
    pub(crate) region: String,
    pub(crate) zone: String,
    pub(crate) sub_zone: String,
}

/// A part of a node that is not shown.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct LeftOut {
    /// The path of the part: `metadata.token`.
    pub(crate) part: String,
    pub(crate) why: WhyLeftOut,
}

/// The reason for which a part is not shown.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WhyLeftOut {
    /// Its name says that it is a secret, or it has a private key in it.
    Secret,
    /// It is too large to be shown.
    Large,
}

impl std::fmt::Display for WhyLeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Secret => "secret",
            Self::Large => "large",
        })
    }
}
