//! One query of `get`, until it is answered.
//!
//! The protocol does not say when a large answer is complete. If nothing shows its end, the query
//! waits until no new member comes for a while. Not here: the queries and the client (`ask`), all
//! queries together (`get`), and the output (`get::output`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chancery_client::bootstrap::XdsServer;
use chancery_client::options::Variant;
use chancery_client::{Client, Event, RawWatch, TypeUrl, WatchError};
use tokio::time::{Instant, timeout, timeout_at};

use crate::ask::{self, Query, QueryPlan, Row};

/// A resource, or the reason why there is none.
pub(super) type Answer = Result<Row, Trouble>;

/// The reason why a resource did not come.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub(super) text: String,
    /// True if there was no answer; false if the answer is that there is none.
    pub(super) is_failure: bool,
}

/// A query that waits for its answer.
pub(super) struct Question {
    plan: Arc<QueryPlan>,
    client: Client,
    type_url: TypeUrl,
    name: String,
    is_many: bool,
    /// True if one response has all resources.
    is_whole: bool,
    /// True if everything is rejected because the caller wants that.
    rejects: bool,
    asked: Instant,
}

/// The known members of a query that can have more than one.
type Members = BTreeMap<Arc<str>, Answer>;

impl Question {
    pub(super) fn new(query: &Query, plan: &Arc<QueryPlan>, client: &Client) -> Self {
        let full = query.type_url.rules().full_state;
        Self {
            plan: Arc::clone(plan),
            client: client.clone(),
            type_url: query.type_url.clone(),
            name: query.name.clone(),
            is_many: query.is_many(),
            is_whole: plan.variant() == Variant::Sotw && full,
            rejects: plan.rejects(),
            asked: Instant::now(),
        }
    }

    /// Waits for the answer, for no longer than all servers together may take for one. Members come
    /// in the order of their names.
    pub(super) async fn ask(self, mut watch: RawWatch) -> Vec<Answer> {
        let mut found = Members::new();
        let limit = self.plan.limit();
        let end = match timeout(limit, self.find_answers(&mut watch, &mut found)).await {
            Ok(end) => end,
            Err(_) => Some(self.no_answer(self.client.server_of(&self.name), limit)),
        };
        found.into_values().chain(end.map(Err)).collect()
    }

    /// Takes events until the answer is complete, or returns the reason why there is none.
    async fn find_answers(&self, watch: &mut RawWatch, found: &mut Members) -> Option<Trouble> {
        if self.is_many {
            self.find_members(watch, found).await
        } else {
            self.find_named(watch, found).await
        }
    }

    async fn find_named(&self, watch: &mut RawWatch, found: &mut Members) -> Option<Trouble> {
        loop {
            match watch.next().await {
                Some(Event::Changed { name, value }) => {
                    found.insert(Arc::clone(&name), self.answer_of(name, value));
                    return None;
                }
                Some(Event::Failed { error }) => return Some(self.trouble(&error)),
                Some(Event::Ambient { .. } | Event::Complete) => {}
                None => return Some(Trouble::ended()),
            }
        }
    }

    async fn find_members(&self, watch: &mut RawWatch, members: &mut Members) -> Option<Trouble> {
        let mut rejected = None;
        loop {
            match watch.next().await {
                Some(Event::Changed { name, value }) => {
                    let answer = self.answer_of(Arc::clone(&name), value);
                    members.insert(name, answer);
                }
                // The members that can be used come next.
                Some(Event::Ambient { error: Some(error), .. }) if error.is_nameless => {
                    rejected = Some(self.trouble(&error));
                    break;
                }
                // It is unknown which members there are: no server can be reached, or a server or a
                // file reports an error.
                Some(Event::Ambient { name, error: Some(error) })
                    if *name == *self.name || ask::is_failure(error.kind) =>
                {
                    members.clear();
                    return Some(self.trouble(&error));
                }
                Some(Event::Failed { error }) => return Some(self.trouble(&error)),
                Some(Event::Ambient { .. }) => {}
                Some(Event::Complete) => break,
                None => return Some(Trouble::ended()),
            }
        }
        let took = self.asked.elapsed();
        let server = self.client.server_of(&self.name);
        let patience = self.plan.patience(server);
        if members.is_empty() && rejected.is_none() && took >= patience {
            return Some(self.no_answer(server, patience));
        }
        if !self.is_whole || rejected.is_some() {
            let pause = took.clamp(SHORTEST_PAUSE, patience.max(SHORTEST_PAUSE));
            if let Some(failure) = self.rest(watch, members, pause).await {
                return Some(failure);
            }
        }
        rejected
    }

    /// Waits for the rest of a large answer, which may come in several responses, none of which
    /// says that it is the last. The wait ends when no new member has come for as long as the first
    /// response took. Changes of members are no part of the answer, and may never end.
    async fn rest(
        &self,
        watch: &mut RawWatch,
        members: &mut Members,
        pause: Duration,
    ) -> Option<Trouble> {
        let mut until = Instant::now() + pause;
        while let Ok(Some(event)) = timeout_at(until, watch.next()).await {
            let (name, value) = match event {
                Event::Changed { name, value } => (name, value),
                Event::Failed { error } => return Some(self.trouble(&error)),
                Event::Ambient { .. } | Event::Complete => continue,
            };
            if !members.contains_key(&name) {
                until = Instant::now() + pause;
            }
            match value {
                Err(error) if error.is_missing() => members.remove(&name),
                value => members.insert(Arc::clone(&name), self.answer_of(name, value)),
            };
        }
        None
    }

    fn answer_of(
        &self,
        name: Arc<str>,
        value: Result<chancery_client::Received<()>, Arc<WatchError>>,
    ) -> Answer {
        match value {
            Ok(received) => Ok(Row::new(&self.type_url, name, received)),
            Err(error) => Err(self.trouble(&error)),
        }
    }

    /// Returns the error for the output. If it is about a resource without a name, there is no
    /// answer, unless the caller wants everything rejected.
    fn trouble(&self, error: &WatchError) -> Trouble {
        let is_open = error.is_nameless && !self.rejects;
        Trouble { text: error.to_string(), is_failure: is_open || ask::is_failure(error.kind) }
    }

    fn no_answer(&self, server: Option<&XdsServer>, patience: Duration) -> Trouble {
        let (short, node) = (self.type_url.short(), self.plan.node());
        let uri = server.map_or("", |server| &server.uri);
        let text =
            format!("{short}: server {uri} (node `{node}`) gave no answer within {patience:?}");
        Trouble { text, is_failure: true }
    }
}

impl Trouble {
    fn ended() -> Self {
        Self { text: "the client came to an end".to_owned(), is_failure: true }
    }
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
