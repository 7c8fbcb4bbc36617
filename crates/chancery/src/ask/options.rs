//! The flags that `get` and `watch` have in common: these structs are their help.
//!
//! A doc comment of a field is text that users read. Not here: the flags of one of the commands
//! (`get::options`, `watch::options`), and the query and the bootstrap that the flags lead to
//! (`query`, `bootstrap`).

use std::path::PathBuf;
use std::sync::Arc;

use chancery_client::bootstrap::{Locality, Node, Value};
use chancery_client::options::Variant;
use clap::{ArgAction, Args, ValueEnum};

use crate::admin_client::{AdminAccess, AdminServer, HEADING, value_of};
use crate::config::{LogLevel, Span};

/// The query, the servers it goes to, the node that asks, and the protocol.
#[derive(Args, Clone, Debug)]
pub(crate) struct QueryArgs {
    /// A type (cds, eds, lds, rds, …, or a type URL; cds,lds for both), then names; without names
    /// all resources of the type. Or names that begin with xdstp:// and contain their types; a name
    /// that ends in /* is a collection
    #[arg(value_name = "TYPE|NAME", required_unless_present = "target")]
    pub(super) words: Vec<String>,

    /// Ask for the listener of a gRPC channel to this target: xds:///NAME or xds://AUTHORITY/NAME
    #[arg(long, value_name = "TARGET")]
    pub(super) target: Option<String>,

    #[command(flatten)]
    pub(super) server: ServerArgs,
    #[command(flatten)]
    pub(super) node: NodeArgs,
    #[command(flatten)]
    pub(super) protocol: ProtocolArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The servers.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerArgs {
    /// The xDS server, by its discovery port: HOST:PORT or unix:PATH, http://HOST:PORT or https://… for REST, file:PATH; may be
    /// given several times: the next server is asked when those before it cannot be reached
    /// [default: the servers of the bootstrap]
    #[arg(long = "server", value_name = "URI", help_heading = "Server")]
    pub(crate) servers: Vec<String>,

    /// The bootstrap file of a gRPC client [default: the file that GRPC_XDS_BOOTSTRAP names, or the
    /// JSON in GRPC_XDS_BOOTSTRAP_CONFIG]
    #[arg(long, value_name = "FILE", conflicts_with = "servers", help_heading = "Server")]
    pub(crate) bootstrap: Option<PathBuf>,

    /// The time that a connection to a server may take, and then its answer [default: 15s; for the
    /// answer 30s if the bootstrap has resource_timer_is_transient_error for the server]
    #[arg(long, value_name = "TIME", help_heading = "Server")]
    pub(crate) timeout: Option<Span>,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

/// The encryption of the connections to servers of the flags. A command has them in the argument or group
/// `servers`.
#[derive(Args, Clone, Debug)]
pub(crate) struct TlsArgs {
    /// Connect with TLS, and verify the servers by the certificate authorities of the system or --ca
    #[arg(long, requires = "servers", help_heading = "TLS")]
    pub(super) tls: bool,

    /// Certificate authorities for the servers, PEM; implies --tls
    #[arg(long, value_name = "FILE", requires = "servers", help_heading = "TLS")]
    pub(super) ca: Option<PathBuf>,

    /// Certificate chain of the client, PEM; implies --tls
    #[arg(long, value_name = "FILE", requires_all = ["servers", "key"], help_heading = "TLS")]
    pub(super) cert: Option<PathBuf>,

    /// Private key of --cert, PEM
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "TLS")]
    pub(super) key: Option<PathBuf>,

    /// File with a token (JWT) that is sent to the servers; needs TLS
    #[arg(long, value_name = "FILE", requires = "servers", help_heading = "TLS")]
    pub(super) token: Option<PathBuf>,
}

/// The node. A part of it that no flag sets is as in the bootstrap.
#[derive(Args, Clone, Debug)]
pub(super) struct NodeArgs {
    /// Id of the node [default: that of the bootstrap, or chancery]
    #[arg(long, value_name = "ID", help_heading = "Node")]
    pub(super) node: Option<String>,

    /// Admin interface of the server (not its discovery port), IP:PORT or https://HOST:PORT, which knows the
    /// cluster, the locality, the metadata and the client of the node that --node names, if it is connected;
    /// what other flags say is put over that; `off` asks for nothing [default: CHANCERY_ADMIN or
    /// 127.0.0.1:18080, if it is on the machine of --server, and then nothing has to be known]
    #[arg(long, value_name = "ADDR", requires = "node", help_heading = HEADING)]
    pub(super) admin: Option<AdminServer>,

    #[command(flatten)]
    pub(super) access: AdminAccess,

    #[command(flatten)]
    pub(super) details: NodeDetails,
}

/// The words of a node about itself, but for its id.
#[derive(Args, Clone, Debug)]
pub(crate) struct NodeDetails {
    /// Cluster of the node
    #[arg(long, value_name = "NAME", help_heading = "Node")]
    pub(super) cluster: Option<String>,

    /// Metadata of the node; a value that is JSON is sent as JSON, any other as a string; may be given
    /// several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair, help_heading = "Node")]
    metadata: Vec<(String, Value)>,

    /// Locality of the node
    #[arg(long, value_name = "REGION[/ZONE[/SUBZONE]]", value_parser = locality)]
    #[arg(help_heading = "Node")]
    locality: Option<Locality>,
}

