//! Servers on loopback, resources for them, and connections that make calls.

#[path = "../../../chancery/tests/ports/mod.rs"]
pub(crate) mod ports;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes};
use chancery_client::Bootstrap;
use chancery_client::bootstrap::{Node, ServerFeatures, Template, XdsServer};
use chancery_client::credentials::ChannelCredentials;
use chancery_core::{Snapshot, TypeUrl};
use chancery_grpc::{ConnectionInfo, ServerBuilder, ServerError, ServingState};
use chancery_proto::document::{Format, parse};
use chancery_proto::schema::Schema;
use chancery_testkit::{TestEventKind, TestServer};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::body::Body;
use tower_service::Service;

use ports::Port;

/// The time that everything here may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits, but not for ever.
#[track_caller]
pub(crate) fn within<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let place = std::panic::Location::caller();
    async move {
        let waited = tokio::time::timeout(PATIENCE, future).await;
        waited.unwrap_or_else(|_| panic!("waited in vain at {place}"))
    }
}

/// A program that answers each call with its authority, and one of the path `/t/slow` when it is released.
#[derive(Clone)]
pub(crate) struct Program {
    released: watch::Receiver<bool>,
    /// Told of each slow call that has arrived.
    arrived: mpsc::Sender<()>,
}

impl Service<Request<Body>> for Program {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut program = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            if head.uri.path() == "/t/slow" {
                program.arrived.send(()).await.expect("the test goes on");
                let _ = program.released.wait_for(|is_released| *is_released).await;
            }
            if head.uri.path() == "/t/endless" {
                let message = Bytes::from_static(&[0, 0, 0, 0, 1, b'a']);
                let mut response = Response::new(Body::new(Endless(Some(message))));
                let kind = "application/grpc".parse().expect("a value");
                response.headers_mut().insert("content-type", kind);
                return Ok(response);
            }
            let _ = body.collect().await;
            let info = head.extensions.get::<ConnectionInfo>().expect("it is there");
            let authority = head.uri.authority().map(ToString::to_string).unwrap_or_default();
            Ok(message(&format!("{authority} {}", info.local_address().ip())))
        })
    }
}

/// A body of one message that does not end.
struct Endless(Option<Bytes>);

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |it| Poll::Ready(Some(Ok(http_body::Frame::data(it)))))
    }
}

/// A response of one message.
fn message(text: &str) -> Response<Body> {
    let mut message = vec![0];
    message.put_u32(u32::try_from(text.len()).expect("a short text"));
    message.put_slice(text.as_bytes());
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().expect("a value"));
    let body = Full::new(Bytes::from(message)).with_trailers(async move { Some(Ok(trailers)) });
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert("content-type", "application/grpc".parse().expect("a value"));
    response
}

/// A server that runs.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    states: mpsc::Receiver<ServingState>,
    release: watch::Sender<bool>,
    slow: mpsc::Receiver<()>,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) task: JoinHandle<Result<(), ServerError>>,
    _port: Port,
}

/// A builder of a server at this address, with this control plane.
fn builder(control: SocketAddr, address: &str) -> ServerBuilder {
    ServerBuilder::new(address).bootstrap(bootstrap(control))
}

/// A bootstrap with this control plane. What it removes or gets wrong is not to be used any more.
pub(crate) fn bootstrap(control: SocketAddr) -> Bootstrap {
    let features = ServerFeatures { fail_on_data_errors: true, ..ServerFeatures::default() };
    bootstrap_by(control, features)
}

/// A bootstrap with this control plane, whose last good resources stay in use.
pub(crate) fn patient(control: SocketAddr) -> Bootstrap {
    bootstrap_by(control, ServerFeatures::default())
}

fn bootstrap_by(control: SocketAddr, features: ServerFeatures) -> Bootstrap {
    let channel = ChannelCredentials::Insecure;
    let uri = control.to_string();
    Bootstrap {
        servers: vec![XdsServer { uri, channel, features, ..XdsServer::default() }],
        node: Node { id: "test".to_owned(), ..Node::default() },
        server_template: Some(Template::new("server/%s")),
        ..Bootstrap::default()
    }
}

impl Running {
    /// Starts a server on loopback.
    pub(crate) fn start(control: &TestServer) -> Self {
        Self::set(control, |builder| builder)
    }

