//! Lineages: which group extends which, and so the chain of layers that an audience sees.
//!
//! A group that extends another sees that group's layer below its own, and so on down to base. Not here: the
//! settings that say so, and the layers themselves.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use chancery_core::printable::{Printable, cut};

use crate::audience::Audience;
use crate::layer::Layer;

/// The groups that extend others. Clones are cheap.
///
/// ```
/// use chancery_catalog::{Audience, Layer, Lineage};
///
/// # fn main() -> Result<(), chancery_catalog::InvalidLineage> {
/// let lineage = Lineage::new([("canary", "edge")])?;
/// let canary = Audience::of(Some("canary".into()), None);
/// let layers = lineage.layers(&canary).into_iter().map(|layer| layer.to_string());
/// assert_eq!(layers.collect::<Vec<_>>(), ["base", "group `edge`", "group `canary`"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage(Arc<BTreeMap<Arc<str>, Arc<str>>>);

/// The error for groups that cannot extend each other in this way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidLineage {
    /// A group would extend itself: the groups from it back to it.
    Circle(Vec<Arc<str>>),
    /// One group extends two.
    Two {
        /// The group.
        group: Arc<str>,
        /// The groups that it would extend.
        parents: [Arc<str>; 2],
    },
    /// A group stands on more groups than [`Lineage::MAX_DEPTH`].
    TooDeep(Arc<str>),
}

impl Lineage {
    /// The most groups that a group may extend, one over the other.
    pub const MAX_DEPTH: usize = 8;

    /// The lineage in which each first group extends the second.
    ///
    /// # Errors
    /// If a group would extend itself, extend two groups, or stand on too many.
    pub fn new<T: Into<Arc<str>>>(
        extends: impl IntoIterator<Item = (T, T)>,
    ) -> Result<Self, InvalidLineage> {
        let mut map: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
        for (group, parent) in extends {
            let (group, other) = (group.into(), parent.into());
            match map.get(&group) {
                Some(one) if *one != other => {
                    let parents = [Arc::clone(one), other];
                    return Err(InvalidLineage::Two { group, parents });
                }
                _ => drop(map.insert(group, other)),
            }
        }
        let lineage = Self(Arc::new(map));
        lineage.0.keys().try_for_each(|group| lineage.check(group))?;
        Ok(lineage)
    }

    /// Checks the groups below one.
    fn check(&self, group: &Arc<str>) -> Result<(), InvalidLineage> {
        let mut chain = vec![Arc::clone(group)];
        while let Some(parent) = chain.last().and_then(|last| self.0.get(last)) {
            chain.push(Arc::clone(parent));
            if parent == group {
                return Err(InvalidLineage::Circle(chain));
            }
            if chain.len() > Self::MAX_DEPTH + 1 {
                return Err(InvalidLineage::TooDeep(Arc::clone(group)));
            }
        }
        Ok(())
    }

    /// The group that a group extends.
    pub fn parent(&self, group: &str) -> Option<&Arc<str>> {
        self.0.get(group)
    }

    /// The groups that a group extends, the nearest first.
    pub fn ancestors<'a>(&'a self, group: &str) -> impl Iterator<Item = &'a Arc<str>> {
        std::iter::successors(self.parent(group), |group| self.parent(group))
    }

    /// A group and those that it extends, the nearest first.
    pub fn chain<'a>(&'a self, group: &'a Arc<str>) -> impl Iterator<Item = &'a Arc<str>> {
        std::iter::successors(Some(group), |group| self.parent(group))
    }

    /// The groups that extend another.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.keys()
    }

    /// The layers that an audience sees, the weakest first.
    pub fn layers(&self, audience: &Audience) -> Vec<Layer> {
        let node = audience.node.iter().map(|id| Layer::Node(Arc::clone(id)));
        let groups = audience.group.iter().flat_map(|group| self.chain(group));
        let groups = groups.map(|name| Layer::Group(Arc::clone(name)));
        let mut layers: Vec<Layer> = node.chain(groups).collect();
        layers.push(Layer::Base);
        layers.reverse();
        layers
    }

    /// The audience without its values, or else without its strongest layer. The audience of base alone has none.
    pub(crate) fn below(&self, audience: &Audience) -> Option<Audience> {
        match (&audience.group, &audience.node) {
            _ if audience.values.is_some() => Some(audience.without_values()),
            (group, Some(_)) => Some(Audience::of(group.clone(), None)),
            (Some(group), None) => Some(Audience::of(self.parent(group).cloned(), None)),
            (None, None) => None,
        }
    }

    /// The number of layers below the strongest one of an audience.
    pub(crate) fn depth(&self, audience: &Audience) -> usize {
        let groups = audience.group.iter().map(|group| self.chain(group).count());
        let above = [audience.node.is_some(), audience.values.is_some()];
        groups.sum::<usize>() + above.into_iter().map(usize::from).sum::<usize>()
    }

    /// A digest; that of no lineage is 0.
    pub(crate) fn digest(&self) -> u128 {
        let pairs = self.0.iter().map(|(group, parent)| {
            // The length tells where the first name ends.
            let text = format!("{}:{group}{parent}", group.len());
            xxhash_rust::xxh3::xxh3_128(text.as_bytes())
        });
        pairs.fold(0, u128::wrapping_add)
    }

    /// The groups that extend something else here than there.
    pub fn differing<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a Arc<str>> {
        let gone = other.0.keys().filter(|group| !self.0.contains_key(*group));
        let changed = self.0.iter().filter(|(group, parent)| other.parent(group) != Some(parent));
        gone.chain(changed.map(|(group, _)| group))
    }
}

