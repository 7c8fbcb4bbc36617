//! The cache on disk for the next run: used at once, checked, and never in the way.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use chancery_client::disk_cache::DiskCache;
use chancery_client::options::Variant;
use chancery_client::{Client, Clients, Event, Options, TypeUrl};
use chancery_core::{Resource, Snapshot};
use chancery_testkit::TestServer;
use tempfile::TempDir;

use crate::watching;
use crate::watching::{client, clusters, heard, quick, server, snapshot, within};

fn keeping(dir: &TempDir) -> Options {
    let mut stock = DiskCache::new(dir.path());
    stock.interval = Duration::from_millis(10);
    Options { disk_cache: Some(stock), ..quick() }
}

/// Waits until the index says so.
async fn index(dir: &Path, is_right: impl Fn(&str) -> bool) -> String {
    let look = async {
        loop {
            let text = fs::read_to_string(dir.join("index")).unwrap_or_default();
            if is_right(&text) {
                return text;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(look).await
}

/// Lets a client hold these clusters, until they are on disk. Where the server was.
async fn run(dir: &TempDir, options: Options, all: &[(&str, &str)]) -> SocketAddr {
    let server = TestServer::start(snapshot(all)).await.unwrap();
    let address = server.address();
    let client = client(vec![self::server(address)], options);
    let mut watch = client.watch_raw(&clusters(), "*");
    while heard(&mut watch).await != "settled" {}
    index(dir.path(), |text| all.iter().all(|(name, _)| text.contains(&format!("\"{name}\""))))
        .await;
    drop((watch, client));
    server.stop().await;
    address
}

async fn told(client: &Client, name: &str) -> String {
    heard(&mut client.watch_raw(&clusters(), name)).await
}

/// C-073: the next run begins with what the last one had, although nobody can be reached.
#[tokio::test]
async fn the_next_run_begins_where_the_last_one_ended() {
    let dir = tempfile::tempdir().unwrap();
    let address = run(&dir, keeping(&dir), &[("a", "1"), ("b", "1")]).await;
    for _ in 0..2 {
        let client = client(vec![server(address)], keeping(&dir));
        let mut one = client.watch_raw(&clusters(), "a");
        let mut all = client.watch_raw(&clusters(), "*");
        assert_eq!(heard(&mut one).await, "a=1");
        assert_eq!(heard(&mut one).await, "a but Unreachable");
        let mut news = Vec::new();
        while news.len() < 2 {
            let told = heard(&mut all).await;
            news.extend(told.contains('=').then_some(told));
        }
        assert_eq!(news, ["a=1", "b=1"]);
    }
}

/// C-040: a server of delta is told what the client has, and says what is new.
#[tokio::test]
async fn a_server_of_delta_is_told_the_versions_of_the_last_run() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options { variant: Variant::Delta, ..keeping(&dir) };
    let server = TestServer::start(snapshot(&[("a", "1"), ("b", "1")])).await.unwrap();
    let first = client(vec![self::server(server.address())], options());
    let mut watch = first.watch_raw(&clusters(), "*");
    while heard(&mut watch).await != "settled" {}
    index(dir.path(), |text| text.contains("\"b\"")).await;
    drop((watch, first));
    server.publish(snapshot(&[("a", "1"), ("c", "1")]));
    let second = client(vec![self::server(server.address())], options());
    let mut watch = second.watch_raw(&clusters(), "*");
    let mut news = Vec::new();
    while !news.contains(&"c=1".to_owned()) || !news.contains(&"b none Missing".to_owned()) {
        news.push(heard(&mut watch).await);
    }
    assert_eq!(news.iter().filter(|told| *told == "a=1").count(), 1, "{news:?}");
    // A resource that is gone is gone from the disk too.
    index(dir.path(), |text| text.contains("\"c\"") && !text.contains("\"b\"")).await;
}

/// C-073: one bad bit costs one resource.
#[tokio::test]
async fn what_is_damaged_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let clusters = [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")];
    let address = run(&dir, keeping(&dir), &clusters).await;
    let text = fs::read_to_string(dir.path().join("index")).unwrap();
    let line = |name: &str| text.lines().find(|it| it.contains(&format!("\"{name}\""))).unwrap();
    let body = |name| line(name).split("\"body\":\"").nth(1).unwrap()[..32].to_owned();
    let bodies = dir.path().join("bodies");
    fs::write(bodies.join(body("a")), "something else").unwrap();
    fs::remove_file(bodies.join(body("b"))).unwrap();
    let damaged = line("c").replace("\"c\"", "\"x\"");
    fs::write(dir.path().join("index"), text.replace(line("c"), &damaged)).unwrap();
    let client = client(vec![server(address)], keeping(&dir));
    let mut all = client.watch_raw(&self::clusters(), "*");
    while !heard(&mut all).await.contains('=') {}
    for (name, expected) in [("d", "d=4"), ("a", "a none Unreachable"), ("b", "b none Unreachable")]
    {
        assert_eq!(told(&client, name).await, expected);
    }
    assert_eq!(told(&client, "x").await, "x none Unreachable");
}

/// Garbage where the index should be is no reason not to start, and is replaced.
#[tokio::test]
async fn garbage_is_replaced() {
    for garbage in ["", "\n\n", "garbage", "chancery-stock 1 00\nx y", "\u{0}\u{0}\n{}"] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("index"), garbage).unwrap();
        let address = run(&dir, keeping(&dir), &[("a", "1")]).await;
        let client = client(vec![server(address)], keeping(&dir));
        let mut watch = client.watch_raw(&clusters(), "a");
        while heard(&mut watch).await != "a=1" {}
    }
}

