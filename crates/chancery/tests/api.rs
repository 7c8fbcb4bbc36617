//! The API of the admin interface: its answers are what its own description says.

pub(crate) mod described;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use described::Described;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::daemon::{
    Running, Server, chancery, cluster, dir_write, directory, eventually, exchange, finished,
};

fn ask(server: &Server, line: &str) -> (u16, Value) {
    let (status, text) = exchange(&mut server.dial(server.admin), line, "");
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{line}: {text}")))
}

/// A client whose stream stays open.
fn connected(server: &Server, id: &str, group: &str) -> Running {
    let at = format!("127.0.0.1:{}", server.port);
    let words = ["watch", "cds", "--server", &at, "--node", id, "--cluster", group];
    let metadata = ["--metadata", "token=hush"];
    let words = [&words[..], &metadata].concat();
    Running::start(chancery(&words).stdout(Stdio::null()).stderr(Stdio::null()))
}

fn first_event(server: &Server) -> Value {
    let mut events = server.dial(server.admin);
    events.write_all(b"GET /api/v1/events?after=0-0 HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut lines = BufReader::new(events).lines().map(Result::unwrap);
    let first = lines.find_map(|line| line.strip_prefix("data: ").map(str::to_owned));
    serde_json::from_str(&first.unwrap()).unwrap()
}

#[test]
fn every_answer_is_as_the_document_describes_it() {
    let rules = "\
gate: {messages: warn}
groups:
- {name: edge, match: {cluster: edge}}
- {name: broken, match: {cluster: broken}}
";
    let route = "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\nname: r\n\
        virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: gone}}]}]\n";
    let many =
        (0..30).map(|at| format!("- {}", cluster(&format!("c{at}"), 1).replace('\n', "\n  ")));
    let many: String = many.map(|it| it.trim_end().to_owned() + "\n").collect();
    let dir = directory(&[
        ("chancery.yaml", rules),
        ("base.yaml", &cluster("base", 1)),
        ("routes.yaml", route),
        ("groups/edge/many.yaml", &many),
        ("groups/broken/a.yaml", &cluster("a", 1).replace("connect_timeout", "connect_timout")),
    ]);
    let server = Server::start(&dir, &[]);
    let _edge = connected(&server, "edge-1", "edge");
    eventually(|| ask(&server, "GET /api/v1/nodes").1["count"] == 1);
    dir_write(&dir, "groups/edge/many.yaml", "[]\n");
    eventually(|| ask(&server, "GET /api/v1/confirm").1["count"] == 1);

    let mut described = Described::new(ask(&server, "GET /api/v1/openapi.json").1);
    for (path, lines) in [
        ("/api/v1/openapi.json", &["GET /api/v1/openapi.json"][..]),
        ("/api/v1/config", &["GET /api/v1/config"]),
        (
            "/api/v1/confirm",
            &["GET /api/v1/confirm", "GET /api/v1/confirm?group=edge&group=broken"],
        ),
        ("/api/v1/nodes", &["GET /api/v1/nodes", "GET /api/v1/nodes?id=edge-1&limit=1"]),
        ("/api/v1/load", &["GET /api/v1/load", "GET /api/v1/load?by=node"]),
        ("/api/v1/status", &["GET /api/v1/status?limit=1"]),
        ("/api/v1/nodes/{id}", &["GET /api/v1/nodes/edge-1?resources=all"]),
        ("/api/v1/resources", &["GET /api/v1/resources", "GET /api/v1/resources?limit=1"]),
        ("/api/v1/resources/{type}/{name}", &["GET /api/v1/resources/cds/base"]),
        ("/api/v1/loads", &["GET /api/v1/loads"]),
        ("/api/v1/wait", &["GET /api/v1/wait?timeout=0"]),
    ] {
        for line in lines {
            let (status, answer) = ask(&server, line);
            assert_eq!(status, 200, "{line}: {answer}");
            described.check(path, "200", &answer);
        }
    }
    for (path, line, expected, code) in [
        ("/api/v1/nodes", "GET /api/v1/nodes?limit=0", 400, "bad-parameter"),
        ("/api/v1/nodes", "GET /api/v1/nodes?fields=id,grop", 400, "bad-parameter"),
        ("/api/v1/load", "GET /api/v1/load?after=x", 400, "bad-parameter"),
        ("/api/v1/load", "DELETE /api/v1/load", 405, "method"),
        ("/api/v1/confirm", "POST /api/v1/confirm", 400, "bad-body"),
        ("/api/v1/config", "GET /api/v1/confg", 404, "no-such-path"),
    ] {
        let (status, answer) = ask(&server, line);
        assert_eq!((status, &answer["code"]), (expected, &json!(code)), "{line}: {answer}");
        described.check(path, "default", &answer);
    }
    described.check("/api/v1/events", "200", &first_event(&server));
    described.all_paths_were_checked();
}

#[test]
fn the_keys_of_rows_can_be_selected() {
    let dir = directory(&[("base.yaml", &cluster("base", 1))]);
    let server = Server::start(&dir, &[]);
    let _one = connected(&server, "one", "");
    eventually(|| ask(&server, "GET /api/v1/nodes").1["count"] == 1);
    let (_, found) = ask(&server, "GET /api/v1/nodes?fields=group,id");
    let expected = json!({
        "count": 1, "nodes": [{"id": "one", "group": null}], "next": null, "anonymous": 0,
    });
    assert_eq!(found, expected);
    let (_, refused) = ask(&server, "GET /api/v1/nodes?fields=grop");
    let expected = json!({
        "code": "bad-parameter", "message": "`fields` has no `grop`",
        "hint": "did you mean `group`?",
    });
    assert_eq!(refused, expected);
}

/// A directory with resources in three kinds of layers.
fn layers() -> TempDir {
    let route =
        "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\nname: orders\n";
    directory(&[
        ("chancery.yaml", "groups:\n- {name: edge, match: {cluster: edge}}\n"),
        ("base.yaml", &format!("- {}", cluster("orders-1", 1).trim_end().replace('\n', "\n  "))),
        ("more.yaml", &cluster("web", 1)),
        ("routes.yaml", route),
        ("groups/edge/a.yaml", &cluster("orders-1", 2)),
        ("nodes/n/a.yaml", &cluster("orders-2", 2)),
    ])
}

/// `TYPE NAME LAYER` of each of its resources, in order.
const IN_LAYERS: [&str; 5] = [
    "cds orders-1 base",
    "cds orders-1 group `edge`",
    "cds orders-2 node `n`",
    "cds web base",
    "rds orders base",
];

fn rows(found: &Value) -> Vec<String> {
    let word = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let rows = found["resources"].as_array().unwrap().iter();
    let row = |row| format!("{} {} {}", word(row, "type"), word(row, "name"), word(row, "layer"));
    rows.map(row).collect()
}

#[test]
fn resources_are_listed_page_by_page() {
    let dir = layers();
    let server = Server::start(&dir, &[]);
    let list = |query: &str| ask(&server, &format!("GET /api/v1/resources{query}")).1;
    let all = IN_LAYERS;
    let whole = list("");
    assert_eq!(
        (rows(&whole), &whole["count"], &whole["next"]),
        (all.map(str::to_owned).into(), &json!(5), &json!(null))
    );
    let first = &whole["resources"][0];
    assert!(first["file"].as_str().unwrap().ends_with("base.yaml"), "{first}");
    assert_eq!((&first["line"], &first["rejected_by"]), (&json!(1), &json!(0)));
    assert_eq!(first["version"].as_str().unwrap().len(), 32);
    // Pages, in the same order.
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = list(&format!("?limit=2{after}"));
        assert_eq!(page["count"], 5);
        found.extend(rows(&page));
        let Some(next) = page["next"].as_str() else { break };
        let encoded = next.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        after = format!("&after={encoded}");
    }
    assert_eq!(found, all);
    for (query, expected) in [
        ("?type=rds", &all[4..]),
        ("?type=type.googleapis.com/envoy.config.cluster.v3.Cluster&prefix=orders-", &all[..3]),
        ("?prefix=w", &all[3..4]),
        ("?prefix=nothing", &[]),
        ("?group=edge", &all[1..2]),
        ("?group=&type=cds&prefix=o", &all[..1]),
    ] {
        assert_eq!(rows(&list(query)), expected, "{query}");
    }
    for (query, code) in [
        ("?type=clusters", "bad-parameter"),
        ("?after=x", "bad-parameter"),
        ("?group=egde", "unknown-group"),
    ] {
        assert_eq!(list(query)["code"], code, "{query}");
    }
}

