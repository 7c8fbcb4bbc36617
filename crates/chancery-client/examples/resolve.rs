//! Resolves the target of a gRPC channel as a gRPC client does: from the listener to its routes, their
//! clusters and the endpoints of these, in one consistent state.
//!
//!     cargo run -- serve examples/quickstart
//!     cargo run -p chancery-client --features envoy-types --example resolve -- 127.0.0.1:18000 xds:///web
#![expect(clippy::print_stdout, reason = "it is made to be watched")]

use std::error::Error;

use chancery_client::bootstrap::{Node, Target, XdsServer};
use chancery_client::credentials::ChannelCredentials;
use chancery_client::resource::CachedResource;
use chancery_client::{Bootstrap, Clients, Options, ResourceType};
use envoy_types::pb::envoy::config::core::v3::address::Address;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, LbEndpoint};

/// Prints the endpoints of all clusters of a target, again after each change.
pub(crate) async fn run(
    server: &str,
    target: &str,
    mut print: impl FnMut(String),
) -> Result<(), Box<dyn Error>> {
    let bootstrap = Bootstrap {
        servers: vec![XdsServer {
            uri: server.to_owned(),
            channel: ChannelCredentials::Insecure,
            ..XdsServer::default()
        }],
        node: Node { id: "example".to_owned(), ..Node::default() },
        ..Bootstrap::default()
    };
    // There is one client for each target, as in gRPC: channels to one target share it.
    let clients = Clients::new(bootstrap, Options::default())?;
    let target: Target = target.parse()?;
    let listener = clients.bootstrap().target(&target)?.place.name;
    let mut configs = clients.for_target(&target)?.follow(listener);
    while let Some(config) = configs.next().await {
        // Each config is complete. It stays in use until the next one.
        let config = match config {
            Ok(config) => config,
            Err(error) => {
                print(format!("there is nothing to connect to: {error}"));
                continue;
            }
        };
        for ((type_url, name), resource) in &config.resources {
            match resource {
                Ok(resource) if type_url.short() == "eds" => {
                    for address in addresses(resource)? {
                        print(format!("{name}: {address}"));
                    }
                }
                Ok(_) => {}
                // If one cluster fails, the others can still be used.
                Err(error) => print(format!("{name} cannot be used: {error}")),
            }
        }
    }
    Ok(())
}

/// Returns the addresses in the endpoints of a cluster.
fn addresses(endpoints: &CachedResource) -> Result<Vec<String>, String> {
    let resource = &endpoints.resource;
    let assignment: ClusterLoadAssignment =
        ResourceType::decode(resource.name().as_str(), resource.body())?;
    let endpoints = assignment.endpoints.into_iter().flat_map(|locality| locality.lb_endpoints);
    Ok(endpoints.filter_map(address).collect())
}

fn address(endpoint: LbEndpoint) -> Option<String> {
    let HostIdentifier::Endpoint(endpoint) = endpoint.host_identifier? else { return None };
    match endpoint.address?.address? {
        Address::SocketAddress(socket) => {
            let PortSpecifier::PortValue(port) = socket.port_specifier? else { return None };
            Some(format!("{}:{port}", socket.address))
        }
        Address::Pipe(pipe) => Some(pipe.path),
        Address::EnvoyInternalAddress(_) => None,
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [server, target] = &args[..] else { return Err("give a server and a target".into()) };
    run(server, target, |line| println!("{line}")).await
}
