//! A client, resources to watch, and what a watch hears as text.

use std::time::Duration;

use bytes::Bytes;
use chancery_client::bootstrap::{Node, XdsServer};
use chancery_client::credentials::ChannelCredentials;
use chancery_client::{Bootstrap, Client, Event, Options, RawWatch, ResourceType, TypeUrl};
use chancery_core::{Resource, Snapshot};

pub(crate) use crate::within::within;

/// A cluster, as far as these tests care.
#[derive(Debug, PartialEq)]
pub(crate) struct Cluster(pub(crate) String);

impl ResourceType for Cluster {
    const TYPE_URL: &'static str = "envoy.config.cluster.v3.Cluster";

    fn decode(name: &str, body: &Bytes) -> Result<Self, String> {
        if name.starts_with("bad") {
            return Err("it is bad".to_owned());
        }
        Ok(Self(format!("{name} of {} bytes", body.len())))
    }
}

pub(crate) fn clusters() -> TypeUrl {
    TypeUrl::new(Cluster::TYPE_URL)
}

/// Clusters by name, each with something else to tell versions apart by.
pub(crate) fn snapshot(clusters: &[(&str, &str)]) -> Snapshot {
    let mut snapshot = Snapshot::new();
    for (name, other) in clusters {
        // `name` is field 1, `alt_stat_name` field 28, and all of these texts are short.
        let mut body = vec![0x0a, name.len() as u8];
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(&[0xe2, 0x01, other.len() as u8]);
        body.extend_from_slice(other.as_bytes());
        let name = name.parse().expect("a plain name");
        snapshot.insert(&self::clusters(), Resource::new(name, body.into()));
    }
    snapshot
}

pub(crate) fn server(at: impl std::fmt::Display) -> XdsServer {
    let channel = ChannelCredentials::Insecure;
    XdsServer { uri: at.to_string(), channel, ..XdsServer::default() }
}

pub(crate) fn client(servers: Vec<XdsServer>, options: Options) -> Client {
    let node = Node { id: "test".to_owned(), ..Node::default() };
    let bootstrap = Bootstrap { servers, node, ..Bootstrap::default() };
    Client::new(&bootstrap, options).expect("a bootstrap with servers")
}

pub(crate) fn quick() -> Options {
    let mut options = Options::default();
    options.settings.backoff = Duration::from_millis(20);
    options.settings.backoff_max = Duration::from_millis(100);
    options
}

/// The next event of a watch, as text.
pub(crate) async fn heard(watch: &mut RawWatch) -> String {
    match within(watch.next()).await.expect("the client lives") {
        Event::Changed { name, value: Ok(value) } => {
            let body = value.resource.body();
            format!("{name}={}", String::from_utf8_lossy(&body[name.len() + 5..]))
        }
        Event::Changed { name, value: Err(error) } => format!("{name} none {:?}", error.kind),
        Event::Ambient { name, error: Some(error) } => format!("{name} but {:?}", error.kind),
        Event::Ambient { name, error: None } => format!("{name} fine"),
        Event::Complete => "settled".to_owned(),
        Event::Failed { error } => format!("failed {:?}", error.kind),
    }
}
