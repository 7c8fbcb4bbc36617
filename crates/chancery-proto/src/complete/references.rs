//! References from one resource to another, and the description of those whose target does not
//! exist.
//!
//! A route to a cluster that does not exist fails requests, and a listener whose routes never come
//! does not start. But a client may have the target from its bootstrap, which cannot be seen from here.
//! So a dangling reference is reported and does not hold back the change ([S-103](https://github.com/grpc/proposal/blob/master/A74-xds-config-tears.md)).
//!
//! This module does not decide which references dangle: [`Complete`](super::Complete) does.

use std::fmt;

use chancery_core::{Api, Link, Resource, ResourceName, TypeUrl};

/// A reference to a resource that the snapshot does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dangling {
    /// The type of the resource that contains the reference.
    pub type_url: TypeUrl,
    /// The name of that resource.
    pub name: ResourceName,
    /// The target of the reference.
    pub target: Link,
}

/// The type and name under which a resource is stored.
pub(crate) type ResourceKey = (TypeUrl, ResourceName);

/// One reference. References sort by target, so all references to one target stand together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reference {
    pub(crate) target: ResourceKey,
    /// The resource that contains the reference. `None` sorts before every resource.
    from: Option<ResourceKey>,
    aggregated: bool,
}

impl Reference {
    /// All references in a resource.
    pub(crate) fn all<'a>(
        key: &'a ResourceKey,
        resource: &'a Resource,
    ) -> impl Iterator<Item = Self> + 'a {
        resource.facts().links.iter().map(move |link| Self {
            target: (link.type_url.clone(), link.name.clone()),
            from: Some(key.clone()),
            aggregated: link.aggregated,
        })
    }

    /// The value that sorts before all references to a target.
    pub(crate) fn before(target: &ResourceKey) -> Self {
        Self { target: target.clone(), from: None, aggregated: false }
    }

    /// The public form of this reference, for a target that does not exist.
    /// `None` for one that comes from another source than this server.
    pub(crate) fn dangling(&self) -> Option<Dangling> {
        if !self.aggregated {
            return None;
        }
        let (type_url, name) = self.from.clone()?;
        let (target_type, target) = self.target.clone();
        let target = Link { type_url: target_type, name: target, aggregated: self.aggregated };
        Some(Dangling { type_url, name, target })
    }
}

impl Dangling {
    /// Returns true if clients get an empty load assignment in place of the target (S-101), so that
    /// the cluster has no endpoints.
    pub fn is_filled(&self) -> bool {
        self.target.type_url.api() == Api::Eds
    }
}

impl fmt::Display for Dangling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.type_url.short(), self.target.type_url.short());
        write!(
            f,
            "{from} `{}` refers to {to} `{}`, which does not exist",
            self.name, self.target.name
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dangling(to: &str, target: &str) -> Dangling {
        let url = |short| TypeUrl::known().find(|type_url| type_url.short() == short).unwrap();
        let target =
            Link { type_url: url(to), name: target.parse().unwrap(), aggregated: to == "cds" };
        Dangling { type_url: url("rds"), name: "r".parse().unwrap(), target }
    }

    #[test]
    fn a_reference_to_nothing_is_told_with_both_ends() {
        // S-103
        let found = dangling("cds", "b");
        assert_eq!(found.to_string(), "rds `r` refers to cds `b`, which does not exist");
        assert!(!found.is_filled());
        assert!(dangling("eds", "b").is_filled());
    }
}
