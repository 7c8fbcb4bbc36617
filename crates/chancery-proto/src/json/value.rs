//! Messages as values of JSON, with all their numbers.
//!
//! The serializer of `serde_json` turns Infinity and NaN into `null`. The JSON mapping of proto3
//! writes them as text, and the wrapped ones (`google.protobuf.DoubleValue`) arrive here as
//! numbers. Everything else is as in `serde_json`. Types that messages never contain, such as
//! structs of Rust, are errors.

use std::fmt::Display;

use prost_reflect::{DynamicMessage, SerializeOptions};
use serde::ser::{Error as _, Impossible, Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::value::Serializer as Plain;
use serde_json::{Error, Map, Value};

/// The JSON form of a message.
///
/// # Errors
/// Fails for messages without one: an `Any` of an unknown type, a duration out of range.
pub(crate) fn to_value(message: &DynamicMessage) -> Result<Value, Error> {
    message.serialize_with_options(ValueSerializer, &SerializeOptions::new())
}

/// A number in JSON. One that is not finite becomes a text.
pub(crate) fn number(value: f64) -> Value {
    match value {
        _ if value.is_finite() => value.into(),
        _ if value.is_nan() => "NaN".into(),
        _ if value > 0.0 => "Infinity".into(),
        _ => "-Infinity".into(),
    }
}

struct ValueSerializer;

#[derive(Default)]
struct ListSerializer(Vec<Value>);

#[derive(Default)]
struct ObjectSerializer {
    fields: Map<String, Value>,
    key: String,
}

/// Methods for the types that `serde_json` serializes in the right way.
macro_rules! plain {
    ($($name:ident: $type:ty,)*) => {
        $(fn $name(self, value: $type) -> Result<Value, Error> {
            Plain.$name(value)
        })*
    };
}

impl Serializer for ValueSerializer {
    type Ok = Value;
    type Error = Error;
    type SerializeSeq = ListSerializer;
    type SerializeMap = ObjectSerializer;
    type SerializeTuple = Impossible<Value, Error>;
    type SerializeTupleStruct = Impossible<Value, Error>;
    type SerializeTupleVariant = Impossible<Value, Error>;
    type SerializeStruct = Impossible<Value, Error>;
    type SerializeStructVariant = Impossible<Value, Error>;

    plain! {
        serialize_bool: bool,
        serialize_i8: i8,
        serialize_i16: i16,
        serialize_i32: i32,
        serialize_i64: i64,
        serialize_u8: u8,
        serialize_u16: u16,
        serialize_u32: u32,
        serialize_u64: u64,
        serialize_char: char,
        serialize_str: &str,
        serialize_bytes: &[u8],
        serialize_unit_struct: &'static str,
    }

    fn serialize_f32(self, value: f32) -> Result<Value, Error> {
        Ok(number(value.into()))
    }

    fn serialize_f64(self, value: f64) -> Result<Value, Error> {
        Ok(number(value))
    }

    fn serialize_none(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        value.serialize(self)
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<Value, Error> {
        Ok(value.to_string().into())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<ListSerializer, Error> {
        Ok(ListSerializer::default())
    }

    fn serialize_map(self, _: Option<usize>) -> Result<ObjectSerializer, Error> {
        Ok(ObjectSerializer::default())
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
    ) -> Result<Value, Error> {
        Err(no_message(name))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Value, Error> {
        Err(no_message(name))
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Error> {
        Err(no_message("a tuple"))
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, Error> {
        Err(no_message(name))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Error> {
        Err(no_message(name))
    }

    fn serialize_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStruct, Error> {
        Err(no_message(name))
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Error> {
        Err(no_message(name))
    }
}

fn no_message(name: &str) -> Error {
    Error::custom(format!("`{name}` is no part of a message"))
}

impl SerializeSeq for ListSerializer {
    type Ok = Value;
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.0.push(value.serialize(ValueSerializer)?);
        Ok(())
    }

    fn end(self) -> Result<Value, Error> {
        Ok(Value::Array(self.0))
    }
}

impl SerializeMap for ObjectSerializer {
    type Ok = Value;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        let Value::String(key) = key.serialize(ValueSerializer)? else {
            return Err(Error::custom("a key is no text"));
        };
        self.key = key;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let key = std::mem::take(&mut self.key);
        self.fields.insert(key, value.serialize(ValueSerializer)?);
        Ok(())
    }

    fn end(self) -> Result<Value, Error> {
        Ok(Value::Object(self.fields))
    }
}
