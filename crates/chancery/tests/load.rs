//! Load reports: what the admin interface and `chancery load` show of what clients report.

use chancery_client::bootstrap::{Locality, Node, XdsServer};
use chancery_client::credentials::ChannelCredentials;
use chancery_client::load::{Load, OrcaReport, ReportedMetrics};
use chancery_client::{Bootstrap, Client, Options};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::api::described::Described;
use crate::daemon::{
    Server, chancery, cluster, dir_write, directory, eventually, exchange, finished,
};

/// A directory whose clients report every second, but for those of the group `quiet`.
fn reporting() -> TempDir {
    let rules = "\
load-reports: {interval: 1s, groups: {quiet: off}}
groups:
- name: quiet
  match: {cluster: quiet}
";
    directory(&[("base.yaml", &cluster("orders", 1)), ("chancery.yaml", rules)])
}

/// A client of the server that reports its calls.
struct Reporter {
    client: Client,
    server: XdsServer,
    _runtime: Runtime,
}

impl Reporter {
    fn new(server: &Server, id: &str, cluster: &str) -> Self {
        let channel = ChannelCredentials::Insecure;
        let uri = format!("127.0.0.1:{}", server.port);
        let server = XdsServer { uri, channel, ..XdsServer::default() };
        let node = Node { id: id.to_owned(), cluster: cluster.to_owned(), ..Node::default() };
        let bootstrap = Bootstrap { servers: vec![server.clone()], node, ..Bootstrap::default() };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let entered = runtime.enter();
        let client = Client::new(&bootstrap, Options::default()).unwrap();
        drop(entered);
        Self { client, server, _runtime: runtime }
    }

    fn load(&self, cluster: &str, service: &str) -> Load {
        let metrics = ReportedMetrics::new(["named_metrics.*"]);
        self.client.load(&self.server, cluster, service).unwrap().with_metrics(metrics)
    }
}

/// Makes calls, of which the first so many fail.
fn calls(load: &Load, zone: &str, count: usize, failed: usize) {
    let zone = Locality { zone: zone.to_owned(), ..Locality::default() };
    let counter = load.locality(&zone);
    for number in 0..count {
        let call = counter.started();
        if number < failed { call.failed() } else { call.succeeded() }
    }
}

