//! Names of which a source cannot tell yet whether they exist.
//!
//! A relay asks another server, and a store over a network may not have answered: until it has, a
//! name is neither there nor absent.

use chancery_testkit::script::{delta, sotw};

#[test]
fn a_pending_name_is_waited_for_and_not_answered_as_absent() {
    delta(
        "= eds ?a
         > eds +a +b
         < eds n=1 -b !b=NOT_FOUND
         > eds ack
         = eds a@1
         < eds n=2 a@1",
    );
    sotw(
        "% report_missing
         = eds ?a
         > eds a
         = eds a@1
         < eds v=1 n=1 a@1",
    );
}

#[test]
fn a_name_that_turns_out_to_be_absent_is_answered_so() {
    delta(
        "= eds ?a
         > eds +a
         ~ 1s
         = eds ?
         < eds n=1 -a !a=NOT_FOUND",
    );
}

#[test]
fn a_pending_name_is_waited_for_no_longer_than_its_bound() {
    delta(
        "% source_wait=5s
         = eds ?*
         > eds +a
         ~ 4s
         > eds +b
         ~ 1s
         < eds n=1 -a !a=NOT_FOUND
         > eds ack
         ~ 4s
         < eds n=2 -b !b=NOT_FOUND
         > eds ack
         ~ 1m
         = eds a@1
         < eds n=3 a@1",
    );
}

#[test]
fn a_client_of_everything_waits_until_the_source_can_tell_all() {
    // S-056: a state that leaves something out would delete it
    sotw(
        "= cds a@1 ?*
         > cds
         ~ 5s
         = cds b@1 ?
         < cds v=1 n=1 a@1 b@1",
    );
    delta(
        "= cds a@1 ?*
         > cds
         ~ 5s
         = cds b@1 ?
         < cds n=1 a@1 b@1",
    );
}

#[test]
fn a_client_of_everything_waits_no_longer_than_the_bound() {
    sotw(
        "% source_wait=5s
         = cds a@1 ?*
         > cds
         ~ 5s
         < cds v=1 n=1 a@1
         > cds ack
         ~ 1m
         = cds b@1
         < cds v=2 n=2 a@1 b@1",
    );
}

#[test]
fn a_whole_state_waits_for_the_names_in_it() {
    // S-056
    sotw(
        "% source_wait=5s
         = cds a@1 ?b
         > cds a b
         ~ 4s
         = cds b@1
         < cds v=1 n=1 a@1 b@1
         > cds ack",
    );
}

#[test]
fn endpoints_that_are_pending_are_waited_for_like_those_on_their_way() {
    // S-097
    delta(
        "% warm_wait=5s source_wait=20s
         = cds a@1; rds r@1->cds:a
         > cds
         < cds n=1 a@1
         > cds ack
         > rds +r
         < rds n=2 r@1
         > rds ack
         = cds b@1->eds:b; eds ?b; rds r@2->cds:b
         < cds n=3 b@1
         > eds +b
         > cds ack
         ~ 2s
         = eds b@1
         < eds n=4 b@1
         > eds ack
         < rds n=5 r@2",
    );
}

#[test]
fn what_a_client_holds_is_not_removed_while_it_is_pending() {
    delta(
        "% source_wait=5s
         = eds a@1
         > eds +a
         < eds n=1 a@1
         > eds ack
         = eds -a ?a
         ~ 4s
         = eds a@1 ?
         ~ 1m",
    );
}

#[test]
fn the_wait_for_a_name_ends_with_its_subscription() {
    delta(
        "% source_wait=5s
         = eds ?a
         > eds +a
         > eds -a
         ~ 1m
         = eds a@1",
    );
    sotw(
        "% source_wait=5s
         = cds ?a,b
         > cds a
         ~ 4s
         > cds b
         ~ 4s
         = cds b@1
         < cds v=1 n=1 b@1",
    );
}

#[test]
fn a_wait_that_is_over_has_no_deadline_while_another_goes_on() {
    sotw(
        "% source_wait=5s
         = cds ?a,b
         > cds a
         ~ 4s
         > cds a b
         ~ 4s
         ~ 1s
         < cds v=1 n=1 !a=NOT_FOUND !b=NOT_FOUND",
    );
    let glob = "xdstp://x/envoy.config.cluster.v3.Cluster/e/*";
    delta(&format!(
        "% source_wait=5s
         = cds ?*
         > cds +a
         ~ 4s
         > cds +{glob}
         ~ 4s
         ~ 1s
         < cds n=1 -a -{glob} !a=NOT_FOUND !{glob}=NOT_FOUND",
    ));
}
