//! The conditions (`#[cfg(..)]`) under which an item exists, in one spelling.
//!
//! `test` and `doctest` are false here: nobody who uses a crate sees what only its tests have.

use std::collections::BTreeSet;

use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token};

use super::spell::text;

/// Conditions that must all hold; an item without one is always there.
pub(super) type Conditions = BTreeSet<String>;

/// The conditions among the attributes of an item; none if they can never hold.
pub(super) fn conditions(attributes: &[Attribute]) -> Option<Conditions> {
    let mut all = Conditions::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")) {
        match attribute.parse_args::<Meta>().map(|meta| value(&meta)) {
            Ok(Value::Never) => return None,
            Ok(Value::Always) => {}
            Ok(Value::If(condition)) => _ = all.insert(condition),
            Err(_) => _ = all.insert(text(&attribute.meta)),
        }
    }
    Some(all)
}

/// The conditions as attributes before an item.
pub(super) fn prefix(conditions: &Conditions) -> String {
    conditions.iter().map(|condition| format!("#[cfg({condition})] ")).collect()
}

/// The value of a condition as far as it is known.
enum Value {
    Never,
    Always,
    If(String),
}

fn value(meta: &Meta) -> Value {
    if meta.path().is_ident("test") || meta.path().is_ident("doctest") {
        return Value::Never;
    }
    let Meta::List(list) = meta else { return Value::If(text(meta)) };
    let Ok(parts) = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated) else {
        return Value::If(text(meta));
    };
    let values = parts.iter().map(value);
    match list.path.get_ident().map(ToString::to_string).as_deref() {
        Some("all") => joined("all", values, &Value::Always),
        Some("any") => joined("any", values, &Value::Never),
        Some("not") => match values.last() {
            Some(Value::Never) => Value::Always,
            Some(Value::Always) => Value::Never,
            Some(Value::If(condition)) => Value::If(format!("not({condition})")),
            None => Value::If(text(meta)),
        },
        _ => Value::If(text(meta)),
    }
}

/// `all(..)` or `any(..)`, where `neutral` is the value of a part that decides nothing.
fn joined(word: &str, values: impl Iterator<Item = Value>, neutral: &Value) -> Value {
    let mut open = Vec::new();
    for value in values {
        match (value, neutral) {
            (Value::If(condition), _) => open.push(condition),
            (Value::Always, Value::Always) | (Value::Never, Value::Never) => {}
            (decided, _) => return decided,
        }
    }
    match open.as_slice() {
        [] if matches!(neutral, Value::Always) => Value::Always,
        [] => Value::Never,
        [one] => Value::If(one.clone()),
        _ => Value::If(format!("{word}({})", open.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(source: &str) -> Option<String> {
        let item: syn::ItemStruct = syn::parse_str(&format!("{source} struct X;")).unwrap();
        conditions(&item.attrs).map(|conditions| prefix(&conditions))
    }

    #[test]
    fn a_feature_is_shown_in_one_spelling() {
        let expected = Some("#[cfg(feature = \"a\")] ".to_owned());
        assert_eq!(shown("#[cfg( feature=\"a\" )]"), expected);
        assert_eq!(shown("#[cfg(all(feature = \"a\", not(test)))]"), expected);
        assert_eq!(shown("#[cfg(any(test, feature = \"a\"))]"), expected);
        assert_eq!(shown("#[derive(Debug)]"), Some(String::new()));
    }

    #[test]
    fn what_only_tests_have_is_not_there() {
        for source in ["test", "doctest", "all(test, unix)", "any(test, doctest)"] {
            assert_eq!(shown(&format!("#[cfg({source})]")), None, "{source}");
        }
        assert_eq!(shown("#[cfg(not(test))]"), Some(String::new()));
        let either = shown("#[cfg(any(unix, windows, test))]");
        assert_eq!(either.as_deref(), Some("#[cfg(any(unix, windows))] "));
    }
}
