//! The server's half of one stream.

use std::sync::Arc;

use crate::{Event, Input, Response, Scope, Settings, Time, Variant, Violation};

/// The server's half of one stream, aggregated or of one type, SotW or delta.
#[derive(Debug)]
pub struct Server {
    #[expect(dead_code, reason = "the machines land in the next commit")]
    settings: Arc<Settings>,
}

impl Server {
    /// A stream that was just opened.
    pub fn new(_variant: Variant, _scope: Scope, settings: Arc<Settings>) -> Self {
        Self { settings }
    }

    /// Takes one input, and says what happened.
    ///
    /// # Errors
    /// When the client broke the protocol or a limit; the stream must then be closed.
    pub fn handle(&mut self, _now: Time, _input: Input) -> Result<Vec<Event>, Violation> {
        Ok(Vec::new())
    }

    /// The next response to send, if any. Call it only when the wire has room: what is not polled
    /// costs no memory and is superseded by newer state.
    pub fn poll(&mut self, _now: Time) -> Option<Response> {
        None
    }

    /// When to call [`poll`](Self::poll) again if nothing happens before.
    pub fn deadline(&self) -> Option<Time> {
        None
    }
}
