//! The time that the rules of a message take, beside the reading of its file.
//!
//!     rules
//!
//! Prints, for a good cluster, one with faults, and a listener with an `Any` in an `Any`, the time of
//! a check, and the time in which the same text is parsed. Not here: limits; a machine that is busy
//! says other numbers.
#![expect(clippy::print_stdout, reason = "it tells what there is")]
#![expect(clippy::unwrap_used, reason = "its inputs are its own")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use chancery_proto::Schema;
use chancery_proto::document::{Format, parse};
use chancery_proto::rules::Depth;
use prost_reflect::DynamicMessage;

const GOOD: &str = r#"
"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: a
connect_timeout: 1s
load_assignment:
  cluster_name: a
  endpoints:
  - lb_endpoints:
    - endpoint: {address: {socket_address: {address: a.example, port_value: 1}}}
"#;

const BAD: &str = r#"
"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
connect_timeout: 0s
health_checks: [{timeout: 1s, interval: 5s, unhealthy_threshold: 3}]
load_assignment:
  endpoints:
  - lb_endpoints:
    - endpoint: {address: {socket_address: {address: a.example, port_value: 99999}}}
  - priority: 500
outlier_detection: {max_ejection_percent: 120}
"#;

const LISTENER: &str = r#"
"@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: a
address: {socket_address: {address: 0.0.0.0, port_value: 80}}
filter_chains:
- filters:
  - name: hcm
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: a
      rds: {route_config_name: a, config_source: {ads: {}}}
      http_filters:
      - name: router
        typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
"#;

fn main() {
    let schema = Schema::bundled();
    let begin = Instant::now();
    schema.rules();
    println!("plans of all messages: {:?}", begin.elapsed());
    for (name, text) in [("good cluster", GOOD), ("bad cluster", BAD), ("listener", LISTENER)] {
        let named = text.replace("Cluster\nconnect", "Cluster\nname: a\nconnect");
        let parsed = parse(&schema, Format::Yaml, named.as_bytes());
        let found = &parsed.resources[0];
        let of = schema.message(found.type_url.as_str()).unwrap();
        let message = DynamicMessage::decode(of, found.resource.body().clone()).unwrap();
        let check = each(|| drop(black_box(schema.rules().check(&message, Depth::Whole))));
        let parse = each(|| drop(black_box(parse(&schema, Format::Yaml, named.as_bytes()))));
        let count = schema.rules().check(&message, Depth::Whole).count();
        println!("{name}: check {check:?} ({count} violations), parse {parse:?}");
    }
}

/// The shortest time of one run, of several series.
fn each(run: impl Fn()) -> Duration {
    const RUNS: u32 = 5_000;
    let series = (0..5).map(|_| {
        let begin = Instant::now();
        (0..RUNS).for_each(|_| run());
        begin.elapsed() / RUNS
    });
    series.min().unwrap_or_default()
}
