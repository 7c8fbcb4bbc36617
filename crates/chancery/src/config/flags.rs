//! The flags of `chancery serve`: this struct is its help, and where the environment is read.
//!
//! Flags override the environment, the environment overrides `chancery.yaml`, that overrides the
//! defaults. So a flag that was not given is `None` here and never a default.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};

use super::{AdminAddress, ListenAddress, LogFormat, LogLevel, SocketMode};

/// Serve the xDS resources in a directory, and their changes
///
/// The files below DIR that end in .yaml, .yml, .json, .pb_text or .pb hold xDS resources: one, a
/// list, or a whole DiscoveryResponse. Files at the top are for every node, files below
/// groups/NAME/ for the nodes of a group, and files below nodes/ID/ for one node. DIR/chancery.yaml
/// is optional. It can set everything that the flags set, and the rules of the groups.
///
/// gRPC (SotW, delta, aggregated and per type), REST, health and reflection share one port.
/// Clients receive an edit within a second. A file with a fault changes nothing: the nodes that use
/// it keep their last good state, and the fault is logged with file, line and column. An edit that
/// takes away much of what nodes have waits until `chancery confirm` lets it pass.
#[derive(Args, Clone, Debug, Default)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct ServeFlags {
    /// The directory that holds the resources
    pub(crate) dir: PathBuf,

    /// Address of gRPC and REST, IP:PORT or unix:PATH; may be given several times
    /// [default: 127.0.0.1:18000]
    #[arg(long, value_name = "ADDR", env = "CHANCERY_LISTEN", value_delimiter = ',')]
    #[arg(help_heading = "Addresses", hide_env_values = true)]
    pub(crate) listen: Vec<ListenAddress>,

    /// Address of /ready, /healthz, /metrics and the API for operators: IP:PORT or off
    /// [default: 127.0.0.1:18080]
    #[arg(long, value_name = "ADDR", env = "CHANCERY_ADMIN", help_heading = "Addresses")]
    #[arg(hide_env_values = true)]
    pub(crate) admin: Option<AdminAddress>,

    /// Mode of the file of a Unix socket, in octal digits [default: 0600]
    #[arg(long, value_name = "MODE", env = "CHANCERY_UNIX_MODE", help_heading = "Addresses")]
    #[arg(hide_env_values = true)]
    pub(crate) unix_mode: Option<SocketMode>,

    /// Name under which the admin interface is asked, besides localhost and IP addresses; may be
    /// given several times
    #[arg(long = "admin-host", value_name = "NAME", env = "CHANCERY_ADMIN_HOSTS")]
    #[arg(value_delimiter = ',', help_heading = "Addresses", hide_env_values = true)]
    pub(crate) admin_hosts: Vec<String>,

    /// Certificate chain of the admin interface for other machines, PEM; read again when it changes
    #[arg(long, value_name = "FILE", env = "CHANCERY_ADMIN_TLS_CERT", requires = "admin_tls_key")]
    #[arg(help_heading = "Admin API", hide_env_values = true)]
    pub(crate) admin_tls_cert: Option<PathBuf>,

    /// Private key of the admin interface, PEM
    #[arg(long, value_name = "FILE", env = "CHANCERY_ADMIN_TLS_KEY", requires = "admin_tls_cert")]
    #[arg(help_heading = "Admin API", hide_env_values = true)]
    pub(crate) admin_tls_key: Option<PathBuf>,

    /// Certificate authorities, PEM; whoever has a certificate of one of them may read the API
    #[arg(long, value_name = "FILE", env = "CHANCERY_ADMIN_TLS_CLIENT_CA")]
    #[arg(requires = "admin_tls_cert", help_heading = "Admin API", hide_env_values = true)]
    pub(crate) admin_tls_client_ca: Option<PathBuf>,

    /// File with the tokens of those who may read the API: NAME read TOKEN, one on a line
    #[arg(long, value_name = "FILE", env = "CHANCERY_ADMIN_TOKENS")]
    #[arg(help_heading = "Admin API", hide_env_values = true)]
    pub(crate) admin_tokens: Option<PathBuf>,

    /// Certificate chain of the server, PEM; read again when it changes
    #[arg(long, value_name = "FILE", env = "CHANCERY_TLS_CERT", requires = "tls_key")]
    #[arg(help_heading = "TLS", hide_env_values = true)]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Private key of the server, PEM
    #[arg(long, value_name = "FILE", env = "CHANCERY_TLS_KEY", requires = "tls_cert")]
    #[arg(help_heading = "TLS", hide_env_values = true)]
    pub(crate) tls_key: Option<PathBuf>,

    /// Certificate authorities, PEM; clients must have a certificate of one of them
    #[arg(long, value_name = "FILE", env = "CHANCERY_TLS_CLIENT_CA", requires = "tls_cert")]
    #[arg(help_heading = "TLS", hide_env_values = true)]
    pub(crate) tls_client_ca: Option<PathBuf>,

    /// Revocation lists of these authorities, PEM; may be given several times
    #[arg(long, value_name = "FILE", env = "CHANCERY_TLS_CLIENT_CRL", requires = "tls_client_ca")]
    #[arg(value_delimiter = ',', help_heading = "TLS", hide_env_values = true)]
    pub(crate) tls_client_crl: Vec<PathBuf>,

    /// File with more message types, a FileDescriptorSet; may be given several times
    #[arg(long = "descriptor-set", value_name = "FILE", env = "CHANCERY_DESCRIPTOR_SET")]
    #[arg(value_delimiter = ',', help_heading = "Resources", hide_env_values = true)]
    pub(crate) descriptor_sets: Vec<PathBuf>,

    /// Serve the v2 services and types too, for clients without v3
    #[arg(long, env = "CHANCERY_ENABLE_V2", help_heading = "Resources", hide_env_values = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = BoolishValueParser::new(), value_name = "BOOL", hide_possible_values = true)]
    pub(crate) enable_v2: Option<bool>,

    /// Directory in which the last good state is kept over a restart; outside of DIR
    #[arg(long, value_name = "DIR", env = "CHANCERY_STATE", help_heading = "Resources")]
    #[arg(hide_env_values = true)]
    pub(crate) state: Option<PathBuf>,

    /// Start although some files have faults, and serve every node that does not use them
    /// [default: true]
    #[arg(long, env = "CHANCERY_ALLOW_PARTIAL", help_heading = "Resources")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = BoolishValueParser::new(), value_name = "BOOL", hide_possible_values = true)]
    #[arg(hide_env_values = true)]
    pub(crate) allow_partial: Option<bool>,

    /// Form of the log lines on stderr [default: text]
    #[arg(long, value_enum, value_name = "FORMAT", env = "CHANCERY_LOG_FORMAT")]
    #[arg(help_heading = "Logs", hide_env_values = true)]
    pub(crate) log_format: Option<LogFormat>,

    /// Level of the least important log lines that are written [default: info]
    #[arg(long, value_enum, value_name = "LEVEL", env = "CHANCERY_LOG_LEVEL")]
    #[arg(help_heading = "Logs", hide_env_values = true)]
    pub(crate) log_level: Option<LogLevel>,

    /// Short for --log-level debug; twice for trace
    #[arg(short, long, action = ArgAction::Count, conflicts_with = "log_level")]
    #[arg(help_heading = "Logs")]
    pub(crate) verbose: u8,

    /// Print the configuration that would be in force, and exit
    #[arg(long)]
    pub(crate) print_config: bool,

    /// Print the limits that follow from this machine and the configuration, and exit
    #[arg(long, conflicts_with = "print_config")]
    pub(crate) print_limits: bool,
}

