//! Attacks on time: messages that cost far more to handle than to send.
//!
//! The innocent clients are the judges: a message that holds a worker for long makes them wait.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bytes::Bytes;
use tokio::task::JoinSet;

use super::streams::Ends;
use crate::attack::Attack;
use crate::setup::{Setup, cluster};
use crate::stage::{PATIENCE, Stage};
use crate::wire::grpc::{Call, Http2, READS, STALLS};
use crate::wire::http1::POLL_BODY;
use crate::wire::message::{Delta, Fields, Sotw, fields, node_with_metadata, text};
use crate::wire::{ADS_DELTA, CDS, POLL, VHDS};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "vhds-host",
        about: "four streams ask for a virtual host whose name has 500 kB of labels",
        setup: hosts,
        run: |stage| Box::pin(vhds_host(stage)),
        growth: 200,
        in_ci: true,
    },
    Attack {
        name: "xdstp-unsubscribe",
        about: "four streams drop 60,000 of 120,000 xdstp names, in another spelling of them",
        setup: |_| {},
        run: |stage| Box::pin(xdstp_unsubscribe(stage)),
        growth: 400,
        in_ci: true,
    },
    Attack {
        name: "dynamic-parameters",
        about: "a node with metadata of 31 MB changes its dynamic parameters again and again",
        setup: |_| {},
        run: |stage| Box::pin(dynamic_parameters(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "rest-pollers",
        about: "20 pollers take 10 MB each, again and again",
        setup: |setup| setup.clusters(1_000, 10_000),
        run: |stage| Box::pin(pollers(stage, false)),
        growth: 400,
        in_ci: true,
    },
    Attack {
        name: "rest-pollers-cancelled",
        about: "20 pollers ask for 10 MB and cancel at once, again and again",
        setup: |setup| setup.clusters(1_000, 10_000),
        run: |stage| Box::pin(pollers(stage, true)),
        growth: 400,
        in_ci: true,
    },
    Attack {
        name: "glob-unsubscribe",
        about: "four streams that take nothing drop 1,000 globs beside a collection of 20,000",
        setup: collection,
        run: |stage| Box::pin(glob_unsubscribe(stage)),
        growth: 200,
        in_ci: true,
    },
];

/// Waits for the answer to one call of each of four connections, which are made at the same time.
async fn four<F>(stage: &Stage, one: impl Fn(Http2) -> F) -> Result<String>
where
    F: Future<Output = Result<String>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        tasks.spawn(one(stage.http2(READS).await?));
    }
    let mut answers = Vec::new();
    while let Some(answer) = tasks.join_next().await {
        answers.push(answer?.unwrap_or_else(|fault| format!("{fault:#}")));
    }
    answers.sort();
    answers.dedup();
    Ok(answers.join("; "))
}

/// A virtual host for all hosts, with ends of every length that no host of the attack has.
fn hosts(setup: &mut Setup) {
    setup.limit("max-name-length: 1MiB");
    let ends = (1..250).map(|length| format!("\"*.{}\"", "b".repeat(length)));
    let domains: Vec<_> = ends.chain(["\"*\"".to_owned()]).collect();
    let resource = "type.googleapis.com/envoy.service.discovery.v3.Resource";
    setup.file(
        "hosts.json",
        format!(
            "{{\"@type\": \"{resource}\", \"name\": \"routes/all\", \"resource\": {{\"@type\": \
             \"{VHDS}\", \"name\": \"routes/all\", \"domains\": [{}]}}}}",
            domains.join(", ")
        ),
    );
}

/// The bytes that the name of a host has at most.
const HOST: usize = 255;

async fn vhds_host(stage: &Stage) -> Result<String> {
    let labels = stage.scale(250_000, 10_000);
    for (labels, is_found) in [(HOST / 2, true), (HOST / 2 + 1, false), (labels, false)] {
        let name = format!("routes/{}", "a.".repeat(labels));
        let told = four(stage, move |connection| is_found_as(connection, name.clone())).await?;
        let expected = if is_found { "routes/all" } else { "nothing" };
        ensure!(told == expected, "a host of {labels} labels is answered {told}");
    }
    Ok(format!("hosts of more than {HOST} bytes are unknown, and one of fewer is found"))
}

/// The name of the virtual host that is sent for a name; a resource without a body is none.
async fn is_found_as(connection: Http2, name: String) -> Result<String> {
    let mut call = connection.delta(&Delta::first("attacker", VHDS, [&name])).await?;
    let response = call.message_within(PATIENCE).await?;
    let [resource] = fields(&response, 2)[..] else { return Err(anyhow!("no single resource")) };
    ensure!(fields(resource, 4) == [name.as_bytes()], "it does not say for which name it is");
    let is_found = !fields(resource, 2).is_empty();
    Ok(if is_found { text(resource, 3) } else { "nothing".to_owned() })
}

/// A name of a cluster under an authority, in one of two spellings of the same name.
fn xdstp(at: usize, parameters: &str) -> String {
    format!("xdstp://authority/envoy.config.cluster.v3.Cluster/name-{at}?{parameters}")
}

async fn xdstp_unsubscribe(stage: &Stage) -> Result<String> {
    let count = stage.scale(120_000, 12_000);
    let told = four(stage, move |connection| async move {
        let mut call = connection.stream(ADS_DELTA).await?;
        let names = (0..count).map(|at| xdstp(at, "b=1&a=2"));
        call.send(&Delta::first("attacker", CDS, names).encode())?;
        call.message_within(PATIENCE).await.context("it cannot subscribe")?;
        let unsubscribe = (0..count / 2).map(|at| xdstp(at, "a=2&b=1")).collect();
        let drop = Delta { type_url: CDS.to_owned(), unsubscribe, ..Delta::default() };
        call.send(&drop.encode())?;
        is_answered(&mut call, CDS).await
    })
    .await?;
    // Four of them together may be more than one client may hold.
    ensure!(told.contains("handled"), "none was handled: {told}");
    Ok(told)
}

