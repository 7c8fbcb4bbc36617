//! The output of calls: messages and reports, as text or as lines of JSON.

use std::io::{self, Write};

use anyhow::{Context, anyhow};
use bytes::Bytes;
use chancery_core::printable::{PrintForm, printable};
use chancery_grpc::CallExplanation;
use http::HeaderMap;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use serde_json::{Map, Value, json};

use super::one::CallReport;
use super::options::CallFormat;
use super::{codes, explained};
use crate::exit::Failure;
use crate::stdout;

/// Writes what comes.
pub(super) struct Printer {
    pub(super) format: CallFormat,
    /// The type of the messages of answers.
    pub(super) output: MessageDescriptor,
    /// True if it is said where a call went.
    pub(super) explains: bool,
}

impl Printer {
    /// Writes a message of an answer. Returns false if nobody reads any more.
    pub(super) fn message(&self, call: u32, message: Bytes) -> Result<bool, Failure> {
        let name = self.output.full_name();
        let read = DynamicMessage::decode(self.output.clone(), message);
        let read = read.with_context(|| format!("a message of the answer is no `{name}`"))?;
        let value = serde_json::to_value(&read);
        let value = value.with_context(|| format!("a `{name}` cannot be written as JSON"))?;
        match self.format {
            CallFormat::Text => {
                let text = serde_json::to_string_pretty(&value).map_err(|error| anyhow!(error))?;
                stdout::write(format!("{}\n", printable(&text, PrintForm::Json)).as_bytes())
            }
            CallFormat::Json => line(&json!({"call": call, "response": value})),
        }
    }

    /// Writes the end of a call. Returns false if nobody reads any more.
    pub(super) fn ended(
        &self,
        call: u32,
        report: &CallReport,
        is_one: bool,
    ) -> Result<bool, Failure> {
        match self.format {
            CallFormat::Json => line(&object(call, report)),
            CallFormat::Text if is_one && self.explains => {
                // It goes to stderr, because a program may read stdout.
                writeln!(io::stderr(), "{}", sentence(report)).ok();
                Ok(true)
            }
            CallFormat::Text => Ok(true),
        }
    }
}

/// Writes an explanation, to stdout if nothing else is asked for. Returns false if nobody reads any more.
pub(super) fn explanation(
    format: CallFormat,
    explained: &CallExplanation,
    is_alone: bool,
) -> Result<bool, Failure> {
    match format {
        CallFormat::Json => line(&json!({"explanation": explained::json(explained)})),
        CallFormat::Text => {
            let text = format!("{explained}\n");
            let text = printable(&text, PrintForm::Lines);
            if is_alone {
                return stdout::write(text.as_bytes());
            }
            io::stderr().write_all(text.as_bytes()).ok();
            Ok(true)
        }
    }
}

fn line(value: &Value) -> Result<bool, Failure> {
    stdout::write(format!("{}\n", printable(&value.to_string(), PrintForm::Json)).as_bytes())
}

fn sentence(report: &CallReport) -> String {
    let (code, took) = (codes::name(report.code), super::spread::millis(report.took));
    match &report.place {
        None => format!("the call was not answered: {code} after {took}"),
        Some(place) => format!(
            "the call went to {}, in cluster `{}`, locality {}, in attempt {}: {code} after {took}",
            place.endpoint(),
            printable(place.cluster(), PrintForm::Line),
            place.locality(),
            place.attempts()
        ),
    }
}

/// The keys are a promise to users; new ones may be added.
fn object(call: u32, report: &CallReport) -> Value {
    let place = report.place.as_ref();
    json!({
        "call": call,
        "code": codes::name(report.code),
        "message": report.message,
        "cluster": place.map(|it| it.cluster()),
        "locality": place.map(|it| explained::locality(it.locality())),
        "endpoint": place.map(|it| it.endpoint()),
        "attempts": place.map(|it| it.attempts()),
        "milliseconds": (report.took.as_secs_f64() * 1e6).round() / 1e3,
        "headers": metadata(&report.headers),
        "trailers": metadata(&report.trailers),
    })
}

/// Each name with its values. Those of names in `-bin` are base64.
fn metadata(headers: &HeaderMap) -> Value {
    let mut object = Map::new();
    for name in headers.keys() {
        let values = headers.get_all(name).iter();
        let values = values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        object.insert(name.as_str().to_owned(), values.collect::<Vec<_>>().into());
    }
    object.into()
}
