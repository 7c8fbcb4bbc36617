//! The bootstrap of `get` and `watch`: made from the flags alone, or found and then changed by
//! them.

use std::path::Path;

use anyhow::{Context, anyhow};
use chancery_client::bootstrap::{Authority, Node, Target, XdsServer};
use chancery_client::credentials::{CallCredentials, ChannelCredentials, Identity, TlsFiles};
use chancery_client::{Bootstrap, BootstrapError};
use chancery_core::client::ServerFeatures;

use super::known_node;
use super::options::{NodeArgs, ServerArgs, TlsArgs};
use super::query::Query;
use crate::exit::Failure;

/// Returns the bootstrap. `queries` and `target` are the resources that will be asked for.
pub(super) fn bootstrap(
    args: &ServerArgs,
    node: &NodeArgs,
    queries: &[Query],
    target: Option<&Target>,
) -> Result<Bootstrap, Failure> {
    let mut bootstrap = if args.servers.is_empty() { found(args)? } else { given(args)? };
    if !args.servers.is_empty() {
        // A server that the flags name is asked for resources of every authority.
        let named = queries.iter().filter_map(Query::authority);
        let named = named.chain(target.and_then(Target::authority));
        bootstrap.authorities = named.map(|name| (name.into(), Authority::default())).collect();
    }
    known_node::take_over(&mut bootstrap, args, node)?;
    introduce(&mut bootstrap.node, node);
    Ok(bootstrap)
}

/// Returns the bootstrap in the file of `--bootstrap`, or that of the environment.
fn found(args: &ServerArgs) -> Result<Bootstrap, Failure> {
    let Some(path) = &args.bootstrap else {
        return Bootstrap::discover(None).map_err(|error| match error {
            BootstrapError::Missing => {
                Failure::misuse("nobody to ask: give `--server` or `--bootstrap`")
            }
            error => Failure::broken(error),
        });
    };
    read(path)
}

/// Reads a bootstrap file.
pub(crate) fn read(path: &Path) -> Result<Bootstrap, Failure> {
    let shown = path.display();
    let json = chancery_files::read_to_string(path, MAX_BYTES)
        .with_context(|| format!("cannot read `{shown}`"))?;
    let read = json.parse::<Bootstrap>();
    read.with_context(|| format!("cannot use `{shown}`")).map_err(Failure::broken)
}

/// Returns a bootstrap of the servers that the flags name. A resource that one of them removes
/// counts as removed, and its last value is not kept.
pub(super) fn given(args: &ServerArgs) -> Result<Bootstrap, Failure> {
    if let Some(empty) = args.servers.iter().find(|uri| uri.is_empty()) {
        return Err(Failure::misuse(format!(
            "`{empty}` is no server; write `HOST:PORT` or `unix:/PATH`"
        )));
    }
    let features = ServerFeatures { fail_on_data_errors: true, ..ServerFeatures::default() };
    let server = |uri: &String| Ok(XdsServer { features, ..args.tls.server(uri)? });
    let servers = args.servers.iter().map(server).collect::<Result<_, Failure>>()?;
    Ok(Bootstrap { servers, ..Bootstrap::default() })
}

impl TlsArgs {
    /// A server at an address, with the credentials of the flags.
    ///
    /// # Errors
    /// If a token would be sent to it in the clear.
    pub(crate) fn server(&self, uri: &str) -> Result<XdsServer, Failure> {
        let is_secure = self.is_secure() || is_https(uri);
        if self.token.is_some() && !is_secure {
            return Err(Failure::misuse("`--token` needs TLS: give `--tls` or `--ca` too"));
        }
        let pair = self.cert.clone().zip(self.key.clone());
        let identity = pair.map(|(cert, key)| Identity { cert, key });
        let files = TlsFiles { ca: self.ca.clone(), identity, ..TlsFiles::default() };
        Ok(XdsServer {
            uri: uri.to_owned(),
            channel: match is_secure {
                true => ChannelCredentials::Tls(files),
                false => ChannelCredentials::Insecure,
            },
            calls: self.token.iter().cloned().map(CallCredentials::JwtTokenFile).collect(),
            ..XdsServer::default()
        })
    }
}

/// Returns true for `https`, the only scheme that implies TLS.
fn is_https(uri: &str) -> bool {
    uri.starts_with("https://")
}

/// Puts the node of the flags over that of the bootstrap.
fn introduce(node: &mut Node, given: &NodeArgs) {
    if let Some(id) = &given.node {
        node.id.clone_from(id);
    } else if node.id.is_empty() {
        node.id = NOBODY.to_owned();
    }
    given.details.introduce(node);
}

/// Reads a target.
pub(super) fn target(text: &str) -> Result<Target, Failure> {
    text.parse::<Target>().map_err(|error| Failure::broken(anyhow!("{error}")))
}

/// The id of a node without one: servers refuse nodes that have none.
const NOBODY: &str = "chancery";

/// The limit for a bootstrap in a file. One has a few kilobytes.
const MAX_BYTES: u64 = 16 << 20;
