//! Files and bodies of resources in YAML, JSON, text or binary.
//!
//! ```text
//!   bytes --> tree (crate::syntax) --> messages (by descriptor) --> resources --> Parsed
//!   bytes of .pb --------------------> messages -----------------/
//! ```
//!
//! A YAML or JSON document is one resource (a mapping with `@type`), a list of resources, or a
//! whole `DiscoveryResponse`, or a mapping with `patch` or `remove`, which edits resources of the layers
//! below, or `values`, which says what differs by node. Text and binary files are a `DiscoveryResponse`. A resource of type
//! `envoy.service.discovery.v3.Resource` is a wrapper that adds a name, a TTL and aliases to the
//! resource in it.
//!
//! All faults of a text are found, not only the first one, and the first [`MAX_FAULTS`] of them are
//! described. The resources without fault are returned along with the faults, and the caller decides
//! to hold them back. No bytes make this module
//! panic. It does not open files, and does not compare resources of different files.

mod binary;
mod collect;
mod dialect;
mod edits;
mod fields_found;
mod message;
mod node_values;
mod patch_places;
mod pieces;
mod places;
mod reader;
mod render;
mod rule_faults;
mod scalar;
mod single;
mod special;
mod tree;
mod typed;
mod well_known;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use chancery_core::{Resource, ResourceName, TypeUrl};

use self::dialect::Dialect;
pub use self::fields_found::{find_fields, may_be_shown};
pub use self::pieces::{Piece, pieces};
pub use self::render::{Renderer, render};
pub(crate) use self::single::{duration_message, map_key, scalar_of_json, wrapper_message};
pub(crate) use self::special::{Special, duration};
use crate::clients::Clients;
use crate::lint::Warning;
use crate::patch::Patch;
use crate::rules::RuleName;
use crate::schema::Schema;
pub use crate::syntax::{Fault, MAX_FAULTS, Position};
use crate::syntax::{read_json, read_text, read_yaml};
use crate::values::NodeValues;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// YAML 1.2: `.yaml`, `.yml`.
    Yaml,
    /// JSON: `.json`.
    Json,
    /// Protobuf text: `.pb_text`.
    Text,
    /// Protobuf's wire format: `.pb`.
    Binary,
}

/// The content of a text.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The resources without fault, in the order of the text.
    pub resources: Vec<ParsedResource>,
    /// The edits of resources of the layers below, in the order of the text.
    pub edits: Vec<ParsedEdit>,
    /// The first [`MAX_FAULTS`] faults, in the order of the text.
    pub faults: Vec<Fault>,
    /// The number of the other faults.
    pub more_faults: usize,
    /// The first [`MAX_FAULTS`] rules that messages break, in the order of the text, where they are
    /// faults ([`RuleCheck::Fault`]). The resources are among [`Self::resources`] all the same.
    pub violations: Vec<BrokenRule>,
    /// The number of the other broken rules.
    pub more_violations: usize,
    /// True if the text says nothing: it is empty, or holds white space, comments and documents
    /// without a value alone. An empty list says that there are no resources, and this does not.
    pub is_blank: bool,
}

/// One resource of a text.
#[derive(Clone, Debug)]
pub struct ParsedResource {
    /// Its type.
    pub type_url: TypeUrl,
    /// The resource.
    pub resource: Arc<Resource>,
    /// The position at which it starts. In a binary file this is the start of the file.
    pub position: Position,
    /// Warnings about fields that some clients refuse.
    pub warnings: Vec<Warning>,
    /// The fields that differ by node.
    pub values: Option<Arc<NodeValues>>,
}

/// An edit of one resource of the layers below, as a text has it.
#[derive(Clone, Debug)]
pub struct ParsedEdit {
    /// The type of the resource.
    pub type_url: TypeUrl,
    /// Its name.
    pub name: ResourceName,
    /// The edit.
    pub edit: ResourceEdit,
    /// The position at which it stands.
    pub position: Position,
    /// Warnings about messages that a patch has whole.
    pub warnings: Vec<Warning>,
    /// The fields that differ by node, of what comes of a patch.
    pub values: Option<Arc<NodeValues>>,
}

/// An edit of a resource of the layers below.
#[derive(Clone, Debug, PartialEq)]
pub enum ResourceEdit {
    /// Some fields change.
    Patch(Arc<Patch>),
    /// It is removed.
    Remove,
}

/// A rule that a resource of a text breaks.
#[derive(Clone, Debug)]
pub struct BrokenRule {
    /// The type of the resource.
    pub type_url: TypeUrl,
    /// Its name.
    pub name: ResourceName,
    /// The rule.
    pub rule: RuleName,
    /// The violation as a fault of the text, with its place. Its code is that of the rule.
    pub fault: Fault,
}

/// The checks that are made while a text is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// The check of the rules of the messages ([`crate::rules`]). Default: none.
    pub rules: RuleCheck,
    /// The clients that the resources are for. Default: Envoys of no known version.
    pub clients: Clients,
}

/// The check of the rules of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleCheck {
    /// The rules are not checked.
    #[default]
    Off,
    /// A broken rule is a warning of its resource.
    Warn,
    /// A broken rule is a fault ([`Parsed::violations`]). It is a warning where those for whom the
    /// resource is accept it all the same: Envoy, with a warning of its own, or gRPC, which does not
    /// know these rules. A resource is for gRPC alone if nobody else is among the clients, and only gRPC
    /// can use a listener with an `api_listener` or with the name of a gRPC server, and a cluster with a
    /// certificate provider.
    Fault,
}

impl Format {
    /// The format that the extension of a file name stands for. The result is `None` for files that
    /// hold no resources.
    pub fn of_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "yaml" | "yml" => Some(Self::Yaml),
            "json" => Some(Self::Json),
            "pb_text" => Some(Self::Text),
            "pb" => Some(Self::Binary),
            _ => None,
        }
    }
}

/// Reads the resources of a text.
pub fn parse(schema: &Schema, format: Format, bytes: &[u8]) -> Parsed {
    parse_checked(schema, format, bytes, Checks::default())
}

/// Reads the resources of a text, and checks them.
pub fn parse_checked(schema: &Schema, format: Format, bytes: &[u8], checks: Checks) -> Parsed {
    let read = match format {
        Format::Binary => return binary::parse(schema, bytes, checks),
        Format::Yaml => read_yaml,
        Format::Json => read_json,
        Format::Text => read_text,
    };
    let dialect = if format == Format::Text { Dialect::Text } else { Dialect::Json };
    match str::from_utf8(bytes) {
        Ok(text) => tree::parse(schema, dialect, text, read(text), checks),
        Err(error) => Parsed { faults: vec![no_utf8(bytes, error)], ..Parsed::default() },
    }
}

fn no_utf8(bytes: &[u8], error: std::str::Utf8Error) -> Fault {
    let (good, bad) = bytes.split_at(error.valid_up_to());
    let good = String::from_utf8_lossy(good);
    let message = match (error.error_len(), bad.first()) {
        (Some(_), Some(byte)) => format!("no UTF-8: the byte 0x{byte:02x} is out of place"),
        _ => "no UTF-8: the text ends within a character".to_owned(),
    };
    let fault = Fault::new(message).at(Position::of_offset(&good, good.len()));
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => fault.hint("save the file as UTF-8, not as UTF-16"),
        _ => fault.hint("save the file as UTF-8"),
    }
}
