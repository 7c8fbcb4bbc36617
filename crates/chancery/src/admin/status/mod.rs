//! The states of clients and what they hold: `/api/v1/status`, `nodes/{id}`, `resources`, `loads`, `wait` and
//! `events`.
//!
//! Whatever goes over all streams is worked out in turn, beside the thread that answers probes. Not here:
//! who may ask (`api`), what is known of streams (`chancery_server::StatusBook`), and what commands make of
//! the answers.

mod document;
mod events;
mod landing;
mod not_live;
mod one_node;
mod one_resource;
mod rereads;
mod resource_list;
mod rows;
mod states;
mod summary;
mod views;
mod wait;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use chancery_catalog::Revision;
use chancery_core::TypeUrl;
use chancery_server::{Audiences, StatusBook};
use http::StatusCode;
use http::header::RETRY_AFTER;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use self::document::{
    AwaitedRow, EventKind, EventRow, HeldResource, LoadShown, LoadsDocument, NodeDocument,
    NodeState, NodeStatusRow, RejectionRow, ResourceDocument, ResourceState, ResourcesDocument,
    StatusSummary, StreamRow, TypeRow, WaitDocument, WaitOutcome,
};
pub(crate) use self::events::EventBody;
use self::events::EventRows;
pub(crate) use self::one_resource::UNKNOWN_RESOURCE;
pub(crate) use self::rereads::Rereads;
pub(super) use self::states::States;
use super::api::{self, ApiError, Asked, Turn};
use super::load_status::HeldLoads;
use super::{Admin, Lifetime};
use crate::ask;
use crate::serve::Grouping;

/// The pages about what the clients of a server hold.
pub(crate) struct StatusPages {
    audiences: OnceLock<Audiences<Grouping>>,
    /// The changes of the last loads.
    pub(crate) changes: Arc<Changes>,
    pub(crate) rereads: Rereads,
    events: EventRows,
    readers: Arc<Semaphore>,
    waiters: Arc<Semaphore>,
}

/// The changes of the last loads, in words, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Changes(Mutex<BTreeMap<u64, (String, Vec<String>)>>);

impl Default for StatusPages {
    fn default() -> Self {
        Self {
            audiences: OnceLock::new(),
            changes: Arc::default(),
            rereads: Rereads::default(),
            events: EventRows::default(),
            readers: Arc::new(Semaphore::new(MOST_READERS)),
            waiters: Arc::new(Semaphore::new(MOST_WAITERS)),
        }
    }
}

impl StatusPages {
    /// Tells of the clients of these audiences from now on.
    pub(crate) fn tell_of(&self, audiences: Audiences<Grouping>) {
        self.audiences.set(audiences).ok();
    }

    fn served(&self) -> Result<(Audiences<Grouping>, StatusBook), ApiError> {
        let audiences = self.audiences.get().ok_or_else(ApiError::too_early)?.clone();
        let book = audiences.store().status();
        Ok((audiences, book))
    }

    /// The work that makes the summary that is asked for.
    pub(super) fn summary(
        &self,
        held: &HeldLoads,
        asked: &Asked,
    ) -> Result<impl FnOnce() -> Result<StatusSummary, ApiError> + Send + use<>, ApiError> {
        let ((audiences, book), changes) = (self.served()?, Arc::clone(&self.changes));
        let held = held.clone();
        let group = asked.text("group").map(str::to_owned);
        let state = asked.text("state").and_then(NodeState::read);
        let wanted = summary::Wanted { group, state, limit: api::limit(asked) };
        Ok(move || Ok(summary::summary(&audiences, &book, (&changes, &held), &wanted)))
    }

    /// The work that makes the page of loads that is asked for.
    pub(super) fn loads(
        &self,
        asked: &Asked,
    ) -> Result<impl FnOnce() -> Result<LoadsDocument, ApiError> + Send + use<>, ApiError> {
        let ((_, book), changes, limit) =
            (self.served()?, Arc::clone(&self.changes), api::limit(asked));
        let after = asked.text("after").map(str::parse::<u64>).transpose();
        let after = after.map_err(|_| ApiError::parameter("`after` is no `next` of a page"))?;
        Ok(move || {
            let all = book.loads();
            let rest = all.iter().filter(|load| after.is_none_or(|after| load.number < after));
            let rest: Vec<_> = rest.collect();
            let page = &rest[..limit.min(rest.len())];
            let next = page.last().filter(|_| page.len() < rest.len());
            Ok(LoadsDocument {
                count: all.len(),
                loads: page.iter().map(|load| summary::shown(load, &changes)).collect(),
                next: next.map(|load| load.number.to_string()),
            })
        })
    }

