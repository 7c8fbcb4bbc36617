//! Values that differ by node: fields of a resource that are filled with what each node states of itself.
//!
//! ```text
//!   values of a text:  PATH: ingress-${node.id}        a node: id, locality, metadata
//!          |  checked against the descriptors             |  [Variable::of_node]
//!          v                                              v
//!     [NodeValues] ---------------- fill ------------- [Stated] --> the resource of that node, or [Unfit]
//! ```
//!
//! A place is declared, and `${…}` anywhere else in a resource is text. There is no language beyond that. Not
//! here: the text in which values are declared (`document`), and which node gets which resource
//! (`chancery-catalog`).

mod convert;
mod forbidden;
mod path;
mod stored;
mod template;
mod variable;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use chancery_core::printable::{MAX_NAME_BYTES, Printable, cut};
use chancery_core::{Resource, ResourceName, TypeUrl};
use prost_reflect::{DynamicMessage, Kind, ReflectMessage, Value};
use xxhash_rust::xxh3::xxh3_128;

pub(crate) use self::path::{PathFault, ValuePath};
pub(crate) use self::template::{Template, TemplateFault};
pub use self::variable::{MAX_TEXT_BYTES, NotStated, Stated, StatedValue, Variable};
use crate::document::Checks;
use crate::patch::{FieldPlace, NotPatched};
use crate::schema::Schema;
use crate::{facts, made};

/// The fields of one resource that differ by node. Two are equal if they fill the same, at the same places of
/// a text.
pub struct NodeValues {
    schema: Schema,
    type_url: TypeUrl,
    name: ResourceName,
    checks: Checks,
    fields: Vec<FilledField>,
    /// The outcome for the resource that was looked at last.
    last: Mutex<Option<Looked>>,
    /// The last resource that was made [unfilled](Self::unfilled), and what came of it.
    unfilled: Mutex<Option<[Arc<Resource>; 2]>>,
}

/// A resource, and the outcome of a look for the fields in it.
type Looked = (Arc<Resource>, Result<(), NotPatched>);

/// A field that is filled.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FilledField {
    pub(crate) path: ValuePath,
    pub(crate) template: Template,
    /// The place of the line, as seen from the start of the resource.
    pub(crate) place: Option<FieldPlace>,
}

/// A field that is filled, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredValue {
    /// The path of the field.
    pub path: String,
    /// The text with its placeholders.
    pub template: String,
    /// The variables in it.
    pub variables: Vec<Variable>,
    /// The place of the line, as seen from the start of the resource.
    pub place: Option<FieldPlace>,
}

/// The reason for which a resource cannot be filled for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The variables of the field at fault.
    pub variables: Vec<Variable>,
    /// The path of the field.
    pub path: String,
    /// The reason, as the end of a sentence that has the variables as its subject. It has no value of a node.
    pub why: String,
    /// The place of the line, as seen from the start of the resource.
    pub place: Option<FieldPlace>,
}

impl NodeValues {
    pub(crate) fn new(
        schema: &Schema,
        (type_url, name): (TypeUrl, ResourceName),
        checks: Checks,
        fields: Vec<FilledField>,
    ) -> Self {
        let (last, unfilled) = Default::default();
        Self { schema: schema.clone(), type_url, name, checks, fields, last, unfilled }
    }

