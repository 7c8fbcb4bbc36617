//! Backends on loopback, resources that lead to them, and calls through a channel.

#[path = "../../../chancery/tests/ports/mod.rs"]
pub(crate) mod ports;

#[path = "../../../chancery/src/call/codec.rs"]
mod codec;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{BufMut, Bytes};
use chancery_client::Bootstrap;
use chancery_client::bootstrap::{Node, ServerFeatures, XdsServer};
use chancery_client::credentials::ChannelCredentials;
use chancery_core::Snapshot;
use chancery_grpc::{Channel, ChannelBuilder};
use chancery_proto::document::{Format, parse};
use chancery_proto::schema::Schema;
use chancery_testkit::TestServer;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use codec::BytesCodec;
use ports::Port;

/// The time that everything here may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Lets something take the time that everything may take.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it takes no longer")
}

/// A gRPC server that answers each call with its own name.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
    /// The names that clients asked for in handshakes, in their order.
    pub(crate) asked: Arc<Mutex<Vec<Option<String>>>>,
    _tasks: JoinSet<()>,
    _port: Option<Port>,
}

impl Backend {
    /// Starts a server of this name. The path `/t/slow` is answered never, and `/t/fail` with an
    /// error, as all calls are to a server of the name `bad`.
    pub(crate) async fn start(name: &'static str) -> Self {
        Self::serve(move |request| answer(name, request)).await
    }

    /// The same that takes no connection without TLS.
    pub(crate) async fn secured(name: &'static str, config: ServerConfig) -> Self {
        let tls = TlsAcceptor::from(Arc::new(config));
        Self::launch(move |request| answer(name, request), Some(tls), Ipv4Addr::LOCALHOST).await
    }

    /// The same at a port of every address of loopback.
    pub(crate) async fn start_everywhere(name: &'static str) -> Self {
        Self::launch(move |request| answer(name, request), None, Ipv4Addr::UNSPECIFIED).await
    }

    /// Starts a server that answers with this function.
    pub(crate) async fn serve<F>(
        answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Response<Answer>, Infallible>> + Send + 'static,
    {
        Self::launch(answer, None, Ipv4Addr::LOCALHOST).await
    }

    async fn launch<F>(
        answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        tls: Option<TlsAcceptor>,
        ip: Ipv4Addr,
    ) -> Self
    where
        F: Future<Output = Result<Response<Answer>, Infallible>> + Send + 'static,
    {
        let port = Port::reserve();
        let listener = TcpListener::bind((ip, port.number())).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let connections = Arc::<AtomicUsize>::default();
        let mut tasks = JoinSet::new();
        let calls = Arc::<AtomicUsize>::default();
        let (counter, call_counter) = (Arc::clone(&connections), Arc::clone(&calls));
        let asked = Arc::<Mutex<Vec<Option<String>>>>::default();
        let asking = Arc::clone(&asked);
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::Relaxed);
                let (answer, calls) = (answer.clone(), Arc::clone(&call_counter));
                let answer = move |request| {
                    calls.fetch_add(1, Ordering::Relaxed);
                    answer(request)
                };
                let (tls, asked) = (tls.clone(), Arc::clone(&asking));
                open.spawn(async move {
                    let Some(tls) = tls else { return serve(answer, stream).await };
                    // A client that refuses the certificate is no fault of the server.
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let server_name = stream.get_ref().1.server_name().map(str::to_owned);
                    asked.lock().expect("no panic").push(server_name);
                    serve(answer, stream).await;
                });
            }
        });
        Self { address, connections, calls, asked, _tasks: tasks, _port: Some(port) }
    }

    /// An address where something else listens.
    pub(crate) fn at(address: SocketAddr) -> Self {
        let (connections, calls, asked) = Default::default();
        Self { address, connections, calls, asked, _tasks: JoinSet::new(), _port: None }
    }

    /// The calls that it has been sent.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// Answers the calls of one connection with this name.
pub(crate) async fn answer_on(
    name: &'static str,
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) {
    serve(move |request| answer(name, request), io).await;
}

async fn serve<F>(
    answer: impl Fn(Request<Incoming>) -> F,
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) where
    F: Future<Output = Result<Response<Answer>, Infallible>> + Send + 'static,
{
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    // A client that goes away is no fault of the server.
    let _ = server.serve_connection(TokioIo::new(io), service_fn(answer)).await;
}

/// The body of an answer.
pub(crate) type Answer = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

