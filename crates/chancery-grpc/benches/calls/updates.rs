//! The cost of updates: a channel with 1,000 endpoints, one of which is replaced each 10 ms, makes calls meanwhile;
//! beside it a client of gRPC for Go.
//!
//! The cost of the same calls without updates is subtracted. A call that fails ends the bench.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use chancery_testkit::TestServer;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::process::{bounded, cpu, own};
use crate::resources::Clusters;
use crate::server::Server;
use crate::{Result, bootstrap_of_go, call, channel};

const ENDPOINTS: u32 = 1_000;
const PERIOD: Duration = Duration::from_millis(10);
/// The time between two calls.
const PACE: Duration = Duration::from_millis(2);
const SECONDS: f64 = 5.0;

/// Prints the share of a core that the updates take of each side.
pub(crate) async fn compare(go: Option<&str>) -> Result<()> {
    let server = Server::start()?;
    let mut figures = serde_json::Map::new();
    for (name, go) in
        [("chancery-grpc", None)].into_iter().chain(go.map(|go| ("grpc-go", Some(go))))
    {
        let without = share(&server, go, false).await?;
        let with = share(&server, go, true).await?;
        let of = json!({"beyond": with - without, "with": with, "without": without});
        figures.insert(name.to_owned(), of);
    }
    println!("{}", Value::from(figures));
    Ok(())
}

/// The share of a core that the client takes: that of Go, or else of this project.
async fn share(server: &Server, go: Option<&str>, changes: bool) -> Result<f64> {
    let port = server.address.port();
    let clusters = Clusters { number: 1, policy: "ROUND_ROBIN", port };
    let mut snapshot = clusters.with_endpoints(ENDPOINTS)?;
    let control = TestServer::start(snapshot.clone()).await?;
    let address = control.address().to_string();
    let mut command = match go {
        None => own(&["paced", &address])?,
        Some(go) => {
            let mut command = bounded(go);
            command.args(["paced", "xds:///service", &ENDPOINTS.to_string()]);
            command.env("GRPC_XDS_BOOTSTRAP_CONFIG", bootstrap_of_go(&address));
            command
        }
    };
    let mut process = command.stdout(Stdio::piped()).spawn()?;
    let mut output = BufReader::new(process.stdout.take().ok_or("no output")?);
    let (ready, is_ready) = tokio::sync::oneshot::channel();
    let answer = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        output.read_line(&mut line)?;
        // Nobody waits any more if the updates have failed.
        let _ = ready.send(());
        line.clear();
        output.read_line(&mut line).map(|_| line)
    });
    is_ready.await?;
    let mut ticks = interval(PERIOD);
    let mut numbers: Vec<u32> = (0..ENDPOINTS).collect();
    let mut next = ENDPOINTS;
    while changes && !answer.is_finished() {
        ticks.tick().await;
        numbers[(next % ENDPOINTS) as usize] = next;
        next += 1;
        clusters.put(&mut snapshot, 0, numbers.clone())?;
        control.publish(snapshot.clone());
    }
    let share = answer.await??.trim().parse();
    process.wait()?;
    Ok(share?)
}

/// Makes calls at a pace, and prints the share of a core that they took.
pub(crate) async fn paced(control: &str) -> Result<()> {
    let channel = channel(control)?;
    // A round robin that has all of its connections.
    for _ in 0..3 * ENDPOINTS {
        call(&channel).await?;
    }
    println!("ready");
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first updates come.
    for _ in 0..500 {
        ticks.tick().await;
        call(&channel).await?;
    }
    let (began, before) = (Instant::now(), cpu()?);
    while began.elapsed().as_secs_f64() < SECONDS {
        ticks.tick().await;
        call(&channel).await?;
    }
    println!("{}", (cpu()? - before) / began.elapsed().as_secs_f64());
    Ok(())
}
