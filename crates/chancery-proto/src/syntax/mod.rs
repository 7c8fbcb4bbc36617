//! YAML, JSON and protobuf text as trees with positions.
//!
//! ```text
//!   YAML (saphyr's events) --+
//!   JSON ------------------- +--> tree of nodes --> serde, for configuration: `from_yaml`
//!   protobuf text -----------+                  `--> messages, for resources: crate::document
//! ```
//!
//! The tree exists for the faults: every fault has line, column and field, also inside of an `Any`.
//! The possible fields of a resource are not known here; [`crate::document`] knows them.

mod closest;
mod counted;
mod cursor;
mod de;
mod fault;
mod fault_list;
mod flow;
mod json;
mod nested;
mod path;
mod scalar;
mod text;
mod tree;
mod tree_size;
mod yaml;

#[cfg(test)]
mod tests;

use serde::de::DeserializeOwned;

pub use self::closest::{closest, did_you_mean, did_you_mean_this};
pub use self::fault::{Fault, Position};
pub(crate) use self::fault_list::FaultList;
pub use self::fault_list::MAX_FAULTS;
pub(crate) use self::json::read as read_json;
pub(crate) use self::path::{FieldPath, PathStep, append};
pub(crate) use self::scalar::{float, integer, is_text};
pub(crate) use self::text::read as read_text;
pub(crate) use self::tree::{FoundValue, MapEntry, Short, TreeNode, TreeValue};
pub(crate) use self::yaml::{Documents, read as read_yaml};

/// Reads a configuration file: one YAML document.
///
/// # Errors
/// Fails with the first fault and its position: invalid YAML, a duplicate key, or a value that the
/// type refuses. A type with `deny_unknown_fields` gives the position of an unknown key. A text
/// without a document is a fault too: a file that was cut must not stand for the defaults.
pub fn from_yaml<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    let Documents { roots, faults } = read_yaml(text);
    if let Some(first) = faults.into_first() {
        return Err(first);
    }
    let mut roots = roots.iter();
    let (first, second) = (roots.next(), roots.next());
    if let Some(second) = second {
        return Err(Fault::new("a second document; expected one").at(second.position()));
    }
    let Some(root) = first.filter(|root| !root.is_null()) else {
        let fault = Fault::new("the file says nothing: it is empty, or holds comments alone");
        return Err(fault.hint("if all keys are to have their defaults, write `{}`"));
    };
    T::deserialize(de::NodeDeserializer(root)).map_err(de::NodeError::into_fault)
}

/// The position of a key at the top of a YAML document, or of an item of the list under it; `None` if there is
/// no such thing.
pub fn yaml_position(text: &str, key: &str, item: Option<usize>) -> Option<Position> {
    let Documents { roots, .. } = read_yaml(text);
    let entries = roots.first()?.entries()?;
    let entry = entries.iter().find(|entry| entry.key == key)?;
    match (item, entry.node.value()) {
        (None, _) => Some(entry.key_position),
        (Some(item), TreeValue::Sequence(items)) => Some(items.get(item)?.position()),
        (Some(_), _) => None,
    }
}
