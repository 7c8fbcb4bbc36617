//! The code that the servers under test share, so that they differ only in the way they serve.
//!
//! ```text
//!   flags --> content: the resources --> message: a whole response --> (the server under test)
//!                                                                            ^
//!   control: "change", "quit" over TCP --------------------------------------+
//! ```
//!
//! Each program takes the same flags, holds the same resources, prints one line when it serves and
//! publishes a change on command. `cargo xtask bench` starts them. Not here: measuring, which is
//! the driver's (`chancery bench`), and comparing, which is xtask's.

pub mod content;
pub mod control;
pub mod flags;
pub mod message;
mod protobuf;
