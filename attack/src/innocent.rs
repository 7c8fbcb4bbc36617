//! Innocent clients beside an attack, which count how long each of their questions waits.
//!
//! They have a thread and a runtime of their own, so that they do not wait for the attacker's work.
//! An innocent client that is refused asks again, and its wait goes on.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::setup::{EDITED, INNOCENT as CLUSTER, cluster};
use crate::wire::grpc::{Call, Http2, READS};
use crate::wire::http1::exchange;
use crate::wire::message::{Delta, Sotw, fields};
use crate::wire::tls::connect;
use crate::wire::{CDS, INNOCENT};

/// The time after which a question counts as unanswered.
pub(crate) const UNANSWERED: Duration = Duration::from_secs(15);

/// The pauses after an answer, and after a refusal.
const PAUSE: Duration = Duration::from_millis(20);
const AGAIN: Duration = Duration::from_millis(50);

/// The waits of one kind of question.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    /// The time of each answer, and the wait for it.
    answers: Vec<(Instant, Duration)>,
    /// The questions that had no answer in time.
    pub(crate) unanswered: usize,
    /// The refusals, after each of which the client asked again.
    pub(crate) refused: usize,
    pub(crate) refusal: String,
}

impl Waits {
    pub(crate) fn count(&self) -> usize {
        self.answers.len()
    }

    /// Adds other waits to these.
    pub(crate) fn add(&mut self, other: &Self) {
        self.answers.extend(&other.answers);
    }

    /// Returns true if there was an answer in this time.
    pub(crate) fn is_answered(&self, from: Instant, to: Instant) -> bool {
        self.answers.iter().any(|(at, _)| from <= *at && *at <= to)
    }

    pub(crate) fn longest(&self) -> Duration {
        self.answers.iter().map(|(_, wait)| *wait).max().unwrap_or_default()
    }

    /// The wait that this part of the questions did not exceed.
    pub(crate) fn percentile(&self, part: f64) -> Duration {
        let mut sorted: Vec<_> = self.answers.iter().map(|(_, wait)| *wait).collect();
        sorted.sort();
        let at = (sorted.len() as f64 * part) as usize;
        sorted.get(at).or_else(|| sorted.last()).copied().unwrap_or_default()
    }
}

/// The addresses that innocent clients know.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) xds: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) dir: PathBuf,
    pub(crate) asks_large: bool,
    pub(crate) edits: bool,
    /// The way over TLS, if the server speaks nothing else.
    pub(crate) tls: Option<TlsConnector>,
}

impl Known {
    async fn connect(&self) -> Result<Http2> {
        match &self.tls {
            Some(tls) => Http2::over(connect(tls, INNOCENT, self.xds).await?, READS).await,
            None => Http2::connect(INNOCENT, self.xds, READS).await,
        }
    }
}

/// The time at which each kind of question was asked that was answered last.
#[derive(Debug, Default)]
pub(crate) struct Served(Mutex<BTreeMap<&'static str, Instant>>);

impl Served {
    fn answered(&self, kind: &'static str, asked: Instant) {
        if let Ok(mut kinds) = self.0.lock() {
            kinds.insert(kind, asked);
        }
    }

    /// Returns true if each kind had an answer to a question that was asked after that.
    pub(crate) fn all_since(&self, from: Instant) -> bool {
        self.0.lock().is_ok_and(|kinds| kinds.values().all(|asked| *asked >= from))
    }
}

/// The innocent clients.
pub(crate) struct Innocents {
    attack: Arc<Progress>,
    thread: Option<JoinHandle<Result<BTreeMap<&'static str, Waits>>>>,
}

impl Drop for Innocents {
    fn drop(&mut self) {
        self.attack.is_over.store(true, Ordering::Relaxed);
        self.attack.is_lost.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Their waits are of no interest to whoever drops them.
            thread.join().ok();
        }
    }
}

impl Innocents {
    /// Starts them, and returns when each has asked its first question, so that what the server
    /// keeps for them is not counted as growth.
    pub(crate) fn start(known: Known, served: Arc<Served>) -> Result<Self> {
        let (asked, first) = sync_channel(KINDS);
        let attack = Arc::new(Progress::default());
        let until = Arc::clone(&attack);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok(runtime.block_on(ask_all(known, &until, &served, &asked)))
        });
        let innocents = Self { attack, thread: Some(thread) };
        for _ in 0..KINDS {
            let asked = first.recv_timeout(2 * UNANSWERED);
            asked.context("an innocent client has not asked its first question")?;
        }
        Ok(innocents)
    }

    /// Has each ask once more, after the attack, and collects their waits. They ask nothing more if
    /// there is no server any more.
    pub(crate) fn stop(mut self, is_gone: bool) -> Result<BTreeMap<&'static str, Waits>> {
        self.attack.is_over.store(true, Ordering::Relaxed);
        self.attack.is_lost.store(is_gone, Ordering::Relaxed);
        let thread = self.thread.take().context("they are stopped once")?;
        thread.join().map_err(|_| anyhow!("an innocent client panicked"))?
    }
}

/// The state of the attack, as innocent clients see it.
#[derive(Debug, Default)]
struct Progress {
    is_over: AtomicBool,
    /// True if there is no server any more.
    is_lost: AtomicBool,
}

/// The number of kinds of questions.
const KINDS: usize = 5;

