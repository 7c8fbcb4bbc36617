//! Watches one cluster as a value of the program's own type, and prints its changes.
//!
//!     cargo run -- serve examples/quickstart
//!     cargo run -p chancery-client --example watch_cluster -- 127.0.0.1:18000 chancery-admin
//!
//! Meanwhile, edit `examples/quickstart/clusters.yaml`, remove the cluster, or stop the server.
#![expect(clippy::print_stdout, reason = "it is made to be watched")]

use std::error::Error;

use bytes::Bytes;
use chancery_client::bootstrap::{Node, XdsServer};
use chancery_client::credentials::ChannelCredentials;
use chancery_client::{Bootstrap, Client, Event, Options, ResourceType};

/// The size of a cluster. With the feature `envoy-types`, a program has the whole message.
struct Cluster {
    bytes: usize,
}

impl ResourceType for Cluster {
    const TYPE_URL: &'static str = "envoy.config.cluster.v3.Cluster";

    // An error makes the client reject the cluster, and the server hears the reason.
    fn decode(name: &str, body: &Bytes) -> Result<Self, String> {
        if name.contains(' ') {
            return Err("no name of ours has spaces".to_owned());
        }
        Ok(Self { bytes: body.len() })
    }
}

/// Prints each event of one cluster of this server, until the client ends.
pub(crate) async fn run(
    server: &str,
    cluster: &str,
    mut print: impl FnMut(String),
) -> Result<(), Box<dyn Error>> {
    // `Bootstrap::discover(None)` would read a bootstrap file of gRPC clients instead.
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
    let mut watch = client.watch::<Cluster>(cluster);
    while let Some(event) = watch.next().await {
        print(match event {
            Event::Changed { name, value: Ok(cluster) } => {
                let (bytes, version) = (cluster.value.bytes, &cluster.version);
                format!("{name} has {bytes} bytes, at version {version}")
            }
            Event::Changed { name, value: Err(error) } => format!("do not use {name}: {error}"),
            Event::Ambient { name, error: Some(error) } => {
                format!("go on using {name}, although {error}")
            }
            Event::Ambient { name, error: None } => format!("{name} is well again"),
            // Only a watch of `*` or of a collection is ever complete.
            Event::Complete => continue,
            Event::Failed { error } => return Err(error.into()),
        });
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [server, cluster] = &args[..] else { return Err("give a server and a cluster".into()) };
    run(server, cluster, |line| println!("{line}")).await
}
