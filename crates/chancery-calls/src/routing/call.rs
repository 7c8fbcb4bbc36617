//! The call that a way is sought for.

use http::HeaderMap;

/// All that routes may know of a call.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The data-plane authority (C-017); on servers the `:authority` of the call.
    pub authority: &'a str,
    /// The path, as `/orders.v1.Orders/Get`.
    pub path: &'a str,
    /// The metadata.
    pub headers: &'a HeaderMap,
    /// A random number of the channel, the same for all of its calls (C-104).
    pub channel_id: u64,
}
