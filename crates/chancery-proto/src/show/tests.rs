//! The texts for people: they show everything but secrets, and the same when they are read back.

use prost::Message;
use serde_json::{Value, json};

use super::*;
use crate::document::{Format, parse};
use crate::samples::AnyMessage;

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const EXTENSION: &str = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig";
const SECRET: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
const ALL: [Notation; 3] = [Notation::Yaml, Notation::Json, Notation::Text];

/// `TypedExtensionConfig`
#[derive(Clone, PartialEq, Message)]
struct Extension {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    typed_config: Option<AnyMessage>,
}

fn viewer() -> Viewer {
    Viewer::new(&Schema::bundled())
}

fn body(type_url: &str, json: Value) -> Bytes {
    let descriptor = Schema::bundled().message(type_url).unwrap();
    DynamicMessage::deserialize(descriptor, json).unwrap().encode_to_vec().into()
}

fn shown(notation: Notation, type_url: &str, body: &Bytes) -> String {
    viewer().show(notation, &TypeUrl::new(type_url), body)
}

fn extension(type_url: &str, value: &[u8]) -> Bytes {
    let typed_config = Some(AnyMessage { type_url: type_url.to_owned(), value: value.to_vec() });
    Extension { name: "e".to_owned(), typed_config }.encode_to_vec().into()
}

fn cluster() -> Bytes {
    let options = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    body(
        CLUSTER,
        json!({
            "connectTimeout": "1.500s", "name": "c", "type": "STRICT_DNS",
            "metadata": {"filterMetadata": {"m": {"one": 1, "half": 0.5, "on": "on"}}},
            "healthChecks": [{"timeout": "1s", "httpHealthCheck": {
                "path": "/", "expectedStatuses": [{"start": "200", "end": "300"}]}}, {}],
            "perConnectionBufferLimitBytes": 7,
            "typedExtensionProtocolOptions": {
                "b": {"@type": options, "upstreamHttpProtocolOptions": {"autoSni": true}},
                "a": {"@type": "type.googleapis.com/google.protobuf.StringValue", "value": "x\ny"},
            },
        }),
    )
}

#[test]
fn numbers_that_json_has_no_form_for_are_text() {
    let wrapped = |name: &str, value: &str| json!({"@type": format!("type.googleapis.com/google.protobuf.{name}"), "value": value});
    let body = body(
        CLUSTER,
        json!({
            "name": "c", "preconnectPolicy": {"perUpstreamPreconnectRatio": "-Infinity"},
            "typedExtensionProtocolOptions": {
                "a": wrapped("DoubleValue", "NaN"), "b": wrapped("FloatValue", "Infinity")},
        }),
    );
    let line = shown(Notation::JsonLine, CLUSTER, &body);
    for told in [
        r#""per_upstream_preconnect_ratio":"-Infinity""#,
        r#"DoubleValue","value":"NaN""#,
        r#"FloatValue","value":"Infinity""#,
    ] {
        assert!(line.contains(told), "{told} in {line}");
    }
    for (notation, format) in [
        (Notation::Yaml, Format::Yaml),
        (Notation::Json, Format::Json),
        (Notation::Text, Format::Text),
    ] {
        let mut text = shown(notation, CLUSTER, &body);
        if notation == Notation::Text {
            text = format!("resources {{ {text} }}");
        }
        let parsed = parse(&Schema::bundled(), format, text.as_bytes());
        let [read] = &parsed.resources[..] else { panic!("{text}{parsed:?}") };
        assert_eq!(shown(Notation::JsonLine, CLUSTER, read.resource.body()), line, "{text}");
    }
}

#[test]
fn yaml_is_as_people_write_it() {
    let expected = r#""@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: c
type: STRICT_DNS
connect_timeout: 1.500s
per_connection_buffer_limit_bytes: 7
health_checks:
- timeout: 1s
  http_health_check:
    path: /
    expected_statuses:
    - start: "200"
      end: "300"
- {}
metadata:
  filter_metadata:
    m:
      half: 0.5
      "on": "on"
      one: 1
typed_extension_protocol_options:
  a:
    "@type": type.googleapis.com/google.protobuf.StringValue
    value: |-
      x
      y
  b:
    "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
    upstream_http_protocol_options:
      auto_sni: true
"#;
    assert_eq!(shown(Notation::Yaml, CLUSTER, &cluster()), expected);
}

