//! `chancery watch` against servers of this project: every event is told once, and as what it is.

use std::process::{Output, Stdio};
use std::sync::mpsc::Receiver;

use chancery_core::{Resource, Snapshot, TypeUrl};
use chancery_testkit::{TestEventKind, TestServer};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::daemon;
use crate::daemon::ports::Port;
use crate::daemon::{Program, Running, Server, chancery, cluster, dir_write, directory, finished};

/// All ways to ask over gRPC.
const WAYS: [&[&str]; 4] = [
    &["--protocol", "sotw"],
    &["--protocol", "delta"],
    &["--protocol", "sotw", "--per-type"],
    &["--protocol", "delta", "--per-type"],
];

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

#[test]
fn changes_and_removals_are_told_as_they_happen() {
    for way in WAYS {
        let site = Site::new();
        site.serve("a", 1);
        site.serve("b", 1);
        let watch = site.watch(&[&["cds", "-o", "json"], way].concat());
        assert_eq!(watch.event(), "a changed 1s");
        assert_eq!(watch.event(), "b changed 1s");
        site.serve("b", 2);
        assert_eq!(watch.event(), "b changed 2s");
        site.remove("a");
        assert_eq!(watch.event(), "a removed");
        site.serve("a", 3);
        assert_eq!(watch.event(), "a changed 3s");
        watch.stop("INT");
    }
}

#[test]
fn a_named_resource_that_is_not_there_is_told_when_it_comes() {
    for way in WAYS {
        let site = Site::new();
        site.serve("other", 1);
        let words = ["cds", "late", "-o", "json", "--timeout", "200ms"];
        let watch = site.watch(&[&words, way].concat());
        assert_eq!(watch.event(), "late removed");
        site.serve("late", 1);
        assert_eq!(watch.event(), "late changed 1s");
        watch.stop("TERM");
    }
}

#[test]
fn json_says_all_there_is_to_an_event() {
    let site = Site::new();
    site.serve("a", 1);
    let watch = site.watch(&["cds", "-o", "json", "--protocol", "delta"]);
    let changed = watch.object();
    let keys: Vec<_> = changed.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["error", "event", "name", "resource", "time", "type", "version"]);
    assert_eq!(changed["type"], CLUSTER);
    assert_eq!(changed["resource"]["name"], "a");
    assert!(changed["version"].as_str().is_some_and(|version| !version.is_empty()), "{changed}");
    assert!(changed["error"].is_null());
    let time = changed["time"].as_str().unwrap();
    assert!(time.len() == "2026-11-22T05:11:49.155744Z".len() && time.ends_with('Z'), "{time}");
    site.remove("a");
    let removed = watch.object();
    assert!(removed["resource"].is_null() && removed["version"].is_null(), "{removed}");
    assert!(removed["error"].as_str().unwrap().contains("cds `a`"), "{removed}");
    watch.stop("INT");
}

#[test]
fn people_see_what_has_changed() {
    let site = Site::new();
    site.serve("a", 1);
    let watch = site.watch(&["cds"]);
    let line = watch.line();
    let (time, rest) = line.split_at("05:11:49.155".len());
    assert_eq!((&time[2..3], &time[8..9]), (":", "."), "{time}");
    assert!(rest.starts_with(" cds a changed, version "), "{rest}");
    site.serve("a", 2);
    assert!(watch.line().contains(" cds a changed, version "));
    let lines: Vec<_> = (0..5).map(|_| watch.line()).collect();
    let expected = [
        "  @@ -1,3 +1,3 @@".to_owned(),
        format!("    \"@type\": {CLUSTER}"),
        "    name: a".to_owned(),
        "  - connect_timeout: 1s".to_owned(),
        "  + connect_timeout: 2s".to_owned(),
    ];
    assert_eq!(lines, expected);
    site.remove("a");
    assert!(watch.line().ends_with(" cds a removed"));
    watch.stop("INT");
}

#[test]
fn other_formats_have_the_same_events() {
    let site = Site::new();
    site.serve("a", 1);
    let watch = site.watch(&["cds", "-o", "yaml"]);
    assert!(watch.line().starts_with("# "));
    let lines: Vec<_> = (0..4).map(|_| watch.line()).collect();
    let body = ["---".to_owned(), format!("\"@type\": {CLUSTER}"), "name: a".to_owned()];
    assert_eq!((&lines[..3], lines[3].as_str()), (&body[..], "connect_timeout: 1s"));
    watch.stop("INT");
    let run = site.run(&["cds", "-o", "text", "--count", "1"]);
    let printed = text(&run.stdout);
    assert!(printed.contains(" cds a changed, ") && printed.contains("name: \"a\""), "{printed}");
    let run = site.run(&["cds", "-o", "table", "--count", "1"]);
    assert_eq!(text(&run.stdout).lines().count(), 1);
    let bytes = site.run(&["cds", "-o", "binary", "--count", "1"]).stdout;
    // The length of the message takes two bytes, seven bits in each.
    let length = usize::from(bytes[0] & 0x7f) + (usize::from(bytes[1]) << 7);
    assert_eq!(length, bytes.len() - 2);
}

