//! One request over HTTP/1.1 and its answer.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::POLL;
use super::raw::Raw;

/// The body of a poll of everything.
pub(crate) const POLL_BODY: &str = "{\"node\": {\"id\": \"attacker\"}}";

/// The head of a poll with a body of this length.
pub(crate) fn poll_head(length: usize) -> String {
    format!(
        "POST {POLL} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n"
    )
}

/// Polls with this body, from the attacker's address.
pub(crate) async fn poll(to: SocketAddr, body: &str, most: Duration) -> Result<Http1Answer> {
    exchange(super::ATTACKER, to, &format!("POST {POLL}"), &[], body, most).await
}

/// An answer: its status and its body.
pub(crate) struct Http1Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Sends a request whose lines end the connection after it.
pub(crate) async fn exchange(
    from: Ipv4Addr,
    to: SocketAddr,
    line: &str,
    headers: &[(&str, &str)],
    body: &str,
    most: Duration,
) -> Result<Http1Answer> {
    let mut raw = Raw::dial_from(from, to, true).await?;
    let mut request = format!("{line} HTTP/1.1\r\nconnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        request += "host: localhost\r\n";
    }
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    if line.starts_with("POST") {
        request += &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    }
    request += &format!("\r\n{body}");
    raw.write(request.as_bytes()).await;
    let answer = raw.read_to_end(most).await;
    ensure!(!answer.bytes.is_empty(), "`{line}` had no answer");
    let text = String::from_utf8_lossy(&answer.bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").context("half an answer")?;
    let status = head.get(9..12).context("no status")?.parse()?;
    Ok(Http1Answer { status, body: body.to_owned() })
}
