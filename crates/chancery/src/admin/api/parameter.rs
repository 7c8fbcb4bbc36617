//! The parameters of an endpoint, and those of one request: `key=value&…`, with percent signs for whatever
//! is not plain.
//!
//! All that a request may say is in the table of endpoints. Whatever else it says is refused with the key.

use std::collections::BTreeMap;

use chancery_core::percent;
use chancery_core::printable::{MAX_NAME_BYTES, PrintForm, cut, printable};
use chancery_proto::syntax::closest;
use serde_json::{Value, json};

use super::error::ApiError;

/// A parameter of an endpoint.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) kind: Kind,
    /// True if it may be given several times.
    pub(super) many: bool,
}

/// The values that a parameter takes.
#[derive(Debug)]
pub(super) enum Kind {
    /// Any text.
    Text,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A number, and the one that counts if none is given.
    Number { least: u64, most: u64, usual: u64 },
}

/// The parameters of one request. Each was checked.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked(BTreeMap<&'static str, Vec<String>>);

impl Parameter {
    pub(super) const fn text(name: &'static str, about: &'static str) -> Self {
        Self { name, about, kind: Kind::Text, many: false }
    }

    pub(super) const fn words(
        name: &'static str,
        about: &'static str,
        words: &'static [&'static str],
    ) -> Self {
        Self { name, about, kind: Kind::Words(words), many: false }
    }

    pub(super) const fn number(
        name: &'static str,
        about: &'static str,
        [least, most, usual]: [u64; 3],
    ) -> Self {
        Self { name, about, kind: Kind::Number { least, most, usual }, many: false }
    }

    /// The description of its values.
    pub(super) fn schema(&self) -> Value {
        let one = match self.kind {
            Kind::Text => json!({"type": "string"}),
            Kind::Words(words) => json!({"type": "string", "enum": words}),
            Kind::Number { least, most, usual } => {
                json!({"type": "integer", "minimum": least, "maximum": most, "default": usual})
            }
        };
        if self.many { json!({"type": "array", "items": one}) } else { one }
    }

    fn check(&self, value: &str) -> Result<(), ApiError> {
        let expected = match self.kind {
            Kind::Text => return Ok(()),
            Kind::Words(words) if words.contains(&value) => return Ok(()),
            Kind::Words(words) => format!("one of {}", words.join(", ")),
            Kind::Number { least, most, .. } => match value.parse::<u64>() {
                Ok(number) if (least..=most).contains(&number) => return Ok(()),
                _ => format!("a number from {least} to {most}"),
            },
        };
        let (name, value) = (self.name, shown(value));
        Err(ApiError::parameter(format!("`{name}` is `{value}`, and has to be {expected}")))
    }
}

impl Asked {
    /// Reads the query of a request, beside what its path says.
    pub(super) fn read(
        parameters: &[&'static Parameter],
        in_path: Vec<(&'static str, String)>,
        query: &str,
    ) -> Result<Self, ApiError> {
        let mut asked = Self::default();
        for (name, value) in in_path {
            asked.0.insert(name, vec![value]);
        }
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let Some(parameter) = parameters.iter().find(|parameter| parameter.name == key) else {
                return Err(unknown(key, parameters));
            };
            let value = percent::decode(value)
                .map_err(|error| ApiError::parameter(format!("the value of `{key}`: {error}")))?;
            parameter.check(&value)?;
            let values = asked.0.entry(parameter.name).or_default();
            if !values.is_empty() && !parameter.many {
                return Err(ApiError::parameter(format!("`{key}` is given twice")));
            }
            values.push(value);
        }
        Ok(asked)
    }

    /// The text of a parameter, if it was given.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.first().map(String::as_str)
    }

    /// The texts of a parameter that may be given several times.
    pub(crate) fn texts(&self, name: &str) -> &[String] {
        self.0.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// The number of a parameter, or the usual one.
    pub(super) fn number(&self, parameter: &Parameter) -> u64 {
        let Kind::Number { usual, .. } = parameter.kind else { return 0 };
        self.text(parameter.name).and_then(|text| text.parse().ok()).unwrap_or(usual)
    }
}

fn unknown(key: &str, parameters: &[&'static Parameter]) -> ApiError {
    let names = || parameters.iter().map(|parameter| parameter.name);
    let error = ApiError::parameter(format!("there is no parameter `{}`", shown(key)));
    match closest(key, names()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None if parameters.is_empty() => error.hint("this path has none"),
        None => error.hint(format!("there are {}", names().collect::<Vec<_>>().join(", "))),
    }
}

fn shown(text: &str) -> String {
    printable(&cut(text, MAX_NAME_BYTES), PrintForm::Line).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    static GROUP: Parameter = Parameter::text("group", "");
    static LIMIT: Parameter = Parameter::number("limit", "", [1, 1000, 100]);
    static BY: Parameter = Parameter::words("by", "", &["cluster", "node"]);
    static MANY: Parameter = Parameter { many: true, ..Parameter::text("many", "") };

    fn read(query: &str) -> Result<Asked, String> {
        let parameters = [&GROUP, &LIMIT, &BY, &MANY];
        Asked::read(&parameters, Vec::new(), query).map_err(|error| error.to_string())
    }

    #[test]
    fn a_query_says_what_the_table_has_and_nothing_else() {
        let asked = read("group=a%20b&&limit=7&many=x&many=").unwrap();
        assert_eq!((asked.text("group"), asked.number(&LIMIT)), (Some("a b"), 7));
        assert_eq!(
            (asked.texts("many"), asked.text("by")),
            (&["x".into(), String::new()][..], None)
        );
        assert_eq!(read("").unwrap().number(&LIMIT), 100);
        for (query, told) in [
            ("limit=0", "`limit` is `0`, and has to be a number from 1 to 1000"),
            ("limit=1001", "a number from 1 to 1000"),
            ("limit=-1", "a number from 1 to 1000"),
            ("limit", "`limit` is ``"),
            ("by=all", "one of cluster, node"),
            ("group=a&group=a", "`group` is given twice"),
            ("node=a", "there is no parameter `node`"),
            ("group=%", "the value of `group`: a `%`"),
            ("\u{1b}=a", "there is no parameter `\\u{1b}`"),
        ] {
            let found = read(query).unwrap_err();
            assert!(found.contains(told), "{query}: {found}");
        }
    }
}
