//! The attacks, by what they are after.

mod admin;
mod crowd;
mod files;
mod floods;
mod held;
mod http;
mod limits;
mod limits_of_files;
mod limits_of_time;
mod logs;
mod memory;
mod products;
mod secrets;
mod streams;
mod time;
mod tls;
mod tree;
mod turns;
mod waits;

use crate::attack::Attack;

/// All attacks, in the order in which they are made.
pub(crate) fn all() -> impl Iterator<Item = Attack> {
    let parts = [
        memory::ATTACKS,
        products::ATTACKS,
        time::ATTACKS,
        turns::ATTACKS,
        admin::ATTACKS,
        limits::ATTACKS,
        limits_of_time::ATTACKS,
        waits::ATTACKS,
        limits_of_files::ATTACKS,
        logs::ATTACKS,
        secrets::ATTACKS,
        crowd::ATTACKS,
        files::ATTACKS,
        tree::ATTACKS,
        floods::ATTACKS,
        held::ATTACKS,
        http::ATTACKS,
        tls::ATTACKS,
    ];
    parts.concat().into_iter()
}
