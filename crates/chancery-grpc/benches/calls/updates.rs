//! The cost of updates: a channel with 1,000 endpoints, one of which is replaced each 10 ms, makes calls meanwhile.
//!
//! The cost of the same calls without updates is subtracted. A call that fails ends the bench.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use chancery_testkit::TestServer;
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::process::{cpu, own};
use crate::resources::Clusters;
use crate::server::Server;
use crate::{Result, call, channel};

const ENDPOINTS: u32 = 1_000;
const PERIOD: Duration = Duration::from_millis(10);
/// The time between two calls.
const PACE: Duration = Duration::from_millis(2);
const SECONDS: f64 = 5.0;

/// Prints the share of a core that the updates take.
pub(crate) async fn compare() -> Result<()> {
    let server = Server::start()?;
    let without = share(&server, false).await?;
    let with = share(&server, true).await?;
    let figures = json!({"beyond": with - without, "with": with, "without": without});
    println!("{}", json!({"chancery-grpc": figures}));
    Ok(())
}

/// The share of a core that the client takes.
async fn share(server: &Server, changes: bool) -> Result<f64> {
    let port = server.address.port();
    let clusters = Clusters { number: 1, policy: "ROUND_ROBIN", port };
    let mut snapshot = clusters.with_endpoints(ENDPOINTS)?;
    let control = TestServer::start(snapshot.clone()).await?;
    let mut process =
        own(&["paced", &control.address().to_string()])?.stdout(Stdio::piped()).spawn()?;
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
