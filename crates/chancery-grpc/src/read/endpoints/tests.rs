//! Endpoints that are taken and rejected, and what an update of them keeps.

use serde_json::{Value, json};

use chancery_calls::Dice;
use chancery_calls::SeededDice;
use chancery_calls::balancing::{PolicyConfig, PriorityNames};

use super::*;
use crate::read::support::{any, fault_of, parsed, read};

fn address(host: &str, port: u32) -> Value {
    json!({"socketAddress": {"address": host, "portValue": port}})
}

fn endpoint(port: u32) -> Value {
    json!({"endpoint": {"address": address("127.0.0.1", port)}})
}

fn locality(zone: &str, priority: u32, endpoints: &[Value]) -> Value {
    json!({"locality": {"zone": zone}, "loadBalancingWeight": 1, "priority": priority,
        "lbEndpoints": endpoints})
}

fn of(localities: &[Value]) -> Endpoints {
    read::<Endpoints>(&json!({"endpoints": localities})).unwrap()
}

fn fault(localities: &[Value]) -> String {
    fault_of::<Endpoints>(&json!({"endpoints": localities}))
}

/// Returns the reason for which an endpoint is rejected, from its own path on.
fn fault_in(endpoint: Value) -> String {
    let fault = fault(&[locality("a", 0, &[endpoint])]);
    let path = "endpoints[0].lb_endpoints[0].";
    fault.strip_prefix(path).unwrap_or_else(|| panic!("{fault:?}")).to_owned()
}

/// A copy of a message with another value of a field.
fn with(message: &Value, field: &str, value: Value) -> Value {
    let mut message = message.clone();
    message[field] = value;
    message
}

#[test]
fn localities_have_a_name_and_are_there_once_in_a_priority() {
    // C-108
    let twice = [locality("a", 0, &[]), locality("a", 0, &[])];
    assert_eq!(fault(&twice), "endpoints[1].locality: priority 0 has `/a/` twice");
    let nameless = with(&locality("a", 0, &[]), "locality", Value::Null);
    assert_eq!(fault(&[nameless]), "endpoints[0].locality: it must be set");
    assert_eq!(of(&[locality("a", 0, &[]), locality("a", 1, &[])]).assignment.localities.len(), 2);
}

#[test]
fn a_locality_without_a_weight_is_skipped() {
    // C-108
    let weightless = with(&locality("a", 0, &[endpoint(1)]), "loadBalancingWeight", Value::Null);
    let read = of(&[weightless, locality("b", 0, &[endpoint(1)])]);
    let left_out = |read: &Endpoints| read.left_out().map(|it| it.to_string());
    let text = "1 locality has no `load_balancing_weight`";
    assert_eq!(left_out(&read).as_deref(), Some(text));
    assert_eq!(read.assignment.localities.len(), 1);
    assert_eq!(left_out(&of(&[locality("b", 0, &[endpoint(1)])])), None);
    let health = |port, health| with(&endpoint(port), "healthStatus", json!(health));
    let sick = (1..=6).map(|port| health(port, "UNHEALTHY")).chain([health(7, "DRAINING")]);
    let read = of(&[locality("b", 0, &sick.collect::<Vec<_>>())]);
    let text = "127.0.0.1:1, 127.0.0.1:2, 127.0.0.1:3, 127.0.0.1:4, 2 more are not healthy, and \
                127.0.0.1:7 is draining";
    assert_eq!(left_out(&read).as_deref(), Some(text));
}

#[test]
fn no_priority_is_left_out() {
    // C-108
    let gap = [locality("a", 0, &[]), locality("b", 2, &[])];
    assert_eq!(fault(&gap), "endpoints: there is a priority 2 and no priority 1");
    let late = fault(&[locality("a", 1, &[])]);
    assert_eq!(late, "endpoints: there is a priority 1 and no priority 0");
    of(&[locality("b", 1, &[]), locality("a", 0, &[])]);
}

#[test]
fn a_locality_without_a_weight_is_skipped_and_fills_no_gap() {
    // C-108
    let bad = json!({"endpoint": {"address": {"pipe": {"path": "/a"}}}});
    for weight in [Value::Null, json!(0)] {
        let skipped =
            with(&locality("a", 0, std::slice::from_ref(&bad)), "loadBalancingWeight", weight);
        assert!(of(std::slice::from_ref(&skipped)).assignment.localities.is_empty());
        let other = locality("b", 1, &[]);
        let fault = fault(&[skipped, other]);
        assert_eq!(fault, "endpoints: there is a priority 1 and no priority 0");
    }
}

