//! Patches: what one layer changes in a resource of the layers below it.
//!
//! A patch is a message of the type of its resource, in which only those fields are given that differ, and a
//! list of the fields that it sets to nothing. A message is merged field by field, a map key by key, and the
//! content of an `Any` if both have the same type. Everything else takes the place of what was there: a
//! number, a text, a list as a whole, and a message that JSON writes in a form of its own, as a duration or a
//! `Struct`. Not here: the text of a patch (`document`), and the layers (`chancery-catalog`).

pub(crate) mod stored;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use chancery_core::printable::{Printable, cut};
use chancery_core::{Facts, Link, Resource, ResourceName, TypeUrl};
use prost::Message;
use prost_reflect::{DynamicMessage, MapKey, ReflectMessage, Value};
use xxhash_rust::xxh3::Xxh3;

use crate::document::{Checks, Special};
use crate::schema::Schema;
use crate::{any, canonical, facts, made};

/// A change of one resource of the layers below. Two are equal if they change the same, and have their fields
/// at the same places.
pub struct Patch {
    schema: Schema,
    type_url: TypeUrl,
    name: ResourceName,
    message: DynamicMessage,
    cleared: Cleared,
    places: FieldPlaces,
    checks: Checks,
    last: Mutex<Option<Applied>>,
}

/// The outcome for the resource that was patched last. Many commits change something else in the layers below.
#[derive(Clone)]
struct Applied {
    below: Arc<Resource>,
    outcome: Result<Arc<Resource>, NotPatched>,
}

/// The places of the fields in a patch, by their paths, as seen from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldPlaces(pub(crate) BTreeMap<String, FieldPlace>);

/// The place of a field in a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPlace {
    /// The number of lines from the start of the patch, or of the resource, to the field. It is negative for a
    /// value of a node that stands above its resource.
    pub lines_below: i32,
    /// The column, from 1.
    pub column: u32,
}

/// The fields that a patch sets to nothing, in a message and in those inside of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Cleared {
    pub(crate) fields: BTreeSet<u32>,
    pub(crate) inside: BTreeMap<Step, Self>,
}

/// A step into a message: a field, and a key if it is a map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Step(pub(crate) u32, pub(crate) Option<MapKey>);

/// The reason for which a patch cannot be applied. The resource below stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotPatched {
    /// The result breaks rules of its type.
    Breaks {
        /// The path of the first field at fault.
        path: String,
        /// The rule in a sentence, as in `must be at most 128`, and a few other ones that are broken.
        sentence: String,
        /// The number of violations that are not told.
        more: usize,
        /// The place of the field in the patch, or of the part of its path that is there.
        place: Option<FieldPlace>,
    },
    /// The result is no resource.
    NoResource(String),
}

impl Patch {
    pub(crate) fn new(
        schema: &Schema,
        (type_url, name): (TypeUrl, ResourceName),
        message: DynamicMessage,
        cleared: Cleared,
        places: FieldPlaces,
        checks: Checks,
    ) -> Self {
        let (schema, last) = (schema.clone(), Mutex::default());
        Self { schema, type_url, name, message, cleared, places, checks, last }
    }

    /// The name of the resource that it changes.
    pub fn name(&self) -> &ResourceName {
        &self.name
    }

    /// Returns true if it changes nothing.
    pub fn is_nothing(&self) -> bool {
        self.cleared.is_nothing() && self.message.fields().next().is_none()
    }

    /// A digest of what it changes.
    pub fn digest(&self) -> u128 {
        let mut hash = Xxh3::new();
        hash.update(&canonical::encode(&self.message));
        self.cleared.digest(&mut hash);
        hash.digest128()
    }

    /// The facts that its own fields state: the references in it, and the addresses.
    pub fn facts(&self) -> Facts {
        facts::facts(&self.type_url, &self.message)
    }

    /// The paths of the fields in which it refers to a resource, so many at most.
    pub fn places_of_link(&self, target: &Link, most: usize) -> Vec<String> {
        facts::places_of(&self.type_url, &self.message, (&target.type_url, &target.name), most)
    }

