//! `/api/v1/nodes`: the nodes that are connected, for processes on the same machine.
//!
//! Nodes say much about themselves that is for nobody else, so the conditions are those of `confirm`
//! (`local`). A page is made beside the thread that answers probes, by one thread at a time.
//! Not here: the streams (`chancery_server::Audiences`), and what a command makes of the answer.

mod document;
mod listing;
mod shown;

use std::hash::RandomState;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use chancery_server::Audiences;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use tokio::sync::Mutex;

pub(crate) use self::document::{LocalityRow, NodeRow, NodesDocument};
use self::listing::{Place, Wanted};
use super::local::{self, NotLocal};
use super::{json, query, text};
use crate::serve::Grouping;

/// The nodes that are connected to a server.
#[derive(Default)]
pub(crate) struct NodesPage {
    audiences: OnceLock<Audiences<Grouping>>,
    keys: RandomState,
    /// Held while a page is made.
    turn: Arc<Mutex<()>>,
}

/// The reason for which a request is not answered.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    NotLocal(#[from] NotLocal),
    #[error(
        "the query is not `group=NAME&id=ID&after=NEXT&limit=NUMBER`, each once at most, with a limit \
         from 1 to {MOST_ROWS}"
    )]
    Malformed,
    #[error("the first load is not complete")]
    TooEarly,
    #[error("it failed; the log says why")]
    Failed,
}

impl NodesPage {
    /// Tells of the clients of these audiences from now on.
    pub(crate) fn tell_of(&self, audiences: Audiences<Grouping>) {
        self.audiences.set(audiences).ok();
    }

    /// The answer to one request, whose `Host` was checked.
    pub(super) async fn answer<B>(
        &self,
        peer: IpAddr,
        request: &Request<B>,
    ) -> Response<Full<Bytes>> {
        match self.page(peer, request).await {
            Ok(document) => json(&document),
            Err(refused) => refused.response(),
        }
    }

    async fn page<B>(&self, peer: IpAddr, request: &Request<B>) -> Result<NodesDocument, Refused> {
        local::check(peer, request.headers())?;
        let wanted = wanted(request.uri().query().unwrap_or_default()).ok_or(Refused::Malformed)?;
        let audiences = self.audiences.get().ok_or(Refused::TooEarly)?.clone();
        let keys = self.keys.clone();
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let made = tokio::task::spawn_blocking(move || {
            let page = listing::page(&audiences, &keys, &wanted);
            drop(turn);
            page
        });
        made.await.map_err(|_| Refused::Failed)
    }
}

/// The nodes that a query asks for.
fn wanted(text: &str) -> Option<Wanted> {
    let mut wanted = Wanted { id: None, group: None, after: None, limit: USUAL_ROWS };
    for (key, value) in query::distinct_pairs(text)? {
        match key {
            "id" => wanted.id = Some(value),
            "group" => wanted.group = Some(value),
            "after" => wanted.after = Some(Place::read(&value)),
            "limit" => {
                wanted.limit = value.parse().ok().filter(|it| (1..=MOST_ROWS).contains(it))?
            }
            _ => return None,
        }
    }
    Some(wanted)
}

impl Refused {
    fn response(&self) -> Response<Full<Bytes>> {
        let status = match self {
            Self::NotLocal(_) => StatusCode::FORBIDDEN,
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::TooEarly => StatusCode::SERVICE_UNAVAILABLE,
            Self::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        text(status, format!("{self}\n"))
    }
}

/// The number of nodes on a page if none is asked for.
const USUAL_ROWS: usize = 100;

/// The largest number of nodes on a page.
const MOST_ROWS: usize = 1000;
