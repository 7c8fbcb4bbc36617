//! The messages of a request: JSON from an argument, a file or stdin, as bytes of protobuf.

use std::io::{self, Read};
use std::path::Path;
use std::{mem, thread};

use anyhow::{Context, anyhow};
use bytes::Bytes;
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, MethodDescriptor};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use crate::exit::Failure;

/// The messages of a request.
#[derive(Debug)]
pub(super) enum Input {
    /// They are known before the call is made.
    Fixed(Vec<Bytes>),
    /// They come while the call is open.
    Live(mpsc::Receiver<Bytes>),
}

/// The reason why a request that comes while the call is open cannot be finished. As long as somebody has it,
/// the stream does not end as a request that is finished does.
pub(super) type BrokenInput = oneshot::Receiver<(anyhow::Error, mpsc::Sender<Bytes>)>;

/// Counts what is read, and refuses more than a request may have.
struct Limited<R> {
    from: R,
    left: u64,
}

/// Reads the request of a method before the call is made.
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
    let messages = encoded(&text, &method.input()).map_err(Failure::broken)?;
    match messages.len() {
        1 => Ok(messages),
        _ if method.is_client_streaming() => Ok(messages),
        count => {
            let name = method.full_name();
            Err(Failure::broken(anyhow!("`{name}` takes one message, and the request has {count}")))
        }
    }
}

/// Reads messages of this type from stdin as they come.
pub(super) fn live(of: MessageDescriptor) -> (Input, BrokenInput) {
    let (messages, input) = mpsc::channel(KEPT);
    let (failed, broken) = oneshot::channel();
    // It ends with the process, as nothing wakes a thread that waits for a terminal.
    thread::spawn(move || {
        let stdin = Limited { from: io::stdin().lock(), left: MAX_BYTES };
        let values = serde_json::Deserializer::from_reader(stdin).into_iter::<Box<RawValue>>();
        for value in values {
            match value.context(NO_JSON).and_then(|value| encode(&of, value.get())) {
                Ok(message) => {
                    if messages.blocking_send(message).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    // Whoever would want to know may have gone.
                    let _ = failed.send((error, messages));
                    return;
                }
            }
        }
    });
    (Input::Live(input), broken)
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
    let read = Limited { from: io::stdin().lock(), left: MAX_BYTES }.read_to_string(&mut text);
    read.context("cannot read the request from the standard input")?;
    Ok(text)
}

fn encoded(text: &str, of: &MessageDescriptor) -> anyhow::Result<Vec<Bytes>> {
    let values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let mut messages = Vec::new();
    for value in values {
        if messages.len() == MAX_MESSAGES {
            return Err(anyhow!("the request has more than {MAX_MESSAGES} messages"));
        }
        messages.push(encode(of, value.context(NO_JSON)?.get())?);
    }
    Ok(messages)
}

fn encode(of: &MessageDescriptor, json: &str) -> anyhow::Result<Bytes> {
    let mut json = serde_json::Deserializer::from_str(json);
    let message = DynamicMessage::deserialize(of.clone(), &mut json);
    let message = message.with_context(|| format!("the request is no `{}`", of.full_name()))?;
    Ok(message.encode_to_vec().into())
}

impl Input {
    /// Returns the messages of one call. Those that come while it is open are there once.
    pub(super) fn take(&mut self) -> Self {
        match self {
            Self::Fixed(messages) => Self::Fixed(messages.clone()),
            Self::Live(_) => mem::replace(self, Self::Fixed(Vec::new())),
        }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        let left = u64::try_from(read).ok().and_then(|read| self.left.checked_sub(read));
        let too_long = || io::Error::other(format!("the request has more than {MAX_BYTES} bytes"));
        self.left = left.ok_or_else(too_long)?;
        Ok(read)
    }
}

const NO_JSON: &str = "the request is no JSON";
/// The bytes of a request as JSON.
const MAX_BYTES: u64 = 64 << 20;
/// The messages of a stream that are known before the call is made.
const MAX_MESSAGES: usize = 100_000;
/// The messages that were read and wait to be sent.
const KEPT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_not_read_beyond_its_limit() {
        let mut text = String::new();
        let mut limited = Limited { from: &b"12345"[..], left: 5 };
        assert_eq!(limited.read_to_string(&mut text).unwrap(), 5);
        let mut limited = Limited { from: &b"12345"[..], left: 4 };
        let error = limited.read_to_string(&mut text).unwrap_err();
        assert!(error.to_string().contains("more than 67108864 bytes"), "{error}");
    }

    #[test]
    fn messages_that_come_by_themselves_are_there_once() {
        let mut fixed = Input::Fixed(vec![Bytes::new()]);
        for _ in 0..2 {
            assert!(matches!(fixed.take(), Input::Fixed(messages) if messages.len() == 1));
        }
        let mut live = Input::Live(mpsc::channel(1).1);
        assert!(matches!(live.take(), Input::Live(_)));
        assert!(matches!(live.take(), Input::Fixed(messages) if messages.is_empty()));
    }
}
