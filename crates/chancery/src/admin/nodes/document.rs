//! The document of `/api/v1/nodes`, as the server writes it and commands read it. Keys may be added.

use serde_json::{Map, Value};

use crate::admin::api::document;
use crate::admin::status::{NodeState, RejectionRow};

document! {
    /// A page of the nodes that are connected.
    struct NodesDocument {
        /// The number of all nodes that were asked for.
        count: usize,
        /// Those on this page, by their ids.
        nodes: Vec<NodeRow>,
        /// The text to give as `after` for the next page, if there is one.
        next: Option<String>,
        /// The number of all streams whose client does not say which node it is.
        anonymous: usize,
    }
}

document! {
    /// A node that is connected. Streams with the same id and cluster, in the same audience, are one.
    struct NodeRow {
        /// The id.
        id: String,
        /// The cluster that it says it is of.
        cluster: String,
        /// The place that it says it is at.
        locality: LocalityRow,
        /// The name of the program, as `envoy`.
        user_agent: String,
        /// The version of the program.
        user_agent_version: String,
        /// The group by the rules, whether or not it has files.
        group: Option<String>,
        /// The audience, in words.
        audience: String,
        /// True if it has files of its own.
        own_files: bool,
        /// The layers that it sees, the weakest first, in words.
        layers: Vec<String>,
        /// The number of open streams.
        streams: usize,
        /// The number of polls over REST that are being answered.
        polls: usize,
        /// The first of the addresses that it comes from.
        peers: Vec<String>,
        /// The seconds since 1970 at which the oldest of its streams was opened.
        since: u64,
        /// The worst state of all streams whose clients state its id.
        state: NodeState,
        /// The seconds since 1970 from which on it is in step, or is not.
        state_since: u64,
        /// The number of the last load that has landed on all of these streams; 0 if none has.
        landed: u64,
        /// The first of its rejections of what was not changed since.
        rejections: Vec<RejectionRow> = default,
        /// The metadata that it states, as far as it is shown.
        metadata: Map<String, Value>,
        /// The first of the parts that are not shown.
        left_out: Vec<LeftOut>,
    }
}

document! {
    /// The place of a node.
    struct LocalityRow {
        /// The region.
        region: String,
        /// The zone in it.
        zone: String,
        /// The part of the zone.
        sub_zone: String,
    }
}

document! {
    /// A part of a node that is not shown.
    struct LeftOut {
        /// The path of the part: `metadata.token`.
        part: String,
        /// The reason.
        why: WhyLeftOut,
    }
}

document! {
    /// The reason for which a part is not shown.
    enum WhyLeftOut {
        /// Its name says that it is a secret, or it has a private key in it.
        Secret = "secret",
        /// It is too large to be shown.
        Large = "large",
    }
}
