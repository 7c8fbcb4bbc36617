//! TLS to endpoints, as the control plane asks for it: real handshakes with certificates of real providers.

use std::path::PathBuf;
use std::process::{Command, Output};

use chancery_client::credentials::TlsFiles;
use chancery_core::client::ServerFeatures;
use chancery_grpc::{Channel, ChannelBuilder, Credentials, WaitForReady};
use chancery_testkit::TestServer;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tonic::Code;

use super::certificates::{Authority, Folder};
use super::one_route;
use super::support::{
    Backend, PATIENCE, Resources, bootstrap, call, call_to, code, name, spread, until, with,
};

/// A field of a cluster that asks for TLS with this context.
fn socket(context: &str) -> String {
    let url = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
    format!(
        r#"transport_socket: {{name: envoy.transport_sockets.tls, typed_config: {{"@type": {url}, {context}}}}}"#
    )
}

/// TLS with the authorities of the provider `roots`, and these names of the peer.
pub(crate) fn names(names: &str) -> String {
    socket(&format!("common_tls_context: {{{}}}", validation(names)))
}

fn validation(names: &str) -> String {
    format!(
        "validation_context: {{ca_certificate_provider_instance: {{instance_name: roots}}, \
         match_subject_alt_names: [{names}]}}"
    )
}

/// Mutual TLS with the certificate of the provider `identity`.
fn mutual(names: &str) -> String {
    let identity = "tls_certificate_provider_instance: {instance_name: identity}";
    socket(&format!("common_tls_context: {{{identity}, {}}}", validation(names)))
}

/// A cluster `x` with these fields, to which all calls go.
fn resources(fields: &str, backend: &Backend) -> Resources {
    let resources = Resources::default().routes(&one_route("x")).cluster("x", fields);
    resources.endpoints("x", &[&[backend]])
}

pub(crate) fn builder(server: &TestServer, folder: &Folder) -> ChannelBuilder {
    let mut bootstrap = bootstrap(server.address(), ServerFeatures::default());
    bootstrap.certificate_providers.extend(folder.providers());
    ChannelBuilder::new("xds:///service").bootstrap(bootstrap)
}

fn channel(server: &TestServer, folder: &Folder) -> Channel {
    builder(server, folder).build().expect("a channel")
}

