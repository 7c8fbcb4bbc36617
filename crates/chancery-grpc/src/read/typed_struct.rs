//! `TypedStruct`: a message of a type that has no descriptor, as what JSON would say.

use chancery_core::TypeUrl;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Any, Struct, Value};
use prost::Message;
use serde_json::{Map, Value as Json};

/// The names of the message: the newer and the older.
const NAMES: [&str; 2] = ["xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"];

/// The type that a struct stands for, and its fields.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TypedStruct {
    #[prost(string, tag = "1")]
    pub(super) type_url: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Struct>,
}

impl TypedStruct {
    /// Returns the struct in an `Any`, if there is one.
    pub(super) fn opened(config: &Any) -> Option<Result<Self, String>> {
        let name = TypeUrl::message_name_in(&config.type_url);
        let name = NAMES.into_iter().find(|known| *known == name)?;
        let decoded = Self::decode(&*config.value);
        Some(decoded.map_err(|error| format!("a malformed `{name}`: {error}")))
    }

    /// The name of the type.
    pub(super) fn name(&self) -> &str {
        TypeUrl::message_name_in(&self.type_url)
    }

    /// The fields as JSON, in an order that is always the same.
    pub(super) fn fields(&self) -> Json {
        self.value.as_ref().map_or_else(|| Json::Object(Map::new()), object)
    }
}

fn object(message: &Struct) -> Json {
    Json::Object(message.fields.iter().map(|(key, value)| (key.clone(), json(value))).collect())
}

/// A value as JSON. A number that JSON does not have is `null`. It is as deep as the decoder allows.
fn json(value: &Value) -> Json {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Json::Null,
        Some(Kind::NumberValue(number)) => number_of(*number),
        Some(Kind::StringValue(text)) => text.as_str().into(),
        Some(Kind::BoolValue(flag)) => (*flag).into(),
        Some(Kind::StructValue(fields)) => object(fields),
        Some(Kind::ListValue(list)) => list.values.iter().map(json).collect(),
    }
}

/// A number without a fraction is written without one, as a field for integers wants it.
fn number_of(number: f64) -> Json {
    const EXACT: f64 = 9_007_199_254_740_992.0; // Above it a double has no odd numbers.
    if number.fract() == 0.0 && number.abs() < EXACT {
        return Json::from(number as i64);
    }
    Json::from(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any(name: &str, value: &[(&str, Kind)]) -> Any {
        let fields =
            value.iter().map(|(key, kind)| ((*key).to_owned(), Value { kind: Some(kind.clone()) }));
        let value = Some(Struct { fields: fields.collect() });
        let message = TypedStruct { type_url: "example.com/a.Policy".to_owned(), value };
        Any { type_url: format!("type.googleapis.com/{name}"), value: message.encode_to_vec() }
    }

    #[test]
    fn a_struct_is_json_under_both_names() {
        // C-112
        let text = Kind::StringValue("x\"".to_owned());
        let list = Kind::ListValue(envoy_types::pb::google::protobuf::ListValue {
            values: vec![Value { kind: Some(text) }, Value { kind: None }],
        });
        let fields = [
            ("e", Kind::NumberValue(f64::NAN)),
            ("a", Kind::NumberValue(3.0)),
            ("b", Kind::NumberValue(0.5)),
            ("d", list),
            ("c", Kind::BoolValue(true)),
        ];
        for name in NAMES {
            let read = TypedStruct::opened(&any(name, &fields)).unwrap().unwrap();
            assert_eq!(read.name(), "a.Policy");
            assert_eq!(
                read.fields().to_string(),
                r#"{"a":3,"b":0.5,"c":true,"d":["x\"",null],"e":null}"#
            );
        }
        assert!(TypedStruct::opened(&any("google.protobuf.Struct", &fields)).is_none());
        let empty = TypedStruct { type_url: String::new(), value: None };
        assert_eq!(empty.fields().to_string(), "{}");
    }
}