async fn ask_all(
    known: Known,
    attack: &Progress,
    served: &Served,
    asked: &SyncSender<()>,
) -> BTreeMap<&'static str, Waits> {
    let until = |kind| Until { kind, attack, served, asked };
    let (fresh, open, large, edit, probe) = tokio::join!(
        ask(until("fresh"), PAUSE, || fresh(&known)),
        opened(&known, until("open")),
        async {
            if known.asks_large {
                return ask(until("large"), PAUSE, || all(&known)).await;
            }
            until("large").has_asked();
            Waits::default()
        },
        async {
            if known.edits {
                return edits(&known, until("edit")).await;
            }
            until("edit").has_asked();
            Waits::default()
        },
        ask(until("probe"), PAUSE, || probe(&known)),
    );
    let all =
        [("fresh", fresh), ("open", open), ("large", large), ("edit", edit), ("probe", probe)];
    all.into_iter().filter(|(_, waits)| waits.count() > 0).collect()
}

/// The state that a client looks at between its questions.
#[derive(Clone, Copy)]
struct Until<'a> {
    kind: &'static str,
    served: &'a Served,
    attack: &'a Progress,
    asked: &'a SyncSender<()>,
}

impl Until<'_> {
    fn is_over(self) -> bool {
        self.attack.is_over.load(Ordering::Relaxed)
    }

    fn is_lost(self) -> bool {
        self.attack.is_lost.load(Ordering::Relaxed)
    }

    /// Says that a client has asked its first question. Nobody waits for what it says later.
    fn has_asked(self) {
        let _ = self.asked.try_send(());
    }
}

/// Asks a question until the attack is over, and once more.
async fn ask<F: Future<Output = Result<()>>>(
    until: Until<'_>,
    pause: Duration,
    mut question: impl FnMut() -> F,
) -> Waits {
    let mut waits = Waits::default();
    loop {
        let is_last = until.is_over();
        let begin = Instant::now();
        while begin.elapsed() < UNANSWERED && !until.is_lost() {
            let left = UNANSWERED.saturating_sub(begin.elapsed());
            match timeout(left, question()).await {
                Ok(Ok(())) => {
                    until.served.answered(until.kind, begin);
                    break;
                }
                Ok(Err(refusal)) => {
                    waits.refused += 1;
                    waits.refusal = format!("{refusal:#}");
                    sleep(AGAIN).await;
                }
                Err(_) => {}
            }
        }
        waits.unanswered += usize::from(begin.elapsed() >= UNANSWERED);
        waits.answers.push((Instant::now(), begin.elapsed()));
        if waits.count() == 1 {
            until.has_asked();
        }
        if is_last || waits.unanswered > MOST_UNANSWERED {
            return waits;
        }
        sleep(pause).await;
    }
}

/// The number of unanswered questions after which a client gives up.
const MOST_UNANSWERED: usize = 2;

/// A new connection, and a cluster by its name.
async fn fresh(known: &Known) -> Result<()> {
    let connection = known.connect().await?;
    one_cluster(&connection).await
}

async fn one_cluster(connection: &Http2) -> Result<()> {
    let request = Sotw::first("innocent", CDS, [CLUSTER]);
    let mut call = connection.sotw(&request).await?;
    let response = call.message().await?;
    ensure!(fields(&response, 2).len() == 1, "a response without the cluster");
    call.send(&request.answer(&response, None).encode())
}

/// A new stream on a connection that stays open.
async fn opened(known: &Known, until: Until<'_>) -> Waits {
    let connection = tokio::sync::Mutex::new(None);
    let question = || async {
        let mut connection = connection.lock().await;
        if connection.is_none() {
            *connection = Some(known.connect().await?);
        }
        let outcome = match &*connection {
            Some(open) => one_cluster(open).await,
            None => Ok(()),
        };
        if outcome.is_err() {
            *connection = None;
        }
        outcome
    };
    ask(until, PAUSE, question).await
}

/// All clusters, on a new connection.
async fn all(known: &Known) -> Result<()> {
    let connection = known.connect().await?;
    let mut call = connection.sotw(&Sotw::first("innocent", CDS, [""; 0])).await?;
    call.message().await.map(drop)
}

/// The answer to a probe of readiness.
async fn probe(known: &Known) -> Result<()> {
    let answer = exchange(INNOCENT, known.admin, "GET /ready", &[], "", UNANSWERED).await?;
    ensure!(answer.status == 200, "not ready: {}", answer.body);
    Ok(())
}

/// An edit of a file, until a client that is subscribed has it. A wait has the time in it for which
/// a directory must be quiet.
async fn edits(known: &Known, until: Until<'_>) -> Waits {
    let subscriber = tokio::sync::Mutex::new(Subscriber::default());
    let question = || async {
        let mut subscriber = subscriber.lock().await;
        let outcome = subscriber.edit(known).await;
        if outcome.is_err() {
            subscriber.call = None;
        }
        outcome
    };
    ask(until, 10 * PAUSE, question).await
}

/// A client that is subscribed to the cluster that is edited.
#[derive(Default)]
struct Subscriber {
    call: Option<(Http2, Call)>,
    edits: u64,
}

impl Subscriber {
    async fn edit(&mut self, known: &Known) -> Result<()> {
        if self.call.is_none() {
            let connection = known.connect().await?;
            let mut call = connection.delta(&Delta::first("innocent", CDS, ["edited"])).await?;
            answered(&mut call).await?;
            self.call = Some((connection, call));
        }
        self.edits += 1;
        let beside = known.dir.join("edited.tmp");
        let at = self.edits;
        fs::write(&beside, cluster("edited", 2 + at % 1000, 0))?;
        fs::rename(&beside, known.dir.join(EDITED))?;
        let Some((_, call)) = &mut self.call else { return Ok(()) };
        answered(call).await
    }
}

/// Takes the next response and accepts it.
async fn answered(call: &mut Call) -> Result<()> {
    let response = call.message().await?;
    call.send(&Delta::ack(&response).encode())
}
