//! The parts of a node that are shown: bounded in size, and without what may be a secret.

use std::collections::BTreeMap;

use chancery_core::printable::cut;
use chancery_core::{Node, Value};
use chancery_proto::sensitive;
use serde_json::{Map, Number, Value as Json};

use super::document::{LeftOut, LocalityRow, NodeRow, WhyLeftOut};

/// The row of a node, as far as the node itself decides on it.
pub(super) fn row(node: &Node) -> NodeRow {
    let mut shown = Shown::default();
    let locality = &node.locality;
    let row = NodeRow {
        id: shown.text("id", &node.id),
        cluster: shown.text("cluster", &node.cluster),
        locality: LocalityRow {
            region: shown.text("locality.region", &locality.region),
            zone: shown.text("locality.zone", &locality.zone),
            sub_zone: shown.text("locality.sub_zone", &locality.sub_zone),
        },
        user_agent: shown.text("user_agent", &node.user_agent_name),
        user_agent_version: shown.text("user_agent_version", &node.user_agent_version),
        metadata: shown.metadata(&node.metadata),
        ..NodeRow::default()
    };
    NodeRow { left_out: shown.left_out, ..row }
}

/// The bookkeeping of what is shown of one node.
#[derive(Default)]
struct Shown {
    left_out: Vec<LeftOut>,
    /// The bytes of metadata so far.
    bytes: usize,
    /// The bytes that the entry that is looked at may still have, at least.
    room: usize,
}

impl Shown {
    fn text(&mut self, part: &str, text: &str) -> String {
        if text.len() > MAX_TEXT_BYTES {
            self.leave_out(part, WhyLeftOut::Large);
        }
        cut(text, MAX_TEXT_BYTES).into_owned()
    }

    fn metadata(&mut self, metadata: &BTreeMap<String, Value>) -> Map<String, Json> {
        let mut fields = Map::new();
        for (key, value) in metadata {
            let (part, before) = (path("metadata", key), self.left_out.len());
            self.room = (MAX_METADATA_BYTES + 1).saturating_sub(self.bytes + key.len());
            let shown = self.value(&part, names_secret(key), value);
            let bytes = key.len() + shown.as_ref().map_or(0, |it| it.to_string().len());
            if self.room == 0 || self.bytes + bytes > MAX_METADATA_BYTES {
                self.left_out.truncate(before);
                self.leave_out(&part, WhyLeftOut::Large);
            } else if let Some(shown) = shown {
                self.bytes += bytes;
                fields.insert(key.clone(), shown);
            }
        }
        fields
    }

    /// The value at a path, as far as there is room for it; `None` if it is a secret, as everything is that
    /// stands in something secret: `private_key: {inline_string: …}`.
    fn value(&mut self, part: &str, is_secret: bool, value: &Value) -> Option<Json> {
        let is_secret_value = match value {
            Value::Null | Value::List(_) | Value::Map(_) => false,
            Value::Bool(_) | Value::Number(_) => is_secret,
            Value::Text(text) => {
                is_secret && !text.is_empty() || sensitive::is_secret_text("", text)
            }
        };
        // Each value takes a byte at least, also where it is left out.
        self.room = self.room.saturating_sub(1);
        if is_secret_value {
            self.leave_out(part, WhyLeftOut::Secret);
            return None;
        }
        Some(match value {
            Value::Null => Json::Null,
            Value::Bool(is) => Json::Bool(*is),
            Value::Number(number) => json_number(*number),
            Value::Text(text) => {
                self.room = self.room.saturating_sub(text.len());
                (self.room > 0).then(|| Json::String(text.clone()))?
            }
            // The name of a list is that of what is in it.
            Value::List(values) => {
                let mut shown = Vec::new();
                for value in values {
                    if self.room == 0 {
                        break;
                    }
                    shown.extend(self.value(part, is_secret, value));
                }
                Json::Array(shown)
            }
            Value::Map(fields) => {
                let mut shown = Map::new();
                for (key, value) in fields {
                    self.room = self.room.saturating_sub(key.len());
                    if self.room == 0 {
                        break;
                    }
                    let is_secret = is_secret || names_secret(key);
                    if let Some(value) = self.value(&path(part, key), is_secret, value) {
                        shown.insert(key.clone(), value);
                    }
                }
                Json::Object(shown)
            }
        })
    }

    fn leave_out(&mut self, part: &str, why: WhyLeftOut) {
        let left_out = LeftOut { part: cut(part, MAX_TEXT_BYTES).into_owned(), why };
        if self.left_out.len() < MOST_LEFT_OUT && !self.left_out.contains(&left_out) {
            self.left_out.push(left_out);
        }
    }
}

/// The path of a field, which is no longer extended where it would be cut anyway.
fn path(part: &str, key: &str) -> String {
    if part.len() > MAX_TEXT_BYTES {
        return part.to_owned();
    }
    format!("{part}.{}", &key[..key.floor_char_boundary(MAX_TEXT_BYTES)])
}

