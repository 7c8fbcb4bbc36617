//! The words of an Envoy on its admin port: `/config_dump?include_eds` and `/init_dump`.
//!
//! A dump has the whole configuration. It is read from its bytes without a tree of it, and only names,
//! versions and errors are kept. Not here: the page itself (`http`).

use std::collections::HashMap;

use anyhow::Context;
use chancery_core::printable::Printable;
use serde::Deserialize;

use super::http::get;
use super::options::Limits;
use super::report::{RunningClient, RunningError, RunningResource, RunningState, kept};

/// Asks the admin interface of an Envoy.
pub(super) async fn ask(address: &str, limits: &Limits) -> anyhow::Result<Vec<RunningClient>> {
    let asked = || format!("cannot ask the Envoy with the admin interface `{address}`");
    let dump = get(address, "/config_dump?include_eds", limits).await.with_context(asked)?;
    let init = get(address, "/init_dump", limits).await.with_context(asked)?;
    let mut client = client(&dump).with_context(|| no_dump(address, &dump))?;
    client.waiting = waiting(&init).with_context(|| no_dump(address, &init))?;
    Ok(vec![client])
}

/// An Envoy that cannot write its dump says so in its place: one that rejected a message of a type that
/// it does not know cannot.
fn no_dump(address: &str, page: &[u8]) -> String {
    let page = String::from_utf8_lossy(&page[..page.len().min(SHOWN_BYTES)]);
    let page = Printable(page.lines().next().unwrap_or_default());
    format!("`{address}` shows no configuration of an Envoy, but `{page}`")
}

fn client(dump: &[u8]) -> Result<RunningClient, serde_json::Error> {
    let dump: ConfigDump = serde_json::from_slice(dump)?;
    let mut client = RunningClient::default();
    for section in dump.configs {
        section.add_to(&mut client);
    }
    client.resources = merged(client.resources);
    Ok(client.sorted())
}

/// The resources without those that only say again what another one of the same name says: Envoy lists a
/// listener whose update it rejected once more, with nothing but the error.
fn merged(resources: Vec<RunningResource>) -> Vec<RunningResource> {
    let is_error = |it: &RunningResource| {
        it.state == RunningState::Rejected && it.version.is_empty() && it.error.is_some()
    };
    let (errors, mut rest): (Vec<_>, Vec<_>) = resources.into_iter().partition(is_error);
    let place = |it: &RunningResource| (it.r#type.clone(), it.name.clone());
    let mut known: HashMap<_, _> =
        rest.iter().enumerate().map(|(at, it)| (place(it), at)).collect();
    for error in errors {
        match known.get(&place(&error)) {
            Some(at) => {
                rest[*at].error.get_or_insert_with(|| error.error.unwrap_or_default());
            }
            None => {
                known.insert(place(&error), rest.len());
                rest.push(error);
            }
        }
    }
    rest
}

/// The targets that the Envoy waits for, each with who waits.
fn waiting(dump: &[u8]) -> Result<Vec<String>, serde_json::Error> {
    let dump: InitDump = serde_json::from_slice(dump)?;
    let targets = dump.unready_targets_dumps.iter().flat_map(|manager| {
        manager.target_names.iter().map(|target| kept(&format!("{}: {target}", manager.name)))
    });
    Ok(targets.collect())
}

#[derive(Deserialize)]
struct ConfigDump {
    configs: Vec<Section>,
}

/// A message of the dump. The names of all lists differ, so one struct reads them all.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Section {
    bootstrap: Option<BootstrapPart>,
    static_listeners: Vec<Entry>,
    dynamic_listeners: Vec<Entry>,
    static_clusters: Vec<Entry>,
    dynamic_active_clusters: Vec<Entry>,
    dynamic_warming_clusters: Vec<Entry>,
    static_route_configs: Vec<Entry>,
    dynamic_route_configs: Vec<Entry>,
    inline_scoped_route_configs: Vec<Entry>,
    dynamic_scoped_route_configs: Vec<Entry>,
    static_endpoint_configs: Vec<Entry>,
    dynamic_endpoint_configs: Vec<Entry>,
    static_secrets: Vec<Entry>,
    dynamic_active_secrets: Vec<Entry>,
    dynamic_warming_secrets: Vec<Entry>,
    ecds_filters: Vec<Entry>,
}

