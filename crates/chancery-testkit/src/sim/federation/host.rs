//! A server of the simulated federation: what it has, whether it can be reached, and how it
//! behaves.
//!
//! Bodies say what they are, `cds x1 3 s0`: type, name, a revision, and whose they are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::client::{AuthorityKey, ServerId};
use chancery_core::{Resource, ResourceName, Snapshot, TypeUrl};

use super::plan::{self, Dangers, NAMES, TYPES};
use crate::sim::rng::Rng;

/// One server.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) id: ServerId,
    pub(super) mood: Mood,
    pub(super) snapshot: Arc<Snapshot>,
    content: BTreeMap<(&'static str, String), Content>,
}

/// The behaviour of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// As it should.
    Up,
    /// Nobody can connect.
    Down,
    /// It takes streams, and neither reads nor writes.
    Mute,
    /// It takes streams and ends them at once.
    Curt,
    /// It ends each stream after its first response.
    Hasty,
}

/// The resource that is published under one name.
#[derive(Clone, Debug)]
struct Content {
    revision: u64,
    bad: bool,
    ttl: bool,
}

/// The time to live of what has one.
const TTL: Duration = Duration::from_secs(30);

impl Host {
    pub(super) fn new(id: ServerId) -> Self {
        Self { id, mood: Mood::Up, snapshot: Arc::default(), content: BTreeMap::new() }
    }

    /// Sets or takes away one name. What happened, for people.
    pub(super) fn edit(&mut self, rng: &mut Rng, dangers: Dangers) -> String {
        let key = draw(rng);
        let line = if rng.chance(30) {
            self.content.remove(&key);
            format!("-{}", key.1)
        } else {
            let content = Content {
                revision: rng.below(5),
                bad: dangers.bad && rng.chance(15),
                ttl: dangers.ttl && rng.chance(40),
            };
            let line = format!("{} {} {content:?}", key.0, key.1);
            self.content.insert(key, content);
            line
        };
        self.publish(dangers);
        format!("s{} {line}", self.id.index())
    }

    /// Something that it has goes to another server.
    pub(super) fn hand_over(&mut self, rng: &mut Rng, to: &mut Self, dangers: Dangers) -> String {
        let key = draw(rng);
        let Some(content) = self.content.remove(&key) else { return "nothing".to_owned() };
        let line = format!("{} {} s{} to s{}", key.0, key.1, self.id.index(), to.id.index());
        to.content.insert(key, content);
        self.publish(dangers);
        to.publish(dangers);
        line
    }

    /// Returns true if this name has a body that can be used; `None` if it has none.
    pub(super) fn usable_body(&self, type_url: &TypeUrl, name: &str) -> Option<Result<Bytes, ()>> {
        let found = self.snapshot.set(type_url).get(name)?;
        Some(if is_bad(found.body()) { Err(()) } else { Ok(found.body().clone()) })
    }

    fn publish(&mut self, dangers: Dangers) {
        let mut snapshot = Snapshot::clone(&self.snapshot);
        let all = self.content.iter().map(|((short, name), content)| {
            let resource = content.resource(short, name, self.id, dangers.alike);
            (plan::type_url(short), Arc::new(resource))
        });
        snapshot.replace(all);
        self.snapshot = Arc::new(snapshot);
    }
}

/// Returns true if a body is rejected.
pub(super) fn is_bad(body: &Bytes) -> bool {
    body.ends_with(b" bad")
}

fn draw(rng: &mut Rng) -> (&'static str, String) {
    let short = *rng.one_of(&TYPES);
    let authority = match rng.below(4) {
        0 | 1 => AuthorityKey::Old,
        2 => AuthorityKey::Named("a".into()),
        _ => AuthorityKey::Named("b".into()),
    };
    (short, plan::name(&authority, &plan::type_url(short), rng.below(NAMES)))
}

impl Content {
    fn resource(&self, short: &str, name: &str, server: ServerId, alike: bool) -> Resource {
        let whose = if alike { String::new() } else { format!(" s{}", server.index()) };
        let bad = if self.bad { " bad" } else { "" };
        let body = format!("{short} {name} {}{whose}{bad}", self.revision);
        let name = ResourceName::parse(name).expect("names of the plan are well formed");
        Resource::new(name, Bytes::from(body)).with_ttl(self.ttl.then_some(TTL))
    }
}
