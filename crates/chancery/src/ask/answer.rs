//! One query, until it is answered.
//!
//! The protocol does not say when a large answer is complete. Chancery does, by the versions of its
//! responses, and the client waits for the last one. Of other servers the query waits until no new
//! member comes for a while. Not here: the queries and the client (`ask`), and what is made of the
//! answers (`get`, `diff`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use chancery_client::bootstrap::XdsServer;
use chancery_client::options::Variant;
use chancery_client::watch::ErrorKind;
use chancery_client::{Client, Event, RawWatch, TypeUrl, WatchError};
use chancery_core::ErrorDetail;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::{Query, QueryPlan, Row, is_failure};
use crate::exit::Failure;

/// A resource, or the reason why there is none.
pub(crate) type Answer = Result<Row, Trouble>;

/// The reason why a resource did not come.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) text: String,
    /// True if there was no answer; false if the answer is that there is none.
    pub(crate) is_failure: bool,
    /// True if the server does not give the resource, or the type, to this client.
    pub(crate) is_denied: bool,
}

/// A query that waits for its answer.
struct Question {
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

/// Returns the answers to each of these queries, in their order, and of names where one has many.
pub(crate) async fn answers(
    plan: &Arc<QueryPlan>,
    client: &Client,
    queries: &[Query],
) -> Result<Vec<Vec<Answer>>, Failure> {
    let mut questions = JoinSet::new();
    for (place, query) in queries.iter().enumerate() {
        let watch = client.watch_raw(&query.type_url, &query.name);
        let question = Question::new(query, plan, client);
        questions.spawn(async move { (place, question.ask(watch).await) });
    }
    let mut answers: Vec<Vec<Answer>> = vec![Vec::new(); queries.len()];
    while let Some(done) = questions.join_next().await {
        let (place, found) = done.map_err(|error| Failure::broken(anyhow!(error)))?;
        answers[place] = found;
    }
    Ok(answers)
}

/// The known members of a query that can have more than one.
type Members = BTreeMap<Arc<str>, Answer>;

impl Question {
    fn new(query: &Query, plan: &Arc<QueryPlan>, client: &Client) -> Self {
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
    async fn ask(self, mut watch: RawWatch) -> Vec<Answer> {
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
                    if *name == *self.name || is_failure(error.kind) =>
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
    /// response took, and for as long as a busy server may need for the next one. Changes of members
    /// are no part of the answer, and may never end.
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
        let is_denied = error.kind == ErrorKind::Refused(ErrorDetail::PERMISSION_DENIED)
            // Of a stream that ended, only the text has the code.
            || (error.kind == ErrorKind::Unreachable && error.text.contains("PERMISSION_DENIED"));
        let is_failure = is_open || is_failure(error.kind);
        Trouble { text: error.to_string(), is_failure, is_denied }
    }

    fn no_answer(&self, server: Option<&XdsServer>, patience: Duration) -> Trouble {
        let (short, node) = (self.type_url.short(), self.plan.node());
        let uri = server.map_or("", |server| &server.uri);
        let text =
            format!("{short}: server {uri} (node `{node}`) gave no answer within {patience:?}");
        Trouble { text, is_failure: true, is_denied: false }
    }
}

impl Trouble {
    fn ended() -> Self {
        let text = "the client came to an end".to_owned();
        Self { text, is_failure: true, is_denied: false }
    }
}

/// The shortest wait for another response of a server that does not say which one is its last.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
