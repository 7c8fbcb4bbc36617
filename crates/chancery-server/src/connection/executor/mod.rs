//! The executor of one connection: the set of what is ready, the streams, and gathered writes.

mod cork;
mod ready_set;
mod stream_set;

pub(super) use cork::Cork;
pub(super) use ready_set::{ReadyBits, Subtask, SubtaskWaker};
pub(super) use stream_set::StreamSet;
