//! The wait of routes and listeners for the clusters they will point to.

use chancery_testkit::script::{delta, sotw};

#[test]
fn routes_wait_for_the_endpoints_of_a_new_cluster() {
    // S-097, S-102: union, endpoints, routes, removal
    sotw(
        "= cds x@1->eds:x; eds x@1; lds l@1; rds r@1->cds:x
         > cds
         < cds v=1 n=1 x@1
         > eds x
         < eds v=1 n=2 x@1
         > cds ack
         > eds ack
         > lds
         < lds v=1 n=3 l@1
         > rds r
         < rds v=1 n=4 r@1
         > lds ack
         > rds ack
         = cds y@1->eds:y -x; eds y@1 -x; rds r@2->cds:y
         < cds v=2 n=5 x@1 y@1
         > eds x y n=2 v=1
         < eds v=2 n=6 y@1
         > cds ack
         > eds ack
         < rds v=2 n=7 r@2
         > rds ack
         < cds v=3 n=8 y@1
         > cds ack
         > eds y n=6 v=2
         ~ 1m",
    );
    delta(
        "= cds x@1->eds:x; eds x@1; lds l@1; rds r@1->cds:x
         > cds
         < cds n=1 x@1
         > eds +x
         < eds n=2 x@1
         > cds ack
         > eds ack
         > rds +r
         < rds n=3 r@1
         > rds ack
         = cds y@1->eds:y -x; eds y@1 -x; rds r@2->cds:y
         < cds n=4 y@1
         > eds +y
         < eds n=5 y@1
         > cds ack
         > eds ack
         < rds n=6 r@2
         > rds ack
         < cds n=7 -x
         > cds ack
         < eds n=8 -x !x=NOT_FOUND",
    );
}

#[test]
fn a_removal_nothing_uses_is_sent_at_once() {
    // S-097, S-098
    delta(
        "= cds x@1 y@1; rds r@1
         > cds
         < cds n=1 x@1 y@1
         > cds ack
         > rds +r
         < rds n=2 r@1
         > rds ack
         = cds -x
         < cds n=3 -x
         > cds ack
         = rds -r
         < rds n=4 -r !r=NOT_FOUND",
    );
}

#[test]
fn routes_do_not_wait_for_a_client_that_does_not_ask_for_endpoints() {
    // S-097, S-104
    delta(
        "= cds x@1; rds r@1
         > cds
         < cds n=1 x@1
         > cds ack
         > rds +r
         < rds n=2 r@1
         > rds ack
         = cds y@1->eds:y; eds y@1; rds r@2
         < cds n=3 y@1
         > cds ack
         ~ 249ms
         ~ 1ms
         < rds n=4 r@2",
    );
}

#[test]
fn waiting_routes_leave_no_deadline_behind() {
    // S-097: what waits for other types has no time of its own
    delta(
        "% warm_wait=10s features=ttl ack_wait=2s
         = cds x@1; rds r@1(ttl=9s)
         > cds
         < cds n=1 x@1
         > cds ack
         > rds +r
         < rds n=2 r@1(ttl)
         > rds ack
         = cds y@1->eds:y; eds y@1; rds r@2(ttl=9s)
         < cds n=3 y@1
         > eds +y
         < eds n=4 y@1
         > cds ack
         ~ 4s
         < rds n=5 r@1(ttl,heartbeat)
         > rds ack
         ~ 4s
         < rds n=6 r@1(ttl,heartbeat)
         > rds ack
         ~ 1s
         < rds n=7 r@1(ttl,heartbeat)
         > rds ack
         ~ 1s
         < rds n=8 r@2(ttl)",
    );
}

#[test]
fn what_waits_for_other_types_leaves_its_predecessor_alive() {
    // S-087, S-097: the route the client has would expire before its successor may be sent
    sotw(
        "% features=ttl,wrapped
         = cds x@1; rds r@1(ttl=3s)
         > cds
         < cds v=1 n=1 wrapped x@1
         > cds ack
         > rds r
         < rds v=1 n=2 wrapped r@1(ttl)
         > rds ack
         = cds y@1->eds:y; eds y@1; rds r@2(ttl=3s)
         < cds v=2 n=3 wrapped x@1 y@1
         > cds ack
         > eds y
         < eds v=1 n=4 wrapped y@1
         ~ 1s
         < rds v=2 n=5 wrapped r@1(ttl,heartbeat)
         > rds ack
         > eds y ack
         < rds v=2 n=6 wrapped r@2(ttl)",
    );
}

