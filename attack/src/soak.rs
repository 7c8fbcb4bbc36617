//! The soak: clients of all kinds that come and go, while the directory is edited at random. The
//! memory of the server has to end flat.
//!
//! Clients are SotW and delta, over gRPC and REST, with wildcards and with names, of the base layer
//! and of a group. Whatever they hold, the resources are about as many at the end as in the beginning,
//! so memory that grows is memory for states in which nobody is any more.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::memory::Sampler;
use crate::numbers::Numbers;
use crate::setup::{Setup, cluster};
use crate::stage::{Circumstances, PATIENCE, Stage};
use crate::wire::grpc::{Http2, READS};
use crate::wire::message::{Delta, Fields, Sotw, text};
use crate::wire::{ATTACKER, CDS, EDS, POLL};

/// The number of clients, and of clusters in each layer that is edited.
const CLIENTS: u64 = 40;
const CLUSTERS: u64 = 200;
/// The size of a cluster in bytes.
const BYTES: usize = 1_000;
/// The layers that are edited.
const LAYERS: [&str; 2] = ["", "groups/edge/"];

/// The growth of the lowest memory from the third quarter of the time to the last one that is taken
/// for noise of the allocator.
const NOISE: u64 = 4 << 20;
/// The growth over the lowest memory of the second eighth, after the caches have filled.
const GROWTH: u64 = 32 << 20;

/// The work of the clients and the editor so far.
#[derive(Debug, Default)]
struct Counts {
    edits: AtomicU64,
    responses: AtomicU64,
    sessions: AtomicU64,
    failures: AtomicU64,
}

/// Runs for these minutes; returns the line that tells the outcome.
pub(crate) fn soak(circumstances: &Circumstances, minutes: f64) -> Result<String> {
    let mut setup = Setup::new(circumstances.is_bounded);
    for layer in LAYERS {
        for at in 0..CLUSTERS {
            setup.file(&format!("{layer}s-{at}.json"), cluster(&format!("s-{at}"), 1, BYTES));
        }
    }
    for line in ["settle: 20ms", "settle-bound: 100ms", "rest-hold: 100ms"] {
        setup.limit(line);
    }
    let time = Duration::from_secs_f64(minutes * 60.0);
    let counts = Arc::new(Counts::default());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let stage = Stage::start(circumstances, setup)?;
    runtime.block_on(stage.is_ready())?;
    let sampler = Sampler::start(stage.pid());
    runtime.block_on(run(&stage, time, &counts))?;
    if let Some(status) = stage.ended() {
        bail!("the process ended with {status}");
    }
    let told = format!(
        "{} edits, {} clients, {} responses, {} failures",
        counts.edits.load(Ordering::Relaxed),
        counts.sessions.load(Ordering::Relaxed),
        counts.responses.load(Ordering::Relaxed),
        counts.failures.load(Ordering::Relaxed),
    );
    ensure!(counts.responses.load(Ordering::Relaxed) > 100, "too little was done: {told}");
    // Nothing that these clients do is refused, and the server does not stop.
    ensure!(counts.failures.load(Ordering::Relaxed) == 0, "clients fail: {told}");
    let curve = judge(&sampler.curve(), time).with_context(|| told.clone())?;
    Ok(format!("{curve}; {told}"))
}

/// The verdict on a curve of memory.
fn judge(curve: &[(Duration, u64)], time: Duration) -> Result<String> {
    let lowest = |from: f64, to: f64| {
        let within = |at: &Duration| *at >= time.mul_f64(from) && *at < time.mul_f64(to);
        curve.iter().filter(|(at, _)| within(at)).map(|(_, rss)| *rss).min()
    };
    let parts = (lowest(0.125, 0.25), lowest(0.5, 0.75), lowest(0.75, 1.0));
    let (Some(early), Some(third), Some(last)) = parts else { bail!("too few samples") };
    let first = curve.first().map_or(early, |(_, rss)| *rss);
    let megabytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let told = format!(
        "{:.1} MB at first, then {:.1} MB, {:.1} MB, {:.1} MB in the second eighth and the last two \
         quarters",
        megabytes(first),
        megabytes(early),
        megabytes(third),
        megabytes(last)
    );
    ensure!(last <= third + NOISE, "memory does not end flat: {told}");
    ensure!(last <= early + GROWTH, "memory is kept for states of the past: {told}");
    Ok(told)
}

async fn run(stage: &Stage, time: Duration, counts: &Arc<Counts>) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for seed in 1..=CLIENTS {
        let (stop, counts, to) = (Arc::clone(&stop), Arc::clone(counts), stage.xds());
        tasks.spawn(async move {
            let mut numbers = Numbers::new(seed);
            while !stop.load(Ordering::Relaxed) {
                counts.sessions.fetch_add(1, Ordering::Relaxed);
                // A client that breaks off has ended as others do.
                if one_client(to, &mut numbers, &counts).await.is_err() {
                    counts.failures.fetch_add(1, Ordering::Relaxed);
                    sleep(Duration::from_millis(100)).await;
                }
            }
        });
    }
    let begin = Instant::now();
    let mut numbers = Numbers::new(77);
    while begin.elapsed() < time && stage.ended().is_none() {
        edit(stage, &mut numbers)?;
        counts.edits.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_millis(10 + numbers.below(60))).await;
    }
    stop.store(true, Ordering::Relaxed);
    timeout(PATIENCE, tasks.join_all()).await.context("a client does not end")?;
    Ok(())
}

