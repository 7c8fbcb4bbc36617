//! The limits of requests, streams and responses, each at the limit and one past it.
//!
//! An honest client just inside is served, and one beyond is refused by name. Not here: limits of
//! times and of files, and those that many clients share (`turns`, `products`).

use anyhow::{Context, Result, ensure};
use tokio::time::timeout;

use super::streams::{Ends, Held, peer_address};
use crate::attack::Attack;
use crate::setup::{Setup, cluster};
use crate::stage::{PATIENCE, PAUSE, Stage, until};
use crate::wire::frame::{DATA, END_HEADERS, HEADERS, RST_STREAM, frame, frames, request_block};
use crate::wire::grpc::{Http2, READS};
use crate::wire::http1::{POLL_BODY, poll};
use crate::wire::message::{Delta, Fields, Sotw, fields, framed, node};
use crate::wire::raw::Raw;
use crate::wire::{ADS_SOTW, CDS, POLL};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "limit-requests",
        about: "streams and polls with as much of each thing as they may have, and one more",
        setup: requests_setup,
        run: |stage| Box::pin(requests(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "limit-streams-of-one",
        about: "a connection has as many streams as it may have, and one more",
        setup: |setup| setup.limit("max-streams-per-connection: 5"),
        run: |stage| Box::pin(streams_of_one(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "limit-balancers",
        about: "a stranger and a balancer open more streams than are left for others",
        setup: balancers_setup,
        run: |stage| Box::pin(balancers(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "limit-responses",
        about: "1 MB of clusters and one of 100 kB go out in responses of 64 KiB",
        setup: responses_setup,
        run: |stage| Box::pin(responses(stage)),
        growth: 100,
        in_ci: true,
    },
];

/// The limits of requests that are tried.
const LIMITS: [&str; 6] = [
    "max-types: 3",
    "max-names: 5",
    "max-request-bytes: 4096",
    "max-name-length: 100",
    "max-name-bytes: 400",
    "max-node-bytes: 200",
];

fn requests_setup(setup: &mut Setup) {
    LIMITS.iter().for_each(|line| setup.limit(line));
}

/// The requests of one stream that has so much more of one thing than it may have.
type Requests = fn(more: usize) -> Vec<Vec<u8>>;

/// The requests that try each of the limits; the last of each has an answer.
const TRIED: [(&str, Requests); 7] = [
    ("types", |more| {
        let made_up = |at| format!("type.googleapis.com/made.up.T{at}");
        let others = (0..2 + more).map(|at| Sotw::first("attacker", &made_up(at), ["a"]).encode());
        others.chain([asking(Vec::new())]).collect()
    }),
    ("names", |more| vec![asking((0..4 + more).map(|at| format!("n{at}")).collect())]),
    ("bytes", |more| {
        let mut request = asking(Vec::new());
        // A field that nobody knows, with a key of two bytes and a length of two.
        let rest = 4_096 + more - request.len() - 4;
        request.extend(Fields::of(|unknown| unknown.bytes(100, &vec![0; rest])));
        vec![request]
    }),
    ("bytes of a name", |more| vec![asking(vec!["n".repeat(100 + more)])]),
    ("bytes of all names", |more| {
        let mut names: Vec<_> = (0..3).map(|at| format!("{at:0100}")).collect();
        names.push("n".repeat(400 - 300 - "innocent".len() + more));
        vec![asking(names)]
    }),
    ("bytes of a node", |more| {
        // Each text has a key and a length of one byte.
        let node = Some(Fields::of(|node| {
            node.text(1, "i".repeat(98));
            node.text(2, "c".repeat(98 + more));
        }));
        vec![Sotw { node, ..Sotw::first("", CDS, ["innocent"]) }.encode()]
    }),
    ("bytes of the id of a node", |more| {
        let node = Some(node(&"i".repeat(100 + more)));
        vec![Sotw { node, ..Sotw::first("", CDS, ["innocent"]) }.encode()]
    }),
];

/// A first request for what innocent clients ask for, and for these.
fn asking(mut names: Vec<String>) -> Vec<u8> {
    names.push("innocent".to_owned());
    Sotw::first("attacker", CDS, names).encode()
}

async fn requests(stage: &Stage) -> Result<String> {
    for (name, tried) in TRIED {
        let at = answer(stage, tried(0)).await;
        at.with_context(|| format!("as many {name} as allowed are refused"))?;
        let past = answer(stage, tried(1)).await.err().map(|refusal| refusal.to_string());
        let past = past.with_context(|| format!("more {name} than allowed are answered"))?;
        ensure!(past.starts_with("RESOURCE_EXHAUSTED"), "more {name} than allowed: {past}");
    }
    polls(stage).await?;
    Ok("answered at each limit, RESOURCE_EXHAUSTED or 413 past it".to_owned())
}

async fn polls(stage: &Stage) -> Result<()> {
    for (name, at, past) in [
        ("names", names_json(5, 8), names_json(6, 8)),
        ("bytes", wide_json(4_096), wide_json(4_097)),
        ("bytes of a name", names_json(1, 100), names_json(1, 101)),
        ("bytes of all names", names_json(4, 100), names_json(5, 81)),
        ("bytes of a node", node_json(70, 70), node_json(100, 100)),
        ("bytes of the id of a node", node_json(100, 0), node_json(101, 0)),
    ] {
        let at = poll(stage.xds(), &at, PATIENCE).await?.status;
        ensure!(at < 400, "a poll with as many {name} as allowed is answered {at}");
        let past = poll(stage.xds(), &past, PATIENCE).await?.status;
        ensure!(past == 413, "a poll with more {name} than allowed is answered {past}");
    }
    // Over HTTP/2 these do not announce how many bytes they have.
    for (bytes, expected) in [(4_096, 200), (4_097, 413)] {
        let connection = stage.http2(READS).await?;
        let mut call = connection.poll(POLL, wide_json(bytes).into()).await?;
        let (status, _) = timeout(PATIENCE, call.whole()).await??;
        ensure!(status == expected, "a poll of {bytes} bytes is answered {status}");
    }
    Ok(())
}

/// Asks on a new stream, and takes the first response.
async fn answer(stage: &Stage, requests: Vec<Vec<u8>>) -> Result<()> {
    let connection = stage.http2(READS).await?;
    let mut call = connection.stream(ADS_SOTW).await?;
    for request in requests {
        // A stream that has ended says why below.
        if call.send(&request).is_err() {
            break;
        }
    }
    call.message_within(PATIENCE).await.map(drop)
}

/// A poll of so many names of so many bytes each.
fn names_json(count: usize, bytes: usize) -> String {
    let names: Vec<_> = (0..count).map(|at| format!("\"{at:0bytes$}\"")).collect();
    format!("{{\"node\": {{\"id\": \"attacker\"}}, \"resource_names\": [{}]}}", names.join(","))
}

/// A poll of so many bytes.
fn wide_json(bytes: usize) -> String {
    let rest = &POLL_BODY[1..];
    format!("{{{}{rest}", " ".repeat(bytes - 1 - rest.len()))
}

/// A poll by a node whose id and cluster have so many bytes.
fn node_json(id: usize, cluster: usize) -> String {
    let (id, cluster) = ("i".repeat(id), "c".repeat(cluster));
    format!("{{\"node\": {{\"id\": \"{id}\", \"cluster\": \"{cluster}\"}}}}")
}

async fn streams_of_one(stage: &Stage) -> Result<String> {
    let mut raw = Raw::http2(stage.xds(), 65_535).await?;
    let request = framed(&asking(Vec::new()));
    for id in [1, 3, 5, 7, 9, 11] {
        raw.write(&frame(HEADERS, END_HEADERS, id, &request_block(ADS_SOTW))).await;
        raw.write(&frame(DATA, 0, id, &request)).await;
    }
    let mut answered = [false; 6];
    let mut refused = Vec::new();
    let mut told = Vec::new();
    while answered[..5] != [true; 5] || refused.is_empty() {
        let answer = raw.read_to_end(PAUSE).await;
        ensure!(!answer.closed, "the connection is closed: {answered:?} {refused:?}");
        told.extend(answer.bytes);
        for (kind, stream, _) in frames(&told) {
            match kind {
                DATA => answered[stream as usize / 2] = true,
                RST_STREAM => refused.push(stream),
                _ => {}
            }
        }
    }
    ensure!(!answered[5] && refused.iter().all(|stream| *stream == 11), "{answered:?} {refused:?}");
    Ok("five are answered, and the sixth is refused".to_owned())
}

fn balancers_setup(setup: &mut Setup) {
    setup.limit("max-streams: 400");
    setup.limit("balancers: [127.0.1.1/32]");
}

async fn balancers(stage: &Stage) -> Result<String> {
    let request = framed(&asking(Vec::new()));
    let mut stranger = Held::connect(stage, 1, READS).await?;
    stranger.ask(300, ADS_SOTW, &request).await;
    let mut ends = Vec::new();
    for call in stranger.calls() {
        let answer = call.message_within(PATIENCE).await;
        ends.push(answer.map_or_else(|refusal| refusal.to_string(), |_| "answered".to_owned()));
    }
    let ends = Ends::of(ends);
    ends.at_least(100, "answered")?;
    ends.at_least(50, "RESOURCE_EXHAUSTED")?;
    drop(stranger);
    // The streams of the stranger end with its connection.
    let gone = async || Ok(stage.metric("chancery_streams").await? < 100.0);
    until(PATIENCE, "the stranger is gone", gone).await?;
    let balancer = Http2::connect(peer_address(0), stage.xds(), READS).await?;
    let mut open = Vec::new();
    for _ in 0..300 {
        let mut call = balancer.asks(ADS_SOTW, request.clone()).await?;
        call.message_within(PATIENCE).await.context("a stream of the balancer")?;
        open.push(call);
    }
    stage.serves_others().await?;
    Ok(format!("of 300 streams, the stranger has {ends}; the balancer has all"))
}

fn responses_setup(setup: &mut Setup) {
    setup.clusters(1_000, 1_000);
    setup.file("large.json", cluster("large", 1, 100_000));
    setup.limit("max-response-bytes: 64KiB");
}

async fn responses(stage: &Stage) -> Result<String> {
    let connection = stage.http2(READS).await?;
    let mut call = connection.delta(&Delta::first("attacker", CDS, [""; 0])).await?;
    let (mut clusters, mut sizes) = (0, Vec::new());
    // The clusters, the large one, and the two of innocent clients, one of which may come twice.
    while clusters < 1_003 {
        let response = call.message_within(PATIENCE).await?;
        let resources = fields(&response, 2).len();
        ensure!(
            response.len() <= 64 << 10 || resources == 1,
            "{resources} clusters in {} bytes",
            response.len()
        );
        clusters += resources;
        sizes.push(response.len());
        call.send(&Delta::ack(&response).encode())?;
    }
    ensure!(sizes.iter().any(|size| *size > 100_000), "the large one is missing: {sizes:?}");
    Ok(format!("{} responses for {clusters} clusters", sizes.len()))
}
