//! One fault of a file, in the forms in which people and programs read it.
//!
//! The text of the faulty line is printed on the terminal only, and not if it may hold a secret. Log
//! lines and the admin interface never have it (S-138).

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use chancery_core::printable::Printable;
use chancery_proto::{document, syntax};
use chancery_sources::Fault;
use serde::Serialize;
use serde_json::Value;

use crate::admin::{Described, Types};

/// One fault of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Finding {
    /// The path of the file.
    file: String,
    /// The number of the line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    /// The number of the character in the line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
    /// The path of the field.
    #[serde(skip_serializing_if = "String::is_empty")]
    field: String,
    /// The description of the fault.
    message: String,
    /// A hint on how to repair it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// The whole finding for people, with the text of the line.
    #[serde(skip)]
    rendered: String,
}

impl Described for Finding {
    fn schema(types: &mut Types) -> Value {
        types.object("Finding", "A fault of a file.", |it, types| {
            let [text, number] = [String::schema(types), u32::schema(types)];
            it.property("file", "The path of the file.", true, text.clone());
            it.property("line", "The number of the line, from 1.", false, number.clone());
            it.property("column", "The number of the character, from 1.", false, number);
            it.property("field", "The path of the field.", false, text.clone());
            it.property("message", "The description of the fault.", true, text.clone());
            it.property("hint", "A hint on how to repair it.", false, text);
        })
    }
}

impl Finding {
    /// A fault of a file of configuration with this text.
    pub(crate) fn of_config(path: &Path, fault: &syntax::Fault, text: &str) -> Self {
        let file = path.display().to_string();
        Self {
            line: fault.position.map(|at| at.line),
            column: fault.position.map(|at| at.column),
            field: fault.path.clone(),
            message: fault.message.clone(),
            hint: fault.hint.clone(),
            rendered: document::render(fault, &file, Some(text)),
            file,
        }
    }

    /// A fault of a whole file.
    pub(crate) fn of_file(path: &Path, message: String) -> Self {
        Self::of_config(path, &syntax::Fault::new(message), "")
    }

    /// The path of the file.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// The number of the line, from 1.
    pub(crate) fn line(&self) -> Option<u32> {
        self.line
    }

    /// The number of the character in the line, from 1.
    pub(crate) fn column(&self) -> Option<u32> {
        self.column
    }

    /// The path of the field.
    pub(crate) fn field(&self) -> &str {
        &self.field
    }

    /// The description of the fault.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The hint on how to repair it, if there is one.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The finding with its hint and, if it may be shown, the text of its line. It ends with a line
    /// feed.
    pub(crate) fn rendered(&self) -> &str {
        &self.rendered
    }
}

impl From<&Fault> for Finding {
    fn from(fault: &Fault) -> Self {
        Self {
            file: fault.file.display().to_string(),
            line: fault.position.map(|at| at.line),
            column: fault.position.map(|at| at.column),
            field: fault.path.clone(),
            message: fault.message.clone(),
            hint: fault.hint.clone(),
            rendered: fault.render(),
        }
    }
}

/// `FILE:LINE:COLUMN: FIELD: MESSAGE`; a part that is not known is left out.
impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Printable(&self.file))?;
        for number in [self.line, self.column].into_iter().flatten() {
            write!(f, ":{number}")?;
        }
        f.write_str(": ")?;
        if !self.field.is_empty() {
            write!(f, "{}: ", Printable(&self.field))?;
        }
        write!(f, "{}", Printable(&self.message))
    }
}

#[cfg(test)]
mod tests {
    use chancery_proto::syntax::Position;

    use super::*;

    #[test]
    fn a_log_line_has_the_place_and_not_the_text() {
        // S-138
        let fault = syntax::Fault::new("unknown key `b`").under("a.b").hint("did you mean `c`?");
        let fault = fault.at(Position { line: 2, column: 3 });
        let finding = Finding::of_config(Path::new("chancery.yaml"), &fault, "a:\n  b: key\n");
        assert_eq!(finding.to_string(), "chancery.yaml:2:3: a.b: unknown key `b`");
        assert!(!serde_json::to_string(&finding).unwrap().contains("b: key"));
        assert!(finding.rendered().contains("b: key"));
    }

    #[test]
    fn a_whole_file_can_be_at_fault() {
        let finding = Finding::of_file(Path::new("chancery.yaml"), "cannot be read".to_owned());
        assert_eq!(finding.to_string(), "chancery.yaml: cannot be read");
    }
}
