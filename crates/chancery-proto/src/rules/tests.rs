//! Each rule in a message of its own, and rules in and around other messages.

use prost::Message as _;
use prost_reflect::DynamicMessage;
use serde_json::{Value as Json, json};

use super::check::Check;
use super::plan::Shape;
use super::*;
use crate::Schema;

#[test]
fn every_rule_of_the_bundled_descriptors_is_enforced() {
    assert_eq!(Schema::bundled().rules().unsupported(), []);
}

#[test]
fn every_pattern_of_the_bundled_descriptors_is_about_the_whole_text() {
    let schema = Schema::bundled();
    let values = schema.rules().plans.all.iter().flat_map(|plan| &plan.fields);
    let values = values.flat_map(|field| match &field.shape {
        Shape::One(value) | Shape::List { item: value, .. } => vec![value],
        Shape::Map { key, value, .. } => vec![key, value],
    });
    let patterns = values.filter_map(|value| match value.check.as_deref() {
        Some(Check::Text(rules)) => rules.pattern.as_ref().map(|(source, _)| source.as_str()),
        _ => None,
    });
    let patterns: Vec<_> = patterns.collect();
    assert!(patterns.len() > 8, "{patterns:?}");
    assert!(patterns.iter().all(|it| it.starts_with('^') && it.ends_with('$')), "{patterns:?}");
}

