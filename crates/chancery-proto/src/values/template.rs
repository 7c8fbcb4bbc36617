//! Templates: a text with placeholders, as `ingress-${node.id}`.
//!
//! Not here: the parts of a node that a placeholder names (`variable`).

use std::fmt;

use super::variable::{Stated, StatedValue, Variable};
use crate::syntax::{Short, closest};

/// A text with one placeholder at least.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Part {
    Text(String),
    Variable(Variable),
}

/// A fault of a template: a sentence, and a hint if there is one.
pub(crate) type TemplateFault = (String, Option<String>);

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Self, TemplateFault> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once("${") {
            let Some((word, behind)) = after.split_once('}') else {
                return Err(("`${` has no `}`".to_owned(), None));
            };
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Variable(Variable::parse(word).ok_or_else(|| unknown(word))?));
            rest = behind;
        }
        if parts.is_empty() {
            let hint = "write a value that is the same for all nodes into the resource itself";
            return Err(("the value has no `${node.…}`".to_owned(), Some(hint.to_owned())));
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        match parts.len() > MOST_PARTS || text.len() > MAX_BYTES {
            true => Err((format!("the value has more than {MAX_BYTES} bytes"), None)),
            false => Ok(Self(parts)),
        }
    }

    /// The variables in it.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.0.iter().filter_map(|part| match part {
            Part::Variable(variable) => Some(variable),
            Part::Text(_) => None,
        })
    }

    /// The variable, if there is nothing else.
    pub(crate) fn only(&self) -> Option<&Variable> {
        match &self.0[..] {
            [Part::Variable(variable)] => Some(variable),
            _ => None,
        }
    }

    /// The value with what a node states; the variable that it does not, if there is one.
    pub(crate) fn fill(&self, stated: &Stated) -> Result<StatedValue, &Variable> {
        if let Some(variable) = self.only() {
            return stated.get(variable).cloned().ok_or(variable);
        }
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(written) => text.push_str(written),
                Part::Variable(variable) => {
                    text.push_str(&stated.get(variable).ok_or(variable)?.text());
                }
            }
        }
        Ok(StatedValue::Text(text.into()))
    }
}

fn unknown(word: &str) -> TemplateFault {
    let message = format!("`${{{}}}` is no value of a node", Short(word));
    let hint = match closest(word, Variable::words()) {
        Some(near) => format!("did you mean `${{{near}}}`?"),
        None => "write `${node.id}`, `${node.cluster}`, `${node.locality.zone}` or \
                 `${node.metadata.KEY}`"
            .to_owned(),
    };
    (message, Some(hint))
}

/// As it is written.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            Part::Text(text) => f.write_str(text),
            Part::Variable(Variable::Metadata(keys)) => {
                write!(f, "${{node.metadata.{}}}", keys.join("."))
            }
            Part::Variable(variable) => write!(f, "${{{variable}}}"),
        })
    }
}

/// The bytes of a template.
const MAX_BYTES: usize = 4096;

/// The pieces of a template.
const MOST_PARTS: usize = 64;
