//! The bootstrap: all that a client knows before it sends its first request. It names the servers,
//! the authorities and the node.
//!
//! Everything is plain data. JSON and code make the same values, and the same faults are found in
//! both ([`Bootstrap::check`]). The servers are fixed from then on: a client has no way to add one,
//! so no server can send it, with its credentials, to another server (C-084).

mod address;
mod fault;
mod find;
mod json;
mod plan;
mod reader;
pub(crate) mod scheme;
mod server;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use chancery_core::TypeUrl;

pub use chancery_core::client::{
    AuthorityKey, Fallback, InvalidTarget, Naming, NamingError, Protocol, ResolvedName,
    ServerFeatures, ServerId, ServerKey, Setup, Target, Template,
};
pub use chancery_core::{Locality, Node, Value};

pub use address::{Address, InvalidAddress};
pub use fault::{BootstrapError, Fault};
pub use plan::Plan;
pub use reader::BootstrapReader;
pub use server::XdsServer;

/// A bootstrap.
///
/// ```
/// use chancery_client::Bootstrap;
/// use chancery_client::bootstrap::{Authority, Node, XdsServer};
/// use chancery_client::credentials::ChannelCredentials;
///
/// let east = XdsServer { uri: "xds.east.example.com:443".to_owned(), ..XdsServer::default() };
/// let bootstrap = Bootstrap {
///     servers: vec![XdsServer {
///         uri: "localhost:18000".to_owned(),
///         channel: ChannelCredentials::Insecure,
///         ..XdsServer::default()
///     }],
///     node: Node { id: "billing-7".to_owned(), ..Node::default() },
///     authorities: [(
///         "east.example.com".into(),
///         Authority { servers: vec![east], ..Authority::default() },
///     )]
///     .into(),
///     ..Bootstrap::default()
/// };
/// bootstrap.check()?;
/// let found = bootstrap.target(&"xds://east.example.com/orders".parse()?)?;
/// assert_eq!(found.servers[0].uri, "xds.east.example.com:443");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bootstrap {
    /// `xds_servers`: the servers for names without an authority, and for those of authorities that
    /// list no servers, in the order of preference. At least one.
    pub servers: Vec<XdsServer>,
    /// `node`: the node that this client is. [`Bootstrap::node_for`] fills in the fields about the
    /// software.
    pub node: Node,
    /// True if the name and version of the software that `node` has are stated, and not those of this
    /// client: for tools that ask in the place of another client. No bootstrap in JSON says so.
    pub states_user_agent: bool,
    /// `authorities`: the authorities that are responsible for names of their own. The empty name
    /// may be one of them.
    pub authorities: BTreeMap<Arc<str>, Authority>,
    /// `client_default_listener_resource_name_template`: the listener of a target without an
    /// authority. By default the target itself.
    pub client_template: Template,
    /// `server_listener_resource_name_template`: the listener of a server. Clients need none.
    pub server_template: Option<Template>,
    /// `certificate_providers`: the sources of certificates for the data plane, by instance name.
    pub certificate_providers: BTreeMap<String, CertificateProvider>,
}

/// One entry of `authorities`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Authority {
    /// `xds_servers`: the servers, in the order of preference. If there are none, those of the
    /// bootstrap.
    pub servers: Vec<XdsServer>,
    /// `client_listener_resource_name_template`: the listener of a target with this authority. By
    /// default one of the target's name.
    pub client_template: Option<Template>,
    /// `fallback_on_reachability_only`: the rule for falling back to the next server.
    pub fallback: Fallback,
}

/// One entry of `certificate_providers`, as it was given.
#[derive(Clone, PartialEq)]
pub struct CertificateProvider {
    /// `plugin_name`: the plugin that provides the certificates.
    pub plugin: String,
    /// `config`: the configuration of the plugin.
    pub config: Value,
}

/// The purpose of a stream, as far as its node depends on that (C-007).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Service {
    /// Discovery of resources.
    Discovery,
    /// Load reports.
    LoadReports,
}

/// A resource, and the servers that are asked for it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Resolved<'a> {
    /// Its name, and the authority that is responsible for it.
    pub place: ResolvedName,
    /// The servers, in the order of preference.
    pub servers: &'a [XdsServer],
}

impl Bootstrap {
    /// Returns `given`. If there is none, it reads the file that `GRPC_XDS_BOOTSTRAP` names. If
    /// that is not set, it reads the JSON in `GRPC_XDS_BOOTSTRAP_CONFIG` (C-001).
    ///
    /// # Errors
    /// If there is none of the three, or if the one that was found cannot be used.
    pub fn discover(given: Option<Self>) -> Result<Self, BootstrapError> {
        BootstrapReader::default().discover(given)
    }

    /// Checks that a client can work with it.
    ///
    /// # Errors
    /// All faults, by the path they would have in JSON.
    pub fn check(&self) -> Result<(), BootstrapError> {
        BootstrapError::unless_empty(None, self.faults())
    }

