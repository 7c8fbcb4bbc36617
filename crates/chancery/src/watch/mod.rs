//! `chancery watch`: asks, and prints what becomes of what it asked for until it is told to stop.
//!
//! ```text
//!   a task for each subject: RawWatch --> bounded channel --> Output, one event at a time
//! ```
//!
//! Whoever reads slowly slows the channel, that the tasks, and these the streams. Not here: what is
//! common with `get` ([`crate::ask`]).

mod colour;
mod diff;
mod event;
mod options;
mod output;
mod resume;

use std::time::Duration;

use anyhow::{Context, anyhow};
use chancery_client::{Client, ErrorKind, RawWatch, TypeUrl};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;

use self::event::{Event, What};
pub(crate) use self::options::Watch;
use self::output::{Output, Wrote};
use crate::ask::{self, Plan, plain};
use crate::exit::Failure;

/// Does what the flags say.
pub(crate) fn run(flags: &Watch) -> Result<(), Failure> {
    let plan = Plan::new(&flags.asking)?;
    let runtime = ask::runtime()?;
    let ended = runtime.block_on(watch(flags, &plan));
    runtime.shutdown_background();
    ended
}

async fn watch(flags: &Watch, plan: &Plan) -> Result<(), Failure> {
    let client = plan.client()?;
    let mut output = Output::new(flags.output, plan);
    if let Some(path) = &flags.resume {
        for (type_url, resource) in resume::read(path, &plan.schema)? {
            output.restore(&type_url, &resource);
            client.restore(&type_url, resource);
        }
    }
    let (mut watching, news) = begin(&client, plan);
    let ended = tokio::select! {
        biased;
        stopped = stopped(flags.time.map(|time| time.0)) => stopped,
        ended = print(news, &mut output, flags.count) => ended,
    };
    watching.shutdown().await;
    if plan.rejects() {
        client.close(LAST_WORD).await;
    }
    ended
}

/// A task for each subject.
fn begin(client: &Client, plan: &Plan) -> (JoinSet<()>, Receiver<Event>) {
    let (tell, news) = channel(AHEAD);
    let mut watching = JoinSet::new();
    for subject in &plan.subjects {
        let watch = client.watch_raw(&subject.type_url, &subject.name);
        watching.spawn(listen(watch, subject.type_url.clone(), tell.clone()));
    }
    (watching, news)
}

async fn listen(mut watch: RawWatch, type_url: TypeUrl, tell: Sender<Event>) {
    while let Some(heard) = watch.next().await {
        let Some(event) = Event::of(&type_url, heard) else { continue };
        if tell.send(event).await.is_err() {
            return;
        }
    }
}

/// Prints events until there were enough, or nobody reads them.
async fn print(
    mut news: Receiver<Event>,
    output: &mut Output,
    count: Option<u64>,
) -> Result<(), Failure> {
    let mut printed = 0;
    while let Some(event) = news.recv().await {
        refused(&event)?;
        match output.write(&event)? {
            Wrote::Event => printed += 1,
            Wrote::Nothing => {}
            Wrote::ToNobody => return Ok(()),
        }
        if count.is_some_and(|count| printed >= count) {
            return Ok(());
        }
    }
    Err(Failure::broken(anyhow!("the client came to an end")))
}

/// What cannot be watched will never be.
fn refused(event: &Event) -> Result<(), Failure> {
    match &event.what {
        What::Error(error)
            if matches!(error.kind, ErrorKind::Name | ErrorKind::Authority | ErrorKind::Broken) =>
        {
            Err(Failure::broken(anyhow!("{}", plain(&error.text))))
        }
        _ => Ok(()),
    }
}

/// Waits for the end of the time, if there is one, or to be told to stop.
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

/// How many events may wait to be printed.
const AHEAD: usize = 64;

/// How long servers have to end their streams when the client ends in good order.
const LAST_WORD: Duration = Duration::from_secs(2);
