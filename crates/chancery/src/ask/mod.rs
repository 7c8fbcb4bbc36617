//! What `chancery get` and `chancery watch` have in common: from flags to a client that asks, and
//! from what it hears to text.
//!
//! ```text
//!   words, --target --> [subject] --+
//!   --server, --bootstrap --> [whom] --> Client --> what came --> [sheet] --> stdout
//! ```
//!
//! Not here: the protocol, which is `chancery-client`'s, and when enough was heard, which the
//! commands decide.

mod options;
mod sheet;
mod subject;
mod whom;

use std::fmt::Display;
use std::io;
use std::process;
use std::time::Duration;

use anyhow::Context;
use chancery_client::{Bootstrap, Client, ErrorKind, Options, TypeUrl, Variant};
use chancery_proto::schema::Schema;
use chancery_proto::show::Viewer;
use clap::CommandFactory;
use clap::error::ErrorKind as Misuse;

pub(crate) use self::options::Asking;
pub(crate) use self::sheet::{Row, Sheet, plain};
pub(crate) use self::subject::Subject;
use crate::cli::Cli;
use crate::config::LogFormat;
use crate::exit::Failure;
use crate::logging;
use crate::serve;

/// All that is known before anybody is asked.
pub(crate) struct Plan {
    pub(crate) subjects: Vec<Subject>,
    pub(crate) viewer: Viewer,
    pub(crate) secrets: bool,
    pub(crate) schema: Schema,
    bootstrap: Bootstrap,
    options: Options,
}

impl Plan {
    /// What the flags come to.
    ///
    /// # Errors
    /// They make no sense, or name a file that cannot be used, or a target that is none.
    pub(crate) fn new(asking: &Asking) -> Result<Self, Failure> {
        if let Some(level) = asking.shown.level() {
            logging::start(LogFormat::Text, level);
        }
        let mut subjects = subjects(asking)?;
        let target = asking.target.as_deref().map(whom::target).transpose()?;
        let bootstrap = whom::bootstrap(&asking.whom, &asking.who, &subjects, target.as_ref())?;
        if let Some(target) = &target {
            let found = bootstrap.target(target).map_err(Failure::broken)?;
            subjects = vec![Subject::new(listeners(), found.place.name.as_str())];
        }
        let schema = serve::schema(&asking.shown.descriptor_sets).map_err(Failure::breaks)?;
        let viewer = Viewer::new(&schema);
        let secrets = asking.shown.show_secrets;
        let viewer = if secrets { viewer.with_secrets() } else { viewer };
        let options = options(asking, &subjects);
        Ok(Self { subjects, viewer, secrets, schema, bootstrap, options })
    }

    /// The variant of the protocol.
    pub(crate) fn variant(&self) -> Variant {
        self.options.variant
    }

    /// How long a server has.
    pub(crate) fn limit(&self) -> Duration {
        self.options.settings.missing_after
    }

    /// Whether everything is rejected.
    pub(crate) fn rejects(&self) -> bool {
        self.options.reject.is_some()
    }

    /// A client that has not asked anybody yet.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        Client::new(&self.bootstrap, self.options.clone()).map_err(Failure::broken)
    }
}

/// Threads for the client, beside the one that prints: a reader of our output that takes its time
/// must not make servers believe that we are dead.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    Ok(runtime.context("cannot start")?)
}

/// Flags that are well formed and cannot be meant together.
pub(crate) fn misuse(why: impl Display) -> Failure {
    Failure::misuse(&Cli::command().error(Misuse::ArgumentConflict, why))
}

/// What came of writing: `false` if nobody reads any more, which is no failure.
pub(crate) fn written(wrote: io::Result<()>) -> Result<bool, Failure> {
    match wrote {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            Err(anyhow::Error::from(error).context("cannot write to the standard output").into())
        }
    }
}

/// Whether the question could not be answered, as against answered with no.
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

fn subjects(asking: &Asking) -> Result<Vec<Subject>, Failure> {
    if asking.target.is_none() {
        return subject::read(&asking.words).map_err(misuse);
    }
    match asking.words.as_slice() {
        [] => Ok(Vec::new()),
        [kind] if subject::type_of(kind).is_ok_and(|url| url == listeners()) => Ok(Vec::new()),
        _ => Err(misuse("`--target` asks for a listener; give `lds` beside it, or nothing")),
    }
}

fn listeners() -> TypeUrl {
    TypeUrl::new("envoy.config.listener.v3.Listener")
}

fn options(asking: &Asking, subjects: &[Subject]) -> Options {
    let globs = subjects.iter().any(Subject::is_glob);
    let usual = if globs { Variant::Delta } else { Variant::Sotw };
    let mut options = Options {
        variant: asking.how.protocol.map_or(usual, Variant::from),
        aggregated: !asking.how.per_type,
        for_grpc: asking.how.as_grpc,
        reject: asking.how.nack.clone(),
        connect_timeout: asking.whom.timeout.0,
        rest_timeout: asking.whom.timeout.0,
        rest_refresh: SOON,
        ..Options::default()
    };
    options.settings.missing_after = asking.whom.timeout.0;
    options.settings.timeout_after = asking.whom.timeout.0;
    options.settings.seed = process::id().into();
    options
}

/// How long after an answer a REST server is polled again: somebody looks on.
const SOON: Duration = Duration::from_secs(1);
