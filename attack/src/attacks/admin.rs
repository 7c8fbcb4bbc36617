//! Attacks on the admin interface, whose probes decide about the life of the process.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::attack::Attack;
use crate::stage::{SOON, Stage};
use crate::wire::grpc::READS;
use crate::wire::http1::exchange;
use crate::wire::message::{Delta, Sotw};
use crate::wire::raw::{Raw, Write};
use crate::wire::{ATTACKER, CDS, ECDS, EDS, RDS, VHDS, dial};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "admin-half-requests",
        about: "100 connections to the admin interface send half a request each",
        setup: |_| {},
        run: |stage| Box::pin(held(stage, "GET /ready HTTP/1.1\r\nhost: localhost\r\n")),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "admin-unread",
        about: "100 connections to the admin interface ask for pages and never read",
        setup: |setup| setup.clusters(10_000, 100),
        run: |stage| {
            let request = "GET /api/v1/config HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(20);
            Box::pin(async move { held(stage, &request).await })
        },
        growth: 200,
        in_ci: true,
    },
    Attack {
        name: "admin-config-flood",
        about: "64 connections ask for `/api/v1/config` of 50,000 resources, without end",
        setup: |setup| setup.clusters(setup.scale(50_000, 5_000), 10),
        run: |stage| Box::pin(config_flood(stage)),
        growth: 250,
        in_ci: true,
    },
    Attack {
        name: "admin-burst",
        about: "connections to the admin interface are opened and closed as fast as possible",
        setup: |_| {},
        run: |stage| Box::pin(burst(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "admin-pipelined",
        about: "60 connections ask for `/metrics` of all types, a hundred times in one write each",
        setup: |_| {},
        run: |stage| Box::pin(pipelined(stage)),
        growth: 100,
        in_ci: true,
    },
];

/// Does something again and again in so many tasks until the time is over; returns how often.
async fn flood<F>(time: Duration, tasks: usize, one: impl Fn(usize) -> F) -> Result<usize>
where
    F: Future<Output = bool> + Send + 'static,
{
    let mut running = JoinSet::new();
    let deadline = Instant::now() + time;
    let mut done = 0;
    for at in 0..tasks {
        running.spawn(one(at));
    }
    let mut at = tasks;
    while let Some(was_done) = running.join_next().await {
        done += usize::from(was_done?);
        if Instant::now() < deadline {
            running.spawn(one(at));
            at += 1;
        }
    }
    Ok(done)
}

async fn config_flood(stage: &Stage) -> Result<String> {
    let to = stage.admin();
    let asked = flood(2 * stage.seconds(), 64, |at| async move {
        let line = if at % 2 == 0 { "GET /api/v1/config" } else { "HEAD /api/v1/config" };
        let answer = exchange(ATTACKER, to, line, &[], "", SOON).await;
        answer.is_ok_and(|answer| answer.status == 200)
    });
    let asked = asked.await?;
    ensure!(asked > 0, "no page was answered");
    stage.serves_others().await?;
    Ok(format!("{asked} pages"))
}

async fn burst(stage: &Stage) -> Result<String> {
    let to = stage.admin();
    let opened = flood(2 * stage.seconds(), 200, |_| async move {
        timeout(SOON, dial(ATTACKER, to, true)).await.is_ok_and(|io| io.is_ok())
    });
    let opened = opened.await?;
    ensure!(opened > 1_000, "{opened} connections were made");
    stage.serves_others().await?;
    Ok(format!("{opened} connections"))
}

async fn held(stage: &Stage, request: &str) -> Result<String> {
    let (mut open, mut sent) = (Vec::new(), 0);
    for _ in 0..100 {
        let mut raw = Raw::dial_from(ATTACKER, stage.admin(), false).await?;
        // A server that takes no more has a full queue of its own, and that is tested here.
        sent += usize::from(raw.write(request.as_bytes()).await == Write::Taken);
        open.push(raw);
    }
    ensure!(sent >= 64, "{sent} of 100 connections could send a request");
    sleep(stage.seconds()).await;
    stage.serves_others().await?;
    let mut closed = 0;
    for raw in &mut open {
        closed += usize::from(raw.read_to_end(Duration::from_millis(1)).await.closed);
    }
    Ok(format!("{closed} of {} are closed", open.len()))
}

async fn pipelined(stage: &Stage) -> Result<String> {
    // Each type that somebody asked for has series of its own.
    let connection = stage.http2(READS).await?;
    let mut calls = Vec::new();
    for of in [CDS, EDS, RDS, VHDS, ECDS] {
        let mut call = connection.delta(&Delta::first("attacker", of, ["a"])).await?;
        call.message_within(SOON).await?;
        let mut other = connection.sotw(&Sotw::first("attacker", of, ["a"])).await?;
        other.end(Duration::from_millis(10)).await;
        calls.extend([call, other]);
    }
    let (to, deadline) = (stage.admin(), Instant::now() + 3 * stage.seconds());
    let asks = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(100);
    let mut tasks = JoinSet::new();
    for _ in 0..60 {
        let asks = asks.clone();
        tasks.spawn(async move {
            let mut read = 0;
            while Instant::now() < deadline {
                let Ok(mut raw) = Raw::dial_from(ATTACKER, to, true).await else { continue };
                read += raw.repeat(&asks, deadline).await;
            }
            read
        });
    }
    let read: usize = tasks.join_all().await.iter().sum();
    stage.serves_others().await?;
    ensure!(read > 1 << 20, "{read} bytes of pages were read");
    Ok(format!("{} MB of pages", read >> 20))
}
