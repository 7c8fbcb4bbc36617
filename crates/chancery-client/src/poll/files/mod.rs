//! Files as a source: a directory with a file for each type, or one file (C-043).
//!
//! ```text
//!   file:///etc/xds            a directory: cds.yaml, lds.json, eds.pb, …
//!   file:///etc/xds/cds.yaml   one file, whatever is watched
//! ```
//!
//! Files are looked at now and then. That finds a move, a swap of symlinks anywhere on the path and
//! a write in place alike, works on every file system, and costs one `stat` for each type that is
//! watched; a program that wants to know of a change within less than a second says so
//! ([`Options::file_refresh`]). A file that cannot be used changes nothing: what is held stays, and
//! those who watch are told why. So does one that is not there, and a directory that disappears is a
//! server that cannot be reached. Nothing is removed but by a file that says so.

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
pub(crate) struct Files {
    root: PathBuf,
    reader: Reader,
    refresh: Duration,
    limit: usize,
}

/// One type in it.
pub(crate) struct FilePoller<'a> {
    files: &'a Files,
    of: TypeUrl,
    state: Option<FileState>,
    /// What was asked for when it was seen.
    names: Names,
}

impl Files {
    pub(crate) fn new(root: PathBuf, context: ServerContext) -> Self {
        let ServerContext { reader, options, .. } = context;
        Self { root, reader, refresh: options.file_refresh, limit: options.max_response_bytes }
    }

    /// Waits until there is something to look at. While nobody has been told yet that there is
    /// nothing, that is an error.
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
    /// Looks at the file, again and again while it is being written to, though not for longer than
    /// until it would be looked at anyway. What is asked for now and was not before is told although
    /// the file is the same.
    pub(crate) async fn poll(&mut self, request: &SotwRequest) -> Result<PollAnswer, String> {
        let until = Instant::now() + self.files.refresh;
        loop {
            let found = self.probe(request).await?;
            if !matches!(found, ProbeResult::Unsteady) || Instant::now() >= until {
                return self.answer(request, found);
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

    fn answer(&mut self, request: &SotwRequest, found: ProbeResult) -> Result<PollAnswer, String> {
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
