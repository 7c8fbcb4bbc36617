//! Unary calls through a channel, beside those of a plain channel of tonic to the same server, and of a client of
//! gRPC for Go by the same resources:
//!
//!     calls [CALLS] [CONCURRENCY] [GO]
//!
//! The server is a process of its own, and so is each client, so that its CPU time is its own. GO is the program of
//! `tests/real/grpc-go`. The answer is one line of JSON. Not here: several runs; `cargo xtask bench` makes them.
#![expect(
    clippy::print_stdout,
    clippy::exit,
    reason = "it tells what was measured, and ends with its input"
)]

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use bytes::Bytes;
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
use serde_json::{Value, json};
use tonic::Status;
use tonic::client::GrpcService;
use tonic::transport::Endpoint;

use codec::BytesCodec;

#[path = "../../chancery/src/call/codec.rs"]
mod codec;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    let word = |at: usize| words.get(at).map(String::as_str);
    match word(0) {
        Some("serve") => runtime()?.block_on(serve()),
        Some("plain") => runtime()?.block_on(plain(&words)),
        Some("xds") => runtime()?.block_on(xds(&words)),
        _ => runtime()?.block_on(compare(
            word(0).unwrap_or("50000"),
            word(1).unwrap_or("64"),
            word(2),
        )),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Runs each side in a process of its own.
async fn compare(calls: &str, concurrency: &str, go: Option<&str>) -> Result<()> {
    let server = Server::start()?;
    let control = TestServer::start(resources(server.address)?).await?;
    let own = std::env::current_exe()?;
    let (plain, xds) = (server.address.to_string(), control.address().to_string());
    let mut sides = vec![
        ("chancery-grpc", Command::new(&own), vec!["xds", &xds, calls, concurrency]),
        ("tonic", Command::new(&own), vec!["plain", &plain, calls, concurrency]),
    ];
    let bootstrap = json!({
        "xds_servers": [{"server_uri": xds, "channel_creds": [{"type": "insecure"}]}],
        "node": {"id": "bench"},
    });
    if let Some(go) = go {
        sides.push((
            "grpc-go",
            Command::new(go),
            vec!["load", "xds:///service", calls, concurrency],
        ));
    }
    let mut figures = serde_json::Map::new();
    for (name, mut command, words) in sides {
        command.env("GRPC_XDS_BOOTSTRAP_CONFIG", bootstrap.to_string()).args(words);
        let output = tokio::task::spawn_blocking(move || command.stderr(Stdio::inherit()).output());
        let output = output.await??;
        let answer = String::from_utf8_lossy(&output.stdout);
        let line = answer.lines().next_back().ok_or_else(|| format!("{name} says nothing"))?;
        figures.insert(name.to_owned(), serde_json::from_str(line)?);
    }
    println!("{}", Value::from(figures));
    Ok(())
}

/// The calls of a plain channel of tonic.
async fn plain(words: &[String]) -> Result<()> {
    let [_, server, calls, concurrency] = words else { return Err("four words".into()) };
    let channel = Endpoint::from_shared(format!("http://{server}"))?.connect().await?;
    measured(&channel, calls.parse()?, concurrency.parse()?).await
}

/// The calls of a channel whose control plane is at this address.
async fn xds(words: &[String]) -> Result<()> {
    let [_, control, calls, concurrency] = words else { return Err("four words".into()) };
    let uri = control.clone();
    let bootstrap = Bootstrap {
        servers: vec![XdsServer {
            uri,
            channel: ChannelCredentials::Insecure,
            ..XdsServer::default()
        }],
        node: Node { id: "bench".to_owned(), ..Node::default() },
        ..Bootstrap::default()
    };
    let channel = ChannelBuilder::new("xds:///service").bootstrap(bootstrap).build()?;
    measured(&channel, calls.parse()?, concurrency.parse()?).await
}

/// Makes calls, and prints what they cost.
async fn measured<C>(channel: &C, calls: usize, concurrency: usize) -> Result<()>
where
    C: GrpcService<tonic::body::Body, Error: Into<Failure>> + Clone + Send + 'static,
    C::Future: Send,
    C::ResponseBody: http_body::Body<Data = Bytes, Error: Into<Failure>> + Send + 'static,
{
    run(channel, 1_000, concurrency).await?;
    let before = cpu()?;
    let mut times = run(channel, calls, concurrency).await?;
    let cpu = (cpu()? - before) * 1e6 / times.len() as f64;
    times.sort_unstable();
    let p99 = u64::try_from(times[times.len() * 99 / 100])?;
    println!("{}", json!({"cpu_us_per_call": cpu, "p99_us": p99}));
    Ok(())
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Makes so many calls, of which so many are under way at any time. Returns the time of each in microseconds.
async fn run<C>(channel: &C, calls: usize, concurrency: usize) -> Result<Vec<u128>>
where
    C: GrpcService<tonic::body::Body, Error: Into<Failure>> + Clone + Send + 'static,
    C::Future: Send,
    C::ResponseBody: http_body::Body<Data = Bytes, Error: Into<Failure>> + Send + 'static,
{
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
                let message = Bytes::from_static(b"a message of thirty-two bytes...");
                let path = PathAndQuery::from_static("/t/echo");
                client.unary(tonic::Request::new(message), path, BytesCodec).await?;
                times.push(began.elapsed().as_micros());
            }
            Ok::<_, Status>(times)
        });
    }
    let mut times = Vec::new();
    while let Some(caller) = callers.join_next().await {
        times.extend(caller??);
    }
    Ok(times)
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
