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
            Ok(ConditionValue::Never) => return None,
            Ok(ConditionValue::Always) => {}
            Ok(ConditionValue::If(condition)) => _ = all.insert(condition),
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
enum ConditionValue {
    Never,
    Always,
    If(String),
}

fn value(meta: &Meta) -> ConditionValue {
    if meta.path().is_ident("test") || meta.path().is_ident("doctest") {
        return ConditionValue::Never;
    }
    let Meta::List(list) = meta else { return ConditionValue::If(text(meta)) };
    let Ok(parts) = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated) else {
        return ConditionValue::If(text(meta));
    };
    let values = parts.iter().map(value);
    match list.path.get_ident().map(ToString::to_string).as_deref() {
        Some("all") => joined("all", values, &ConditionValue::Always),
        Some("any") => joined("any", values, &ConditionValue::Never),
        Some("not") => match values.last() {
            Some(ConditionValue::Never) => ConditionValue::Always,
            Some(ConditionValue::Always) => ConditionValue::Never,
            Some(ConditionValue::If(condition)) => ConditionValue::If(format!("not({condition})")),
            None => ConditionValue::If(text(meta)),
        },
        _ => ConditionValue::If(text(meta)),
    }
}

/// `all(..)` or `any(..)`, where `neutral` is the value of a part that decides nothing.
fn joined(
    word: &str,
    values: impl Iterator<Item = ConditionValue>,
    neutral: &ConditionValue,
) -> ConditionValue {
    let mut open = Vec::new();
    for value in values {
        match (value, neutral) {
            (ConditionValue::If(condition), _) => open.push(condition),
            (ConditionValue::Always, ConditionValue::Always)
            | (ConditionValue::Never, ConditionValue::Never) => {}
            (decided, _) => return decided,
        }
    }
    match open.as_slice() {
        [] if matches!(neutral, ConditionValue::Always) => ConditionValue::Always,
        [] => ConditionValue::Never,
        [one] => ConditionValue::If(one.clone()),
        _ => ConditionValue::If(format!("{word}({})", open.join(", "))),
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
