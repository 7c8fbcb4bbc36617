//! One Envoy on one aggregated stream, which is given one resource after another and says of each
//! whether it takes it.
//!
//! The bootstrap has what resources refer to, and subscribes to those that Envoy asks for by name. If
//! Envoy ends because of a resource, another one is started.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chancery_core::{Resource, Snapshot, TypeUrl};
use chancery_testkit::{TestEventKind, TestServer};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::classes;
use super::good::Good;
use crate::support::clients::RealClients;
use crate::support::envoy::Envoy;
use crate::support::ports::Port;

/// The time for which Envoy may think about one resource.
const PATIENCE: Duration = Duration::from_secs(10);

/// The answer of Envoy to a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Taken,
    /// It says this.
    Refused(String),
    /// It ended, with this as its last words.
    Ended(String),
    /// It did not answer in time. This is what was seen meanwhile.
    Silent(String),
}

/// The answer to a resource that our checks lead to expect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Taken,
    Refusal,
}

impl Expected {
    /// Our checks have found these errors.
    pub(super) fn of(errors: &[String]) -> Self {
        if errors.is_empty() { Self::Taken } else { Self::Refusal }
    }
}

impl Answer {
    pub(super) fn is_refusal(&self) -> bool {
        *self != Self::Taken
    }

    /// The words of Envoy, if it refused the resource.
    pub(super) fn said(&self) -> &str {
        match self {
            Self::Taken => "",
            Self::Refused(said) => said,
            Self::Ended(said) => {
                let mut lines = said.lines();
                lines.find(|line| line.contains("[assert]")).unwrap_or("it ended")
            }
            Self::Silent(seen) => seen,
        }
    }
}

/// The server, the Envoy, and what it has in any case.
pub(super) struct Stage<'a> {
    clients: &'a RealClients,
    dir: PathBuf,
    good: &'a [Good],
    rest: Snapshot,
    shown: Snapshot,
    server: TestServer,
    envoy: Option<Envoy>,
    /// The number of the newest stream.
    stream: u64,
    /// The events since the last question.
    seen: Vec<TestEventKind>,
    /// True if it has ended.
    is_gone: bool,
}

impl<'a> Stage<'a> {
    /// Starts both, and waits until Envoy has taken what it asks for by its name.
    pub(super) async fn open(
        clients: &'a RealClients,
        dir: &Path,
        good: &'a [Good],
        rest: Snapshot,
    ) -> Self {
        let server = TestServer::start(rest.clone()).await.expect("a port is free");
        let dir = dir.to_path_buf();
        let shown = rest.clone();
        let mut stage = Self {
            clients,
            dir,
            good,
            rest,
            shown,
            server,
            envoy: None,
            stream: 0,
            seen: Vec::new(),
            is_gone: false,
        };
        stage.start().await;
        stage
    }

    /// Starts an Envoy, and waits until it has taken what it asks for by its name.
    async fn start(&mut self) {
        let admin = Port::reserve();
        let bootstrap = bootstrap(self.server.address().port(), admin.number(), self.good);
        let mut command = self.clients.envoy("1.40.0");
        command.current_dir(&self.dir);
        command.args(["--drain-time-s", "1", "--drain-strategy", "immediate"]);
        let mut envoy = Envoy::start_with(command, &self.dir, &bootstrap.to_string(), admin, 0);
        envoy.is_live();
        self.envoy = Some(envoy);
        let mut missing: BTreeSet<_> = self.rest.types().cloned().collect();
        while !missing.is_empty() {
            match self.event().await {
                TestEventKind::Acknowledged { type_url, .. } => drop(missing.remove(&type_url)),
                TestEventKind::Rejected { error, .. } => panic!("{error}"),
                _ => {}
            }
        }
    }

    /// The next event of the newest stream.
    async fn event(&mut self) -> TestEventKind {
        loop {
            let event = self.server.event().await;
            // The streams have numbers in the order in which they were opened.
            if matches!(event.kind, TestEventKind::Connected) {
                self.stream = self.stream.max(event.stream);
            }
            if event.stream == self.stream {
                self.seen.push(event.kind.clone());
                return event.kind;
            }
        }
    }