/// Returns true if all that stands under this name is secret.
fn names_secret(name: &str) -> bool {
    sensitive::is_secret_text(name, ANY_TEXT)
}

/// A number without a fraction is written without one.
#[expect(clippy::cast_possible_truncation, reason = "the number was compared with the bounds")]
fn json_number(number: f64) -> Json {
    if number.fract() == 0.0 && number.abs() < MAX_EXACT {
        return Json::from(number as i64);
    }
    Number::from_f64(number).map_or(Json::Null, Json::Number)
}

/// Up to here every whole number is exact.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// A text that is a secret only if its name says so.
const ANY_TEXT: &str = "x";

/// The bytes of one text that are shown.
pub(in crate::admin) const MAX_TEXT_BYTES: usize = 512;

/// The bytes of the metadata of one node that are shown.
const MAX_METADATA_BYTES: usize = 64 * 1024;

/// The number of parts that are named of those that are not shown.
const MOST_LEFT_OUT: usize = 100;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn shown(metadata: &[(&str, Value)]) -> NodeRow {
        let fields = metadata.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        row(&Node { metadata: Arc::new(fields.collect()), ..Node::default() })
    }

    fn left_out(row: &NodeRow) -> Vec<(&str, WhyLeftOut)> {
        row.left_out.iter().map(|it| (&*it.part, it.why)).collect()
    }

    #[test]
    fn secrets_are_left_out_wherever_they_stand() {
        let key = "-----BEGIN PRIVATE KEY-----";
        let source = Value::Map([("inline_string".to_owned(), text("x"))].into());
        let inner = [("client_secret".to_owned(), source), ("k".to_owned(), text("y"))];
        let row = shown(&[
            ("a", Value::List(vec![Value::Map(inner.into()), text(key), Value::Number(1.0)])),
            ("passwords", Value::List(vec![text("x"), text("y")])),
            ("b", Value::Number(1.5)),
        ]);
        let json = serde_json::json!({"a": [{"client_secret": {}, "k": "y"}, 1], "passwords": [], "b": 1.5});
        assert_eq!(Json::Object(row.metadata.clone()), json);
        use WhyLeftOut::Secret;
        let expected = [
            ("metadata.a.client_secret.inline_string", Secret),
            ("metadata.a", Secret),
            ("metadata.passwords", Secret),
        ];
        assert_eq!(left_out(&row), expected);
    }

    #[test]
    fn a_number_with_the_name_of_a_secret_is_one_too() {
        let pin = [("b".to_owned(), Value::Bool(true)), ("c".to_owned(), Value::Null)];
        let row = shown(&[
            ("password", Value::Number(12_345.0)),
            ("token", Value::Map(pin.into())),
            ("z", Value::Number(1.0)),
        ]);
        let json = serde_json::json!({"token": {"c": null}, "z": 1});
        assert_eq!(Json::Object(row.metadata.clone()), json);
        let expected = ["metadata.password", "metadata.token.b"];
        assert_eq!(left_out(&row), expected.map(|part| (part, WhyLeftOut::Secret)));
    }

    #[test]
    fn a_long_name_costs_no_copy_for_each_value_below_it() {
        let long = format!("{}_token", "k".repeat(30_000));
        let many = (0..100_000).map(|number| (number.to_string(), Value::Number(1.0)));
        let below = Value::Map(many.collect());
        let list = Value::List(vec![Value::Bool(true); 100_000]);
        let both = [("x".to_owned(), below), ("y".to_owned(), list)];
        let row = shown(&[(&long, Value::Map(both.into())), ("z", text("z"))]);
        assert_eq!(Json::Object(row.metadata.clone()), serde_json::json!({"z": "z"}));
        let [(part, WhyLeftOut::Large)] = left_out(&row)[..] else { panic!("{:?}", row.left_out) };
        assert!(part.len() < MAX_TEXT_BYTES + 30, "{part}");
    }

    #[test]
    fn what_is_shown_is_bounded() {
        let large = "x".repeat(MAX_METADATA_BYTES);
        let row = shown(&[("a", text("b")), ("b", text(&large)), ("c", text("d"))]);
        assert_eq!(Json::Object(row.metadata.clone()), serde_json::json!({"a": "b", "c": "d"}));
        assert_eq!(left_out(&row), [("metadata.b", WhyLeftOut::Large)]);
        let long = row_of_id(&"x".repeat(MAX_TEXT_BYTES + 1));
        assert!(
            long.id.len() < MAX_TEXT_BYTES + 30 && left_out(&long) == [("id", WhyLeftOut::Large)]
        );
    }

    fn row_of_id(id: &str) -> NodeRow {
        row(&Node { id: id.to_owned(), ..Node::default() })
    }
}
