//! A connection by way of a proxy: `CONNECT` of HTTP/1.1 (C-128, gRFC A1, A86).

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Secret;
use crate::read::quoted;

/// Asks a proxy for a connection to a server, which is a host or an address with a port. After it the socket belongs
/// to the server there.
pub(super) async fn ask<T>(
    io: &mut T,
    server: &str,
    authorization: Option<&Secret>,
) -> Result<(), String>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut request = format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n");
    if let Some(Secret(value)) = authorization {
        request.push_str("Proxy-Authorization: ");
        request.push_str(value);
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    io.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
    let head = head(io).await?;
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let code = line.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1));
    match code {
        Some(code) if code.len() == 3 && code.starts_with('2') => Ok(()),
        _ => Err(format!("it answered `{}`", quoted(&line))),
    }
}

/// Reads the head of the answer, and no byte more: the next ones are those of the server.
async fn head(io: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MAX_HEAD_BYTES {
            return Err("its answer is too long".to_owned());
        }
        head.push(io.read_u8().await.map_err(|error| error.to_string())?);
    }
    Ok(head)
}

/// The limit for the head of the answer.
const MAX_HEAD_BYTES: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::duplex;
    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// Asks a proxy that gives this answer, and returns the result and what comes after it.
    async fn asked(answer: &[u8]) -> (Result<(), String>, Vec<u8>) {
        asked_with(answer, None, b"CONNECT [::1]:80 HTTP/1.1\r\nHost: [::1]:80\r\n\r\n").await
    }

    /// The same with this authorization. The proxy sees this request.
    async fn asked_with(
        answer: &[u8],
        authorization: Option<Secret>,
        expected: &[u8],
    ) -> (Result<(), String>, Vec<u8>) {
        let (mut io, mut proxy) = duplex(1 << 16);
        proxy.write_all(answer).await.unwrap();
        let result = ask(&mut io, "[::1]:80", authorization.as_ref()).await;
        let mut request = vec![0; expected.len()];
        timeout(PATIENCE, proxy.read_exact(&mut request)).await.unwrap().unwrap();
        assert_eq!(request, expected);
        drop(proxy);
        let mut rest = Vec::new();
        timeout(PATIENCE, io.read_to_end(&mut rest)).await.unwrap().unwrap();
        (result, rest)
    }

    #[tokio::test]
    async fn a_proxy_that_agrees_leaves_the_rest_to_the_server() {
        // C-128
        for head in ["HTTP/1.1 200 Connection established\r\n\r\n", "HTTP/1.0 204\r\na: b\r\n\r\n"]
        {
            let answer = [head.as_bytes(), b"rest\r\n\r\n"].concat();
            assert_eq!(asked(&answer).await, (Ok(()), b"rest\r\n\r\n".to_vec()));
        }
    }

    #[tokio::test]
    async fn a_proxy_is_told_who_asks() {
        let secret = Secret("Basic dTpw".to_owned());
        assert_eq!(format!("{secret:?}"), "(a secret)");
        let request = b"CONNECT [::1]:80 HTTP/1.1\r\nHost: [::1]:80\r\nProxy-Authorization: Basic dTpw\r\n\r\n";
        let (result, _) = asked_with(b"HTTP/1.1 200 Ok\r\n\r\n", Some(secret), request).await;
        assert_eq!(result, Ok(()));
    }

    #[tokio::test]
    async fn a_proxy_that_refuses_is_an_error() {
        // C-128
        for (answer, why) in [
            (&b"HTTP/1.1 403 No\x1b\r\n\r\n"[..], "it answered `HTTP/1.1 403 No\\u{1b}`"),
            (b"HTTP/2 200\r\n\r\n", "it answered `HTTP/2 200`"),
            (b"HTTP/1.1 2\r\n\r\n", "it answered `HTTP/1.1 2`"),
            (b"\r\n\r\n", "it answered ``"),
            (&[b'a'; MAX_HEAD_BYTES + 1], "its answer is too long"),
        ] {
            assert_eq!(asked(answer).await.0, Err(why.to_owned()));
        }
    }
}
