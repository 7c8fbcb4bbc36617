//! What is told of a resource: four kinds of events, made of what a watch hears.

use std::sync::Arc;
use std::time::Duration;

use chancery_client::{Client, ErrorKind, Event as Heard, TypeUrl, WatchError};

use crate::ask::{LONGEST_WAIT, Row};

/// Something that became of a resource, or of a group of them.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) type_url: TypeUrl,
    pub(super) name: Arc<str>,
    pub(super) what: What,
    /// If no server can be reached: how long it is until the next attempt.
    pub(super) wait: Option<Duration>,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    /// There is a value, and it is new.
    Changed(Row),
    /// There is none any more.
    Removed(Arc<WatchError>),
    /// There is none that may be used.
    Error(Arc<WatchError>),
    /// Something is wrong although the value may be used; `None` says that it is over.
    Ambient(Option<Arc<WatchError>>),
}

impl Event {
    /// Returns an event that a watch of this client heard, if it is to be told.
    pub(super) fn of(client: &Client, type_url: &TypeUrl, heard: Heard<()>) -> Option<Self> {
        let type_url = type_url.clone();
        let (name, what) = match heard {
            Heard::Changed { name, value: Ok(came) } => {
                let row = Row::new(&type_url, Arc::clone(&name), came);
                (name, What::Changed(row))
            }
            Heard::Changed { name, value: Err(error) } if error.is_missing() => {
                (name, What::Removed(error))
            }
            Heard::Changed { name, value: Err(error) } => (name, What::Error(error)),
            Heard::Ambient { name, error } => (name, What::Ambient(error)),
            // What is printed of a watch that failed has no name.
            Heard::Failed { error } => (Arc::from(""), What::Error(error)),
            Heard::Complete => return None,
        };
        let mut event = Self { type_url, name, what, wait: None };
        let outage = event.error().filter(|error| error.kind == ErrorKind::Unreachable);
        let server = outage.and_then(|error| error.server);
        event.wait = server.and_then(|server| client.next_attempt(server));
        Some(event)
    }

    /// The word for it.
    pub(super) fn word(&self) -> &'static str {
        match self.what {
            What::Changed(_) => "changed",
            What::Removed(_) => "removed",
            What::Error(_) => "error",
            What::Ambient(_) => "ambient",
        }
    }

    pub(super) fn row(&self) -> Option<&Row> {
        match &self.what {
            What::Changed(row) => Some(row),
            What::Removed(_) | What::Error(_) | What::Ambient(_) => None,
        }
    }

    pub(super) fn error(&self) -> Option<&WatchError> {
        match &self.what {
            What::Changed(_) => None,
            What::Removed(error) | What::Error(error) => Some(error),
            What::Ambient(error) => error.as_deref(),
        }
    }

    /// Returns the error, and when that may change.
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
