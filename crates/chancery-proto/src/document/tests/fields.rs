//! The values that fields can have.

use super::*;

#[test]
fn every_fault_is_told_at_once_with_its_place_and_path() {
    let text = format!(
        "- '@type': {CLUSTER}
  name: a
  conect_timeout: 1s
  connect_timeout: 5
  load_assignment:
    cluster_name: a
    endpoints:
    - lb_endpoints:
      - endpoint: {{address: {{socket_address: {{address: 1.2.3.4, port_value: 4294967296}}}}}}
      - endpoint: {{address: {{socket_address: {{address: 1.2.3.4, port_value: -1}}}}}}
- '@type': {CLUSTER}
  name: good
- '@type': {CLUSTER}
  name: b
  type: STATICC
  typed_extension_protocol_options:
    http:
      http2_protocol_options: {{}}
      '@type': type.googleapis.com/envoy.config.core.v3.Http2ProtocolOptions
"
    );
    yaml(&text, "cds good at 11:3
        line 3, column 3: [0].conect_timeout: unknown field `conect_timeout`: `Cluster` has none such (did you mean `connect_timeout`?)
        line 4, column 20: [0].connect_timeout: expected a duration in seconds such as `1.5s`, found the number `5`
        line 9, column 77: [0].load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address.port_value: 4294967296 is out of range for uint32 (0 to 4294967295), found the number `4294967296`
        line 10, column 77: [0].load_assignment.endpoints[0].lb_endpoints[1].endpoint.address.socket_address.port_value: -1 is out of range for uint32 (0 to 4294967295), found the number `-1`
        line 15, column 9: [2].type: `DiscoveryType` has no such value, found the text `STATICC` (did you mean `STATIC`?)
        line 18, column 7: [2].typed_extension_protocol_options[\"http\"].http2_protocol_options: unknown field `http2_protocol_options`: `Http2ProtocolOptions` has none such");
}

#[test]
fn fields_are_found_under_both_names_but_given_once() {
    cluster(
        "connectTimeout: 1s\nconnect_timeout: 2s",
        "line 4, column 1: connect_timeout: the field `connect_timeout` is given twice; it was first given at line 3, column 1",
    );
    cluster("connect_timeout: 1s\nconnect_timeout: 2s",
        "cds a at 1:1
         line 4, column 1: connect_timeout: the key `connect_timeout` is given twice; it was first given at line 3, column 1");
    cluster(
        "type: EDS\ncluster_type: {name: x}",
        "line 4, column 1: cluster_type: only one of `cluster_type` and `type` may be set; the other is at line 3, column 1",
    );
    cluster("type: ~\ncluster_type: {name: x}", "cds a at 1:1");
}

#[test]
fn types_are_checked() {
    cluster(
        "alt_stat_name: 010",
        "line 3, column 16: alt_stat_name: expected a text, found the number `010` (put it in quotes: `\"010\"`)",
    );
    cluster("alt_stat_name: yes", "cds a at 1:1");
    cluster(
        "alt_stat_name: [a]",
        "line 3, column 16: alt_stat_name: expected a text, found a list",
    );
    cluster(
        "respect_dns_ttl: yes",
        "line 3, column 18: respect_dns_ttl: expected `true` or `false`, found the text `yes`",
    );
    cluster(
        "health_checks: {}",
        "line 3, column 16: health_checks: expected a list, found a mapping",
    );
    cluster(
        "metadata: 1",
        "line 3, column 11: metadata: expected the fields of `Metadata`, found the number `1`",
    );
    cluster(
        "typed_extension_protocol_options: []",
        "line 3, column 35: typed_extension_protocol_options: expected a mapping, found a list",
    );
    cluster(
        "health_checks: [~]",
        "line 3, column 17: health_checks[0]: expected the fields of `HealthCheck`, found nothing",
    );
    cluster(
        "type: 77",
        "line 3, column 7: type: `DiscoveryType` has no such value, found the number `77`",
    );
    cluster("type: 3", "cds a at 1:1");
    cluster(
        "per_connection_buffer_limit_bytes: 1.5",
        "line 3, column 36: per_connection_buffer_limit_bytes: expected a whole number (uint32), found the number `1.5`",
    );
    cluster(
        "per_connection_buffer_limit_bytes: 1e40",
        "line 3, column 36: per_connection_buffer_limit_bytes: the number is out of range, found the number `1e40`",
    );
    cluster(
        "common_lb_config: {healthy_panic_threshold: {value: 1e999}}",
        "line 3, column 53: common_lb_config.healthy_panic_threshold.value: the number is out of range for double, found the number `1e999`",
    );
}

#[test]
fn types_that_are_not_known_hint_at_descriptor_sets() {
    yaml(
        "'@type': type.googleapis.com/my.Thing\nname: a\n",
        "line 1, column 10: @type: unknown type `type.googleapis.com/my.Thing` (types that are not built in are made known by `--descriptor-set FILE`)",
    );
    yaml(
        "'@type': type.googleapis.com/envoy.config.cluster.v3.Clustr\nname: a\n",
        "line 1, column 10: @type: unknown type `type.googleapis.com/envoy.config.cluster.v3.Clustr` (did you mean `type.googleapis.com/envoy.config.cluster.v3.Cluster`? Or: types that are not built in are made known by `--descriptor-set FILE`)",
    );
    yaml(
        "'@type': envoy.config.cluster.v3.Cluster\nname: a\n",
        "line 1, column 10: @type: `envoy.config.cluster.v3.Cluster` is no type URL (write `type.googleapis.com/envoy.config.cluster.v3.Cluster`)",
    );
    yaml(
        "'@type': 1\nname: a\n",
        "line 1, column 10: @type: expected a type URL, found the number `1`",
    );
    cluster(
        "transport_socket: {name: x, typed_config: {a: 1}}",
        "line 3, column 43: transport_socket.typed_config: `@type` is missing (say what it is: `\"@type\": type.googleapis.com/envoy.config.…`)",
    );
    cluster("transport_socket: {name: x, typed_config: {}}", "cds a at 1:1");
}

#[test]
fn messages_nest_no_deeper_than_decoders_go() {
    let structure = |depth: usize| {
        let value = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        cluster_with(&format!("metadata: {{filter_metadata: {{a: {{b: {value}}}}}}}"))
    };
    let descriptor = Schema::bundled().message(CLUSTER).unwrap();
    let (good, bad): (Vec<_>, Vec<_>) = (40..60)
        .map(|depth| read(Format::Yaml, &structure(depth)))
        .partition(|parsed| parsed.faults.is_empty());
    assert!(good.len() > 5 && bad.len() > 5);
    for good in good {
        let body = good.resources[0].resource.body().clone();
        assert!(DynamicMessage::decode(descriptor.clone(), body).is_ok());
    }
    for bad in bad {
        assert_eq!(bad.faults.len(), 1);
        assert_eq!(bad.faults[0].message, "nested in 100 messages; clients go no deeper");
        assert_eq!(bad.resources.len(), 0);
    }
}

#[test]
fn a_key_of_a_map_is_given_once_in_any_spelling() {
    let schema = schema_with_numbered_map();
    let read = |text: &str| parse(&schema, Format::Yaml, text.as_bytes());
    let text = "'@type': type.googleapis.com/test.Numbered\nname: a\nmap: {1: x, '01': y, z: 1}\n";
    assert_eq!(
        outcome(&read(text)),
        "line 3, column 13: map[\"01\"]: the map has this key already, in another spelling
line 3, column 22: map[\"z\"]: expected a uint32 as key, found the text `z`
line 3, column 25: map[\"z\"]: expected a text, found the number `1` (put it in quotes: `\"1\"`)"
    );
    let text = "'@type': type.googleapis.com/test.Numbered\nname: a\nmap: {1: x, 2: y}\n";
    assert!(outcome(&read(text)).ends_with(" a at 1:1"));
}

/// The bundled schema and `message Numbered { string name = 1; map<uint32, string> map = 2; }`.
fn schema_with_numbered_map() -> Schema {
    use prost_types::field_descriptor_proto::{Label, Type};
    use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};
    let field = |name: &str, number, kind: Type| FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        r#type: Some(kind.into()),
        label: Some(Label::Optional.into()),
        ..Default::default()
    };
    let entry = DescriptorProto {
        name: Some("MapEntry".to_owned()),
        field: vec![field("key", 1, Type::Uint32), field("value", 2, Type::String)],
        options: Some(prost_types::MessageOptions { map_entry: Some(true), ..Default::default() }),
        ..Default::default()
    };
    let map = FieldDescriptorProto {
        label: Some(Label::Repeated.into()),
        type_name: Some(".test.Numbered.MapEntry".to_owned()),
        ..field("map", 2, Type::Message)
    };
    let numbered = DescriptorProto {
        name: Some("Numbered".to_owned()),
        field: vec![field("name", 1, Type::String), map],
        nested_type: vec![entry],
        ..Default::default()
    };
    let file = FileDescriptorProto {
        name: Some("test.proto".to_owned()),
        package: Some("test".to_owned()),
        syntax: Some("proto3".to_owned()),
        message_type: vec![numbered],
        ..Default::default()
    };
    let set = prost_types::FileDescriptorSet { file: vec![file] };
    Schema::bundled().with_descriptor_set(&set.encode_to_vec()).unwrap()
}

#[test]
fn values_are_read_as_the_json_mapping_says() {
    let text = r#"
'@type': type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig
name: a
typed_config:
  '@type': type.googleapis.com/google.protobuf.Struct
  value: {a: 1, b: [true, ~, x, 1.5], c: {d: "1"}}
"#;
    assert_eq!(
        json_of(&message(text)),
        r#"{"name":"a","typed_config":{"@type":"type.googleapis.com/google.protobuf.Struct","value":{"a":1.0,"b":[true,null,"x",1.5],"c":{"d":"1"}}}}"#
    );
    let text = format!(
        r#"
'@type': {CLUSTER}
name: a
type: 3
connect_timeout: 0.25s
perConnectionBufferLimitBytes: "7"
common_lb_config:
  healthy_panic_threshold: {{value: "NaN"}}
  locality_weighted_lb_config: {{}}
typed_extension_protocol_options:
  x:
    '@type': type.googleapis.com/google.protobuf.Duration
    value: 3s
  y:
    value: 2026-01-31T23:59:59Z
    '@type': type.googleapis.com/google.protobuf.Timestamp
"#
    );
    let cluster = message(&text);
    let field = |name| cluster.get_field_by_name(name).unwrap().into_owned();
    assert_eq!(field("type").as_enum_number(), Some(3));
    let json = json_of(&cluster);
    for part in [
        r#""connect_timeout":"0.250s""#,
        r#""per_connection_buffer_limit_bytes":7"#,
        r#""healthy_panic_threshold":{"value":"NaN"}"#,
        r#""locality_weighted_lb_config":{}"#,
        r#"{"@type":"type.googleapis.com/google.protobuf.Duration","value":"3s"}"#,
        r#""value":"2026-01-31T23:59:59Z""#,
    ] {
        assert!(json.contains(part), "{part} in {json}");
    }
}

#[test]
fn the_forms_of_well_known_types_are_checked() {
    let any = |url: &str, rest: &str| {
        format!(
            "'@type': type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig\nname: a\n\
         typed_config: {{'@type': type.googleapis.com/google.protobuf.{url}, {rest}}}\n"
        )
    };
    yaml(
        &any("Timestamp", "value: yesterday"),
        "line 3, column 79: typed_config.value: expected a time such as `2026-01-31T23:59:59Z`, found the text `yesterday`",
    );
    yaml(
        &any("Duration", "seconds: 1"),
        "line 3, column 71: typed_config.seconds: in an `Any`, a `Duration` stands as a whole under `value`",
    );
    yaml(
        &any("Duration", ""),
        "line 3, column 15: typed_config: expected `value` with the content of `Duration`",
    );
    yaml(
        &any("Value", "value: .inf"),
        "line 3, column 75: typed_config.value: expected a finite number, found the number `.inf`",
    );
    yaml(
        &any("Empty", "value: {}"),
        "line 3, column 68: typed_config.value: unknown field `value`: `Empty` has none such",
    );
    yaml(
        &any("BytesValue", "value: '!'"),
        "line 3, column 80: typed_config.value: the text is no base64, found the text `!`",
    );
    yaml(
        &any("Int64Value", "value: '9223372036854775808'"),
        "line 3, column 80: typed_config.value: 9223372036854775808 is out of range for int64 (-9223372036854775808 to 9223372036854775807), found the text `9223372036854775808`",
    );
    for rest in [
        ("Duration", "value: 1s"),
        ("Value", "value: ~"),
        ("ListValue", "value: [1, [x]]"),
        ("Empty", ""),
        ("BytesValue", "value: eA=="),
        ("BoolValue", "value: true"),
        ("UInt64Value", "value: '18446744073709551615'"),
        ("FloatValue", "value: -Infinity"),
        ("Int32Value", "value: -2147483648"),
    ] {
        yaml(&any(rest.0, rest.1), "ecds a at 1:1");
    }
}
