//! The names of layer directories.
//!
//! `groups/NAME/` and `nodes/ID/` are named after a group or a node. What cannot stand in a file
//! name is percent-encoded: `nodes/a%2Fb/` is the layer of the node `a/b`.

use std::sync::Arc;

use chancery_core::percent::{self, InvalidEncoding};

/// The reason why a directory name stands for no group or node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidLayerName {
    /// A `%` that is not followed by two hexadecimal digits.
    #[error("`{0}` has a `%` without two hexadecimal digits after it")]
    Escape(Box<str>),
    /// The decoded name is no text.
    #[error("`{0}` is not UTF-8 once its percent-encoding is undone")]
    NotUtf8(Box<str>),
}

/// The name of a group or the id of a node, from the name of its directory.
pub(crate) fn decode(name: &str) -> Result<Arc<str>, InvalidLayerName> {
    percent::decode(name).map(Arc::from).map_err(|invalid| match invalid {
        InvalidEncoding::Escape => InvalidLayerName::Escape(name.into()),
        InvalidEncoding::NotUtf8 => InvalidLayerName::NotUtf8(name.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_no_file_name_is_percent_encoded() {
        assert_eq!(&*decode("plain").unwrap(), "plain");
        assert_eq!(&*decode("a%2Fb%2fc").unwrap(), "a/b/c");
        assert_eq!(&*decode("%2E%25%C3%A9").unwrap(), ".%\u{e9}");
    }

    #[test]
    fn bad_percent_encoding_is_no_id() {
        for name in ["%", "a%2", "%zz", "%+1", "a%2/"] {
            assert_eq!(decode(name), Err(InvalidLayerName::Escape(name.into())));
        }
        assert_eq!(decode("%ff"), Err(InvalidLayerName::NotUtf8("%ff".into())));
    }
}
