//! The place in a tree of what a path of fields leads to.
//!
//! Only for a violation is a place looked up, so a text without any costs nothing. A path leads to a
//! value, or to the key of a map. Where the tree has less than the path, the place is the key of the
//! last message that is there: there the missing field belongs. An alias is followed to its anchor,
//! because that is where somebody has to edit.

use prost_reflect::FieldDescriptor;

use super::dialect::{AT_TYPE, Dialect};
use crate::rules::Step;
use crate::syntax::{Position, TreeNode, TreeValue};

/// The place of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) position: Position,
    /// True if the tree has all of the path.
    pub(super) whole: bool,
}

/// Looks up the place of a path below a node, which is that of a resource.
pub(super) fn find(root: &TreeNode<'_>, dialect: Dialect, wrapped: bool, steps: &[Step]) -> Found {
    let mut search = Search { dialect, nodes: vec![root], position: root.position() };
    // Protobuf text has the message below its type, and a wrapper has the resource below a field.
    let is_text = dialect == Dialect::Text;
    let mut whole = !is_text || search.content();
    if wrapped {
        whole = whole && search.named("resource", "resource") && search.content();
    }
    whole = whole && steps.iter().all(|step| search.step(step));
    Found { position: search.position, whole }
}

/// Looks up the place of a path in its written form, as in `endpoints[1].priority`: that of its last
/// part that is there.
pub(super) fn find_written(
    root: &TreeNode<'_>,
    dialect: Dialect,
    wrapped: bool,
    path: &str,
) -> Position {
    let mut search = Search { dialect, nodes: vec![root], position: root.position() };
    let mut found = dialect == Dialect::Json || search.content();
    if wrapped {
        found = found && search.named("resource", "resource") && search.content();
    }
    let mut rest = if wrapped { path.strip_prefix("resource.").unwrap_or(path) } else { path };
    while found && !rest.is_empty() {
        let (part, behind) = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']').unwrap_or((inner, "")),
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        let is_field = !rest.starts_with('[');
        found = match (is_field, part.parse()) {
            (true, _) => search.written_field(part),
            (false, Ok(index)) if search.has_items() => search.item(index),
            (false, _) => search.key(part),
        };
        rest = behind.strip_prefix('.').unwrap_or(behind);
    }
    search.position
}

struct Search<'n, 'a> {
    dialect: Dialect,
    /// The nodes that are the value: in protobuf text, a repeated field has one for each item.
    nodes: Vec<&'n TreeNode<'a>>,
    /// The place of the last thing that was found.
    position: Position,
}

impl<'n, 'a> Search<'n, 'a> {
    /// Goes one step down. Returns false if the tree has no such thing.
    fn step(&mut self, step: &Step) -> bool {
        match step {
            Step::Field(field) => self.field(field),
            Step::Index(index) => self.item(*index),
            Step::Key(Some(key)) => self.key(key),
            Step::Content => self.content(),
            Step::Key(None) | Step::Oneof(_) => false,
        }
    }

    fn field(&mut self, field: &FieldDescriptor) -> bool {
        self.named(field.name(), field.json_name())
    }

    fn named(&mut self, name: &str, json_name: &str) -> bool {
        let entries = self.nodes.iter().flat_map(|node| node.entries().unwrap_or_default());
        let all = entries.filter(|entry| entry.key == name || entry.key == json_name);
        let all: Vec<_> = all.collect();
        let Some(first) = all.first() else { return false };
        // The value of a scalar, as in other faults; the key of all else.
        let is_scalar = all.len() == 1 && is_scalar(&first.node);
        self.position = if is_scalar { first.node.position() } else { first.key_position };
        self.nodes = all.iter().map(|entry| &entry.node).collect();
        true
    }