async fn answer(name: &str, request: Request<Incoming>) -> Result<Response<Answer>, Infallible> {
    let (head, body) = request.into_parts();
    if head.uri.path() == "/t/slow" {
        std::future::pending::<()>().await;
    }
    let _ = body.collect().await;
    let fails = name == "bad" || head.uri.path() == "/t/fail";
    let status = if fails { "9" } else { "0" };
    let timeout = head.headers.get("grpc-timeout").and_then(|it| it.to_str().ok()).unwrap_or("-");
    let authority = head.uri.authority().map(ToString::to_string).unwrap_or_default();
    let text = match head.uri.path() {
        "/t/scheme" => head.uri.scheme_str().unwrap_or("-").to_owned(),
        _ => format!("{name} {authority} {timeout}"),
    };
    Ok(message(&text, status))
}

/// An answer with one message, and a status after it.
pub(crate) fn message(text: &str, status: &'static str) -> Response<Answer> {
    let mut message = vec![0];
    message.put_u32(u32::try_from(text.len()).expect("a short text"));
    message.put_slice(text.as_bytes());
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(status));
    let body = Full::new(Bytes::from(message)).with_trailers(async move { Some(Ok(trailers)) });
    response(body.boxed_unsync())
}

/// An answer with a status and nothing else.
pub(crate) fn status_alone(status: &'static str) -> Response<Answer> {
    let mut response = response(Full::default().boxed_unsync());
    response.headers_mut().insert("grpc-status", HeaderValue::from_static(status));
    response
}

fn response(body: Answer) -> Response<Answer> {
    let mut response = Response::new(body);
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert("content-type", grpc);
    response
}

/// The resources of a channel to `service`, in YAML.
#[derive(Clone, Default)]
pub(crate) struct Resources(pub(crate) String);

impl Resources {
    /// A listener with these routes in it.
    pub(crate) fn routes(self, routes: &str) -> Self {
        self.filtered_routes("", routes)
    }

    /// The same with HTTP filters before the router: lines of a list in YAML.
    pub(crate) fn filtered_routes(mut self, filters: &str, routes: &str) -> Self {
        write!(
            self.0,
            r#"
- "@type": type.googleapis.com/envoy.config.listener.v3.Listener
  name: service
  api_listener:
    api_listener:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: x
      route_config:
        name: routes
        virtual_hosts:
        - name: all
          domains: ["*"]
          routes: {routes}
      http_filters:
      {filters}
      - name: router
        typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
"#
        )
        .expect("a string takes it");
        self
    }

    /// A cluster of EDS, with fields of its own.
    pub(crate) fn cluster(mut self, name: &str, fields: &str) -> Self {
        write!(
            self.0,
            r#"
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: {name}
  type: EDS
  eds_cluster_config: {{eds_config: {{ads: {{}}}}}}
  {fields}
"#
        )
        .expect("a string takes it");
        self
    }

    /// A cluster that aggregates others.
    pub(crate) fn aggregate(mut self, name: &str, members: &[&str]) -> Self {
        let members = members.join(", ");
        write!(
            self.0,
            r#"
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: {name}
  cluster_type:
    name: envoy.clusters.aggregate
    typed_config: {{"@type": type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig, clusters: [{members}]}}
"#
        )
        .expect("a string takes it");
        self
    }

    /// A cluster of a name of DNS, with the port of a backend.
    pub(crate) fn dns(mut self, name: &str, host: &str, backend: &Backend) -> Self {
        let port = backend.address.port();
        write!(
            self.0,
            r#"
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: {name}
  type: LOGICAL_DNS
  load_assignment:
    cluster_name: {name}
    endpoints:
    - lb_endpoints:
      - endpoint: {{address: {{socket_address: {{address: {host}, port_value: {port}}}}}}}
"#
        )
        .expect("a string takes it");
        self
    }

    /// The endpoints of a cluster: those of each priority.
    pub(crate) fn endpoints(mut self, name: &str, priorities: &[&[&Backend]]) -> Self {
        write!(
            self.0,
            r#"
- "@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
  cluster_name: {name}
  endpoints:
"#
        )
        .expect("a string takes it");
        for (priority, backends) in priorities.iter().enumerate() {
            let endpoints = backends.iter().map(|backend| {
                let port = backend.address.port();
                format!("{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}")
            });
            let endpoints = endpoints.collect::<Vec<_>>().join(", ");
            writeln!(
                self.0,
                "  - {{priority: {priority}, locality: {{zone: z}}, load_balancing_weight: 1, lb_endpoints: [{endpoints}]}}"
            )
            .expect("a string takes it");
        }
        self
    }

