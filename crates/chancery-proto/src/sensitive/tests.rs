//! Sensitive values are found wherever they stand, and nothing else is taken for one.

use prost::Message;
use serde_json::{Value as Json, json};

use super::*;
use crate::samples::AnyMessage;

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
const ROUTES: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
const EXTENSION: &str = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig";
const SECRET: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
const TLS: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3";
const FILTERS: &str = "type.googleapis.com/envoy.extensions.filters";
const PEM: &str = "-----BEGIN PRIVATE KEY-----\nMIGH\n";

fn body(type_url: &str, json: Json) -> Bytes {
    let descriptor = Schema::bundled().message(type_url).unwrap();
    DynamicMessage::deserialize(descriptor, json).unwrap().encode_to_vec().into()
}

fn path(type_url: &str, json: Json) -> Option<String> {
    withheld(&Schema::bundled(), &TypeUrl::new(type_url), &body(type_url, json))
}

fn found(type_url: &str, json: Json) -> Vec<String> {
    let found = values(&Schema::bundled(), &TypeUrl::new(type_url), &body(type_url, json));
    found.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect()
}

/// A cluster whose transport socket has this configuration.
fn socket(config: Json) -> Json {
    json!({"name": "c", "transportSocket": {"name": "t", "typedConfig": config}})
}

fn extension(config: Json) -> Json {
    json!({"name": "e", "typedConfig": config})
}

fn upstream(certificate: Json) -> Json {
    let context = format!("{TLS}.UpstreamTlsContext");
    socket(json!({"@type": context, "commonTlsContext": {"tlsCertificates": [certificate]}}))
}

#[test]
fn an_inline_key_is_withheld_and_the_name_of_a_file_is_not() {
    let key = json!({"certificateChain": {"filename": "c"}, "privateKey": {"inlineString": "KEY"}});
    let at = "transport_socket.typed_config.common_tls_context.tls_certificates[0].private_key";
    assert_eq!(path(CLUSTER, upstream(key.clone())).as_deref(), Some(at));
    assert_eq!(found(CLUSTER, upstream(key)), ["KEY"]);
    for place in [json!({"filename": "/key"}), json!({"environmentVariable": "KEY"}), json!({})] {
        let certificate = json!({"certificateChain": {"inlineString": "x"}, "privateKey": place});
        assert_eq!(path(CLUSTER, upstream(certificate)), None);
    }
}

#[test]
fn a_secret_is_withheld_wherever_it_stands() {
    let secret = json!({"@type": SECRET, "name": "s", "validationContext": {}});
    assert_eq!(path(EXTENSION, extension(secret.clone())).as_deref(), Some("typed_config"));
    let twice = json!({"@type": EXTENSION, "name": "i", "typedConfig": secret});
    let inner = Some("typed_config.typed_config".to_owned());
    assert_eq!(path(EXTENSION, extension(twice)), inner);
    assert_eq!(path(SECRET, json!({"name": "s"})).as_deref(), Some(""));
    assert_eq!(found(SECRET, json!({"name": "s"})), [""; 0]);
}

#[test]
fn all_kinds_of_keys_passwords_and_tokens_are_withheld() {
    let inline = json!({"inlineString": "SECRET"});
    let filters = [
        json!({"@type": format!("{FILTERS}.http.basic_auth.v3.BasicAuth"), "users": inline}),
        json!({"@type": format!("{FILTERS}.http.api_key_auth.v3.ApiKeyAuth"),
            "credentials": [{"key": "SECRET", "client": "one"}]}),
        json!({"@type": format!("{FILTERS}.http.aws_lambda.v3.Config"), "arn": "a",
            "credentials": {"accessKeyId": "i", "secretAccessKey": "SECRET"}}),
        json!({"@type": format!("{FILTERS}.network.redis_proxy.v3.RedisProxy"), "statPrefix": "s",
            "downstreamAuthPasswords": [inline]}),
        json!({"@type": format!("{TLS}.DownstreamTlsContext"),
            "sessionTicketKeys": {"keys": [inline]}}),
        json!({"@type": format!("{TLS}.GenericSecret"), "secrets": {"k": inline}}),
        json!({"@type": format!("{TLS}.TlsCertificate"), "password": {"inlineBytes": "U0VDUkVU"}}),
        json!({"@type": "type.googleapis.com/envoy.config.core.v3.GrpcService",
            "googleGrpc": {"targetUri": "t", "statPrefix": "s",
                "callCredentials": [{"accessToken": "SECRET"}]}}),
        json!({"@type": "type.googleapis.com/envoy.config.core.v3.GrpcService",
            "googleGrpc": {"targetUri": "t", "statPrefix": "s",
                "callCredentials": [{"serviceAccountJwtAccess": {"jsonKey": "SECRET"}}]}}),
        json!({"@type": "type.googleapis.com/envoy.extensions.grpc_service.call_credentials\
            .access_token.v3.AccessTokenCredentials", "token": "SECRET"}),
    ];
    for filter in filters {
        let is = filter["@type"].clone();
        assert!(path(EXTENSION, extension(filter.clone())).is_some(), "{is}");
        assert!(found(EXTENSION, extension(filter)).contains(&"SECRET".to_owned()), "{is}");
    }
}

