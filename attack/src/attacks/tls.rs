//! Attacks by TLS: handshakes that do not end, and revocation lists.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::time::sleep;
use tokio_rustls::rustls::ClientConnection;
use tokio_rustls::rustls::pki_types::ServerName;

use super::files::make_fifo;
use super::secrets::{asks, tls};
use crate::attack::Attack;
use crate::setup::Setup;
use crate::stage::{PAUSE, SOON, Stage, until};
use crate::wire::raw::{Raw, Write};
use crate::wire::tls::{LONG, authority};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "tls-handshake-queue",
        about: "5,000 connections send the first message of a handshake and stop, again and again",
        setup: tls,
        run: |stage| Box::pin(handshake_queue(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "limit-handshakes",
        about: "300 connections stop within their handshakes, where there are four at a time",
        setup: few_handshakes,
        run: |stage| Box::pin(held_handshakes(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "tls-half-hello",
        about: "8,000 connections send nearly all of a first message of 60 kB in many records",
        setup: tls,
        run: |stage| Box::pin(half_hello(stage)),
        growth: 250,
        in_ci: true,
    },
    Attack {
        name: "tls-revoked",
        about: "a client whose certificate is revoked stays connected, and comes back",
        setup: crl,
        run: |stage| Box::pin(revoked(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "crl-fifo",
        about: "the revocation list becomes a FIFO before it revokes a certificate",
        setup: crl,
        run: |stage| Box::pin(not_regular(stage, |stage| make_fifo(stage, LIST))),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "crl-zero",
        about: "the revocation list becomes a symlink to `/dev/zero` before it revokes one",
        setup: crl,
        run: |stage| Box::pin(not_regular(stage, link_to_zero)),
        growth: 100,
        in_ci: true,
    },
];

/// The first message of a handshake.
fn hello() -> Result<Vec<u8>> {
    let connector = authority()?.client(None)?;
    let config = connector.config().clone();
    let mut client = ClientConnection::new(config, ServerName::try_from("localhost")?)?;
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes)?;
    Ok(bytes)
}

async fn handshake_queue(stage: &Stage) -> Result<String> {
    let (hello, count) = (hello()?, stage.scale(5_000, 1_000));
    let begun = async || {
        let mut raw = stage.raw().await?;
        let sent = raw.write(&hello).await;
        ensure!(sent == Write::Taken, "a first message is not taken: {sent:?}");
        anyhow::Ok(raw)
    };
    let mut open = Vec::new();
    while open.len() < count {
        open.push(begun().await?);
    }
    let (begin, mut renewed) = (Instant::now(), 0);
    while begin.elapsed() < 3 * stage.seconds() {
        for raw in &mut open {
            // Its answer is read and not continued.
            if raw.is_closed() {
                *raw = begun().await?;
                renewed += 1;
            }
        }
        sleep(PAUSE).await;
    }
    stage.serves_others().await?;
    // Where the attack is short, the first of them are given up only now.
    stage.metric_reaches("chancery_handshakes_failed_total", 1.0, SOON).await?;
    Ok(format!("{count} handshakes, {renewed} were begun anew"))
}

fn few_handshakes(setup: &mut Setup) {
    tls(setup);
    setup.limit("max-handshakes: 4");
    setup.limit("handshake-timeout: 5s");
}

/// The handshakes at a time, the time that one keeps its place while its peer is silent, and the time
/// after which all are given up.
const PLACES: usize = 4;
const TURN: Duration = Duration::from_millis(200);
const GIVEN_UP: Duration = Duration::from_secs(5);

async fn held_handshakes(stage: &Stage) -> Result<String> {
    let (hello, mut open, begin) = (hello()?, Vec::new(), Instant::now());
    for _ in 0..300 {
        let mut raw = stage.raw().await?;
        raw.write(&hello).await;
        open.push(raw);
    }
    // A handshake that has a place is answered, and the others are not yet.
    let mut silent: Vec<_> = open.iter().collect();
    let go_on = async || {
        silent.retain(|raw| raw.waiting() == 0);
        Ok(open.len() - silent.len() > PLACES)
    };
    until(SOON, "the places go on to other handshakes", go_on).await?;
    let (answered, took) = (open.len() - silent.len(), begin.elapsed());
    let most = PLACES * (1 + took.as_millis() as usize / TURN.as_millis() as usize);
    ensure!(took >= GIVEN_UP || answered <= most, "{answered} are answered after {took:?}");
    stage.serves_others().await?;
    stage.metric_reaches("chancery_handshakes_failed_total", 4.0, SOON).await?;
    let gone = async || Ok(open.iter().all(Raw::is_closed));
    until(SOON, "all of them are given up", gone).await?;
    ensure!(begin.elapsed() >= GIVEN_UP, "they are given up after {:?}", begin.elapsed());
    Ok(format!("{answered} are answered after {took:.1?}, and then all are given up"))
}

/// Nearly all of a first message of 60 kB, in records of one kilobyte.
fn long_hello() -> Vec<u8> {
    let mut message = vec![1, 0, 0xea, 0x60];
    message.resize(59_000, 0);
    let records = message.chunks(1_000).map(|part| {
        let length = u16::try_from(part.len()).unwrap_or_default().to_be_bytes();
        [&[22, 3, 1], &length[..], part].concat()
    });
    records.collect::<Vec<_>>().concat()
}

async fn half_hello(stage: &Stage) -> Result<String> {
    let hello = long_hello();
    let mut open = Vec::new();
    for _ in 0..stage.scale(8_000, 300) {
        let mut raw = stage.raw().await?;
        raw.write(&hello).await;
        open.push(raw);
    }
    stage.serves_others().await?;
    let sent = open.iter().filter(|raw| raw.written as usize == hello.len()).count();
    ensure!(sent >= 100, "{sent} of {} were sent", open.len());
    Ok(format!("{sent} of {} were sent, and others are served", open.len()))
}

/// The revocation list, and the serial number of the certificate that it comes to revoke.
const LIST: &str = ".tls/list.pem";
const REVOKED: u64 = 7;

fn crl(setup: &mut Setup) {
    tls(setup);
    let list = authority().and_then(|authority| authority.revokes(&[99]));
    setup.file(LIST, list.unwrap_or_default());
    setup.flags.extend(["--tls-client-crl".to_owned(), format!("DIR/{LIST}")]);
    setup.limit("tls-reload: 200ms");
    setup.limit("drain: 500ms");
}

/// Puts a list in place that revokes the certificate.
fn revoke(stage: &Stage) -> Result<()> {
    let beside = stage.dir().join(".tls/next.pem");
    fs::write(&beside, authority()?.revokes(&[REVOKED])?)?;
    Ok(fs::rename(beside, stage.dir().join(LIST))?)
}

async fn revoked(stage: &Stage) -> Result<String> {
    let ours = authority()?;
    let revoked = ours.client(Some(&ours.sign_as(REVOKED, LONG)?))?;
    let other = ours.client(Some(&ours.sign_as(8, LONG)?))?;
    let mut open = asks(stage, &revoked).await.context("before it is revoked")?;
    let mut kept = asks(stage, &other).await.context("another client")?;
    revoke(stage)?;
    let end = open.1.end(SOON).await;
    ensure!(end != "open", "a revoked client stays connected");
    ensure!(asks(stage, &revoked).await.is_err(), "a revoked client is served");
    stage.serves_others().await?;
    let kept = kept.1.end(Duration::from_millis(1)).await;
    ensure!(kept == "open", "the stream of another client ends with {kept}");
    Ok(format!("the stream of the revoked client ends: {end}"))
}

fn link_to_zero(stage: &Stage) -> Result<()> {
    let beside = stage.dir().join(".tls/zero");
    std::os::unix::fs::symlink("/dev/zero", &beside)?;
    Ok(fs::rename(beside, stage.dir().join(LIST))?)
}

async fn not_regular(stage: &Stage, replace: fn(&Stage) -> Result<()>) -> Result<String> {
    replace(stage)?;
    let told = async || Ok(stage.log.text().contains("certificates were not replaced"));
    let told = until(SOON, "the log says that the list cannot be read", told).await;
    // Whoever waits for a writer of a FIFO waits on; the file of that name is another one now.
    revoked(stage).await.and_then(|text| told.map(|()| text))
}
