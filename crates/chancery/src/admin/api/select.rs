//! The keys of an answer that are asked for (`fields=id,group`).

use chancery_core::printable::{MAX_NAME_BYTES, PrintForm, cut, printable};
use chancery_proto::syntax::closest;
use serde::Serialize;
use serde_json::Value;

use super::endpoint::Endpoint;
use super::error::ApiError;
use super::openapi;
use super::parameter::Asked;

/// The keys that are wanted of each row, or of the answer if it has no rows.
#[derive(Debug, Default)]
pub(super) struct Selection {
    rows: Option<&'static str>,
    /// None if all are wanted.
    keys: Option<Vec<String>>,
}

impl Selection {
    /// Those that a request asks for.
    pub(super) fn of(endpoint: &Endpoint, asked: &Asked) -> Result<Self, ApiError> {
        let Some(text) = asked.text("fields") else { return Ok(Self::default()) };
        let known = openapi::fields(endpoint);
        let keys: Vec<_> = text.split(',').map(str::to_owned).collect();
        if let Some(odd) = keys.iter().find(|key| !known.contains(key)) {
            let shown = printable(&cut(odd, MAX_NAME_BYTES), PrintForm::Line).into_owned();
            let error = ApiError::parameter(format!("`fields` has no `{shown}`"));
            return Err(match closest(odd, known.iter().map(String::as_str)) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint(format!("there are {}", known.join(", "))),
            });
        }
        Ok(Self { rows: endpoint.rows, keys: Some(keys) })
    }

    /// The keys that are wanted, if not all are.
    pub(super) fn keys(&self) -> Option<&[String]> {
        self.keys.as_deref()
    }

    /// The JSON of a document, with these keys alone.
    pub(super) fn text(&self, document: &impl Serialize) -> String {
        let Some(keys) = &self.keys else {
            return serde_json::to_string_pretty(document).unwrap_or_default();
        };
        let mut value = serde_json::to_value(document).unwrap_or_default();
        let keep = |row: &mut Value| {
            if let Some(row) = row.as_object_mut() {
                row.retain(|key, _| keys.contains(key));
            }
        };
        match self.rows {
            None => keep(&mut value),
            Some(rows) => {
                value[rows].as_array_mut().into_iter().flatten().for_each(keep);
            }
        }
        serde_json::to_string_pretty(&value).unwrap_or_default()
    }
}
