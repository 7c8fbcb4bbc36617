//! TLS of servers, as the control plane or the program asks for it: real handshakes with certificates of real
//! providers.

use std::net::SocketAddr;
use std::sync::Arc;

use chancery_client::credentials::{Identity, TlsFiles};
use chancery_grpc::{Credentials, ServerBuilder};
use chancery_testkit::TestServer;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::sign::SingleCertAndKey;

use super::certificates::{Authority, Folder};
use super::support::{
    Answer, Peer, Resources, Running, SERVED, bootstrap, call, chain, inline, rejection, silence,
    within,
};
use super::{LDS, OK, PERMISSION_DENIED, control};

const CONTEXT: &str =
    "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";
/// Mutual TLS.
const MUTUAL: &str = "require_client_certificate: true, common_tls_context: {\
    tls_certificate_provider_instance: {instance_name: identity}, \
    validation_context: {ca_certificate_provider_instance: {instance_name: roots}}}";
/// TLS that asks clients for nothing.
const SIMPLE: &str =
    "common_tls_context: {tls_certificate_provider_instance: {instance_name: identity}}";

/// The listener of a server with one chain, which has this context and these filters.
fn listener(address: SocketAddr, context: &str, filters: &str) -> Resources {
    let socket = format!(
        "transport_socket: {{name: envoy.transport_sockets.tls, typed_config: {{\"@type\": {CONTEXT}, {context}}}}},"
    );
    let chain = chain(&socket, &inline(SERVED), filters);
    Resources::default().listener(address, &format!("default_filter_chain: {chain}"))
}

/// A server whose providers are a folder, with these settings.
fn server(
    control: &TestServer,
    folder: &Folder,
    settings: impl Fn(ServerBuilder) -> ServerBuilder,
) -> Running {
    Running::set(control, |builder| {
        let mut bootstrap = bootstrap(control.address());
        bootstrap.certificate_providers.extend(folder.providers());
        settings(builder.bootstrap(bootstrap))
    })
}

/// A client that trusts the authorities of a folder, and shows its certificate if it has one.
fn client(folder: &Folder) -> ClientConfig {
    let roots = chancery_tls::authorities(&folder.path("ca.pem")).expect("authorities");
    let builder = ClientConfig::builder_with_provider(chancery_tls::provider());
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    let builder = builder.with_root_certificates(roots);
    let (cert, key) = (folder.path("cert.pem"), folder.path("key.pem"));
    let mut config = match chancery_tls::identity(&cert, &key) {
        Ok(identity) => {
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)))
        }
        Err(_) => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

/// Makes a handshake with a server that has a certificate for `server.example`.
async fn secured(
    address: SocketAddr,
    config: ClientConfig,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = within(TcpStream::connect(address)).await.expect("a connection");
    let name = "server.example".try_into().expect("a name");
    within(TlsConnector::from(Arc::new(config)).connect(name, stream)).await
}

/// Makes a call over TLS.
async fn call_over(address: SocketAddr, config: ClientConfig) -> Answer {
    let stream = secured(address, config).await.expect("a handshake");
    Peer::over(stream).await.call("service", "/t/echo").await
}

/// Returns true if the server ends a connection, whose handshake may look fine to the client until then.
async fn is_refused(address: SocketAddr, config: ClientConfig) -> bool {
    match secured(address, config).await {
        Err(_) => true,
        // A server of HTTP/2 has something to say at once.
        Ok(mut stream) => within(stream.read_u8()).await.is_err(),
    }
}

/// The folder of a server, with its certificate and the authority of its clients.
fn folder_of_server(authority: &Authority) -> Folder {
    let folder = Folder::trusting(authority);
    folder.identify(&authority.sign(&["server.example"]));
    folder
}

fn folder_of_client(authority: &Authority, names: &[&str]) -> Folder {
    let folder = Folder::trusting(authority);
    folder.identify(&authority.sign(names));
    folder
}