    /// The work that makes the document of a node, once its streams were asked.
    pub(super) async fn node(
        &self,
        turn: &Turn,
        held: HeldLoads,
        asked: &Asked,
    ) -> Result<impl FnOnce() -> Result<NodeDocument, ApiError> + Send + use<>, ApiError> {
        let ((audiences, book), wanted) = (self.served()?, one_node::Wanted::of(asked)?);
        let events = self.events.clone();
        let (found, id) = (book.clone(), wanted.id.clone());
        let find = move || {
            let fleet = found.fleet_of(&id);
            let streams = one_node::streams(&fleet);
            (fleet, streams)
        };
        let (fleet, streams) = turn.run(find).await?;
        let looks = book.look(streams, wanted.query, LOOK_TIME).await;
        Ok(move || {
            let mut node =
                one_node::document(&audiences, &book, (&fleet, looks), &wanted.id, &events)?;
            let groups = views::Groups::of(&audiences);
            let not_live = not_live::NotLive::new(&held, &groups);
            node.not_live = not_live.of_node(&wanted.id, node.node.group.as_deref());
            Ok(node)
        })
    }

    /// The work that makes the page of resources that is asked for.
    pub(super) fn resources(
        &self,
        asked: &Asked,
    ) -> Result<impl FnOnce() -> Result<ResourcesDocument, ApiError> + Send + use<>, ApiError> {
        let ((audiences, book), wanted) = (self.served()?, resource_list::Wanted::of(asked)?);
        Ok(move || resource_list::page(&audiences, &book, &wanted))
    }

    /// The work that makes the document of a resource, once the streams were asked.
    pub(super) async fn resource(
        &self,
        turn: &Turn,
        asked: &Asked,
    ) -> Result<impl FnOnce() -> Result<ResourceDocument, ApiError> + Send + use<>, ApiError> {
        let ((audiences, book), wanted) = (self.served()?, one_resource::Wanted::of(asked)?);
        let (found, query, wanted) = (book.clone(), wanted.query(), Arc::new(wanted));
        let asked = Arc::clone(&wanted);
        let find = move || {
            let fleet = found.fleet();
            let of_it = fleet.streams.iter().filter(|stream| asked.is_of(stream));
            let streams: Vec<u64> = of_it.map(|stream| stream.id).collect();
            (fleet, streams)
        };
        let (fleet, streams) = turn.run(find).await?;
        let looks = book.look(streams, query, LOOK_TIME).await;
        Ok(move || one_resource::document(audiences.catalog(), &book, (&fleet, looks), &wanted))
    }

    /// Waits for a landing.
    pub(super) async fn wait(admin: &Admin, asked: &Asked) -> Result<WaitDocument, ApiError> {
        let (audiences, _) = admin.status.served()?;
        let _place = place(&admin.status.waiters, "others wait already")?;
        wait::wait(admin, &audiences, wait::Wanted::of(asked)?).await
    }

    /// The events that a request asks for.
    pub(super) fn events(
        &self,
        asked: &Asked,
        last_seen: Option<&str>,
        lifetime: Arc<Lifetime>,
    ) -> Result<EventBody, ApiError> {
        let (_, book) = self.served()?;
        let wanted = self.events.wanted(&book, asked, last_seen)?;
        let place = place(&self.readers, "others read events already")?;
        Ok(EventBody::new(book, self.events.clone(), wanted, lifetime, place))
    }
}

/// A place among those who keep a connection for long.
fn place(places: &Arc<Semaphore>, others: &str) -> Result<OwnedSemaphorePermit, ApiError> {
    Arc::clone(places).try_acquire_owned().map_err(|_| {
        let error =
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, BUSY, format!("too many {others}"));
        error.header(RETRY_AFTER, http::HeaderValue::from_static("1"))
    })
}

/// The type with a short name or a URL.
fn type_of(text: &str) -> Result<TypeUrl, ApiError> {
    ask::type_of(text).map_err(ApiError::parameter)
}

impl Changes {
    /// Takes note of what a revision changed.
    pub(crate) fn note(&self, revision: &Revision) {
        let changed = revision.edits.iter().filter(|edit| !edit.is_empty()).take(MOST_EDITS);
        let changed = changed.map(|edit| rows::shown(edit.to_string())).collect();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(revision.number, (rows::shown(revision.author.to_string()), changed));
        while all.len() > MOST_CHANGES {
            all.pop_first();
        }
    }

    fn of(&self, number: u64) -> (Option<String>, Vec<String>) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.get(&number).cloned();
        found.map_or_else(Default::default, |(author, changed)| (Some(author), changed))
    }
}

/// The code where others take all the places there are.
pub(crate) const BUSY: &str = "busy";

/// The number of those who read events at the same time.
const MOST_READERS: usize = 16;

/// The number of those who wait at the same time.
const MOST_WAITERS: usize = 32;

/// The time that streams have to answer.
const LOOK_TIME: Duration = Duration::from_secs(2);

/// The number of loads whose changes are remembered, as many as loads are.
const MOST_CHANGES: usize = 100;

/// The number of layers that are named of what a load changed.
const MOST_EDITS: usize = 20;
