//! Whatever becomes of its servers: a client of several authorities ends with what the best servers
//! that can be reached have, was told nothing that no server sent, and waits for nothing in silence.
//!
//! [`chancery_testkit::sim::Federation`] says what is checked on the way. A failure prints its
//! seed; `CHANCERY_SIM_SEED=n` plays it again, `CHANCERY_SIM_SEEDS=n` plays more.

use chancery_testkit::sim::{Federation, each_seed};

#[test]
fn watchers_end_with_what_the_best_servers_have() {
    // C-031, C-032, C-039, C-047, C-049, C-050, C-062, C-063, C-067, C-069, C-077, C-078, C-087,
    // C-088, C-089, C-090
    each_seed(600, Federation::new, 40);
}

#[test]
fn long_histories_end_the_same_way() {
    // C-045, C-050, C-052, C-073
    each_seed(60, Federation::new, 400);
}
