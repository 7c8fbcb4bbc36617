//! Endpoints, read and checked (C-108, C-109, C-118, C-120).
//!
//! Most updates of a set change a few of many endpoints. So those that are as they were are not read again
//! ([`known`]).

mod known;
mod left_out;
mod raw;

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

pub(crate) use self::known::KnownSets;
use self::known::{AddressPlace, EndpointValue, LocalityReader, ReadSet};
use self::left_out::LeftOut;
use self::raw::{RawAssignment, RawLocality};
use super::fault::{At, Fault};
use super::{opened, quoted, values};

/// The endpoints of a cluster, with the parts of its calls that are dropped.
#[derive(Debug, Default)]
pub(crate) struct Endpoints {
    pub(crate) assignment: Assignment,
    pub(crate) drops: Arc<[DropCategory]>,
    /// The proxies by which addresses are reached, in clusters that ask for that (C-128).
    pub(crate) proxies: BTreeMap<SocketAddr, SocketAddr>,
    /// All that was read, for the update that comes next.
    read: Arc<ReadSet>,
}

impl Endpoints {
    /// Returns what of the set takes no calls; `None` if all of it does.
    pub(crate) fn left_out(&self) -> Option<LeftOut> {
        LeftOut::of(&self.read)
    }
}

impl ResourceType for Endpoints {
    const TYPE_URL: &'static str = "envoy.config.endpoint.v3.ClusterLoadAssignment";

    fn decode(_: &str, body: &Bytes) -> Result<Self, String> {
        decode_after(&ReadSet::default(), body)
    }
}

/// Reads an assignment that may have endpoints in common with one that was read before.
fn decode_after(before: &ReadSet, body: &Bytes) -> Result<Endpoints, String> {
    let message = RawAssignment::read(body)?;
    let mut reader = Reader::new(before, ReadSet::of(body.clone()));
    for (at, locality) in message.endpoints.into_iter().enumerate() {
        reader.locality(at, body, locality).at(format_args!("endpoints[{at}]"))?;
    }
    reader.check_priorities().at("endpoints")?;
    reader.check_addresses()?;
    let policy = message.policy.as_ref();
    let drops = policy.map(|policy| &*policy.drop_overloads).unwrap_or_default().iter();
    let drops = drops
        .enumerate()
        .map(|(at, it)| drop_category(it).at(format_args!("policy.drop_overloads[{at}]")));
    Ok(Endpoints {
        drops: drops.collect::<Result<_, _>>()?,
        assignment: Assignment { localities: reader.localities },
        proxies: reader.proxies,
        read: Arc::new(reader.read),
    })
}

fn drop_category(
    message: &eds::cluster_load_assignment::policy::DropOverload,
) -> Result<DropCategory, Fault> {
    let percentage = message.drop_percentage.as_ref().map(values::per_million).transpose();
    let per_million = percentage.at("drop_percentage")?.unwrap_or_default();
    Ok(DropCategory { name: message.category.as_str().into(), per_million })
}

struct Reader<'a> {
    before: &'a ReadSet,
    localities: Vec<AssignedLocality>,
    seen: BTreeSet<(u32, Locality)>,
    proxies: BTreeMap<SocketAddr, SocketAddr>,
    /// The sum of the weights of the localities of each priority.
    weights: BTreeMap<u32, u64>,
    read: ReadSet,
}

impl<'a> Reader<'a> {
    fn new(before: &'a ReadSet, read: ReadSet) -> Self {
        Self {
            before,
            localities: Vec::new(),
            seen: BTreeSet::new(),
            proxies: BTreeMap::new(),
            weights: BTreeMap::new(),
            read,
        }
    }

