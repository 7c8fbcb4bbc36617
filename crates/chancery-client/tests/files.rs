//! Watches of files: what is read, when it is read again, and what does no harm (C-043).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use chancery_client::watch::ErrorKind;
use chancery_client::{Event, Options, RawWatch, TypeUrl};
use chancery_testkit::TestServer;
use tempfile::TempDir;

use crate::watching::{Cluster, client, clusters, heard, quick, server, snapshot, within};

fn eager() -> Options {
    Options { file_refresh: Duration::from_millis(20), ..quick() }
}

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// A list of clusters in YAML, each with something else to tell versions apart by.
fn yaml(clusters: &[(&str, &str)]) -> String {
    let clusters = clusters.iter().map(|(name, other)| {
        let any = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
        format!("- \"@type\": {any}\n  name: {name}\n  alt_stat_name: \"{other}\"\n")
    });
    clusters.collect()
}

/// Replaces a file as a careful writer does.
fn put(path: &Path, content: impl AsRef<[u8]>) {
    let beside = path.with_file_name("beside");
    fs::write(&beside, content).unwrap();
    fs::rename(&beside, path).unwrap();
}

/// The error of the next event, and its words.
async fn trouble(watch: &mut RawWatch) -> (ErrorKind, String) {
    match within(watch.next()).await.unwrap() {
        Event::Changed { value: Err(error), .. } | Event::Ambient { error: Some(error), .. } => {
            (error.kind, error.to_string())
        }
        event => panic!("{event:?}"),
    }
}

/// C-043
#[tokio::test]
async fn a_watch_follows_a_file() {
    let dir = directory();
    let file = dir.path().join("cds.yaml");
    put(&file, yaml(&[("a", "1"), ("b", "1")]));
    for path in [dir.path(), &file] {
        put(&file, yaml(&[("a", "1"), ("b", "1")]));
        let client = client(vec![server(uri(path))], eager());
        let mut one = client.watch_raw(&clusters(), "a");
        let mut all = client.watch_raw(&clusters(), "*");
        assert_eq!(heard(&mut one).await, "a=1");
        let mut news = vec![heard(&mut all).await, heard(&mut all).await, heard(&mut all).await];
        news.sort();
        assert_eq!(news, ["a=1", "b=1", "settled"]);
        put(&file, yaml(&[("a", "2")]));
        assert_eq!(heard(&mut one).await, "a=2");
        let mut news = vec![heard(&mut all).await, heard(&mut all).await];
        news.sort();
        assert_eq!(news, ["a=2", "b none Missing"]);
        let mut late = client.watch_raw(&clusters(), "a");
        assert_eq!(heard(&mut late).await, "a=2");
    }
}

