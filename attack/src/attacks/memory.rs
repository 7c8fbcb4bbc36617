//! Attacks on memory: whatever a peer has the server keep for it, alone, in sum and in product.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use tokio::time::sleep;

use crate::attack::Attack;
use crate::setup::Setup;
use crate::stage::Stage;
use crate::wire::grpc::{Call, Http2, READS, STALLS};
use crate::wire::http1::exchange;
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
        name: "max-names-rest",
        about: "a poll names one more than `max-names`, and then as many names",
        setup: |setup| setup.limit("max-names: 1000"),
        run: |stage| Box::pin(max_names_rest(stage)),
        growth: 100,
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

/// Counts how calls ended, and how many of them are open.
pub(super) async fn ends(calls: &mut [Call]) -> String {
    let mut counts = BTreeMap::<String, usize>::new();
    for call in calls {
        *counts.entry(call.end(Duration::from_millis(1)).await).or_default() += 1;
    }
    let each = counts.iter().map(|(end, count)| format!("{count} × {end}"));
    each.collect::<Vec<_>>().join(", ")
}

async fn zero_window(stage: &Stage) -> Result<String> {
    let connection = stage.http2(STALLS).await?;
    let mut calls = Vec::new();
    for at in 0..150 {
        let names = (0..20_000).map(|name| format!("c-{}", (name + at * 60) % 40_000));
        let Ok(mut call) = connection.stream(ADS_SOTW).await else { break };
        call.send(&Sotw::first("attacker", CDS, names).encode())?;
        calls.push(call);
    }
    sleep(stage.seconds()).await;
    Ok(ends(&mut calls).await)
}

async fn rest_unread_http2(stage: &Stage) -> Result<String> {
    let connection = stage.http2(STALLS).await?;
    let mut calls = Vec::new();
    for _ in 0..150 {
        let body = Bytes::from_static(b"{\"node\": {\"id\": \"attacker\"}}");
        let Ok(call) = connection.poll(POLL, body).await else { break };
        calls.push(call);
    }
    sleep(stage.seconds()).await;
    let mut counts = BTreeMap::<u16, usize>::new();
    for call in &mut calls {
        let head = tokio::time::timeout(Duration::from_millis(1), call.head()).await;
        *counts.entry(head.map_or(0, |status| status.unwrap_or(0))).or_default() += 1;
    }
    Ok(format!("statuses {counts:?}"))
}