impl ServeFlags {
    /// The log level that the flags set, if they set one.
    pub(crate) fn level(&self) -> Option<LogLevel> {
        match self.verbose {
            0 => self.log_level,
            1 => Some(LogLevel::Debug),
            _ => Some(LogLevel::Trace),
        }
    }
}

const AFTER_HELP: &str = "\
Examples:
  chancery serve examples/quickstart
  chancery serve /etc/xds --listen 0.0.0.0:18000 --admin 127.0.0.1:18080
  chancery serve /etc/xds --listen unix:/run/chancery.sock --listen 10.0.0.1:18000 \\
      --tls-cert server.pem --tls-key server.key --tls-client-ca clients.pem

Signals:
  TERM, INT   accept no more connections, end the streams one after the other, and exit;
              the second signal ends the process at once
  HUP         read the directory and the certificates again

Exit codes:
  0   done
  1   the configuration has faults; the first 20 are printed, the others counted by file
  2   something failed: an address is in use, or a directory or certificate cannot be read
  64  the command line is wrong

A flag with [env: NAME] can also be set by this variable. Flags override variables, and variables
override DIR/chancery.yaml. docs/configuration.md describes that file.";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        serve: ServeFlags,
    }

    fn serve(args: &[&str]) -> Result<ServeFlags, clap::Error> {
        let command = Command::try_parse_from(["serve"].iter().chain(args))?;
        Ok(command.serve)
    }

    #[test]
    fn addresses_may_be_given_several_times() {
        let args = ["dir", "--listen", "127.0.0.1:1", "--listen", "unix:/s", "--admin", "off"];
        let serve = serve(&args).unwrap();
        assert_eq!(serve.listen.len(), 2);
        assert_eq!(serve.admin, Some(AdminAddress::Off));
    }

    #[test]
    fn what_was_not_given_is_told_apart_from_no() {
        assert_eq!(serve(&["dir"]).unwrap().enable_v2, None);
        assert_eq!(serve(&["dir", "--enable-v2"]).unwrap().enable_v2, Some(true));
        assert_eq!(serve(&["dir", "--enable-v2=false"]).unwrap().enable_v2, Some(false));
        assert_eq!(serve(&["--enable-v2", "dir"]).unwrap().enable_v2, Some(true));
    }

    #[test]
    fn misuse_is_refused() {
        assert!(serve(&[]).is_err());
        assert!(serve(&["dir", "--listen", "localhost:1"]).is_err());
        assert!(serve(&["dir", "--tls-cert", "cert.pem"]).is_err());
        assert!(serve(&["dir", "-v", "--log-level", "warn"]).is_err());
        assert!(serve(&["dir", "other"]).is_err());
    }

    #[test]
    fn verbose_is_short_for_a_level() {
        assert_eq!(serve(&["dir", "-v"]).unwrap().level(), Some(LogLevel::Debug));
        assert_eq!(serve(&["dir", "-vv"]).unwrap().level(), Some(LogLevel::Trace));
        assert_eq!(serve(&["dir"]).unwrap().level(), None);
    }
}
