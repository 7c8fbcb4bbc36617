//! The channel of `call`: its target, its bootstrap, and the security of its connections.

use chancery_client::bootstrap::Node;
use chancery_client::credentials::{Identity, TlsFiles};
use chancery_client::{Bootstrap, BootstrapError};
use chancery_grpc::{Channel, ChannelBuilder, ChannelError, Credentials};

use super::options::{CallArgs, SecurityArgs};
use crate::ask;
use crate::exit::Failure;

/// Makes the channel. A control plane learns that this client only looks, so that nothing waits for it.
pub(super) fn channel(args: &CallArgs) -> Result<Channel, Failure> {
    let mut builder = ChannelBuilder::new(&args.target);
    let scheme = args.target.split_once(':').map(|(scheme, _)| scheme);
    let is_xds = scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("xds"));
    if is_xds {
        let mut bootstrap = match &args.way.bootstrap {
            Some(path) => ask::read_bootstrap(path)?,
            None => found()?,
        };
        bootstrap.node.client_features = [Node::LOOKS.to_owned()].into();
        builder = builder.bootstrap(bootstrap);
    } else if args.way.bootstrap.is_some() {
        return Err(Failure::misuse("`--bootstrap` is for targets of `xds:`"));
    }
    if let Some(credentials) = credentials(&args.security, is_xds) {
        builder = builder.credentials(credentials);
    }
    if let Some(authority) = &args.way.authority {
        builder = builder.authority(authority);
    }
    builder.build().map_err(|error| match error {
        ChannelError::NoCredentials(_) => {
            Failure::misuse("give `--plaintext` or `--tls`, as the target does not say which")
        }
        error => Failure::broken(error),
    })
}

/// Returns the credentials that the flags choose.
fn credentials(args: &SecurityArgs, is_xds: bool) -> Option<Credentials> {
    if args.plaintext {
        return Some(Credentials::insecure());
    }
    if !args.tls && args.ca.is_none() && args.cert.is_none() {
        return None;
    }
    let pair = args.cert.clone().zip(args.key.clone());
    let identity = pair.map(|(cert, key)| Identity { cert, key });
    let tls = Credentials::tls(TlsFiles { ca: args.ca.clone(), identity, ..TlsFiles::default() });
    Some(if is_xds { Credentials::xds(tls) } else { tls })
}

/// Returns the bootstrap of the environment.
fn found() -> Result<Bootstrap, Failure> {
    Bootstrap::discover(None).map_err(|error| match error {
        BootstrapError::Missing => Failure::misuse(
            "no bootstrap: give `--bootstrap`, or set GRPC_XDS_BOOTSTRAP as for a gRPC program",
        ),
        error => Failure::broken(error),
    })
}
