//! JSON with paths: what is expected is taken, what is not is a fault that says where.
//!
//! Fields that nobody asks for are never looked at, so unknown ones do no harm at any depth (C-004).
//! `null` is the same as nothing.

use std::time::Duration;

use chancery_core::Value as CoreValue;
use serde_json::Value;

use super::Fault;

/// A value, and where it stands.
pub(crate) struct JsonField<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> JsonField<'a> {
    /// The whole document.
    pub(crate) fn root(value: &'a Value) -> Self {
        Self { value, path: String::new() }
    }

    /// A field of an object, if it is there.
    pub(crate) fn field(&self, key: &str) -> Option<Self> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        let dot = if self.path.is_empty() { "" } else { "." };
        Some(Self { value, path: format!("{}{dot}{key}", self.path) })
    }

    /// The text of a field; nothing if it is not there or is no text.
    pub(crate) fn text(&self, key: &str, faults: &mut Vec<Fault>) -> Option<&'a str> {
        let field = self.field(key)?;
        field.expect(field.value.as_str(), "a string", faults)
    }

    /// The same; nothing also if it is empty, which is a fault.
    pub(crate) fn filled_text(&self, key: &str, faults: &mut Vec<Fault>) -> Option<&'a str> {
        let text = self.text(key, faults)?;
        if text.is_empty() {
            faults.push(Fault::new(format!("{}.{key}", self.path), "is empty"));
        }
        Some(text).filter(|text| !text.is_empty())
    }

    /// Whether a field is set; `false` if it is not there.
    pub(crate) fn switch(&self, key: &str, faults: &mut Vec<Fault>) -> bool {
        let field = self.field(key);
        field.and_then(|it| it.expect(it.value.as_bool(), "`true` or `false`", faults))
            == Some(true)
    }

    /// The items of a list; none if it is not there.
    pub(crate) fn list(&self, key: &str, faults: &mut Vec<Fault>) -> Vec<Self> {
        let Some(field) = self.field(key) else { return Vec::new() };
        let items = field.expect(field.value.as_array(), "a list", faults);
        let items = items.into_iter().flatten().enumerate();
        items.map(|(at, value)| Self { value, path: format!("{}[{at}]", field.path) }).collect()
    }

    /// The entries of an object whose keys are names; none if it is not there.
    pub(crate) fn entries(&self, key: &str, faults: &mut Vec<Fault>) -> Vec<(&'a str, Self)> {
        let Some(field) = self.field(key) else { return Vec::new() };
        let entries = field.expect(field.value.as_object(), "an object", faults);
        let entries = entries.into_iter().flatten();
        let place = |name: &str| format!("{}[\"{name}\"]", field.path);
        entries.map(|(name, value)| (name.as_str(), Self { value, path: place(name) })).collect()
    }

    /// A field that is an object, if it is there and is one.
    pub(crate) fn object(&self, key: &str, faults: &mut Vec<Fault>) -> Option<Self> {
        self.field(key).filter(|field| field.is_object(faults))
    }

    /// A duration as protobuf writes it in JSON: seconds, `600s` or `0.5s`.
    pub(crate) fn duration(&self, key: &str, faults: &mut Vec<Fault>) -> Option<Duration> {
        let text = self.text(key, faults)?;
        let duration = seconds(text);
        if duration.is_none() {
            let problem = format!("`{text}` is no duration such as `600s` or `0.5s`");
            faults.push(Fault::new(format!("{}.{key}", self.path), problem));
        }
        duration
    }

    /// Whether this is an object, which is a fault otherwise.
    pub(crate) fn is_object(&self, faults: &mut Vec<Fault>) -> bool {
        self.expect(self.value.as_object(), "an object", faults).is_some()
    }

    /// The text this is, if it is one.
    pub(crate) fn as_text(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    /// All of it.
    pub(crate) fn value(&self) -> CoreValue {
        convert(self.value)
    }

    /// Says what is wrong here, or with the field below.
    pub(crate) fn fault(&self, key: &str, problem: impl Into<String>) -> Fault {
        let dot = if self.path.is_empty() || key.is_empty() { "" } else { "." };
        Fault::new(format!("{}{dot}{key}", self.path), problem)
    }

    fn expect<T>(&self, found: Option<T>, expected: &str, faults: &mut Vec<Fault>) -> Option<T> {
        if found.is_none() {
            let is = match self.value {
                Value::Null => "null",
                Value::Bool(_) => "a boolean",
                Value::Number(_) => "a number",
                Value::String(_) => "a string",
                Value::Array(_) => "a list",
                Value::Object(_) => "an object",
            };
            faults.push(self.fault("", format!("is {is}; {expected} is expected")));
        }
        found
    }
}

fn convert(value: &Value) -> CoreValue {
    match value {
        Value::Null => CoreValue::Null,
        Value::Bool(value) => CoreValue::Bool(*value),
        // As in protobuf's `Struct`, every number is a double.
        Value::Number(number) => CoreValue::Number(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => CoreValue::Text(text.clone()),
        Value::Array(items) => CoreValue::List(items.iter().map(convert).collect()),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), convert(value)));
            CoreValue::Map(fields.collect())
        }
    }
}

fn seconds(text: &str) -> Option<Duration> {
    let number = text.strip_suffix('s')?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 9 {
        return None;
    }
    let nanos = format!("{part:0<9}").parse().ok()?;
    Some(Duration::new(whole.parse().ok()?, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_protobuf_does() {
        assert_eq!(seconds("600s"), Some(Duration::from_secs(600)));
        assert_eq!(seconds("0.5s"), Some(Duration::from_millis(500)));
        assert_eq!(seconds("1.000000001s"), Some(Duration::new(1, 1)));
        for wrong in ["", "s", "600", "-1s", "+1s", ".5s", "1.s", "1.0000000001s", "1m", "1e3s"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
        assert_eq!(seconds(&format!("{}s", "9".repeat(30))), None);
    }
}
