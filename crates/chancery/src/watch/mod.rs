//! `chancery watch`: asks, and prints events until a signal stops it.
//!
//! ```text
//!   a task for each query: RawWatch --> bounded channel --> [printer]: Output, one event at a time
//! ```
//!
//! A slow reader slows the channel, which slows the tasks, and these the streams. Nothing else
//! waits for the reader: signals and the end of `--time` have effect while an event cannot be
//! written. Not here: the common part with `get` ([`crate::ask`]).

mod event;
mod options;
mod output;
mod printer;
mod resume;

use std::time::Duration;

use anyhow::Context;
use chancery_client::{Client, RawWatch, TypeUrl};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;

use self::event::ResourceEvent;
pub(crate) use self::options::WatchArgs;
use self::output::Output;
use self::printer::Printer;
use crate::ask::{self, QueryPlan};
use crate::exit::Failure;

/// Runs the command.
pub(crate) fn run(flags: &WatchArgs) -> Result<(), Failure> {
    let plan = QueryPlan::new(&flags.query)?;
    let runtime = ask::runtime()?;
    let ended = runtime.block_on(watch(flags, &plan));
    runtime.shutdown_background();
    ended
}

async fn watch(flags: &WatchArgs, plan: &QueryPlan) -> Result<(), Failure> {
    let client = plan.client()?;
    let mut output = Output::new(flags.output, plan);
    if let Some(path) = &flags.resume {
        for (type_url, resource) in resume::read(path, &plan.schema)? {
            output.restore(&type_url, &resource);
            client.restore(&type_url, resource);
        }
    }
    let (mut watching, events) = start_watches(&client, plan);
    let mut printer = Printer::start(events, output, flags.count);
    let ended = tokio::select! {
        biased;
        stopped = stopped(flags.time.map(|time| time.0)) => {
            printer.stop();
            stopped
        }
        ended = printer.wait_for_outcome() => ended,
        () = printer::deserted() => Ok(()),
    };
    watching.shutdown().await;
    printer.finish().await;
    if plan.rejects() {
        client.close(LAST_WORD).await;
    }
    ended
}

/// Starts a task for each query.
fn start_watches(client: &Client, plan: &QueryPlan) -> (JoinSet<()>, Receiver<ResourceEvent>) {
    let (sender, events) = channel(AHEAD);
    let mut watching = JoinSet::new();
    for query in &plan.queries {
        let watch = client.watch_raw(&query.type_url, &query.name);
        watching.spawn(listen(client.clone(), watch, query.type_url.clone(), sender.clone()));
    }
    (watching, events)
}

async fn listen(
    client: Client,
    mut watch: RawWatch,
    type_url: TypeUrl,
    sender: Sender<ResourceEvent>,
) {
    while let Some(event) = watch.next().await {
        let Some(event) = ResourceEvent::of(&client, &type_url, event) else { continue };
        if sender.send(event).await.is_err() {
            return;
        }
    }
}

/// Waits for the end of the time, if there is one, or for a signal.
async fn stopped(time: Option<Duration>) -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen to signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen to signals")?;
    let over = async {
        match time {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        () = over => Ok(()),
    }
}

/// The number of events that may wait to be printed.
const AHEAD: usize = 64;

/// The time for servers to end their streams when the client is closed.
const LAST_WORD: Duration = Duration::from_secs(2);
