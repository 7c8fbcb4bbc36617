//! Routes and removals, and their waits, when requests, responses and answers overlap.
//!
//! Clients ask for more before they have read what they asked for first, and answer in order, each
//! response once (S-037). Each test names the rules it proves (`docs/rules`).

use chancery_testkit::script::{delta, sotw};

#[test]
fn routes_do_not_wait_for_endpoints_that_overlapping_requests_brought() {
    // S-037, S-097: grpc-go and grpc-java ask once for each cluster, and do not wait for answers
    sotw(
        "= cds a@1->eds:a b@1->eds:b c@1->eds:c; eds a@1 b@1 c@1; lds l@1; rds r@1
         > cds a
         < cds v=1 n=1 a@1
         > cds ack
         > eds a
         < eds v=1 n=2 a@1
         > eds ack
         > rds r
         < rds v=1 n=3 r@1
         > rds ack
         > cds a b c ack
         < cds v=1 n=4 a@1 b@1 c@1
         > cds ack
         > eds a b ack
         < eds v=1 n=5 b@1
         > eds a b c n=2
         < eds v=1 n=6 c@1
         = rds r@2
         > eds a b c ack=5
         > eds a b c ack=6
         < rds v=2 n=7 r@2",
    );
}

#[test]
fn routes_do_not_wait_for_clusters_that_overlapping_requests_brought() {
    // S-037, S-097: the second response is the whole state, and only its own clusters are new in it
    sotw(
        "= cds a@1->eds:a b@1->eds:b c@1->eds:c; eds a@1 b@1 c@1; rds r@1
         > rds r
         < rds v=1 n=1 r@1
         > rds ack
         > cds a b
         < cds v=1 n=2 a@1 b@1
         > cds a b c n= v=
         < cds v=1 n=3 a@1 b@1 c@1
         = rds r@2
         > cds ack=2
         > eds a b
         < eds v=1 n=4 a@1 b@1
         > cds ack=3
         > eds a b c n= v=
         < eds v=1 n=5 c@1
         > eds ack=4
         > eds ack=5
         < rds v=2 n=6 r@2",
    );
}

#[test]
fn a_response_that_a_later_answer_skips_is_not_waited_for() {
    // S-037, S-097: it was read, so there is nothing to wait for
    sotw(
        "= cds a@1->eds:a b@1->eds:b; eds a@1 b@1; rds r@1
         > rds r
         < rds v=1 n=1 r@1
         > rds ack
         > cds a
         < cds v=1 n=2 a@1
         > cds a b n= v=
         < cds v=1 n=3 a@1 b@1
         = rds r@2
         > cds ack=3
         > eds a
         < eds v=1 n=4 a@1
         > eds a b n= v=
         < eds v=1 n=5 b@1
         > eds ack=5
         < rds v=2 n=6 r@2",
    );
}

#[test]
fn a_response_that_a_later_answer_skips_acknowledges_nothing() {
    // S-037, S-098: nobody knows whether the client runs `r@2`, or still `r@1`, which uses `x`
    sotw(
        "% removal_wait=20s
         = cds x@1 y@1; rds r@1 s@1
         > cds
         < cds v=1 n=1 x@1 y@1
         > cds ack
         > rds r
         < rds v=1 n=2 r@1
         > rds ack
         = cds -x; rds r@2
         < rds v=2 n=3 r@2
         > rds r s n=2 v=1
         < rds v=2 n=4 s@1
         > rds ack=4
         ~ 19s
         ~ 1s
         < cds v=2 n=5 y@1",
    );
    sotw(
        "% removal_wait=20s
         = cds x@1 y@1; rds r@1 s@1
         > cds
         < cds v=1 n=1 x@1 y@1
         > cds ack
         > rds r
         < rds v=1 n=2 r@1
         > rds ack
         = cds -x; rds r@2
         < rds v=2 n=3 r@2
         > rds r s n=2 v=1
         < rds v=2 n=4 s@1
         > rds ack=4
         = rds r@3
         < rds v=3 n=5 r@3
         > rds ack
         < cds v=2 n=6 y@1",
    );
}

#[test]
fn a_whole_state_that_is_accepted_acknowledges_those_it_follows() {
    // S-037, S-056, S-098
    sotw(
        "= cds x@1 y@1; lds l@1 m@1
         > cds
         < cds v=1 n=1 x@1 y@1
         > cds ack
         > lds l
         < lds v=1 n=2 l@1
         > lds ack
         = cds -x; lds l@2
         < lds v=2 n=3 l@2
         > lds l m n=2 v=1
         < lds v=2 n=4 l@2 m@1
         > lds ack=4
         < cds v=2 n=5 y@1",
    );
}

#[test]
fn routes_do_not_wait_for_endpoints_the_client_has_from_an_earlier_stream() {
    // S-076, S-097: they are not sent, so no answer to them will come
    delta(
        "= cds a@1->eds:a; eds a@1; rds r@1
         > cds
         < cds n=1 a@1
         > eds +a init=a:1
         > cds ack
         > rds +r
         < rds n=2 r@1
         > rds ack
         = rds r@2
         < rds n=3 r@2",
    );
}

#[test]
fn what_goes_before_its_change_was_sent_is_kept_as_the_client_has_it() {
    // S-098: the client was never given `s@2`
    delta(
        "= cds a@1; sds s@1
         > cds
         < cds n=1 a@1
         > cds ack
         > sds +s
         < sds n=2 s@1
         > sds ack
         | = cds a@2; sds s@2
         . 1
         < cds n=3 a@2
         = sds -s
         .
         > cds ack
         < sds n=4 -s !s=NOT_FOUND",
    );
    sotw(
        "= cds a@1; sds s@1
         > cds
         < cds v=1 n=1 a@1
         > cds ack
         > sds s
         < sds v=1 n=2 s@1
         > sds ack
         | = cds a@2; sds s@2
         . 1
         < cds v=2 n=3 a@2
         = sds -s
         .
         > cds ack",
    );
}