/// Subscribes to one more name, whose answer shows that all before it was handled.
async fn is_answered(call: &mut Call, type_url: &str) -> Result<String> {
    let request = Delta {
        type_url: type_url.to_owned(),
        subscribe: vec!["innocent".to_owned()],
        ..Delta::default()
    };
    call.send(&request.encode())?;
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let response = call.message_within(PATIENCE).await?;
        if fields(&response, 2).iter().any(|resource| text(resource, 3) == "innocent") {
            return Ok("handled".to_owned());
        }
        call.send(&Delta::ack(&response).encode())?;
    }
    Err(anyhow!("no answer in {PATIENCE:?}"))
}

/// A stream whose node has metadata, and the first response to it.
async fn with_metadata(stage: &Stage, keys: usize) -> Result<(Http2, Call, Sotw, Bytes)> {
    let connection = stage.http2(READS).await?;
    let node = Some(node_with_metadata("attacker", keys));
    let first = Sotw { node, ..Sotw::first("attacker", CDS, ["innocent"]) };
    let mut call = connection.sotw(&first).await?;
    let response = call.message_within(PATIENCE).await?;
    Ok((connection, call, first, response))
}

async fn dynamic_parameters(stage: &Stage) -> Result<String> {
    // A server that takes less than 31 MB is sent nearly the megabyte that it takes.
    let (large, small) = (stage.scale(super::memory::KEYS, 50_000), 30_000);
    let (_connection, mut call, first, response) = match with_metadata(stage, large).await {
        Ok(stream) => stream,
        Err(_) => with_metadata(stage, small).await?,
    };
    let begin = Instant::now();
    let mut sent = 0_u32;
    while begin.elapsed() < stage.seconds() {
        let node = Fields::of(|node| {
            node.message(12, |entry| {
                entry.text(1, CDS);
                entry.message(2, |parameters| {
                    parameters.message(1, |pair| {
                        pair.text(1, "key");
                        pair.text(2, sent.to_string());
                    });
                });
            });
        });
        let next = Sotw { node: Some(node), ..first.answer(&response, None) };
        if call.send(&next.encode()).is_err() {
            break;
        }
        sent += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ensure!(sent > 10, "{sent} changes were made: {}", call.end(Duration::from_millis(1)).await);
    Ok(format!("{sent} changes: {}", call.end(Duration::from_millis(1)).await))
}

async fn pollers(stage: &Stage, cancels: bool) -> Result<String> {
    let mut tasks = JoinSet::new();
    let deadline = Instant::now() + stage.seconds();
    for _ in 0..20 {
        let connection = stage.http2(READS).await?;
        tasks.spawn(async move {
            let (mut polls, mut last) = (0, String::new());
            while Instant::now() < deadline {
                let Ok(mut call) = connection.poll(POLL, Bytes::from(POLL_BODY)).await else {
                    break;
                };
                polls += 1;
                if cancels {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    call.reset();
                    continue;
                }
                match tokio::time::timeout(PATIENCE, call.whole()).await {
                    Ok(Ok((status, _))) => last = status.to_string(),
                    Ok(Err(fault)) => last = fault.to_string(),
                    Err(_) => break,
                }
            }
            (polls, last)
        });
    }
    let done = tasks.join_all().await;
    let polls: usize = done.iter().map(|(polls, _)| polls).sum();
    let last = &done[0].1;
    ensure!(polls >= 20, "{polls} polls were made, the last: {last}");
    ensure!(cancels || last == "200", "the last poll was answered: {last}");
    Ok(format!("{polls} polls, the last: {last}"))
}

/// The names before the last part, which is the collection and the member of it.
const COLLECTION: &str = "xdstp://authority/envoy.config.cluster.v3.Cluster";

/// A collection of 20,000 clusters.
fn collection(setup: &mut Setup) {
    let name = |at| format!("{COLLECTION}/all/c-{at}");
    let all: Vec<_> = (0..20_000).map(|at| cluster(&name(at), 1, 0)).collect();
    setup.file("collection.json", format!("[{}]", all.join(",\n")));
}

async fn glob_unsubscribe(stage: &Stage) -> Result<String> {
    let globs = stage.scale(1_000, 50);
    let glob = |at| format!("{COLLECTION}/{at}/*");
    let mut open = Vec::new();
    for _ in 0..4 {
        // Nothing is sent to a client without a window, so the whole collection stays owed.
        let connection = stage.http2(STALLS).await?;
        let all = (0..globs).map(glob).chain([format!("{COLLECTION}/all/*")]);
        let mut call = connection.delta(&Delta::first("attacker", CDS, all)).await?;
        let unsubscribe = (0..globs).map(glob).collect();
        let drop = Delta { type_url: CDS.to_owned(), unsubscribe, ..Delta::default() };
        call.send(&drop.encode())?;
        open.push((call, connection));
    }
    tokio::time::sleep(2 * stage.seconds()).await;
    stage.serves_others().await?;
    let mut ends = Vec::new();
    for (call, _) in &mut open {
        ends.push(call.end(Duration::from_millis(1)).await);
    }
    Ok(Ends::of(ends).to_string())
}
