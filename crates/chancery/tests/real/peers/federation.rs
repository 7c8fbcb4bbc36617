//! A federation of two different servers: Chancery answers for one authority, go-control-plane for
//! another and for names without any.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{PATIENCE, Rig, clusters, server};
use crate::support::ask::{WAYS, WatchProcess, get};
use crate::support::chancery::{Chancery, Directory};
use crate::support::go_server::GoServer;

const OURS: &str = "xdstp://ours/envoy.config.cluster.v3.Cluster/edge/a";
const THEIRS: &str = "xdstp://theirs/envoy.config.cluster.v3.Cluster/edge/b";
const LISTENER: &str = "xdstp://theirs/envoy.config.listener.v3.Listener/client/web";

/// Both servers, and the bootstrap that names them.
struct Federation {
    directory: Directory,
    ours: Chancery,
    theirs: GoServer,
    bootstrap: PathBuf,
}

impl Federation {
    fn new(rig: &Rig) -> Self {
        let directory = Directory::new(rig.path(), "config");
        directory.write("a.json", &clusters(&[(OURS, 1)]).to_string());
        let ours = Chancery::serve(&directory);
        let theirs = GoServer::serve(&rig.clients, rig.path(), "snapshot", &others(1));
        let bootstrap = rig.bootstrap(&json!({
            "xds_servers": [server(&theirs.address())],
            "node": {"id": "grpc-1"},
            "authorities": {
                "ours": {"xds_servers": [server(&ours.address())]},
                "theirs": {
                    "client_listener_resource_name_template":
                        "xdstp://theirs/envoy.config.listener.v3.Listener/client/%s",
                },
            },
        }));
        Self { directory, ours, theirs, bootstrap }
    }

    /// The words of a question to both.
    fn words<'a>(&'a self, question: &[&'a str]) -> Vec<&'a str> {
        let bootstrap = self.bootstrap.to_str().expect("temporary directories are ASCII");
        [question, &["--bootstrap", bootstrap]].concat()
    }
}

/// The resources of go-control-plane: a cluster and a listener under its authority, and a cluster
/// without any.
fn others(seconds: u32) -> Value {
    let mut all = clusters(&[(THEIRS, seconds), ("old", 9)]);
    let list = all.as_array_mut().expect("it was made as one");
    list.push(json!({
        "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
        "name": LISTENER,
    }));
    all
}

// C-051, C-078
#[test]
fn each_name_is_asked_of_its_own_server() {
    let Some(rig) = Rig::new() else { return };
    let federation = Federation::new(&rig);
    let ask = |question: &[&str]| get(rig.path(), &federation.words(question));
    let [one, other] = [format!("{OURS} 1s"), format!("{THEIRS} 1s")];
    for way in WAYS {
        let both = ask(&[&[OURS, THEIRS], way].concat());
        assert_eq!(both.whole(), [one.as_str(), &other], "{way:?}");
        let three = ask(&[&["cds", "old", THEIRS, OURS], way].concat());
        assert_eq!(three.whole(), ["old 9s", other.as_str(), &one], "{way:?}");
        let target = ask(&[&["--target", "xds://theirs/web"], way].concat());
        assert_eq!(target.whole(), [format!("{LISTENER} -")], "{way:?}");
    }
    // A name that ends like this is asked for by delta, which both know.
    let glob = "xdstp://ours/envoy.config.cluster.v3.Cluster/edge/*";
    assert_eq!(ask(&[glob, THEIRS]).whole(), [one.as_str(), &other]);
}

/// A resource that one server does not have is no matter of the other one.
#[test]
fn what_is_missing_is_told_of_its_own_server() {
    let Some(rig) = Rig::new() else { return };
    let federation = Federation::new(&rig);
    let servers = [federation.ours.address(), federation.theirs.address()];
    for (authority, address) in ["ours", "theirs"].into_iter().zip(servers) {
        // The id is one that the other server has.
        let id = if authority == "ours" { "edge/b" } else { "edge/a" };
        let gone = format!("xdstp://{authority}/envoy.config.cluster.v3.Cluster/{id}");
        let question = [OURS, &gone, THEIRS, PATIENCE[0], PATIENCE[1]];
        let answer = get(rig.path(), &federation.words(&question));
        answer.misses("cds", &gone, &address);
        assert_eq!(answer.found, [format!("{OURS} 1s"), format!("{THEIRS} 1s")]);
    }
    let answer = get(rig.path(), &federation.words(&["xdstp://nobody/a.B/c"]));
    assert_eq!(answer.code, Some(2), "{answer:?}");
}

/// Both are followed; while the one is away its value stays, and the other is followed on.
fn changes_come_from_both_and_an_outage_from_one(way: &[&str]) {
    let Some(rig) = Rig::new() else { return };
    let federation = Federation::new(&rig);
    let question = [&[OURS, THEIRS], way].concat();
    let mut watch = WatchProcess::start(rig.path(), &federation.words(&question));
    let Federation { directory, ours, mut theirs, .. } = federation;
    let write = |seconds| directory.write("a.json", &clusters(&[(OURS, seconds)]).to_string());
    watch.hears(&[&format!("{OURS} changed 1s"), &format!("{THEIRS} changed 1s")]);
    write(2);
    watch.hears(&[&format!("{OURS} changed 2s")]);
    theirs.publish(&others(3));
    watch.hears(&[&format!("{THEIRS} changed 3s")]);
    let ports = theirs.stop();
    watch.hears(&[&format!("{THEIRS} ambient")]);
    write(4);
    watch.hears(&[&format!("{OURS} changed 4s")]);
    let _theirs = GoServer::serve_on(ports, &rig.clients, rig.path(), "snapshot", &others(5));
    watch.hears(&[&format!("{THEIRS} changed 5s")]);
    drop(ours);
    watch.hears(&[&format!("{OURS} ambient")]);
}

// C-077, C-078
#[test]
fn both_are_followed_over_sotw() {
    changes_come_from_both_and_an_outage_from_one(WAYS[0]);
}

// C-077, C-078
#[test]
fn both_are_followed_over_delta() {
    changes_come_from_both_and_an_outage_from_one(WAYS[1]);
}
