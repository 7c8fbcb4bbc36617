//! Connections to endpoints: made when a policy asks for them, shared by the channels of a process,
//! and kept for the calls that are under way when nobody needs them any more.
//!
//! ```text
//!   Idle --connect--> Connecting --> Ready --lost--> Idle
//!                         |                           ^
//!                         +--> Failed --backoff-------+
//! ```
//!
//! Not here: who is connected, and when (`chancery_calls::balancing`).

mod backoff;
pub(crate) mod broken;
mod dial;
mod ended;
mod greeting;
mod inbox;
mod pool;
mod proxy;
mod sender;
mod settings;
mod subchannel;
mod tls;
mod via;

pub(crate) use self::backoff::Backoff;
pub(crate) use self::greeting::Greeting;
pub(crate) use self::inbox::{Answer, Inbox, InboxKey, Question};
pub(crate) use self::pool::Pool;
pub(crate) use self::sender::Sender;
pub use self::settings::Keepalive;
pub(crate) use self::settings::{ConnectionSettings, Security};
pub(crate) use self::subchannel::Subchannel;
pub(crate) use self::tls::{PeerNames, Tls};
pub(crate) use self::via::{HttpProxy, Secret, Via};
