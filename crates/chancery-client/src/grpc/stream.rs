//! One stream of discovery: requests are written when there is room for them, and responses are
//! read when the machine allows it.
//!
//! The first request does not wait for the server's headers (C-030). A response is read when the
//! watches have applied the one before (C-038); requests are sent meanwhile. A server that does not
//! read requests counts as one that cannot be reached, so no resource is missing because of it
//! (C-065).

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::ErrorDetail;
use chancery_core::client::Response;
use chancery_proto::frames::framed;
use chancery_proto::wire::encode_request;
use h2::client::SendRequest;
use tokio::time::timeout;

use crate::calls::client::{Caller, ResponseReader};
use crate::calls::messages::MessageWriter;
use crate::engine::{Engine, StreamHandle};
use crate::errors::{error_chain, internal, unavailable};
use crate::server_context::ServerContext;

/// One stream of a server, and what serving it needs.
pub(super) struct StreamTask {
    pub(super) engine: Arc<Engine>,
    pub(super) handle: StreamHandle,
    pub(super) caller: Arc<Caller>,
    pub(super) context: Arc<ServerContext>,
}

/// The room that a server leaves on the stream.
enum SendRoom {
    /// There is room for so many bytes.
    For(usize),
    /// There is none: the stream is over.
    Ended,
    /// There has been none for too long.
    None(ErrorDetail),
}

impl StreamTask {
    /// Serves the stream to its end, and gives the machine its error.
    pub(super) async fn run(self, sender: SendRequest<Bytes>) {
        let error = tokio::select! {
            error = self.converse(sender) => error,
            () = self.engine.closed(&self.handle) => return,
        };
        self.engine.ended(&self.handle, error);
    }

    async fn converse(&self, sender: SendRequest<Bytes>) -> ErrorDetail {
        let (inbox, out) = match self.open(sender).await {
            Ok(opened) => opened,
            Err(error) => return error,
        };
        if !self.engine.opened(&self.handle) {
            return ErrorDetail::default();
        }
        tokio::select! {
            biased;
            error = self.read(inbox) => error,
            error = self.write(out) => error,
        }
    }

    async fn open(
        &self,
        sender: SendRequest<Bytes>,
    ) -> Result<(ResponseReader, MessageWriter), ErrorDetail> {
        let scope = &self.handle.stream.scope;
        let path = self.context.paths.method(scope, self.context.variant);
        let path =
            path.ok_or_else(|| unavailable("the type has no service of its own".to_owned()))?;
        self.caller.open(sender, path).await
    }

    /// Writes requests until the server leaves no room for them. Any other error in writing is left
    /// to the reader, which learns the reason.
    async fn write(&self, mut out: MessageWriter) -> ErrorDetail {
        loop {
            // A request is made only when there is room for it, so that it is current when it is
            // sent.
            let may_ask = || self.engine.may_request(&self.handle);
            match self.room(&mut out, 1, may_ask).await {
                SendRoom::For(_) => {}
                SendRoom::Ended => break,
                SendRoom::None(error) => return error,
            }
            let request = poll_fn(|cx| self.engine.poll_request(&self.handle, cx)).await;
            let Some(request) = request else {
                out.finish();
                break;
            };
            let mut rest = framed(&encode_request(&request));
            while !rest.is_empty() {
                let room = match self.room(&mut out, rest.len(), || true).await {
                    SendRoom::For(room) => room.min(rest.len()),
                    SendRoom::Ended => return pending().await,
                    SendRoom::None(error) => return error,
                };
                if out.send(rest.split_to(room)).is_err() {
                    return pending().await;
                }
            }
        }
        pending().await
    }

    /// Waits for room for some of these bytes. The wait has a bound if there is something to send.
    async fn room(
        &self,
        out: &mut MessageWriter,
        bytes: usize,
        is_due: impl Fn() -> bool,
    ) -> SendRoom {
        let limit = self.caller.patience();
        loop {
            match timeout(limit, out.room(bytes)).await {
                Ok(Some(room)) => return SendRoom::For(room),
                Ok(None) => return SendRoom::Ended,
                Err(_) if is_due() => return SendRoom::None(unread(limit)),
                Err(_) => {}
            }
        }
    }

    /// Reads responses until the stream ends, and returns the error with which it does.
    async fn read(&self, mut inbox: ResponseReader) -> ErrorDetail {
        loop {
            let message = match inbox.next().await {
                Ok(message) => message,
                Err(error) => return error,
            };
            let may = poll_fn(|cx| self.engine.poll_read(&self.handle, cx)).await;
            let reply = match self.decoded(&message) {
                Ok(reply) => reply,
                Err(error) => return error,
            };
            if !may || !self.engine.received(&self.handle, reply) {
                return ErrorDetail::default();
            }
        }
    }

    fn decoded(&self, message: &Bytes) -> Result<Response, ErrorDetail> {
        let expected = self.handle.stream.scope.only();
        let variant = self.context.variant;
        let reply = self.context.reader.read(variant, expected, message);
        reply.map_err(|error| internal(error_chain(&error)))
    }
}

fn unread(limit: Duration) -> ErrorDetail {
    unavailable(format!("the server has not read the requests for {limit:?}: its window is full"))
}
