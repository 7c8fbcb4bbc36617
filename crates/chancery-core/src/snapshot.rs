//! Snapshots: immutable sets of resources, one for each audience, that share what did not change.
//!
//! A [`Snapshot`] has the resources that one audience should see. Cloning it is cheap, and editing
//! the clone leaves the original as it was, because the maps are persistent. A [`ResourceSet`] has
//! the resources of one type; its version and its difference to another set cost O(changed).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock};

use imbl::ordmap::DiffItem;
use imbl::{OrdMap, OrdSet};

use crate::step::Memo;
use crate::{Resource, ResourceName, TypeUrl, Version};

/// The resources that one audience should see, by type.
#[derive(Clone, Default, PartialEq)]
pub struct Snapshot {
    sets: OrdMap<TypeUrl, Arc<ResourceSet>>,
}

/// The resources of one type in one snapshot.
#[derive(Clone, Default)]
pub struct ResourceSet {
    entries: OrdMap<ResourceName, Arc<Resource>>,
    /// The further keys of resources, and the names they lead to: aliases, and for virtual hosts
    /// `<route configuration>/<domain>`.
    keys: OrdMap<Arc<str>, ResourceName>,
    /// The names of resources with a TTL, which have to be refreshed.
    timed: OrdSet<ResourceName>,
    digest: u128,
    explicit: Option<Arc<str>>,
    pending: Pending,
    /// The set that this one was written over.
    below: Option<Arc<Self>>,
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

impl Snapshot {
    /// An empty snapshot.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a resource, or replaces the one of that name.
    pub fn insert(&mut self, type_url: &TypeUrl, resource: impl Into<Arc<Resource>>) {
        // A set that nobody shares is edited where it is.
        let set = self.sets.entry(type_url.clone()).or_default();
        Arc::make_mut(set).insert(resource.into());
    }

    /// Removes a resource. The type goes with its last resource.
    pub fn remove(&mut self, type_url: &TypeUrl, name: &ResourceName) {
        let Some(set) = self.sets.get_mut(type_url) else { return };
        let set = Arc::make_mut(set);
        set.remove(name);
        if set.is_void() {
            self.sets.remove(type_url);
        }
    }

    /// Replaces all resources by these. Sets and resources that did not change stay shared.
    pub fn replace(&mut self, wanted: impl IntoIterator<Item = (TypeUrl, Arc<Resource>)>) {
        let mut sets: std::collections::BTreeMap<TypeUrl, Vec<Arc<Resource>>> =
            self.sets.keys().map(|type_url| (type_url.clone(), Vec::new())).collect();
        for (type_url, resource) in wanted {
            sets.entry(type_url).or_default().push(resource);
        }
        for (type_url, wanted) in sets {
            let before = Arc::clone(self.set(&type_url));
            let after = before.replaced(wanted);
            if after.is_void() {
                self.sets.remove(&type_url);
            } else if after.entries != before.entries {
                self.sets.insert(type_url, Arc::new(after));
            }
        }
    }

    /// States the version of a type instead of deriving it. The caller promises that it changes
    /// exactly when the type's content does; the next edit of the type forgets it.
    pub fn set_version(&mut self, type_url: &TypeUrl, version: &str) {
        let mut set = (**self.set(type_url)).clone();
        set.explicit = Some(version.into());
        self.sets.insert(type_url.clone(), Arc::new(set));
    }

    /// States which names of a type are pending; edits of the type leave that as it is.
    pub fn set_pending(&mut self, type_url: &TypeUrl, pending: Pending) {
        let mut set = (**self.set(type_url)).clone();
        set.pending = pending;
        if set.is_void() {
            self.sets.remove(type_url);
        } else {
            self.sets.insert(type_url.clone(), Arc::new(set));
        }
    }

    /// States that this was made by writing a few resources over another snapshot. Nothing in it
    /// changes; responses share the memory, and the work, of what both have in common.
    pub fn written_over(&mut self, below: &Self) {
        let types: Vec<TypeUrl> = self.sets.keys().cloned().collect();
        for type_url in types {
            let under = below.set(&type_url);
            let Some(set) = self.sets.get_mut(&type_url) else { continue };
            if !under.is_empty() && !Arc::ptr_eq(set, under) {
                Arc::make_mut(set).below = Some(Arc::clone(under));
            }
        }
    }

    /// Takes over the sets of an earlier snapshot that hold the same, so that streams see at once
    /// that nothing changed. Returns true if those are all.
    pub fn keep_same(&mut self, before: &Self) -> bool {
        let types: Vec<TypeUrl> = self.sets.keys().cloned().collect();
        let mut all = types.len() == before.sets.len();
        for type_url in types {
            let Some(set) = self.sets.get_mut(&type_url) else { continue };
            match before.sets.get(&type_url).filter(|before| set.is_same(before)) {
                Some(before) => *set = Arc::clone(before),
                None => all = false,
            }
        }
        all
    }

    /// The resources of one type.
    pub fn set(&self, type_url: &TypeUrl) -> &Arc<ResourceSet> {
        self.sets.get(type_url).unwrap_or_else(|| ResourceSet::empty())
    }

    /// The types with resources or a stated version, in sending order.
    pub fn types(&self) -> impl Iterator<Item = &TypeUrl> {
        self.sets.keys()
    }

