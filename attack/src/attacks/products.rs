//! Attacks on sums and products: each stream stays below the limits that it has alone.
//!
//! A refusal here is because of all that a peer holds, or all peers together. The
//! attackers of one attack may come from many addresses, so that no share of a peer is large.

use anyhow::Result;

use super::memory::{half, many_clusters};
use super::streams::Held;
use crate::attack::Attack;
use crate::stage::Stage;
use crate::wire::grpc::{READS, STALLS};
use crate::wire::message::{Delta, Fields, Sotw, framed, node_with_metadata};
use crate::wire::{ADS_DELTA, ADS_SOTW, CDS};

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
