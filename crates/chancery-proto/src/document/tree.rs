//! The documents of a text: one resource, a list of them, or a `DiscoveryResponse`.
//!
//! The faults of syntax, fields and resources are put together in the order of their positions. Not
//! here: the fields of a message (`message`, `reader`), the checks of a resource (`collect`), and
//! binary files (`binary`).

use prost_reflect::MessageDescriptor;

use super::collect::{Collector, Location};
use super::dialect::{AT_TYPE, Dialect};
use super::node_values::Declared;
use super::reader::MessageReader;
use super::scalar::Mismatch;
use super::{Checks, Parsed, edits};
use crate::schema::Schema;
use crate::syntax::{Documents, Fault, FaultList, MapEntry, PathStep, TreeNode, TreeValue};

/// Reads the resources of all documents.
pub(super) fn parse(
    schema: &Schema,
    dialect: Dialect,
    text: &str,
    documents: Documents<'_>,
    checks: Checks,
) -> Parsed {
    let Documents { roots, faults } = documents;
    let reader = MessageReader::new(schema, dialect, text);
    let mut documents = DocumentReader {
        schema,
        dialect,
        reader,
        collector: Collector::new(checks),
        declared: Vec::new(),
    };
    for root in &roots {
        documents.document(root);
    }
    documents.place_values();
    let DocumentReader { reader, mut collector, .. } = documents;
    let (violations, more_violations) = match collector.has_violations() {
        true => collector.violations(reader.confidential()),
        false => (Vec::new(), 0),
    };
    let count = collector.faults.count() + faults.count() + reader.faults.count();
    let confidential = count > 0 && reader.confidential();
    let (mut faults, more_faults) = FaultList::merged([collector.faults, faults, reader.faults]);
    if confidential {
        faults = faults.into_iter().map(Fault::confidential).collect();
    }
    let is_blank = faults.is_empty() && roots.iter().all(TreeNode::is_null);
    let resources = collector.resources;
    let edits = collector.edits;
    Parsed { resources, edits, faults, more_faults, violations, more_violations, is_blank }
}

pub(super) struct DocumentReader<'s, 'n> {
    pub(super) schema: &'s Schema,
    pub(super) dialect: Dialect,
    pub(super) reader: MessageReader<'s, 'n>,
    pub(super) collector: Collector,
    /// The values of nodes, whose resources may come later.
    pub(super) declared: Vec<Declared<'n, 'n>>,
}

