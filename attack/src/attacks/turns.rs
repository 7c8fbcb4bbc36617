//! Attacks on fair turns: one peer takes all of something that everybody needs.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::attack::Attack;
use crate::setup::Setup;
use crate::stage::{PATIENCE, Stage};
use crate::wire::grpc::{Http2, READS, STALLS};
use crate::wire::message::{Fields, Sotw};
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
        name: "admin-half-requests",
        about: "100 connections to the admin interface send half a request each",
        setup: |_| {},
        run: |stage| Box::pin(admin(stage, "GET /ready HTTP/1.1\r\nhost: localhost\r\n")),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "admin-unread",
        about: "100 connections to the admin interface ask for pages and never read",
        setup: |setup| setup.clusters(10_000, 100),
        run: |stage| {
            let request = "GET /config HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(20);
            Box::pin(async move { admin(stage, &request).await })
        },
        growth: 200,
        in_ci: true,
    },
    Attack {
        name: "services-unread",
        about: "500 streams ask reflection for files, 100 times each, and take nothing",
        setup: |_| {},
        run: |stage| Box::pin(services(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "stream-limits",
        about: "streams with as many types, names and bytes as they may have, and one more of each",
        setup: limits_setup,
        run: |stage| Box::pin(limits(stage)),
        growth: 100,
        in_ci: true,
    },
];

/// The method by which reflection is asked.
const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

async fn services(stage: &Stage) -> Result<String> {
    let symbol = "envoy.service.discovery.v3.AggregatedDiscoveryService";
    let request = Fields::of(|request| request.text(4, symbol));
    let connection = stage.http2(STALLS).await?;
    let mut calls = Vec::new();
    for _ in 0..500 {
        let Ok(mut call) = connection.stream(REFLECTION).await else { break };
        for _ in 0..100 {
            // A stream that has ended says why in the end.
            if call.send(&request).is_err() {
                break;
            }
        }
        calls.push(call);
    }
    sleep(stage.seconds()).await;
    Ok(super::memory::ends(&mut calls).await)
}

fn limits_setup(setup: &mut Setup) {
    for line in ["max-types: 3", "max-names: 5", "max-request-bytes: 4096"] {
        setup.limit(line);
    }
}

/// Asks with so many types, names of each and bytes; returns true if the stream is refused for it.
async fn is_refused(stage: &Stage, types: usize, names: usize, bytes: usize) -> Result<bool> {
    let connection = stage.http2(READS).await?;
    let mut call = connection.stream(ADS_SOTW).await?;
    let mut names: Vec<_> = (1..names).map(|at| format!("n{at}")).collect();
    names.push("innocent".to_owned());
    for at in 1..types {
        let type_url = format!("type.googleapis.com/made.up.T{at}");
        call.send(&Sotw::first("attacker", &type_url, ["a"]).encode())?;
    }
    let mut request = Sotw::first("attacker", CDS, names).encode();
    let known = request.len();
    if bytes > known {
        // A field that nobody knows, with a key of two bytes and a length of two.
        request.extend(Fields::of(|rest| rest.bytes(100, &vec![0; bytes - known - 4])));
        ensure!(request.len() == bytes, "a request of {} bytes", request.len());
    }
    call.send(&request)?;
    match call.message_within(PATIENCE).await {
        Ok(_) => Ok(false),
        Err(refusal) if refusal.to_string().starts_with("RESOURCE_EXHAUSTED") => Ok(true),
        Err(refusal) => Err(refusal),
    }
}

async fn limits(stage: &Stage) -> Result<String> {
    for (what, types, names, bytes) in
        [("types", 3, 1, 0), ("names", 1, 5, 0), ("bytes", 1, 1, 4_096)]
    {
        let more = |now: usize, of: &str| if of == what { now + 1 } else { now };
        let at = is_refused(stage, types, names, bytes).await?;
        ensure!(!at, "as many {what} as allowed are refused");
        let past =
            is_refused(stage, more(types, "types"), more(names, "names"), more(bytes, "bytes"));
        ensure!(past.await?, "more {what} than allowed are answered");
    }
    Ok("answered at each limit, RESOURCE_EXHAUSTED past it".to_owned())
}

fn unread_streams_setup(setup: &mut Setup) {
    setup.clusters(100, 10_000);
    setup.asks_large = true;
}

async fn unread_streams(stage: &Stage) -> Result<String> {
    let mut open = Vec::new();
    for _ in 0..stage.scale(6, 3) {
        let connection = stage.http2(1_000).await?;
        for _ in 0..1_000 {
            let Ok(mut call) = connection.stream(ADS_SOTW).await else { break };
            call.send(&Sotw::first("attacker", CDS, [""; 0]).encode())?;
            open.push((call, None));
        }
        if let Some(last) = open.last_mut() {
            last.1 = Some(connection);
        }
    }
    sleep(stage.seconds()).await;
    Ok(format!("{} streams were opened", open.len()))
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
    let text = refusals.last().cloned().unwrap_or_default();
    Ok(format!("{} refusals, the last: {text}", refusals.len()))
}

/// Opens as many streams as a connection has, and again those that end.
async fn take_streams(to: SocketAddr, deadline: Instant, refusals: &mut Vec<String>) -> Result<()> {
    let connection = Http2::connect(ATTACKER, to, READS).await?;
    let request = Sotw::first("attacker", CDS, ["innocent"]).encode();
    let mut calls = Vec::new();
    while Instant::now() < deadline {
        while calls.len() < 1_000 {
            let mut call = connection.stream(ADS_SOTW).await?;
            call.send(&request)?;
            calls.push(call);
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

async fn idle_connections(stage: &Stage, count: usize) -> Result<String> {
    let mut dials = JoinSet::new();
    let to = stage.xds();
    for _ in 0..count {
        let dial = async move { Raw::http2(to, 65_535).await };
        dials.spawn(tokio::time::timeout(Duration::from_secs(5), dial));
    }
    let done = dials.join_all().await;
    let open: Vec<_> = done.into_iter().filter_map(|done| done.ok()?.ok()).collect();
    sleep(stage.seconds()).await;
    let served = open.iter().filter(|raw| raw.waiting() > 0).count();
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
            let io = tokio::time::timeout(Duration::from_secs(10), dial(ATTACKER, to, true)).await;
            (begin.elapsed(), io)
        });
    }
    let done = tasks.join_all().await;
    let longest = done.iter().map(|(took, _)| *took).max().unwrap_or_default();
    let lost = overflows().zip(before).map_or(0, |(after, before)| after - before);
    ensure!(
        lost == 0,
        "{lost} connections found no room in the queue; the longest took {longest:?}"
    );
    Ok(format!("the longest took {:.0} ms", longest.as_secs_f64() * 1e3))
}

async fn admin(stage: &Stage, request: &str) -> Result<String> {
    let mut open = Vec::new();
    for _ in 0..100 {
        if let Ok(mut raw) = Raw::dial_from(ATTACKER, stage.admin(), false).await {
            // A server that takes no more has a full queue of its own, and that is what is tested.
            if raw.write(request.as_bytes()).await == crate::wire::raw::Write::Taken {
                open.push(raw);
            }
        }
    }
    sleep(stage.seconds()).await;
    let mut closed = 0;
    for raw in &mut open {
        closed += usize::from(raw.read_to_end(Duration::from_millis(1)).await.closed);
    }
    Ok(format!("{closed} of {} are closed", open.len()))
}
