//! The rules that span several types: order, make-before-break, and what follows a cluster.
//!
//! Each test names the rules it proves (`docs/rules`). The language of the scripts is that of
//! [`chancery_testkit::script`].

use chancery_testkit::script::{delta, sotw};

#[test]
fn one_change_is_sent_in_the_order_its_users_need() {
    // S-096, T-16
    delta(
        "= cds a@1; eds a@1; lds l@1; rds r@1; vhds r/h@1; srds s@1; sds k@1
         > vhds +r/h
         < vhds n=1 r/h@1
         > rds +r
         < rds n=2 r@1
         > srds
         < srds n=3 s@1
         > lds
         < lds n=4 l@1
         > sds +k
         < sds n=5 k@1
         > eds +a
         < eds n=6 a@1
         > cds
         < cds n=7 a@1
         > vhds ack
         > rds ack
         > srds ack
         > lds ack
         > sds ack
         > eds ack
         > cds ack
         = cds a@2; eds a@2; lds l@2; rds r@2; vhds r/h@2; srds s@2; sds k@2
         < cds n=8 a@2
         < eds n=9 a@2
         < lds n=10 l@2
         < srds n=11 s@2
         < rds n=12 r@2
         < vhds n=13 r/h@2
         < sds n=14 k@2",
    );
    sotw(
        "= rds r@1; lds l@1; eds a@1; cds a@1
         | > rds r
         | > lds
         | > eds a
         | > cds
         .
         < cds v=1 n=1 a@1
         < eds v=1 n=2 a@1
         < lds v=1 n=3 l@1
         < rds v=1 n=4 r@1",
    );
}

#[test]
fn types_may_be_asked_for_in_any_order_and_number() {
    // S-104, T-06: a subset of the clusters, and routes before anything else
    sotw(
        "= cds a@1->eds:a b@1->eds:b; eds a@1 b@1; lds l@1->rds:r; rds r@1->cds:a
         > rds r
         < rds v=1 n=1 r@1
         > eds a
         < eds v=1 n=2 a@1
         > eds ack
         > lds l
         < lds v=1 n=3 l@1
         > cds a
         < cds v=1 n=4 a@1
         < eds v=1 n=5 a@1",
    );
}

#[test]
fn endpoints_are_sent_again_after_their_cluster_changed() {
    // S-099, T-17: and again for the next change
    sotw(
        "= cds a@1->eds:a b@1->eds:b; eds a@1 b@1
         > cds
         < cds v=1 n=1 a@1 b@1
         > eds a b
         < eds v=1 n=2 a@1 b@1
         > cds ack
         > eds ack
         = cds a@2->eds:a
         < cds v=2 n=3 a@2 b@1
         < eds v=1 n=4 a@1
         > cds ack
         > eds ack
         = cds a@3->eds:a
         < cds v=3 n=5 a@3 b@1
         < eds v=1 n=6 a@1
         > eds ack
         > cds ack
         ~ 1m",
    );
    delta(
        "= cds a@1->eds:a b@1->eds:b; eds a@1 b@1
         > cds
         < cds n=1 a@1 b@1
         > eds +a +b
         < eds n=2 a@1 b@1
         > cds ack
         > eds ack
         = cds a@2->eds:a
         < cds n=3 a@2
         < eds n=4 a@1
         > cds ack
         > eds ack
         = cds b@2~>eds:b
         < cds n=5 b@2",
    );
}

#[test]
fn endpoints_asked_for_before_their_cluster_follow_it() {
    // S-100, T-18: the client does not ask again
    delta(
        "= cds a@2->eds:a->sds:k b@1->eds:b; eds a@1 b@1; sds k@1
         > eds +a +b init=a:1 init=b:1
         > sds +k init=k:1
         > cds init=a:1 init=b:1
         < cds n=1 a@2
         < eds n=2 a@1
         < sds n=3 k@1",
    );
}

