//! The limits of time, each with a peer that stays just inside and one that does not.
//!
//! The times are set to a second or two; an attack waits for what the server does about them. Not
//! here: the time of a handshake (`held`, `tls`).

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use tokio::time::{sleep, timeout};

use super::memory::half;
use crate::attack::Attack;
use crate::setup::Setup;
use crate::stage::{PATIENCE, SOON, Stage, until};
use crate::wire::frame::{
    DATA, END_HEADERS, HEADERS, PREFACE, WINDOW_UPDATE, frame, request_block, setting,
};
use crate::wire::grpc::{Call, Http2, READS, STALLS};
use crate::wire::http1::{poll, poll_head};
use crate::wire::message::{Delta, Sotw, fields, framed, text};
use crate::wire::raw::Raw;
use crate::wire::{ADS_SOTW, ATTACKER, CDS, EDS, RDS};

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
    Attack {
        name: "limit-rest-hold",
        about: "300 polls ask for what is new, and nothing is",
        setup: |setup| setup.limit("rest-hold: 500ms"),
        run: |stage| Box::pin(rest_hold(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "limit-ack-wait",
        about: "a client never answers the response before, beside one that does",
        setup: |setup| setup.limit("ack-wait: 1s"),
        run: |stage| Box::pin(ack_wait(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "limit-warm-wait",
        about: "a client asks for routes, and never for the endpoints of their clusters",
        setup: warm_setup,
        run: |stage| Box::pin(warm_wait(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "limit-removal-wait",
        about: "a client never acknowledges the routes without a cluster that is removed",
        setup: warm_setup,
        run: |stage| Box::pin(removal_wait(stage)),
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

fn half_setup(setup: &mut Setup) {
    setup.limit("stall-timeout: 2s");
    setup.limit("handshake-timeout: 2s");
}

async fn stall_half_sent(stage: &Stage) -> Result<String> {
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
    let end = halved.end(SOON).await;
    ensure!(end.starts_with("DEADLINE_EXCEEDED"), "half a request over gRPC ends with {end}");
    let poll = rest.read_to_end(SOON).await;
    let statuses = poll.statuses();
    ensure!(poll.closed && statuses == ["408"], "half a poll is answered {statuses:?}");
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

async fn age(stage: &Stage) -> Result<String> {
    stage.is_ready().await?;
    let all = Sotw::first("attacker", CDS, [""; 0]);
    let mut deaf = takes_nothing(stage, &all).await?;
    let owed = stage.http2(READS).await?;
    let mut owed = (owed.asks(ADS_SOTW, half(1_000, 900)).await?, owed);
    let honest = stage.http2(READS).await?;
    let mut honest = (honest.sotw(&all).await?, honest);
    honest.0.message_within(PATIENCE).await?;
    let end = honest.0.end(SOON).await;
    ensure!(end.starts_with("UNAVAILABLE"), "an old stream ends with {end}");
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

async fn rest_hold(stage: &Stage) -> Result<String> {
    let body = "{\"node\": {\"id\": \"attacker\"}, \"resource_names\": [\"innocent\"]}";
    let first: serde_json::Value =
        serde_json::from_str(&poll(stage.xds(), body, PATIENCE).await?.body)?;
    let version = first["versionInfo"].as_str().context("no version in the answer")?;
    let again = format!("{{\"version_info\": \"{version}\", {}", &body[1..]);
    let mut polls = tokio::task::JoinSet::new();
    for _ in 0..300 {
        let (to, again) = (stage.xds(), again.clone());
        polls.spawn(async move { poll(to, &again, PATIENCE).await });
    }
    let mut held = 0;
    while let Some(answer) = timeout(PATIENCE, polls.join_next()).await? {
        let status = answer??.status;
        ensure!(status == 304, "a poll when nothing is new is answered {status}");
        held += 1;
    }
    stage.serves_others().await?;
    Ok(format!("{held} polls are answered 304"))
}

async fn ack_wait(stage: &Stage) -> Result<String> {
    // Innocent editors change this cluster meanwhile.
    let request = Sotw::first("attacker", CDS, ["edited"]);
    let connection = stage.http2(READS).await?;
    let mut silent = connection.sotw(&request).await?;
    let mut versions = Vec::new();
    for _ in 0..4 {
        let response = silent.message_within(SOON).await.context("a client that never answers")?;
        versions.push(text(&response, 1));
    }
    versions.dedup();
    ensure!(versions.len() == 4, "it is sent the same again: {versions:?}");
    stage.serves_others().await?;
    Ok("a client that never answers is sent what is new after the wait".to_owned())
}

/// A cluster whose endpoints come by EDS, its endpoints, and routes to it.
fn warm_setup(setup: &mut Setup) {
    setup.limit("warm-wait: 1s");
    setup.limit("removal-wait: 1s");
    let ads = "{\"edsConfig\": {\"ads\": {}, \"resourceApiVersion\": \"V3\"}}";
    setup.file(
        WARM,
        format!(
            "{{\"@type\": \"{CDS}\", \"name\": \"warm\", \"type\": \"EDS\", \"edsClusterConfig\": {ads}}}"
        ),
    );
    setup.file("endpoints.json", format!("{{\"@type\": \"{EDS}\", \"clusterName\": \"warm\"}}"));
    setup.file(ROUTES, routes("warm"));
}

/// The files of the cluster and of the routes to it.
const WARM: &str = "warm.json";
const ROUTES: &str = "routes.json";

/// Routes to a cluster.
fn routes(cluster: &str) -> String {
    format!(
        "{{\"@type\": \"{RDS}\", \"name\": \"routes\", \"virtualHosts\": [{{\"name\": \"all\", \
         \"domains\": [\"*\"], \"routes\": [{{\"match\": {{\"prefix\": \"/\"}}, \"route\": \
         {{\"cluster\": \"{cluster}\"}}}}]}}]}}"
    )
}

/// Takes responses and accepts those of clusters, until one is as wanted.
async fn until_sent(call: &mut Call, is_wanted: impl Fn(&[u8]) -> bool) -> Result<()> {
    loop {
        let response = call.message_within(SOON).await?;
        if text(&response, 4) == CDS {
            call.send(&Delta::ack(&response).encode())?;
        }
        if is_wanted(&response) {
            return Ok(());
        }
    }
}

/// A stream that is subscribed to all clusters and to the routes, and was sent both.
async fn with_routes(stage: &Stage) -> Result<(Call, Http2)> {
    let connection = stage.http2(READS).await?;
    let mut call = connection.delta(&Delta::first("attacker", CDS, [""; 0])).await?;
    let ask = Delta { node: None, ..Delta::first("", RDS, ["routes"]) };
    call.send(&ask.encode())?;
    let sent = until_sent(&mut call, |response| {
        text(response, 4) == RDS && fields(response, 2).len() == 1
    });
    sent.await.context("the routes")?;
    Ok((call, connection))
}

async fn warm_wait(stage: &Stage) -> Result<String> {
    let _open = with_routes(stage).await?;
    stage.serves_others().await?;
    Ok("the routes are sent after the wait".to_owned())
}

async fn removal_wait(stage: &Stage) -> Result<String> {
    let (mut call, _connection) = with_routes(stage).await?;
    stage.write(ROUTES, routes("innocent"))?;
    std::fs::remove_file(stage.dir().join(WARM))?;
    let is_removal = |response: &[u8]| {
        fields(response, 6).iter().any(|name| *name == b"warm") && text(response, 4) == CDS
    };
    until_sent(&mut call, is_removal).await.context("the removal")?;
    stage.serves_others().await?;
    Ok("the removal is sent after the wait".to_owned())
}
