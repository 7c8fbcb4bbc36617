//! `/api/v1/load`: what clients report about their calls.
//!
//! Not here: who may ask (`api`), the reports (`chancery_server::LoadReports`), and what a command makes of
//! the answer.

mod document;
mod listing;

use chancery_server::LoadReports;

pub(crate) use self::document::{LoadDocument, LoadRow};
use self::listing::{By, Wanted};
use super::api::{self, ApiError, Asked};

/// The load reports of the clients of a server.
pub(crate) struct LoadReportsPage {
    reports: LoadReports,
}

impl LoadReportsPage {
    /// A page of this book.
    pub(crate) fn new(reports: LoadReports) -> Self {
        Self { reports }
    }

    /// The book.
    pub(crate) fn reports(&self) -> LoadReports {
        self.reports.clone()
    }

    /// The work that makes the page that is asked for.
    pub(super) fn page(
        &self,
        asked: &Asked,
    ) -> Result<impl FnOnce() -> Result<LoadDocument, ApiError> + Send + use<>, ApiError> {
        let (reports, wanted) = (self.reports.clone(), Wanted::of(asked)?);
        Ok(move || Ok(listing::page(&reports, &wanted)))
    }
}

impl Wanted {
    fn of(asked: &Asked) -> Result<Self, ApiError> {
        let by = match asked.text("by") {
            Some("locality") => By::Locality,
            Some("endpoint") => By::Endpoint,
            Some("node") => By::Node,
            _ => By::Cluster,
        };
        let after = asked.text("after").map(serde_json::from_str).transpose();
        let after = after.map_err(|_| ApiError::parameter("`after` is no `next` of a page"))?;
        let [cluster, node] = ["cluster", "node"].map(|key| asked.text(key).map(str::to_owned));
        Ok(Self { by, cluster, node, after, limit: api::limit(asked) })
    }
}
