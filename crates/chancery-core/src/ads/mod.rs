//! All types of one stream, in the order one change has to be sent in.
//!
//! Each type has a subscription of its own and never sees the others
//! (S-002). What takes more than one type to know is here: the order of one change (S-096), the
//! wait of routes for the clusters they will point to (S-097), the wait of removals for the
//! acknowledgement of what stopped using them (S-098), and the endpoints that have to follow a
//! changed cluster (S-099).

mod order;
mod server;
mod types;
mod warming;

pub use server::Server;
