//! go-control-plane's client, which never names what it wants.

use super::{Rig, with_clients};
use crate::support::chancery::{Chancery, Directory};
use crate::support::process::Process;
use crate::support::resources::endpoints;

/// Asks for endpoints without a name.
fn start(rig: &Rig, chancery: &Chancery) -> Process {
    let mut command = rig.clients.go();
    command.args([&chancery.address(), "go-1", "eds", "1"]);
    Process::start(rig.path(), "client", &mut command)
}

// S-053
#[test]
fn a_go_client_that_names_nothing_is_seen_in_the_log() {
    with_clients(|rig| {
        let directory = Directory::new(rig.path(), "config");
        directory.write("eds.yaml", &(endpoints("a", &[1]) + &endpoints("b", &[1])));
        let chancery = Chancery::serve(&directory);
        let _client = start(rig, &chancery);
        chancery.says("sent none; `limits.wildcard-types` would send all stream=1 node=\"go-1\"");
    });
}

// S-053
#[test]
fn a_go_client_that_names_nothing_is_sent_everything_if_told_so() {
    with_clients(|rig| {
        let directory = Directory::new(rig.path(), "config");
        directory.write("chancery.yaml", "limits: {wildcard-types: [eds]}\n");
        directory.write("eds.yaml", &(endpoints("a", &[1]) + &endpoints("b", &[1])));
        let chancery = Chancery::serve(&directory);
        start(rig, &chancery).says("answer 1: a,b");
    });
}
