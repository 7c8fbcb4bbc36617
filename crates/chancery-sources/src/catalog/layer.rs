//! Layers: which files are for which nodes.
//!
//! Files at the top of the directory are for every node; `groups/NAME/` and `nodes/ID/` hold what
//! a group or a single node gets besides, or instead. Ids that are no file names are
//! percent-encoded: `nodes/a%2Fb/` is the node `a/b`.

use std::fmt;
use std::str;
use std::sync::Arc;

/// A part of the directory with its own set of nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// For every node.
    Base,
    /// For the nodes of one group.
    Group(Arc<str>),
    /// For one node, by its id.
    Node(Arc<str>),
}

/// Why a directory name stands for no group or node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidLayerName {
    /// A `%` that no two hexadecimal digits follow.
    #[error("`{0}` has a `%` without two hexadecimal digits after it")]
    Escape(Box<str>),
    /// The decoded name is no text.
    #[error("`{0}` is not UTF-8 once its percent-encoding is undone")]
    NotUtf8(Box<str>),
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base => f.write_str("base"),
            Self::Group(name) => write!(f, "group `{name}`"),
            Self::Node(id) => write!(f, "node `{id}`"),
        }
    }
}

/// The name of a group or the id of a node, from the name of its directory.
pub(crate) fn decode(name: &str) -> Result<Arc<str>, InvalidLayerName> {
    let mut decoded = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let digits = after.get(..2).filter(|two| two.iter().all(u8::is_ascii_hexdigit));
        let value = digits
            .and_then(|two| str::from_utf8(two).ok())
            .and_then(|two| u8::from_str_radix(two, 16).ok())
            .ok_or_else(|| InvalidLayerName::Escape(name.into()))?;
        decoded.push(value);
        rest = &after[2..];
    }
    let decoded = String::from_utf8(decoded);
    decoded.map(Arc::from).map_err(|_| InvalidLayerName::NotUtf8(name.into()))
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
