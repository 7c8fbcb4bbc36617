//! When a stream says that all it was owed has landed.

use chancery_testkit::script::{delta, sotw};

#[test]
fn the_last_part_of_a_response_that_was_split_lands_and_its_first_does_not() {
    // S-110
    delta(
        "% max_bytes=1000
         = eds a@1(size=600) b@1(size=600)
         > eds +a +b
         < eds n=1 a@1
         > eds ack
         < eds n=2 b@1
         > eds ack
         ! landed",
    );
}

#[test]
fn a_stream_lands_once_all_of_its_types_have() {
    sotw(
        "= cds a@1->eds:a; eds a@1
         > cds
         < cds v=1 n=1 a@1
         > eds a
         < eds v=1 n=2 a@1
         > eds ack
         > cds ack
         ! landed
         = eds a@2
         < eds v=2 n=3 a@2
         > eds ack
         ! landed",
    );
}

#[test]
fn what_was_rejected_has_not_landed() {
    // S-033
    sotw(
        "= cds a@1
         > cds
         < cds v=1 n=1 a@1
         > cds nack
         = cds a@2
         < cds v=2 n=2 a@2
         > cds ack
         ! landed",
    );
}

#[test]
fn a_removal_that_waits_has_not_landed() {
    // S-098
    delta(
        "= cds a@1 b@1; rds r@1->cds:a
         > cds
         < cds n=1 a@1 b@1
         > cds ack
         ! landed
         > rds +r
         < rds n=2 r@1
         > rds ack
         ! landed
         = cds -a; rds r@2->cds:b
         < rds n=3 r@2
         > rds ack
         < cds n=4 -a
         > cds ack
         ! landed",
    );
}

#[test]
fn a_snapshot_that_owes_nothing_lands_at_once() {
    sotw(
        "= eds a@1
         > eds a
         < eds v=1 n=1 a@1
         > eds ack
         ! landed
         = eds b@1
         ! landed
         > eds a b
         < eds v=2 n=2 b@1
         > eds ack
         ! landed",
    );
}

#[test]
fn a_client_that_comes_back_with_all_it_needs_has_landed() {
    // S-043, S-076
    sotw(
        "= cds a@1
         > cds
         < cds v=1 n=1 a@1
         > cds ack
         ! landed
         ---
         > cds v=1
         ! landed",
    );
    delta(
        "= cds a@1
         > cds init=a:1
         ! landed",
    );
}

#[test]
fn a_heartbeat_lands_nothing_anew() {
    // S-087
    delta(
        "% features=ttl
         = lds a@1(ttl=9s)
         > lds
         < lds n=1 a@1(ttl)
         > lds ack
         ! landed
         ~ 3s
         < lds n=2 a@1(ttl,heartbeat)
         > lds ack",
    );
}

#[test]
fn a_client_that_has_unsubscribed_all_owes_no_answer() {
    // T-03
    delta(
        "= eds a@1
         > eds +a
         < eds n=1 a@1
         > eds -a
         ! landed",
    );
    sotw(
        "= eds a@1
         > eds a
         < eds v=1 n=1 a@1
         > eds []
         ! landed
         > eds a
         < eds v=1 n=2 a@1
         > eds ack
         ! landed",
    );
}

#[test]
fn a_late_answer_to_a_response_that_was_given_up_counts() {
    // S-037
    let numbers = || 1..=40;
    let state: Vec<_> = numbers().map(|number| format!("e{number:02}@1")).collect();
    let asks = numbers().map(|number| {
        let names: Vec<_> = (1..=number).map(|it| format!("e{it:02}")).collect();
        format!("> eds {}\n< eds v=1 n={number} e{number:02}@1\n", names.join(" "))
    });
    let acks = numbers().map(|number| format!("> eds ack={number}\n"));
    let (asks, acks) = (asks.collect::<String>(), acks.collect::<String>());
    sotw(&format!("= eds {}\n{asks}{acks}! landed", state.join(" ")));
}

#[test]
fn a_client_that_is_about_to_ask_for_what_it_accepted_leads_to_has_not_landed() {
    sotw(
        "= cds a@1->eds:a; eds a@1; lds l@1->rds:r; rds r@1
         > cds
         < cds v=1 n=1 a@1
         > cds ack
         > eds a
         < eds v=1 n=2 a@1
         > eds ack
         ! landed
         > lds
         < lds v=1 n=3 l@1
         > lds ack
         > rds r
         < rds v=1 n=4 r@1
         > rds ack
         ! landed
         = cds b@1->eds:b; eds b@1
         < cds v=2 n=5 a@1 b@1
         > cds ack
         > eds a b
         < eds v=2 n=6 b@1
         > eds ack
         ! landed",
    );
    delta(
        "= cds a@1->eds:a; eds a@1
         > cds
         < cds n=1 a@1
         > cds ack
         > eds +a
         < eds n=2 a@1
         > eds ack
         ! landed
         = cds b@1->eds:b; eds b@1
         < cds n=3 b@1
         > cds ack
         > eds +b
         < eds n=4 b@1
         > eds ack
         ! landed",
    );
}

#[test]
fn a_client_that_does_not_ask_in_time_has_landed_and_is_not_waited_for_again() {
    sotw(
        "= cds a@1->eds:a; eds a@1
         > cds
         < cds v=1 n=1 a@1
         > cds ack
         ~ 249ms
         ~ 1ms
         ! landed
         = cds a@2->eds:a
         < cds v=2 n=2 a@2
         > cds ack
         ! landed",
    );
}

#[test]
fn a_client_that_comes_back_has_not_landed_before_it_asks_for_all_it_had() {
    // S-043, S-076
    sotw(
        "= cds a@1->eds:a; eds a@1
         > cds
         < cds v=1 n=1 a@1
         > eds a
         < eds v=1 n=2 a@1
         > cds ack
         > eds ack
         ! landed
         ---
         > cds v=1
         > eds v=1 a
         < eds v=1 n=1 a@1
         > eds ack
         ! landed",
    );
    delta(
        "= cds a@1->eds:a; eds a@2
         > cds init=a:1
         > eds +a init=a:1
         < eds n=1 a@2
         > eds ack
         ! landed",
    );
}
