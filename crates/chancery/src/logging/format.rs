//! The form of log lines: text for people, or JSON.
//!
//! A line is one line, whatever its texts contain: all that a terminal would take for orders, and
//! every line feed, is escaped here, for the lines of libraries too. A line has a bound, as a last
//! one: texts of peers are cut where they are logged.

use std::fmt::{self, Debug, Write};

use chancery_core::printable::{EscapingWriter, PrintForm, cut, printable};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Json, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::config::LogFormat;

/// The bytes of a line; what is more is cut off.
const MAX_LINE_BYTES: usize = 16 * 1024;

/// Lines as text: time, level, message, and the fields as `name=value`.
pub(super) struct TextLines;

/// Lines as JSON objects.
pub(super) struct JsonLines(Format<Json>);

impl JsonLines {
    pub(super) fn new() -> Self {
        Self(Format::default().json().flatten_event(true).with_target(false))
    }
}

impl<S, N> FormatEvent<S, N> for TextLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut to: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (level, colour) = (*event.metadata().level(), to.has_ansi_escapes());
        Begin { level, colour }.write(&mut to)?;
        let mut fields = TextFields { line: String::new() };
        event.record(&mut fields);
        writeln!(to, "{}", cut(&fields.line, MAX_LINE_BYTES))
    }
}

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut to: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        to.write_str(&printable(&line, PrintForm::Json))
    }
}

/// The line that says how many lines were dropped.
pub(super) fn dropped(format: LogFormat, colour: bool, lines: u64) -> String {
    const MESSAGE: &str = "lines were dropped from the log: nobody read it fast enough";
    let mut line = String::new();
    let mut to = Writer::new(&mut line);
    let written = match format {
        LogFormat::Text => Begin { level: Level::WARN, colour }
            .write(&mut to)
            .and_then(|()| writeln!(to, " {MESSAGE} dropped={lines}")),
        LogFormat::Json => {
            let mut time = String::new();
            SystemTime.format_time(&mut Writer::new(&mut time)).and_then(|()| {
                writeln!(
                    to,
                    "{{\"timestamp\":\"{time}\",\"level\":\"WARN\",\"message\":\"{MESSAGE}\",\
                     \"dropped\":{lines}}}"
                )
            })
        }
    };
    // A string takes all that is written to it.
    written.ok();
    line
}

/// The beginning of a line of text: its time and its level.
struct Begin {
    level: Level,
    colour: bool,
}

impl Begin {
    fn write(&self, to: &mut Writer<'_>) -> fmt::Result {
        let (dim, end) = if self.colour { ("\u{1b}[2m", "\u{1b}[0m") } else { ("", "") };
        to.write_str(dim)?;
        SystemTime.format_time(to)?;
        let level = if self.colour { colour(self.level) } else { "" };
        write!(to, "{end} {level}{:>5}{end}", self.level.as_str())
    }
}

/// The order that gives a level its colour.
fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\u{1b}[31m",
        Level::WARN => "\u{1b}[33m",
        Level::INFO => "\u{1b}[32m",
        Level::DEBUG => "\u{1b}[34m",
        Level::TRACE => "\u{1b}[35m",
    }
}

/// The message and the fields of a line of text, escaped.
struct TextFields {
    line: String,
}

impl Visit for TextFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // A long line is cut anyway.
        if self.line.len() > MAX_LINE_BYTES {
            return;
        }
        self.line.push(' ');
        let name = field.name().trim_start_matches("r#");
        let mut escaped = EscapingWriter::new(PrintForm::Line, &mut self.line);
        let written = match name {
            "message" => write!(escaped, "{value:?}"),
            name => write!(escaped, "{name}={value:?}"),
        };
        // A string takes all that is written to it.
        written.ok();
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use chancery_core::printable::is_printable;
    use tracing::subscriber::with_default;
    use tracing::{info, warn};
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().map_or(Ok(0), |mut log| log.write(bytes))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Log {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    /// The lines that `write` logs in a form.
    fn logged(format: LogFormat, write: impl FnOnce()) -> String {
        let log = Log::default();
        let lines = tracing_subscriber::fmt().with_writer(log.clone());
        match format {
            LogFormat::Text => {
                with_default(lines.with_ansi(false).event_format(TextLines).finish(), write);
            }
            LogFormat::Json => {
                let lines = lines.json().event_format(JsonLines::new());
                with_default(lines.finish(), write);
            }
        }
        String::from_utf8(log.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_line_of_text_has_time_level_message_and_fields() {
        let (node, what) = ("n", "moved");
        let line = logged(LogFormat::Text, || info!(node, r#type = "cds", times = 3, "it {what}"));
        let (time, rest) = line.split_once(' ').unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z'), "{line}");
        assert_eq!(rest, " INFO it moved node=\"n\" type=\"cds\" times=3\n");
    }

    #[test]
    fn a_line_of_json_is_an_object() {
        let line = logged(LogFormat::Json, || info!(node = "\u{85}\u{202e}", "done"));
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&object["level"], &object["message"]), (&"INFO".into(), &"done".into()));
        assert_eq!(object["node"], "\u{85}\u{202e}");
        assert!(line.contains("\\u0085\\u202e"), "{line}");
    }

    #[test]
    fn a_line_is_not_longer_than_its_bound() {
        let text = "long ".repeat(MAX_LINE_BYTES);
        let line = logged(LogFormat::Text, || warn!(text, "{text}"));
        assert!(line.len() < MAX_LINE_BYTES + 100, "{}", line.len());
    }

    #[test]
    fn dropped_lines_are_told_in_the_form_of_the_others() {
        let text = dropped(LogFormat::Text, false, 7);
        assert!(text.contains("Z  WARN lines were dropped"), "{text}");
        assert!(text.ends_with(" dropped=7\n"), "{text}");
        let json = dropped(LogFormat::Json, true, 7);
        let object: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&object["level"], &object["dropped"]), (&"WARN".into(), &7.into()));
        assert!(dropped(LogFormat::Text, true, 1).contains("\u{1b}[33m"));
    }

    #[test]
    fn a_line_is_one_line_that_gives_no_orders_whatever_characters_it_has() {
        let all: Vec<char> = ('\0'..=char::MAX).collect();
        for text in all.chunks(300).map(String::from_iter) {
            for format in [LogFormat::Text, LogFormat::Json] {
                let write = || warn!(text, shown = %text, also = ?[&text], "{text}");
                let line = logged(format, write);
                let inner = line.strip_suffix('\n').unwrap();
                assert!(inner.chars().all(is_printable), "{line:?}");
            }
        }
    }
}
