//! The form of log lines: text for people, or JSON.
//!
//! A line is one line, whatever its texts contain: all that a terminal would take for orders, and
//! every line feed, is escaped here, for the lines of libraries too. A line has a bound, as a last
//! one: texts of peers are cut where they are logged.

use std::fmt::{self, Debug, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::bounded::{BoundedText, CUT, Notation};
use crate::config::LogFormat;

/// The bytes of a line with its line feed; what is more is cut off.
const MAX_LINE_BYTES: usize = 16 * 1024;

/// The bytes that fields may fill: all but the sign that something is cut, and the end of a line.
const MAX_FIELD_BYTES: usize = MAX_LINE_BYTES - CUT.len() - "\"}\n".len();

/// Lines as text: time, level, message, and the fields as `name=value`.
pub(super) struct TextLines;

/// Lines as JSON objects: `timestamp`, `level`, and the fields, of which `message` is one.
pub(super) struct JsonLines;

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
        let mut line = String::new();
        Begin { level, colour }.write(&mut Writer::new(&mut line))?;
        let mut fields = TextFields { line, is_cut: false };
        event.record(&mut fields);
        writeln!(to, "{}", fields.line)
    }
}

impl<S, N> FormatEvent<S, N> for JsonLines
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
        let mut fields = JsonFields { line: begin_json(*event.metadata().level())?, is_cut: false };
        event.record(&mut fields);
        writeln!(to, "{}}}", fields.line)
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
        LogFormat::Json => begin_json(Level::WARN).and_then(|begin| {
            writeln!(to, "{begin},\"message\":\"{MESSAGE}\",\"dropped\":{lines}}}")
        }),
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

/// The beginning of a line of JSON: its time and its level.
fn begin_json(level: Level) -> Result<String, fmt::Error> {
    let mut line = "{\"timestamp\":\"".to_owned();
    SystemTime.format_time(&mut Writer::new(&mut line))?;
    write!(line, "\",\"level\":\"{level}\"")?;
    Ok(line)
}

/// A line of text to which the message and the fields are added, escaped.
struct TextFields {
    line: String,
    /// True if something did not fit. Then nothing more is added.
    is_cut: bool,
}

impl Visit for TextFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if self.is_cut {
            return;
        }
        let mut text = BoundedText::new(Notation::Text, &mut self.line, MAX_FIELD_BYTES);
        let written = match name(field) {
            "message" => write!(text, " {value:?}"),
            name => write!(text, " {name}={value:?}"),
        };
        if written.is_err() {
            self.line.push_str(CUT);
            self.is_cut = true;
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        // Quotes are written after a look at all that is between them, so a long text is cut before.
        let most = value.floor_char_boundary(MAX_LINE_BYTES);
        self.record_debug(field, &&value[..most]);
    }
}

/// A line of JSON without its end, to which the message and the fields are added.
struct JsonFields {
    line: String,
    /// True if something did not fit. Then nothing more is added.
    is_cut: bool,
}

impl JsonFields {
    /// Adds a field whose value is this text.
    fn add_text(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        if self.begin(field, "\"").is_err() {
            return;
        }
        let mut text = BoundedText::new(Notation::JsonString, &mut self.line, MAX_FIELD_BYTES);
        if text.write_fmt(value).is_err() {
            self.line.push_str(CUT);
            self.is_cut = true;
        }
        self.line.push('"');
    }

    /// Adds a field whose value is this number or word of JSON.
    fn add_word(&mut self, field: &Field, word: &str) {
        // The field is left out if there is no room for it.
        self.begin(field, word).ok();
    }

    /// Adds the name of a field and the beginning of its value, or nothing.
    fn begin(&mut self, field: &Field, value: &str) -> fmt::Result {
        if self.is_cut {
            return Err(fmt::Error);
        }
        let mut line = BoundedText::new(Notation::JsonString, &mut self.line, MAX_FIELD_BYTES);
        let begun = line.push_whole(&format!(",\"{}\":{value}", name(field)));
        self.is_cut = begun.is_err();
        begun
    }
}

impl Visit for JsonFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add_text(field, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_text(field, format_args!("{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add_word(field, &value.to_string());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add_word(field, &value.to_string());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add_word(field, &value.to_string());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add_word(field, &serde_json::Value::from(value).to_string());
    }
}

/// The name of a field, which may be a word of Rust.
fn name(field: &Field) -> &'static str {
    field.name().trim_start_matches("r#")
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
            LogFormat::Json => with_default(lines.event_format(JsonLines).finish(), write),
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
    fn a_field_of_json_has_the_type_of_its_value() {
        let write =
            || info!(r#type = "cds", n = 3, m = -4, half = 0.5, yes = true, of = ?["a"], "x");
        let line = logged(LogFormat::Json, write);
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&object["type"], &object["of"]), (&"cds".into(), &"[\"a\"]".into()));
        let plain = ["n", "m", "half", "yes"].map(|name| object[name].to_string());
        assert_eq!(plain, ["3", "-4", "0.5", "true"]);
    }

    #[test]
    fn a_line_is_not_longer_than_its_bound() {
        for piece in ["long ", "\"\\", "\u{1b}", "\u{e0041}", "ä\n"] {
            let text = piece.repeat(MAX_LINE_BYTES);
            for cut in ["", &text] {
                let write = || warn!(first = "1", text, last = "2", "{cut}");
                let line = logged(LogFormat::Text, write);
                let most = MAX_LINE_BYTES - 20..=MAX_LINE_BYTES;
                assert!(most.contains(&line.len()) && line.ends_with("… (cut)\n"), "{line:?}");
                let line = logged(LogFormat::Json, write);
                assert!(most.contains(&line.len()) && line.ends_with("… (cut)\"}\n"), "{line:?}");
                let object: serde_json::Value = serde_json::from_str(&line).unwrap();
                assert_eq!((&object["level"], object.get("last")), (&"WARN".into(), None));
            }
        }
    }

    #[test]
    fn many_fields_make_no_longer_line() {
        let text = "x".repeat(MAX_LINE_BYTES - 120);
        let write =
            || info!(a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, i = 9, "{text}");
        for format in [LogFormat::Text, LogFormat::Json] {
            let line = logged(format, write);
            assert!(line.len() <= MAX_LINE_BYTES && line.contains("x"), "{}", line.len());
        }
        serde_json::from_str::<serde_json::Value>(&logged(LogFormat::Json, write)).unwrap();
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