#[test]
fn a_reconnecting_client_that_has_everything_is_sent_nothing() {
    // S-076, S-078, S-106: also by another replica
    delta(
        "= cds a@1->eds:a; eds a@1; lds l@1; rds r@1
         > eds +a init=a:1
         > cds init=a:1
         > lds init=l:1
         > rds +r init=r:1
         ~ 1m",
    );
}

#[test]
fn a_removal_waits_for_the_acknowledgement_and_not_for_the_sending() {
    // S-098
    sotw(
        "= cds x@1 y@1; rds r@1
         > cds
         < cds v=1 n=1 x@1 y@1
         > cds ack
         > rds r
         < rds v=1 n=2 r@1
         > rds ack
         = cds -x; rds r@2
         < rds v=2 n=3 r@2
         ~ 5s
         > rds ack
         < cds v=2 n=4 y@1",
    );
}

#[test]
fn a_removal_waits_for_a_bounded_time() {
    // S-098
    sotw(
        "% removal_wait=20s
         = cds x@1 y@1; rds r@1
         > cds
         < cds v=1 n=1 x@1 y@1
         > cds ack
         > rds r
         < rds v=1 n=2 r@1
         > rds ack
         = cds -x; rds r@2
         < rds v=2 n=3 r@2
         ~ 19s
         ~ 1s
         < cds v=2 n=4 y@1",
    );
}

#[test]
fn a_rejected_route_keeps_what_it_may_still_use() {
    // S-035, S-098: a rejection says nothing sure about what the client runs
    delta(
        "% removal_wait=20s
         = cds x@1 y@1; rds r@1
         > cds
         < cds n=1 x@1 y@1
         > cds ack
         > rds +r
         < rds n=2 r@1
         > rds ack
         = cds -x; rds r@2
         < rds n=3 r@2
         > rds nack error=no
         ~ 19s
         ~ 1s
         < cds n=4 -x",
    );
    sotw(
        "% removal_wait=20s
         = cds x@1 y@1; lds l@1
         > cds
         < cds v=1 n=1 x@1 y@1
         > cds ack
         > lds
         < lds v=1 n=2 l@1
         > lds ack
         = cds -x; lds l@2
         < lds v=2 n=3 l@2
         > lds nack error=no
         ~ 19s
         = lds l@3
         < lds v=3 n=4 l@3
         > lds ack
         < cds v=2 n=5 y@1",
    );
}

#[test]
fn what_is_kept_comes_back_without_being_sent() {
    // S-098: the client never lost it
    delta(
        "= cds x@1 y@1; rds r@1
         > cds
         < cds n=1 x@1 y@1
         > cds ack
         > rds +r
         < rds n=2 r@1
         > rds ack
         = cds -x; rds r@2
         < rds n=3 r@2
         = cds x@1; rds r@1
         > rds ack
         < rds n=4 r@1
         > rds ack
         ~ 1m",
    );
}

#[test]
fn a_client_without_routes_has_nothing_to_wait_for() {
    // S-106: no deadline is left behind
    delta(
        "= cds x@1->eds:x; eds x@1
         > cds
         < cds n=1 x@1
         > cds ack
         ~ 1m",
    );
}

#[test]
fn a_client_that_asks_is_answered_while_routes_wait() {
    // S-104, S-102: a first-time name is answered
    delta(
        "= cds x@1; rds r@1 s@1
         > cds
         < cds n=1 x@1
         > rds +r
         < rds n=2 r@1
         > rds ack
         > rds +s
         < rds n=3 s@1",
    );
}

#[test]
fn changes_that_touch_no_cluster_do_not_wait_for_anything() {
    // S-105: endpoints go out while a listener is unanswered
    delta(
        "= cds x@1->eds:x; eds x@1; lds l@1; rds r@1
         > cds
         < cds n=1 x@1
         > eds +x
         < eds n=2 x@1
         > cds ack
         > eds ack
         > lds
         < lds n=3 l@1
         = eds x@2
         < eds n=4 x@2
         > rds +r
         < rds n=5 r@1
         > rds ack
         = rds r@2
         < rds n=6 r@2",
    );
}

