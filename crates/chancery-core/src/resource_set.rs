//! The resources of one type in one snapshot.
//!
//! The maps of a [`ResourceSet`] are persistent: a clone is cheap, an edit of the clone leaves the
//! original as it was, and the difference of two sets costs O(changed).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock};

use imbl::ordmap::DiffItem;
use imbl::{OrdMap, OrdSet};

use crate::step::Memo;
use crate::{Resource, ResourceName, Version};

/// The resources of one type in one snapshot.
#[derive(Clone, Default)]
pub struct ResourceSet {
    pub(crate) entries: OrdMap<ResourceName, Arc<Resource>>,
    /// The further keys of resources, and the names they lead to: aliases, and for virtual hosts
    /// `<route configuration>/<domain>`.
    keys: OrdMap<Arc<str>, ResourceName>,
    /// The names of resources with a TTL, which have to be refreshed.
    timed: OrdSet<ResourceName>,
    digest: u128,
    pub(crate) explicit: Option<Arc<str>>,
    pub(crate) pending: Pending,
    /// The set that this one was written over.
    pub(crate) below: Option<Arc<Self>>,
    pub(crate) memo: Memo,
}

/// The names of a type that are pending: the source does not know yet whether there are resources
/// of these names.
///
/// A resource is present, absent, or pending. A name that is absent is answered at once. A name
/// that is pending is waited for, with a bound
/// ([`server::Settings::source_wait`](crate::server::Settings)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pending {
    /// No name is pending: every name without a resource is absent.
    #[default]
    Nothing,
    /// These names are pending, as far as they have no resource.
    Names(Arc<BTreeSet<ResourceName>>),
    /// Every name without a resource is pending.
    Everything,
}

/// One name whose resource differs between two sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The name that changed.
    pub name: ResourceName,
    /// The resource before.
    pub old: Option<Arc<Resource>>,
    /// The resource now.
    pub new: Option<Arc<Resource>>,
}