#[test]
fn weights_add_up_to_at_most_32_bits() {
    // C-108
    let weighted = |zone, priority, weight: u32| {
        with(&locality(zone, priority, &[]), "loadBalancingWeight", json!(weight))
    };
    of(&[weighted("a", 0, u32::MAX - 1), weighted("b", 0, 1), weighted("c", 1, u32::MAX)]);
    assert_eq!(
        fault(&[weighted("a", 0, u32::MAX), weighted("b", 0, 1)]),
        "endpoints[1].load_balancing_weight: the weights of priority 0 add up to more than 32 bits"
    );
    let endpoints = |weights: [u32; 2]| {
        let endpoints = [1, 2].into_iter().zip(weights);
        let endpoints = endpoints
            .map(|(port, weight)| with(&endpoint(port), "loadBalancingWeight", json!(weight)));
        [locality("a", 0, &endpoints.collect::<Vec<_>>())]
    };
    let read = of(&endpoints([u32::MAX - 1, 1]));
    assert_eq!(read.assignment.localities[0].endpoints[0].weight, u32::MAX - 1);
    let large = fault(&endpoints([u32::MAX, 1]));
    assert_eq!(large, "endpoints[0].lb_endpoints: the weights add up to more than 32 bits");
    let zero = fault_in(with(&endpoint(1), "loadBalancingWeight", json!(0)));
    assert_eq!(zero, "load_balancing_weight: it must be at least 1");
    let default = of(&[locality("a", 0, &[endpoint(1)])]);
    assert_eq!(default.assignment.localities[0].endpoints[0].weight, 1);
}

#[test]
fn addresses_are_those_of_hosts_with_a_port() {
    // C-108
    let at = |address: Value| json!({"endpoint": {"address": address}});
    for (endpoint, expected) in [
        (json!({}), "endpoint: it must be set"),
        (json!({"endpointName": "e"}), "endpoint: it must be set"),
        (json!({"endpoint": {}}), "endpoint.address: it must be a `socket_address`"),
        (at(json!({"pipe": {"path": "/a"}})), "endpoint.address: it must be a `socket_address`"),
        (
            at(address("a.test", 1)),
            "endpoint.address.socket_address.address: `a.test` is no IP address",
        ),
        (
            at(json!({"socketAddress": {"portValue": 1}})),
            "endpoint.address.socket_address.address: `` is no IP address",
        ),
        (
            at(address("::1", 65_536)),
            "endpoint.address.socket_address.port_value: it must be set, and at most 65535",
        ),
        (
            at(json!({"socketAddress": {"address": "::1", "namedPort": "http"}})),
            "endpoint.address.socket_address.port_value: it must be set, and at most 65535",
        ),
    ] {
        assert_eq!(fault_in(endpoint), expected);
    }
    let read = of(&[locality("a", 0, &[at(address("::1", 65_535))])]);
    let addresses = &read.assignment.localities[0].endpoints[0].addresses;
    assert_eq!(**addresses, ["[::1]:65535".parse().unwrap()]);
}

#[test]
fn an_address_is_there_once_in_all_priorities() {
    // C-108
    let twice = fault(&[locality("a", 0, &[endpoint(1)]), locality("b", 1, &[endpoint(1)])]);
    let path = "endpoints[1].lb_endpoints[0].endpoint.address";
    assert_eq!(twice, format!("{path}: 127.0.0.1:1 is there twice"));
}

#[test]
fn an_endpoint_may_have_several_addresses_with_the_same_rules() {
    // C-120
    let several = |host: &str, port: u32| {
        let additional = json!([{"address": address(host, port)}]);
        json!({"endpoint": {"address": address("127.0.0.1", 1), "additionalAddresses": additional}})
    };
    let read = of(&[locality("a", 0, &[several("::1", 2)])]);
    let addresses = &read.assignment.localities[0].endpoints[0].addresses;
    assert_eq!(**addresses, ["127.0.0.1:1".parse().unwrap(), "[::1]:2".parse().unwrap()]);
    let path = "endpoint.additional_addresses[0].address";
    let twice = fault_in(several("127.0.0.1", 1));
    assert_eq!(twice, format!("{path}: 127.0.0.1:1 is there twice"));
    let name = fault_in(several("a", 1));
    assert_eq!(name, format!("{path}.socket_address.address: `a` is no IP address"));
}

