//! `examples/monitoring`: each metric and label that its alerts and its dashboard name is one that a running server
//! shows, and `promtool` takes and tries the alerts, where there is one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use chancery_client::bootstrap::{Locality, Node, XdsServer};
use chancery_client::credentials::ChannelCredentials;
use chancery_client::{Bootstrap, Client, Options, TypeUrl};
use chancery_proto::syntax::from_yaml;
use serde::Deserialize;
use serde_json::Value;

use crate::daemon::{Program, Server, chancery, cluster, directory, eventually, finished};
use crate::promql;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/monitoring");

/// The series that a server shows only after something that the test here does not bring about.
const AFTER_AN_EVENT: [&str; 7] = [
    "chancery_clients_refused_total",
    "chancery_cut_off_total",
    "chancery_handshakes_failed_total",
    "chancery_load_left_out_total",
    "chancery_polls_total",
    "chancery_skipped_total",
    "chancery_stale_total",
];

/// Labels that Prometheus adds to all series.
const OF_PROMETHEUS: [&str; 2] = ["job", "instance"];

/// A file of alerts, with the keys that Prometheus knows and that are of use here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AlertFile {
    groups: Vec<AlertGroup>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AlertGroup {
    name: String,
    rules: Vec<Alert>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Alert {
    alert: String,
    expr: String,
    r#for: String,
    labels: AlertLabels,
    annotations: Annotations,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AlertLabels {
    severity: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Annotations {
    summary: String,
    description: String,
}

fn example(name: &str) -> String {
    fs::read_to_string(Path::new(EXAMPLES).join(name)).unwrap()
}

fn alerts() -> Vec<Alert> {
    let file: AlertFile = from_yaml(&example("alerts.yaml")).unwrap();
    assert!(file.groups.iter().all(|group| !group.name.is_empty()));
    file.groups.into_iter().flat_map(|group| group.rules).collect()
}

/// The texts behind a key, anywhere in a document.
fn texts<'v>(value: &'v Value, key: &str) -> Vec<&'v str> {
    let own = value.get(key).and_then(Value::as_str);
    let inner: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Object(fields) => Box::new(fields.values()),
        Value::Array(items) => Box::new(items.iter()),
        _ => Box::new(std::iter::empty()),
    };
    own.into_iter().chain(inner.flat_map(|value| texts(value, key))).collect()
}

/// The expressions of the dashboard, each with its legend.
fn dashboard() -> Vec<(String, String)> {
    let document: Value = serde_json::from_str(&example("dashboard.json")).unwrap();
    let panels = document["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let text = |target: &Value, key: &str| target[key].as_str().unwrap().to_owned();
    let mut all: Vec<_> =
        targets.map(|target| (text(target, "expr"), text(target, "legendFormat"))).collect();
    let annotations = document["annotations"]["list"].as_array().unwrap();
    all.extend(annotations.iter().map(|it| (text(it, "expr"), text(it, "textFormat"))));
    for query in texts(&document["templating"], "query") {
        if let Some(query) = query.strip_prefix("label_values(") {
            let (selector, label) = query.trim_end_matches(')').rsplit_once(", ").unwrap();
            all.push((selector.to_owned(), format!("{{{{{label}}}}}")));
        }
    }
    assert_eq!(all.len(), texts(&document, "expr").len() + 3, "no expression is passed over");
    all
}

/// A metric: its kind, and the names of its labels.
type Metrics = BTreeMap<String, (String, BTreeSet<String>)>;

/// The table of the documentation, which another test compares with the code.
fn documented() -> Metrics {
    let page = include_str!("../../../docs/metrics.md");
    let rows = page.lines().filter(|line| line.starts_with("| `chancery_"));
    let row = |line: &str| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let labels = cells[3].split(", ").map(|label| label.trim_matches('`').to_owned());
        let labels = labels.filter(|label| !label.is_empty()).collect();
        (cells[1].trim_matches('`').to_owned(), (cells[2].to_owned(), labels))
    };
    rows.map(row).collect()
}

/// The names of series that Prometheus has of these metrics, with their labels.
fn series(metrics: &Metrics) -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::from([("up".to_owned(), BTreeSet::new())]);
    for (name, (kind, labels)) in metrics {
        let ends: &[&str] = match &**kind {
            "gauge" => &[""],
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            other => panic!("{name} is a {other}"),
        };
        for end in ends {
            let le = (*end == "_bucket").then(|| "le".to_owned());
            all.insert(format!("{name}{end}"), labels.iter().cloned().chain(le).collect());
        }
    }
    all
}