#[test]
fn every_field_that_envoy_marks_is_hidden() {
    let schema = Schema::bundled();
    let mark = schema.pool().get_extension_by_name("udpa.annotations.sensitive").unwrap();
    let fields = schema.pool().all_messages().flat_map(|is| is.fields().collect::<Vec<_>>());
    let marked =
        fields.filter(|field| field.options().get_extension(&mark).as_bool() == Some(true));
    let mut count = 0;
    for field in marked {
        let message = DynamicMessage::new(field.parent_message().clone());
        let hidden = HiddenFields::of(&message);
        assert!(hidden.contain(&field, &Value::Bool(true)), "{}", field.full_name());
        count += 1;
    }
    assert!(count >= 40, "{count}");
}

#[test]
fn every_credential_without_a_mark_is_a_field_of_a_known_message() {
    for (message, names) in fields::UNMARKED {
        let descriptor = Schema::bundled().message(message).expect(message);
        for name in names {
            assert!(descriptor.get_field_by_name(name).is_some(), "{message}.{name}");
        }
    }
}

#[test]
fn a_private_key_is_withheld_in_whatever_text() {
    let route = json!({"name": "r", "virtualHosts": [{"name": "v", "domains": ["*"], "routes": [
        {"match": {"prefix": "/"}, "directResponse": {"status": 200, "body": {"inlineString": PEM}}}
    ]}]});
    let at = "virtual_hosts[0].routes[0].direct_response.body.inline_string";
    assert_eq!(path(ROUTES, route).as_deref(), Some(at));
    let metadata = json!({"name": "c", "metadata": {"filterMetadata": {"m": {"list": [PEM]}}}});
    assert!(path(CLUSTER, metadata.clone()).is_some());
    assert_eq!(found(CLUSTER, metadata), [PEM]);
    let unknown = AnyMessage { type_url: "x/example.X".into(), value: PEM.into() };
    for body in [unknown.encode_to_vec(), PEM.into()] {
        let body = Bytes::from(body);
        let url = TypeUrl::new("type.googleapis.com/example.Nothing");
        assert_eq!(withheld(&Schema::bundled(), &url, &body).as_deref(), Some(""));
        assert_eq!(values(&Schema::bundled(), &url, &body), [body]);
    }
}