/// C-146: a client of a chain with mutual TLS shows a certificate, and is not heard without one.
#[tokio::test]
async fn a_chain_has_the_tls_that_it_asks_for() {
    let (control, authority, other) = (control().await, Authority::new(), Authority::new());
    let folder = folder_of_server(&authority);
    let mut server = server(&control, &folder, |builder| builder);
    control.publish(listener(server.address, MUTUAL, "").snapshot());
    server.serves().await;
    let known = folder_of_client(&authority, &["client.example"]);
    assert_eq!(call_over(server.address, client(&known)).await.code, OK);
    let nobody = Folder::trusting(&authority);
    assert!(is_refused(server.address, client(&nobody)).await);
    let stranger = folder_of_client(&other, &["client.example"]);
    stranger.trust(&authority);
    assert!(is_refused(server.address, client(&stranger)).await);
    // A connection that does not begin with TLS ends.
    assert_ne!(call(server.address, "/t/echo").await.code, OK);
    // Another chain asks clients for nothing. A certificate that may be shown is verified all the same.
    control.publish(listener(server.address, SIMPLE, "").snapshot());
    let accepted = async {
        while is_refused(server.address, client(&nobody)).await {
            tokio::task::yield_now().await;
        }
    };
    within(accepted).await;
    assert_eq!(call_over(server.address, client(&nobody)).await.code, OK);
    let optional = MUTUAL.replace("true", "false");
    control.publish(listener(server.address, &optional, "").snapshot());
    let verified = async {
        while !is_refused(server.address, client(&stranger)).await {
            tokio::task::yield_now().await;
        }
    };
    within(verified).await;
    assert_eq!(call_over(server.address, client(&nobody)).await.code, OK);
    assert_eq!(call_over(server.address, client(&known)).await.code, OK);
}

/// C-146: a client has to agree on HTTP/2.
#[tokio::test]
async fn a_client_agrees_on_http_2() {
    let (control, authority) = (control().await, Authority::new());
    let folder = folder_of_server(&authority);
    let mut server = server(&control, &folder, |builder| builder);
    control.publish(listener(server.address, SIMPLE, "").snapshot());
    server.serves().await;
    for protocols in [vec![], vec![b"http/1.1".to_vec()]] {
        let mut config = client(&Folder::trusting(&authority));
        config.alpn_protocols = protocols;
        assert!(is_refused(server.address, config).await);
    }
    assert_eq!(call_over(server.address, client(&Folder::trusting(&authority))).await.code, OK);
}

/// C-129: the name of a principal is that of the certificate of the client: a URI, or else a name of DNS.
#[tokio::test]
async fn rbac_knows_the_names_of_clients() {
    let (control, authority) = (control().await, Authority::new());
    let folder = folder_of_server(&authority);
    let mut server = server(&control, &folder, |builder| builder);
    let filter = "{name: rbac, typed_config: {\
        \"@type\": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC, \
        rules: {action: ALLOW, policies: {p: {permissions: [{any: true}], principals: [\
            {authenticated: {principal_name: {exact: \"spiffe://mesh.example/a\"}}}, \
            {authenticated: {principal_name: {exact: \"b.example\"}}}]}}}}},";
    control.publish(listener(server.address, MUTUAL, filter).snapshot());
    server.serves().await;
    for (names, code) in [
        (&["spiffe://mesh.example/a"][..], OK),
        (&["b.example"], OK),
        (&["spiffe://mesh.example/b"], PERMISSION_DENIED),
        // A URI hides the names of DNS.
        (&["b.example", "spiffe://mesh.example/b"], PERMISSION_DENIED),
    ] {
        let folder = folder_of_client(&authority, names);
        let answer = call_over(server.address, client(&folder)).await;
        assert_eq!(answer.code, code, "{names:?}");
    }
}

