//! One check of the file of a type, which finds if the file has changed and reads its content.
//!
//! A file that was written to a moment ago is not read, and one whose metadata prove that it is the
//! same is not read again. Not here: when a check is made, and the thread that it blocks
//! (`poll::files`); the reading of resources (`chancery_proto::reply`).

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use chancery_core::TypeUrl;
use chancery_core::client::ErrorKind;
use chancery_proto::document::{Fault, Format};
use chancery_proto::reply::Reader;
use xxhash_rust::xxh3::xxh3_128;

use crate::poll::answer::PollAnswer;

/// The parameters of a check. It runs on another thread.
pub(super) struct FileProbe {
    pub(super) root: PathBuf,
    pub(super) of: TypeUrl,
    pub(super) reader: Reader,
    pub(super) limit: usize,
    pub(super) state: Option<FileState>,
}

/// The state of a file when it was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileState {
    stamp: Option<PathStamp>,
    content: u128,
    /// True if a write after the check is sure to change the stamp.
    telling: bool,
}

/// The metadata that changes when a file does.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PathStamp {
    path: PathBuf,
    file: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// The result of a check.
pub(super) enum ProbeResult {
    /// The file and its directory do not exist.
    Gone(String),
    /// Somebody writes to the file: it is too early to read it.
    Unsteady,
    /// The file has not changed.
    Same(FileState),
    /// The file has changed, and this is the answer.
    New(FileState, PollAnswer),
}

/// The reason why a file cannot be used.
type Unusable = (ErrorKind, String);

impl FileProbe {
    pub(super) fn run(self) -> ProbeResult {
        match self.root.metadata() {
            Err(error) => ProbeResult::Gone(format!("cannot be looked at: {error}")),
            Ok(root) if root.is_dir() => match self.find() {
                Ok((path, format)) => self.check_file(&path, format),
                Err(why) => self.nothing(None, why),
            },
            Ok(_) => match Format::of_path(&self.root) {
                Some(format) => self.check_file(&self.root, format),
                None => {
                    let why = format!("the name of a file must end with {}", endings());
                    self.nothing(None, (ErrorKind::Missing, why))
                }
            },
        }
    }

    /// Finds the file of the type in a directory.
    fn find(&self) -> Result<(PathBuf, Format), Unusable> {
        let paths =
            ENDINGS.iter().map(|ending| self.root.join(format!("{}.{ending}", self.of.short())));
        let mut there: Vec<_> = paths
            .filter(|path| path.symlink_metadata().is_ok())
            .filter_map(|path| Format::of_path(&path).map(|format| (path, format)))
            .collect();
        match (there.pop(), there.pop()) {
            (Some(found), None) => Ok(found),
            (Some((one, _)), Some((other, _))) => {
                let (one, other) = (name(&one), name(&other));
                let why = format!("there are `{other}` and `{one}`; which one counts?");
                Err((ErrorKind::Rejected, why))
            }
            (None, _) => {
                let why = format!("there is no file `{}` with {}", self.of.short(), endings());
                Err((ErrorKind::Missing, why))
            }
        }
    }

    fn check_file(&self, path: &Path, format: Format) -> ProbeResult {
        let now = SystemTime::now();
        let unreadable = |error: io::Error| {
            let why = format!("`{}` cannot be read: {error}", name(path));
            self.nothing(None, (ErrorKind::Rejected, why))
        };
        let before = match path.metadata() {
            Ok(metadata) => metadata,
            Err(error) => return unreadable(error),
        };
        let stamp = PathStamp::of(path, &before);
        if let Some(state) = &self.state
            && state.telling
            && state.stamp.as_ref() == Some(&stamp)
        {
            return ProbeResult::Same(state.clone());
        }
        if is_fresh(&before, now) {
            return ProbeResult::Unsteady;
        }
        let bytes = match self.read(path) {
            Ok(bytes) => bytes,
            Err(error) => return unreadable(error),
        };
        if path.metadata().ok().is_none_or(|after| PathStamp::of(path, &after) != stamp) {
            return ProbeResult::Unsteady;
        }
        let (content, telling) = (xxh3_128(&bytes), stamp.is_telling(now));
        let is_same = self.state.as_ref().is_some_and(|state| state.content == content);
        let state = FileState { stamp: Some(stamp), content, telling };
        if is_same {
            ProbeResult::Same(state)
        } else {
            ProbeResult::New(state, self.read_answer(path, format, &bytes))
        }
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let limit = u64::try_from(self.limit).unwrap_or(u64::MAX);
        Ok(chancery_files::read(path, limit)?)
    }

