//! The types of the documents of the API, as their code has them, in the words of JSON Schema.
//!
//! A document is written by [`document!`], which makes the struct and its description from the same
//! lines, so that none of them can say what the other does not. Not here: the endpoints (`endpoint`), and
//! the document that has all descriptions (`openapi`).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// A type whose JSON is described.
pub(crate) trait Described {
    /// The description. Types with names are described in `types`, and referred to.
    fn schema(types: &mut Types) -> Value;

    /// Returns true for a value that a field may leave out.
    fn is_absent(&self) -> bool {
        false
    }
}

/// The types with names that a description refers to.
#[derive(Debug, Default)]
pub(crate) struct Types(BTreeMap<&'static str, Value>);

/// The description of an object.
#[derive(Debug, Default)]
pub(crate) struct Object {
    properties: Map<String, Value>,
    required: Vec<&'static str>,
}

impl Types {
    /// The reference to an object with a name.
    pub(crate) fn object(
        &mut self,
        name: &'static str,
        about: &str,
        describe: impl FnOnce(&mut Object, &mut Self),
    ) -> Value {
        if !self.0.contains_key(name) {
            // A type may refer to itself.
            self.0.insert(name, Value::Null);
            let mut object = Object::default();
            describe(&mut object, self);
            let Object { properties, required } = object;
            let schema = json!({
                "type": "object", "description": about.trim(), "properties": properties,
                "required": required,
            });
            self.0.insert(name, schema);
        }
        reference(name)
    }

    /// The reference to a text that is one of these.
    pub(crate) fn words(
        &mut self,
        name: &'static str,
        about: &str,
        words: &[(&str, &str)],
    ) -> Value {
        let lines = words.iter().map(|(word, about)| format!("- `{word}`: {}", about.trim()));
        let lines = lines.collect::<Vec<_>>().join("\n");
        let all: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let about = format!("{}\n\n{lines}", about.trim());
        self.0.insert(name, json!({"type": "string", "description": about, "enum": all}));
        reference(name)
    }

    /// The descriptions by name.
    pub(super) fn into_json(self) -> Map<String, Value> {
        self.0.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
    }

    /// The properties of the type that this is, or refers to.
    pub(super) fn properties<'s>(&'s self, schema: &'s Value) -> Option<&'s Map<String, Value>> {
        let named = schema["$ref"].as_str().and_then(|it| it.strip_prefix(PREFIX));
        let schema = named.map_or(Some(schema), |name| self.0.get(name))?;
        schema["properties"].as_object()
    }
}

impl Object {
    /// Adds a property.
    pub(crate) fn property(
        &mut self,
        name: &'static str,
        about: &str,
        is_required: bool,
        schema: Value,
    ) {
        let name = name.trim_start_matches("r#");
        let mut described = schema;
        if let Some(schema) = described.as_object_mut() {
            schema.insert("description".to_owned(), about.trim().into());
        }
        self.properties.insert(name.to_owned(), described);
        if is_required {
            self.required.push(name);
        }
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("{PREFIX}{name}")})
}

const PREFIX: &str = "#/components/schemas/";

macro_rules! described {
    ($($type:ty => $schema:tt)*) => {$(
        impl Described for $type {
            fn schema(_: &mut Types) -> Value {
                json!($schema)
            }
        }
    )*};
}

impl Described for bool {
    fn schema(_: &mut Types) -> Value {
        json!({"type": "boolean"})
    }

    fn is_absent(&self) -> bool {
        !self
    }
}

described! {
    u32 => {"type": "integer", "minimum": 0}
    i64 => {"type": "integer"}
    u64 => {"type": "integer", "minimum": 0}
    usize => {"type": "integer", "minimum": 0}
    f64 => {"type": "number"}
    String => {"type": "string"}
    str => {"type": "string"}
    Map<String, Value> => {"type": "object"}
    Value => {}
}

