//! Attacks by the pace at which responses are taken: a byte at a time, on very many streams.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::attack::Attack;
use crate::stage::Stage;
use crate::wire::frame::{DATA, END_HEADERS, HEADERS, WINDOW_UPDATE, frame, request_block};
use crate::wire::message::{Sotw, framed};
use crate::wire::raw::Raw;
use crate::wire::{ADS_SOTW, CDS};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "byte-windows",
        about: "100 connections with 50 streams each take a response of 10 MB a byte at a time",
        setup: |setup| setup.clusters(1_000, 10_000),
        run: |stage| Box::pin(bytes(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "byte-frames-unread",
        about: "10 streams whose response is not read send 1 MB of requests in frames of one byte",
        setup: |setup| setup.clusters(1_000, 1_000),
        run: |stage| Box::pin(byte_frames(stage)),
        growth: 200,
        in_ci: true,
    },
];

/// The streams of each connection.
const STREAMS: u32 = 50;

async fn bytes(stage: &Stage) -> Result<String> {
    let request = framed(&Sotw::first("attacker", CDS, [""; 0]).encode());
    let open = |id| {
        let head = frame(HEADERS, END_HEADERS, id, &request_block(ADS_SOTW));
        [head, frame(DATA, 0, id, &request)].concat()
    };
    let ids = || (0..STREAMS).map(|at| 2 * at + 1);
    let room = frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
    let first = [room, ids().flat_map(open).collect()].concat();
    let one = |id| frame(WINDOW_UPDATE, 0, id, &1_u32.to_be_bytes());
    let again: Vec<u8> = ids().flat_map(one).collect::<Vec<_>>().repeat(20);
    let deadline = Instant::now() + 3 * stage.seconds();
    let mut tasks = JoinSet::new();
    for _ in 0..stage.scale(100, 20) {
        let mut raw = Raw::http2(stage.xds(), 0).await?;
        let (first, again) = (first.clone(), again.clone());
        tasks.spawn(async move {
            raw.write(&first).await;
            raw.repeat(&again, deadline).await
        });
    }
    let read: usize = tasks.join_all().await.iter().sum();
    stage.serves_others().await?;
    ensure!(read > 1_000, "{read} bytes were read");
    Ok(format!("{} MB were read", read >> 20))
}

async fn byte_frames(stage: &Stage) -> Result<String> {
    let request = framed(&Sotw::first("attacker", CDS, [""; 0]).encode());
    let head = frame(HEADERS, END_HEADERS, 1, &request_block(ADS_SOTW));
    let first = [head, frame(DATA, 0, 1, &request)].concat();
    let many = frame(DATA, 0, 1, &[0]).repeat(10_000);
    let mut open = Vec::new();
    for _ in 0..stage.scale(10, 4) {
        let mut raw = Raw::http2(stage.xds(), 0).await?;
        raw.write(&first).await;
        // A response that waits for its reader keeps the server from taking the next request.
        sleep(Duration::from_millis(200)).await;
        for _ in 0..100 {
            raw.write(&many).await;
            while raw.waiting() > 0 {}
        }
        open.push(raw);
    }
    sleep(stage.seconds()).await;
    stage.serves_others().await?;
    let held = stage.metric("chancery_memory_held_bytes").await? / f64::from(1 << 20);
    let closed = open.iter().filter(|raw| raw.is_closed()).count();
    Ok(format!("{held:.1} MB are charged, {closed} of {} are closed", open.len()))
}