/// C-121, C-123: a cluster that asks for mutual TLS has it, with a name of the peer that is listed. Another
/// list is for the next connection, and calls go on no connection that it does not accept.
#[tokio::test]
async fn a_cluster_has_the_tls_that_it_asks_for() {
    let authority = Authority::new();
    let config = authority.mutual_server(&["spiffe://mesh.example/orders", "a.example"]);
    let a = Backend::secured("a", config).await;
    let folder = Folder::trusting(&authority);
    folder.identify(&authority.sign(&["client.example"]));
    let server = |names| resources(&mutual(names), &a).snapshot();
    let control = TestServer::start(server(r#"{exact: b.example}, {prefix: "spiffe://mesh."}"#));
    let control = control.await.expect("a server");
    let channel = channel(&control, &folder);
    assert_eq!(call_to(&channel, "/t/scheme", with("k", "v")).await.expect("an answer"), "https");
    assert_eq!(spread(&channel, 5).await, [("a".to_owned(), 5)].into());
    assert_eq!(a.connections(), 1);
    assert_eq!(*a.asked.lock().expect("no panic"), [None], "no name is asked for");
    control.publish(server("{exact: b.example}"));
    until(&channel, "the other list", |result| result.is_err()).await;
    let refused = call(&channel).await.expect_err("it is refused");
    assert_eq!(refused.code(), Code::Unavailable);
    let why =
        ": TLS: the certificate is for `spiffe://mesh.example/orders`, `a.example`, and no name";
    assert!(refused.message().contains(why), "{refused}");
    control.publish(server("{exact: a.example}"));
    until(&channel, "the last list", |result| name(result) == Some("a")).await;
}

/// C-123: an authority that the provider does not have is not trusted, and no name helps.
#[tokio::test]
async fn a_peer_of_another_authority_is_refused() {
    let a = Backend::secured("a", Authority::new().server(&["a.example"])).await;
    let folder = Folder::trusting(&Authority::new());
    let resources = resources(&names("{exact: a.example}"), &a);
    let control = TestServer::start(resources.snapshot()).await.expect("a server");
    let refused = call(&channel(&control, &folder)).await.expect_err("it is refused");
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("invalid peer certificate"), "{refused}");
}

/// C-121, C-124: a provider that fails, fails the handshake, with TLS as well as in the clear. When its file is
/// there, a call that waits is made.
#[tokio::test]
async fn a_provider_that_fails_fails_the_handshake() {
    let authority = Authority::new();
    let a = Backend::secured("a", authority.mutual_server(&["a.example"])).await;
    let folder = Folder::trusting(&authority);
    let control = TestServer::start(resources(&mutual(""), &a).snapshot()).await;
    let control = control.expect("a server");
    let channel = channel(&control, &folder);
    let failed = call(&channel).await.expect_err("there is no certificate");
    assert_eq!(failed.code(), Code::Unavailable);
    assert!(failed.message().contains("the certificate cannot be had"), "{failed}");
    assert!(failed.message().contains("key.pem"), "{failed}");
    assert_eq!(a.connections(), 0);
    folder.identify(&authority.sign(&["client.example"]));
    let mut request = with("k", "v");
    request.extensions_mut().insert(WaitForReady);
    let answer = call_to(&channel, "/t/echo", request).await.expect("an answer");
    assert!(answer.starts_with("a "), "{answer}");
}

/// C-121: where TLS is asked for, nothing is sent in the clear: not to a peer that speaks no TLS, and not on a
/// connection from before.
#[tokio::test]
async fn a_cluster_with_tls_is_never_spoken_to_in_the_clear() {
    let a = Backend::start("a").await;
    let folder = Folder::trusting(&Authority::new());
    let plain = resources("", &a).snapshot();
    let control = TestServer::start(plain.clone()).await.expect("a server");
    let channel = channel(&control, &folder);
    assert_eq!(call_to(&channel, "/t/scheme", with("k", "v")).await.expect("an answer"), "http");
    control.publish(resources(&names(""), &a).snapshot());
    until(&channel, "TLS", |result| code(result) == Code::Unavailable).await;
    for _ in 0..5 {
        assert_eq!(code(&call(&channel).await), Code::Unavailable);
    }
    control.publish(plain);
    until(&channel, "the clear", |result| name(result) == Some("a")).await;
}

/// C-121: the fallback is for clusters without settings, and a program that did not choose xDS is not told by the
/// control plane what to do.
#[tokio::test]
async fn the_program_chooses_who_decides() {
    let authority = Authority::new();
    let folder = Folder::trusting(&authority);
    let files = TlsFiles { ca: Some(folder.path("ca.pem")), ..TlsFiles::default() };
    let is_right = async |credentials: Credentials, fields: &str, backend: &Backend| {
        let control = TestServer::start(resources(fields, backend).snapshot()).await;
        let control = control.expect("a server");
        let builder = builder(&control, &folder).credentials(credentials);
        let channel = builder.build().expect("a channel");
        let result = call(&channel).await;
        if let Err(status) = &result {
            assert_eq!(status.code(), Code::Unavailable, "{status}");
        }
        result.is_ok()
    };
    let plain = Backend::start("plain").await;
    let service = Backend::secured("service", authority.server(&["service"])).await;
    let other = Backend::secured("other", authority.server(&["other"])).await;
    let (insecure, tls) = (Credentials::insecure, || Credentials::tls(files.clone()));
    let asks = names("{exact: other}");
    for (credentials, fields, backend, expected) in [
        (Credentials::xds(insecure()), "", &plain, true),
        (Credentials::xds(insecure()), "", &service, false),
        (Credentials::xds(tls()), "", &service, true),
        (Credentials::xds(tls()), "", &other, false),
        (Credentials::xds(tls()), "", &plain, false),
        (Credentials::xds(tls()), &asks, &other, true),
        (Credentials::xds(tls()), &asks, &service, false),
        (insecure(), &asks, &plain, true),
        (insecure(), &asks, &other, false),
        (tls(), &asks, &service, true),
        (tls(), &asks, &other, false),
    ] {
        let is_right = is_right(credentials.clone(), fields, backend).await;
        assert_eq!(is_right, expected, "{credentials:?} with `{fields}`");
    }
    let asked = service.asked.lock().expect("no panic").clone();
    assert!(asked.contains(&Some("service".to_owned())), "{asked:?}");
}

/// C-124: a new handshake uses the authorities that are in the file now.
#[tokio::test]
async fn a_new_handshake_uses_new_certificates() {
    let (before, after) = (Authority::new(), Authority::new());
    let (a, b) = (
        Backend::secured("a", before.server(&["a.example"])).await,
        Backend::secured("b", after.server(&["a.example"])).await,
    );
    let folder = Folder::trusting(&before);
    let control = TestServer::start(resources(&names(""), &a).snapshot()).await;
    let control = control.expect("a server");
    let channel = channel(&control, &folder);
    assert_eq!(name(&call(&channel).await), Some("a"));
    folder.trust(&after);
    control.publish(resources(&names(""), &b).snapshot());
    until(&channel, "the other", |result| match result {
        Ok(name) => name == "b",
        Err(status) => panic!("a call failed: {status}"),
    })
    .await;
}

/// C-126: the name that is asked for is that of the endpoint or that of the cluster, and may be the one that the
/// certificate has to be for.
#[tokio::test]
async fn a_handshake_asks_for_a_name() {
    let authority = Authority::new();
    let folder = Folder::trusting(&authority);
    let a = Backend::secured("a", authority.server(&["a.example", "spiffe://b/c"])).await;
    let common = |names: &str| format!("common_tls_context: {{{}}}", validation(names));
    let asked = async |fields: &str, names: &str, hostname: &str| {
        let resources = resources(&socket(&format!("{fields}, {}", common(names))), &a);
        let hostname = format!("{{endpoint: {{hostname: '{hostname}', ");
        let resources = Resources(resources.0.replace("{endpoint: {", &hostname));
        let control = TestServer::start(resources.snapshot()).await.expect("a server");
        let result = call(&channel(&control, &folder)).await;
        result.map(|_| a.asked.lock().expect("no panic").last().cloned().flatten())
    };
    let fixed = "sni: fixed.example";
    assert_eq!(asked(fixed, "", "a.example").await.expect("one"), Some("fixed.example".to_owned()));
    let automatic = "sni: fixed.example, auto_host_sni: true";
    let found = asked(automatic, "", "a.example:443").await.expect("one");
    assert_eq!(found, Some("a.example".to_owned()));
    let found = asked(automatic, "", "").await.expect("one");
    assert_eq!(found, Some("fixed.example".to_owned()));
    let checked = "auto_host_sni: true, auto_sni_san_validation: true";
    let found = asked(checked, "{exact: none}", "a.example").await.expect("one");
    assert_eq!(found, Some("a.example".to_owned()), "the list does not count");
    let refused = asked(checked, "{exact: 'spiffe://b/c'}", "d.example").await;
    assert!(refused.expect_err("it is refused").message().contains("not for `d.example`"));
    let unnamed = asked(checked, "{exact: 'spiffe://b/c'}", "").await.expect("the list counts");
    assert_eq!(unnamed, None);
    // The hostname of a cluster of DNS is the name that it resolves.
    let resources = Resources::default().routes(&one_route("x")).dns("x", "localhost", &a);
    let fields = socket(&format!("auto_host_sni: true, {}", common("")));
    let resources = Resources(format!("{}  {fields}\n", resources.0));
    let control = TestServer::start(resources.snapshot()).await.expect("a server");
    assert_eq!(name(&call(&channel(&control, &folder)).await), Some("a"));
    let asked = a.asked.lock().expect("no panic").last().cloned().flatten();
    assert_eq!(asked, Some("localhost".to_owned()));
}

/// C-121: channels share a connection if it is secured in the same way.
#[tokio::test]
async fn connections_that_are_secured_alike_are_shared() {
    let authority = Authority::new();
    let folder = Folder::trusting(&authority);
    let a = Backend::secured("a", authority.server(&["a.example"])).await;
    let control = TestServer::start(resources(&names("{exact: a.example}"), &a).snapshot()).await;
    let control = control.expect("a server");
    let (one, two) = (channel(&control, &folder), channel(&control, &folder));
    assert_eq!((name(&call(&one).await), name(&call(&two).await)), (Some("a"), Some("a")));
    assert_eq!(a.connections(), 1);
    let other = TestServer::start(resources(&names("{suffix: .example}"), &a).snapshot()).await;
    let other = other.expect("a server");
    assert_eq!(name(&call(&channel(&other, &folder)).await), Some("a"));
    assert_eq!(a.connections(), 2);
}

/// C-125: the trust domain of a certificate says which authorities count.
#[tokio::test]
async fn a_trust_domain_has_authorities_of_its_own() {
    let authority = Authority::new();
    let folder = Folder::new();
    folder.trust_domain("one.example", &authority);
    let roots = "ca_certificate_provider_instance: {instance_name: spiffe}";
    let fields = socket(&format!("common_tls_context: {{validation_context: {{{roots}}}}}"));
    for (uri, why) in [
        ("spiffe://one.example/orders", None),
        ("spiffe://other.example/orders", Some("the trust domain `other.example` is not trusted")),
        ("https://one.example/orders", Some("is no identity of SPIFFE")),
    ] {
        let a = Backend::secured("a", authority.server(&[uri])).await;
        let control = TestServer::start(resources(&fields, &a).snapshot()).await;
        let control = control.expect("a server");
        let result = call(&channel(&control, &folder)).await;
        match why {
            None => assert_eq!(name(&result), Some("a")),
            Some(why) => {
                let refused = result.expect_err("it is refused");
                assert!(refused.message().contains(why), "{refused}");
            }
        }
    }
}

/// C-125: without a provider the authorities are those of the system. They are read from the environment, so a
/// process of its own asks with another one.
#[tokio::test]
async fn authorities_may_be_those_of_the_system() {
    let authority = Authority::new();
    let folder = Folder::trusting(&authority);
    let a = Backend::secured("a", authority.server(&["localhost"])).await;
    let program = std::env::current_exe().expect("a program");
    let (ca, address) = (folder.path("ca.pem"), a.address.to_string());
    let asking = timeout(PATIENCE, spawn_blocking(|| ask(Command::new(program), ca, address)));
    let output = asking.await.expect("an end in time").expect("no panic");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("both were answered"), "{output:?}");
}

