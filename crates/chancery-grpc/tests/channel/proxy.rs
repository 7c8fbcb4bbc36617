//! Connections by way of a proxy that the control plane names, or the environment.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};

use chancery_grpc::{ChannelBuilder, Credentials};
use chancery_testkit::TestServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, spawn_blocking};
use tonic::Code;

use super::certificates::{Authority, Folder};
use super::one_route;
use super::support::ports::Port;
use super::support::{Backend, Resources, call, call_to, name, until, with, within};
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
        Self::start_to(code, None).await
    }

    /// The same that leads to this server, whatever it is asked for.
    async fn start_to(code: u16, server: Option<SocketAddr>) -> Self {
        let port = Port::reserve();
        let listener = TcpListener::bind(port.address()).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let asking = Arc::clone(&asked);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.spawn(pass(stream, code, server, Arc::clone(&asking)));
            }
        });
        Self { address, asked, _tasks: tasks, _port: port }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }
}

async fn pass(
    mut client: TcpStream,
    code: u16,
    server: Option<SocketAddr>,
    asked: Arc<Mutex<Vec<String>>>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = client.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).expect("a text");
    let target = head.split(' ').nth(1).expect("a target").to_owned();
    assert!(head.starts_with("CONNECT "), "{head}");
    let who = head.lines().find_map(|line| line.strip_prefix("Proxy-Authorization: "));
    let who = who.map(|who| format!(" {who}")).unwrap_or_default();
    asked.lock().expect("no panic").push(format!("{target}{who}"));
    let target = server.map_or(target, |it| it.to_string());
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

/// Makes a call to a target in a process with this environment, and returns what it ends with. The environment of this
/// process is that of all tests.
async fn called_in(target: &str, environment: &[(&str, &str)]) -> String {
    let this = std::env::current_exe().expect("a program");
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let mut environment: Vec<_> = environment.iter().map(owned).collect();
    environment.push((TARGET.to_owned(), target.to_owned()));
    let output = within(spawn_blocking(|| output(Command::new(this), environment))).await;
    let text = output.expect("no panic");
    let answer = text.lines().find_map(|line| line.strip_prefix("ended: "));
    answer.unwrap_or_else(|| panic!("{text}")).to_owned()
}

/// Runs this program for the one call, which has an end.
fn output(mut child: Command, environment: Vec<(String, String)>) -> String {
    for name in ["https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"] {
        child.env_remove(name);
    }
    child.env_remove("SSL_CERT_DIR");
    child.args(["--exact", "proxy::a_process_of_its_own_calls", "--nocapture", "--quiet"]);
    let output = child.envs(environment).output().expect("it runs");
    String::from_utf8(output.stdout).expect("a text")
}

/// The target of the calls of a process that another test has started.
const TARGET: &str = "CHANCERY_TEST_TARGET";

#[tokio::test]
async fn a_process_of_its_own_calls() {
    let Ok(target) = std::env::var(TARGET) else { return };
    let builder = ChannelBuilder::new(&target);
    let channel = match target.starts_with("https:") {
        true => builder.build(),
        false => builder.credentials(Credentials::insecure()).build(),
    };
    match channel {
        Ok(channel) => match call_to(&channel, "/t/echo", with("k", "v")).await {
            Ok(answer) => println!("ended: {answer}"),
            Err(status) => println!("ended: {}", status.message()),
        },
        Err(error) => println!("ended: {error}"),
    }
}

/// gRFC A1: the proxy of the environment looks up the name of an ordinary target, or is asked for its address, unless an
/// exception says otherwise; TLS goes through it. It is never passed by if it refuses.
#[tokio::test]
async fn the_environment_names_a_proxy() {
    let a = Backend::start("a").await;
    let proxy = Proxy::start_to(200, Some(a.address)).await;
    let url = format!("http://u:p%40@{}", proxy.address);
    let by = [("https_proxy", url.as_str()), ("no_proxy", "inner.example")];
    let answer = called_in("dns:///orders.example:8080", &by).await;
    assert_eq!(answer, "a orders.example:8080 -");
    assert_eq!(proxy.asked(), ["orders.example:8080 Basic dTpwQA=="]);
    assert_eq!(called_in("ipv4:192.0.2.1:80", &by).await, "a 192.0.2.1:80 -");
    assert_eq!(proxy.asked()[1..], ["192.0.2.1:80 Basic dTpwQA=="]);
    let local = a.address.to_string();
    assert_eq!(called_in(&local, &by).await, format!("a {local} -"));
    assert_eq!(proxy.asked().len(), 2);
    let authority = Authority::new();
    let b = Backend::secured("b", authority.server(&["orders.example"])).await;
    let (folder, proxy) =
        (Folder::trusting(&authority), Proxy::start_to(200, Some(b.address)).await);
    let (url, ca) = (proxy.address.to_string(), folder.path("ca.pem"));
    let by = [("https_proxy", url.as_str()), ("SSL_CERT_FILE", ca.to_str().expect("a text"))];
    assert_eq!(called_in("https://orders.example", &by).await, "b orders.example -");
    assert_eq!(proxy.asked(), ["orders.example:443"]);
    let refusing = Proxy::start(403).await;
    let url = refusing.address.to_string();
    let ended = called_in("orders.example:8080", &[("HTTPS_PROXY", &url)]).await;
    let why = format!(
        "orders.example:8080 by way of proxy {url}: proxy {url}: it answered `HTTP/1.1 403 So`"
    );
    assert!(ended.ends_with(&why), "{ended}");
    let ended = called_in("orders.example:8080", &[("https_proxy", "https://u:secret@p")]).await;
    assert!(ended.contains("a proxy of `https:` is not supported"), "{ended}");
    assert!(!ended.contains("secret"), "{ended}");
}

/// gRFC A1, C-128: the proxy of the environment is never that of a target of `xds:`.
#[tokio::test]
async fn the_environment_has_no_proxy_for_xds() {
    let a = Backend::start("a").await;
    let proxy = Proxy::start(403).await;
    let resources = Resources::default().routes(&one_route("x")).cluster("x", "");
    let control = TestServer::start(resources.endpoints("x", &[&[&a]]).snapshot()).await;
    let control = control.expect("a server");
    let bootstrap = format!(
        r#"{{"xds_servers": [{{"server_uri": "{}", "channel_creds": [{{"type": "insecure"}}]}}], "node": {{"id": "n"}}}}"#,
        control.address()
    );
    let url = proxy.address.to_string();
    let environment = [("https_proxy", url.as_str()), ("GRPC_XDS_BOOTSTRAP_CONFIG", &bootstrap)];
    assert_eq!(called_in("xds:///service", &environment).await, "a service -");
    assert_eq!(proxy.asked(), [""; 0]);
}
