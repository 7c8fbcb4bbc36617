//! Mutations of all that the server reads: requests of both variants, polls, and files of resources.
//! None of it may panic, and what is read can be worked with.
//!
//! The mutations are those of `chancery_testkit::fuzz`. Not here: responses, which clients read.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use bytes::Bytes;
use chancery_core::{DeltaRequest, Request, ResourceName, SotwRequest};
use chancery_proto::Schema;
use chancery_proto::clients::Clients;
use chancery_proto::document::{Checks, Format, RuleCheck, parse, parse_checked, pieces, render};
use chancery_proto::frames::{Messages, framed};
use chancery_proto::json::request_from_json;
use chancery_proto::show::{Notation, Viewer};
use chancery_proto::wire::{decode_delta, decode_sotw, encode_request};

fn fuzz(target: &str, corpus: &[Vec<u8>], attempt: impl FnMut(&[u8])) {
    chancery_testkit::fuzz::fuzz("chancery-proto", target, corpus, attempt);
}

/// Polls that Envoy and others make.
const POLLS: [&str; 3] = [
    r#"{"node": {"id": "a", "cluster": "edge", "metadata": {"k": [1, null, {"x": "y"}]},
        "locality": {"region": "r", "zone": "z"}, "userAgentName": "envoy"},
        "resourceNames": ["a", "b"], "typeUrl": "type.googleapis.com/envoy.config.cluster.v3.Cluster"}"#,
    r#"{"version_info": "7", "response_nonce": "3", "error_detail": {"code": 3, "message": "no"},
        "node": {"dynamic_parameters": {"t": {"params": {"a": "b"}}}, "client_features": ["f"]}}"#,
    "{}",
];

/// Requests of one variant: those of the polls, and their names as a delta.
fn requests(delta: bool) -> Vec<Vec<u8>> {
    let polls = POLLS.iter().map(|poll| request_from_json(poll.as_bytes()).unwrap());
    let encoded = polls.map(|poll| {
        if !delta {
            return encode_request(&Request::Sotw(poll)).to_vec();
        }
        let SotwRequest { node, type_url, nonce, names: subscribe, error, .. } = poll;
        let request =
            DeltaRequest { node, type_url, nonce, subscribe, error, ..DeltaRequest::default() };
        encode_request(&Request::Delta(request)).to_vec()
    });
    encoded.collect()
}

/// A request that is read is the same when it is written and read again.
#[test]
fn sotw_requests() {
    fuzz("sotw_requests", &requests(false), |input| {
        let Ok(request) = decode_sotw(input) else { return };
        let again = encode_request(&Request::Sotw(request.clone()));
        assert_eq!(decode_sotw(&again).unwrap(), request);
    });
}

#[test]
fn delta_requests() {
    fuzz("delta_requests", &requests(true), |input| {
        let Ok(request) = decode_delta(input) else { return };
        let again = encode_request(&Request::Delta(request.clone()));
        assert_eq!(decode_delta(&again).unwrap(), request);
    });
}

/// The bytes of a stream are cut into the same messages wherever they are split.
#[test]
fn frames() {
    let corpus = [false, true].map(|delta| {
        let all: Vec<_> = requests(delta).iter().map(|message| framed(message)).collect();
        all.concat()
    });
    fuzz("frames", &corpus, |input| {
        let read = |chunk: usize| {
            let (mut messages, mut read) = (Messages::new(1 << 12), Vec::new());
            for chunk in input.chunks(chunk) {
                messages.push(Bytes::copy_from_slice(chunk));
                loop {
                    match messages.next() {
                        Ok(Some(message)) => read.push(message),
                        Ok(None) => break,
                        Err(_) => return read,
                    }
                }
            }
            read
        };
        assert_eq!(read(1), read(input.len().max(1)));
    });
}

#[test]
fn polls() {
    fuzz("polls", &POLLS.map(|poll| poll.as_bytes().to_vec()), |input| {
        if let Ok(request) = request_from_json(input) {
            assert!(!format!("{request:?}").is_empty());
        }
    });
}

