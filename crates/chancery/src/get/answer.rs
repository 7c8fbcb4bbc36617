//! One question: when it has been answered, and with what.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chancery_client::{Event, RawWatch, TypeUrl, Variant, WatchError};
use tokio::time::{Instant, timeout};

use crate::ask::{self, Plan, Row, Subject};

/// A resource, or why there is none.
pub(super) type Answer = Result<Row, Trouble>;

/// Why something did not come.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub(super) text: String,
    /// Whether it could not be found out.
    pub(super) is_failure: bool,
}

/// What is waited for.
pub(super) struct Question {
    type_url: TypeUrl,
    name: String,
    is_group: bool,
    /// Whether one response tells all.
    is_whole: bool,
    /// Whether everything is rejected because the caller wants that.
    rejects: bool,
    asked: Instant,
    patience: Duration,
}

/// What is known of a group.
type Members = BTreeMap<Arc<str>, Answer>;

impl Question {
    pub(super) fn new(subject: &Subject, plan: &Plan) -> Self {
        let full = subject.type_url.rules().full_state;
        Self {
            type_url: subject.type_url.clone(),
            name: subject.name.clone(),
            is_group: subject.is_group(),
            is_whole: plan.variant() == Variant::Sotw && full,
            rejects: plan.rejects(),
            asked: Instant::now(),
            patience: plan.limit(),
        }
    }

    /// Waits for the answer. A group is told in the order of its names.
    pub(super) async fn ask(self, watch: RawWatch) -> Vec<Answer> {
        if self.is_group { self.group(watch).await } else { vec![self.one(watch).await] }
    }

    async fn one(self, mut watch: RawWatch) -> Answer {
        loop {
            match watch.next().await {
                Some(Event::Changed { name, value }) => return self.answer(name, value),
                Some(Event::Ambient { .. } | Event::Settled) => {}
                None => return Err(Trouble::ended()),
            }
        }
    }

    async fn group(self, mut watch: RawWatch) -> Vec<Answer> {
        let mut members = Members::new();
        let mut rejected = None;
        loop {
            match watch.next().await {
                Some(Event::Changed { name, value }) => {
                    // Nothing can be asked for under this name.
                    let refused = value.as_ref().err().filter(|_| name.is_empty());
                    if let Some(error) = refused {
                        return vec![Err(self.trouble(error))];
                    }
                    let answer = self.answer(Arc::clone(&name), value);
                    members.insert(name, answer);
                }
                // What else there is is told next.
                Some(Event::Ambient { error: Some(error), .. }) if error.is_nameless => {
                    rejected = Some(Err(self.trouble(&error)));
                    break;
                }
                // Nobody says what there is: nobody can, or the server, or a file, has a reason.
                Some(Event::Ambient { name, error: Some(error) })
                    if *name == *self.name || ask::is_failure(error.kind) =>
                {
                    return vec![Err(self.trouble(&error))];
                }
                Some(Event::Ambient { .. }) => {}
                Some(Event::Settled) => break,
                None => return vec![Err(Trouble::ended())],
            }
        }
        let took = self.asked.elapsed();
        if members.is_empty() && rejected.is_none() && took >= self.patience {
            return vec![Err(self.silence())];
        }
        if !self.is_whole || rejected.is_some() {
            self.rest(&mut watch, &mut members, took).await;
        }
        members.into_values().chain(rejected).collect()
    }

    /// A large answer may come in several responses, and none says that it is the last. What has
    /// not begun to come in the time that the first one took will not come.
    async fn rest(&self, watch: &mut RawWatch, members: &mut Members, took: Duration) {
        let pause = took.clamp(SHORTEST_PAUSE, self.patience.max(SHORTEST_PAUSE));
        while let Ok(Some(event)) = timeout(pause, watch.next()).await {
            let Event::Changed { name, value } = event else { continue };
            match value {
                Err(error) if error.is_missing() => members.remove(&name),
                value => members.insert(Arc::clone(&name), self.answer(name, value)),
            };
        }
    }

    fn answer(
        &self,
        name: Arc<str>,
        value: Result<chancery_client::Received<()>, Arc<WatchError>>,
    ) -> Answer {
        match value {
            Ok(came) => Ok(Row::new(&self.type_url, name, came)),
            Err(error) => Err(self.trouble(&error)),
        }
    }

    /// A resource that nobody can name leaves the question open.
    fn trouble(&self, error: &WatchError) -> Trouble {
        let is_open = error.is_nameless && !self.rejects;
        Trouble { text: error.to_string(), is_failure: is_open || ask::is_failure(error.kind) }
    }

    fn silence(&self) -> Trouble {
        let (short, patience) = (self.type_url.short(), self.patience);
        let text = format!("{short}: the server gave no answer within {patience:?}");
        Trouble { text, is_failure: true }
    }
}

impl Trouble {
    fn ended() -> Self {
        Self { text: "the client came to an end".to_owned(), is_failure: true }
    }
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
