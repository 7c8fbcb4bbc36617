//! The engine of the rules beside the Go code that protoc-gen-validate generates for Envoy's API.
//!
//! Messages of every type of v3 are made by the descriptors, from values at and beside the limits of
//! rules, and good resources are changed a little, thousands of times from fixed seeds. Both sides
//! must name the same fields of each message. The Go code does not look into an `Any`, so this is the
//! engine without it.
//!
//! `cargo xtask fetch` builds the Go program below `target/real`. Without it, the test says so and
//! passes; under `cargo xtask ci` it fails.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use chancery_proto::Schema;
use chancery_proto::document::{Format, parse};
use chancery_proto::rules::Depth;
use prost_reflect::{
    Cardinality, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage,
    Value,
};

use support::GeneratedRules;

/// The messages that are made of each type, and the changes of each good resource.
const OF_EACH_TYPE: usize = 20;
const OF_EACH_RESOURCE: usize = 150;

/// Types and fields on which the two may differ, each with the reason.
const DIFFERENT: [(&str, &str); 3] = [
    (
        "envoy.extensions.filters.http.ai_protocol_manager.v3.",
        "fields were renamed between the two versions of the API",
    ),
    (
        "envoy.extensions.http.injected_credentials.oauth2.v3.OAuth2",
        "our descriptors are newer: there the client secret is required",
    ),
    (
        "envoy.config.route.v3.RouteConfiguration.vhostheader",
        "the field has a rule since a version that is newer than our descriptors of it",
    ),
];

#[test]
fn the_engine_finds_the_fields_that_generated_code_finds() {
    let Some(generated) = GeneratedRules::find() else { return };
    let schema = Schema::bundled();
    let messages: Vec<_> = made(&schema).into_iter().chain(changed(&schema)).collect();
    assert!(messages.len() > 10_000, "{}", messages.len());
    let answers = generated.ask(&messages);
    let mut different = BTreeMap::<String, (usize, String)>::new();
    let mut counts = BTreeMap::<&str, usize>::new();
    for (message, answer) in messages.iter().zip(&answers) {
        let kind = match answer.as_str() {
            "ok" => "good",
            // The type is newer, older, or not of Envoy; or the bytes are of another version of it.
            "unknown" | "malformed" => "not compared",
            _ => "bad",
        };
        *counts.entry(kind).or_default() += 1;
        if kind == "not compared" {
            continue;
        }
        let theirs: BTreeSet<String> =
            answer.split(' ').filter_map(|it| it.strip_prefix("field:")).map(plain).collect();
        let Some(ours) = ours(&schema, message) else {
            *counts.entry("too many violations").or_default() += 1;
            continue;
        };
        let name = message.descriptor().full_name().to_owned();
        for field in ours.symmetric_difference(&theirs) {
            let place = format!("{name}.{field}");
            if DIFFERENT.iter().any(|(known, _)| place.starts_with(known)) {
                continue;
            }
            let which = if ours.contains(field) { "only ours" } else { "only theirs" };
            let entry = different.entry(format!("{place}: {which}"));
            entry.or_insert_with(|| (0, message.to_text_format().chars().take(600).collect())).0 +=
                1;
        }
    }
    assert!(different.is_empty(), "{} differ of {counts:?}: {different:#?}", different.len());
    assert!(counts["good"] > 1000 && counts["bad"] > 1000, "{counts:?}");
    assert!(counts["not compared"] < messages.len() / 4, "{counts:?}");
}

/// The top-level fields in which the engine finds something, unless it finds more than it tells.
fn ours(schema: &Schema, message: &DynamicMessage) -> Option<BTreeSet<String>> {
    let violations = schema.rules().check(message, Depth::Own);
    if violations.more > 0 {
        return None;
    }
    // Deprecations are no rules of protoc-gen-validate.
    let first = violations.first.iter().filter(|it| !it.rule.as_str().ends_with(".disallowed"));
    let fields = first.map(|it| it.path.split(['.', '[']).next().unwrap());
    Some(fields.map(plain).collect())
}

/// A name without the spelling of a language.
fn plain(name: &str) -> String {
    name.chars().filter(|it| *it != '_').flat_map(char::to_lowercase).collect()
}

/// Messages of every type of v3, made by its descriptor.
fn made(schema: &Schema) -> Vec<DynamicMessage> {
    let of_v3 = |message: &MessageDescriptor| {
        let package = message.package_name();
        !message.is_map_entry()
            && (package.starts_with("envoy.") && package.contains(".v3")
                || package.starts_with("xds."))
    };
    let mut random = Random(1);
    let types = schema.pool().all_messages().filter(of_v3);
    types
        .flat_map(|of| (0..OF_EACH_TYPE).map(|_| random.message(&of, 3)).collect::<Vec<_>>())
        .collect()
}

