//! Attacks by many nodes, and by nodes that are more in memory than on the wire.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::streams::{Ends, Held};
use crate::attack::Attack;
use crate::stage::{PATIENCE, Stage};
use crate::wire::grpc::{Http2, READS};
use crate::wire::message::{Fields, Sotw, framed};
use crate::wire::{ADS_SOTW, ATTACKER, CDS, POLL};

/// The bytes that a node may have, and some for the rest of it.
const NODE: usize = (1 << 20) - 200;

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "node-of-maps-grpc",
        about: "streams state a node of 1 MB that is 130,000 maps of one entry each",
        setup: |_| {},
        run: |stage| Box::pin(maps_over_grpc(stage)),
        growth: 400,
        in_ci: true,
    },
    Attack {
        name: "node-of-features",
        about: "nodes with 500,000 features without a name change their parameters without end",
        setup: |_| {},
        run: |stage| Box::pin(features(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "node-ids-million",
        about: "streams and polls come from as many different nodes as there is time for",
        setup: |_| {},
        run: |stage| Box::pin(ids(stage)),
        growth: 150,
        in_ci: true,
    },
    Attack {
        name: "groups-flip",
        about: "the rules of groups put 5,000 streams into another group again and again",
        setup: |setup| setup.config = moved(0),
        run: |stage| Box::pin(moving_groups(stage)),
        growth: 200,
        in_ci: true,
    },
];

async fn maps_over_grpc(stage: &Stage) -> Result<String> {
    // A value that is a map with one entry, which has neither a name nor a content.
    let one = Fields::of(|list| {
        list.message(1, |value| {
            value.message(5, |map| map.message(1, |entry| entry.message(2, |_| {})));
        });
    });
    let list = one.repeat(NODE / one.len());
    let node = Fields::of(|node| {
        node.text(1, "attacker");
        node.message(3, |metadata| {
            metadata.message(1, |entry| {
                entry.text(1, "k");
                entry.message(2, |value| value.bytes(6, &list));
            });
        });
    });
    let message = framed(&Sotw { node: Some(node), ..Sotw::first("", CDS, ["innocent"]) }.encode());
    let deadline = Instant::now() + 2 * stage.seconds();
    let mut tasks = JoinSet::new();
    for _ in 0..stage.scale(24, 12) {
        let (to, message) = (stage.xds(), message.clone());
        tasks.spawn(async move {
            let connection = Http2::connect(ATTACKER, to, READS).await?;
            let mut ends = Vec::new();
            while Instant::now() < deadline {
                let mut call = connection.asks(ADS_SOTW, message.clone()).await?;
                let answer = call.message_within(PATIENCE).await;
                ends.push(answer.map_or_else(|end| end.to_string(), |_| "answered".to_owned()));
            }
            anyhow::Ok(ends)
        });
    }
    let mut ends = Vec::new();
    while let Some(task) = tasks.join_next().await {
        ends.extend(task?.unwrap_or_default());
    }
    stage.serves_others().await?;
    ensure!(!ends.is_empty(), "no stream had an answer");
    Ok(Ends::of(ends).to_string())
}

/// A request of a node that states other parameters each time.
fn changed(value: usize) -> Bytes {
    let node = Fields::of(|node| {
        node.text(1, "attacker");
        node.message(12, |entry| {
            entry.text(1, CDS);
            entry.message(2, |context| {
                context.message(1, |parameter| parameter.text(2, value.to_string()));
            });
        });
    });
    framed(&Sotw { node: Some(node), ..Sotw::first("", CDS, ["innocent"]) }.encode())
}

async fn features(stage: &Stage) -> Result<String> {
    let node = Fields::of(|node| {
        node.text(1, "attacker");
        (0..500_000).for_each(|_| node.text(10, ""));
    });
    let first = framed(&Sotw { node: Some(node), ..Sotw::first("", CDS, ["innocent"]) }.encode());
    let again: Bytes = (0..100).flat_map(|at| changed(at % 2)).collect::<Vec<_>>().into();
    let connection = stage.http2(READS).await?;
    let (begin, mut ends) = (Instant::now(), Vec::new());
    while begin.elapsed() < 2 * stage.seconds() {
        let mut calls = Vec::new();
        for _ in 0..8 {
            let mut call = connection.asks(ADS_SOTW, first.clone()).await?;
            // The server may have ended the stream for its first request already.
            call.send_bytes(again.clone()).ok();
            calls.push(call);
        }
        for mut call in calls {
            ends.push(call.end(Duration::from_millis(100)).await);
        }
    }
    stage.serves_others().await?;
    Ok(Ends::of(ends).to_string())
}

async fn ids(stage: &Stage) -> Result<String> {
    let deadline = Instant::now() + 3 * stage.seconds();
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let to = stage.xds();
        tasks.spawn(async move {
            let connection = Http2::connect(ATTACKER, to, READS).await?;
            let mut asked = 0_usize;
            while Instant::now() < deadline {
                let id = format!("{task}-{asked}-{}", "x".repeat(1_000));
                let cluster = format!("{{\"node\": {{\"id\": \"{id}\", \"cluster\": \"{id}\"}}}}");
                connection.poll(POLL, cluster.into()).await?.whole().await?;
                let request = Sotw::first(&id, CDS, ["innocent"]);
                let mut call = connection.sotw(&request).await?;
                call.message_within(PATIENCE).await?;
                call.reset();
                asked += 2;
            }
            anyhow::Ok(asked)
        });
    }
    let mut asked = 0;
    while let Some(task) = tasks.join_next().await {
        asked += task??;
    }
    stage.serves_others().await?;
    ensure!(asked > 1_000, "{asked} nodes asked");
    Ok(format!("{asked} nodes asked"))
}

/// A configuration whose rules put every node into another group each time.
fn moved(at: u64) -> String {
    format!("groups:\n- name: g-{}\n  match:\n    id: attacker*\n", at % 2)
}

async fn moving_groups(stage: &Stage) -> Result<String> {
    let mut held = Held::connect(stage, 10, READS).await?;
    let request = framed(&Sotw::first("attacker", CDS, ["innocent"]).encode());
    held.ask(stage.scale(5_000, 500), ADS_SOTW, &request).await;
    let (begin, mut at) = (Instant::now(), 0);
    while begin.elapsed() < 3 * stage.seconds() {
        at += 1;
        stage.write("chancery.yaml", moved(at))?;
        // A change has to outlast some looks before it counts.
        sleep(Duration::from_millis(600)).await;
    }
    stage.serves_others().await?;
    let ends = held.hold(stage, Duration::ZERO).await?;
    ends.at_least(100, "open")?;
    Ok(format!("{at} changes; {ends}"))
}
