//! The configuration in force, from the file, the environment and the flags.
//!
//! A flag counts more than the environment, and both count more than the file. Not here: the keys
//! (`config`), the flags (`flags`), and the file while the server runs (`file`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chancery_files::{OpenFile, ReadError};
use chancery_proto::syntax::{self, Fault};

use super::{Config, ServeFlags, TlsTable};
use crate::finding::Finding;

/// The name of the file, at the top of the directory.
pub(crate) const FILE: &str = "chancery.yaml";

/// The error for a configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidConfig {
    /// The file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        source: Arc<ReadError>,
    },
    /// The content of the file has a fault.
    #[error("{0}")]
    Broken(Box<Finding>),
}

/// The content of the file at one look.
#[derive(Clone, Debug)]
pub(crate) enum FileContent {
    /// There is no file.
    Missing,
    /// The file was read.
    Text {
        /// The text.
        text: String,
        /// The path without symlinks of the file that was read, if the system tells it.
        real_path: Option<PathBuf>,
    },
    /// The file cannot be read.
    Unreadable(Arc<ReadError>),
}

impl FileContent {
    /// Looks at the file of this directory. A symlink that leads nowhere is no missing file: without
    /// the file, everything would have its default.
    pub(crate) fn read(dir: &Path) -> Self {
        let path = dir.join(FILE);
        let read = OpenFile::open(&path).and_then(|file| {
            let real_path = file.real_path(&path);
            Ok(Self::Text { text: file.read_to_string(MAX_BYTES)?, real_path })
        });
        match read {
            Ok(text) => text,
            Err(error) if error.is_not_found() && is_absent(&fs::symlink_metadata(path)) => {
                Self::Missing
            }
            Err(error) => Self::Unreadable(Arc::new(error)),
        }
    }

    /// The text of the file, if it was read.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            Self::Missing | Self::Unreadable(_) => None,
        }
    }

    /// A text that the file had, and that nobody looks for in it any more.
    pub(crate) fn of_before(text: String) -> Self {
        Self::Text { text, real_path: None }
    }

    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }
}

/// The same text is the same content, wherever it was read.
impl PartialEq for FileContent {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Missing, Self::Missing) => true,
            (Self::Text { text: one, .. }, Self::Text { text: other, .. }) => one == other,
            (Self::Unreadable(one), Self::Unreadable(other)) => {
                one.to_string() == other.to_string()
            }
            _ => false,
        }
    }
}

impl InvalidConfig {
    /// The error as a finding, for logs and for `/api/v1/config`.
    pub(crate) fn finding(&self) -> Finding {
        match self {
            Self::Broken(finding) => (**finding).clone(),
            Self::Unreadable { path, source } => match &**source {
                ReadError::Io(error) => Finding::of_file(path, format!("cannot be read: {error}")),
                other => Finding::of_file(path, other.to_string()),
            },
        }
    }
}

/// The configuration in force: defaults, then `chancery.yaml` with this content, then the
/// environment, then the flags (the last two come together, from the command line's definition).
///
/// # Errors
/// Returns an error if the file could not be read, or has a fault.
pub(crate) fn parsed(flags: &ServeFlags, content: &FileContent) -> Result<Config, InvalidConfig> {
    let mut config = from_file(&flags.dir, content)?;
    override_by(&mut config, flags);
    Ok(config)
}

/// The keys that differ between the two and take effect only after a restart.
pub(crate) fn restart_needed(old: &Config, new: &Config) -> Vec<String> {
    let (old, new) = (keys(old), keys(new));
    // A table or key that was removed is a difference too.
    let all: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let differ = all.into_iter().filter(|key| old.get(*key) != new.get(*key));
    let is_live = |key: &str| LIVE.contains(&key.split_once('.').map_or(key, |(table, _)| table));
    differ.filter(|key| !is_live(key)).cloned().collect()
}

