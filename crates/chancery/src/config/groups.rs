//! The `groups` key: rules that assign a node to a group by what the node says about itself.
//!
//! Rules are tried in the order they are written, and the first that matches decides. What a node
//! says about itself is not proof (S-137): groups choose configuration, they do not protect it.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use chancery_catalog::{InvalidLineage, Lineage};
use chancery_core::{Locality, Node, Value};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::clients::DeclaredClients;
use super::pattern::Patterns;
use super::version::VersionRange;

/// All rules, in their order, and which group extends which.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(try_from = "Vec<GroupRule>", into = "Vec<GroupRule>")]
pub(crate) struct GroupRules {
    rules: Vec<GroupRule>,
    lineage: Lineage,
}

/// One rule: a group, and the conditions under which a node belongs to it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a mapping")]
pub(crate) struct GroupRule {
    /// The group, and so the directory `groups/NAME`. Several rules may name the same one.
    pub(crate) name: GroupName,
    /// The conditions on the node, at least one.
    #[serde(rename = "match", deserialize_with = "at_least_one")]
    pub(crate) conditions: NodeConditions,
    /// The group whose files stand below those of this one. Every rule of a group that says so has to say
    /// the same. Default: none, and the files at the top stand below them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) extends: Option<GroupName>,
    /// Patterns for names that the clients of the group know and no file has. Several rules of one
    /// group add up. Default: none.
    #[serde(default, skip_serializing_if = "Patterns::is_empty")]
    pub(crate) external: Patterns,
    /// The clients of the group: `envoy`, `envoy=1.36`, `grpc`. Several rules of one group add up. Default:
    /// those of the group that it extends, or those of all.
    #[serde(default, skip_serializing_if = "DeclaredClients::is_empty")]
    pub(crate) clients: DeclaredClients,
}

/// The conditions on a node. Every condition that is written must hold; a condition holds if any of
/// its patterns matches.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a mapping")]
pub(crate) struct NodeConditions {
    /// Patterns for the node's id.
    #[serde(skip_serializing_if = "Patterns::is_empty")]
    pub(crate) id: Patterns,
    /// Patterns for the node's cluster, which Envoy calls the service cluster.
    #[serde(skip_serializing_if = "Patterns::is_empty")]
    pub(crate) cluster: Patterns,
    /// Patterns for the region of the node's locality.
    #[serde(skip_serializing_if = "Patterns::is_empty")]
    pub(crate) region: Patterns,
    /// Patterns for the zone of the node's locality.
    #[serde(skip_serializing_if = "Patterns::is_empty")]
    pub(crate) zone: Patterns,
    /// Patterns for the sub-zone of the node's locality.
    #[serde(skip_serializing_if = "Patterns::is_empty")]
    pub(crate) sub_zone: Patterns,
    /// Patterns for values of the node's metadata, by path: `role`, `labels.team`. Of a list, any
    /// element may match.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) metadata: BTreeMap<String, Patterns>,
    /// Patterns for the name of the client: `envoy`, `gRPC *`.
    #[serde(skip_serializing_if = "Patterns::is_empty")]
    pub(crate) user_agent: Patterns,
    /// A range for the client's version: `>=1.36, <1.40`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user_agent_version: Option<VersionRange>,
}

/// The treatment of a node that no rule decides on.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Decision {
    /// The node gets the files at the top of the directory.
    Base,
    /// The node gets the resources of this group.
    Group(GroupName),
    /// The node is refused with an error that says why.
    Refuse,
}

/// The name of a group: also that of a directory.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct GroupName(String);

/// The error for a text that is no name of a group.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a group needs a name")]
pub(crate) struct InvalidGroupName;

impl GroupRules {
    /// The groups that extend others.
    pub(crate) fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// The rules, in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &GroupRule> {
        self.rules.iter()
    }
}

