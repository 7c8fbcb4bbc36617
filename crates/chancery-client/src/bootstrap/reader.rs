//! Reads bootstraps from JSON, and single servers where others name them.
//!
//! All faults are reported at once, each with its path. Unknown things are ignored: fields (C-004),
//! types of credentials (C-003, C-009), features of servers (C-005), plugins (C-010), and all that
//! belongs to a switch that is off (C-015).

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_core::client::{Fallback, ServerFeatures, Template};
use chancery_core::{Locality, Node, Value};

use super::json::JsonField;
use super::{Authority, Bootstrap, BootstrapError, CertificateProvider, Fault, XdsServer};
use crate::credentials::{CallCredentials, ChannelCredentials, Identity, Plugins, TlsFiles};

/// Reads bootstraps, as these switches say.
///
/// ```
/// use chancery_client::bootstrap::BootstrapReader;
///
/// let reader = BootstrapReader { call_creds: false, ..BootstrapReader::default() };
/// let server = reader.server(
///     r#"{
///         "server_uri": "xds.example.com:443",
///         "channel_creds": [{"type": "tls"}],
///         "call_creds": "not looked at"
///     }"#,
/// )?;
/// assert!(server.calls.is_empty());
/// # Ok::<_, chancery_client::BootstrapError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BootstrapReader {
    /// True if `call_creds` are read and used. By default they are.
    pub call_creds: bool,
    /// True if `fallback_on_reachability_only` is read and obeyed. By default it is not, because it
    /// is still a proposal (gRFC A95).
    pub fallback_on_reachability_only: bool,
    /// The types of credentials that are known beyond the built-in ones. By default there are none.
    pub plugins: Plugins,
}

impl Default for BootstrapReader {
    fn default() -> Self {
        Self { call_creds: true, fallback_on_reachability_only: false, plugins: Plugins::default() }
    }
}

impl BootstrapReader {
    /// Reads a bootstrap.
    ///
    /// # Errors
    /// If it is no JSON, or no client can work with it.
    pub fn bootstrap(&self, json: &str) -> Result<Bootstrap, BootstrapError> {
        self.read(None, json)
    }

    /// Reads one server, as a load-balancing policy names the one to report to (C-014).
    ///
    /// # Errors
    /// If it is no JSON, or no client could ask such a server.
    pub fn server(&self, json: &str) -> Result<XdsServer, BootstrapError> {
        let document = parse(None, json)?;
        let mut faults = Vec::new();
        let server = self.xds_server(&JsonField::root(&document), &mut faults);
        if server.uri.is_empty() {
            add(&mut faults, Fault::new("server_uri", "is missing or empty; say where it is"));
        }
        BootstrapError::unless_empty(None, faults).map(|()| server)
    }

    pub(super) fn read(
        &self,
        origin: Option<String>,
        json: &str,
    ) -> Result<Bootstrap, BootstrapError> {
        let document = parse(origin.as_deref(), json)?;
        let root = JsonField::root(&document);
        let mut faults = Vec::new();
        if !root.is_object(&mut faults) {
            return Err(BootstrapError::Invalid { origin, faults });
        }
        let bootstrap = self.read_bootstrap(&root, &mut faults);
        for fault in bootstrap.faults() {
            add(&mut faults, fault);
        }
        BootstrapError::unless_empty(origin, faults).map(|()| bootstrap)
    }

    fn read_bootstrap(&self, root: &JsonField<'_>, faults: &mut Vec<Fault>) -> Bootstrap {
        let client = template(root, "client_default_listener_resource_name_template", faults);
        let server = template(root, "server_listener_resource_name_template", faults);
        Bootstrap {
            servers: self.xds_servers(root, faults),
            node: root.object("node", faults).map(|it| node(&it, faults)).unwrap_or_default(),
            states_user_agent: false,
            authorities: self.authorities(root, faults),
            client_template: client.unwrap_or_default(),
            server_template: server,
            certificate_providers: certificate_providers(root, faults),
        }
    }

    fn authorities(
        &self,
        root: &JsonField<'_>,
        faults: &mut Vec<Fault>,
    ) -> BTreeMap<Arc<str>, Authority> {
        let mut authorities = BTreeMap::new();
        for (name, entry) in root.entries("authorities", faults) {
            if !entry.is_object(faults) {
                continue;
            }
            let template = template(&entry, "client_listener_resource_name_template", faults);
            let reachability = self.fallback_on_reachability_only
                && entry.switch("fallback_on_reachability_only", faults);
            let authority = Authority {
                servers: self.xds_servers(&entry, faults),
                client_template: template,
                fallback: if reachability { Fallback::Reachability } else { Fallback::Needed },
            };
            authorities.insert(Arc::from(name), authority);
        }
        authorities
    }

