//! Log lines, on stderr, as text or JSON.
//!
//! The level holds for this project's own lines. Lines of other libraries are written from `warn`
//! on, whatever level is set: at `debug` they print header fields and frames, and so tokens and
//! bodies (S-138). Lines of `notify` are written from `error` on: its only warning is about a watched
//! directory that is removed inside of another watched one. Linux reports that twice, and `notify`
//! ends the watch twice. Real failures of a watch are returned to the caller or come as an event.

use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogFormat, LogLevel};

/// Starts writing log lines. It is called once, before anything is logged.
pub(crate) fn start(format: LogFormat, level: LogLevel) {
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(colour).with_target(false);
    let registry = tracing_subscriber::registry().with(admitted(level));
    match format {
        LogFormat::Text => registry.with(lines).init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).init(),
    }
}

/// The filter of the lines that are written.
fn admitted(level: LogLevel) -> Targets {
    let own = CRATES.iter().map(|target| (*target, filter(level)));
    Targets::new()
        .with_default(filter(level).min(LevelFilter::WARN))
        .with_target("notify", LevelFilter::ERROR)
        .with_targets(own)
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
        assert!(all.would_enable("h2::proto", &At::WARN));
        assert!(!all.would_enable("h2::proto", &At::DEBUG));
        assert!(!all.would_enable("tonic::transport", &At::INFO));
        assert!(all.would_enable("notify::inotify", &At::ERROR));
        assert!(!all.would_enable("notify::inotify", &At::WARN));
    }

    #[test]
    fn less_can_be_asked_for() {
        let few = admitted(LogLevel::Error);
        assert!(!few.would_enable("chancery::serve", &At::WARN));
        assert!(!few.would_enable("h2::proto", &At::WARN));
    }
}
