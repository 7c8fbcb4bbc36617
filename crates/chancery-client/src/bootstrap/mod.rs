//! All a client knows before it asks anybody: its servers, its authorities, and who it is.
//!
//! Everything is plain data. JSON and code make the same values, and the same faults are found in
//! both ([`Bootstrap::check`]). The servers are fixed from then on: a client reads them and has no
//! way to add one, so that no server can send it, and what it authenticates with, to another (C-084).

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
    /// `xds_servers`: who is asked for what is under no authority, or under one without servers, in
    /// the order of preference. At least one.
    pub servers: Vec<XdsServer>,
    /// `node`: who this client is. What concerns the software is filled in by
    /// [`Bootstrap::node_for`].
    pub node: Node,
    /// `authorities`: who is responsible for which names. The empty name is one like any other.
    pub authorities: BTreeMap<Arc<str>, Authority>,
    /// `client_default_listener_resource_name_template`: the listener of a target without an
    /// authority. By default the target itself.
    pub client_template: Template,
    /// `server_listener_resource_name_template`: the listener of a server. Clients need none.
    pub server_template: Option<Template>,
    /// `certificate_providers`: where the data plane finds certificates, by instance name.
    pub certificate_providers: BTreeMap<String, CertificateProvider>,
}

/// One entry of `authorities`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Authority {
    /// `xds_servers`: who is asked, in the order of preference. If empty, the bootstrap's.
    pub servers: Vec<XdsServer>,
    /// `client_listener_resource_name_template`: the listener of a target with this authority. By
    /// default one of the target's name.
    pub client_template: Option<Template>,
    /// `fallback_on_reachability_only`: when the next server is asked.
    pub fallback: Fallback,
}

/// One entry of `certificate_providers`, as it was given.
#[derive(Clone, PartialEq)]
pub struct CertificateProvider {
    /// `plugin_name`: what provides the certificates.
    pub plugin: String,
    /// `config`: what the plugin is told.
    pub config: Value,
}

/// What a stream is for, as far as the node on it depends on that (C-007).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Service {
    /// Discovery of resources.
    Discovery,
    /// Load reports.
    LoadReports,
}

/// A resource, and who is asked for it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Resolved<'a> {
    /// What it is called and who is responsible.
    pub place: ResolvedName,
    /// Who is asked, in the order of preference.
    pub servers: &'a [XdsServer],
}

impl Bootstrap {
    /// What `given` says; if nothing, what the file says that `GRPC_XDS_BOOTSTRAP` names; if it
    /// names none, what `GRPC_XDS_BOOTSTRAP_CONFIG` says (C-001).
    ///
    /// # Errors
    /// If there is none of the three, or the one that was found cannot be used.
    pub fn discover(given: Option<Self>) -> Result<Self, BootstrapError> {
        BootstrapReader::default().discover(given)
    }

    /// Whether a client can work with it: what JSON could not have said either.
    ///
    /// # Errors
    /// All faults, by the path they would have in JSON.
    pub fn check(&self) -> Result<(), BootstrapError> {
        BootstrapError::unless_empty(None, self.faults())
    }

    /// The node as it is sent: the software speaks for itself, whatever the bootstrap says, and
    /// announces what is built and nothing else (C-006, C-007).
    pub fn node_for(&self, service: Service) -> Node {
        let features: &[&str] = match service {
            Service::Discovery => {
                &["envoy.lb.does_not_support_overprovisioning", "xds.config.resource-in-sotw"]
            }
            Service::LoadReports => &["envoy.lrs.supports_send_all_clusters"],
        };
        Node {
            user_agent_name: "chancery".to_owned(),
            user_agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            client_features: features.iter().map(|&feature| feature.to_owned()).collect(),
            ..self.node.clone()
        }
    }

    /// The listener that a channel to this target starts from, and who is asked for it.
    ///
    /// # Errors
    /// If the target is under an authority that is not there, or its template makes no name.
    pub fn target(&self, target: &Target) -> Result<Resolved<'_>, NamingError> {
        Ok(self.resolved(self.naming().target(target)?))
    }

    /// The listener of a server that is bound to this address, and who is asked for it.
    ///
    /// # Errors
    /// As for a target, and if there is no template for servers.
    pub fn listener(&self, address: &str) -> Result<Resolved<'_>, NamingError> {
        Ok(self.resolved(self.naming().server(address)?))
    }

    /// A resource of this type, and who is asked for it.
    ///
    /// # Errors
    /// If the name is malformed, of another type, or under an authority that is not there.
    pub fn resource(&self, name: &str, type_url: &TypeUrl) -> Result<Resolved<'_>, NamingError> {
        Ok(self.resolved(self.naming().resource(name, type_url)?))
    }

    /// The part of this that decides about names.
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

    /// Who is asked for what is under an authority; nobody if there is no such authority.
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

    /// Whether a server is one of this bootstrap's: the same address, credentials and features.
    /// Only to those are load reports sent (C-083).
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

/// What a plugin is told may be secret.
impl fmt::Debug for CertificateProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateProvider").field("plugin", &self.plugin).finish_non_exhaustive()
    }
}

/// From JSON, with the credentials that are built in. [`BootstrapReader`] can do more.
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
