//! Attacks by many peers, and by those that have no bound of their own, on what all share.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::memory::half;
use super::streams::{Ends, Held, peer_address};
use crate::attack::Attack;
use crate::stage::{PATIENCE, Stage};
use crate::wire::grpc::{Http2, READS};
use crate::wire::http1::poll_head;
use crate::wire::message::{Delta, Sotw, framed};
use crate::wire::raw::{Raw, Write};
use crate::wire::{ADS_DELTA, ADS_SOTW, CDS};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "rest-uploads-fill",
        about: "10 peers hold half-sent polls of 30 MB until all memory for clients is held",
        setup: |_| {},
        run: |stage| Box::pin(uploads(stage)),
        growth: 450,
        in_ci: true,
    },
    Attack {
        name: "peer-churn-while-full",
        about: "1,000 addresses connect, ask and leave while the memory for clients is held",
        setup: |_| {},
        run: |stage| Box::pin(churn(stage)),
        growth: 450,
        in_ci: true,
    },
    Attack {
        name: "long-work-of-fifty",
        about: "50 peers send requests of 250,000 names, again and again",
        setup: |_| {},
        run: |stage| Box::pin(long_work(stage)),
        growth: 450,
        in_ci: true,
    },
    Attack {
        name: "unix-hog",
        about: "a client on the Unix socket, which has no bound of its own, takes all it can",
        setup: |setup| setup.flags.extend(["--listen".into(), "unix:DIR/socket".into()]),
        run: |stage| Box::pin(unix_hog(stage)),
        growth: 520,
        in_ci: true,
    },
    Attack {
        name: "nofile-128",
        about: "200 idle connections, where the process may have 128 descriptors",
        setup: |setup| setup.descriptors = Some(128),
        run: |stage| Box::pin(few_descriptors(stage)),
        growth: 100,
        in_ci: true,
    },
];

async fn uploads(stage: &Stage) -> Result<String> {
    let head = poll_head(31_000_000) + "{";
    let chunk = vec![b' '; 1 << 20];
    let deadline = Instant::now() + 3 * stage.seconds();
    let mut tasks = JoinSet::new();
    for at in 0..20 {
        let (head, chunk, to) = (head.clone(), chunk.clone(), stage.xds());
        // Two of each address. What the server gives up is begun again.
        tasks.spawn(async move {
            let mut begun = 0;
            while Instant::now() < deadline {
                begun += 1;
                let mut raw = Raw::dial_from(peer_address(at / 2), to, true).await?;
                raw.write(head.as_bytes()).await;
                let mut parts = 0;
                while parts < 29 && raw.write(&chunk).await == Write::Taken {
                    parts += 1;
                }
                let left = deadline.saturating_duration_since(Instant::now());
                raw.read_to_end(left.max(Duration::from_millis(50))).await;
            }
            anyhow::Ok(begun)
        });
    }
    stage.is_charged(100).await?;
    stage.serves_others().await?;
    let mut begun = 0;
    while let Some(task) = tasks.join_next().await {
        begun += task??;
    }
    Ok(format!("{begun} uploads were begun"))
}

/// Holds half-sent requests of many peers until the server refuses more.
async fn fill(stage: &Stage) -> Result<Held> {
    let mut held = Held::connect(stage, 40, READS).await?;
    held.ask(80, ADS_SOTW, &half(10_000_000, 8_000_000)).await;
    stage.is_charged(100).await?;
    Ok(held)
}

async fn churn(stage: &Stage) -> Result<String> {
    let held = fill(stage).await?;
    let (begin, mut peers, mut answered) = (Instant::now(), 0_usize, 0);
    let request = Sotw::first("attacker", CDS, ["innocent"]);
    while begin.elapsed() < 2 * stage.seconds() || peers < stage.scale(1_000, 200) {
        let mut tasks = JoinSet::new();
        for _ in 0..50 {
            let [low, high, ..] = peers.to_le_bytes();
            let (from, to) = (Ipv4Addr::new(127, 1, high, low), stage.xds());
            let request = request.clone();
            tasks.spawn(async move {
                let connection = Http2::connect(from, to, READS).await?;
                connection.sotw(&request).await?.message_within(PATIENCE).await
            });
            peers += 1;
        }
        answered += tasks.join_all().await.iter().filter(|answer| answer.is_ok()).count();
    }
    let ends = held.hold(stage, Duration::ZERO).await?;
    ensure!(answered * 2 > peers, "{answered} of {peers} peers were answered");
    Ok(format!("{answered} of {peers} peers were answered; of those that fill: {ends}"))
}

async fn long_work(stage: &Stage) -> Result<String> {
    let names = (0..250_000).map(|at| format!("name-{at}"));
    let message = Delta::first("attacker", CDS, names).encode();
    let deadline = Instant::now() + 2 * stage.seconds();
    let mut tasks = JoinSet::new();
    for peer in 0..50 {
        let (to, message) = (stage.xds(), message.clone());
        tasks.spawn(async move {
            let mut ends = Vec::new();
            while Instant::now() < deadline {
                let answer = answer(peer_address(peer), to, &message).await;
                ends.push(answer.map_or_else(|end| end.to_string(), |_| "answered".to_owned()));
            }
            ends
        });
    }
    let mut ends = Vec::new();
    while let Some(task) = timeout(PATIENCE, tasks.join_next()).await? {
        ends.extend(task?);
    }
    stage.serves_others().await?;
    let ends = Ends::of(ends);
    ends.at_least(1, "answered")?;
    Ok(ends.to_string())
}

/// Asks on a connection of its own; an error is how it ended.
async fn answer(from: Ipv4Addr, to: SocketAddr, message: &[u8]) -> Result<Bytes> {
    let connection = Http2::connect(from, to, READS).await?;
    let mut call = connection.stream(ADS_DELTA).await?;
    call.taken(message).await;
    call.message_within(PATIENCE).await
}

async fn unix_hog(stage: &Stage) -> Result<String> {
    let mut connections = Vec::new();
    for _ in 0..40 {
        let io = UnixStream::connect(stage.dir().join("socket")).await?;
        connections.push(Http2::over(io, READS).await?);
    }
    let mut held = Held::of(connections);
    let names = (0..100_000).map(|at| format!("a-name-of-some-length-{at}"));
    let message = framed(&Delta::first("attacker", CDS, names).encode());
    held.ask(100, ADS_DELTA, &message).await;
    stage.is_charged(100).await?;
    stage.serves_others().await?;
    Ok(held.hold(stage, 2 * stage.seconds()).await?.to_string())
}

async fn few_descriptors(stage: &Stage) -> Result<String> {
    let mut open = Vec::new();
    for _ in 0..200 {
        // The system takes a connection before the process does.
        open.push(timeout(Duration::from_secs(5), Raw::http2(stage.xds(), 65_535)).await??);
    }
    sleep(stage.seconds()).await;
    stage.serves_others().await?;
    let served = open.iter().filter(|raw| raw.waiting() > 0).count();
    ensure!(served > 0 && served < open.len(), "{served} of {} are served", open.len());
    Ok(format!("{served} of {} are served", open.len()))
}