#[test]
fn endpoints_of_another_health_take_no_calls() {
    // C-109
    for (health, expected) in [
        ("UNKNOWN", Some(Health::Unknown)),
        ("HEALTHY", Some(Health::Healthy)),
        ("UNHEALTHY", None),
        ("DRAINING", Some(Health::Draining)),
        ("TIMEOUT", None),
        ("DEGRADED", None),
    ] {
        let endpoint = with(&endpoint(1), "healthStatus", json!(health));
        let read = of(&[locality("a", 0, &[endpoint])]).assignment;
        let found = read.localities[0].endpoints.first().map(|endpoint| endpoint.health);
        assert_eq!(found, expected, "{health}");
        let policy = PolicyConfig::RoundRobin;
        let priorities = read.priorities(&policy, None, &mut PriorityNames::default());
        let takes_calls = matches!(expected, Some(Health::Unknown | Health::Healthy));
        assert_eq!(priorities[0].1.endpoints.len(), usize::from(takes_calls), "{health}");
    }
    // One that takes no calls is checked all the same.
    let unhealthy = with(&endpoint(65_536), "healthStatus", json!("UNHEALTHY"));
    assert!(fault_in(unhealthy).contains("port_value"));
}

#[test]
fn an_endpoint_may_have_a_key_to_hash_and_a_hostname() {
    // gRFC A81, C-114
    let with_metadata = |value: Value| {
        let metadata = json!({"filterMetadata": {"envoy.lb": {"hash_key": value}}});
        let mut endpoint = with(&endpoint(1), "metadata", metadata);
        endpoint["endpoint"]["hostname"] = json!("a.test");
        let read = of(&[locality("a", 0, &[endpoint])]);
        let endpoint = &read.assignment.localities[0].endpoints[0];
        assert_eq!(&*endpoint.hostname, "a.test");
        endpoint.hash_key.clone()
    };
    assert_eq!(with_metadata(json!("k")).as_deref(), Some("k"));
    assert_eq!(with_metadata(json!("")), None);
    assert_eq!(with_metadata(json!(1)), None);
}

#[test]
fn parts_of_the_calls_are_dropped_by_category() {
    // C-118
    let drops = |overloads: Value| {
        read::<Endpoints>(&json!({"policy": {"dropOverloads": overloads}})).unwrap().drops
    };
    let overload = |name: &str, numerator: u32, denominator: &str| {
        let percentage = json!({"numerator": numerator, "denominator": denominator});
        json!({"category": name, "dropPercentage": percentage})
    };
    let read = drops(json!([
        overload("a", 25, "HUNDRED"),
        overload("b", 25, "TEN_THOUSAND"),
        overload("c", 25, "MILLION"),
        overload("d", u32::MAX, "HUNDRED"),
        {"category": "e"},
    ]));
    let read: Vec<_> = read.iter().map(|it| (&*it.name, it.per_million)).collect();
    let expected = [("a", 250_000), ("b", 2_500), ("c", 25), ("d", 1_000_000), ("e", 0)];
    assert_eq!(read, expected);
}

#[test]
fn an_endpoint_has_the_proxy_of_its_own_metadata_or_of_its_locality() {
    // C-128
    let proxy = |socket: Value| {
        let any = any("config.core.v3.Address", json!({"socketAddress": socket}));
        json!({"typedFilterMetadata": {
            "envoy.http11_proxy_transport_socket.proxy_address": any,
        }})
    };
    let at = |port: u32| json!({"address": "10.0.0.9", "portValue": port});
    let with = |metadata: Value| {
        let mut one = endpoint(1);
        one["metadata"] = metadata;
        json!({
            "locality": {"zone": "z"},
            "loadBalancingWeight": 1,
            "metadata": proxy(at(80)),
            "lbEndpoints": [one, endpoint(2)],
        })
    };
    let read = |locality: &Value| {
        let proxies = read::<Endpoints>(&json!({"endpoints": [locality]}))?.proxies;
        let proxies = proxies.iter().map(|(it, proxy)| (it.port(), proxy.to_string()));
        Ok::<Vec<_>, String>(proxies.collect())
    };
    let of_locality = |port| (port, "10.0.0.9:80".to_owned());
    let own = read(&with(proxy(at(81)))).unwrap();
    assert_eq!(own, [(1, "10.0.0.9:81".to_owned()), of_locality(2)]);
    let other = json!({"typedFilterMetadata": {
        "envoy.http11_proxy_transport_socket.proxy_address": any("config.cluster.v3.Cluster", json!({})),
    }});
    assert_eq!(read(&with(other)).unwrap(), [of_locality(1), of_locality(2)]);
    let path = "endpoints[0].lb_endpoints[0].metadata.typed_filter_metadata\
                [\"envoy.http11_proxy_transport_socket.proxy_address\"].socket_address";
    for (socket, why) in [
        (json!({"address": "a", "portValue": 1}), "address: `a` is no IP address"),
        (json!({"address": "::1"}), "port_value: it must be set, and at most 65535"),
        (json!({"address": "::1", "portValue": 0}), "port_value: it must be set"),
    ] {
        assert_eq!(read(&with(proxy(socket))), Err(format!("{path}.{why}")));
    }
}

