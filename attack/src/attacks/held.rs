//! Attacks on the protocols below the discovery service, and on the process as a whole.
//!
//! They are old and known, and stay here so that they go on being held. Not here: frames without end
//! (`floods`).

use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::attack::Attack;
use crate::numbers::Numbers;
use crate::setup::Setup;
use crate::stage::{PATIENCE, SOON, Stage};
use crate::wire::frame::{END_HEADERS, HEADERS, frame, request_block, with_length};
use crate::wire::grpc::{Http2, READS};
use crate::wire::http1::poll;
use crate::wire::message::{Fields, Sotw, framed, text};
use crate::wire::raw::{Raw, Write};
use crate::wire::{ADS_SOTW, ATTACKER, CDS, POLL};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "smuggling",
        about: "requests over HTTP/1.1 state two lengths, so that a part is another request",
        setup: |_| {},
        run: |stage| Box::pin(smuggling(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "slowloris",
        about: "400 connections send one byte a second of a request or of the preface",
        setup: |setup| setup.limit("handshake-timeout: 2s"),
        run: |stage| Box::pin(slowloris(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "frame-nonsense",
        about: "2,000 connections send frames of random kinds, flags, streams and lengths",
        setup: |_| {},
        run: |stage| Box::pin(nonsense(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "grpc-lies",
        about: "messages state a wrong length, or that they are compressed, or are no messages",
        setup: |_| {},
        run: |stage| Box::pin(grpc_lies(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "depth-protobuf",
        about: "metadata of a node nest 100,000 deep",
        setup: |_| {},
        run: |stage| Box::pin(depth_protobuf(stage)),
        growth: 200,
        in_ci: true,
    },
    Attack {
        name: "depth-json",
        about: "a poll has 1,000,000 open brackets",
        setup: |_| {},
        run: |stage| Box::pin(depth_json(stage)),
        growth: 200,
        in_ci: true,
    },
    Attack {
        name: "depth-files",
        about: "files nest 100,000 deep, or name an alias of an alias of an alias",
        setup: |setup| setup.file("groups/other/good.json", "[]"),
        run: |stage| Box::pin(depth_files(stage)),
        growth: 200,
        in_ci: true,
    },
    Attack {
        name: "crash-under-load",
        about: "the process is killed under load, and started again",
        setup: crash_setup,
        run: |stage| Box::pin(crash(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "idle-streams",
        about: "1,000 streams that have what they want say nothing, and are told nothing",
        setup: |_| {},
        run: |stage| Box::pin(idle_streams(stage)),
        growth: 100,
        in_ci: true,
    },
];

/// Heads that state the length of a body in two ways.
const LENGTHS: [&str; 6] = [
    "content-length: 2\r\ntransfer-encoding: chunked",
    "content-length: 2\r\ncontent-length: 40",
    "transfer-encoding: chunked\r\ntransfer-encoding: identity",
    "transfer-encoding : chunked\r\ncontent-length: 2",
    "transfer-encoding: xchunked\r\ncontent-length: 2",
    "content-length: +2",
];

async fn smuggling(stage: &Stage) -> Result<String> {
    let mut told = Vec::new();
    for lengths in LENGTHS {
        let mut raw = stage.raw().await?;
        let head = format!("POST {POLL} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n");
        // A reader of the first length takes the rest as a request of its own.
        let bytes =
            format!("{head}{lengths}\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n");
        raw.write(bytes.as_bytes()).await;
        let answer = raw.read_to_end(Duration::from_secs(2)).await;
        let statuses = answer.statuses();
        ensure!(answer.closed || !statuses.is_empty(), "{lengths:?} has no answer");
        ensure!(
            statuses.len() <= 1 || statuses[0] == "400",
            "{lengths:?} is answered {statuses:?}: two requests of one"
        );
        told.push(statuses.join("+"));
    }
    Ok(format!("answered {}", told.join(", ")))
}

/// The time of a handshake that is set, and one that is less than the default.
const HANDSHAKE: Range<Duration> = Duration::from_secs(2)..Duration::from_secs(8);

async fn slowloris(stage: &Stage) -> Result<String> {
    let texts = ["POST /v3/discovery:clusters HTTP/1.1\r\nhost: x\r\n", "PRI * HTTP/2.0\r\n\r\nSM"];
    let (mut open, mut closed, begin) = (Vec::new(), 0, Instant::now());
    for at in 0..400 {
        open.push((stage.raw().await?, texts[at % 2].as_bytes()));
    }
    for step in 0.. {
        if begin.elapsed() > PATIENCE || closed == open.len() {
            break;
        }
        closed = 0;
        for (raw, text) in &mut open {
            let at = step % text.len();
            if raw.write(&text[at..=at]).await == Write::Closed {
                closed += 1;
            }
        }
        sleep(Duration::from_millis(500)).await;
    }
    let took = begin.elapsed();
    ensure!(closed == open.len(), "{} are open after {took:?}", open.len() - closed);
    stage.came(took, HANDSHAKE).context("the last one is closed")?;
    Ok(format!("all are closed after {:.0} s", took.as_secs_f64()))
}

async fn nonsense(stage: &Stage) -> Result<String> {
    let mut numbers = Numbers::new(1);
    let (connections, mut taken) = (stage.scale(2_000, 200), 0);
    for _ in 0..connections {
        let mut raw = Raw::http2(stage.xds(), 65_535).await?;
        raw.write(&frame(HEADERS, END_HEADERS, 1, &request_block(ADS_SOTW))).await;
        for _ in 0..numbers.next() % 8 {
            let size = usize::from(numbers.byte());
            let payload: Vec<u8> = (0..size).map(|_| numbers.byte()).collect();
            let stated = if numbers.byte() < 32 { size / 2 } else { size };
            let (kind, flags) = (numbers.byte() % 12, numbers.byte());
            let stream = u32::from(numbers.byte() % 6);
            if raw.write(&with_length(stated, kind, flags, stream, &payload)).await != Write::Taken
            {
                break;
            }
            taken += 1;
        }
    }
    ensure!(taken >= connections, "{taken} frames were taken on {connections} connections");
    for _ in 0..connections / 10 {
        let mut raw = stage.raw().await?;
        let noise: Vec<u8> = (0..1_000).map(|_| numbers.byte()).collect();
        raw.write(&noise).await;
    }
    Ok(format!("{taken} frames on {connections} connections"))
}

async fn grpc_lies(stage: &Stage) -> Result<String> {
    let good = framed(&Sotw::first("attacker", CDS, ["innocent"]).encode());
    let mut compressed = good.to_vec();
    compressed[0] = 1;
    let mut flag = good.to_vec();
    flag[0] = 0xff;
    let lies = [
        ("a compressed message", compressed, "UNIMPLEMENTED"),
        ("an unknown flag", flag, "UNIMPLEMENTED"),
        ("4 GB", vec![0, 0xff, 0xff, 0xff, 0xff, 1], "RESOURCE_EXHAUSTED"),
        ("65 MB", [&[0, 4, 0x10, 0, 0][..], &[1; 10]].concat(), "RESOURCE_EXHAUSTED"),
        ("a length past the end", vec![0, 0, 0, 0, 3, 0x0a, 0x7f, 1], "INVALID_ARGUMENT"),
        ("no protobuf", framed(&[0xff; 40]).to_vec(), "INVALID_ARGUMENT"),
    ];
    let mut told = Vec::new();
    for (what, bytes, expected) in lies {
        let connection = stage.http2(READS).await?;
        let mut call = connection.asks(ADS_SOTW, Bytes::from(bytes)).await?;
        let end = call.end(SOON).await;
        let status = end.split(':').next().unwrap_or_default();
        ensure!(status == expected, "the stream of {what} ends with {end}");
        told.push(status.to_owned());
    }
    told.dedup();
    Ok(told.join(", "))
}

async fn depth_protobuf(stage: &Stage) -> Result<String> {
    let mut value = Fields::of(|value| value.text(3, "deep"));
    for _ in 0..stage.scale(20_000, 2_000) {
        // A value that is a struct with one field, which is the value before.
        let inner = Fields::of(|entry| {
            entry.text(1, "k");
            entry.bytes(2, &value);
        });
        let fields = Fields::of(|fields| fields.bytes(1, &inner));
        value = Fields::of(|value| value.bytes(5, &fields));
    }
    let node = Fields::of(|node| {
        node.text(1, "attacker");
        node.message(3, |metadata| {
            metadata.message(1, |entry| {
                entry.text(1, "k");
                entry.bytes(2, &value);
            });
        });
    });
    let connection = stage.http2(READS).await?;
    let request = Sotw { node: Some(node), ..Sotw::first("", CDS, ["innocent"]) };
    let mut call = connection.sotw(&request).await?;
    Ok(match call.message_within(PATIENCE).await {
        Ok(_) => "answered".to_owned(),
        Err(refusal) => refusal.to_string(),
    })
}

async fn depth_json(stage: &Stage) -> Result<String> {
    let mut told = Vec::new();
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let depth = stage.scale(1_000_000, 100_000);
        let body = format!(
            "{{\"node\": {{\"metadata\": {{\"k\": {}1{}}}}}}}",
            open.repeat(depth),
            close.repeat(depth)
        );
        let answer = poll(stage.xds(), &body, PATIENCE).await?;
        ensure!(answer.status >= 400, "answered {}", answer.status);
        told.push(answer.status.to_string());
    }
    Ok(told.join(", "))
}

async fn depth_files(stage: &Stage) -> Result<String> {
    let mut aliases = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let names = vec![format!("*a{}", level - 1); 9].join(", ");
        aliases += &format!("a{level}: &a{level} [{names}]\n");
    }
    let depth = stage.scale(100_000, 20_000);
    let files = [
        ("deep.json", "[".repeat(depth)),
        ("deep.yaml", "[".repeat(depth)),
        ("steps.yaml", (0..1_000).map(|at| format!("{}a:\n", " ".repeat(at))).collect()),
        ("aliases.yaml", aliases),
        ("deep.pb_text", "resources { ".repeat(depth)),
    ];
    for ((name, text), count) in files.iter().zip(1_u32..) {
        stage.write(&format!("groups/other/{name}"), text)?;
        stage.metric_reaches("chancery_faults", f64::from(count), PATIENCE).await?;
    }
    Ok(format!("{} faults", files.len()))
}

fn crash_setup(setup: &mut Setup) {
    setup.is_alone = true;
    setup.clusters(1_000, 1_000);
}

async fn crash(stage: &Stage) -> Result<String> {
    stage.is_ready().await?;
    let version = async || {
        let connection = stage.http2(READS).await?;
        let mut call = connection.sotw(&Sotw::first("attacker", CDS, [""; 0])).await?;
        anyhow::Ok(text(&call.message_within(PATIENCE).await?, 1))
    };
    let first = version().await?;
    for _ in 0..3 {
        let mut load = JoinSet::new();
        for _ in 0..20 {
            // A client ends with the process that it asks.
            load.spawn(load_on(stage.xds()));
        }
        stage.metric_reaches("chancery_streams_opened_total", 20.0, PATIENCE).await?;
        stage.crash_and_restart().await?;
        ensure!(version().await? == first, "another version after the restart");
    }
    Ok("three times the same version again".to_owned())
}

/// Asks for everything, on new connections, until something fails.
async fn load_on(to: SocketAddr) -> Result<()> {
    let request = Sotw::first("attacker", CDS, [""; 0]);
    loop {
        let connection = Http2::connect(ATTACKER, to, READS).await?;
        connection.sotw(&request).await?.message_within(PATIENCE).await?;
    }
}

async fn idle_streams(stage: &Stage) -> Result<String> {
    let connection = stage.http2(READS).await?;
    let mut calls = Vec::new();
    for _ in 0..1_000 {
        let request = Sotw::first("attacker", CDS, ["innocent"]);
        calls.push((connection.sotw(&request).await?, request));
    }
    for (call, request) in &mut calls {
        let response = call.message_within(PATIENCE).await?;
        call.send(&request.answer(&response, None).encode())?;
    }
    // Innocent editors change another cluster meanwhile.
    sleep(stage.seconds()).await;
    for (call, _) in &mut calls {
        let next = call.message_within(Duration::from_millis(1)).await;
        ensure!(
            next.as_ref().is_err_and(|fault| fault.to_string().starts_with("nothing in")),
            "an idle stream was told something: {:?}",
            next.map(|message| message.len())
        );
    }
    Ok("all silent".to_owned())
}
