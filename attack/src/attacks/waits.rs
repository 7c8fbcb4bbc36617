//! The times for which the server holds something back, each with a peer that it waits for and one
//! that gives it no reason to wait.
//!
//! The times are set to a second or less. What is held back must not come earlier, and, where times
//! are judged, not as late as with the default; without a reason to wait it comes before the time.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::time::timeout;

use crate::attack::Attack;
use crate::setup::Setup;
use crate::stage::{PATIENCE, SOON, Stage};
use crate::wire::grpc::{Call, Http2, READS};
use crate::wire::http1::poll;
use crate::wire::message::{Delta, Sotw, fields, text};
use crate::wire::{CDS, EDS, RDS};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "limit-rest-hold",
        about: "300 polls ask while nothing is new, and another one while something is",
        setup: |setup| setup.limit("rest-hold: 300ms"),
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
        about: "a client does not accept the endpoints that routes wait for, beside one that does",
        setup: warm_setup,
        run: |stage| Box::pin(warm_wait(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "limit-removal-wait",
        about: "a client does not accept routes without a removed cluster, beside one that does",
        setup: removal_setup,
        run: |stage| Box::pin(removal_wait(stage)),
        growth: 100,
        in_ci: true,
    },
];

/// The times of the hold of a poll: the one that is set, and the default.
const HOLD: Range<Duration> = Duration::from_millis(300)..Duration::from_millis(800);

async fn rest_hold(stage: &Stage) -> Result<String> {
    let body = "{\"node\": {\"id\": \"attacker\"}, \"resource_names\": [\"innocent\"]}";
    let begin = Instant::now();
    let first = poll(stage.xds(), body, PATIENCE).await?;
    stage.came(begin.elapsed(), Duration::ZERO..HOLD.start).context("a poll for what is new")?;
    let first: serde_json::Value = serde_json::from_str(&first.body)?;
    let version = first["versionInfo"].as_str().context("no version in the answer")?;
    let again = format!("{{\"version_info\": \"{version}\", {}", &body[1..]);
    let mut polls = tokio::task::JoinSet::new();
    for _ in 0..300 {
        let (to, again) = (stage.xds(), again.clone());
        polls.spawn(async move {
            let begin = Instant::now();
            (poll(to, &again, PATIENCE).await, begin.elapsed())
        });
    }
    let mut held = 0;
    while let Some(answered) = timeout(PATIENCE, polls.join_next()).await? {
        let (answer, took) = answered?;
        let status = answer?.status;
        ensure!(status == 304, "a poll when nothing is new is answered {status}");
        stage.came(took, HOLD).context("a poll when nothing is new")?;
        held += 1;
    }
    stage.serves_others().await?;
    Ok(format!("{held} polls are answered 304"))
}

/// The wait for an answer, for endpoints, and for the acceptance of routes.
const WAIT: Duration = Duration::from_secs(1);

/// The waits that a client makes which never answers, and which is sent a response after each.
const WAITS: u32 = 3;

async fn ack_wait(stage: &Stage) -> Result<String> {
    let both = (versions_come(stage, true), versions_come(stage, false));
    let (answered, silent) = tokio::try_join!(both.0, both.1)?;
    stage.came(answered, Duration::ZERO..WAITS * WAIT).context("a client that answers")?;
    stage.came(silent, WAITS * WAIT..Duration::from_secs(10)).context("one that does not")?;
    stage.serves_others().await?;
    Ok(format!("four versions after {answered:.1?}, and {silent:.1?} without an answer"))
}

/// The time until a client has the versions of a cluster that innocent editors change meanwhile.
async fn versions_come(stage: &Stage, answers: bool) -> Result<Duration> {
    let (request, begin) = (Sotw::first("attacker", CDS, ["edited"]), Instant::now());
    let connection = stage.http2(READS).await?;
    let mut call = connection.sotw(&request).await?;
    let mut versions = Vec::new();
    for _ in 0..=WAITS {
        let response = call.message_within(SOON).await?;
        versions.push(text(&response, 1));
        if answers {
            call.send(&request.answer(&response, None).encode())?;
        }
    }
    let took = begin.elapsed();
    versions.dedup();
    ensure!(versions.len() > WAITS as usize, "it is sent the same again: {versions:?}");
    Ok(took)
}

/// Routes, the endpoints of a cluster that is not there, and a wait for those.
fn warm_setup(setup: &mut Setup) {
    setup.limit("warm-wait: 1s");
    setup.file("endpoints.json", format!("{{\"@type\": \"{EDS}\", \"clusterName\": \"warm\"}}"));
    setup.file(ROUTES, routes("innocent"));
}

