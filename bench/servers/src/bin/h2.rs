//! The floor of HTTP/2 in Rust: the `h2` crate, one task per connection, the same bytes shared.
//!
//! It answers every first request with everything, sends each change to all, and reads what the
//! clients answer without looking at it. One stream per connection.

use std::io;

use anyhow::{Context, Result};
use bytes::Bytes;
use chancery_bench_servers::control::Control;
use chancery_bench_servers::flags::ServerFlags;
use chancery_bench_servers::message::FloorMessages;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

fn main() -> Result<()> {
    let flags = ServerFlags::read()?;
    let messages = FloorMessages::new(&flags);
    let payload = messages.payload();
    let runtime = tokio::runtime::Runtime::new().context("cannot start the threads")?;
    let listener = runtime.block_on(TcpListener::bind(flags.listen)).context("cannot listen")?;
    let xds = listener.local_addr()?;
    let (sender, receiver) = watch::channel(messages.changes[1].clone());
    runtime.spawn(serve(listener, messages.first.clone(), receiver));
    let control = Control::new()?;
    control.ready(xds, Some(payload))?;
    let mut changes = messages.changes.iter().cycle();
    control.execute(|| {
        sender.send(changes.next().cloned().unwrap_or_default()).map_err(io::Error::other)
    })?;
    runtime.shutdown_background();
    Ok(())
}

async fn serve(listener: TcpListener, first: Bytes, changes: watch::Receiver<Bytes>) {
    while let Ok((stream, _)) = listener.accept().await {
        // A connection that fails is the client's to report.
        let (first, changes) = (first.clone(), changes.clone());
        tokio::spawn(async move { connection(stream, first, changes).await.ok() });
    }
}

/// One task drives the connection and its one stream.
async fn connection(
    stream: TcpStream,
    first: Bytes,
    mut changes: watch::Receiver<Bytes>,
) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut connection = h2::server::handshake(stream).await?;
    let Some(accepted) = connection.accept().await else { return Ok(()) };
    let (mut requests, mut responses) = answer(accepted?)?;
    let mut first = Some(first);
    loop {
        tokio::select! {
            biased;
            request = requests.data() => {
                let Some(request) = request else { return Ok(()) };
                requests.flow_control().release_capacity(request?.len())?;
                if let Some(first) = first.take() {
                    responses.send_data(first, false)?;
                }
            }
            changed = changes.changed(), if first.is_none() => {
                changed?;
                let message = changes.borrow_and_update().clone();
                responses.send_data(message, false)?;
            }
            // Reading and writing happen in here.
            accepted = connection.accept() => if accepted.is_none() { return Ok(()) },
        }
    }
}

fn answer(
    (request, mut respond): (Request<RecvStream>, SendResponse<Bytes>),
) -> Result<(RecvStream, SendStream<Bytes>)> {
    let head = Response::builder().header("content-type", "application/grpc").body(())?;
    Ok((request.into_body(), respond.send_response(head, false)?))
}