    /// The resource with the change. The same `Arc` comes back while the one below is the same.
    ///
    /// # Errors
    /// If the result breaks a rule, where rules are checked, or is no resource.
    pub fn apply(&self, below: &Arc<Resource>) -> Result<Arc<Resource>, NotPatched> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(last) = last.filter(|last| Arc::ptr_eq(&last.below, below)) {
            return last.outcome;
        }
        let outcome = self.make(below);
        let applied = Applied { below: Arc::clone(below), outcome: outcome.clone() };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(applied);
        outcome
    }

    fn make(&self, below: &Resource) -> Result<Arc<Resource>, NotPatched> {
        let descriptor = self.message.descriptor();
        let mut merged = DynamicMessage::decode(descriptor, below.body().clone())
            .map_err(|error| NotPatched::NoResource(error.to_string()))?;
        merge(&mut merged, &self.message, &self.cleared, 0);
        made::check(&self.schema, &self.type_url, self.checks, &merged).map_err(|broken| {
            let made::Broken { path, sentence, more } = broken;
            let place = self.places.of(&path);
            NotPatched::Breaks { path, sentence, more, place }
        })?;
        let made = made::remade(&self.type_url, &self.name, below, &merged)
            .map_err(|error| NotPatched::NoResource(error.with_causes()))?;
        Ok(self.without_filled(below, made))
    }

    /// The resource without those facts that the one below has not, though its fields state them, because they
    /// are filled for each node.
    fn without_filled(&self, below: &Resource, made: Arc<Resource>) -> Arc<Resource> {
        let Ok(message) = DynamicMessage::decode(self.message.descriptor(), below.body().clone())
        else {
            return made;
        };
        let (fields, of_all) = (facts::facts(&self.type_url, &message), below.facts());
        if fields.links == of_all.links && fields.addresses == of_all.addresses {
            return made;
        }
        let (own, mut facts) = (self.facts(), made.facts().clone());
        facts.links.retain(|it| {
            of_all.links.contains(it) || own.links.contains(it) || !fields.links.contains(it)
        });
        let has = |list: &[Box<str>], it: &str| list.iter().any(|known| **known == *it);
        facts.addresses.retain(|it| {
            has(&of_all.addresses, it) || has(&own.addresses, it) || !has(&fields.addresses, it)
        });
        Arc::new(Resource::clone(&made).with_facts(facts))
    }
}

/// Merges a patch into a message. `depth` counts the levels of `Any`.
fn merge(target: &mut DynamicMessage, patch: &DynamicMessage, cleared: &Cleared, depth: usize) {
    for field in &cleared.fields {
        target.clear_field_by_number(*field);
    }
    for (field, new) in patch.fields() {
        let step = |key| Step(field.number(), key);
        let old = if target.has_field(&field) { Some(target.get_field(&field)) } else { None };
        let merged = match (old.as_deref(), new) {
            (Some(Value::Message(old)), Value::Message(new)) => {
                Value::Message(merged(old, new, cleared.at(&step(None)), depth))
            }
            (Some(Value::Map(old)), Value::Map(new)) => {
                let one = |(key, new): (&MapKey, &Value)| {
                    let value = match (old.get(key), new) {
                        (Some(Value::Message(old)), Value::Message(new)) => {
                            let inside = cleared.at(&step(Some(key.clone())));
                            Value::Message(merged(old, new, inside, depth))
                        }
                        _ => new.clone(),
                    };
                    (key.clone(), value)
                };
                let mut all = old.clone();
                all.extend(new.iter().map(one));
                Value::Map(all)
            }
            _ => new.clone(),
        };
        drop(old);
        target.set_field(&field, merged);
    }
}

/// A message with the changes of another one.
fn merged(
    old: &DynamicMessage,
    new: &DynamicMessage,
    cleared: &Cleared,
    depth: usize,
) -> DynamicMessage {
    match Special::of(&new.descriptor()) {
        None => {
            let mut target = old.clone();
            merge(&mut target, new, cleared, depth);
            target
        }
        Some(Special::Any) => merged_any(old, new, cleared, depth).unwrap_or_else(|| new.clone()),
        Some(_) => new.clone(),
    }
}

