//! Values in texts, and what comes of them for nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_core::{Locality, Node, Value};
use serde_json::json;

use super::*;
use crate::document::{Format, Parsed, ParsedResource, ResourceEdit, RuleCheck, parse_checked};

const LISTENER: &str = "\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener
name: ingress
address: {socket_address: {address: 0.0.0.0, port_value: 1}}
filter_chains:
- filters:
  - name: tcp
    typed_config:
      \"@type\": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
      stat_prefix: ingress
      cluster: shop
      access_log:
      - name: file
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
          path: /dev/stdout
";

const CLUSTER: &str = "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: shop
connect_timeout: 1s
circuit_breakers: {thresholds: [{max_requests: 1}]}
transport_socket:
  name: tls
  typed_config:
    \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    sni: shop
    common_tls_context:
      tls_certificate_sds_secret_configs: [{name: cert, sds_config: {ads: {}}}]
      validation_context: {trusted_ca: {filename: /ca.pem}}
";

fn parsed(text: &str) -> Parsed {
    let checks = Checks { rules: RuleCheck::Fault, ..Checks::default() };
    parse_checked(&Schema::bundled(), Format::Yaml, text.as_bytes(), checks)
}

/// A document with values of these fields, of a resource.
fn values(type_name: &str, name: &str, set: &[(&str, &str)]) -> String {
    let lines = set.iter().map(|(path, text)| format!("    {}: {text}\n", json!(path)));
    let lines: String = lines.collect();
    format!("values:\n- type: {type_name}\n  name: {name}\n  set:\n{lines}")
}

fn faults(text: &str) -> Vec<String> {
    parsed(text).faults.iter().map(ToString::to_string).collect()
}

fn node(metadata: &[(&str, Value)]) -> Node {
    let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
    Node {
        id: "n1".to_owned(),
        cluster: "edge".to_owned(),
        locality: Locality { zone: "z".to_owned(), ..Locality::default() },
        metadata: Arc::new(metadata.collect()),
        ..Node::default()
    }
}

/// The resource with values that a text has, as a node sees it.
fn filled(text: &str, node: &Node) -> Result<serde_json::Value, String> {
    let parsed = parsed(text);
    assert_eq!((&parsed.faults[..], parsed.violations.len()), (&[][..], 0), "{text}");
    let ParsedResource { resource, values, type_url, .. } = &parsed.resources[0];
    let values = values.as_ref().unwrap();
    let stated: Stated = values
        .variables()
        .filter_map(|variable| Some((variable.clone(), variable.of_node(node).ok()?)))
        .collect();
    let made =
        values.fill(resource, &stated).map_err(|unfit| format!("{}: {unfit}", unfit.path))?;
    assert_ne!(made.version(), resource.version());
    Ok(as_json(type_url, &made))
}

fn as_json(type_url: &TypeUrl, made: &Resource) -> serde_json::Value {
    let descriptor = Schema::bundled().message(type_url.as_str()).unwrap();
    let message = DynamicMessage::decode(descriptor, made.body().clone()).unwrap();
    let options = prost_reflect::SerializeOptions::new().use_proto_field_name(true);
    message.serialize_with_options(serde_json::value::Serializer, &options).unwrap()
}