#[test]
fn what_goes_before_it_was_given_is_never_given() {
    // S-045, S-098
    sotw(
        "= sds s@1 t@1
         > sds *
         < sds v=1 n=1 s@1 t@1
         > sds [] ack
         | = sds -s
         | > sds s t
         .
         < sds v=2 n=2 t@1 !s=NOT_FOUND",
    );
}

#[test]
fn what_was_rejected_and_goes_is_not_kept() {
    // S-033, S-098
    sotw(
        "= cds x@1; rds r@1
         > cds
         < cds v=1 n=1 x@1
         > cds ack
         > rds r
         < rds v=1 n=2 r@1
         > rds ack
         = cds y@1
         < cds v=2 n=3 x@1 y@1
         > cds nack error=y is bad
         = cds -y; rds r@2
         < cds v=1 n=4 x@1
         < rds v=2 n=5 r@2",
    );
}

#[test]
fn an_unchanged_route_is_not_sent_after_its_listener() {
    // S-102: Envoy uses the routes it has
    sotw(
        "= lds l@1->rds:r; rds r@1
         > lds
         < lds v=1 n=1 l@1
         > lds ack
         > rds r
         < rds v=1 n=2 r@1
         > rds ack
         = lds l@2->rds:r
         < lds v=2 n=3 l@2
         > lds ack
         ~ 1m",
    );
}

#[test]
fn a_grpc_client_is_led_from_its_routes_to_its_clusters() {
    // S-124: explicit names for all four types, roots included
    sotw(
        "= lds svc@1->rds:r; rds r@1->cds:x; cds x@1->eds:x; eds x@1
         > lds svc
         < lds v=1 n=1 svc@1
         > lds ack
         > rds r
         < rds v=1 n=2 r@1
         > rds ack
         > cds x
         < cds v=1 n=3 x@1
         > cds ack
         > eds x
         < eds v=1 n=4 x@1
         > eds ack
         = rds r@2->cds:y; cds -x y@1->eds:y; eds -x y@1
         < rds v=2 n=5 r@2
         > rds ack
         < cds v=2 n=6 !x=NOT_FOUND
         > cds y ack
         < cds v=2 n=7 y@1
         > cds ack
         > eds y
         < eds v=2 n=8 y@1
         > eds ack
         ~ 1m",
    );
}

#[test]
fn an_acknowledgement_in_no_time_is_booked() {
    // T-15: the nonce is known before the response leaves
    delta(
        "% watch=acked,stale
         = cds a@1
         > cds
         < cds n=1 a@1
         > cds ack
         ! acked cds n=1
         = cds a@2
         < cds n=2 a@2
         > cds ack
         ! acked cds n=2",
    );
}

#[test]
fn what_was_accepted_once_is_kept_though_its_response_was_rejected() {
    // S-098, S-035: another cluster was at fault, and the old route still leads to this one
    sotw(
        "= cds x@1 y@1; rds r@1
         > cds
         < cds v=1 n=1 x@1 y@1
         > cds ack
         > rds r
         < rds v=1 n=2 r@1
         > rds ack
         = cds x@2 z@1
         < cds v=2 n=3 x@2 y@1 z@1
         > cds nack error=z is bad
         = cds -x z@2; rds r@2
         < cds v=3 n=4 x@2 y@1 z@2
         < rds v=2 n=5 r@2
         > cds ack
         > rds ack
         < cds v=4 n=6 y@1 z@2",
    );
}

#[test]
fn endpoints_follow_every_cluster_of_a_response_that_is_tried_again() {
    // S-099, S-035: to a client that rejected the first it changes only now
    sotw(
        "= cds x@1->eds:x y@1->eds:y; eds x@1 y@1
         > cds
         < cds v=1 n=1 x@1 y@1
         > eds x y
         < eds v=1 n=2 x@1 y@1
         > cds ack
         > eds ack
         = cds x@2->eds:x y@2->eds:y
         < cds v=2 n=3 x@2 y@2
         < eds v=1 n=4 x@1 y@1
         > eds ack
         > cds nack error=y is bad
         = cds y@3->eds:y
         < cds v=3 n=5 x@2 y@3
         < eds v=1 n=6 x@1 y@1
         > eds ack
         > cds ack",
    );
}

