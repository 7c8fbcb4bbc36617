//! The assignment of clients to groups: the rules in force, and the decisions on all other clients.

use chancery_catalog::Lineage;
use chancery_core::Node;
use chancery_server::{LoadReporting, Refusal};
use serde::{Deserialize, Serialize};

use crate::config::{Config, Decision, GroupRules, LoadReportsTable};

/// The rules in force. They are replaced as a whole when `chancery.yaml` changes.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Grouping {
    rules: GroupRules,
    unmatched: Decision,
    anonymous: Decision,
    #[serde(default)]
    load_reports: LoadReportsTable,
}

/// The thing that decides on the group of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decider<'a> {
    /// A rule, by its place in the list, from 0, and its group.
    Rule { at: usize, name: &'a str },
    /// The cluster of the node, which a directory of groups is called like.
    Cluster(&'a str),
    /// The decision on nodes that no rule matches.
    Unmatched,
}

impl Grouping {
    /// The rules of a configuration.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            rules: config.groups.clone(),
            unmatched: config.unmatched.clone(),
            anonymous: config.anonymous.clone(),
            load_reports: config.load_reports.clone(),
        }
    }

    /// The group of a node, `None` if it belongs to no group.
    pub(crate) fn of_node(
        &self,
        node: &Node,
        is_known: impl Fn(&str) -> bool,
    ) -> Result<Option<String>, Refusal> {
        match self.decides(node, is_known) {
            Decider::Rule { name, .. } | Decider::Cluster(name) => Ok(Some(name.to_owned())),
            Decider::Unmatched => decided(&self.unmatched, || {
                Refusal::Denied(format!(
                    "no group of this server is for node `{}`: a rule for it in `groups` of its \
                     chancery.yaml, or another `unmatched`, would let it in",
                    node.id
                ))
            }),
        }
    }

    /// The one thing that decides on the group of a node: the first rule that matches. If none does, the group
    /// with the name of the node's cluster is taken, if it is known and no rule names it. Otherwise the
    /// decision on unmatched nodes holds.
    pub(crate) fn decides<'a>(
        &'a self,
        node: &'a Node,
        is_known: impl Fn(&str) -> bool,
    ) -> Decider<'a> {
        let mut rules = self.rules.iter().enumerate();
        if let Some((at, rule)) = rules.find(|(_, rule)| rule.conditions.hold(node)) {
            return Decider::Rule { at, name: rule.name.as_str() };
        }
        let cluster = node.cluster.as_str();
        match is_known(cluster) && !self.is_about(cluster) {
            true => Decider::Cluster(cluster),
            false => Decider::Unmatched,
        }
    }

    /// The group of a client that states no node id (S-024).
    pub(crate) fn of_nobody(&self) -> Result<Option<String>, Refusal> {
        decided(&self.anonymous, || {
            Refusal::Unidentified(format!(
                "{}: give the client one in its bootstrap, or set another `anonymous` in chancery.yaml",
                Refusal::anonymous()
            ))
        })
    }

    /// The groups that the rules name.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let decided = [&self.unmatched, &self.anonymous].into_iter().filter_map(|it| match it {
            Decision::Group(name) => Some(name.as_str()),
            Decision::Base | Decision::Refuse => None,
        });
        self.rules.iter().map(|rule| rule.name.as_str()).chain(decided)
    }

    /// The groups that extend others.
    pub(crate) fn lineage(&self) -> &Lineage {
        self.rules.lineage()
    }

    /// The load reports of the clients of a group, or of those in none.
    pub(crate) fn load_reporting_of(&self, group: Option<&str>) -> Option<LoadReporting> {
        self.load_reports.reporting(group, self.lineage())
    }

    fn is_about(&self, group: &str) -> bool {
        self.names().any(|name| name == group)
    }
}

fn decided(
    decision: &Decision,
    refusal: impl FnOnce() -> Refusal,
) -> Result<Option<String>, Refusal> {
    match decision {
        Decision::Base => Ok(None),
        Decision::Group(name) => Ok(Some(name.as_str().to_owned())),
        Decision::Refuse => Err(refusal()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouping(json: &str) -> Grouping {
        Grouping::new(&serde_json::from_str(json).unwrap())
    }

    fn node(id: &str, cluster: &str) -> Node {
        Node { id: id.to_owned(), cluster: cluster.to_owned(), ..Node::default() }
    }

    fn nothing(_: &str) -> bool {
        false
    }

    const RULES: &str = r#"{"groups": [
        {"name": "canary", "match": {"id": "*-1"}},
        {"name": "edge", "match": {"cluster": "front"}}
    ]}"#;

    #[test]
    fn the_first_rule_that_matches_decides() {
        let group = |id, cluster| grouping(RULES).of_node(&node(id, cluster), nothing).unwrap();
        assert_eq!(group("a-1", "front").as_deref(), Some("canary"));
        assert_eq!(group("a-2", "front").as_deref(), Some("edge"));
        assert_eq!(group("a-2", "back"), None);
    }

    #[test]
    fn a_directory_no_rule_is_about_is_for_the_cluster_of_that_name() {
        let known = |name: &str| ["edge", "back"].contains(&name);
        let group = |cluster| grouping(RULES).of_node(&node("a", cluster), known).unwrap();
        assert_eq!(group("back").as_deref(), Some("back"));
        assert_eq!(group("edge"), None);
        assert_eq!(group("other"), None);
    }

    #[test]
    fn a_node_nothing_is_for_gets_what_is_decided() {
        let group = |json: &str| grouping(json).of_node(&node("a", ""), nothing);
        assert_eq!(group(r#"{"unmatched": {"group": "g"}}"#), Ok(Some("g".to_owned())));
        assert_eq!(group(r#"{"unmatched": "base"}"#), Ok(None));
        assert!(matches!(group(r#"{"unmatched": "refuse"}"#), Err(Refusal::Denied(_))));
    }

    #[test]
    fn what_a_client_without_a_name_is_given_is_decided() {
        // S-024
        assert_eq!(grouping("{}").of_nobody(), Ok(None));
        let refused = grouping(r#"{"anonymous": "refuse"}"#).of_nobody();
        assert!(matches!(refused, Err(Refusal::Unidentified(_))), "{refused:?}");
        let group = grouping(r#"{"anonymous": {"group": "g"}}"#).of_nobody();
        assert_eq!(group, Ok(Some("g".to_owned())));
    }
}