impl ResourceSet {
    /// The empty set. There is one for all, so that all streams that start with it are in the same
    /// state.
    pub(crate) fn empty() -> &'static Arc<Self> {
        static EMPTY: LazyLock<Arc<ResourceSet>> = LazyLock::new(Arc::default);
        &EMPTY
    }

    /// The names that are pending.
    pub fn pending(&self) -> &Pending {
        &self.pending
    }

    /// Returns true if there is no resource of that name or alias, and the source does not know yet
    /// whether there is one.
    pub fn is_pending(&self, name: &str) -> bool {
        let named = match &self.pending {
            Pending::Nothing => false,
            Pending::Names(names) => names.contains(name),
            Pending::Everything => true,
        };
        named && self.get_aliased(name).is_none()
    }

    /// Returns true if another set holds the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.digest == other.digest
            && self.explicit == other.explicit
            && self.pending == other.pending
            && self.diff(other).next().is_none()
    }

    /// Returns true if the set has no resources, no stated version and no pending names.
    pub(crate) fn is_void(&self) -> bool {
        self.is_empty() && self.explicit.is_none() && self.pending == Pending::Nothing
    }

    /// The resource of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Resource>> {
        self.entries.get(name)
    }

    /// The resource of that name or alias.
    pub fn get_aliased(&self, name: &str) -> Option<&Arc<Resource>> {
        self.get(name).or_else(|| self.keys.get(name).and_then(|name| self.entries.get(name)))
    }

    /// The virtual host that `<route configuration>/<host>` means. A domain that equals the host
    /// comes first, then the longest suffix wildcard, then the longest prefix wildcard, then `*`
    /// (S-092,
    /// [VHDS](https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/vhds)).
    pub fn get_host(&self, asked: &str) -> Option<&Arc<Resource>> {
        if let Some(found) = self.get_aliased(asked) {
            return Some(found);
        }
        let (route, host) = asked.rsplit_once('/')?;
        let host = host.to_ascii_lowercase();
        let splits: Vec<usize> = host.char_indices().skip(1).map(|(at, _)| at).collect();
        let suffixes = splits.iter().map(|&at| format!("{route}/*{}", &host[at..]));
        let prefixes = splits.iter().rev().map(|&at| format!("{route}/{}*", &host[..at]));
        std::iter::once(format!("{route}/{host}"))
            .chain(suffixes)
            .chain(prefixes)
            .chain(std::iter::once(format!("{route}/*")))
            .find_map(|key| self.keys.get(key.as_str()))
            .and_then(|name| self.entries.get(name))
    }

    /// The members of a glob collection (S-117, [xRFC
    /// TP1](https://github.com/cncf/xds/blob/main/proposals/TP1-xds-transport-next.md)).
    pub fn members<'a>(
        &'a self,
        glob: &'a ResourceName,
    ) -> impl Iterator<Item = &'a Arc<Resource>> {
        let prefix = glob.glob_prefix().unwrap_or("\u{10ffff}");
        self.entries
            .range::<_, str>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded))
            .take_while(move |(name, _)| name.as_str().starts_with(prefix))
            .filter(move |(name, _)| name.collection().as_ref() == Some(glob))
            .map(|(_, resource)| resource)
    }

    /// The resources whose names start with `prefix`.
    pub fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.entries
            .range::<_, str>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded))
            .take_while(move |(name, _)| name.as_str().starts_with(prefix))
            .map(|(_, resource)| resource)
    }

    /// All resources, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.entries.values()
    }

    /// The number of resources.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there are no resources.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The version of the type: a commutative combination of the names and versions of its
    /// resources (S-031), or the text that a library user stated.
    pub fn version(&self) -> Version {
        match &self.explicit {
            Some(text) => Version::Explicit(Arc::clone(text)),
            None => Version::Content(self.digest),
        }
    }

    /// The changes from `self` to `newer`, by name, in O(changed) for sets that share structure.
    pub fn diff<'a>(&'a self, newer: &'a Self) -> impl Iterator<Item = Change> + 'a {
        self.entries.diff(&newer.entries).map(|item| match item {
            DiffItem::Add(name, new) => {
                Change { name: name.clone(), old: None, new: Some(Arc::clone(new)) }
            }
            DiffItem::Update { old: (name, old), new: (_, new) } => Change {
                name: name.clone(),
                old: Some(Arc::clone(old)),
                new: Some(Arc::clone(new)),
            },
            DiffItem::Remove(name, old) => {
                Change { name: name.clone(), old: Some(Arc::clone(old)), new: None }
            }
        })
    }

    /// Returns true if every resource is found under its own name only.
    pub fn is_plain(&self) -> bool {
        self.keys.is_empty()
    }

    /// The set that this one was written over.
    pub(crate) fn below(&self) -> Option<&Arc<Self>> {
        self.below.as_ref()
    }

    /// The resources with a TTL.
    pub(crate) fn timed(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.timed.iter().filter_map(|name| self.entries.get(name))
    }

    pub(crate) fn insert(&mut self, resource: Arc<Resource>) {
        self.remove(resource.name());
        self.digest = self.digest.wrapping_add(resource.share_of_type_version());
        for key in keys_of(&resource) {
            self.keys.insert(key, resource.name().clone());
        }
        if resource.ttl().is_some() {
            self.timed.insert(resource.name().clone());
        }
        self.entries.insert(resource.name().clone(), resource);
    }

    pub(crate) fn remove(&mut self, name: &ResourceName) {
        self.explicit = None;
        let Some(old) = self.entries.remove(name) else { return };
        self.timed.remove(name);
        self.digest = self.digest.wrapping_sub(old.share_of_type_version());
        for key in keys_of(&old) {
            if self.keys.get(&key) == Some(name) {
                self.keys.remove(&key);
            }
        }
    }

    pub(crate) fn replaced(&self, wanted: Vec<Arc<Resource>>) -> Self {
        let mut after = self.clone();
        let names: BTreeSet<_> = wanted.iter().map(|resource| resource.name().clone()).collect();
        for gone in self.entries.keys().filter(|name| !names.contains(*name)) {
            after.remove(gone);
        }
        for resource in wanted {
            if self.entries.get(resource.name()) != Some(&resource) {
                after.insert(resource);
            }
        }
        after
    }
}

impl PartialEq for ResourceSet {
    fn eq(&self, other: &Self) -> bool {
        self.explicit == other.explicit
            && self.pending == other.pending
            && self.entries == other.entries
    }
}

