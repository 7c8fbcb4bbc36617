//! Files in place of a server: a directory with a file for each type, or one file (C-043).
//!
//! ```text
//!   file:///etc/xds            a directory: cds.yaml, lds.json, eds.pb, …
//!   file:///etc/xds/cds.yaml   one file, whatever is watched
//! ```
//!
//! Files are checked at an interval. That finds a move, a swap of symlinks anywhere on the path and
//! a write in place alike, works on every file system, and costs one `stat` for each type that is
//! watched. A program that needs changes sooner sets a shorter interval
//! ([`Options::file_refresh`](crate::Options::file_refresh)).

mod probe;

use std::path::PathBuf;
use std::time::Duration;

use chancery_core::{Names, SotwRequest, TypeUrl};
use chancery_proto::reply::Reader;
use tokio::time::{Instant, sleep};

use crate::poll::answer::PollAnswer;
use crate::server_context::ServerContext;
use crate::tasks::blocking;
use probe::{FileProbe, FileState, ProbeResult, QUIET_TIME};

/// A file, or a directory of files.
pub(crate) struct PolledFiles {
    root: PathBuf,
    reader: Reader,
    refresh: Duration,
    limit: usize,
}

/// Polls the file of one type.
pub(crate) struct FilePoller<'a> {
    files: &'a PolledFiles,
    of: TypeUrl,
    state: Option<FileState>,
    /// The names in the request that was answered with this state.
    names: Names,
}

impl PolledFiles {
    pub(crate) fn new(root: PathBuf, context: ServerContext) -> Self {
        let ServerContext { reader, options, .. } = context;
        Self { root, reader, refresh: options.file_refresh, limit: options.max_response_bytes }
    }

    /// Waits until the directory or the file exists. As long as the watches do not know that it
    /// does not exist, returns an error instead.
    pub(crate) async fn wait(&self, is_known: impl Fn() -> bool) -> Result<(), String> {
        loop {
            let root = self.root.clone();
            let found = blocking(move || root.metadata().map(|_| ())).await;
            let found = found.map_err(|error| error.to_string())?;
            match found {
                Ok(()) => return Ok(()),
                Err(error) if !is_known() => return Err(format!("cannot be looked at: {error}")),
                Err(_) => sleep(self.refresh).await,
            }
        }
    }

    pub(crate) fn poller(&self, of: &TypeUrl) -> FilePoller<'_> {
        FilePoller { files: self, of: of.clone(), state: None, names: Names::default() }
    }
}

impl FilePoller<'_> {
    /// Checks the file. While somebody writes to it, the check is repeated, until the time of the
    /// next check at most. A request with new names is answered even if the file is the same.
    pub(crate) async fn poll(&mut self, request: &SotwRequest) -> Result<PollAnswer, String> {
        let until = Instant::now() + self.files.refresh;
        loop {
            let found = self.probe(request).await?;
            if !matches!(found, ProbeResult::Unsteady) || Instant::now() >= until {
                return self.take_result(request, found);
            }
            sleep(QUIET_TIME).await;
        }
    }

    async fn probe(&self, request: &SotwRequest) -> Result<ProbeResult, String> {
        let state = if request.names == self.names { self.state.clone() } else { None };
        let probe = FileProbe {
            root: self.files.root.clone(),
            of: self.of.clone(),
            reader: self.files.reader.clone(),
            limit: self.files.limit,
            state,
        };
        blocking(move || probe.run()).await.map_err(|error| error.to_string())
    }

    fn take_result(
        &mut self,
        request: &SotwRequest,
        found: ProbeResult,
    ) -> Result<PollAnswer, String> {
        match found {
            ProbeResult::Gone(why) => Err(why),
            ProbeResult::Unsteady => Ok(PollAnswer::Unchanged),
            ProbeResult::Same(state) => {
                self.state = Some(state);
                Ok(PollAnswer::Unchanged)
            }
            ProbeResult::New(state, answer) => {
                (self.state, self.names) = (Some(state), request.names.clone());
                Ok(answer)
            }
        }
    }
}