fn from_file(dir: &Path, content: &FileContent) -> Result<Config, InvalidConfig> {
    let path = dir.join(FILE);
    let (text, real_path) = match content {
        FileContent::Text { text, real_path } => (text, real_path.as_deref()),
        FileContent::Missing => return Ok(Config::default()),
        FileContent::Unreadable(source) => {
            return Err(InvalidConfig::Unreadable { path, source: Arc::clone(source) });
        }
    };
    match syntax::from_yaml::<Config>(text) {
        Ok(config) => Ok(resolved(config, dir)),
        Err(fault) => {
            let finding = match lies_in(dir, real_path) {
                true => Finding::of_config(&path, &fault, text),
                false => foreign(&path, &fault),
            };
            Err(InvalidConfig::Broken(Box::new(finding)))
        }
    }
}

/// Returns true if it is known that there is nothing. Another error says nothing about that.
fn is_absent(found: &io::Result<Metadata>) -> bool {
    found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// The finding for a fault in a file outside of the directory, of which nothing is quoted: a symlink
/// may lead to one that the operator of the directory cannot read.
fn foreign(path: &Path, fault: &Fault) -> Finding {
    let message = "is no configuration of the server; it lies outside of the directory, so nothing \
                   of it is shown";
    let place = Fault { position: fault.position, confidential: true, ..Fault::new(message) };
    Finding::of_config(path, &place, "")
}

/// Returns true if the file that was read lies in the directory.
fn lies_in(dir: &Path, real_path: Option<&Path>) -> bool {
    let dir = fs::canonicalize(dir);
    real_path.zip(dir.ok()).is_some_and(|(real, dir)| real.starts_with(dir))
}

/// Makes relative paths of the file start at the directory of the file, not at the one where the
/// server was started.
fn resolved(mut config: Config, dir: &Path) -> Config {
    for tls in [&mut config.tls, &mut config.admin_tls].into_iter().flatten() {
        tls.cert = dir.join(&tls.cert);
        tls.key = dir.join(&tls.key);
        tls.client_ca = tls.client_ca.as_ref().map(|path| dir.join(path));
        tls.client_crl = tls.client_crl.iter().map(|path| dir.join(path)).collect();
    }
    for path in &mut config.descriptor_sets {
        *path = dir.join(&path);
    }
    config.state = config.state.map(|state| dir.join(state));
    config.admin_tokens = config.admin_tokens.map(|tokens| dir.join(tokens));
    config
}

fn override_by(config: &mut Config, flags: &ServeFlags) {
    if !flags.listen.is_empty() {
        config.listen.clone_from(&flags.listen);
    }
    if !flags.descriptor_sets.is_empty() {
        config.descriptor_sets.clone_from(&flags.descriptor_sets);
    }
    if let (Some(cert), Some(key)) = (&flags.tls_cert, &flags.tls_key) {
        let (client_ca, client_crl) = (flags.tls_client_ca.clone(), flags.tls_client_crl.clone());
        let (cert, key) = (cert.clone(), key.clone());
        config.tls = Some(TlsTable { cert, key, client_ca, client_crl });
    }
    if let (Some(cert), Some(key)) = (&flags.admin_tls_cert, &flags.admin_tls_key) {
        let (client_ca, client_crl) = (flags.admin_tls_client_ca.clone(), Vec::new());
        let (cert, key) = (cert.clone(), key.clone());
        config.admin_tls = Some(TlsTable { cert, key, client_ca, client_crl });
    }
    config.admin_tokens = flags.admin_tokens.clone().or_else(|| config.admin_tokens.take());
    config.unix_mode = flags.unix_mode.unwrap_or(config.unix_mode);
    if !flags.admin_hosts.is_empty() {
        config.admin_hosts.clone_from(&flags.admin_hosts);
    }
    config.admin = flags.admin.unwrap_or(config.admin);
    config.enable_v2 = flags.enable_v2.unwrap_or(config.enable_v2);
    config.state = flags.state.clone().or_else(|| config.state.take());
    config.allow_partial = flags.allow_partial.unwrap_or(config.allow_partial);
    config.log.format = flags.log_format.unwrap_or(config.log.format);
    config.log.level = flags.level().unwrap_or(config.log.level);
}

/// The configuration as a flat map, as in `limits.max-names`.
fn keys(config: &Config) -> BTreeMap<String, serde_json::Value> {
    let mut flat = BTreeMap::new();
    let Ok(serde_json::Value::Object(top)) = serde_json::to_value(config) else { return flat };
    for (key, value) in top {
        match value {
            serde_json::Value::Object(inner) if TABLES.contains(&key.as_str()) => {
                flat.extend(
                    inner.into_iter().map(|(below, value)| (format!("{key}.{below}"), value)),
                );
            }
            value => {
                flat.insert(key, value);
            }
        }
    }
    flat
}

/// The limit for the file.
const MAX_BYTES: u64 = 16 << 20;

/// The tables whose keys are compared one by one.
const TABLES: [&str; 4] = ["gate", "limits", "log", "status"];

/// The keys that take effect while the server runs.
const LIVE: [&str; 8] =
    ["groups", "unmatched", "anonymous", "external", "clients", "allow", "gate", "load-reports"];

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn effective(flags: &ServeFlags) -> Result<Config, InvalidConfig> {
        parsed(flags, &FileContent::read(&flags.dir))
    }
    use crate::config::{AdminAddress, ListenAddress, LogLevel};

    fn dir_with(text: &str) -> (tempfile::TempDir, ServeFlags) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), text).unwrap();
        let flags = ServeFlags { dir: dir.path().to_owned(), ..ServeFlags::default() };
        (dir, flags)
    }

    fn fault(text: &str) -> String {
        let (dir, flags) = dir_with(text);
        let told = effective(&flags).unwrap_err().to_string();
        told.replace(&format!("{}/", dir.path().display()), "")
    }

    #[test]
    fn without_a_file_the_defaults_are_in_force() {
        let dir = tempfile::tempdir().unwrap();
        let flags = ServeFlags { dir: dir.path().to_owned(), ..ServeFlags::default() };
        assert_eq!(effective(&flags).unwrap(), Config::default());
        assert_eq!(effective(&dir_with("{}\n").1).unwrap(), Config::default());
    }

    #[test]
    fn a_file_that_says_nothing_does_not_stand_for_the_defaults() {
        for text in ["", " \n", "# unmatched: refuse\n", "---\n"] {
            assert!(fault(text).starts_with("chancery.yaml: the file says nothing"), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_regular_file_is_refused_by_its_kind() {
        let dir = tempfile::tempdir().unwrap();
        let flags = ServeFlags { dir: dir.path().to_owned(), ..ServeFlags::default() };
        let told = || effective(&flags).unwrap_err().finding().to_string();
        fs::create_dir(dir.path().join(FILE)).unwrap();
        assert!(
            told().ends_with("chancery.yaml: is a directory, not a regular file"),
            "{}",
            told()
        );
        fs::remove_dir(dir.path().join(FILE)).unwrap();
        symlink("/dev/zero", dir.path().join(FILE)).unwrap();
        assert!(told().ends_with("is a character device, not a regular file"), "{}", told());
        fs::remove_file(dir.path().join(FILE)).unwrap();
        symlink("gone", dir.path().join(FILE)).unwrap();
        assert!(told().contains("cannot be read: "), "{}", told());
    }

    #[test]
    fn nothing_is_quoted_from_a_file_outside_of_the_directory() {
        // S-138
        let elsewhere = tempfile::tempdir().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let flags = ServeFlags { dir: dir.path().to_owned(), ..ServeFlags::default() };
        let texts = ["root:$6$hash:19000:0:99999:7:::\n", "root:$6$hash\n", "unmatched: $6$hash\n"];
        for text in texts {
            fs::write(elsewhere.path().join("shadow"), text).unwrap();
            let link = dir.path().join(FILE);
            symlink(elsewhere.path().join("shadow"), &link).unwrap();
            let finding = effective(&flags).unwrap_err().finding();
            assert!(finding.to_string().contains("chancery.yaml:1:"), "{finding}");
            assert!(!format!("{finding:?}").contains("hash"), "{finding:?}");
            fs::remove_file(&link).unwrap();
            fs::copy(elsewhere.path().join("shadow"), &link).unwrap();
            assert!(effective(&flags).unwrap_err().finding().rendered().contains("hash"));
            fs::remove_file(&link).unwrap();
        }
    }

    #[test]
    fn a_link_that_leads_back_inside_does_not_make_a_foreign_file_shown() {
        // S-138
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (foreign, own) = (elsewhere.path().join("shadow"), dir.path().join("own"));
        fs::write(&foreign, "root:$6$hash\n").unwrap();
        fs::write(&own, "root: own\n").unwrap();
        let link = dir.path().join(FILE);
        symlink(&foreign, &link).unwrap();
        let flags = ServeFlags { dir: dir.path().to_owned(), ..ServeFlags::default() };
        let content = FileContent::read(dir.path());
        fs::remove_file(&link).unwrap();
        symlink(&own, &link).unwrap();
        let shown = parsed(&flags, &content).unwrap_err().finding();
        assert!(!format!("{shown:?}").contains("hash"), "{shown:?}");
        let shown = effective(&flags).unwrap_err().finding();
        assert!(shown.rendered().contains("root: own"), "{shown:?}");
    }

    #[test]
    fn a_file_that_cannot_be_looked_at_is_not_taken_for_missing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        assert!(is_absent(&fs::symlink_metadata(&path)));
        fs::write(&path, "").unwrap();
        assert!(!is_absent(&fs::symlink_metadata(&path)));
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::StaleNetworkFileHandle] {
            assert!(!is_absent(&Err(kind.into())), "{kind}");
        }
    }

    #[test]
    fn flags_override_the_file() {
        let (_dir, mut flags) =
            dir_with("listen: [\"127.0.0.1:1\"]\nadmin: \"off\"\nenable-v2: true\n");
        let listen = |text: &str| vec![text.parse::<ListenAddress>().unwrap()];
        assert_eq!(effective(&flags).unwrap().listen, listen("127.0.0.1:1"));
        flags.listen = listen("127.0.0.1:2");
        flags.enable_v2 = Some(false);
        flags.verbose = 1;
        let config = effective(&flags).unwrap();
        assert_eq!(config.listen, listen("127.0.0.1:2"));
        assert_eq!(config.admin, AdminAddress::Off);
        assert!(!config.enable_v2);
        assert_eq!(config.log.level, LogLevel::Debug);
    }

    #[test]
    fn one_address_needs_no_list() {
        let (_dir, flags) = dir_with("listen: unix:/run/xds.sock\nadmin: off\n");
        let config = effective(&flags).unwrap();
        assert_eq!(config.listen, [ListenAddress::Unix("/run/xds.sock".into())]);
        assert_eq!(config.admin, AdminAddress::Off);
        assert!(fault("listen: 18000\n").contains("expected an address, or a list of addresses"));
        let twice = fault("admin: off\nlisten: [\"127.0.0.1:1\", \"127.0.0.1:1\"]\n");
        assert_eq!(twice, "chancery.yaml:2:9: listen: `127.0.0.1:1` is given twice");
    }

    #[test]
    fn files_are_found_from_where_the_file_is() {
        let text = "tls: {cert: tls/cert.pem, key: /etc/key.pem}\ndescriptor-sets: [more.bin]\n";
        let (dir, flags) = dir_with(text);
        let config = effective(&flags).unwrap();
        let tls = config.tls.unwrap();
        assert_eq!(tls.cert, dir.path().join("tls/cert.pem"));
        assert_eq!(tls.key, Path::new("/etc/key.pem"));
        assert_eq!(config.descriptor_sets, [dir.path().join("more.bin")]);
    }

    /// A configuration that was read can be printed by `--print-config`, and read again.
    #[test]
    fn mutations_are_read_or_refused_and_what_is_read_is_the_same_when_it_is_read_again() {
        let corpus = [
            "listen: [\"127.0.0.1:1\", \"unix:/a\"]\nadmin: off\ntls: {cert: a, key: b, client-ca: c}\n",
            "groups:\n- name: edge\n  match:\n    id: [a, b-*]\n    user-agent-version: \">=1.36, <1.40\"\n    \
             metadata:\n      labels.team: pay\nunmatched: {group: edge}\nanonymous: refuse\nexternal: [x, y-*]\n",
            "limits:\n  ack-wait: 1h30m\n  max-names: 10\n  max-response-bytes: 4MiB\n  age-jitter: 0.5\n  \
             tcp-keepalive: never\n  wildcard-types: [eds]\nlog: {format: json, level: debug}\n",
            "gate:\n  loss: warn\n  loss-percent: 30\n  may-be-empty: [a, b-*]\n  pass-after: 1h\n",
            "ignore: [a/b, c]\nwatch: sweeps\ncontrol-plane: x\nsecrets-anywhere: true\n",
        ];
        for text in corpus {
            syntax::from_yaml::<Config>(text).unwrap();
        }
        let corpus = corpus.map(|text| text.as_bytes().to_vec());
        chancery_testkit::fuzz::fuzz("chancery", "config", &corpus, |input| {
            let text = String::from_utf8_lossy(input);
            match syntax::from_yaml::<Config>(&text) {
                Ok(config) => {
                    let printed = serde_json::to_string_pretty(&config).unwrap();
                    assert_eq!(syntax::from_yaml::<Config>(&printed).unwrap(), config);
                }
                Err(fault) => {
                    let finding = Finding::of_config(Path::new(FILE), &fault, &text);
                    assert!(!finding.to_string().is_empty());
                }
            }
        });
    }

    #[test]
    fn one_file_or_name_needs_no_list() {
        let text = "tls: {cert: c, key: k, client-ca: a, client-crl: crl.pem}\nadmin-hosts: xds\n\
                    unix-mode: \"0660\"\n";
        let (dir, flags) = dir_with(text);
        let config = effective(&flags).unwrap();
        assert_eq!(config.tls.unwrap().client_crl, [dir.path().join("crl.pem")]);
        assert_eq!(config.admin_hosts, ["xds"]);
        assert_eq!(config.unix_mode.to_string(), "0660");
        let (_dir, flags) = dir_with("admin-hosts: [a, b.example]\n");
        assert_eq!(effective(&flags).unwrap().admin_hosts, ["a", "b.example"]);
        assert!(fault("admin-hosts: 1\n").contains("expected a text, or a list of texts"));
        assert!(fault("unix-mode: rw\n").contains("octal digits"));
    }

    #[test]
    fn a_slip_is_pointed_at() {
        assert_eq!(
            fault("admin: \"off\"\nlisen: []\n"),
            "chancery.yaml:2:1: lisen: unknown key `lisen`"
        );
        assert_eq!(
            fault("limits:\n  grace: 30\n"),
            "chancery.yaml:2:10: limits.grace: `30` is no duration; write `500ms`, `15s`, `2m` or `1h30m`"
        );
        assert_eq!(
            fault("groups:\n- name: a\n  match: {id: x, ids: y}\n"),
            "chancery.yaml:3:18: groups[0].match.ids: unknown key `ids`"
        );
        assert_eq!(
            fault("unmatched: {groop: a}\n"),
            "chancery.yaml:1:13: unmatched: unknown value `groop`"
        );
    }

    #[test]
    fn a_table_of_another_kind_is_told_without_the_names_of_the_code() {
        let expected = "invalid type: integer `1`, expected a mapping";
        for (text, place) in [
            ("tls: 1\n", "1:6: tls"),
            ("log: 1\n", "1:6: log"),
            ("limits: 1\n", "1:9: limits"),
            ("groups: [1]\n", "1:10: groups[0]"),
            ("groups: [{name: a, match: 1}]\n", "1:27: groups[0].match"),
        ] {
            assert_eq!(fault(text), format!("chancery.yaml:{place}: {expected}"));
        }
        assert_eq!(fault("1\n"), format!("chancery.yaml:1:1: {expected}"));
    }

    #[test]
    fn what_is_printed_can_be_read_again() {
        let text =
            "groups:\n- name: a\n  match: {id: [x, y], metadata: {k: v}}\nunmatched: {group: a}\n";
        let (_dir, flags) = dir_with(text);
        let config = effective(&flags).unwrap();
        let printed = serde_json::to_string_pretty(&config).unwrap();
        assert_eq!(syntax::from_yaml::<Config>(&printed).unwrap(), config);
    }

    #[test]
    fn every_key_is_documented() {
        let text = include_str!("../../../../docs/configuration.md");
        let derived = serde_json::json!({
            "memory": "1MiB",
            "max-big-responses": 1,
            "max-file-bytes": 1,
            "max-directory-bytes": 1,
        });
        let limits = serde_json::from_value(derived).unwrap();
        let control_plane = Some(String::new());
        let all = Config { tls: None, control_plane, limits, ..Config::default() };
        for key in keys(&all).keys() {
            let (_, below) = key.split_once('.').unwrap_or(("", key));
            assert!(text.contains(&format!("`{below}`")), "{key}");
        }
    }
}
