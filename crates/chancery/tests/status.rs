//! `chancery status` and the API below it: what each node holds, and why it does not hold what it should.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::described::Described;
use crate::daemon::{
    Running, Server, chancery, cluster, dir_write, directory, eventually, finished, lines,
    next_line,
};

/// A cluster that gRPC clients reject, and others accept.
const FOR_ENVOY: &str = "\
\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: orders
type: EDS
eds_cluster_config: {eds_config: {path_config_source: {path: /etc/orders.yaml}}}
";

/// The same cluster as all clients accept it.
const FOR_ALL: &str = "\
\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: orders
type: EDS
eds_cluster_config: {eds_config: {ads: {}}}
";

fn fleet() -> TempDir {
    directory(&[
        ("chancery.yaml", "groups:\n- name: edge\n  match: {cluster: edge}\n"),
        ("base.yaml", &cluster("base", 1)),
        ("groups/edge/orders.yaml", FOR_ALL),
    ])
}

/// A client whose stream stays open.
fn connected(server: &Server, id: &str, flags: &[&str]) -> Running {
    let at = format!("127.0.0.1:{}", server.port);
    let words = ["watch", "cds", "--server", &at, "--node", id];
    Running::start(chancery(&[&words, flags].concat()).stdout(Stdio::null()).stderr(Stdio::null()))
}

/// Two clients of the group, of which one is for gRPC, and another one; each comes when the last one is there.
fn edge(server: &Server) -> [Running; 3] {
    let edge = ["--cluster", "edge"];
    let grpc = ["--cluster", "edge", "--as-grpc"];
    [("edge-1", &edge[..]), ("edge-7", &grpc[..]), ("web-1", &[])].map(|(id, flags)| {
        let client = connected(server, id, flags);
        eventually(|| ask(server, &format!("/api/v1/nodes/{id}"))["node"]["state"] == "in-step");
        client
    })
}

fn ask(server: &Server, path: &str) -> Value {
    let (_, text) = server.admin(path);
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{path}: {text}"))
}

fn status(server: &Server, query: &str) -> Value {
    ask(server, &format!("/api/v1/status{query}"))
}

