//! The values of nodes that a text declares, and the resources of the text that they belong to.
//!
//! ```yaml
//! values:
//! - type: lds
//!   name: ingress
//!   set:
//!     address.socket_address.port_value: ${node.metadata.port}
//! ```
//!
//! A text says one thing of a resource: so the values stand beside the resource, or the patch of it, that the
//! text has. If it has none, they are for the resource of the layers below. Not here: paths, placeholders, and
//! what nodes state (`crate::values`).

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_core::{Api, ResourceName, TypeUrl};
use prost_reflect::{DynamicMessage, MessageDescriptor};

use super::collect::Location;
use super::edits::type_of;
use super::reader::UNKNOWN_FIELD;
use super::scalar::Mismatch;
use super::tree::DocumentReader;
use super::{ParsedEdit, Position, ResourceEdit};
use crate::patch::{Cleared, FieldPlace, FieldPlaces, Patch};
use crate::sensitive::is_secret;
use crate::syntax::{MapEntry, PathStep, Short, TreeNode, TreeValue, closest, did_you_mean};
use crate::values::{FilledField, NodeValues, PathFault, Template, ValuePath, check_template};

/// The code of faults.
const NODE_VALUE: &str = "node-value";

/// The keys of an item.
const KEYS: [&str; 3] = ["type", "name", "set"];

/// The values of one resource, as a text declares them.
pub(super) struct Declared<'n, 'a> {
    type_url: TypeUrl,
    name: ResourceName,
    descriptor: MessageDescriptor,
    node: &'n TreeNode<'a>,
    path: String,
    fields: Vec<DeclaredField>,
}

struct DeclaredField {
    path: ValuePath,
    template: Template,
    key_position: Position,
    position: Position,
}

