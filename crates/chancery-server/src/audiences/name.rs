//! The names of audiences in the store and in log lines: `base`, `groups/NAME`, `nodes/ID` and
//! `groups/NAME+nodes/ID`.
//!
//! Slashes, plus and percent signs inside of names are percent-encoded, so that no two audiences
//! share a name, and each name says which audience it means.

use std::borrow::Cow;
use std::sync::Arc;

use chancery_catalog::Audience;
use chancery_core::percent;

use crate::AudienceName;

/// The name of an audience.
pub(super) fn name_of(audience: &Audience) -> AudienceName {
    text_of(audience).into()
}

/// The text of the name of an audience.
pub(super) fn text_of(audience: &Audience) -> String {
    match (&audience.group, &audience.node) {
        (None, None) => BASE.to_owned(),
        (Some(group), None) => [GROUPS, &encoded(group)].concat(),
        (None, Some(node)) => [NODES, &encoded(node)].concat(),
        (Some(group), Some(node)) => [GROUPS, &encoded(group), "+", NODES, &encoded(node)].concat(),
    }
}

/// The audience of a name, if it is one of these names.
pub(crate) fn audience_of(name: &AudienceName) -> Option<Audience> {
    let name = name.as_str();
    if name == BASE {
        return Some(Audience::default());
    }
    let group = |text: &str| decoded(text, GROUPS);
    let node = |text: &str| decoded(text, NODES);
    Some(match name.split_once('+') {
        Some((one, other)) => Audience { group: Some(group(one)?), node: Some(node(other)?) },
        None if name.starts_with(GROUPS) => Audience { group: Some(group(name)?), node: None },
        None => Audience { group: None, node: Some(node(name)?) },
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn audience(group: Option<&str>, node: Option<&str>) -> Audience {
        Audience { group: group.map(Arc::from), node: node.map(Arc::from) }
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
        let names: BTreeSet<_> = audiences.iter().map(name_of).collect();
        assert_eq!(names.len(), audiences.len(), "{names:?}");
        for audience in audiences {
            assert_eq!(audience_of(&name_of(&audience)), Some(audience));
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
