//! Files good and bad, in every format.

use std::time::Duration;

use proptest::prelude::*;
use prost_reflect::prost::Message;
use prost_reflect::{DynamicMessage, SerializeOptions};

use super::*;

fn read(format: Format, text: &str) -> Parsed {
    parse(&Schema::bundled(), format, text.as_bytes())
}

/// The names that were read, then the faults with their hints.
fn outcome(parsed: &Parsed) -> String {
    let name = |parsed: &ParsedResource| {
        let Position { line, column } = parsed.position;
        format!("{} {} at {line}:{column}", parsed.type_url.short(), parsed.resource.name())
    };
    let fault = |fault: &Fault| match &fault.hint {
        Some(hint) => format!("{fault} ({hint})"),
        None => fault.to_string(),
    };
    let names = parsed.resources.iter().map(name);
    names.chain(parsed.faults.iter().map(fault)).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn check(format: Format, text: &str, expected: &str) {
    let expected: Vec<_> =
        expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(outcome(&read(format, text)), expected.join("\n"));
}

#[track_caller]
fn yaml(text: &str, expected: &str) {
    check(Format::Yaml, text, expected);
}

/// One cluster with these fields, in YAML: they start in line 3, column 1.
#[track_caller]
fn cluster(fields: &str, expected: &str) {
    yaml(&format!("'@type': {CLUSTER}\nname: a\n{fields}\n"), expected);
}

/// The message of the one resource in a YAML text.
fn message(text: &str) -> DynamicMessage {
    let parsed = read(Format::Yaml, text);
    assert_eq!(parsed.faults, []);
    let only = &parsed.resources[0];
    let descriptor = Schema::bundled().message(only.type_url.as_str()).unwrap();
    DynamicMessage::decode(descriptor, only.resource.body().clone()).unwrap()
}

/// What is in a message, as JSON.
fn json_of(message: &DynamicMessage) -> String {
    let mut out = serde_json::Serializer::new(Vec::new());
    let options = SerializeOptions::new().use_proto_field_name(true);
    message.serialize_with_options(&mut out, &options).unwrap();
    String::from_utf8(out.into_inner()).unwrap()
}

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const WRAPPER: &str = "type.googleapis.com/envoy.service.discovery.v3.Resource";
const HOST: &str = "type.googleapis.com/envoy.config.route.v3.VirtualHost";

#[test]
fn the_name_of_a_file_says_its_format() {
    for (name, format) in [
        ("a.yaml", Some(Format::Yaml)),
        ("b/a.yml", Some(Format::Yaml)),
        ("a.json", Some(Format::Json)),
        ("a.pb_text", Some(Format::Text)),
        ("a.pb", Some(Format::Binary)),
        ("a.txt", None),
        ("yaml", None),
        (".yaml", None),
        ("a.yaml~", None),
    ] {
        assert_eq!(Format::of_path(Path::new(name)), format, "{name}");
    }
}

#[test]
fn a_document_is_a_resource_or_a_list_or_a_response() {
    yaml(
        &format!(
            "'@type': {CLUSTER}\nname: a\n---\n- '@type': {CLUSTER}\n  name: b\n- name: c\n  \
             '@type': {CLUSTER}\n---\n---\nversion_info: '1'\nresources:\n- '@type': {CLUSTER}\n  \
             name: d\n---\n'@type': type.googleapis.com/envoy.service.discovery.v3.DiscoveryResponse\n\
             resources: [{{'@type': {CLUSTER}, name: e}}]\n"
        ),
        "cds a at 1:1\ncds b at 4:3\ncds c at 6:3\ncds d at 12:3\ncds e at 16:13",
    );
    check(Format::Json, &format!("{{\"name\": \"a\", \"@type\": \"{CLUSTER}\"}}"), "cds a at 1:1");
    for format in [Format::Yaml, Format::Json, Format::Text, Format::Binary] {
        check(format, "", "");
    }
    yaml("# nothing yet\n", "");
    yaml("resources: []\n", "");
    yaml("resources:\n", "");
    check(Format::Json, " \n", "");
    check(Format::Text, "# nothing\nversion_info: '1'", "");
}

#[test]
fn what_is_no_document_is_told() {
    yaml(
        "just text\n",
        "line 1, column 1: expected a resource (a mapping with `@type`), a list of them, or a \
         `DiscoveryResponse`, found the text `just text`",
    );
    yaml(
        "name: a\n",
        "line 1, column 1: `@type` is missing (say what it is: `\"@type\": \
         type.googleapis.com/envoy.config.…`)",
    );
    yaml("- 1\n- {name: x}\n",
        "line 1, column 3: [0]: expected a mapping with `@type`, found the number `1`
         line 2, column 3: [1]: `@type` is missing (say what it is: `\"@type\": type.googleapis.com/envoy.config.…`)");
    yaml(
        "resources: {a: 1}\n",
        "line 1, column 12: resources: expected a list of resources, found a mapping",
    );
    yaml(
        "resources: []\nversion: 1\n",
        "line 2, column 1: version: unknown field `version`: `DiscoveryResponse` has none such",
    );
    yaml(&format!("type_url: type.googleapis.com/x.Y\nresources: [{{'@type': {CLUSTER}, name: a}}]"),
        &format!("cds a at 2:13
         line 1, column 11: type_url: the response is said to be of `type.googleapis.com/x.Y`, but holds a `{CLUSTER}`"));
}

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
fn names_are_checked() {
    yaml(
        &format!("'@type': {CLUSTER}\n"),
        "line 1, column 1: name: a `envoy.config.cluster.v3.Cluster` has an empty `name`",
    );
    yaml(
        &format!("- '@type': {CLUSTER}\n  name: xdstp://auth\n"),
        "line 1, column 3: [0].name: a `envoy.config.cluster.v3.Cluster` has a malformed name: `xdstp://auth` is not of the form `xdstp://AUTHORITY/TYPE/ID`",
    );
    yaml(
        &format!("- '@type': {CLUSTER}\n  name: a\n- {{'@type': {CLUSTER}, name: a}}\n"),
        "cds a at 1:3
         line 3, column 3: [1]: cds `a` is defined twice; it was first defined at line 1, column 3",
    );
    yaml(
        "'@type': type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint\n",
        "line 1, column 1: name: a `envoy.config.endpoint.v3.LbEndpoint` has no name of its own and needs a `Resource` with one around it",
    );
}

#[test]
fn a_wrapper_adds_name_ttl_and_aliases() {
    let text = format!(
        "'@type': {WRAPPER}\nname: b\naliases: [c, d]\nttl: 1.5s\nresource:\n  \
                        '@type': {CLUSTER}\n  name: a\n"
    );
    let parsed = read(Format::Yaml, &text);
    assert_eq!(parsed.faults, []);
    let resource = &parsed.resources[0].resource;
    assert_eq!(parsed.resources[0].type_url.as_str(), CLUSTER);
    assert_eq!(resource.name().as_str(), "b");
    assert_eq!(resource.ttl(), Some(Duration::from_millis(1500)));
    assert_eq!(resource.aliases().iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["c", "d"]);
    let bare = read(Format::Yaml, &format!("'@type': {CLUSTER}\nname: a\n"));
    assert_eq!(resource.body(), bare.resources[0].resource.body());
}

#[test]
fn what_is_wrong_with_a_wrapper_is_told() {
    yaml(
        &format!("'@type': {WRAPPER}\nname: b\n"),
        "line 1, column 1: resource: a wrapper without a resource in it",
    );
    yaml(
        &format!("'@type': {WRAPPER}\nttl: 0s\nresource: {{'@type': {CLUSTER}, name: a}}\n"),
        "line 1, column 1: ttl: a TTL must be longer than nothing",
    );
    yaml(
        &format!(
            "'@type': {WRAPPER}\ncache_control: {{}}\nresource: {{'@type': {CLUSTER}, name: a}}\n"
        ),
        "line 1, column 1: cache_control: this field of a wrapper is not served",
    );
    yaml(
        &format!("'@type': {WRAPPER}\nresource: {{'@type': {CLUSTER}, name: a, x: 1}}\n"),
        "line 2, column 83: resource.x: unknown field `x`: `Cluster` has none such",
    );
    yaml(
        &format!("'@type': {WRAPPER}\nresource: {{'@type': {WRAPPER}, name: a}}\n"),
        "line 1, column 1: resource: a wrapper in a wrapper",
    );
}

#[test]
fn a_virtual_host_says_which_route_configuration_it_is_of() {
    // S-092
    let hint = "(put a `type.googleapis.com/envoy.service.discovery.v3.Resource` around it, with \
                the name `ROUTE_CONFIGURATION/HOST`)";
    yaml(
        &format!("'@type': {WRAPPER}\nname: r/h\nresource: {{'@type': {HOST}, name: h}}\n"),
        "vhds r/h at 1:1",
    );
    yaml(
        &format!("'@type': {HOST}\nname: r/h\n"),
        &format!(
            "line 1, column 1: name: a virtual host does not say which route configuration it is of {hint}"
        ),
    );
    yaml(
        &format!("'@type': {WRAPPER}\nname: h\nresource: {{'@type': {HOST}, name: h}}\n"),
        &format!(
            "line 1, column 1: name: `h` does not say which route configuration the host is of {hint}"
        ),
    );
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

#[test]
fn protobuf_text_is_read_with_places_too() {
    let text = r#"
version_info: "1"
resources {
  [type.googleapis.com/envoy.config.cluster.v3.Cluster] {
    name: "a" type: EDS connect_timeout { seconds: 1 }
    dns_resolvers { socket_address { address: "1.2.3.4" port_value: 53 } }
    dns_resolvers { socket_address { address: "1.2.3.5" port_value: 53 } }
    typed_extension_protocol_options { key: "k" value { [type.googleapis.com/google.protobuf.Duration] { seconds: 2 } } }
    metadata { filter_metadata { key: "m" value { fields { key: "f" value { bool_value: true } } } } }
  }
}
resources: [{ type_url: "type.googleapis.com/envoy.service.discovery.v3.Resource" value: "\n\001b\022\x3b\n4type.googleapis.com/envoy.config.cluster.v3.Cluster\022\x03\n\x01b" }]
"#;
    let parsed = read(Format::Text, text);
    assert_eq!(parsed.faults.iter().filter(|fault| fault.position.unwrap().line < 12).count(), 0);
    let same = format!(
        "'@type': {CLUSTER}\nname: a\ntype: EDS\nconnect_timeout: 1s\ndns_resolvers:\n\
        - socket_address: {{address: 1.2.3.4, port_value: 53}}\n- socket_address: {{address: 1.2.3.5, \
        port_value: 53}}\ntyped_extension_protocol_options: {{k: {{'@type': \
        type.googleapis.com/google.protobuf.Duration, value: 2s}}}}\nmetadata: {{filter_metadata: \
        {{m: {{f: true}}}}}}\n"
    );
    let same = read(Format::Yaml, &same);
    assert_eq!(parsed.resources[0].resource.body(), same.resources[0].resource.body());
    let wrong = r#"
resources {
  [type.googleapis.com/envoy.config.cluster.v3.Cluster] {
    name: 'b' nme: 'c'
    name: 'd' type: STATICC
    cluster_type { name: 5 }
  }
}
resources { [type.googleapis.com/my.Thing] {} }
resources { [type.googleapis.com/envoy.config.cluster.v3.Cluster] { name: 'a' } }
resources { [type.googleapis.com/envoy.config.cluster.v3.Cluster] { name: 'a' } }
"#;
    check(Format::Text, wrong, "cds a at 10:11
        line 4, column 15: resources[0].nme: unknown field `nme`: `Cluster` has none such (did you mean `name`?)
        line 5, column 5: resources[0].name: the field `name` is given twice; it was first given at line 4, column 5
        line 5, column 21: resources[0].type: `DiscoveryType` has no such value, found the word `STATICC` (did you mean `STATIC`?)
        line 6, column 5: resources[0].cluster_type: only one of `cluster_type` and `type` may be set; the other is at line 5, column 15
        line 9, column 13: resources[1]: unknown type `type.googleapis.com/my.Thing` (types that are not built in are made known by `--descriptor-set FILE`)
        line 11, column 11: resources[3]: cds `a` is defined twice; it was first defined at line 10, column 11");
}

/// A response of clusters in the wire format.
fn binary(names: &[&str]) -> Vec<u8> {
    let any = |name: &&str| {
        let cluster = message(&format!("'@type': {CLUSTER}\nname: {name}\n"));
        prost_types::Any { type_url: CLUSTER.to_owned(), value: cluster.encode_to_vec() }
    };
    // Field 2 of a `DiscoveryResponse`.
    let mut out = Vec::new();
    for name in names {
        let any = any(name).encode_to_vec();
        prost::encoding::encode_key(2, prost::encoding::WireType::LengthDelimited, &mut out);
        prost::encoding::encode_varint(any.len() as u64, &mut out);
        out.extend(any);
    }
    out
}

#[test]
fn a_binary_file_is_a_response() {
    let schema = Schema::bundled();
    let good = parse(&schema, Format::Binary, &binary(&["a", "b"]));
    assert_eq!(outcome(&good), "cds a at 1:1\ncds b at 1:1");
    let twice = parse(&schema, Format::Binary, &binary(&["a", "a"]));
    assert_eq!(
        outcome(&twice),
        "cds a at 1:1\nresources[1]: cds `a` is defined twice; it was first defined at resources[0]"
    );
    let bytes = binary(&["a"]);
    let cut = parse(&schema, Format::Binary, &bytes[..bytes.len() - 1]);
    assert!(outcome(&cut).starts_with("no `DiscoveryResponse`: "), "{}", outcome(&cut));
}

#[test]
fn what_is_no_utf8_or_cut_short_is_told() {
    let schema = Schema::bundled();
    for format in [Format::Yaml, Format::Json, Format::Text] {
        let bad = parse(&schema, format, b"a: 1\n\xc3\xa9: \xff\n");
        assert_eq!(outcome(&bad), "line 2, column 4: no UTF-8: the byte 0xff is out of place");
        let cut = parse(&schema, format, b"a: \xc3");
        assert_eq!(outcome(&cut), "line 1, column 4: no UTF-8: the text ends within a character");
    }
    let wide = parse(&schema, Format::Yaml, b"\xff\xfea\0");
    assert!(outcome(&wide).contains("UTF-16"), "{}", outcome(&wide));
    check(
        Format::Json,
        "{\"@type\": \"x",
        "line 1, column 13: @type: no JSON: the text ends where `\"` at the end of a string should come",
    );
    check(
        Format::Text,
        "resources {",
        "line 1, column 12: resources: no protobuf text: it ends where the name of a field should come",
    );
    yaml(
        "a: [1",
        "line 2, column 1: a[1]: no YAML: while parsing a flow sequence, expected ',' or ']'",
    );
}

#[test]
fn a_file_of_secrets_is_not_quoted() {
    // S-138
    let text = "'@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\n\
                name: a\ngeneric_secret: hunter2\n";
    let parsed = read(Format::Yaml, text);
    let fault = &parsed.faults[0];
    assert_eq!(
        fault.to_string(),
        "line 3, column 17: generic_secret: expected the fields of `GenericSecret`, found the text"
    );
    assert!(!render(fault, "s.yaml", Some(text)).contains("hunter2"));
    let text = format!("'@type': {CLUSTER}\nname: a\ntype: hunter2\nalt_stat_name: password\n");
    let parsed = read(Format::Yaml, &text);
    let shown = render(&parsed.faults[0], "s.yaml", Some(&text));
    assert_eq!(
        shown,
        "error: type: `DiscoveryType` has no such value\n --> s.yaml:3:7\n\
        help: expected one of `STATIC`, `STRICT_DNS`, `LOGICAL_DNS`, `EDS`, `ORIGINAL_DST`\n"
    );
}

#[test]
fn a_fault_is_shown_with_its_line() {
    let text = format!("- '@type': {CLUSTER}\n  name: a\n\t\n");
    let fault =
        Fault::new("wrong").at(Position { line: 2, column: 9 }).under("[0].name").hint("try");
    assert_eq!(
        render(&fault, "d/a.yaml", Some(&text)),
        "error: [0].name: wrong\n --> d/a.yaml:2:9\n  |\n2 |   name: a\n  |         ^\nhelp: try\n"
    );
    assert_eq!(render(&Fault::new("wrong"), "a.pb", None), "error: wrong\n --> a.pb\n");
    let tab = Fault::new("wrong").at(Position { line: 1, column: 3 });
    assert_eq!(
        render(&tab, "a", Some("\tx\u{1b}")),
        "error: wrong\n --> a:1:3\n  |\n1 | \tx\u{fffd}\n  | \t ^\n"
    );
    let far = Fault::new("wrong").at(Position { line: 1, column: 501 });
    let shown = render(&far, "a", Some(&"x".repeat(1000)));
    assert!(shown.lines().all(|line| line.len() < 200), "{shown}");
    assert_eq!(shown.lines().nth(4).unwrap().len(), 4 + 80 + 1);
    // A place past the end of the text shows nothing of it.
    assert_eq!(
        render(&far.at(Position { line: 9, column: 9 }), "a", Some("x")),
        "error: wrong\n --> a:9:9\n"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        feed(&bytes);
    }

    #[test]
    fn no_edit_of_a_good_file_makes_it_panic(
        file in 0..4usize,
        edits in prop::collection::vec((any::<prop::sample::Index>(), edit()), 1..6),
    ) {
        let mut bytes = good_file(file);
        for (place, edit) in edits {
            let place = place.index(bytes.len() + 1);
            edit.apply(&mut bytes, place);
        }
        feed(&bytes);
    }
}

/// A change to a file.
#[derive(Clone, Debug)]
enum Edit {
    Cut,
    Insert(Vec<u8>),
    Remove(usize),
    Repeat(usize),
    Set(u8),
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        1 => Just(Edit::Cut),
        4 => "[ \\n\\t:,\\-?&*!|>'\"{}\\[\\]<>a01.#%@`~éx]{1,6}".prop_map(|text| Edit::Insert(text.into())),
        2 => (1..20usize).prop_map(Edit::Remove),
        2 => (1..60usize).prop_map(Edit::Repeat),
        2 => any::<u8>().prop_map(Edit::Set),
    ]
}

impl Edit {
    fn apply(self, bytes: &mut Vec<u8>, place: usize) {
        let span = |length: usize| place..(place + length).min(bytes.len());
        match self {
            Self::Cut => bytes.truncate(place),
            Self::Insert(more) => drop(bytes.splice(place..place, more)),
            Self::Remove(length) => drop(bytes.drain(span(length))),
            Self::Repeat(length) => {
                let more = bytes[span(length)].to_vec();
                drop(bytes.splice(place..place, more));
            }
            Self::Set(byte) => bytes.iter_mut().skip(place).take(1).for_each(|old| *old = byte),
        }
    }
}

fn good_file(which: usize) -> Vec<u8> {
    match which {
        0 => include_bytes!("../../testdata/all.yaml").to_vec(),
        1 => include_bytes!("../../testdata/all.json").to_vec(),
        2 => include_bytes!("../../testdata/all.pb_text").to_vec(),
        _ => binary(&["a", "b"]),
    }
}

#[test]
fn good_files_of_each_format_are_good() {
    for (which, format) in
        [Format::Yaml, Format::Json, Format::Text, Format::Binary].into_iter().enumerate()
    {
        let parsed = parse(&Schema::bundled(), format, &good_file(which));
        assert_eq!(parsed.faults, [], "{format:?}");
        assert!(parsed.resources.len() >= 2, "{format:?}");
    }
}

/// Reads bytes in all formats; every fault must be fit to be shown.
fn feed(bytes: &[u8]) {
    let text = str::from_utf8(bytes).ok();
    for format in [Format::Yaml, Format::Json, Format::Text, Format::Binary] {
        for fault in parse(&Schema::bundled(), format, bytes).faults {
            render(&fault, "file", text);
        }
    }
}
