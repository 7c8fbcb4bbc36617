//! The features of clusters through a channel: drops, circuit breaking, outlier detection, hashes and load
//! reports.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use chancery_core::client::ServerFeatures;
use chancery_server::{
    AudienceName, Client, Config, Listener, LoadBounds, LoadInterval, LoadReporting, LoadReports,
    Policy, Refusal, SeriesView, Server, Store,
};
use chancery_testkit::TestServer;
use tokio::task::JoinHandle;
use tonic::Code;

use crate::one_route;
use crate::orca::reporting;
use crate::support::ports::Port;
use crate::support::{
    Backend, Resources, call, call_to, channel, channel_at, channel_by, code, name, until, with,
    within,
};

/// All calls go to `x`, which has these fields.
fn cluster(fields: &str, backends: &[&Backend]) -> Resources {
    let resources = Resources::default().routes(&one_route("x")).cluster("x", fields);
    resources.endpoints("x", &[backends])
}

/// Connections are those of the process.
#[tokio::test]
async fn channels_share_their_connections() {
    let a = Backend::start("a").await;
    let server = TestServer::start(cluster("", &[&a]).snapshot()).await.expect("a server");
    let channels = [channel(&server), channel(&server), channel(&server)];
    for channel in &channels {
        until(channel, "an answer", |result| name(result) == Some("a")).await;
    }
    assert_eq!(a.connections(), 1);
}

/// C-118
#[tokio::test]
async fn what_is_to_be_dropped_reaches_no_endpoint() {
    let a = Backend::start("a").await;
    let resources = cluster("", &[&a]);
    let dropping = resources.clone().drops("shed", 100);
    let server = TestServer::start(dropping.snapshot()).await.expect("a server");
    let channel = channel(&server);
    let failed = call(&channel).await.expect_err("it is dropped");
    assert_eq!(failed.code(), Code::Unavailable);
    assert!(failed.message().contains("shed"), "{failed}");
    server.publish(resources.snapshot());
    until(&channel, "the end of it", |result| name(result) == Some("a")).await;
}

/// C-147
#[tokio::test]
async fn no_more_calls_are_under_way_than_the_cluster_allows() {
    let a = Backend::start("a").await;
    let fields = "circuit_breakers: {thresholds: [{max_requests: 1}]}";
    let server = TestServer::start(cluster(fields, &[&a]).snapshot()).await.expect("a server");
    let channel = channel(&server);
    until(&channel, "an answer", |result| name(result) == Some("a")).await;
    let slow = tokio::spawn({
        let channel = channel.clone();
        async move { call_to(&channel, "/t/slow", with("k", "v")).await }
    });
    until(&channel, "the limit", |result| code(result) == Code::Unavailable).await;
    slow.abort();
    until(&channel, "the end of the slow one", |result| name(result) == Some("a")).await;
}

/// C-149
#[tokio::test]
async fn an_endpoint_whose_calls_fail_is_left_out() {
    let (a, bad) = (Backend::start("a").await, Backend::start("bad").await);
    let fields = "outlier_detection: {interval: 0.1s, base_ejection_time: 600s, max_ejection_time: 600s, \
                  max_ejection_percent: 50, enforcing_success_rate: 0, enforcing_failure_percentage: 100, \
                  failure_percentage_threshold: 50, failure_percentage_minimum_hosts: 1, \
                  failure_percentage_request_volume: 1}";
    let server = TestServer::start(cluster(fields, &[&a, &bad]).snapshot()).await.expect("one");
    let channel = channel(&server);
    until(&channel, "a failure", |result| code(result) == Code::FailedPrecondition).await;
    // In turn, one of two would fail.
    let good = Cell::new(0);
    until(&channel, "none of its calls", |result| {
        good.set(if result.is_ok() { good.get() + 1 } else { 0 });
        good.get() == 20
    })
    .await;
}

/// C-114: the hash is that of a header.
#[tokio::test]
async fn equal_calls_go_to_the_same_endpoint() {
    let names = ["a", "b", "c"];
    let mut backends = Vec::new();
    for name in names {
        backends.push(Backend::start(name).await);
    }
    let routes =
        "[{match: {prefix: /}, route: {cluster: x, hash_policy: [{header: {header_name: user}}]}}]";
    let resources = Resources::default().routes(routes).cluster("x", "lb_policy: RING_HASH");
    let resources = resources.endpoints("x", &[&backends.iter().collect::<Vec<_>>()]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let channel = channel(&server);
    let mut used = BTreeSet::new();
    for user in ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"] {
        let mut homes = BTreeSet::new();
        for _ in 0..5 {
            homes
                .insert(call_to(&channel, "/t/echo", with("user", user)).await.expect("an answer"));
        }
        assert_eq!(homes.len(), 1, "{user} has one endpoint, and not {homes:?}");
        used.append(&mut homes);
    }
    assert!(used.len() > 1, "all users are at {used:?}");
}

/// Wants reports as often as there may be any.
struct Reporting;

impl Policy for Reporting {
    fn audience(&self, _client: &Client<'_>) -> Result<AudienceName, Refusal> {
        Ok("all".into())
    }

    fn load_reporting(&self, _client: &Client<'_>) -> Option<LoadReporting> {
        Some(LoadReporting { interval: LoadInterval::LEAST, by_endpoint: false })
    }
}