impl<'n> DocumentReader<'_, 'n> {
    /// Reads a list of values.
    pub(super) fn node_values(&mut self, node: &'n TreeNode<'n>) {
        let TreeValue::Sequence(nodes) = node.value() else {
            self.reader.mismatch::<()>(node, Mismatch::Expected("a list of values".to_owned()));
            return;
        };
        for (index, node) in nodes.iter().enumerate() {
            self.reader.path.push(PathStep::Index(index));
            if let Some(declared) = self.declared(node) {
                self.declared.push(declared);
            }
            self.reader.path.pop();
        }
    }

    fn declared(&mut self, node: &'n TreeNode<'n>) -> Option<Declared<'n, 'n>> {
        let entries = self.reader.mapping(node, "a mapping with `type`, `name` and `set`")?;
        for entry in entries.iter().filter(|entry| !KEYS.contains(&&*entry.key)) {
            self.reader.fault_of(UNKNOWN_FIELD, entry.key_position, || {
                let near = closest(&entry.key, KEYS).map(|near| did_you_mean(&entry.key, near));
                (format!("unknown key `{}`", Short(&entry.key)), near)
            });
        }
        let (type_url, descriptor) = self.type_of_values(node, entries)?;
        let name = self.text_of(node, entries, "name")?.text().and_then(|it| it.parse().ok());
        let name = name.filter(|name: &ResourceName| !name.is_glob());
        let Some(name) = name else {
            return self.reader.mismatch(node, Mismatch::Expected("a `name`".to_owned()));
        };
        let set = self.text_of(node, entries, "set")?;
        self.reader.path.push(PathStep::Field("set"));
        let fields = self.fields_of_values(set, &descriptor);
        self.reader.path.pop();
        let path = self.reader.path.text();
        Some(Declared { type_url, name, descriptor, node, path, fields: fields? })
    }

    /// The value of a key that has to be there.
    fn text_of(
        &mut self,
        node: &'n TreeNode<'n>,
        entries: &'n [MapEntry<'n>],
        key: &str,
    ) -> Option<&'n TreeNode<'n>> {
        let found = entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node);
        found.or_else(|| {
            self.reader.fault(node.position(), || {
                (format!("`{key}` is missing: values have a `type`, a `name` and `set`"), None)
            });
            None
        })
    }

    fn type_of_values(
        &mut self,
        node: &'n TreeNode<'n>,
        entries: &'n [MapEntry<'n>],
    ) -> Option<(TypeUrl, MessageDescriptor)> {
        let node = self.text_of(node, entries, "type")?;
        let url = node.text().and_then(type_of);
        let found = url.and_then(|url| Some((url.clone(), self.schema.message(url.as_str())?)));
        let Some((url, descriptor)) = found else {
            self.reader.fault(node.position(), || {
                let hint = "write `cds`, `eds`, `lds`, `rds` or a whole type URL";
                ("this is no type of resources".to_owned(), Some(hint.to_owned()))
            });
            return None;
        };
        if url.api() == Api::Vhds || crate::facts::is_v2(&url) || is_secret(&descriptor) {
            self.reader.fault_of(NODE_VALUE, node.position(), || {
                ("resources of this type have no values of nodes".to_owned(), None)
            });
            return None;
        }
        Some((url, descriptor))
    }

    fn fields_of_values(
        &mut self,
        node: &'n TreeNode<'n>,
        descriptor: &MessageDescriptor,
    ) -> Option<Vec<DeclaredField>> {
        let entries = self.reader.mapping(node, "a mapping from paths of fields to values")?;
        let before = self.reader.faults.count();
        if entries.is_empty() {
            return self.reader.mismatch(node, Mismatch::Expected("a path of a field".to_owned()));
        }
        if entries.len() > MOST_FIELDS {
            self.reader.fault_of(NODE_VALUE, node.position(), || {
                (format!("more than {MOST_FIELDS} fields of one resource"), None)
            });
            return None;
        }
        let mut fields = Vec::new();
        for entry in entries {
            self.reader.path.push(PathStep::Field(&entry.key));
            fields.extend(self.field_of_values(entry, descriptor));
            self.reader.path.pop();
        }
        (self.reader.faults.count() == before).then_some(fields)
    }

    fn field_of_values(
        &mut self,
        entry: &'n MapEntry<'n>,
        descriptor: &MessageDescriptor,
    ) -> Option<DeclaredField> {
        let Some(text) = entry.node.text() else {
            let expected = "a text with `${node.…}`".to_owned();
            return self.reader.mismatch(&entry.node, Mismatch::Expected(expected));
        };
        let (key_position, position) = (entry.key_position, entry.node.position());
        let found = ValuePath::parse(&entry.key)
            .and_then(|path| path.look(descriptor, None).map(|kind| (path, kind)));
        let (path, kind) = match found {
            Ok(found) => found,
            Err(PathFault { is_unknown, message, hint }) => {
                let code = if is_unknown { UNKNOWN_FIELD } else { NODE_VALUE };
                self.reader.fault_of(code, key_position, || (message, hint));
                return None;
            }
        };
        let template = Template::parse(text).and_then(|template| {
            kind.map_or(Ok(()), |kind| check_template(&kind, &template)).map(|()| template)
        });
        match template {
            Ok(template) => Some(DeclaredField { path, template, key_position, position }),
            Err((message, hint)) => {
                self.reader.fault_of(NODE_VALUE, position, || (message, hint));
                None
            }
        }
    }

    /// Puts all values that were declared to the resources of the text that they are for.
    pub(super) fn place_values(&mut self) {
        let declared = std::mem::take(&mut self.declared);
        if declared.is_empty() {
            return;
        }
        let resources = self.collector.resources.iter().enumerate();
        let whole =
            resources.map(|(at, it)| ((it.type_url.clone(), it.resource.name().clone()), at));
        let whole: BTreeMap<_, _> = whole.collect();
        let edits = self.collector.edits.iter().enumerate();
        let edited = edits.map(|(at, it)| ((it.type_url.clone(), it.name.clone()), at));
        let edited: BTreeMap<_, _> = edited.collect();
        for declared in declared {
            let key = (declared.type_url.clone(), declared.name.clone());
            let (path, dialect) = (declared.path.clone(), self.dialect);
            let place = Location { node: Some(declared.node), dialect, path };
            match (whole.get(&key), edited.get(&key)) {
                (Some(at), _) => self.place_beside_resource(&declared, *at, &place),
                (None, Some(at)) => self.place_beside_edit(&declared, *at, &place),
                (None, None) => self.values_alone(declared, &place),
            }
        }
    }

    fn place_beside_resource(
        &mut self,
        declared: &Declared<'n, 'n>,
        at: usize,
        place: &Location<'_, '_>,
    ) {
        let found = &self.collector.resources[at];
        // A resource is read once for all that is declared of it.
        if found.values.is_some() {
            return self.collector.wrong_edit(AGAIN.to_owned(), place);
        }
        let (body, position) = (found.resource.body().clone(), found.position);
        let Ok(message) = DynamicMessage::decode(declared.descriptor.clone(), body) else { return };
        self.look(declared, &message);
        let values = self.values(declared, position);
        self.collector.resources[at].values = Some(values);
    }

    fn place_beside_edit(
        &mut self,
        declared: &Declared<'n, 'n>,
        at: usize,
        place: &Location<'_, '_>,
    ) {
        let edit = &self.collector.edits[at];
        let why = match edit.edit {
            ResourceEdit::Remove => Some(REMOVED),
            ResourceEdit::Patch(_) => edit.values.is_some().then_some(AGAIN),
        };
        match why {
            Some(why) => self.collector.wrong_edit(why.to_owned(), place),
            None => {
                let values = self.values(declared, edit.position);
                self.collector.edits[at].values = Some(values);
            }
        }
    }

    /// Looks if a resource of the text has the fields.
    fn look(&mut self, declared: &Declared<'_, '_>, message: &DynamicMessage) {
        for field in &declared.fields {
            let found = field.path.look(&declared.descriptor, Some(message));
            let (position, fault) = match found {
                Err(PathFault { message, hint, .. }) => (field.key_position, (message, hint)),
                Ok(None) => continue,
                Ok(Some(kind)) => match check_template(&kind, &field.template) {
                    Ok(()) => continue,
                    Err(fault) => (field.position, fault),
                },
            };
            let path = format!("{}.set.{}", declared.path, field.path);
            self.reader.fault_at(NODE_VALUE, position, path, fault);
        }
    }

    /// The values of a resource of the layers below: they are a patch that changes nothing else.
    fn values_alone(&mut self, declared: Declared<'n, 'n>, place: &Location<'_, '_>) {
        let position = declared.node.position();
        let values = Some(self.values(&declared, position));
        let Declared { type_url, name, descriptor, .. } = declared;
        let (key, checks) = ((type_url.clone(), name.clone()), self.collector.checks());
        let (cleared, places) = (Cleared::default(), FieldPlaces::default());
        let message = DynamicMessage::new(descriptor);
        let patch = Patch::new(self.schema, key, message, cleared, places, checks);
        let edit = ResourceEdit::Patch(Arc::new(patch));
        let warnings = Vec::new();
        let edit = ParsedEdit { type_url, name, edit, position, warnings, values };
        self.collector.add_edit(edit, place);
    }

    fn values(&self, declared: &Declared<'_, '_>, from: Position) -> Arc<NodeValues> {
        let fields = declared.fields.iter().map(|field| {
            let lines = i64::from(field.position.line) - i64::from(from.line);
            let place = i32::try_from(lines).ok();
            let column = field.position.column;
            FilledField {
                path: field.path.clone(),
                template: field.template.clone(),
                place: place.map(|lines_below| FieldPlace { lines_below, column }),
            }
        });
        let key = (declared.type_url.clone(), declared.name.clone());
        let values = NodeValues::new(self.schema, key, self.collector.checks(), fields.collect());
        Arc::new(values)
    }
}

/// The fields of one resource that may differ by node. For each of them the message is walked, for each node.
const MOST_FIELDS: usize = 100;

const AGAIN: &str = "the text has values of this resource already";
const REMOVED: &str = "the text removes this resource, which then has no values";
