//! `chancery.yaml` while the server runs: notices that the file changed, and reads it again.
//!
//! Not here: what a change leads to, which the `ChangeApplier` decides (`serve/change_applier.rs`).

use super::load::{FileContent, InvalidConfig, parsed, restart_needed};
use super::{Config, ServeFlags};

/// The file, and its content when it was last read.
pub(crate) struct ConfigFile {
    flags: ServeFlags,
    /// The configuration that the server was started with. Other values of most keys need a restart.
    started: Config,
    /// The content that is in force or was refused.
    known: FileContent,
    /// The text that could be used last, if there was one.
    good: Option<String>,
    /// Newer content that may still be incomplete, and the number of looks since it appeared.
    pending: Option<(FileContent, u32)>,
}

/// The result of reading a changed file.
#[derive(Debug)]
pub(crate) enum ConfigChange {
    /// The file can be used.
    Usable {
        /// The configuration.
        config: Box<Config>,
        /// The keys that need a restart, because they differ from what the server was started with.
        restart: Vec<String>,
    },
    /// The file cannot be used; the configuration in force stays.
    Unusable(InvalidConfig),
}

impl ConfigFile {
    /// The file with the content that the server was started with.
    pub(crate) fn new(flags: ServeFlags, started: Config, known: FileContent) -> Self {
        let good = known.text().map(str::to_owned);
        Self { flags, started, known, good, pending: None }
    }

    /// The file with content that cannot be used, while another text is in force.
    pub(crate) fn faulty(
        flags: ServeFlags,
        started: Config,
        known: FileContent,
        in_force: String,
    ) -> Self {
        Self { good: Some(in_force), ..Self::new(flags, started, known) }
    }

    /// The text that could be used last, if there was one.
    pub(crate) fn good(&self) -> Option<&str> {
        self.good.as_deref()
    }

    /// Looks at the file. A change counts once the content has stayed the same for some looks, so
    /// that a file that is still being written is not read halfway, and files that change together
    /// with it are loaded together with it.
    ///
    /// A missing file counts as a change only if the directory around it is `whole`: otherwise the
    /// file was probably not removed on purpose.
    pub(crate) fn look(&mut self, whole: bool) -> Option<ConfigChange> {
        let content = self.changed_content(whole)?;
        let looks = match self.pending.take() {
            Some((pending, looks)) if pending == content => looks + 1,
            _ => 0,
        };
        let patience = if content.is_missing() { 5 * PATIENCE } else { PATIENCE };
        if looks >= patience {
            return Some(self.take(content));
        }
        self.pending = Some((content, looks));
        None
    }

    /// Reads the file as it is now. The caller knows that the directory around it does not change
    /// at the moment. That says nothing about a file that is missing: an editor may have renamed it
    /// away, and without it everything would have its default. So the next looks decide about it.
    pub(crate) fn look_now(&mut self, whole: bool) -> Option<ConfigChange> {
        let content = self.changed_content(whole).filter(|content| !content.is_missing())?;
        Some(self.take(content))
    }

    /// Returns true if there was no file when its content was taken last.
    pub(crate) fn is_missing(&self) -> bool {
        self.known.is_missing()
    }

    /// The content of the file, if it is not the known content.
    fn changed_content(&mut self, whole: bool) -> Option<FileContent> {
        let content = FileContent::read(&self.flags.dir);
        if content == self.known || (content.is_missing() && !whole) {
            self.pending = None;
            return None;
        }
        Some(content)
    }

    /// Takes this content, and no other that the file may have by now.
    fn take(&mut self, content: FileContent) -> ConfigChange {
        let read = parsed(&self.flags, &content);
        self.known = content;
        self.pending = None;
        match read {
            Ok(config) => {
                self.good = self.known.text().map(str::to_owned);
                let restart = restart_needed(&self.started, &config);
                ConfigChange::Usable { config: Box::new(config), restart }
            }
            Err(invalid) => ConfigChange::Unusable(invalid),
        }
    }
}

/// The number of further looks for which a change must stay as it is. A missing file must stay
/// missing for five times as many.
const PATIENCE: u32 = 2;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::Decision;
    use super::super::load::FILE;
    use super::*;

    fn file_in(dir: &tempfile::TempDir, text: &str) -> ConfigFile {
        fs::write(dir.path().join(FILE), text).unwrap();
        let flags = ServeFlags { dir: dir.path().to_owned(), ..ServeFlags::default() };
        let content = FileContent::read(&flags.dir);
        let started = parsed(&flags, &content).unwrap();
        ConfigFile::new(flags, started, content)
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
    fn what_was_compared_is_what_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = file_in(&dir, "unmatched: refuse\n");
        fs::write(dir.path().join(FILE), "unmatched: base\n").unwrap();
        let content = file.changed_content(true).unwrap();
        // An editor renames the file away before it puts another one in its place.
        fs::remove_file(dir.path().join(FILE)).unwrap();
        let ConfigChange::Usable { config, .. } = file.take(content) else { panic!("unusable") };
        assert_eq!(config.unmatched, Decision::Base);
        fs::write(dir.path().join(FILE), "unmatched: refuse\n").unwrap();
        let Some(ConfigChange::Usable { config, .. }) = file.look_now(true) else {
            panic!("unusable")
        };
        assert_eq!(config.unmatched, Decision::Refuse);
    }

    #[test]
    fn a_broken_change_is_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = file_in(&dir, "{}");
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
        let mut file = file_in(&dir, "{}");
        let text = "listen: [\"127.0.0.1:1\"]\nlimits: {max-names: 1}\nunmatched: refuse\n";
        fs::write(dir.path().join(FILE), text).unwrap();
        let Some(ConfigChange::Usable { restart, .. }) = file.look_now(true) else {
            panic!("unusable")
        };
        assert_eq!(restart, ["limits.max-names", "listen"]);
    }

    #[test]
    fn a_key_that_is_taken_away_needs_a_restart_too() {
        let dir = tempfile::tempdir().unwrap();
        let text = "tls: {cert: c, key: k}\ncontrol-plane: one\nunmatched: refuse\n";
        let mut file = file_in(&dir, text);
        fs::write(dir.path().join(FILE), "{}\n").unwrap();
        let Some(ConfigChange::Usable { restart, .. }) = file.look_now(true) else {
            panic!("unusable")
        };
        assert_eq!(restart, ["control-plane", "tls"]);
    }

    #[test]
    fn a_file_that_is_emptied_is_refused_and_one_with_an_empty_mapping_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = file_in(&dir, "unmatched: refuse\n");
        for text in ["", "# unmatched: refuse\n"] {
            fs::write(dir.path().join(FILE), text).unwrap();
            assert!(matches!(file.look_now(true), Some(ConfigChange::Unusable(_))), "{text:?}");
        }
        fs::write(dir.path().join(FILE), "{}\n").unwrap();
        assert!(matches!(file.look_now(true), Some(ConfigChange::Usable { .. })));
    }

    #[test]
    fn a_file_that_is_gone_is_gone_only_if_the_directory_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = file_in(&dir, "unmatched: refuse\n");
        fs::remove_file(dir.path().join(FILE)).unwrap();
        assert!(file.look_now(false).is_none());
        assert!((0..99).all(|_| file.look(false).is_none()));
        // Something else in the directory has changed beside it.
        assert!((0..99).all(|_| file.look_now(true).is_none()));
        assert!((0..10).all(|_| file.look(true).is_none() && file.look_now(true).is_none()));
        let Some(ConfigChange::Usable { config, .. }) = file.look(true) else { panic!("unusable") };
        assert_eq!(*config, Config::default());
    }
}
