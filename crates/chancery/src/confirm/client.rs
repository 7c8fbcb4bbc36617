//! One request to the admin interface, and its answer, over a connection of its own.
//!
//! The interface speaks HTTP/1.1 and ends the connection when it is asked to, so an answer is all that
//! comes. It is bounded in bytes and in time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, anyhow};

use crate::exit::Failure;

/// The answer to a request.
pub(super) struct Reply {
    /// The status.
    pub(super) status: u16,
    /// The body.
    pub(super) body: String,
}

/// Asks for a path.
pub(super) fn get(server: SocketAddr, path: &str) -> Result<Reply, Failure> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\n\r\n");
    ask(server, &request)
}

/// Sends JSON to a path.
pub(super) fn post(server: SocketAddr, path: &str, json: &str) -> Result<Reply, Failure> {
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {server}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{json}",
        json.len()
    );
    ask(server, &request)
}

fn ask(server: SocketAddr, request: &str) -> Result<Reply, Failure> {
    let asked = exchange(server, request).with_context(|| format!("cannot ask `{server}`"));
    asked.map_err(|error| {
        Failure::broken(error).hint("give the address of the admin interface with `--admin`")
    })
}

fn exchange(server: SocketAddr, request: &str) -> anyhow::Result<Reply> {
    let mut stream = TcpStream::connect_timeout(&server, CONNECT_TIME)?;
    stream.set_read_timeout(Some(ANSWER_TIME))?;
    stream.set_write_timeout(Some(ANSWER_TIME))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
    reply(&answer)
}

/// Reads an answer. A body that was cut short is no JSON, and refused as such.
fn reply(answer: &[u8]) -> anyhow::Result<Reply> {
    let odd = || anyhow!("the answer is no HTTP");
    let answer = str::from_utf8(answer).map_err(|_| odd())?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(odd)?;
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).ok_or_else(odd)?;
    Ok(Reply { status: status.parse().map_err(|_| odd())?, body: body.to_owned() })
}

/// The time to connect, on the same machine.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// The time to wait for the server, which applies a confirmation before it answers.
const ANSWER_TIME: Duration = Duration::from_secs(60);

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
