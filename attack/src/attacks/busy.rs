//! Attacks on the workers that they hold: frames and requests that mean nothing, and work for nobody.

use std::time::Instant;

use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use crate::attack::Attack;
use crate::numbers::Numbers;
use crate::setup::Setup;
use crate::stage::{PATIENCE, Stage};
use crate::wire::frame::{
    DATA, END_HEADERS, HEADERS, PING, PREFACE, WINDOW_UPDATE, frame, request_block,
};
use crate::wire::grpc::{Call, Http2, READS};
use crate::wire::message::{Delta, Sotw};
use crate::wire::raw::{Raw, Write};
use crate::wire::{ADS_DELTA, ADS_SOTW, ATTACKER, CDS};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "connections-frames",
        about: "500 connections of one client send frames of a kind that means nothing",
        setup: |_| {},
        run: |stage| Box::pin(frames_of_nothing(stage)),
        growth: 150,
        in_ci: true,
    },
    Attack {
        name: "http1-pipelined",
        about: "500 connections of one client ask for a thousand pages that are not there at once",
        setup: |_| {},
        run: |stage| Box::pin(pipelined(stage)),
        growth: 150,
        in_ci: true,
    },
    Attack {
        name: "quoted-secrets",
        about: "thousands of nodes reject a cluster with a key of 120 kB, and quote a part of it",
        setup: large_key,
        run: |stage| Box::pin(quoted(stage)),
        growth: 200,
        in_ci: true,
    },
    Attack {
        name: "long-work-reset",
        about: "streams ask for 250,000 names and are reset at once, again and again",
        setup: |_| {},
        run: |stage| Box::pin(long_work_reset(stage)),
        growth: 450,
        in_ci: true,
    },
];

/// Writes the same bytes to so many connections as fast as they are taken, and reads what comes.
async fn write_on(stage: &Stage, count: usize, first: Vec<u8>, again: Vec<u8>) -> Result<String> {
    let deadline = Instant::now() + 3 * stage.seconds();
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        let mut raw = Raw::dial(stage.xds()).await?;
        let (first, again) = (first.clone(), again.clone());
        tasks.spawn(async move {
            raw.write(&first).await;
            raw.repeat(&again, deadline).await;
            raw.written
        });
    }
    let written: u64 = tasks.join_all().await.iter().sum();
    stage.serves_others().await?;
    ensure!(written > 0, "nothing was taken");
    Ok(format!("{} MB were taken", written >> 20))
}

async fn frames_of_nothing(stage: &Stage) -> Result<String> {
    let head = frame(HEADERS, END_HEADERS, 1, &request_block(ADS_SOTW));
    let preface = [PREFACE, &frame(4, 0, 0, &[]), &head].concat();
    // A kind that nobody knows, an order that nobody keeps, and room that nobody needs.
    let unknown = frame(0xee, 0, 1, &[]);
    let priority = frame(2, 0, 3, &[0, 0, 0, 0, 1]);
    let room = frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]);
    let empty = frame(DATA, 0, 1, &[0]);
    let pong = frame(PING, 1, 0, &[7; 8]);
    let again = [unknown, priority, room, empty, pong].concat().repeat(1_000);
    write_on(stage, stage.scale(500, 100), preface, again).await
}

async fn pipelined(stage: &Stage) -> Result<String> {
    let again = b"GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n".repeat(1_000);
    write_on(stage, stage.scale(500, 100), again.clone(), again).await
}

async fn long_work_reset(stage: &Stage) -> Result<String> {
    let names = (0..250_000).map(|at| format!("name-{at}"));
    let message = Delta::first("attacker", CDS, names).encode();
    let deadline = Instant::now() + 2 * stage.seconds();
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let (to, message) = (stage.xds(), message.clone());
        tasks.spawn(async move {
            let mut reset = 0;
            while Instant::now() < deadline {
                let connection = Http2::connect(ATTACKER, to, READS).await?;
                for _ in 0..10 {
                    let mut call = connection.stream(ADS_DELTA).await?;
                    if call.taken(&message).await != Write::Taken {
                        break;
                    }
                    call.reset();
                    reset += 1;
                }
            }
            anyhow::Ok(reset)
        });
    }
    let mut reset = 0;
    while let Some(task) = tasks.join_next().await {
        // A connection that the server ends is no failure of the attack.
        reset += task?.unwrap_or(0);
    }
    stage.serves_others().await?;
    ensure!(reset > 20, "{reset} streams were reset");
    Ok(format!("{reset} streams were reset"))
}

/// A cluster with a private key of 120 kB in it.
fn large_key(setup: &mut Setup) {
    let kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3";
    let mut numbers = Numbers::new(3);
    let digits: String = (0..120_000).map(|_| char::from(b'a' + numbers.byte() % 26)).collect();
    let key = format!("-----BEGIN PRIVATE KEY-----\\n{digits}\\n-----END PRIVATE KEY-----\\n");
    let cluster = format!(
        "{{\"@type\": \"{CDS}\", \"name\": \"keyed\", \"transportSocket\": {{\"name\": \"tls\", \
         \"typedConfig\": {{\"@type\": \"{kind}.UpstreamTlsContext\", \"commonTlsContext\": \
         {{\"tlsCertificates\": [{{\"certificateChain\": {{\"filename\": \"c.pem\"}}, \
         \"privateKey\": {{\"inlineString\": \"{key}\"}}}}]}}}}}}}}"
    );
    setup.file("keyed.json", cluster);
}

async fn quoted(stage: &Stage) -> Result<String> {
    let deadline = Instant::now() + 3 * stage.seconds();
    // All ways to write a text are tried on it.
    let quote = "\\x41\\101%41\\u0041QUJD".repeat(170);
    let mut tasks = JoinSet::new();
    for task in 0..stage.scale(64, 16) {
        let (to, quote) = (stage.xds(), quote.clone());
        tasks.spawn(async move {
            let mut rejected = 0;
            let connection = Http2::connect(ATTACKER, to, READS).await?;
            let mut before: Option<Call> = None;
            // A slow machine takes the time it needs for the least that proves something.
            while Instant::now() < deadline || rejected < 10 {
                let request = Sotw::first(&format!("quoter-{task}-{rejected}"), CDS, ["keyed"]);
                let mut call = connection.sotw(&request).await?;
                let response = call.message_within(PATIENCE).await?;
                call.send(&request.answer(&response, Some(&quote)).encode())?;
                // The rejection before has been read by now.
                before.replace(call).iter_mut().for_each(Call::reset);
                rejected += 1;
            }
            anyhow::Ok(rejected)
        });
    }
    let mut rejected = 0;
    while let Some(task) = tasks.join_next().await {
        rejected += task?.unwrap_or(0);
    }
    stage.serves_others().await?;
    ensure!(rejected > 100, "{rejected} rejections");
    Ok(format!("{rejected} rejections"))
}
