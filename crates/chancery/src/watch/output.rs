//! The output of `watch`: events on stdout, each at once and whole, in the format that was asked
//! for.
//!
//! A resource is remembered only if an earlier run printed it, or to show a difference. Not here:
//! the thread that prints (`printer`), the events (`event`), and the reading of an earlier output
//! (`resume`).

use std::collections::HashMap;
use std::sync::Arc;

use chancery_client::TypeUrl;
use chancery_client::options::Variant;
use chancery_client::resource::Resource;
use chancery_core::printable::{PrintForm, printable};
use serde_json::Value;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use super::event::{EventKind, ResourceEvent};
use super::options::EventFormat;
use crate::ask::{QueryPlan, Renderer, Row, plain};
use crate::colour::{Colour, Paint};
use crate::exit::Failure;
use crate::line_diff;
use crate::stdout;

/// Writes events.
pub(super) struct Output {
    format: EventFormat,
    renderer: Renderer,
    paint: Paint,
    /// The resources as they were printed last.
    known: HashMap<(TypeUrl, Arc<str>), PrintedResource>,
}

struct PrintedResource {
    row: Row,
    /// True if an earlier run printed it, and this one has not.
    restored: bool,
}

impl Output {
    pub(super) fn new(format: EventFormat, plan: &QueryPlan) -> Self {
        let renderer = Renderer::new(plan);
        Self { format, renderer, paint: Paint::of_stdout(), known: HashMap::new() }
    }

    /// Notes a resource that an earlier run printed.
    pub(super) fn restore(&mut self, type_url: &TypeUrl, resource: &Resource) {
        let row = Row {
            type_url: type_url.clone(),
            name: resource.name().shared(),
            version: resource.version().to_string().into(),
            server: "".into(),
            resource: Arc::new(resource.clone()),
        };
        let key = (type_url.clone(), Arc::clone(&row.name));
        self.known.insert(key, PrintedResource { row, restored: true });
    }

    /// Writes an event, unless it is known from an earlier run.
    pub(super) fn write(&mut self, event: &ResourceEvent) -> Result<Wrote, Failure> {
        let key = (event.type_url.clone(), Arc::clone(&event.name));
        let before = match &event.kind {
            EventKind::Ambient(_) => None,
            _ => self.known.remove(&key),
        };
        let is_known = before.as_ref().zip(event.row()).is_some_and(|(before, row)| {
            before.restored && self.renderer.json(&before.row) == self.renderer.json(row)
        });
        let text = if is_known { Vec::new() } else { self.text(event, before.map(|it| it.row))? };
        if let Some(row) = event.row() {
            // A resource is only kept if it was printed by an earlier run, or to make a diff.
            if is_known || self.format == EventFormat::Diff {
                self.known.insert(key, PrintedResource { row: row.clone(), restored: is_known });
            }
        }
        if is_known {
            return Ok(Wrote::Nothing);
        }
        Ok(if stdout::write(&text)? { Wrote::Event } else { Wrote::ToNobody })
    }

    fn text(&self, event: &ResourceEvent, before: Option<Row>) -> Result<Vec<u8>, Failure> {
        let now = now();
        Ok(match self.format {
            EventFormat::Json => self.object(event, &now).into_bytes(),
            EventFormat::Table => self.line(event, &now, self.paint).into_bytes(),
            EventFormat::Diff => {
                let change = before.zip(event.row()).map(|(before, after)| {
                    line_diff::lines(
                        &self.renderer.yaml(&before),
                        &self.renderer.yaml(after),
                        self.paint,
                    )
                });
                (self.line(event, &now, self.paint) + &change.unwrap_or_default()).into_bytes()
            }
            EventFormat::Yaml => {
                let body = event.row().map(|row| format!("---\n{}", self.renderer.yaml(row)));
                (self.comment(event, &now) + &body.unwrap_or_default()).into_bytes()
            }
            EventFormat::Text => {
                let body = event.row().map(|row| self.renderer.text(row));
                (self.comment(event, &now) + &body.unwrap_or_default()).into_bytes()
            }
            EventFormat::Binary => self.message(event)?,
        })
    }

