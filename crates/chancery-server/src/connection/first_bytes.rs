//! The first bytes of a connection: they show that a client is there, and its version of HTTP.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// The first bytes of any client of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The first bytes of a handshake of TLS, of any version in use.
const HANDSHAKE: &[u8] = b"\x16\x03";
/// The length of the shortest request.
const MIN_REQUEST: usize = 16;

/// The version of HTTP that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpVersion {
    Http1,
    Http2,
}

/// The reason for which a connection has no request.
#[derive(Debug)]
pub(super) enum NoRequest {
    /// The client left.
    Left(io::Error),
    /// The client begins a handshake of TLS, where there is none or behind one.
    Tls,
}

/// Reads until the version is known, and returns the bytes too. The caller limits the time.
///
/// # Errors
/// When the client leaves before, or speaks something else.
pub(super) async fn read_version(
    io: &mut (impl AsyncRead + Unpin),
) -> Result<(HttpVersion, Vec<u8>), NoRequest> {
    let mut first = Vec::with_capacity(PREFACE.len());
    loop {
        if first == PREFACE {
            return Ok((HttpVersion::Http2, first));
        }
        if first.starts_with(HANDSHAKE) {
            return Err(NoRequest::Tls);
        }
        if first.len() >= MIN_REQUEST && !PREFACE.starts_with(&first) {
            return Ok((HttpVersion::Http1, first));
        }
        let missing = (PREFACE.len() - first.len()) as u64;
        let read = (&mut *io).take(missing).read_buf(&mut first).await;
        if read.map_err(NoRequest::Left)? == 0 {
            return Err(NoRequest::Left(io::ErrorKind::UnexpectedEof.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn version(bytes: &[u8]) -> Result<(HttpVersion, Vec<u8>), NoRequest> {
        // The bytes come in pieces of five.
        let (mut client, mut server) = tokio::io::duplex(5);
        let write = async move { tokio::io::AsyncWriteExt::write_all(&mut client, bytes).await };
        tokio::join!(async move { read_version(&mut server).await }, write).0
    }

    #[tokio::test]
    async fn the_first_bytes_tell_the_version_and_are_kept() {
        let (two, first) = version(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nmore").await.unwrap();
        assert_eq!((two, &first[..]), (HttpVersion::Http2, PREFACE));
        let (one, first) = version(b"POST /v3/discovery:clusters HTTP/1.1\r\n").await.unwrap();
        assert_eq!((one, &first[..20]), (HttpVersion::Http1, &b"POST /v3/discovery:c"[..]));
        assert_eq!(version(b"PRI * HTTP/2.0\r\n\r\nXX").await.unwrap().0, HttpVersion::Http1);
        let hello = b"\x16\x03\x01\x02\x00\x01";
        assert!(matches!(version(hello).await, Err(NoRequest::Tls)));
        assert_eq!(version(b"GET / HTTP/1.0\r\n").await.unwrap().0, HttpVersion::Http1);
    }

    #[tokio::test]
    async fn less_than_a_request_is_no_client() {
        for bytes in [&b""[..], b"GET /", b"PRI * HTTP/2.0\r\n\r\n"] {
            assert!(version(bytes).await.is_err());
        }
    }
}