    /// Starts a server on loopback with these settings.
    pub(crate) fn set(
        control: &TestServer,
        settings: impl Fn(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        Self::with(control.address(), "127.0.0.1", settings, |program| program)
    }

    /// Starts a server with this control plane, at this address, with these settings, whose program is
    /// wrapped in something.
    pub(crate) fn with<S>(
        control: SocketAddr,
        ip: &str,
        settings: impl Fn(ServerBuilder) -> ServerBuilder,
        wrap: impl FnOnce(Program) -> S,
    ) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
            + Clone
            + Send
            + 'static,
        S::Future: Send,
    {
        let (told, states) = mpsc::channel(64);
        let (port, server) = loop {
            let port = Port::reserve();
            let told = told.clone();
            let on_state = move |_, state: &ServingState| {
                told.try_send(state.clone()).expect("the test reads states");
            };
            let builder =
                settings(builder(control, &format!("{ip}:{}", port.number()))).on_state(on_state);
            match builder.build() {
                Ok(server) => break (port, server),
                // A control plane of another test takes ports that are reserved.
                Err(ServerError::Bind { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        };
        let address = server.local_address();
        let (release, released) = watch::channel(false);
        let (arrived, slow) = mpsc::channel(64);
        let service = wrap(Program { released, arrived });
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async move {
            if stopped.await.is_err() {
                std::future::pending().await
            }
        };
        let task = tokio::spawn(server.serve_with_shutdown(service, stopped));
        Self { address, states, release, slow, stop: Some(stop), task, _port: port }
    }

    /// Waits for the next state that the program is told of.
    #[track_caller]
    pub(crate) fn state(&mut self) -> impl Future<Output = String> {
        let next = within(self.states.recv());
        async { next.await.expect("the server runs").to_string() }
    }

    /// Waits until the server serves.
    pub(crate) async fn serves(&mut self) {
        while self.state().await != "serving" {}
    }

    /// Waits until a slow call has arrived.
    pub(crate) async fn slow(&mut self) {
        within(self.slow.recv()).await.expect("a call");
    }

    /// Lets slow calls end.
    pub(crate) fn release(&self) {
        self.release.send_replace(true);
    }

    /// Asks the server to shut down.
    pub(crate) fn stop(&mut self) {
        self.stop.take().expect("once").send(()).expect("it runs");
    }
}

/// A connection that makes calls.
pub(crate) struct Peer {
    sender: http2::SendRequest<Full<Bytes>>,
    /// Ends with the connection.
    pub(crate) ended: JoinHandle<hyper::Result<()>>,
}

/// The end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    /// The text of the answer, or the message of the error.
    pub(crate) text: String,
}

impl Peer {
    /// Connects, as a client that sends its calls at once.
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::over(within(TcpStream::connect(address)).await.expect("a connection")).await
    }

    /// The same over a connection.
    pub(crate) async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let builder = http2::Builder::new(TokioExecutor::new());
        let handshake = builder.handshake(TokioIo::new(stream));
        let (sender, connection) = within(handshake).await.expect("a preface that is sent");
        Self { sender, ended: tokio::spawn(connection) }
    }

    /// Makes a call with this authority.
    pub(crate) async fn call(&mut self, authority: &str, path: &str) -> Answer {
        self.begin(authority, path).await.expect("no panic")
    }

    /// Begins a call.
    pub(crate) fn begin(&mut self, authority: &str, path: &str) -> JoinHandle<Answer> {
        let request = Request::post(format!("http://{authority}{path}"));
        let request = request.header("content-type", "application/grpc").header("te", "trailers");
        self.send(request.body(Full::new(Bytes::from_static(&[0; 5]))).expect("a request"))
    }

    /// Begins a call with this request.
    pub(crate) fn send(&mut self, request: Request<Full<Bytes>>) -> JoinHandle<Answer> {
        let sending = self.sender.send_request(request);
        tokio::spawn(async move {
            match within(sending).await {
                Ok(response) => answer(response).await,
                Err(error) => lost(&error),
            }
        })
    }

    /// Waits until the connection has ended.
    pub(crate) async fn ended(self) {
        // The error, if there is one, is that of the socket.
        let _ = within(self.ended).await.expect("no panic");
    }
}

/// The code of a call whose connection or stream broke.
pub(crate) const LOST: i32 = -1;

fn lost(error: &hyper::Error) -> Answer {
    Answer { code: LOST, text: error.to_string() }
}

async fn answer(response: Response<hyper::body::Incoming>) -> Answer {
    let (head, body) = response.into_parts();
    let body = match within(body.collect()).await {
        Ok(body) => body,
        Err(error) => return lost(&error),
    };
    let status = body.trailers().and_then(Status::from_header_map);
    let status = status.or_else(|| Status::from_header_map(&head.headers)).expect("a status");
    let code = status.code().into();
    match body.to_bytes().get(5..) {
        Some(answer) => Answer { code, text: String::from_utf8_lossy(answer).into_owned() },
        None => Answer { code, text: status.message().to_owned() },
    }
}

/// Makes a call on a connection of its own.
pub(crate) async fn call(address: SocketAddr, path: &str) -> Answer {
    Peer::connect(address).await.call("service", path).await
}

/// Makes calls on a connection until one ends as it should.
pub(crate) async fn until(peer: &mut Peer, path: &str, is_right: impl Fn(&Answer) -> bool) {
    let wait = async {
        while !is_right(&peer.call("service", path).await) {
            tokio::task::yield_now().await;
        }
    };
    within(wait).await;
}

/// Connects, says nothing, and returns all bytes that come until the server closes the connection.
pub(crate) async fn silence(address: SocketAddr) -> Vec<u8> {
    let mut stream = within(TcpStream::connect(address)).await.expect("a connection");
    let mut bytes = Vec::new();
    match within(stream.read_to_end(&mut bytes)).await {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}"),
    }
    bytes
}