    /// Returns an event as JSON. The keys are a promise to users; new ones may be added at the end.
    fn object(&self, event: &ResourceEvent, now: &str) -> String {
        let text = |text: &str| Value::from(text).to_string();
        let null = || "null".to_owned();
        let row = event.row();
        let object = format!(
            "{{\"time\":{},\"type\":{},\"name\":{},\"event\":{},\"version\":{},\"resource\":{},\
             \"error\":{}}}\n",
            text(now),
            text(event.type_url.as_str()),
            text(&event.name),
            text(event.word()),
            row.map_or_else(null, |row| text(&row.version)),
            row.map_or_else(null, |row| self.renderer.json(row)),
            event.why().map_or_else(null, |why| text(&why)),
        );
        printable(&object, PrintForm::Json).into_owned()
    }

    /// Returns an event as a line: `TIME TYPE NAME EVENT…`.
    fn line(&self, event: &ResourceEvent, now: &str, paint: Paint) -> String {
        let (short, name) = (plain(event.type_url.short()), plain(&event.name));
        let time = paint.with(Colour::Faint, clock(now));
        let (word, why) = (event.word(), event.why().unwrap_or_default());
        let (colour, rest) = match &event.kind {
            EventKind::Changed(row) if row.version.is_empty() => (Colour::Green, String::new()),
            EventKind::Changed(row) => {
                (Colour::Green, format!(", version {}", plain(&row.version)))
            }
            EventKind::Removed(_) => (Colour::Red, String::new()),
            EventKind::Error(_) => (Colour::Red, format!(": {}", plain(&why))),
            EventKind::Ambient(Some(_)) => (Colour::Yellow, format!(": {}", plain(&why))),
            EventKind::Ambient(None) => (Colour::Yellow, ": over".to_owned()),
        };
        format!("{time} {short} {name} {}{rest}\n", paint.with(colour, word))
    }

    fn comment(&self, event: &ResourceEvent, now: &str) -> String {
        format!("# {}", self.line(event, now, Paint::None))
    }

    /// Returns the message of an event after its length. It is empty for an event that changes no
    /// resource.
    fn message(&self, event: &ResourceEvent) -> Result<Vec<u8>, Failure> {
        let (rows, removed) = match &event.kind {
            EventKind::Changed(row) => (std::slice::from_ref(row), Vec::new()),
            EventKind::Removed(_) | EventKind::Error(_) => (&[][..], vec![Arc::clone(&event.name)]),
            EventKind::Ambient(_) => return Ok(Vec::new()),
        };
        let message = self.renderer.binary(Variant::Delta, &event.type_url, rows, removed)?;
        let mut out = varint(message.len());
        out.extend(message);
        Ok(out)
    }
}

/// The outcome of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrote {
    Event,
    /// The event was known.
    Nothing,
    /// Nobody reads any more.
    ToNobody,
}

/// Returns the present time in UTC, in the form of RFC 3339.
fn now() -> String {
    let mut text = String::new();
    // A string takes all that is written to it.
    SystemTime.format_time(&mut Writer::new(&mut text)).ok();
    text
}

/// The time of the day, in milliseconds.
fn clock(now: &str) -> &str {
    now.get("2026-01-01T".len().."2026-01-01T00:00:00.000".len()).unwrap_or(now)
}

fn varint(mut number: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_told_with_milliseconds() {
        assert_eq!(clock("2026-11-22T05:11:49.155744Z"), "05:11:49.155");
        assert_eq!(clock(&now()).len(), 12);
    }

    #[test]
    fn a_length_is_a_varint() {
        assert_eq!(varint(1), [1]);
        assert_eq!(varint(300), [0xac, 2]);
    }
}
