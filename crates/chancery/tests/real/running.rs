//! Real clients say what they run: an Envoy on its admin port, gRPC by CSDS.

use serde_json::Value;
use std::path::Path;

use crate::support::ask::status;
use crate::support::backend::Backend;
use crate::support::bootstrap::{Bootstrap, Transport};
use crate::support::chancery::{Chancery, Directory};
use crate::support::clients::{RealClients, clients};
use crate::support::envoy::{Envoy, VERSIONS};
use crate::support::ports::Port;
use crate::support::process::Process;
use crate::support::resources::{Source, cluster, endpoints, listener, rds, routes};
use crate::support::wait;

/// `TYPE NAME STATE` of each resource.
pub(crate) fn lines(client: &Value) -> Vec<String> {
    let resources = client["resources"].as_array().expect("a list");
    let word = |resource: &Value, key: &str| resource[key].as_str().expect("a text").to_owned();
    let line =
        |it: &Value| format!("{} {} {}", word(it, "type"), word(it, "name"), word(it, "state"));
    resources.iter().map(line).collect()
}

/// The resource of this type and name.
pub(crate) fn find<'a>(client: &'a Value, kind: &str, name: &str) -> Option<&'a Value> {
    let mut resources = client["resources"].as_array()?.iter();
    resources.find(|it| it["type"] == kind && it["name"] == name)
}

/// Waits until the client tells of no error.
#[track_caller]
pub(crate) fn is_repaired(dir: &Path, words: &[&str]) {
    let mut last = None;
    let repaired = wait::within(wait::BOUND, || {
        last = Some(status(dir, words));
        (last.as_ref()?.0 == Some(0)).then_some(())
    });
    assert!(repaired.is_some(), "an error is told to the end: {last:#?}");
}

/// The end of a filter chain whose certificate no Envoy can read.
const NO_CERTIFICATE: &str = "    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        '@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
        common_tls_context:
          tls_certificates:
          - certificate_chain: {filename: /nowhere/cert.pem}
            private_key: {filename: /nowhere/key.pem}
";

#[test]
fn an_envoy_tells_what_it_runs_and_what_it_rejected() {
    let Some(clients) = clients() else { return };
    for version in VERSIONS {
        let dir = tempfile::tempdir().expect("there is a temporary directory");
        let (backend, edge) = (Backend::start("one"), Port::reserve());
        let directory = Directory::new(dir.path(), "config");
        let good = listener("l1", edge.number(), &rds("r1", Source::Ads), "");
        directory.write("lds.yaml", &good);
        directory.write("rds.yaml", &routes("r1", "svc-a"));
        directory.write("cds.yaml", &cluster("svc-a", Source::Ads));
        directory.write("eds.yaml", &endpoints("svc-a", &[backend.port()]));
        let chancery = Chancery::serve(&directory);
        let bootstrap = Bootstrap::ads("DELTA_GRPC").server("xds", chancery.port(), Transport::H2c);
        let mut envoy = Envoy::start(&clients, version, dir.path(), &bootstrap, edge.number());
        envoy.is_live();
        envoy.answers_from("one");
        let at = format!("127.0.0.1:{}", envoy.admin_port());
        let (code, told, error) = status(dir.path(), &["--envoy", &at]);
        assert_eq!((code, told.len(), error.as_str()), (Some(0), 1, ""), "{version}");
        assert_eq!(told[0]["node"], "envoy-1", "{version}");
        let expected = [
            "lds l1 running",
            "rds r1 running",
            "cds svc-a running",
            "cds xds static",
            "eds svc-a running",
            "eds xds static",
        ];
        assert_eq!(lines(&told[0]), expected, "{version}");
        let version_of =
            |told: &[Value]| find(&told[0], "cds", "svc-a").map(|it| it["version"].clone());
        let before = version_of(&told);
        assert!(before.as_ref().is_some_and(|it| it != ""), "{version}: {told:?}");

        let admin = chancery.admin_address();
        let beside = || status(dir.path(), &["--envoy", &at, "--admin", &admin]);
        let verdicts = |told: &[Value]| -> Vec<String> {
            let all = told[0]["resources"].as_array().expect("a list").iter();
            let word = |it: &Value, key: &str| it[key].as_str().unwrap_or("-").to_owned();
            all.map(|it| {
                format!("{} {} {}", word(it, "type"), word(it, "name"), word(it, "verdict"))
            })
            .collect()
        };
        let (code, told, error) = beside();
        assert_eq!((code, error.as_str()), (Some(0), ""), "{version}: {told:?}");
        let expected = [
            "lds l1 same",
            "rds r1 same",
            "cds svc-a same",
            "cds xds not-sent",
            "eds svc-a acknowledged",
            "eds xds not-sent",
        ];
        assert_eq!(verdicts(&told), expected, "{version}");

        directory.write("lds.yaml", &(good.clone() + NO_CERTIFICATE));
        let (code, told) = wait::until("Envoy to tell of its rejection", || {
            let (code, told, _) = status(dir.path(), &["--envoy", &at]);
            find(told.first()?, "lds", "l1")?.get("error")?;
            Some((code, told))
        });
        assert_eq!(code, Some(1), "{version}: {told:?}");
        let l1 = find(&told[0], "lds", "l1").expect("it is there");
        assert_eq!(l1["state"], "running", "{version}: the last good one is used");
        let why = l1["error"]["details"].as_str().expect("a text");
        assert!(why.contains("/nowhere/"), "{version}: {why}");
        assert_eq!(version_of(&told), before, "{version}");

        let (code, told, _) = beside();
        assert_eq!(code, Some(1), "{version}");
        assert_eq!(verdicts(&told)[0], "lds l1 rejected", "{version}: {told:#?}");

        // An Envoy that is given nothing new goes on to tell of its last error.
        directory.write("lds.yaml", &good.replace("stat_prefix: edge", "stat_prefix: mended"));
        is_repaired(dir.path(), &["--envoy", &at, "--admin", &admin]);
        // It exchanges the filter chains in place, and goes on to state the version of before.
        assert_eq!(verdicts(&beside().1)[0], "lds l1 acknowledged", "{version}");
    }
}

