//! The common part of `chancery get` and `chancery watch`: from flags to a client, and from
//! resources to text.
//!
//! ```text
//!   words, --target --> [query] --+
//!   --server, --bootstrap --> [bootstrap] --> Client --> resources --> [render] --> stdout
//! ```
//!
//! Not here: the protocol, which is in `chancery-client`, and the decision that a command has all
//! it wants, which it makes itself.

mod answer;
mod bootstrap;
mod known_node;
mod options;
mod query;
mod render;

use std::process;
use std::time::Duration;

use anyhow::Context;
use chancery_client::bootstrap::{Node, XdsServer};
use chancery_client::options::Variant;
use chancery_client::watch::ErrorKind;
use chancery_client::{Bootstrap, Client, Options, TypeUrl};
use chancery_proto::schema::Schema;
use chancery_proto::show::Viewer;

pub(crate) use self::answer::{Answer, Trouble, answers};
pub(crate) use self::bootstrap::read as read_bootstrap;
pub(crate) use self::known_node::become_known_at;
pub(crate) use self::options::{NodeDetails, QueryArgs, ServerArgs, TlsArgs, level};
pub(crate) use self::query::{Query, type_of};
pub(crate) use self::render::{Renderer, Row, plain};
use crate::exit::Failure;
use crate::logging;
use crate::serve;

/// The parameters of `get` and `watch`, which are known before any server is asked.
pub(crate) struct QueryPlan {
    pub(crate) queries: Vec<Query>,
    pub(crate) viewer: Viewer,
    pub(crate) secrets: bool,
    pub(crate) schema: Schema,
    bootstrap: Bootstrap,
    options: Options,
    /// True if the flags connect with TLS; `None` if a bootstrap decides.
    is_secure: Option<bool>,
}

impl QueryPlan {
    /// Makes a plan from the flags.
    ///
    /// # Errors
    /// If the flags make no sense, or name a file that cannot be used, or a target that is none.
    pub(crate) fn new(args: &QueryArgs) -> Result<Self, Failure> {
        if let Some(level) = args.output.level() {
            logging::start_tool(level);
        }
        let mut queries = queries(args)?;
        let target = args.target.as_deref().map(bootstrap::target).transpose()?;
        let bootstrap = bootstrap::bootstrap(&args.server, &args.node, &queries, target.as_ref())?;
        if let Some(target) = &target {
            let found = bootstrap.target(target).map_err(Failure::broken)?;
            queries = vec![Query::new(listeners(), found.place.name.as_str())];
        }
        let schema = serve::schema(&args.output.descriptor_sets).map_err(Failure::breaks)?;
        let viewer = Viewer::new(&schema);
        let secrets = args.output.show_secrets;
        let viewer = if secrets { viewer.with_secrets() } else { viewer };
        let options = options(args, &queries);
        let is_secure = (!args.server.servers.is_empty()).then(|| args.server.tls.is_secure());
        Ok(Self { queries, viewer, secrets, schema, bootstrap, options, is_secure })
    }

    /// Makes a plan to ask servers as this node, over a stream for each type.
    ///
    /// # Errors
    /// If the flags make no sense.
    pub(crate) fn of_node(
        server: &ServerArgs,
        node: Node,
        variant: Variant,
        schema: &Schema,
    ) -> Result<Self, Failure> {
        let bootstrap = Bootstrap { node, states_user_agent: true, ..bootstrap::given(server)? };
        let options = Options { variant, aggregated: false, ..timed(server) };
        Ok(Self {
            queries: Vec::new(),
            viewer: Viewer::new(schema),
            secrets: false,
            schema: schema.clone(),
            bootstrap,
            options,
            is_secure: Some(server.tls.is_secure()),
        })
    }

    /// Lets servers know that nobody will hold what they send: no load waits for it.
    #[must_use]
    pub(crate) fn only_looking(mut self) -> Self {
        self.bootstrap.node.client_features = [Node::LOOKS.to_owned()].into();
        self
    }

    /// Returns the variant of the protocol.
    pub(crate) fn variant(&self) -> Variant {
        self.options.variant
    }

    /// Returns the id of the node.
    pub(crate) fn node(&self) -> &str {
        &self.bootstrap.node.id
    }

    /// Returns the time that a server has for an answer.
    pub(crate) fn patience(&self, server: Option<&XdsServer>) -> Duration {
        let settings = &self.options.settings;
        let features = server.map(|server| server.features).unwrap_or_default();
        if features.resource_timer_is_transient_error {
            settings.timeout_after
        } else {
            settings.missing_after
        }
    }

    /// Returns the longest time for one answer: the connection to each server in turn, with the
    /// wait for a stream on it, and then the response of one of them. A server that is reachable
    /// only at times does not make it longer.
    pub(crate) fn limit(&self) -> Duration {
        let authorities = self.bootstrap.authorities.values();
        let others: usize = authorities.map(|authority| authority.servers.len()).sum();
        let servers = u32::try_from(self.bootstrap.servers.len() + others).unwrap_or(u32::MAX);
        let settings = &self.options.settings;
        let answer = settings.missing_after.max(settings.timeout_after);
        let connects = self.options.connect_timeout.saturating_mul(2).saturating_mul(servers);
        connects.saturating_add(answer).saturating_add(GRACE)
    }