#[test]
fn a_command_lists_resources_whose_names_begin_so() {
    let (dir, all) = (layers(), IN_LAYERS);
    let server = Server::start(&dir, &[]);
    let command = |words: &[&str]| {
        let at = format!("127.0.0.1:{}", server.admin);
        let output = finished(&mut chancery(&[&["status", "--admin", &at], words].concat()));
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, told, trouble) = command(&["--resource", "cds/ord*", "--limit", "2"]);
    assert_eq!((code, trouble.as_str()), (Some(0), ""));
    let lines: Vec<_> = told.lines().collect();
    assert!(lines[0].starts_with("NAME      LAYER         VERSION"), "{told}");
    assert!(
        lines[2].starts_with("orders-1  group `edge`  ") && lines[2].ends_with("a.yaml:1"),
        "{told}"
    );
    assert_eq!((lines.len(), lines[3]), (4, "and 1 more"), "{told}");
    let (code, told, _) = command(&["--resource", "cds/*", "--group", "edge", "-o", "json"]);
    let found: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, rows(&found)), (Some(0), vec![all[1].to_owned()]));
    for words in [&["--resource", "eds/o*"][..], &["--resource", "eds/o*", "-o", "json"]] {
        let (code, told, trouble) = command(words);
        assert_eq!((code, told.as_str()), (Some(1), ""));
        assert!(
            trouble.contains("no resource of `eds` has a name that begins with `o`"),
            "{trouble}"
        );
    }
}