    /// The same for a name alone, which may stand in an `Any` here.
    fn written_field(&mut self, name: &str) -> bool {
        let mut parts = name.split('_');
        let mut json_name = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let mut letters = part.chars();
            json_name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
            json_name.push_str(letters.as_str());
        }
        self.named(name, &json_name) || (self.content() && self.named(name, &json_name))
    }

    /// Returns true if the value is a list, and no map.
    fn has_items(&self) -> bool {
        let is_list = |node: &&TreeNode<'_>| matches!(node.value(), TreeValue::Sequence(_));
        self.dialect == Dialect::Text || self.nodes.iter().any(is_list)
    }

    fn item(&mut self, index: usize) -> bool {
        let mut items = self.nodes.iter().flat_map(|node| match node.value() {
            TreeValue::Sequence(items) => items.as_slice(),
            _ => std::slice::from_ref(*node),
        });
        let Some(item) = items.nth(index) else { return false };
        (self.position, self.nodes) = (item.position(), vec![item]);
        true
    }

    /// Goes to the value under a key of a map. In protobuf text, an entry of a map is a message.
    fn key(&mut self, key: &str) -> bool {
        if self.dialect == Dialect::Json {
            let mut entries = self.nodes.iter().flat_map(|node| node.entries().unwrap_or_default());
            let Some(entry) = entries.find(|entry| entry.key == key) else { return false };
            (self.position, self.nodes) = (entry.key_position, vec![&entry.node]);
            return true;
        }
        let items = self.nodes.iter().flat_map(|node| match node.value() {
            TreeValue::Sequence(items) => items.as_slice(),
            _ => std::slice::from_ref(*node),
        });
        for item in items {
            let entries = item.entries().unwrap_or_default();
            let named = entries.iter().find(|entry| entry.key == "key");
            let Some(named) = named.filter(|entry| scalar_text(&entry.node) == Some(key)) else {
                continue;
            };
            self.position = named.node.position();
            let values = entries.iter().filter(|entry| entry.key == "value");
            self.nodes = values.map(|entry| &entry.node).collect();
            return true;
        }
        false
    }

    /// Goes into an `Any`, whose fields stand beside `@type`, or below it in protobuf text.
    fn content(&mut self) -> bool {
        let entries = self.nodes.first().and_then(|node| node.entries()).unwrap_or_default();
        let below = match self.dialect {
            Dialect::Text => entries.iter().find(|entry| entry.key.starts_with('[')),
            Dialect::Json => {
                let of = entries.iter().find(|entry| entry.key == AT_TYPE);
                let of = of.and_then(|entry| entry.node.text()).unwrap_or_default();
                let is_special = of.contains("/google.protobuf.");
                let value = entries.iter().find(|entry| entry.key == "value");
                match value.filter(|_| is_special) {
                    None => return true,
                    value => value,
                }
            }
        };
        let Some(below) = below else { return false };
        (self.position, self.nodes) = (below.key_position, vec![&below.node]);
        true
    }
}

fn is_scalar(node: &TreeNode<'_>) -> bool {
    !matches!(node.value(), TreeValue::Sequence(_) | TreeValue::Mapping(_))
}

fn scalar_text<'n>(node: &'n TreeNode<'_>) -> Option<&'n str> {
    match node.value() {
        TreeValue::Text(text) | TreeValue::Number(text) => Some(text),
        TreeValue::Word(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Checks, Format, MAX_FAULTS, parse_checked};
    use crate::Schema;

    /// The places and paths of all warnings.
    fn grpc() -> Checks {
        let clients = "grpc".parse().unwrap();
        Checks { clients, ..Checks::default() }
    }

    fn warned(format: Format, text: &str) -> Vec<String> {
        let parsed = parse_checked(&Schema::bundled(), format, text.as_bytes(), grpc());
        assert_eq!(parsed.faults, []);
        let all = parsed.resources.iter().flat_map(|found| &found.warnings);
        all.map(|it| format!("{} {}", it.position.unwrap(), it.path)).collect()
    }

    #[test]
    fn of_many_warnings_the_first_have_a_place() {
        let cluster = |at: usize| {
            format!(
                "- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: c{at}\n  \
                 type: EDS\n  eds_cluster_config: {{eds_config: {{path: /a}}}}\n"
            )
        };
        let text: String = (0..150).map(cluster).collect();
        let parsed = parse_checked(&Schema::bundled(), Format::Yaml, text.as_bytes(), grpc());
        let warnings = parsed.resources.iter().flat_map(|found| &found.warnings);
        let placed = warnings.clone().filter(|warning| warning.position.is_some()).count();
        assert_eq!((warnings.count(), placed), (150, MAX_FAULTS));
    }

    #[test]
    fn a_warning_points_at_its_field() {
        let url = "type.googleapis.com/envoy";
        let text = format!(
            "- \"@type\": {url}.config.endpoint.v3.ClusterLoadAssignment\n  clusterName: a\n  \
             endpoints:\n  - locality: {{region: a}}\n    loadBalancingWeight: 1\n  - locality: {{}}\n\
             - \"@type\": {url}.service.discovery.v3.Resource\n  name: b\n  resource:\n    \
             \"@type\": {url}.config.cluster.v3.Cluster\n    type: EDS\n    edsClusterConfig:\n      edsConfig:\n        \
             path: /a\n"
        );
        assert_eq!(
            warned(Format::Yaml, &text),
            ["line 6, column 5 endpoints[1]", "line 13, column 7 eds_cluster_config.eds_config",]
        );
        let text = format!(
            "resources {{\n  [{url}.config.cluster.v3.Cluster] {{\n    name: 'a'\n    type: EDS\n    \
             eds_cluster_config {{\n      eds_config {{ path: '/a' }}\n    }}\n  }}\n}}\n"
        );
        assert_eq!(warned(Format::Text, &text), ["line 6, column 7 eds_cluster_config.eds_config"]);
    }
}
