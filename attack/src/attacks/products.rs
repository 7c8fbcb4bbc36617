//! Attacks on sums and products: each stream stays below the limits that it has alone.
//!
//! A refusal here is because of all that a peer holds, or all peers together. The
//! attackers of one attack may come from many addresses, so that no share of a peer is large.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use tokio::time::sleep;

use super::memory::ends;
use crate::attack::Attack;
use crate::stage::Stage;
use crate::wire::grpc::{Call, Http2, READS, STALLS};
use crate::wire::message::{Delta, Sotw, framed, node_with_metadata};
use crate::wire::{ADS_DELTA, ADS_SOTW, ATTACKER, CDS};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "names-times-streams",
        about: "200 streams of one peer subscribe to 40,000 names each",
        setup: |_| {},
        run: |stage| Box::pin(names(stage, 1)),
        growth: 400,
        in_ci: true,
    },
    Attack {
        name: "names-times-peers",
        about: "50 peers have four streams each, which subscribe to 40,000 names each",
        setup: |_| {},
        run: |stage| Box::pin(names(stage, 50)),
        growth: 450,
        in_ci: true,
    },
    Attack {
        name: "metadata-times-streams",
        about: "500 streams of one peer state metadata of 0.8 MB each",
        setup: |_| {},
        run: |stage| Box::pin(metadata(stage, 1)),
        growth: 400,
        in_ci: true,
    },
    Attack {
        name: "half-sent-peers",
        about: "40 peers send 20 MB of a request of 30 MB each, and then nothing",
        setup: |_| {},
        run: |stage| Box::pin(half_sent(stage)),
        growth: 450,
        in_ci: true,
    },
    Attack {
        name: "zero-window-peers",
        about: "50 peers have four streams without a window each, which name 10 MB each",
        setup: |setup| setup.clusters(40_000, 400),
        run: |stage| Box::pin(zero_window(stage)),
        growth: 400,
        in_ci: true,
    },
];

/// Connections from so many addresses.
async fn connections(stage: &Stage, peers: u8, window: u32) -> Vec<Http2> {
    let mut open = Vec::new();
    for peer in 0..peers {
        let from = if peers == 1 { ATTACKER } else { Ipv4Addr::new(127, 0, 1, peer + 1) };
        if let Ok(connection) = Http2::connect(from, stage.xds(), window).await {
            open.push(connection);
        }
    }
    open
}

/// Sends a message on so many streams, which take turns at the connections. A server that refuses
/// is left alone.
async fn send_all(connections: &[Http2], path: &str, messages: Vec<Bytes>) -> Vec<Call> {
    let mut calls = Vec::new();
    for (message, connection) in messages.into_iter().zip(connections.iter().cycle()) {
        if let Ok(mut call) = connection.stream(path).await
            && call.send_bytes(message).is_ok()
        {
            calls.push(call);
        }
    }
    calls
}

async fn hold(stage: &Stage, mut calls: Vec<Call>) -> Result<String> {
    sleep(2 * stage.seconds()).await;
    Ok(ends(&mut calls).await)
}

async fn names(stage: &Stage, peers: u8) -> Result<String> {
    let open = connections(stage, peers, READS).await;
    let names = (0..40_000).map(|at| format!("a-name-of-some-length-{at}"));
    let message = framed(&Delta::first("attacker", CDS, names).encode());
    let calls = send_all(&open, ADS_DELTA, vec![message; 200]).await;
    hold(stage, calls).await
}

async fn metadata(stage: &Stage, peers: u8) -> Result<String> {
    let open = connections(stage, peers, READS).await;
    let node = Some(node_with_metadata("attacker", 30_000));
    let message = framed(&Sotw { node, ..Sotw::first("", CDS, ["innocent"]) }.encode());
    let calls = send_all(&open, ADS_SOTW, vec![message; 500]).await;
    hold(stage, calls).await
}

async fn half_sent(stage: &Stage) -> Result<String> {
    let open = connections(stage, 40, READS).await;
    let head = 30_000_000_u32.to_be_bytes();
    let message = Bytes::from([&[0][..], &head, &vec![0x0a; 20_000_000]].concat());
    let calls = send_all(&open, ADS_SOTW, vec![message; 40]).await;
    hold(stage, calls).await
}

async fn zero_window(stage: &Stage) -> Result<String> {
    let open = connections(stage, 50, STALLS).await;
    let message = |at: usize| {
        let names = (0..20_000).map(|name| format!("c-{}", (name + at * 60) % 40_000));
        framed(&Sotw::first("attacker", CDS, names).encode())
    };
    let mut calls = Vec::new();
    for at in 0..200 {
        let connection = &open[at % open.len().max(1)..];
        calls.extend(send_all(connection, ADS_SOTW, vec![message(at)]).await);
        sleep(Duration::from_millis(1)).await;
    }
    hold(stage, calls).await
}
