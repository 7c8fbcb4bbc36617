//! Attacks by what a node says about itself: small texts that are large in memory, and nodes that are
//! in every group.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::attack::{Attack, LONGEST};
use crate::setup::{EDITED, Setup, cluster};
use crate::stage::{PATIENCE, Stage};
use crate::wire::grpc::{Http2, READS};
use crate::wire::http1::exchange;
use crate::wire::message::{Delta, text};
use crate::wire::{ATTACKER, CDS, INNOCENT, POLL};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "node-of-maps-rest",
        about: "polls that are held have a node of 1 MB that is 200,000 maps of one entry each",
        setup: |_| {},
        run: |stage| Box::pin(maps_over_rest(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "audiences-product",
        about: "polls come from each of 100 nodes in each of 100 groups, which have files of their own",
        setup: overlays,
        run: |stage| Box::pin(audiences(stage)),
        growth: 100,
        in_ci: true,
    },
];

/// The bytes that a node may have, and some for the rest of it.
const NODE: usize = (1 << 20) - 200;

/// Polls of listeners, of which there are none, so that no edit answers them.
const LISTENERS: &str = "/v3/discovery:listeners";

/// A poll whose node is full of maps that are within each other.
fn poll_of_maps(version: &str) -> Bytes {
    let chain = format!("{}0{}", "{\"\":".repeat(100), "}".repeat(100));
    let chains = vec![chain.as_str(); NODE / (chain.len() + 1)].join(",");
    let node = format!("{{\"id\":\"attacker\",\"metadata\":{{\"k\":[{chains}]}}}}");
    format!("{{\"version_info\":\"{version}\",\"node\":{node}}}").into()
}

async fn maps_over_rest(stage: &Stage) -> Result<String> {
    let line = format!("POST {LISTENERS}");
    let first = exchange(ATTACKER, stage.xds(), &line, &[], "{}", PATIENCE).await?;
    let answer: serde_json::Value = serde_json::from_str(&first.body)?;
    let version = answer["version_info"].as_str().or_else(|| answer["versionInfo"].as_str());
    let body = poll_of_maps(version.context("an answer has a version")?);
    let deadline = Instant::now() + stage.seconds();
    let mut tasks = JoinSet::new();
    for _ in 0..stage.scale(40, 20) {
        let (to, body) = (stage.xds(), body.clone());
        tasks.spawn(async move {
            let mut statuses = Vec::new();
            while Instant::now() < deadline {
                let connection = Http2::connect(ATTACKER, to, READS).await?;
                let mut call = connection.poll(LISTENERS, body.clone()).await?;
                statuses.push(call.whole().await?.0);
            }
            anyhow::Ok(statuses)
        });
    }
    let mut counts = BTreeMap::<u16, usize>::new();
    while let Some(task) = tasks.join_next().await {
        for status in task?.unwrap_or_default() {
            *counts.entry(status).or_default() += 1;
        }
    }
    stage.serves_others().await?;
    ensure!(!counts.is_empty(), "no poll was answered");
    Ok(format!("statuses {counts:?}"))
}

/// Files for many groups and for many nodes. All nodes may say that they are in any group.
fn overlays(setup: &mut Setup) {
    setup.is_alone = true;
    for at in 0..setup.scale(100, 40) {
        for (kind, short) in [("groups", "g"), ("nodes", "n")] {
            let one = |it| cluster(&format!("{short}-{it}"), 1, 0);
            let all: Vec<_> = (0..100).map(one).collect();
            setup.file(&format!("{kind}/{short}-{at}/c.json"), format!("[{}]", all.join(",")));
        }
    }
}

async fn audiences(stage: &Stage) -> Result<String> {
    stage.is_ready().await?;
    let before = stage.rss();
    let edge = stage.scale(100, 40);
    let mut tasks = JoinSet::new();
    for group in 0..edge {
        let to = stage.xds();
        tasks.spawn(async move {
            let connection = Http2::connect(ATTACKER, to, READS).await?;
            let mut answered = 0;
            for node in 0..edge {
                let body = format!(
                    "{{\"node\": {{\"id\": \"n-{node}\", \"cluster\": \"g-{group}\"}}, \
                     \"resource_names\": [\"innocent\"]}}"
                );
                let (status, _) = connection.poll(POLL, body.into()).await?.whole().await?;
                answered += usize::from(status == 200);
            }
            anyhow::Ok(answered)
        });
    }
    let mut answered = 0;
    while let Some(task) = tasks.join_next().await {
        answered += task??;
    }
    ensure!(answered == edge * edge, "{answered} of {} polls were answered", edge * edge);
    sleep(stage.seconds()).await;
    let grown = stage.rss().saturating_sub(before) >> 20;
    let took = edited(stage).await?;
    ensure!(stage.circumstances.is_bounded || took <= LONGEST, "then an edit takes {took:?}");
    ensure!(grown <= 100, "it has grown by {grown} MB by {answered} polls that are over");
    Ok(format!("{answered} polls: {grown} MB are left; then an edit takes {took:?}"))
}

/// Edits a file, and waits until a client has it.
async fn edited(stage: &Stage) -> Result<Duration> {
    let connection = Http2::connect(INNOCENT, stage.xds(), READS).await?;
    let mut call = connection.delta(&Delta::first("innocent", CDS, ["edited"])).await?;
    let first = call.message_within(PATIENCE).await?;
    let nonce = text(&first, 5);
    call.send(&Delta { type_url: CDS.to_owned(), nonce, ..Delta::default() }.encode())?;
    let begin = Instant::now();
    let beside = stage.dir().join("edited.tmp");
    fs::write(&beside, cluster("edited", 77, 0))?;
    fs::rename(&beside, stage.dir().join(EDITED))?;
    call.message_within(PATIENCE).await?;
    Ok(begin.elapsed())
}
