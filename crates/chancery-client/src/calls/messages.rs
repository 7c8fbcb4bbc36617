//! The messages of one call, read from and written to a stream of HTTP/2.

use std::future::poll_fn;

use bytes::Bytes;
use chancery_proto::frames::{FrameError, Messages, framed};
use h2::{RecvStream, SendStream};
use http::HeaderMap;

/// Reads the messages that the peer sends.
pub(crate) struct MessageReader {
    body: RecvStream,
    messages: Messages,
}

/// The next thing that the peer sends.
pub(crate) enum Incoming {
    Message(Bytes),
    /// The peer sends no more messages.
    End,
    /// The body ends within a message.
    CutShort,
    /// The body holds something else than messages.
    Malformed(FrameError),
}

/// Writes messages, as far as the peer leaves room for them.
pub(crate) struct MessageWriter(SendStream<Bytes>);

impl MessageReader {
    /// Reads messages of at most so many bytes.
    pub(crate) fn new(body: RecvStream, limit: usize) -> Self {
        Self { body, messages: Messages::new(limit) }
    }

    /// Reads until there is a message, or no more of them. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Incoming, h2::Error> {
        loop {
            match self.messages.next() {
                Ok(Some(message)) => return Ok(Incoming::Message(message)),
                Ok(None) => {}
                Err(error) => return Ok(Incoming::Malformed(error)),
            }
            let Some(chunk) = self.body.data().await else {
                let is_whole = self.messages.is_between();
                return Ok(if is_whole { Incoming::End } else { Incoming::CutShort });
            };
            let chunk = chunk?;
            // An error here is one of the connection, which the next read returns.
            let _ = self.body.flow_control().release_capacity(chunk.len());
            self.messages.push(chunk);
        }
    }

    /// Reads the trailers that come after the last message.
    pub(crate) async fn trailers(&mut self) -> Result<Option<HeaderMap>, h2::Error> {
        self.body.trailers().await
    }
}

impl MessageWriter {
    pub(crate) fn new(out: SendStream<Bytes>) -> Self {
        Self(out)
    }

    /// Waits until the peer leaves room for some of these bytes, and returns for how many. `None`
    /// means that the stream is over. Dropping the future loses nothing.
    pub(crate) async fn room(&mut self, bytes: usize) -> Option<usize> {
        self.0.reserve_capacity(bytes);
        while self.0.capacity() == 0 {
            poll_fn(|cx| self.0.poll_capacity(cx)).await?.ok()?;
        }
        Some(self.0.capacity())
    }

    /// Hands bytes over, whether there is room for them or not.
    pub(crate) fn send(&mut self, bytes: Bytes) -> Result<(), h2::Error> {
        self.0.send_data(bytes, false)
    }

    /// Writes a whole message, so much at a time as there is room for.
    pub(crate) async fn write(&mut self, message: &[u8]) -> Result<(), h2::Error> {
        let mut rest = framed(message);
        while !rest.is_empty() {
            let room = self.room(rest.len()).await.ok_or(h2::Reason::CANCEL)?;
            self.send(rest.split_to(room.min(rest.len())))?;
        }
        Ok(())
    }

    /// Ends the messages. An error means that the peer has gone, so it is ignored.
    pub(crate) fn finish(&mut self) {
        let _ = self.0.send_data(Bytes::new(), true);
    }

    /// Ends the call with trailers. An error means that the peer has gone, so it is ignored.
    pub(crate) fn end(mut self, trailers: HeaderMap) {
        let _ = self.0.send_trailers(trailers);
    }
}
