//! The fields that are filled with what the node states, and what that is.
//!
//! Whoever asks gave the values by flags, or may ask the server for them. Not here: which values fit
//! (`chancery_catalog`).

use chancery_catalog::{Audience, Catalog, FilledValue};
use chancery_core::Node;
use chancery_core::printable::cut;
use chancery_proto::sensitive::is_secret_text;
use chancery_proto::values::{StatedValue, Variable};
use serde_json::{Value, json};

use super::output::place;
use crate::ask::plain;

/// The fields that are filled for a node.
#[derive(Default)]
pub(super) struct ValuesStory {
    fields: Vec<(FilledValue, Vec<(Variable, String)>)>,
    /// The reason for which the node is refused, if it is because of them.
    pub(super) refused: Option<String>,
}

impl ValuesStory {
    /// The story of a node of an audience.
    pub(super) fn of(catalog: &Catalog, audience: &Audience, node: &Node) -> Self {
        let fields = catalog.filled_values(audience).into_iter().map(|field| {
            let variables = field.value.variables.iter();
            let stated = variables.map(|variable| (variable.clone(), stated(variable, node)));
            let stated = stated.collect();
            (field, stated)
        });
        let found = catalog.audience_of(audience.group.as_deref(), Some(node));
        let refused = found.err().map(|unstated| unstated.to_string());
        Self { fields: fields.collect(), refused }
    }

    /// The lines for people; none, if there are no such fields.
    pub(super) fn text(&self) -> String {
        let lines = self.fields.iter().map(|(FilledValue { key, value, origin }, stated)| {
            let (short, name) = (plain(key.type_url.short()), plain(key.name.as_str()));
            let (path, template) = (plain(&value.path), plain(&value.template));
            let origin = origin.to_string();
            let mut text = format!("  {short} {name} {path}: {template}  {}\n", plain(&origin));
            for (variable, value) in stated {
                text += &format!("    {variable}: {}\n", plain(value));
            }
            text
        });
        let lines: String = lines.collect();
        match lines.is_empty() {
            true => lines,
            false => format!("values of the node:\n{lines}"),
        }
    }

    /// The rows for programs.
    pub(super) fn rows(&self) -> Vec<Value> {
        let row = |(FilledValue { key, value, origin }, stated): &(FilledValue, Vec<_>)| {
            let stated = stated.iter().map(|(variable, value): &(Variable, String)| {
                (variable.to_string(), Value::from(value.as_str()))
            });
            json!({
                "type": key.type_url.as_str(),
                "name": key.name.as_str(),
                "path": value.path,
                "template": value.template,
                "origin": place(origin),
                "values": stated.collect::<serde_json::Map<_, _>>(),
            })
        };
        self.fields.iter().map(row).collect()
    }
}

/// The value that a node states, in words.
fn stated(variable: &Variable, node: &Node) -> String {
    let name = variable.to_string();
    match variable.of_node(node) {
        Ok(StatedValue::Text(text)) if is_secret_text(&name, &text) => "(hidden)".to_owned(),
        Ok(value) => cut(&value.text(), LONGEST_VALUE).into_owned(),
        Err(why) => why.to_string(),
    }
}

/// The bytes of a value that are shown.
const LONGEST_VALUE: usize = 256;