#[test]
fn json_says_the_same_in_the_same_order() {
    let text = shown(Notation::Json, CLUSTER, &cluster());
    let line = shown(Notation::JsonLine, CLUSTER, &cluster());
    assert_eq!(line.lines().count(), 1);
    let values = [&text, &line].map(|text| serde_json::from_str::<Value>(text).unwrap());
    assert_eq!(values[0], values[1]);
    let first: Vec<_> = text.lines().take(4).map(str::trim).collect();
    let type_line = format!("\"@type\": \"{CLUSTER}\",");
    assert_eq!(first, ["{", &type_line, "\"name\": \"c\",", "\"type\": \"STRICT_DNS\","]);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["typed_extension_protocol_options"]["a"]["value"], "x\ny");
}

#[test]
fn text_opens_what_is_inside() {
    let expected = r#"[type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig] {
  name: "e"
  typed_config {
    [type.googleapis.com/google.protobuf.Struct] {
      fields {
        key: "a"
        value {
          number_value: 1.5
        }
      }
      fields {
        key: "b"
        value {
          struct_value {}
        }
      }
    }
  }
}
"#;
    let inner = json!({"@type": "type.googleapis.com/google.protobuf.Struct",
        "value": {"b": {}, "a": 1.5}});
    let body = body(EXTENSION, json!({"name": "e", "typedConfig": inner}));
    assert_eq!(shown(Notation::Text, EXTENSION, &body), expected);
}

#[test]
fn what_is_shown_can_be_read_back() {
    let schema = Schema::bundled();
    let parsed = parse(&schema, Format::Yaml, include_bytes!("../../testdata/all.yaml"));
    let mut resources: Vec<_> = parsed
        .resources
        .into_iter()
        .map(|one| (one.type_url, one.resource.body().clone()))
        .filter(|(type_url, _)| !type_url.as_str().ends_with("VirtualHost"))
        .collect();
    resources.push((TypeUrl::new(CLUSTER), cluster()));
    assert!(resources.len() > 3);
    for (type_url, body) in &resources {
        for (notation, format) in ALL.into_iter().zip([Format::Yaml, Format::Json, Format::Text]) {
            let mut text = viewer().with_secrets().show(notation, type_url, body);
            if notation == Notation::Text {
                text = format!("resources {{ {text} }}");
            }
            let read = parse(&schema, format, text.as_bytes());
            assert_eq!(read.faults, [], "{text}");
            let descriptor = schema.message(type_url.as_str()).unwrap();
            let decode = |bytes: &Bytes| {
                let message = DynamicMessage::decode(descriptor.clone(), bytes.clone()).unwrap();
                crate::canonical::encode(&message)
            };
            assert_eq!(decode(read.resources[0].resource.body()), decode(body), "{text}");
        }
    }
}

#[test]
fn secrets_are_redacted_for_people_wherever_they_are() {
    // S-138
    let key = "-----BEGIN KEY-----\nKEY\n";
    let certificate = json!({
        "certificateChain": {"inlineString": "chain"},
        "privateKey": {"inlineString": key}, "password": {"inlineBytes": "S0VZ"}});
    let secrets = [
        json!({"name": "s", "tlsCertificate": certificate}),
        json!({"name": "s", "genericSecret": {"secret": {"inlineString": "KEY"}}}),
        json!({"name": "s", "genericSecret": {"secrets": {"k": {"inlineString": "KEY"}}}}),
        json!({"name": "s", "sessionTicketKeys": {"keys": [{"inlineString": "KEY"}]}}),
    ];
    let context =
        "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
    let inner = json!({"@type": context, "commonTlsContext": {"tlsCertificates": [certificate]}});
    let cluster = json!({"name": "c", "transportSocket": {"name": "t", "typedConfig": inner}});
    let resources = secrets.map(|secret| (SECRET, secret)).into_iter().chain([(CLUSTER, cluster)]);
    for (type_url, json) in resources {
        let body = body(type_url, json);
        for notation in ALL {
            let text = shown(notation, type_url, &body);
            assert!(text.contains("[redacted]"), "{text}");
            assert!(!text.contains("KEY") && !text.contains("S0VZ"), "{text}");
            let all = viewer().with_secrets().show(notation, &TypeUrl::new(type_url), &body);
            assert!(!all.contains("[redacted]") && all.contains("KEY"), "{all}");
        }
        let rest = viewer().without_secrets(&TypeUrl::new(type_url), &body).unwrap();
        assert!(!rest.windows(3).any(|part| part == b"KEY"), "{rest:?}");
        let all = viewer().with_secrets().show(Notation::Json, &TypeUrl::new(type_url), &rest);
        assert!(all.contains("\"name\"") && !all.contains("S0VZ"), "{all}");
    }
    let body = body(SECRET, json!({"name": "s", "tlsCertificate": certificate}));
    let value: Value = serde_json::from_str(&shown(Notation::Json, SECRET, &body)).unwrap();
    assert_eq!(value["tls_certificate"]["private_key"], "[redacted]");
    assert_eq!(value["tls_certificate"]["certificate_chain"]["inline_string"], "chain");
}

