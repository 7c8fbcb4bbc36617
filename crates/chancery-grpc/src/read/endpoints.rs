//! Endpoints, read and checked (C-108, C-109, C-118, C-120).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use chancery_calls::balancing::{
    AssignedLocality, Assignment, DropCategory, Endpoint, EndpointLocality, Health,
};
use chancery_client::ResourceType;
use chancery_core::Locality;
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::endpoint::v3 as eds;
use envoy_types::pb::google::protobuf::value::Kind;
use prost::Message;

use super::fault::{At, Fault};
use super::{opened, quoted, values};

/// The endpoints of a cluster, with the parts of its calls that are dropped.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Endpoints {
    pub(crate) assignment: Assignment,
    pub(crate) drops: Arc<[DropCategory]>,
    /// The proxies by which addresses are reached, in clusters that ask for that (C-128).
    pub(crate) proxies: BTreeMap<SocketAddr, SocketAddr>,
}

impl ResourceType for Endpoints {
    const TYPE_URL: &'static str = "envoy.config.endpoint.v3.ClusterLoadAssignment";

    fn decode(_: &str, body: &Bytes) -> Result<Self, String> {
        let message: eds::ClusterLoadAssignment =
            Message::decode(body.clone()).map_err(|error| error.to_string())?;
        Ok(read(&message)?)
    }
}

/// Reads an assignment.
fn read(message: &eds::ClusterLoadAssignment) -> Result<Endpoints, Fault> {
    let mut reader = Reader::default();
    for (at, locality) in message.endpoints.iter().enumerate() {
        reader.locality(locality).at(format_args!("endpoints[{at}]"))?;
    }
    reader.check_priorities().at("endpoints")?;
    let policy = message.policy.as_ref();
    let drops = policy.map(|policy| &*policy.drop_overloads).unwrap_or_default().iter();
    let drops = drops
        .enumerate()
        .map(|(at, it)| drop_category(it).at(format_args!("policy.drop_overloads[{at}]")));
    let assignment = Assignment { localities: reader.localities };
    let proxies = reader.proxies;
    Ok(Endpoints { assignment, drops: drops.collect::<Result<_, _>>()?, proxies })
}

fn drop_category(
    message: &eds::cluster_load_assignment::policy::DropOverload,
) -> Result<DropCategory, Fault> {
    let percentage = message.drop_percentage.as_ref().map(values::per_million).transpose();
    let per_million = percentage.at("drop_percentage")?.unwrap_or_default();
    Ok(DropCategory { name: message.category.as_str().into(), per_million })
}

#[derive(Default)]
struct Reader {
    localities: Vec<AssignedLocality>,
    seen: BTreeSet<(u32, Locality)>,
    addresses: BTreeSet<SocketAddr>,
    proxies: BTreeMap<SocketAddr, SocketAddr>,
    /// The sum of the weights of the localities of each priority.
    weights: BTreeMap<u32, u64>,
}

impl Reader {
    fn locality(&mut self, message: &eds::LocalityLbEndpoints) -> Result<(), Fault> {
        let weight = message.load_balancing_weight.as_ref().map_or(0, |weight| weight.value);
        if weight == 0 {
            return Ok(()); // gRPC skips a locality without a weight.
        }
        let name = message.locality.clone().ok_or("it must be set").at("locality")?;
        let name = Locality { region: name.region, zone: name.zone, sub_zone: name.sub_zone };
        let priority = message.priority;
        let sum = self.weights.entry(priority).or_default();
        *sum += u64::from(weight);
        if *sum > u64::from(u32::MAX) {
            let why = format!("the weights of priority {priority} add up to more than 32 bits");
            return Err(why).at("load_balancing_weight");
        }
        if !self.seen.insert((priority, name.clone())) {
            let parts = [&name.region, &name.zone, &name.sub_zone].map(|part| quoted(part));
            let why = format!("priority {priority} has `{}` twice", parts.join("/"));
            return Err(why).at("locality");
        }
        let proxy = proxy(message.metadata.as_ref()).at("metadata")?;
        let locality = Arc::new(EndpointLocality { name, weight });
        let mut endpoints = Vec::new();
        let mut sum = 0;
        for (at, message) in message.lb_endpoints.iter().enumerate() {
            let endpoint = self.endpoint(message, &locality, proxy);
            let endpoint = endpoint.at(format_args!("lb_endpoints[{at}]"))?;
            sum += u64::from(endpoint.weight);
            // One that takes no calls is checked all the same.
            if let Some(health) = health(message) {
                endpoints.push(Arc::new(Endpoint { health, ..endpoint }));
            }
        }
        if sum > u64::from(u32::MAX) {
            return Err("the weights add up to more than 32 bits").at("lb_endpoints");
        }
        self.localities.push(AssignedLocality { locality, priority, endpoints });
        Ok(())
    }

