//! Unary calls through a channel, beside those of a plain channel of tonic to the same server:
//!
//!     calls [CALLS] [CONCURRENCY] [ROUNDS]
//!
//! The server is a process of its own, so that the CPU time of a client is its own. The sides take turns, and the
//! ratio of each round is told. Not here: other programs; `cargo xtask bench` knows them.
#![expect(clippy::print_stdout, reason = "it tells what was measured")]

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use bytes::{Buf, BufMut, Bytes};
use chancery_client::Bootstrap;
use chancery_client::bootstrap::{Node, XdsServer};
use chancery_client::credentials::ChannelCredentials;
use chancery_core::Snapshot;
use chancery_grpc::ChannelBuilder;
use chancery_proto::document::{Format, parse};
use chancery_proto::schema::Schema;
use chancery_testkit::TestServer;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tonic::Status;
use tonic::client::GrpcService;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Endpoint;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    if words.first().is_some_and(|word| word == "serve") {
        return runtime()?.block_on(serve());
    }
    let number =
        |at: usize, otherwise| words.get(at).and_then(|it| it.parse().ok()).unwrap_or(otherwise);
    let (calls, concurrency, rounds) = (number(0, 50_000), number(1, 64), number(2, 5));
    let server = Server::start()?;
    runtime()?.block_on(compare(server.address, calls, concurrency, rounds))
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// The costs of a number of calls.
struct Cost {
    cpu_micros: f64,
    p99_micros: u128,
}

async fn compare(
    server: SocketAddr,
    calls: usize,
    concurrency: usize,
    rounds: usize,
) -> Result<()> {
    let plain = Endpoint::from_shared(format!("http://{server}"))?.connect().await?;
    let control = TestServer::start(resources(server)?).await?;
    let bootstrap = Bootstrap {
        servers: vec![XdsServer {
            uri: control.address().to_string(),
            channel: ChannelCredentials::Insecure,
            ..XdsServer::default()
        }],
        node: Node { id: "bench".to_owned(), ..Node::default() },
        ..Bootstrap::default()
    };
    let xds = ChannelBuilder::new("xds:///service").bootstrap(bootstrap).build()?;
    run(&xds, 1_000, concurrency).await?;
    run(&plain, 1_000, concurrency).await?;
    for _ in 0..rounds {
        let xds = run(&xds, calls, concurrency).await?;
        let plain = run(&plain, calls, concurrency).await?;
        println!(
            "CPU of a call {:.2} and {:.2} us: {:.3}   p99 {} and {} us: {:.3}",
            xds.cpu_micros,
            plain.cpu_micros,
            xds.cpu_micros / plain.cpu_micros,
            xds.p99_micros,
            plain.p99_micros,
            xds.p99_micros as f64 / plain.p99_micros as f64
        );
    }
    Ok(())
}

/// Makes so many calls, of which so many are under way at any time.
async fn run<C>(channel: &C, calls: usize, concurrency: usize) -> Result<Cost>
where
    C: GrpcService<tonic::body::Body, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    C: Clone + Send + 'static,
    C::Future: Send,
    C::ResponseBody: Send + 'static,
    <C::ResponseBody as http_body::Body>::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    C::ResponseBody: http_body::Body<Data = Bytes>,
{
    let before = cpu()?;
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..concurrency {
        let mut client = tonic::client::Grpc::new(channel.clone());
        callers.spawn(async move {
            let mut times = Vec::with_capacity(calls / concurrency);
            for _ in 0..calls / concurrency {
                let began = Instant::now();
                client
                    .ready()
                    .await
                    .map_err(|error| Status::unavailable(error.into().to_string()))?;
                let request =
                    tonic::Request::new(Bytes::from_static(b"a message of thirty-two bytes..."));
                client.unary(request, PathAndQuery::from_static("/t/echo"), Raw).await?;
                times.push(began.elapsed().as_micros());
            }
            Ok::<_, Status>(times)
        });
    }
    let mut times = Vec::new();
    while let Some(caller) = callers.join_next().await {
        times.extend(caller??);
    }
    let cpu_micros = (cpu()? - before) * 1e6 / times.len() as f64;
    times.sort_unstable();
    Ok(Cost { cpu_micros, p99_micros: times[times.len() * 99 / 100] })
}

/// The CPU time of this process in seconds.
fn cpu() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let fields = text.rsplit_once(')').ok_or("no stat")?.1;
    let field = |at: usize| fields.split_whitespace().nth(at).and_then(|it| it.parse::<f64>().ok());
    Ok((field(11).unwrap_or_default() + field(12).unwrap_or_default()) / 100.0)
}

fn resources(server: SocketAddr) -> Result<Snapshot> {
    let port = server.port();
    let hcm = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let text = format!(
        r#"
- "@type": type.googleapis.com/envoy.config.listener.v3.Listener
  name: service
  api_listener:
    api_listener:
      "@type": {hcm}
      stat_prefix: x
      route_config:
        virtual_hosts: [{{name: all, domains: ["*"], routes: [{{match: {{prefix: /}}, route: {{cluster: x}}}}]}}]
      http_filters:
      - name: router
        typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: x
  type: EDS
  eds_cluster_config: {{eds_config: {{ads: {{}}}}}}
- "@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
  cluster_name: x
  endpoints:
  - locality: {{zone: z}}
    load_balancing_weight: 1
    lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}]
"#
    );
    let parsed = parse(&Schema::bundled(), Format::Yaml, text.as_bytes());
    if let Some(fault) = parsed.faults.first() {
        return Err(format!("{fault:?}").into());
    }
    let mut snapshot = Snapshot::new();
    for one in parsed.resources {
        snapshot.insert(&one.type_url, (*one.resource).clone());
    }
    Ok(snapshot)
}

/// The server in a process of its own, until this is dropped.
struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    fn start() -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = process.stdout.take().ok_or("no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        Ok(Self { address: line.trim().parse()?, process })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends when its input does.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

async fn serve() -> Result<()> {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?);
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        tokio::spawn(
            hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(socket), service_fn(echo)),
        );
    }
}

async fn echo(request: Request<Incoming>) -> std::result::Result<Response<EchoBody>, Infallible> {
    let message =
        request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = Full::new(message).with_trailers(async move { Some(Ok(trailers)) });
    let mut response = Response::new(body.boxed_unsync());
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    Ok(response)
}

type EchoBody = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

/// Messages that are bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> std::result::Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> std::result::Result<Option<Bytes>, Status> {
        let length = from.remaining();
        Ok(Some(from.copy_to_bytes(length)))
    }
}
