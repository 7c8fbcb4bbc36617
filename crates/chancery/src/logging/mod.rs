//! Log lines, on stderr, as text or JSON.
//!
//! The lines of the daemon wait in a bounded buffer for a thread that writes them, so that no reader
//! of the log holds up a client ([`start`]). `get` and `watch` write theirs at once ([`start_tool`]).
//!
//! The level holds for this project's own lines. Lines of other libraries are written from `warn`
//! on, whatever level is set: at `debug` they print header fields and frames, and so tokens and
//! bodies (S-138). Lines of `notify` are written from `error` on: its only warning is about a watched
//! directory that is removed inside of another watched one. Linux reports that twice, and `notify`
//! ends the watch twice. Real failures of a watch are returned to the caller or come as an event.

mod bounded;
mod buffer;
mod format;
mod writer;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal, Write};
use std::panic;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tracing::error;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use self::buffer::LineBuffer;
use self::format::{JsonLines, TextLines};
use crate::config::{LogFormat, LogLevel, LogTable};

/// The lines of the daemon that wait to be written, from [`start`] on.
static LINES: OnceLock<Arc<LineBuffer>> = OnceLock::new();

/// The time that lines have to be written when the process ends.
const FLUSH: Duration = Duration::from_secs(2);

/// Starts to write log lines that nobody waits for. It is called once, before anything is logged.
/// Lines that are dropped are counted.
///
/// # Errors
/// If there is no stderr, or no thread.
pub(crate) fn start(log: &LogTable, dropped: Counter) -> io::Result<()> {
    let LogTable { format, level, buffer } = *log;
    let colour = colour();
    let notice = move |lines| format::dropped(format, colour, lines);
    let lines = Arc::new(LineBuffer::new(buffer.0, dropped, notice));
    writer::spawn(Arc::clone(&lines))?;
    subscribe(format, level, Buffered(Arc::clone(&lines)));
    // The usual hook waits for whoever reads stderr.
    panic::set_hook(Box::new(log_panic));
    LINES.get_or_init(|| lines);
    Ok(())
}

/// Starts to write the log lines of a command for people, each at once.
pub(crate) fn start_tool(level: LogLevel) {
    subscribe(LogFormat::Text, level, io::stderr);
}

/// Writes the text that ends the process to stderr. The text of a daemon is the last one of its
/// log.
pub(crate) fn print_last(text: &str) {
    match LINES.get() {
        Some(lines) => lines.push_last(text.as_bytes()),
        // An error of this write cannot be reported anywhere.
        None => io::stderr().write_all(text.as_bytes()).unwrap_or_default(),
    }
}

/// Waits until the lines of the daemon are written, but not for long: a pipe that nobody reads does
/// not hold up the end of the process.
pub(crate) fn finish() {
    if let Some(lines) = LINES.get() {
        lines.close(FLUSH);
    }
}

fn subscribe<W>(format: LogFormat, level: LogLevel, to: W)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = fmt::layer().with_writer(to).with_ansi(colour()).log_internal_errors(false);
    let registry = tracing_subscriber::registry().with(admitted(level));
    match format {
        LogFormat::Text => registry.with(lines.event_format(TextLines)).init(),
        LogFormat::Json => registry.with(lines.event_format(JsonLines)).init(),
    }
}

fn colour() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Logs a panic, which ends a connection or a load and not the process.
fn log_panic(panic: &panic::PanicHookInfo<'_>) {
    let backtrace = Backtrace::capture();
    match backtrace.status() {
        BacktraceStatus::Captured => error!(%backtrace, "{panic}"),
        _ => error!("{panic}"),
    }
}

/// Hands each line to the buffer.
struct Buffered(Arc<LineBuffer>);

/// The writer of one line.
struct LineWriter<'b>(&'b LineBuffer);

impl<'b> MakeWriter<'b> for Buffered {
    type Writer = LineWriter<'b>;

    fn make_writer(&'b self) -> LineWriter<'b> {
        LineWriter(&self.0)
    }
}

impl Write for LineWriter<'_> {
    /// Takes a whole line, or drops it: that is no error for whoever logs.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The filter of the lines that are written. Of libraries only errors are: a peer can have HTTP/2 and
/// TLS warn as often as it likes, in its own words, and no budget of lines is theirs.
fn admitted(level: LogLevel) -> Targets {
    let own = CRATES.iter().map(|target| (*target, filter(level)));
    Targets::new().with_default(filter(level).min(LevelFilter::ERROR)).with_targets(own)
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

const CRATES: [&str; 6] = [
    "chancery",
    "chancery_client",
    "chancery_core",
    "chancery_proto",
    "chancery_server",
    "chancery_sources",
];

#[cfg(test)]
mod tests {
    use tracing::Level as At;

    use super::*;

    #[test]
    fn the_libraries_below_never_tell_what_they_carry() {
        // S-138
        let all = admitted(LogLevel::Trace);
        assert!(all.would_enable("chancery_server::stream", &At::TRACE));
        assert!(!all.would_enable("h2::proto", &At::WARN), "peers have it warn");
        assert!(!all.would_enable("rustls::check", &At::WARN));
        assert!(all.would_enable("rustls::common_state", &At::ERROR));
        assert!(all.would_enable("notify::inotify", &At::ERROR));
        assert!(!all.would_enable("notify::inotify", &At::WARN));
    }

    #[test]
    fn less_can_be_asked_for() {
        let few = admitted(LogLevel::Error);
        assert!(!few.would_enable("chancery::serve", &At::WARN));
    }
}
