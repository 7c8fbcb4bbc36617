//! The API of the admin interface: its answers are what its own description says.
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod daemon;
#[path = "api/described.rs"]
mod described;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use daemon::{
    Running, Server, chancery, cluster, dir_write, directory, eventually, exchange, finished,
};
use described::Described;
use serde_json::{Value, json};

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
