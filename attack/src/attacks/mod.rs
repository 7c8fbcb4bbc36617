//! The attacks, by what they are after.

mod admin;
mod askers;
mod busy;
mod chains;
mod crowd;
mod files;
mod floods;
mod held;
mod http;
mod identities;
mod kept;
mod large_tree;
mod limits;
mod limits_of_files;
mod limits_of_time;
mod load;
mod logs;
mod memory;
mod nodes;
mod odd;
mod peers;
mod products;
mod secrets;
mod snapshots;
mod streams;
mod time;
mod tls;
mod tls_use;
mod tree;
mod turns;
mod waits;
mod windows;
mod work;

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
        busy::ATTACKS,
        tls_use::ATTACKS,
        identities::ATTACKS,
        odd::ATTACKS,
        work::ATTACKS,
        windows::ATTACKS,
        kept::ATTACKS,
        snapshots::ATTACKS,
        peers::ATTACKS,
        nodes::ATTACKS,
        large_tree::ATTACKS,
        chains::ATTACKS,
        load::ATTACKS,
        askers::ATTACKS,
    ];
    parts.concat().into_iter()
}