fn ask(mut program: Command, ca: PathBuf, address: String) -> Output {
    program.args(["--exact", "tls::the_system_of_the_environment", "--nocapture"]);
    program.env("SSL_CERT_FILE", ca).env_remove("SSL_CERT_DIR").env(SYSTEM, address);
    program.output().expect("a process")
}

/// The part of the test before that the process of its own runs. It has nothing to do otherwise.
#[tokio::test]
async fn the_system_of_the_environment() {
    let Ok(address) = std::env::var(SYSTEM) else { return };
    let a = Backend::at(address.parse().expect("an address"));
    let url = format!("https://localhost:{}", a.address.port());
    let direct = ChannelBuilder::new(&url).build().expect("a channel");
    assert_eq!(name(&call(&direct).await), Some("a"));
    let names = "match_subject_alt_names: [{exact: localhost}]";
    let context = format!("validation_context: {{system_root_certs: {{}}, {names}}}");
    let fields = socket(&format!("common_tls_context: {{{context}}}"));
    let control = TestServer::start(resources(&fields, &a).snapshot()).await.expect("a server");
    assert_eq!(name(&call(&channel(&control, &Folder::new())).await), Some("a"));
    println!("both were answered");
}

/// C-119, C-121: each cluster of an aggregate has its own security.
#[tokio::test]
async fn each_cluster_of_an_aggregate_has_its_own_security() {
    let authority = Authority::new();
    let folder = Folder::trusting(&authority);
    let a = Backend::secured("a", authority.server(&["a.example"])).await;
    let b = Backend::start("b").await;
    let url = "type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig";
    let aggregate = format!(
        r#"
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: all
  cluster_type: {{name: envoy.clusters.aggregate, typed_config: {{"@type": {url}, clusters: [x, y]}}}}
"#
    );
    let all = |x: &str, y: &str| {
        let resources = Resources::default().routes(&one_route("all"));
        let resources = resources.cluster("x", x).endpoints("x", &[&[&a]]);
        let resources = resources.cluster("y", y).endpoints("y", &[&[&b]]);
        Resources(resources.0 + &aggregate).snapshot()
    };
    let control = TestServer::start(all(&names(""), "")).await.expect("a server");
    let channel = channel(&control, &folder);
    assert_eq!(spread(&channel, 5).await, [("a".to_owned(), 5)].into());
    control.publish(all(&names("{exact: b.example}"), ""));
    until(&channel, "the second", |result| name(result) == Some("b")).await;
    control.publish(all(&names("{exact: a.example}"), &names("")));
    until(&channel, "the first", |result| name(result) == Some("a")).await;
}

