//! Load reports of Envoy: the calls through it are those that are shown.

use super::on_both_versions;
use crate::support::bootstrap::{Bootstrap, Transport};
use crate::support::chancery::Chancery;
use crate::support::resources::Source;
use crate::support::wait;

/// Has Envoy report to the management server.
const LOAD_STATS: &str = "\
cluster_manager:
  load_stats_config:
    api_type: GRPC
    transport_api_version: V3
    grpc_services:
    - envoy_grpc: {cluster_name: xds}
";

/// The number of calls.
const CALLS: u64 = 120;

// S-130, S-131, S-132, S-133
#[test]
fn its_calls_are_shown_one_by_one() {
    on_both_versions(|rig| {
        let directory = rig.plain(Source::Ads);
        directory.write("chancery.yaml", "load-reports: {interval: 1s, endpoints: true}\n");
        let chancery = Chancery::serve(&directory);
        let bootstrap = Bootstrap::ads("GRPC").server("xds", chancery.port(), Transport::H2c);
        let mut envoy = rig.envoy(&bootstrap.top(LOAD_STATS));
        envoy.is_live();
        // Envoy counts calls to a cluster from the first period on in which it knows it.
        let shown = || chancery.load("?by=locality&cluster=svc-a");
        wait::holds("Envoy to report", || {
            envoy.get(&[]);
            !shown().is_empty()
        });
        let taken = chancery.load_reports();
        wait::holds("all that was counted to be reported", || chancery.load_reports() > taken + 1);
        let before = shown()[0]["issued"].as_u64().expect("a number");
        let (mut calls, mut asked) = (0, before);
        wait::holds("all calls through Envoy", || {
            asked += 1;
            calls += u64::from(envoy.get(&[]).is_some_and(|reply| reply.status == 200));
            calls == CALLS
        });
        let made = before + CALLS;
        let is_shown = wait::within(wait::BOUND, || (shown()[0]["issued"] == made).then_some(()));
        let row = &shown()[0];
        assert!(is_shown.is_some(), "{made} of {asked} calls were made, {before} before: {row}");
        assert_eq!((&row["succeeded"], &row["failed"]), (&made.into(), &0.into()), "{row}");
        assert_eq!(row["locality"]["zone"], "z1");
        let endpoints = chancery.load("?by=endpoint&cluster=svc-a");
        let sum = endpoints.iter().filter_map(|row| row["issued"].as_u64()).sum::<u64>();
        assert_eq!(sum, made, "each call goes to one endpoint: {endpoints:?}");
        assert!(endpoints[0]["endpoint"].as_str().is_some_and(|it| it.starts_with("127.0.0.1:")));
        let nodes = chancery.load("?by=node&cluster=svc-a");
        assert_eq!(
            (&nodes[0]["node"], nodes[0]["issued"].as_u64()),
            (&"envoy-1".into(), Some(made))
        );
    });
}
