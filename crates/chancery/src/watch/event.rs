//! The events that are printed, made from the events of a watch.

use std::sync::Arc;
use std::time::Duration;

use chancery_client::watch::ErrorKind;
use chancery_client::{Client, Event, TypeUrl, WatchError};

use crate::ask::{LONGEST_WAIT, Row};

/// An event of a resource, or of a query that can have more than one.
#[derive(Clone, Debug)]
pub(super) struct ResourceEvent {
    pub(super) type_url: TypeUrl,
    pub(super) name: Arc<str>,
    pub(super) kind: EventKind,
    /// The time until the next attempt, if no server can be reached.
    pub(super) wait: Option<Duration>,
}

#[derive(Clone, Debug)]
pub(super) enum EventKind {
    /// The resource has a new value.
    Changed(Row),
    /// The resource exists no more.
    Removed(Arc<WatchError>),
    /// The resource has no value that may be used.
    Error(Arc<WatchError>),
    /// There is an error although the value may be used; `None` says that the error is over.
    Ambient(Option<Arc<WatchError>>),
}

impl ResourceEvent {
    /// Returns the event to print for an event of a watch of this client, if there is one.
    pub(super) fn of(client: &Client, type_url: &TypeUrl, event: Event<()>) -> Option<Self> {
        let type_url = type_url.clone();
        let (name, kind) = match event {
            Event::Changed { name, value: Ok(received) } => {
                let row = Row::new(&type_url, Arc::clone(&name), received);
                (name, EventKind::Changed(row))
            }
            Event::Changed { name, value: Err(error) } if error.is_missing() => {
                (name, EventKind::Removed(error))
            }
            Event::Changed { name, value: Err(error) } => (name, EventKind::Error(error)),
            Event::Ambient { name, error } => (name, EventKind::Ambient(error)),
            // An event of a watch that failed is printed without a name.
            Event::Failed { error } => (Arc::from(""), EventKind::Error(error)),
            Event::Complete => return None,
        };
        let mut printed = Self { type_url, name, kind, wait: None };
        let outage = printed.error().filter(|error| error.kind == ErrorKind::Unreachable);
        let server = outage.and_then(|error| error.server);
        printed.wait = server.and_then(|server| client.next_attempt(server));
        Some(printed)
    }

    /// Returns the word for its kind.
    pub(super) fn word(&self) -> &'static str {
        match self.kind {
            EventKind::Changed(_) => "changed",
            EventKind::Removed(_) => "removed",
            EventKind::Error(_) => "error",
            EventKind::Ambient(_) => "ambient",
        }
    }

    pub(super) fn row(&self) -> Option<&Row> {
        match &self.kind {
            EventKind::Changed(row) => Some(row),
            EventKind::Removed(_) | EventKind::Error(_) | EventKind::Ambient(_) => None,
        }
    }

    pub(super) fn error(&self) -> Option<&WatchError> {
        match &self.kind {
            EventKind::Changed(_) => None,
            EventKind::Removed(error) | EventKind::Error(error) => Some(error),
            EventKind::Ambient(error) => error.as_deref(),
        }
    }

    /// Returns the text of the error, with the time of the next attempt.
    pub(super) fn why(&self) -> Option<String> {
        let text = &self.error()?.text;
        Some(match self.wait {
            Some(wait) => {
                let (wait, longest) = (wait.as_secs_f64(), LONGEST_WAIT);
                format!(
                    "{text}; next attempt in {wait:.1}s, then at most {longest:?} after each failure"
                )
            }
            None => text.to_string(),
        })
    }
}