impl TryFrom<Vec<GroupRule>> for GroupRules {
    type Error = InvalidLineage;
    fn try_from(rules: Vec<GroupRule>) -> Result<Self, InvalidLineage> {
        let extends = rules.iter().filter_map(|rule| Some((&rule.name, rule.extends.as_ref()?)));
        let lineage = Lineage::new(extends.map(|(one, other)| (one.as_str(), other.as_str())))?;
        Ok(Self { rules, lineage })
    }
}

impl From<GroupRules> for Vec<GroupRule> {
    fn from(rules: GroupRules) -> Self {
        rules.rules
    }
}

impl GroupName {
    /// The name as text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for GroupName {
    type Error = InvalidGroupName;
    fn try_from(text: String) -> Result<Self, InvalidGroupName> {
        if text.is_empty() { Err(InvalidGroupName) } else { Ok(Self(text)) }
    }
}

impl From<GroupName> for String {
    fn from(name: GroupName) -> Self {
        name.0
    }
}

impl Display for GroupName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl NodeConditions {
    /// Returns true if there are no conditions, so that every node would match.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A node that meets all conditions, with this id if they say nothing of it; `None` if some condition has
    /// only patterns, or a range.
    pub(crate) fn example(&self, id: &str) -> Option<Node> {
        let text = |wanted: &Patterns, otherwise: &str| match wanted.is_empty() {
            true => Some(otherwise.to_owned()),
            false => wanted.exact().map(str::to_owned),
        };
        let metadata = self.metadata.iter().map(|(path, wanted)| {
            // A key with dots in it is looked up first.
            Some((path.clone(), Value::Text(wanted.exact()?.to_owned())))
        });
        let node = Node {
            id: text(&self.id, id)?,
            cluster: text(&self.cluster, "")?,
            locality: Locality {
                region: text(&self.region, "")?,
                zone: text(&self.zone, "")?,
                sub_zone: text(&self.sub_zone, "")?,
            },
            user_agent_name: text(&self.user_agent, "chancery")?,
            metadata: Arc::new(metadata.collect::<Option<_>>()?),
            ..Node::default()
        };
        self.hold(&node).then_some(node)
    }

    /// Returns true if `node` meets all conditions.
    pub(crate) fn hold(&self, node: &Node) -> bool {
        let texts = [
            (&self.id, &node.id),
            (&self.cluster, &node.cluster),
            (&self.region, &node.locality.region),
            (&self.zone, &node.locality.zone),
            (&self.sub_zone, &node.locality.sub_zone),
            (&self.user_agent, &node.user_agent_name),
        ];
        let version = self.user_agent_version.as_ref();
        texts.iter().all(|(wanted, found)| wanted.is_empty() || wanted.matches(found))
            && version.is_none_or(|range| range.contains(&node.user_agent_version))
            && self.metadata.iter().all(|(path, wanted)| {
                lookup(&node.metadata, path).is_some_and(|found| value_matches(wanted, found))
            })
    }
}

/// Refuses a rule without conditions: it is more likely a mistake of indentation than meant for
/// every node.
fn at_least_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NodeConditions, D::Error> {
    let conditions = NodeConditions::deserialize(deserializer)?;
    if conditions.is_empty() {
        return Err(D::Error::custom("no condition; every node is matched by `id: \"*\"`"));
    }
    Ok(conditions)
}

/// The value at a path. A key may contain dots itself; longer keys are tried first.
fn lookup<'a>(map: &'a BTreeMap<String, Value>, path: &str) -> Option<&'a Value> {
    if let Some(found) = map.get(path) {
        return Some(found);
    }
    path.rmatch_indices('.').find_map(|(dot, _)| match map.get(&path[..dot]) {
        Some(Value::Map(inner)) => lookup(inner, &path[dot + 1..]),
        _ => None,
    })
}