fn load(server: &Server, query: &str) -> Value {
    let (status, text) = server.admin(&format!("/api/v1/load{query}"));
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// The sums of the rows.
fn issued(document: &Value) -> u64 {
    let rows = document["rows"].as_array().unwrap();
    rows.iter().map(|row| row["issued"].as_u64().unwrap()).sum()
}

/// The command, with its code and its output.
fn shown(server: &Server, words: &[&str]) -> (Option<i32>, String, String) {
    let admin = format!("127.0.0.1:{}", server.admin);
    let output = finished(&mut chancery(&[&["load", "--admin", &admin], words].concat()));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_calls_of_clients_are_shown_one_by_one() {
    let dir = reporting();
    let server = Server::start(&dir, &[]);
    let empty = json!({"count": 0, "reporters": 0, "rows": [], "next": null});
    assert_eq!(load(&server, ""), empty);
    let (code, out, told) = shown(&server, &[]);
    assert_eq!((code, out.as_str()), (Some(0), ""), "{told}");
    assert!(told.contains("no client has reported calls"), "{told}");

    let (one, two) = (Reporter::new(&server, "one", ""), Reporter::new(&server, "two", ""));
    let (of_one, of_two) = (one.load("orders", ""), two.load("orders", ""));
    let users = two.load("users", "users.eds");
    calls(&of_one, "a", 100, 7);
    calls(&of_one, "b", 20, 0);
    calls(&of_two, "a", 1_000, 1);
    calls(&users, "a", 3, 0);
    let open = of_two.locality(&Locality { zone: "b".to_owned(), ..Locality::default() });
    let open = [open.started(), open.started()];
    of_one.dropped(Some("lb"));
    of_one.dropped(None);
    let said =
        OrcaReport { named_metrics: [("queue".to_owned(), 3.0)].into(), ..OrcaReport::default() };
    users.locality(&Locality::default()).started().ended(true, &said);
    eventually(|| issued(&load(&server, "")) == 100 + 20 + 1_000 + 3 + 2 + 1);

    let (code, out, _) = shown(&server, &["--by", "node"]);
    let expected = "\
NODE  ISSUED    OK  FAILED  NOW  DROPPED  PER SECOND
one      120   113       7    0        2           -
two     1006  1003       1    2        0           -
";
    assert_eq!((code, out.as_str()), (Some(0), expected));
    let (_, out, _) = shown(&server, &["--by", "locality", "--node", "two"]);
    let expected = "\
CLUSTER            LOCALITY  ISSUED   OK  FAILED  NOW  DROPPED  PER SECOND
orders             /a          1000  999       1    0        0           -
orders             /b             2    0       0    2        0           -
users (users.eds)  -              1    1       0    0        0           -
users (users.eds)  /a             3    3       0    0        0           -
";
    assert_eq!(out, expected);
    let (_, out, _) = shown(&server, &["--cluster", "orders", "-o", "json"]);
    let mut row: Value = serde_json::from_str(&out).unwrap();
    let history = row["history"].as_array().unwrap();
    let in_time = history.iter().map(|slot| slot["issued"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(in_time, 1_122);
    assert!(history[0]["begins"].as_u64().unwrap() > 1_700_000_000);
    for key in ["history", "minute"] {
        row.as_object_mut().unwrap().remove(key);
    }
    let expected = json!({
        "cluster": "orders", "issued": 1122, "succeeded": 1112, "failed": 8, "in_progress": 2,
        "dropped": 2, "drops": {"lb": 1},
    });
    assert_eq!(row, expected);
    let users = load(&server, "?cluster=users");
    assert_eq!(
        users["rows"][0]["metrics"],
        json!({"named_metrics.queue": {"calls": 1, "total": 3.0}})
    );
    assert_eq!(users["reporters"], 2);
    let first = load(&server, "?by=locality&limit=1");
    assert_eq!((&first["count"], issued(&first)), (&json!(5), 0), "the drops come first");
    let next = encoded(first["next"].as_str().unwrap());
    assert_eq!(issued(&load(&server, &format!("?by=locality&limit=4&after={next}"))), 1_126);

    drop(open);
    drop((of_one, of_two));
    eventually(|| load(&server, "?cluster=orders")["rows"][0]["in_progress"] == 0);
    let (code, _, told) = shown(&server, &["--cluster", "none"]);
    assert_eq!(
        (code, told.as_str()),
        (Some(1), "chancery: nothing is reported of cluster `none`\n")
    );
    let (_, metrics) = server.admin("/metrics");
    assert!(metrics.contains("chancery_load_calls_total{outcome=\"issued\"} 1126\n"), "{metrics}");
}

/// A text as a part of a query.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn what_is_shown_is_as_it_is_described() {
    let dir = reporting();
    let server = Server::start(&dir, &[]);
    let one = Reporter::new(&server, "one", "");
    let of_one = one.load("orders", "orders.eds");
    calls(&of_one, "a", 3, 1);
    of_one.dropped(Some("lb"));
    let said =
        OrcaReport { named_metrics: [("queue".to_owned(), 0.5)].into(), ..OrcaReport::default() };
    of_one.locality(&Locality::default()).started().ended(true, &said);
    eventually(|| issued(&load(&server, "")) == 4);
    let document = server.admin("/api/v1/openapi.json").1;
    let mut described = Described::new(serde_json::from_str(&document).unwrap());
    for query in ["", "?by=locality", "?by=node"] {
        let found = load(&server, query);
        assert!(!found["rows"].as_array().unwrap().is_empty(), "{found}");
        described.check("/api/v1/load", "200", &found);
    }
}

#[test]
fn a_group_that_is_to_report_nothing_reports_when_that_changes() {
    let dir = reporting();
    let server = Server::start(&dir, &[]);
    let (quiet, other) = (Reporter::new(&server, "q", "quiet"), Reporter::new(&server, "o", ""));
    let (of_quiet, of_other) = (quiet.load("orders", ""), other.load("orders", ""));
    calls(&of_quiet, "a", 5, 0);
    calls(&of_other, "a", 7, 0);
    eventually(|| issued(&load(&server, "")) == 7);
    let rules = "groups: [{name: quiet, match: {cluster: quiet}}]\nload-reports: {interval: 1s}\n";
    dir_write(&dir, "chancery.yaml", rules);
    eventually(|| issued(&load(&server, "")) == 12);
}

#[test]
fn load_is_told_to_the_same_machine_and_not_to_web_pages() {
    let dir = reporting();
    let server = Server::start(&dir, &[]);
    for query in ["?limit=0", "?limit=1001", "?by=all", "?by=node&by=node", "?after=x", "?x=y"] {
        assert_eq!(server.admin(&format!("/api/v1/load{query}")).0, 400, "{query}");
    }
    for header in ["origin: http://a", "via: 1.1 a", "x-forwarded-for: 10.1.2.3", "host: a.example"]
    {
        let line = format!("GET /api/v1/load HTTP/1.1\r\n{header}\r\nx-rest:");
        let (status, text) = exchange(&mut server.dial(server.admin), &line, "");
        assert_eq!(status, 403, "{header}: {text}");
    }
    let nobody = finished(&mut chancery(&["load", "--admin", "127.0.0.1:1"]));
    assert_eq!(nobody.status.code(), Some(2));
    let misuse = finished(&mut chancery(&["load", "--watch", "--every", "1ms"]));
    assert_eq!(misuse.status.code(), Some(64));
}

#[test]
fn a_program_is_told_that_rows_are_missing() {
    let dir = reporting();
    let server = Server::start(&dir, &[]);
    let reporters = ["one", "two"].map(|id| Reporter::new(&server, id, ""));
    let clusters = |of: usize| (0..5_500).map(move |number| format!("{of}-{number}"));
    let both = reporters.iter().enumerate();
    let loads: Vec<_> = both
        .flat_map(|(of, reporter)| clusters(of).map(|name| reporter.load(&name, "")))
        .inspect(|load| calls(load, "a", 1, 0))
        .collect();
    eventually(|| load(&server, "?limit=1")["count"] == loads.len());
    let (code, out, told) = shown(&server, &["-o", "json"]);
    assert_eq!((code, out.lines().count()), (Some(2), 10_000), "{told}");
    assert!(told.contains("only the first 10000 of 11000 rows were written"), "{told}");
}
