//! The names of resources, and the treatment of their bytes.

use chancery_core::Version;
use serde::de::DeserializeSeed;
use serde_json::json;

use super::*;

fn url(name: &str) -> TypeUrl {
    TypeUrl::new(name)
}

const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
const HOST: &str = "envoy.config.route.v3.VirtualHost";

fn message(name: &str, json: &str) -> DynamicMessage {
    let descriptor = Schema::bundled().message(name).unwrap();
    descriptor.deserialize(&mut serde_json::Deserializer::from_str(json)).unwrap()
}

fn from_json(name: &str, json: &str, wrapper: Wrapper) -> Result<Resource, ResourceError> {
    resource(&url(name), &message(name, json), wrapper)
}

fn named(name: &str) -> Wrapper {
    Wrapper { name: Some(name.to_owned()), ..Wrapper::default() }
}

fn refusal(result: Result<Resource, ResourceError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn the_name_is_the_bodys_or_the_wrappers() {
    let plain = from_json(CLUSTER, r#"{"name": "a"}"#, Wrapper::default()).unwrap();
    assert_eq!(plain.name().as_str(), "a");
    let assignment = "envoy.config.endpoint.v3.ClusterLoadAssignment";
    let endpoints = from_json(assignment, r#"{"clusterName": "b"}"#, Wrapper::default()).unwrap();
    assert_eq!(endpoints.name().as_str(), "b");
    let wrapped = from_json(CLUSTER, r#"{"name": "a"}"#, named("c")).unwrap();
    assert_eq!(wrapped.name().as_str(), "c");
    let endpoint = "envoy.config.endpoint.v3.LbEndpoint";
    assert!(from_json(endpoint, "{}", named("d")).is_ok());
    let why = refusal(from_json(endpoint, "{}", Wrapper::default()));
    assert!(why.contains("needs a `Resource`"), "{why}");
    let why = refusal(from_json(CLUSTER, "{}", Wrapper::default()));
    assert!(why.contains("empty `name`"), "{why}");
}

#[test]
fn a_virtual_host_is_named_with_its_route_configuration() {
    // S-092
    let json = r#"{"name": "web", "domains": ["*.x.com"]}"#;
    let why = refusal(from_json(HOST, json, Wrapper::default()));
    assert!(why.contains("`ROUTE_CONFIGURATION/web`"), "{why}");
    let host = from_json(HOST, json, named("rc/web")).unwrap();
    assert_eq!(host.facts().hosts, [Box::from("*.x.com")]);
}

#[test]
fn the_type_in_a_name_agrees_with_the_resource() {
    // S-116
    let right = format!("xdstp://auth/{CLUSTER}/a?b=2&a=1");
    let resource = from_json(CLUSTER, &format!(r#"{{"name": "{right}"}}"#), Wrapper::default());
    assert_eq!(
        resource.unwrap().name().as_str(),
        format!("xdstp://auth/{CLUSTER}/a?a=1&b=2"),
        "names are kept canonical"
    );
    let wrong = format!("xdstp://auth/{HOST}/a");
    let why = refusal(from_json(CLUSTER, r#"{"name": "a"}"#, named(&wrong)));
    assert!(why.contains(HOST) && why.contains(CLUSTER), "{why}");
    let alias = Wrapper { aliases: vec![wrong], ..Wrapper::default() };
    assert!(from_json(CLUSTER, r#"{"name": "a"}"#, alias).is_err());
    let glob = format!("xdstp://auth/{CLUSTER}/a/*");
    assert!(refusal(from_json(CLUSTER, "{}", named(&glob))).contains("collection")); // S-117
}

#[test]
fn a_wrapper_adds_ttl_and_aliases() {
    let wrapper = Wrapper {
        ttl: Some(Duration::from_secs(3)),
        aliases: vec!["b".to_owned()],
        ..Wrapper::default()
    };
    let resource = from_json(CLUSTER, r#"{"name": "a"}"#, wrapper).unwrap();
    assert_eq!(resource.ttl(), Some(Duration::from_secs(3)));
    assert_eq!(resource.aliases()[0].as_str(), "b");
}

#[test]
fn bytes_of_a_known_type_are_made_canonical() {
    // S-031
    let schema = Schema::bundled();
    let of = |bytes: &'static [u8]| {
        let bytes = Bytes::from_static(bytes);
        resource_from_bytes(&schema, &url(CLUSTER), &bytes, Wrapper::default())
    };
    let (forth, back) = (of(b"\x0a\x01a\x10\x01").unwrap(), of(b"\x10\x01\x0a\x01a").unwrap());
    assert_eq!(forth.version(), back.version());
    assert!(matches!(forth.version(), Version::Content(_)));
    assert!(refusal(of(b"\x0a\x05a")).contains(CLUSTER));
}

#[test]
fn bytes_of_an_unknown_type_are_kept() {
    // S-009
    let schema = Schema::bundled();
    let (own, bytes) = (url("own.Thing"), Bytes::from_static(b"\x10\x01\x0a\x01a"));
    let resource = resource_from_bytes(&schema, &own, &bytes, named("a")).unwrap();
    assert_eq!(*resource.body(), bytes);
    let why = resource_from_bytes(&schema, &own, &bytes, Wrapper::default());
    assert!(refusal(why).contains("own.Thing"));
}

#[test]
fn the_deepest_body_there_can_be_does_not_exhaust_the_stack() {
    // As many `Any`s in one another as are opened, and in the innermost the deepest message that a
    // decoder accepts. Everything that walks a body must get through all of it.
    let mut json = serde_json::json!(1);
    for _ in 0..32 {
        json = serde_json::json!([json]);
    }
    let mut body = canonical::encode(&message("google.protobuf.Value", &json.to_string()));
    let mut type_name = "google.protobuf.Value";
    for _ in 0..crate::any::MAX_DEPTH {
        let type_url = format!("type.googleapis.com/{type_name}");
        body = prost::Message::encode_to_vec(&prost_types::Any { type_url, value: body });
        type_name = "google.protobuf.Any";
    }
    let (schema, type_url) = (Schema::bundled(), url("google.protobuf.Any"));
    let bytes = Bytes::from(body);
    let resource = resource_from_bytes(&schema, &type_url, &bytes, named("a")).unwrap();
    assert_eq!(*resource.body(), bytes);
}

#[test]
fn a_private_key_in_whatever_text_makes_a_resource_a_secret() {
    // S-137
    let key = "-----BEGIN PRIVATE KEY-----";
    let text = json!({"@type": "type.googleapis.com/google.protobuf.StringValue", "value": key});
    let any = "type.googleapis.com/google.protobuf.Any";
    let twice = json!({"@type": any, "value": {"@type": any, "value": text}});
    // In JSON these bytes are base64, and in the type that is stated they are the key.
    let encoded = "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t";
    let typed = json!({"@type": "type.googleapis.com/xds.type.v3.TypedStruct",
        "typeUrl": "envoy.config.core.v3.DataSource", "value": {"inline_bytes": encoded}});
    let socket =
        |config| json!({"name": "a", "transportSocket": {"name": "t", "typedConfig": config}});
    let metadata = json!({"name": "a", "metadata": {"filterMetadata": {"m": {"x": [key]}}}});
    for cluster in [
        json!({"name": "a", "altStatName": key}),
        socket(text),
        socket(twice),
        socket(typed),
        metadata,
    ] {
        let new = from_json(CLUSTER, &cluster.to_string(), Wrapper::default()).unwrap();
        assert!(new.facts().sensitive, "{cluster}");
        let path = sensitive::withheld(&Schema::bundled(), &url(CLUSTER), new.body());
        assert!(path.is_some_and(|path| !path.is_empty()), "{cluster}");
    }
}

#[test]
fn a_resource_keeps_its_secret_in_fields_that_a_descriptor_lacks() {
    // S-137, S-010: v2 has no `pkcs12`, and an old Envoy reads it all the same
    let tls = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
    let json = format!(
        r#"{{"name": "a", "transportSocket": {{"name": "t", "typedConfig": {{"@type": "{tls}",
            "commonTlsContext": {{"tlsCertificates": [{{"pkcs12": {{"inlineBytes": "S0VZ"}}}}]}}}}}}}}"#
    );
    let new = from_json(CLUSTER, &json, Wrapper::default()).unwrap();
    assert!(new.facts().sensitive);
    let (_, old) = to_v2(&Schema::bundled(), &url(CLUSTER), &new).unwrap();
    assert!(old.body().windows(3).any(|part| part == b"KEY") && old.facts().sensitive);
    let later = b"\x0a\x01a\xfa\xff\x0f\x1b-----BEGIN PRIVATE KEY-----";
    let body = Bytes::from_static(later);
    let read = resource_from_bytes(&Schema::bundled(), &url(CLUSTER), &body, Wrapper::default());
    assert!(read.unwrap().facts().sensitive);
    let unknown = Bytes::from_static(b"-----BEGIN EC PRIVATE KEY-----");
    let read = resource_from_bytes(&Schema::bundled(), &url("x.Y"), &unknown, named("a"));
    assert!(read.unwrap().facts().sensitive);
}
