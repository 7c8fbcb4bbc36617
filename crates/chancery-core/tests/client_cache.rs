//! A client's cache: values, errors and timers, and what watchers hear of them.
//!
//! Each test names the rules it proves (`docs/rules`). The language of the scripts is that of
//! [`chancery_testkit::script`].

use chancery_testkit::script::client;

#[test]
fn a_resource_with_a_time_to_live_dies_unless_it_is_renewed() {
    // C-045
    client(
        "% server one delta
         + u eds a
         < one open
         > one open
         < one eds +a node
         > one eds n=1 a@1(ttl=10s)
         < one eds n=1
         ! u a@1
         ~ 8s
         > one eds n=2 a@1(ttl=10s)(beat)
         < one eds n=2
         ~ 9s
         > one end
         < one open
         ~ 1s
         ! u a none missing",
    );
}

#[test]
fn a_late_watcher_hears_the_value_and_then_what_is_wrong() {
    // C-048, C-047
    client(
        "% server one
         + u eds a
         < one open
         > one open
         < one eds a node
         > one eds v=1 n=1 a@1
         < one eds a v=1 n=1
         ! u a@1
         > one eds v=2 n=2 a@!bad
         < one eds a v=1 n=2 error=`a`: bad
         ! u a but rejected
         + v eds a
         ! v a@1
         ! v a but rejected
         > one eds v=3 n=3 a@1
         < one eds a v=3 n=3
         ! u a fine
         ! v a fine",
    );
}

#[test]
fn the_same_bytes_again_are_answered_and_no_news() {
    // C-049
    client(
        "% server one
         + u eds a
         < one open
         > one open
         < one eds a node
         > one eds v=1 n=1 a@1
         < one eds a v=1 n=1
         ! u a@1
         > one eds v=2 n=2 a@1
         < one eds a v=2 n=2",
    );
}

#[test]
fn a_resource_without_watchers_is_forgotten() {
    // C-050
    client(
        "% server one
         + u eds a
         < one open
         > one open
         < one eds a node
         > one eds v=1 n=1 a@1
         < one eds a v=1 n=1
         ! u a@1
         - u
         < one eds v=1 n=1
         + v eds a
         < one eds a v=1 n=1
         > one eds v=2 n=2 a@2
         < one eds a v=2 n=2
         ! v a@2
         - v
         < one eds v=2 n=2
         + w eds missing
         < one eds missing v=2 n=2
         ~ 15s
         ! w missing none missing
         - w
         < one eds v=2 n=2
         + w eds missing
         < one eds missing v=2 n=2",
    );
}

#[test]
fn good_resources_of_a_bad_response_are_used() {
    // C-055, C-063
    client(
        "% server one
         + u eds a
         < one open
         + v eds b
         + w eds c
         > one open
         < one eds a b c node
         > one eds v=1 n=1 a@1 b@!no_port c@!no_address @!garbage
         < one eds a b c n=1 error=`b`: no port; `c`: no address; garbage
         ! u a@1
         ! v b none rejected
         ! w c none rejected",
    );
}

#[test]
fn absence_means_deletion_for_clusters_and_listeners_alone() {
    // C-056
    client(
        "% server one fail_on_data_errors
         + u eds a
         < one open
         + v cds b
         + w cds c
         > one open
         < one cds b c node
         < one eds a
         > one eds v=1 n=1 a@1
         < one eds a v=1 n=1
         ! u a@1
         > one cds v=1 n=2 b@1
         < one cds b c v=1 n=2
         ! v b@1
         > one eds v=2 n=3
         < one eds a v=2 n=3
         > one cds v=2 n=4 c@1
         < one cds b c v=2 n=4
         ! v b none missing
         ! w c@1",
    );
}

#[test]
fn what_does_not_come_in_time_does_not_exist() {
    // C-065
    client(
        "% server one
         + u eds a
         < one open
         ~ 1m
         > one open
         < one eds a node
         ~ 10s
         + v eds b
         < one eds a b
         ~ 5s
         ! u a none missing
         ~ 9s
         > one eds v=1 n=1 b@1
         < one eds a b v=1 n=1
         ! v b@1
         > one eds v=2 n=2 a@1
         < one eds a b v=2 n=2
         ! u a@1
         ~ 1h",
    );
}

