//! Attacks by those who ask how clients stand: readers of events, those who wait for loads, and questions for the
//! status of clients.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::attack::Attack;
use crate::stage::{SOON, Stage, until};
use crate::wire::grpc::{READS, STALLS};
use crate::wire::http1::exchange;
use crate::wire::message::{Delta, Fields, Sotw};
use crate::wire::raw::Raw;
use crate::wire::{ATTACKER, CDS, CSDS};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "events-unread",
        about: "3,000 readers of events, from nonsense, the past and the future on, never read, and events come",
        setup: |_| {},
        run: |stage| Box::pin(events(stage)),
        growth: 200,
        in_ci: true,
    },
    Attack {
        name: "waiters",
        about: "3,000 wait for loads at once, with nonsense or for what never comes, and half of them leave",
        setup: |_| {},
        run: |stage| Box::pin(waiters(stage)),
        growth: 200,
        in_ci: true,
    },
    Attack {
        name: "status-matchers",
        about: "questions for the status of clients with thousands of matchers, huge patterns and a megabyte of names",
        setup: |_| {},
        run: |stage| Box::pin(matchers(stage)),
        growth: 200,
        in_ci: true,
    },
    Attack {
        name: "status-unread",
        about: "300 ask for the status of a client with much, over gRPC and on the admin port, and never read",
        setup: |setup| setup.clusters(setup.scale(20_000, 10_000), 400),
        run: |stage| Box::pin(unread(stage)),
        growth: 350,
        in_ci: true,
    },
];

/// Opens a connection to the admin interface for each of these requests, which are sent and not read.
async fn opened(stage: &Stage, requests: impl Iterator<Item = String>) -> Vec<Raw> {
    let mut open = Vec::new();
    for request in requests {
        let Ok(mut raw) = Raw::dial_from(ATTACKER, stage.admin(), false).await else { continue };
        raw.write(request.as_bytes()).await;
        open.push(raw);
    }
    open
}

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n")
}

/// The statuses of the answers that have come, and how many there are of each.
async fn statuses(open: &mut [Raw]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for raw in open {
        let read = raw.read_to_end(Duration::from_millis(1)).await.bytes;
        let status = read.get(9..12).map(|it| String::from_utf8_lossy(it).into_owned());
        *counts.entry(status.unwrap_or_else(|| "none".to_owned())).or_default() += 1;
    }
    counts
}

async fn events(stage: &Stage) -> Result<String> {
    let ids =
        ["", "00000000-1", "ffffffff-18446744073709551615", "x", "-", "1-99999999999999999999"];
    let readers = stage.scale(3_000, 300);
    let requests = (0..readers).map(|at| match ids[at % ids.len()] {
        "" => get("/api/v1/events", ""),
        id => get("/api/v1/events", &format!("last-event-id: {id}\r\n")),
    });
    let mut open = opened(stage, requests).await;
    // Each of these streams is an event when it comes and when it goes.
    let connection = stage.http2(READS).await?;
    for at in 0..stage.scale(3_000, 300) {
        let first = Sotw::first(&format!("node-{at}-{}", "n".repeat(200)), CDS, ["a"]);
        let mut call = connection.sotw(&first).await?;
        call.head().await?;
        call.reset();
    }
    stage.serves_others().await?;
    let answers = statuses(&mut open).await;
    ensure!(answers.contains_key("503"), "no reader was refused: {answers:?}");
    drop(open);
    until(SOON, "there is a place for a reader", async || {
        let mut next = opened(stage, std::iter::once(get("/api/v1/events", ""))).await;
        sleep(Duration::from_millis(50)).await;
        Ok(statuses(&mut next).await.contains_key("200"))
    })
    .await?;
    Ok(format!("{answers:?}"))
}

