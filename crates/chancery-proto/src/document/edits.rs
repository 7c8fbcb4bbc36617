//! The edits in a text, of resources of the layers below: patches, and names that are removed. And where
//! the values of nodes stand (`node_values`).
//!
//! ```yaml
//! patch:
//! - "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
//!   name: shop
//!   connect_timeout: 1s
//! remove:
//!   cds: [old, older]
//! ```
//!
//! Such a text is a document of its own. Not here: what comes of a patch (`crate::patch`).

use std::sync::Arc;

use chancery_core::{Api, ResourceName, TypeUrl};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, ReflectMessage, Value};

use super::collect::Location;
use super::dialect::AT_TYPE;
use super::patch_places::field_places;
use super::reader::UNKNOWN_FIELD;
use super::scalar::{self, Mismatch};
use super::special::Special;
use super::tree::DocumentReader;
use super::{ParsedEdit, ResourceEdit};
use crate::any;
use crate::facts::is_v2;
use crate::patch::{Cleared, Patch, Step};
use crate::resource::{is_wrapper, name_of};
use crate::syntax::{MapEntry, PathStep, Short, TreeNode, TreeValue, closest, did_you_mean};

const PATCH: &str = "patch";
const REMOVE: &str = "remove";
const VALUES: &str = "values";

/// The hint for a resource beside edits.
const OWN_DOCUMENT: &str = "resources stand in a document of their own, behind `---`";

/// Returns true for a document of edits, also if its keys have slips.
pub(super) fn is_edits(entries: &[MapEntry<'_>]) -> bool {
    let is_key = |entry: &MapEntry<'_>| [PATCH, REMOVE, VALUES].contains(&&*entry.key);
    let is_meant = |entry: &MapEntry<'_>| meant(&entry.key).is_some();
    let is_any = entries.iter().any(is_key) || entries.iter().all(is_meant);
    is_any && !entries.is_empty() && entries.iter().all(|entry| entry.key != AT_TYPE)
}

/// The key that may be meant by another one.
fn meant(key: &str) -> Option<&'static str> {
    closest(key, [PATCH, REMOVE, VALUES])
}

impl<'n> DocumentReader<'_, 'n> {
    /// Reads a document of edits.
    pub(super) fn edits(&mut self, entries: &'n [MapEntry<'n>]) {
        for entry in entries {
            self.reader.path.push(PathStep::Field(&entry.key));
            match &*entry.key {
                _ if entry.node.is_null() => {}
                PATCH => self.patches(&entry.node),
                REMOVE => self.removals(&entry.node),
                VALUES => self.node_values(&entry.node),
                other => self.reader.fault_of(UNKNOWN_FIELD, entry.key_position, || {
                    let key = Short(other);
                    match meant(other) {
                        Some(meant) => {
                            (format!("unknown key `{key}`"), Some(did_you_mean(other, meant)))
                        }
                        None => (
                            format!("`{key}` stands beside `patch`, `remove` or `values`"),
                            Some(OWN_DOCUMENT.to_owned()),
                        ),
                    }
                }),
            }
            self.reader.path.pop();
        }
    }

    fn patches(&mut self, node: &'n TreeNode<'_>) {
        let TreeValue::Sequence(nodes) = node.value() else {
            self.reader.mismatch::<()>(node, Mismatch::Expected("a list of patches".to_owned()));
            return;
        };
        for (index, node) in nodes.iter().enumerate() {
            self.reader.path.push(PathStep::Index(index));
            self.patch(node);
            self.reader.path.pop();
        }
    }

    fn patch(&mut self, node: &'n TreeNode<'_>) {
        let Some((url, message)) = self.reader.typed(node) else { return };
        let (dialect, path) = (self.dialect, self.reader.path.text());
        let place = Location { node: Some(node), dialect, path };
        let type_url = TypeUrl::new(url);
        if is_wrapper(url) || type_url.api() == Api::Vhds || is_v2(&type_url) {
            let why = "this type cannot be patched; write the resource whole";
            return self.collector.wrong_edit(why.to_owned(), &place);
        }
        let name = match name_of(&type_url, &message) {
            Ok(name) => name,
            Err(error) => return self.collector.wrong_edit(error.with_causes(), &place),
        };
        let (cleared, places) = (cleared(node, &message), field_places(node, &message));
        let warnings =
            self.collector.edit_warnings(self.schema, (&type_url, &name), &message, &place);
        let (key, checks) = ((type_url.clone(), name.clone()), self.collector.checks());
        let patch = Patch::new(self.schema, key, message, cleared, places, checks);
        let edit = ResourceEdit::Patch(Arc::new(patch));
        self.collector.add_edit(
            ParsedEdit { type_url, name, edit, position: node.position(), warnings, values: None },
            &place,
        );
    }

    fn removals(&mut self, node: &'n TreeNode<'_>) {
        let expected = "a mapping from types, as `cds`, to names";
        let Some(types) = self.reader.mapping(node, expected) else { return };
        for entry in types {
            self.reader.path.push(PathStep::Field(&entry.key));
            match type_of(&entry.key) {
                Some(type_url) => self.removals_of(&type_url, &entry.node),
                None => self.reader.fault(entry.key_position, || {
                    let hint = "write `cds`, `eds`, `lds`, `rds`, `sds` or a whole type URL";
                    let key = Short(&entry.key);
                    (format!("`{key}` is no type of resources"), Some(hint.to_owned()))
                }),
            }
            self.reader.path.pop();
        }
    }

    fn removals_of(&mut self, type_url: &TypeUrl, node: &'n TreeNode<'_>) {
        let TreeValue::Sequence(names) = node.value() else {
            self.reader.mismatch::<()>(node, Mismatch::Expected("a list of names".to_owned()));
            return;
        };
        for (index, node) in names.iter().enumerate() {
            self.reader.path.push(PathStep::Index(index));
            let parsed = node.text().map(str::parse::<ResourceName>);
            match parsed {
                Some(Ok(name)) if !name.is_glob() => {
                    let (dialect, path) = (self.dialect, self.reader.path.text());
                    let place = Location { node: Some(node), dialect, path };
                    let (type_url, edit) = (type_url.clone(), ResourceEdit::Remove);
                    let position = node.position();
                    let warnings = Vec::new();
                    let values = None;
                    let edit = ParsedEdit { type_url, name, edit, position, warnings, values };
                    self.collector.add_edit(edit, &place);
                }
                _ => {
                    let expected = Mismatch::Expected("a name".to_owned());
                    self.reader.mismatch::<()>(node, expected);
                }
            }
            self.reader.path.pop();
        }
    }
}

