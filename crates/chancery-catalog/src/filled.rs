//! The layer of nodes that state values: the resources with values of their layers, filled for them.
//!
//! ```text
//!   layers of an audience --> [Needs]: variables     a node states them --> values
//!          |                                                                   |
//!          +------------- [fill]: each resource with values, layer by layer ---+--> a layer over all
//! ```
//!
//! A layer fills what it says itself, and the layers above go on with that: so the outcome is what it would be
//! if the values were written there. The filled resources are written over what nodes without values see, so a
//! set of values costs what differs. Not here: the filling of one resource (`chancery_proto::values`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use chancery_core::printable::{MAX_NAME_BYTES, Printable, cut};
use chancery_core::{Node, Snapshot};
use chancery_proto::patch::NotPatched;
use chancery_proto::values::{DeclaredValue, NotStated, Stated, Unfit, Variable};

use crate::audience::Audience;
use crate::content::LayerContent;
use crate::entry::{Entry, EntryContent, Key, Origin};
use crate::flaws::WhyUnapplied;
use crate::layer::Layer;
use crate::resolve::{NotResolved, place_at, resolve, resolve_all, resolve_for};
use crate::view::Slot;

/// The variables that the layers of an audience need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs(BTreeMap<Variable, NeededBy>);

/// The first field for which a variable is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededBy {
    /// The type and name of the resource.
    pub key: Key,
    /// The path of the field.
    pub path: String,
    /// The place of the line.
    pub origin: Origin,
}

/// A field of a resource that a layer fills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilledValue {
    /// The type and name of the resource.
    pub key: Key,
    /// The field, and the text with its placeholders.
    pub value: DeclaredValue,
    /// The place of the line.
    pub origin: Origin,
}

/// The reason for which nobody knows what a node should see.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unstated {
    /// The client is no node, so it states nothing.
    NoNode(Variable, Box<NeededBy>),
    /// The node does not state a variable, or not as a value.
    Missing(Variable, NotStated, Box<NeededBy>),
    /// A value does not fit.
    Unfit(Box<UnfitResource>),
    /// So many sets of values are in use, and no more are accepted.
    TooMany(usize),
}

/// A resource that cannot be filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfitResource {
    /// The type and name of the resource.
    pub key: Key,
    /// The reason.
    pub unfit: Unfit,
    /// The place of the line.
    pub origin: Origin,
}

/// The needs of the audiences of one state, as far as somebody asked. A state that is made of another one has
/// an empty cache.
#[derive(Default)]
pub(crate) struct NeedsCache(Mutex<BTreeMap<Audience, Arc<Needs>>>);

impl Clone for NeedsCache {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl NeedsCache {
    pub(crate) fn get(&self, audience: &Audience, make: impl FnOnce() -> Needs) -> Arc<Needs> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(needs) = known().get(audience) {
            return Arc::clone(needs);
        }
        let made = Arc::new(make());
        let mut cache = known();
        // Each node with files is an audience, and the id of a node is its own choice.
        if cache.len() >= MOST_CACHED {
            cache.clear();
        }
        cache.insert(audience.clone(), Arc::clone(&made));
        made
    }
}

impl Needs {
    /// The needs of some layers, the strongest first. What a stronger layer hides is not needed.
    pub(crate) fn of(layers: &[Slot]) -> Self {
        let mut needs = Self::default();
        for key in valued_keys(layers) {
            for entry in in_force(layers, key) {
                let Some(values) = &entry.values else { continue };
                for variable in values.variables() {
                    needs.0.entry(variable.clone()).or_insert_with(|| {
                        let path = values.path_of(variable).unwrap_or_default();
                        let mut declared = values.declared();
                        let place = declared.find(|it| it.path == path).and_then(|it| it.place);
                        let origin = place_at(&entry.origin, place);
                        NeededBy { key: key.clone(), path, origin }
                    });
                }
            }
        }
        needs
    }

    /// Returns true if nothing is needed.
    pub fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    /// The variables, each with the first field for which it is needed.
    pub fn iter(&self) -> impl Iterator<Item = (&Variable, &NeededBy)> {
        self.0.iter()
    }

    /// The values that a node states of what is needed.
    ///
    /// # Errors
    /// If it does not state one.
    pub fn stated_by(&self, node: Option<&Node>) -> Result<Stated, Unstated> {
        let one = |(variable, by): (&Variable, &NeededBy)| {
            let node =
                node.ok_or_else(|| Unstated::NoNode(variable.clone(), Box::new(by.clone())))?;
            let value = variable.of_node(node);
            let missing = |why| Unstated::Missing(variable.clone(), why, Box::new(by.clone()));
            Ok((variable.clone(), value.map_err(missing)?))
        };
        self.0.iter().map(one).collect()
    }
}