#[test]
fn who_is_no_envoy_is_told_so() {
    let Some(_clients) = clients() else { return };
    let dir = tempfile::tempdir().expect("there is a temporary directory");
    let backend = Backend::start("one");
    let (code, told, error) =
        status(dir.path(), &["--envoy", &format!("127.0.0.1:{}", backend.port())]);
    assert_eq!((code, told), (Some(2), vec![]), "{error}");
    assert!(error.contains("shows no configuration of an Envoy, but `from one`"), "{error}");
}

/// The state in the eyes of the server, by type and name, and the answer itself, as `node/csds.js` reads it.
fn told_by_server(clients: &RealClients, dir: &Path, port: u16) -> (Vec<String>, Value) {
    let mut command = clients.node("csds.js");
    command.args([&port.to_string(), "envoy-1"]);
    let mut asking = Process::start_apart(dir, "csds", &mut command);
    wait::until("the question to be answered", || asking.ended());
    let answer: Value = serde_json::from_str(&asking.data())
        .unwrap_or_else(|fault| panic!("{fault}: {} {}", asking.data(), asking.output()));
    let resources = answer["config"][0]["generic_xds_configs"].as_array().cloned();
    let line = |it: &Value| {
        let kind = it["type_url"].as_str()?.rsplit('.').next()?;
        Some(format!("{kind} {} {}", it["name"].as_str()?, it["config_status"].as_str()?))
    };
    (resources.unwrap_or_default().iter().filter_map(line).collect(), answer)
}

// S-134, S-135
#[test]
fn the_server_tells_of_an_envoy_in_the_messages_of_envoy() {
    let Some(clients) = clients() else { return };
    let dir = tempfile::tempdir().expect("there is a temporary directory");
    let (backend, edge) = (Backend::start("one"), Port::reserve());
    let directory = Directory::new(dir.path(), "config");
    let good = listener("l1", edge.number(), &rds("r1", Source::Ads), "");
    directory.write("lds.yaml", &good);
    directory.write("rds.yaml", &routes("r1", "svc-a"));
    directory.write("cds.yaml", &cluster("svc-a", Source::Ads));
    directory.write("eds.yaml", &endpoints("svc-a", &[backend.port()]));
    let chancery = Chancery::serve(&directory);
    let bootstrap = Bootstrap::ads("DELTA_GRPC").server("xds", chancery.port(), Transport::H2c);
    let mut envoy = Envoy::start(&clients, VERSIONS[0], dir.path(), &bootstrap, edge.number());
    envoy.is_live();
    envoy.answers_from("one");
    let synced = [
        "Cluster svc-a SYNCED",
        "ClusterLoadAssignment svc-a SYNCED",
        "Listener l1 SYNCED",
        "RouteConfiguration r1 SYNCED",
    ];
    let asked = || told_by_server(&clients, dir.path(), chancery.port());
    wait::holds("all to be acknowledged", || asked().0 == synced);
    directory.write("lds.yaml", &(good.clone() + NO_CERTIFICATE));
    let (_, answer) = wait::until("the rejection to be told", || {
        let (told, answer) = asked();
        told.contains(&"Listener l1 ERROR".to_owned()).then_some((told, answer))
    });
    let all = answer["config"][0]["generic_xds_configs"].as_array().expect("a list");
    let l1 = all.iter().find(|it| it["name"] == "l1").expect("it is there");
    // The path of a private key is none of anybody's business.
    let why = l1["error_state"]["details"].as_str().expect("a reason");
    assert!(why.contains("private key") && !why.contains("/nowhere/"), "{why}");
    assert!(l1["xds_config"].is_object(), "{l1}");
    directory.write("lds.yaml", &good.replace("stat_prefix: edge", "stat_prefix: mended"));
    wait::holds("the repair to be told", || asked().0 == synced);
}