/// An `Any` whose content has the changes of that of another one; `None` if they have different types.
fn merged_any(
    old: &DynamicMessage,
    new: &DynamicMessage,
    cleared: &Cleared,
    depth: usize,
) -> Option<DynamicMessage> {
    if depth >= any::MAX_DEPTH || any::type_url(old)? != any::type_url(new)? {
        return None;
    }
    let content = merged(&any::open(old)?, &any::open(new)?, cleared, depth + 1);
    let mut packed = old.clone();
    let value = Value::Bytes(content.encode_to_vec().into());
    packed.try_set_field_by_number(any::VALUE, value).ok()?;
    Some(packed)
}

impl FieldPlaces {
    /// The place of a path, or of the longest beginning of it that the patch has.
    fn of(&self, path: &str) -> Option<FieldPlace> {
        let ends = path.match_indices(['.', '[']).map(|(at, _)| at).chain([path.len()]);
        let ends: Vec<_> = ends.collect();
        ends.into_iter().rev().find_map(|end| self.0.get(&path[..end]).copied())
    }
}

impl Cleared {
    fn at(&self, step: &Step) -> &Self {
        static NOTHING: Cleared = Cleared { fields: BTreeSet::new(), inside: BTreeMap::new() };
        self.inside.get(step).unwrap_or(&NOTHING)
    }

    /// Returns true if no field is set to nothing.
    pub(crate) fn is_nothing(&self) -> bool {
        self.fields.is_empty() && self.inside.is_empty()
    }

    fn digest(&self, hash: &mut Xxh3) {
        // The numbers tell where each list ends.
        hash.update(&(self.fields.len() as u64).to_le_bytes());
        self.fields.iter().for_each(|field| hash.update(&field.to_le_bytes()));
        hash.update(&(self.inside.len() as u64).to_le_bytes());
        for (step, inside) in &self.inside {
            hash.update(format!("{step:?}").as_bytes());
            inside.digest(hash);
        }
    }
}

impl PartialEq for Patch {
    fn eq(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.type_url.clone(), it.name.clone(), it.checks);
        key(self) == key(other)
            && self.cleared == other.cleared
            && self.message == other.message
            && self.places == other.places
    }
}

/// The name alone: bodies are never printed.
impl fmt::Debug for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patch").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Display for NotPatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoResource(why) => write!(f, "{}", Printable(cut(why, LONGEST_REASON))),
            Self::Breaks { path, sentence, more, .. } => {
                let (path, sentence) = (cut(path, LONGEST_REASON), cut(sentence, LONGEST_REASON));
                write!(f, "`{}` {}", Printable(path), Printable(sentence))?;
                match more {
                    0 => Ok(()),
                    1 => f.write_str(", and another rule is broken"),
                    more => write!(f, ", and {more} other rules are broken"),
                }
            }
        }
    }
}

impl std::error::Error for NotPatched {}