#[test]
fn a_private_key_is_withheld_where_no_descriptor_has_a_field() {
    // The key in a field of a newer Envoy: of the cluster, and of the context of its socket.
    let context = format!("{TLS}.UpstreamTlsContext");
    let newer = |number, content: &[u8], to: &mut Vec<u8>| {
        prost::encoding::bytes::encode(number, &content.to_vec(), to);
    };
    let mut field = Vec::new();
    newer(4000, &[b"\n\x03new\x12", PEM.as_bytes()].concat(), &mut field);
    let in_cluster = [&body(CLUSTER, json!({"name": "c"}))[..], &field].concat();
    let any = AnyMessage { type_url: context, value: field.clone() };
    let mut in_context = body(CLUSTER, json!({"name": "c"})).to_vec();
    let socket = [&b"\n\x01t\x1a"[..], &[any.encoded_len() as u8], &any.encode_to_vec()].concat();
    newer(24, &socket, &mut in_context);
    let bodies = [(in_cluster, ""), (in_context, "transport_socket.typed_config")];
    for (body, at) in bodies {
        let (url, body) = (TypeUrl::new(CLUSTER), Bytes::from(body));
        assert_eq!(withheld(&Schema::bundled(), &url, &body).as_deref(), Some(at));
        assert_eq!(values(&Schema::bundled(), &url, &body), [&field[..]], "{at}");
    }
    let labels = json!({"@type": format!("{FILTERS}.http.ext_authz.v3.CheckSettings"),
        "contextExtensions": {PEM: ""}});
    assert!(found(EXTENSION, extension(labels)).contains(&PEM.to_owned()));
    // A text that was given twice, so that no message holds the first one.
    let twice = [b"\n\x1e", &PEM.as_bytes()[..30], b"\n\x01c"].concat();
    let (url, body) = (TypeUrl::new(CLUSTER), Bytes::from(twice));
    assert_eq!(withheld(&Schema::bundled(), &url, &body).as_deref(), Some(""));
    assert_eq!(values(&Schema::bundled(), &url, &body), [body]);
}

#[test]
fn a_struct_is_read_as_the_type_that_it_states() {
    let certificate = json!({"private_key": {"inline_string": "KEY"}, "certificate_chain": {}});
    let context = json!({"common_tls_context": {"tls_certificates": [certificate]}});
    let typed = json!({"@type": "type.googleapis.com/xds.type.v3.TypedStruct",
        "typeUrl": format!("{TLS}.UpstreamTlsContext"), "value": context});
    let at = "transport_socket.typed_config.value";
    assert_eq!(path(CLUSTER, socket(typed.clone())).as_deref(), Some(at));
    assert_eq!(found(CLUSTER, socket(typed)), ["KEY"]);
    // Without a type the names say it, as in the configuration of v2.
    let untyped = json!({"@type": "type.googleapis.com/google.protobuf.Struct", "value": context});
    assert!(path(CLUSTER, socket(untyped.clone())).is_some());
    assert_eq!(found(CLUSTER, socket(untyped)), ["KEY"]);
}

/// An extension with a `TypedStruct` of the configuration of `aws_lambda`.
fn typed_struct(value: Json) -> Json {
    extension(json!({"@type": "type.googleapis.com/xds.type.v3.TypedStruct",
        "typeUrl": format!("{FILTERS}.http.aws_lambda.v3.Config"), "value": value}))
}

#[test]
fn a_struct_is_read_as_its_type_with_what_that_type_does_not_know() {
    let credentials = json!({"session_token": "TOKEN"});
    let newer = [
        json!({"credentials": credentials, "later": 1}),
        json!({"credentials": credentials, "invocation_mode": "LATER"}),
        json!({"credentials": {"session_token": "TOKEN", "later": {"x": [1]}}}),
        json!({"credentials": credentials, "invocation_mode": 1}),
    ];
    for value in newer {
        let at = path(EXTENSION, typed_struct(value.clone()));
        assert_eq!(at.as_deref(), Some("typed_config.value"), "{value}");
        assert!(found(EXTENSION, typed_struct(value.clone())).contains(&"TOKEN".into()), "{value}");
    }
    for value in [json!({"invocation_mode": 1, "arn": "a"}), json!({"later": "a"})] {
        assert_eq!(path(EXTENSION, typed_struct(value.clone())), None, "{value}");
        assert_eq!(found(EXTENSION, typed_struct(value)), [""; 0]);
    }
}

#[test]
fn a_struct_that_is_not_of_its_type_may_hold_a_secret() {
    for value in [json!({"credentials": "TOKEN"}), json!({"arn": ["TOKEN"]})] {
        let at = path(EXTENSION, typed_struct(value.clone()));
        assert_eq!(at.as_deref(), Some("typed_config.value"), "{value}");
        assert_eq!(found(EXTENSION, typed_struct(value)), ["TOKEN"]);
    }
    let empty = typed_struct(json!({"arn": 1}));
    assert_eq!(path(EXTENSION, empty.clone()), None);
    assert_eq!(found(EXTENSION, empty), [""; 0]);
    // A part of an unknown type is not read, and keeps nobody from reading the others.
    let part = json!({"name": "x", "typed_config": {"@type": "x/example.X", "token": 1}});
    let manager = |filter: Json| {
        let manager = "network.http_connection_manager.v3.HttpConnectionManager";
        json!({"@type": "type.googleapis.com/udpa.type.v1.TypedStruct",
            "typeUrl": format!("{FILTERS}.{manager}"), "value": {"http_filters": [part, filter]}})
    };
    assert_eq!(path(EXTENSION, extension(manager(json!({"name": "y"})))), None);
    let users = json!({"@type": format!("{FILTERS}.http.basic_auth.v3.BasicAuth"),
        "users": {"inline_string": "USERS"}});
    let secret = extension(manager(json!({"name": "y", "typed_config": users})));
    assert_eq!(path(EXTENSION, secret.clone()).as_deref(), Some("typed_config.value"));
    assert_eq!(found(EXTENSION, secret), ["USERS"]);
}

