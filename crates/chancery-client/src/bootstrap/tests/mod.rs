//! Bootstraps, read: C-002 to C-015.

mod federation;

use chancery_core::Variant;
use chancery_core::client::{Protocol, ServerFeatures, Settings};
use serde_json::{Value as Json, json};

use super::*;
use crate::credentials::{CallCredentials, ChannelCredentials, Identity, TlsFiles};

const L: &str = "envoy.config.listener.v3.Listener";

fn server(uri: &str) -> Json {
    json!({"server_uri": uri, "channel_creds": [{"type": "insecure"}]})
}

/// A bootstrap with the server `T`, and more.
fn with(more: &Json) -> Json {
    let mut document = json!({"xds_servers": [server("T")]});
    let fields = more.as_object().unwrap().clone();
    document.as_object_mut().unwrap().extend(fields);
    document
}

fn read(document: &Json) -> Bootstrap {
    document.to_string().parse().unwrap()
}

fn faults(document: &Json) -> Vec<String> {
    faults_of(&BootstrapReader::default(), document)
}

fn faults_of(reader: &BootstrapReader, document: &Json) -> Vec<String> {
    let error = reader.bootstrap(&document.to_string()).unwrap_err();
    error.faults().iter().map(ToString::to_string).collect()
}

/// The one server of a bootstrap.
fn only(entry: &Json) -> XdsServer {
    read(&json!({"xds_servers": [entry]})).servers.remove(0)
}

/// The faults of the only server.
fn server_faults(entry: &Json) -> Vec<String> {
    faults(&json!({"xds_servers": [entry]}))
}

/// C-002.
#[test]
fn servers_are_a_list_in_the_order_of_preference() {
    let bootstrap = read(&json!({"xds_servers": [server("b"), server("a"), server("b")]}));
    let uris: Vec<_> = bootstrap.servers.iter().map(|server| server.uri.as_str()).collect();
    assert_eq!(uris, ["b", "a", "b"]);
}

/// C-002.
#[test]
fn what_a_server_lacks_is_told_with_its_path() {
    let missing = "`xds_servers` is missing or empty; name at least one server";
    assert_eq!(faults(&json!({})), [missing]);
    assert_eq!(faults(&json!({"xds_servers": []})), [missing]);
    assert_eq!(faults(&json!({"xds_servers": null})), [missing]);
    assert_eq!(
        faults(&json!({"xds_servers": {}})),
        ["`xds_servers` is an object; a list is expected"]
    );
    assert_eq!(
        faults(&json!({"xds_servers": [server("a"), 7]})),
        ["`xds_servers[1]` is a number; an object is expected"]
    );
    for uri in [json!(""), json!(null)] {
        let entry = json!({"server_uri": uri, "channel_creds": [{"type": "insecure"}]});
        let fault = "`xds_servers[0].server_uri` is missing or empty; say where it is";
        assert_eq!(server_faults(&entry), [fault]);
    }
    for creds in [json!(null), json!([])] {
        let entry = json!({"server_uri": "a", "channel_creds": creds});
        let fault = "`xds_servers[0].channel_creds` is missing or empty; \
                     known are `insecure`, `tls`";
        assert_eq!(server_faults(&entry), [fault]);
    }
    for creds in [json!([{}]), json!([{"type": null}])] {
        let entry = json!({"server_uri": "a", "channel_creds": creds});
        assert_eq!(server_faults(&entry), ["`xds_servers[0].channel_creds[0].type` is missing"]);
    }
    assert_eq!(faults(&json!([])), ["is a list; an object is expected"]);
}

