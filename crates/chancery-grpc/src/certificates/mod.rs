//! The certificate providers of a bootstrap (`certificate_providers`): where the data plane has its
//! certificates, keys and authorities from, for connections to endpoints and for servers (C-124, gRFC A29).
//!
//! ```text
//!   Certificates --provider(instance)--> Provider --at each handshake--> Identity, Trust
//! ```
//!
//! A provider that cannot be used is an error of its own, which each handshake that needs it meets. Not here: the
//! handshakes, and the resources that say which provider is needed for what.

mod files;
mod reader;
mod refused;
mod spiffe;
mod trust;
mod watcher;

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use chancery_client::Bootstrap;
use chancery_client::bootstrap::CertificateProvider;
use chancery_client::credentials::TlsFiles;
use tokio_rustls::rustls::sign::CertifiedKey;

pub(crate) use self::refused::refused;
pub(crate) use self::trust::Trust;
use self::watcher::FileWatcher;
use crate::read::quoted;

/// The providers of one bootstrap. Those with the same files are shared in the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Certificates {
    instances: Arc<BTreeMap<String, Provider>>,
}

/// One provider. Two are the same if they have the same files, or fail for the same reason.
#[derive(Clone, Debug)]
pub(crate) struct Provider(Result<Arc<FileWatcher>, Arc<str>>);

/// The reason why a provider has nothing to provide: the fault of the bootstrap, or of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ProviderError(Arc<str>);

impl Certificates {
    /// Returns the providers of a bootstrap. It reads no file: that is done for the first handshake.
    pub(crate) fn new(bootstrap: &Bootstrap) -> Self {
        let providers = bootstrap.certificate_providers.iter();
        let instances =
            providers.map(|(name, provider)| (name.clone(), Provider::new(name, provider)));
        Self { instances: Arc::new(instances.collect()) }
    }

    /// Returns the provider of this name. One that the bootstrap does not have is a provider that fails.
    pub(crate) fn provider(&self, instance: &str) -> Provider {
        let missing = || {
            let instance = quoted(instance);
            let why = format!("`certificate_providers` of the bootstrap has no `{instance}`");
            Provider(Err(why.into()))
        };
        self.instances.get(instance).cloned().unwrap_or_else(missing)
    }
}

impl Provider {
    fn new(name: &str, provider: &CertificateProvider) -> Self {
        let named = |why: String| {
            let name = quoted(name);
            Arc::from(format!("`certificate_providers[\"{name}\"]` of the bootstrap: {why}"))
        };
        if provider.plugin != "file_watcher" {
            let plugin = quoted(&provider.plugin);
            let why = format!("the plugin `{plugin}` is not known, only `file_watcher`");
            return Self(Err(named(why)));
        }
        Self(files::read(&provider.config).map(FileWatcher::shared).map_err(named))
    }

    /// Returns the authorities of the system, which every bootstrap has (C-125).
    pub(crate) fn of_system() -> Self {
        Self(Ok(FileWatcher::shared(files::of_system())))
    }

    /// Returns the files of a client without a control plane, with the authorities of the system if it names none.
    pub(crate) fn of_client(files: &TlsFiles) -> Self {
        Self(Ok(FileWatcher::shared(files::of_client(files))))
    }

    /// Returns the certificate with its key, as they are now. The value is the same one while the certificate
    /// stays, so that what was made of it can be kept. It reads files at most once in the refresh interval.
    ///
    /// # Errors
    /// If the provider has no certificate, or none could be read yet.
    pub(crate) async fn identity(&self) -> Result<Arc<CertifiedKey>, ProviderError> {
        let material = self.watcher()?.material().await;
        let identity = material.identity.unwrap_or_else(|| {
            Err("the provider has no `certificate_file`, and a certificate is needed".into())
        });
        identity.map_err(ProviderError)
    }

    /// Returns the authorities that are trusted, as they are now, by the same rules.
    ///
    /// # Errors
    /// If the provider has no authorities, or none could be read yet.
    pub(crate) async fn trust(&self) -> Result<Trust, ProviderError> {
        let material = self.watcher()?.material().await;
        let trust = material.trust.unwrap_or_else(|| {
            Err("the provider has no `ca_certificate_file`, and authorities are needed".into())
        });
        trust.map_err(ProviderError)
    }

    fn watcher(&self) -> Result<&Arc<FileWatcher>, ProviderError> {
        self.0.as_ref().map_err(|why| ProviderError(Arc::clone(why)))
    }
}

impl PartialEq for Provider {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Ok(one), Ok(other)) => Arc::ptr_eq(one, other),
            (Err(one), Err(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for Provider {}

impl Hash for Provider {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Ok(watcher) => Arc::as_ptr(watcher).hash(state),
            Err(why) => why.hash(state),
        }
    }
}

#[cfg(test)]
mod tests;
