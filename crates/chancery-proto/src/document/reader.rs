//! The state of reading one text as messages: the path so far, the depth, and the faults.
//!
//! The rest of the reader is in methods of the same type, which call each other: [`super::message`]
//! reads fields and values, [`super::typed`] what an `Any` contains, [`super::well_known`] the
//! messages that JSON writes in a form of their own.

use std::cell::OnceCell;

use super::dialect::Dialect;
use super::scalar::Mismatch;
use crate::schema::Schema;
use crate::sensitive::may_hold_secrets;
use crate::syntax::{
    Fault, FaultList, FieldPath, FoundValue, MapEntry, Position, TreeNode, TreeValue,
};

/// The codes of faults.
const WRONG_VALUE: &str = "wrong-value";
const WRONG_MESSAGE: &str = "wrong-message";
pub(super) const UNKNOWN_FIELD: &str = "unknown-field";
pub(super) const UNKNOWN_TYPE: &str = "unknown-type";

/// The reader of the trees of one text.
pub(super) struct MessageReader<'s, 'n> {
    pub(super) schema: &'s Schema,
    pub(super) dialect: Dialect,
    text: &'s str,
    confidential: OnceCell<bool>,
    /// The number of messages around the current one. An `Any` starts again at zero.
    pub(super) depth: usize,
    pub(super) path: FieldPath<'n>,
    pub(super) faults: FaultList,
}

impl<'s, 'n> MessageReader<'s, 'n> {
    pub(super) fn new(schema: &'s Schema, dialect: Dialect, text: &'s str) -> Self {
        Self {
            schema,
            dialect,
            text,
            confidential: OnceCell::new(),
            depth: 0,
            path: FieldPath::default(),
            faults: FaultList::default(),
        }
    }

    pub(super) fn mapping<'e>(
        &mut self,
        node: &'n TreeNode<'e>,
        expected: &str,
    ) -> Option<&'n [MapEntry<'e>]> {
        let entries = node.entries();
        entries.or_else(|| self.mismatch(node, Mismatch::Expected(expected.to_owned())))
    }

    /// Records that a value does not fit, with a description of the value.
    pub(super) fn mismatch<T>(&mut self, node: &TreeNode<'_>, mismatch: Mismatch) -> Option<T> {
        let confidential = self.confidential();
        self.fault_of(WRONG_VALUE, node.position(), || {
            let found = FoundValue { node, confidential };
            match mismatch {
                Mismatch::Expected(expected) => {
                    let hint = quoting_hint(&expected, node, confidential);
                    (format!("expected {expected}, found {found}"), hint)
                }
                Mismatch::Invalid(wrong, hint) if confidential => (wrong, hint),
                Mismatch::Invalid(wrong, hint) => (format!("{wrong}, found {found}"), hint),
            }
        });
        None
    }

    /// Records a fault of the field at the current path: its message and its hint, which are made
    /// only for a fault that is kept.
    pub(super) fn fault(
        &mut self,
        position: Position,
        describe: impl FnOnce() -> (String, Option<String>),
    ) {
        self.fault_of(WRONG_MESSAGE, position, describe);
    }

    /// Records a fault of another kind.
    pub(super) fn fault_of(
        &mut self,
        code: &'static str,
        position: Position,
        describe: impl FnOnce() -> (String, Option<String>),
    ) {
        let confidential = self.confidential();
        let path = &self.path;
        self.faults.push(|| {
            let (message, hint) = describe();
            let path = path.text();
            Fault { code, position: Some(position), path, message, hint, confidential }
        });
    }

    /// Records a fault at another path.
    pub(super) fn fault_at(
        &mut self,
        code: &'static str,
        position: Position,
        path: String,
        (message, hint): (String, Option<String>),
    ) {
        let confidential = self.confidential();
        self.faults.push(|| Fault {
            code,
            position: Some(position),
            path,
            message,
            hint,
            confidential,
        });
    }

    /// Keeps all content of the text out of the faults from now on.
    pub(super) fn mark_confidential(&mut self) {
        self.confidential = OnceCell::from(true);
    }

    /// Returns true if the faults must show nothing of the text.
    pub(super) fn confidential(&self) -> bool {
        *self.confidential.get_or_init(|| may_hold_secrets(self.schema, self.text))
    }
}

/// The hint to quote a text that YAML reads as a number or boolean.
fn quoting_hint(expected: &str, node: &TreeNode<'_>, confidential: bool) -> Option<String> {
    let written = match node.value() {
        TreeValue::Number(text) => text,
        TreeValue::Bool(true) => "true",
        TreeValue::Bool(false) => "false",
        _ => return None,
    };
    (expected == "a text" && !confidential).then(|| format!("put it in quotes: `\"{written}\"`"))
}
