//! Groups with files that no rule names: they are for nodes whose cluster has their name.
//!
//! That is a way to have groups, so it is said and not warned of. If no node has such a cluster, and nodes in no
//! group have nearly the same one, the name of the directory has most likely a slip.

use std::collections::BTreeSet;

use chancery_core::printable::Printable;
use chancery_proto::syntax::{closest, did_you_mean_this};
use chancery_server::Audiences;

use super::grouping::Grouping;

/// The groups with files that no rule names, and that no other group extends.
pub(super) fn unruled(audiences: &Audiences<Grouping>) -> BTreeSet<String> {
    let (grouping, known) = (audiences.assignment(), audiences.catalog().groups());
    let lineage = grouping.lineage();
    let extended = lineage.groups().filter_map(|group| lineage.parent(group));
    let named: BTreeSet<&str> = grouping.names().chain(extended.map(|group| &**group)).collect();
    let names = known.iter().map(|name| &**name);
    names.filter(|name| !named.contains(name)).map(str::to_owned).collect()
}

/// The words about some of them.
pub(super) fn say<'a>(names: impl Iterator<Item = &'a String>) -> Option<String> {
    let all: Vec<_> = names.collect();
    let named: Vec<_> =
        all.iter().take(MOST_NAMED).map(|name| format!("`{}`", Printable(name))).collect();
    let more = all.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named = named.join(", ");
    match all.len() {
        0 => None,
        1 => Some(format!(
            "no rule names group {named}: it is for nodes whose cluster has this name"
        )),
        _ => Some(format!(
            "no rule names the groups {named}{more}: each is for nodes whose cluster has its name"
        )),
    }
}

/// The groups among these that no node is in, each with the cluster of nodes in no group that is nearly its
/// name. Of many nodes, the first are looked at.
pub(super) fn nearly_clusters(
    audiences: &Audiences<Grouping>,
    unruled: &BTreeSet<String>,
) -> BTreeSet<(String, String)> {
    let watched = audiences.watched();
    let is_used = |name: &String| watched.iter().any(|it| it.group.as_deref() == Some(&**name));
    let unused: Vec<_> = unruled.iter().filter(|name| !is_used(name)).collect();
    if unused.is_empty() {
        return BTreeSet::new();
    }
    let (grouping, known) = (audiences.assignment(), audiences.catalog().groups());
    let mut clusters = BTreeSet::new();
    for node in audiences.nodes().into_iter().take(MOST_NODES) {
        if clusters.len() < MOST_CLUSTERS
            && !clusters.contains(&node.cluster)
            && grouping.of_node(&node, |name| known.contains(name)) == Ok(None)
        {
            clusters.insert(node.cluster.clone());
        }
    }
    let near = |name: &String| {
        let cluster = closest(name, clusters.iter().map(String::as_str))?;
        Some((name.clone(), cluster.to_owned()))
    };
    unused.into_iter().take(MOST_GROUPS).filter_map(near).collect()
}

/// The words about a group and the cluster that is nearly its name.
pub(super) fn say_nearly((group, cluster): &(String, String)) -> String {
    let question = did_you_mean_this(group, cluster, |near| format!("`groups/{near}/`"));
    let (group, cluster, question) = (Printable(group), Printable(cluster), Printable(question));
    format!(
        "group `{group}` has files and no node, and nodes of cluster `{cluster}` are in no group; {question}"
    )
}

/// The number of groups that are named in a line.
const MOST_NAMED: usize = 10;
/// The number of groups that are compared with clusters.
const MOST_GROUPS: usize = 100;
/// The near misses of clusters that are told until a group of them goes.
pub(super) const MOST_TOLD: usize = 1_000;
/// The clusters that are compared.
const MOST_CLUSTERS: usize = 1_000;
/// The number of nodes whose clusters are looked at.
const MOST_NODES: usize = 10_000;