#[test]
fn the_time_of_a_resource_runs_only_while_it_is_asked_for() {
    // C-065, C-067: four times the time without a server, and only the resource is heard of
    client(
        "% server one
         % backoff=50s
         % backoff_max=50s
         + u eds a
         < one open
         > one open
         < one eds a node
         ~ 14s
         > one end gone
         ! u a none unreachable
         ~ 1m
         < one open
         > one open
         < one eds a node
         ~ 14s
         > one eds v=1 n=1 a@1
         < one eds a v=1 n=1
         ! u a@1",
    );
}

#[test]
fn a_server_whose_silence_means_nothing_gets_more_time() {
    // C-066
    client(
        "% server one resource_timer_is_transient_error
         + u eds a
         < one open
         > one open
         < one eds a node
         ~ 29s
         ~ 1s
         ! u a none late",
    );
}

#[test]
fn a_server_that_cannot_be_reached_is_told_of() {
    // C-047, C-067
    client(
        "% server one
         + u eds a
         < one open
         > one open
         < one eds a node
         > one eds v=1 n=1 a@1
         < one eds a v=1 n=1
         ! u a@1
         + v eds b
         < one eds a b v=1 n=1
         > one end
         ~ 1s
         < one open
         > one end refused
         ! u a but unreachable
         ! v b none unreachable
         ~ 2s
         < one open
         > one end refused
         ~ 3s
         < one open
         > one open
         < one eds a b v=1 node
         > one eds v=2 n=1 b@1
         < one eds a b v=2 n=1
         ! u a fine
         ! v b@1",
    );
}

#[test]
fn a_stream_that_ends_after_a_response_is_no_error() {
    // C-068
    client(
        "% server one
         + u eds a
         < one open
         > one open
         < one eds a node
         > one eds v=1 n=1 a@1
         < one eds a v=1 n=1
         ! u a@1
         ~ 1h
         > one end age
         < one open
         > one open
         < one eds a v=1 node",
    );
}

#[test]
fn a_server_that_closes_after_each_response_is_not_hammered() {
    // C-068, C-069
    client(
        "% server one
         + u eds a
         < one open
         > one open
         < one eds a node
         > one eds v=1 n=1 a@1
         < one eds a v=1 n=1
         ! u a@1
         > one end
         ~ 900ms
         ~ 100ms
         < one open
         > one open
         < one eds a v=1 node
         > one eds v=1 n=1 a@1
         < one eds a v=1 n=1
         > one end
         ~ 900ms
         ~ 100ms
         < one open",
    );
}

#[test]
fn waits_grow_up_to_a_bound() {
    // C-069
    client(
        "% server one
         % backoff=1s
         % factor=2
         % backoff_max=3s
         + u eds a
         < one open
         > one end
         ! u a none unreachable
         ~ 999ms
         ~ 1ms
         < one open
         > one end
         ~ 1999ms
         ~ 1ms
         < one open
         > one end
         ~ 2999ms
         ~ 1ms
         < one open
         > one end
         ~ 2999ms
         ~ 1ms
         < one open",
    );
}

#[test]
fn data_errors_keep_what_is_held() {
    // C-047, C-070: rejected, deleted, refused, with and without a value
    client(
        "% server one
         + u cds a
         < one open
         + v cds b
         > one open
         < one cds a b node
         > one cds v=1 n=1 a@1 b@!bad
         < one cds a b n=1 error=`b`: bad
         ! u a@1
         ! v b none rejected
         > one cds v=2 n=2 a@!bad
         < one cds a b n=2 error=`a`: bad
         ! u a but rejected
         > one cds v=3 n=3
         < one cds a b v=3 n=3
         ! u a but missing
         > one cds v=4 n=4 a@1 !b=PERMISSION_DENIED
         < one cds a b v=4 n=4
         ! u a fine
         ! v b none PERMISSION_DENIED
         > one cds v=5 n=5 !a=NOT_FOUND
         < one cds a b v=5 n=5
         ! u a but NOT_FOUND",
    );
}

