//! `chancery call`: calls a gRPC service as a client of the mesh does, and shows which way calls go, and why.
//!
//! ```text
//!   target, bootstrap --> Channel --+--> explain            (--dry-run, --explain)
//!   types: files, or reflection ----+--> many --> one --> output, spread
//!   data --> messages --------------+
//! ```
//!
//! Not here: the decision where calls go (`chancery-grpc`).

mod channel;
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
mod pool;
mod progress;
mod reflection;
mod spread;
mod types;

use std::time::Duration;

use anyhow::{Context, anyhow};
use chancery_core::printable::{PrintForm, printable};
use chancery_grpc::{CallExplanation, ExplainedOutcome};

use tokio::signal::unix::{Signal, SignalKind, signal};

use self::data::{BrokenInput, Input};
use self::many::{Calls, Event, Plan};
use self::one::Caller;
pub(crate) use self::options::CallArgs;
use self::options::CallFormat;
use self::output::Printer;
use self::progress::Progress;
use self::spread::Spread;
use self::types::{MethodName, Types};
use crate::exit::Failure;
use crate::{ask, stdout};

/// Runs the command.
pub(crate) fn run(args: &CallArgs) -> Result<(), Failure> {
    if let Some(level) = ask::level(args.output.verbose) {
        crate::logging::start_tool(level);
    }
    let runtime = ask::runtime()?;
    let ended = runtime.block_on(within(args));
    runtime.shutdown_background();
    ended
}

async fn within(args: &CallArgs) -> Result<(), Failure> {
    let caller = Caller {
        channel: channel::channel(args)?,
        headers: metadata::headers(&args.input.headers),
        timeout: args.way.timeout.0,
        wait_for_ready: args.way.wait_for_ready,
        max_size: args.way.max_size.0,
    };
    // The channel lives until the control plane has heard of all its calls, also of questions for types.
    let channel = caller.channel.clone();
    let ended = done(args, caller).await;
    let interrupted = tokio::signal::ctrl_c();
    tokio::select! {
        _ = chancery_grpc::close_clients(LAST_REPORT) => {}
        _ = interrupted => {}
    }
    drop(channel);
    ended
}

/// Does one of the things that the command can do.
async fn done(args: &CallArgs, caller: Caller) -> Result<(), Failure> {
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
        ExplainedOutcome::Waits(_) if explained.cluster.is_none() => {
            let time = args.way.timeout;
            Err(Failure::broken(anyhow!("the control plane has sent no configuration in {time}")))
        }
        _ => Ok(()),
    }
}

/// Makes the calls.
async fn calls(args: &CallArgs, caller: Caller, name: &MethodName) -> Result<(), Failure> {
    let path = name.path()?;
    let mut types = Types::new(&args.input.descriptor_sets, &caller)?;
    let (format, explains) = (args.output.output, args.output.explain);
    // Before the server is asked for its types, as nobody may get an answer there.
    if explains && !output::explanation(format, &explained(&caller, name).await?, false)? {
        return Ok(());
    }
    let method = types.method(name).await?;
    let is_live = args.input.data.as_deref() == Some("-") && args.load.count == 1;
    let (input, broken) = if is_live && method.is_client_streaming() {
        let (input, broken) = data::live(method.input());
        (input, Some(broken))
    } else {
        let messages = data::messages(args.input.data.as_deref(), &method)?;
        (Input::Fixed(messages), None)
    };
    let is_one = args.load.count == 1;
    let shows_messages = is_one || format == CallFormat::Json;
    let printer = Printer { format, output: method.output(), explains };
    let plan = Plan { caller, path, input: input.into(), load: args.load, shows_messages };
    let mut shown = Shown { printer, is_one, spread: Spread::default(), has_output: false };
    let interrupts = signal(SignalKind::interrupt()).context("cannot wait for signals")?;
    let ended = shown.follow(plan, interrupts, broken).await?;
    shown.verdict(ended)
}

/// The time for the last load report.
const LAST_REPORT: Duration = Duration::from_secs(1);

/// The calls as they are shown.
struct Shown {
    printer: Printer,
    is_one: bool,
    spread: Spread,
    /// True if something has come.
    has_output: bool,
}

/// The end of all calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    All,
    Interrupted,
    /// Nobody reads the output any more.
    Unread,
}

impl Shown {
    /// Shows what comes of calls, until all have ended or the command is interrupted.
    async fn follow(
        &mut self,
        plan: Plan,
        mut interrupts: Signal,
        mut broken: Option<BrokenInput>,
    ) -> Result<Ended, Failure> {
        let (mut calls, mut progress) = (Calls::start(plan), Progress::new(!self.is_one));
        loop {
            let is_read = tokio::select! {
                event = calls.next() => match event {
                    Some(event) => self.take(event)?,
                    None => return Ok(Ended::All),
                },
                _ = interrupts.recv() => return Ok(Ended::Interrupted),
                error = failed(&mut broken) => return Err(Failure::broken(error)),
                () = progress.is_due() => {
                    progress.show(self.spread.calls());
                    true
                }
            };
            if !is_read {
                return Ok(Ended::Unread);
            }
        }
    }

    /// Returns false if nobody reads any more.
    fn take(&mut self, event: Event) -> Result<bool, Failure> {
        self.has_output = true;
        match event {
            Event::Message(call, message) => self.printer.message(call, message),
            Event::Ended(call, report) => {
                self.spread.take(&report);
                self.printer.ended(call, &report, self.is_one)
            }
        }
    }

    /// Shows the table, and says how it ends.
    fn verdict(mut self, ended: Ended) -> Result<(), Failure> {
        if ended == Ended::Unread {
            return Ok(());
        }
        if !self.has_output {
            return Err(Failure::broken(anyhow!("interrupted before anything was answered")));
        }
        if !self.is_one && self.printer.format == CallFormat::Text {
            stdout::write(self.spread.table().as_bytes())?;
        }
        self.spread.verdict()
    }
}

/// Waits until the input turns out to be broken, which may never be.
async fn failed(broken: &mut Option<BrokenInput>) -> anyhow::Error {
    if let Some(receiver) = broken {
        match receiver.await {
            Ok((error, _)) => return error,
            // It was read to its end.
            Err(_) => *broken = None,
        }
    }
    std::future::pending().await
}
