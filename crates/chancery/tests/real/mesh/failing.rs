//! Calls that fail, are tried again, or take too long.

use super::backends::Backends;
use super::clients::Outcome;
use super::resources::Service;
use super::{Batch, UNAVAILABLE, with_mesh};

const DEADLINE_EXCEEDED: u32 = 4;
const FAULT: &str =
    "\"@type\": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault";

fn services(backends: &Backends) -> Vec<Service> {
    let retry = "retry_policy: {retry_on: unavailable, num_retries: 3, retry_back_off: {base_interval: 0.01s}}";
    let retried = format!("[{{match: {{prefix: /}}, route: {{cluster: retries, {retry}}}}}]");
    let limited = "[{match: {prefix: /}, route: {cluster: limits, max_stream_duration: {max_stream_duration: 0.3s}}}]";
    let broken = "circuit_breakers: {thresholds: [{max_requests: 2}]}";
    let abort = "abort: {grpc_status: 7, percentage: {numerator: 100}}";
    let by_header = "abort: {header_abort: {}, percentage: {numerator: 100}}";
    let filter = |fault: &str| format!("- {{name: fault, typed_config: {{{FAULT}, {fault}}}}}");
    let to = |cluster: &str| format!("[{{match: {{prefix: /}}, route: {{cluster: {cluster}}}}}]");
    let (a, b) = (backends.port("a"), backends.port("b"));
    // An endpoint all of whose calls fail is out after one interval, and stays out.
    let outliers = "outlier_detection: {interval: 0.5s, base_ejection_time: 300s, max_ejection_time: 300s, \
        max_ejection_percent: 50, failure_percentage_threshold: 50, enforcing_failure_percentage: 100, \
        failure_percentage_minimum_hosts: 2, failure_percentage_request_volume: 5, enforcing_success_rate: 0}";
    vec![
        Service::new("outliers", &to("outliers")).cluster("outliers", outliers).endpoints(
            "outliers",
            &[(0, 1, &[a, b])],
            "",
        ),
        Service::new("retries", &retried).of(backends, "retries", &["a"]),
        Service::new("limits", limited).of(backends, "limits", &["a"]),
        Service::new("broken", &to("broken")).cluster("broken", broken).endpoints(
            "broken",
            &[(0, 1, &[a])],
            "",
        ),
        Service::filtered("aborted", &filter(abort), &to("aborted")).of(
            backends,
            "aborted",
            &["a"],
        ),
        Service::filtered("asked", &filter(by_header), &to("asked")).of(backends, "asked", &["a"]),
    ]
}

/// C-102, C-148, C-150: the same failures, and the same attempts.
#[test]
fn calls_fail_in_the_same_way() {
    with_mesh(services, |mesh, backends| {
        for (path, expected, attempts) in [
            ("/t/flaky/2", Ok("a"), 3),
            ("/t/flaky/9", Err(UNAVAILABLE), 4),
            ("/t/pushback", Err(UNAVAILABLE), 1),
            ("/t/code/13", Err(13), 1),
        ] {
            mesh.agree(Batch::one("retries", path), expected);
            let batch = mesh.batches;
            for client in mesh.clients.iter().map(|client| client.name) {
                let seen = backends.attempts(&format!("{client}-{batch}"));
                assert_eq!(seen, attempts, "{client} {path}");
            }
        }
        mesh.agree(Batch::one("limits", "/t/slow"), Err(DEADLINE_EXCEEDED));
        mesh.agree(Batch::one("aborted", "/t/echo"), Err(7));
        let asks = [("x-envoy-fault-abort-grpc-request", "5")];
        mesh.agree(Batch::one("asked", "/t/echo").with(&asks), Err(5));
        mesh.agree(Batch::one("asked", "/t/echo"), Ok("a"));
    });
}

/// C-147, gRFC A32: as many calls are under way as the cluster allows, and no more. grpc-js 1.14 does not count them.
#[test]
fn calls_beyond_the_limit_of_a_cluster_fail() {
    with_mesh(services, |mesh, _| {
        mesh.agree(Batch::one("broken", "/t/echo"), Ok("a"));
        let slow = Batch { count: 6, at_once: 6, timeout: 1.0, ..Batch::one("broken", "/t/slow") };
        for (client, spread) in
            mesh.spread(slow).into_iter().filter(|(client, _)| *client != "Node")
        {
            let expected = [("14".to_owned(), 4), ("4".to_owned(), 2)].into();
            assert_eq!(spread, expected, "{client}");
        }
    });
}

/// C-149, gRFC A50: an endpoint whose calls fail takes none any more.
#[test]
fn an_endpoint_that_fails_is_left_out() {
    with_mesh(services, |mesh, _| {
        for client in &mut mesh.clients {
            let calls = Batch::one("outliers", "/t/fails/b").times(20);
            let all_to_a = |outcomes: &[Outcome]| outcomes.iter().all(|it| it.backend() == Ok("a"));
            client.until_all(&calls.json("outliers"), all_to_a);
        }
    });
}