#[test]
fn routes_wait_for_a_bounded_time() {
    // S-097
    delta(
        "% warm_wait=10s
         = cds x@1; rds r@1
         > cds
         < cds n=1 x@1
         > cds ack
         > rds +r
         < rds n=2 r@1
         > rds ack
         = cds y@1->eds:y; eds y@1; rds r@2
         < cds n=3 y@1
         > eds +y
         < eds n=4 y@1
         > cds ack
         ~ 9s
         ~ 1s
         < rds n=5 r@2",
    );
}

#[test]
fn a_rejected_cluster_is_not_waited_for() {
    // S-097, S-035
    delta(
        "= cds x@1; rds r@1
         > cds
         < cds n=1 x@1
         > cds ack
         > rds +r
         < rds n=2 r@1
         > rds ack
         = cds y@1->eds:y; eds y@1; rds r@2
         < cds n=3 y@1
         > cds nack error=no
         < rds n=4 r@2",
    );
}

#[test]
fn a_route_never_precedes_its_cluster_even_if_asked_for() {
    // S-097: the new cluster waits for the answer to the last clusters, and so does the route
    delta(
        "% ack_wait=10s
         = cds x@1; rds r@1
         > cds
         < cds n=1 x@1
         = cds y@1; rds r@2->cds:y
         > rds +r
         ~ 9s
         > cds ack
         < cds n=2 y@1
         < rds n=3 r@2",
    );
}

#[test]
fn routes_wait_for_the_endpoints_of_the_new_cluster_and_no_other() {
    // S-097
    delta(
        "= cds x@1->eds:x; eds x@1; rds r@1
         > cds
         < cds n=1 x@1
         > eds +x
         < eds n=2 x@1
         > cds ack
         > eds ack
         > rds +r
         < rds n=3 r@1
         > rds ack
         = cds y@1->eds:y; eds y@1 x@2; rds r@2
         < cds n=4 y@1
         < eds n=5 x@2
         > eds +y
         < eds n=6 y@1
         > cds ack
         > eds ack=5
         > eds ack=6
         < rds n=7 r@2",
    );
}

#[test]
fn routes_do_not_wait_for_endpoints_nobody_asks_for_or_has() {
    // S-097, S-066: the client asks for others only; there are none
    delta(
        "= cds x@1->eds:x; eds x@1; rds r@1
         > cds
         < cds n=1 x@1
         > eds +x
         < eds n=2 x@1
         > cds ack
         > eds ack
         > rds +r
         < rds n=3 r@1
         > rds ack
         = cds y@1->eds:y; eds y@1; rds r@2
         < cds n=4 y@1
         > cds ack
         ~ 250ms
         < rds n=5 r@2",
    );
    sotw(
        "= cds x@1->eds:x; eds x@1; rds r@1
         > cds
         < cds v=1 n=1 x@1
         > eds x
         < eds v=1 n=2 x@1
         > cds ack
         > eds ack
         > rds r
         < rds v=1 n=3 r@1
         > rds ack
         = cds y@1->eds:y; rds r@2
         < cds v=2 n=4 x@1 y@1
         > eds x y n=2 v=1
         > cds ack
         < rds v=2 n=5 r@2",
    );
}

#[test]
fn a_cluster_that_was_rejected_warms_when_the_whole_state_with_it_is_accepted() {
    // S-099, S-035: it was sent, and its endpoints too, while the client still had the old one
    sotw(
        "= cds a@1->eds:a b@1 c@1; eds a@1
          > cds a b
          < cds v=1 n=1 a@1 b@1
          > cds a b ack
          > eds a
          < eds v=1 n=2 a@1
          > eds a ack
          = cds a@2->eds:a b@2
          < cds v=2 n=3 a@2 b@2
          < eds v=1 n=4 a@1
          > eds a ack
          > cds a b nack error=b is bad
          > cds a c
          < cds v=2 n=5 a@2 c@1
          < eds v=1 n=6 a@1",
    );
}
