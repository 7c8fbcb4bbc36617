//! `/api/v1/load`: what clients report about their calls, for processes on the same machine.
//!
//! The conditions are those of the nodes (`local`), and a page is made as theirs is: beside the thread that
//! answers probes, by one thread at a time. Not here: the reports (`chancery_server::LoadReports`), and what a
//! command makes of the answer.

mod document;
mod listing;

use std::net::IpAddr;
use std::sync::Arc;

use chancery_server::LoadReports;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use tokio::sync::Mutex;

pub(crate) use self::document::{LoadDocument, LoadRow};
use self::listing::{By, Wanted};
use super::local::{self, NotLocal};
use super::{json, query, text};

/// The load reports of the clients of a server.
pub(crate) struct LoadReportsPage {
    reports: LoadReports,
    /// Held while a page is made.
    turn: Arc<Mutex<()>>,
}

/// The reason for which a request is not answered.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    NotLocal(#[from] NotLocal),
    #[error(
        "the query is not `by=cluster&cluster=NAME&node=ID&after=NEXT&limit=NUMBER`, each once at most, by \
         cluster, locality, endpoint or node, with a limit from 1 to {MOST_ROWS}"
    )]
    Malformed,
    #[error("it failed; the log says why")]
    Failed,
}

impl LoadReportsPage {
    /// A page of this book.
    pub(crate) fn new(reports: LoadReports) -> Self {
        Self { reports, turn: Arc::default() }
    }

    /// The book.
    pub(crate) fn reports(&self) -> LoadReports {
        self.reports.clone()
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

    async fn page<B>(&self, peer: IpAddr, request: &Request<B>) -> Result<LoadDocument, Refused> {
        local::check(peer, request.headers())?;
        let wanted = wanted(request.uri().query().unwrap_or_default()).ok_or(Refused::Malformed)?;
        let reports = self.reports.clone();
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let made = tokio::task::spawn_blocking(move || {
            let page = listing::page(&reports, &wanted);
            drop(turn);
            page
        });
        made.await.map_err(|_| Refused::Failed)
    }
}

/// The rows that a query asks for.
fn wanted(text: &str) -> Option<Wanted> {
    let (by, limit) = (By::default(), USUAL_ROWS);
    let mut wanted = Wanted { by, cluster: None, node: None, after: None, limit };
    for (key, value) in query::distinct_pairs(text)? {
        match key {
            "by" => wanted.by = By::read(&value)?,
            "cluster" => wanted.cluster = Some(value),
            "node" => wanted.node = Some(value),
            "after" => wanted.after = Some(serde_json::from_str(&value).ok()?),
            "limit" => {
                wanted.limit = value.parse().ok().filter(|it| (1..=MOST_ROWS).contains(it))?
            }
            _ => return None,
        }
    }
    Some(wanted)
}

impl By {
    fn read(text: &str) -> Option<Self> {
        match text {
            "cluster" => Some(Self::Cluster),
            "locality" => Some(Self::Locality),
            "endpoint" => Some(Self::Endpoint),
            "node" => Some(Self::Node),
            _ => None,
        }
    }
}

impl Refused {
    fn response(&self) -> Response<Full<Bytes>> {
        let status = match self {
            Self::NotLocal(_) => StatusCode::FORBIDDEN,
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        text(status, format!("{self}\n"))
    }
}

/// The number of rows on a page if none is asked for.
const USUAL_ROWS: usize = 100;

/// The largest number of rows on a page.
const MOST_ROWS: usize = 1000;
