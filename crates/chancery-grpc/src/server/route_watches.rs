//! The watches of the route configurations that a listener names, each with a task of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_calls::Failure;
use chancery_calls::routing::RouteConfig;
use chancery_client::{Client, Event, Watch};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use crate::read::quoted;
use crate::read::routes::Routes;

/// Routes, or the reason why calls that need them fail.
pub(super) type RouteResult = Result<Arc<RouteConfig>, Failure>;

/// The watches of the routes of a server.
pub(super) struct RouteWatches {
    client: Client,
    known: BTreeMap<Arc<str>, Known>,
    last_id: u64,
    told: mpsc::Sender<RouteEvent>,
    events: mpsc::Receiver<RouteEvent>,
    tasks: JoinSet<()>,
}

struct Known {
    id: u64,
    task: AbortHandle,
    /// The newest routes; none until the control plane has answered.
    newest: Option<RouteResult>,
}

/// News of one watch.
pub(super) struct RouteEvent {
    name: Arc<str>,
    /// The number of the watch. A watch that has ended may have told of something before.
    id: u64,
    routes: RouteResult,
}

impl RouteWatches {
    pub(super) fn new(client: Client) -> Self {
        let (told, events) = mpsc::channel(WAITING);
        let (known, tasks) = (BTreeMap::new(), JoinSet::new());
        Self { client, known, last_id: 0, told, events, tasks }
    }

    /// Watches routes of these names, and no others.
    pub(super) fn want(&mut self, names: &BTreeSet<&str>) {
        self.known.retain(|name, known| {
            let is_wanted = names.contains(&**name);
            if !is_wanted {
                known.task.abort();
            }
            is_wanted
        });
        for name in names {
            if !self.known.contains_key(*name) {
                self.begin(name);
            }
        }
        // Tasks that have ended are not kept.
        while self.tasks.try_join_next().is_some() {}
    }

    fn begin(&mut self, name: &str) {
        self.last_id += 1;
        let (name, id) = (Arc::<str>::from(name), self.last_id);
        let watch = self.client.watch::<Routes>(&name);
        let task = self.tasks.spawn(follow(watch, Arc::clone(&name), id, self.told.clone()));
        self.known.insert(name, Known { id, task, newest: None });
    }

    /// Waits for news. Dropping the future loses nothing.
    pub(super) async fn event(&mut self) -> RouteEvent {
        match self.events.recv().await {
            Some(event) => event,
            // It has a sender of its own.
            None => std::future::pending().await,
        }
    }

    /// Keeps what is new, and returns it, unless nobody wants it any more.
    pub(super) fn apply(&mut self, event: RouteEvent) -> Option<(Arc<str>, RouteResult)> {
        let known = self.known.get_mut(&event.name).filter(|known| known.id == event.id)?;
        known.newest = Some(event.routes.clone());
        Some((event.name, event.routes))
    }

    /// Returns the newest routes of a name; none until the control plane has answered.
    pub(super) fn newest(&self, name: &str) -> Option<&RouteResult> {
        self.known.get(name)?.newest.as_ref()
    }
}

/// Tells of all that a watch says, until it ends.
async fn follow(mut watch: Watch<Routes>, name: Arc<str>, id: u64, told: mpsc::Sender<RouteEvent>) {
    while let Some(event) = watch.next().await {
        let routes = match event {
            Event::Changed { value, .. } => match value {
                Ok(received) => Ok(Arc::clone(&received.value.0)),
                Err(error) => Err(Failure::unavailable(error.text.clone())),
            },
            Event::Failed { error } => Err(Failure::unavailable(error.text.clone())),
            Event::Ambient { error, .. } => {
                if let Some(error) = error {
                    tracing::warn!(routes = %quoted(&name), "the last routes stay in use: {}", error.text);
                }
                continue;
            }
            Event::Complete => continue,
        };
        if told.send(RouteEvent { name: Arc::clone(&name), id, routes }).await.is_err() {
            return;
        }
    }
}

/// The number of events that wait to be taken; a watch with another one waits.
const WAITING: usize = 16;

#[cfg(test)]
mod tests {
    use chancery_client::{Bootstrap, Options};

    use super::*;

    fn client() -> Client {
        // Nobody listens there; nothing here waits for an answer.
        let server = r#"{"server_uri": "127.0.0.1:9", "channel_creds": [{"type": "insecure"}]}"#;
        let bootstrap = format!(r#"{{"xds_servers": [{server}]}}"#);
        let bootstrap: Bootstrap = bootstrap.parse().unwrap();
        Client::new(&bootstrap, Options::default()).unwrap()
    }

    fn event(name: &str, id: u64) -> RouteEvent {
        let routes = Err(Failure::unavailable(format!("{name} {id}")));
        RouteEvent { name: name.into(), id, routes }
    }

    #[tokio::test]
    async fn news_of_a_watch_that_has_ended_is_dropped() {
        // C-144
        let mut watches = RouteWatches::new(client());
        let both = BTreeSet::from(["a", "b"]);
        watches.want(&both);
        assert!(watches.newest("a").is_none());
        assert!(watches.apply(event("a", 1)).is_some());
        watches.want(&both);
        let newest = watches.newest("a").unwrap().as_ref().unwrap_err();
        assert_eq!(&*newest.message, "a 1", "it is wanted all the time");
        watches.want(&BTreeSet::from(["b"]));
        assert!(watches.newest("a").is_none());
        assert!(watches.apply(event("a", 1)).is_none());
        watches.want(&both);
        assert!(watches.apply(event("a", 1)).is_none(), "it is of the watch before");
        assert!(watches.newest("a").is_none());
        assert!(watches.apply(event("a", 3)).is_some());
        assert!(watches.newest("a").is_some());
    }
}
