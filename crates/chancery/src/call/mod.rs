//! `chancery call`: calls a gRPC service as a client of the mesh does, and shows which way calls go, and why.
//!
//! ```text
//!   target, bootstrap --> Channel --+--> explain            (--dry-run, --explain)
//!   types: files, or reflection ----+--> many --> one --> output, spread
//!   data --> messages --------------+
//! ```
//!
//! Not here: the decision where calls go (`chancery-grpc`).

mod codec;
mod codes;
mod data;
mod definition;
mod explained;
mod many;
mod metadata;
mod one;
mod options;
mod output;
mod reflection;
mod spread;
mod types;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::anyhow;
use chancery_client::{Bootstrap, BootstrapError};
use chancery_core::printable::{PrintForm, printable};
use chancery_grpc::{CallExplanation, Channel, ChannelBuilder, ChannelError, ExplainedOutcome};
use tokio::time::{Instant, interval};

use self::many::{Calls, Event, Plan};
use self::one::Caller;
pub(crate) use self::options::CallArgs;
use self::options::CallFormat;
use self::output::Printer;
use self::spread::Spread;
use self::types::{MethodName, Types};
use crate::exit::Failure;
use crate::{ask, stdout};

/// Runs the command.
pub(crate) fn run(args: &CallArgs) -> Result<(), Failure> {
    if let Some(level) = ask::level(args.output.verbose) {
        crate::logging::start_tool(level);
    }
    let bootstrap = args.way.bootstrap.as_deref().map(ask::read_bootstrap).transpose()?;
    let runtime = ask::runtime()?;
    let ended = runtime.block_on(within(args, bootstrap));
    runtime.shutdown_background();
    ended
}

async fn within(args: &CallArgs, bootstrap: Option<Bootstrap>) -> Result<(), Failure> {
    let caller = Caller {
        channel: channel(args, bootstrap)?,
        headers: metadata::headers(&args.input.headers),
        timeout: args.way.timeout.0,
        wait_for_ready: args.way.wait_for_ready,
        max_size: args.way.max_size.0,
    };
    let method = args.method.as_deref();
    if args.instead.list {
        return list(args, &caller, method).await;
    }
    if args.instead.describe {
        return describe(args, &caller, method).await;
    }
    let method = method.unwrap_or_default();
    let Some(name) = MethodName::read(method) else {
        return Err(Failure::misuse(format!(
            "`{method}` is no method; write `PACKAGE.SERVICE/METHOD`"
        )));
    };
    if args.instead.dry_run {
        return dry_run(args, &caller, &name).await;
    }
    calls(args, caller, &name).await
}

fn channel(args: &CallArgs, bootstrap: Option<Bootstrap>) -> Result<Channel, Failure> {
    let mut builder = ChannelBuilder::new(&args.target);
    if let Some(bootstrap) = bootstrap {
        builder = builder.bootstrap(bootstrap);
    }
    if let Some(authority) = &args.way.authority {
        builder = builder.authority(authority);
    }
    builder.build().map_err(|error| match error {
        ChannelError::Bootstrap(BootstrapError::Missing) => Failure::misuse(
            "no bootstrap: give `--bootstrap`, or set GRPC_XDS_BOOTSTRAP as for a gRPC program",
        ),
        error => Failure::broken(error),
    })
}

/// Lists services, or the methods of one.
async fn list(args: &CallArgs, caller: &Caller, service: Option<&str>) -> Result<(), Failure> {
    let mut types = Types::new(&args.input.descriptor_sets, caller)?;
    let text: String = match service {
        None => types.services().await?.into_iter().map(|name| name + "\n").collect(),
        Some(service) => {
            let pool = types.pool(&[service.to_owned()]).await?;
            let found = pool.get_service_by_name(service).ok_or_else(|| no(service))?;
            let names = found.methods().map(|it| format!("{service}/{}\n", it.name()));
            names.collect()
        }
    };
    stdout::write(printable(&text, PrintForm::Lines).as_bytes()).map(drop)
}

