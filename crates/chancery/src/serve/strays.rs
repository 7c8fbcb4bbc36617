//! Directories of groups and nodes that come and that nobody is of, with nearly the name of one that somebody is:
//! `groups/egde/`, `nodes/egde-1/`.
//!
//! A new group may well wait for its nodes, so a directory is told of once, when it comes, and only with the name
//! that may be meant. Not here: groups that rules name and that have no files (`audiences`).

use std::collections::BTreeSet;

use chancery_catalog::{Layer, Reassigned, Revision};
use chancery_core::printable::{Printable, cut};
use chancery_proto::syntax::{closest, did_you_mean_this};
use chancery_server::Audiences;

use super::grouping::Grouping;

/// A directory that came and that may be meant for another one.
pub(super) struct Stray {
    pub(super) words: String,
    /// The group, if it is one, and the one that may be meant.
    pub(super) group: Option<(String, String)>,
}

/// The directories that came with a revision and that may be meant for others.
pub(super) fn strays(audiences: &Audiences<Grouping>, revision: &Revision) -> Vec<Stray> {
    let all;
    let came = match &revision.reassigned {
        Reassigned::Overlays(layers) => layers,
        // At the start nobody is there but the rules.
        Reassigned::Everybody => {
            let groups = audiences.catalog().groups();
            all = groups.iter().map(|name| Layer::Group(name.clone())).collect::<Vec<_>>();
            &all
        }
    };
    let came = came.iter().filter(|layer| audiences.catalog().content(layer).is_some());
    let mut said = Vec::new();
    for layer in came.take(MOST) {
        said.extend(match layer {
            Layer::Base => None,
            Layer::Group(name) => of_group(audiences, name),
            Layer::Node(id) => of_node(audiences, id),
        });
    }
    said
}

fn of_group(audiences: &Audiences<Grouping>, name: &str) -> Option<Stray> {
    let (grouping, watched) = (audiences.assignment(), audiences.watched());
    let lineage = grouping.lineage();
    let parents = lineage.groups().filter_map(|group| lineage.parent(group));
    let mut used: BTreeSet<&str> = grouping.names().chain(parents.map(|it| &**it)).collect();
    used.extend(watched.iter().filter_map(|audience| audience.group.as_deref()));
    let is_used = used.contains(name);
    let near = closest(name, used.into_iter().take(MOST_COMPARED)).filter(|_| !is_used)?;
    let group = Some((name.to_owned(), near.to_owned()));
    let question = did_you_mean_this(name, near, |near| format!("`groups/{near}/`"));
    let (name, question) = (shown(name), shown(&question));
    let words = format!(
        "`groups/{name}/`: no rule of chancery.yaml names group `{name}`, and no node of it is connected; {question}"
    );
    Some(Stray { words, group })
}

fn of_node(audiences: &Audiences<Grouping>, id: &str) -> Option<Stray> {
    let (nodes, own) = (audiences.nodes(), audiences.catalog().nodes());
    let is_connected = nodes.iter().any(|node| node.id == id);
    let others = nodes.iter().map(|node| node.id.as_str()).filter(|it| !own.contains(it));
    let near = closest(id, others.take(MOST_COMPARED)).filter(|_| !is_connected)?;
    let question =
        did_you_mean_this(id, near, |near| format!("`nodes/{near}/`, which is and has no files"));
    let (id, question) = (shown(id), shown(&question));
    let words = format!("`nodes/{id}/`: no node `{id}` is connected; {question}");
    Some(Stray { words, group: None })
}

fn shown(name: &str) -> String {
    Printable(cut(name, LONGEST)).to_string()
}

/// The directories that are looked at.
const MOST: usize = 100;
/// The number of names that one is compared with.
const MOST_COMPARED: usize = 1000;
/// The bytes of a name that are shown.
const LONGEST: usize = 128;
