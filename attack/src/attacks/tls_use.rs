//! Attacks over connections of TLS that are open: sockets that take nothing, and records of a byte.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::secrets::tls;
use super::streams::peer_address;
use crate::attack::Attack;
use crate::stage::{PATIENCE, Stage};
use crate::wire::frame::{
    DATA, END_HEADERS, HEADERS, PREFACE, WINDOW_UPDATE, frame, request_block, setting,
};
use crate::wire::message::{Sotw, framed};
use crate::wire::tls::{LONG, authority, connect};
use crate::wire::{ADS_SOTW, ATTACKER, CDS, dial};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "mtls-stalled-sockets",
        about: "4,000 connections of three addresses ask for 250 kB over TLS and read nothing",
        setup: |setup| {
            tls(setup);
            setup.clusters(25, 10_000);
        },
        run: |stage| Box::pin(stalled_sockets(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "tls-small-records",
        about: "32 connections send a request of 1 MB in records of one byte",
        setup: tls,
        run: |stage| Box::pin(small_records(stage)),
        growth: 100,
        in_ci: true,
    },
];

async fn small_records(stage: &Stage) -> Result<String> {
    let ours = authority()?;
    let connector = ours.client(Some(&ours.sign(LONG)?))?;
    let deadline = Instant::now() + 2 * stage.seconds();
    let mut tasks = JoinSet::new();
    for _ in 0..stage.scale(32, 8) {
        let (connector, to) = (connector.clone(), stage.xds());
        tasks.spawn(async move {
            let mut io = connect(&connector, ATTACKER, to).await?;
            io.write_all(&[PREFACE, &frame(4, 0, 0, &[])].concat()).await?;
            let ping = frame(0xee, 0, 0, &[7; 8]);
            let mut sent = 0;
            while Instant::now() < deadline {
                for byte in ping.chunks(1) {
                    // Each write is a record of its own.
                    timeout(Duration::from_secs(5), io.write_all(byte)).await??;
                    sent += 1;
                }
            }
            anyhow::Ok(sent)
        });
    }
    let mut sent = 0;
    while let Some(task) = tasks.join_next().await {
        sent += task?.unwrap_or(0);
    }
    stage.serves_others().await?;
    ensure!(sent > 1_000, "{sent} records were sent");
    Ok(format!("{sent} records"))
}

/// Connects over TLS with a socket that takes next to nothing.
async fn narrow(connector: &TlsConnector, from: Ipv4Addr, to: SocketAddr) -> Result<Stalled> {
    let io = dial(from, to, false).await?;
    Ok(connector.connect(ServerName::try_from("localhost")?, io).await?)
}

/// A connection that is not read.
type Stalled = tokio_rustls::client::TlsStream<tokio::net::TcpStream>;

async fn stalled_sockets(stage: &Stage) -> Result<String> {
    let ours = authority()?;
    let connector = ours.client(Some(&ours.sign(LONG)?))?;
    let request = framed(&Sotw::first("attacker", CDS, [""; 0]).encode());
    let first = [
        PREFACE,
        &setting(4, 1 << 30),
        &frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes()),
        &frame(HEADERS, END_HEADERS, 1, &request_block(ADS_SOTW)),
        &frame(DATA, 0, 1, &request),
    ]
    .concat();
    let (mut tasks, mut open) = (JoinSet::new(), Vec::new());
    for at in 0..stage.scale(4_000, 400) {
        let (connector, to, first) = (connector.clone(), stage.xds(), first.clone());
        tasks.spawn(async move {
            let from = peer_address((at % 3) as u8);
            let mut io = timeout(PATIENCE, narrow(&connector, from, to)).await??;
            io.write_all(&first).await?;
            io.flush().await?;
            anyhow::Ok(io)
        });
        if at % 32 == 31 {
            while let Some(task) = tasks.join_next().await {
                open.extend(task?.ok());
            }
        }
    }
    while let Some(task) = tasks.join_next().await {
        open.extend(task?.ok());
    }
    tokio::time::sleep(stage.seconds()).await;
    stage.serves_others().await?;
    let streams = stage.metric("chancery_streams").await?;
    let held = stage.metric("chancery_memory_held_bytes").await? / f64::from(1 << 20);
    ensure!(streams > 100.0, "{streams} streams are open");
    Ok(format!("{} connections, {streams} streams are open, {held:.0} MB are charged", open.len()))
}
