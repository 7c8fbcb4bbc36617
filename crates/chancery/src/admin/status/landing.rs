//! The landing of a load on the nodes that somebody asks about, at one moment.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chancery_catalog::{Audience, Layer};
use chancery_core::Node;
use chancery_server::{AudienceName, Audiences, Fleet, Outcome, StreamStatus};

use super::document::{WaitDocument, WaitOutcome};
use super::not_live::{self, NotLive};
use super::rows;
use super::views::{Groups, View, views};
use super::wait::Wanted;
use crate::admin::load_status::HeldLoads;
use crate::serve::Grouping;

/// A node, or a stream whose client states none.
type NodeKey<'f> = (&'f str, Option<u64>);

/// The landing of a load now, and the mark of this moment.
pub(super) fn look(
    audiences: &Audiences<Grouping>,
    wanted: &Wanted,
    load: Option<u64>,
    held: &HeldLoads,
) -> (WaitDocument, u64) {
    let book = audiences.store().status();
    let Some(load) = load else {
        let why = Some("no load has this digest".to_owned());
        return (WaitDocument { why, ..WaitDocument::default() }, book.fleet().mark());
    };
    // A landing has streams that are as of now, which those of a fleet need not be.
    let fleet = Arc::clone(book.landing(load, |_| false).fleet());
    let groups = Groups::of(audiences);
    let counts = Counts::of(&fleet, &groups, wanted);
    let landing = fleet.landing(load, |it| counts.has(it.node, it.cluster, it.audience));
    let waiting = landing.waiting().map(|stream| key(stream.node.as_deref(), stream.id));
    let gone = landing.gone().map(|gone| (&*gone.node, None));
    let behind: HashSet<NodeKey<'_>> = waiting.chain(gone).collect();
    let mut all = counts.open();
    all.extend(&behind);
    let landed = all.len() - behind.len();
    let (mut outcome, mut why) = outcome(landing.outcome(), wanted, &all, landed);
    // It is read after the streams: a load that they have was judged by now.
    let waiting = held.list();
    let concerns = |since: Option<u64>| wanted.is_of_present() || since.is_none_or(|it| it <= load);
    let mut waiting = waiting.iter();
    if let Some((held, since)) =
        waiting.find(|(held, since)| concerns(*since) && counts.sees(&held.audience))
    {
        // Until it is recorded, nobody knows whether it is of this load.
        let is_known = wanted.is_of_present() || since.is_some();
        if outcome != WaitOutcome::Never {
            outcome = if is_known { WaitOutcome::Refused } else { WaitOutcome::Waiting };
        }
        why = Some(not_live::held(held));
    }
    if wanted.is_of_present() {
        let not_live = NotLive::new(held, &groups);
        if let Some(fault) = not_live.fault(|layer| counts.see(&not_live, layer)) {
            if outcome != WaitOutcome::Never {
                outcome = WaitOutcome::Refused;
            }
            why = Some(rows::shown(format!("the newest edits are not loaded: {fault}")));
        }
    }
    let is_behind = |view: &View<'_>| {
        let number = view.streams.first().filter(|_| view.id.is_empty()).map(|it| it.id);
        behind.contains(&(view.id, number))
    };
    let mut nodes: Vec<_> = views(&fleet, &groups).into_iter().filter(is_behind).collect();
    nodes.sort_by_key(|view| (view.state, view.id));
    let loads = book.loads();
    let shown = loads.iter().find(|it| it.number == load);
    let row = |view: &View<'_>| view.row(&book, &fleet, load);
    let document = WaitDocument {
        outcome,
        load: Some(load),
        hash: shown.and_then(|it| it.content).map(|content| content.to_string()),
        superseded_by: landing.superseded_by(),
        counted: all.len(),
        landed,
        why,
        nodes: nodes.iter().take(wanted.limit).map(row).collect(),
    };
    (document, fleet.mark())
}

/// The outcome by what was asked for, beside that of the streams which are there.
fn outcome(
    outcome: Outcome,
    wanted: &Wanted,
    all: &HashSet<NodeKey<'_>>,
    landed: usize,
) -> (WaitOutcome, Option<String>) {
    match outcome {
        Outcome::Never => (WaitOutcome::Never, None),
        Outcome::Superseded => (WaitOutcome::Superseded, None),
        Outcome::Landed => {
            let is_missing = |node: &&String| !all.contains(&(node.as_str(), None));
            if let Some(missing) = wanted.nodes.iter().find(is_missing) {
                let why = format!("node `{}` is not connected", rows::shown(missing));
                return (WaitOutcome::Waiting, Some(why));
            }
            if landed < wanted.min_nodes {
                let why = format!("{landed} of at least {} nodes have it", wanted.min_nodes);
                return (WaitOutcome::Waiting, Some(why));
            }
            (WaitOutcome::Landed, None)
        }
        _ => (WaitOutcome::Waiting, None),
    }
}