/// The code, the output and the errors of a command.
fn run(server: &Server, words: &[&str]) -> (Option<i32>, String, String) {
    let at = format!("127.0.0.1:{}", server.admin);
    let output = finished(chancery(words).env("CHANCERY_ADMIN", &at));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A text in which times, ports and widths of columns do not count.
fn normal(text: &str) -> String {
    let word = |word: &str| {
        let end = word.len() - usize::from(word.ends_with([',', ';', ':']));
        let (word, comma) = word.split_at(end);
        let digit = |it: char| it.is_ascii_digit();
        let is_span = word.starts_with(digit)
            && word.ends_with(['s', 'm', 'h'])
            && word.chars().all(|it| digit(it) || "smh".contains(it));
        let is_time = word.len() == 20 && word.ends_with('Z');
        let is_peer = word.starts_with("127.0.0.1:");
        let shown = match (is_span, is_time, is_peer) {
            (true, _, _) => "SPAN",
            (_, true, _) => "TIME",
            (_, _, true) => "PEER",
            _ => word,
        };
        format!("{shown}{comma}")
    };
    let line = |line: &str| {
        let words = line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
        let since = words.split_once(" not landed for ");
        since.map_or_else(|| words.clone(), |(load, _)| format!("{load} not landed for SPAN"))
    };
    text.trim().lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The commands in the page about states, with what they print there.
fn transcripts() -> Vec<(String, String)> {
    let page = include_str!("../../../docs/status.md");
    let mut all: Vec<(String, String)> = Vec::new();
    let mut is_open = false;
    for line in page.lines() {
        match line.strip_prefix("    ") {
            Some(line) if line.starts_with("$ ") => {
                all.push((line[2..].to_owned(), String::new()));
                is_open = true;
            }
            Some(line) if is_open => all.last_mut().unwrap().1 += &format!("{line}\n"),
            None if line.is_empty() && is_open => all.last_mut().unwrap().1 += "\n",
            _ => is_open = false,
        }
    }
    all
}

#[test]
fn what_the_page_shows_is_what_is_printed() {
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    let _clients = edge(&server);
    dir_write(&dir, "groups/edge/orders.yaml", FOR_ENVOY);
    let (mut differing, all) = (String::new(), transcripts());
    assert!(all.len() >= 4, "{all:?}");
    let place = dir.path().to_str().unwrap();
    for (command, expected) in all {
        let words = command.replace("/etc/xds", place);
        let words: Vec<_> = words.split_whitespace().collect();
        let (told, trouble) = match words[0] {
            "chancery" => {
                let (_, told, trouble) = run(&server, &words[1..]);
                (told, trouble)
            }
            _ => continue,
        };
        let found = format!("{told}{trouble}").replace(place, "/etc/xds");
        if normal(&found) != normal(&expected) {
            differing += &format!("$ {command}\n{found}\n");
        }
    }
    assert!(differing.is_empty(), "the page says something else than:\n{differing}");
}

#[test]
fn a_rejection_is_told_everywhere_until_it_is_repaired() {
    // S-034
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    let _clients = edge(&server);
    dir_write(&dir, "groups/edge/orders.yaml", FOR_ENVOY);
    eventually(|| status(&server, "")["groups"][1]["rejected"] == 1);
    let found = status(&server, "?state=rejected");
    assert_eq!((&found["count"], &found["nodes"][0]["id"]), (&json!(1), &json!("edge-7")));
    let rejection = &found["nodes"][0]["rejections"][0];
    assert_eq!((&rejection["type"], &rejection["named"]), (&json!("cds"), &json!(["orders"])));
    assert!(rejection["reason"].as_str().unwrap().contains("must be `ads` or `self`"), "{found}");
    let of_group = |group: &str| status(&server, &format!("?group={group}"))["count"].clone();
    assert_eq!((of_group("edge"), of_group(""), of_group("none")), (json!(2), json!(1), json!(0)));

    let resource = ask(&server, "/api/v1/resources/cds/orders");
    assert_eq!(
        (&resource["wanted_by"], &resource["nodes"][0]["node"]),
        (&json!(2), &json!("edge-7"))
    );
    let listed = ask(&server, "/api/v1/resources?type=cds&fields=name,rejected_by");
    let expected =
        json!([{"name": "base", "rejected_by": 0}, {"name": "orders", "rejected_by": 1}]);
    assert_eq!(listed["resources"], expected);
    let version = &resource["versions"][0];
    assert_eq!((&version["rejected"], &version["acknowledged"]), (&json!(1), &json!(1)));
    assert_eq!(resource["origins"][0]["line"], 1);
    let node = ask(&server, "/api/v1/nodes/edge-7");
    assert_eq!(node["streams"][0]["types"][0]["suspects"], json!(["orders"]));
    assert_eq!(node["history"][0]["event"], "rejected");

    dir_write(&dir, "groups/edge/orders.yaml", FOR_ALL);
    eventually(|| status(&server, "")["groups"][1]["in_step"] == 2);
    assert_eq!(status(&server, "?state=rejected")["count"], 0);
    let node = ask(&server, "/api/v1/nodes/edge-7");
    assert_eq!(
        (&node["node"]["state"], &node["history"][0]["event"]),
        (&json!("in-step"), &json!("repaired"))
    );
    assert_eq!(
        ask(&server, "/api/v1/nodes/edge-7?resources=all")["streams"][0]["types"][0]["resources"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_node_that_went_is_told_for_a_while() {
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    let [one, _two, _three] = edge(&server);
    drop(one);
    eventually(|| status(&server, "")["groups"][1]["gone"] == 1);
    let found = status(&server, "?state=gone");
    assert_eq!(
        (&found["nodes"][0]["id"], &found["nodes"][0]["group"]),
        (&json!("edge-1"), &json!("edge"))
    );
    let (code, told, trouble) = run(&server, &["status", "edge-1"]);
    assert_eq!(code, Some(0), "{trouble}");
    assert!(told.contains("gone for "), "{told}");
    let (code, _, trouble) = run(&server, &["status", "egde-1"]);
    assert_eq!(code, Some(1));
    assert!(trouble.contains("did you mean `edge-1`?"), "{trouble}");
    let (code, _, trouble) = run(&server, &["status", "--resource", "cds/ordesr"]);
    assert_eq!(code, Some(1));
    assert!(trouble.contains("did you mean `orders`?"), "{trouble}");
    let (code, _, trouble) = run(&server, &["status", "--resource", "cds/orders-of-the-edge"]);
    assert_eq!(code, Some(1));
    let hint = "there are orders; `chancery status --resource 'cds/*'` lists what there is";
    assert!(trouble.contains(hint), "{trouble}");
    let (code, _, trouble) = run(&server, &["status", "--resource", "cds/zebra"]);
    assert!(code == Some(1) && trouble.contains("hint: `chancery status --resource"), "{trouble}");
    for words in [&["status", "--resource", "orders"][..], &["status", "a", "--group", "b"]] {
        assert_eq!(run(&server, words).0, Some(64), "{words:?}");
    }
}

#[test]
fn what_is_watched_is_shown_again_when_it_has_changed() {
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    let at = format!("127.0.0.1:{}", server.admin);
    let words = ["status", "--resource", "cds/base", "--watch", "--every", "100ms", "--admin", &at];
    let mut watching = Running::start(chancery(&words).stdout(Stdio::piped()));
    let shown = lines(watching.stdout.take().unwrap(), 100);
    let first: Vec<_> = (0..3).map(|_| next_line(&shown).unwrap()).collect();
    assert_eq!((&*first[0], &*first[2]), ("cds/base", "no client wants it"));
    dir_write(&dir, "base.yaml", &cluster("base", 2));
    let second: Vec<_> = (0..4).map(|_| next_line(&shown).unwrap()).collect();
    assert_eq!((&*second[0], &second[1], &second[3]), ("", &first[0], &first[2]));
    assert_ne!(second[2], first[1], "another version");
    let (code, _, trouble) = run(&server, &["status", "--watch", "--every", "99ms"]);
    assert!(code == Some(64) && trouble.contains("`--every` is at least 100ms"), "{trouble}");
}

#[test]
fn two_nodes_with_one_id_are_shown_as_such() {
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    let _clients = [
        connected(&server, "twin", &["--cluster", "edge"]),
        connected(&server, "twin", &["--cluster", "other"]),
    ];
    eventually(|| status(&server, "")["nodes"][0]["streams"] == 2);
    let found = status(&server, "");
    assert_eq!(found["nodes"][0]["claims_differ"], true);
    let (_, told, _) = run(&server, &["status"]);
    assert!(told.contains("its streams say different things of it"), "{told}");
}

#[test]
fn answers_about_states_are_as_they_are_described() {
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    let [one, _two, _three] = edge(&server);
    dir_write(&dir, "groups/edge/orders.yaml", FOR_ENVOY);
    eventually(|| status(&server, "")["groups"][1]["rejected"] == 1);
    let mut described = Described::new(ask(&server, "/api/v1/openapi.json"));
    let mut check = |of: &str, path: &str| {
        let (code, text) = server.admin(path);
        assert_eq!(code, 200, "{text}");
        described.check(of, "200", &serde_json::from_str(&text).unwrap());
    };
    check("/api/v1/status", "/api/v1/status");
    check("/api/v1/nodes/{id}", "/api/v1/nodes/edge-7?resources=all&type=cds");
    check("/api/v1/resources/{type}/{name}", "/api/v1/resources/cds/orders");
    check("/api/v1/loads", "/api/v1/loads?limit=1");
    check("/api/v1/wait", "/api/v1/wait?timeout=0");
    check("/api/v1/wait", "/api/v1/wait?timeout=0&hash=0");
    drop(one);
    eventually(|| status(&server, "")["groups"][1]["gone"] == 1);
    check("/api/v1/status", "/api/v1/status?state=gone");
    check("/api/v1/nodes/{id}", "/api/v1/nodes/edge-1");
    for (path, expected) in [
        ("/api/v1/nodes/none", "unknown-node"),
        ("/api/v1/resources/cds/none", "unknown-resource"),
        ("/api/v1/resources/none/none", "bad-parameter"),
        ("/api/v1/wait?group=none", "unknown-group"),
        ("/api/v1/wait?revision=x", "bad-parameter"),
        ("/api/v1/wait?revision=1&file=x", "bad-parameter"),
        ("/api/v1/wait?file=/etc/passwd", "bad-parameter"),
        ("/api/v1/wait?timeout=31", "bad-parameter"),
        ("/api/v1/events?after=x", "bad-parameter"),
        ("/api/v1/events?event=x", "bad-parameter"),
    ] {
        assert_eq!(ask(&server, path)["code"], expected, "{path}");
    }
    let (_, text) = server.admin("/api/v1/events?after=0");
    assert!(text.contains("`0` is the id of no event; ids are as `"), "{text}");
}

/// A reader of events, after the head of the answer.
fn reader(server: &Server, query: &str, header: &str) -> BufReader<TcpStream> {
    let mut stream = server.dial(server.admin);
    let head = format!("GET /api/v1/events{query} HTTP/1.1\r\nhost: localhost\r\n{header}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    BufReader::new(stream)
}

/// The next line that begins so, without the beginning. A read that brings nothing ends by itself, and so that other
/// lines do not keep it going, their number has a bound.
fn next(reader: &mut BufReader<TcpStream>, begin: &str) -> String {
    for _ in 0..MOST_LINES {
        let mut line = String::new();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "the end before `{begin}`");
        if let Some(rest) = line.trim_end().strip_prefix(begin) {
            return rest.to_owned();
        }
    }
    panic!("{MOST_LINES} lines, and none begins with `{begin}`")
}

/// The most lines of events that are read for one of them.
const MOST_LINES: usize = 1_000;

#[test]
fn events_are_told_as_they_come_and_once() {
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    let mut described = Described::new(ask(&server, "/api/v1/openapi.json"));
    let mut events = reader(&server, "?event=rejected&event=repaired&event=gone", "");
    assert_eq!(next(&mut events, "content-type: "), "text/event-stream");
    next(&mut events, "id: ");
    let _clients = edge(&server);
    dir_write(&dir, "groups/edge/orders.yaml", FOR_ENVOY);
    assert_eq!(next(&mut events, "event: "), "rejected");
    let event: Value = serde_json::from_str(&next(&mut events, "data: ")).unwrap();
    assert_eq!((&event["node"], &event["rejection"]["type"]), (&json!("edge-7"), &json!("cds")));
    described.check("/api/v1/events", "200", &event);
    drop(events);

    // One that comes back goes on after the last one that it saw.
    dir_write(&dir, "groups/edge/orders.yaml", FOR_ALL);
    eventually(|| status(&server, "")["groups"][1]["in_step"] == 2);
    let last = event["id"].as_str().unwrap();
    let header = format!("last-event-id: {last}\r\n");
    let mut again = reader(&server, "?event=rejected&event=repaired&node=edge-7", &header);
    assert_eq!(next(&mut again, "event: "), "repaired");
    // The number of another start of the server says nothing here.
    let mut all = reader(&server, "", "last-event-id: 00000000-7\r\n");
    assert_eq!(next(&mut all, "event: "), "loaded");
}

#[test]
fn readers_of_events_take_no_place_of_others() {
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    let mut readers: Vec<_> = (0..16).map(|_| reader(&server, "", "")).collect();
    readers.iter_mut().for_each(|reader| drop(next(reader, "id: ")));
    let (code, told) = server.admin("/api/v1/events");
    assert_eq!(code, 503, "{told}");
    assert!(told.contains("\"busy\""), "{told}");
    assert_eq!(server.admin("/ready").0, 200);
    assert_eq!(server.admin("/api/v1/status").0, 200);
    drop(readers.pop());
    eventually(|| {
        let mut next = reader(&server, "", "");
        let mut line = String::new();
        next.read_line(&mut line).unwrap();
        line.contains(" 200 ")
    });
}
