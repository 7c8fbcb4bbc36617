//! One stream of discovery: requests when there is room for them, responses when they may be read.
//!
//! The first request does not wait for the server's headers (C-030). A response is read when the
//! watchers have applied the one before (C-038), while requests go out all the time.

use bytes::Bytes;
use chancery_core::ErrorDetail;
use chancery_core::client::Reply;
use chancery_proto::frames::framed;
use chancery_proto::wire::encode_request;
use h2::SendStream;
use h2::client::SendRequest;

use super::Line;
use super::call::{Inbox, internal};
use crate::dial::{told, unavailable};

/// Serves one stream to its end, and tells the machine how that was.
pub(super) async fn run(line: Line, sender: SendRequest<Bytes>) {
    let error = tokio::select! {
        error = line.converse(sender) => error,
        () = line.engine.closed(&line.ticket) => return,
    };
    line.engine.ended(&line.ticket, error);
}

impl Line {
    async fn converse(&self, sender: SendRequest<Bytes>) -> ErrorDetail {
        let (inbox, out) = match self.open(sender).await {
            Ok(opened) => opened,
            Err(error) => return error,
        };
        if !self.engine.opened(&self.ticket) {
            return ErrorDetail::default();
        }
        // Whatever stops the writing is seen by the reading, which knows more of it and goes on.
        let write = async {
            self.write(out).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            error = self.read(inbox) => error,
            () = write => ErrorDetail::default(),
        }
    }

    async fn open(
        &self,
        sender: SendRequest<Bytes>,
    ) -> Result<(Inbox, SendStream<Bytes>), ErrorDetail> {
        let type_url = self.ticket.stream.type_url.as_ref();
        let path = self.paths.method(type_url, self.server.protocol.variant);
        let path =
            path.ok_or_else(|| unavailable("the type has no service of its own".to_owned()))?;
        self.caller.open(sender, path).await
    }

    async fn write(&self, mut out: SendStream<Bytes>) {
        loop {
            out.reserve_capacity(1);
            let room = std::future::poll_fn(|cx| out.poll_capacity(cx)).await;
            let Some(Ok(_)) = room else { return };
            let request =
                std::future::poll_fn(|cx| self.engine.poll_request(&self.ticket, cx)).await;
            let Some(request) = request else {
                // Nobody is left to be told that this cannot be said either.
                out.send_data(Bytes::new(), true).ok();
                return;
            };
            if out.send_data(framed(&encode_request(&request)), false).is_err() {
                return;
            }
        }
    }

    /// Reads until the stream ends, which it does with an error of some sort.
    async fn read(&self, mut inbox: Inbox) -> ErrorDetail {
        loop {
            let message = match inbox.next().await {
                Ok(message) => message,
                Err(error) => return error,
            };
            let may = std::future::poll_fn(|cx| self.engine.poll_read(&self.ticket, cx)).await;
            let reply = match self.decoded(&message) {
                Ok(reply) => reply,
                Err(error) => return error,
            };
            if !may || !self.engine.received(&self.ticket, reply) {
                return ErrorDetail::default();
            }
        }
    }

    fn decoded(&self, message: &Bytes) -> Result<Reply, ErrorDetail> {
        let expected = self.ticket.stream.type_url.as_ref();
        let variant = self.server.protocol.variant;
        let reply = self.reader.read(variant, expected, message);
        reply.map_err(|error| internal(told(&error)))
    }
}