/// C-124: the next handshake has the certificate of now, and connections that are open stay.
#[tokio::test]
async fn certificates_are_replaced_while_the_server_runs() {
    let (control, old, new) = (control().await, Authority::new(), Authority::new());
    let folder = folder_of_server(&old);
    let mut server = server(&control, &folder, |builder| builder);
    control.publish(listener(server.address, SIMPLE, "").snapshot());
    server.serves().await;
    let (trusts_old, trusts_new) = (Folder::trusting(&old), Folder::trusting(&new));
    let stream = secured(server.address, client(&trusts_old)).await.expect("a handshake");
    let mut peer = Peer::over(stream).await;
    assert_eq!(peer.call("service", "/t/echo").await.code, OK);
    assert!(is_refused(server.address, client(&trusts_new)).await);
    folder.identify(&new.sign(&["server.example"]));
    assert_eq!(call_over(server.address, client(&trusts_new)).await.code, OK);
    assert!(is_refused(server.address, client(&trusts_old)).await);
    assert_eq!(peer.call("service", "/t/echo").await.code, OK);
}

/// C-146: where TLS is asked for and no certificate can be had, nothing is said in the clear.
#[tokio::test]
async fn a_chain_without_a_certificate_is_not_served() {
    let control = control().await;
    let folder = Folder::new();
    let mut server = server(&control, &folder, |builder| builder);
    control.publish(listener(server.address, SIMPLE, "").snapshot());
    server.serves().await;
    assert_eq!(silence(server.address).await, b"");
    assert_ne!(call(server.address, "/t/echo").await.code, OK);
}

/// C-146: the control plane hears of a provider that the bootstrap does not have.
#[tokio::test]
async fn providers_are_those_of_the_bootstrap() {
    let control = control().await;
    let server = Running::start(&control);
    control.publish(listener(server.address, SIMPLE, "").snapshot());
    let why = rejection(&control, LDS).await;
    let expected = "`certificate_providers` of the bootstrap has none of the name `identity`";
    assert!(why.contains(expected), "{why}");
}

/// gRFC A29: the program chooses what secures the chains that the control plane says nothing of, and whether it
/// has a say.
#[tokio::test]
async fn the_program_chooses_the_credentials() {
    let (control, authority) = (control().await, Authority::new());
    let folder = folder_of_server(&authority);
    let own = folder_of_server(&authority);
    let files = TlsFiles {
        ca: None,
        identity: Some(Identity { cert: own.path("cert.pem"), key: own.path("key.pem") }),
        ..TlsFiles::default()
    };
    let trusting = Folder::trusting(&authority);
    let plain = |address| Resources::default().simple(address, &inline(SERVED));
    // The fallback is for chains without a context.
    let credentials = Credentials::xds(Credentials::tls(files.clone()));
    let mut fallback = server(&control, &folder, |it| it.credentials(credentials.clone()));
    control.publish(plain(fallback.address).snapshot());
    fallback.serves().await;
    assert_eq!(call_over(fallback.address, client(&trusting)).await.code, OK);
    assert_ne!(call(fallback.address, "/t/echo").await.code, OK);
    // With authorities, clients have to show a certificate.
    let files = TlsFiles { ca: Some(own.path("ca.pem")), ..files };
    let mut mutual =
        server(&control, &folder, |it| it.credentials(Credentials::tls(files.clone())));
    control.publish(plain(mutual.address).snapshot());
    mutual.serves().await;
    assert!(is_refused(mutual.address, client(&trusting)).await);
    let known = folder_of_client(&authority, &["client.example"]);
    assert_eq!(call_over(mutual.address, client(&known)).await.code, OK);
    // Without xDS credentials the control plane has no say.
    let mut open = server(&control, &folder, |it| it.credentials(Credentials::insecure()));
    control.publish(listener(open.address, SIMPLE, "").snapshot());
    open.serves().await;
    assert_eq!(call(open.address, "/t/echo").await.code, OK);
    // A server without a certificate has no TLS.
    let builder = ServerBuilder::new("127.0.0.1:0").bootstrap(bootstrap(control.address()));
    let error = builder.credentials(Credentials::tls(TlsFiles::default())).build();
    let why = "the credentials of a server need a certificate with its key (`identity`)";
    assert_eq!(error.expect_err("it has none").to_string(), why);
}