/// The metrics in a text of a server, with the labels of their samples.
fn exposed(text: &str) -> Metrics {
    let mut metrics = Metrics::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|it| it.split_once(' ')) {
            name.clone_into(&mut current);
            metrics.insert(current.clone(), (kind.to_owned(), BTreeSet::new()));
        } else if !line.starts_with('#') {
            let selector = line.rsplit_once(' ').unwrap().0;
            let found = promql::names(selector).selectors.remove(0);
            assert!(found.metric.starts_with(&current), "{line}");
            let labels = found.matchers.into_iter().map(|(label, _)| label);
            let labels = labels.filter(|label| label != "le");
            metrics.get_mut(&current).unwrap().1.extend(labels);
        }
    }
    metrics
}

/// Asserts that an expression, and a text with labels of its results, name what exists.
fn is_known(expression: &str, told: &[String], series: &BTreeMap<String, BTreeSet<String>>) {
    let page = include_str!("../../../docs/metrics.md");
    let names = promql::names(expression);
    let mut common: Option<BTreeSet<String>> = None;
    for selector in &names.selectors {
        let labels = series.get(&selector.metric);
        let labels = labels.unwrap_or_else(|| panic!("no `{}`: {expression}", selector.metric));
        let mut labels = labels.clone();
        labels.extend(OF_PROMETHEUS.map(str::to_owned));
        for (label, text) in &selector.matchers {
            assert!(labels.contains(label), "`{}` has no `{label}`", selector.metric);
            let is_ours = !OF_PROMETHEUS.contains(&&**label) && !text.starts_with('$');
            for value in text.split('|').filter(|_| is_ours) {
                assert!(page.contains(&format!("`{value}`")), "no `{value}`: {expression}");
            }
        }
        common = Some(match common {
            Some(common) => &common & &labels,
            None => labels,
        });
    }
    let common = common.unwrap_or_else(|| panic!("no metric: {expression}"));
    let unknown: Vec<_> = names.grouped_by.difference(&common).collect();
    assert!(unknown.is_empty(), "{unknown:?}: {expression}");
    let left = match expression.contains("sum") || expression.starts_with("max") {
        true => &names.grouped_by,
        false => &common,
    };
    for label in told {
        assert!(left.contains(label), "the result has no `{label}`: {expression}");
    }
}

/// The words that follow `before` in a text, as of `$labels.NAME`.
fn words_after(text: &str, before: &str) -> Vec<String> {
    let is_of_word = |c: &char| c.is_ascii_alphanumeric() || *c == '_' || *c == '-';
    let word = |rest: &str| rest.chars().take_while(is_of_word).collect();
    text.split(before).skip(1).map(word).collect()
}

#[test]
fn alerts_and_dashboard_name_what_exists() {
    // S-140
    let series = series(&documented());
    for alert in alerts() {
        let told = format!("{} {}", alert.annotations.summary, alert.annotations.description);
        is_known(&alert.expr, &words_after(&told, "$labels."), &series);
    }
    for (expression, legend) in dashboard() {
        is_known(&expression, &words_after(&legend, "{{"), &series);
    }
}

#[test]
fn alerts_say_how_urgent_they_are_and_what_to_do() {
    let mut names = BTreeSet::new();
    for Alert { alert, r#for, labels, annotations, .. } in alerts() {
        assert!(alert.starts_with("Chancery") && names.insert(alert.clone()), "{alert}");
        let (count, unit) = r#for.split_at(r#for.len() - 1);
        assert!(count.parse::<u32>().is_ok_and(|count| count > 0) && unit == "m", "{alert}");
        assert!(["critical", "warning", "info"].contains(&&*labels.severity), "{alert}");
        assert!(annotations.summary.len() < 120 && annotations.description.len() > 40, "{alert}");
        for command in words_after(&annotations.description, "`chancery ") {
            let help = finished(&mut chancery(&[&command, "--help"]));
            assert!(help.status.success(), "{alert}: `chancery {command}`");
        }
    }
    assert!(names.len() > 10);
}

