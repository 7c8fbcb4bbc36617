//! The fields of one message of options, each read by its name.

use prost_reflect::{DynamicMessage, Value};

use super::formats::Format;
use super::lengths::Lengths;
use super::limits::{Bound, Limits};
use super::name::LimitNames;

/// The fields of one message of options. It keeps track of those that were read.
pub(super) struct Fields<'a> {
    pub(super) rules: &'a DynamicMessage,
    pub(super) read: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub(super) fn of(rules: &'a DynamicMessage) -> Self {
        Self { rules, read: Vec::new() }
    }

    /// The value of an option that is set.
    pub(super) fn value(&mut self, name: &'static str) -> Option<Value> {
        self.read.push(name);
        let is_set = self.rules.has_field_by_name(name);
        is_set.then(|| self.rules.get_field_by_name(name)).flatten().map(|value| value.into_owned())
    }

    pub(super) fn flag(&mut self, name: &'static str) -> bool {
        self.value(name).and_then(|value| value.as_bool()) == Some(true)
    }

    pub(super) fn message(&mut self, name: &'static str) -> Option<DynamicMessage> {
        self.value(name)?.as_message().cloned()
    }

    pub(super) fn text(&mut self, name: &'static str) -> Option<String> {
        self.texts(name).pop()
    }

    pub(super) fn texts(&mut self, name: &'static str) -> Vec<String> {
        self.list(name, |value| value.as_str().map(str::to_owned))
    }

    pub(super) fn bytes(&mut self, name: &'static str) -> Vec<Vec<u8>> {
        self.list(name, |value| value.as_bytes().map(|bytes| bytes.to_vec()))
    }

    pub(super) fn list<T>(
        &mut self,
        name: &'static str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Vec<T> {
        match self.value(name) {
            Some(Value::List(values)) => values.iter().filter_map(read).collect(),
            Some(value) => read(&value).into_iter().collect(),
            None => Vec::new(),
        }
    }

    pub(super) fn lengths(
        &mut self,
        exact: &'static str,
        least: &'static str,
        most: &'static str,
    ) -> Lengths {
        let mut length = |name| self.value(name).and_then(|value| value.as_u64());
        Lengths {
            exact: if exact.is_empty() { None } else { length(exact) },
            least: length(least),
            most: length(most),
        }
    }

    pub(super) fn format(&mut self, formats: &[(&'static str, Format)]) -> Option<Format> {
        let mut found = None;
        for (name, format) in formats {
            if self.flag(name) {
                found = Some(*format);
            }
        }
        found
    }

    pub(super) fn limits<T: Copy + Default + PartialOrd>(
        &mut self,
        names: &'static LimitNames,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Limits<T> {
        let mut one = |name| self.list(name, &read).pop();
        let (gt, gte, lt, lte) = (one("gt"), one("gte"), one("lt"), one("lte"));
        let constant = one("const");
        let end = |exclusive: Option<T>, inclusive: Option<T>| {
            let exclusive = exclusive.map(|at| Bound { at, inclusive: false });
            exclusive.or_else(|| inclusive.map(|at| Bound { at, inclusive: true }))
        };
        Limits {
            constant,
            lower: end(gt, gte),
            upper: end(lt, lte),
            one_of: self.list("in", &read),
            none_of: self.list("not_in", &read),
            ignore_empty: self.flag("ignore_empty"),
            names,
        }
    }
}
