//! Many endpoints that change one by one, while calls go on.

use std::net::{Ipv4Addr, SocketAddr};

use chancery_core::{Resource, Snapshot, TypeUrl};
use chancery_testkit::TestServer;
use envoy_types::pb::envoy::config::core::v3::address::Address as Kind;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{Address, Locality, SocketAddress};
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints,
};
use envoy_types::pb::google::protobuf::UInt32Value;
use prost::Message;

use super::faults_under_load::load_of;
use super::one_route;
use super::support::{Backend, Resources, call, channel, within};

const ENDPOINTS: u32 = 1_000;
const CHANGES: u32 = 200;

fn endpoint(address: SocketAddr) -> LbEndpoint {
    let socket = SocketAddress {
        address: address.ip().to_string(),
        port_specifier: Some(PortSpecifier::PortValue(address.port().into())),
        ..SocketAddress::default()
    };
    let address = Some(Address { address: Some(Kind::SocketAddress(socket)) });
    let endpoint = HostIdentifier::Endpoint(Endpoint { address, ..Endpoint::default() });
    LbEndpoint { host_identifier: Some(endpoint), ..LbEndpoint::default() }
}

fn assignment(addresses: impl Iterator<Item = SocketAddr>) -> Resource {
    let locality = LocalityLbEndpoints {
        locality: Some(Locality { zone: "z".to_owned(), ..Locality::default() }),
        load_balancing_weight: Some(UInt32Value { value: 1 }),
        lb_endpoints: addresses.map(endpoint).collect(),
        ..LocalityLbEndpoints::default()
    };
    let assignment = ClusterLoadAssignment {
        cluster_name: "x".to_owned(),
        endpoints: vec![locality],
        ..ClusterLoadAssignment::default()
    };
    Resource::new("x".parse().expect("a name"), assignment.encode_to_vec().into())
}

/// C-120: each change makes one connection, those of the other endpoints stay, and no call fails.
#[tokio::test]
async fn a_change_of_one_endpoint_in_a_thousand_is_one_connection() {
    let stay = [Backend::start("a").await, Backend::start("b").await, Backend::start("c").await];
    // One backend is all the others, by the many addresses of loopback.
    let others = Backend::start_everywhere("others").await;
    let other = |number: u32| {
        let address = Ipv4Addr::from_bits(Ipv4Addr::new(127, 0, 1, 0).to_bits() + number);
        SocketAddr::from((address, others.address.port()))
    };
    let base = Resources::default().routes(&one_route("x")).cluster("x", "").snapshot();
    // A change takes one of the others away and adds one that was not there.
    let version = |change: u32| -> Snapshot {
        let all = (change..change + ENDPOINTS).map(other);
        let mut snapshot = base.clone();
        let type_url = TypeUrl::new("envoy.config.endpoint.v3.ClusterLoadAssignment");
        snapshot.insert(&type_url, assignment(stay.iter().map(|it| it.address).chain(all)));
        snapshot
    };
    let server = TestServer::start(version(0)).await.expect("a server");
    let channel = channel(&server);
    let connected = async {
        while others.connections() < ENDPOINTS as usize || stay.iter().any(|it| it.calls() == 0) {
            call(&channel).await.expect("an answer");
        }
    };
    within(connected).await;
    let mut load = load_of(&channel);
    for change in 1..=CHANGES {
        server.publish(version(change));
        load.goes_on(10).await;
    }
    let arrived = async {
        while others.connections() < (ENDPOINTS + 1) as usize {
            load.goes_on(10).await;
        }
    };
    within(arrived).await;
    load.ends_well().await;
    let connections: Vec<_> = stay.iter().map(Backend::connections).collect();
    assert_eq!(connections, [1, 1, 1]);
    let made = others.connections();
    assert!(made <= (ENDPOINTS + CHANGES) as usize, "{made}");
}