#[test]
fn values_that_are_secret_by_their_name_are_redacted() {
    // S-138
    let pem = "-----BEGIN PRIVATE KEY-----\nKEY\n";
    let certificate = json!({"privateKey": {"inlineString": "KEY"}});
    let context = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.TlsCertificate";
    let typed = json!({"@type": "type.googleapis.com/xds.type.v3.TypedStruct",
        "typeUrl": context, "value": certificate});
    let body = body(
        CLUSTER,
        json!({
            "name": "c", "metadata": {"filterMetadata": {"m": {
                "password": "KEY", "owner": "me", "inner": {"token": "KEY", "list": [pem, "one"]}}}},
            "transportSocket": {"name": "t", "typedConfig": typed},
            "healthChecks": [{"httpHealthCheck": {"path": "/", "requestHeadersToAdd": [
                {"header": {"key": "Authorization", "value": "KEY"}},
                {"header": {"key": "x-shown", "value": "shown"}}]}}],
        }),
    );
    for notation in ALL {
        let text = shown(notation, CLUSTER, &body);
        assert!(text.contains("[redacted]") && !text.contains("KEY"), "{text}");
        for told in ["password", "me", "one", "Authorization", "shown"] {
            assert!(text.contains(told), "{told} in {text}");
        }
        let all = viewer().with_secrets().show(notation, &TypeUrl::new(CLUSTER), &body);
        assert!(!all.contains("[redacted]") && all.contains("KEY"), "{all}");
    }
    let rest = viewer().without_secrets(&TypeUrl::new(CLUSTER), &body).unwrap();
    assert!(!rest.windows(3).any(|part| part == b"KEY"), "{rest:?}");
    assert!(rest.windows(5).any(|part| part == b"shown"), "{rest:?}");
}

#[test]
fn a_private_key_is_left_out_wherever_it_stands() {
    // S-138
    let key = b"-----BEGIN PRIVATE KEY-----";
    let later = [&b"\n\x01c\x92\xfa\x01\x01x\xfa\xff\x0f\x1b"[..], key].concat();
    let rest = viewer().without_secrets(&TypeUrl::new(CLUSTER), &later.into()).unwrap();
    assert_eq!(rest, &b"\n\x01c"[..]);
    let twice = [&b"\n\x1b"[..], key, b"\n\x01c"].concat();
    assert_eq!(viewer().without_secrets(&TypeUrl::new(CLUSTER), &twice.into()), None);
    let key = "-----BEGIN PRIVATE KEY-----";
    let body =
        body(CLUSTER, json!({"name": "c", "metadata": {"filterMetadata": {key: {key: {key: 1}}}}}));
    for notation in ALL {
        let text = shown(notation, CLUSTER, &body);
        assert!(text.contains("[redacted]") && !text.contains("PRIVATE"), "{text}");
        let all = viewer().with_secrets().show(notation, &TypeUrl::new(CLUSTER), &body);
        assert!(!all.contains("[redacted]") && all.contains(key), "{all}");
    }
    let rest = viewer().without_secrets(&TypeUrl::new(CLUSTER), &body).unwrap();
    assert!(!rest.windows(7).any(|part| part == b"PRIVATE"), "{rest:?}");
}