/// Whatever is read of a file is a resource that can be shown without its secrets, and whatever is
/// not is a fault that can be printed.
fn documents(target: &str, format: Format, corpus: &[&str]) {
    let schema = Schema::bundled();
    let viewer = Viewer::new(&schema);
    let corpus: Vec<_> = corpus.iter().map(|text| text.as_bytes().to_vec()).collect();
    for good in &corpus {
        let faults = parse(&schema, format, good).faults;
        assert!(faults.is_empty(), "{faults:?}");
    }
    fuzz(target, &corpus, |input| {
        let text = String::from_utf8_lossy(input);
        let parsed = parse_checked(&schema, format, input, CHECKS);
        for fault in &parsed.faults {
            assert!(!render(fault, "file", Some(&text)).is_empty());
        }
        for broken in &parsed.violations {
            assert!(!broken.fault.to_string().contains(SECRET), "{}", broken.fault);
            let shown = render(&broken.fault, "file", Some(&text));
            assert!(!shown.contains(SECRET), "{shown}");
        }
        for found in &parsed.resources {
            for warning in &found.warnings {
                assert!(!warning.to_string().contains(SECRET), "{warning}");
            }
            let shown = viewer.show(Notation::Yaml, &found.type_url, found.resource.body());
            assert!(!shown.contains(SECRET), "{shown}");
        }
        if format == Format::Yaml
            && let Some(pieces) = pieces(&text)
        {
            assert!(pieces.len() <= input.len());
        }
    });
}

/// The value of a secret in the files.
const SECRET: &str = "do-not-tell-this";

/// Texts are read with all checks.
const CHECKS: Checks = Checks { rules: RuleCheck::Fault, clients: Clients::ENVOY };

#[test]
fn yaml() {
    documents(
        "yaml",
        Format::Yaml,
        &[
            "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: a\n\
             connect_timeout: 0.25s\nmetadata:\n  filter_metadata:\n    x: &x {k: [1, true]}\n    \
             y: *x\n---\n- \"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\n  \
             name: l\n  address: {socket_address: {address: 127.0.0.1, port_value: 80}}\n",
            "\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\n\
             name: s\ngeneric_secret:\n  secret:\n    inline_string: \"do-not-tell-this\"\n",
            "[]\n",
        ],
    );
}

#[test]
fn json() {
    documents(
        "json",
        Format::Json,
        &[
            r#"{"versionInfo": "1", "resources": [{"@type":
                "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", "name": "r",
                "virtualHosts": [{"name": "v", "domains": ["*"], "routes": [{"match":
                {"prefix": "/"}, "route": {"cluster": "a", "timeout": "1.5s"}}]}]}]}"#,
            r#"[{"@type": "type.googleapis.com/envoy.service.discovery.v3.Resource", "ttl": "60s",
                "name": "n", "aliases": ["x"], "resource": {"@type":
                "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "n"}}]"#,
            r#"{"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
                "name": "s", "genericSecret": {"secret": {"inlineString": "do-not-tell-this"}}}"#,
        ],
    );
}

#[test]
fn text() {
    documents(
        "text",
        Format::Text,
        &[
            "version_info: \"1\"\nresources {\n  [type.googleapis.com/envoy.config.cluster.v3.Cluster] {\n    \
             name: 'a' connect_timeout { seconds: 1 nanos: 0x10 } lb_policy: ROUND_ROBIN\n  }\n}\n",
            "resources { [type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment] {\n\
             cluster_name: \"a\\n\\x41\\303\\251\" endpoints < lb_endpoints: [] priority: 1 > } }\n",
        ],
    );
}

/// A binary file is a `DiscoveryResponse`.
#[test]
fn binary() {
    let cluster =
        b"\x12\x3a\x0a\x33type.googleapis.com/envoy.config.cluster.v3.Cluster\x12\x03\x0a\x01a";
    let schema = Schema::bundled();
    assert_eq!(parse(&schema, Format::Binary, cluster).resources.len(), 1);
    fuzz("binary", &[cluster.to_vec(), Vec::new()], |input| {
        let parsed = parse_checked(&schema, Format::Binary, input, CHECKS);
        assert!(parsed.resources.iter().all(|found| !found.resource.name().as_str().is_empty()));
    });
}

/// A name that is read is the same name when it is read again.
#[test]
fn names() {
    let corpus = ["xdstp://a/envoy.config.cluster.v3.Cluster/x/y?b=1&a=2", "xdstp:///t/*", "plain"];
    fuzz("names", &corpus.map(|name| name.as_bytes().to_vec()), |input| {
        let text = String::from_utf8_lossy(input);
        let Ok(name) = ResourceName::parse(&text) else { return };
        assert_eq!(ResourceName::parse(name.as_str()).as_ref(), Ok(&name));
    });
}
