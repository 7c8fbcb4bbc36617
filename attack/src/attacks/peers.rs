//! Attacks by very many addresses, each of which does little.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::streams::Ends;
use crate::attack::Attack;
use crate::setup::Setup;
use crate::stage::Stage;
use crate::wire::frame::{PREFACE, frame};
use crate::wire::grpc::Http2;
use crate::wire::message::{Sotw, framed};
use crate::wire::raw::Raw;
use crate::wire::{ADS_SOTW, CDS};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "large-of-peers",
        about: "1,500 peers ask for 1 MB again and again, and take a kilobyte of it",
        setup: large,
        run: |stage| Box::pin(large_responses(stage)),
        growth: 400,
        in_ci: true,
    },
    Attack {
        name: "idle-of-peers",
        about: "170 peers open 86 connections each and say nothing more",
        setup: |_| {},
        run: |stage| Box::pin(idle(stage)),
        growth: 400,
        in_ci: true,
    },
];

fn large(setup: &mut Setup) {
    setup.clusters(100, 10_000);
    setup.asks_large = true;
}

/// The address of one of thousands.
fn address(at: usize) -> Ipv4Addr {
    let [low, high, ..] = at.to_le_bytes();
    Ipv4Addr::new(127, 2, high, low)
}

async fn large_responses(stage: &Stage) -> Result<String> {
    let request = framed(&Sotw::first("attacker", CDS, [""; 0]).encode());
    let deadline = Instant::now() + 3 * stage.seconds();
    let mut tasks = JoinSet::new();
    for peer in 0..stage.scale(1_500, 100) {
        let (to, request) = (stage.xds(), request.clone());
        tasks.spawn(async move {
            let connection = Http2::connect(address(peer), to, 1_000).await?;
            let mut calls = Vec::new();
            while Instant::now() < deadline {
                calls.push(connection.asks(ADS_SOTW, request.clone()).await?);
                if calls.len() > 5 {
                    calls.remove(0).reset();
                }
                sleep(Duration::from_millis(500)).await;
            }
            let mut ends = Vec::new();
            for call in &mut calls {
                ends.push(call.end(Duration::from_millis(1)).await);
            }
            anyhow::Ok(ends)
        });
    }
    let mut ends = Vec::new();
    while let Some(task) = tasks.join_next().await {
        ends.extend(task?.unwrap_or_else(|refusal| vec![refusal.to_string()]));
    }
    stage.serves_others().await?;
    Ok(Ends::of(ends).to_string())
}

async fn idle(stage: &Stage) -> Result<String> {
    let peers = stage.scale(170, 20);
    let first = [PREFACE, &frame(4, 0, 0, &[])].concat();
    let mut tasks = JoinSet::new();
    for peer in 0..peers {
        let (to, first) = (stage.xds(), first.clone());
        tasks.spawn(async move {
            let mut open = Vec::new();
            for _ in 0..86 {
                let mut raw = Raw::dial_from(address(peer), to, true).await?;
                raw.write(&first).await;
                open.push(raw);
            }
            anyhow::Ok(open)
        });
    }
    let mut open = Vec::new();
    while let Some(task) = tasks.join_next().await {
        open.extend(task??);
    }
    sleep(2 * stage.seconds()).await;
    stage.serves_others().await?;
    let served = open.iter().filter(|raw| raw.waiting() > 0).count();
    ensure!(served > 100, "{served} of {} were served", open.len());
    Ok(format!("{served} of {} were served", open.len()))
}