impl fmt::Debug for ResourceSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The further names a resource is found under: its aliases, and the hosts of a virtual host.
fn keys_of(resource: &Resource) -> impl Iterator<Item = Arc<str>> {
    let aliases = resource.aliases().iter().map(ResourceName::shared);
    let route = resource.name().as_str().rsplit_once('/').map_or("", |(route, _)| route);
    let hosts = resource.facts().hosts.iter();
    let hosts = hosts.map(move |host| format!("{route}/{}", host.to_ascii_lowercase()).into());
    aliases.chain(hosts)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::{Facts, Snapshot, TypeUrl};

    fn cds() -> TypeUrl {
        TypeUrl::new("envoy.config.cluster.v3.Cluster")
    }

    fn resource(name: &str, body: &str) -> Resource {
        Resource::new(name.parse().unwrap(), Bytes::copy_from_slice(body.as_bytes()))
    }

    #[test]
    fn a_resource_is_found_by_its_aliases_until_it_goes() {
        // S-091
        let mut snapshot = Snapshot::new();
        let aliased = resource("a", "1").with_aliases(vec!["also".parse().unwrap()]);
        snapshot.insert(&cds(), aliased.with_ttl(Some(Duration::from_secs(1))));
        assert!(snapshot.set(&cds()).get_aliased("also").is_some());
        snapshot.insert(&cds(), resource("a", "1"));
        assert!(snapshot.set(&cds()).get_aliased("also").is_none());
    }

    #[test]
    fn a_host_finds_the_closest_of_the_matching_domains() {
        // S-092: split at the last slash; exact, longest suffix, longest prefix, `*`
        let host = |name: &str, hosts: &[&str]| {
            let hosts = hosts.iter().map(|host| Box::from(*host)).collect();
            resource(name, "1").with_facts(Facts { hosts, ..Facts::default() })
        };
        let mut snapshot = Snapshot::new();
        snapshot.insert(&cds(), host("team/a/rc/exact", &["www.x.com"]));
        snapshot.insert(&cds(), host("team/a/rc/suffix", &["*.x.com", "*-b.x.com"]));
        snapshot.insert(&cds(), host("team/a/rc/short", &["*.com"]));
        snapshot.insert(&cds(), host("team/a/rc/prefix", &["www.*"]));
        snapshot.insert(&cds(), host("team/a/rc/any", &["*"]));
        snapshot.insert(&cds(), host("other/exact", &["www.y.com"]));
        let set = snapshot.set(&cds());
        let found = |asked: &str| set.get_host(asked).map(|found| found.name().to_string());
        assert_eq!(found("team/a/rc/www.x.com").unwrap(), "team/a/rc/exact");
        assert_eq!(found("team/a/rc/WWW.X.com").unwrap(), "team/a/rc/exact");
        assert_eq!(found("team/a/rc/foo.x.com").unwrap(), "team/a/rc/suffix");
        assert_eq!(found("team/a/rc/a-b.x.com").unwrap(), "team/a/rc/suffix");
        assert_eq!(found("team/a/rc/foo.com").unwrap(), "team/a/rc/short");
        assert_eq!(found("team/a/rc/www.org").unwrap(), "team/a/rc/prefix");
        assert_eq!(found("team/a/rc/z.org").unwrap(), "team/a/rc/any");
        assert_eq!(found("other/z.org"), None);
        assert_eq!(found("nowhere/www.x.com"), None);
    }

    #[test]
    fn the_members_of_a_glob_are_its_own() {
        // S-117
        let names = ["edge/a", "edge/b", "edge/deep/c", "edgy/d", "edge/e?x=1"];
        let mut snapshot = Snapshot::new();
        for name in names {
            snapshot.insert(&cds(), resource(&format!("xdstp://auth/T/{name}"), "1"));
        }
        let glob: ResourceName = "xdstp://auth/T/edge/*".parse().unwrap();
        let members: Vec<_> =
            snapshot.set(&cds()).members(&glob).map(|member| member.name().to_string()).collect();
        assert_eq!(members, ["xdstp://auth/T/edge/a", "xdstp://auth/T/edge/b"]);
        assert_eq!(snapshot.set(&cds()).members(&"a".parse().unwrap()).count(), 0);
    }
}
