//! Watches all clusters of a server, and serves the state of the client to tools (CSDS).
//!
//!     cargo run -- serve examples/quickstart
//!     cargo run -p chancery-client --example status -- 127.0.0.1:18000 127.0.0.1:15099
//!     grpcdebug 127.0.0.1:15099 xds status
#![expect(clippy::print_stdout, reason = "it is made to be watched")]

use std::error::Error;
use std::net::SocketAddr;

use chancery_client::bootstrap::{Node, XdsServer};
use chancery_client::credentials::ChannelCredentials;
use chancery_client::status::StatusServer;
use chancery_client::{Bootstrap, Client, Event, Options, TypeUrl};

/// Prints the address for tools, and the state of each cluster after each change.
pub(crate) async fn run(
    server: &str,
    listen: SocketAddr,
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
    let client = Client::new(&bootstrap, Options::default())?;
    let shown = client.clone();
    // The status server runs until it is dropped. Its answers have no secrets, but keep it on loopback.
    let status = StatusServer::start(listen, move || vec![shown.status()]).await?;
    let mut clusters = client.watch_raw(&TypeUrl::new("envoy.config.cluster.v3.Cluster"), "*");
    print(format!("grpcdebug {} xds status", status.address()));
    while let Some(event) = clusters.next().await {
        if let Event::Failed { error } = event {
            return Err(error.into());
        }
        // The program itself can read the same state.
        for resource in client.resources() {
            let version = resource.cached.map(|cached| cached.version).unwrap_or_default();
            print(format!("{} is {:?} {version}", resource.name, resource.state));
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [server, listen] = &args[..] else { return Err("give a server and an address".into()) };
    run(server, listen.parse()?, |line| println!("{line}")).await
}
