//! JSON with paths: a value of another type than the expected one is a fault that says where it is.
//!
//! Only fields that are asked for are read, so unknown ones do no harm at any depth (C-004). `null`
//! is the same as a field that is missing.

use std::time::Duration;

use chancery_core::Value as CoreValue;
use serde_json::Value;

use super::Fault;

/// A value, and its path.
pub(crate) struct JsonField<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> JsonField<'a> {
    /// Returns the whole document.
    pub(crate) fn root(value: &'a Value) -> Self {
        Self { value, path: String::new() }
    }

    /// Returns a field of an object, if it is there.
    pub(crate) fn field(&self, key: &str) -> Option<Self> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        let dot = if self.path.is_empty() { "" } else { "." };
        Some(Self { value, path: format!("{}{dot}{key}", self.path) })
    }

    /// Returns the text of a field; `None` if it is missing or no text.
    pub(crate) fn text(&self, key: &str, faults: &mut Vec<Fault>) -> Option<&'a str> {
        let field = self.field(key)?;
        field.expect(field.value.as_str(), "a string", faults)
    }

    /// Returns the text of a field. An empty one is a fault, and gives `None` too.
    pub(crate) fn filled_text(&self, key: &str, faults: &mut Vec<Fault>) -> Option<&'a str> {
        let text = self.text(key, faults)?;
        if text.is_empty() {
            faults.push(Fault::new(format!("{}.{key}", self.path), "is empty"));
        }
        Some(text).filter(|text| !text.is_empty())
    }

    /// Returns true if a field is `true`.
    pub(crate) fn switch(&self, key: &str, faults: &mut Vec<Fault>) -> bool {
        let field = self.field(key);
        field.and_then(|it| it.expect(it.value.as_bool(), "`true` or `false`", faults))
            == Some(true)
    }

    /// Returns the items of a list; none if it is missing.
    pub(crate) fn list(&self, key: &str, faults: &mut Vec<Fault>) -> Vec<Self> {
        let Some(field) = self.field(key) else { return Vec::new() };
        let items = field.expect(field.value.as_array(), "a list", faults);
        let items = items.into_iter().flatten().enumerate();
        items.map(|(at, value)| Self { value, path: format!("{}[{at}]", field.path) }).collect()
    }

    /// Returns the entries of an object whose keys are names; none if it is missing.
    pub(crate) fn entries(&self, key: &str, faults: &mut Vec<Fault>) -> Vec<(&'a str, Self)> {
        let Some(field) = self.field(key) else { return Vec::new() };
        let entries = field.expect(field.value.as_object(), "an object", faults);
        let entries = entries.into_iter().flatten();
        let place = |name: &str| format!("{}[\"{name}\"]", field.path);
        entries.map(|(name, value)| (name.as_str(), Self { value, path: place(name) })).collect()
    }

    /// Returns a field that is an object, if it is there and is one.
    pub(crate) fn object(&self, key: &str, faults: &mut Vec<Fault>) -> Option<Self> {
        self.field(key).filter(|field| field.is_object(faults))
    }

    /// Returns a duration as protobuf writes it in JSON: seconds, `600s` or `0.5s`.
    pub(crate) fn duration(&self, key: &str, faults: &mut Vec<Fault>) -> Option<Duration> {
        let text = self.text(key, faults)?;
        let duration = seconds(text);
        if duration.is_none() {
            let problem = format!("`{text}` is no duration such as `600s` or `0.5s`");
            faults.push(Fault::new(format!("{}.{key}", self.path), problem));
        }
        duration
    }

    /// Returns true if this is an object. Anything else is a fault.
    pub(crate) fn is_object(&self, faults: &mut Vec<Fault>) -> bool {
        self.expect(self.value.as_object(), "an object", faults).is_some()
    }

    /// Returns the text, if this is one.
    pub(crate) fn as_text(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    /// Returns the value as one of the core.
    pub(crate) fn value(&self) -> CoreValue {
        convert(self.value)
    }

    /// Makes a fault of this value, or of the field below it.
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
