//! The places where a bootstrap is found (C-001).

use std::ffi::OsString;
use std::path::PathBuf;

use super::{Bootstrap, BootstrapError, BootstrapReader};

const FILE: &str = "GRPC_XDS_BOOTSTRAP";
const CONFIG: &str = "GRPC_XDS_BOOTSTRAP_CONFIG";
/// The limit for the file. A bootstrap has a few kilobytes.
const MAX_BYTES: u64 = 16 << 20;

impl BootstrapReader {
    /// Returns `given`. If there is none, it reads the file that `GRPC_XDS_BOOTSTRAP` names. If
    /// that is not set, it reads the JSON in `GRPC_XDS_BOOTSTRAP_CONFIG` (C-001).
    ///
    /// # Errors
    /// If there is none of the three, or if the one that was found cannot be used.
    pub fn discover(&self, given: Option<Bootstrap>) -> Result<Bootstrap, BootstrapError> {
        self.discover_in(given, |name| std::env::var_os(name))
    }

    /// The first place with a bootstrap counts: if that one is broken, the next place is not tried.
    fn discover_in(
        &self,
        given: Option<Bootstrap>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Bootstrap, BootstrapError> {
        // As everywhere in gRPC, a variable that is empty is not set.
        let variable = |name| variable(name).filter(|value| !value.is_empty());
        if let Some(given) = given {
            given.check()?;
            Ok(given)
        } else if let Some(path) = variable(FILE) {
            let path = PathBuf::from(path);
            let json = chancery_files::read_to_string(&path, MAX_BYTES).map_err(|error| {
                BootstrapError::Read { path: path.clone(), source: error.into() }
            })?;
            self.read(Some(path.display().to_string()), &json)
        } else if let Some(json) = variable(CONFIG) {
            // Text that is not UTF-8 is no JSON either, and is reported as such.
            self.read(Some(CONFIG.to_owned()), &json.to_string_lossy())
        } else {
            Err(BootstrapError::Missing)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(uri: &str) -> String {
        format!(
            r#"{{"xds_servers":[{{"server_uri":"{uri}","channel_creds":[{{"type":"insecure"}}]}}]}}"#
        )
    }

    /// Returns the URI of the bootstrap that is found.
    fn found(code: bool, file: Option<&str>, config: Option<&str>) -> String {
        let given = code.then(|| json("code").parse().unwrap());
        let variable = |name: &str| match name {
            FILE => file.map(OsString::from),
            CONFIG => config.map(OsString::from),
            _ => None,
        };
        match BootstrapReader::default().discover_in(given, variable) {
            Ok(bootstrap) => bootstrap.servers[0].uri.clone(),
            Err(error) => error.to_string(),
        }
    }

    /// C-001.
    #[test]
    fn code_beats_the_file_and_the_file_beats_inline_json() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bootstrap.json");
        std::fs::write(&path, json("file")).unwrap();
        let file = path.to_str();
        let inline = json("inline");
        for (file, config, expected) in [
            (file, Some(inline.as_str()), "file"),
            (file, None, "file"),
            (Some(""), Some(inline.as_str()), "inline"),
            (None, Some(inline.as_str()), "inline"),
        ] {
            assert_eq!(found(false, file, config), expected);
            assert_eq!(found(true, file, config), "code");
        }
        assert_eq!(found(true, None, None), "code");
        assert_eq!(found(true, None, Some("broken")), "code");
    }

    /// C-001.
    #[test]
    fn with_none_the_error_names_both_variables() {
        for (file, config) in [(None, None), (Some(""), Some(""))] {
            let error = found(false, file, config);
            assert!(error.contains("`GRPC_XDS_BOOTSTRAP`"), "{error}");
            assert!(error.contains("`GRPC_XDS_BOOTSTRAP_CONFIG`"), "{error}");
        }
    }

    #[test]
    fn what_is_found_and_broken_is_an_error_that_says_where() {
        let inline = json("inline");
        let error = found(false, Some("/nowhere/b.json"), Some(&inline));
        assert!(error.starts_with("cannot read the bootstrap `/nowhere/b.json`"), "{error}");
        let error = found(false, None, Some("{"));
        let start = "the bootstrap in `GRPC_XDS_BOOTSTRAP_CONFIG` is no JSON: ";
        assert!(error.starts_with(start) && error.contains("line 1"), "{error}");
        let error = found(false, None, Some("{}"));
        let start = "the bootstrap in `GRPC_XDS_BOOTSTRAP_CONFIG` cannot be used: `xds_servers` is";
        assert!(error.starts_with(start), "{error}");
    }

    #[test]
    fn one_that_is_built_in_code_is_checked_too() {
        let empty = BootstrapReader::default().discover_in(Some(Bootstrap::default()), |_| None);
        assert_eq!(empty.unwrap_err().faults()[0].path, "xds_servers");
    }
}
