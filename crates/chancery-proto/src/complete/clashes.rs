//! Resources of one type that have the same thing for themselves, of which a client takes one alone:
//! listeners with one address, and scopes of routes with one key.
//!
//! Names of a federation are left out: a client may ask for some of them, and not for all. Not here: what
//! these things are ([`Facts::addresses`](chancery_core::Facts)).

use std::fmt;

use chancery_core::printable::{Printable, cut};
use chancery_core::{Api, Resource, ResourceName, TypeUrl};
use imbl::OrdSet;

/// Two resources that a client does not take together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Clash {
    /// Their type.
    pub type_url: TypeUrl,
    /// The address of both listeners, or the key of both scopes.
    pub address: Box<str>,
    /// The name of the one that is refused, if they come together.
    pub name: ResourceName,
    /// The name of another one.
    pub other: ResourceName,
}

/// One address of one resource. They sort by address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    address: Box<str>,
    type_url: TypeUrl,
    /// `None` sorts before every name.
    name: Option<ResourceName>,
}

/// The addresses of all resources. Clones share what they have in common.
#[derive(Clone, Default)]
pub(super) struct Claims {
    all: OrdSet<Claim>,
    /// Those addresses that several resources have.
    contested: OrdSet<Claim>,
}

impl Claims {
    /// Takes over the addresses of a resource that was added, replaced or removed. Returns true if that may
    /// have changed the [clashes](Self::clashes).
    pub(super) fn replace(
        &mut self,
        (type_url, name): (&TypeUrl, &ResourceName),
        old: Option<&Resource>,
        new: Option<&Resource>,
    ) -> bool {
        let of = |resource: Option<&Resource>| -> Vec<Box<str>> {
            resource.map(|it| it.facts().addresses.clone()).unwrap_or_default()
        };
        let (old, new) = (of(old), of(new));
        if old == new || name.xdstp().is_some() {
            return false;
        }
        let mut changed = false;
        for address in old.iter().chain(&new) {
            let claim = |name| Claim { address: address.clone(), type_url: type_url.clone(), name };
            let (own, before_all) = (claim(Some(name.clone())), claim(None));
            match new.binary_search(address).is_ok() {
                true => drop(self.all.insert(own)),
                false => drop(self.all.remove(&own)),
            }
            let is_contested = self.names(&before_all).nth(1).is_some();
            let was_contested = match is_contested {
                true => self.contested.insert(before_all).is_some(),
                false => self.contested.remove(&before_all).is_some(),
            };
            changed |= is_contested || was_contested;
        }
        changed
    }

    /// The resources that have an address of another one. The first of each address is told with each of the
    /// others.
    pub(super) fn clashes(&self) -> impl Iterator<Item = Clash> + '_ {
        self.contested.iter().flat_map(|contested| {
            let mut names = self.names(contested);
            let first = names.next();
            names.zip(std::iter::repeat(first)).filter_map(|(name, first)| {
                let (type_url, address) = (contested.type_url.clone(), contested.address.clone());
                Some(Clash { type_url, address, name: name.clone(), other: first?.clone() })
            })
        })
    }

    fn names<'a>(&'a self, address: &'a Claim) -> impl Iterator<Item = &'a ResourceName> + 'a {
        let of_address =
            |claim: &&Claim| claim.address == address.address && claim.type_url == address.type_url;
        let names = self.all.range(address.clone()..).take_while(of_address);
        names.filter_map(|claim| claim.name.as_ref())
    }
}

/// `lds `b` has the address 127.0.0.1:80 of `a``.
impl fmt::Display for Clash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { type_url, address, name, other } = self;
        let address = Printable(cut(address, LONGEST_ADDRESS));
        let what = if type_url.api() == Api::Srds { "key" } else { "address" };
        write!(f, "{} `{name}` has the {what} {address} of `{other}`", type_url.short())
    }
}

/// The bytes of an address that are shown.
const LONGEST_ADDRESS: usize = 128;

#[cfg(test)]
mod tests {
    use chancery_core::Facts;

    use super::*;

    fn listener(name: &str, addresses: &[&str]) -> Resource {
        let addresses = addresses.iter().map(|it| Box::from(*it)).collect();
        let facts = Facts { addresses, ..Facts::default() };
        Resource::new(name.parse().unwrap(), Vec::new().into()).with_facts(facts)
    }

    #[test]
    fn listeners_with_one_address_clash_until_one_of_them_goes() {
        let lds = TypeUrl::new("envoy.config.listener.v3.Listener");
        let mut claims = Claims::default();
        let mut known = std::collections::BTreeMap::<&str, Resource>::new();
        let mut put = |claims: &mut Claims, name: &'static str, addresses: &[&str]| {
            let new = listener(name, addresses);
            let old = known.insert(name, new.clone());
            claims.replace((&lds, new.name()), old.as_ref(), Some(&new))
        };
        let told = |claims: &Claims| claims.clashes().map(|it| it.to_string()).collect::<Vec<_>>();
        assert!(!put(&mut claims, "a", &["1:1", "1:2"]));
        assert!(!put(&mut claims, "b", &["1:3"]));
        assert!(put(&mut claims, "b", &["1:2", "1:3"]));
        assert_eq!(told(&claims), ["lds `b` has the address 1:2 of `a`"]);
        assert!(put(&mut claims, "c", &["1:2"]));
        assert_eq!(told(&claims).len(), 2, "each is told beside the first");
        assert!(!put(&mut claims, "c", &["1:2"]), "nothing changed");
        assert!(put(&mut claims, "a", &["1:1"]));
        assert_eq!(told(&claims), ["lds `c` has the address 1:2 of `b`"]);
        assert!(put(&mut claims, "c", &[]));
        assert_eq!(told(&claims), [""; 0]);
        assert!(!put(&mut claims, "xdstp://x/envoy.config.listener.v3.Listener/d", &["1:1"]));
    }
}
