//! References that lead nowhere.
//!
//! A route to a cluster that does not exist fails requests, and a listener whose routes never come
//! does not start. Whether a client has the target from somewhere else (its bootstrap, another
//! server) cannot be seen from here, so what is found is reported, and not held back (S-103).

use std::fmt;

use chancery_core::{Api, Link, Resource, ResourceName, Snapshot, TypeUrl};

/// A reference to a resource that the snapshot lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dangling {
    /// The type of the resource that refers.
    pub type_url: TypeUrl,
    /// Its name.
    pub name: ResourceName,
    /// What it refers to.
    pub target: Link,
}

/// The references of this snapshot that lead nowhere, in the order of types and names.
pub fn dangling(snapshot: &Snapshot) -> Vec<Dangling> {
    missing(snapshot)
        .map(|(type_url, referrer, link)| Dangling {
            type_url: type_url.clone(),
            name: referrer.name().clone(),
            target: link.clone(),
        })
        .collect()
}

/// The links whose target the snapshot lacks. A glob collection may be empty and lacks nothing.
pub(crate) fn missing(
    snapshot: &Snapshot,
) -> impl Iterator<Item = (&TypeUrl, &Resource, &Link)> + '_ {
    let resources = snapshot
        .types()
        .flat_map(|type_url| snapshot.set(type_url).iter().map(move |one| (type_url, &**one)));
    let links = resources.flat_map(|(type_url, referrer)| {
        referrer.facts().links.iter().map(move |link| (type_url, referrer, link))
    });
    links.filter(|(_, _, link)| {
        let found = snapshot.set(&link.type_url).get_aliased(link.name.as_str());
        found.is_none() && !link.name.is_glob()
    })
}

impl Dangling {
    /// What the operator can do about it.
    pub fn hint(&self) -> String {
        let short = self.target.type_url.short();
        let elsewhere = match (self.target.name.xdstp(), self.target.type_url.api()) {
            (Some(parts), _) => format!("the server of authority `{}` has it", parts.authority),
            (None, Api::Cds) => "the bootstrap of the client has it".to_owned(),
            (None, _) => "another server has it".to_owned(),
        };
        format!("add {short} `{}`, or ignore this if {elsewhere}", self.target.name)
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
    use bytes::Bytes;
    use chancery_core::Facts;

    use super::*;

    fn url(short: &str) -> TypeUrl {
        TypeUrl::known().find(|type_url| type_url.short() == short).unwrap()
    }

    fn name(text: &str) -> ResourceName {
        text.parse().unwrap()
    }

    fn snapshot(links: &[(&str, &str, bool)]) -> Snapshot {
        let link = |(short, target, aggregated): &(&str, &str, bool)| Link {
            type_url: url(short),
            name: name(target),
            aggregated: *aggregated,
        };
        let facts = Facts { links: links.iter().map(link).collect(), ..Facts::default() };
        let routes = Resource::new(name("r"), Bytes::new()).with_facts(facts);
        let cluster = Resource::new(name("a"), Bytes::new());
        let mut snapshot = Snapshot::new();
        snapshot.insert(&url("rds"), routes);
        snapshot.insert(&url("cds"), cluster.with_aliases(vec![name("also")]));
        snapshot
    }

    #[test]
    fn a_reference_to_nothing_is_told_with_both_ends() {
        // S-103
        let found = dangling(&snapshot(&[("cds", "a", true), ("cds", "b", true)]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].to_string(), "rds `r` refers to cds `b`, which does not exist");
        assert_eq!(
            found[0].hint(),
            "add cds `b`, or ignore this if the bootstrap of the client has it"
        );
        let elsewhere = dangling(&snapshot(&[("sds", "b", false)]));
        assert!(elsewhere[0].hint().contains("another server"), "{}", elsewhere[0].hint());
        let federated = "xdstp://auth-b/envoy.config.cluster.v3.Cluster/b"; // S-116
        let federated = dangling(&snapshot(&[("cds", federated, true)]));
        assert!(federated[0].hint().ends_with("if the server of authority `auth-b` has it"));
    }

    #[test]
    fn aliases_are_found_and_collections_may_be_empty() {
        let glob = "xdstp://x/envoy.config.endpoint.v3.LbEndpoint/a/*";
        let all_well = snapshot(&[("cds", "also", true), ("leds", glob, true)]);
        assert_eq!(dangling(&all_well), []);
    }
}
