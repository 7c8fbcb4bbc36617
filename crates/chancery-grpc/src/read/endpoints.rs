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
use envoy_types::pb::envoy::r#type::v3::{FractionalPercent, fractional_percent};
use prost::Message;

use super::quoted;

/// The endpoints of a cluster, with the parts of its calls that are dropped.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Endpoints {
    pub(crate) assignment: Assignment,
    pub(crate) drops: Arc<[DropCategory]>,
}

impl ResourceType for Endpoints {
    const TYPE_URL: &'static str = "envoy.config.endpoint.v3.ClusterLoadAssignment";

    fn decode(_: &str, body: &Bytes) -> Result<Self, String> {
        let message: eds::ClusterLoadAssignment =
            Message::decode(body.clone()).map_err(|error| error.to_string())?;
        read(&message)
    }
}

/// Reads an assignment.
pub(crate) fn read(message: &eds::ClusterLoadAssignment) -> Result<Endpoints, String> {
    let mut reader = Reader::default();
    for (at, locality) in message.endpoints.iter().enumerate() {
        reader.locality(locality).map_err(|why| format!("endpoints[{at}]: {why}"))?;
    }
    reader.check_priorities()?;
    let policy = message.policy.as_ref();
    let drops = policy.map(|policy| &*policy.drop_overloads).unwrap_or_default();
    let drops = drops.iter().map(|overload| {
        let percentage = overload.drop_percentage.as_ref();
        let per_million = percentage.map_or(0, per_million);
        DropCategory { name: overload.category.as_str().into(), per_million }
    });
    let assignment = Assignment { localities: reader.localities };
    Ok(Endpoints { assignment, drops: drops.collect() })
}

/// Returns the millionths of a fraction, at most all of them.
fn per_million(fraction: &FractionalPercent) -> u32 {
    use fractional_percent::DenominatorType::{Hundred, Million, TenThousand};
    let times = match fraction.denominator() {
        Hundred => 10_000,
        TenThousand => 100,
        Million => 1,
    };
    fraction.numerator.saturating_mul(times).min(1_000_000)
}

#[derive(Default)]
struct Reader {
    localities: Vec<AssignedLocality>,
    seen: BTreeSet<(u32, Locality)>,
    addresses: BTreeSet<SocketAddr>,
    /// The sum of the weights of the localities of each priority.
    weights: BTreeMap<u32, u64>,
}

impl Reader {
    fn locality(&mut self, message: &eds::LocalityLbEndpoints) -> Result<(), String> {
        let weight = message.load_balancing_weight.as_ref().map_or(0, |weight| weight.value);
        if weight == 0 {
            return Ok(()); // gRPC skips a locality without a weight.
        }
        let name = message.locality.clone().ok_or("`locality` is missing")?;
        let name = Locality { region: name.region, zone: name.zone, sub_zone: name.sub_zone };
        let priority = message.priority;
        let sum = self.weights.entry(priority).or_default();
        *sum += u64::from(weight);
        if *sum > u64::from(u32::MAX) {
            return Err(format!("the weights of priority {priority} add up to more than 32 bits"));
        }
        if !self.seen.insert((priority, name.clone())) {
            return Err(format!("priority {priority} has this locality twice: {name:?}"));
        }
        let locality = Arc::new(EndpointLocality { name, weight });
        let mut endpoints = Vec::new();
        let mut sum = 0;
        for (at, message) in message.lb_endpoints.iter().enumerate() {
            let endpoint = self.endpoint(message, &locality);
            let endpoint = endpoint.map_err(|why| format!("lb_endpoints[{at}]: {why}"))?;
            sum += u64::from(endpoint.weight);
            if takes_calls(message) {
                endpoints.push(Arc::new(endpoint));
            }
        }
        if sum > u64::from(u32::MAX) {
            return Err("the weights of the endpoints add up to more than 32 bits".to_owned());
        }
        self.localities.push(AssignedLocality { locality, priority, endpoints });
        Ok(())
    }

    fn endpoint(
        &mut self,
        message: &eds::LbEndpoint,
        locality: &Arc<EndpointLocality>,
    ) -> Result<Endpoint, String> {
        let weight = message.load_balancing_weight.as_ref().map_or(1, |weight| weight.value);
        if weight == 0 {
            return Err("`load_balancing_weight` must be at least 1".to_owned());
        }
        let Some(eds::lb_endpoint::HostIdentifier::Endpoint(endpoint)) = &message.host_identifier
        else {
            return Err("`endpoint` is missing".to_owned());
        };
        let additional = endpoint.additional_addresses.iter().map(|it| it.address.as_ref());
        let addresses = std::iter::once(endpoint.address.as_ref()).chain(additional);
        let addresses = addresses.map(|address| self.address(address));
        let hash_key = None;
        Ok(Endpoint {
            addresses: addresses.collect::<Result<_, _>>()?,
            weight,
            locality: Arc::clone(locality),
            health: Health::Healthy,
            hostname: endpoint.hostname.as_str().into(),
            hash_key,
        })
    }

    fn address(&mut self, message: Option<&core::Address>) -> Result<SocketAddr, String> {
        let address = message.ok_or("an address is missing")?;
        let Some(core::address::Address::SocketAddress(socket)) = &address.address else {
            return Err("an address must be a `socket_address`".to_owned());
        };
        let address = socket_address(socket)?;
        match self.addresses.insert(address) {
            true => Ok(address),
            false => Err(format!("the address {address} is there twice")),
        }
    }

    /// Checks that no priority is left out.
    fn check_priorities(&self) -> Result<(), String> {
        let gap = self.weights.keys().zip(0..).find(|(priority, at)| *priority != at);
        match gap {
            Some((priority, missing)) => {
                Err(format!("there is a priority {priority} and no priority {missing}"))
            }
            None => Ok(()),
        }
    }
}

/// Reads an address that can be connected to as it is.
fn socket_address(socket: &core::SocketAddress) -> Result<SocketAddr, String> {
    let text = &socket.address;
    let ip: IpAddr = text.parse().map_err(|_| format!("`{}` is no IP address", quoted(text)))?;
    match &socket.port_specifier {
        Some(core::socket_address::PortSpecifier::PortValue(port)) => {
            let port = u16::try_from(*port).map_err(|_| format!("{port} is no port"))?;
            Ok(SocketAddr::new(ip, port))
        }
        _ => Err("`port_value` is missing".to_owned()),
    }
}

fn takes_calls(message: &eds::LbEndpoint) -> bool {
    use core::HealthStatus::{Healthy, Unknown};
    matches!(message.health_status(), Healthy | Unknown)
}