    /// Reads the locality at this place, which is a part of the body.
    fn locality(&mut self, at: usize, body: &[u8], message: RawLocality<'_>) -> Result<(), Fault> {
        let weight = message.load_balancing_weight.as_ref().map_or(0, |weight| weight.value);
        if weight == 0 {
            self.read.push(None);
            return Ok(()); // gRPC skips a locality without a weight.
        }
        let name = message.locality.ok_or("it must be set").at("locality")?;
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
        let proxy_of_locality = proxy(message.metadata.as_ref()).at("metadata")?;
        let locality = EndpointLocality { name, weight };
        let mut read = LocalityReader::new(locality, body, self.before, at);
        let mut endpoints = Vec::with_capacity(message.lb_endpoints.len());
        let mut sum = 0;
        for (at, bytes) in message.lb_endpoints.into_iter().enumerate() {
            let EndpointValue { endpoint, takes_calls, proxy } =
                read.endpoint(bytes, read_endpoint).at(format_args!("lb_endpoints[{at}]"))?;
            sum += u64::from(endpoint.weight);
            // One that takes no calls is checked all the same.
            endpoints.extend(takes_calls.then(|| Arc::clone(endpoint)));
            if let Some(proxy) = proxy.as_deref().copied().or(proxy_of_locality) {
                self.proxies.extend(endpoint.addresses.iter().map(|it| (*it, proxy)));
            }
        }
        if sum > u64::from(u32::MAX) {
            return Err("the weights add up to more than 32 bits").at("lb_endpoints");
        }
        let (locality, endpoints) = (Arc::clone(read.locality()), endpoints.into());
        self.localities.push(AssignedLocality { locality, priority, endpoints });
        self.read.push(Some(read.finish()));
        Ok(())
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

    /// Checks that each address is there once.
    fn check_addresses(&self) -> Result<(), Fault> {
        let mut addresses: Vec<_> = self.read.addresses().collect();
        // They often are in order, and then this is fast. Equal ones stay in the order of their places.
        addresses.sort_by_key(|(address, _)| *address);
        let pairs = addresses.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        let Some((address, place)) = pairs.map(|pair| pair[1]).min_by_key(|(_, place)| *place)
        else {
            return Ok(());
        };
        let field = match place.address.checked_sub(1) {
            None => "address".to_owned(),
            Some(additional) => format!("additional_addresses[{additional}].address"),
        };
        let AddressPlace { locality, endpoint, .. } = place;
        Err(format!("{address} is there twice"))
            .at(format_args!("endpoints[{locality}].lb_endpoints[{endpoint}].endpoint.{field}"))
    }
}

/// Reads an endpoint in a locality.
fn read_endpoint(bytes: &[u8], locality: &Arc<EndpointLocality>) -> Result<EndpointValue, Fault> {
    let message: eds::LbEndpoint = Message::decode(bytes).map_err(|error| error.to_string())?;
    let weight = message.load_balancing_weight.as_ref().map_or(1, |weight| weight.value);
    if weight == 0 {
        return Err("it must be at least 1").at("load_balancing_weight");
    }
    let Some(eds::lb_endpoint::HostIdentifier::Endpoint(endpoint)) = &message.host_identifier
    else {
        return Err("it must be set").at("endpoint");
    };
    let mut addresses = vec![address(endpoint.address.as_ref()).at("endpoint.address")?];
    for (at, additional) in endpoint.additional_addresses.iter().enumerate() {
        let path = format_args!("endpoint.additional_addresses[{at}].address");
        addresses.push(address(additional.address.as_ref()).at(path)?);
    }
    let health = health(&message);
    let endpoint = Endpoint {
        addresses: addresses.into(),
        weight,
        locality: Arc::clone(locality),
        health: health.unwrap_or_default(),
        hostname: endpoint.hostname.as_str().into(),
        hash_key: hash_key(&message),
    };
    Ok(EndpointValue {
        endpoint: Arc::new(endpoint),
        takes_calls: health.is_some(),
        proxy: proxy(message.metadata.as_ref()).at("metadata")?.map(Box::new),
    })
}

fn address(message: Option<&core::Address>) -> Result<SocketAddr, Fault> {
    let address = message.and_then(|address| address.address.as_ref());
    let Some(core::address::Address::SocketAddress(socket)) = address else {
        return Err("it must be a `socket_address`".into());
    };
    socket_address(socket).at("socket_address")
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
mod tests;
