//! The configuration of the plugin `file_watcher`: which files, and how often they are read. Not here: their
//! content.

use std::path::PathBuf;
use std::time::Duration;

use chancery_client::credentials::TlsFiles;
use chancery_core::Value;

use crate::read::quoted;

/// The files of a provider. Providers with the same files are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Files {
    /// `certificate_file` and `private_key_file`.
    pub(super) identity: Option<(PathBuf, PathBuf)>,
    /// `ca_certificate_file`, or those of the system. They do not count if there are bundles.
    pub(super) authorities: Option<Authorities>,
    /// `spiffe_trust_bundle_map_file` (gRFC A87).
    pub(super) bundles: Option<PathBuf>,
    /// `refresh_interval`: the time for which what was read is used without another look.
    pub(super) interval: Duration,
}

/// The place of authorities.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Authorities {
    /// A file in PEM.
    File(PathBuf),
    /// The place where the system has those that it trusts.
    System,
}

/// Returns the authorities of the system alone.
pub(super) fn of_system() -> Files {
    let (identity, bundles) = (None, None);
    Files { identity, authorities: Some(Authorities::System), bundles, interval: INTERVAL }
}

/// Returns the files of a client without a control plane.
pub(super) fn of_client(files: &TlsFiles) -> Files {
    let TlsFiles { ca, identity, refresh_interval } = files.clone();
    Files {
        identity: identity.map(|identity| (identity.cert, identity.key)),
        authorities: Some(ca.map_or(Authorities::System, Authorities::File)),
        bundles: None,
        interval: refresh_interval.min(LONGEST),
    }
}

/// Reads a configuration. Fields that are not known are ignored, as gRPC does.
pub(super) fn read(config: &Value) -> Result<Files, String> {
    let path = |key| Ok::<_, String>(text(config, key)?.map(PathBuf::from));
    let identity = match (path("certificate_file")?, path("private_key_file")?) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(_), None) => return Err("`config.private_key_file` is missing".to_owned()),
        (None, Some(_)) => return Err("`config.certificate_file` is missing".to_owned()),
    };
    let authorities = path("ca_certificate_file")?.map(Authorities::File);
    let bundles = path("spiffe_trust_bundle_map_file")?;
    if identity.is_none() && authorities.is_none() && bundles.is_none() {
        return Err("`config` names no file".to_owned());
    }
    let interval = text(config, "refresh_interval")?.map(interval).transpose()?;
    Ok(Files {
        identity,
        authorities,
        bundles,
        interval: interval.unwrap_or(INTERVAL).min(LONGEST),
    })
}

fn text<'a>(config: &'a Value, key: &str) -> Result<Option<&'a str>, String> {
    let value = match config {
        Value::Map(fields) => fields.get(key),
        Value::Null => None,
        _ => return Err("`config` is no object".to_owned()),
    };
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Text(text)) if !text.is_empty() => Ok(Some(text)),
        Some(_) => Err(format!("`config.{key}` is no text, or an empty one")),
    }
}

/// Reads a duration as protobuf writes it in JSON.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').and_then(|seconds| seconds.parse::<f64>().ok());
    let interval = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let text = quoted(text);
    interval.ok_or_else(|| format!("`config.refresh_interval` is no duration: `{text}`"))
}

/// The interval that gRPC has by default.
const INTERVAL: Duration = Duration::from_secs(600);
/// A longer interval is as good as none.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