fn value_matches(wanted: &Patterns, found: &Value) -> bool {
    match found {
        Value::Text(text) => wanted.matches(text),
        Value::Number(number) => wanted.matches(&number.to_string()),
        Value::Bool(truth) => wanted.matches(&truth.to_string()),
        Value::List(list) => list.iter().any(|element| value_matches(wanted, element)),
        Value::Null | Value::Map(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(json: &str) -> NodeConditions {
        serde_json::from_str(json).unwrap()
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn envoy() -> Node {
        let mut node = Node {
            id: "edge-1".to_owned(),
            cluster: "edge".to_owned(),
            user_agent_name: "envoy".to_owned(),
            user_agent_version: "1.36.2".to_owned(),
            ..Node::default()
        };
        node.locality.region = "eu-west".to_owned();
        let labels = [("team".to_owned(), text("pay")), ("a.b".to_owned(), Value::Bool(true))];
        let metadata = Arc::make_mut(&mut node.metadata);
        metadata.insert("labels".to_owned(), Value::Map(labels.into()));
        metadata.insert("roles".to_owned(), Value::List(vec![text("x"), text("y")]));
        metadata.insert("shard".to_owned(), Value::Number(7.0));
        metadata.insert("dotted.key".to_owned(), text("z"));
        node
    }

    #[test]
    fn every_condition_must_hold() {
        let holds = |json: &str| conditions(json).hold(&envoy());
        assert!(holds(r#"{"id": "edge-*"}"#));
        assert!(holds(r#"{"id": ["other", "edge-1"], "cluster": "edge", "region": "eu-*"}"#));
        assert!(!holds(r#"{"id": "edge-*", "cluster": "core"}"#));
        assert!(!holds(r#"{"zone": "?*"}"#));
    }

    #[test]
    fn old_clients_can_be_given_a_group_of_their_own() {
        // S-064
        let old = conditions(r#"{"user-agent": "envoy", "user-agent-version": "<1.40"}"#);
        assert!(old.hold(&envoy()));
        assert!(!old.hold(&Node { user_agent_version: "1.40.0".to_owned(), ..envoy() }));
        assert!(!old.hold(&Node { user_agent_name: "gRPC Go".to_owned(), ..envoy() }));
        assert!(!old.hold(&Node { user_agent_version: String::new(), ..envoy() }));
    }

    #[test]
    fn metadata_is_found_by_path() {
        let holds = |json: &str| conditions(&format!(r#"{{"metadata": {json}}}"#)).hold(&envoy());
        assert!(holds(r#"{"labels.team": "p*"}"#));
        assert!(holds(r#"{"labels.a.b": true, "roles": "y", "shard": 7, "dotted.key": "z"}"#));
        assert!(!holds(r#"{"labels": "*"}"#));
        assert!(!holds(r#"{"labels.team.x": "*"}"#));
        assert!(!holds(r#"{"missing": "*"}"#));
        assert!(!holds(r#"{"labels.team": "pay", "roles": "w"}"#));
    }

    #[test]
    fn a_rule_has_a_name_and_a_condition() {
        let read = |json: &str| serde_json::from_str::<GroupRule>(json);
        assert!(read(r#"{"name": "edge", "match": {"id": "*"}}"#).is_ok());
        for wrong in [
            r#"{"name": "edge", "match": {}}"#,
            r#"{"name": "edge"}"#,
            r#"{"name": "", "match": {"id": "*"}}"#,
            r#"{"name": "edge", "match": {"ids": "*"}}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn groups_extend_each_other_in_one_way() {
        let read = |json: &str| serde_json::from_str::<GroupRules>(json);
        let rules = r#"[{"name": "canary", "extends": "edge", "match": {"id": "a"}},
                        {"name": "canary", "match": {"id": "b"}},
                        {"name": "edge", "match": {"id": "*"}}]"#;
        let rules = read(rules).unwrap();
        assert_eq!(*rules.lineage(), Lineage::new([("canary", "edge")]).unwrap());
        assert_eq!(rules.iter().count(), 3);
        let circle = r#"[{"name": "a", "extends": "b", "match": {"id": "a"}},
                         {"name": "b", "extends": "a", "match": {"id": "b"}}]"#;
        let told = read(circle).unwrap_err().to_string();
        assert!(told.contains("group `a` would extend itself: a -> b -> a"), "{told}");
    }
}
