//! One finding, in the forms in which people and programs read it.

use chancery_core::printable::Printable;
use chancery_proto::document::Position;
use chancery_sources::{Fault, Warning};
use serde::Serialize;

use super::codes::Severity;
use crate::finding::Finding as ConfigFinding;

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub(super) struct Finding {
    pub(super) code: &'static str,
    pub(super) severity: Severity,
    /// The path of the file, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<String>,
    /// The number of the line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u32>,
    /// The number of the character in the line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) column: Option<u32>,
    /// The path of the field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) field: String,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
    /// The type of the resource in its short form, as in `cds`, and its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resource_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resource_name: Option<String>,
    /// The line at which its resource begins, if it is at a field of that.
    #[serde(skip)]
    pub(super) resource_line: Option<u32>,
    /// The lines for people after the first word, if the finding was written with the text of its
    /// line.
    #[serde(skip)]
    excerpt: Option<String>,
}

impl Finding {
    /// A finding about no file.
    pub(super) fn warning(code: &'static str, message: String) -> Self {
        Self {
            code,
            severity: Severity::Warning,
            file: None,
            line: None,
            column: None,
            field: String::new(),
            message,
            hint: None,
            resource_type: None,
            resource_name: None,
            resource_line: None,
            excerpt: None,
        }
    }

    /// Moves a finding at a resource to a field of it, with the text that the renderer of faults wrote.
    pub(super) fn set_place(&mut self, position: Position, rendered: &str) {
        self.resource_line = self.line;
        (self.line, self.column) = (Some(position.line), Some(position.column));
        self.excerpt = Self::excerpt(rendered);
    }

    /// The order of findings: by file and place, and at last those about no file.
    pub(super) fn order(&self) -> impl Ord {
        (self.file.is_none(), self.file.as_deref(), self.line, self.column)
    }

    /// The finding with its code, the text of its line if it may be shown, and its hint. It ends with
    /// a line feed.
    pub(super) fn rendered(&self) -> String {
        let word = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let excerpt = self.excerpt.clone().unwrap_or_else(|| self.without_excerpt());
        format!("{word}[{}]{excerpt}", self.code)
    }

    fn without_excerpt(&self) -> String {
        let field = match self.field.as_str() {
            "" => String::new(),
            field => format!("{}: ", Printable(field)),
        };
        let mut text = format!(": {field}{}\n", Printable(&self.message));
        if let Some(file) = &self.file {
            let numbers = [self.line, self.column].into_iter().flatten();
            let place: String = numbers.map(|number| format!(":{number}")).collect();
            text += &format!(" --> {}{place}\n", Printable(file));
        }
        if let Some(hint) = &self.hint {
            text += &format!("help: {}\n", Printable(hint));
        }
        text
    }

    /// The rest of a text that the renderer of faults wrote.
    fn excerpt(rendered: &str) -> Option<String> {
        rendered.strip_prefix("error").map(str::to_owned)
    }
}

impl From<&Fault> for Finding {
    fn from(fault: &Fault) -> Self {
        let resource = fault.resource.as_ref();
        Self {
            severity: Severity::Error,
            file: Some(fault.file.display().to_string()),
            line: fault.position.map(|at| at.line),
            column: fault.position.map(|at| at.column),
            field: fault.path.clone(),
            hint: fault.hint.clone(),
            resource_type: resource.map(|resource| resource.type_url.short().to_owned()),
            resource_name: resource.map(|resource| resource.name.to_string()),
            excerpt: Self::excerpt(&fault.render()),
            ..Self::warning(fault.code, fault.message.clone())
        }
    }
}

impl From<&Warning> for Finding {
    fn from(warning: &Warning) -> Self {
        let resource = warning.resource.as_ref();
        Self {
            file: warning.file.as_ref().map(|file| file.display().to_string()),
            line: warning.line,
            column: warning.column,
            resource_type: resource.map(|(type_url, _)| type_url.short().to_owned()),
            resource_name: resource.map(|(_, name)| name.to_string()),
            ..Self::warning(warning.code, warning.message.clone())
        }
    }
}

/// A fault of `chancery.yaml`.
impl From<&ConfigFinding> for Finding {
    fn from(fault: &ConfigFinding) -> Self {
        Self {
            severity: Severity::Error,
            file: Some(fault.file().to_owned()),
            line: fault.line(),
            column: fault.column(),
            field: fault.field().to_owned(),
            hint: fault.hint().map(str::to_owned),
            excerpt: Self::excerpt(fault.rendered()),
            ..Self::warning("config", fault.message().to_owned())
        }
    }
}