    /// Reads a list of servers. A server with faults keeps its place, so that later faults name the
    /// right one.
    fn xds_servers(&self, parent: &JsonField<'_>, faults: &mut Vec<Fault>) -> Vec<XdsServer> {
        let list = parent.list("xds_servers", faults);
        list.iter().map(|server| self.xds_server(server, faults)).collect()
    }

    fn xds_server(&self, server: &JsonField<'_>, faults: &mut Vec<Fault>) -> XdsServer {
        if !server.is_object(faults) {
            return XdsServer::default();
        }
        XdsServer {
            uri: server.text("server_uri", faults).unwrap_or_default().to_owned(),
            channel: self.channel(server, faults).unwrap_or_default(),
            calls: if self.call_creds { self.calls(server, faults) } else { Vec::new() },
            features: features(server, faults),
        }
    }

    /// Returns the first credentials of a known type; the entries after it are ignored (C-003).
    fn channel(
        &self,
        server: &JsonField<'_>,
        faults: &mut Vec<Fault>,
    ) -> Option<ChannelCredentials> {
        let before = faults.len();
        let mut unknown = Vec::new();
        for entry in server.list("channel_creds", faults) {
            let Some((kind, config)) = credential(&entry, faults) else { continue };
            match (kind, self.plugins.find_channel(kind, &value(config.as_ref()))) {
                ("insecure", _) => return Some(ChannelCredentials::Insecure),
                ("tls", _) => {
                    return Some(ChannelCredentials::Tls(tls_files(config.as_ref(), faults)));
                }
                (_, Some(Ok(plugged))) => {
                    return Some(ChannelCredentials::Plugin(plugged));
                }
                (_, Some(Err(problem))) => {
                    faults.push(entry.fault("config", format!("cannot be used: {problem}")));
                    return None;
                }
                (kind, None) => unknown.push(kind),
            }
        }
        if faults.len() == before {
            faults.push(server.fault("channel_creds", self.no_channel(&unknown)));
        }
        None
    }

    fn no_channel(&self, unknown: &[&str]) -> String {
        let list = |kinds: &[&str]| format!("`{}`", kinds.join("`, `"));
        let known: Vec<_> =
            ["insecure", "tls"].into_iter().chain(self.plugins.channels()).collect();
        match unknown {
            [] => format!("is missing or empty; known are {}", list(&known)),
            _ => {
                format!("has no known type, only {}; known are {}", list(unknown), list(&known))
            }
        }
    }

    /// Returns the credentials of all known types (C-009).
    fn calls(&self, server: &JsonField<'_>, faults: &mut Vec<Fault>) -> Vec<CallCredentials> {
        let entries = server.list("call_creds", faults);
        entries.iter().filter_map(|entry| self.call(entry, faults)).collect()
    }

    fn call(&self, entry: &JsonField<'_>, faults: &mut Vec<Fault>) -> Option<CallCredentials> {
        let (kind, config) = credential(entry, faults)?;
        if kind == "jwt_token_file" {
            let config = config.filter(|config| config.is_object(faults));
            let path = config.and_then(|config| config.filled_text("jwt_token_file", faults));
            if path.is_none() {
                add(faults, entry.fault("config.jwt_token_file", "is missing"));
            }
            return path.map(|path| CallCredentials::JwtTokenFile(path.into()));
        }
        match self.plugins.find_call(kind, &value(config.as_ref()))? {
            Ok(plugged) => Some(CallCredentials::Plugin(plugged)),
            Err(problem) => {
                faults.push(entry.fault("config", format!("cannot be used: {problem}")));
                None
            }
        }
    }
}

/// Returns a configuration; `Null` if there is none.
fn value(config: Option<&JsonField<'_>>) -> Value {
    config.map_or(Value::Null, JsonField::value)
}

/// Reads a template. As in other clients, an empty one is none.
fn template(parent: &JsonField<'_>, key: &str, faults: &mut Vec<Fault>) -> Option<Template> {
    parent.text(key, faults).filter(|text| !text.is_empty()).map(Template::new)
}

/// Returns the type of a credential and its config.
fn credential<'a>(
    entry: &JsonField<'a>,
    faults: &mut Vec<Fault>,
) -> Option<(&'a str, Option<JsonField<'a>>)> {
    if !entry.is_object(faults) {
        return None;
    }
    let before = faults.len();
    let Some(kind) = entry.filled_text("type", faults) else {
        if faults.len() == before {
            faults.push(entry.fault("type", "is missing"));
        }
        return None;
    };
    Some((kind, entry.field("config")))
}

