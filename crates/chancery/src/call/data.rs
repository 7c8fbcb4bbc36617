//! The messages of a request: JSON from an argument, a file or stdin, as bytes of protobuf.

use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, anyhow};
use bytes::Bytes;
use prost::Message;
use prost_reflect::{DynamicMessage, MethodDescriptor};
use serde_json::value::RawValue;

use crate::exit::Failure;

/// Reads the request of a method.
///
/// # Errors
/// If it cannot be read, is no JSON, does not fit the type, or has another number of messages than the
/// method takes.
pub(super) fn messages(
    data: Option<&str>,
    method: &MethodDescriptor,
) -> Result<Vec<Bytes>, Failure> {
    let text = match data {
        None if method.is_client_streaming() => String::new(),
        None => "{}".to_owned(),
        Some(data) => text(data)?,
    };
    let messages = encoded(&text, method).map_err(Failure::broken)?;
    match messages.len() {
        1 => Ok(messages),
        _ if method.is_client_streaming() => Ok(messages),
        count => {
            let name = method.full_name();
            Err(Failure::broken(anyhow!("`{name}` takes one message, and the request has {count}")))
        }
    }
}

fn text(data: &str) -> Result<String, Failure> {
    if let Some(path) = data.strip_prefix('@') {
        let read = chancery_files::read_to_string(Path::new(path), MAX_BYTES);
        return Ok(read.with_context(|| format!("cannot read `{path}`"))?);
    }
    if data != "-" {
        return Ok(data.to_owned());
    }
    let mut text = String::new();
    let read = io::stdin().lock().take(MAX_BYTES + 1).read_to_string(&mut text);
    match read.context("cannot read the request from the standard input")? {
        read if u64::try_from(read).is_ok_and(|read| read > MAX_BYTES) => {
            Err(Failure::broken(anyhow!("the request has more than {MAX_BYTES} bytes")))
        }
        _ => Ok(text),
    }
}

fn encoded(text: &str, method: &MethodDescriptor) -> anyhow::Result<Vec<Bytes>> {
    let values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let mut messages = Vec::new();
    for value in values {
        let value = value.context("the request is no JSON")?;
        if messages.len() == MAX_MESSAGES {
            return Err(anyhow!("the request has more than {MAX_MESSAGES} messages"));
        }
        let mut json = serde_json::Deserializer::from_str(value.get());
        let message = DynamicMessage::deserialize(method.input(), &mut json);
        let name = method.input();
        let message =
            message.with_context(|| format!("the request is no `{}`", name.full_name()))?;
        messages.push(Bytes::from(message.encode_to_vec()));
    }
    Ok(messages)
}

/// The bytes of a request as JSON.
const MAX_BYTES: u64 = 64 << 20;
/// The messages of a stream.
const MAX_MESSAGES: usize = 100_000;
