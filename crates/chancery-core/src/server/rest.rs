//! REST polling: each request stands alone (S-022, [REST-JSON polling]), so that this is a function
//! and no machine.
//!
//! [REST-JSON polling]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#rest-json-polling-subscriptions

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::server::subscription::empty_means_everything;
use crate::server::{Entries, Segment, Settings, Violation};
use crate::{
    Api, Pending, Resource, ResourceName, ResourceSet, Snapshot, SotwRequest, TypeUrl, Version,
};

/// The answer to one poll.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// The client is current. The driver holds the request, or answers 304 (S-020, [REST
    /// endpoints](https://www.envoyproxy.io/docs/envoy/latest/configuration/overview/xds_api#rest-endpoints)).
    Unchanged,
    /// The source does not know yet whether something that the client asked for exists. The driver
    /// holds the request, and gives the inner answer when it cannot hold it any longer.
    Pending(Box<Self>),
    /// A resource that the client asked for holds a secret in one of its fields, and the client may
    /// have none (S-137). The driver refuses it.
    Withheld(Violation),
    /// The client is not current.
    Data {
        /// The `version_info` of the answer.
        version: Arc<str>,
        /// The resources that the client asked for, as far as they exist, each under its own name. All
        /// who ask for everything share the list.
        resources: Entries,
    },
}

/// Answers one poll for one type.
///
/// The version is made of the resources that the client asked for, and not of the whole type, so
/// that a change elsewhere does not make the client fetch what it has.
pub fn answer(
    snapshot: &Snapshot,
    type_url: &TypeUrl,
    request: &SotwRequest,
    settings: &Settings,
) -> Answer {
    let withheld = type_url.api() == Api::Sds && !settings.secrets_allowed;
    let set = if withheld { &Arc::default() } else { snapshot.set(type_url) };
    let everything = if request.names.is_empty() {
        empty_means_everything(type_url, settings)
    } else {
        request.names.contains("*")
    };
    let named = if everything { Vec::new() } else { named(set, request) };
    let is_stranger = !settings.secrets_allowed;
    if let Some(resource) = is_stranger.then(|| secret(set, &named, everything)).flatten() {
        let (type_url, name) = (type_url.clone(), resource.name().shared());
        return Answer::Withheld(Violation::Withheld { type_url, name });
    }
    let version = version_of(set, &named, everything);
    let answer = if !request.version.is_empty() && version.matches(&request.version) {
        Answer::Unchanged
    } else {
        let named = || named.into_iter().map(Segment::Resource).collect::<Vec<_>>();
        let resources = if everything { set.whole().clone() } else { named().into() };
        Answer::Data { version: version.to_string().into(), resources }
    };
    if is_pending(set, request, everything) { Answer::Pending(Box::new(answer)) } else { answer }
}

/// Returns true if the source does not know yet whether something that was asked for exists.
fn is_pending(set: &ResourceSet, request: &SotwRequest, everything: bool) -> bool {
    if everything || *set.pending() == Pending::Nothing {
        return *set.pending() != Pending::Nothing;
    }
    let mut names = request.names.iter().filter_map(|name| ResourceName::parse(name).ok());
    names.any(|name| set.is_pending(name.as_str()))
}

/// The first resource that was asked for and holds a secret. A set without any is not searched.
fn secret<'a>(
    set: &'a ResourceSet,
    named: &'a [Arc<Resource>],
    everything: bool,
) -> Option<&'a Arc<Resource>> {
    let is_secret = |resource: &&Arc<Resource>| resource.facts().sensitive;
    match everything {
        true => set.may_be_sensitive().then(|| set.iter().find(is_secret)).flatten(),
        false => named.iter().find(is_secret),
    }
}

/// The resources that were asked for by name, each once even if it was named twice (S-060).
fn named(set: &ResourceSet, request: &SotwRequest) -> Vec<Arc<Resource>> {
    let names = request.names.iter().filter_map(|name| ResourceName::parse(name).ok());
    let found = names.filter_map(|name| set.get_aliased(name.as_str()).cloned());
    let unique: BTreeMap<_, _> = found.map(|one| (one.name().clone(), one)).collect();
    unique.into_values().collect()
}

