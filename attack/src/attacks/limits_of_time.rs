//! The limits of the time that a peer may take, each with a peer that keeps to it and one that does
//! not.
//!
//! The times are set to a second or two, and an attack waits for what the server does about the one,
//! while the other is served. Not here: the time of a handshake (`held`, `tls`), and the times for
//! which the server waits before it sends something (`waits`).

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use tokio::time::sleep;

use super::memory::half;
use crate::attack::Attack;
use crate::setup::Setup;
use crate::stage::{PATIENCE, SOON, Stage, until};
use crate::wire::frame::{
    DATA, END_HEADERS, HEADERS, PREFACE, WINDOW_UPDATE, frame, request_block, setting,
};
use crate::wire::grpc::{Call, Http2, READS, STALLS};
use crate::wire::http1::poll_head;
use crate::wire::message::{Sotw, fields, framed};
use crate::wire::raw::Raw;
use crate::wire::{ADS_SOTW, ATTACKER, CDS};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "stall-unread",
        about: "a stream and a socket take nothing of 10 MB, and a reader takes it slowly",
        setup: stall_setup,
        run: |stage| Box::pin(stall_unread(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "stall-half-sent",
        about: "requests over gRPC and REST stop in their middle, and one pauses there",
        setup: half_setup,
        run: |stage| Box::pin(stall_half_sent(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "limit-idle",
        about: "connections say nothing, beside one with a stream that says nothing",
        setup: idle_setup,
        run: |stage| Box::pin(idle(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "limit-age",
        about: "old connections do not leave: one reads nothing, one has sent half a request",
        setup: age_setup,
        run: |stage| Box::pin(age(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "limit-keepalive",
        about: "a peer answers no ping, and one that answers is silent otherwise",
        setup: keepalive_setup,
        run: |stage| Box::pin(keepalive(stage)),
        growth: 100,
        in_ci: true,
    },
];

fn stall_setup(setup: &mut Setup) {
    setup.clusters(1_000, 10_000);
    setup.limit("stall-timeout: 2s");
}

async fn stall_unread(stage: &Stage) -> Result<String> {
    let all = Sotw::first("attacker", CDS, [""; 0]);
    let stalled = stage.http2(STALLS).await?;
    let mut stalled = (stalled.sotw(&all).await?, stalled);
    let slow = stage.http2(65_535).await?;
    let mut slow = (slow.sotw(&all).await?, slow);
    let mut deaf = takes_nothing(stage, &all).await?;
    // In the time it takes three windows, which is more than the server gives to HTTP/2 at once.
    for _ in 0..10 {
        sleep(Duration::from_millis(600)).await;
        slow.0.takes(65_535).await.context("the slow reader")?;
    }
    let end = stalled.0.end(SOON).await;
    ensure!(end != "open", "a stream that takes nothing is open");
    stage.metric_reaches("chancery_cut_off_total", 2.0, SOON).await?;
    let answer = deaf.read_to_end(SOON).await;
    ensure!(answer.closed, "a socket that takes nothing is open");
    let response = slow.0.message_within(PATIENCE).await.context("the slow reader")?;
    ensure!(fields(&response, 2).len() >= 1_000, "{} clusters", fields(&response, 2).len());
    Ok(format!("the stream ends: {end}; the slow reader has all"))
}

/// A connection with all the room that HTTP/2 has, which asks and reads nothing.
async fn takes_nothing(stage: &Stage, request: &Sotw) -> Result<Raw> {
    let mut raw = Raw::dial_from(ATTACKER, stage.xds(), false).await?;
    let window = (1_u32 << 31) - 1 - 65_535;
    let head = [
        PREFACE,
        &setting(4, window),
        &frame(WINDOW_UPDATE, 0, 0, &window.to_be_bytes()),
        &frame(HEADERS, END_HEADERS, 1, &request_block(ADS_SOTW)),
        &frame(DATA, 0, 1, &framed(&request.encode())),
    ];
    raw.write(&head.concat()).await;
    Ok(raw)
}

/// The time that the rest of a request has.
const STALL: Duration = Duration::from_secs(2);

fn half_setup(setup: &mut Setup) {
    setup.limit("stall-timeout: 2s");
    setup.limit("handshake-timeout: 2s");
}

async fn stall_half_sent(stage: &Stage) -> Result<String> {
    let begin = Instant::now();
    let connection = stage.http2(READS).await?;
    let mut halved = connection.asks(ADS_SOTW, half(1_000, 900)).await?;
    let mut rest = stage.raw().await?;
    rest.write(format!("{}{{", poll_head(1_000)).as_bytes()).await;
    // This one pauses for a part of the time, before a request and within it.
    let mut pausing = connection.stream(ADS_SOTW).await?;
    let mut request = framed(&Sotw::first("attacker", CDS, ["innocent"]).encode());
    sleep(Duration::from_millis(500)).await;
    pausing.send_bytes(request.split_to(request.len() / 2))?;
    sleep(Duration::from_millis(500)).await;
    pausing.send_bytes(request)?;
    let answer = pausing.message_within(PATIENCE).await.context("the one that pauses")?;
    let ended = async { (halved.end(SOON).await, begin.elapsed()) };
    let polled = async { (rest.read_to_end(SOON).await, begin.elapsed()) };
    let ((end, of_end), (poll, of_poll)) = tokio::join!(ended, polled);
    ensure!(end.starts_with("DEADLINE_EXCEEDED"), "half a request over gRPC ends with {end}");
    stage.came(of_end, STALL..Duration::from_secs(60)).context("half a request")?;
    let statuses = poll.statuses();
    ensure!(poll.closed && statuses == ["408"], "half a poll is answered {statuses:?}");
    stage.came(of_poll, STALL..Duration::from_secs(10)).context("half a poll")?;
    // A stream between two requests has no time at all.
    let again = Sotw::first("attacker", CDS, ["innocent", "edited"]).answer(&answer, None);
    pausing.send(&again.encode())?;
    pausing.message_within(PATIENCE).await.context("a stream between two requests")?;
    Ok(format!("{end}; the poll: 408"))
}

/// A client that has had its first answer, and then says nothing on its connection.
struct Quiet {
    request: Sotw,
    answer: Bytes,
    call: Call,
    _connection: Http2,
}

impl Quiet {
    async fn start(stage: &Stage) -> Result<Self> {
        let connection = stage.http2(READS).await?;
        let request = Sotw::first("attacker", CDS, ["innocent"]);
        let mut call = connection.sotw(&request).await?;
        let answer = call.message_within(PATIENCE).await?;
        Ok(Self { request, answer, call, _connection: connection })
    }

    /// Asks for another resource, and is answered.
    async fn stays_served(mut self) -> Result<()> {
        let names = vec!["edited".to_owned()];
        let again = Sotw { names, ..self.request.answer(&self.answer, None) };
        self.call.send(&again.encode())?;
        self.call.message_within(PATIENCE).await.map(drop)
    }
}

fn idle_setup(setup: &mut Setup) {
    setup.limit("idle-timeout: 1s");
    // A peer that does not leave when it is told to is cut after that.
    setup.limit("grace: 1s");
}

async fn idle(stage: &Stage) -> Result<String> {
    let quiet = Quiet::start(stage).await?;
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(Raw::http2(stage.xds(), 65_535).await?);
    }
    let mut left = 0;
    for raw in &mut idle {
        let answer = raw.read_to_end(SOON).await;
        ensure!(answer.closed, "an idle connection is open");
        left += usize::from(answer.goaway() == Some(0));
    }
    // More than twice the time has passed for this one when it is answered again.
    sleep(Duration::from_secs(1)).await;
    quiet.stays_served().await.context("a connection with a stream")?;
    Ok(format!("100 are closed, {left} with GOAWAY; the one with a stream is served"))
}

fn age_setup(setup: &mut Setup) {
    setup.is_alone = true;
    setup.clusters(1_000, 10_000);
    for line in ["max-connection-age: 2s", "age-jitter: 0", "grace: 1s"] {
        setup.limit(line);
    }
}

/// The age at which a connection is old.
const AGE: Duration = Duration::from_secs(2);

async fn age(stage: &Stage) -> Result<String> {
    stage.is_ready().await?;
    let (all, begin) = (Sotw::first("attacker", CDS, [""; 0]), Instant::now());
    let mut deaf = takes_nothing(stage, &all).await?;
    let owed = stage.http2(READS).await?;
    let mut owed = (owed.asks(ADS_SOTW, half(1_000, 900)).await?, owed);
    let honest = stage.http2(READS).await?;
    let mut honest = (honest.sotw(&all).await?, honest);
    honest.0.message_within(PATIENCE).await?;
    let end = honest.0.end(SOON).await;
    ensure!(end.starts_with("UNAVAILABLE"), "an old stream ends with {end}");
    stage.came(begin.elapsed(), AGE..Duration::from_secs(3_600)).context("an old stream")?;
    let half = owed.0.end(SOON).await;
    ensure!(half != "open", "a stream without a request is open after the grace");
    // Whoever reads nothing is cut, so the connections are gone before it reads.
    let gone = async || Ok(stage.metric("chancery_connections").await? < 1.0);
    drop((owed, honest));
    until(SOON, "all old connections are gone", gone).await?;
    ensure!(deaf.read_to_end(SOON).await.closed, "a connection that reads nothing is open");
    let again = stage.http2(READS).await?;
    again.sotw(&all).await?.message_within(PATIENCE).await.context("a client that comes back")?;
    Ok(format!("the honest stream ends: {end}; the half: {half}; all are gone"))
}

fn keepalive_setup(setup: &mut Setup) {
    setup.limit("http2-keepalive: 1s");
    setup.limit("keepalive-timeout: 1s");
}

async fn keepalive(stage: &Stage) -> Result<String> {
    let quiet = Quiet::start(stage).await?;
    let mut deaf = Vec::new();
    for _ in 0..100 {
        let mut raw = Raw::http2(stage.xds(), 65_535).await?;
        raw.write(&frame(HEADERS, END_HEADERS, 1, &request_block(ADS_SOTW))).await;
        raw.write(&frame(DATA, 0, 1, &framed(&quiet.request.encode()))).await;
        deaf.push(raw);
    }
    for raw in &mut deaf {
        ensure!(raw.read_to_end(SOON).await.closed, "a peer that answers no ping is connected");
    }
    // By now the other one has answered several pings.
    sleep(Duration::from_secs(3)).await;
    quiet.stays_served().await.context("a peer that answers")?;
    Ok("100 peers that answer no ping are gone; the one that does is served".to_owned())
}