#[test]
fn what_nobody_knows_is_shown_as_it_is() {
    let nothing = "type.googleapis.com/example.Nothing";
    let expected = format!("\"@type\": {nothing}\nvalue: AAH/\n");
    assert_eq!(shown(Notation::Yaml, nothing, &Bytes::from_static(b"\0\x01\xff")), expected);
    let inside = extension(nothing, b"\0\x01\xff");
    let value: Value = serde_json::from_str(&shown(Notation::Json, EXTENSION, &inside)).unwrap();
    assert_eq!(value["typed_config"], json!({"@type": nothing, "value": "AAH/"}));
    let text = shown(Notation::Text, EXTENSION, &inside);
    assert!(text.contains(r#"value: "\000\001\377""#), "{text}");
}

/// S-138: bytes without secrets stay as they came, odd ones too.
#[test]
fn bodies_without_secrets_are_left_alone() {
    let schema = Schema::bundled();
    // Field 1 occurs twice, which no encoder writes.
    let odd = Bytes::from_static(b"\x0a\x01x\x0a\x01y");
    let nothing = "type.googleapis.com/example.Nothing";
    for (type_url, body) in [(CLUSTER, cluster()), (CLUSTER, odd.clone()), (nothing, odd)] {
        let rest = Viewer::new(&schema).without_secrets(&TypeUrl::new(type_url), &body);
        assert_eq!(rest, Some(body));
    }
    let broken = Bytes::from_static(b"KEY");
    assert_eq!(viewer().without_secrets(&TypeUrl::new(SECRET), &broken), None);
    let inside = extension(SECRET, b"KEY");
    let rest = viewer().without_secrets(&TypeUrl::new(EXTENSION), &inside).unwrap();
    assert!(!rest.windows(3).any(|part| part == b"KEY"), "{rest:?}");
}

/// S-138: broken bytes of a known type may hold its secrets.
#[test]
fn bytes_that_are_not_of_their_type_are_not_shown() {
    let broken = Bytes::from_static(b"KEY");
    for notation in ALL {
        for (type_url, body) in [(SECRET, broken.clone()), (EXTENSION, extension(SECRET, b"KEY"))] {
            let text = shown(notation, type_url, &body);
            assert!(text.contains("[redacted]") && !text.contains("KEY"), "{text}");
            assert!(!text.contains("S0VZ"), "{text}");
        }
    }
    let all = viewer().with_secrets().show(Notation::Text, &TypeUrl::new(SECRET), &broken);
    assert!(all.contains("KEY"));
}

#[test]
fn an_odd_prefix_of_a_type_does_not_get_into_text() {
    let odd = extension("x]\n\u{1b}[2J/google.protobuf.Empty", b"");
    let text = shown(Notation::Text, EXTENSION, &odd);
    assert!(text.contains("[type.googleapis.com/google.protobuf.Empty] {}"), "{text}");
}

#[test]
fn nesting_without_end_is_closed_and_no_overflow() {
    let mut any = AnyMessage::default();
    for _ in 0..500 {
        let type_url = "type.googleapis.com/google.protobuf.Any".to_owned();
        any = AnyMessage { type_url, value: any.encode_to_vec() };
    }
    let body = extension(&any.type_url, &any.value);
    for notation in ALL {
        let text = shown(notation, EXTENSION, &body);
        assert!(text.contains("[redacted]"), "{notation:?}");
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60)) {
        for type_url in [CLUSTER, EXTENSION] {
            for body in [Bytes::from(bytes.clone()), extension(CLUSTER, &bytes)] {
                let _shown = ALL.map(|notation| shown(notation, type_url, &body));
            }
        }
    }
}

#[test]
fn no_character_of_a_resource_gives_a_terminal_orders() {
    let all: Vec<char> = ('\0'..=char::MAX).collect();
    for text in all.chunks(20_000).map(String::from_iter) {
        let body = body(CLUSTER, json!({"name": text, "altStatName": format!("a{text}")}));
        for notation in ALL {
            let shown = shown(notation, CLUSTER, &body);
            let odd = |it: &char| *it != '\n' && !chancery_core::printable::is_printable(*it);
            assert_eq!(shown.chars().find(odd), None, "{notation:?}");
            if notation == Notation::Json {
                let json: Value = serde_json::from_str(&shown).unwrap();
                assert_eq!(json["name"], *text);
            }
        }
    }
}
