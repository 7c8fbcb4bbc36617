//! Attacks on memory: whatever a peer has the server keep for it, alone, in sum and in product.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use tokio::time::{sleep, timeout};

use super::streams::{Ends, Held};
use crate::attack::Attack;
use crate::setup::Setup;
use crate::stage::{PATIENCE, Stage};
use crate::wire::grpc::{Call, READS, STALLS};
use crate::wire::http1::{POLL_BODY, poll_head};
use crate::wire::message::{Delta, Sotw, framed, node_with_metadata};
use crate::wire::raw::{Raw, Write};
use crate::wire::{ADS_DELTA, ADS_SOTW, ATTACKER, CDS, POLL};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "zero-window-sotw",
        about: "150 SotW streams without a window name different clusters, 10 MB each",
        setup: |setup| setup.clusters(40_000, 400),
        run: |stage| Box::pin(zero_window(stage)),
        growth: 200,
        in_ci: true,
    },
    Attack {
        name: "rest-unread-http2",
        about: "150 polls of 30 bytes over HTTP/2 whose answers of 10 MB nobody reads",
        setup: |setup| setup.clusters(1_000, 10_000),
        run: |stage| Box::pin(rest_unread_http2(stage)),
        growth: 200,
        in_ci: true,
    },
    Attack {
        name: "rest-unread-http1",
        about: "150 polls of 30 bytes over HTTP/1.1 whose answers of 10 MB nobody reads",
        setup: |setup| setup.clusters(1_000, 10_000),
        run: |stage| Box::pin(rest_unread_http1(stage)),
        growth: 200,
        in_ci: true,
    },
    Attack {
        name: "half-sent-grpc",
        about: "20 streams send 59 MB of a request of 60 MB, and then nothing",
        setup: |_| {},
        run: |stage| Box::pin(half_sent_grpc(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "half-sent-rest",
        about: "20 polls send 59 MB of a body of 60 MB, and then nothing",
        setup: |_| {},
        run: |stage| Box::pin(half_sent_rest(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "types-times-names",
        about: "one stream subscribes to 250,000 names of each of 256 types that nobody knows",
        setup: |_| {},
        run: |stage| Box::pin(types_times_names(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "names-of-1mb",
        about: "one stream subscribes to 500 names of 1 MB each",
        setup: |_| {},
        run: |stage| Box::pin(long_names(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "metadata-grpc",
        about: "four streams state metadata of 31 MB",
        setup: |_| {},
        run: |stage| Box::pin(metadata_grpc(stage)),
        growth: 400,
        in_ci: true,
    },
    Attack {
        name: "metadata-rest",
        about: "four polls state metadata of 31 MB as JSON",
        setup: |_| {},
        run: |stage| Box::pin(metadata_rest(stage)),
        growth: 400,
        in_ci: true,
    },
    Attack {
        name: "drain-stalled",
        about: "a reader of 10 MB takes none of it while the server is told to stop",
        setup: drain_stalled_setup,
        run: |stage| Box::pin(drain_stalled(stage)),
        growth: 200,
        in_ci: true,
    },
];

/// A request for 20,000 of 40,000 clusters, others at each number.
pub(super) fn many_clusters(at: usize) -> Bytes {
    let names = (0..20_000).map(|name| format!("c-{}", (name + at * 60) % 40_000));
    framed(&Sotw::first("attacker", CDS, names).encode())
}

async fn zero_window(stage: &Stage) -> Result<String> {
    let mut held = Held::connect(stage, 1, STALLS).await?;
    for at in 0..150 {
        held.ask(1, ADS_SOTW, &many_clusters(at)).await;
    }
    stage.is_charged(10).await?;
    Ok(held.hold(stage, stage.seconds()).await?.to_string())
}

async fn rest_unread_http2(stage: &Stage) -> Result<String> {
    let connection = stage.http2(STALLS).await?;
    let mut calls = Vec::new();
    for _ in 0..150 {
        calls.push(connection.poll(POLL, Bytes::from(POLL_BODY)).await?);
    }
    sleep(stage.seconds()).await;
    stage.serves_others().await?;
    let mut counts = BTreeMap::<u16, usize>::new();
    for call in &mut calls {
        let head = timeout(Duration::from_millis(1), call.head()).await;
        *counts.entry(head.map_or(0, |status| status.unwrap_or(0))).or_default() += 1;
    }
    ensure!(counts.contains_key(&200), "none has an answer that waits: {counts:?}");
    Ok(format!("statuses {counts:?}"))
}

async fn rest_unread_http1(stage: &Stage) -> Result<String> {
    let request = poll_head(POLL_BODY.len()) + POLL_BODY;
    let mut open = Vec::new();
    for _ in 0..150 {
        let mut raw = Raw::dial_from(ATTACKER, stage.xds(), false).await?;
        raw.write(request.as_bytes()).await;
        open.push(raw);
    }
    sleep(stage.seconds()).await;
    stage.serves_others().await?;
    let answered = open.iter().filter(|raw| raw.waiting() > 0).count();
    ensure!(answered > 0, "none has an answer that waits");
    Ok(format!("{answered} of {} have an answer that waits", open.len()))
}

/// The bytes of a request that is announced, and those of it that are sent.
const ANNOUNCED: usize = 60_000_000;
const SENT: usize = 59_000_000;

/// A part of a request over gRPC. Streams share it, and `h2` does not copy it.
pub(super) fn half(announced: usize, sent: usize) -> Bytes {
    let head = u32::try_from(announced).expect("no message here is 4 GiB long").to_be_bytes();
    [&[0][..], &head, &vec![0x0a; sent]].concat().into()
}

async fn half_sent_grpc(stage: &Stage) -> Result<String> {
    let (mut open, bytes) = (Vec::new(), half(ANNOUNCED, SENT));
    for _ in 0..20 {
        let mut held = Held::connect(stage, 1, READS).await?;
        held.ask(1, ADS_SOTW, &bytes).await;
        open.push(held);
    }
    stage.is_charged(50).await?;
    sleep(stage.seconds()).await;
    stage.serves_others().await?;
    let mut ends = Vec::new();
    for call in open.iter_mut().flat_map(Held::calls) {
        ends.push(call.end(Duration::from_millis(1)).await);
    }
    let ends = Ends::of(ends);
    ends.at_least(1, "RESOURCE_EXHAUSTED")?;
    Ok(ends.to_string())
}

async fn half_sent_rest(stage: &Stage) -> Result<String> {
    let head = poll_head(ANNOUNCED) + "{";
    let chunk = vec![b' '; 1_000_000];
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (head, chunk) = (head.clone(), chunk.clone());
        let mut raw = stage.raw().await?;
        tasks.spawn(async move {
            raw.write(head.as_bytes()).await;
            for _ in 0..SENT / chunk.len() {
                if raw.write(&chunk).await != Write::Taken {
                    break;
                }
            }
            raw
        });
    }
    stage.is_charged(50).await?;
    let mut sent = tasks.join_all().await;
    stage.serves_others().await?;
    let whole = sent.iter().filter(|raw| raw.written as usize >= SENT).count();
    let mut closed = 0;
    for raw in &mut sent {
        closed += usize::from(raw.read_to_end(Duration::from_millis(1)).await.closed);
    }
    ensure!(whole < sent.len() || closed > 0, "all of them were read, and none is closed");
    Ok(format!("{whole} of 20 were read, {closed} are closed"))
}

async fn types_times_names(stage: &Stage) -> Result<String> {
    let connection = stage.http2(READS).await?;
    let mut call = connection.stream(ADS_SOTW).await?;
    let names: Vec<String> = (0..250_000).map(|name| format!("n{name}")).collect();
    let mut request = Sotw::first("attacker", "", names);
    for at in 0..stage.scale(256, 16) {
        request.type_url = format!("type.googleapis.com/made.up.T{at}");
        if call.taken(&request.encode()).await != Write::Taken {
            break;
        }
        request.node = None;
    }
    is_exhausted(&mut call).await
}

/// The end of a stream, which has to be for a limit.
pub(super) async fn is_exhausted(call: &mut Call) -> Result<String> {
    let end = call.end(PATIENCE).await;
    ensure!(end.starts_with("RESOURCE_EXHAUSTED"), "the stream ends with {end}");
    Ok(end)
}

async fn long_names(stage: &Stage) -> Result<String> {
    let connection = stage.http2(READS).await?;
    let mut call = connection.stream(ADS_DELTA).await?;
    for at in 0..10 {
        let names = (0..50).map(|name| format!("{at}-{name}-{}", "x".repeat(1_000_000)));
        let request = Delta::first("attacker", CDS, names);
        if call.taken(&request.encode()).await != Write::Taken {
            break;
        }
    }
    is_exhausted(&mut call).await
}

/// The keys that make 31 MB of metadata.
pub(super) const KEYS: usize = 1_100_000;

async fn metadata_grpc(stage: &Stage) -> Result<String> {
    let node = node_with_metadata("attacker", stage.scale(KEYS, KEYS / 4));
    let request = Sotw { node: Some(node), ..Sotw::first("attacker", CDS, ["innocent"]) };
    let message = framed(&request.encode());
    let mut held = Held::connect(stage, 1, READS).await?;
    held.ask(4, ADS_SOTW, &message).await;
    let mut told = String::new();
    for call in held.calls() {
        told = is_exhausted(call).await?;
    }
    Ok(format!("{} MB each: {told}", message.len() >> 20))
}

async fn metadata_rest(stage: &Stage) -> Result<String> {
    let keys = stage.scale(KEYS, KEYS / 4);
    let entries: Vec<_> = (0..keys).map(|key| format!("\"key-{key:08}\": \"value\"")).collect();
    let json =
        format!("{{\"node\": {{\"id\": \"attacker\", \"metadata\": {{{}}}}}}}", entries.join(","));
    let json = Bytes::from(json);
    let mut calls = Vec::new();
    for _ in 0..4 {
        let connection = stage.http2(READS).await?;
        let call = connection.poll(POLL, json.clone()).await?;
        calls.push((connection, call));
    }
    let mut statuses = Vec::new();
    for (_, call) in &mut calls {
        let (status, _) = timeout(PATIENCE, call.whole()).await??;
        // 503 if all four together are more than one client may hold, before their nodes are read.
        ensure!([413, 503].contains(&status), "it is answered {status}");
        statuses.push(status);
    }
    Ok(format!("{} MB each: {statuses:?}", json.len() >> 20))
}

fn drain_stalled_setup(setup: &mut Setup) {
    setup.clusters(1_000, 10_000);
    setup.limit("drain: 1s");
    setup.is_alone = true;
}

/// The time that a server with a drain of 1 s may take to end, where nobody is owed a first answer.
const DRAINED: Duration = Duration::from_secs(10);

async fn drain_stalled(stage: &Stage) -> Result<String> {
    stage.is_ready().await?;
    let connection = stage.http2(65_535).await?;
    let mut call = connection.sotw(&Sotw::first("attacker", CDS, [""; 0])).await?;
    // The head shows that the answer is under way; nothing of its body is taken.
    call.head().await.context("the head of the answer")?;
    stage.signal("TERM")?;
    let (status, took) = stage.wait_for_end(DRAINED).await?;
    ensure!(status.success(), "it ended with {status}");
    Ok(format!("ended after {:.1} s", took.as_secs_f64()))
}
