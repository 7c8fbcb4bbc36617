//! The cache of a client on disk. The next run begins with it, even if no server can be reached.
//!
//! ```text
//!   start: [disk] --index, bodies--> checked --> the machine, before its first request
//!   then:  the machine --its cache, at most once a second--> [CacheIndex] --> [disk]
//! ```
//!
//! A resource is used only if it came from a server that this client would ask for it, under the
//! same credentials. Resources that are not watched any more are kept, because a program that ends
//! drops its watches first. A resource is removed when its server says that it does not exist.
//!
//! No decision of the protocol is made here, and no error here stops a client: errors are logged.

mod files;
mod index;
mod load;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::client::Setup;
use chancery_proto::reply::Reader;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::engine::Engine;
use crate::tasks::{ShutDown, blocking};
use files::CacheFiles;
use index::{CacheIndex, ServerHashes};
use load::{CacheLoader, LoadedCache};

/// The directory in which a client keeps its cache for the next run.
///
/// The next client with the same directory, node and servers begins with these resources: watches
/// get them at once, with their versions, and delta servers are told which versions the client has.
/// Bodies are stored by their hash, everything is checked when it is read, and files are replaced,
/// never changed. Resources with a time to live are not kept.
///
/// ```
/// use chancery_client::Options;
/// use chancery_client::disk_cache::DiskCache;
///
/// let options = Options { disk_cache: Some(DiskCache::new("/var/lib/my-program/xds")), ..Options::default() };
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskCache {
    /// The directory, which belongs to this client alone and is made if it does not exist. A second
    /// client with the same directory runs without a cache on disk. [`Clients`](crate::Clients)
    /// give each client a directory of its own in it.
    pub directory: PathBuf,
    /// True if secrets are kept too: resources of `sds`, and others with a secret in a field
    /// ([`chancery_proto::sensitive`]). By default they are not. Only the owner of the files can
    /// read them.
    pub secrets: bool,
    /// The limit for all bodies together, in bytes. By default 256 MiB. Resources that are not
    /// watched are removed first.
    pub max_bytes: usize,
    /// The shortest time from one write to the next. By default a second.
    pub interval: Duration,
}

impl DiskCache {
    /// Keeps the cache in this directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            secrets: false,
            max_bytes: 256 * 1024 * 1024,
            interval: Duration::from_secs(1),
        }
    }

    /// Returns the directory of one client of several.
    pub(crate) fn part(&self, name: &str) -> Self {
        let safe = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let text = |byte| {
            if safe(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") }
        };
        let name: String = name.bytes().map(text).collect();
        Self { directory: self.directory.join(name), ..self.clone() }
    }
}

/// A disk cache that has not been opened yet.
pub(crate) struct ClosedDiskCache {
    settings: DiskCache,
    servers: ServerHashes,
    reader: Reader,
}

/// A disk cache that is open.
pub(crate) struct OpenDiskCache {
    settings: DiskCache,
    servers: ServerHashes,
    disk: CacheFiles,
    index: CacheIndex,
}

impl ClosedDiskCache {
    pub(crate) fn new(settings: DiskCache, setup: &Setup, reader: Reader) -> Self {
        Self { settings, servers: ServerHashes::of(setup), reader }
    }

    /// Reads the directory and gives its resources to the machine. Returns `None` if nothing can be
    /// kept.
    pub(crate) async fn open(self, engine: Arc<Engine>) -> Option<OpenDiskCache> {
        let Self { settings, servers, reader } = self;
        let directory = settings.directory.clone();
        let read = move || {
            let disk = CacheFiles::open(&settings.directory)?;
            let secrets = settings.secrets;
            let loader = CacheLoader { disk: &disk, servers: &servers, reader: &reader, secrets };
            let LoadedCache { index, resources, faults } = loader.load();
            Ok((OpenDiskCache { settings, servers, disk, index }, resources, faults))
        };
        match blocking(read).await {
            Ok(Ok((open, cached, faults))) => {
                let (directory, resources) = (directory.display(), cached.len());
                info!(%directory, resources, "found what an earlier run held");
                for fault in faults.iter().take(LINES) {
                    warn!(%directory, "something kept from an earlier run is not used: {fault}");
                }
                if faults.len() > LINES {
                    warn!(%directory, "and {} more", faults.len() - LINES);
                }
                engine.restore(cached);
                Some(open)
            }
            Ok(Err(why)) => {
                let why: std::io::Error = why;
                warn!(directory = %directory.display(), "nothing is kept for the next run: {why}");
                None
            }
            Err(ShutDown) => None,
        }
    }
}

impl OpenDiskCache {
    /// Writes the cache whenever it has changed.
    pub(crate) async fn run(mut self, engine: Arc<Engine>) {
        let mut failed = false;
        loop {
            if failed {
                // After a failure it writes again even if nothing has changed.
                let _ = timeout(RETRY, engine.cache_changed()).await;
            } else {
                engine.cache_changed().await;
            }
            engine.inspect(|machine| self.index.update(machine, &self.servers, &self.settings));
            let write = move || {
                if !self.settings.secrets {
                    self.index.remove_secrets();
                }
                let written = self.index.write(&self.disk, &self.servers);
                (self, written)
            };
            let written = match blocking(write).await {
                Ok((back, written)) => {
                    self = back;
                    written
                }
                Err(ShutDown) => return std::future::pending().await,
            };
            if let Err(why) = &written
                && !failed
            {
                let directory = self.settings.directory.display();
                warn!(%directory, "what is held is not kept for the next run: {why}");
            }
            failed = written.is_err();
            sleep(self.settings.interval).await;
        }
    }
}

/// The number of faults that get a line of their own in the log.
const LINES: usize = 10;
/// The time from a failure to the next attempt.
const RETRY: Duration = Duration::from_secs(30);
