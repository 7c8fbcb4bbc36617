//! Fallback (gRFC A71) among three servers of three projects, which crash and come back.
//!
//! Where a test says what is heard next, nothing else is heard before it.

use serde_json::json;

use super::{Rig, clusters, server};
use crate::support::ask::WatchProcess;
use crate::support::chancery::{Chancery, Directory};
use crate::support::go_server::GoServer;
use crate::support::rust_server::RustServer;

/// Names that rust-control-plane gives its clusters, and what they are before they change.
const NAMES: [&str; 3] = ["bench-000000", "bench-000001", "bench-000002"];
const UNCHANGED: &str = "0000000000";

/// One watch of three names, of which each server has one more than the one before it. As long as
/// one is missing, the next server is turned to; the better one is believed when it is back.
// C-087, C-088, C-089
#[test]
fn what_is_missing_is_asked_of_the_next_server() {
    let Some(rig) = Rig::new() else { return };
    let directory = Directory::new(rig.path(), "config");
    let write = |seconds| {
        let all = NAMES.map(|name| (name, seconds));
        directory.write("all.json", &clusters(&all).to_string());
    };
    write(3);
    let first = |seconds| clusters(&[(NAMES[0], seconds)]);
    let go = GoServer::serve(&rig.clients, rig.path(), "linear", &first(1));
    let rust = RustServer::serve(&rig.clients, rig.path(), 2);
    let chancery = Chancery::serve(&directory);
    let servers = [go.address(), rust.address(), chancery.address()];
    let bootstrap = rig.bootstrap(&json!({
        "xds_servers": servers.map(|address| server(&address)),
        "node": {"id": "bench-0"},
    }));
    let bootstrap = bootstrap.to_str().expect("temporary directories are ASCII");
    // As long as a server may still give it, a name is missing.
    let question = ["cds", NAMES[0], NAMES[1], NAMES[2], "--timeout", "10m"];
    let mut watch =
        WatchProcess::start(rig.path(), &[&question[..], &["--bootstrap", bootstrap]].concat());
    let mut hears = |what: &[(usize, &str)]| {
        let what: Vec<_> =
            what.iter().map(|(place, what)| [NAMES[*place], what].join(" ")).collect();
        watch.hears(&what.iter().map(String::as_str).collect::<Vec<_>>());
    };
    let unchanged = format!("changed {UNCHANGED}");

    hears(&[(0, "changed 1s")]);
    let ports = go.stop();
    hears(&[(0, &unchanged), (1, &unchanged)]);
    rust.change();
    hears(&[(1, "changed 0000000001")]);
    let port = rust.stop();
    hears(&[(0, "changed 3s"), (1, "changed 3s"), (2, "changed 3s")]);
    write(4);
    hears(&[(0, "changed 4s"), (1, "changed 4s"), (2, "changed 4s")]);

    // A better server takes away what it does not have, which is no reason not to use it any more.
    let rust = RustServer::serve_on(port, &rig.clients, rig.path(), 2);
    hears(&[(0, &unchanged), (1, &unchanged), (2, "ambient")]);
    chancery.says("stream closed");
    let mut go = GoServer::serve_on(ports, &rig.clients, rig.path(), "linear", &first(5));
    hears(&[(0, "changed 5s"), (1, "ambient"), (2, "ambient")]);
    drop((rust, chancery));
    go.publish(&clusters(&[(NAMES[0], 6), (NAMES[1], 6), (NAMES[2], 6)]));
    hears(&[(0, "changed 6s"), (1, "changed 6s"), (2, "changed 6s")]);
}

/// Three watches, each begun when one more server is away. What they have they keep; nobody hears
/// of a server that was not needed; and all of them end with the first server.
// C-087, C-089, C-090
#[test]
fn what_is_there_is_kept_until_a_better_server_is_back() {
    let Some(rig) = Rig::new() else { return };
    let directories = ["first", "third"].map(|name| Directory::new(rig.path(), name));
    let [one, three] = &directories;
    let web = |seconds| clusters(&[("web", seconds)]);
    let write = |directory: &Directory, seconds| {
        directory.write("web.json", &web(seconds).to_string());
    };
    write(one, 1);
    write(three, 3);
    let first = Chancery::serve(one);
    let second = GoServer::serve(&rig.clients, rig.path(), "linear", &web(2));
    let third = Chancery::serve(three);
    let servers = [first.address(), second.address(), third.address()];
    let uris = servers.each_ref().map(|address| ["--server", address.as_str()]);
    let question = [&["cds", "web", "--protocol", "delta"], uris.as_flattened()].concat();
    let start = || WatchProcess::start(rig.path(), &question);

    let mut whole = start();
    whole.hears(&["web changed 1s"]);
    let first = first.stop();
    whole.hears(&["web ambient"]);
    let mut late = start();
    late.hears(&["web changed 2s"]);
    let second = second.stop();
    late.hears(&["web ambient"]);
    let mut last = start();
    last.hears(&["web changed 3s"]);
    write(three, 4);
    last.hears(&["web changed 4s"]);

    let second = GoServer::serve_on(second, &rig.clients, rig.path(), "linear", &web(5));
    late.hears(&["web changed 5s"]);
    last.hears(&["web changed 5s"]);
    write(one, 6);
    let first = Chancery::serve_on(first, one, &[] as &[&str]);
    for watch in [&mut whole, &mut late, &mut last] {
        watch.hears(&["web changed 6s"]);
    }
    drop((second, third));
    write(one, 7);
    for watch in [&mut whole, &mut late, &mut last] {
        watch.hears(&["web changed 7s"]);
    }
    assert_eq!(whole.values(), ["web 1s", "web 6s", "web 7s"]);
    assert_eq!(late.values(), ["web 2s", "web 5s", "web 6s", "web 7s"]);
    assert_eq!(last.values(), ["web 3s", "web 4s", "web 5s", "web 6s", "web 7s"]);
    drop(first);
    whole.hears(&["web ambient"]);
}
