//! The endpoint of a call: priorities, localities, hashes, drops, aggregates and names of DNS.

use super::backends::{Backends, NAMES};
use super::resources::Service;
use super::{Batch, UNAVAILABLE, with_mesh};

fn to(cluster: &str) -> String {
    format!("[{{match: {{prefix: /}}, route: {{cluster: {cluster}}}}}]")
}

fn services(backends: &Backends) -> Vec<Service> {
    let [a, b, c, d] = NAMES.map(|name| backends.port(name));
    let nobody = backends.nobody.number();
    let hash = "lb_policy: RING_HASH\n  ring_hash_lb_config: {minimum_ring_size: 1024}";
    let hashed =
        "[{match: {prefix: /}, route: {cluster: hash, hash_policy: [{header: {header_name: k}}]}}]";
    let drops = "policy: {drop_overloads: [{category: x, drop_percentage: {numerator: 30}}]}";
    vec![
        Service::new("best", &to("best")).cluster("best", "").endpoints(
            "best",
            &[(0, 1, &[a]), (1, 1, &[b])],
            "",
        ),
        Service::new("failover", &to("failover")).cluster("failover", "").endpoints(
            "failover",
            &[(0, 1, &[nobody]), (1, 1, &[c])],
            "",
        ),
        Service::new("localities", &to("localities")).cluster("localities", "").endpoints(
            "localities",
            &[(0, 3, &[a]), (0, 1, &[b])],
            "",
        ),
        Service::new("hash", hashed).cluster("hash", hash).endpoints(
            "hash",
            &[(0, 1, &[a, b, c, d])],
            "",
        ),
        Service::new("drops", &to("drops")).cluster("drops", "").endpoints(
            "drops",
            &[(0, 1, &[a])],
            drops,
        ),
        Service::new("aggregate", &to("aggregate"))
            .aggregate("aggregate", "[aggregate-empty, aggregate-dns]")
            .cluster("aggregate-empty", "")
            .endpoints("aggregate-empty", &[], "")
            .dns("aggregate-dns", "localhost", d),
        Service::new("empty", &to("empty")).cluster("empty", "").endpoints("empty", &[], ""),
    ]
}

/// C-110, C-111, C-114, C-118, C-119: the same endpoints, and the same parts of the calls.
#[test]
fn calls_go_to_the_same_endpoints() {
    with_mesh(services, |mesh, _| {
        for (service, expected) in [
            ("best", Ok("a")),
            ("failover", Ok("c")),
            ("aggregate", Ok("d")),
            ("empty", Err(UNAVAILABLE)),
        ] {
            mesh.agree(Batch::one(service, "/t/echo"), expected);
        }
        mesh.share(Batch::one("best", "/t/echo").times(20), "a", 1.0);
        mesh.share(Batch::one("localities", "/t/echo").times(400), "a", 0.75);
        mesh.share(Batch::one("drops", "/t/echo").times(400), "14", 0.3);
    });
}

/// C-104, C-114: a key has its endpoint, and it is the same one in every implementation.
#[test]
fn a_key_has_the_same_endpoint_everywhere() {
    with_mesh(services, |mesh, _| {
        let mut places = std::collections::BTreeMap::<_, usize>::new();
        for number in 0..40 {
            let key = format!("key-{number}");
            let metadata = [("k", &*key)];
            let ended = mesh.calls(Batch::one("hash", "/t/echo").with(&metadata));
            let ours = ended[0].1[0].backend().map(str::to_owned);
            for (client, outcomes) in &ended {
                assert_eq!(
                    outcomes[0].backend().map(str::to_owned),
                    ours,
                    "{client} {key}: {outcomes:?}"
                );
            }
            *places.entry(ours.expect("an answer")).or_default() += 1;
        }
        assert_eq!(places.len(), NAMES.len(), "{places:?}");
    });
}