    /// The variables that a node has to state, each as often as a field has it.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.fields.iter().flat_map(|field| field.template.variables())
    }

    /// The fields.
    pub fn declared(&self) -> impl Iterator<Item = DeclaredValue> {
        self.fields.iter().map(FilledField::declared)
    }

    /// The path of the first field that has this variable.
    pub fn path_of(&self, variable: &Variable) -> Option<String> {
        let mut fields = self.fields.iter();
        let has = |field: &&FilledField| field.template.variables().any(|it| it == variable);
        fields.find(has).map(|field| field.path.to_string())
    }

    /// The text with its placeholders, of the first field that is filled with this text for a node.
    pub fn template_of(&self, text: &str, stated: &Stated) -> Option<String> {
        let makes = |template: &Template| template.fill(stated).is_ok_and(|it| it.text() == text);
        let field = self.fields.iter().find(|field| makes(&field.template))?;
        Some(field.template.to_string())
    }

    /// A digest of what it fills.
    pub fn digest(&self) -> u128 {
        xxh3_128(&self.to_bytes())
    }

    /// Looks if a resource has the fields. The answer is remembered while the resource is the same.
    ///
    /// # Errors
    /// With the first field that it has not.
    pub fn check(&self, resource: &Arc<Resource>) -> Result<(), NotPatched> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, outcome)) = last.filter(|(of, _)| Arc::ptr_eq(of, resource)) {
            return outcome;
        }
        let outcome = self.look(resource);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Arc::clone(resource), outcome.clone()));
        outcome
    }

    fn look(&self, resource: &Resource) -> Result<(), NotPatched> {
        let message = self.message(resource).map_err(NotPatched::NoResource)?;
        for FilledField { path, template, place } in &self.fields {
            let found = path.look(&message.descriptor(), Some(&message));
            let fault = match found {
                Ok(Some(kind)) => check_template(&kind, template).err().map(|(message, _)| message),
                Ok(None) => None,
                Err(fault) => Some(fault.message),
            };
            if let Some(sentence) = fault {
                let path = path.to_string();
                return Err(NotPatched::Breaks { path, sentence, more: 0, place: *place });
            }
        }
        Ok(())
    }

    /// The resource with the facts that are true for all nodes: a reference or an address that is filled for
    /// each is none of the one that stands there.
    pub fn unfilled(&self, resource: Arc<Resource>) -> Arc<Resource> {
        let last = self.unfilled.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some([_, made]) = last.filter(|[of, _]| Arc::ptr_eq(of, &resource)) {
            return made;
        }
        let made = self.without_filled(&resource).unwrap_or_else(|| Arc::clone(&resource));
        *self.unfilled.lock().unwrap_or_else(PoisonError::into_inner) =
            Some([resource, Arc::clone(&made)]);
        made
    }

    fn without_filled(&self, resource: &Resource) -> Option<Arc<Resource>> {
        let mut message = self.message(resource).ok()?;
        for FilledField { path, .. } in &self.fields {
            let Ok(Some(kind)) = path.look(&message.descriptor(), Some(&message)) else { continue };
            path.set(&mut message, Value::default_value(&kind))?;
        }
        let (cleared, stated) = (facts::facts(&self.type_url, &message), resource.facts());
        let mut facts = stated.clone();
        facts.links.retain(|link| cleared.links.contains(link));
        facts.addresses.retain(|address| cleared.addresses.contains(address));
        (facts != *stated).then(|| Arc::new(Resource::clone(resource).with_facts(facts)))
    }

    /// The fields that a resource of theirs has as it had them before, and that none of `now` fills any more: so they
    /// keep what stood there in place of a value. One that is filled elsewhere in the resource is none of them.
    pub fn kept(
        &self,
        now: &[&Self],
        [old, new]: [&Resource; 2],
    ) -> impl Iterator<Item = DeclaredValue> {
        let messages = self.message(old).and_then(|old| Ok([old, self.message(new)?])).ok();
        let filled: Vec<&FilledField> = now.iter().flat_map(|values| &values.fields).collect();
        let is_kept = move |field: &&FilledField, [old, new]: &[DynamicMessage; 2]| {
            let path = field.path.named(old);
            let is_filled = filled
                .iter()
                .any(|now| now.template == field.template || now.path.named(new) == path);
            !is_filled && path.get(old).is_some_and(|value| path.get(new) == Some(value))
        };
        let fields = self.fields.iter().filter(move |field| {
            messages.as_ref().is_some_and(|messages| is_kept(field, messages))
        });
        fields.map(FilledField::declared)
    }

    fn message(&self, resource: &Resource) -> Result<DynamicMessage, String> {
        let unknown = || "its type is not known".to_owned();
        let descriptor = self.schema.message(self.type_url.message_name()).ok_or_else(unknown)?;
        DynamicMessage::decode(descriptor, resource.body().clone()).map_err(|it| it.to_string())
    }

    /// The resource as a node gets it that states these values.
    ///
    /// # Errors
    /// If a value is missing or does not fit, or the result breaks a rule.
    pub fn fill(&self, resource: &Arc<Resource>, stated: &Stated) -> Result<Arc<Resource>, Unfit> {
        let fault = |field: Option<&FilledField>, why: String| Unfit {
            variables: match field {
                Some(field) => field.template.variables().cloned().collect(),
                None => self.variables().cloned().collect(),
            },
            path: field.map(|field| field.path.to_string()).unwrap_or_default(),
            why,
            place: field.or_else(|| self.fields.first()).and_then(|field| field.place),
        };
        let mut message = self.message(resource).map_err(|why| fault(None, why))?;
        for field in &self.fields {
            let FilledField { path, template, .. } = field;
            let value = template.fill(stated).map_err(|variable| Unfit {
                variables: vec![variable.clone()],
                ..fault(Some(field), NotStated::Missing.to_string())
            })?;
            let kind = match path.look(&message.descriptor(), Some(&message)) {
                Ok(Some(kind)) => kind,
                Ok(None) => return Err(fault(Some(field), "have no field to fill".to_owned())),
                Err(why) => return Err(fault(Some(field), why.message)),
            };
            let value = convert::convert(&kind, &value)
                .map_err(|expected| fault(Some(field), format!("is not {expected}")))?;
            path.set(&mut message, value)
                .ok_or_else(|| fault(Some(field), "have no field to fill".to_owned()))?;
        }
        made::check(&self.schema, &self.type_url, self.checks, &message).map_err(|broken| {
            let of_path =
                |field: &&FilledField| broken.path == field.path.named(&message).to_string();
            let field = self.fields.iter().find(of_path);
            let made::Broken { path, sentence, .. } = &broken;
            let why = match field {
                Some(_) => sentence.clone(),
                None => format!("make `{path}` wrong: it {sentence}"),
            };
            fault(field, why)
        })?;
        made::remade(&self.type_url, &self.name, resource, &message)
            .map_err(|error| fault(None, error.with_causes()))
    }
}

