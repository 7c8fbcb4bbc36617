//! Sources that are polled: REST servers and files. What is asked, when it is asked again, and what
//! becomes of a source that cannot be used.
//!
//! Each test names the rules it proves (`docs/rules`). The language of the scripts is that of
//! [`chancery_testkit::script`].

use chancery_testkit::script::client;

#[test]
fn a_poll_is_a_whole_question_and_answers_the_one_before() {
    // C-044
    client(
        "% server one refresh=10s
         + w cds a
         < one/cds open
         > one/cds open
         < one cds a node
         > one cds v=1 n=1 a@1
         ! w a@1
         ~ 9s
         ~ 1s
         < one cds a v=1 node
         > one/cds unchanged
         ~ 10s
         < one cds a v=1 node
         > one cds v=2 a@2
         ! w a@2
         ~ 10s
         < one cds a v=2 node",
    );
}

#[test]
fn new_names_are_asked_for_at_once_and_whatever_the_version() {
    // C-044: a server that compares versions alone would answer that nothing is new
    client(
        "% server one refresh=10s
         + v eds a
         < one/eds open
         > one/eds open
         < one eds a node
         > one eds v=1 a@1
         ! v a@1
         + w eds b
         < one eds a b node
         > one eds v=1 a@1 b@1
         ! w b@1
         - v
         ~ 10s
         < one eds b v=1 node",
    );
}

#[test]
fn names_that_come_while_a_poll_is_on_its_way_are_in_the_next() {
    // C-044: there is one at a time
    client(
        "% server one refresh=10s
         + v eds a
         < one/eds open
         + w eds b
         > one/eds open
         < one eds a b node
         - w
         + w eds c
         ~ 10s
         > one eds v=1 a@1 b@1
         < one eds a c node
         ! v a@1
         > one eds v=1 a@1 c@1
         ! w c@1",
    );
}

#[test]
fn what_was_rejected_is_said_with_the_next_poll() {
    // C-044, C-063
    client(
        "% server one refresh=10s
         + w cds a
         < one/cds open
         > one/cds open
         < one cds a node
         > one cds v=1 a@1
         ! w a@1
         ~ 10s
         < one cds a v=1 node
         > one cds v=2 a@!bad
         ! w a but rejected
         ~ 10s
         < one cds a v=1 node error=`a`: bad",
    );
}

#[test]
fn everything_is_asked_for_as_old_servers_understand_it() {
    // C-033, C-044
    client(
        "% server one refresh=10s
         + w cds *
         < one/cds open
         > one/cds open
         < one cds node
         > one cds v=1 a@1 b@1
         ! w a@1
         ! w b@1
         ! w complete
         ~ 10s
         < one cds v=1 node
         > one cds v=2 b@1
         ! w a none missing",
    );
}

#[test]
fn a_poll_that_fails_is_a_server_that_cannot_be_reached() {
    // C-044, C-067, C-068
    client(
        "% server one refresh=10s
         % backoff=1s
         + w cds a
         < one/cds open
         > one/cds open
         < one cds a node
         > one cds v=1 a@1
         ! w a@1
         ~ 10s
         < one cds a v=1 node
         > one/cds end the answer was late
         < one/cds open
         > one/cds open
         < one cds a node
         > one/cds end the answer was late
         ! w a but unreachable
         ~ 1s
         < one/cds open
         > one/cds open
         < one cds a node
         > one cds v=1 a@1
         ! w a fine",
    );
}

#[test]
fn nothing_is_asked_when_nothing_is_watched() {
    // C-039, C-044
    client(
        "% server one refresh=10s
         % idle=1m
         + w cds a
         < one/cds open
         > one/cds open
         < one cds a node
         > one cds v=1 a@1
         ! w a@1
         - w
         ~ 59s
         ~ 1s
         < one/cds close",
    );
}

#[test]
fn a_source_that_cannot_be_used_at_all_is_told_to_all_who_watch_it() {
    // C-043
    client(
        "% server one refresh=1s
         + v cds a
         < one/cds open
         + w cds b
         + x cds *
         > one/cds open
         < one cds * a b node
         > one cds v=1 a@1
         ! v a@1
         ! x a@1
         ! x complete
         ~ 1s
         < one cds * a b v=1 node
         > one/cds unusable line 3 makes no sense
         ! v a but rejected
         ! w b none rejected
         ! x * but rejected
         + y cds a
         ! y a@1
         ! y a but rejected
         + z cds *
         ! z * but rejected
         ! z a@1
         ! z a but rejected
         ! z complete
         ~ 1s
         < one cds * a b v=1 node
         > one/cds unchanged
         ~ 1s
         < one cds * a b v=1 node
         > one cds v=2 a@1
         ! v a fine
         ! w b none missing
         ! x * fine
         ! y a fine
         ! z * fine
         ! z a fine",
    );
}

