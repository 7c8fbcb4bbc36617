//! The peculiarities of protobuf text and binary, and files that are not text at all.

use super::*;

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
        line 11, column 11: resources[3]: cds `a` is defined twice; it was first defined at line 10, column 11 (remove one of the two, or give it another name)");
}

/// A response of clusters in the wire format.
pub(super) fn binary(names: &[&str]) -> Vec<u8> {
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
        "cds a at 1:1\nresources[1]: cds `a` is defined twice; it was first defined at resources[0] \
         (remove one of the two, or give it another name)"
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
        assert_eq!(
            outcome(&bad),
            "line 2, column 4: no UTF-8: the byte 0xff is out of place (save the file as UTF-8)"
        );
        let cut = parse(&schema, format, b"a: \xc3");
        assert_eq!(
            outcome(&cut),
            "line 1, column 4: no UTF-8: the text ends within a character (save the file as UTF-8)"
        );
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
fn what_validation_rules_forbid_is_the_clients_to_refuse() {
    // S-063: clients are built against other versions of the rules, or do not check them.
    check(
        Format::Yaml,
        "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
name: a
connect_timeout: 0s",
        "cds a at 1:1",
    );
}