#[test]
fn a_guess_by_name_hides_and_refuses_nobody() {
    let header = |key: &str| json!({"header": {"key": key, "value": "VALUE"}});
    let routes = |key: &str| json!({"name": "r", "requestHeadersToAdd": [header(key)]});
    for key in ["authorization", "Proxy-Authorization", "cookie", "x-api-key"] {
        assert_eq!(path(ROUTES, routes(key)), None, "{key}");
        assert_eq!(found(ROUTES, routes(key)), ["VALUE"], "{key}");
    }
    assert_eq!(found(ROUTES, routes("x-request-id")), [""; 0]);
    let metadata = json!({"name": "c", "metadata": {"filterMetadata":
        {"m": {"password": "VALUE", "owner": "me"}}}});
    assert_eq!(path(CLUSTER, metadata.clone()), None);
    assert_eq!(found(CLUSTER, metadata), ["VALUE"]);
    let labels = json!({"@type": format!("{FILTERS}.http.ext_authz.v3.CheckSettings"),
        "contextExtensions": {"host": "VALUE"}});
    assert_eq!(path(EXTENSION, extension(labels.clone())), None);
    assert_eq!(found(EXTENSION, extension(labels)), ["VALUE"]);
}

#[test]
fn plain_resources_hold_nothing() {
    let listener = json!({"name": "l", "address": {"socketAddress":
        {"address": "::", "portValue": 1}}});
    let secret = json!({"name": "t", "sdsConfig": {"ads": {}}});
    let context = json!({"@type": format!("{TLS}.UpstreamTlsContext"), "commonTlsContext":
        {"tlsCertificateSdsSecretConfigs": [secret],
            "validationContext": {"trustedCa": {"inlineString": "-----BEGIN CERTIFICATE-----"}}}});
    for (type_url, json) in [(LISTENER, listener), (CLUSTER, socket(context))] {
        assert_eq!(path(type_url, json.clone()), None);
        assert_eq!(found(type_url, json), [""; 0]);
    }
}

#[test]
fn bytes_that_nobody_can_read_may_hold_a_secret() {
    let schema = Schema::bundled();
    let broken = Bytes::from_static(b"KEY");
    let url = TypeUrl::new(CLUSTER);
    assert_eq!(withheld(&schema, &url, &broken).as_deref(), Some(""));
    assert_eq!(values(&schema, &url, &broken), [broken]);
    let mut any = AnyMessage { type_url: CLUSTER.to_owned(), value: b"KEY".to_vec() };
    for _ in 0..500 {
        let type_url = "type.googleapis.com/google.protobuf.Any".to_owned();
        any = AnyMessage { type_url, value: any.encode_to_vec() };
    }
    let url = TypeUrl::new("type.googleapis.com/google.protobuf.Any");
    let body = Bytes::from(any.encode_to_vec());
    assert!(withheld(&schema, &url, &body).is_some());
    assert_eq!(values(&schema, &url, &body).len(), 1);
}

proptest::proptest! {
    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60)) {
        let body = Bytes::from(bytes);
        for type_url in [CLUSTER, EXTENSION, SECRET] {
            let url = TypeUrl::new(type_url);
            let found = values(&Schema::bundled(), &url, &body);
            // Whatever has a path to withhold has something that is hidden, unless it is a secret.
            if withheld(&Schema::bundled(), &url, &body).is_some() && type_url != SECRET {
                proptest::prop_assert!(!found.is_empty() || body.is_empty());
            }
        }
    }
}
