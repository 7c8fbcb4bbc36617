//! Servers that say the same twice in a row: first a draft, which may be bad, and at once what they
//! mean. Both have to be answered, whatever the client reads before it writes (C-062).

use std::sync::Arc;

use bytes::Bytes;
use chancery_core::Resource;
use chancery_core::server::{Response, ResponseEntry};

use super::plan::Dangers;
use crate::sim::rng::Rng;

/// The thing that is said before a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Draft {
    /// The same.
    Same,
    /// The same, with a body that has to be rejected.
    Bad,
    /// The same, and a resource that has no name.
    Nameless,
}

impl Draft {
    /// One of them. A heartbeat after a draft that was rejected would not take that back.
    pub(super) fn draw(rng: &mut Rng, dangers: Dangers) -> Self {
        if dangers.ttl { Self::Same } else { *rng.one_of(&[Self::Same, Self::Bad, Self::Nameless]) }
    }

    /// The draft of a response, with a nonce of its own.
    pub(super) fn of(self, response: &Response) -> Response {
        let mut entries = response.entries.iter().collect::<Vec<_>>();
        match self {
            Self::Same => {}
            Self::Bad => entries.iter_mut().take(1).for_each(spoil),
            Self::Nameless => entries.push(nameless()),
        }
        let nonce = format!("{}{MARK}", response.nonce).into();
        let entries = entries.into_iter().collect();
        Response { nonce, entries, ..response.clone() }
    }
}

fn spoil(entry: &mut ResponseEntry) {
    let Some(resource) = &entry.resource else { return };
    let body = [resource.body(), &b" bad"[..]].concat();
    let spoilt = Resource::new(resource.name().clone(), Bytes::from(body));
    entry.resource = Some(Arc::new(spoilt.with_ttl(resource.ttl())));
    entry.heartbeat = false;
}

fn nameless() -> ResponseEntry {
    let (name, aliases) = ("".into(), Vec::new());
    ResponseEntry { name, aliases, resource: None, ttl: false, heartbeat: false }
}

const MARK: &str = "'";
