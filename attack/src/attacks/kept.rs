//! Attacks by what a library of HTTP/2 keeps for a connection beside the bytes of requests.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::sleep;

use crate::attack::Attack;
use crate::stage::Stage;
use crate::wire::frame::{DATA, END_HEADERS, END_STREAM, HEADERS, frame, request_block};
use crate::wire::message::{Sotw, framed};
use crate::wire::raw::{Raw, Write};
use crate::wire::{ADS_SOTW, CDS};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "frames-kept",
        about: "frames of a byte wait on 60 connections, each in a buffer of its own",
        setup: |_| {},
        run: |stage| Box::pin(frames_kept(stage)),
        growth: 200,
        in_ci: true,
    },
    Attack {
        name: "streams-ended",
        about: "400 connections had a thousand streams at once, and have none any more",
        setup: |_| {},
        run: |stage| Box::pin(streams_ended(stage)),
        growth: 250,
        in_ci: true,
    },
];

async fn frames_kept(stage: &Stage) -> Result<String> {
    let request = framed(&Sotw::first("attacker", CDS, [""; 0]).encode());
    let head = frame(HEADERS, END_HEADERS, 1, &request_block(ADS_SOTW));
    let first = [head, frame(DATA, 0, 1, &request)].concat();
    // With its header, each of them fills a buffer of 8 KiB.
    let again = [frame(0xee, 0, 1, &[0; 8_173]), frame(DATA, 0, 1, &[0])].concat().repeat(50);
    let mut open = Vec::new();
    for _ in 0..stage.scale(60, 20) {
        let mut raw = Raw::http2(stage.xds(), 0).await?;
        raw.write(&first).await;
        open.push(raw);
    }
    // A response that waits for its reader keeps the server from taking the next request.
    sleep(Duration::from_millis(500)).await;
    let mut written = 0;
    for raw in &mut open {
        for _ in 0..40 {
            if raw.write(&again).await != Write::Taken {
                break;
            }
        }
        written += raw.written;
    }
    sleep(stage.seconds()).await;
    stage.serves_others().await?;
    let held = stage.metric("chancery_memory_held_bytes").await? / f64::from(1 << 20);
    let closed = open.iter().filter(|raw| raw.is_closed()).count();
    ensure!(written >> 20 > 100, "{} MB were taken", written >> 20);
    Ok(format!("{held:.1} MB are charged, {closed} of {} are closed", open.len()))
}

async fn streams_ended(stage: &Stage) -> Result<String> {
    let ids = || (0..1_000_u32).map(|at| 2 * at + 1);
    let block = request_block(ADS_SOTW);
    let begin: Vec<u8> = ids().flat_map(|id| frame(HEADERS, END_HEADERS, id, &block)).collect();
    let end: Vec<u8> = ids().flat_map(|id| frame(DATA, END_STREAM, id, &[])).collect();
    let mut open = Vec::new();
    for _ in 0..stage.scale(400, 50) {
        // A connection that the server ends at once is one more that it does not keep.
        let Ok(mut raw) = Raw::http2(stage.xds(), 65_535).await else { continue };
        raw.write(&begin).await;
        sleep(Duration::from_millis(20)).await;
        raw.write(&end).await;
        open.push(raw);
    }
    sleep(stage.seconds()).await;
    stage.serves_others().await?;
    let held = stage.metric("chancery_memory_held_bytes").await? / f64::from(1 << 20);
    let streams = stage.metric("chancery_streams_opened_total").await?;
    ensure!(streams > 10_000.0, "{streams} streams were opened");
    let closed = open.iter().filter(|raw| raw.is_closed()).count();
    Ok(format!("{held:.1} MB are charged, {closed} of {} are closed", open.len()))
}
