//! Nested values: the common part of the readers of JSON and of protobuf text.
//!
//! Both read nested brackets up to [`MAX_DEPTH`] and lists with commas, and report unexpected
//! characters in the same way. The reader of YAML does not use this, because its parser handles
//! nesting.

use super::Fault;
use super::cursor::Cursor;
use super::path::{FieldPath, PathStep};
use super::tree::{MAX_DEPTH, TreeNode, TreeValue, too_deep};
use super::tree_size::{TooLarge, TreeSize, VALUE, too_large};

/// The result of reading a part of a text. A fault ends the reading of the whole text.
pub(super) type ReadResult<T> = Result<T, Box<Fault>>;

/// The state of a reader: its place in the text, the depth of brackets, and the path of fields.
pub(super) struct ReaderState<'a> {
    pub(super) cursor: Cursor<'a>,
    pub(super) path: FieldPath<'a>,
    depth: usize,
    size: TreeSize,
}

impl<'a> ReaderState<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let (cursor, size) = (Cursor::new(text), TreeSize::of(text));
        Self { cursor, path: FieldPath::default(), depth: 0, size }
    }

    /// Takes note of a value that is put into a collection.
    pub(super) fn grow(&mut self, size: usize) -> ReadResult<()> {
        let grown = self.size.add(size);
        grown.map_err(|TooLarge| Box::new(too_large(self.cursor.position())))
    }

    /// A fault at the next byte, with the path that leads there.
    pub(super) fn fault(&mut self, message: impl Into<String>) -> Box<Fault> {
        Box::new(Fault::new(message).at(self.cursor.position()).under(self.path.text()))
    }
}

/// A reader of a text whose values nest in brackets.
pub(super) trait NestedReader<'a>: Sized {
    /// The beginning of the message when something else was expected.
    const INVALID: &'static str;
    /// The beginning of the message when the text ends too early.
    const ENDS: &'static str;

    fn state(&mut self) -> &mut ReaderState<'a>;

    /// Skips white space, and comments if the language has them.
    fn skip_blanks(&mut self);

    /// Reads one value of any kind.
    fn value(&mut self) -> ReadResult<TreeNode<'a>>;

    /// Reads a collection; the next byte is its opening bracket.
    fn nested(
        &mut self,
        read: impl FnOnce(&mut Self) -> ReadResult<TreeValue<'a>>,
    ) -> ReadResult<TreeValue<'a>> {
        let ReaderState { cursor, path, depth, .. } = self.state();
        if *depth == MAX_DEPTH {
            return Err(Box::new(too_deep(cursor.position()).under(path.text())));
        }
        *depth += 1;
        cursor.take(1);
        let value = read(self);
        self.state().depth -= 1;
        value
    }

    /// Reads the elements of a list, from behind its `[` to past its `]`.
    fn list(&mut self) -> ReadResult<TreeValue<'a>> {
        let mut nodes = Vec::new();
        self.skip_blanks();
        if self.state().cursor.eat(b']') {
            return Ok(TreeValue::Sequence(nodes));
        }
        loop {
            self.skip_blanks();
            self.state().path.push(PathStep::Index(nodes.len()));
            nodes.push(self.value()?);
            self.state().path.pop();
            self.state().grow(VALUE)?;
            if !self.has_more(b']', "`,` or `]`")? {
                return Ok(TreeValue::Sequence(nodes));
            }
        }
    }

    /// Moves past a comma (true) or past the end of the collection (false).
    fn has_more(&mut self, end: u8, expected: &str) -> ReadResult<bool> {
        self.skip_blanks();
        if self.state().cursor.eat(b',') {
            Ok(true)
        } else if self.state().cursor.eat(end) {
            Ok(false)
        } else {
            Err(self.unexpected(expected))
        }
    }

    /// The fault at a character, or at the end of the text, where something else was expected.
    fn unexpected(&mut self, expected: &str) -> Box<Fault> {
        let message = match self.state().cursor.character() {
            None => format!("{} where {expected} should come", Self::ENDS),
            Some(found) => format!("{}: expected {expected}, found `{found}`", Self::INVALID),
        };
        self.state().fault(message)
    }
}