/// Prints the definition of a symbol, or of all services.
async fn describe(args: &CallArgs, caller: &Caller, symbol: Option<&str>) -> Result<(), Failure> {
    let mut types = Types::new(&args.input.descriptor_sets, caller)?;
    let symbols = match symbol {
        Some(symbol) => vec![symbol.trim_start_matches('/').to_owned()],
        None => types.services().await?,
    };
    let asked = symbols.iter().map(|symbol| symbol.replace('/', "."));
    let pool = types.pool(&asked.collect::<Vec<_>>()).await?;
    let mut texts = Vec::with_capacity(symbols.len());
    for symbol in &symbols {
        texts.push(definition::of(&pool, symbol).ok_or_else(|| no(symbol))?);
    }
    stdout::write(printable(&texts.join("\n"), PrintForm::Lines).as_bytes()).map(drop)
}

fn no(symbol: &str) -> Failure {
    Failure::negative(anyhow!("there is no `{}`", printable(symbol, PrintForm::Line)))
}

async fn explained(caller: &Caller, name: &MethodName) -> Result<CallExplanation, Failure> {
    let path = name.path()?;
    Ok(caller.channel.explain(path.as_str(), &caller.headers, caller.timeout).await)
}

/// Explains a call, and makes none.
async fn dry_run(args: &CallArgs, caller: &Caller, name: &MethodName) -> Result<(), Failure> {
    let explained = explained(caller, name).await?;
    if !output::explanation(args.output.output, &explained, true)? {
        return Ok(());
    }
    match &explained.outcome {
        ExplainedOutcome::Fails { .. } => Err(Failure::told()),
        ExplainedOutcome::Waits(_) if explained.route.is_none() => {
            let time = args.way.timeout;
            Err(Failure::broken(anyhow!("the control plane has sent no configuration in {time}")))
        }
        _ => Ok(()),
    }
}

/// Makes the calls.
async fn calls(args: &CallArgs, caller: Caller, name: &MethodName) -> Result<(), Failure> {
    let path = name.path()?;
    let method = Types::new(&args.input.descriptor_sets, &caller)?.method(name).await?;
    let messages = data::messages(args.input.data.as_deref(), &method)?;
    let (format, explains) = (args.output.output, args.output.explain);
    if explains && !output::explanation(format, &explained(&caller, name).await?, false)? {
        return Ok(());
    }
    let is_one = args.load.count == 1;
    let shows_messages = is_one || format == CallFormat::Json;
    let printer = Printer { format, output: method.output(), explains };
    let plan = Plan { caller, path, messages, load: args.load, shows_messages };
    let mut spread = Spread::default();
    let is_read = follow(Calls::start(plan), &printer, is_one, &mut spread).await?;
    if is_read && !is_one && format == CallFormat::Text {
        stdout::write(spread.table().as_bytes())?;
    }
    if is_read { spread.verdict() } else { Ok(()) }
}

/// Shows what comes of calls, until all have ended or the command is interrupted. Returns false if nobody
/// reads any more.
async fn follow(
    mut calls: Calls,
    printer: &Printer,
    is_one: bool,
    spread: &mut Spread,
) -> Result<bool, Failure> {
    let shows_progress = !is_one && io::stderr().is_terminal();
    let (mut ticks, began) = (interval(TICK), Instant::now());
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    let mut is_read = true;
    while is_read {
        tokio::select! {
            event = calls.next() => match event {
                Some(Event::Message(call, message)) => is_read = printer.message(call, message)?,
                Some(Event::Ended(call, report)) => {
                    spread.take(&report);
                    is_read = printer.ended(call, &report, is_one)?;
                }
                None => break,
            },
            _ = &mut interrupted => break,
            _ = ticks.tick(), if shows_progress => {
                let (calls, time) = (spread.calls(), began.elapsed().as_secs());
                write!(io::stderr(), "\r\x1b[K{calls} calls in {time}s").ok();
            }
        }
    }
    if shows_progress {
        write!(io::stderr(), "\r\x1b[K").ok();
    }
    Ok(is_read)
}

/// The time between two lines of the progress.
const TICK: Duration = Duration::from_millis(200);