#[test]
fn a_part_of_what_is_loaded_can_be_asked_for() {
    let dir = directory(&[("base.yaml", &cluster("base", 1))]);
    let server = Server::start(&dir, &[]);
    let (_, found) =
        ask(&server, "GET /api/v1/config?fields=fault_count,held_back,everything_held_back");
    assert_eq!(found, json!({"fault_count": 0, "held_back": []}));
    let (_, found) = ask(&server, "GET /api/v1/config?fields=resources");
    assert_eq!(found["resources"][0]["name"], "base");
    let (status, refused) = ask(&server, "GET /api/v1/config?fields=fault");
    assert_eq!((status, &refused["code"]), (400, &json!("bad-parameter")));
    // All of it is as it was.
    let (_, whole) = ask(&server, "GET /api/v1/config");
    assert_eq!(whole.as_object().unwrap().len(), 9, "{whole}");
}

#[test]
fn the_old_path_of_the_configuration_leads_to_the_new_one() {
    let dir = directory(&[("base.yaml", &cluster("base", 1))]);
    let server = Server::start(&dir, &[]);
    let (status, told) = server.admin("/config");
    assert_eq!((status, told.as_str()), (308, "it is at /api/v1/config now\n"));
}

#[test]
fn a_command_says_what_the_server_says() {
    let dir = directory(&[("base.yaml", &cluster("base", 1))]);
    let server = Server::start(&dir, &[]);
    let refused = |port: u16| {
        let at = format!("127.0.0.1:{port}");
        let output = finished(&mut chancery(&["confirm", "--list", "--admin", &at]));
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, told) = refused(server.port);
    assert_eq!(code, Some(2));
    assert!(told.contains("hint: give the address of the admin interface"), "{told}");
    assert_eq!(refused(server.admin).0, Some(0));
}