#[test]
fn a_server_shows_what_alerts_and_dashboard_name() {
    // S-140
    let rules = "load-reports: {interval: 1s}\ngroups:\n- name: edge\n  match: {id: bad}\n";
    let dir = directory(&[
        ("base.yaml", &cluster("orders", 1)),
        ("groups/edge/own.yaml", &cluster("own", 1)),
        ("chancery.yaml", rules),
    ]);
    let server = Server::start(&dir, &[]);
    let channel = ChannelCredentials::Insecure;
    let uri = format!("127.0.0.1:{}", server.port);
    let at = XdsServer { uri, channel, ..XdsServer::default() };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let client = |id: &str, reject: Option<&str>| {
        let node = Node { id: id.to_owned(), ..Node::default() };
        let bootstrap = Bootstrap { servers: vec![at.clone()], node, ..Bootstrap::default() };
        let options = Options { reject: reject.map(str::to_owned), ..Options::default() };
        Client::new(&bootstrap, options).unwrap()
    };
    let clusters = TypeUrl::new("envoy.config.cluster.v3.Cluster");
    let (good, bad) = (client("good", None), client("bad", Some("not for me")));
    let _watches = [&good, &bad].map(|client| client.watch_raw(&clusters, "orders"));
    let load = good.load(&at, "orders", "").unwrap();
    load.locality(&Locality::default()).started().failed();

    let shows = |line: &str| server.admin("/metrics").1.lines().any(|it| it == line);
    for line in [
        "chancery_nodes{state=\"rejected\",group=\"edge\"} 1",
        "chancery_nodes{state=\"in-step\",group=\"\"} 1",
        "chancery_rejected_types 1",
        "chancery_rejected_resources{type=\"cds\"} 1",
        "chancery_rejected_resources{type=\"eds\"} 0",
        "chancery_load_calls_total{outcome=\"failed\"} 1",
    ] {
        eventually(|| shows(line));
    }
    let (exposed, documented) = (exposed(&server.admin("/metrics").1), documented());
    for (name, metric) in &exposed {
        assert_eq!(Some(metric), documented.get(name), "{name}");
    }
    let (shown, after_an_event) = (series(&exposed), AFTER_AN_EVENT.map(str::to_owned));
    let expressions = alerts().into_iter().map(|alert| alert.expr);
    let expressions = expressions.chain(dashboard().into_iter().map(|(expression, _)| expression));
    let named = expressions.flat_map(|expression| promql::names(&expression).selectors);
    for selector in named.filter(|selector| !after_an_event.contains(&selector.metric)) {
        assert!(shown.contains_key(&selector.metric), "`{}` is not shown", selector.metric);
    }
}

/// The `promtool` that `cargo xtask fetch` took from Debian, or that of the machine; or nothing, said aloud. Only
/// Debian has it as a package, so a machine without it is none that a test fails on.
fn promtool() -> Option<PathBuf> {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/real/promtool/promtool");
    for path in [fetched, PathBuf::from("promtool")] {
        if Program::new(&path).arg("--version").output().is_ok_and(|told| told.status.success()) {
            return Some(path);
        }
    }
    // Not a print macro: the test runner would keep it to itself.
    let note = b"\nSKIPPED: there is no promtool: install the package `prometheus`\n";
    io::stderr().write_all(note).ok();
    None
}

#[test]
fn promtool_takes_the_files_and_the_alerts_come_when_they_should() {
    let Some(promtool) = promtool() else { return };
    let dir = tempfile::tempdir().unwrap();
    for name in ["alerts.yaml", "alerts_test.yaml", "prometheus.yaml"] {
        fs::write(dir.path().join(name), example(name)).unwrap();
    }
    // The expressions of the dashboard, with what Grafana fills in, as rules that record something.
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_owned();
    for (number, (expression, _)) in dashboard().into_iter().enumerate() {
        let filled = expression.replace("$__rate_interval", "1m").replace("$job", "a|b");
        let quoted = serde_json::to_string(&filled).unwrap();
        rules += &format!("  - {{record: \"panel:{number}\", expr: {quoted}}}\n");
    }
    fs::write(dir.path().join("dashboard.yaml"), rules).unwrap();
    for words in [
        ["check", "rules", "alerts.yaml"],
        ["check", "rules", "dashboard.yaml"],
        ["check", "config", "prometheus.yaml"],
        ["test", "rules", "alerts_test.yaml"],
    ] {
        let [what, of, file] = words;
        let done = finished(Program::new(&promtool).args([what, of]).arg(dir.path().join(file)));
        assert!(done.status.success(), "{words:?}: {done:?}");
    }
}
