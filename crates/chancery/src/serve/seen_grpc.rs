//! The groups in which nodes say that they are gRPC, where nobody declared what the clients are: what gRPC rejects
//! or ignores of their resources is warned of, and holds nothing back.
//!
//! Whoever connects says what it is, so no more comes of it than warnings, and the directory is read again for it
//! only from time to time. Not here: clients that are declared (`config::clients`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use chancery_core::Node;
use chancery_core::printable::Printable;
use chancery_server::Audiences;
use chancery_sources::LayerChecks;

use super::grouping::Grouping;
use crate::config::{Config, SeenGroups};

/// The groups with clients of gRPC, and the configuration that says what is declared.
pub(super) struct SeenGrpc {
    config: Config,
    groups: SeenGroups,
    /// The time at which some were found last.
    found: Option<Instant>,
}

impl SeenGrpc {
    pub(super) fn new(config: &Config) -> Self {
        Self { config: config.clone(), groups: SeenGroups::new(), found: None }
    }

    pub(super) fn set_config(&mut self, config: &Config) {
        self.config = config.clone();
    }

    /// The checks of each layer, for all clients that are declared or seen.
    pub(super) fn checks(&self) -> LayerChecks {
        self.config.checks_seeing(&self.groups)
    }

    /// The groups that are known, if it is time to look for others.
    pub(super) fn due(&self, now: Instant) -> Option<SeenGroups> {
        let is_late = self.found.is_none_or(|at| now.duration_since(at) >= PAUSE);
        (is_late && self.groups.len() < MOST_GROUPS).then(|| self.groups.clone())
    }

    /// Takes groups with clients of gRPC. Returns true if something else is checked for them.
    pub(super) fn add(&mut self, found: SeenGroups, now: Instant) -> bool {
        if found.is_empty() {
            return false;
        }
        let before = self.checks();
        self.groups.extend(found);
        self.found = Some(now);
        before != self.checks()
    }
}

/// The groups in which nodes with open streams say that they are gRPC, but for those that are known.
pub(super) fn look(audiences: &Audiences<Grouping>, known: &SeenGroups) -> SeenGroups {
    let nodes = audiences.nodes();
    let mut nodes = nodes.iter().filter(|node| is_grpc(node)).peekable();
    let mut found = SeenGroups::new();
    if nodes.peek().is_none() {
        return found;
    }
    let (grouping, files) = (audiences.assignment(), audiences.catalog().groups());
    for node in nodes.take(MOST_NODES) {
        let Ok(group) = grouping.of_node(node, |name| files.contains(name)) else { continue };
        let group: Option<Arc<str>> = group.map(Arc::from);
        if !known.contains(&group) && known.len() + found.len() < MOST_GROUPS {
            found.insert(group);
        }
    }
    found
}

/// The words about groups with clients of gRPC.
pub(super) fn say(found: &SeenGroups) -> String {
    let name = |group: &Option<Arc<str>>| match group {
        Some(name) => format!("group `{}`", Printable(name)),
        None => "nodes in no group".to_owned(),
    };
    let named: Vec<_> = found.iter().take(MOST_NAMED).map(name).collect();
    let more = match found.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "gRPC clients are connected ({}{more}): what gRPC rejects or ignores is warned of there; declare \
         `clients: grpc`, also to hold it back, or `clients: envoy`",
        named.join(", ")
    )
}

/// Returns true for a node that says it is gRPC, as in `gRPC Go`, `gRPC C-core` or `grpc-node`.
fn is_grpc(node: &Node) -> bool {
    let begin = node.user_agent_name.as_bytes().get(..4);
    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(b"grpc"))
}

/// The time between two looks of which the first found something.
const PAUSE: Duration = Duration::from_secs(600);
/// The number of nodes of gRPC whose groups are looked up at a time.
const MOST_NODES: usize = 10_000;
/// The number of groups that are kept.
const MOST_GROUPS: usize = 1000;
/// The number of groups that are named.
const MOST_NAMED: usize = 5;
