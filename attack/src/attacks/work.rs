//! Attacks on the workers: many connections, or few messages, that have them work without end.
//!
//! Each piece of this work is short or legal by itself. The innocent clients are the judges: they wait
//! for the pieces of all connections that are before them.

use std::time::Instant;

use anyhow::{Result, ensure};
use bytes::Bytes;
use tokio::task::JoinSet;

use super::streams::{Ends, peer_address};
use crate::attack::Attack;
use crate::setup::{Setup, cluster};
use crate::stage::{PATIENCE, Stage};
use crate::wire::grpc::{Http2, READS};
use crate::wire::message::{Delta, Fields, Sotw, framed, node};
use crate::wire::raw::Write;
use crate::wire::{ADS_DELTA, ADS_SOTW, ATTACKER, CDS};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "connections-work",
        about: "1,000 connections of one client send short requests as fast as they are taken",
        setup: |_| {},
        run: |stage| Box::pin(short_requests(stage)),
        growth: 250,
        in_ci: true,
    },
    Attack {
        name: "xdstp-parameters",
        about: "64 streams drop names with 32 context parameters that they never had",
        setup: |_| {},
        run: |stage| Box::pin(parameters(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "glob-flips",
        about: "300 streams subscribe to a collection of 20,000 and drop it in the same request",
        setup: collection,
        run: |stage| Box::pin(glob_flips(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "rules-times-node",
        about: "16 nodes with a text of 1 MB change their parameters, and 50 rules look at it",
        setup: |setup| setup.config = rules(),
        run: |stage| Box::pin(rules_times_node(stage)),
        growth: 200,
        in_ci: true,
    },
    Attack {
        name: "long-work-and-all",
        about: "7 peers send requests of 20 MB, and others ask for all of 12,000 clusters",
        setup: long_work_setup,
        run: |stage| Box::pin(long_work(stage)),
        growth: 450,
        in_ci: true,
    },
];

/// The streams of clusters alone, whose requests need not name their type.
const CDS_SOTW: &str = "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters";

/// Opens a stream on each of so many connections, and sends the same bytes on it as fast as they are
/// taken.
async fn pour(stage: &Stage, count: usize, path: &'static str, all: [Bytes; 2]) -> Result<String> {
    let (to, deadline) = (stage.xds(), Instant::now() + 3 * stage.seconds());
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        let [first, again] = all.clone();
        tasks.spawn(async move {
            let connection = Http2::connect(ATTACKER, to, READS).await?;
            let mut call = connection.asks(path, first).await?;
            let mut sent = 0;
            while Instant::now() < deadline {
                let mut rest = again.clone();
                while !rest.is_empty() && Instant::now() < deadline {
                    if call.pours(&mut rest).await == Write::Closed {
                        return anyhow::Ok((sent, call.end(PATIENCE).await));
                    }
                }
                sent += again.len() - rest.len();
            }
            Ok((sent, "open".to_owned()))
        });
    }
    let (mut sent, mut ends) = (0, Vec::new());
    while let Some(task) = tasks.join_next().await {
        match task? {
            Ok((bytes, end)) => {
                sent += bytes;
                ends.push(end);
            }
            Err(refusal) => ends.push(refusal.to_string()),
        }
    }
    stage.serves_others().await?;
    ensure!(sent > 0, "nothing was taken");
    Ok(format!("{} MB were taken; {}", sent >> 20, Ends::of(ends)))
}

async fn short_requests(stage: &Stage) -> Result<String> {
    let first = framed(&Sotw::first("attacker", "", ["innocent"]).encode());
    // The answer to a response that there never was changes nothing.
    let stale = framed(&Fields::of(|request| request.text(5, "x")));
    let again = Bytes::from(stale.repeat(8_000));
    pour(stage, stage.scale(1_000, 100), CDS_SOTW, [first, again]).await
}

/// A name with as many context parameters as it may have, which are not in their order.
fn long_name(at: usize) -> String {
    let digit = |digit: usize| char::from(b"zyxwvutsrqponmlkjihgfedcba9876543210"[digit % 36]);
    let parameters = (0..32).map(|it| format!("{}=", digit(it)));
    let parameters: Vec<_> = parameters.collect();
    format!("xdstp://a/envoy.config.cluster.v3.Cluster/{at}?{}", parameters.join("&"))
}

/// A request that drops so many names which the client never asked for.
fn drops(count: usize) -> Bytes {
    let unsubscribe = (0..count).map(long_name).collect();
    framed(&Delta { type_url: CDS.to_owned(), unsubscribe, ..Delta::default() }.encode())
}

async fn parameters(stage: &Stage) -> Result<String> {
    let first = framed(&Delta::first("attacker", CDS, ["innocent"]).encode());
    pour(stage, stage.scale(64, 16), ADS_DELTA, [first, drops(5_000)]).await
}

/// The glob of the collection.
const GLOB: &str = "xdstp://authority/envoy.config.cluster.v3.Cluster/all/*";

/// A collection of 20,000 clusters.
fn collection(setup: &mut Setup) {
    let name = |at| GLOB.replace('*', &format!("c-{at}"));
    let all: Vec<_> = (0..20_000).map(|at| cluster(&name(at), 1, 0)).collect();
    setup.file("collection.json", format!("[{}]", all.join(",\n")));
}

async fn glob_flips(stage: &Stage) -> Result<String> {
    let first = framed(&Delta::first("attacker", CDS, ["innocent"]).encode());
    let both = vec![GLOB.to_owned()];
    let flip = Delta {
        type_url: CDS.to_owned(),
        subscribe: both.clone(),
        unsubscribe: both,
        ..Delta::default()
    };
    let again = Bytes::from(framed(&flip.encode()).repeat(64));
    pour(stage, stage.scale(300, 30), ADS_DELTA, [first, again]).await
}

/// The configuration of a server with 50 rules on the metadata of a node.
fn rules() -> String {
    let rule = |at| format!("- name: g-{at}\n  match:\n    metadata:\n      k: eu-*-prod-{at}\n");
    format!("groups:\n{}", (0..50).map(rule).collect::<String>())
}

async fn rules_times_node(stage: &Stage) -> Result<String> {
    let long = format!("eu-{}", "-pro".repeat(250_000));
    let first = Fields::of(|node| {
        node.text(1, "attacker");
        node.message(3, |metadata| {
            metadata.message(1, |entry| {
                entry.text(1, "k");
                entry.message(2, |value| value.text(3, &long));
            });
        });
    });
    let first = Sotw { node: Some(first), ..Sotw::first("", CDS, ["innocent"]) };
    let change = |value: usize| {
        let mut changed = node("attacker");
        changed.extend(Fields::of(|node| {
            node.message(12, |entry| {
                entry.text(1, CDS);
                entry.message(2, |context| {
                    context.message(1, |parameter| {
                        parameter.text(1, "k");
                        parameter.text(2, value.to_string());
                    });
                });
            });
        }));
        framed(&Sotw { node: Some(changed), ..Sotw::first("", CDS, ["innocent"]) }.encode())
    };
    let again: Vec<u8> = (0..100).flat_map(|value| change(value % 2)).collect();
    pour(stage, 16, ADS_SOTW, [framed(&first.encode()), again.into()]).await
}

fn long_work_setup(setup: &mut Setup) {
    setup.clusters(12_000, 80);
    setup.asks_large = true;
}

async fn long_work(stage: &Stage) -> Result<String> {
    let first = framed(&Delta::first("attacker", CDS, ["innocent"]).encode());
    let again = drops(stage.scale(110_000, 22_000));
    let deadline = Instant::now() + 3 * stage.seconds();
    let mut tasks = JoinSet::new();
    for peer in 0..7 {
        let (first, again, to) = (first.clone(), again.clone(), stage.xds());
        tasks.spawn(async move {
            let mut ends = Vec::new();
            while Instant::now() < deadline {
                let connection = Http2::connect(peer_address(peer), to, READS).await?;
                let mut call = connection.asks(ADS_DELTA, first.clone()).await?;
                while Instant::now() < deadline {
                    let mut rest = again.clone();
                    while !rest.is_empty() && call.pours(&mut rest).await != Write::Closed {}
                    if !rest.is_empty() {
                        ends.push(call.end(PATIENCE).await);
                        break;
                    }
                    ends.push("sent".to_owned());
                }
            }
            anyhow::Ok(ends)
        });
    }
    let mut ends = Vec::new();
    while let Some(task) = tasks.join_next().await {
        ends.extend(task??);
    }
    stage.serves_others().await?;
    let ends = Ends::of(ends);
    ends.at_least(1, "sent")?;
    Ok(ends.to_string())
}