/// Routes to a cluster, and a wait before its removal.
fn removal_setup(setup: &mut Setup) {
    setup.limit("removal-wait: 1s");
    setup.file(WARM, warm());
    setup.file(ROUTES, routes("warm"));
}

/// The files of the cluster and of the routes to it.
const WARM: &str = "warm.json";
const ROUTES: &str = "routes.json";

/// A cluster whose endpoints come by EDS.
fn warm() -> String {
    let ads = "{\"edsConfig\": {\"ads\": {}, \"resourceApiVersion\": \"V3\"}}";
    format!(
        "{{\"@type\": \"{CDS}\", \"name\": \"warm\", \"type\": \"EDS\", \
         \"edsClusterConfig\": {ads}}}"
    )
}

/// Routes to a cluster.
fn routes(cluster: &str) -> String {
    format!(
        "{{\"@type\": \"{RDS}\", \"name\": \"routes\", \"virtualHosts\": [{{\"name\": \"all\", \
         \"domains\": [\"*\"], \"routes\": [{{\"match\": {{\"prefix\": \"/\"}}, \"route\": \
         {{\"cluster\": \"{cluster}\"}}}}]}}]}}"
    )
}

/// A client of a route: subscribed to its clusters, to their endpoints and to the route itself.
struct Router {
    call: Call,
    /// The types whose responses it accepts. It never answers the others.
    accepts: &'static [&'static str],
    _connection: Http2,
}

impl Router {
    /// Connects, and takes the first routes.
    async fn start(stage: &Stage, accepts: &'static [&'static str]) -> Result<Self> {
        let connection = stage.http2(READS).await?;
        let clusters = Delta::first("attacker", CDS, ["warm", "innocent"]);
        let mut call = connection.delta(&clusters).await?;
        for (type_url, name) in [(EDS, "warm"), (RDS, "routes")] {
            let ask = Delta { node: None, ..Delta::first("", type_url, [name]) };
            call.send(&ask.encode())?;
        }
        let mut router = Self { call, accepts, _connection: connection };
        router.has_routes().await.context("the first routes")?;
        Ok(router)
    }

    /// Takes responses until one is as wanted, and returns the time at which it came.
    async fn is_sent(&mut self, is_wanted: impl Fn(&[u8]) -> bool) -> Result<Instant> {
        loop {
            let response = self.call.message_within(SOON).await?;
            if self.accepts.contains(&text(&response, 4).as_str()) {
                self.call.send(&Delta::ack(&response).encode())?;
            }
            if is_wanted(&response) {
                return Ok(Instant::now());
            }
        }
    }

    async fn has_routes(&mut self) -> Result<Instant> {
        let is_routes = |response: &[u8]| text(response, 4) == RDS;
        self.is_sent(is_routes).await.context("the routes")
    }

    async fn has_removal(&mut self) -> Result<Instant> {
        let is_removal = |response: &[u8]| {
            fields(response, 6).iter().any(|name| *name == b"warm") && text(response, 4) == CDS
        };
        self.is_sent(is_removal).await.context("the removal")
    }
}

async fn warm_wait(stage: &Stage) -> Result<String> {
    let mut obedient = Router::start(stage, &[CDS, EDS, RDS]).await?;
    let mut silent = Router::start(stage, &[CDS, RDS]).await?;
    let begin = Instant::now();
    stage.write(WARM, warm())?;
    stage.write(ROUTES, routes("warm"))?;
    let (warm, waited) = tokio::try_join!(obedient.has_routes(), silent.has_routes())?;
    let (warm, waited) = (warm - begin, waited - begin);
    stage.came(warm, Duration::ZERO..WAIT).context("the routes of a client with endpoints")?;
    stage.came(waited, WAIT..Duration::from_secs(10)).context("the routes of one without")?;
    stage.serves_others().await?;
    Ok(format!("the routes come after {warm:.1?}, and without endpoints after {waited:.1?}"))
}

async fn removal_wait(stage: &Stage) -> Result<String> {
    let mut obedient = Router::start(stage, &[CDS, EDS, RDS]).await?;
    let mut silent = Router::start(stage, &[CDS, EDS]).await?;
    let begin = Instant::now();
    stage.write(ROUTES, routes("innocent"))?;
    std::fs::remove_file(stage.dir().join(WARM))?;
    let (accepted, waited) = tokio::try_join!(obedient.has_removal(), silent.has_removal())?;
    let (accepted, waited) = (accepted - begin, waited - begin);
    stage.came(accepted, Duration::ZERO..WAIT).context("the removal where routes are accepted")?;
    stage.came(waited, WAIT..Duration::from_secs(20)).context("the removal where they are not")?;
    stage.serves_others().await?;
    Ok(format!("the removal comes after {accepted:.1?}, and {waited:.1?} without an answer"))
}
