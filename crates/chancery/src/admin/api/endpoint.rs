//! The table of what the API has: paths, parameters and answers. Requests are routed by it, and the
//! OpenAPI document is made of it, so that the two cannot differ.

use chancery_core::percent;
use serde_json::{Value, json};

use super::error::ApiError;
use super::parameter::Parameter;
use super::schema::{Described, Types};
use crate::admin::confirm::{Confirmation, HeldDocument};
use crate::admin::load_reports::LoadDocument;
use crate::admin::loaded_document::StatusDocument;
use crate::admin::nodes::NodesDocument;
use crate::admin::status::{
    EventKind, EventRow, LoadsDocument, NodeDocument, NodeState, ResourceDocument,
    ResourcesDocument, StatusSummary, WaitDocument,
};

/// One path, and what is answered there.
pub(super) struct Endpoint {
    /// The path; `{name}` is any text.
    pub(super) path: &'static str,
    pub(super) about: &'static str,
    pub(super) parameters: &'static [&'static Parameter],
    pub(super) ask: Ask,
    /// The description of the answer.
    pub(super) answer: fn(&mut Types) -> Value,
    /// The key of the rows in the answer of which `fields` selects the keys.
    pub(super) rows: Option<&'static str>,
    /// The description of the body of a `POST`, if there is one.
    pub(super) post: Option<fn(&mut Types) -> Value>,
}

/// The texts that a path has in place of the names in its pattern.
pub(super) type InPath = Vec<(&'static str, String)>;

/// The question that an endpoint is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    OpenApi,
    Config,
    Confirm,
    Nodes,
    Load,
    Status,
    Node,
    Resources,
    Resource,
    Loads,
    Wait,
    Events,
}

/// All endpoints.
pub(super) static ENDPOINTS: [Endpoint; 12] = [
    Endpoint {
        path: "/api/v1/openapi.json",
        about: "this description of the API",
        parameters: &[],
        ask: Ask::OpenApi,
        answer: |_| json!({"type": "object"}),
        rows: None,
        post: None,
    },
    Endpoint {
        path: CONFIG,
        about: "what is loaded, from which file and line, and what is wrong",
        parameters: &[&FIELDS],
        ask: Ask::Config,
        answer: StatusDocument::schema,
        rows: None,
        post: None,
    },
    Endpoint {
        path: CONFIRM,
        about: "what the gate holds back, and with POST its confirmation; loopback only",
        parameters: &[&GROUPS],
        ask: Ask::Confirm,
        answer: HeldDocument::schema,
        rows: None,
        post: Some(Confirmation::schema),
    },
    Endpoint {
        path: NODES,
        about: "the nodes that are connected",
        parameters: &[&GROUP, &ID, &STATE, &FIELDS, &LIMIT, &AFTER],
        ask: Ask::Nodes,
        answer: NodesDocument::schema,
        rows: Some("nodes"),
        post: None,
    },
    Endpoint {
        path: LOAD,
        about: "what clients report about their calls",
        parameters: &[&BY, &CLUSTER, &NODE, &FIELDS, &LIMIT, &AFTER],
        ask: Ask::Load,
        answer: LoadDocument::schema,
        rows: Some("rows"),
        post: None,
    },
    Endpoint {
        path: STATUS,
        about: "the states of the nodes by group, and the nodes with the worst states first",
        parameters: &[&GROUP, &STATE, &FIELDS, &LIMIT],
        ask: Ask::Status,
        answer: StatusSummary::schema,
        rows: Some("nodes"),
        post: None,
    },
    Endpoint {
        path: "/api/v1/nodes/{id}",
        about: "one node: what it wants, was sent, acknowledged and rejected, and its history",
        parameters: &[&TYPE, &SELECTION, &FIELDS, &LIMIT],
        ask: Ask::Node,
        answer: NodeDocument::schema,
        rows: None,
        post: None,
    },
    Endpoint {
        path: RESOURCES,
        about: "the resources that are loaded, from which file and line, page by page",
        parameters: &[&TYPE, &PREFIX, &IN_GROUP, &FIELDS, &LIMIT, &AFTER],
        ask: Ask::Resources,
        answer: ResourcesDocument::schema,
        rows: Some("resources"),
        post: None,
    },
    Endpoint {
        path: "/api/v1/resources/{type}/{name}",
        about: "one resource: where it comes from, and who has which version of it",
        parameters: &[&AUDIENCES, &FIELDS, &LIMIT],
        ask: Ask::Resource,
        answer: ResourceDocument::schema,
        rows: Some("nodes"),
        post: None,
    },
    Endpoint {
        path: LOADS,
        about: "the last loads: what they changed, and when they had landed",
        parameters: &[&FIELDS, &LIMIT, &AFTER],
        ask: Ask::Loads,
        answer: LoadsDocument::schema,
        rows: Some("loads"),
        post: None,
    },
    Endpoint {
        path: WAIT,
        about: "waits until a load has landed, for a short time",
        parameters: &[
            &OF_GROUPS, &OF_NODES, &REVISION, &HASH, &FILE, &MIN_NODES, &TIMEOUT, &FIELDS, &LIMIT,
        ],
        ask: Ask::Wait,
        answer: WaitDocument::schema,
        rows: Some("nodes"),
        post: None,
    },
    Endpoint {
        path: EVENTS,
        about: "what happens, as server-sent events",
        parameters: &[&KINDS, &OF_NODE, &LAST],
        ask: Ask::Events,
        answer: EventRow::schema,
        rows: None,
        post: None,
    },
];

static STATE: Parameter = Parameter::words("state", "Only nodes in this state.", NodeState::WORDS);
static TYPE: Parameter =
    Parameter::text("type", "Only this type: its short name, as `cds`, or its URL.");