/// Good resources and all that is in them, each with a few fields changed.
fn changed(schema: &Schema) -> Vec<DynamicMessage> {
    let mut random = Random(2);
    let mut all = Vec::new();
    for message in resources(schema) {
        for _ in 0..OF_EACH_RESOURCE {
            let mut changed = message.clone();
            for _ in 0..=random.below(2) {
                random.change(&mut changed);
            }
            all.push(changed);
        }
        all.push(message);
    }
    all
}

/// The resources in the files of this repository, and the messages in each `Any` of them.
fn resources(schema: &Schema) -> Vec<DynamicMessage> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("crates/chancery-proto/testdata/all.yaml")];
    add_files(&root.join("examples"), &mut files);
    let mut found = Vec::new();
    for file in files {
        let Some(format) = Format::of_path(&file) else { continue };
        let parsed = parse(schema, format, &std::fs::read(&file).unwrap());
        for resource in parsed.resources {
            let Some(of) = schema.message(resource.type_url.as_str()) else { continue };
            let body = resource.resource.body().clone();
            add_contents(&DynamicMessage::decode(of, body).unwrap(), &mut found);
        }
    }
    assert!(found.len() > 20, "{}", found.len());
    found
}

fn add_files(dir: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|it| it.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            add_files(&path, files);
        } else if path.file_name().is_some_and(|name| name != "chancery.yaml") {
            files.push(path);
        }
    }
}

/// Adds a message and those in each `Any` below it.
fn add_contents(message: &DynamicMessage, found: &mut Vec<DynamicMessage>) {
    let of = message.descriptor();
    if of.full_name() == "google.protobuf.Any" {
        let url = message.get_field_by_number(1).unwrap();
        let name = url.as_str().unwrap().rsplit('/').next().unwrap();
        let Some(of) = of.parent_pool().get_message_by_name(name) else { return };
        let value = message.get_field_by_number(2).unwrap();
        let content = DynamicMessage::decode(of, value.as_bytes().unwrap().clone()).unwrap();
        add_contents(&content, found);
        return;
    }
    if of.package_name().starts_with("envoy.") {
        found.push(message.clone());
    }
    for (_, value) in message.fields() {
        for message in messages_in(value) {
            add_below(message, found);
        }
    }
}

/// Adds what is in each `Any` below a message, which is part of another.
fn add_below(message: &DynamicMessage, found: &mut Vec<DynamicMessage>) {
    if message.descriptor().full_name() == "google.protobuf.Any" {
        return add_contents(message, found);
    }
    for (_, value) in message.fields() {
        for message in messages_in(value) {
            add_below(message, found);
        }
    }
}

fn messages_in(value: &Value) -> Vec<&DynamicMessage> {
    match value {
        Value::Message(message) => vec![message],
        Value::List(items) => items.iter().filter_map(Value::as_message).collect(),
        Value::Map(entries) => {
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            entries.into_iter().filter_map(|(_, value)| value.as_message()).collect()
        }
        _ => Vec::new(),
    }
}