async fn waiters(stage: &Stage) -> Result<String> {
    let long = "g".repeat(8_000);
    let queries = [
        "timeout=30&revision=18446744073709551615".to_owned(),
        "timeout=30&hash=0".to_owned(),
        "timeout=30&min_nodes=1000000".to_owned(),
        "timeout=30&node=nobody".to_owned(),
        format!("timeout=30&{}", "node=a&".repeat(1_000)),
        format!("timeout=30&group={long}"),
        format!("timeout=30&file=/{long}"),
        "timeout=18446744073709551616".to_owned(),
        "timeout=-1&revision=%00&hash=%ff&&&==".to_owned(),
    ];
    let waiters = stage.scale(3_000, 300);
    let requests =
        (0..waiters).map(|at| get(&format!("/api/v1/wait?{}", queries[at % queries.len()]), ""));
    let mut open = opened(stage, requests).await;
    stage.serves_others().await?;
    let answers = statuses(&mut open).await;
    ensure!(answers.contains_key("400"), "no nonsense was refused: {answers:?}");
    open.truncate(waiters / 2);
    stage.serves_others().await?;
    drop(open);
    // Whoever leaves gives the place back.
    until(SOON, "somebody may wait", async || {
        Ok(stage.page("/api/v1/wait?timeout=0").await?.status == 200)
    })
    .await?;
    Ok(format!("{answers:?}"))
}

/// Questions that are nonsense, or meant to be dear.
fn questions() -> Vec<String> {
    let of = |matcher: &str, count: usize| {
        format!("{{\"node_matchers\": [{}]}}", vec![matcher; count].join(","))
    };
    let regex =
        |regex: &str| format!("{{\"node_id\": {{\"safe_regex\": {{\"regex\": \"{regex}\"}}}}}}");
    let not = "{\"not_match\": ".repeat(500) + "{}" + &"}".repeat(500);
    vec![
        of("{\"node_id\": {\"contains\": \"x\"}}", 1),
        of("{\"node_id\": {\"contains\": \"x\"}}", 2_000),
        of(&regex("(((a*)*)*)*b"), 500),
        of(&regex(&"(a|b|c|d)?".repeat(3_000)), 1),
        of(&regex("(.{1000}){1000}"), 10),
        of(&regex(&"(".repeat(5_000)), 1),
        of(&format!("{{\"node_id\": {{\"exact\": \"{}\"}}}}", "n".repeat(1 << 20)), 1),
        format!("{{\"node_matchers\": [{{\"node_metadatas\": [{{\"value\": {not}}}]}}]}}"),
        "[".repeat(60_000),
    ]
}

async fn matchers(stage: &Stage) -> Result<String> {
    let mut tasks = JoinSet::new();
    let all = questions();
    for at in 0..stage.scale(1_000, 200) {
        let (to, body) = (
            if at % 2 == 0 { stage.admin() } else { stage.xds() },
            all[at / 2 % all.len()].clone(),
        );
        tasks.spawn(async move {
            let line = "POST /v3/discovery:client_status";
            exchange(ATTACKER, to, line, &[], &body, SOON).await.map(|answer| answer.status)
        });
    }
    stage.serves_others().await?;
    let (mut good, mut refused) = (0, 0);
    while let Some(status) = tasks.join_next().await {
        match status? {
            Ok(200) => good += 1,
            Ok(status) if (400..500).contains(&status) || status == 503 => refused += 1,
            Ok(status) => anyhow::bail!("a question was answered with {status}"),
            // A connection more than there may be is closed.
            Err(_) => {}
        }
    }
    ensure!(good > 0 && refused > 0, "{good} were answered, {refused} refused");
    Ok(format!("{good} questions were answered, {refused} refused"))
}

async fn unread(stage: &Stage) -> Result<String> {
    let holder = stage.http2(READS).await?;
    let mut all = holder.delta(&Delta::first("holder", CDS, ["*"])).await?;
    let response = all.message_within(SOON).await?;
    all.send(&Delta::ack(&response).encode())?;
    let question = Fields::of(|_| {});
    let mut calls = Vec::new();
    for _ in 0..stage.scale(300, 60) {
        let connection = stage.http2(STALLS).await?;
        let mut call = connection.stream(CSDS).await?;
        call.send(&question)?;
        calls.push((connection, call));
    }
    let post = "POST /v3/discovery:client_status HTTP/1.1\r\nhost: localhost\r\n\
                content-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    let mut open = opened(stage, (0..stage.scale(300, 60)).map(|_| post.to_owned())).await;
    sleep(2 * stage.seconds()).await;
    stage.serves_others().await?;
    Ok(format!("{:?} on the admin port", statuses(&mut open).await))
}