    fn endpoint(
        &mut self,
        message: &eds::LbEndpoint,
        locality: &Arc<EndpointLocality>,
        proxy_of_locality: Option<SocketAddr>,
    ) -> Result<Endpoint, Fault> {
        let weight = message.load_balancing_weight.as_ref().map_or(1, |weight| weight.value);
        if weight == 0 {
            return Err("it must be at least 1").at("load_balancing_weight");
        }
        let Some(eds::lb_endpoint::HostIdentifier::Endpoint(endpoint)) = &message.host_identifier
        else {
            return Err("it must be set").at("endpoint");
        };
        let mut addresses = vec![self.address(endpoint.address.as_ref()).at("endpoint.address")?];
        for (at, additional) in endpoint.additional_addresses.iter().enumerate() {
            let path = format_args!("endpoint.additional_addresses[{at}].address");
            addresses.push(self.address(additional.address.as_ref()).at(path)?);
        }
        let proxy = proxy(message.metadata.as_ref()).at("metadata")?.or(proxy_of_locality);
        self.proxies
            .extend(proxy.iter().flat_map(|proxy| addresses.iter().map(|it| (*it, *proxy))));
        Ok(Endpoint {
            addresses: addresses.into(),
            weight,
            locality: Arc::clone(locality),
            health: Health::default(),
            hostname: endpoint.hostname.as_str().into(),
            hash_key: hash_key(message),
        })
    }

    fn address(&mut self, message: Option<&core::Address>) -> Result<SocketAddr, Fault> {
        let address = message.and_then(|address| address.address.as_ref());
        let Some(core::address::Address::SocketAddress(socket)) = address else {
            return Err("it must be a `socket_address`".into());
        };
        let address = socket_address(socket).at("socket_address")?;
        match self.addresses.insert(address) {
            true => Ok(address),
            false => Err(format!("{address} is there twice").into()),
        }
    }

    /// Checks that no priority is left out.
    fn check_priorities(&self) -> Result<(), Fault> {
        let gap = self.weights.keys().zip(0..).find(|(priority, at)| *priority != at);
        match gap {
            Some((priority, missing)) => {
                Err(format!("there is a priority {priority} and no priority {missing}").into())
            }
            None => Ok(()),
        }
    }
}

/// Reads an address that can be connected to as it is.
fn socket_address(socket: &core::SocketAddress) -> Result<SocketAddr, Fault> {
    let text = &socket.address;
    let ip: Result<IpAddr, _> = text.parse();
    let ip = ip.map_err(|_| format!("`{}` is no IP address", quoted(text))).at("address")?;
    let port = match socket.port_specifier {
        Some(core::socket_address::PortSpecifier::PortValue(port)) => u16::try_from(port).ok(),
        _ => None,
    };
    let port = port.ok_or("it must be set, and at most 65535").at("port_value")?;
    Ok(SocketAddr::new(ip, port))
}

/// Reads the address of a proxy. Each address in the metadata is checked, whatever its name, as gRPC does
/// (gRFC A83, A86).
fn proxy(metadata: Option<&core::Metadata>) -> Result<Option<SocketAddr>, Fault> {
    const PROXY: &str = "envoy.http11_proxy_transport_socket.proxy_address";
    let mut found = None;
    for (key, any) in metadata.iter().flat_map(|it| &it.typed_filter_metadata) {
        let Some(address) = opened::<core::Address>(any) else { continue };
        let address = address.map_err(Fault::from).and_then(|it| proxy_address(&it));
        let address = address.at(format_args!("typed_filter_metadata[\"{}\"]", quoted(key)))?;
        if key == PROXY {
            found = Some(address);
        }
    }
    Ok(found)
}

fn proxy_address(message: &core::Address) -> Result<SocketAddr, Fault> {
    let Some(core::address::Address::SocketAddress(socket)) = &message.address else {
        return Err("it must be a `socket_address`".into());
    };
    let address = socket_address(socket).at("socket_address")?;
    match address.port() {
        0 => Err("it must be set").at("socket_address.port_value"),
        _ => Ok(address),
    }
}

/// Reads the text that is hashed for the place of an endpoint on a ring (gRFC A76).
fn hash_key(message: &eds::LbEndpoint) -> Option<Arc<str>> {
    let metadata = message.metadata.as_ref()?.filter_metadata.get("envoy.lb")?;
    match metadata.fields.get("hash_key")?.kind.as_ref()? {
        Kind::StringValue(key) if !key.is_empty() => Some(key.as_str().into()),
        _ => None,
    }
}

/// Reads the health of an endpoint; `None` if it takes no calls at all (C-109).
fn health(message: &eds::LbEndpoint) -> Option<Health> {
    values::health(message.health_status())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use chancery_calls::balancing::{PolicyConfig, PriorityNames};

    use super::super::support::{any, fault_of, read};
    use super::*;

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
        assert_eq!(
            of(&[locality("a", 0, &[]), locality("a", 1, &[])]).assignment.localities.len(),
            2
        );
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
            (
                at(json!({"pipe": {"path": "/a"}})),
                "endpoint.address: it must be a `socket_address`",
            ),
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
}