    /// Returns the node as it is sent. The fields about the software are those of this client,
    /// whatever a bootstrap in JSON says, and name the features that it has (C-006, C-007).
    pub fn node_for(&self, service: Service) -> Node {
        let features: &[&str] = match service {
            Service::Discovery => {
                &["envoy.lb.does_not_support_overprovisioning", "xds.config.resource-in-sotw"]
            }
            Service::LoadReports => &["envoy.lrs.supports_send_all_clusters"],
        };
        let own = features.iter().map(|&feature| feature.to_owned());
        let looks = self.node.only_looks().then(|| Node::LOOKS.to_owned());
        let client_features = own.chain(looks).collect();
        let mut node = Node { client_features, ..self.node.clone() };
        if !self.states_user_agent {
            node.user_agent_name = "chancery".to_owned();
            node.user_agent_version = env!("CARGO_PKG_VERSION").to_owned();
        }
        node
    }

    /// Returns the listener that a channel to this target starts from, and its servers.
    ///
    /// # Errors
    /// If the target is under an authority that is not there, or its template makes no name.
    pub fn target(&self, target: &Target) -> Result<Resolved<'_>, NamingError> {
        Ok(self.resolved(self.naming().target(target)?))
    }

    /// Returns the listener of a server that is bound to this address, and its servers.
    ///
    /// # Errors
    /// As for a target, and if there is no template for servers.
    pub fn listener(&self, address: &str) -> Result<Resolved<'_>, NamingError> {
        Ok(self.resolved(self.naming().server(address)?))
    }

    /// Returns a resource of this type, and its servers.
    ///
    /// # Errors
    /// If the name is malformed, of another type, or under an authority that is not there.
    pub fn resource(&self, name: &str, type_url: &TypeUrl) -> Result<Resolved<'_>, NamingError> {
        Ok(self.resolved(self.naming().resource(name, type_url)?))
    }

    /// Returns the part that decides about names.
    pub fn naming(&self) -> Naming {
        let template = |authority: &Authority| authority.client_template.clone();
        let authorities =
            self.authorities.iter().map(|(name, entry)| (Arc::clone(name), template(entry)));
        Naming {
            client: self.client_template.clone(),
            server: self.server_template.clone(),
            authorities: authorities.collect(),
        }
    }

    /// Returns the servers of an authority; none if there is no such authority.
    pub fn servers_of(&self, authority: &AuthorityKey) -> &[XdsServer] {
        match authority {
            AuthorityKey::Old => &self.servers,
            AuthorityKey::Named(name) => match self.authorities.get(name) {
                Some(entry) if entry.servers.is_empty() => &self.servers,
                Some(entry) => &entry.servers,
                None => &[],
            },
        }
    }

    /// Returns true if a server is one of this bootstrap's: one with the same address, credentials
    /// and features. Load reports go to no other (C-083).
    pub fn has_server(&self, server: &XdsServer) -> bool {
        let entries = self.authorities.values().flat_map(|entry| &entry.servers);
        self.servers.iter().chain(entries).any(|known| known == server)
    }

    fn resolved(&self, place: ResolvedName) -> Resolved<'_> {
        let servers = self.servers_of(&place.authority);
        Resolved { place, servers }
    }

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if self.servers.is_empty() {
            faults.push(Fault::new("xds_servers", "is missing or empty; name at least one server"));
        }
        faults.extend(server_faults("xds_servers", &self.servers));
        for (name, entry) in &self.authorities {
            let path = format!("authorities[\"{name}\"]");
            faults.extend(server_faults(&format!("{path}.xds_servers"), &entry.servers));
            if let Some(template) = entry.client_template.as_ref().filter(|it| !it.is_under(name)) {
                let path = format!("{path}.client_listener_resource_name_template");
                let problem = format!("`{template}` does not begin with `xdstp://{name}/`");
                faults.push(Fault::new(path, problem));
            }
        }
        faults
    }
}

/// The configuration of a plugin may be secret.
impl fmt::Debug for CertificateProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateProvider").field("plugin", &self.plugin).finish_non_exhaustive()
    }
}

/// Reads JSON, with the built-in types of credentials. A [`BootstrapReader`] can do more.
impl FromStr for Bootstrap {
    type Err = BootstrapError;
    fn from_str(json: &str) -> Result<Self, BootstrapError> {
        BootstrapReader::default().bootstrap(json)
    }
}

fn server_faults<'a>(
    list: &'a str,
    servers: &'a [XdsServer],
) -> impl Iterator<Item = Fault> + use<'a> {
    servers.iter().enumerate().filter_map(move |(at, server)| {
        let problem = match server.uri.as_str() {
            "" => "is missing or empty; say where it is".to_owned(),
            _ => server.scheme().err()?,
        };
        Some(Fault::new(format!("{list}[{at}].server_uri"), problem))
    })
}
