//! `chancery.yaml` while the server runs: whether it changed, and to what.

use std::{fs, io};

use super::Config;
use super::load::{FILE, Invalid, effective, restart_needed};
use crate::cli::Serve;

/// The file, and what it said when it was last read.
pub(crate) struct File {
    flags: Serve,
    /// What the server was started with: only a restart brings other values of most keys.
    started: Config,
    /// The text in force or refused; `None` if there is no file.
    known: Option<String>,
    /// A newer text that may still be being written, and for how many looks it has been there.
    pending: Option<(Option<String>, u32)>,
}

/// What a changed file means.
#[derive(Debug)]
pub(crate) enum Changed {
    /// It can be used.
    Usable {
        /// The configuration.
        config: Box<Config>,
        /// The keys that differ from what the server was started with and need a restart.
        restart: Vec<String>,
    },
    /// It cannot be used; what was in force stays.
    Unusable(Invalid),
}

impl File {
    /// The file as it was when the server was started.
    pub(crate) fn new(flags: Serve, started: Config) -> Self {
        let mut file = Self { flags, started, known: None, pending: None };
        file.known = file.text().ok().flatten();
        file
    }

    /// Looks at the file; a change counts once it has stayed the same for some looks, so that a
    /// file being written is not read halfway and files changed with it are loaded with it.
    pub(crate) fn look(&mut self) -> Option<Changed> {
        let Ok(text) = self.text() else { return None };
        if text == self.known {
            self.pending = None;
            return None;
        }
        let looks = match self.pending.take() {
            Some((pending, looks)) if pending == text => looks + 1,
            _ => 0,
        };
        if looks >= PATIENCE {
            return Some(self.take(text));
        }
        self.pending = Some((text, looks));
        None
    }

    /// Takes the file as it is now: the directory around it has just come to rest.
    pub(crate) fn look_now(&mut self) -> Option<Changed> {
        let text = self.text().ok()?;
        (text != self.known).then(|| self.take(text))
    }

    fn take(&mut self, text: Option<String>) -> Changed {
        self.known = text;
        self.pending = None;
        match effective(&self.flags) {
            Ok(config) => {
                let restart = restart_needed(&self.started, &config);
                Changed::Usable { config: Box::new(config), restart }
            }
            Err(invalid) => Changed::Unusable(invalid),
        }
    }

    /// The text; a directory that is gone is no file that is gone, and changes nothing.
    fn text(&self) -> io::Result<Option<String>> {
        match fs::read_to_string(self.flags.dir.join(FILE)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::metadata(&self.flags.dir).map(|_| None)
            }
            // It is there and not text: to be told of once, like any other fault.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Some("\0".to_owned())),
            Err(error) => Err(error),
        }
    }
}

/// For how many further looks a change must stay as it is.
const PATIENCE: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn file_in(dir: &tempfile::TempDir, text: &str) -> File {
        fs::write(dir.path().join(FILE), text).unwrap();
        let flags = Serve { dir: dir.path().to_owned(), ..Serve::default() };
        let started = effective(&flags).unwrap();
        File::new(flags, started)
    }

    #[test]
    fn a_change_counts_once_it_stays() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = file_in(&dir, "unmatched: base\n");
        assert!(file.look().is_none());
        fs::write(dir.path().join(FILE), "unmatch").unwrap();
        assert!(file.look().is_none());
        fs::write(dir.path().join(FILE), "unmatched: refuse\n").unwrap();
        assert!(file.look().is_none());
        assert!(file.look().is_none());
        assert!(matches!(file.look(), Some(Changed::Usable { .. })));
        assert!(file.look().is_none());
    }

    #[test]
    fn a_broken_change_is_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = file_in(&dir, "");
        fs::write(dir.path().join(FILE), "unmached: refuse\n").unwrap();
        assert!(matches!(file.look_now(), Some(Changed::Unusable(_))));
        assert!(file.look_now().is_none());
        fs::write(dir.path().join(FILE), [0xff, 0xfe]).unwrap();
        assert!(matches!(file.look_now(), Some(Changed::Unusable(_))));
        assert!(file.look_now().is_none());
    }

    #[test]
    fn keys_that_need_a_restart_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = file_in(&dir, "");
        let text = "listen: [\"127.0.0.1:1\"]\nlimits: {max-names: 1}\nunmatched: refuse\n";
        fs::write(dir.path().join(FILE), text).unwrap();
        let Some(Changed::Usable { restart, .. }) = file.look_now() else { panic!("unusable") };
        assert_eq!(restart, ["limits.max-names", "listen"]);
    }

    #[test]
    fn a_directory_that_is_gone_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = file_in(&dir, "unmatched: refuse\n");
        drop(dir);
        assert!(file.look_now().is_none());
    }
}