/// C-127: a call that goes under the hostname of its endpoint goes only to a server whose certificate is for that, if
/// the program's files are what verifies it. Where the control plane lists names, these count.
#[tokio::test]
async fn an_authority_that_is_rewritten_is_in_the_certificate() {
    let authority = Authority::new();
    let folder = Folder::trusting(&authority);
    let files = TlsFiles { ca: Some(folder.path("ca.pem")), ..TlsFiles::default() };
    let a = Backend::secured("a", authority.server(&["service", "a.example"])).await;
    let called = async |fields: &str, hostname: &str| {
        let routes = "[{match: {prefix: /}, route: {cluster: x, auto_host_rewrite: true}}]";
        let resources = Resources::default().routes(routes).cluster("x", fields);
        let resources = resources.endpoints("x", &[&[&a]]);
        let hostname = format!("{{endpoint: {{hostname: '{hostname}', ");
        let resources = Resources(resources.0.replace("{endpoint: {", &hostname));
        let control = TestServer::start(resources.snapshot()).await.expect("a server");
        let features = ServerFeatures { trusted: true, ..ServerFeatures::default() };
        let mut bootstrap = bootstrap(control.address(), features);
        bootstrap.certificate_providers.extend(folder.providers());
        let builder = ChannelBuilder::new("xds:///service").bootstrap(bootstrap);
        let credentials = Credentials::xds(Credentials::tls(files.clone()));
        let channel = builder.credentials(credentials).build().expect("a channel");
        call_to(&channel, "/t/echo", with("k", "v")).await
    };
    assert_eq!(called("", "A.example:80").await.expect("one"), "a A.example:80 -");
    assert_eq!(called("", "service").await.expect("one"), "a service -");
    let refused = called("", "b.example").await.expect_err("it is refused");
    assert_eq!(refused.code(), Code::Unavailable);
    let why = "`b.example`: it is the authority of the call, and the certificate";
    assert!(refused.message().contains(why), "{refused}");
    let by_control_plane = called(&names("{exact: a.example}"), "b.example").await;
    assert_eq!(by_control_plane.expect("one"), "a b.example -");
}

/// A server that does not agree on HTTP/2 is no server of gRPC.
#[tokio::test]
async fn a_server_has_to_agree_on_http_2() {
    let authority = Authority::new();
    let mut config = authority.server(&["localhost"]);
    config.alpn_protocols.clear();
    let a = Backend::secured("a", config).await;
    let folder = Folder::trusting(&authority);
    let control = TestServer::start(resources(&names(""), &a).snapshot()).await;
    let control = control.expect("a server");
    let refused = call(&channel(&control, &folder)).await.expect_err("it is refused");
    assert!(refused.message().contains("did not agree on HTTP/2"), "{refused}");
}

/// The address of the backend for a process of its own.
const SYSTEM: &str = "CHANCERY_TEST_SYSTEM_AUTHORITIES";