    /// Returns a hint for the error of a server that accepted a connection, and then did not speak
    /// HTTP/2 without TLS, or TLS with it. Errors about certificates are those of TLS.
    pub(crate) fn tls_hint(&self, error: &str) -> Option<&'static str> {
        tls_hint(self.is_secure?, error)
    }

    /// Returns true if every response is rejected.
    pub(crate) fn rejects(&self) -> bool {
        self.options.reject.is_some()
    }

    /// Makes a client, which connects to no server yet.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        Client::new(&self.bootstrap, self.options.clone()).map_err(Failure::broken)
    }
}

/// Returns a hint for the error of a server that was asked with or without TLS.
pub(crate) fn tls_hint(is_secure: bool, error: &str) -> Option<&'static str> {
    let is_of_certificate = error.contains("certificate") || error.contains("alert");
    match is_secure {
        false if error.contains(": HTTP/2: ") => {
            Some("if the server speaks TLS, `--tls` or `--ca` is needed")
        }
        true if error.contains(": TLS: ") && !is_of_certificate => {
            Some("if the server speaks no TLS, leave out `--tls`, `--ca` and `--cert`")
        }
        _ => None,
    }
}

/// Makes the threads of the client. Printing has a thread of its own, so that a slow reader of our
/// output does not make servers believe that the client is dead.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    Ok(runtime.context("cannot start")?)
}

/// Returns true if an error means that there is no answer; false if it is a negative answer.
pub(crate) fn is_failure(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Name
            | ErrorKind::Authority
            | ErrorKind::Unreachable
            | ErrorKind::Late
            | ErrorKind::Broken
    )
}

fn queries(args: &QueryArgs) -> Result<Vec<Query>, Failure> {
    if args.target.is_none() {
        return query::read(&args.words).map_err(Failure::misuse);
    }
    match args.words.as_slice() {
        [] => Ok(Vec::new()),
        [kind] if type_of(kind).is_ok_and(|url| url == listeners()) => Ok(Vec::new()),
        _ => {
            Err(Failure::misuse("`--target` asks for a listener; give `lds` beside it, or nothing"))
        }
    }
}

fn listeners() -> TypeUrl {
    TypeUrl::new("envoy.config.listener.v3.Listener")
}

fn options(args: &QueryArgs, queries: &[Query]) -> Options {
    let globs = queries.iter().any(Query::is_glob);
    let usual = if globs { Variant::Delta } else { Variant::Sotw };
    Options {
        variant: args.protocol.protocol.map_or(usual, Variant::from),
        aggregated: !args.protocol.per_type,
        grpc_validation: args.protocol.as_grpc,
        reject: args.protocol.nack.clone(),
        ..timed(&args.server)
    }
}

/// The options of a client for a person who waits.
fn timed(server: &ServerArgs) -> Options {
    let timeout = server.timeout.map(|timeout| timeout.0);
    let limit = timeout.unwrap_or(LIMIT);
    let mut options = Options {
        connect_timeout: limit,
        rest_timeout: limit,
        rest_refresh: SOON,
        ..Options::default()
    };
    options.settings.missing_after = limit;
    // C-066: the default of the client, unless a time is given.
    options.settings.timeout_after = timeout.unwrap_or(options.settings.timeout_after);
    // The jitter is added to this wait, so that both together are `LONGEST_WAIT` at most.
    options.settings.backoff_max = LONGEST_WAIT.div_f64(1.0 + options.settings.jitter);
    options.settings.seed = process::id().into();
    options
}

/// The extra time for an answer that comes at the last moment.
const GRACE: Duration = Duration::from_secs(1);

/// The time for a connection to a server, and again for its answer.
const LIMIT: Duration = Duration::from_secs(15);

/// The longest time between a failed attempt to reach a server and the next one. The library waits
/// longer by default, as gRPC does, to spare a server to which a whole fleet comes back; here a
/// person waits.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The time from an answer of a REST server to the next poll. It is short, because a person waits.
const SOON: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        args: QueryArgs,
    }

    fn options(words: &[&str]) -> Options {
        let args = Flags::parse_from(["get", "cds"].iter().chain(words)).args;
        super::options(&args, &[])
    }

    /// C-065, C-066
    #[test]
    fn servers_have_the_times_of_the_protocol_unless_one_is_given() {
        let seconds = |words: &[&str]| {
            let options = options(words);
            let settings = &options.settings;
            let all = [options.connect_timeout, settings.missing_after, settings.timeout_after];
            all.map(|time| time.as_secs())
        };
        assert_eq!(seconds(&[]), [15, 15, 30]);
        assert_eq!(seconds(&["--timeout", "20s"]), [20, 20, 20]);
    }

    /// C-069
    #[test]
    fn no_wait_is_longer_than_somebody_looks_on() {
        let settings = options(&[]).settings;
        let longest = settings.backoff_max.mul_f64(1.0 + settings.jitter);
        assert!(longest <= LONGEST_WAIT && settings.backoff_max * 5 > LONGEST_WAIT * 4);
    }
}
