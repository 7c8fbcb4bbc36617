//! The names of DNS that clusters lead to: asked for once, and again when connections have failed, but
//! not more often than every 30 seconds (C-119, gRFC A37).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::targets::Resolved;

/// The names of one channel.
#[derive(Debug, Default)]
pub(super) struct Names {
    asked: BTreeMap<(String, u16), Instant>,
    queries: JoinSet<Answer>,
    resolved: Resolved,
}

/// A name, with what was found.
type Answer = ((String, u16), Result<Vec<SocketAddr>, String>);

impl Names {
    pub(super) fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// Returns true if each name has an answer, be it that it has no address.
    pub(super) fn are_answered(&self) -> bool {
        self.asked.keys().all(|name| self.resolved.contains_key(name))
    }

    /// Asks for the names that are new, and forgets those that are not among these.
    pub(super) fn want(&mut self, names: &BTreeSet<(String, u16)>) {
        self.asked.retain(|name, _| names.contains(name));
        self.resolved.retain(|name, _| names.contains(name));
        for name in names {
            if !self.asked.contains_key(name) {
                self.ask(name.clone(), Instant::now());
            }
        }
    }

    /// Asks again for all names of which no question waits, each when its time has come.
    pub(super) fn ask_again(&mut self) {
        let now = Instant::now();
        let due = self.asked.iter().filter(|(_, asked)| **asked <= now);
        let due: Vec<_> = due.map(|(name, asked)| (name.clone(), *asked + PAUSE)).collect();
        for (name, next) in due {
            self.ask(name, next.max(now));
        }
    }

    fn ask(&mut self, name: (String, u16), at: Instant) {
        self.asked.insert(name.clone(), at);
        self.queries.spawn(async move {
            sleep_until(at).await;
            let found = look_up(&name).await;
            (name, found)
        });
    }

    /// Waits for an answer, and returns once it is known. Waits for ever if nothing was asked.
    pub(super) async fn answered(&mut self) {
        loop {
            let Some(answer) = self.queries.join_next().await else {
                return std::future::pending().await;
            };
            let Ok((name, found)) = answer else { continue };
            if !self.asked.contains_key(&name) {
                continue;
            }
            match found {
                // A failure leaves the addresses that are known in use.
                Err(_) if matches!(self.resolved.get(&name), Some(Ok(_))) => {}
                found => {
                    if found.is_err() {
                        // No connection can fail and ask again, as there is none.
                        self.ask(name.clone(), Instant::now() + PAUSE);
                    }
                    self.resolved.insert(name, found);
                }
            }
            return;
        }
    }
}

async fn look_up((host, port): &(String, u16)) -> Result<Vec<SocketAddr>, String> {
    let found = timeout(PATIENCE, tokio::net::lookup_host((host.as_str(), *port))).await;
    let found = found.map_err(|_| format!("`{host}` has no answer within {PATIENCE:?}"))?;
    let addresses: Vec<_> = found.map_err(|error| format!("`{host}`: {error}"))?.collect();
    match addresses.is_empty() {
        true => Err(format!("`{host}` has no address")),
        false => Ok(addresses),
    }
}

/// The time between two questions for one name.
const PAUSE: Duration = Duration::from_secs(30);
/// The time for an answer.
const PATIENCE: Duration = Duration::from_secs(20);