#[test]
fn a_cluster_only_the_dead_server_knew_does_not_block_the_others() {
    // T-07: the client warms it, asks for its endpoints first, and must be told that it is gone
    sotw(
        "= cds a@1->eds:a; eds a@1
         > eds a gone
         < eds v=1 n=1 a@1 !gone=NOT_FOUND
         > eds ack
         > cds v=older
         < cds v=1 n=2 a@1
         < eds v=1 n=3 a@1",
    );
}

#[test]
fn what_an_earlier_stream_brought_is_kept_though_the_first_response_was_rejected() {
    // S-098, S-035: the client still runs what it accepted before it reconnected
    sotw(
        "= cds x@1 y@1; rds r@1
         > cds v=older
         < cds v=1 n=1 x@1 y@1
         > rds r v=older
         < rds v=1 n=2 r@1
         > rds ack
         > cds nack error=y is bad
         = cds -x y@2; rds r@2
         < cds v=2 n=3 x@1 y@2
         < rds v=2 n=4 r@2
         > cds ack
         > rds ack
         < cds v=3 n=5 y@2",
    );
}

#[test]
fn a_listener_accepted_after_a_rejection_uses_what_it_says() {
    // S-098: nothing waits for the rejected one any more
    sotw(
        "= cds x@1 y@1; lds l@1
         > cds
         < cds v=1 n=1 x@1 y@1
         > cds ack
         > lds
         < lds v=1 n=2 l@1
         > lds nack error=no
         = lds l@2
         < lds v=2 n=3 l@2
         > lds ack
         = cds -x
         < cds v=2 n=4 y@1",
    );
}

#[test]
fn a_whole_state_stands_for_those_that_were_never_answered() {
    // S-035, S-099: what the client rejected with it includes what went before
    sotw(
        "% ack_wait=10s
         = cds x@1->eds:x; eds x@1
         > cds
         < cds v=1 n=1 x@1
         > eds x
         < eds v=1 n=2 x@1
         > cds ack
         > eds ack
         = cds x@2->eds:x z@1
         < cds v=2 n=3 x@2 z@1
         < eds v=1 n=4 x@1
         > eds ack
         = cds y@1
         ~ 10s
         < cds v=3 n=5 x@2 y@1 z@1
         > cds n=3 v=1 error=z is bad
         > cds nack error=z is bad
         = cds z@2
         < cds v=4 n=6 x@2 y@1 z@2
         < eds v=1 n=7 x@1",
    );
}

#[test]
fn endpoints_follow_their_cluster_in_whatever_spelling() {
    // S-099, S-114
    let eds = |query| format!("xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/e?{query}");
    let (stored, asked) = (eds("a=1&b=2"), eds("b=2&a=1"));
    delta(&format!(
        "= cds c@1->eds:{stored}; eds {stored}@1; rds r@1
         > cds
         < cds n=1 c@1
         > eds +{asked}
         < eds n=2 {asked}@1
         > cds ack
         > eds ack
         > rds +r
         < rds n=3 r@1
         > rds ack
         = cds c@2->eds:{stored}
         < cds n=4 c@2
         < eds n=5 {asked}@1"
    ));
}

#[test]
fn accepting_a_whole_state_accepts_all_that_is_in_it() {
    // S-098, S-056: also what was rejected before and came along unchanged
    sotw(
        "= cds x@1 y@1; lds l@1
         > cds
         < cds v=1 n=1 x@1 y@1
         > cds ack
         > lds
         < lds v=1 n=2 l@1
         > lds nack error=no
         = lds m@1
         < lds v=2 n=3 l@1 m@1
         > lds ack
         = cds -x
         < cds v=2 n=4 y@1",
    );
}
