//! One HTTP/2 connection to a server, with keepalive (C-037).

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong};
use tokio::time::{sleep, timeout};
use tracing::debug;

use crate::bootstrap::Address;
use crate::credentials::Credentials;
use crate::dial::{self, Io};
use crate::errors::error_chain;
use crate::options::Options;

/// A connection that streams can be opened on.
pub(crate) struct Http2Connection {
    sender: SendRequest<Bytes>,
    alive: tokio::sync::watch::Receiver<()>,
}

/// Makes a connection; the future has to run for it to live.
pub(crate) async fn connect(
    address: &Address,
    credentials: &Credentials,
    options: &Options,
) -> Result<(Http2Connection, impl Future<Output = ()> + use<>), String> {
    let limit = options.connect_timeout;
    let io = dial::connect(&options.dial, address, credentials, limit).await?;
    let handshake = Builder::new()
        // No stream may be opened until the server says how many it takes: see `greeted`.
        .initial_max_send_streams(0)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEADERS)
        .enable_push(false)
        .handshake::<_, Bytes>(io);
    let greeted = async { greeted(handshake.await?).await };
    let done = timeout(limit, greeted).await.map_err(|_| format!("no HTTP/2 within {limit:?}"))?;
    let (sender, mut connection) =
        done.map_err(|error| format!("HTTP/2: {}", error_chain(&error)))?;
    let pings = connection.ping_pong();
    let (interval, patience) = (options.keepalive_interval, options.keepalive_timeout);
    let (living, alive) = tokio::sync::watch::channel(());
    let driver = async move {
        let _living = living;
        let dead = pin!(dead(pings, interval, patience));
        tokio::select! {
            ended = connection => if let Err(error) = ended {
                debug!("connection ended: {}", error_chain(&error));
            },
            () = dead => debug!("connection is dead: no answer within {patience:?}"),
        }
    };
    Ok((Http2Connection { sender, alive }, driver))
}

impl Http2Connection {
    /// Returns true if the connection can be asked for another stream.
    pub(crate) fn takes_streams(&self) -> bool {
        self.alive.has_changed().is_ok()
    }

    pub(crate) fn sender(&self) -> SendRequest<Bytes> {
        self.sender.clone()
    }
}

/// The two halves that a handshake makes.
type Begun = (SendRequest<Bytes>, h2::client::Connection<Box<dyn Io>, Bytes>);

/// Waits until the server has said how many streams it takes. A peer that accepts connections and
/// sends nothing counts as unreachable, so no resource is missing because of it (C-065).
async fn greeted((sender, mut connection): Begun) -> Result<Begun, h2::Error> {
    std::future::poll_fn(|cx| {
        let ended = Pin::new(&mut connection).poll(cx);
        if sender.current_max_send_streams() > 0 {
            return Poll::Ready(Ok(()));
        }
        match ended {
            Poll::Ready(Ok(())) => Poll::Ready(Err(h2::Reason::NO_ERROR.into())),
            other => other,
        }
    })
    .await?;
    Ok((sender, connection))
}

/// Sends pings, and ends when the peer does not answer one.
async fn dead(pings: Option<PingPong>, interval: Duration, patience: Duration) {
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        sleep(interval).await;
        match timeout(patience, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            // The connection itself reports the error.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}

/// The bytes of one response that may be on their way before it is read.
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;
const HEADERS: u32 = 16 * 1024;
