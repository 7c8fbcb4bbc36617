//! Unary calls through a channel, beside those of a plain channel of tonic to the same server, and of a client of
//! gRPC for Go by the same resources; the memory of a channel with many endpoints, and the cost of their updates:
//!
//!     calls [CALLS] [CONCURRENCY] [GO]
//!     calls memory
//!     calls updates [GO]
//!
//! The server is a process of its own, and so is each client, so that its CPU time is its own. GO is the program of
//! `tests/real/grpc-go`. The answer is one line of JSON. Not here: several runs; `cargo xtask bench` makes them.
#![expect(
    clippy::print_stdout,
    clippy::exit,
    reason = "it tells what was measured, and ends with its input"
)]

use std::process::Stdio;
use std::time::Instant;

use bytes::Bytes;
use chancery_client::Bootstrap;
use chancery_client::bootstrap::{Node, XdsServer};
use chancery_client::credentials::ChannelCredentials;
use chancery_grpc::{Channel, ChannelBuilder};
use chancery_testkit::TestServer;
use http::uri::PathAndQuery;
use serde_json::{Value, json};
use tonic::Status;
use tonic::client::GrpcService;
use tonic::transport::Endpoint;

use codec::BytesCodec;
use process::{bounded, cpu, own};
use resources::Clusters;
use server::Server;

#[path = "../../../chancery/src/call/codec.rs"]
mod codec;
mod memory;
mod process;
mod resources;
mod server;
mod updates;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    let word = |at: usize| words.get(at).map(String::as_str);
    match word(0) {
        Some("serve") => runtime()?.block_on(server::serve()),
        Some("memory") => runtime()?.block_on(memory::compare()),
        Some("updates") => runtime()?.block_on(updates::compare(word(1))),
        Some("hold") => runtime()?.block_on(memory::hold(word(1).ok_or("two words")?)),
        Some("paced") => runtime()?.block_on(updates::paced(word(1).ok_or("two words")?)),
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
    let clusters = Clusters { number: 1, policy: "ROUND_ROBIN", port: server.address.port() };
    let control = TestServer::start(clusters.with_endpoints(1)?).await?;
    let (plain, xds) = (server.address.to_string(), control.address().to_string());
    let mut sides = vec![
        ("chancery-grpc", own(&["xds", &xds, calls, concurrency])?, vec![]),
        ("tonic", own(&["plain", &plain, calls, concurrency])?, vec![]),
    ];
    let bootstrap = bootstrap_of_go(&xds);
    if let Some(go) = go {
        sides.push(("grpc-go", bounded(go), vec!["load", "xds:///service", calls, concurrency]));
    }
    let mut figures = serde_json::Map::new();
    for (name, mut command, words) in sides {
        command.env("GRPC_XDS_BOOTSTRAP_CONFIG", &bootstrap).args(words);
        let output = tokio::task::spawn_blocking(move || command.stderr(Stdio::inherit()).output());
        let output = output.await??;
        let answer = String::from_utf8_lossy(&output.stdout);
        let line = answer.lines().next_back().ok_or_else(|| format!("{name} says nothing"))?;
        figures.insert(name.to_owned(), serde_json::from_str(line)?);
    }
    println!("{}", Value::from(figures));
    Ok(())
}

/// The bootstrap of a client of gRPC for Go whose control plane is at this address.
fn bootstrap_of_go(control: &str) -> String {
    let server = json!({"server_uri": control, "channel_creds": [{"type": "insecure"}]});
    json!({"xds_servers": [server], "node": {"id": "bench"}}).to_string()
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
    measured(&channel(control)?, calls.parse()?, concurrency.parse()?).await
}

/// A channel whose control plane is at this address.
fn channel(control: &str) -> Result<Channel> {
    let uri = control.to_owned();
    let bootstrap = Bootstrap {
        servers: vec![XdsServer {
            uri,
            channel: ChannelCredentials::Insecure,
            ..XdsServer::default()
        }],
        node: Node { id: "bench".to_owned(), ..Node::default() },
        ..Bootstrap::default()
    };
    Ok(ChannelBuilder::new("xds:///service").bootstrap(bootstrap).build()?)
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
                unary(&mut client).await?;
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

/// Makes one call.
async fn call(channel: &Channel) -> Result<()> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await?;
    Ok(unary(&mut client).await?)
}

async fn unary<C>(client: &mut tonic::client::Grpc<C>) -> std::result::Result<(), Status>
where
    C: GrpcService<tonic::body::Body>,
    C::ResponseBody: http_body::Body<Data = Bytes, Error: Into<Failure>> + Send + 'static,
{
    let message = Bytes::from_static(b"a message of thirty-two bytes...");
    let path = PathAndQuery::from_static("/t/echo");
    client.unary(tonic::Request::new(message), path, BytesCodec).await.map(drop)
}
