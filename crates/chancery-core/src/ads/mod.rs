//! All types of one stream, in the order one change has to be sent in.

mod server;
pub use server::Server;