#[test]
fn data_errors_drop_what_is_held_where_the_server_wants_it() {
    // C-047, C-070
    client(
        "% server one fail_on_data_errors
         + u cds a
         < one open
         > one open
         < one cds a node
         > one cds v=1 n=1 a@1
         < one cds a v=1 n=1
         ! u a@1
         > one cds v=2 n=2 a@!bad
         < one cds a v=1 n=2 error=`a`: bad
         ! u a none rejected
         > one cds v=3 n=3 a@1
         < one cds a v=3 n=3
         ! u a@1
         > one cds v=4 n=4
         < one cds a v=4 n=4
         ! u a none missing
         > one cds v=5 n=5 a@1
         < one cds a v=5 n=5
         ! u a@1
         > one cds v=6 n=6 !a=PERMISSION_DENIED
         < one cds a v=6 n=6
         ! u a none PERMISSION_DENIED
         > one cds v=7 n=7 a@1
         < one cds a v=7 n=7
         ! u a@1
         > one cds v=8 n=8 !a=UNAVAILABLE
         < one cds a v=8 n=8
         ! u a but UNAVAILABLE",
    );
}

#[test]
fn an_error_of_the_server_ends_the_wait_and_is_remembered() {
    // C-071
    client(
        "% server one
         + u eds a
         < one open
         > one open
         < one eds a node
         > one eds v=1 n=1 !a=NOT_FOUND
         < one eds a v=1 n=1
         ! u a none NOT_FOUND
         ~ 1h
         + v eds a
         ! v a none NOT_FOUND
         > one eds v=2 n=2 a@1 !a=UNAVAILABLE
         < one eds a v=2 n=2
         ! u a none UNAVAILABLE
         ! v a none UNAVAILABLE
         > one eds v=3 n=3 a@1
         < one eds a v=3 n=3
         ! u a@1
         ! v a@1",
    );
}

#[test]
fn two_hours_without_a_server_change_nothing() {
    // C-073
    client(
        "% server one
         % backoff=1h
         % backoff_max=1h
         + u eds a
         < one open
         > one open
         < one eds a node
         > one eds v=1 n=1 a@1
         < one eds a v=1 n=1
         ! u a@1
         > one end
         ~ 1h
         < one open
         > one end
         ! u a but unreachable
         ~ 1h
         < one open
         > one open
         < one eds a v=1 node
         > one eds v=2 n=1 a@2
         < one eds a v=2 n=1
         ! u a@2",
    );
}

#[test]
fn a_resource_without_a_name_may_be_any_that_is_missing() {
    // C-056, C-064
    client(
        "% server one fail_on_data_errors
         + u cds a
         < one open
         > one open
         < one cds a node
         > one cds v=1 n=1 a@1
         < one cds a v=1 n=1
         ! u a@1
         > one cds v=2 n=2 @!garbage
         < one cds a v=1 n=2 error=garbage",
    );
}

#[test]
fn a_heartbeat_for_what_has_expired_asks_for_it_again() {
    // C-045: the server renewed it in time, and it came too late
    client(
        "% server one delta
         + u eds a
         < one open
         > one open
         < one eds +a node
         > one eds n=1 a@1(ttl=10s)
         < one eds n=1
         ! u a@1
         ~ 10s
         ! u a none missing
         > one eds n=2 a@1(ttl=10s)(beat)
         < one eds +a n=2
         > one eds n=3 a@1(ttl=10s)
         < one eds n=3
         ! u a@1",
    );
}

#[test]
fn a_heartbeat_for_a_member_that_has_expired_asks_for_its_group_again() {
    // C-045
    client(
        "% server one delta
         + w cds *
         < one open
         > one open
         < one cds node
         > one cds n=1 a@1(ttl=10s)
         < one cds n=1
         ! w a@1
         ! w complete
         ~ 10s
         ! w a none missing
         > one cds n=2 a@1(ttl=10s)(beat)
         < one cds +* n=2
         > one cds n=3 a@1(ttl=10s)
         < one cds n=3
         ! w a@1",
    );
}