    /// Gives a resource to Envoy, and once more to a fresh one if the answer is another than is expected
    /// and cannot be explained: a resource that was refused before may still be in force in a part of
    /// Envoy.
    pub(super) async fn ask_expecting(
        &mut self,
        expected: Expected,
        type_url: &TypeUrl,
        resource: &Arc<Resource>,
    ) -> Answer {
        let answer = self.ask(type_url, resource).await;
        if answer.is_refusal() == (expected == Expected::Refusal) || classes::of(&answer).is_some()
        {
            return answer;
        }
        println!("{} {} is asked again: {}", type_url.short(), resource.name(), answer.said());
        self.restart().await;
        self.ask(type_url, resource).await
    }

    /// Gives a resource to Envoy.
    pub(super) async fn ask(&mut self, type_url: &TypeUrl, resource: &Arc<Resource>) -> Answer {
        // The resources of other types stay as they are, so that one response is about one mutant.
        let before = self.shown.set(type_url).iter().map(|it| it.name().clone());
        for name in before.collect::<Vec<_>>() {
            match self.rest.set(type_url).get(name.as_str()) {
                Some(good) => self.shown.insert(type_url, Arc::clone(good)),
                None => self.shown.remove(type_url, &name),
            }
        }
        self.shown.insert(type_url, Arc::clone(resource));
        self.seen.clear();
        self.server.publish(self.shown.clone());
        let answer = match timeout(PATIENCE, self.answer(type_url)).await {
            Ok(answer) => answer,
            Err(_) => Answer::Silent(self.silence()),
        };
        if matches!(answer, Answer::Ended(_) | Answer::Silent(_)) {
            self.restart().await;
        }
        answer
    }

    /// The events since the question, and the last words of an Envoy that does not answer.
    fn silence(&self) -> String {
        let output = self.envoy.as_ref().map(Envoy::output).unwrap_or_default();
        let last: Vec<_> = output.lines().rev().take(3).collect();
        format!("no answer after {:?}; Envoy's last lines, newest first: {last:?}", self.seen)
    }

    /// Starts another Envoy.
    async fn restart(&mut self) {
        self.shown = self.rest.clone();
        self.envoy = None;
        self.ended().await;
        self.server.publish(self.rest.clone());
        self.start().await;
    }

    /// Waits for the end of the stream of an Envoy that was ended.
    async fn ended(&mut self) {
        while !self.is_gone {
            self.is_gone = matches!(self.event().await, TestEventKind::Gone);
        }
        self.is_gone = false;
    }

    /// The reason of a rejection, also where the server does not repeat it because it may have a secret.
    fn said(&self, error: String) -> String {
        if !error.contains("withheld") {
            return error;
        }
        let output = self.envoy.as_ref().map(Envoy::output).unwrap_or_default();
        let last = output.lines().rfind(|line| line.contains(" rejected: "));
        last.and_then(|line| line.split_once(" rejected: ")).map_or(error, |(_, said)| said.into())
    }

    /// The answer to the next response of this type that has a resource.
    async fn answer(&mut self, wanted: &TypeUrl) -> Answer {
        let mut sent = None;
        loop {
            match self.event().await {
                TestEventKind::Sent { type_url, version, resources: 1.. }
                    if type_url == *wanted =>
                {
                    sent = Some(version);
                }
                TestEventKind::Acknowledged { type_url, version }
                    if type_url == *wanted && sent.as_ref() == Some(&version) =>
                {
                    return Answer::Taken;
                }
                TestEventKind::Rejected { type_url, version, error }
                    if type_url == *wanted && sent.as_ref() == Some(&version) =>
                {
                    return Answer::Refused(self.said(error));
                }
                TestEventKind::Gone => {
                    self.is_gone = true;
                    let said = self.envoy.as_ref().map(Envoy::output).unwrap_or_default();
                    return Answer::Ended(said);
                }
                _ => {}
            }
        }
    }
}