#[test]
fn fields_are_filled_by_their_kind() {
    let set = [
        ("address.socket_address.port_value", "${node.metadata.port}"),
        ("filter_chains[0].filters[0].typed_config.stat_prefix", "${node.cluster}-${node.id}.x"),
        ("per_connection_buffer_limit_bytes", "${node.metadata.limits.buffer}"),
        ("bind_to_port", "${node.metadata.bind}"),
        ("transparent", "${node.metadata.bind}"),
        ("traffic_direction", "${node.metadata.direction}"),
        ("listener_filters_timeout", "${node.metadata.timeout}"),
        ("stat_prefix", "${node.metadata.port}"),
    ];
    let text = format!("{LISTENER}---\n{}", values("lds", "ingress", &set));
    let limits = BTreeMap::from([("buffer".to_owned(), Value::Text("4096".to_owned()))]);
    let of = |port: Value| {
        node(&[
            ("port", port),
            ("limits", Value::Map(limits.clone())),
            ("bind", Value::Bool(true)),
            ("direction", Value::Text("INBOUND".to_owned())),
            ("timeout", Value::Text("1.5s".to_owned())),
        ])
    };
    let made = filled(&text, &of(Value::Number(8080.0))).unwrap();
    assert_eq!(made["address"]["socket_address"]["port_value"], 8080);
    let filter = &made["filter_chains"][0]["filters"][0]["typed_config"];
    assert_eq!((&filter["stat_prefix"], &filter["cluster"]), (&json!("edge-n1.x"), &json!("shop")));
    assert_eq!(made["per_connection_buffer_limit_bytes"], 4096);
    assert_eq!((&made["bind_to_port"], &made["transparent"]), (&json!(true), &json!(true)));
    assert_eq!(
        (&made["traffic_direction"], &made["stat_prefix"]),
        (&json!("INBOUND"), &json!("8080"))
    );
    assert_eq!(made["listener_filters_timeout"], "1.500s");
    // The same text as a number: what a value looks like says nothing of where it stands.
    let text_port = filled(&text, &of(Value::Text("8080".to_owned()))).unwrap();
    assert_eq!(text_port, made);
}

#[test]
fn a_value_that_is_missing_or_does_not_fit_is_refused() {
    let port = "address.socket_address.port_value";
    let text = |path: &str, value: &str| {
        format!("{LISTENER}---\n{}", values("lds", "ingress", &[(path, value)]))
    };
    let of_port = text(port, "${node.metadata.port}");
    let refused = |value: Value| filled(&of_port, &node(&[("port", value)])).unwrap_err();
    let whole = format!("{port}: `node.metadata.port` is not a whole number (uint32)");
    for value in [Value::Number(80.5), Value::Text("http".to_owned()), Value::Bool(true)] {
        assert_eq!(refused(value), whole);
    }
    assert_eq!(
        refused(Value::Number(-1.0)),
        format!("{port}: `node.metadata.port` is not a number in range")
    );
    let told = refused(Value::Number(70000.0));
    assert!(told.contains("must be at most 65535") || told.contains("65535"), "{told}");
    assert!(!told.contains("70000"), "values of metadata are not printed (S-138): {told}");
    let in_json = text("address.socketAddress.portValue", "${node.metadata.port}");
    let told = filled(&in_json, &node(&[("port", Value::Number(70000.0))])).unwrap_err();
    assert!(
        told.starts_with("address.socketAddress.portValue: `node.metadata.port` must"),
        "{told}"
    );
    for odd in
        [Value::Null, Value::List(vec![]), Value::Map(BTreeMap::new()), Value::Number(f64::NAN)]
    {
        assert_eq!(refused(odd), format!("{port}: `node.metadata.port` is not stated"));
    }
    assert_eq!(
        filled(&of_port, &node(&[])).unwrap_err(),
        format!("{port}: `node.metadata.port` is not stated")
    );
    let of_prefix = text("stat_prefix", "a-${node.metadata.a.b}");
    assert!(filled(&of_prefix, &node(&[("a", Value::Text("x".to_owned()))])).is_err());
    let long = Value::Text("x".repeat(MAX_TEXT_BYTES + 1));
    let variable = Variable::parse("node.metadata.port").unwrap();
    assert_eq!(variable.of_node(&node(&[("port", long)])), Err(NotStated::TooLong));
    let line = Value::Text("a\nb".to_owned());
    assert_eq!(variable.of_node(&node(&[("port", line)])), Err(NotStated::ControlCharacter));
    assert_eq!(variable.of_node(&node(&[("port", Value::Null)])), Err(NotStated::NoValue));
}

