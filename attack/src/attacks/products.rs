//! Attacks on sums and products: each stream stays below the limits that it has alone.
//!
//! A refusal here is because of all that a peer holds, or all peers together. The
//! attackers of one attack may come from many addresses, so that no share of a peer is large.

use anyhow::{Context, Result, ensure};
use tokio::time::timeout;

use super::memory::{half, is_exhausted, many_clusters};
use super::streams::Held;
use crate::attack::Attack;
use crate::stage::{PATIENCE, Stage};
use crate::wire::grpc::{READS, STALLS};
use crate::wire::message::{Delta, Fields, Sotw, framed, node_with_metadata};
use crate::wire::{ADS_DELTA, ADS_SOTW, CDS, POLL};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "names-times-streams",
        about: "200 streams of one peer subscribe to 40,000 names each",
        setup: |_| {},
        run: |stage| Box::pin(names(stage, 1)),
        growth: 400,
        in_ci: true,
    },
    Attack {
        name: "names-times-peers",
        about: "50 peers have four streams each, which subscribe to 40,000 names each",
        setup: |_| {},
        run: |stage| Box::pin(names(stage, 50)),
        growth: 450,
        in_ci: true,
    },
    Attack {
        name: "versions-times-streams",
        about: "200 streams without a window say that they hold 40,000 resources that are gone",
        setup: |_| {},
        run: |stage| Box::pin(versions(stage)),
        growth: 400,
        in_ci: true,
    },
    Attack {
        name: "metadata-times-streams",
        about: "500 streams of one peer state metadata of 0.8 MB each",
        setup: |_| {},
        run: |stage| Box::pin(metadata(stage)),
        growth: 400,
        in_ci: true,
    },
    Attack {
        name: "half-sent-peers",
        about: "40 peers send 20 MB of a request of 30 MB each, and then nothing",
        setup: |_| {},
        run: |stage| Box::pin(half_sent(stage)),
        growth: 450,
        in_ci: true,
    },
    Attack {
        name: "zero-window-peers",
        about: "50 peers have four streams without a window each, which name 10 MB each",
        setup: |setup| setup.clusters(40_000, 400),
        run: |stage| Box::pin(zero_window(stage)),
        growth: 400,
        in_ci: true,
    },
    Attack {
        name: "limit-memory",
        about: "one peer needs more than its part of the 8 MiB that all may hold together",
        setup: |setup| setup.limit("memory: 8MiB"),
        run: |stage| Box::pin(limited_memory(stage)),
        growth: 100,
        in_ci: true,
    },
];

async fn names(stage: &Stage, peers: u8) -> Result<String> {
    let mut held = Held::connect(stage, peers, READS).await?;
    let names = (0..40_000).map(|at| format!("a-name-of-some-length-{at}"));
    let message = framed(&Delta::first("attacker", CDS, names).encode());
    held.ask(200, ADS_DELTA, &message).await;
    stage.is_charged(50).await?;
    Ok(held.hold(stage, 2 * stage.seconds()).await?.to_string())
}

async fn versions(stage: &Stage) -> Result<String> {
    let mut held = Held::connect(stage, 1, STALLS).await?;
    let mut request = Delta::first("attacker", CDS, ["*"]).encode();
    for at in 0..40_000 {
        request.extend(Fields::of(|request| {
            request.message(5, |entry| {
                entry.text(1, format!("a-name-of-some-length-{at}"));
                entry.text(2, "1");
            });
        }));
    }
    held.ask(200, ADS_DELTA, &framed(&request)).await;
    stage.is_charged(20).await?;
    Ok(held.hold(stage, 2 * stage.seconds()).await?.to_string())
}

async fn metadata(stage: &Stage) -> Result<String> {
    let mut held = Held::connect(stage, 1, READS).await?;
    let node = Some(node_with_metadata("attacker", 30_000));
    let message = framed(&Sotw { node, ..Sotw::first("", CDS, ["innocent"]) }.encode());
    held.ask(500, ADS_SOTW, &message).await;
    stage.is_charged(50).await?;
    Ok(held.hold(stage, 2 * stage.seconds()).await?.to_string())
}

async fn half_sent(stage: &Stage) -> Result<String> {
    let mut held = Held::connect(stage, 40, READS).await?;
    held.ask(40, ADS_SOTW, &half(30_000_000, 20_000_000)).await;
    stage.is_charged(50).await?;
    let ends = held.hold(stage, 2 * stage.seconds()).await?;
    ends.at_least(1, "RESOURCE_EXHAUSTED")?;
    Ok(ends.to_string())
}

async fn zero_window(stage: &Stage) -> Result<String> {
    let mut held = Held::connect(stage, 50, STALLS).await?;
    for at in 0..200 {
        held.ask(1, ADS_SOTW, &many_clusters(at)).await;
    }
    stage.is_charged(10).await?;
    Ok(held.hold(stage, 2 * stage.seconds()).await?.to_string())
}

/// The memory that all clients together may hold.
const MEMORY: f64 = 8.0 * 1024.0 * 1024.0;

async fn limited_memory(stage: &Stage) -> Result<String> {
    let of = async |names: usize| {
        let names = (0..names).map(|at| format!("a-name-of-some-length-{at}"));
        let connection = stage.http2(READS).await?;
        let call = connection.delta(&Delta::first("attacker", CDS, names)).await?;
        anyhow::Ok((call, connection))
    };
    let mut little = of(1_000).await?;
    little.0.message_within(PATIENCE).await.context("a client that needs little")?;
    // Its bytes alone are less than the part of one peer.
    let mut much = of(50_000).await?;
    let end = is_exhausted(&mut much.0).await?;
    ensure!(end.contains("memory"), "it does not say why: {end}");
    let connection = stage.http2(READS).await?;
    let mut poll = connection.poll(POLL, vec![b' '; 6_000_000].into()).await?;
    // It is not answered if the connection ends before, because too many bytes wait on it.
    if let Ok((status, _)) = timeout(PATIENCE, poll.whole()).await? {
        ensure!(status == 503, "a poll of 6 MB is answered {status}");
    }
    // The peer holds all that it may, and others are served.
    let mut connections = Vec::new();
    for _ in 0..10 {
        connections.push(stage.http2(READS).await?);
    }
    let mut held = Held::of(connections);
    let before = stage.metric("chancery_cut_off_total").await?;
    held.ask(10, ADS_SOTW, &half(1_000_000, 900_000)).await;
    stage.metric_reaches("chancery_cut_off_total", before + 1.0, PATIENCE).await?;
    let ends = held.hold(stage, stage.seconds()).await?;
    ensure!((1..10).contains(&ends.count("open")), "not a part of them is held: {ends}");
    let most = stage.metric("chancery_memory_held_bytes").await?;
    ensure!(most <= MEMORY, "the server holds {most} bytes for clients");
    Ok(format!("{end}; halves of requests: {ends}"))
}
