//! The nodes with open streams, by the audiences that they belong to, as far as the gate asks for them.

use std::collections::BTreeSet;
use std::sync::Arc;

use chancery_catalog::Audience;

/// The audiences with open streams at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Users {
    audiences: BTreeSet<Audience>,
    groups: BTreeSet<Option<Arc<str>>>,
    nodes: BTreeSet<Arc<str>>,
    /// The groups that rules named before, and name no more.
    left: BTreeSet<String>,
    /// True if there are no groups, so that all nodes belong to base.
    is_all_base: bool,
}

/// The use of an audience at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Streams belong to it, or to nodes in its group.
    Used,
    /// No streams do.
    Unused,
    /// No streams do, and its node is connected as one of another group; or no rule leads to its group any
    /// more.
    Elsewhere,
}

impl Users {
    /// The users by the audiences of all streams.
    pub(crate) fn new(watched: impl IntoIterator<Item = Audience>, has_groups: bool) -> Self {
        let mut users = Self { is_all_base: !has_groups, ..Self::default() };
        for audience in watched {
            let audience = audience.without_values();
            users.groups.insert(audience.group.clone());
            users.nodes.extend(audience.node.clone());
            users.audiences.insert(audience);
        }
        users
    }

    /// The same, where rules named these groups before and name them no more: their nodes are in others.
    #[must_use]
    pub(crate) fn leaving(self, left: BTreeSet<String>) -> Self {
        Self { left, ..self }
    }

    /// The use of an audience.
    pub(super) fn of(&self, audience: &Audience) -> Use {
        let Some(node) = &audience.node else {
            let is_all = audience.group.is_none() && self.is_all_base;
            let is_used = is_all || self.groups.contains(&audience.group);
            let is_left = audience.group.as_ref().is_some_and(|group| self.left.contains(&**group));
            return match is_used {
                true => Use::Used,
                false if is_left => Use::Elsewhere,
                false => Use::Unused,
            };
        };
        match self.audiences.contains(audience) {
            true => Use::Used,
            false if self.nodes.contains(node) => Use::Elsewhere,
            false => Use::Unused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audience(group: Option<&str>, node: Option<&str>) -> Audience {
        Audience::of(group.map(Into::into), node.map(Into::into))
    }

    #[test]
    fn a_group_is_used_by_its_nodes_and_a_node_by_itself_where_it_belongs() {
        let watched = [audience(Some("edge"), Some("a")), audience(Some("mesh"), None)];
        let users = Users::new(watched, true);
        let of = |group, node| users.of(&audience(group, node));
        assert_eq!([of(Some("edge"), None), of(Some("mesh"), None)], [Use::Used; 2]);
        assert_eq!([of(None, None), of(Some("other"), None)], [Use::Unused; 2]);
        assert_eq!(of(Some("edge"), Some("a")), Use::Used);
        assert_eq!(of(None, Some("a")), Use::Elsewhere);
        assert_eq!(of(Some("edge"), Some("b")), Use::Unused);
        let users = users.leaving(["old".to_owned(), "mesh".to_owned()].into());
        let of = |group| users.of(&audience(Some(group), None));
        assert_eq!([of("old"), of("mesh"), of("edge")], [Use::Elsewhere, Use::Used, Use::Used]);
        assert_eq!(Users::new([], false).of(&audience(None, None)), Use::Used);
    }
}
