//! The two ways in which a tree writes a message.

/// How messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// The JSON mapping of proto3, in JSON or YAML.
    Json,
    /// Protobuf text.
    Text,
}

/// The key that says what a mapping is.
pub(super) const AT_TYPE: &str = "@type";