#[test]
fn all_faults_are_told_at_once() {
    let document = json!({
        "xds_servers": [{"server_uri": 1, "channel_creds": [{"type": "x"}]}, server("a"), {}],
        "node": {"id": [], "locality": {"zone": 1}, "metadata": "x"},
        "authorities": {
            "a.b": {"xds_servers": [{"server_uri": "s"}]},
            "c": {"client_listener_resource_name_template": "xdstp://d/L/%s"},
            "e": 3,
        },
        "certificate_providers": {"p": {}},
    });
    let paths: Vec<_> =
        faults(&document).iter().map(|fault| fault.split('`').nth(1).unwrap().to_owned()).collect();
    assert_eq!(
        paths,
        [
            "xds_servers[0].server_uri",
            "xds_servers[0].channel_creds",
            "xds_servers[2].channel_creds",
            "node.id",
            "node.locality.zone",
            "node.metadata",
            "authorities[\"a.b\"].xds_servers[0].channel_creds",
            "authorities[\"e\"]",
            "certificate_providers[\"p\"].plugin_name",
            "xds_servers[2].server_uri",
            "authorities[\"c\"].client_listener_resource_name_template",
        ]
    );
    let error = document.to_string().parse::<Bootstrap>().unwrap_err().to_string();
    assert!(error.starts_with("the bootstrap cannot be used: `xds_servers[0].server_uri` is a"));
}

/// C-003.
#[test]
fn the_first_channel_credentials_that_are_known_are_taken() {
    let chosen = |creds: Json| only(&json!({"server_uri": "a", "channel_creds": creds})).channel;
    let tls = chosen(json!([{"type": "unknown"}, {"type": "tls"}, {"type": "insecure"}]));
    assert_eq!(tls, ChannelCredentials::Tls(TlsFiles::default()));
    // The entries after it are not looked at.
    let insecure = chosen(json!([{"type": "insecure"}, {"type": "tls", "config": 7}, 9]));
    assert_eq!(insecure, ChannelCredentials::Insecure);
    let entry = json!({"server_uri": "a", "channel_creds": [{"type": "x"}, {"type": "y"}]});
    assert_eq!(
        server_faults(&entry),
        ["`xds_servers[0].channel_creds` has no known type, only `x`, `y`; \
          known are `insecure`, `tls`"]
    );
}

/// C-004.
#[test]
fn unknown_fields_change_nothing_at_any_depth() {
    let document = full();
    for junk in [json!(1), json!("x"), json!([{}]), json!({"a": [1]}), json!(null), json!(true)] {
        let mut more = document.clone();
        scatter(&mut more, &junk);
        assert_ne!(more, document);
        assert_eq!(read(&more), read(&document));
    }
}