/// C-040, C-084: what another server said, or was said to another node, is not used.
#[tokio::test]
async fn only_the_same_node_and_the_same_server_count() {
    let dir = tempfile::tempdir().unwrap();
    let address = run(&dir, keeping(&dir), &[("a", "1")]).await;
    let mut strict = server(address);
    strict.features.fail_on_data_errors = true;
    let other = client(vec![strict], keeping(&dir));
    assert_eq!(told(&other, "a").await, "a none Unreachable");
    assert_eq!(told(&other, "a").await, "a none Unreachable");
    drop(other);
    let bootstrap = chancery_client::Bootstrap {
        servers: vec![server(address)],
        node: chancery_client::bootstrap::Node { id: "other".to_owned(), ..Default::default() },
        ..Default::default()
    };
    let other = Client::new(&bootstrap, keeping(&dir)).unwrap();
    assert_eq!(told(&other, "a").await, "a none Unreachable");
    assert_eq!(told(&other, "a").await, "a none Unreachable");
}

/// S-138: secrets are on no disk unless somebody wants them there.
#[tokio::test]
async fn secrets_are_kept_only_if_asked() {
    let sds = TypeUrl::new("envoy.extensions.transport_sockets.tls.v3.Secret");
    for wanted in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut all = snapshot(&[("a", "1")]);
        all.insert(&sds, Resource::new("s".parse().unwrap(), b"\x0a\x01s"[..].into()));
        let server = TestServer::start(Snapshot::clone(&all)).await.unwrap();
        let mut options = keeping(&dir);
        options.disk_cache.as_mut().unwrap().secrets = wanted;
        let client = client(vec![self::server(server.address())], options);
        let mut secret = client.watch_raw(&sds, "s");
        assert!(matches!(
            within(secret.next()).await.unwrap(),
            Event::Changed { value: Ok(_), .. }
        ));
        let mut watch = client.watch_raw(&clusters(), "a");
        assert_eq!(heard(&mut watch).await, "a=1");
        let text = index(dir.path(), |text| text.contains("\"a\"")).await;
        assert_eq!(text.contains("\"s\""), wanted, "{text}");
        for path in ["index", "lock"] {
            let mode = fs::metadata(dir.path().join(path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{path}");
        }
    }
}

/// S-138: a field decides what is a secret, and not the type.
#[tokio::test]
async fn a_secret_in_a_cluster_is_kept_only_if_asked() {
    let key = "-----BEGIN PRIVATE KEY-----";
    for wanted in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut all = snapshot(&[("a", "1"), ("k", key)]);
        // Field 32767 is one of a newer Envoy.
        let newer = [&b"\n\x01n\xe2\x01\x011\xfa\xff\x0f\x1b"[..], key.as_bytes()].concat();
        all.insert(&clusters(), Resource::new("n".parse().unwrap(), newer.into()));
        let server = TestServer::start(all).await.unwrap();
        let mut options = keeping(&dir);
        options.disk_cache.as_mut().unwrap().secrets = wanted;
        let client = client(vec![self::server(server.address())], options);
        let mut secret = client.watch_raw(&clusters(), "k");
        assert_eq!(heard(&mut secret).await, format!("k={key}"));
        let mut newer = client.watch_raw(&clusters(), "n");
        assert!(heard(&mut newer).await.ends_with(key));
        let mut watch = client.watch_raw(&clusters(), "a");
        assert_eq!(heard(&mut watch).await, "a=1");
        let text = index(dir.path(), |text| text.contains("\"a\"")).await;
        assert_eq!(text.contains("\"k\""), wanted, "{text}");
        assert_eq!(text.contains("\"n\""), wanted, "{text}");
        server.publish(snapshot(&[("a", "2"), ("k", key)]));
        assert_eq!(heard(&mut watch).await, "a=2");
    }
}