static SELECTION: Parameter = Parameter::words(
    "resources",
    "The resources of each type that are told of: those that are not acknowledged, unless it is said.",
    &["unsettled", "all", "none"],
);
static PREFIX: Parameter = Parameter::text("prefix", "Only names that begin so.");
static IN_GROUP: Parameter = Parameter::text(
    "group",
    "Only what the files of this group have; empty for what is for all nodes.",
);
static AUDIENCES: Parameter = Parameter::text(
    "group",
    "Only clients that see the files of this group; empty for those of none.",
);
static OF_GROUPS: Parameter = Parameter {
    many: true,
    ..Parameter::text(
        "group",
        "Only nodes of this group, and of those that extend it; several times.",
    )
};
static OF_NODES: Parameter = Parameter {
    many: true,
    ..Parameter::text(
        "node",
        "Only the node with this id, which has to be connected; several times.",
    )
};
static REVISION: Parameter =
    Parameter::text("revision", "The number of the load. Otherwise it is the last one now.");
static HASH: Parameter = Parameter::text(
    "hash",
    "The digest of all resources since the load. Beside `revision`, it keeps to the same content if a server that \
     started anew counts from 1 again.",
);
static FILE: Parameter = Parameter::text(
    "file",
    "The absolute path of a file: the directory is read again first, and a fault of the file is told.",
);
static KINDS: Parameter = Parameter {
    many: true,
    ..Parameter::words("event", "Only events of this kind; several times.", EventKind::WORDS)
};
static OF_NODE: Parameter = Parameter::text("node", "Only events of the node with this id.");
static LAST: Parameter = Parameter::text(
    "after",
    "The id of the last event that was seen, as `Last-Event-ID`. Otherwise events are told from now on.",
);

/// The number of nodes that a load has to land on.
pub(super) static MIN_NODES: Parameter =
    Parameter::number("min_nodes", "So many nodes have to have it.", [0, 1_000_000, 0]);

/// The time that an answer may take.
pub(super) static TIMEOUT: Parameter = Parameter::number(
    "timeout",
    "The seconds after which it is said how it stands; ask again to wait for longer.",
    [0, 30, 10],
);

static GROUPS: Parameter = Parameter {
    many: true,
    ..Parameter::text("group", "Only this group; may be given several times.")
};
static GROUP: Parameter =
    Parameter::text("group", "Only nodes of this group; empty for nodes in none.");
static ID: Parameter = Parameter::text("id", "Only nodes with this id.");
static BY: Parameter = Parameter::words(
    "by",
    "The rows in which calls are summed.",
    &["cluster", "locality", "endpoint", "node"],
);
static CLUSTER: Parameter = Parameter::text("cluster", "Only calls to this cluster.");
static NODE: Parameter =
    Parameter::text("node", "Only calls that the node with this id reports, on its open streams.");

/// The keys of rows that are wanted.
pub(super) static FIELDS: Parameter =
    Parameter::text("fields", "Only these keys of each row, with commas between them.");

/// The number of rows on a page.
pub(super) static LIMIT: Parameter =
    Parameter::number("limit", "The number of rows on a page.", [1, 1000, 100]);

/// The place after which a page begins.
pub(super) static AFTER: Parameter =
    Parameter::text("after", "The `next` of a page, for the one that follows it.");

/// The endpoint at a path, with what the path says.
pub(super) fn find(path: &str) -> Option<(&'static Endpoint, Result<InPath, ApiError>)> {
    ENDPOINTS.iter().find_map(|endpoint| Some((endpoint, matched(endpoint.path, path)?)))
}

/// The texts that stand in a path for the names in its pattern.
fn matched(pattern: &'static str, path: &str) -> Option<Result<InPath, ApiError>> {
    let (mut parts, mut given) = (path.split('/'), Vec::new());
    for expected in pattern.split('/') {
        let part = parts.next()?;
        match expected.strip_prefix('{').and_then(|it| it.strip_suffix('}')) {
            Some(name) if !part.is_empty() => given.push((name, part)),
            None if expected == part => {}
            _ => return None,
        }
    }
    if parts.next().is_some() {
        return None;
    }
    let decoded = given.into_iter().map(|(name, part)| {
        let text = percent::decode(part)
            .map_err(|error| ApiError::parameter(format!("the `{name}` in the path: {error}")))?;
        Ok((name, text))
    });
    Some(decoded.collect())
}

/// The path at which the loaded resources and the faults are shown.
pub(crate) const CONFIG: &str = "/api/v1/config";

/// The path at which what is held back is confirmed.
pub(crate) const CONFIRM: &str = "/api/v1/confirm";

/// The path at which the nodes that are connected are listed.
pub(crate) const NODES: &str = "/api/v1/nodes";

/// The path at which the states of nodes are shown.
pub(crate) const STATUS: &str = "/api/v1/status";

/// The path at which the resources are listed, and below which one of them is shown.
pub(crate) const RESOURCES: &str = "/api/v1/resources";

/// The path at which the last loads are listed.
const LOADS: &str = "/api/v1/loads";

/// The path at which a landing is waited for.
pub(crate) const WAIT: &str = "/api/v1/wait";

/// The path at which events are told.
const EVENTS: &str = "/api/v1/events";

/// The path at which load reports are listed.
pub(crate) const LOAD: &str = "/api/v1/load";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_what_stands_in_place_of_names() {
        let matched = |path| matched("/nodes/{id}", path);
        assert_eq!(matched("/nodes/a%2Fb"), Some(Ok(vec![("id", "a/b".to_owned())])));
        for other in ["/nodes", "/nodes/", "/nodes/a/b", "/nodes/a/", "/other/a", ""] {
            assert_eq!(matched(other), None, "{other}");
        }
        assert!(matched("/nodes/%").unwrap().is_err());
    }
}
