//! The memory of an idle channel: one with many clusters and endpoints, beyond one with a cluster of one endpoint.
//!
//! The policy connects when it is called, so nothing is connected. What the resources take in the client is in it.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::Duration;

use chancery_testkit::TestServer;
use http::HeaderMap;
use serde_json::json;

use crate::process::{memory, own};
use crate::resources::Clusters;
use crate::{Result, channel};

/// Prints the difference of two processes that have nothing but a channel.
pub(crate) async fn compare() -> Result<()> {
    let large = of_channel(100, 20).await?;
    let small = of_channel(1, 1).await?;
    println!("{}", json!({"chancery-grpc": {"beyond": large - small}}));
    Ok(())
}

/// The memory of a process that has a channel to so many clusters with so many endpoints each.
async fn of_channel(clusters: usize, endpoints: u32) -> Result<f64> {
    let clusters = Clusters { number: clusters, policy: "RING_HASH", port: 9 };
    let control = TestServer::start(clusters.with_endpoints(endpoints)?).await?;
    let mut command = own(&["hold", &control.address().to_string()])?;
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let output = process.stdout.take().ok_or("no output")?;
    let line = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).map(|_| line)
    });
    let line = line.await??;
    // It ends when its input does.
    drop(process.stdin.take());
    process.wait()?;
    Ok(line.trim().parse()?)
}

/// Has a channel, prints the memory of this process, and waits for the end of the input.
pub(crate) async fn hold(control: &str) -> Result<()> {
    let channel = channel(control)?;
    let explained = channel.explain("/c0/m", &HeaderMap::new(), Duration::from_secs(20)).await;
    if explained.cluster.is_none() {
        return Err(format!("no configuration came: {explained}").into());
    }
    println!("{}", memory()?);
    tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0])).await??;
    drop(channel);
    Ok(())
}