/// A resource that a program does not watch any more is kept: it drops its watches when it ends.
#[tokio::test]
async fn what_is_not_watched_any_more_is_kept_within_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(snapshot(&[("a", "1"), ("b", "1")])).await.unwrap();
    let mut options = keeping(&dir);
    let client = client(vec![self::server(server.address())], options.clone());
    let mut watch = client.watch_raw(&clusters(), "a");
    assert_eq!(heard(&mut watch).await, "a=1");
    index(dir.path(), |text| text.contains("\"a\"")).await;
    drop(watch);
    let mut watch = client.watch_raw(&clusters(), "b");
    assert_eq!(heard(&mut watch).await, "b=1");
    index(dir.path(), |text| text.contains("\"a\"") && text.contains("\"b\"")).await;
    drop((watch, client));
    // Each of the bodies has seven bytes.
    options.disk_cache.as_mut().unwrap().max_bytes = 10;
    let client = watching::client(vec![self::server(server.address())], options);
    let mut watch = client.watch_raw(&clusters(), "b");
    server.publish(snapshot(&[("a", "1"), ("b", "2")]));
    while heard(&mut watch).await != "b=2" {}
    index(dir.path(), |text| text.contains("\"b\"") && !text.contains("\"a\"")).await;
}

/// Two clients would take each other's files away.
#[tokio::test]
async fn a_directory_is_one_clients() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(snapshot(&[("a", "1"), ("b", "1")])).await.unwrap();
    let first = client(vec![self::server(server.address())], keeping(&dir));
    let mut watch = first.watch_raw(&clusters(), "a");
    assert_eq!(heard(&mut watch).await, "a=1");
    let before = index(dir.path(), |text| text.contains("\"a\"")).await;
    let second = client(vec![self::server(server.address())], keeping(&dir));
    assert_eq!(told(&second, "b").await, "b=1");
    assert_eq!(fs::read_to_string(dir.path().join("index")).unwrap(), before);
}

/// C-058: the clients of several targets have a part each.
#[tokio::test]
async fn clients_of_several_targets_have_a_part_each() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(snapshot(&[("a", "1")])).await.unwrap();
    let bootstrap = chancery_client::Bootstrap {
        servers: vec![self::server(server.address())],
        node: chancery_client::bootstrap::Node { id: "test".to_owned(), ..Default::default() },
        ..Default::default()
    };
    let clients = Clients::new(bootstrap, keeping(&dir)).unwrap();
    let client = clients.for_target(&"xds:///web".parse().unwrap()).unwrap();
    let mut watch = client.watch_raw(&clusters(), "a");
    assert_eq!(heard(&mut watch).await, "a=1");
    let part = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    assert!(part.file_name().unwrap().to_str().unwrap().starts_with("target-"), "{part:?}");
    index(&part, |text| text.contains("\"a\"")).await;
}

/// A disk that cannot be used stops nobody.
#[tokio::test]
async fn a_disk_that_cannot_be_used_stops_nobody() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("bodies"), "a file where a directory should be").unwrap();
    let server = TestServer::start(snapshot(&[("a", "1")])).await.unwrap();
    let client = client(vec![self::server(server.address())], keeping(&dir));
    assert_eq!(told(&client, "a").await, "a=1");
}