/// The type of a short name, or of a type URL.
pub(super) fn type_of(text: &str) -> Option<TypeUrl> {
    let known = TypeUrl::known().find(|known| known.short() == text && !is_v2(known));
    known.or_else(|| text.contains('/').then(|| TypeUrl::new(text)))
}

/// The fields that a text gives as nothing: as `null`, as an empty list, or as the value that they have
/// anyway.
fn cleared(node: &TreeNode<'_>, message: &DynamicMessage) -> Cleared {
    let mut cleared = Cleared::default();
    let descriptor = message.descriptor();
    for entry in node.entries().unwrap_or_default() {
        let field = descriptor
            .get_field_by_name(&entry.key)
            .or_else(|| descriptor.get_field_by_json_name(&entry.key));
        let Some(field) = field else { continue };
        if !message.has_field(&field) {
            cleared.fields.insert(field.number());
            continue;
        }
        match &*message.get_field(&field) {
            Value::Message(inner) => {
                cleared.step(Step(field.number(), None), inside(&entry.node, inner));
            }
            Value::Map(values) => of_map(&field, &entry.node, values, &mut cleared),
            _ => {}
        }
    }
    cleared
}

fn of_map(
    field: &FieldDescriptor,
    node: &TreeNode<'_>,
    values: &std::collections::HashMap<prost_reflect::MapKey, Value>,
    cleared: &mut Cleared,
) {
    let Kind::Message(entry_type) = field.kind() else { return };
    let key_kind = entry_type.map_entry_key_field().kind();
    for entry in node.entries().unwrap_or_default() {
        let Ok(key) = scalar::map_key(&key_kind, &entry.key) else { continue };
        if let Some(Value::Message(inner)) = values.get(&key) {
            cleared.step(Step(field.number(), Some(key)), inside(&entry.node, inner));
        }
    }
}

fn inside(node: &TreeNode<'_>, message: &DynamicMessage) -> Cleared {
    match Special::of(&message.descriptor()) {
        None => cleared(node, message),
        Some(Special::Any) => match any::open(message) {
            Some(content) if Special::of(&content.descriptor()).is_none() => {
                cleared(node, &content)
            }
            _ => Cleared::default(),
        },
        Some(_) => Cleared::default(),
    }
}

impl Cleared {
    fn step(&mut self, step: Step, inside: Self) {
        if !inside.is_nothing() {
            self.inside.insert(step, inside);
        }
    }
}
