//! The inputs of the machine, and the effects that it has on its driver.

use super::error::ErrorKind;
use super::ids::{StreamId, WatchId};
use super::response::Response;
use crate::ErrorDetail;

/// Something that happened.
#[derive(Debug)]
pub enum Input {
    /// The stream is there, and requests can be sent on it.
    Opened(StreamId),
    /// It ended, or it could not be opened.
    Ended(StreamId, ErrorDetail),
    /// The server sent a response.
    Received(StreamId, Response),
    /// A poll was answered: nothing is new (C-044).
    Unchanged(StreamId),
    /// A poll was answered with nothing that could be used at all, as a broken file is (C-043). The
    /// cache stays as it is, and every watcher gets the error.
    Unusable(StreamId, ErrorKind, String),
    /// Time has passed.
    TimePassed,
}

/// Something that the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Open this stream, connecting if need be, and say how it went.
    Open(StreamId),
    /// Close it. Nothing more is to be said of it.
    Close(StreamId),
    /// There may be a [request](super::Machine::request) for it.
    Send(StreamId),
    /// It [may be read](super::Machine::may_read) again.
    Read(StreamId),
    /// There may be an [event](super::Machine::event) for it.
    Notify(WatchId),
}
