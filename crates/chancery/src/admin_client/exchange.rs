//! One request to the admin interface, and its answer, over a connection of its own.
//!
//! The interface speaks HTTP/1.1 and ends the connection when it is asked to, so an answer is all that
//! comes. It is bounded in bytes and in time.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use anyhow::anyhow;

use super::connect::Route;
use crate::admin::ErrorDocument;

/// The answer to a request.
pub(crate) struct Reply {
    /// The status.
    pub(crate) status: u16,
    /// The body.
    pub(crate) body: String,
}

impl Reply {
    /// The reason for which the request was not answered, if the server says one.
    pub(crate) fn error(&self) -> Option<ErrorDocument> {
        let is_error = !(200..300).contains(&self.status);
        is_error.then(|| serde_json::from_str(&self.body).ok()).flatten()
    }
}

/// Sends a request, and returns the answer if it comes whole in this time.
pub(super) fn exchange(
    route: &Route,
    request: &str,
    answer_time: Duration,
) -> anyhow::Result<Reply> {
    let mut stream = route.connect(answer_time)?;
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut answer = Vec::new();
    match stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer) {
        Err(error) if error.kind() == ErrorKind::ConnectionReset => return Err(Unanswered.into()),
        read => read?,
    };
    reply(&answer)
}

/// The server has ended the connection before it answered, as one does that is stopped.
#[derive(Debug, thiserror::Error)]
#[error("the connection ended without an answer")]
pub(crate) struct Unanswered;

/// Reads an answer. A body that was cut short is no JSON, and refused as such.
fn reply(answer: &[u8]) -> anyhow::Result<Reply> {
    if answer.is_empty() {
        return Err(Unanswered.into());
    }
    let odd = || anyhow!("the answer is no HTTP");
    let answer = str::from_utf8(answer).map_err(|_| odd())?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(odd)?;
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).ok_or_else(odd)?;
    Ok(Reply { status: status.parse().map_err(|_| odd())?, body: body.to_owned() })
}

/// The number of bytes of an answer.
const MAX_ANSWER_BYTES: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_status_and_a_body() {
        let found = reply(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        assert_eq!((found.status, found.body.as_str()), (200, "{}"));
        for odd in
            [&b""[..], b"\xff", b"SSH-2.0\r\n\r\n", b"HTTP/1.1 x\r\n\r\n", b"HTTP/1.1 200 OK\r\n"]
        {
            assert!(reply(odd).is_err());
        }
    }
}