/// One field `f` with rules, and values as JSON, each with what is said of it.
struct Case {
    field: Json,
    rules: Json,
    values: Vec<(Json, &'static str)>,
}

fn case(field: &str, rules: Json, values: impl IntoIterator<Item = (Json, &'static str)>) -> Case {
    let field = match field.strip_prefix("TYPE_MESSAGE ") {
        Some(name) => {
            json!({"type": "TYPE_MESSAGE", "typeName": format!(".google.protobuf.{name}")})
        }
        None => match field.strip_prefix("TYPE_ENUM ") {
            Some(name) => json!({"type": "TYPE_ENUM", "typeName": format!(".{name}")}),
            None => json!({"type": field}),
        },
    };
    Case { field, rules, values: values.into_iter().collect() }
}

fn repeated(mut case: Case) -> Case {
    case.field["label"] = json!("LABEL_REPEATED");
    case
}

/// The bundled descriptors with a message `own.M0` for each case, and more files.
fn with_cases(cases: &[Case], more: Vec<Json>) -> Schema {
    let messages = cases.iter().enumerate().map(|(at, case)| {
        let mut field = case.field.clone();
        let known = json!({"name": "f", "number": 1, "options": {"[validate.rules]": case.rules}});
        field.as_object_mut().unwrap().extend(known.as_object().unwrap().clone());
        field.as_object_mut().unwrap().entry("label").or_insert(json!("LABEL_OPTIONAL"));
        json!({"name": format!("M{at}"), "field": [field]})
    });
    let messages: Vec<_> = messages.chain(more).collect();
    let file = json!({"name": "own.proto", "package": "own", "syntax": "proto3",
        "dependency": ["validate/validate.proto", "google/protobuf/duration.proto",
            "google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto",
            "google/protobuf/any.proto", "google/protobuf/empty.proto"],
        "enumType": [{"name": "E", "value": [{"name": "A", "number": 0}, {"name": "C", "number": 2}]}],
        "messageType": messages});
    let set = Schema::bundled().message("google.protobuf.FileDescriptorSet").unwrap();
    let set = DynamicMessage::deserialize(set, json!({"file": [file]})).unwrap();
    Schema::bundled().with_descriptor_set(&set.encode_to_vec()).unwrap()
}

fn said(schema: &Schema, name: &str, message: &Json) -> Vec<String> {
    let descriptor = schema.message(name).unwrap();
    let message = DynamicMessage::deserialize(descriptor, message).unwrap();
    let violations = schema.rules().check(&message, Depth::Whole);
    assert_eq!(violations.more, 0);
    violations.first.iter().map(|it| format!("{} {it}", it.rule)).collect()
}

fn holds(cases: Vec<Case>) {
    let schema = with_cases(&cases, Vec::new());
    assert_eq!(schema.rules().unsupported(), []);
    for (at, case) in cases.iter().enumerate() {
        for (value, expected) in &case.values {
            let message = if value.is_null() { json!({}) } else { json!({ "f": value }) };
            let said = said(&schema, &format!("own.M{at}"), &message);
            let expected: Vec<_> = expected.split('|').filter(|it| !it.is_empty()).collect();
            assert_eq!(said, expected, "{value} with {}", case.rules);
        }
    }
}

#[test]
fn numbers_keep_their_limits() {
    let positive = "number.gt f: must be greater than 0";
    let mut cases = Vec::new();
    for kind in ["int32", "sint32", "sfixed32", "uint32", "fixed32"] {
        let field = format!("TYPE_{}", kind.to_uppercase());
        cases.push(case(
            &field,
            json!({kind: {"gt": 0}}),
            [(json!(1), ""), (Json::Null, positive)],
        ));
    }
    for kind in ["int64", "sint64", "sfixed64", "uint64", "fixed64"] {
        let field = format!("TYPE_{}", kind.to_uppercase());
        cases.push(case(
            &field,
            json!({kind: {"lte": "9007199254740993"}}),
            [
                (json!("9007199254740993"), ""),
                (
                    json!("9007199254740994"),
                    "number.lte f: must be at most 9007199254740993, found 9007199254740994",
                ),
            ],
        ));
    }
    for kind in ["float", "double"] {
        let field = format!("TYPE_{}", kind.to_uppercase());
        cases.push(case(
            &field,
            json!({kind: {"gte": 0.5, "lt": 2.0, "ignore_empty": true}}),
            [
                (Json::Null, ""),
                (json!(0.5), ""),
                (json!("NaN"), ""),
                (json!(0.25), "number.gte f: must be at least 0.5 and less than 2, found 0.25"),
                (json!(2), "number.lt f: must be at least 0.5 and less than 2, found 2"),
            ],
        ));
    }
    cases.push(case(
        "TYPE_UINT32",
        json!({"uint32": {"in": [1, 2], "const": 2}}),
        [
            (json!(2), ""),
            (json!(1), "number.const f: must be 2, found 1"),
            (Json::Null, "number.const f: must be 2|number.in f: must be 1 or 2"),
        ],
    ));
    holds(cases);
}

#[test]
fn enums_and_booleans_keep_their_rules() {
    holds(vec![
        case(
            "TYPE_ENUM own.E",
            json!({"enum": {"defined_only": true, "not_in": [0]}}),
            [
                (json!("C"), ""),
                (Json::Null, "enum.not_in f: must not be `A`"),
                (json!(1), "enum.defined_only f: must be a value of `E`, found 1"),
            ],
        ),
        case(
            "TYPE_ENUM own.E",
            json!({"enum": {"in": [2, 5], "const": 2}}),
            [(json!("C"), ""), (json!(5), "enum.const f: must be `C`, found 5")],
        ),
        case(
            "TYPE_BOOL",
            json!({"bool": {"const": true}}),
            [(json!(true), ""), (Json::Null, "bool.const f: must be true")],
        ),
    ]);
}

#[test]
fn texts_and_bytes_keep_their_rules() {
    holds(vec![
        case(
            "TYPE_STRING",
            json!({"string": {"min_len": 1}}),
            [(json!("a"), ""), (Json::Null, "string.min_len f: must not be empty")],
        ),
        case(
            "TYPE_STRING",
            json!({"string": {"prefix": "/", "ignore_empty": true}}),
            [(Json::Null, ""), (json!("secret"), "string.prefix f: must begin with `/`")],
        ),
        case(
            "TYPE_STRING",
            json!({"string": {"pattern": "^[^[]$"}}),
            [(json!("a"), ""), (json!("["), "string.pattern f: must match the pattern `^[^[]$`")],
        ),
        case(
            "TYPE_STRING",
            json!({"string": {"uuid": true}}),
            [(json!("a"), "string.format f: must be a UUID")],
        ),
        case(
            "TYPE_STRING",
            json!({"string": {"len": 2, "len_bytes": 4}}),
            [
                (json!("ää"), ""),
                (json!("abcd"), "string.len f: must have 2 characters"),
                (json!("ab"), "string.len_bytes f: must have 4 bytes"),
            ],
        ),
        case(
            "TYPE_STRING",
            json!({"string": {"well_known_regex": "HTTP_HEADER_VALUE", "strict": false}}),
            [
                (json!("a\tb\u{1}"), ""),
                (json!("a\n"), "string.well_known_regex f: must have no line break and no NUL"),
            ],
        ),
        case(
            "TYPE_BYTES",
            json!({"bytes": {"min_len": 2, "prefix": "AQ=="}}),
            [
                (json!("AQI="), ""),
                (
                    Json::Null,
                    r"bytes.prefix f: must begin with `\x01`|bytes.min_len f: must have at least 2 bytes",
                ),
            ],
        ),
    ]);
}

#[test]
fn what_may_be_absent_is_checked_only_if_it_is_there() {
    holds(vec![
        case(
            "TYPE_MESSAGE UInt32Value",
            json!({"uint32": {"gte": 1}}),
            [(Json::Null, ""), (json!(0), "number.gte f: must be at least 1, found 0")],
        ),
        case(
            "TYPE_MESSAGE StringValue",
            json!({"string": {"min_len": 1}, "message": {"required": true}}),
            [
                (Json::Null, "message.required f: is required"),
                (json!(""), "string.min_len f: must not be empty"),
            ],
        ),
        case(
            "TYPE_MESSAGE Duration",
            json!({"duration": {"gt": "0s", "required": true}}),
            [
                (Json::Null, "message.required f: is required"),
                (json!("0.000000001s"), ""),
                (json!("0s"), "duration.gt f: must be greater than 0s, found 0s"),
            ],
        ),
        case(
            "TYPE_MESSAGE Timestamp",
            json!({"timestamp": {"lt": "1970-01-01T00:00:01Z"}}),
            [
                (Json::Null, ""),
                (json!("1970-01-01T00:00:01Z"), "timestamp.lt f: must be less than 1s since 1970"),
            ],
        ),
        case(
            "TYPE_MESSAGE Any",
            json!({"any": {"required": true, "not_in": ["t/own.M0"]}}),
            [
                (Json::Null, "message.required f: is required"),
                (json!({"@type": "t/own.M1"}), "message.required f.f: is required"),
                (json!({"@type": "t/own.M0"}), "any.not_in f: must not be of the type `t/own.M0`"),
            ],
        ),
        case("TYPE_STRING", json!({"message": {"required": true}}), [(Json::Null, "")]),
        case(
            "TYPE_MESSAGE Empty",
            json!({"message": {"required": true}}),
            [(Json::Null, "message.required f: is required"), (json!({}), "")],
        ),
    ]);
}

#[test]
fn lists_keep_their_rules() {
    holds(vec![
        repeated(case(
            "TYPE_STRING",
            json!({"repeated": {"min_items": 1, "unique": true, "items": {"string": {"min_len": 1}}}}),
            [
                (Json::Null, "repeated.min_items f: must not be empty"),
                (
                    json!(["a", "b", "", "a"]),
                    "repeated.unique f[3]: must be there once: it is the same as [0]|\
                 string.min_len f[2]: must not be empty",
                ),
            ],
        )),
        repeated(case(
            "TYPE_UINT32",
            json!({"repeated": {"min_items": 2, "ignore_empty": true}}),
            [(Json::Null, ""), (json!([1]), "repeated.min_items f: must have at least 2 items")],
        )),
        repeated(case(
            "TYPE_DOUBLE",
            json!({"repeated": {"unique": true, "max_items": 3}}),
            [
                (json!(["NaN", "NaN", 0.0]), ""),
                (
                    json!([0.0, -0.0]),
                    "repeated.unique f[1]: must be there once: it is the same as [0]",
                ),
                (json!([1, 2, 3, 4]), "repeated.max_items f: must have at most 3 items"),
            ],
        )),
        repeated(case(
            "TYPE_MESSAGE Duration",
            json!({"repeated": {"items": {"duration": {"gte": "1s"}}}}),
            [(json!(["1s", "0.5s"]), "duration.gte f[1]: must be at least 1s, found 0.5s")],
        )),
    ]);
}

/// Messages with oneofs, maps and each other.
fn nested() -> Schema {
    let inner = case("TYPE_STRING", json!({"string": {"min_len": 1}}), []);
    let field = |name: &str, number: u32, more: Json| {
        let mut field = json!({"name": name, "number": number, "label": "LABEL_OPTIONAL",
            "type": "TYPE_MESSAGE", "typeName": ".own.M0"});
        field.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        field
    };
    let repeated = |kind: &str| json!({"label": "LABEL_REPEATED", "typeName": kind});
    let rules = |rules: Json| json!({"[validate.rules]": rules});
    let entry = json!({"name": "MapEntry", "options": {"mapEntry": true}, "field": [
        {"name": "key", "number": 1, "label": "LABEL_OPTIONAL", "type": "TYPE_STRING"},
        {"name": "value", "number": 2, "label": "LABEL_OPTIONAL", "type": "TYPE_MESSAGE",
         "typeName": ".own.M0"}]});
    let mut map = repeated(".own.Outer.MapEntry");
    map["options"] = rules(json!({"map": {"max_pairs": 2, "keys": {"string": {"min_len": 2}}}}));
    let mut any = repeated(".google.protobuf.Any");
    any["label"] = json!("LABEL_OPTIONAL");
    let outer = json!({"name": "Outer", "nestedType": [entry],
    "oneofDecl": [{"name": "choice", "options": {"[validate.required]": true}}],
    "field": [
        field("one", 1, json!({"oneofIndex": 0})),
        field("other", 2, json!({"oneofIndex": 0, "options": rules(json!({"message": {"skip": true}}))})),
        field("list", 3, repeated(".own.M0")),
        field("map", 4, map),
        field("any", 5, any),
        field("off", 6, json!({"typeName": ".own.Off"})),
    ]});
    let mut off = outer.clone();
    off["name"] = json!("Off");
    off["options"] = json!({"[validate.disabled]": true});
    off["nestedType"] = json!([]);
    off["field"].as_array_mut().unwrap().retain(|field| field["name"] != "map");
    with_cases(&[inner], vec![outer, off])
}

#[test]
fn messages_are_checked_in_oneofs_lists_maps_and_any() {
    let schema = nested();
    let said = |message| said(&schema, "own.Outer", &message);
    assert_eq!(said(json!({})), ["oneof.required choice: is required: set `one` or `other`"]);
    assert_eq!(said(json!({"one": {}})), ["string.min_len one.f: must not be empty"]);
    assert_eq!(said(json!({"other": {}, "off": {"one": {}}})), [""; 0]);
    let any = |inner: Json| json!({"@type": "t/google.protobuf.Any", "value": inner});
    assert_eq!(
        said(json!({"other": {}, "list": [{"f": "a"}, {}], "map": {"a": {"f": "a"}, "bc": {}},
            "any": any(json!({"@type": "t/own.M0"}))})),
        [
            "string.min_len list[1].f: must not be empty",
            "string.min_len map[\"a\"]: must have at least 2 characters",
            "string.min_len map[\"bc\"].f: must not be empty",
            "string.min_len any.f: must not be empty",
        ]
    );
    assert_eq!(
        said(json!({"other": {}, "map": {"aa": {"f": "a"}, "bb": {"f": "a"}, "cc": {"f": "a"}}})),
        ["map.max_pairs map: must have at most 2 entries"]
    );
}

#[test]
fn an_any_is_left_alone_where_generated_code_leaves_it() {
    let schema = nested();
    let any = json!({"other": {}, "any": {"@type": "t/own.M0"}});
    let message = DynamicMessage::deserialize(schema.message("own.Outer").unwrap(), any).unwrap();
    assert_eq!(schema.rules().check(&message, Depth::Whole).count(), 1);
    assert_eq!(schema.rules().check(&message, Depth::Own).count(), 0);
}

#[test]
fn an_optional_scalar_is_checked_only_if_it_is_set() {
    let optional = json!({"name": "P", "oneofDecl": [{"name": "_f"}], "field": [{
        "name": "f", "number": 1, "label": "LABEL_OPTIONAL", "type": "TYPE_STRING",
        "proto3Optional": true, "oneofIndex": 0,
        "options": {"[validate.rules]": {"string": {"min_len": 1}}}}]});
    let schema = with_cases(&[], vec![optional]);
    assert_eq!(said(&schema, "own.P", &json!({})), [""; 0]);
    assert_eq!(said(&schema, "own.P", &json!({"f": ""})), ["string.min_len f: must not be empty"]);
}

#[test]
fn the_first_violations_are_described_and_all_are_counted() {
    let schema = nested();
    let message = json!({"other": {}, "list": vec![json!({}); MAX_VIOLATIONS + 7]});
    let message =
        DynamicMessage::deserialize(schema.message("own.Outer").unwrap(), message).unwrap();
    let violations = schema.rules().check(&message, Depth::Whole);
    assert_eq!((violations.first.len(), violations.more), (MAX_VIOLATIONS, 7));
}

#[test]
fn a_rule_that_cannot_be_enforced_is_named() {
    let schema = with_cases(
        &[
            case("TYPE_MESSAGE Timestamp", json!({"timestamp": {"lt_now": true}}), []),
            case("TYPE_STRING", json!({"string": {"pattern": "(a"}}), []),
            case("TYPE_STRING", json!({"uint32": {"gt": 1}}), []),
        ],
        Vec::new(),
    );
    let unsupported = schema.rules().unsupported();
    let told: Vec<_> = unsupported.iter().map(|it| format!("{}: {}", it.field, it.rule)).collect();
    assert_eq!(
        told,
        [
            "own.M0.f: TimestampRules.lt_now",
            "own.M1.f: the pattern `(a`",
            "own.M2.f: uint32 on another kind of field",
        ]
    );
}

#[test]
fn a_cluster_is_checked_through_any_and_wrappers() {
    let cluster = json!({
        "name": "", "type": "STRICT_DNS", "connect_timeout": "0s", "lb_policy": 99,
        "health_checks": [{"timeout": "1s", "interval": "5s", "unhealthy_threshold": 3}],
        "load_assignment": {"cluster_name": "a", "endpoints": [
            {"lb_endpoints": [{"endpoint": {"address": {"socket_address": {
                "address": "web.local", "port_value": 99999}}}}], "load_balancing_weight": 0},
            {"priority": 500}]},
        "outlier_detection": {"max_ejection_percent": 120},
        "transport_socket": {"name": "tls", "typed_config": {
            "@type": "t/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "common_tls_context": {"tls_certificates": [{"certificate_chain": {"filename": ""}}]}}},
    });
    let mut said = said(&Schema::bundled(), "envoy.config.cluster.v3.Cluster", &cluster);
    said.sort();
    assert_eq!(
        said,
        [
            "duration.gt connect_timeout: must be greater than 0s, found 0s",
            "enum.defined_only lb_policy: must be a value of `LbPolicy`, found 99",
            "envoy.tls_certificate transport_socket.typed_config.common_tls_context.tls_certificates[0]: must have a `private_key` beside its `certificate_chain`",
            "message.required health_checks[0].healthy_threshold: is required",
            "number.gte load_assignment.endpoints[0].load_balancing_weight: must be at least 1, found 0",
            "number.lte load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address.port_value: must be at most 65535, found 99999",
            "number.lte load_assignment.endpoints[1].priority: must be at most 128, found 500",
            "number.lte outlier_detection.max_ejection_percent: must be at most 100, found 120",
            "oneof.required health_checks[0].health_checker: is required: set `http_health_check`, `tcp_health_check`, `grpc_health_check` or `custom_health_check`",
            "string.min_len name: must not be empty",
            "string.min_len transport_socket.typed_config.common_tls_context.tls_certificates[0].certificate_chain.filename: must not be empty",
        ]
    );
}

#[test]
fn of_alternatives_the_first_is_opened() {
    let policy = |size: u32| {
        json!({"typed_extension_config": {"name": "a", "typed_config": {
            "@type": "t/envoy.extensions.load_balancing_policies.ring_hash.v3.RingHash",
            "minimum_ring_size": size, "maximum_ring_size": 1024}}})
    };
    let of = |policies: Json| {
        said(
            &Schema::bundled(),
            "envoy.config.cluster.v3.LoadBalancingPolicy",
            &json!({ "policies": policies }),
        )
    };
    let bad = 2000;
    let told =
        |said: Vec<String>| said.into_iter().filter(|it| it.starts_with("envoy.ring_size")).count();
    assert_eq!(of(json!([policy(1), policy(bad)])), [""; 0]);
    assert_eq!(told(of(json!([policy(bad), policy(bad)]))), 1);
    // An extension that is no policy is passed by.
    let other = json!({"typed_extension_config": {"name": "a", "typed_config": {
        "@type": "t/envoy.extensions.filters.http.router.v3.Router"}}});
    assert_eq!(told(of(json!([other, policy(bad), policy(bad)]))), 1);
}

#[test]
fn a_nest_of_any_is_opened_to_a_bound() {
    let schema = Schema::bundled();
    let any = schema.message("google.protobuf.Any").unwrap();
    let mut bytes = Vec::new();
    for _ in 0..5000 {
        let mut outer = DynamicMessage::new(any.clone());
        outer.set_field_by_number(
            1,
            prost_reflect::Value::String("t/google.protobuf.Any".to_owned()),
        );
        outer.set_field_by_number(2, prost_reflect::Value::Bytes(bytes.into()));
        bytes = outer.encode_to_vec();
    }
    let message = DynamicMessage::decode(any, &bytes[..]).unwrap();
    assert!(schema.rules().check(&message, Depth::Whole).is_empty());
}

#[test]
fn a_long_key_is_in_no_path() {
    let schema = nested();
    let at = |key: &str| {
        let message = json!({ "map": { key: {} } });
        let descriptor = schema.message("own.Outer").unwrap();
        let message = DynamicMessage::deserialize(descriptor, message).unwrap();
        schema.rules().check(&message, Depth::Whole).first[0].path.clone()
    };
    assert_eq!(at("kk"), "map[\"kk\"].f");
    assert_eq!(at(&"k".repeat(5000)), "map[…].f");
}

#[test]
fn no_text_of_a_message_is_shown() {
    let secret = "envoy.extensions.transport_sockets.tls.v3.Secret";
    let key = json!({"name": "a", "generic_secret": {"secrets": {
        "-----BEGIN PRIVATE KEY-----": {"filename": ""}}}});
    for line in said(&Schema::bundled(), secret, &key) {
        assert!(!line.contains("PRIVATE"), "{line}");
    }
}

fn warned(name: &str, message: Json) -> Vec<String> {
    let schema = Schema::bundled();
    let message = DynamicMessage::deserialize(schema.message(name).unwrap(), message).unwrap();
    let violations = schema.rules().check(&message, Depth::Whole);
    let warnings = violations.warnings.iter();
    violations.first.iter().chain(warnings).map(|it| format!("{} {it}", it.rule)).collect()
}

#[test]
fn a_field_that_envoy_refuses_by_default_is_a_violation_and_a_deprecated_one_a_warning() {
    let source = "envoy.config.core.v3.ApiConfigSource";
    assert_eq!(
        warned(source, json!({})),
        [
            "enum.disallowed api_type: has by default the value `DEPRECATED_AND_UNAVAILABLE_DO_NOT_USE`, \
          which Envoy refuses by default; set another"
        ]
    );
    assert_eq!(warned(source, json!({"api_type": "GRPC"})), [""; 0]);
    let ot = json!({"library": "/a.so", "config": {}});
    assert_eq!(
        warned("envoy.config.trace.v3.DynamicOtConfig", ot),
        [
            "field.disallowed library: is deprecated, and Envoy refuses it by default: remove it",
            "field.disallowed config: is deprecated, and Envoy refuses it by default: remove it",
        ]
    );
    let http = json!({"name": "a", "connect_timeout": "1s", "http_protocol_options": {}});
    assert_eq!(
        warned("envoy.config.cluster.v3.Cluster", http),
        ["field.deprecated http_protocol_options: is deprecated: a later Envoy may refuse it"]
    );
}
