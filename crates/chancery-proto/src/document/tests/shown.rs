//! The look of faults, and what they must not show.

use super::*;

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
fn a_line_with_a_secret_is_not_shown_whatever_it_is_called() {
    // S-138
    const EXTENSION: &str = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig";
    let grpc = |credential: &str| {
        let target = "targetUri: t, statPrefix: s, callCredentials";
        format!("envoy.config.core.v3.GrpcService, googleGrpc: {{{target}: [{{{credential}}}]}}")
    };
    let filter = |config: &str| format!("envoy.extensions.filters.http.{config}");
    let configs = [
        filter("aws_lambda.v3.Config, credentials: {session_token: [S3CRET]}"),
        filter("api_key_auth.v3.ApiKeyAuth, credentials: [{key: [S3CRET]}]"),
        filter("basic_auth.v3.BasicAuth, users: {inline_string: [S3CRET]}"),
        filter("basic_auth.v3.BasicAuth, users: {inline_string: S3CRET}, later: 1"),
        grpc("google_refresh_token: [S3CRET]"),
        grpc("googleIam: {authorizationToken: [S3CRET]}"),
        "envoy.config.core.v3.HeaderValue, key: cookie, value: [S3CRET]".to_owned(),
        "google.protobuf.Struct, value: {client_secret: S3CRET}, later: 1".to_owned(),
    ];
    for config in configs {
        let (config, fields) = config.split_once(", ").unwrap();
        let config = format!("{{'@type': type.googleapis.com/{config}, {fields}}}");
        let text = format!("{{'@type': {EXTENSION}, name: e, typed_config: {config}}}");
        let parsed = read(Format::Yaml, &text);
        assert_eq!(parsed.faults.len(), 1, "{text}");
        let shown = render(&parsed.faults[0], "s.yaml", Some(&text));
        assert!(!shown.contains("S3CRET") && shown.contains("s.yaml:1:"), "{shown}");
    }
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
    // A position past the end of the text shows nothing of it.
    assert_eq!(
        render(&far.at(Position { line: 9, column: 9 }), "a", Some("x")),
        "error: wrong\n --> a:9:9\n"
    );
}
