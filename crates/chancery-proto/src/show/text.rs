//! A message as protobuf text, for people.
//!
//! An `Any` of a known type is written expanded. Map entries are sorted by their keys, so that
//! equal messages have equal texts. Not here: which fields are secret (`show`), JSON and YAML
//! (`tree`, `yaml`).

use std::fmt::Write;

use bytes::Bytes;
use chancery_core::printable::is_printable;
use prost_reflect::{DynamicMessage, Kind, ReflectMessage, Value};

use super::{AnyContent, REDACTED, Viewer, fields};
use crate::any;

/// Writes an `Any` in its expanded form, `[URL] { … }`. The text ends with a line feed.
pub(super) fn write(viewer: &Viewer, type_url: &str, value: &Bytes) -> String {
    let mut writer = TextWriter { viewer, out: String::new(), indent: 0 };
    writer.opened(type_url, value, 0);
    writer.out
}

struct TextWriter<'v> {
    viewer: &'v Viewer,
    out: String,
    indent: usize,
}

impl TextWriter<'_> {
    fn opened(&mut self, type_url: &str, value: &Bytes, depth: usize) {
        match self.viewer.content_of(type_url, value, depth) {
            AnyContent::Message(message) => {
                let name = bracketed(type_url, &message);
                self.block(&name, |writer| writer.message(&message, depth + 1));
            }
            AnyContent::Opaque(bytes) => {
                self.write_line("type_url", &quoted(type_url.as_bytes()));
                self.write_line("value", &quoted(&bytes));
            }
            AnyContent::Withheld => {
                self.write_line("type_url", &quoted(type_url.as_bytes()));
                self.write_line("value", &quoted(REDACTED.as_bytes()));
            }
        }
    }

    fn message(&mut self, message: &DynamicMessage, depth: usize) {
        if any::is_any(&message.descriptor()) {
            let type_url = any::type_url(message).unwrap_or_default();
            let value = message.get_field_by_number(any::VALUE);
            let value = value.as_deref().and_then(Value::as_bytes).cloned().unwrap_or_default();
            if !type_url.is_empty() || !value.is_empty() {
                self.opened(&type_url, &value, depth);
            }
            return;
        }
        let withholds = self.viewer.withholds(message);
        for (field, value) in fields(message) {
            let (name, kind) = (field.name(), field.kind());
            match value {
                _ if withholds(&field, value) => {
                    self.write_line(name, &quoted(REDACTED.as_bytes()))
                }
                Value::List(values) => {
                    values.iter().for_each(|value| self.value(name, Some(&kind), value, depth));
                }
                Value::Map(entries) => {
                    let entry = kind.as_message();
                    let keys = entry.map(|entry| entry.map_entry_key_field().kind());
                    let values = entry.map(|entry| entry.map_entry_value_field().kind());
                    let mut entries: Vec<_> = entries.iter().collect();
                    entries.sort_by_key(|(key, _)| *key);
                    for (key, value) in entries {
                        let text = matches!(keys, Some(Kind::String));
                        let hidden = self.viewer.withholds_entry(key, value);
                        let key = self.viewer.key(key);
                        let key = if text { quoted(key.as_bytes()) } else { key };
                        self.block(name, |writer| {
                            writer.write_line("key", &key);
                            if hidden {
                                writer.write_line("value", &quoted(REDACTED.as_bytes()));
                            } else {
                                writer.value("value", values.as_ref(), value, depth);
                            }
                        });
                    }
                }
                one => self.value(name, Some(&kind), one, depth),
            }
        }
    }

    fn value(&mut self, name: &str, kind: Option<&Kind>, value: &Value, depth: usize) {
        let text = match value {
            Value::Message(message) => {
                return self.block(name, |writer| writer.message(message, depth + 1));
            }
            Value::Bool(is) => is.to_string(),
            Value::I32(is) => is.to_string(),
            Value::I64(is) => is.to_string(),
            Value::U32(is) => is.to_string(),
            Value::U64(is) => is.to_string(),
            // Both write the shortest decimal, and `inf`, `-inf` and `NaN`.
            Value::F32(is) => is.to_string().replace("NaN", "nan"),
            Value::F64(is) => is.to_string().replace("NaN", "nan"),
            Value::String(text) => quoted(text.as_bytes()),
            Value::Bytes(bytes) => quoted(bytes),
            Value::EnumNumber(number) => {
                let known = kind.and_then(Kind::as_enum).and_then(|all| all.get_value(*number));
                known.map_or_else(|| number.to_string(), |value| value.name().to_owned())
            }
            // No list or map contains another list or map.
            Value::List(_) | Value::Map(_) => return,
        };
        self.write_line(name, &text);
    }

    fn write_line(&mut self, name: &str, value: &str) {
        self.indented(format_args!("{name}: {value}"));
    }

    fn block(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        self.indented(format_args!("{name} {{"));
        let before = self.out.len();
        self.indent += 2;
        inside(self);
        self.indent -= 2;
        if self.out.len() == before {
            self.out.pop();
            self.out.push_str("}\n");
        } else {
            self.indented(format_args!("}}"));
        }
    }

    fn indented(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.out, "{:width$}{line}", "", width = self.indent)
            .expect("a `String` takes all that is written to it");
    }
}

/// The type of an expanded `Any`. It cannot be quoted, so a prefix with odd characters is replaced
/// by the usual one.
fn bracketed(type_url: &str, message: &DynamicMessage) -> String {
    if type_url.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte)) {
        return format!("[{type_url}]");
    }
    format!("[type.googleapis.com/{}]", message.descriptor().full_name())
}

/// Writes a string: UTF-8 as it is, except for characters that a terminal would not show as they are,
/// and other bytes in octal digits.
fn quoted(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                other if !is_printable(other) => {
                    octal(&mut out, other.encode_utf8(&mut [0; 4]).as_bytes());
                }
                other => out.push(other),
            }
        }
        octal(&mut out, chunk.invalid());
    }
    out.push('"');
    out
}

fn octal(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        write!(out, "\\{byte:03o}").expect("a `String` takes all that is written to it");
    }
}