/// A bootstrap that subscribes to every resource that Envoy asks for by its name.
fn bootstrap(port: u16, admin: u16, good: &[Good]) -> Value {
    let named = |of: &'static str| {
        good.iter().filter(move |it| it.type_url.short() == of).map(|it| it.name.clone())
    };
    let ads = json!({"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "1s"});
    let cluster = |name: &str, port: u16| {
        json!({
            "name": name, "type": "STATIC", "connect_timeout": "1s",
            "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": {
                "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}}]}]},
            "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}}}},
        })
    };
    let mut clusters = vec![cluster("xds", port), cluster("c", 1), cluster("d", 1)];
    clusters.extend(named("eds").map(|name| {
        json!({
            "name": name, "type": "EDS", "connect_timeout": "1s",
            "eds_cluster_config": {"eds_config": ads},
        })
    }));
    let mut listeners: Vec<_> = named("rds")
        .map(|name| {
            let manager = json!({"rds": {"route_config_name": name, "config_source": ads}});
            listener(&format!("static-{name}"), manager, Vec::new())
        })
        .collect();
    let scopes = json!({"scoped_routes": {
        "name": "s", "rds_config_source": ads, "scoped_rds": {"scoped_rds_config_source": ads},
        "scope_key_builder": {"fragments": [{"header_value_extractor": {"name": "x", "index": 0}}]}}});
    listeners.push(listener("static-scopes", scopes, Vec::new()));
    let extensions = good.iter().filter(|it| it.type_url.short() == "ecds").map(|it| {
        let config = it.message.get_field_by_name("typed_config").expect("a field");
        let url = config.as_message().expect("it has one").get_field_by_number(1).expect("a field");
        json!({"name": it.name, "config_discovery": {"config_source": ads, "type_urls": [url.as_str()]}})
    });
    let credential = json!({"name": "credential", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.credential_injector.v3.CredentialInjector",
        "credential": {"name": "g", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.http.injected_credentials.generic.v3.Generic",
            "credential": {"name": "s-generic", "sds_config": ads}}}}});
    let routes = json!({"route_config": {"name": "static", "virtual_hosts": []}});
    listeners.push(listener(
        "static-extensions",
        routes.clone(),
        extensions.chain([credential]).collect(),
    ));
    let mut tls = listener("static-tls", routes, Vec::new());
    tls["filter_chains"][0]["transport_socket"] = json!({"name": "tls", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
        "session_ticket_keys_sds_secret_config": {"name": "s-tickets", "sds_config": ads},
        "common_tls_context": {
            "tls_certificate_sds_secret_configs": [{"name": "s-cert", "sds_config": ads}],
            "validation_context_sds_secret_config": {"name": "s-ca", "sds_config": ads}}}});
    listeners.push(tls);
    json!({
        "node": {"id": "mutants", "cluster": "mutants"},
        "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": admin}}},
        "bootstrap_extensions": [{"name": "internal", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.bootstrap.internal_listener.v3.InternalListener"}}],
        "dynamic_resources": {
            "lds_config": ads, "cds_config": ads,
            "ads_config": {"api_type": "DELTA_GRPC", "transport_api_version": "V3",
                "grpc_services": [{"envoy_grpc": {"cluster_name": "xds"}}]},
        },
        "layered_runtime": {"layers": [{"name": "rt",
            "rtds_layer": {"name": "rt", "rtds_config": ads}}]},
        "static_resources": {"clusters": clusters, "listeners": listeners},
    })
}

/// A listener with a connection manager that has these fields and filters.
fn listener(name: &str, mut manager: Value, mut filters: Vec<Value>) -> Value {
    let extension = "type.googleapis.com/envoy.extensions.filters";
    filters.push(json!({"name": "router",
        "typed_config": {"@type": format!("{extension}.http.router.v3.Router")}}));
    manager["@type"] =
        format!("{extension}.network.http_connection_manager.v3.HttpConnectionManager").into();
    manager["stat_prefix"] = name.into();
    manager["http_filters"] = filters.into();
    json!({"name": name, "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
        "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}]})
}