impl fmt::Display for InvalidLineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |group: &Arc<str>| Printable(cut(group, LONGEST_NAME)).to_string();
        match self {
            Self::Circle(chain) => {
                let chain: Vec<_> = chain.iter().map(name).collect();
                let first = chain.first().map_or("", String::as_str);
                write!(f, "group `{first}` would extend itself: {}", chain.join(" -> "))
            }
            Self::Two { group, parents: [one, other] } => {
                let (group, one, other) = (name(group), name(one), name(other));
                write!(
                    f,
                    "group `{group}` can extend one group, and not both `{one}` and `{other}`"
                )
            }
            Self::TooDeep(group) => {
                let (group, most) = (name(group), Lineage::MAX_DEPTH);
                write!(
                    f,
                    "group `{group}` stands on more than {most} groups that extend each other"
                )
            }
        }
    }
}

impl std::error::Error for InvalidLineage {}

/// The bytes of a name that are shown.
const LONGEST_NAME: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn told(extends: &[(&str, &str)]) -> Result<Lineage, String> {
        Lineage::new(extends.iter().copied()).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn a_chain_ends_at_base() {
        let lineage = told(&[("c", "b"), ("b", "a"), ("c", "b")]).unwrap();
        let audience = |group: &str, node: Option<&str>| {
            Audience::of(Some(group.into()), node.map(Into::into))
        };
        let layers = |audience: &Audience| {
            lineage.layers(audience).iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let node = audience("c", Some("n"));
        assert_eq!(layers(&node), "base, group `a`, group `b`, group `c`, node `n`");
        assert_eq!(layers(&audience("a", None)), "base, group `a`");
        assert_eq!((lineage.depth(&node), lineage.depth(&Audience::default())), (4, 0));
        let chain = std::iter::successors(Some(node), |audience| lineage.below(audience));
        assert_eq!(
            chain.map(|audience| audience.to_string()).collect::<Vec<_>>(),
            [
                "node `n` in group `c`",
                "group `c`",
                "group `b`",
                "group `a`",
                "nodes without an overlay"
            ]
        );
    }

    #[test]
    fn circles_and_towers_are_refused() {
        assert_eq!(told(&[("a", "a")]).unwrap_err(), "group `a` would extend itself: a -> a");
        let circle = told(&[("a", "b"), ("b", "c"), ("c", "a")]).unwrap_err();
        assert_eq!(circle, "group `a` would extend itself: a -> b -> c -> a");
        assert!(told(&[("d", "a"), ("a", "b"), ("b", "a")]).unwrap_err().contains("a -> b -> a"));
        let two = told(&[("a", "b"), ("a", "c")]).unwrap_err();
        assert_eq!(two, "group `a` can extend one group, and not both `b` and `c`");
        let tower = |height: usize| {
            Lineage::new((0..height).map(|at| (format!("g{at}"), format!("g{}", at + 1))))
        };
        assert!(tower(Lineage::MAX_DEPTH).is_ok());
        assert!(matches!(tower(Lineage::MAX_DEPTH + 1), Err(InvalidLineage::TooDeep(_))));
    }

    #[test]
    fn groups_differ_that_extend_something_else() {
        let old = told(&[("a", "x"), ("b", "x"), ("c", "x")]).unwrap();
        let new = told(&[("a", "x"), ("b", "y"), ("d", "x")]).unwrap();
        assert_eq!(new.differing(&old).map(|it| &**it).collect::<Vec<_>>(), ["c", "b", "d"]);
        assert_eq!(old.differing(&old).count(), 0);
    }
}