impl<D: Described> Described for Option<D> {
    fn schema(types: &mut Types) -> Value {
        json!({"anyOf": [D::schema(types), {"type": "null"}]})
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<D: Described> Described for Vec<D> {
    fn schema(types: &mut Types) -> Value {
        json!({"type": "array", "items": D::schema(types)})
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl<D: Described> Described for BTreeMap<String, D> {
    fn schema(types: &mut Types) -> Value {
        json!({"type": "object", "additionalProperties": D::schema(types)})
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

/// Makes a document and its description: a struct whose fields are all documented, or an enum of words.
/// A field with `= default` is left out if it has no value.
macro_rules! document {
    (
        $(#[doc = $about:literal])*
        struct $name:ident {
            $($(#[doc = $doc:literal])* $field:ident: $type:ty $(= $default:ident)?,)*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
        pub(crate) struct $name {
            $(
                $(#[doc = $doc])*
                $(#[serde($default, skip_serializing_if = "crate::admin::Described::is_absent")])?
                pub(crate) $field: $type,
            )*
        }

        impl crate::admin::Described for $name {
            fn schema(types: &mut crate::admin::Types) -> serde_json::Value {
                types.object(stringify!($name), concat!($($about,)*), |object, types| {
                    $(
                        let optional: &[&str] = &[$(stringify!($default))?];
                        let schema = <$type as crate::admin::Described>::schema(types);
                        let about = concat!($($doc,)*);
                        object.property(stringify!($field), about, optional.is_empty(), schema);
                    )*
                })
            }
        }
    };
    (
        $(#[doc = $about:literal])*
        enum $name:ident {
            $($(#[doc = $doc:literal])* $variant:ident = $word:literal,)*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[derive(serde::Deserialize, serde::Serialize)]
        pub(crate) enum $name {
            $($(#[doc = $doc])* #[serde(rename = $word)] $variant,)*
        }

        impl Default for $name {
            fn default() -> Self {
                [$(Self::$variant,)*][0]
            }
        }

        #[allow(dead_code, reason = "each of the types uses a part of it")]
        impl $name {
            /// The words for all.
            pub(crate) const WORDS: &[&str] = &[$($word,)*];

            /// The one that a word stands for.
            pub(crate) fn read(word: &str) -> Option<Self> {
                [$(Self::$variant,)*].into_iter().find(|it| it.word() == word)
            }

            /// The word for it.
            pub(crate) fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl crate::admin::Described for $name {
            fn schema(types: &mut crate::admin::Types) -> serde_json::Value {
                let words = [$(($word, concat!($($doc,)*)),)*];
                types.words(stringify!($name), concat!($($about,)*), &words)
            }
        }
    };
}

pub(crate) use document;

#[cfg(test)]
mod tests {
    use super::*;

    document! {
        /// A thing
        /// on two lines.
        struct Thing {
            /// The name.
            name: String,
            /// The kind.
            r#type: Option<Kind>,
            /// The things in it.
            things: Vec<Thing> = default,
        }
    }

    document! {
        /// A kind.
        enum Kind {
            /// Far away.
            FarAway = "far-away",
        }
    }

    #[test]
    fn a_document_is_described_as_it_is_written() {
        let mut types = Types::default();
        let schema = Thing::schema(&mut types);
        assert_eq!(schema, json!({"$ref": "#/components/schemas/Thing"}));
        let properties = types.properties(&schema).unwrap();
        assert!(properties.keys().eq(["name", "things", "type"]));
        let all = Value::Object(types.into_json());
        assert_eq!(all["Thing"]["required"], json!(["name", "type"]));
        assert_eq!(all["Thing"]["description"], "A thing on two lines.");
        assert_eq!(all["Kind"]["enum"], json!(["far-away"]));
        assert_eq!(Kind::FarAway.word(), "far-away");
        let thing = Thing { r#type: Some(Kind::FarAway), ..Thing::default() };
        assert_eq!(serde_json::to_value(&thing).unwrap(), json!({"name": "", "type": "far-away"}));
    }
}