#[test]
fn a_path_that_leads_to_no_field_is_a_fault_of_its_line() {
    let of_listener = |path: &str, value: &str| {
        faults(&format!("{LISTENER}---\n{}", values("lds", "ingress", &[(path, value)])))
    };
    let id = "${node.id}";
    for (path, value, expected) in [
        ("adress.x", id, "unknown field `adress`"),
        ("address.socket_address.prot", id, "unknown field `prot`"),
        ("address", id, "`address` is a message `Address`"),
        ("address.socket_address.port_value.x", id, "`port_value` is no message"),
        ("filter_chains.filters", id, "`filter_chains` is a list"),
        ("filter_chains[1].name", id, "`filter_chains` has 1 items"),
        (
            "filter_chains[0].filters[0].typed_config.stat_prefixx",
            id,
            "unknown field `stat_prefixx`",
        ),
        (
            "filter_chains[0].filters[0].typed_config.access_log[0].typed_config.path",
            id,
            "is a path of a file",
        ),
        ("name", id, "is the name of the resource"),
        ("metadata.filter_metadata", id, "`filter_metadata` is a map"),
        ("metadata.filter_metadata[\"a\"]", id, "`filter_metadata` is a `Struct`"),
        ("address..x", id, "this is no path of fields"),
        ("[0]", id, "is a message, and neither a list nor a map"),
        ("address.socket_address.port_value", "8${node.metadata.port}", "the field is no text"),
        ("stat_prefix", "plain", "the value has no `${node.…}`"),
        ("stat_prefix", "${node.name}", "`${node.name}` is no value of a node"),
        ("stat_prefix", "${env.HOME}", "`${env.HOME}` is no value of a node"),
        ("stat_prefix", "a${node.id", "`${` has no `}`"),
        ("stat_prefix", "8", "expected a text with `${node.…}`"),
        ("address.pipe.path", id, "is a path of a file"),
    ] {
        let told = of_listener(path, value);
        assert!(told.len() == 1 && told[0].contains(expected), "{path}: {told:?}");
        assert!(told[0].starts_with("line 21, column"), "{path}: {told:?}");
    }
    let socket = "transport_socket.typed_config.common_tls_context";
    for (path, expected) in [
        ("tls_certificate_sds_secret_configs[0].name", "is the name of a secret"),
        ("validation_context.trusted_ca.filename", "is a path of a file"),
        ("validation_context.trusted_ca.environment_variable", "is a path of a file"),
    ] {
        let set = [(&*format!("{socket}.{path}"), id)];
        let told = faults(&format!("{CLUSTER}---\n{}", values("cds", "shop", &set)));
        assert!(told.len() == 1 && told[0].contains(expected), "{path}: {told:?}");
    }
}

