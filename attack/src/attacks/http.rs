//! Attacks by legal and nearly legal HTTP: what a client may do, done without end.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::time::sleep;

use super::memory::half;
use super::streams::{Ends, Held};
use crate::attack::Attack;
use crate::stage::{PATIENCE, PAUSE, Stage};
use crate::wire::frame::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PREFACE, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, field, frame, frames, request_block, setting,
};
use crate::wire::grpc::READS;
use crate::wire::http1::{POLL_BODY, poll_head};
use crate::wire::message::{Sotw, fields, framed};
use crate::wire::raw::{Raw, Write};
use crate::wire::{ADS_SOTW, CDS, POLL};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "settings-window-churn",
        about: "10 connections with 1,000 streams each change the window of all of them, without end",
        setup: |setup| setup.clusters(1_000, 10_000),
        run: |stage| Box::pin(window_churn(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "made-you-reset",
        about: "updates of windows by zero, and data after the end, have the server reset streams",
        setup: |_| {},
        run: |stage| Box::pin(made_you_reset(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "padded-data",
        about: "a legal client pads the frames of its requests on one long stream",
        setup: |_| {},
        run: |stage| Box::pin(padded(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "grpc-trickle",
        about: "20 streams send a request of 60 MB, a byte at a time",
        setup: |setup| setup.limit("stall-timeout: 2s"),
        run: |stage| Box::pin(trickle(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "http1-half-heads",
        about: "8,000 connections send 60 kB of one header that does not end",
        setup: |_| {},
        run: |stage| Box::pin(half_heads(stage, http1_half_head())),
        growth: 250,
        in_ci: true,
    },
    Attack {
        name: "http2-half-heads",
        about: "8,000 connections send 60 kB of headers over HTTP/2 that do not end",
        setup: |_| {},
        run: |stage| Box::pin(half_heads(stage, http2_half_head())),
        growth: 250,
        in_ci: true,
    },
    Attack {
        name: "http1-tricks",
        about: "pipelined polls, extensions of chunks, and polls that expect `100-continue`",
        setup: |_| {},
        run: |stage| Box::pin(tricks(stage)),
        growth: 100,
        in_ci: true,
    },
];

/// Opens a stream whose request is sent.
fn opened(id: u32, request: &[u8]) -> Vec<u8> {
    let head = frame(HEADERS, END_HEADERS, id, &request_block(ADS_SOTW));
    [head, frame(DATA, 0, id, &framed(request))].concat()
}

async fn window_churn(stage: &Stage) -> Result<String> {
    let request = Sotw::first("attacker", CDS, [""; 0]).encode();
    let mut open = Vec::new();
    for _ in 0..stage.scale(10, 3) {
        let mut raw = Raw::http2(stage.xds(), 0).await?;
        for id in (0..1_000).map(|at| 2 * at + 1) {
            raw.write(&opened(id, &request)).await;
            raw.waiting();
        }
        open.push(raw);
    }
    let both = [setting(4, 1), setting(4, 0)].concat().repeat(50);
    let (begin, mut sent, mut closed) = (Instant::now(), 0, 0);
    while begin.elapsed() < 2 * stage.seconds() && !open.is_empty() {
        let before = open.len();
        let mut next = Vec::new();
        for mut raw in open {
            // The acknowledgements are read, so that the server goes on.
            while raw.waiting() > 0 {}
            if raw.write(&both).await == Write::Taken {
                sent += 100;
                next.push(raw);
            }
        }
        closed += before - next.len();
        open = next;
    }
    stage.serves_others().await?;
    ensure!(sent >= 1_000 || closed > 0, "{sent} changes were sent");
    Ok(format!("{sent} changes were sent, {closed} connections are closed for them"))
}

/// The bytes of a stream with this id and this request.
type StreamBytes = fn(u32, &[u8]) -> Vec<u8>;

async fn made_you_reset(stage: &Stage) -> Result<String> {
    let request = Sotw::first("attacker", CDS, ["innocent"]).encode();
    let forms: [StreamBytes; 3] = [
        |id, request| [opened(id, request), frame(WINDOW_UPDATE, 0, id, &[0; 4])].concat(),
        |id, request| {
            let most = (u32::MAX >> 1).to_be_bytes();
            [opened(id, request), frame(WINDOW_UPDATE, 0, id, &most)].concat()
        },
        |id, request| {
            let end = frame(DATA, END_STREAM, id, &[]);
            [opened(id, request), end.clone(), end].concat()
        },
    ];
    let mut told = Vec::new();
    for form in forms {
        let mut raw = Raw::http2(stage.xds(), 65_535).await?;
        let (begin, mut id, mut read) = (Instant::now(), 1, Vec::new());
        while begin.elapsed() < stage.seconds() && id < 200_000 {
            let bytes: Vec<u8> = (0..50).flat_map(|at| form(id + 2 * at, &request)).collect();
            id += 100;
            if raw.write(&bytes).await != Write::Taken {
                break;
            }
            let answer = raw.read_to_end(Duration::from_millis(1)).await;
            read.extend(answer.bytes);
            if answer.closed {
                break;
            }
        }
        let resets = frames(&read).iter().filter(|(kind, ..)| *kind == RST_STREAM).count();
        let is_told = frames(&read).iter().any(|(kind, ..)| *kind == GOAWAY);
        ensure!(resets > 0 || is_told, "{} streams, and none is reset", id / 2);
        told.push(format!("{} streams, {resets} resets, GOAWAY: {is_told}", id / 2));
    }
    stage.serves_others().await?;
    Ok(told.join("; "))
}

/// A stream of frames, and the room that the server gives it.
struct Padded {
    raw: Raw,
    read: Vec<u8>,
    connection: i64,
    stream: i64,
}

impl Padded {
    /// Reads what has come, and takes account of the room.
    async fn read(&mut self) -> Result<()> {
        let answer = self.raw.read_to_end(PAUSE).await;
        ensure!(!answer.closed, "the connection is closed: GOAWAY {:?}", answer.goaway());
        self.read.extend(answer.bytes);
        let mut whole = 0;
        for (kind, stream, payload) in frames(&self.read) {
            whole += 9 + payload.len();
            ensure!(kind != RST_STREAM && kind != GOAWAY, "it is ended by frame {kind}");
            let number = payload.get(..4).map(|bytes| bytes.try_into().map(u32::from_be_bytes));
            match (kind, stream, number) {
                (WINDOW_UPDATE, 0, Some(Ok(more))) => self.connection += i64::from(more),
                (WINDOW_UPDATE, _, Some(Ok(more))) => self.stream += i64::from(more),
                (SETTINGS, ..) => self.stream += window_change(payload),
                _ => {}
            }
        }
        self.read.drain(..whole);
        Ok(())
    }

    /// Sends a frame with as much padding as one may have.
    async fn send(&mut self, data: &[u8]) -> Result<()> {
        let payload = [&[255], data, &[0; 255]].concat();
        let begin = Instant::now();
        while self.connection.min(self.stream) < payload.len() as i64 {
            ensure!(begin.elapsed() < PATIENCE, "the server gives no room for padding");
            self.read().await?;
        }
        self.connection -= payload.len() as i64;
        self.stream -= payload.len() as i64;
        let sent = self.raw.write(&frame(DATA, PADDED, 1, &payload)).await;
        ensure!(sent == Write::Taken, "a padded frame is not taken: {sent:?}");
        Ok(())
    }
}

/// The change of the window of a stream that settings make, from the window that HTTP/2 has.
fn window_change(settings: &[u8]) -> i64 {
    let mut values = settings.chunks_exact(6).filter(|setting| setting[..2] == [0, 4]);
    let value = values.next_back().and_then(|setting| setting[2..].try_into().ok());
    value.map_or(0, |value| i64::from(u32::from_be_bytes(value)) - 65_535)
}

async fn padded(stage: &Stage) -> Result<String> {
    let mut raw = Raw::http2(stage.xds(), 65_535).await?;
    raw.write(&frame(HEADERS, END_HEADERS, 1, &request_block(ADS_SOTW))).await;
    let mut padded = Padded { raw, read: Vec::new(), connection: 65_535, stream: 65_535 };
    let request = framed(&Sotw::first("attacker", CDS, ["innocent"]).encode());
    padded.send(&request).await?;
    // The answer of another request than the last one changes nothing on either side.
    let stale = Sotw { nonce: "x".to_owned(), node: None, ..Sotw::first("", CDS, ["innocent"]) };
    let stale = framed(&stale.encode());
    let (begin, mut sent) = (Instant::now(), 0);
    while begin.elapsed() < 4 * stage.seconds() {
        // The worst padding that is legal: one byte of data in each frame.
        for byte in stale.chunks(1) {
            padded.send(byte).await?;
        }
        sent += stale.len();
        padded.read().await?;
    }
    stage.metric_reaches("chancery_stale_total", 2.0, PATIENCE).await?;
    ensure!(sent > 1_000, "{sent} frames were sent");
    Ok(format!("{sent} padded frames were taken"))
}

async fn trickle(stage: &Stage) -> Result<String> {
    let mut held = Held::connect(stage, 1, READS).await?;
    held.ask(20, ADS_SOTW, &half(60_000_000, 1)).await;
    let begin = Instant::now();
    let mut ends = Vec::new();
    while ends.len() < 20 {
        ensure!(begin.elapsed() < PATIENCE / 2, "{} of 20 are ended", ends.len());
        sleep(Duration::from_millis(200)).await;
        ends.clear();
        for call in held.calls() {
            // A stream that has ended says why.
            call.send_bytes(bytes::Bytes::from_static(&[0x0a])).ok();
            match call.end(Duration::from_millis(1)).await {
                end if end == "open" => {}
                end => ends.push(end),
            }
        }
    }
    stage.serves_others().await?;
    Ok(Ends::of(ends).to_string())
}

fn http1_half_head() -> Vec<u8> {
    format!("POST {POLL} HTTP/1.1\r\nhost: x\r\nx-long: {}", "y".repeat(60_000)).into_bytes()
}

fn http2_half_head() -> Vec<u8> {
    let head = frame(HEADERS, 0, 1, &request_block(ADS_SOTW));
    let more = |at| frame(CONTINUATION, 0, 1, &field(&format!("x-{at}"), &"y".repeat(15_000)));
    [PREFACE.to_vec(), setting(4, 65_535), head, (0..4).flat_map(more).collect()].concat()
}

async fn half_heads(stage: &Stage, head: Vec<u8>) -> Result<String> {
    let mut open = Vec::new();
    for _ in 0..stage.scale(8_000, 400) {
        let mut raw = stage.raw().await?;
        raw.write(&head).await;
        open.push(raw);
    }
    stage.serves_others().await?;
    let sent = open.iter().filter(|raw| raw.written as usize == head.len()).count();
    ensure!(sent >= 100, "{sent} of {} were sent", open.len());
    Ok(format!("{sent} of {} were sent", open.len()))
}

/// A poll whose body comes in chunks with an extension of this length each.
fn chunked(extension: usize) -> String {
    let head = poll_head(0).replace("content-length: 0", "transfer-encoding: chunked");
    let chunks = POLL_BODY.as_bytes().chunks(4).map(|part| {
        let part = String::from_utf8_lossy(part);
        format!("{:x};{}\r\n{part}\r\n", part.len(), "e".repeat(extension))
    });
    head + &chunks.collect::<String>() + "0\r\n\r\n"
}

async fn tricks(stage: &Stage) -> Result<String> {
    let ask = async |bytes: String, most: Duration| {
        let mut raw = stage.raw().await?;
        raw.write(bytes.as_bytes()).await;
        anyhow::Ok(raw.read_to_end(most).await.statuses())
    };
    let one = poll_head(POLL_BODY.len()) + POLL_BODY;
    let last = one.replacen("host: x", "host: x\r\nconnection: close", 1);
    let pipelined = ask(one.repeat(50) + &last, PATIENCE).await?;
    ensure!(pipelined == ["200"; 51], "pipelined polls are answered {pipelined:?}");
    let second = Duration::from_secs(1);
    let short = ask(chunked(4), second).await?;
    ensure!(short == ["200"], "chunks with extensions are answered {short:?}");
    let long = ask(chunked(1 << 20), 2 * second).await?;
    ensure!(long != ["200"], "7 MB of extensions are read");
    let expects = last.replacen("host: x", "host: x\r\nexpect: 100-continue", 1);
    let mut raw = stage.raw().await?;
    let (head, body) = expects.split_at(expects.len() - POLL_BODY.len());
    raw.write(head.as_bytes()).await;
    let go_on = raw.read_to_end(second).await.statuses();
    ensure!(go_on == ["100"], "`100-continue` is answered {go_on:?}");
    raw.write(body.as_bytes()).await;
    let answer = raw.read_to_end(PATIENCE).await.statuses();
    ensure!(answer == ["200"], "after `100-continue` it is answered {answer:?}");
    stage.serves_others().await?;
    // The server stays right about what is one request.
    let again = stage.http2(READS).await?;
    let mut call = again.sotw(&Sotw::first("attacker", CDS, ["innocent"])).await?;
    let response = call.message_within(PATIENCE).await.context("a client afterwards")?;
    ensure!(fields(&response, 2).len() == 1, "a response without the cluster");
    Ok(format!("51 pipelined polls; long extensions: {long:?}"))
}
