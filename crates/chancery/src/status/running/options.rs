//! The flags of what clients say they run: these structs are their help.

use std::time::Duration;

use clap::Args;

use crate::ask::TlsArgs;
use crate::config::{Size, Span};
use crate::exit::Failure;

/// The program that is asked.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunningArgs {
    /// Show what an Envoy says it runs, beside what the server sent to it: HOST:PORT of the admin interface of
    /// the Envoy (/config_dump and /init_dump); with `--admin off` what runs alone
    #[arg(long, value_name = "ADDR", help_heading = "What runs")]
    #[arg(conflicts_with = "csds")]
    envoy: Option<String>,

    /// The same of a client that tells it by CSDS: HOST:PORT or unix:PATH, at which a gRPC application serves
    /// its status; or the discovery port of an xDS server, which tells of all its clients. The flags of TLS are
    /// for this connection
    #[arg(long, value_name = "ADDR", group = "servers", help_heading = "What runs")]
    csds: Option<String>,

    /// The time that a connection to --envoy or --csds may take, and then its answer
    #[arg(long, value_name = "TIME", default_value = "10s", help_heading = "What runs")]
    running_timeout: Span,

    /// The largest answer of --envoy or --csds that is read
    #[arg(long, value_name = "SIZE", default_value = "256MiB", help_heading = "What runs")]
    running_max: Size,

    // They need `servers`, the group of `csds`.
    #[command(flatten)]
    pub(super) tls: TlsArgs,
}

/// The place where somebody tells what runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The admin interface of an Envoy.
    Envoy(String),
    /// A server of CSDS.
    Csds(String),
}

/// The bounds of one answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) time: Duration,
    pub(super) bytes: usize,
}

impl RunningArgs {
    /// Returns true if it is said which program is asked.
    pub(crate) fn is_asked(&self) -> bool {
        self.envoy.is_some() || self.csds.is_some()
    }

    pub(super) fn source(&self) -> Result<Source, Failure> {
        let (flag, source) = match (&self.envoy, &self.csds) {
            (Some(address), _) => ("--envoy", Source::Envoy(address.clone())),
            (None, Some(address)) => ("--csds", Source::Csds(address.clone())),
            (None, None) => {
                return Err(Failure::misuse("nobody to ask: give `--envoy` or `--csds`"));
            }
        };
        let (Source::Envoy(address) | Source::Csds(address)) = &source;
        let is_socket = matches!(&source, Source::Csds(at) if at.starts_with("unix:"));
        if !is_socket && !is_host_and_port(address) {
            return Err(Failure::misuse(format!(
                "`{flag} {address}` is no address; write `HOST:PORT`"
            )));
        }
        Ok(source)
    }

    pub(super) fn limits(&self) -> Limits {
        Limits { time: self.running_timeout.0, bytes: self.running_max.0 }
    }
}

/// Returns true for `HOST:PORT`, where the host is a name or an address and nothing more.
fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:%".contains(&byte);
    let is_host = !host.is_empty() && host.bytes().all(is_plain);
    is_host && (host.starts_with('[') || !host.contains(':')) && port.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for good in ["127.0.0.1:19000", "[::1]:1", "edge-7.example.com:9901", "localhost:80"] {
            assert!(is_host_and_port(good), "{good}");
        }
        for bad in
            ["", "a", ":1", "a:", "a:x", "a:70000", "::1:80", "http://a:1", "a\r\nb:1", "a/b:1"]
        {
            assert!(!is_host_and_port(bad), "{bad}");
        }
    }
}
