//! One page of an HTTP/1.1 server, whole and within bounds.

use anyhow::{Context, anyhow, bail};
use chancery_core::printable::{Printable, cut};
use http::header::HOST;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::options::Limits;

/// Asks for a path, over a connection of its own.
pub(super) async fn get(address: &str, path: &str, limits: &Limits) -> anyhow::Result<Bytes> {
    let Limits { time, bytes } = *limits;
    let connected = timeout(time, TcpStream::connect(address)).await;
    let socket = connected.map_err(|_| anyhow!("no connection within {time:?}"))?;
    let socket = socket.context("cannot connect")?;
    let asked = timeout(time, converse(socket, address, path, bytes)).await;
    asked.map_err(|_| anyhow!("no whole answer to {path} within {time:?}"))?
}

async fn converse(
    socket: TcpStream,
    address: &str,
    path: &str,
    most: usize,
) -> anyhow::Result<Bytes> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
    let request = Request::get(path).header(HOST, address).body(Empty::<Bytes>::new())?;
    let answer = async move {
        let response = sender.send_request(request).await.context("no answer over HTTP")?;
        let status = response.status();
        let body = Limited::new(response.into_body(), most).collect().await;
        let body = body.map_err(|error| match error.downcast::<LengthLimitError>() {
            Ok(_) => anyhow!("the answer to {path} has more than {most} bytes (`--running-max`)"),
            Err(error) => anyhow!("the answer to {path} was cut short: {error}"),
        })?;
        let body = body.to_bytes();
        if status != StatusCode::OK {
            let text = String::from_utf8_lossy(&body);
            bail!("{path} answered {status}: {}", Printable(cut(text.trim_end(), SHOWN_BYTES)));
        }
        Ok(body)
    };
    // The answer has a better error for the end of the connection.
    let driven = async {
        _ = connection.await;
        std::future::pending().await
    };
    tokio::select! {
        answer = answer => answer,
        never = driven => never,
    }
}

/// The bytes of an error that are shown.
const SHOWN_BYTES: usize = 200;