/// The fields that some layers fill, the strongest first.
pub(crate) fn filled_values(layers: &[Slot]) -> Vec<FilledValue> {
    let keys = valued_keys(layers).into_iter();
    let all = keys.flat_map(|key| in_force(layers, key).into_iter().map(move |it| (key, it)));
    let all = all.flat_map(|(key, entry)| {
        let declared = entry.values.iter().flat_map(|values| values.declared());
        declared.map(move |value| {
            let origin = place_at(&entry.origin, value.place);
            FilledValue { key: key.clone(), value, origin }
        })
    });
    all.collect()
}

/// The fields that some layers filled and others fill no more, though the resources keep what stands there in place of
/// a value. The snapshots are those of nodes without values.
pub(crate) fn no_longer_filled(
    [before, now]: [&[Slot]; 2],
    [old, new]: [&Snapshot; 2],
) -> Vec<FilledValue> {
    let mut found = Vec::new();
    for key in valued_keys(before) {
        let resource = |of: &Snapshot| of.set(&key.type_url).get(key.name.as_str()).cloned();
        let (Some(old), Some(new)) = (resource(old), resource(new)) else { continue };
        let values = |layers| in_force(layers, key).into_iter();
        let now: Vec<_> = values(now).filter_map(|entry| entry.values.as_deref()).collect();
        for entry in values(before) {
            let kept = entry.values.iter().flat_map(|values| values.kept(&now, [&old, &new]));
            found.extend(kept.map(|value| {
                let origin = place_at(&entry.origin, value.place);
                FilledValue { key: key.clone(), value, origin }
            }));
        }
    }
    found
}

/// The template of the field of a resource that is filled with this text for nodes that state these values.
pub(crate) fn template_of(
    layers: &[Slot],
    stated: &Stated,
    key: &Key,
    text: &str,
) -> Option<String> {
    let values = in_force(layers, key).into_iter().filter_map(|entry| entry.values.as_ref());
    values.filter_map(|values| values.template_of(text, stated)).next()
}

/// The keys of the resources that have values in some layer.
fn valued_keys(layers: &[Slot]) -> BTreeSet<&Key> {
    layers.iter().flatten().flat_map(|content| content.valued()).collect()
}

/// The entries of a key that make the resource, the strongest first, down to the whole one. There are none if
/// no layer has it whole.
fn in_force<'a>(layers: &'a [Slot], key: &Key) -> Vec<&'a Entry> {
    let mut found = Vec::new();
    for content in layers {
        let Some(entry) = content.as_ref().and_then(|content| content.get(key)) else { continue };
        match entry.content {
            EntryContent::Removal(_) => return Vec::new(),
            EntryContent::Patch(_) => found.push(entry),
            EntryContent::Whole(_) => {
                found.push(entry);
                return found;
            }
        }
    }
    Vec::new()
}

/// The keys of resources with values of which two lists of layers, the strongest first, say something else.
pub(crate) fn differing(before: &[Slot], now: &[Slot]) -> BTreeSet<Key> {
    let mut differing = BTreeSet::new();
    let is_same = |one: &Slot, other: &Slot| match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    };
    let changed = (0..before.len().max(now.len()))
        .map(|at| (before.get(at).unwrap_or(&None), now.get(at).unwrap_or(&None)))
        .filter(|(before, now)| !is_same(before, now));
    let changed: Vec<_> = changed.collect();
    if changed.is_empty() {
        return differing;
    }
    for key in valued_keys(before).into_iter().chain(valued_keys(now)) {
        let differs = |(before, now): &(&Slot, &Slot)| match (entry(before, key), entry(now, key)) {
            (Some(before), Some(now)) => !before.is_identical(now),
            (before, now) => before.is_some() || now.is_some(),
        };
        if changed.iter().any(differs) {
            differing.insert(key.clone());
        }
    }
    differing
}

fn entry<'a>(slot: &'a Slot, key: &Key) -> Option<&'a Entry> {
    slot.as_ref()?.get(key)
}

/// The layer of nodes that state these values, over some layers, the strongest first. The one before is used as
/// far as its layers say the same.
pub(crate) fn fill(
    layers: &[Slot],
    stated: &Stated,
    before: Option<(&[Slot], &Arc<LayerContent>)>,
) -> Arc<LayerContent> {
    let before = before.filter(|(_, content)| content.unfit().is_none());
    let Some((layers_before, content)) = before else {
        let keys = valued_keys(layers).into_iter().cloned();
        return Arc::new(filled(layers, stated, LayerContent::default(), keys));
    };
    let differing = differing(layers_before, layers);
    if differing.is_empty() {
        return Arc::clone(content);
    }
    Arc::new(filled(layers, stated, LayerContent::clone(content), differing.into_iter()))
}