/// The protocol.
#[derive(Args, Clone, Debug)]
pub(super) struct ProtocolArgs {
    /// Variant of the protocol [default: delta for names that end in /*, because sotw has no
    /// collections; otherwise sotw, which all servers support]
    #[arg(long, value_enum, help_heading = "Protocol")]
    pub(super) protocol: Option<VariantArg>,

    /// Open one stream for each type, on the service of the type, instead of an aggregated stream
    #[arg(long, help_heading = "Protocol")]
    pub(super) per_type: bool,

    /// Reject resources that gRPC clients must reject although Envoy may accept them: sources of routes
    /// and endpoints other than `ads` and `self`, an `lrs_server` other than `self`, and clusters with
    /// an `xdstp:` name that do not name their endpoints
    #[arg(long, help_heading = "Protocol")]
    pub(super) as_grpc: bool,

    /// Reject every response with this reason, to see what the server does then
    #[arg(long, value_name = "REASON", help_heading = "Protocol")]
    pub(super) nack: Option<String>,
}

/// The part of all that comes which is shown.
#[derive(Args, Clone, Debug)]
pub(super) struct OutputArgs {
    /// Show private keys, passwords and other secrets too
    #[arg(long, help_heading = "Output")]
    pub(super) show_secrets: bool,

    /// File with more message types, a FileDescriptorSet; may be given several times
    #[arg(long = "descriptor-set", value_name = "FILE", env = "CHANCERY_DESCRIPTOR_SET")]
    #[arg(value_delimiter = ',', help_heading = "Output", hide_env_values = true)]
    pub(super) descriptor_sets: Vec<PathBuf>,

    /// Log the events on the connections to stderr; twice for more detail
    #[arg(short, long, action = ArgAction::Count, help_heading = "Output")]
    pub(super) verbose: u8,
}

/// The variants of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum VariantArg {
    /// State of the world
    Sotw,
    /// Incremental
    Delta,
}

impl From<VariantArg> for Variant {
    fn from(protocol: VariantArg) -> Self {
        match protocol {
            VariantArg::Sotw => Self::Sotw,
            VariantArg::Delta => Self::Delta,
        }
    }
}

impl NodeDetails {
    /// Puts them over those of a node.
    pub(crate) fn introduce(&self, node: &mut Node) {
        if let Some(cluster) = &self.cluster {
            node.cluster.clone_from(cluster);
        }
        if let Some(locality) = &self.locality {
            node.locality = locality.clone();
        }
        Arc::make_mut(&mut node.metadata).extend(self.metadata.iter().cloned());
    }
}

impl TlsArgs {
    /// Returns true if connections are encrypted whatever the URI of a server says.
    pub(crate) fn is_secure(&self) -> bool {
        self.tls || self.ca.is_some() || self.cert.is_some()
    }
}

impl OutputArgs {
    /// The level of log lines, if there are to be any.
    pub(super) fn level(&self) -> Option<LogLevel> {
        level(self.verbose)
    }
}

/// The level of log lines for so many flags, if there are to be any.
pub(crate) fn level(verbose: u8) -> Option<LogLevel> {
    match verbose {
        0 => None,
        1 => Some(LogLevel::Info),
        2 => Some(LogLevel::Debug),
        _ => Some(LogLevel::Trace),
    }
}

fn pair(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("`{text}` lacks a `=`"))?;
    let json = serde_json::from_str::<serde_json::Value>(value);
    if value.starts_with(['{', '[', '"'])
        && let Err(error) = &json
    {
        return Err(format!("the value of `{key}` begins like JSON and is none: {error}"));
    }
    Ok((key.to_owned(), json.map_or_else(|_| Value::Text(value.to_owned()), value_of)))
}

fn locality(text: &str) -> Result<Locality, String> {
    let mut parts = text.split('/').map(str::to_owned);
    let mut part = || parts.next().unwrap_or_default();
    let locality = Locality { region: part(), zone: part(), sub_zone: part() };
    match parts.next() {
        None => Ok(locality),
        Some(_) => Err(format!("`{text}` has too many parts; write `REGION/ZONE/SUBZONE`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_json_where_it_can_be() {
        let value = |text: &str| pair(&format!("k={text}")).unwrap().1;
        assert_eq!(value("a"), Value::Text("a".to_owned()));
        assert_eq!(value("a=b"), Value::Text("a=b".to_owned()));
        assert_eq!(value(""), Value::Text(String::new()));
        assert_eq!(value("true"), Value::Bool(true));
        assert_eq!(value("1.5"), Value::Number(1.5));
        assert_eq!(value("\"1.5\""), Value::Text("1.5".to_owned()));
        let nested = value("{\"a\": [1, null]}");
        let list = Value::List(vec![Value::Number(1.0), Value::Null]);
        assert_eq!(nested, Value::Map([("a".to_owned(), list)].into()));
        assert!(pair("k={a}").unwrap_err().contains("`k`"));
        assert!(pair("k").unwrap_err().contains("`k`"));
    }

    #[test]
    fn a_locality_has_up_to_three_parts() {
        let full = locality("r/z/s").unwrap();
        assert_eq!((&*full.region, &*full.zone, &*full.sub_zone), ("r", "z", "s"));
        assert_eq!(locality("r").unwrap().zone, "");
        assert!(locality("r/z/s/x").is_err());
    }
}