#[test]
fn values_belong_to_the_resource_or_the_patch_of_their_text() {
    let set = [("alt_stat_name", "${node.id}")];
    let of_shop = values("cds", "shop", &set);
    // It may stand above the resource.
    let above = parsed(&format!("{of_shop}---\n{CLUSTER}"));
    assert_eq!((above.faults.len(), above.edits.len()), (0, 0));
    let declared: Vec<_> = above.resources[0].values.as_ref().unwrap().declared().collect();
    let place = FieldPlace { lines_below: -2, column: 22 };
    assert_eq!(
        declared,
        [DeclaredValue {
            path: "alt_stat_name".to_owned(),
            template: "${node.id}".to_owned(),
            variables: vec![Variable::Id],
            place: Some(place)
        }]
    );
    let patch = "patch:\n- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  \
                 name: shop\n  connect_timeout: 2s\n";
    let both = parsed(&format!("{patch}{of_shop}"));
    assert_eq!((both.faults.len(), both.edits.len()), (0, 1));
    assert!(both.edits[0].values.is_some());
    let alone = parsed(&of_shop);
    assert_eq!((alone.faults.len(), alone.edits.len()), (0, 1));
    assert!(matches!(alone.edits[0].edit, ResourceEdit::Patch(_)));
    let twice = faults(&format!("{CLUSTER}---\n{of_shop}---\n{of_shop}"));
    assert!(twice[0].contains("has values of this resource already"), "{twice:?}");
    let removed = faults(&format!("remove: {{cds: [shop]}}\n{of_shop}"));
    assert!(removed[0].contains("the text removes this resource"), "{removed:?}");
    let many: String = (0..101).map(|at| format!("'x[{at}]': a, ")).collect();
    let many = format!("values: [{{type: cds, name: a, set: {{{many}}}}}]");
    for (text, expected) in [
        (&*many, "more than 100 fields of one resource"),
        ("values: {a: b}", "expected a list of values"),
        ("values: [{type: cds, name: a}]", "`set` is missing"),
        ("values: [{type: cds, set: {name: a}}]", "`name` is missing"),
        ("values: [{type: cdx, name: a, set: {a: b}}]", "this is no type of resources"),
        ("values: [{type: sds, name: a, set: {a: b}}]", "have no values of nodes"),
        ("values: [{type: cds, name: a, set: {}}]", "expected a path of a field"),
        (
            "values: [{type: cds, name: a, sett: {}, set: {alt_stat_name: '${node.id}'}}]",
            "unknown key `sett`",
        ),
        ("valuse: []", "unknown key `valuse`"),
    ] {
        let told = faults(text);
        assert!(told.len() == 1 && told[0].contains(expected), "{text}: {told:?}");
    }
}

#[test]
fn a_placeholder_anywhere_else_is_text() {
    let cluster = parsed(&CLUSTER.replace("sni: shop", "sni: ${node.id}"));
    assert_eq!(cluster.faults, []);
    assert!(cluster.resources[0].values.is_none());
    assert!(cluster.resources[0].resource.body().windows(10).any(|bytes| bytes == b"${node.id}"));
}

#[test]
fn values_are_looked_for_in_the_resource_below() {
    let set = [("circuit_breakers.thresholds[1].max_requests", "${node.metadata.most}")];
    let edits = parsed(&values("cds", "shop", &set));
    let values = edits.edits[0].values.as_ref().unwrap();
    let below = |text: &str| Arc::clone(&parsed(text).resources[0].resource);
    let told = values.check(&below(CLUSTER)).unwrap_err().to_string();
    assert!(told.contains("`thresholds` has 1 items"), "{told}");
    let two = CLUSTER.replace("{max_requests: 1}", "{max_requests: 1}, {priority: HIGH}");
    assert_eq!(values.check(&below(&two)), Ok(()));
}

#[test]
fn values_come_back_as_they_were_and_no_cut_of_them_panics() {
    let set = [
        ("alt_stat_name", "a-${node.metadata.a.b}-${node.locality.sub_zone}"),
        ("circuit_breakers.thresholds[0].max_requests", "${node.metadata.most}"),
        ("typed_extension_protocol_options[\"a.\\\"b\"].x", "${node.id}"),
        // Rust writes this sign in another way than JSON.
        ("typed_extension_protocol_options[\"a\\u0007b\"].x", "${node.id}"),
    ];
    let text = values("cds", "shop", &set);
    let edits = parsed(&text).edits;
    let schema = Schema::bundled();
    let values = edits[0].values.as_ref().unwrap();
    let bytes = values.to_bytes();
    let read =
        |bytes: &[u8]| NodeValues::from_bytes(&schema, &edits[0].type_url, &edits[0].name, bytes);
    let again = read(&bytes).unwrap();
    assert_eq!((again.digest(), again.to_bytes()), (values.digest(), bytes.clone()));
    for end in 0..bytes.len() {
        assert!(read(&bytes[..end]).is_none());
    }
    for at in 0..bytes.len() * 8 {
        let mut other = bytes.clone();
        other[at / 8] ^= 1 << (at % 8);
        drop(read(&other));
    }
}
