//! Files good and bad, in every format.

use std::time::Duration;

use prost_reflect::prost::Message;
use prost_reflect::{DynamicMessage, SerializeOptions};

use super::*;

mod fields;
mod formats;
mod random;
mod shown;

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
    yaml(&cluster_with(fields), expected);
}

fn cluster_with(fields: &str) -> String {
    format!("'@type': {CLUSTER}\nname: a\n{fields}\n")
}

/// The message of the one resource in a YAML text.
fn message(text: &str) -> DynamicMessage {
    let parsed = read(Format::Yaml, text);
    assert_eq!(parsed.faults, []);
    let only = &parsed.resources[0];
    let descriptor = Schema::bundled().message(only.type_url.as_str()).unwrap();
    DynamicMessage::decode(descriptor, only.resource.body().clone()).unwrap()
}

/// The JSON form of a message.
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
         `DiscoveryResponse`, found the text",
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
fn names_are_checked() {
    yaml(
        &format!("'@type': {CLUSTER}\n"),
        "line 1, column 1: name: a `envoy.config.cluster.v3.Cluster` has an empty `name`",
    );
    yaml(
        &format!("- '@type': {CLUSTER}\n  name: xdstp://auth\n"),
        "line 2, column 9: [0].name: a `envoy.config.cluster.v3.Cluster` has a malformed name: `xdstp://auth` is not of the form `xdstp://AUTHORITY/TYPE/ID`",
    );
    yaml(
        &format!("- '@type': {CLUSTER}\n  name: a\n- {{'@type': {CLUSTER}, name: a}}\n"),
        "cds a at 1:3
         line 3, column 3: [1]: cds `a` is defined twice; it was first defined at line 1, column 3 (remove one of the two, or give it another name)",
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
        "line 2, column 6: ttl: a TTL must be longer than nothing",
    );
    yaml(
        &format!(
            "'@type': {WRAPPER}\ncache_control: {{}}\nresource: {{'@type': {CLUSTER}, name: a}}\n"
        ),
        "line 2, column 16: cache_control: this field of a wrapper is not served",
    );
    yaml(
        &format!("'@type': {WRAPPER}\nresource: {{'@type': {CLUSTER}, name: a, x: 1}}\n"),
        "line 2, column 83: resource.x: unknown field `x`: `Cluster` has none such",
    );
    yaml(
        &format!("'@type': {WRAPPER}\nresource: {{'@type': {WRAPPER}, name: a}}\n"),
        "line 2, column 11: resource: a wrapper in a wrapper",
    );
}

#[test]
fn a_virtual_host_whose_body_has_another_name_is_warned_of() {
    // Envoy matches a removal against the name in the body.
    let warnings = |name: &str| {
        let text =
            format!("'@type': {WRAPPER}\nname: r/h\nresource: {{'@type': {HOST}, name: {name}}}\n");
        let parsed = parse(&Schema::bundled(), Format::Yaml, text.as_bytes());
        let [resource] = &parsed.resources[..] else { panic!("{parsed:?}") };
        resource.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(warnings("r/h"), [""; 0]);
    let expected = "resource.name: Envoy goes on serving the host when it is removed: it looks for \
                    the name in the body, which is `h` and not `r/h`";
    assert_eq!(warnings("h"), [expected]);
}

#[test]
fn a_secret_outside_of_sds_is_warned_of_with_its_field() {
    // S-137
    let tls = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3";
    let warnings = |key: &str| {
        let text = format!(
            "'@type': {CLUSTER}\nname: a\ntransport_socket:\n  name: t\n  typed_config:\n    \
             '@type': {tls}.UpstreamTlsContext\n    common_tls_context:\n      \
             tls_certificates:\n      - private_key: {key}\n"
        );
        let parsed = parse(&Schema::bundled(), Format::Yaml, text.as_bytes());
        let [found] = &parsed.resources[..] else { panic!("{parsed:?}") };
        let warnings = found.warnings.iter().map(ToString::to_string).collect::<Vec<_>>();
        (found.resource.facts().sensitive, warnings)
    };
    assert_eq!(warnings("{filename: /key}"), (false, Vec::new()));
    let (sensitive, warnings) = warnings("{inline_string: KEY}");
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(sensitive);
    let field = "transport_socket.typed_config.common_tls_context.tls_certificates[0].private_key";
    assert!(warning.starts_with(&format!("{field}: holds a secret")), "{warning}");
    assert!(warning.contains("only over mutual TLS") && !warning.contains("KEY"), "{warning}");
    let text = format!("'@type': {tls}.Secret\nname: s\n");
    let parsed = parse(&Schema::bundled(), Format::Yaml, text.as_bytes());
    assert!(parsed.resources[0].resource.facts().sensitive);
    assert!(parsed.resources[0].warnings.is_empty(), "SDS is where it belongs");
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
            "line 2, column 7: name: a virtual host does not say which route configuration it is of {hint}"
        ),
    );
    yaml(
        &format!("'@type': {WRAPPER}\nname: h\nresource: {{'@type': {HOST}, name: h}}\n"),
        &format!(
            "line 2, column 7: name: `h` does not say which route configuration the host is of {hint}"
        ),
    );
}

#[test]
fn a_file_that_says_nothing_is_blank_and_an_empty_list_is_not() {
    let schema = Schema::bundled();
    let read = |format, text: &str| parse(&schema, format, text.as_bytes());
    for (format, text) in [
        (Format::Yaml, ""),
        (Format::Yaml, " \n\n"),
        (Format::Yaml, "\u{feff}# nothing\n"),
        (Format::Yaml, "---\n# nothing\n---\n~\n"),
        (Format::Json, ""),
        (Format::Json, "\n"),
        (Format::Json, "null"),
        (Format::Text, ""),
        (Format::Text, "# nothing\n"),
        (Format::Binary, ""),
    ] {
        let parsed = read(format, text);
        assert!(parsed.is_blank && parsed.faults.is_empty(), "{format:?} {text:?}");
    }
    for (format, text) in [
        (Format::Yaml, "[]"),
        (Format::Yaml, "---\n---\n[]\n"),
        (Format::Yaml, "resources: []\n"),
        (Format::Yaml, "["),
        (Format::Json, "[]"),
        (Format::Json, "{\"resources\": []}"),
        (Format::Text, "version_info: \"1\""),
        (Format::Binary, "\u{a}\u{1}1"),
    ] {
        assert!(!read(format, text).is_blank, "{format:?} {text:?}");
    }
}

#[test]
fn of_a_million_faults_the_first_are_described_and_all_are_counted() {
    let schema = Schema::bundled();
    let lines = 20_000;
    let cluster = "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: a\n";
    let unknown: String = (0..lines).map(|n| format!("x{n}: 1\n")).collect();
    let twice = cluster.to_owned() + &"name: b\n".repeat(lines);
    let urls: String = (0..lines).map(|n| format!("- \"@type\": a/b{n}\n")).collect();
    for text in [cluster.to_owned() + &unknown, twice, urls] {
        let parsed = parse(&schema, Format::Yaml, text.as_bytes());
        assert_eq!(parsed.faults.len(), MAX_FAULTS);
        assert_eq!(parsed.faults.len() + parsed.more_faults, lines);
        let places: Vec<_> = parsed.faults.iter().map(|fault| fault.position).collect();
        assert!(places.is_sorted());
    }
}