/// A control plane that takes reports, with what it has heard.
struct Reported {
    address: SocketAddr,
    reports: LoadReports,
    serving: JoinHandle<()>,
    _port: Port,
}

impl Reported {
    /// Starts a control plane with these resources.
    async fn start(resources: &Resources) -> Self {
        let port = Port::reserve();
        let address = port.address().parse().expect("an address");
        let (store, reports) = (Store::new(), LoadReports::new(LoadBounds::default()));
        let server = Server::new(Arc::clone(&store), Reporting, Config::default());
        let server = server.with_load_reports(reports.clone());
        let listener = Listener::tcp(address).await.expect("the port is free");
        let serving = server.serve(vec![listener], std::future::pending());
        let serving = tokio::spawn(async move { drop(serving.await) });
        store.publish("all", resources.snapshot());
        Self { address, reports, serving, _port: port }
    }

    /// Waits until so many calls have ended by the reports, and returns these.
    async fn of(&self, ended: u64) -> Vec<SeriesView> {
        within(all_of(&self.reports, ended)).await
    }
}

impl Drop for Reported {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// C-132: with the service that the cluster states, which is none here.
#[tokio::test]
async fn calls_are_reported_by_locality() {
    let a = Backend::start("a").await;
    let server = Reported::start(&cluster("lrs_server: {self: {}}", &[&a])).await;
    let channel = channel_at(server.address, ServerFeatures::default());
    for _ in 0..10 {
        call(&channel).await.expect("an answer");
    }
    for _ in 0..3 {
        call_to(&channel, "/t/fail", with("k", "v")).await.expect_err("it fails");
    }
    let found = server.of(13).await;
    let [series] = &*found else { panic!("{found:?}") };
    let (key, totals) = (&series.key, series.totals);
    assert_eq!((&*key.cluster.cluster, &*key.cluster.service), ("x", ""));
    assert_eq!(key.locality.as_ref().map(|it| &*it.zone), Some("z"));
    assert_eq!((totals.issued, totals.succeeded, totals.failed), (13, 10, 3));
    assert!(series.metrics.is_empty(), "{:?}", series.metrics);
}

/// C-135: of what a server says with its calls, the metrics that the cluster lists; also where a call fails without
/// a message.
#[tokio::test]
async fn the_metrics_of_calls_are_reported_as_far_as_the_cluster_lists_them() {
    let a = reporting("a", 0.5).await;
    let fields = "lrs_server: {self: {}}\n  \
                  lrs_report_endpoint_metrics: [cpu_utilization, mem_utilization, named_metrics.queue]";
    let server = Reported::start(&cluster(fields, &[&a])).await;
    let channel = channel_at(server.address, ServerFeatures::default());
    for _ in 0..4 {
        call(&channel).await.expect("an answer");
    }
    call_to(&channel, "/t/fail", with("k", "v")).await.expect_err("it fails");
    let found = server.of(5).await;
    let [series] = &*found else { panic!("{found:?}") };
    let metrics = series.metrics.iter().map(|(name, all)| (&**name, all.requests, all.total));
    let expected = [("cpu_utilization", 5, 1.25), ("named_metrics.queue", 5, 10.0)];
    assert_eq!(metrics.collect::<Vec<_>>(), expected);
}

/// Waits until so many calls have ended by the reports.
async fn all_of(reports: &LoadReports, ended: u64) -> Vec<SeriesView> {
    loop {
        let all: Vec<_> = reports.series().collect();
        if all.iter().map(|it| it.totals.succeeded + it.totals.failed).sum::<u64>() >= ended {
            return all;
        }
        tokio::task::yield_now().await;
    }
}

/// C-105: a call goes under the hostname of its endpoint, if the server of the routes is trusted.
#[tokio::test]
async fn the_authority_becomes_the_hostname_where_the_server_is_trusted() {
    let backend = Backend::start("a").await;
    let routes = "[{match: {prefix: /}, route: {cluster: x, auto_host_rewrite: true}}]";
    let resources = Resources::default().routes(routes).dns("x", "localhost", &backend);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let port = backend.address.port();
    for (trusted, expected) in [(true, format!("localhost:{port}")), (false, "service".to_owned())]
    {
        let channel = channel_by(&server, ServerFeatures { trusted, ..ServerFeatures::default() });
        let answer = call_to(&channel, "/t/echo", with("k", "v")).await.expect("an answer");
        assert_eq!(answer.split(' ').nth(1), Some(&*expected), "{answer}");
    }
}

/// C-119: a cluster that stands too deep in one place, and not in another, takes calls.
#[tokio::test]
async fn a_cluster_that_is_too_deep_somewhere_counts_where_it_is_not() {
    let a = Backend::start("a").await;
    let names: Vec<_> = (0..20).map(|depth| format!("deep-{depth}")).collect();
    let mut resources = Resources::default().routes(&one_route("all"));
    resources = resources.aggregate("all", &["deep-0", "x"]).cluster("x", "");
    let below = names.iter().skip(1).map(String::as_str).chain(["x"]);
    for (name, below) in names.iter().zip(below) {
        resources = resources.aggregate(name, &[below]);
    }
    let server = TestServer::start(resources.endpoints("x", &[&[&a]]).snapshot()).await;
    let server = server.expect("a server");
    until(&channel(&server), "the leaf", |result| name(result) == Some("a")).await;
}
