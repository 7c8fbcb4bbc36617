//! The values of mutants: those at and beside limits, and messages that stand elsewhere in good resources.

use std::collections::BTreeMap;

use chancery_testkit::sim::Rng;
use prost_reflect::{
    Cardinality, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage,
    Value,
};

use super::good::Good;
use super::mutate::{ANY, open};

/// The messages in good resources, by type.
pub(super) struct Values {
    messages: BTreeMap<String, Vec<DynamicMessage>>,
}

impl Values {
    pub(super) fn of(good: &[Good]) -> Self {
        let mut values = Self { messages: BTreeMap::new() };
        good.iter().for_each(|good| values.add(&good.message));
        values
    }

    fn add(&mut self, message: &DynamicMessage) {
        let name = message.descriptor().full_name().to_owned();
        if name == ANY
            && let Some(content) = open(message)
        {
            self.add(&content);
        }
        for (_, value) in message.fields() {
            match value {
                Value::Message(inner) => self.add(inner),
                Value::List(items) => {
                    items.iter().filter_map(Value::as_message).for_each(|inner| self.add(inner));
                }
                Value::Map(entries) => {
                    let mut entries: Vec<_> = entries.iter().collect();
                    entries.sort_by_key(|(key, _)| *key);
                    let inner = entries.into_iter().filter_map(|(_, value)| value.as_message());
                    inner.for_each(|inner| self.add(inner));
                }
                _ => {}
            }
        }
        self.messages.entry(name).or_default().push(message.clone());
    }

    /// An `Any` of another place.
    pub(super) fn any(&self, rng: &mut Rng) -> DynamicMessage {
        rng.one_of(&self.messages[ANY]).clone()
    }

    /// A value of a field.
    pub(super) fn field(&self, rng: &mut Rng, field: &FieldDescriptor, depth: usize) -> Value {
        let kind = field.kind();
        if let (true, Some(entry)) = (field.is_map(), kind.as_message()) {
            let (key, value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
            let key: Option<MapKey> = self.one(rng, &key.kind(), depth).into_map_key();
            let value = self.one(rng, &value.kind(), depth);
            return Value::Map(key.into_iter().map(|key| (key, value.clone())).collect());
        }
        match field.cardinality() {
            Cardinality::Repeated => {
                let count = 1 + rng.below(2);
                Value::List((0..count).map(|_| self.one(rng, &kind, depth)).collect())
            }
            _ => self.one(rng, &kind, depth),
        }
    }

    /// One value of a kind.
    pub(super) fn one(&self, rng: &mut Rng, kind: &Kind, depth: usize) -> Value {
        let number = *rng.one_of(&NUMBERS);
        let float = *rng.one_of(&FLOATS);
        match kind {
            Kind::Double => Value::F64(float),
            Kind::Float => Value::F32(float as f32),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
                Value::I32(i32::try_from(number).unwrap_or(i32::MAX))
            }
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(number),
            Kind::Uint32 | Kind::Fixed32 => {
                Value::U32(u32::try_from(number.unsigned_abs()).unwrap_or(u32::MAX))
            }
            Kind::Uint64 | Kind::Fixed64 => Value::U64(number.unsigned_abs()),
            Kind::Bool => Value::Bool(rng.chance(50)),
            Kind::String => Value::String(text(rng)),
            Kind::Bytes => Value::Bytes(text(rng).into_bytes().into()),
            Kind::Enum(of) => {
                let numbers: Vec<_> = of.values().map(|value| value.number()).collect();
                let odd = if rng.chance(50) { 99 } else { -1 };
                Value::EnumNumber(if rng.chance(15) { odd } else { *rng.one_of(&numbers) })
            }
            Kind::Message(of) => Value::Message(self.message(rng, of, depth)),
        }
    }

    fn message(&self, rng: &mut Rng, of: &MessageDescriptor, depth: usize) -> DynamicMessage {
        let mut message = DynamicMessage::new(of.clone());
        match of.full_name() {
            "google.protobuf.Duration" | "google.protobuf.Timestamp" => {
                let seconds = *rng.one_of(&SECONDS);
                let nanos = if seconds < 0 { 0 } else { *rng.one_of(&NANOS) };
                message.set_field_by_number(1, Value::I64(seconds));
                message.set_field_by_number(2, Value::I32(nanos));
                return message;
            }
            ANY => return self.any(rng),
            _ => {}
        }
        if let Some(known) = self.messages.get(of.full_name())
            && rng.chance(60)
        {
            return rng.one_of(known).clone();
        }
        if depth == 0 || rng.chance(20) {
            return message;
        }
        let fields: Vec<_> = of.fields().collect();
        let count = if fields.is_empty() { 0 } else { 1 + rng.below(3) };
        for _ in 0..count {
            let field = rng.one_of(&fields);
            message.set_field(field, self.field(rng, field, depth - 1));
        }
        message
    }
}

const NUMBERS: [i64; 21] = [
    0,
    0,
    1,
    1,
    2,
    3,
    5,
    10,
    50,
    99,
    100,
    101,
    200,
    503,
    1024,
    65_535,
    65_536,
    -1,
    -5,
    4_294_967_295,
    i64::MAX,
];
const FLOATS: [f64; 10] = [0.0, 1.0, 0.5, -1.0, 100.0, 100.5, 1e300, f64::NAN, f64::INFINITY, 2.0];
/// No more than a text of a duration may have.
const SECONDS: [i64; 9] = [0, 0, 1, 5, 60, 3600, -1, -60, 86_400];
const NANOS: [i32; 6] = [0, 0, 0, 0, 1_000_000, 1];

const TEXTS: [&str; 44] = [
    "a",
    "/",
    "/a",
    ":path",
    "host",
    "x-a",
    "a b",
    "a\nb",
    "ä",
    "1.2.3.4",
    "::1",
    "10.0.0.0",
    "http://a.example/b?c",
    "*",
    "*.example",
    "a_b",
    "%REQ(x)%",
    "%NONE%",
    "%",
    "%REQ(",
    "%START_TIME(%s)%",
    "a;b",
    "-",
    "1",
    "https",
    "(",
    "[a-z]+",
    "(?=a)",
    "a{1001}",
    "{a}",
    "/{a}/**",
    "c",
    "no-such",
    "envoy.lb",
    "GET",
    "\u{7f}",
    "\u{0}",
    "localhost",
    "spiffe://a/b",
    "h2",
    "TLSv1",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "5xx",
    "/dev/null",
];

fn text(rng: &mut Rng) -> String {
    match rng.below(8) {
        0 => String::new(),
        1 => "x".repeat(*rng.one_of(&[64, 128, 256, 1025, 5000, 20_000])),
        _ => (*rng.one_of(&TEXTS)).to_owned(),
    }
}
