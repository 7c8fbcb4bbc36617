//! The size of a tree, bounded by that of its text.
//!
//! Two bytes of a text (`0,`) are a value of forty bytes in the tree, and four (`[0],`) two of them
//! and a list. Configuration has a value in some twelve bytes of text. So a text with far more
//! values than that is refused while it is read, before its tree has filled the memory. Not here:
//! what aliases repeat (`yaml`), and the memory of the scanner of YAML, which keeps the tokens of a
//! whole flow collection (`counted`).

use super::{Fault, Position};

/// The size of a tree that is being built.
#[derive(Debug, Default)]
pub(super) struct TreeSize {
    size: usize,
    most: usize,
}

/// The error for a text that has too many values.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

/// The size of a value in a list.
pub(super) const VALUE: usize = 1;

/// The size of a value with its key.
pub(super) const ENTRY: usize = 2;

/// The size of a value with its key where keys are indexed.
pub(super) const INDEXED_ENTRY: usize = 4;

impl TreeSize {
    /// The size of an empty tree of this text.
    pub(super) fn of(text: &str) -> Self {
        Self { size: 0, most: FREE + text.len() / BYTES_PER_VALUE }
    }

    /// Adds a value.
    pub(super) fn add(&mut self, size: usize) -> Result<(), TooLarge> {
        self.size += size;
        if self.size <= self.most { Ok(()) } else { Err(TooLarge) }
    }
}

/// The fault of a text that has too many values.
pub(super) fn too_large(position: Position) -> Fault {
    Fault::new("there are too many values up to here for the size of the text")
        .at(position)
        .hint("configuration has a value in some twelve bytes of text, and this has far more")
}

/// The size that any tree may have. It takes some ten megabytes.
const FREE: usize = 256 << 10;

/// The bytes of text for each value beyond that.
const BYTES_PER_VALUE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::{Documents, read_json, read_text, read_yaml};

    /// As many repetitions as make a text of this many bytes.
    fn text(head: &str, unit: &str, bytes: usize, tail: &str) -> String {
        format!("{head}{}{tail}", unit.repeat(bytes / unit.len()))
    }

    fn told(documents: &Documents<'_>) -> Vec<String> {
        documents.faults.first().iter().map(|fault| fault.message.clone()).collect()
    }

    #[test]
    fn a_tree_is_no_larger_than_its_text_allows() {
        let mut size = TreeSize::of(&"x".repeat(400));
        assert_eq!(size.add(FREE), Ok(()));
        (0..50).for_each(|_| assert_eq!(size.add(ENTRY), Ok(())));
        assert_eq!(size.add(VALUE), Err(TooLarge));
    }

    #[test]
    fn a_text_of_values_alone_is_refused_in_each_format() {
        let dense = 2 << 20;
        let message = too_large(Position::START).message;
        for json in [text("[", "0,", dense, "0]"), text("[", "[0],", dense, "0]")] {
            assert_eq!(told(&read_json(&json)), [message.as_str()]);
        }
        assert_eq!(told(&read_text(&text("", "a{}", dense, ""))), [message.as_str()]);
        assert_eq!(told(&read_yaml(&text("", "- - - - 0\n", dense, ""))), [message.as_str()]);
        // A small text may be as dense as it likes.
        assert!(told(&read_json(&text("[", "0,", 400 << 10, "0]"))).is_empty());
    }

    #[test]
    fn configuration_may_be_as_dense_as_it_is() {
        let size = 4 << 20;
        let endpoint =
            r#"{"endpoint":{"address":{"socket_address":{"address":"1.1.1.1","port_value":80}}}},"#;
        let route = r#"{"match":{"prefix":"/"},"route":{"cluster":"a"}},"#;
        for unit in [endpoint, route] {
            assert!(told(&read_json(&text("[", unit, size, "0]"))).is_empty());
        }
        let fields = "e{endpoint{address{socket_address{address:'1.1.1.1' port_value:80}}}}\n";
        assert!(told(&read_text(&text("", fields, size, ""))).is_empty());
        let block = "- endpoint:\n    address:\n      socket_address: { address: 1.1.1.1, \
                     port_value: 80 }\n";
        assert!(told(&read_yaml(&text("", block, size, ""))).is_empty());
    }
}