/// The bytes of a reason that are shown.
const LONGEST_REASON: usize = 512;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::document::{Format, Parsed, ParsedEdit, ResourceEdit, RuleCheck, parse_checked};

    fn parsed(text: &str) -> Parsed {
        let checks = Checks { rules: RuleCheck::Fault, ..Checks::default() };
        parse_checked(&Schema::bundled(), Format::Yaml, text.as_bytes(), checks)
    }

    fn faults(text: &str) -> Vec<String> {
        parsed(text).faults.iter().map(ToString::to_string).collect()
    }

    const CLUSTER: &str = "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n";

    /// The cluster `c` with these fields, and what a patch with other fields makes of it, as JSON.
    fn patched(fields: &str, patch: &str) -> Result<serde_json::Value, String> {
        let below = parsed(&format!("{CLUSTER}name: c\n{fields}"));
        assert_eq!((&below.faults[..], below.violations.len()), (&[][..], 0), "{fields}");
        let lines: String = patch.lines().map(|line| format!("  {line}\n")).collect();
        let text = format!("patch:\n- {CLUSTER}  name: c\n{lines}");
        let edits = parsed(&text);
        assert!(edits.faults.is_empty(), "{:?}", edits.faults);
        let ResourceEdit::Patch(patch) = &edits.edits[0].edit else { panic!("no patch") };
        let made = patch.apply(&below.resources[0].resource).map_err(|error| error.to_string());
        let again = made.as_ref().ok().map(|made| patch.apply(made).unwrap());
        assert_eq!(again.as_deref(), made.as_deref().ok(), "a patch is applied once or twice");
        made.map(|made| as_json(&made))
    }

    /// A cluster as JSON, without its name.
    fn as_json(made: &Resource) -> serde_json::Value {
        let descriptor = Schema::bundled().message("envoy.config.cluster.v3.Cluster").unwrap();
        let message = DynamicMessage::decode(descriptor, made.body().clone()).unwrap();
        let options = prost_reflect::SerializeOptions::new().use_proto_field_name(true);
        let serializer = serde_json::value::Serializer;
        let mut json = message.serialize_with_options(serializer, &options).unwrap();
        assert_eq!(json.as_object_mut().unwrap().remove("name"), Some(json!("c")));
        json
    }

    #[test]
    fn fields_are_merged_and_everything_else_is_replaced() {
        let cases = [
            ("connect_timeout: 5s", "connect_timeout: 1s", json!({"connect_timeout": "1s"})),
            (
                "alt_stat_name: a",
                "connect_timeout: 1s",
                json!({"alt_stat_name": "a", "connect_timeout": "1s"}),
            ),
            (
                "alt_stat_name: a\nignore_health_on_host_removal: true",
                "ignore_health_on_host_removal: false",
                json!({"alt_stat_name": "a"}),
            ),
            (
                "alt_stat_name: a\nconnect_timeout: 5s",
                "alt_stat_name: null",
                json!({"connect_timeout": "5s"}),
            ),
            (
                "common_lb_config: {healthy_panic_threshold: {value: 5}}",
                "common_lb_config: {close_connections_on_host_set_change: true}",
                json!({"common_lb_config": {"healthy_panic_threshold": {"value": 5.0},
                    "close_connections_on_host_set_change": true}}),
            ),
            (
                "common_lb_config: {healthy_panic_threshold: {value: 5}}",
                "common_lb_config: {healthy_panic_threshold: null}",
                json!({"common_lb_config": {}}),
            ),
            (
                "health_checks: []\ncircuit_breakers: {thresholds: [{max_requests: 1}, {max_retries: 2}]}",
                "circuit_breakers: {thresholds: [{max_requests: 3}]}",
                json!({"circuit_breakers": {"thresholds": [{"max_requests": 3}]}}),
            ),
            (
                "circuit_breakers: {thresholds: [{max_requests: 1}]}",
                "circuit_breakers: {thresholds: []}",
                json!({"circuit_breakers": {}}),
            ),
            (
                "lb_policy: RING_HASH\nring_hash_lb_config: {minimum_ring_size: 8}",
                "lb_policy: MAGLEV\nmaglev_lb_config: {table_size: 5}",
                json!({"lb_policy": "MAGLEV", "maglev_lb_config": {"table_size": "5"}}),
            ),
        ];
        for (below, patch, expected) in cases {
            assert_eq!(patched(below, patch), Ok(expected), "{patch}");
        }
    }

    #[test]
    fn maps_are_merged_by_key_and_an_any_with_one_of_its_type() {
        let http = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
        let key = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
        let options = |body: &str| {
            format!("typed_extension_protocol_options: {{{key}: {{\"@type\": {http}, {body}}}}}")
        };
        let below = options("explicit_http_config: {http2_protocol_options: {}}");
        let patch = options("common_http_protocol_options: {idle_timeout: 5s}");
        let expected = json!({"typed_extension_protocol_options": {key: {"@type": http,
            "explicit_http_config": {"http2_protocol_options": {}},
            "common_http_protocol_options": {"idle_timeout": "5s"}}}});
        assert_eq!(patched(&below, &patch), Ok(expected));
        let metadata = |key: &str| format!("metadata: {{filter_metadata: {{{key}}}}}");
        let expected = json!({"metadata": {"filter_metadata": {"a": {"z": 1.0}, "b": {}}}});
        assert_eq!(patched(&metadata("a: {x: 1}, b: {}"), &metadata("a: {z: 1}")), Ok(expected));
    }

    #[test]
    fn what_breaks_a_rule_is_not_patched() {
        let told = patched("connect_timeout: 5s", "connect_timeout: 0s").unwrap_err();
        assert!(told.starts_with("`connect_timeout` must be"), "{told}");
    }

    #[test]
    fn what_breaks_a_rule_has_its_place_in_the_patch() {
        let below = parsed(&format!("{CLUSTER}name: c\n"));
        let place = |fields: &str| {
            let edits = parsed(&format!("# a comment\npatch:\n- {CLUSTER}  name: c\n{fields}"));
            assert_eq!(edits.faults, [], "{fields}");
            let ParsedEdit { edit: ResourceEdit::Patch(patch), position, .. } = &edits.edits[0]
            else {
                panic!("no patch")
            };
            let applied = patch.apply(&below.resources[0].resource);
            let Err(NotPatched::Breaks { path, place, .. }) = applied else { panic!("{fields}") };
            let place = place.unwrap();
            let line = position.line.saturating_add_signed(place.lines_below);
            format!("{path} {line}:{}", place.column)
        };
        assert_eq!(place("  connectTimeout: 0s\n"), "connect_timeout 5:19");
        let checks = "health_checks:\n  - {timeout: 1s, interval: 0s, healthy_threshold: 1, \
                      unhealthy_threshold: 1, tcp_health_check: {}}";
        assert_eq!(place(&format!("  {checks}\n")), "health_checks[0].interval 6:29");
        // The field that is missing belongs into the message that lacks it.
        let checks = checks.replace("interval: 0s, ", "");
        assert_eq!(place(&format!("  {checks}\n")), "health_checks[0].interval 6:5");
        let of = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
        let fields = format!(
            "  typed_extension_protocol_options:\n    a.b[\"c\"]:\n      \"@type\": {of}\n      \
             explicit_http_config:\n        http2_protocol_options:\n          \
             hpack_table_size: 1\n          max_concurrent_streams: 0\n"
        );
        let path = "typed_extension_protocol_options[\"a.b[\\\"c\\\"]\"].explicit_http_config.\
                    http2_protocol_options.max_concurrent_streams";
        assert_eq!(place(&fields), format!("{path} 11:35"));
    }

    #[test]
    fn edits_are_told_apart_from_resources_and_from_each_other() {
        let text = format!(
            "{CLUSTER}name: a\n---\nremove: {{cds: [b], eds: [b, c]}}\npatch:\n- {CLUSTER}  name: d\n"
        );
        let Parsed { resources, edits, faults: none, .. } = parsed(&text);
        assert_eq!((resources.len(), none), (1, vec![]));
        let told: Vec<_> = edits
            .iter()
            .map(|it| format!("{} {} {}", it.type_url.short(), it.name, it.position.line))
            .collect();
        assert_eq!(told, ["cds b 4", "eds b 4", "eds c 4", "cds d 6"]);
        for (text, expected) in [
            ("remove: {cds: [a, a]}", "`a` is defined twice"),
            ("remove: {cdx: [a]}", "`cdx` is no type of resources"),
            ("remove: [a]", "expected a mapping from types, as `cds`, to names"),
            ("remove: {cds: a}", "expected a list of names"),
            ("remove: {cds: [\"\"]}", "expected a name"),
            ("patch: {name: a}", "expected a list of patches"),
            ("patch: [{name: a}]", "`@type` is missing"),
            ("remove: {cds: [a]}\nresources: []", "`resources` stands beside"),
            ("removes: {cds: [a]}", "unknown key `removes`"),
            ("patches: []\nremove: {cds: [a]}", "unknown key `patches`"),
        ] {
            let told = faults(text);
            assert!(told.len() == 1 && told[0].contains(expected), "{text}: {told:?}");
        }
        let nameless = faults(&format!("patch:\n- {CLUSTER}  connect_timeout: 1s\n"));
        assert!(nameless[0].contains("empty `name`"), "{nameless:?}");
        let twice = faults(&format!("{CLUSTER}name: a\n---\nremove: {{cds: [a]}}\n"));
        assert!(twice[0].contains("it was first defined at"), "{twice:?}");
    }
}