#[derive(Deserialize)]
struct BootstrapPart {
    node: Option<NodePart>,
}

#[derive(Deserialize)]
struct NodePart {
    #[serde(default)]
    id: String,
}

/// A resource of the dump, or a state of one.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    name: String,
    version_info: String,
    client_status: String,
    error_state: Option<ErrorState>,
    #[serde(
        alias = "cluster",
        alias = "route_config",
        alias = "endpoint_config",
        alias = "listener"
    )]
    #[serde(alias = "ecds_filter")]
    body: Option<Body>,
    scoped_route_configs: Vec<Body>,
    active_state: Option<Box<Self>>,
    warming_state: Option<Box<Self>>,
    draining_state: Option<Box<Self>>,
}

/// The part of a body that has its name.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    name: String,
    cluster_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorState {
    details: String,
    version_info: String,
    failed_configuration: Body,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InitDump {
    unready_targets_dumps: Vec<UnreadyTargets>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UnreadyTargets {
    name: String,
    target_names: Vec<String>,
}

impl Section {
    fn add_to(self, client: &mut RunningClient) {
        use RunningState::{Running, Static, Warming};
        if let Some(node) = self.bootstrap.and_then(|bootstrap| bootstrap.node) {
            client.node = kept(&node.id);
        }
        let lists = [
            ("lds", Static, self.static_listeners),
            ("lds", Running, self.dynamic_listeners),
            ("cds", Static, self.static_clusters),
            ("cds", Running, self.dynamic_active_clusters),
            ("cds", Warming, self.dynamic_warming_clusters),
            ("rds", Static, self.static_route_configs),
            ("rds", Running, self.dynamic_route_configs),
            ("srds", Static, self.inline_scoped_route_configs),
            ("srds", Running, self.dynamic_scoped_route_configs),
            ("eds", Static, self.static_endpoint_configs),
            ("eds", Running, self.dynamic_endpoint_configs),
            ("sds", Static, self.static_secrets),
            ("sds", Running, self.dynamic_active_secrets),
            ("sds", Warming, self.dynamic_warming_secrets),
            ("ecds", Running, self.ecds_filters),
        ];
        for (of, state, entries) in lists {
            client.resources.extend(entries.into_iter().flat_map(|entry| entry.rows(of, state)));
        }
    }
}

impl Entry {
    /// The resources that it stands for: one for each state of a listener, and each scope of a list.
    fn rows(self, of: &'static str, state: RunningState) -> Vec<RunningResource> {
        let scopes = self.scoped_route_configs.iter().map(|scope| scope.name.clone());
        let names: Vec<_> = match scopes.collect::<Vec<_>>() {
            none if none.is_empty() => vec![self.name()],
            scopes => scopes,
        };
        let states: Vec<(RunningState, &Self)> = [
            (RunningState::Running, &self.active_state),
            (RunningState::Warming, &self.warming_state),
            (RunningState::Draining, &self.draining_state),
        ]
        .into_iter()
        .filter_map(|(state, found)| Some((state, &**found.as_ref()?)))
        .collect();
        let states = if states.is_empty() { vec![(self.state(state), &self)] } else { states };
        let mut error = self.error_state.as_ref().map(|error| RunningError {
            version: kept(&error.version_info),
            details: kept(&error.details),
        });
        let is_replaced = self.warming_state.is_some();
        let mut rows = Vec::with_capacity(states.len() * names.len());
        for (state, entry) in states {
            for name in &names {
                rows.push(RunningResource {
                    r#type: of.to_owned(),
                    name: kept(name),
                    version: kept(&entry.version_info),
                    state,
                    keeps_version: self.active_state.is_some() && !is_replaced,
                    // It is about the last update, which no state has.
                    error: error.take(),
                    sent: None,
                    verdict: None,
                });
            }
        }
        rows
    }

    fn name(&self) -> String {
        let failed = self.error_state.as_ref().map(|error| &error.failed_configuration);
        let bodies = self.body.as_ref().into_iter().chain(failed);
        let named = bodies.flat_map(|body| [&body.name, &body.cluster_name]);
        let found = std::iter::once(&self.name).chain(named).find(|name| !name.is_empty());
        found.cloned().unwrap_or_default()
    }

    /// The state of an entry without states of its own. Only a listener that never came up has an
    /// error and nothing else.
    fn state(&self, of_list: RunningState) -> RunningState {
        match self.client_status.as_str() {
            _ if of_list == RunningState::Static => of_list,
            "NACKED" => RunningState::Rejected,
            "DOES_NOT_EXIST" => RunningState::Missing,
            "REQUESTED" => RunningState::Requested,
            "TIMEOUT" => RunningState::TimedOut,
            "RECEIVED_ERROR" => RunningState::ServerError,
            _ if self.error_state.is_some() && self.body.is_none() => RunningState::Rejected,
            _ => of_list,
        }
    }
}

/// The bytes that are shown of a page that is no dump.
const SHOWN_BYTES: usize = 200;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// One line for each resource.
    fn lines(dump: &Value) -> Vec<String> {
        let client = client(&serde_json::to_vec(dump).unwrap()).unwrap();
        let line = |it: RunningResource| {
            let error = it.error.map(|it| format!(" {} {}", it.version, it.details));
            let RunningResource { r#type, name, version, state, .. } = it;
            let error = error.unwrap_or_default();
            format!("{type} {name} {version} {}{error}", state.name())
        };
        client.resources.into_iter().map(line).collect()
    }

    #[test]
    fn every_list_of_a_dump_is_read() {
        let dump = json!({"configs": [
            {"@type": "type.googleapis.com/envoy.admin.v3.BootstrapConfigDump",
             "bootstrap": {"node": {"id": "edge-7"}, "static_resources": {"clusters": [{"name": "x"}]}}},
            {"version_info": "9", "static_clusters": [{"cluster": {"name": "xds"}}],
             "dynamic_active_clusters": [
                {"version_info": "2", "cluster": {"@type": "x", "name": "a"}, "client_status": "ACKED"},
                {"version_info": "1", "cluster": {"name": "b"}, "client_status": "NACKED",
                 "error_state": {"details": "bad", "version_info": "2", "failed_configuration": {}}}],
             "dynamic_warming_clusters": [{"version_info": "2", "cluster": {"name": "c"}}]},
            {"dynamic_listeners": [
                {"name": "l", "active_state": {"version_info": "1", "listener": {"name": "l"}},
                 "warming_state": {"version_info": "2", "listener": {"name": "l"}}},
                {"error_state": {"details": "no", "failed_configuration": {"name": "l"}}},
                {"name": "m", "error_state": {"details": "no", "version_info": "2"}}]},
            {"dynamic_route_configs": [{"version_info": "3", "route_config": {"name": "r"}}]},
            {"dynamic_scoped_route_configs": [{"name": "s", "version_info": "4",
                "scoped_route_configs": [{"name": "one"}, {"name": "two"}]}]},
            {"dynamic_endpoint_configs": [{"endpoint_config": {"cluster_name": "a"}}]},
            {"dynamic_active_secrets": [{"name": "key", "version_info": "5", "secret": {"name": "key"}}]},
            {"ecds_filters": [{"version_info": "6", "ecds_filter": {"name": "f"}}]},
            {"later": [1]},
        ]});
        assert_eq!(
            lines(&dump),
            [
                "lds l 1 running",
                "lds l 2 warming  no",
                "lds m  rejected 2 no",
                "rds r 3 running",
                "srds one 4 running",
                "srds two 4 running",
                "cds a 2 running",
                "cds b 1 rejected 2 bad",
                "cds c 2 warming",
                "cds xds  static",
                "eds a  running",
                "sds key 5 running",
                "ecds f 6 running",
            ]
        );
        assert_eq!(client(&serde_json::to_vec(&dump).unwrap()).unwrap().node, "edge-7");
    }

    #[test]
    fn what_is_waited_for_is_told_with_who_waits() {
        let dump = br#"{"unready_targets_dumps": [
            {"name": "init manager Server", "target_names": ["target LDS", "target Cluster x"]}]}"#;
        let expected = ["init manager Server: target LDS", "init manager Server: target Cluster x"];
        assert_eq!(waiting(dump).unwrap(), expected);
        assert!(waiting(b"{}").unwrap().is_empty());
    }

    #[test]
    fn what_is_no_dump_is_an_error() {
        for text in ["", "{}", "[]", r#"{"configs": [{"static_clusters": 1}]}"#, "<html>"] {
            assert!(client(text.as_bytes()).is_err(), "{text}");
        }
    }
}