/// C-043: all formats, each type in a file of its own.
#[tokio::test]
async fn every_format_is_read() {
    let any = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
    let body = b"\x0a\x01a\xe2\x01\x01\x31";
    let packed = [&[0x0a, any.len() as u8], any.as_bytes(), &[0x12, body.len() as u8], body];
    let packed = packed.concat();
    let binary = [&[0x12, packed.len() as u8], packed.as_slice()].concat();
    for (name, content) in [
        ("cds.yaml", yaml(&[("a", "1")]).into_bytes()),
        ("cds.yml", yaml(&[("a", "1")]).into_bytes()),
        (
            "cds.json",
            format!(r#"{{"resources": [{{"@type": "{any}", "name": "a", "altStatName": "1"}}]}}"#)
                .into_bytes(),
        ),
        (
            "cds.pb_text",
            format!(r#"resources {{ [{any}] {{ name: "a" alt_stat_name: "1" }} }}"#).into_bytes(),
        ),
        ("cds.pb", binary),
    ] {
        let dir = directory();
        put(&dir.path().join(name), content);
        let client = client(vec![server(uri(dir.path()))], eager());
        assert_eq!(heard(&mut client.watch_raw(&clusters(), "a")).await, "a=1", "{name}");
        let routes = TypeUrl::new("envoy.config.route.v3.RouteConfiguration");
        let (kind, text) = trouble(&mut client.watch_raw(&routes, "r")).await;
        assert_eq!(kind, ErrorKind::Missing, "{text}");
        assert!(text.contains("`rds`"), "{text}");
    }
}

/// C-043: as Kubernetes mounts a volume.
#[tokio::test]
async fn a_swap_of_symlinks_is_one_change() {
    let dir = directory();
    for (generation, other) in [("one", "1"), ("two", "2")] {
        fs::create_dir(dir.path().join(generation)).unwrap();
        let content = yaml(&[("a", other), ("b", other)]);
        fs::write(dir.path().join(generation).join("cds.yaml"), content).unwrap();
    }
    symlink("one", dir.path().join("..data")).unwrap();
    symlink("..data/cds.yaml", dir.path().join("cds.yaml")).unwrap();
    let client = client(vec![server(uri(dir.path()))], eager());
    let mut watch = client.watch_raw(&clusters(), "b");
    assert_eq!(heard(&mut watch).await, "b=1");
    symlink("two", dir.path().join("..new")).unwrap();
    fs::rename(dir.path().join("..new"), dir.path().join("..data")).unwrap();
    assert_eq!(heard(&mut watch).await, "b=2");
}

/// C-043: what cannot be used changes nothing, and is told with its place.
#[tokio::test]
async fn a_broken_file_leaves_what_is_there() {
    let dir = directory();
    let file = dir.path().join("cds.yaml");
    put(&file, yaml(&[("a", "1")]));
    let mut options = eager();
    options.settings.patience = Duration::ZERO; // Nobody reads what becomes of the group.
    let client = client(vec![server(uri(dir.path()))], options);
    let mut watch = client.watch_raw(&clusters(), "a");
    let mut all = client.watch_raw(&clusters(), "*");
    assert_eq!(heard(&mut watch).await, "a=1");
    assert_eq!((heard(&mut all).await, heard(&mut all).await), ("a=1".into(), "settled".into()));
    let typo = yaml(&[("a", "2")]).replace("alt_stat_name", "alt_stat_nam");
    let truncated = &yaml(&[("a", "2"), ("b", "2")])[..150];
    let listener =
        "- \"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\n  name: l\n";
    for (content, text) in [
        (typo.as_str(), "`cds.yaml`: line 3, column 3: "),
        (truncated, "`cds.yaml`: "),
        ("", "is empty"),
        (listener, "envoy.config.listener.v3.Listener"),
        ("\u{0}", "`cds.yaml`: "),
    ] {
        put(&file, content);
        let (kind, told) = trouble(&mut watch).await;
        assert_eq!(kind, ErrorKind::Rejected);
        assert!(told.contains(text), "{text}: {told}");
        let mut late = client.watch_raw(&clusters(), "a");
        assert_eq!(heard(&mut late).await, "a=1");
    }
    fs::remove_file(&file).unwrap();
    let (kind, told) = trouble(&mut watch).await;
    assert!(kind == ErrorKind::Missing && told.contains("there is no file `cds`"), "{told}");
    put(&file, yaml(&[("a", "2")]));
    assert_eq!(heard(&mut watch).await, "a=2");
    // A slow watch hears what is true.
    assert_eq!(heard(&mut all).await, "a=2");
}

/// C-043: who watches a group hears of the file under the group's own name.
#[tokio::test]
async fn a_group_hears_of_a_broken_file() {
    let dir = directory();
    let file = dir.path().join("cds.yaml");
    put(&file, "]");
    let client = client(vec![server(uri(dir.path()))], eager());
    let mut all = client.watch_raw(&clusters(), "*");
    assert_eq!(heard(&mut all).await, "* but Rejected");
    put(&file, yaml(&[("a", "1")]));
    let mut news = vec![heard(&mut all).await, heard(&mut all).await, heard(&mut all).await];
    news.sort();
    assert_eq!(news, ["* fine", "a=1", "settled"]);
}

/// C-043, C-055: what the program itself refuses costs nothing else.
#[tokio::test]
async fn a_bad_resource_costs_no_good_one() {
    let dir = directory();
    put(&dir.path().join("cds.yaml"), yaml(&[("a", "1"), ("bad", "1")]));
    let client = client(vec![server(uri(dir.path()))], eager());
    let mut bad = client.watch::<Cluster>("bad");
    let mut good = client.watch::<Cluster>("a");
    assert!(matches!(within(good.next()).await, Some(Event::Changed { value: Ok(_), .. })));
    let Some(Event::Changed { value: Err(error), .. }) = within(bad.next()).await else { panic!() };
    assert_eq!(error.kind, ErrorKind::Rejected);
}

/// C-043: nobody knows which of the two is meant.
#[tokio::test]
async fn two_files_of_a_type_are_one_too_many() {
    let dir = directory();
    put(&dir.path().join("cds.yaml"), yaml(&[("a", "1")]));
    put(&dir.path().join("cds.json"), "[]");
    let client = client(vec![server(uri(dir.path()))], eager());
    let (kind, told) = trouble(&mut client.watch_raw(&clusters(), "a")).await;
    assert_eq!(kind, ErrorKind::Rejected);
    assert!(told.contains("`cds.yaml` and `cds.json`"), "{told}");
}

/// C-043, C-067: a directory that is not there is a server that is not there.
#[tokio::test]
async fn a_directory_may_come_and_go() {
    let dir = directory();
    let (path, aside) = (dir.path().join("xds"), dir.path().join("aside"));
    let client = client(vec![server(uri(&path))], eager());
    let mut watch = client.watch_raw(&clusters(), "a");
    assert_eq!(heard(&mut watch).await, "a none Unreachable");
    fs::create_dir(&aside).unwrap();
    put(&aside.join("cds.yaml"), yaml(&[("a", "1")]));
    fs::rename(&aside, &path).unwrap();
    assert_eq!(heard(&mut watch).await, "a=1");
    fs::rename(&path, &aside).unwrap();
    assert_eq!(heard(&mut watch).await, "a but Unreachable");
    put(&aside.join("cds.yaml"), yaml(&[("a", "2")]));
    fs::rename(&aside, &path).unwrap();
    // The new value may say that the trouble is over.
    while heard(&mut watch).await != "a=2" {}
}

/// C-087: files stand in for a server.
#[tokio::test]
async fn files_are_a_fallback() {
    let dir = directory();
    put(&dir.path().join("cds.yaml"), yaml(&[("a", "file"), ("b", "file")]));
    let first = TestServer::start(snapshot(&[("a", "grpc")])).await.unwrap();
    let client = client(vec![server(first.address()), server(uri(dir.path()))], eager());
    let mut one = client.watch_raw(&clusters(), "a");
    assert_eq!(heard(&mut one).await, "a=grpc");
    first.stop().await;
    assert_eq!(heard(&mut one).await, "a but Unreachable");
    assert_eq!(heard(&mut client.watch_raw(&clusters(), "b")).await, "b=file");
    while heard(&mut one).await != "a=file" {}
}

/// C-043: written in place, in the same tick of the clock, with the same length.
#[tokio::test]
async fn writes_in_place_are_seen() {
    let dir = directory();
    let file = dir.path().join("cds.yaml");
    fs::write(&file, yaml(&[("a", "0")])).unwrap();
    let client = client(vec![server(uri(&file))], eager());
    let mut watch = client.watch_raw(&clusters(), "a");
    assert_eq!(heard(&mut watch).await, "a=0");
    for other in ["1", "2", "3"] {
        fs::write(&file, yaml(&[("a", other)])).unwrap();
        assert_eq!(heard(&mut watch).await, format!("a={other}"));
    }
}
