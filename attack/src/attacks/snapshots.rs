//! Attacks on the memory of resources, which no client is charged for: many states of them, and many
//! encodings.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::time::{sleep, timeout};

use crate::attack::Attack;
use crate::setup::{Setup, cluster};
use crate::stage::{PATIENCE, Stage};
use crate::wire::grpc::{Call, READS};
use crate::wire::http1::POLL_BODY;
use crate::wire::message::{Delta, Fields, Sotw};
use crate::wire::{ATTACKER, CDS, POLL};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "old-snapshots",
        about: "a file of 8 MB changes, and of each state a stream takes a kilobyte and stays",
        setup: |setup| setup.file("groups/other/big.json", state(FEW_LARGE, 0)),
        run: |stage| Box::pin(old_snapshots(stage, FEW_LARGE)),
        growth: 450,
        in_ci: true,
    },
    Attack {
        name: "old-small-snapshots",
        about: "as this, with 60,000 clusters in the file, which take more than their bytes",
        setup: |setup| setup.file("groups/other/big.json", state(MANY_SMALL, 0)),
        run: |stage| Box::pin(old_snapshots(stage, MANY_SMALL)),
        growth: 450,
        in_ci: true,
    },
    Attack {
        name: "all-encodings",
        about: "seven clients ask for 35 MB of clusters in each form that there is",
        setup: many_megabytes,
        run: |stage| Box::pin(all_encodings(stage)),
        growth: 170,
        in_ci: true,
    },
];

/// The number of the clusters in a file, and the bytes of each: about 8 MB.
type Sizes = (usize, usize);

const FEW_LARGE: Sizes = (80, 100_000);
const MANY_SMALL: Sizes = (60_000, 1);

/// The content of a file in one of its states.
fn state((count, bytes): Sizes, at: u64) -> String {
    let all: Vec<_> = (0..count).map(|one| cluster(&format!("b-{one}"), 1 + at, bytes)).collect();
    format!("[{}]", all.join(",\n"))
}

/// A member of the group whose file changes.
fn member() -> Vec<u8> {
    Fields::of(|node| {
        node.text(1, "attacker");
        node.text(2, "other");
    })
}

async fn old_snapshots(stage: &Stage, sizes: Sizes) -> Result<String> {
    let reader = stage.http2(READS).await?;
    let request = Sotw { node: Some(member()), ..Sotw::first("", CDS, ["b-0"]) };
    let mut watch = reader.sotw(&request).await?;
    let mut last = watch.message_within(PATIENCE).await?;
    let all = Sotw { node: Some(member()), ..Sotw::first("", CDS, [""; 0]) };
    let (begin, mut held) = (Instant::now(), Vec::<Call>::new());
    let unread = stage.http2(1_000).await?;
    let most = stage.scale(50, 5);
    while held.len() < most && begin.elapsed() < Duration::from_secs(55) {
        let mut call = unread.sotw(&all).await?;
        timeout(PATIENCE, call.takes(500)).await.context("the beginning of a state")??;
        held.push(call);
        stage.write("groups/other/big.json", state(sizes, held.len() as u64))?;
        watch.send(&request.answer(&last, None).encode())?;
        last = watch.message_within(PATIENCE).await?;
    }
    stage.serves_others().await?;
    let mut open = 0;
    for call in &mut held {
        open += usize::from(call.end(Duration::from_millis(1)).await == "open");
    }
    Ok(format!("{} states, {open} streams are open", held.len()))
}

/// The files, and the clusters of each.
const FILES: usize = 4;
const CLUSTERS: usize = 80;

fn many_megabytes(setup: &mut Setup) {
    for file in 0..setup.scale(FILES, 3) {
        let one = |at| cluster(&format!("m-{file}-{at}"), 1, 110_000);
        let all: Vec<_> = (0..CLUSTERS).map(one).collect();
        setup.file(&format!("many-{file}.json"), format!("[{}]", all.join(",\n")));
    }
}

/// A node with the features of a client that takes wrapped resources, or with none.
fn node_with(feature: Option<&str>) -> Option<Vec<u8>> {
    Some(Fields::of(|node| {
        node.text(1, "attacker");
        feature.iter().for_each(|feature| node.text(10, feature));
    }))
}

async fn all_encodings(stage: &Stage) -> Result<String> {
    let before = stage.rss();
    let names = |file| (0..CLUSTERS).map(move |at| format!("m-{file}-{at}"));
    let named: Vec<String> = (0..stage.scale(FILES, 3)).flat_map(names).collect();
    let mut grown = Vec::new();
    for feature in [None, Some("xds.config.resource-in-sotw")] {
        for names in [Vec::new(), named.clone()] {
            let connection = stage.http2(READS).await?;
            let request = Sotw { node: node_with(feature), ..Sotw::first("", CDS, names) };
            connection.sotw(&request).await?.message_within(PATIENCE).await?;
            grown.push(stage.rss().saturating_sub(before) >> 20);
        }
    }
    for names in [Vec::new(), named] {
        let connection = stage.http2(READS).await?;
        let mut call = connection.delta(&Delta::first("attacker", CDS, names.clone())).await?;
        // A delta client is sent the resources in parts.
        let begin = Instant::now();
        while begin.elapsed() < stage.seconds() {
            let Ok(response) = call.message_within(Duration::from_secs(2)).await else { break };
            let nonce = crate::wire::message::text(&response, 5);
            let ack = Delta { type_url: CDS.to_owned(), nonce, ..Delta::default() };
            call.send(&ack.encode())?;
        }
        grown.push(stage.rss().saturating_sub(before) >> 20);
    }
    let connection = stage.http2(READS).await?;
    let (status, size) = connection.poll(POLL, POLL_BODY.into()).await?.whole().await?;
    ensure!(status == 200, "a poll from {ATTACKER} is answered {status}");
    grown.push(stage.rss().saturating_sub(before) >> 20);
    sleep(stage.seconds()).await;
    stage.serves_others().await?;
    Ok(format!("{} MB as JSON; grown by {grown:?} MB after each form", size >> 20))
}
