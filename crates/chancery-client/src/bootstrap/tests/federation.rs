//! The vectors of gRFC A47, from JSON to the servers that are asked.

use super::*;

/// The listener of a target, the servers that are asked for it and the `:authority`, or the error.
fn client(document: &Json, target: &str) -> Result<(String, Vec<String>, String), String> {
    let bootstrap = read(document);
    let target = Target::parse(target).map_err(|error| error.to_string())?;
    let found = bootstrap.target(&target).map_err(|error| error.to_string())?;
    let (name, servers) = named(&found);
    Ok((name, servers, target.data_plane_authority()))
}

/// The listener of a server, and the servers that are asked for it.
fn bound(document: &Json, address: &str) -> Result<(String, Vec<String>), String> {
    let bootstrap = read(document);
    let found = bootstrap.listener(address).map_err(|error| error.to_string())?;
    Ok(named(&found))
}

fn named(found: &Resolved<'_>) -> (String, Vec<String>) {
    let servers = found.servers.iter().map(|server| server.uri.clone()).collect();
    (found.place.name.to_string(), servers)
}

/// One server, as its list.
fn at(server: &str) -> Vec<String> {
    vec![server.to_owned()]
}

/// The bootstrap of V4 to V6.
fn simple() -> Json {
    with(&json!({
        "client_default_listener_resource_name_template": format!("xdstp://xds.authority.com/{L}/%s"),
        "server_listener_resource_name_template":
            format!("xdstp://xds.authority.com/{L}/grpc/server/%s"),
        "authorities": {"xds.authority.com": {}},
    }))
}

/// The bootstrap of V7 to V10.
fn multi() -> Json {
    let client = format!("xdstp://xds.authority.com/{L}/grpc/client/%s?project_id=1234");
    let server = |uri: &str| json!({"server_uri": uri, "channel_creds": [{"type": "tls"}]});
    json!({
        "xds_servers": [server("xds-server.authority.com")],
        "client_default_listener_resource_name_template": client,
        "server_listener_resource_name_template":
            format!("xdstp://xds.authority.com/{L}/grpc/server/%s?project_id=1234"),
        "authorities": {
            "xds.authority.com": {"client_listener_resource_name_template": client},
            "xds.other.com": {"xds_servers": [server("xds-server.other.com")]},
        },
    })
}

/// V1, C-020.
#[test]
fn v1_a_plain_target_is_asked_at_the_top() {
    let decoy = with(&json!({"authorities":
        {"server.example.com": {"xds_servers": [server("decoy")]}}}));
    for document in [with(&json!({})), decoy] {
        let name = "server.example.com".to_owned();
        let expected = Ok((name.clone(), at("T"), name));
        assert_eq!(client(&document, "xds:server.example.com"), expected);
    }
}

/// V2, C-018.
#[test]
fn v2_an_unknown_authority_is_nobody_to_ask() {
    let error = client(&with(&json!({})), "xds://xds.authority.com/server.example.com");
    assert!(error.unwrap_err().contains("authority `xds.authority.com`"));
}

/// V3.
#[test]
fn v3_a_server_with_an_old_template_asks_at_the_top() {
    let document = with(&json!({"server_listener_resource_name_template": "grpc/server?addr=%s"}));
    let expected = Ok(("grpc/server?addr=0.0.0.0:8080".to_owned(), at("T")));
    assert_eq!(bound(&document, "0.0.0.0:8080"), expected);
}

/// V4, V5.
#[test]
fn v4_and_v5_an_authority_without_servers_is_asked_for_at_the_top() {
    let name = format!("xdstp://xds.authority.com/{L}/server.example.com");
    let expected = Ok((name, at("T"), "server.example.com".to_owned()));
    assert_eq!(client(&simple(), "xds:server.example.com"), expected);
    assert_eq!(client(&simple(), "xds://xds.authority.com/server.example.com"), expected);
}

/// V6, C-085.
#[test]
fn v6_the_listener_of_a_server_may_be_under_an_authority() {
    let name = format!("xdstp://xds.authority.com/{L}/grpc/server/0.0.0.0:8080");
    assert_eq!(bound(&simple(), "0.0.0.0:8080"), Ok((name, at("T"))));
}

/// V7, V8.
#[test]
fn v7_and_v8_two_ways_lead_to_one_listener() {
    let name = format!("xdstp://xds.authority.com/{L}/grpc/client/server.example.com");
    let name = format!("{name}?project_id=1234");
    let expected = Ok((name, at("xds-server.authority.com"), "server.example.com".to_owned()));
    assert_eq!(client(&multi(), "xds:server.example.com"), expected);
    assert_eq!(client(&multi(), "xds://xds.authority.com/server.example.com"), expected);
}

/// V9, by the definition and not by A47's worked example.
#[test]
fn v9_another_authority_is_asked_at_its_own_servers() {
    let name = format!("xdstp://xds.other.com/{L}/server.other.com");
    let expected = Ok((name, at("xds-server.other.com"), "server.other.com".to_owned()));
    assert_eq!(client(&multi(), "xds://xds.other.com/server.other.com"), expected);
}

/// V10.
#[test]
fn v10_the_listener_of_a_server_may_have_parameters() {
    let name = format!("xdstp://xds.authority.com/{L}/grpc/server/0.0.0.0:8080?project_id=1234");
    assert_eq!(bound(&multi(), "0.0.0.0:8080"), Ok((name, at("xds-server.authority.com"))));
}

/// V11, C-020, C-085.
#[test]
fn v11_a_template_of_an_unknown_authority_is_read_and_cannot_be_used() {
    let gone = format!("xdstp://gone/{L}/%s");
    let document = with(&json!({
        "client_default_listener_resource_name_template": gone,
        "server_listener_resource_name_template": gone,
    }));
    assert!(client(&document, "xds:svc").unwrap_err().contains("authority `gone`"));
    assert!(bound(&document, "0.0.0.0:80").unwrap_err().contains("authority `gone`"));
}

/// C-079, C-024.
#[test]
fn a_reference_is_asked_for_at_its_own_authority() {
    let bootstrap = read(&multi());
    let routes = TypeUrl::new("envoy.config.route.v3.RouteConfiguration");
    let servers = |name: &str| {
        let found = bootstrap.resource(name, &routes);
        found.map(|found| found.servers[0].uri.clone()).map_err(|error| error.to_string())
    };
    let name = "xdstp://xds.other.com/envoy.config.route.v3.RouteConfiguration/r";
    assert_eq!(servers(name).as_deref(), Ok("xds-server.other.com"));
    assert_eq!(servers("r").as_deref(), Ok("xds-server.authority.com"));
    assert!(servers(&format!("xdstp://xds.other.com/{L}/r")).is_err());
    assert!(servers("xdstp://no/envoy.config.route.v3.RouteConfiguration/r").is_err());
}