/// The bytes of a set.
fn body(localities: &[Value]) -> Bytes {
    let set = json!({"clusterName": "c", "endpoints": localities});
    parsed(Endpoints::TYPE_URL, &set).0.body().clone()
}

/// A locality with endpoints on these ports; one above 900 is not healthy, and one above 800 has a proxy.
fn locality_of(zone: &str, priority: u32, ports: &[u32]) -> Value {
    let of = |port: &u32| {
        let mut endpoint = endpoint(*port);
        if *port > 800 {
            let socket = json!({"socketAddress": {"address": "10.0.0.9", "portValue": port}});
            endpoint["metadata"] = json!({"typedFilterMetadata": {
                "envoy.http11_proxy_transport_socket.proxy_address": any("config.core.v3.Address", socket),
            }});
        }
        if *port > 900 {
            endpoint["healthStatus"] = json!("UNHEALTHY");
        }
        endpoint
    };
    locality(zone, priority, &ports.iter().map(of).collect::<Vec<_>>())
}

#[test]
fn an_update_reads_what_it_changes() {
    // C-108
    let known = KnownSets::default();
    let read = |ports: &[u32]| known.decode("c", &body(&[locality_of("a", 0, ports)])).unwrap();
    let same = |one: &Endpoints, other: &Endpoints| {
        let of = |set: &Endpoints| set.assignment.localities[0].endpoints.clone();
        let (one, other) = (of(one), of(other));
        other.iter().filter(|it| one.iter().any(|one| Arc::ptr_eq(one, it))).count()
    };
    let first = read(&[1, 2, 3, 4]);
    let again = read(&[1, 2, 3, 4]);
    assert_eq!(same(&first, &again), 4);
    let replaced = read(&[1, 7, 3, 4]);
    assert_eq!(same(&again, &replaced), 3, "one is another");
    let without = read(&[7, 3, 4]);
    assert_eq!(same(&replaced, &without), 3, "one has gone");
    let with = read(&[8, 7, 3, 4]);
    assert_eq!(same(&without, &with), 3, "one has come");
    let elsewhere = known.decode("d", &body(&[locality_of("a", 0, &[1])])).unwrap();
    assert_eq!(same(&with, &elsewhere), 0, "another set");
    let moved = known.decode("c", &body(&[locality_of("b", 0, &[1])])).unwrap();
    assert_eq!(same(&with, &moved), 0, "endpoints have their locality");
}

#[test]
fn an_update_is_read_as_a_whole_set_is() {
    // C-108, C-109, C-128
    let mut dice = SeededDice(11);
    let known = KnownSets::default();
    let mut held = Vec::new();
    let mut faults = 0;
    let mut ports: [Vec<u32>; 3] = Default::default();
    for round in 0..600_u32 {
        let ports_of = &mut ports[usize::try_from(dice.below(3)).unwrap()];
        let at = usize::try_from(dice.below(1 + ports_of.len() as u64)).unwrap();
        match dice.below(3) {
            0 if at < ports_of.len() => drop(ports_of.remove(at)),
            1 if at < ports_of.len() => {
                ports_of[at] = u32::try_from(1 + dice.below(1_000)).unwrap()
            }
            _ if ports_of.len() > 30 => ports_of.clear(),
            _ => ports_of.insert(at, u32::try_from(1 + dice.below(1_000)).unwrap()),
        }
        let mut localities: Vec<_> = ports
            .iter()
            .zip(["a", "b", "c"])
            .map(|(ports, zone)| locality_of(zone, 0, ports))
            .collect();
        localities[1]["loadBalancingWeight"] = json!(round / 20 % 2);
        let body = body(&localities);
        let alone = Endpoints::decode("c", &body);
        match (known.decode("c", &body), alone) {
            (Ok(read), Ok(alone)) => {
                assert_eq!(read.assignment, alone.assignment);
                assert_eq!(read.proxies, alone.proxies);
                // The set before goes when the next one has come.
                held = vec![read];
            }
            (Err(fault), Err(alone)) => {
                assert_eq!(fault, alone);
                faults += 1;
            }
            (read, alone) => panic!("{read:?} {alone:?}"),
        }
    }
    assert_eq!(held.len(), 1);
    assert!((50..550).contains(&faults), "{faults} are rejected, as a port is there twice");
}
