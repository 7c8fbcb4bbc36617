//! The content of the files of a provider, read part by part: a part that cannot be read stays as it was.

use std::path::Path;
use std::sync::Arc;

use chancery_tls::TlsError;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::sign::CertifiedKey;

use super::files::{Authorities, Files};
use super::spiffe::Bundles;
use super::trust::Trust;
use crate::read::quoted;

/// The material of a provider: `None` is what it has no file for. An error is a part that could never be read.
#[derive(Clone, Debug, Default)]
pub(super) struct Material {
    pub(super) identity: Option<Result<Arc<CertifiedKey>, Arc<str>>>,
    pub(super) trust: Option<Result<Trust, Arc<str>>>,
}

/// Material with the parts that were not replaced.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) material: Material,
    /// The reasons why parts could not be read.
    pub(super) faults: Vec<Arc<str>>,
}

/// Reads the files. A certificate that does not belong to the key is not used, so that one that is replaced
/// before its key does no harm (C-124).
pub(super) fn read(files: &Files, before: Material) -> Reading {
    let mut faults = Vec::new();
    let identity = files.identity.as_ref().map(|(certificate, key)| {
        let identity = chancery_tls::identity(certificate, key).map_err(text);
        kept(identity, before.identity, &mut faults, |one, other| one.cert == other.cert)
    });
    let trust = match (&files.bundles, &files.authorities) {
        (Some(path), _) => Some(bundles(path).map(Trust::Bundles)),
        (None, Some(place)) => {
            let authorities = match place {
                Authorities::File(path) => chancery_tls::authorities(path),
                Authorities::System => chancery_tls::system_authorities(),
            };
            Some(authorities.map_err(text).map(Trust::Authorities))
        }
        (None, None) => None,
    };
    let trust = trust.map(|trust| kept(trust, before.trust, &mut faults, Trust::is_same));
    Reading { material: Material { identity, trust }, faults }
}

/// Returns the part that was read, or the one from before if it could not be read, or is the same.
fn kept<T>(
    read: Result<T, Arc<str>>,
    before: Option<Result<T, Arc<str>>>,
    faults: &mut Vec<Arc<str>>,
    is_same: impl Fn(&T, &T) -> bool,
) -> Result<T, Arc<str>> {
    match (read, before) {
        (Ok(read), Some(Ok(before))) if is_same(&read, &before) => Ok(before),
        (Ok(read), _) => Ok(read),
        (Err(why), before) => {
            faults.push(Arc::clone(&why));
            before.and_then(Result::ok).ok_or(why)
        }
    }
}

fn bundles(path: &Path) -> Result<Arc<Bundles>, Arc<str>> {
    let text = chancery_files::read(path, MAX_BUNDLE_BYTES).map_err(|error| error.to_string());
    let bundles = text.and_then(|text| Bundles::read(&text));
    bundles
        .map(Arc::new)
        .map_err(|why| Arc::from(format!("`{}`: {why}", quoted(&path.to_string_lossy()))))
}

/// Returns the authorities of these certificates, each of which has to be usable.
pub(super) fn store(
    certificates: impl IntoIterator<Item = Vec<u8>>,
) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for certificate in certificates {
        store.add(certificate.into()).map_err(|error| error.to_string())?;
    }
    Ok(store)
}

fn text(error: TlsError) -> Arc<str> {
    error.with_cause().into()
}

/// The limit for a file of bundles, which have a certificate of some kilobytes for each authority.
const MAX_BUNDLE_BYTES: u64 = 16 << 20;