impl<'n> DocumentReader<'_, 'n> {
    fn document(&mut self, root: &'n TreeNode<'n>) {
        match root.value() {
            TreeValue::Null => {}
            TreeValue::Mapping(entries) if self.dialect == Dialect::Text => {
                self.response(RESPONSE, entries);
            }
            TreeValue::Mapping(entries) if edits::is_edits(entries) => self.edits(entries),
            TreeValue::Mapping(entries) => match response_type(entries) {
                Some(message) => self.response(message, entries),
                None => self.resource(root),
            },
            TreeValue::Sequence(_) => self.list(root),
            _ => {
                // A text that is not configuration at all may be a token that was put here by
                // mistake.
                self.reader.mark_confidential();
                let expected = "a resource (a mapping with `@type`), a list of them, or a \
                                `DiscoveryResponse`";
                self.reader.mismatch::<()>(root, Mismatch::Expected(expected.to_owned()));
            }
        }
    }

    /// Reads a `DiscoveryResponse`. Its own fields are checked, and only the type is used.
    fn response(&mut self, message: &str, entries: &'n [MapEntry<'_>]) {
        let Some(descriptor) = self.schema.message(message) else { return };
        let others = |entry: &&MapEntry<'_>| entry.key != "resources" && entry.key != AT_TYPE;
        let response = self.reader.fields(&descriptor, entries.iter().filter(others));
        let type_url = response.and_then(|response| {
            response.get_field_by_name("type_url")?.as_str().map(str::to_owned)
        });
        let before = self.collector.resources.len();
        let resources = entries.iter().filter(|entry| entry.key == "resources");
        for (index, entry) in resources.enumerate() {
            self.reader.path.push(PathStep::Field(&entry.key));
            match self.dialect {
                Dialect::Json if entry.node.is_null() => {}
                Dialect::Json => self.list(&entry.node),
                Dialect::Text => self.text_resources(&descriptor, index, &entry.node),
            }
            self.reader.path.pop();
        }
        if let Some(type_url) = type_url.filter(|url| !url.is_empty()) {
            self.check_type(&type_url, entries, before);
        }
    }

    /// Checks that all resources of a response are of the type that the response states.
    fn check_type(&mut self, type_url: &str, entries: &[MapEntry<'_>], before: usize) {
        let Collector { resources, faults, .. } = &mut self.collector;
        let others = resources[before..].iter();
        let Some(other) = others.map(|other| &other.type_url).find(|url| url.as_str() != type_url)
        else {
            return;
        };
        let said = entries.iter().find(|entry| entry.key == "type_url" || entry.key == "typeUrl");
        let position = said.map(|entry| entry.node.position());
        let message = format!("the response is said to be of `{type_url}`, but holds a `{other}`");
        faults.push(|| Fault {
            position,
            ..Fault::new(message).under("type_url").of_code("wrong-resource")
        });
    }

    fn list(&mut self, node: &'n TreeNode<'_>) {
        let TreeValue::Sequence(nodes) = node.value() else {
            self.reader.mismatch::<()>(node, Mismatch::Expected("a list of resources".to_owned()));
            return;
        };
        for (index, node) in nodes.iter().enumerate() {
            self.reader.path.push(PathStep::Index(index));
            self.resource(node);
            self.reader.path.pop();
        }
    }

    fn resource(&mut self, node: &'n TreeNode<'_>) {
        if let Some((type_url, message)) = self.reader.typed(node) {
            let (dialect, path) = (self.dialect, self.reader.path.text());
            let place = Location { node: Some(node), dialect, path };
            self.collector.add(self.schema, type_url, &message, &place);
        }
    }

    /// Reads one `resources { … }`, or `resources: [ … ]`, of protobuf text.
    fn text_resources(
        &mut self,
        response: &MessageDescriptor,
        index: usize,
        node: &'n TreeNode<'_>,
    ) {
        let nodes = match node.value() {
            TreeValue::Sequence(nodes) => &nodes[..],
            _ => std::slice::from_ref(node),
        };
        for (offset, node) in nodes.iter().enumerate() {
            self.reader.path.push(PathStep::Index(index + offset));
            self.text_resource(response, node);
            self.reader.path.pop();
        }
    }

    fn text_resource(&mut self, response: &MessageDescriptor, node: &'n TreeNode<'_>) {
        let any = response.get_field_by_name("resources").map(|field| field.kind());
        let Some(any) = any.as_ref().and_then(|kind| kind.as_message()) else { return };
        let Some(any) = self.reader.message(any, node) else { return };
        let (dialect, path) = (self.dialect, self.reader.path.text());
        let place = Location { node: Some(node), dialect, path };
        self.collector.add_any(self.schema, &any, &place);
    }
}

/// The message name of a `DiscoveryResponse` of v3 or v2. The result is `None` for any other
/// mapping.
fn response_type<'e>(entries: &[MapEntry<'e>]) -> Option<&'static str> {
    const OWN: [&str; 5] = ["resources", "version_info", "versionInfo", "type_url", "typeUrl"];
    let Some(entry) = entries.iter().find(|entry| entry.key == AT_TYPE) else {
        return entries.iter().any(|entry| OWN.contains(&&*entry.key)).then_some(RESPONSE);
    };
    let name = entry.node.text()?;
    let name = name.rsplit_once('/')?.1;
    [RESPONSE, "envoy.api.v2.DiscoveryResponse"].into_iter().find(|response| *response == name)
}

pub(super) const RESPONSE: &str = "envoy.service.discovery.v3.DiscoveryResponse";
