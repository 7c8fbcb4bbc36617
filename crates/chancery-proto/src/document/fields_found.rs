//! The places of fields that something is found about after their text was read, as that a reference leads
//! nowhere.
//!
//! Nobody keeps the places of all fields, so the text is read again, and of a stream of documents only those
//! with such a field. Not here: the place of a path below a resource (`places`).

use std::collections::{BTreeMap, BTreeSet};

use super::dialect::{AT_TYPE, Dialect};
use super::{Format, Piece, pieces, places};
use crate::resource::is_wrapper;
use crate::schema::Schema;
use crate::sensitive::may_hold_secrets;
use crate::syntax::{Documents, Position, TreeNode, TreeValue, read_json, read_text, read_yaml};

/// Looks up fields in a text, each by the place at which its resource, or the patch of one, begins, and by its
/// path, as in `virtual_hosts[0].routes[1].route.cluster`. The place is that of the last part of the path that is
/// there; `None` if no resource begins at that place, and for all of a binary file.
pub fn find_fields(
    format: Format,
    text: &str,
    wanted: &[(Position, &str)],
) -> Vec<Option<Position>> {
    let mut found = vec![None; wanted.len()];
    let read = match format {
        Format::Yaml => read_yaml,
        Format::Json => read_json,
        Format::Text => read_text,
        Format::Binary => return found,
    };
    let dialect = if format == Format::Text { Dialect::Text } else { Dialect::Json };
    let pieces = if format == Format::Yaml { pieces(text) } else { None };
    let pieces = pieces.unwrap_or_else(|| vec![Piece { lines: 0, text }]);
    let mut by_piece: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, (start, _)) in wanted.iter().enumerate() {
        let behind = pieces.partition_point(|piece| piece.lines < start.line);
        by_piece.entry(behind.saturating_sub(1)).or_default().push(at);
    }
    for (piece, wanted_there) in by_piece {
        let Piece { lines, text } = pieces[piece];
        let start = |at: usize| Position {
            line: wanted[at].0.line.saturating_sub(lines),
            column: wanted[at].0.column,
        };
        let mut nodes = Nodes {
            starts: wanted_there.iter().map(|at| start(*at)).collect(),
            found: BTreeMap::new(),
        };
        let documents: Documents<'_> = read(text);
        documents.roots.iter().for_each(|root| nodes.look(root, true));
        for at in wanted_there {
            let Some(node) = nodes.found.get(&start(at)) else { continue };
            let place = places::find_written(node, dialect, is_wrapped(node), wanted[at].1);
            let line = place.line.saturating_add(lines);
            found[at] = Some(Position { line, ..place });
        }
    }
    found
}

/// Returns true if lines of a text may be shown: it has no word of a secret (S-138).
pub fn may_be_shown(schema: &Schema, text: &str) -> bool {
    !may_hold_secrets(schema, text)
}

/// The resources and patches of a text that begin at some places.
struct Nodes<'n, 'a> {
    starts: BTreeSet<Position>,
    found: BTreeMap<Position, &'n TreeNode<'a>>,
}

impl<'n, 'a> Nodes<'n, 'a> {
    fn look(&mut self, node: &'n TreeNode<'a>, is_root: bool) {
        match node.value() {
            TreeValue::Sequence(items) => items.iter().for_each(|item| self.look(item, false)),
            TreeValue::Mapping(_) if self.starts.contains(&node.position()) => {
                self.found.entry(node.position()).or_insert(node);
            }
            TreeValue::Mapping(entries) if is_root => {
                let has_resources = |key: &str| matches!(key, "resources" | "patch");
                for entry in entries.iter().filter(|entry| has_resources(&entry.key)) {
                    self.look(&entry.node, false);
                }
            }
            _ => {}
        }
    }
}

/// Returns true for a wrapper around a resource.
fn is_wrapped(node: &TreeNode<'_>) -> bool {
    let mut entries = node.entries().unwrap_or_default().iter();
    entries.any(|entry| match entry.key.strip_prefix('[') {
        Some(url) => is_wrapper(url.trim_end_matches(']')),
        None => entry.key == AT_TYPE && entry.node.text().is_some_and(is_wrapper),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::parse;

    const PATH: &str = "virtual_hosts[0].routes[1].route.cluster";

    /// The place of the field in each resource and patch of a text.
    fn found(format: Format, text: &str) -> Vec<String> {
        let parsed = parse(&Schema::bundled(), format, text.as_bytes());
        assert_eq!(parsed.faults, []);
        let resources = parsed.resources.iter().map(|it| (it.position, PATH));
        let edits = parsed.edits.iter().map(|it| (it.position, PATH));
        let wanted: Vec<_> = resources.chain(edits).collect();
        let found = find_fields(format, text, &wanted);
        found.iter().map(|it| it.map_or("none".to_owned(), |it| it.to_string())).collect()
    }

    #[test]
    fn a_field_is_found_wherever_its_resource_stands() {
        let url = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
        let hosts = "virtual_hosts: [{name: a, domains: [a], routes: [{match: {prefix: /}, \
                     route: {cluster: a}},\n   {match: {prefix: /}, route: {cluster: b}}]}]";
        let one = format!("{{\"@type\": {url}, name: NAME, {hosts}}}");
        let at = |name: &str| one.replace("NAME", name);
        let wrapped = format!(
            "{{\"@type\": type.googleapis.com/envoy.service.discovery.v3.Resource, name: w, resource: {}}}",
            at("w")
        );
        let cases = [
            (at("a"), vec!["line 2, column 42"]),
            (
                format!("- {}\n- {}\n", at("a"), at("b")),
                vec!["line 2, column 42", "line 4, column 42"],
            ),
            (
                format!("{}\n---\n[{}]\n", at("a"), at("b")),
                vec!["line 2, column 42", "line 5, column 42"],
            ),
            (format!("resources: [{wrapped}]\n"), vec!["line 2, column 42"]),
            (format!("# first\npatch:\n- {}\n", at("a")), vec!["line 4, column 42"]),
        ];
        for (text, wanted) in cases {
            assert_eq!(found(Format::Yaml, &text), wanted, "{text}");
        }
        let route = "routes { match { prefix: '/' } route { cluster: 'a' } }\n";
        let text = format!(
            "resources {{ [{url}] {{ name: 'a'\nvirtual_hosts {{ name: 'a' domains: 'a'\n{route}{route}}} }} }}\n"
        );
        assert_eq!(found(Format::Text, &text), ["line 4, column 49"]);
    }

    #[test]
    fn nothing_is_found_where_no_resource_begins() {
        let elsewhere = [(Position { line: 7, column: 1 }, "name")];
        assert_eq!(find_fields(Format::Yaml, "name: a\n", &elsewhere), [None]);
        assert_eq!(find_fields(Format::Binary, "", &elsewhere), [None]);
        assert_eq!(find_fields(Format::Yaml, "", &elsewhere), [None]);
    }
}
