//! `/api/v1/wait`: a long poll for the landing of a load. `docs/status.md` says what landed means.
//!
//! An answer comes when something is decided, or when the time of the request is over, which is short: a
//! client that waits for longer asks again with the number of the load. Nothing is kept between two requests.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chancery_server::{Audiences, StatusBook};
use tokio::time::{Instant, timeout_at};

use super::document::{WaitDocument, WaitOutcome};
use super::landing;
use super::views::Groups;
use crate::admin::Admin;
use crate::admin::api::{self, ApiError, Asked};
use crate::serve::Grouping;

/// A request to wait.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) groups: Vec<String>,
    pub(super) nodes: Vec<String>,
    target: Target,
    pub(super) min_nodes: usize,
    pub(super) limit: usize,
    time: Duration,
}

/// The load that is waited for.
#[derive(Clone, Debug)]
enum Target {
    /// The one that was shown last.
    Last,
    /// The one with this number.
    Number(u64),
    /// The last one with this digest of all resources.
    Hash(String),
    /// The one with this number, if that has this digest. Another process began again with the numbers, and may
    /// have what that load was under another one.
    Pinned { number: u64, hash: String },
    /// The first one after the directory was read again, with the present content of this file.
    File(PathBuf),
}

impl Wanted {
    /// Returns true if what is held back since a load counts, whatever that load is.
    pub(super) fn is_of_present(&self) -> bool {
        matches!(self.target, Target::Last | Target::File(_))
    }

    pub(super) fn of(asked: &Asked) -> Result<Self, ApiError> {
        let mut targets = Vec::new();
        if let Some(revision) = asked.text("revision") {
            let number = revision.parse();
            let number = number.map_err(|_| ApiError::parameter("`revision` is no number"))?;
            targets.push(Target::Number(number));
        }
        targets.extend(asked.text("hash").map(|hash| Target::Hash(hash.to_owned())));
        targets.extend(asked.text("file").map(|file| Target::File(file.into())));
        let target = match (targets.pop(), targets.pop(), targets.pop()) {
            (target, None, _) => target.unwrap_or(Target::Last),
            (Some(Target::Hash(hash)), Some(Target::Number(number)), None) => {
                Target::Pinned { number, hash }
            }
            _ => {
                let odd = "say one of `revision`, `hash` and `file`, or `revision` with its `hash`";
                return Err(ApiError::parameter(odd));
            }
        };
        Ok(Self {
            groups: asked.texts("group").to_vec(),
            nodes: asked.texts("node").to_vec(),
            target,
            min_nodes: api::min_nodes(asked),
            limit: api::limit(asked),
            time: api::wait_time(asked),
        })
    }
}

/// Waits until something is decided, or the time is over.
pub(super) async fn wait(
    admin: &Admin,
    audiences: &Audiences<Grouping>,
    wanted: Wanted,
) -> Result<WaitDocument, ApiError> {
    let book = audiences.store().status();
    check_groups(audiences, &wanted)?;
    let until = Instant::now() + wanted.time;
    if let Target::File(file) = &wanted.target
        && let Some(ended) = reread(admin, file.clone(), until).await?
    {
        return Ok(ended);
    }
    // The load that is the last one now is waited for, also when a newer one comes.
    let mut load = match &wanted.target {
        Target::Number(number) => Some(*number),
        Target::Hash(_) | Target::Pinned { .. } => None,
        Target::Last | Target::File(_) => Some(book.load()),
    };
    let wanted = Arc::new(wanted);
    loop {
        load = load.or_else(|| found(&book, &wanted.target));
        let held = admin.loaded.held_loads(admin.confirmations.gate());
        let (audiences, query) = (audiences.clone(), Arc::clone(&wanted));
        let look = move || landing::look(&audiences, &query, load, &held);
        let (document, mark) = admin.turn.run(look).await?;
        if document.outcome != WaitOutcome::Waiting {
            return Ok(document);
        }
        let changed = async {
            book.changed_since(mark).await;
            tokio::time::sleep(PACE).await;
        };
        if timeout_at(until, changed).await.is_err() {
            return Ok(document);
        }
    }
}

/// Waits until the directory was read again. Returns the end of it all if that is not so in time, or if the
/// file has a fault.
async fn reread(
    admin: &Admin,
    file: PathBuf,
    until: Instant,
) -> Result<Option<WaitDocument>, ApiError> {
    let rereads = &admin.status.rereads;
    let file = rereads.check(file).await?;
    let is_read = timeout_at(until, rereads.reread()).await;
    if is_read.map_or(true, |read| read.is_err()) {
        let why = Some("the server has not read the directory again yet".to_owned());
        return Ok(Some(WaitDocument { why, ..WaitDocument::default() }));
    }
    let fault = admin.loaded.fault_in(file).await?;
    Ok(fault.map(|why| {
        let (outcome, why) = (WaitOutcome::Refused, Some(why));
        WaitDocument { outcome, why, ..WaitDocument::default() }
    }))
}

fn check_groups(audiences: &Audiences<Grouping>, wanted: &Wanted) -> Result<(), ApiError> {
    let groups = Groups::of(audiences);
    wanted.groups.iter().try_for_each(|group| groups.check(group))
}

/// The number of the load with the digest that is waited for.
fn found(book: &StatusBook, target: &Target) -> Option<u64> {
    let (number, hash) = match target {
        Target::Hash(hash) => (None, hash),
        Target::Pinned { number, hash } => (Some(*number), hash),
        _ => return None,
    };
    let loads = book.loads();
    // Of a load before all that are remembered, the digest is not known any more.
    if let Some(number) = number.filter(|it| loads.last().is_some_and(|oldest| *it < oldest.number))
    {
        return Some(number);
    }
    let mut alike = loads
        .iter()
        .filter(|load| load.content.is_some_and(|content| content.to_string() == *hash));
    let same = alike.clone().find(|load| Some(load.number) == number);
    same.or_else(|| alike.next()).map(|load| load.number)
}

/// The time between two looks, at least.
const PACE: Duration = Duration::from_millis(50);
