//! Whatever is delayed, lost, rejected or published at whatever moment: a quiet network leaves
//! every client with exactly what it asked for, and nothing was sent that it had.
//!
//! [`chancery_testkit::sim`] says what is checked on the way. A failure prints its seed;
//! `CHANCERY_SIM_SEED=n` plays it again, `CHANCERY_SIM_SEEDS=n` plays more.

use chancery_testkit::sim::{Fleet, each_seed};

#[test]
fn one_client_and_one_server_converge() {
    // S-043, S-044, S-046, S-047, S-079, S-080, S-097, S-098, S-099, S-106
    each_seed(1500, |seed| Fleet::new(seed, 1, 1), 30);
}

#[test]
fn clients_that_move_between_replicas_converge() {
    // S-005, S-011, S-031, S-055, S-076, S-078
    each_seed(500, |seed| Fleet::new(seed, 3, 2), 30);
}

#[test]
fn long_conversations_converge() {
    // S-028, S-037, S-042, S-087, S-107
    each_seed(200, |seed| Fleet::new(seed, 1, 1), 300);
}
