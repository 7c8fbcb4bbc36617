//! Connections by way of a proxy that the control plane names.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use chancery_testkit::TestServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tonic::Code;

use super::certificates::{Authority, Folder};
use super::one_route;
use super::support::ports::Port;
use super::support::{Backend, Resources, call, name, until};
use super::tls::builder;

/// A proxy that knows `CONNECT`, and what it was asked for.
struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
    _port: Port,
}

impl Proxy {
    /// Starts a proxy that answers with this code.
    async fn start(code: u16) -> Self {
        let port = Port::reserve();
        let listener = TcpListener::bind(port.address()).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let asking = Arc::clone(&asked);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.spawn(pass(stream, code, Arc::clone(&asking)));
            }
        });
        Self { address, asked, _tasks: tasks, _port: port }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }
}

async fn pass(mut client: TcpStream, code: u16, asked: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = client.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).expect("a text");
    let target = head.split(' ').nth(1).expect("a target").to_owned();
    assert!(head.starts_with("CONNECT "), "{head}");
    asked.lock().expect("no panic").push(target.clone());
    let answer = format!("HTTP/1.1 {code} So\r\nvia: test\r\n\r\n");
    let _ = client.write_all(answer.as_bytes()).await;
    if code == 200 {
        let mut server = TcpStream::connect(target).await.expect("the backend");
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}

/// A cluster `x` by way of a proxy, with this socket inside; the metadata is that of the endpoint.
fn resources(inner: &str, proxy: Option<&Proxy>, backend: &Backend) -> Resources {
    let url = "type.googleapis.com/envoy.extensions.transport_sockets.http_11_proxy.v3.Http11ProxyUpstreamTransport";
    let socket = format!(
        r#"transport_socket: {{name: envoy.transport_sockets.http_11_proxy, typed_config: {{"@type": {url}, {inner}}}}}"#
    );
    let resources = Resources::default().routes(&one_route("x")).cluster("x", &socket);
    let resources = resources.endpoints("x", &[&[backend]]);
    let Some(proxy) = proxy else { return resources };
    let (host, port) = (proxy.address.ip(), proxy.address.port());
    let url = "type.googleapis.com/envoy.config.core.v3.Address";
    let metadata = format!(
        r#"{{metadata: {{typed_filter_metadata: {{envoy.http11_proxy_transport_socket.proxy_address: {{"@type": {url}, socket_address: {{address: {host}, port_value: {port}}}}}}}}}, endpoint: {{"#
    );
    Resources(resources.0.replace("{endpoint: {", &metadata))
}

/// C-128: the proxy is asked for the address of the endpoint, and TLS goes through it. An endpoint that names no
/// proxy is connected to itself.
#[tokio::test]
async fn a_connection_goes_by_way_of_the_proxy() {
    let authority = Authority::new();
    let (a, b) =
        (Backend::start("a").await, Backend::secured("b", authority.server(&["b.example"])).await);
    let folder = Folder::trusting(&authority);
    let proxy = Proxy::start(200).await;
    let control = TestServer::start(resources("", Some(&proxy), &a).snapshot()).await;
    let control = control.expect("a server");
    let channel = builder(&control, &folder).build().expect("a channel");
    assert_eq!(name(&call(&channel).await), Some("a"));
    assert_eq!(proxy.asked(), [a.address.to_string()]);
    let tls = super::tls::names("{exact: b.example}");
    control.publish(resources(&tls, Some(&proxy), &b).snapshot());
    until(&channel, "TLS", |result| name(result) == Some("b")).await;
    assert_eq!(proxy.asked(), [a.address.to_string(), b.address.to_string()]);
    control.publish(resources("", None, &a).snapshot());
    until(&channel, "no proxy", |result| name(result) == Some("a")).await;
    assert_eq!(proxy.asked().len(), 2);
}

/// C-128: a proxy that refuses is never passed by.
#[tokio::test]
async fn a_proxy_that_refuses_fails_the_connection() {
    let a = Backend::start("a").await;
    let proxy = Proxy::start(403).await;
    let control = TestServer::start(resources("", Some(&proxy), &a).snapshot()).await;
    let control = control.expect("a server");
    let channel = builder(&control, &Folder::new()).build().expect("a channel");
    let failed = call(&channel).await.expect_err("it is refused");
    assert_eq!(failed.code(), Code::Unavailable);
    let why = format!("proxy {}: it answered `HTTP/1.1 403 So`", proxy.address);
    assert!(failed.message().contains(&why), "{failed}");
    assert_eq!(a.connections(), 0);
}