    /// The number of resources of all types.
    pub fn len(&self) -> usize {
        self.sets.values().map(|set| set.len()).sum()
    }

    /// Returns true if there are no resources.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
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
    fn is_same(&self, other: &Self) -> bool {
        self.digest == other.digest
            && self.explicit == other.explicit
            && self.pending == other.pending
            && self.diff(other).next().is_none()
    }

    /// Returns true if the set has no resources, no stated version and no pending names.
    fn is_void(&self) -> bool {
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

    fn insert(&mut self, resource: Arc<Resource>) {
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

    fn remove(&mut self, name: &ResourceName) {
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

    fn replaced(&self, wanted: Vec<Arc<Resource>>) -> Self {
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

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.sets.iter()).finish()
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
    use crate::Facts;

    fn cds() -> TypeUrl {
        TypeUrl::new("envoy.config.cluster.v3.Cluster")
    }

    fn resource(name: &str, body: &str) -> Resource {
        Resource::new(name.parse().unwrap(), Bytes::copy_from_slice(body.as_bytes()))
    }

    fn snapshot(resources: &[(&str, &str)]) -> Snapshot {
        let mut snapshot = Snapshot::new();
        for (name, body) in resources {
            snapshot.insert(&cds(), resource(name, body));
        }
        snapshot
    }

    #[test]
    fn the_version_of_a_type_depends_on_content_and_not_on_history() {
        // S-031, T-22, T-23: equal content, equal versions, on every replica and after every restart;
        // no counter can coincide
        let one = snapshot(&[("a", "1"), ("b", "1")]);
        let mut other = snapshot(&[("b", "2"), ("c", "1"), ("a", "1"), ("b", "1")]);
        assert_ne!(one.set(&cds()).version(), other.set(&cds()).version());
        other.remove(&cds(), &"c".parse().unwrap());
        assert_eq!(one.set(&cds()).version(), other.set(&cds()).version());
        assert_ne!(
            snapshot(&[("a", "1"), ("b", "2")]).set(&cds()).version(),
            snapshot(&[("a", "2"), ("b", "1")]).set(&cds()).version()
        );
    }

    #[test]
    fn a_type_goes_with_its_last_resource() {
        let mut snapshot = snapshot(&[("a", "1")]);
        snapshot.remove(&cds(), &"a".parse().unwrap());
        snapshot.remove(&cds(), &"a".parse().unwrap());
        assert_eq!(snapshot, Snapshot::new());
    }

    #[test]
    fn a_stated_version_lasts_until_the_next_edit() {
        let mut snapshot = snapshot(&[("a", "1")]);
        snapshot.set_version(&cds(), "v1");
        assert_eq!(snapshot.set(&cds()).version().to_string(), "v1");
        snapshot.insert(&cds(), resource("a", "2"));
        assert_ne!(snapshot.set(&cds()).version().to_string(), "v1");
    }

    #[test]
    fn an_edit_of_a_clone_leaves_the_original_alone() {
        let before = snapshot(&[("a", "1"), ("b", "1")]);
        let mut after = before.clone();
        after.insert(&cds(), resource("b", "2"));
        after.remove(&cds(), &"a".parse().unwrap());
        let changes: Vec<_> = before.set(&cds()).diff(after.set(&cds())).collect();
        let names: Vec<_> = changes.iter().map(|change| change.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(changes[0].new.is_none());
        assert_eq!(before.set(&cds()).len(), 2);
    }

    #[test]
    fn replacing_by_the_same_content_changes_nothing() {
        let before = snapshot(&[("a", "1"), ("b", "1")]);
        let mut after = before.clone();
        let again = ["b", "a"].map(|name| (cds(), Arc::new(resource(name, "1"))));
        after.replace(again);
        assert!(Arc::ptr_eq(before.set(&cds()), after.set(&cds())));
        after.replace([(cds(), Arc::new(resource("a", "1")))]);
        assert_eq!(after, snapshot(&[("a", "1")]));
        after.replace([]);
        assert!(after.is_empty());
        assert_eq!(after.types().count(), 0);
    }

    #[test]
    fn replacing_brings_what_is_new_and_what_is_other() {
        let mut snapshot = snapshot(&[("a", "1"), ("b", "1")]);
        let wanted = [("a", "2"), ("c", "1")].map(|(name, body)| (cds(), resource(name, body)));
        snapshot.replace(wanted.map(|(type_url, resource)| (type_url, Arc::new(resource))));
        assert_eq!(snapshot.len(), 2);
        assert!(!snapshot.is_empty());
        let body = |name| snapshot.set(&cds()).get(name).map(|found| found.body().clone());
        assert_eq!(body("a").unwrap(), "2");
        assert_eq!(body("b"), None);
        assert_eq!(body("c").unwrap(), "1");
    }

    #[test]
    fn sets_that_hold_the_same_are_kept() {
        let before = snapshot(&[("a", "1"), ("b", "1")]);
        let mut again = snapshot(&[("a", "1"), ("b", "1")]);
        again.written_over(&snapshot(&[("a", "1")]));
        assert!(again.keep_same(&before));
        assert!(Arc::ptr_eq(again.set(&cds()), before.set(&cds())));
        let mut other = snapshot(&[("a", "1"), ("b", "2")]);
        assert!(!other.keep_same(&before));
        assert!(!Snapshot::new().keep_same(&before));
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
