//! The two ways in which a tree writes a message.

/// The rules by which a tree is read as a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// The JSON mapping of proto3, in JSON or YAML.
    Json,
    /// Protobuf text.
    Text,
}

/// The key with the type of a mapping.
pub(super) const AT_TYPE: &str = "@type";
