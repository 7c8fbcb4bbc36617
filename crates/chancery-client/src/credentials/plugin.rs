//! Credentials of the program's own: `google_default`, or those of a mesh (C-003).
//!
//! A plugin is registered under a type, and made of the configuration that a bootstrap has for it;
//! that may be secret, so output shows a hash of it at most. Not here: the credentials that are
//! built in (`tls`, `token`), and when a plugin is asked (`live`).

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use chancery_core::Value;
use http::HeaderMap;
use tokio_rustls::rustls::ClientConfig;

/// The answer of a plugin.
pub type PluginFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, Box<dyn Error + Send + Sync>>> + Send + 'a>>;

/// Channel credentials of the program's own. They are always secure: the connection uses TLS.
pub trait ChannelPlugin: Send + Sync {
    /// Returns the TLS configuration of the next connection. Its ALPN protocols are replaced.
    fn tls(&self) -> PluginFuture<'_, Arc<ClientConfig>>;

    /// Returns the headers of the next stream. By default there are none.
    fn metadata(&self, now: SystemTime) -> PluginFuture<'_, HeaderMap> {
        let _ = now;
        Box::pin(async { Ok(HeaderMap::new()) })
    }
}

/// Call credentials of the program's own.
pub trait CallPlugin: Send + Sync {
    /// Returns the headers of the next stream. It is not called for an insecure connection.
    fn metadata(&self, now: SystemTime) -> PluginFuture<'_, HeaderMap>;
}

/// A plugin with the configuration of one server. Two are the same if their types and
/// configurations are.
pub struct PluginCredentials<P: ?Sized> {
    kind: Arc<str>,
    config: Arc<Value>,
    plugin: Arc<P>,
}

impl<P: ?Sized> PluginCredentials<P> {
    /// Makes credentials of this type, with the plugin that this configuration made.
    pub fn new(kind: &str, config: Value, plugin: Arc<P>) -> Self {
        Self { kind: kind.into(), config: Arc::new(config), plugin }
    }

    /// Returns the type, as bootstraps write it.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    pub(super) fn plugin(&self) -> &P {
        &self.plugin
    }
}

impl<P: ?Sized> Clone for PluginCredentials<P> {
    fn clone(&self) -> Self {
        Self {
            kind: Arc::clone(&self.kind),
            config: Arc::clone(&self.config),
            plugin: Arc::clone(&self.plugin),
        }
    }
}

impl<P: ?Sized> PartialEq for PluginCredentials<P> {
    fn eq(&self, other: &Self) -> bool {
        (&self.kind, &self.config) == (&other.kind, &other.config)
    }
}

/// The configuration may be secret.
impl<P: ?Sized> fmt::Debug for PluginCredentials<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginCredentials").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// The type and a hash of the configuration, which may be secret.
impl<P: ?Sized> fmt::Display for PluginCredentials<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hasher = DefaultHasher::new();
        format!("{:?}", self.config).hash(&mut hasher);
        write!(f, "{} #{:016x}", self.kind, hasher.finish())
    }
}

/// The types of credentials that a bootstrap may name beyond the built-in ones.
///
/// ```
/// use std::sync::Arc;
/// use std::time::SystemTime;
///
/// use chancery_client::bootstrap::{BootstrapReader, XdsServer};
/// use chancery_client::credentials::{CallPlugin, PluginFuture, Plugins};
/// use http::HeaderMap;
///
/// struct ApiKey(http::HeaderValue);
///
/// impl CallPlugin for ApiKey {
///     fn metadata(&self, _: SystemTime) -> PluginFuture<'_, HeaderMap> {
///         let headers = [(http::HeaderName::from_static("x-api-key"), self.0.clone())];
///         Box::pin(async { Ok(headers.into_iter().collect()) })
///     }
/// }
///
/// let mut plugins = Plugins::default();
/// plugins.call("api_key", |_config| Ok(Arc::new(ApiKey("secret".parse()?))));
/// let reader = BootstrapReader { plugins, ..BootstrapReader::default() };
/// let server = reader.server(
///     r#"{
///         "server_uri": "xds.example.com:443",
///         "channel_creds": [{"type": "tls"}],
///         "call_creds": [{"type": "api_key"}]
///     }"#,
/// )?;
/// assert_eq!(server.calls.len(), 1);
/// # Ok::<_, chancery_client::BootstrapError>(())
/// ```
#[derive(Clone, Default)]
pub struct Plugins {
    channels: BTreeMap<String, Make<dyn ChannelPlugin>>,
    calls: BTreeMap<String, Make<dyn CallPlugin>>,
}

/// Makes a plugin of a configuration, or returns the fault of the configuration.
type Make<P> = Arc<dyn Fn(&Value) -> Result<Arc<P>, Box<dyn Error + Send + Sync>> + Send + Sync>;

impl Plugins {
    /// Registers a type of channel credentials. An error of `make` is a fault of the bootstrap.
    pub fn channel<F>(&mut self, kind: &str, make: F)
    where
        F: Fn(&Value) -> Result<Arc<dyn ChannelPlugin>, Box<dyn Error + Send + Sync>>,
        F: Send + Sync + 'static,
    {
        self.channels.insert(kind.to_owned(), Arc::new(make));
    }

    /// Registers a type of call credentials. An error of `make` is a fault of the bootstrap.
    pub fn call<F>(&mut self, kind: &str, make: F)
    where
        F: Fn(&Value) -> Result<Arc<dyn CallPlugin>, Box<dyn Error + Send + Sync>>,
        F: Send + Sync + 'static,
    {
        self.calls.insert(kind.to_owned(), Arc::new(make));
    }

    /// Makes channel credentials of a type; `None` if the type is not registered.
    pub(crate) fn find_channel(
        &self,
        kind: &str,
        config: &Value,
    ) -> Option<Result<PluginCredentials<dyn ChannelPlugin>, String>> {
        self.channels.get(kind).map(|make| plug(kind, config, make))
    }

    /// Makes call credentials of a type; `None` if the type is not registered.
    pub(crate) fn find_call(
        &self,
        kind: &str,
        config: &Value,
    ) -> Option<Result<PluginCredentials<dyn CallPlugin>, String>> {
        self.calls.get(kind).map(|make| plug(kind, config, make))
    }

    /// Returns the types of channel credentials that are registered.
    pub(crate) fn channels(&self) -> impl Iterator<Item = &str> {
        self.channels.keys().map(String::as_str)
    }
}

fn plug<P: ?Sized>(
    kind: &str,
    config: &Value,
    make: &Make<P>,
) -> Result<PluginCredentials<P>, String> {
    match make(config) {
        Ok(plugin) => Ok(PluginCredentials::new(kind, config.clone(), plugin)),
        Err(error) => Err(error.to_string()),
    }
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugins")
            .field("channels", &self.channels.keys())
            .field("calls", &self.calls.keys())
            .finish()
    }
}
