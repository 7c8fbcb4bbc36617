//! Attacks by load reports: names without end, parts that are small on the wire, and numbers that no client
//! counts.

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::attack::Attack;
use crate::stage::{PATIENCE, Stage};
use crate::wire::grpc::{Http2, READS};
use crate::wire::message::{Fields, framed, node};
use crate::wire::raw::Write;
use crate::wire::{ATTACKER, LRS};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "load-names",
        about: "100 streams report 20,000 clusters each, which nobody has, and others again and again",
        setup: |setup| setup.limit("memory: 64MiB"),
        run: |stage| Box::pin(names(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "load-parts",
        about: "20 streams report clusters of 2 million localities, and a million clusters, of two bytes each",
        setup: |_| {},
        run: |stage| Box::pin(parts(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "load-numbers",
        about: "a client reports 2^64 - 1 calls in no time, and one call in ten thousand years, at full speed",
        setup: |_| {},
        run: |stage| Box::pin(numbers(stage)),
        growth: 100,
        in_ci: true,
    },
];

/// A cluster with one locality, which this many calls went to in so many seconds.
fn cluster(request: &mut Fields, name: &str, calls: u64, seconds: u64) {
    request.message(2, |cluster| {
        cluster.text(1, name);
        cluster.message(2, |locality| {
            locality.number(2, calls);
            locality.number(8, calls);
        });
        cluster.message(4, |interval| interval.number(1, seconds));
    });
}

/// Sends these reports over and over, on so many streams, and each at least once on a slow machine.
async fn report(stage: &Stage, streams: usize, reports: Vec<Vec<u8>>) -> Result<()> {
    let deadline = Instant::now() + stage.seconds();
    let mut tasks = JoinSet::new();
    for _ in 0..streams {
        let (to, reports) = (stage.xds(), reports.clone());
        tasks.spawn(async move {
            let connection = Http2::connect(ATTACKER, to, READS).await?;
            let mut call = connection.stream(LRS).await?;
            call.send(&Fields::of(|request| request.bytes(1, &node("attacker"))))?;
            call.message().await?;
            for (sent, report) in reports.iter().cycle().enumerate() {
                let mut rest = framed(report);
                let until = if sent < reports.len() { deadline + PATIENCE } else { deadline };
                match timeout_at(until, call.pours(&mut rest)).await {
                    Ok(Write::Taken) => {}
                    // The server ends the stream, or the time is over.
                    Ok(_) | Err(_) => break,
                }
            }
            anyhow::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    stage.serves_others().await
}

/// Says how many parts were left out, for whatever reason; fails if they are fewer than `least`.
async fn left_out(stage: &Stage, least: f64) -> Result<String> {
    let name = "chancery_load_left_out_total";
    stage.metric_reaches(name, least, PATIENCE).await?;
    let found = stage.metric(name).await?;
    Ok(format!("{found} parts left out"))
}

async fn names(stage: &Stage) -> Result<String> {
    let reports = (0..20).map(|part| {
        Fields::of(|request| {
            for at in 0..1_000 {
                cluster(request, &format!("a-cluster-of-some-length-{part}-{at}"), 1, 10);
            }
        })
    });
    report(stage, stage.scale(100, 20), reports.collect()).await?;
    left_out(stage, 1.0).await
}

async fn parts(stage: &Stage) -> Result<String> {
    let localities = Fields::of(|request| {
        request.message(2, |cluster| (0..2_000_000).for_each(|_| cluster.bytes(2, b"")));
    });
    let clusters = Fields::of(|request| (0..1_000_000).for_each(|_| request.bytes(2, b"")));
    report(stage, stage.scale(20, 4), vec![localities, clusters]).await?;
    left_out(stage, 2.0).await
}

async fn numbers(stage: &Stage) -> Result<String> {
    let reports = [(u64::MAX, 0), (1, 315_000_000_000)]
        .map(|(calls, seconds)| Fields::of(|request| cluster(request, "a", calls, seconds)));
    report(stage, 1, reports.into()).await?;
    let page = stage.page("/api/v1/load").await?;
    ensure!(page.body.contains("\"count\": 1"), "{}", page.body);
    left_out(stage, 1.0).await
}
