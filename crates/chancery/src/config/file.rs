//! `chancery.yaml` while the server runs: whether it changed, and to what.

use std::path::Path;
use std::{fs, io};

use super::Config;
use super::load::{FILE, InvalidConfig, effective, restart_needed};
use crate::cli::Serve;

/// The file, and what it said when it was last read.
pub(crate) struct ConfigFile {
    flags: Serve,
    /// What the server was started with: only a restart brings other values of most keys.
    started: Config,
    /// What is in force or was refused.
    known: FileContent,
    /// Something newer that may still be being written, and for how many looks it has been there.
    pending: Option<(FileContent, u32)>,
}

/// What there is to see of a file.
#[derive(PartialEq, Eq)]
enum FileContent {
    Nothing,
    Text(String),
    Unreadable(io::ErrorKind),
}

/// What a changed file means.
#[derive(Debug)]
pub(crate) enum ConfigChange {
    /// It can be used.
    Usable {
        /// The configuration.
        config: Box<Config>,
        /// The keys that differ from what the server was started with and need a restart.
        restart: Vec<String>,
    },
    /// It cannot be used; what was in force stays.
    Unusable(InvalidConfig),
}

impl ConfigFile {
    /// The file as it was when the server was started.
    pub(crate) fn new(flags: Serve, started: Config) -> Self {
        let known = seen(&flags.dir.join(FILE));
        Self { flags, started, known, pending: None }
    }

    /// Looks at the file; a change counts once it has stayed the same for some looks, so that a
    /// file being written is not read halfway and files changed with it are loaded with it.
    ///
    /// Where the directory around it is not `whole`, a file that is gone is not gone on purpose.
    pub(crate) fn look(&mut self, whole: bool) -> Option<ConfigChange> {
        let seen = self.news(whole)?;
        let looks = match self.pending.take() {
            Some((pending, looks)) if pending == seen => looks + 1,
            _ => 0,
        };
        let patience = if seen == FileContent::Nothing { 5 * PATIENCE } else { PATIENCE };
        if looks >= patience {
            return Some(self.take(seen));
        }
        self.pending = Some((seen, looks));
        None
    }

    /// Takes the file as it is now: the directory around it has just come to rest.
    pub(crate) fn look_now(&mut self, whole: bool) -> Option<ConfigChange> {
        let seen = self.news(whole)?;
        Some(self.take(seen))
    }

    /// What there is to see, if it is not what was seen before.
    fn news(&mut self, whole: bool) -> Option<FileContent> {
        let seen = seen(&self.flags.dir.join(FILE));
        if seen == self.known || (seen == FileContent::Nothing && !whole) {
            self.pending = None;
            return None;
        }
        Some(seen)
    }

    fn take(&mut self, seen: FileContent) -> ConfigChange {
        self.known = seen;
        self.pending = None;
        match effective(&self.flags) {
            Ok(config) => {
                let restart = restart_needed(&self.started, &config);
                ConfigChange::Usable { config: Box::new(config), restart }
            }
            Err(invalid) => ConfigChange::Unusable(invalid),
        }
    }
}

fn seen(path: &Path) -> FileContent {
    match fs::read_to_string(path) {
        Ok(text) => FileContent::Text(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => FileContent::Nothing,
        Err(error) => FileContent::Unreadable(error.kind()),
    }
}

/// For how many further looks a change must stay as it is; a file that is gone, for five times
/// as many.
const PATIENCE: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn file_in(dir: &tempfile::TempDir, text: &str) -> ConfigFile {
        fs::write(dir.path().join(FILE), text).unwrap();
        let flags = Serve { dir: dir.path().to_owned(), ..Serve::default() };
        let started = effective(&flags).unwrap();
        ConfigFile::new(flags, started)
    }

    #[test]
    fn a_change_counts_once_it_stays() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = file_in(&dir, "unmatched: base\n");
        assert!(file.look(true).is_none());
        fs::write(dir.path().join(FILE), "unmatch").unwrap();
        assert!(file.look(true).is_none());
        fs::write(dir.path().join(FILE), "unmatched: refuse\n").unwrap();
        assert!(file.look(true).is_none());
        assert!(file.look(true).is_none());
        assert!(matches!(file.look(true), Some(ConfigChange::Usable { .. })));
        assert!(file.look(true).is_none());
    }

    #[test]
    fn a_broken_change_is_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = file_in(&dir, "");
        fs::write(dir.path().join(FILE), "unmached: refuse\n").unwrap();
        assert!(matches!(file.look_now(true), Some(ConfigChange::Unusable(_))));
        assert!(file.look_now(true).is_none());
        fs::write(dir.path().join(FILE), [0xff, 0xfe]).unwrap();
        assert!(matches!(file.look_now(true), Some(ConfigChange::Unusable(_))));
        assert!(file.look_now(true).is_none());
    }

    #[test]
    fn keys_that_need_a_restart_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = file_in(&dir, "");
        let text = "listen: [\"127.0.0.1:1\"]\nlimits: {max-names: 1}\nunmatched: refuse\n";
        fs::write(dir.path().join(FILE), text).unwrap();
        let Some(ConfigChange::Usable { restart, .. }) = file.look_now(true) else {
            panic!("unusable")
        };
        assert_eq!(restart, ["limits.max-names", "listen"]);
    }

    #[test]
    fn a_file_that_is_gone_is_gone_only_if_the_directory_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = file_in(&dir, "unmatched: refuse\n");
        fs::remove_file(dir.path().join(FILE)).unwrap();
        assert!(file.look_now(false).is_none());
        assert!((0..9).all(|_| file.look(false).is_none()));
        let Some(ConfigChange::Usable { config, .. }) = file.look_now(true) else {
            panic!("unusable")
        };
        assert_eq!(*config, Config::default());
    }
}