#[test]
fn what_is_left_of_an_earlier_run_is_told_before_anybody_is_asked() {
    // C-040: its versions are the first thing a server of delta hears
    client(
        "% server one delta
         = cds a@1
         = cds b@1
         + v cds a
         < one open
         ! v a@1
         + w cds *
         ! w a@1
         ! w b@1
         > one open
         < one cds +* +a init=a:1 init=b:1 node
         > one cds n=1 b@2 -a
         < one cds n=1
         ! v a but missing
         ! w a none missing
         ! w b@2
         ! w complete",
    );
}

#[test]
fn what_was_loaded_late_is_told_to_those_who_watch_already() {
    // C-048
    client(
        "% server one
         + v cds a
         < one open
         + w cds *
         = cds a@1
         ! v a@1
         ! w a@1
         > one open
         < one cds * a node
         > one cds v=1 n=1 a@2
         < one cds * a v=1 n=1
         ! v a@2
         ! w a@2
         ! w complete
         = cds a@0",
    );
}

#[test]
fn a_server_of_the_whole_state_must_repeat_what_is_left_of_an_earlier_run() {
    // C-065: else it is known to be old, and is used all the same
    client(
        "% server one
         = eds a@1
         + v eds a
         < one open
         ! v a@1
         > one open
         < one eds a node
         ~ 15s
         ! v a but missing
         > one eds v=1 n=1 a@1
         < one eds a v=1 n=1
         ! v a fine",
    );
}

/// C-044, C-065, C-067: a poll has its own time, and a server that does not answer one is away.
#[test]
fn nothing_is_missing_while_a_poll_goes_on() {
    client(
        "% server one refresh=10s
         + v eds a
         < one/eds open
         + w cds *
         < one/cds open
         > one/eds open
         < one eds a node
         > one/cds open
         < one cds node
         ~ 60s
         > one/eds end no answer
         ! v a none unreachable
         > one/cds end no answer
         ! w * but unreachable
         ~ 1s
         < one/cds open
         < one/eds open
         > one/eds open
         < one eds a node
         > one/cds open
         < one cds node
         ~ 60s
         > one/eds end no answer
         > one/cds end no answer",
    );
    client(
        "% server one refresh=100s
         + v eds a
         < one/eds open
         > one/eds open
         < one eds a node
         ~ 60s
         > one eds v=1 n=1 b@1
         ! v a none missing",
    );
}

/// C-043, C-070: a broken file says nothing of the resources in it, so none is dropped, whatever a
/// server may say of one resource.
#[test]
fn a_source_that_cannot_be_used_takes_nothing_away() {
    client(
        "% server one refresh=1s fail_on_data_errors
         + v cds a
         < one/cds open
         + w cds *
         > one/cds open
         < one cds * a node
         > one cds v=1 n=1 a@1 b@1
         ! v a@1
         ! w a@1
         ! w b@1
         ! w complete
         ~ 1s
         < one cds * a v=1 node
         > one/cds unusable broken
         ! v a but rejected
         ! w * but rejected
         ~ 1s
         < one cds * a v=1 node
         > one cds v=2 n=1 a@1 b@2
         ! v a fine
         ! w * fine
         ! w b@2",
    );
}

/// C-027, C-056: a source that is polled has all there is of a collection, too.
#[test]
fn a_member_of_a_collection_that_a_poll_leaves_out_is_gone() {
    client(
        "% server one refresh=5s
         % authority a one
         + w cds xdstp://a/envoy.config.cluster.v3.Cluster/e/*
         < one/cds open
         > one/cds open
         < one cds xdstp://a/envoy.config.cluster.v3.Cluster/e/* node
         > one cds v=1 n=1 xdstp://a/envoy.config.cluster.v3.Cluster/e/x@1 xdstp://a/envoy.config.cluster.v3.Cluster/e/y@1
         ! w xdstp://a/envoy.config.cluster.v3.Cluster/e/x@1
         ! w xdstp://a/envoy.config.cluster.v3.Cluster/e/y@1
         ! w complete
         ~ 5s
         < one cds xdstp://a/envoy.config.cluster.v3.Cluster/e/* v=1 node
         > one cds v=2 n=1 xdstp://a/envoy.config.cluster.v3.Cluster/e/x@1
         ! w xdstp://a/envoy.config.cluster.v3.Cluster/e/y none missing",
    );
}

/// C-043, C-065: it may be in the source, which has its own word for what is wrong.
#[test]
fn nothing_is_missing_while_a_source_cannot_be_used() {
    client(
        "% server one refresh=100s fail_on_data_errors
         + w cds b
         < one/cds open
         + x cds *
         > one/cds open
         < one cds * b node
         > one/cds unusable line 3 makes no sense
         ! w b none rejected
         ! x * but rejected
         ~ 60s
         ! x complete",
    );
}