    /// Adds endpoints with the health that the control plane says they have.
    pub(crate) fn endpoints_of_health(mut self, name: &str, all: &[(&Backend, &str)]) -> Self {
        let all = all.iter().map(|(backend, health)| {
            let port = backend.address.port();
            let address = format!("{{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}");
            format!("{{health_status: {health}, endpoint: {{address: {address}}}}}")
        });
        let all = all.collect::<Vec<_>>().join(", ");
        write!(
            self.0,
            r#"
- "@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
  cluster_name: {name}
  endpoints: [{{locality: {{zone: z}}, load_balancing_weight: 1, lb_endpoints: [{all}]}}]
"#
        )
        .expect("a string takes it");
        self
    }

    /// The endpoints that were added last have this category of calls dropped.
    pub(crate) fn drops(mut self, category: &str, percent: u32) -> Self {
        writeln!(
            self.0,
            "  policy: {{drop_overloads: [{{category: {category}, drop_percentage: {{numerator: {percent}}}}}]}}"
        )
        .expect("a string takes it");
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

/// A channel to `service` on this server.
pub(crate) fn channel(server: &TestServer) -> Channel {
    channel_by(server, ServerFeatures::default())
}

/// The same with features of the server.
pub(crate) fn channel_by(server: &TestServer, features: ServerFeatures) -> Channel {
    channel_at(server.address(), features)
}

/// The same to the server at this address.
pub(crate) fn channel_at(server: SocketAddr, features: ServerFeatures) -> Channel {
    let bootstrap = bootstrap(server, features);
    ChannelBuilder::new("xds:///service").bootstrap(bootstrap).build().expect("a channel")
}

/// The bootstrap of a channel to the server at this address.
pub(crate) fn bootstrap(server: SocketAddr, features: ServerFeatures) -> Bootstrap {
    let uri = server.to_string();
    let channel = ChannelCredentials::Insecure;
    let server = XdsServer { uri, channel, features, ..XdsServer::default() };
    Bootstrap {
        servers: vec![server],
        node: Node { id: "test".to_owned(), ..Node::default() },
        ..Bootstrap::default()
    }
}

/// Makes a call and returns the answer: the name of the backend, the authority and the timeout that
/// it saw.
pub(crate) async fn call_to(
    channel: &Channel,
    path: &'static str,
    request: tonic::Request<Bytes>,
) -> Result<String, Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    let path = http::uri::PathAndQuery::from_static(path);
    let call = async {
        client.ready().await?;
        client.unary(request, path, BytesCodec).await
    };
    let response = tokio::time::timeout(PATIENCE, call).await.expect("an answer in time")?;
    Ok(String::from_utf8(response.into_inner().to_vec()).expect("a text"))
}

/// Makes a call and returns the name of the backend that answered.
pub(crate) async fn call(channel: &Channel) -> Result<String, Status> {
    let answer = call_to(channel, "/t/echo", tonic::Request::new(Bytes::new())).await?;
    Ok(answer.split(' ').next().expect("a name").to_owned())
}

/// Makes calls until one ends as it should. Each is made after the one before, so that the last
/// result says what the channel knows.
pub(crate) async fn until(
    channel: &Channel,
    what: &str,
    is_right: impl Fn(&Result<String, Status>) -> bool,
) {
    let mut last = None;
    let wait = async {
        loop {
            let result = call(channel).await;
            if is_right(&result) {
                return;
            }
            last = Some(result);
            tokio::task::yield_now().await;
        }
    };
    if tokio::time::timeout(PATIENCE, wait).await.is_err() {
        panic!("waited for {what}; the last call: {last:?}");
    }
}

/// Returns how often each backend answered.
pub(crate) async fn spread(channel: &Channel, count: usize) -> BTreeMap<String, usize> {
    let mut spread = BTreeMap::new();
    for _ in 0..count {
        *spread.entry(call(channel).await.expect("an answer")).or_default() += 1;
    }
    spread
}

/// Returns a request with metadata.
pub(crate) fn with(key: &'static str, value: &'static str) -> tonic::Request<Bytes> {
    let mut request = tonic::Request::new(Bytes::new());
    let metadata: &mut MetadataMap = request.metadata_mut();
    metadata.insert(key, value.parse().expect("a value"));
    request
}

pub(crate) fn code(result: &Result<String, Status>) -> Code {
    result.as_ref().map_or_else(Status::code, |_| Code::Ok)
}

/// The name of the backend that answered.
pub(crate) fn name(result: &Result<String, Status>) -> Option<&str> {
    result.as_ref().ok().map(String::as_str)
}