    /// Reads the file, which is used as a whole or not at all. Only resources that a decoder of the
    /// program rejects are left out alone.
    fn read_answer(&self, path: &Path, format: Format, bytes: &[u8]) -> PollAnswer {
        let rejected =
            |why| PollAnswer::Unusable(ErrorKind::Rejected, format!("`{}`: {why}", name(path)));
        match self.reader.read_file(&self.of, format, bytes) {
            Err(faults) => rejected(faults_text(&faults)),
            Ok(response) => {
                let flaws = response.resources.iter().filter_map(|item| item.as_ref().err());
                let strange: Vec<_> =
                    flaws.filter(|flaw| flaw.name.is_none()).map(|flaw| flaw.why.clone()).collect();
                if strange.is_empty() {
                    PollAnswer::Response(response)
                } else {
                    rejected(strange.join("; "))
                }
            }
        }
    }

    /// Returns the result of a check that found nothing to read. A reason is an answer only once.
    fn nothing(&self, stamp: Option<PathStamp>, (kind, why): Unusable) -> ProbeResult {
        let state = FileState { stamp, content: xxh3_128(why.as_bytes()), telling: false };
        match &self.state {
            Some(before) if *before == state => ProbeResult::Same(state),
            _ => ProbeResult::New(state, PollAnswer::Unusable(kind, why)),
        }
    }
}

impl PathStamp {
    fn of(path: &Path, metadata: &Metadata) -> Self {
        Self {
            path: path.to_owned(),
            file: (metadata.dev(), metadata.ino()),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Returns true if a write after this moment is sure to change the stamp. File systems keep
    /// times coarsely: two writes within one tick of their clock get the same time.
    fn is_telling(&self, now: SystemTime) -> bool {
        let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let changed = u64::try_from(self.changed.0).map(Duration::from_secs);
        changed.is_ok_and(|changed| changed + COARSEST_TICK < since_epoch)
    }
}

/// Returns true if the file was written to so recently that the writer may not be done. In YAML,
/// half of a list is a valid list.
fn is_fresh(metadata: &Metadata, now: SystemTime) -> bool {
    let age = metadata.modified().ok().and_then(|at| now.duration_since(at).ok());
    age.is_some_and(|age| age < QUIET_TIME)
}

fn faults_text(faults: &[Fault]) -> String {
    let named = faults.iter().take(FAULTS).map(|fault| {
        let place = fault.position.map(|position| format!("{position}: ")).unwrap_or_default();
        let path = if fault.path.is_empty() { String::new() } else { format!("{}: ", fault.path) };
        format!("{place}{path}{}", fault.message)
    });
    let mut named: Vec<_> = named.collect();
    if faults.len() > FAULTS {
        named.push(format!("and {} more", faults.len() - FAULTS));
    }
    named.join("; ")
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn endings() -> String {
    format!("`.{}`", ENDINGS.join("`, `."))
}

const ENDINGS: [&str; 5] = ["yaml", "yml", "json", "pb_text", "pb"];
/// The time for which nobody must have written to a file before it is read.
pub(super) const QUIET_TIME: Duration = Duration::from_millis(50);
/// The tick of the coarsest clock of a file system in use, and some skew.
const COARSEST_TICK: Duration = Duration::from_secs(3);
/// The number of faults of one file that are named.
const FAULTS: usize = 10;
