//! The watchers of a simulated client, and what each of them believes after all it was told.
//!
//! An event that repeats what a prompt watcher knows, or that cannot follow what was told before,
//! is a fault. Not here: the rules that involve servers (`referee`), and what must be believed in
//! the end (`verdict`).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::client::{AuthorityKey, ErrorKind, ServerId, WatchEvent, WatchId};
use chancery_core::{Time, TypeUrl};

/// One watch.
#[derive(Debug)]
pub(super) struct SimulatedWatch {
    pub(super) id: WatchId,
    pub(super) authority: AuthorityKey,
    pub(super) type_url: TypeUrl,
    pub(super) name: String,
    pub(super) since: Time,
    /// The time from which on it reads what it is told.
    pub(super) reads_from: Time,
    /// True if there is something to read.
    pub(super) ready: bool,
    pub(super) view: View,
}

/// The beliefs of a watcher.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) resources: BTreeMap<Arc<str>, BelievedResource>,
    pub(super) settled: bool,
    /// True if it was told anything.
    pub(super) heard: bool,
}

/// Its beliefs about one name.
#[derive(Clone, Debug, Default)]
pub(super) struct BelievedResource {
    pub(super) value: Option<(Bytes, ServerId)>,
    pub(super) error: Option<ErrorKind>,
}

impl SimulatedWatch {
    pub(super) fn is_group(&self) -> bool {
        self.name.ends_with('*')
    }

    /// Returns true if a resource of this name has to be told: who watches everything may hear of
    /// names under authorities, and need not.
    pub(super) fn must_hear_of(&self, name: &str) -> bool {
        self.covers(name) && (self.name != "*" || !name.starts_with("xdstp:"))
    }

    /// Returns true if a resource of this name is what is watched, or in it.
    pub(super) fn covers(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == self.name,
        }
    }

    /// Returns its beliefs about what it watches itself.
    pub(super) fn own(&self) -> BelievedResource {
        self.view.resources.get(self.name.as_str()).cloned().unwrap_or_default()
    }

    /// A line for people.
    pub(super) fn label(&self) -> String {
        format!("{} {}", self.type_url.short(), self.name)
    }
}

impl View {
    /// Takes in what a watcher was told; what is wrong with that, if anything is.
    pub(super) fn take_event(&mut self, event: &WatchEvent, prompt: bool) -> Result<(), String> {
        self.heard = true;
        match event {
            WatchEvent::Complete if self.settled => return Err("it settles twice".to_owned()),
            WatchEvent::Complete => self.settled = true,
            WatchEvent::Failed { error } => return Err(format!("nothing is watched: {error}")),
            WatchEvent::Changed { name, value } => {
                let known = self.resources.entry(Arc::clone(name)).or_default();
                match value {
                    Ok(held) => {
                        let new = (held.resource.body().clone(), held.server);
                        if prompt && known.value.as_ref() == Some(&new) && known.error.is_none() {
                            return Err(format!("`{name}` is told twice (C-049)"));
                        }
                        *known = BelievedResource { value: Some(new), error: None };
                    }
                    Err(error) => {
                        *known = BelievedResource { value: None, error: Some(error.kind) }
                    }
                }
            }
            WatchEvent::Ambient { name, error } => {
                let known = self.resources.entry(Arc::clone(name)).or_default();
                let is_group = name.ends_with('*');
                if known.value.is_none() && !is_group {
                    return Err(format!("`{name}` has no value to go on with (C-047)"));
                }
                if error.is_none() && known.error.is_none() {
                    return Err(format!("nothing was wrong with `{name}` (C-047)"));
                }
                known.error = error.as_ref().map(|error| error.kind);
            }
        }
        Ok(())
    }
}

/// Returns an event of a watcher, for people.
pub(super) fn event_text(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Changed { name, value: Ok(held) } => {
            format!("{name} is {{{}}}", String::from_utf8_lossy(held.resource.body()))
        }
        WatchEvent::Changed { name, value: Err(error) } => format!("{name} none: {error}"),
        WatchEvent::Ambient { name, error: Some(error) } => format!("{name} but: {error}"),
        WatchEvent::Ambient { name, error: None } => format!("{name} fine"),
        WatchEvent::Complete => "complete".to_owned(),
        WatchEvent::Failed { error } => format!("failed: {error}"),
    }
}