async fn rest_unread_http1(stage: &Stage) -> Result<String> {
    let mut open = Vec::new();
    for _ in 0..150 {
        let mut raw = Raw::dial_from(ATTACKER, stage.xds(), false).await?;
        let request = format!(
            "POST {POLL} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
             content-length: 28\r\n\r\n{{\"node\": {{\"id\": \"attacker\"}}}}"
        );
        raw.write(request.as_bytes()).await;
        open.push(raw);
    }
    sleep(stage.seconds()).await;
    let answered = open.iter().filter(|raw| raw.waiting() > 0).count();
    Ok(format!("{answered} of {} have an answer that waits", open.len()))
}

/// The bytes of a request that is announced, and those of it that are sent.
const ANNOUNCED: usize = 60_000_000;
const SENT: usize = 59_000_000;

async fn half_sent_grpc(stage: &Stage) -> Result<String> {
    let head = u32::try_from(ANNOUNCED)?.to_be_bytes();
    // One buffer for all streams, which `h2` does not copy.
    let bytes = Bytes::from([&[0][..], &head, &vec![0x0a; SENT]].concat());
    let mut open = Vec::new();
    for _ in 0..20 {
        let connection = stage.http2(READS).await?;
        let mut call = connection.stream(ADS_SOTW).await?;
        call.send_bytes(bytes.clone())?;
        open.push((connection, call));
    }
    sleep(2 * stage.seconds()).await;
    let mut calls: Vec<_> = open.into_iter().map(|(connection, call)| (call, connection)).collect();
    let mut ended = Vec::new();
    for (call, _) in &mut calls {
        ended.push(call.end(Duration::from_millis(1)).await);
    }
    let open = ended.iter().filter(|end| *end == "open").count();
    let other = ended.iter().find(|end| *end != "open").cloned().unwrap_or_default();
    Ok(format!("{open} of 20 open; {other}"))
}

async fn half_sent_rest(stage: &Stage) -> Result<String> {
    let head = format!(
        "POST {POLL} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: {ANNOUNCED}\r\n\r\n{{"
    );
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
    let mut sent = tasks.join_all().await;
    sleep(stage.seconds()).await;
    let whole = sent.iter().filter(|raw| raw.written as usize >= SENT).count();
    let mut closed = 0;
    for raw in &mut sent {
        closed += usize::from(raw.read_to_end(Duration::from_millis(1)).await.closed);
    }
    Ok(format!("{whole} of 20 were read, {closed} are closed"))
}

async fn types_times_names(stage: &Stage) -> Result<String> {
    let connection = stage.http2(READS).await?;
    let mut call = connection.stream(ADS_SOTW).await?;
    let names: Vec<String> = (0..250_000).map(|name| format!("n{name}")).collect();
    let mut request = Sotw::first("attacker", "", names);
    let types = stage.scale(256, 16);
    for at in 0..types {
        request.type_url = format!("type.googleapis.com/made.up.T{at}");
        if call.send(&request.encode()).is_err() {
            break;
        }
        request.node = None;
        // The server takes them as fast as it reads them; the attacker keeps one at a time.
        sleep(Duration::from_millis(30)).await;
    }
    sleep(stage.seconds()).await;
    Ok(format!("{types} types: {}", call.end(Duration::from_millis(1)).await))
}

async fn long_names(stage: &Stage) -> Result<String> {
    let connection = stage.http2(READS).await?;
    let mut call = connection.stream(ADS_DELTA).await?;
    for at in 0..10 {
        let names = (0..50).map(|name| format!("{at}-{name}-{}", "x".repeat(1_000_000)));
        let request = Delta::first("attacker", CDS, names);
        if call.send(&request.encode()).is_err() {
            break;
        }
        sleep(Duration::from_millis(200)).await;
    }
    sleep(stage.seconds()).await;
    Ok(call.end(Duration::from_millis(1)).await)
}

/// The keys that make 31 MB of metadata.
pub(super) const KEYS: usize = 1_100_000;

async fn metadata_grpc(stage: &Stage) -> Result<String> {
    let node = node_with_metadata("attacker", stage.scale(KEYS, KEYS / 4));
    let request = Sotw { node: Some(node), ..Sotw::first("attacker", CDS, ["innocent"]) };
    let message = framed(&request.encode());
    let connection = stage.http2(READS).await?;
    let mut calls = Vec::new();
    for _ in 0..4 {
        let mut call = connection.stream(ADS_SOTW).await?;
        call.send_bytes(message.clone())?;
        calls.push(call);
    }
    sleep(stage.seconds()).await;
    Ok(format!("{} MB each: {}", message.len() >> 20, ends(&mut calls).await))
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
        let answer = tokio::time::timeout(crate::stage::PATIENCE, call.whole()).await?;
        statuses
            .push(answer.map_or_else(|fault| fault.to_string(), |(status, _)| status.to_string()));
    }
    Ok(format!("{} MB each: {statuses:?}", json.len() >> 20))
}

async fn max_names_rest(stage: &Stage) -> Result<String> {
    let mut statuses = Vec::new();
    for count in [1_000, 1_001] {
        let names: Vec<_> = (0..count).map(|name| format!("\"n{name}\"")).collect();
        let body = format!(
            "{{\"node\": {{\"id\": \"attacker\"}}, \"resource_names\": [{}]}}",
            names.join(",")
        );
        let line = format!("POST {POLL}");
        let answer =
            exchange(ATTACKER, stage.xds(), &line, &[], &body, crate::stage::PATIENCE).await?;
        statuses.push(answer.status);
    }
    ensure!(statuses[0] < 400, "a poll at the limit is answered {}", statuses[0]);
    ensure!(statuses[1] >= 400, "a poll past the limit is answered {}", statuses[1]);
    Ok(format!("{} at the limit, {} past it", statuses[0], statuses[1]))
}

fn drain_stalled_setup(setup: &mut Setup) {
    setup.clusters(1_000, 10_000);
    setup.limit("drain: 1s");
    setup.is_alone = true;
}

/// The time that a server with a drain of 1 s may take to end, where nobody is owed a first answer.
const DRAINED: Duration = Duration::from_secs(10);

async fn drain_stalled(stage: &Stage) -> Result<String> {
    stage.is_ready()?;
    let connection: Http2 = stage.http2(65_535).await?;
    let mut call = connection.stream(ADS_SOTW).await?;
    call.send(&Sotw::first("attacker", CDS, [""; 0]).encode())?;
    // The head shows that the answer is under way; nothing of its body is taken.
    call.head().await.context("the head of the answer")?;
    stage.signal("TERM")?;
    let (status, took) = stage.wait_for_end(DRAINED)?;
    ensure!(status.success(), "it ended with {status}");
    Ok(format!("ended after {:.1} s", took.as_secs_f64()))
}
