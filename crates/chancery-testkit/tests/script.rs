//! The script runner itself: it plays what is written, and notices what is not.
#![allow(clippy::unwrap_used, reason = "a test fails by panics")]

use chancery_core::{Scope, Variant};
use chancery_testkit::script::{self, transcript};

fn played(variant: Variant, script: &str) -> String {
    transcript(variant, Scope::Aggregated, script).unwrap()
}

fn fault(variant: Variant, line: &str) -> String {
    transcript(variant, Scope::Aggregated, line).unwrap_err().to_string()
}

#[test]
fn a_transcript_has_what_came_and_not_what_was_wanted() {
    let text = played(Variant::Sotw, "= cds a@1\n> cds\n< cds v=9 n=9 z@9\n# nothing else");
    assert_eq!(text, "= cds a@1\n> cds\n< cds v=1 n=1 a@1\n");
}

#[test]
fn nothing_is_sent_while_the_wire_is_busy() {
    let text = played(
        Variant::Sotw,
        "= cds a@1; lds l@1
         | > cds
         | > lds
         . 1
         .",
    );
    let wanted =
        "= cds a@1; lds l@1\n| > cds\n| > lds\n. 1\n< cds v=1 n=1 a@1\n.\n< lds v=1 n=2 l@1\n";
    assert_eq!(text, wanted);
}

#[test]
fn labels_outlive_the_stream_where_the_things_do() {
    script::sotw(
        "= cds a@1
         > cds
         < cds v=1 n=1 a@1
         > cds ack
         = cds a@2
         < cds v=2 n=2 a@2
         > cds ack
         ---
         > cds v=1
         < cds v=2 n=1 a@2
         > cds ack
         = cds v=stated a@3
         < cds v=stated n=2 a@3",
    );
}

#[test]
fn the_order_within_a_response_is_no_matter() {
    script::delta(
        "= cds b@1 a@1
         > cds +missing +b +a
         < cds !missing=NOT_FOUND -missing n=1 b@1 a@1",
    );
}

#[test]
fn bodies_and_facts_are_written_in_one_word() {
    script::delta(
        "% features=ttl
         = rds r@1->cds:a->cds:b(vhds=7,size=100); eds e@1(ttl=9s,alias=f)
         > eds +e
         < eds n=1 e@1(alias=f,ttl)
         > eds ack
         ~ 3s
         < eds n=2 e@1(alias=f,ttl,heartbeat)",
    );
}

#[test]
fn a_line_nobody_can_play_is_named() {
    assert!(fault(Variant::Sotw, "cds a").contains("a line begins with"));
    assert!(fault(Variant::Sotw, "= cds a").contains("`name@version`"));
    assert!(fault(Variant::Sotw, "= cds a@1(tll=3s)").contains("`tll=3s` is none of"));
    assert!(fault(Variant::Sotw, "~ 5 seconds").contains("no duration"));
    assert!(fault(Variant::Sotw, "> cds +a").contains("without signs"));
    assert!(fault(Variant::Delta, "> cds a").contains("written `+a` or `-a`"));
    assert!(fault(Variant::Delta, "> cds ack=7").contains("no such response"));
    assert!(fault(Variant::Delta, "% ackwait=7s").contains("`ackwait` is no setting"));
}

#[test]
fn a_stream_the_server_closed_stays_closed() {
    let text = played(Variant::Sotw, "> -\n---\n> cds");
    assert_eq!(text.lines().filter(|line| line.starts_with("! closed")).count(), 1);
    assert!(fault(Variant::Sotw, "> -\n> cds").contains("`---` opens another"));
}
