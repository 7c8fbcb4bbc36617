//! The names of audiences in the store and in log lines: `base`, `groups/NAME`, `nodes/ID` and
//! `groups/NAME+nodes/ID`. If their nodes state values, `+values/NUMBER` follows, with the number of these.
//!
//! Slashes, plus and percent signs inside of names are percent-encoded, so that no two audiences
//! share a name, and each name says which audience it means.

use std::borrow::Cow;
use std::sync::Arc;

use chancery_catalog::Audience;
use chancery_core::percent;

use crate::AudienceName;

/// The name of an audience.
pub(super) fn name_of(audience: &Audience, bytes: usize) -> AudienceName {
    AudienceName::new(text_of(audience), audience.values.clone(), bytes)
}

/// The text of the name of an audience.
pub(super) fn text_of(audience: &Audience) -> String {
    let mut text = text_of_layers(audience);
    if let Some(values) = &audience.values {
        text += &format!("{VALUES}{}", values.number());
    }
    text
}

fn text_of_layers(audience: &Audience) -> String {
    match (&audience.group, &audience.node) {
        (None, None) => BASE.to_owned(),
        (Some(group), None) => [GROUPS, &encoded(group)].concat(),
        (None, Some(node)) => [NODES, &encoded(node)].concat(),
        (Some(group), Some(node)) => [GROUPS, &encoded(group), "+", NODES, &encoded(node)].concat(),
    }
}

/// The audience of a name, if it is one of these names.
pub(crate) fn audience_of(name: &AudienceName) -> Option<Audience> {
    let (name, values) = (name.as_str(), name.values().cloned());
    let name = if values.is_some() { without_values(name) } else { name };
    Some(Audience { values, ..audience_of_layers(name)? })
}

/// The name without the number of values, of one that has it.
pub(crate) fn without_values(name: &str) -> &str {
    name.rsplit_once(VALUES).map_or(name, |(name, _)| name)
}

fn audience_of_layers(name: &str) -> Option<Audience> {
    if name == BASE {
        return Some(Audience::default());
    }
    let group = |text: &str| decoded(text, GROUPS);
    let node = |text: &str| decoded(text, NODES);
    Some(match name.split_once('+') {
        Some((one, other)) => Audience::of(Some(group(one)?), Some(node(other)?)),
        None if name.starts_with(GROUPS) => Audience::of(Some(group(name)?), None),
        None => Audience::of(None, Some(node(name)?)),
    })
}

/// A name in which the signs that separate names are percent-encoded. Few names have one.
fn encoded(name: &str) -> Cow<'_, str> {
    if !name.bytes().any(|byte| matches!(byte, b'%' | b'/' | b'+')) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.replace('%', "%25").replace('/', "%2F").replace('+', "%2B"))
}

fn decoded(text: &str, prefix: &str) -> Option<Arc<str>> {
    percent::decode(text.strip_prefix(prefix)?).ok().map(Arc::from)
}

const BASE: &str = "base";
const GROUPS: &str = "groups/";
const NODES: &str = "nodes/";
const VALUES: &str = "+values/";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn audience(group: Option<&str>, node: Option<&str>) -> Audience {
        Audience::of(group.map(Arc::from), node.map(Arc::from))
    }

    #[test]
    fn no_two_audiences_share_a_name() {
        let audiences = [
            audience(None, None),
            audience(Some("a"), Some("b")),
            audience(Some("a+nodes/b"), None),
            audience(Some("a/b"), None),
            audience(Some("a%2Fb"), None),
            audience(None, Some("a")),
            audience(Some(""), Some("\u{e9}+%")),
        ];
        let names: BTreeSet<_> = audiences.iter().map(|it| name_of(it, 0)).collect();
        assert_eq!(names.len(), audiences.len(), "{names:?}");
        for audience in audiences {
            assert_eq!(audience_of(&name_of(&audience, 0)), Some(audience));
        }
    }

    #[test]
    fn other_names_are_of_no_audience() {
        for name in ["", "edge", "groups", "nodes/%", "groups/a+b", "a+nodes/b", "nodes/a+nodes/b"]
        {
            assert_eq!(audience_of(&name.into()), None, "{name}");
        }
    }
}
