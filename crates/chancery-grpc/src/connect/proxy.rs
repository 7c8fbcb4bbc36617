//! A connection by way of a proxy: `CONNECT` of HTTP/1.1 (C-128, gRFC A86).

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::read::quoted;

/// Asks a proxy for a connection to an address. After it the socket belongs to the server there.
pub(super) async fn ask<T>(io: &mut T, address: SocketAddr) -> Result<(), String>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let request = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n");
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
        let (mut io, mut proxy) = duplex(1 << 16);
        proxy.write_all(answer).await.unwrap();
        let result = ask(&mut io, "[::1]:80".parse().unwrap()).await;
        let expected = b"CONNECT [::1]:80 HTTP/1.1\r\nHost: [::1]:80\r\n\r\n";
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
