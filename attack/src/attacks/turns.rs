//! Attacks on fair turns: one peer takes all of something that everybody needs.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::streams::{Ends, Held};
use crate::attack::Attack;
use crate::setup::Setup;
use crate::stage::{PATIENCE, Stage};
use crate::wire::grpc::{Http2, READS, STALLS};
use crate::wire::message::{Fields, Sotw, framed};
use crate::wire::raw::Raw;
use crate::wire::{ADS_SOTW, ATTACKER, CDS, dial};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "unread-streams",
        about: "6,000 streams ask for 1 MB and take a kilobyte of it",
        setup: unread_streams_setup,
        run: |stage| Box::pin(unread_streams(stage)),
        growth: 400,
        in_ci: true,
    },
    Attack {
        name: "limit-big-responses",
        about: "the same, where one large response is sent at a time",
        setup: one_at_a_time,
        run: |stage| Box::pin(unread_streams(stage)),
        growth: 400,
        in_ci: true,
    },
    Attack {
        name: "max-streams",
        about: "one peer opens half as many streams again as there may be",
        setup: |setup| setup.limit("max-streams: 2000"),
        run: |stage| Box::pin(max_streams(stage)),
        growth: 200,
        in_ci: true,
    },
    Attack {
        name: "max-connections",
        about: "one peer opens half as many connections again as there may be",
        setup: |setup| setup.limit("max-connections: 400"),
        run: |stage| Box::pin(idle_connections(stage, 600)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "descriptors",
        about: "one peer opens more idle connections than the process may have descriptors",
        setup: |setup| setup.descriptors = Some(1024),
        run: |stage| Box::pin(idle_connections(stage, 1_200)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "mass-reconnect",
        about: "3,000 connections are opened at the same moment",
        setup: |_| {},
        run: |stage| Box::pin(mass_reconnect(stage)),
        growth: 200,
        in_ci: false,
    },
    Attack {
        name: "services-unread",
        about: "500 streams ask reflection for files, 100 times each, and take nothing",
        setup: |_| {},
        run: |stage| Box::pin(services(stage)),
        growth: 100,
        in_ci: true,
    },
];

/// The method by which reflection is asked.
const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

async fn services(stage: &Stage) -> Result<String> {
    let symbol = "envoy.service.discovery.v3.AggregatedDiscoveryService";
    let request = framed(&Fields::of(|request| request.text(4, symbol)));
    let mut held = Held::connect(stage, 1, STALLS).await?;
    held.ask(500, REFLECTION, &request.repeat(100).into()).await;
    let mut heads = 0;
    for call in held.calls() {
        heads += usize::from(timeout(PATIENCE, call.head()).await?.is_ok());
    }
    ensure!(heads >= 100, "{heads} of 500 have begun to be answered");
    Ok(held.hold(stage, stage.seconds()).await?.to_string())
}

fn unread_streams_setup(setup: &mut Setup) {
    setup.clusters(100, 10_000);
    setup.asks_large = true;
}

fn one_at_a_time(setup: &mut Setup) {
    unread_streams_setup(setup);
    setup.limit("max-big-responses: 1");
}

async fn unread_streams(stage: &Stage) -> Result<String> {
    let request = framed(&Sotw::first("attacker", CDS, [""; 0]).encode());
    let mut open = Vec::new();
    for _ in 0..stage.scale(6, 3) {
        let mut held = Held::connect(stage, 1, 1_000).await?;
        held.ask(1_000, ADS_SOTW, &request).await;
        open.push(held);
    }
    let streams: usize = open.iter_mut().map(|held| held.calls().len()).sum();
    let opened = "chancery_streams_opened_total";
    stage.metric_reaches(opened, streams as f64, PATIENCE).await?;
    ensure!(streams >= 1_000, "{streams} streams were opened");
    sleep(stage.seconds()).await;
    stage.serves_others().await?;
    Ok(format!("{streams} streams were opened"))
}

async fn max_streams(stage: &Stage) -> Result<String> {
    let (to, deadline) = (stage.xds(), Instant::now() + 2 * stage.seconds());
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        tasks.spawn(async move {
            let mut refusals = Vec::new();
            // Streams that the server ends are opened again, so that it is full until the end.
            while Instant::now() < deadline {
                // A connection that the server ends is opened again as well.
                if let Err(fault) = take_streams(to, deadline, &mut refusals).await {
                    refusals.push(fault.to_string());
                    sleep(Duration::from_millis(50)).await;
                }
            }
            refusals
        });
    }
    let refusals: Vec<String> = tasks.join_all().await.into_iter().flatten().collect();
    let ends = Ends::of(refusals);
    ends.at_least(1, "RESOURCE_EXHAUSTED")?;
    Ok(ends.to_string())
}

/// Opens as many streams as a connection has, and again those that end.
async fn take_streams(to: SocketAddr, deadline: Instant, refusals: &mut Vec<String>) -> Result<()> {
    let connection = Http2::connect(ATTACKER, to, READS).await?;
    let request = Sotw::first("attacker", CDS, ["innocent"]);
    let mut calls = Vec::new();
    while Instant::now() < deadline {
        while calls.len() < 1_000 {
            calls.push(connection.sotw(&request).await?);
        }
        let mut open = Vec::new();
        for mut call in calls {
            match call.end(Duration::from_micros(10)).await {
                end if end == "open" => open.push(call),
                end => refusals.push(end),
            }
        }
        calls = open;
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// The connections that every client may have.
const OWN: usize = 32;

async fn idle_connections(stage: &Stage, count: usize) -> Result<String> {
    let mut dials = JoinSet::new();
    let to = stage.xds();
    for _ in 0..count {
        let dial = async move { Raw::http2(to, 65_535).await };
        dials.spawn(timeout(Duration::from_secs(5), dial));
    }
    let done = dials.join_all().await;
    let open: Vec<_> = done.into_iter().filter_map(|done| done.ok()?.ok()).collect();
    sleep(stage.seconds()).await;
    stage.serves_others().await?;
    let served = open.iter().filter(|raw| raw.waiting() > 0).count();
    ensure!(served >= OWN && served < count, "{served} of {count} connections were served");
    Ok(format!("{served} of {count} connections were served"))
}

/// The connections for which there was no room in an accept queue, of this machine.
fn overflows() -> Option<u64> {
    let text = fs::read_to_string("/proc/net/netstat").ok()?;
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    pairs.find(|(name, _)| *name == "ListenOverflows")?.1.parse().ok()
}

async fn mass_reconnect(stage: &Stage) -> Result<String> {
    let before = overflows();
    let mut tasks = JoinSet::new();
    let to = stage.xds();
    for _ in 0..3_000 {
        tasks.spawn(async move {
            let begin = Instant::now();
            let io = timeout(Duration::from_secs(10), dial(ATTACKER, to, true)).await;
            (begin.elapsed(), io)
        });
    }
    let done = tasks.join_all().await;
    let longest = done.iter().map(|(took, _)| *took).max().unwrap_or_default();
    let lost = overflows().zip(before).map_or(0, |(after, before)| after - before);
    let connected = done.iter().filter(|(_, io)| matches!(io, Ok(Ok(_)))).count();
    ensure!(connected == done.len(), "{connected} of {} were made", done.len());
    ensure!(
        lost == 0,
        "{lost} connections found no room in the queue; the longest took {longest:?}"
    );
    Ok(format!("the longest took {:.0} ms", longest.as_secs_f64() * 1e3))
}