/// Reads the config of `tls` credentials, which is that of the `file_watcher` plugin too (gRFC
/// A65).
fn tls_files(config: Option<&JsonField<'_>>, faults: &mut Vec<Fault>) -> TlsFiles {
    let mut files = TlsFiles::default();
    let Some(config) = config.filter(|config| config.is_object(faults)) else { return files };
    files.ca = config.filled_text("ca_certificate_file", faults).map(Into::into);
    let cert = config.filled_text("certificate_file", faults);
    let key = config.filled_text("private_key_file", faults);
    files.identity = match (cert, key) {
        (Some(cert), Some(key)) => Some(Identity { cert: cert.into(), key: key.into() }),
        (None, None) => None,
        (Some(_), None) => {
            add(faults, config.fault("private_key_file", "is missing, and there is a certificate"));
            None
        }
        (None, Some(_)) => {
            add(faults, config.fault("certificate_file", "is missing, and there is a private key"));
            None
        }
    };
    if let Some(interval) = config.duration("refresh_interval", faults) {
        files.refresh_interval = interval;
    }
    files
}

/// Reads the features that are known, and ignores the others (C-005).
///
/// `xds_v3` and `ignore_resource_deletion` have no effect: the client always speaks v3, and always
/// does what the second asks for (C-070).
fn features(server: &JsonField<'_>, faults: &mut Vec<Fault>) -> ServerFeatures {
    let mut features = ServerFeatures::default();
    for feature in server.list("server_features", faults) {
        match feature.as_text() {
            Some("fail_on_data_errors") => features.fail_on_data_errors = true,
            Some("resource_timer_is_transient_error") => {
                features.resource_timer_is_transient_error = true;
            }
            Some("trusted_xds_server") => features.trusted = true,
            Some(_) | None => {}
        }
    }
    features
}

/// Reads the node, without the fields about the software: the client fills those in (C-006).
fn node(node: &JsonField<'_>, faults: &mut Vec<Fault>) -> Node {
    let mut text = |key| node.text(key, faults).unwrap_or_default().to_owned();
    let (id, cluster) = (text("id"), text("cluster"));
    let locality = node.object("locality", faults);
    let mut part = |key| {
        let text = locality.as_ref().and_then(|locality| locality.text(key, faults));
        text.unwrap_or_default().to_owned()
    };
    let locality =
        Locality { region: part("region"), zone: part("zone"), sub_zone: part("sub_zone") };
    let metadata = node.entries("metadata", faults);
    let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), value.value()));
    Node { id, cluster, locality, metadata: Arc::new(metadata.collect()), ..Node::default() }
}

/// Reads certificate providers. The configuration of a known plugin has to be right; any other is
/// kept (C-010).
fn certificate_providers(
    root: &JsonField<'_>,
    faults: &mut Vec<Fault>,
) -> BTreeMap<String, CertificateProvider> {
    let mut providers = BTreeMap::new();
    for (name, entry) in root.entries("certificate_providers", faults) {
        if !entry.is_object(faults) {
            continue;
        }
        let Some(plugin) = entry.filled_text("plugin_name", faults) else {
            add(faults, entry.fault("plugin_name", "is missing"));
            continue;
        };
        let config = entry.field("config");
        if plugin == "file_watcher" {
            let files = tls_files(config.as_ref(), faults);
            let trust = config.as_ref().and_then(|it| it.field("spiffe_trust_bundle_map_file"));
            if files.ca.is_none() && files.identity.is_none() && trust.is_none() {
                let problem = "names no file; give `certificate_file` and `private_key_file`, \
                               `ca_certificate_file`, or both";
                add(faults, entry.fault("config", problem));
            }
        }
        let config = value(config.as_ref());
        providers
            .insert(name.to_owned(), CertificateProvider { plugin: plugin.to_owned(), config });
    }
    providers
}

/// Adds a fault, unless there is one for the same place, or one above or below it.
fn add(faults: &mut Vec<Fault>, fault: Fault) {
    let within = |inner: &str, outer: &str| {
        let rest = inner.strip_prefix(outer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let is_known =
        |known: &Fault| within(&known.path, &fault.path) || within(&fault.path, &known.path);
    if !faults.iter().any(is_known) {
        faults.push(fault);
    }
}

fn parse(origin: Option<&str>, json: &str) -> Result<serde_json::Value, BootstrapError> {
    serde_json::from_str(json).map_err(|error| BootstrapError::Json {
        origin: origin.map(str::to_owned),
        problem: error.to_string(),
    })
}