/// Some of the values in a layer, which may have others already.
fn filled(
    layers: &[Slot],
    stated: &Stated,
    mut content: LayerContent,
    keys: impl Iterator<Item = Key>,
) -> LayerContent {
    for key in keys {
        let entry = match filled_entry(layers, &key, stated) {
            Ok(entry) => entry,
            Err(found) => {
                let (entry, unfit) = *found;
                content.note_unfit(unfit);
                Some(entry)
            }
        };
        // No digest of a catalog has these entries, so it does not matter whose they are said to be.
        content.set(&Layer::Base, key, entry);
    }
    content
}

/// The entry of one resource; `None` if nobody has it, or it has no values.
///
/// # Errors
/// If it cannot be filled: with the entry that keeps the resource from the node.
fn filled_entry(
    layers: &[Slot],
    key: &Key,
    stated: &Stated,
) -> Result<Option<Entry>, Box<(Entry, UnfitResource)>> {
    let (mut resource, mut origin, mut has_values) = (None, None, false);
    let refused = |entry: &Entry, unfit: Unfit| {
        let origin = place_at(&entry.origin, unfit.place);
        let removal = EntryContent::Removal(key.name.clone());
        let entry = Entry::of(removal, entry.origin.clone());
        Err(Box::new((entry, UnfitResource { key: key.clone(), unfit, origin })))
    };
    let entries: Vec<&Entry> = in_force(layers, key).into_iter().rev().collect();
    for (at, &entry) in entries.iter().enumerate() {
        match resolve_for(entry, resource.as_ref(), stated) {
            Ok(made) => {
                has_values |= entry.values.is_some();
                (resource, origin) = (made, Some(&entry.origin));
            }
            Err(NotResolved::Unapplied(why)) => {
                let below = resolve_all(key, entries[..at].iter().copied(), &mut Vec::new());
                // Without values it is applied, so it is these that it does not go with.
                if has_values && resolve(entry, below.as_ref()).is_ok() {
                    return refused(entry, unapplied(&entries[..=at], &why));
                }
            }
            Err(NotResolved::Unfit(unfit)) => return refused(entry, unfit),
        }
    }
    let found = resource.filter(|_| has_values).zip(origin);
    Ok(found.map(|(resource, origin)| Entry::new(resource, origin.clone())))
}

/// The reason for which an edit is not applied over what is filled with values. These are not in it.
fn unapplied(entries: &[&Entry], why: &WhyUnapplied) -> Unfit {
    let values = entries.iter().filter_map(|entry| entry.values.as_ref());
    let (path, why, place) = match why {
        WhyUnapplied::NotPatched(NotPatched::Breaks { path, sentence, place, .. })
        | WhyUnapplied::NotFilled(NotPatched::Breaks { path, sentence, place, .. }) => {
            (path.clone(), sentence.clone(), *place)
        }
        _ => (String::new(), "the patch could not be applied".to_owned(), None),
    };
    let variables = values.flat_map(|values| values.variables().cloned()).collect();
    Unfit { variables, path, why: format!("do not go with this patch: it {why}"), place }
}

/// The end of a sentence that says what is wrong with a node.
impl fmt::Display for Unstated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needed = |f: &mut fmt::Formatter<'_>, by: &NeededBy| {
            let (kind, name) = (by.key.type_url.short(), by.key.name.as_str());
            let (name, path) = (cut(name, MAX_NAME_BYTES), cut(&by.path, MAX_NAME_BYTES));
            let (name, path) = (Printable(name), Printable(path));
            write!(f, "{kind} `{name}` needs it for `{path}`")
        };
        match self {
            Self::NoNode(variable, by) => {
                write!(f, "`{variable}` is not stated by a client without a node id, and ")?;
                needed(f, by)
            }
            Self::Missing(variable, why, by) => {
                write!(f, "`{variable}` {why}, and ")?;
                needed(f, by)
            }
            Self::Unfit(unfit) => unfit.fmt(f),
            Self::TooMany(most) => {
                write!(
                    f,
                    "nodes state {most} different sets of values already, and no more are accepted"
                )
            }
        }
    }
}

/// `node.metadata.port is not a whole number (uint32), as lds ingress needs for …`.
impl fmt::Display for UnfitResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, unfit, .. } = self;
        let (kind, name) = (key.type_url.short(), cut(key.name.as_str(), MAX_NAME_BYTES));
        write!(f, "{unfit}, as {kind} `{}` needs", Printable(name))?;
        match cut(&unfit.path, MAX_NAME_BYTES) {
            path if path.is_empty() => Ok(()),
            path => write!(f, " for `{}`", Printable(path)),
        }
    }
}

impl std::error::Error for Unstated {}

/// The number of audiences whose needs are remembered.
const MOST_CACHED: usize = 4096;