impl FilledField {
    fn declared(&self) -> DeclaredValue {
        DeclaredValue {
            path: self.path.to_string(),
            template: self.template.to_string(),
            variables: self.template.variables().cloned().collect(),
            place: self.place,
        }
    }
}

/// Checks that a field of this kind can have this text.
pub(crate) fn check_template(kind: &Kind, template: &Template) -> Result<(), TemplateFault> {
    if convert::is_text(kind) || template.only().is_some() {
        return Ok(());
    }
    let hint = "text around a placeholder is for fields that are texts";
    let message = "the field is no text, so the value is one `${node.…}` and nothing else";
    Err((message.to_owned(), Some(hint.to_owned())))
}

impl PartialEq for NodeValues {
    fn eq(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.type_url.clone(), it.name.clone(), it.checks);
        key(self) == key(other) && self.fields == other.fields
    }
}

impl fmt::Debug for NodeValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeValues").field("name", &self.name).finish_non_exhaustive()
    }
}

/// `node.metadata.port is not a whole number (uint32)`, with the variables in backticks.
impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut known: Vec<&Variable> = self.variables.iter().collect();
        known.dedup();
        for (at, variable) in known.iter().take(MOST_NAMED).enumerate() {
            let and = if at > 0 { ", " } else { "" };
            let text = variable.to_string();
            write!(f, "{and}`{}`", cut(&text, MAX_NAME_BYTES))?;
        }
        write!(f, " {}", Printable(cut(&self.why, LONGEST_REASON)))
    }
}

impl std::error::Error for Unfit {}

/// The variables that a sentence names.
const MOST_NAMED: usize = 4;

/// The bytes of a reason that are shown.
const LONGEST_REASON: usize = 512;

#[cfg(test)]
mod tests;