/// Adds a field to every object but where names are keys.
fn scatter(value: &mut Json, junk: &Json) {
    match value {
        Json::Object(fields) => {
            for (key, value) in fields.iter_mut().filter(|(key, _)| *key != "metadata") {
                let names = ["authorities", "certificate_providers"].contains(&key.as_str());
                match value.as_object_mut().filter(|_| names) {
                    Some(entries) => entries.values_mut().for_each(|it| scatter_entry(it, junk)),
                    None => scatter(value, junk),
                }
            }
            fields.insert("unheard_of".to_owned(), junk.clone());
        }
        Json::Array(items) => items.iter_mut().for_each(|item| scatter(item, junk)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// The configuration of a plugin is kept whole.
fn scatter_entry(entry: &mut Json, junk: &Json) {
    let config = entry.as_object_mut().and_then(|fields| fields.remove("config"));
    scatter(entry, junk);
    if let (Some(fields), Some(config)) = (entry.as_object_mut(), config) {
        fields.insert("config".to_owned(), config);
    }
}

/// A bootstrap in which every known field is set.
fn full() -> Json {
    json!({
        "xds_servers": [{
            "server_uri": "a",
            "channel_creds": [{"type": "tls", "config": {
                "ca_certificate_file": "/ca",
                "certificate_file": "/cert",
                "private_key_file": "/key",
                "refresh_interval": "1.5s",
            }}],
            "call_creds": [{"type": "jwt_token_file", "config": {"jwt_token_file": "/jwt"}}],
            "server_features": ["trusted_xds_server"],
        }],
        "node": {
            "id": "i",
            "cluster": "c",
            "locality": {"region": "r", "zone": "z", "sub_zone": "s"},
            "metadata": {"k": {"deep": [1, true, null, {"x": "y"}]}},
        },
        "authorities": {
            "": {},
            "a": {
                "xds_servers": [server("b")],
                "client_listener_resource_name_template": format!("xdstp://a/{L}/%s"),
            },
        },
        "client_default_listener_resource_name_template": "c/%s",
        "server_listener_resource_name_template": "s/%s",
        "certificate_providers": {
            "own": {"plugin_name": "mine", "config": {"a": 1}},
            "files": {"plugin_name": "file_watcher", "config": {"ca_certificate_file": "/ca"}},
        },
    })
}

/// The bootstrap of `full`, without JSON: one is as easy to write as the other.
#[test]
fn json_and_code_make_the_same_bootstrap() {
    let map = |entries: &[(&str, Value)]| {
        Value::Map(entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
    };
    let deep = map(&[("x", Value::Text("y".to_owned()))]);
    let deep = Value::List(vec![Value::Number(1.0), Value::Bool(true), Value::Null, deep]);
    let insecure = |uri: &str| XdsServer {
        uri: uri.to_owned(),
        channel: ChannelCredentials::Insecure,
        ..XdsServer::default()
    };
    let own = CertificateProvider {
        plugin: "mine".to_owned(),
        config: map(&[("a", Value::Number(1.0))]),
    };
    let files = CertificateProvider {
        plugin: "file_watcher".to_owned(),
        config: map(&[("ca_certificate_file", Value::Text("/ca".to_owned()))]),
    };
    let built = Bootstrap {
        servers: vec![XdsServer {
            uri: "a".to_owned(),
            channel: ChannelCredentials::Tls(TlsFiles {
                ca: Some("/ca".into()),
                identity: Some(Identity { cert: "/cert".into(), key: "/key".into() }),
                refresh_interval: std::time::Duration::from_millis(1500),
            }),
            calls: vec![CallCredentials::JwtTokenFile("/jwt".into())],
            features: ServerFeatures { trusted: true, ..ServerFeatures::default() },
        }],
        node: Node {
            id: "i".to_owned(),
            cluster: "c".to_owned(),
            locality: Locality {
                region: "r".to_owned(),
                zone: "z".to_owned(),
                sub_zone: "s".to_owned(),
            },
            metadata: Arc::new([("k".to_owned(), map(&[("deep", deep)]))].into()),
            ..Node::default()
        },
        states_user_agent: false,
        authorities: [
            ("".into(), Authority::default()),
            (
                "a".into(),
                Authority {
                    servers: vec![insecure("b")],
                    client_template: Some(Template::new(&format!("xdstp://a/{L}/%s"))),
                    ..Authority::default()
                },
            ),
        ]
        .into(),
        client_template: Template::new("c/%s"),
        server_template: Some(Template::new("s/%s")),
        certificate_providers: [("own".to_owned(), own), ("files".to_owned(), files)].into(),
    };
    assert!(built.check().is_ok());
    assert_eq!(read(&full()), built);
}

/// C-005.
#[test]
fn features_of_any_json_type_are_taken_and_the_unknown_ones_dropped() {
    let features = |list: Json| {
        let mut entry = server("a");
        entry["server_features"] = list;
        only(&entry).features
    };
    let none = ServerFeatures::default();
    let strange = json!(["xds_v3", 7, {"a": 1}, "x", null, [1], "ignore_resource_deletion"]);
    assert_eq!(features(strange), none);
    let all = ServerFeatures {
        fail_on_data_errors: true,
        resource_timer_is_transient_error: true,
        trusted: true,
    };
    let list = ["trusted_xds_server", "fail_on_data_errors", "resource_timer_is_transient_error"];
    assert_eq!(features(json!(list)), all);
    assert_eq!(features(json!(null)), none);
}

/// C-006, C-007.
#[test]
fn the_software_speaks_for_itself() {
    let bootstrap = read(&with(&json!({"node": {
        "id": "i",
        "user_agent_name": "curl",
        "user_agent_version": "9",
        "client_features": ["everything"],
    }})));
    let node = bootstrap.node_for(Service::Discovery);
    assert_eq!((node.id.as_str(), node.user_agent_name.as_str()), ("i", "chancery"));
    assert_eq!(node.user_agent_version, env!("CARGO_PKG_VERSION"));
    let ads = ["envoy.lb.does_not_support_overprovisioning", "xds.config.resource-in-sotw"];
    assert_eq!(*node.client_features, ads);
    let lrs = bootstrap.node_for(Service::LoadReports);
    assert_eq!(*lrs.client_features, ["envoy.lrs.supports_send_all_clusters"]);
    // Code cannot set these fields either, unless it asks in the place of another client.
    let mut bootstrap = bootstrap;
    bootstrap.node.client_features = ["everything".to_owned()].into();
    assert_eq!(bootstrap.node_for(Service::Discovery), node);
    bootstrap.node.user_agent_name = "envoy".to_owned();
    assert_eq!(bootstrap.node_for(Service::Discovery), node);
    bootstrap.states_user_agent = true;
    let stated = bootstrap.node_for(Service::Discovery);
    assert_eq!(
        (stated.user_agent_name.as_str(), &*stated.client_features),
        ("envoy", &ads.map(str::to_owned)[..])
    );
}

/// C-008.
#[test]
fn a_certificate_and_its_key_come_together() {
    let faults = |config: Json| {
        server_faults(&json!({
            "server_uri": "a", "channel_creds": [{"type": "tls", "config": config}]}))
    };
    let path = "xds_servers[0].channel_creds[0].config";
    assert_eq!(
        faults(json!({"certificate_file": "/c"})),
        [format!("`{path}.private_key_file` is missing, and there is a certificate")]
    );
    assert_eq!(
        faults(json!({"private_key_file": "/k", "ca_certificate_file": "/ca"})),
        [format!("`{path}.certificate_file` is missing, and there is a private key")]
    );
    assert_eq!(
        faults(json!({"ca_certificate_file": ""})),
        [format!("`{path}.ca_certificate_file` is empty")]
    );
    assert_eq!(
        faults(json!({"refresh_interval": "10m"})),
        [format!("`{path}.refresh_interval` `10m` is no duration such as `600s` or `0.5s`")]
    );
    assert_eq!(faults(json!("x")), [format!("`{path}` is a string; an object is expected")]);
}

/// C-009.
#[test]
fn every_known_call_credential_is_applied() {
    let with_calls = |calls: Json| {
        let mut entry = server("a");
        entry["call_creds"] = calls;
        entry
    };
    let jwt = |path: &str| json!({"type": "jwt_token_file", "config": {"jwt_token_file": path}});
    let calls = json!([{"type": "x", "config": 7}, jwt("/1"), {"type": "y"}, jwt("/2")]);
    let expected = ["/1", "/2"].map(|path| CallCredentials::JwtTokenFile(path.into()));
    assert_eq!(only(&with_calls(calls)).calls, expected);
    assert_eq!(only(&with_calls(json!([]))).calls, []);
    let path = "xds_servers[0].call_creds[0].config";
    for (config, fault) in [
        (json!(null), format!("`{path}.jwt_token_file` is missing")),
        (json!({}), format!("`{path}.jwt_token_file` is missing")),
        (json!({"jwt_token_file": ""}), format!("`{path}.jwt_token_file` is empty")),
        (json!([]), format!("`{path}` is a list; an object is expected")),
    ] {
        let calls = json!([{"type": "jwt_token_file", "config": config}]);
        assert_eq!(server_faults(&with_calls(calls)), [fault]);
    }
}

/// C-010.
#[test]
fn an_unknown_plugin_is_kept_and_a_known_one_checked() {
    let with_provider = |provider: Json| with(&json!({"certificate_providers": {"p": provider}}));
    let unknown = read(&with_provider(json!({"plugin_name": "mesh_ca", "config": [1, "secret"]})));
    let provider = &unknown.certificate_providers["p"];
    assert_eq!(provider.plugin, "mesh_ca");
    assert_eq!(
        provider.config,
        Value::List(vec![Value::Number(1.0), Value::Text("secret".to_owned())])
    );
    assert!(!format!("{unknown:?}").contains("secret"));
    let plain = read(&with_provider(json!({"plugin_name": "x"})));
    assert_eq!(plain.certificate_providers["p"].config, Value::Null);
    for (config, fault) in [
        (json!({}), "config` names no file"),
        (json!(null), "config` names no file"),
        (json!({"certificate_file": "/c"}), "config.private_key_file` is missing"),
        (json!(3), "config` is a number"),
    ] {
        let found =
            faults(&with_provider(json!({"plugin_name": "file_watcher", "config": config})));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with(&format!("`certificate_providers[\"p\"].{fault}")),
            "{found:?}"
        );
    }
}

/// C-011.
#[test]
fn an_authority_without_servers_has_those_at_the_top() {
    let bootstrap = read(&with(&json!({"authorities": {
        "": {}, "a": {}, "b": {"xds_servers": []}, "c": {"xds_servers": [server("S")]},
    }})));
    let uri = |authority: &str| {
        bootstrap.servers_of(&AuthorityKey::Named(authority.into()))[0].uri.as_str()
    };
    assert_eq!(["", "a", "b", "c"].map(uri), ["T", "T", "T", "S"]);
    assert_eq!(bootstrap.servers_of(&AuthorityKey::Old)[0].uri, "T");
    assert_eq!(bootstrap.servers_of(&AuthorityKey::Named("d".into())), []);
}

/// C-012.
#[test]
fn the_template_of_an_authority_is_under_that_authority() {
    let with_template = |template: &str| {
        with(&json!({"authorities":
            {"a": {"client_listener_resource_name_template": template}}}))
    };
    let good = read(&with_template(&format!("xdstp://a/{L}/x/%s")));
    let place = good.target(&"xds://a/svc".parse().unwrap()).unwrap().place;
    assert_eq!(place.name.as_str(), format!("xdstp://a/{L}/x/svc"));
    for wrong in ["xdstp://b/L/%s", "xds://a/L/%s", "xdstp://aL/%s", "xdstp://a", "%s"] {
        assert_eq!(
            faults(&with_template(wrong)),
            [format!(
                "`authorities[\"a\"].client_listener_resource_name_template` `{wrong}` does not \
                 begin with `xdstp://a/`"
            )]
        );
    }
}

/// C-013.
#[test]
fn the_default_template_is_the_name_itself() {
    let explicit = json!({"client_default_listener_resource_name_template": "%s"});
    assert_eq!(read(&with(&explicit)), read(&with(&json!({}))));
    let empty = json!({"client_default_listener_resource_name_template": ""});
    assert_eq!(read(&with(&empty)), read(&with(&json!({}))));
    let bootstrap = read(&with(&json!({})));
    assert!(bootstrap.target(&"xds:a".parse().unwrap()).is_ok());
    assert_eq!(bootstrap.listener("0.0.0.0:80"), Err(NamingError::NoServerTemplate));
}

/// C-014.
#[test]
fn a_server_is_the_same_value_wherever_it_is_named() {
    let document = full();
    let entry = document["xds_servers"][0].to_string();
    let bootstrap = read(&document);
    let reported = BootstrapReader::default().server(&entry).unwrap();
    assert_eq!(reported, bootstrap.servers[0]);
    assert_eq!(reported.key(), bootstrap.servers[0].key());
    let entry = json!({"xds_servers": [server("T")], "authorities": {"a":
        {"xds_servers": [document["xds_servers"][0]]}}});
    assert_eq!(read(&entry).authorities["a"].servers, [reported]);
    let error = BootstrapReader::default().server("{}").unwrap_err();
    let paths: Vec<_> = error.faults().iter().map(|fault| fault.path.as_str()).collect();
    assert_eq!(paths, ["channel_creds", "server_uri"]);
    assert!(BootstrapReader::default().server("7").is_err());
    assert!(BootstrapReader::default().server("").is_err());
}

/// C-015.
#[test]
fn what_is_behind_a_switch_that_is_off_is_not_even_looked_at() {
    let mut entry = server("a");
    entry["call_creds"] = json!(7);
    let document = json!({
        "xds_servers": [entry],
        "authorities": {"a": {"fallback_on_reachability_only": "perhaps"}},
        "allowed_grpc_services": "none",
    });
    let off = BootstrapReader { call_creds: false, ..BootstrapReader::default() };
    let bootstrap = off.bootstrap(&document.to_string()).unwrap();
    assert_eq!(bootstrap.servers[0].calls, []);
    assert_eq!(bootstrap.authorities["a"].fallback, Fallback::Needed);
    let on = BootstrapReader { fallback_on_reachability_only: true, ..BootstrapReader::default() };
    assert_eq!(
        faults_of(&on, &document),
        [
            "`xds_servers[0].call_creds` is a number; a list is expected",
            "`authorities[\"a\"].fallback_on_reachability_only` is a string; \
             `true` or `false` is expected",
        ]
    );
    let document = with(&json!({"authorities": {"a": {"fallback_on_reachability_only": true}}}));
    let bootstrap = on.bootstrap(&document.to_string()).unwrap();
    let plan = bootstrap.plan(protocol(), Settings::default());
    let fallback = |key| plan.setup.authorities()[&key].fallback;
    assert_eq!(fallback(AuthorityKey::Named("a".into())), Fallback::Reachability);
    assert_eq!(fallback(AuthorityKey::Old), Fallback::Needed);
}

fn protocol() -> Protocol {
    Protocol::Stream { variant: Variant::Sotw, aggregated: true }
}

/// K6, C-075, C-076.
#[test]
fn k6_equal_servers_share_a_number_and_other_credentials_do_not() {
    let tls = json!({"server_uri": "S", "channel_creds": [{"type": "tls"}]});
    let mut unknown = server("S");
    unknown["server_features"] = json!(["unheard_of", "xds_v3"]);
    let mut known = server("S");
    known["server_features"] = json!(["trusted_xds_server"]);
    let mut call = server("S");
    call["call_creds"] = json!([{"type": "jwt_token_file", "config": {"jwt_token_file": "/t"}}]);
    let bootstrap = read(&with(&json!({"authorities": {
        "a": {"xds_servers": [server("S")]},
        "b": {"xds_servers": [unknown]},
        "c": {"xds_servers": [tls]},
        "d": {"xds_servers": [known]},
        "e": {"xds_servers": [call]},
        "f": {},
    }})));
    let plan = bootstrap.plan(protocol(), Settings::default());
    let number = |key| plan.setup.authorities()[&key].servers[0].index();
    let named = |name: &str| number(AuthorityKey::Named(name.into()));
    assert_eq!(number(AuthorityKey::Old), 0);
    assert_eq!(["a", "b", "c", "d", "e", "f"].map(named), [1, 1, 2, 3, 4, 0]);
    assert_eq!(plan.servers.len(), plan.setup.servers().len());
    let keys = plan.setup.servers().map(|(_, server)| server.key.clone());
    assert!(keys.eq(plan.servers.iter().map(XdsServer::key)));
    assert_eq!(plan.setup.node.user_agent_name, "chancery");
}

/// K9, C-083.
#[test]
fn k9_loads_are_reported_only_to_servers_of_the_bootstrap() {
    let bootstrap = read(&with(&json!({"authorities": {"a": {"xds_servers": [server("S")]}}})));
    let has = |entry: &Json| {
        bootstrap.has_server(&BootstrapReader::default().server(&entry.to_string()).unwrap())
    };
    assert!(has(&server("T")) && has(&server("S")));
    assert!(!has(&server("forged")));
    assert!(!has(&json!({"server_uri": "S", "channel_creds": [{"type": "tls"}]})));
    let mut trusted = server("S");
    trusted["server_features"] = json!(["trusted_xds_server"]);
    assert!(!has(&trusted));
}
