//! The state directory: what was in force, for a server that is started again.
//!
//! ```text
//!   DIR/lock            held by the process that writes
//!   DIR/confirm         a token of what is held back, by which somebody confirms it
//!   DIR/v1/head         what the daemon knows, and which piece is the root; replaced in one step
//!   DIR/v1/pieces/ID    the states of the catalog (chancery_catalog::Memory), by their digests
//!   DIR/v1.damaged/     what could not be used, until something else cannot be used
//!
//!   start:  read everything ... first load ... judged beside what was in force
//!   later:  record() --latest only--> a thread: new pieces, head, old pieces removed
//! ```
//!
//! Nothing here decides what is served, and no fault of the state directory keeps a server from starting or
//! from serving: what cannot be used is told and put aside, and what cannot be written is tried again with
//! the next load. Not here: the bytes of resources (`chancery_catalog`), and the memory of the gate (`gate`).

mod confirm_file;
mod files;
mod head;
mod keeper;
mod past;

pub(crate) use self::confirm_file::ConfirmFile;
pub(crate) use self::head::{DaemonMemory, KeptLayer, KeptMove, KeptRules, seconds, utc};
pub(crate) use self::keeper::{StateKeeper, StateMetrics};
pub(crate) use self::past::{Past, PastState, begin, config_before, first_start, lies_in};