/// Waits until the client rejects a resource of this type, and returns the reason.
pub(crate) async fn rejection(control: &TestServer, of: &str) -> String {
    let of = TypeUrl::new(of);
    loop {
        if let TestEventKind::Rejected { type_url, error, .. } = control.event().await.kind
            && type_url == of
        {
            return error;
        }
    }
}

/// Waits until the client asks for resources of this type.
pub(crate) async fn subscription(control: &TestServer, of: &str) {
    let of = TypeUrl::new(of);
    loop {
        if let TestEventKind::Subscribed { type_url, .. } = control.event().await.kind
            && type_url == of
        {
            return;
        }
    }
}

/// Resources for servers, in YAML.
#[derive(Clone, Default)]
pub(crate) struct Resources(String);

impl Resources {
    /// The listener of a server at this address, with these fields.
    pub(crate) fn listener(self, address: SocketAddr, fields: &str) -> Self {
        self.listener_at(address, address, fields)
    }

    /// The listener of a server at one address, which is for another address.
    pub(crate) fn listener_at(mut self, address: SocketAddr, at: SocketAddr, fields: &str) -> Self {
        let (ip, port) = (at.ip(), at.port());
        self.0 += &format!(
            "- \"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\n  \
             name: \"server/{address}\"\n  \
             address: {{socket_address: {{address: \"{ip}\", port_value: {port}}}}}\n  {fields}\n"
        );
        self
    }

    /// The listener of a server at this address, with one chain for all connections.
    pub(crate) fn simple(self, address: SocketAddr, routes: &str) -> Self {
        self.listener(address, &format!("default_filter_chain: {}", chain("", routes, "")))
    }

    /// Resources that are written out.
    pub(crate) fn yaml(mut self, yaml: &str) -> Self {
        self.0 += yaml;
        self
    }

    /// Routes of this name, for all authorities.
    pub(crate) fn routes(mut self, name: &str, routes: &str) -> Self {
        self.0 += &format!(
            "- \"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\n  \
             name: {name}\n  virtual_hosts: [{{name: all, domains: [\"*\"], routes: {routes}}}]\n"
        );
        self
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let parsed = parse(&Schema::bundled(), Format::Yaml, self.0.as_bytes());
        assert!(parsed.faults.is_empty(), "{:?}\n{}", parsed.faults, self.0);
        let mut snapshot = Snapshot::new();
        for one in parsed.resources {
            snapshot.insert(&one.type_url, (*one.resource).clone());
        }
        snapshot
    }
}

/// A filter chain with these fields of its own, these routes, and these filters before the router.
pub(crate) fn chain(fields: &str, routes: &str, filters: &str) -> String {
    const MANAGER: &str = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
    format!(
        "{{{fields} filters: [{{name: manager, typed_config: {{\"@type\": {MANAGER}, stat_prefix: x, {routes}, \
         http_filters: [{filters} {{name: router, typed_config: {{\"@type\": {ROUTER}}}}}]}}}}]}}"
    )
}

/// Routes in a listener, for all authorities.
pub(crate) fn inline(routes: &str) -> String {
    format!(
        "route_config: {{name: inline, virtual_hosts: [{{name: all, domains: [\"*\"], routes: {routes}}}]}}"
    )
}

/// Routes of this name.
pub(crate) fn rds(name: &str) -> String {
    format!("rds: {{route_config_name: {name}, config_source: {{ads: {{}}}}}}")
}

/// A route for all calls to the program.
pub(crate) const SERVED: &str = "[{match: {prefix: \"\"}, non_forwarding_action: {}}]";