#[test]
fn a_watch_ends_after_so_many_events_or_so_much_time() {
    let site = Site::new();
    for name in ["a", "b", "c"] {
        site.serve(name, 1);
    }
    let run = site.run(&["cds", "-o", "json", "--count", "2"]);
    assert_eq!((run.status.code(), text(&run.stdout).lines().count()), (Some(0), 2));
    let run = site.run(&["cds", "-o", "json", "--for", "1s"]);
    assert_eq!((run.status.code(), text(&run.stdout).lines().count()), (Some(0), 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_told_and_takes_nothing_away() {
    for way in WAYS {
        let first = served("a", 1).await;
        let address = first.address().to_string();
        let words = ["cds", "-o", "json", "--server", &address];
        let watch = Watching::start(&[&words, way].concat());
        assert_eq!(watch.event(), "a changed");
        first.stop().await;
        assert_eq!(watch.event(), "* ambient but");
        watch.stop("INT");
    }
}

#[test]
fn another_server_is_asked_while_the_first_is_away() {
    let (first, second) = (directory(&[]), Site::new());
    dir_write(&first, "a.yaml", &cluster("a", 1));
    second.serve("a", 2);
    let (port, other) = (Port::reserve(), second.address());
    let address = port.address();
    let servers = ["--server", &address, "--server", &other];
    let watch = Watching::start(&[&["cds", "-o", "json"], &servers[..]].concat());
    assert_eq!(watch.event(), "a changed 2s");
    let first = Server::start(&first, &["--listen", &address]);
    assert_eq!(watch.until(|event| event["event"] == "changed"), "a changed 1s");
    drop(first);
    assert_eq!(watch.until(|event| event["name"] == "*"), "* ambient but");
    watch.stop("INT");
}

#[test]
fn nobody_there_is_an_event_and_not_the_end() {
    let port = Port::reserve();
    let free = port.address();
    let watch = Watching::start(&["cds", "a", "-o", "json", "--server", &free]);
    let event = watch.object();
    assert_eq!((&event["event"], &event["name"]), (&json!("error"), &json!("a")));
    let error = event["error"].as_str().unwrap();
    assert!(error.contains(&free) && error.contains("; next attempt in "), "{event}");
    assert!(error.ends_with(", then at most 10s after each failure"), "{event}");
    watch.stop("INT");
}

#[test]
fn two_authorities_are_watched_at_once() {
    let kept = "xdstp://team-b/envoy.config.cluster.v3.Cluster/edge/one";
    let (ours, theirs) = (Site::new(), Site::of(directory(&[("one.yaml", &cluster(kept, 1))])));
    ours.serve("a", 1);
    let server = |site: &Site| json!([{"server_uri": site.address(), "channel_creds": [{"type": "insecure"}]}]);
    let bootstrap = json!({
        "xds_servers": server(&ours),
        "authorities": {"team-b": {"xds_servers": server(&theirs)}},
    });
    let work = directory(&[("bootstrap.json", &bootstrap.to_string())]);
    let file = work.path().join("bootstrap.json");
    let glob = "xdstp://team-b/envoy.config.cluster.v3.Cluster/edge/*";
    let words = ["--bootstrap", file.to_str().unwrap(), "-o", "json"];
    let watch = Watching::start(&[&[glob], &words[..]].concat());
    assert_eq!(watch.event(), format!("{kept} changed 1s"));
    dir_write(&theirs.dir, "one.yaml", &cluster(kept, 2));
    assert_eq!(watch.event(), format!("{kept} changed 2s"));
    watch.stop("INT");
    let watch = Watching::start(&[&["cds", "a", kept], &words[..]].concat());
    let mut both = [watch.event(), watch.event()];
    both.sort();
    assert_eq!(both, ["a changed 1s".to_owned(), format!("{kept} changed 2s")]);
    watch.stop("INT");
}

#[test]
fn only_what_has_changed_since_an_earlier_run_is_told() {
    for way in WAYS {
        let site = Site::new();
        for name in ["a", "b", "c"] {
            site.serve(name, 1);
        }
        let address = site.address();
        let words = ["get", "cds", "-o", "json", "--server", &address];
        let before = finished(&mut chancery(&[&words, way].concat())).stdout;
        let work = directory(&[("before", &text(&before))]);
        let file = work.path().join("before");
        site.serve("b", 2);
        site.remove("c");
        // Both are there before the question: no event may be missed or come twice.
        let seen = site.watch(&["cds", "-o", "json", "--count", "2"]).all();
        assert_eq!(seen, ["a changed 1s", "b changed 2s"]);
        let resume = ["cds", "--resume", file.to_str().unwrap()];
        let watch = site.watch(&[&resume[..], &["-o", "json"], way].concat());
        let mut seen = [watch.event(), watch.event()];
        seen.sort();
        assert_eq!(seen, ["b changed 2s", "c removed"], "{way:?}");
        watch.stop("INT");
        let run = site.run(&[&resume[..], &["--count", "2"], way].concat());
        assert!(text(&run.stdout).contains("  + connect_timeout: 2s"), "{}", text(&run.stdout));
    }
}

/// C-065, C-070: a source that names what it has says by its silence what is gone.
#[test]
fn a_name_that_an_earlier_run_had_and_no_source_has_is_removed() {
    let endpoints = |name| {
        let url = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
        format!("- {{\"@type\": {url}, cluster_name: {name}}}\n")
    };
    let dir = directory(&[("eds.yaml", &(endpoints("a") + &endpoints("b")))]);
    let uri = format!("file:{}", dir.path().join("eds.yaml").display());
    let words = ["get", "eds", "a", "b", "-o", "json", "--server", &uri];
    let before = finished(&mut chancery(&words)).stdout;
    let work = directory(&[("before", &text(&before))]);
    let file = work.path().join("before");
    dir_write(&dir, "eds.yaml", &endpoints("b"));
    let resume = ["eds", "a", "b", "--resume", file.to_str().unwrap(), "--timeout", "1s"];
    let watch = Watching::start(&[&resume[..], &["-o", "json", "--server", &uri]].concat());
    assert_eq!(watch.event(), "a removed");
    watch.stop("INT");
}

/// C-043
#[test]
fn a_file_that_cannot_be_read_has_no_time_to_be_missing() {
    let dir = directory(&[("cds.yaml", "- name: [\n")]);
    let uri = format!("file:{}", dir.path().join("cds.yaml").display());
    let words = ["cds", "a", "-o", "json", "--server", &uri, "--timeout", "500ms"];
    let watch = Watching::start(&words);
    assert_eq!(watch.event(), "a error");
    // The next event is that it can be read, and not that the time was over.
    let run = finished(&mut chancery(&[&["watch"], &words[..], &["--for", "2s"]].concat()));
    assert_eq!(text(&run.stdout).lines().count(), 1, "{}", text(&run.stdout));
    dir_write(&dir, "cds.yaml", &format!("- {}\n", inline("a", 1)));
    assert_eq!(watch.event(), "a changed 1s");
    watch.stop("INT");
}

/// C-043
#[test]
fn a_broken_file_takes_nothing_away() {
    let dir = directory(&[]);
    let path = dir.path().join("cds.yaml");
    let two = |a, b| format!("- {}\n- {}\n", inline("a", a), inline("b", b));
    dir_write(&dir, "cds.yaml", &two(1, 1));
    let uri = format!("file:{}", path.display());
    let named = Watching::start(&["cds", "a", "-o", "json", "--server", &uri]);
    let all = Watching::start(&["cds", "-o", "json", "--server", &uri]);
    assert_eq!(named.event(), "a changed 1s");
    assert_eq!([all.event(), all.event()], ["a changed 1s", "b changed 1s"]);
    dir_write(&dir, "cds.yaml", "- name: [\n");
    assert_eq!([named.event(), all.event()], ["a ambient but", "* ambient but"]);
    dir_write(&dir, "cds.yaml", &two(1, 2));
    assert_eq!(named.event(), "a ambient over");
    assert_eq!([all.event(), all.event()], ["* ambient over", "b changed 2s"]);
    named.stop("INT");
    all.stop("INT");
}

/// C-025
#[test]
fn two_spellings_of_a_name_are_one_subject() {
    let name = |query| format!("xdstp://a/envoy.config.cluster.v3.Cluster/x?{query}");
    let site = Site::of(directory(&[("x.yaml", &cluster(&name("a=1&b=2"), 1))]));
    let (one, other) = (name("a=1&b=2"), name("b=2&a=1"));
    for words in [&[&one, &other][..], &[&other, &one]] {
        let words: Vec<_> = words.iter().map(|word| word.as_str()).collect();
        let mut watch = site.watch(&[&words[..], &["-o", "json", "--count", "2"]].concat());
        assert_eq!(watch.event(), format!("{one} changed 1s"));
        dir_write(&site.dir, "x.yaml", &cluster(&one, 2));
        assert_eq!(watch.event(), format!("{one} changed 2s"));
        assert_eq!(watch.child.ended().0, Some(0));
        dir_write(&site.dir, "x.yaml", &cluster(&one, 1));
        let told = "\"connectTimeout\":\"1s\"";
        daemon::eventually(|| site.server.post("clusters", &asking_for(&one)).1.contains(told));
        let address = site.address();
        let get = [&["get", "--server", &address, "-o", "json"], &words[..]].concat();
        assert_eq!(text(&finished(&mut chancery(&get)).stdout).lines().count(), 1);
    }
}

#[test]
fn a_file_that_cannot_be_resumed_is_told_with_its_line() {
    let site = Site::new();
    let line = |resource: Value| {
        json!({"type": CLUSTER, "name": "a", "version": "1", "resource": resource}).to_string()
    };
    let good = line(json!({"@type": CLUSTER, "name": "a"}));
    for (second, told) in [
        ("{".to_owned(), "line 2"),
        (line(json!({"@type": CLUSTER, "nam": "a"})), "line 2: nam"),
        (line(json!({"@type": CLUSTER, "name": "[redacted]", "x": 1})), "--show-secrets"),
    ] {
        let work = directory(&[("before", &format!("{good}\n{second}\n"))]);
        let file = work.path().join("before");
        let run = site.run(&["cds", "--resume", file.to_str().unwrap()]);
        assert_eq!(run.status.code(), Some(2));
        assert!(text(&run.stderr).contains(told), "{}", text(&run.stderr));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_hears_of_each_rejection() {
    let server = served("a", 1).await;
    let address = server.address().to_string();
    let words = ["cds", "-o", "json", "--server", &address, "--nack", "a test", "--count", "1"];
    let mut watch = Watching::start(&words);
    let event = watch.object();
    assert_eq!((&event["name"], &event["event"]), (&json!("a"), &json!("error")));
    assert!(event["error"].as_str().unwrap().contains("a test"), "{event}");
    loop {
        if let TestEventKind::Rejected { error, .. } = server.event().await.kind {
            assert_eq!(error, "`a`: a test");
            break;
        }
    }
    assert_eq!(watch.child.ended().0, Some(0));
}

/// As `head -1` does; nothing happens after that line.
#[test]
fn a_reader_who_goes_away_ends_it_at_once() {
    let site = Site::new();
    site.serve("a", 1);
    let words = ["watch", "cds", "--server", &site.address()];
    let mut watch = Watching::of(&mut chancery(&words), 1);
    watch.line();
    assert_eq!(watch.child.ended(), (Some(0), String::new()));
}

/// The watch prints more than a pipe holds.
#[test]
fn a_reader_who_reads_nothing_does_not_keep_it_from_ending() {
    let many: String =
        (0..3000).map(|number| cluster(&format!("cluster-{number}"), 1) + "---\n").collect();
    let site = Site::of(directory(&[("many.yaml", &many)]));
    let bounds = ["--for", "2s"];
    for (signal, bounds) in [(Some("TERM"), &[][..]), (Some("INT"), &[]), (None, &bounds)] {
        let words = ["watch", "cds", "-o", "json", "--server", &site.address()];
        let mut command = chancery(&[&words, bounds].concat());
        let mut child = Running::start(command.stderr(Stdio::piped()));
        let unread = child.stdout.take().unwrap();
        if let Some(signal) = signal {
            let io = format!("/proc/{}/io", child.id());
            daemon::eventually(|| written(&std::fs::read_to_string(&io).unwrap()) > PIPE_ALMOST);
            child.signal(signal);
        }
        assert_eq!(child.ended(), (Some(0), String::new()), "{signal:?}");
        drop(unread);
    }
}

#[test]
fn what_can_never_be_watched_ends_it() {
    let site = Site::new();
    for words in [
        &["cds", "xdstp://a/envoy.config.route.v3.RouteConfiguration/r"][..],
        &["--target", "xds:"],
        &["cds", "--resume", "/nowhere"],
    ] {
        let run = site.run(words);
        assert_eq!(run.status.code(), Some(2), "{words:?}: {}", text(&run.stderr));
    }
    for words in [&["cds", "--count", "0"][..], &["cds", "--for", "ever"], &["cds", "-o", "xml"]] {
        assert_eq!(site.run(words).status.code(), Some(64), "{words:?}");
    }
}

/// A server of one cluster, with a number to tell versions apart by.
async fn served(name: &str, number: u8) -> TestServer {
    let mut snapshot = Snapshot::new();
    // `name` is field 1, `alt_stat_name` field 28, and both texts are short.
    let mut body = vec![0x0a, u8::try_from(name.len()).unwrap()];
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(&[0xe2, 0x01, 1, b'0' + number]);
    let resource = Resource::new(name.parse().unwrap(), body.into());
    snapshot.insert(&TypeUrl::new(CLUSTER), resource);
    TestServer::start(snapshot).await.unwrap()
}

/// A daemon that serves a directory of clusters.
struct Site {
    server: Server,
    dir: TempDir,
}

impl Site {
    /// With nothing in the directory but that every resource may be removed.
    fn new() -> Self {
        Self::of(directory(&[("chancery.yaml", "gate: {loss: off}\n")]))
    }

    fn of(dir: TempDir) -> Self {
        Self { server: Server::start(&dir, &[]), dir }
    }

    /// Returns when clients are told.
    fn serve(&self, name: &str, seconds: u32) {
        dir_write(&self.dir, &format!("{name}.yaml"), &cluster(name, seconds));
        let told = format!("\"connectTimeout\":\"{seconds}s\",\"name\":\"{name}\"");
        daemon::eventually(|| self.server.clusters("test").contains(&told));
    }

    fn remove(&self, name: &str) {
        std::fs::remove_file(self.dir.path().join(format!("{name}.yaml"))).unwrap();
        let told = format!("\"name\":\"{name}\"");
        daemon::eventually(|| !self.server.clusters("test").contains(&told));
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.server.port)
    }

    fn watch(&self, words: &[&str]) -> Watching {
        Watching::start(&[&["--server", &self.address()], words].concat())
    }

    fn run(&self, words: &[&str]) -> Output {
        let address = self.address();
        finished(&mut chancery(&[&["watch", "--server", &address], words].concat()))
    }
}

/// A cluster in one line of YAML.
fn inline(name: &str, seconds: u32) -> String {
    format!("{{\"@type\": {CLUSTER}, name: {name}, connect_timeout: {seconds}s}}")
}

fn asking_for(name: &str) -> String {
    json!({"node": {"id": "test"}, "resource_names": [name]}).to_string()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The number of bytes that a process has written.
fn written(io: &str) -> u64 {
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.unwrap().parse().unwrap()
}

/// A little less than a pipe holds.
const PIPE_ALMOST: u64 = 60_000;

/// A watch that goes on.
struct Watching {
    child: Running,
    lines: Receiver<String>,
}

impl Watching {
    fn start(words: &[&str]) -> Self {
        Self::of(&mut chancery(&[&["watch"], words].concat()), usize::MAX)
    }

    /// One of which so many lines are read.
    fn of(command: &mut Program, most: usize) -> Self {
        let mut child = Running::start(command.stderr(Stdio::piped()));
        let lines = daemon::lines(child.stdout.take().unwrap(), most);
        Self { child, lines }
    }

    fn line(&self) -> String {
        daemon::next_line(&self.lines).expect("it goes on")
    }

    fn object(&self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// The next event in few words.
    fn event(&self) -> String {
        shown(&self.object())
    }

    /// The next event of which this holds.
    fn until(&self, holds: impl Fn(&Value) -> bool) -> String {
        loop {
            let object = self.object();
            if holds(&object) {
                return shown(&object);
            }
        }
    }

    /// All events of a watch that ends by itself.
    fn all(self) -> Vec<String> {
        let lines = daemon::all_lines(&self.lines);
        lines.lines().map(|line| shown(&serde_json::from_str(line).unwrap())).collect()
    }

    /// Interrupts it, after which it says nothing more.
    fn stop(mut self, signal: &str) {
        self.child.signal(signal);
        daemon::all_lines(&self.lines);
        assert_eq!(self.child.ended(), (Some(0), String::new()));
    }
}

/// `NAME EVENT TIMEOUT`
fn shown(event: &Value) -> String {
    let word = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let rest = match (event["resource"]["connect_timeout"].as_str(), word("event").as_str()) {
        (Some(timeout), _) => format!(" {timeout}"),
        (None, "ambient") if event["error"].is_null() => " over".to_owned(),
        (None, "ambient") => " but".to_owned(),
        _ => String::new(),
    };
    format!("{} {}{rest}", word("name"), word("event"))
}