fn version_of(set: &ResourceSet, resources: &[Arc<Resource>], everything: bool) -> Version {
    match set.version() {
        explicit @ Version::Explicit(_) => explicit,
        whole @ Version::Content(_) if everything => whole,
        Version::Content(_) => Version::Content(
            resources.iter().fold(0, |sum, one| sum.wrapping_add(one.share_of_type_version())),
        ),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn snapshot(resources: &[(&str, &str)]) -> Snapshot {
        let mut snapshot = Snapshot::new();
        for (name, body) in resources {
            let body = Bytes::copy_from_slice(body.as_bytes());
            for type_url in [cds(), eds()] {
                snapshot.insert(&type_url, Resource::new(name.parse().unwrap(), body.clone()));
            }
        }
        snapshot
    }

    fn cds() -> TypeUrl {
        TypeUrl::new("envoy.config.cluster.v3.Cluster")
    }

    fn eds() -> TypeUrl {
        TypeUrl::new("envoy.config.endpoint.v3.ClusterLoadAssignment")
    }

    fn poll(snapshot: &Snapshot, type_url: &TypeUrl, names: &[&str], version: &str) -> Answer {
        let names = names.iter().collect();
        let request = SotwRequest { names, version: version.into(), ..SotwRequest::default() };
        answer(snapshot, type_url, &request, &Settings::default())
    }

    fn data(answer: Answer) -> (String, Vec<String>) {
        let Answer::Data { version, resources } = answer else { panic!("unchanged") };
        let names = resources.iter().map(|entry| entry.name.to_string()).collect();
        (version.to_string(), names)
    }

    #[test]
    fn a_poll_for_what_is_pending_is_to_be_held() {
        // S-021
        let mut snapshot = snapshot(&[("a", "1")]);
        let names = |name: &str| Pending::Names(Arc::new([name.parse().unwrap()].into()));
        snapshot.set_pending(&cds(), names("b"));
        assert!(matches!(poll(&snapshot, &cds(), &["a"], ""), Answer::Data { .. }));
        for asked in [&["a", "b"][..], &[]] {
            let Answer::Pending(then) = poll(&snapshot, &cds(), asked, "") else {
                panic!("{asked:?} is answered")
            };
            assert_eq!(data(*then).1, ["a"]);
        }
        snapshot.set_pending(&cds(), Pending::Nothing);
        assert!(matches!(poll(&snapshot, &cds(), &[], ""), Answer::Data { .. }));
    }

    #[test]
    fn a_poller_that_is_current_is_sent_nothing() {
        // S-020, S-022: no nonce, no session, only node, names and version
        let snapshot = snapshot(&[("a", "1"), ("b", "1")]);
        let (version, names) = data(poll(&snapshot, &cds(), &[], ""));
        assert_eq!(names, ["a", "b"]);
        assert_eq!(poll(&snapshot, &cds(), &[], &version), Answer::Unchanged);
    }

    #[test]
    fn a_change_elsewhere_is_no_change_for_a_poller_of_names() {
        // S-020, S-030
        let before = snapshot(&[("a", "1"), ("b", "1")]);
        let (version, names) = data(poll(&before, &eds(), &["a"], ""));
        assert_eq!(names, ["a"]);
        let elsewhere = snapshot(&[("a", "1"), ("b", "2")]);
        assert_eq!(poll(&elsewhere, &eds(), &["a"], &version), Answer::Unchanged);
        let here = snapshot(&[("a", "2"), ("b", "1")]);
        assert_ne!(data(poll(&here, &eds(), &["a"], &version)).0, version);
        assert_eq!(data(poll(&before, &eds(), &["a", "b", "a"], &version)).1, ["a", "b"]);
    }

    #[test]
    fn an_empty_list_means_everything_only_where_the_type_says_so() {
        // S-053
        let snapshot = snapshot(&[("a", "1")]);
        assert!(data(poll(&snapshot, &eds(), &[], "")).1.is_empty());
        assert_eq!(data(poll(&snapshot, &eds(), &["*"], "")).1, ["a"]);
    }

    #[test]
    fn a_missing_name_is_left_out() {
        // S-066
        let snapshot = snapshot(&[("a", "1")]);
        let (version, names) = data(poll(&snapshot, &eds(), &["a", "nope"], ""));
        assert_eq!(names, ["a"]);
        assert_eq!(poll(&snapshot, &eds(), &["a", "nope"], &version), Answer::Unchanged);
    }

    #[test]
    fn secrets_are_withheld_from_peers_that_must_not_have_them() {
        // S-137
        let sds = TypeUrl::new("envoy.extensions.transport_sockets.tls.v3.Secret");
        let mut snapshot = Snapshot::new();
        snapshot.insert(&sds, Resource::new("s".parse().unwrap(), Bytes::from_static(b"key")));
        let request = SotwRequest { names: ["s"].iter().collect(), ..SotwRequest::default() };
        let settings = Settings { secrets_allowed: false, ..Settings::default() };
        assert!(data(answer(&snapshot, &sds, &request, &settings)).1.is_empty());
        assert_eq!(data(answer(&snapshot, &sds, &request, &Settings::default())).1, ["s"]);
    }

    #[test]
    fn a_poll_for_a_cluster_with_a_secret_is_refused_to_a_stranger() {
        // S-137, S-056: to leave it out would delete it
        let mut snapshot = snapshot(&[("a", "1")]);
        let facts = crate::Facts { sensitive: true, ..crate::Facts::default() };
        let secret = Resource::new("s".parse().unwrap(), Bytes::from_static(b"key"));
        snapshot.insert(&cds(), secret.with_facts(facts));
        let settings = Settings { secrets_allowed: false, ..Settings::default() };
        let poll = |names: &[&str]| {
            let request = SotwRequest { names: names.iter().collect(), ..SotwRequest::default() };
            answer(&snapshot, &cds(), &request, &settings)
        };
        for asked in [&["s"][..], &["a", "s"], &["*"], &[]] {
            let Answer::Withheld(why) = poll(asked) else { panic!("{asked:?} is answered") };
            assert!(why.is_denied());
            assert!(why.to_string().contains("`s`") && why.to_string().contains("anywhere"));
        }
        assert_eq!(data(poll(&["a"])).1, ["a"]);
    }
}