/// A sequence of numbers that is the same each time (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    /// A message with some of its fields.
    fn message(&mut self, of: &MessageDescriptor, depth: usize) -> DynamicMessage {
        let mut message = DynamicMessage::new(of.clone());
        let share = 1 + self.below(4);
        for field in of.fields() {
            if self.below(4) < share {
                let value = self.field(&field, depth);
                message.set_field(&field, value);
            }
        }
        message
    }

    fn field(&mut self, field: &FieldDescriptor, depth: usize) -> Value {
        let kind = field.kind();
        if let (true, Some(entry)) = (field.is_map(), kind.as_message()) {
            let (key, value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
            let entries = (0..self.below(3)).filter_map(|_| {
                let key: MapKey = self.value(&key.kind(), depth).into_map_key()?;
                Some((key, self.value(&value.kind(), depth)))
            });
            return Value::Map(entries.collect());
        }
        if field.cardinality() == Cardinality::Repeated {
            let mut items: Vec<_> = (0..self.below(4)).map(|_| self.value(&kind, depth)).collect();
            if self.below(4) == 0 {
                items.extend(items.first().cloned());
            }
            return Value::List(items);
        }
        self.value(&kind, depth)
    }

    fn value(&mut self, kind: &Kind, depth: usize) -> Value {
        const NUMBERS: [i64; 24] = [
            0,
            1,
            -1,
            2,
            3,
            4,
            5,
            8,
            10,
            17,
            64,
            65,
            99,
            100,
            101,
            128,
            129,
            999,
            1024,
            65_535,
            65_536,
            4_194_304,
            16_777_216,
            i32::MAX as i64,
        ];
        let number = self.one_of(&NUMBERS);
        let unsigned = number.unsigned_abs();
        match kind {
            Kind::Double => Value::F64(self.one_of(&FLOATS)),
            Kind::Float => Value::F32(self.one_of(&FLOATS) as f32),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
                Value::I32(i32::try_from(number).unwrap())
            }
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(number),
            Kind::Uint32 | Kind::Fixed32 => Value::U32(u32::try_from(unsigned).unwrap()),
            Kind::Uint64 | Kind::Fixed64 => Value::U64(unsigned),
            Kind::Bool => Value::Bool(self.below(2) == 0),
            Kind::String => Value::String(self.text()),
            Kind::Bytes => Value::Bytes(self.text().into_bytes().into()),
            Kind::Enum(of) => {
                let numbers: Vec<_> = of.values().map(|value| value.number()).collect();
                let odd = [99, -1, 0];
                let is_odd = self.below(5) == 0;
                Value::EnumNumber(self.one_of(if is_odd { &odd } else { &numbers }))
            }
            Kind::Message(of) => Value::Message(self.inner(of, depth)),
        }
    }

    fn inner(&mut self, of: &MessageDescriptor, depth: usize) -> DynamicMessage {
        match of.full_name() {
            "google.protobuf.Duration" | "google.protobuf.Timestamp" => {
                let mut message = DynamicMessage::new(of.clone());
                let seconds = self.one_of(&[0, 0, 1, 5, 60, 3600, -1, 315_576_000_001]);
                let nanos = self.one_of(&[0, 0, 0, 1, 999_999, 1_000_000, -1, 1_000_000_000]);
                message.set_field_by_number(1, Value::I64(seconds));
                message.set_field_by_number(2, Value::I32(nanos));
                message
            }
            // It is not opened, and one that is set is enough.
            "google.protobuf.Any" => DynamicMessage::new(of.clone()),
            _ if depth == 0 => DynamicMessage::new(of.clone()),
            _ => self.message(of, depth - 1),
        }
    }

    fn text(&mut self) -> String {
        let long = [64, 127, 128, 129, 1024, 1025, 16_384, 65_536];
        match self.below(4) {
            0 => String::new(),
            1 => "x".repeat(self.one_of(&long)),
            _ => {
                let texts = [
                    "a",
                    "/",
                    "/a",
                    "a/b/",
                    ":path",
                    "x-a",
                    "a b",
                    "a\nb",
                    "a\u{0}",
                    "ä",
                    "1.2.3.4",
                    "::1",
                    "http://a.example/b?c",
                    "*",
                    "a_b",
                    "%REQ(x)%",
                    "a;b",
                    "#a",
                    "-",
                    "1",
                    "a\tb",
                    "ä".repeat(64).leak(),
                    "https",
                    "HTTP_1",
                    "{a}",
                    "a.b.c",
                    "\u{7f}",
                ];
                self.one_of(&texts).to_owned()
            }
        }
    }

    /// Changes one field of the message or of one in it.
    fn change(&mut self, message: &mut DynamicMessage) {
        let set: Vec<_> = message.fields().map(|(field, _)| field).collect();
        let inner: Vec<_> = set
            .iter()
            .filter(|field| !field.is_map() && matches!(field.kind(), Kind::Message(_)))
            .collect();
        if !inner.is_empty() && self.below(3) > 0 {
            let field = self.one_of(&inner);
            match message.get_field_mut(field) {
                Value::Message(inner) if !inner.descriptor().full_name().starts_with("google.") => {
                    return self.change(inner);
                }
                Value::List(items) => {
                    let at = self.below(items.len());
                    if let Value::Message(inner) = &mut items[at]
                        && !inner.descriptor().full_name().starts_with("google.")
                    {
                        return self.change(inner);
                    }
                }
                _ => {}
            }
        }
        let all: Vec<_> = message.descriptor().fields().collect();
        if all.is_empty() {
            return;
        }
        match (self.below(3), set.is_empty()) {
            (0, false) => message.clear_field(&self.one_of(&set)),
            (1, false) => {
                let field = self.one_of(&set);
                message.set_field(&field, self.field(&field, 2));
            }
            _ => {
                let field = self.one_of(&all);
                message.set_field(&field, self.field(&field, 2));
            }
        }
    }
}

const FLOATS: [f64; 10] = [0.0, 1.0, -1.0, 0.5, 100.0, 100.5, 1.5, 0.001, f64::NAN, f64::INFINITY];