/// Changes, removes or adds one resource.
fn edit(stage: &Stage, numbers: &mut Numbers) -> Result<()> {
    let layer = LAYERS[numbers.below(2) as usize];
    let at = numbers.below(CLUSTERS);
    let path = format!("{layer}s-{at}.json");
    if numbers.below(8) == 0 {
        fs::remove_file(stage.dir().join(path)).ok();
        return Ok(());
    }
    let text = cluster(&format!("s-{at}"), 1 + numbers.below(1_000), BYTES);
    let beside = stage.dir().join(".edit");
    fs::write(&beside, text)?;
    Ok(fs::rename(beside, stage.dir().join(path))?)
}

/// One client from its connection to its end.
async fn one_client(
    to: std::net::SocketAddr,
    numbers: &mut Numbers,
    counts: &Counts,
) -> Result<()> {
    let connection = Http2::connect(ATTACKER, to, READS).await?;
    let deadline = Instant::now() + Duration::from_millis(500 + numbers.below(5_000));
    let names: Vec<String> = match numbers.below(2) {
        0 => Vec::new(),
        _ => (0..1 + numbers.below(50)).map(|_| format!("s-{}", numbers.below(CLUSTERS))).collect(),
    };
    let node = Fields::of(|node| {
        node.text(1, format!("soak-{}", numbers.below(100)));
        node.text(2, if numbers.below(2) == 0 { "edge" } else { "other" });
    });
    match numbers.below(3) {
        0 => sotw(&connection, node, names, deadline, counts).await,
        1 => delta(&connection, node, names, deadline, counts).await,
        _ => rest(&connection, numbers, deadline, counts).await,
    }
}

async fn sotw(
    connection: &Http2,
    node: Vec<u8>,
    names: Vec<String>,
    deadline: Instant,
    counts: &Counts,
) -> Result<()> {
    let first = Sotw { node: Some(node), ..Sotw::first("", CDS, names) };
    let mut call = connection.sotw(&first).await?;
    let mut wants_endpoints = true;
    while let Ok(response) = timeout(left(deadline), call.message()).await {
        let response = response?;
        counts.responses.fetch_add(1, Ordering::Relaxed);
        let of_type = Sotw { type_url: text(&response, 4), ..first.clone() };
        let names =
            if of_type.type_url == EDS { vec!["s-1".to_owned()] } else { first.names.clone() };
        call.send(&Sotw { names, ..of_type.answer(&response, None) }.encode())?;
        if std::mem::take(&mut wants_endpoints) {
            call.send(&Sotw { node: None, ..Sotw::first("", EDS, ["s-1"]) }.encode())?;
        }
    }
    Ok(())
}

async fn delta(
    connection: &Http2,
    node: Vec<u8>,
    names: Vec<String>,
    deadline: Instant,
    counts: &Counts,
) -> Result<()> {
    let first = Delta { node: Some(node), ..Delta::first("", CDS, names) };
    let mut call = connection.delta(&first).await?;
    while let Ok(response) = timeout(left(deadline), call.message()).await {
        let response = response?;
        counts.responses.fetch_add(1, Ordering::Relaxed);
        call.send(&Delta::ack(&response).encode())?;
    }
    Ok(())
}

async fn rest(
    connection: &Http2,
    numbers: &mut Numbers,
    deadline: Instant,
    counts: &Counts,
) -> Result<()> {
    while Instant::now() < deadline {
        let body = format!("{{\"node\": {{\"id\": \"soak-{}\"}}}}", numbers.below(100));
        let mut call = connection.poll(POLL, Bytes::from(body)).await?;
        timeout(PATIENCE, call.whole()).await??;
        counts.responses.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_millis(numbers.below(200))).await;
    }
    Ok(())
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(rss: impl Fn(u64) -> u64) -> Result<String> {
        let curve: Vec<_> = (0..60).map(|at| (Duration::from_secs(at), rss(at) << 20)).collect();
        judge(&curve, Duration::from_secs(60))
    }

    #[test]
    fn a_flat_curve_is_good_and_a_rising_one_is_not() {
        assert!(verdict(|at| 40 + at % 3).is_ok());
        assert!(verdict(|at| 40 + at / 2).is_err());
    }

    #[test]
    fn a_curve_that_ends_flat_far_above_its_beginning_is_not_good() {
        assert!(verdict(|at| if at < 20 { 40 } else { 104 }).is_err());
    }
}