fn key(node: Option<&Node>, stream: u64) -> NodeKey<'_> {
    match node {
        Some(node) => (&node.id, None),
        None => ("", Some(stream)),
    }
}

/// The streams that count.
struct Counts<'f> {
    fleet: &'f Fleet,
    groups: &'f Groups,
    wanted: &'f Wanted,
    /// The clients as a landing knows them, and true for those in a group that is wanted.
    in_groups: HashMap<ClientKey<'f>, bool>,
}

/// A client as a landing knows it: the id of its node, the cluster, and the audience.
type ClientKey<'f> = (Option<&'f str>, &'f str, &'f AudienceName);

impl<'f> Counts<'f> {
    fn of(fleet: &'f Fleet, groups: &'f Groups, wanted: &'f Wanted) -> Self {
        let mut it = Self { fleet, groups, wanted, in_groups: HashMap::new() };
        for stream in &fleet.streams {
            let Some(audience) = &stream.audience else { continue };
            let node = stream.node.as_deref();
            let cluster = node.map_or("", |node| &*node.cluster);
            let is_wanted = it.is_wanted(groups.of_node(node).as_deref());
            let key = (node.map(|node| &*node.id), cluster, audience);
            *it.in_groups.entry(key).or_default() |= is_wanted;
        }
        for gone in &fleet.gone {
            let is_wanted = it.is_wanted(groups.of_gone(gone).as_deref());
            let key = (Some(&*gone.node), &*gone.cluster, &gone.audience);
            // Streams that are open say more of the node.
            it.in_groups.entry(key).or_insert(is_wanted);
        }
        it
    }

    /// Returns true if the nodes of this group are asked about: those that see the files of a group are its
    /// nodes too.
    fn is_wanted(&self, group: Option<&str>) -> bool {
        let seen =
            |wanted: &String| group.is_some_and(|group| self.groups.is_seen_in(wanted, group));
        self.wanted.groups.is_empty() || self.wanted.groups.iter().any(seen)
    }

    /// Returns true for a client that counts. The rules decide.
    fn has(&self, node: Option<&str>, cluster: &str, audience: &AudienceName) -> bool {
        let of_node = |wanted: &String| node.is_some_and(|node| node == wanted);
        if !self.wanted.nodes.is_empty() && !self.wanted.nodes.iter().any(of_node) {
            return false;
        }
        self.wanted.groups.is_empty()
            || self.in_groups.get(&(node, cluster, audience)).is_some_and(|it| *it)
            || self.is_wanted(rows::group_of(audience.as_str()).as_deref())
    }

    /// The nodes with open streams that count.
    fn open(&self) -> HashSet<NodeKey<'f>> {
        let counts = self.fleet.streams.iter().filter(|stream| {
            let node = stream.node.as_deref();
            let (id, cluster) = (node.map(|it| &*it.id), node.map_or("", |it| &*it.cluster));
            let audience = stream.audience.as_ref().filter(|_| stream.counts);
            audience.is_some_and(|audience| self.has(id, cluster, audience))
        });
        counts.map(|stream| key(stream.node.as_deref(), stream.id)).collect()
    }

    /// Returns true if the layer belongs to those who are asked about, or a client that counts sees it.
    fn see(&self, not_live: &NotLive<'_>, layer: Option<&Layer>) -> bool {
        let Wanted { groups, nodes, .. } = self.wanted;
        let is_named = match layer {
            Some(Layer::Group(name)) => {
                groups.iter().any(|group| self.groups.is_seen_in(name, group))
            }
            Some(Layer::Node(name)) => nodes.iter().any(|node| **node == **name),
            None | Some(Layer::Base) => true,
        };
        let is_seen = |stream: &StreamStatus| {
            let node = stream.node.as_deref();
            let (id, cluster) = (node.map(|it| &*it.id), node.map_or("", |it| &*it.cluster));
            let counts = stream.audience.as_ref().is_some_and(|it| self.has(id, cluster, it));
            counts && not_live.is_seen(layer, id, self.groups.of_node(node).as_deref())
        };
        is_named || groups.is_empty() && nodes.is_empty() || self.fleet.streams.iter().any(is_seen)
    }

    /// Returns true if a client that counts sees this audience.
    fn sees(&self, audience: &Audience) -> bool {
        self.fleet.streams.iter().any(|stream| {
            let node = stream.node.as_deref();
            let (id, cluster) = (node.map(|it| &*it.id), node.map_or("", |it| &*it.cluster));
            stream.audience.as_ref().is_some_and(|name| {
                rows::is_name_of(name.as_str(), audience) && self.has(id, cluster, name)
            })
        })
    }
}
