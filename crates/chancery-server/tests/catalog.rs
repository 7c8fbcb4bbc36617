//! A source of a few lines, and clients that see what it says: catalog, audiences and server in a
//! program that has no directory.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use chancery_catalog::{Catalog, ChangeSet, Entry, Hold, Layer, Origin, OverlayNames};
use chancery_core::TypeUrl;
use chancery_server::{AudienceName, Audiences, Client as Asking, Config, Refusal, Server};

use crate::common::client::{GrpcStream, Http2Client};
use crate::common::message::{Node, SotwRequest, SotwResponse};
use crate::common::{ADS_SOTW, CDS, PATIENCE, Running, cluster};

type ByCluster = fn(&Asking<'_>, &OverlayNames) -> Result<Option<String>, Refusal>;

fn by_cluster(client: &Asking<'_>, _: &OverlayNames) -> Result<Option<String>, Refusal> {
    Ok(client.node.map(|node| node.cluster.clone()))
}

/// The source: `NAME=TEXT` is a cluster of base, `GROUP/NAME=TEXT` one of a group; `GROUP?` holds a
/// group back, and `GROUP!` releases it.
fn follow(lines: &Receiver<String>, audiences: &Audiences<ByCluster>, done: &Sender<()>) {
    for line in lines {
        let mut changes = ChangeSet::new("lines");
        let group = |name: &str| Layer::Group(name.into());
        if let Some((key, text)) = line.split_once('=') {
            let (layer, name) = match key.split_once('/') {
                Some((of, name)) => (group(of), name),
                None => (Layer::Base, key),
            };
            let origin = Origin::Key { key: key.into() };
            changes.put(&layer, &TypeUrl::new(CDS), Entry::new(cluster(name, text), origin));
        } else if let Some(name) = line.strip_suffix('?') {
            changes.hold(Hold::Layer(group(name)));
        } else if let Some(name) = line.strip_suffix('!') {
            changes.release(Hold::Layer(group(name)));
        }
        audiences.commit(changes);
        let _ = done.send(());
    }
}

/// A server of what the source says, and a way to have it say something.
struct CatalogServer {
    server: Running,
    lines: Sender<String>,
    /// The lines that were followed.
    done: Receiver<()>,
    audiences: Audiences<ByCluster>,
}

impl CatalogServer {
    async fn new() -> Self {
        let audiences = Audiences::new(Catalog::new(), by_cluster as ByCluster);
        let ((lines, said), (followed, done)) = (channel(), channel());
        let source = audiences.clone();
        thread::spawn(move || follow(&said, &source, &followed));
        let (store, policy) = (audiences.store(), audiences.clone());
        let server =
            Running::serve(Arc::clone(&store), Server::new(store, policy, Config::default()), None)
                .await;
        Self { server, lines, done, audiences }
    }

    /// Has the source say something, and waits until it is followed.
    fn say(&self, line: &str) {
        self.lines.send(line.to_owned()).unwrap();
        self.done.recv_timeout(PATIENCE).unwrap();
    }

    /// A client of this cluster that asks for all clusters, and has what there was so far.
    async fn client(&self, cluster: &str, names: &[(&str, &str)]) -> Subscribed {
        let client = Http2Client::connect(self.server.address).await;
        let mut stream = client.open(ADS_SOTW).await.unwrap();
        let node = Node { id: "n".to_owned(), cluster: cluster.to_owned(), ..Node::default() };
        stream.send(&SotwRequest { node: Some(node), ..SotwRequest::first(CDS, &[]) });
        let mut subscribed = Subscribed { _client: client, stream };
        subscribed.until(names).await;
        subscribed
    }
}

struct Subscribed {
    _client: Http2Client,
    stream: GrpcStream,
}

impl Subscribed {
    /// The next clusters that the client is sent.
    async fn next(&mut self) -> Vec<(String, String)> {
        let response: SotwResponse = self.stream.next().await.unwrap();
        self.stream.send(&SotwRequest::ack(&response, &[]));
        response.clusters()
    }

    async fn until(&mut self, clusters: &[(&str, &str)]) {
        while self.next().await != pairs(clusters) {}
    }
}

fn pairs(clusters: &[(&str, &str)]) -> Vec<(String, String)> {
    clusters.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
}

#[tokio::test]
async fn a_source_of_ten_lines_reaches_its_clients() {
    let setup = CatalogServer::new().await;
    setup.say("a=1");
    setup.say("edge/b=1");
    let mut edge = setup.client("edge", &[("a", "1"), ("b", "1")]).await;
    let mut other = setup.client("other", &[("a", "1")]).await;
    setup.say("edge/a=2");
    assert_eq!(edge.next().await, pairs(&[("a", "2"), ("b", "1")]));
    setup.say("a=3");
    assert_eq!(other.next().await, pairs(&[("a", "3")]), "what a group has besides is not its own");
    setup.say("other/c=1");
    other.until(&[("a", "3"), ("c", "1")]).await;
    let listed: Vec<_> =
        setup.audiences.catalog().entries().map(|it| it.entry.origin.to_string()).collect();
    assert_eq!(listed, ["key `a`", "key `edge/a`", "key `edge/b`", "key `other/c`"]);
}

#[tokio::test]
async fn a_held_layer_keeps_its_audience_and_no_other() {
    // S-057
    let setup = CatalogServer::new().await;
    setup.say("a=1");
    setup.say("edge/b=1");
    let mut edge = setup.client("edge", &[("a", "1"), ("b", "1")]).await;
    let mut other = setup.client("other", &[("a", "1")]).await;
    setup.say("edge?");
    setup.say("edge/b=2");
    setup.say("a=2");
    assert_eq!(other.next().await, pairs(&[("a", "2")]));
    // One that comes now gets what its peers have.
    setup.client("edge", &[("a", "1"), ("b", "1")]).await;
    setup.say("edge!");
    assert_eq!(edge.next().await, pairs(&[("a", "2"), ("b", "2")]), "all of it at once");
}

/// A source that has nothing until somebody wants it: it makes each cluster that a client names.
fn make_wanted(told: &Receiver<AudienceName>, audiences: &Audiences<ByCluster>) {
    let (store, clusters) = (audiences.store(), TypeUrl::new(CDS));
    for audience in told {
        let demand = store.demand(&audience);
        let mut changes = ChangeSet::new("maker");
        for name in demand.get(&clusters).iter().flat_map(|wanted| &wanted.names) {
            let made = Entry::new(cluster(name, "made"), Origin::program("maker"));
            changes.put(&Layer::Base, &clusters, made);
        }
        audiences.commit(changes);
    }
}

#[tokio::test]
async fn a_source_makes_what_is_wanted() {
    let audiences = Audiences::new(Catalog::new(), by_cluster as ByCluster);
    audiences.commit(ChangeSet::new("maker"));
    let (tell, told) = channel();
    assert!(audiences.store().follow_demand(move |audience| drop(tell.send(audience.clone()))));
    let source = audiences.clone();
    thread::spawn(move || make_wanted(&told, &source));
    let (store, policy) = (audiences.store(), audiences.clone());
    let server =
        Running::serve(Arc::clone(&store), Server::new(store, policy, Config::default()), None)
            .await;
    let client = Http2Client::connect(server.address).await;
    let mut stream = client.open(ADS_SOTW).await.unwrap();
    let node = Node { id: "n".to_owned(), ..Node::default() };
    stream.send(&SotwRequest { node: Some(node), ..SotwRequest::first(CDS, &["a"]) });
    // It may be told first that there is none.
    loop {
        let response: SotwResponse = stream.next().await.unwrap();
        if response.clusters() == pairs(&[("a", "made")]) {
            break;
        }
        assert_eq!(response.clusters(), []);
        stream.send(&SotwRequest::ack(&response, &["a"]));
    }
    assert!(audiences.store().demand("base").get(&TypeUrl::new(CDS)).is_some());
}
