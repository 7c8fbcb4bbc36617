//! A node without what it says that may be a secret
//! ([S-138](https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/status/v3/csds.proto)).
//!
//! A client may have a token in its metadata. Names and private keys tell, as in a `Struct` of a body.

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_core::{Node, Value};

use super::is_secret_text;

/// The node without the values of its metadata and parameters that have the name or the form of a secret.
/// One without any is the same.
pub fn node_without_secrets(node: &Arc<Node>) -> Arc<Node> {
    let parameters = || node.dynamic_parameters.values().flatten();
    let has_secret = node.metadata.iter().any(|(key, value)| has_secret(names_secret(key), value))
        || parameters().any(|(key, text)| is_secret_text(key, text));
    if !has_secret {
        return Arc::clone(node);
    }
    let mut rest = Node::clone(node);
    rest.metadata = Arc::new(fields(&node.metadata, false));
    for params in rest.dynamic_parameters.values_mut() {
        params.retain(|key, text| !is_secret_text(key, text));
    }
    Arc::new(rest)
}

/// Returns true if a value is a secret or has one in it. All is secret below the name of a secret.
fn has_secret(is_secret: bool, value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(_) | Value::Number(_) => is_secret,
        Value::Text(text) => is_secret && !text.is_empty() || is_secret_text("", text),
        Value::List(values) => values.iter().any(|value| has_secret(is_secret, value)),
        Value::Map(fields) => {
            fields.iter().any(|(key, value)| has_secret(is_secret || names_secret(key), value))
        }
    }
}

/// The fields without those that are secret.
fn fields(all: &BTreeMap<String, Value>, is_secret: bool) -> BTreeMap<String, Value> {
    let rest = all.iter().filter_map(|(key, value)| {
        Some((key.clone(), without(value, is_secret || names_secret(key))?))
    });
    rest.collect()
}

fn without(value: &Value, is_secret: bool) -> Option<Value> {
    Some(match value {
        Value::List(values) => {
            Value::List(values.iter().filter_map(|value| without(value, is_secret)).collect())
        }
        Value::Map(all) => Value::Map(fields(all, is_secret)),
        plain if has_secret(is_secret, plain) => return None,
        plain => plain.clone(),
    })
}

/// Returns true if all that stands under this name is secret.
fn names_secret(name: &str) -> bool {
    is_secret_text(name, "x")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    /// S-138
    #[test]
    fn a_node_is_told_without_its_secrets() {
        let inner = [("password".to_owned(), text("hush")), ("zone".to_owned(), text("z"))];
        let metadata = [
            ("role".to_owned(), text("edge")),
            ("auth_token".to_owned(), text("hush")),
            ("list".to_owned(), Value::List(vec![text("a"), Value::Map(inner.into())])),
            ("pem".to_owned(), text("-----BEGIN PRIVATE KEY-----\nhush\n")),
            ("private_key".to_owned(), Value::Map([("inline".to_owned(), text("hush"))].into())),
        ];
        let mut node = Node { id: "n".to_owned(), ..Node::default() };
        node.metadata = Arc::new(metadata.into());
        let rest = node_without_secrets(&Arc::new(node));
        let left = [("zone".to_owned(), text("z"))];
        let expected = [
            ("role".to_owned(), text("edge")),
            ("list".to_owned(), Value::List(vec![text("a"), Value::Map(left.into())])),
            ("private_key".to_owned(), Value::Map(BTreeMap::new())),
        ];
        assert_eq!(*rest.metadata, expected.into());
        let plain = Arc::new(Node { metadata: Arc::clone(&rest.metadata), ..Node::default() });
        assert!(Arc::ptr_eq(&plain, &node_without_secrets(&plain)));
    }
}
