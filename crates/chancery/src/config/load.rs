//! The configuration in force, from the file, the environment and the flags.
//!
//! A flag counts more than the environment, and both count more than the file. Not here: the keys
//! (`config`), the flags (`flags`), and the file while the server runs (`file`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use chancery_proto::syntax;

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
        /// The error of the operating system.
        source: io::Error,
    },
    /// The content of the file has a fault.
    #[error("{0}")]
    Broken(Box<Finding>),
}

impl InvalidConfig {
    /// The error as a finding, for logs and for `/config`.
    pub(crate) fn finding(&self) -> Finding {
        match self {
            Self::Broken(finding) => (**finding).clone(),
            Self::Unreadable { path, source } => {
                Finding::of_file(path, format!("cannot be read: {source}"))
            }
        }
    }
}

/// The configuration in force: defaults, then `chancery.yaml` if there is one, then the
/// environment, then the flags (the last two come together, from the command line's definition).
///
/// # Errors
/// Returns an error if the file cannot be read, or has a fault.
pub(crate) fn effective(flags: &ServeFlags) -> Result<Config, InvalidConfig> {
    let mut config = from_file(&flags.dir)?;
    override_by(&mut config, flags);
    Ok(config)
}

/// The keys that differ between the two and take effect only after a restart.
pub(crate) fn restart_needed(old: &Config, new: &Config) -> Vec<String> {
    let (old, new) = (keys(old), keys(new));
    let differs = |key: &&String| old.get(*key) != new.get(*key);
    new.keys().filter(|key| !LIVE.contains(&key.as_str())).filter(differs).cloned().collect()
}

fn from_file(dir: &Path) -> Result<Config, InvalidConfig> {
    let path = dir.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Config::default()),
        Err(source) => return Err(InvalidConfig::Unreadable { path, source }),
    };
    match syntax::from_yaml::<Config>(&text) {
        Ok(config) => Ok(resolved(config, dir)),
        Err(fault) => {
            Err(InvalidConfig::Broken(Box::new(Finding::of_config(&path, &fault, &text))))
        }
    }
}

/// Makes relative paths of the file start at the directory of the file, not at the one where the
/// server was started.
fn resolved(mut config: Config, dir: &Path) -> Config {
    if let Some(tls) = &mut config.tls {
        tls.cert = dir.join(&tls.cert);
        tls.key = dir.join(&tls.key);
        tls.client_ca = tls.client_ca.as_ref().map(|path| dir.join(path));
        tls.client_crl = tls.client_crl.iter().map(|path| dir.join(path)).collect();
    }
    for path in &mut config.descriptor_sets {
        *path = dir.join(&path);
    }
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
    config.unix_mode = flags.unix_mode.unwrap_or(config.unix_mode);
    if !flags.admin_hosts.is_empty() {
        config.admin_hosts.clone_from(&flags.admin_hosts);
    }
    config.admin = flags.admin.unwrap_or(config.admin);
    config.enable_v2 = flags.enable_v2.unwrap_or(config.enable_v2);
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
            serde_json::Value::Object(inner) if key == "limits" || key == "log" => {
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

/// The keys that take effect while the server runs.
const LIVE: [&str; 3] = ["groups", "unmatched", "anonymous"];

#[cfg(test)]
mod tests {
    use super::*;
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
        assert_eq!(effective(&dir_with("# nothing\n").1).unwrap(), Config::default());
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
        let all = Config { tls: None, control_plane: Some(String::new()), ..Config::default() };
        for key in keys(&all).keys() {
            let (_, below) = key.split_once('.').unwrap_or(("", key));
            assert!(text.contains(&format!("`{below}`")), "{key}");
        }
    }
}
