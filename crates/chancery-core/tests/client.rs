//! The client's half of the protocol, one rule at a time.
//!
//! Each test names the rows of the catalogue it proves. The language of the scripts is that of
//! [`chancery_testkit::script`].

use chancery_testkit::script::client;

#[test]
fn a_watch_opens_a_stream_and_hears_of_its_resource() {
    // C-030, C-039, C-062, C-063
    client(
        "% server one
         ~ 1h
         + w cds a
         < one open
         > one open
         < one cds a node
         > one cds v=1 n=1 a@7
         < one cds a v=1 n=1
         ! w a@7",
    );
}

#[test]
fn all_types_and_authorities_of_a_server_share_one_stream() {
    // C-029, C-076, K6
    client(
        "% server one
         % authority a one
         % authority b one
         + v cds xdstp://a/envoy.config.cluster.v3.Cluster/x
         < one open
         + w cds xdstp://b/envoy.config.cluster.v3.Cluster/x
         + x eds y
         > one open
         < one cds xdstp://a/envoy.config.cluster.v3.Cluster/x xdstp://b/envoy.config.cluster.v3.Cluster/x node
         < one eds y
         > one cds v=1 n=1 xdstp://b/envoy.config.cluster.v3.Cluster/x@1
         < one cds xdstp://a/envoy.config.cluster.v3.Cluster/x xdstp://b/envoy.config.cluster.v3.Cluster/x v=1 n=1
         ! w xdstp://b/envoy.config.cluster.v3.Cluster/x@1",
    );
}

#[test]
fn nonces_are_the_streams_and_versions_the_servers() {
    // C-031
    client(
        "% server one
         + v cds a
         < one open
         + w eds b
         > one open
         < one cds a node
         < one eds b
         > one cds v=3 n=n1 a@1
         < one cds a v=3 n=n1
         ! v a@1
         > one eds v=9 n=n2 b@1
         < one eds b v=9 n=n2
         ! w b@1
         + x cds c
         < one cds a c v=3 n=n1
         > one end age
         ~ 1s
         < one open
         > one open
         < one cds a c v=3 node
         < one eds b v=9",
    );
}

#[test]
fn a_version_is_never_carried_to_another_server() {
    // C-031, C-087, C-088
    client(
        "% server one
         % server two
         + v cds a
         < one open
         > one open
         < one cds a node
         > one cds v=3 n=1 a@1
         < one cds a v=3 n=1
         ! v a@1
         + w cds b
         < one cds a b v=3 n=1
         > one end
         ~ 1s
         < one open
         > one end refused
         < two open
         > two open
         < two cds a b node",
    );
}

#[test]
fn requests_carry_the_whole_subscription_once() {
    // C-032, C-048
    client(
        "% server one
         + u eds a
         < one open
         > one open
         < one eds a node
         + v eds b
         < one eds a b
         + w eds b
         - v
         - w
         < one eds a
         - u
         < one eds",
    );
}

#[test]
fn everything_is_said_without_a_star_until_a_name_is() {
    // C-033
    client(
        "% server one
         + u cds *
         < one open
         > one open
         < one cds node
         + v cds a
         < one cds * a
         - u
         < one cds a
         - v
         < one cds
         + w cds *
         < one cds *",
    );
}

#[test]
fn everything_that_was_said_with_an_empty_list_is_taken_back_in_words() {
    // C-033
    client(
        "% server one
         + u cds *
         < one open
         > one open
         < one cds node
         - u
         < one cds *
         < one cds",
    );
}

#[test]
fn resources_nobody_asked_for_are_ignored() {
    // C-034
    client(
        "% server one
         + w cds b
         < one open
         > one open
         < one cds b node
         > one cds v=1 n=1 a@1 b@1 c@1
         < one cds b v=1 n=1
         ! w b@1
         > one cds v=2 n=2 a@2 b@1
         < one cds b v=2 n=2",
    );
}

#[test]
fn a_type_that_was_never_asked_for_is_not_answered() {
    // C-035
    client(
        "% server one
         + w cds b
         < one open
         > one open
         < one cds b node
         > one eds v=1 n=1 a@1
         + v eds a
         < one eds a",
    );
}

#[test]
fn a_type_whose_last_watch_ended_is_still_answered() {
    // C-035
    client(
        "% server one
         + w eds a
         < one open
         > one open
         < one eds a node
         - w
         < one eds
         > one eds v=1 n=1 a@1
         < one eds v=1 n=1
         + v eds b
         < one eds b v=1 n=1",
    );
}

#[test]
fn a_slow_watcher_holds_back_its_stream_and_nothing_else() {
    // C-038
    client(
        "% server one
         % server two
         % authority t two
         + v eds a slow
         < one open
         + w eds xdstp://t/envoy.config.endpoint.v3.ClusterLoadAssignment/b
         < two open
         > one open
         < one eds a node
         > two open
         < two eds xdstp://t/envoy.config.endpoint.v3.ClusterLoadAssignment/b node
         > one eds v=1 n=1 a@1
         < one eds a v=1 n=1
         > two eds v=1 n=1 xdstp://t/envoy.config.endpoint.v3.ClusterLoadAssignment/b@1
         < two eds xdstp://t/envoy.config.endpoint.v3.ClusterLoadAssignment/b v=1 n=1
         ! w xdstp://t/envoy.config.endpoint.v3.ClusterLoadAssignment/b@1
         ! two reads
         . v
         ! v a@1
         ! one reads",
    );
}

#[test]
fn a_watcher_that_goes_away_holds_nothing_back() {
    // C-038
    client(
        "% server one
         + v eds a slow
         < one open
         > one open
         < one eds a node
         > one eds v=1 n=1 a@1
         < one eds a v=1 n=1
         + w eds b slow
         < one eds a b v=1 n=1
         - v
         < one eds b v=1 n=1
         ! one reads",
    );
}

#[test]
fn a_server_nobody_needs_is_let_go_after_a_while() {
    // C-039
    client(
        "% server one
         % idle=5m
         + w eds a
         < one open
         > one open
         < one eds a node
         - w
         < one eds
         ~ 4m
         + w eds a
         < one eds a
         - w
         < one eds
         ~ 5m
         < one close
         ~ 1h
         + w eds a
         < one open",
    );
}

#[test]
fn delta_says_differences_and_answers_with_a_nonce_alone() {
    // C-040
    client(
        "% server one delta
         + u eds a
         < one open
         + v eds b
         > one open
         < one eds +a +b node
         > one eds n=1 a@1 b@1
         < one eds n=1
         ! u a@1
         ! v b@1
         + w eds c
         < one eds +c
         - v
         < one eds -b
         > one eds n=2 a@2
         < one eds n=2
         ! u a@2",
    );
}

#[test]
fn a_delta_stream_begins_with_what_is_held() {
    // C-040
    client(
        "% server one delta
         + u eds a
         < one open
         + v eds b
         > one open
         < one eds +a +b node
         > one eds n=1 a@4
         < one eds n=1
         ! u a@4
         > one end
         ~ 1s
         < one open
         > one open
         < one eds +a +b init=a:4 node
         > one eds n=1 b@1
         < one eds n=1
         ! v b@1",
    );
}

#[test]
fn delta_takes_away_and_says_at_once_what_does_not_exist() {
    // C-041
    client(
        "% server one delta,x
         % server two delta fail_on_data_errors
         % authority #old two
         + u cds a
         < two open
         + v cds gone
         > two open
         < two cds +a +gone node
         > two cds n=1 a@1 -gone
         < two cds n=1
         ! u a@1
         ! v gone none missing
         > two cds n=2 -a
         < two cds n=2
         ! u a none missing",
    );
}

#[test]
fn delta_finds_a_resource_under_its_alias() {
    // C-041
    client(
        "% server one delta
         + u vhds r/www
         < one open
         > one open
         < one vhds +r/www node
         > one vhds n=1 r/www.example.com@1(alias=r/www)
         < one vhds n=1
         ! u r/www@1",
    );
}

#[test]
fn a_nacked_delta_response_keeps_its_good_resources() {
    // C-041, C-055
    client(
        "% server one delta
         + u eds a
         < one open
         + v eds b
         > one open
         < one eds +a +b node
         > one eds n=1 a@1 b@!no_port
         < one eds n=1 error=`b`: no port
         ! u a@1
         ! v b none rejected",
    );
}

#[test]
fn each_type_may_have_a_stream_of_its_own() {
    // C-042
    client(
        "% server one per-type
         + u cds a
         < one/cds open
         + v eds b
         < one/eds open
         > one/cds open
         < one cds a node
         > one/eds open
         < one eds b node
         > one eds v=1 n=1 b@1
         < one eds b v=1 n=1
         ! v b@1
         > one/eds end
         > one cds v=1 n=1 a@1
         < one cds a v=1 n=1
         ! u a@1
         ~ 1s
         < one/eds open",
    );
}

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
fn names_are_kept_apart_by_their_authority() {
    // C-051, K3, K4
    client(
        "% server one
         % authority a one
         % authority '' one
         + u cds x
         < one open
         + v cds xdstp:///envoy.config.cluster.v3.Cluster/x
         + w cds xdstp://a/envoy.config.cluster.v3.Cluster/x
         > one open
         < one cds x xdstp:///envoy.config.cluster.v3.Cluster/x xdstp://a/envoy.config.cluster.v3.Cluster/x node
         > one cds v=1 n=1 xdstp:///envoy.config.cluster.v3.Cluster/x@2 x@1 xdstp://a/envoy.config.cluster.v3.Cluster/x@3
         < one cds x xdstp:///envoy.config.cluster.v3.Cluster/x xdstp://a/envoy.config.cluster.v3.Cluster/x v=1 n=1
         ! u x@1
         ! v xdstp:///envoy.config.cluster.v3.Cluster/x@2
         ! w xdstp://a/envoy.config.cluster.v3.Cluster/x@3",
    );
}

#[test]
fn parameters_in_any_order_are_one_name() {
    // C-025, K1, K2
    client(
        "% server one
         % authority a one
         + u eds xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/id?b=2&a=1
         < one open
         + v eds xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/id?a=1&b=2
         > one open
         < one eds xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/id?a=1&b=2 node
         > one eds v=1 n=1 xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/id?b=2&a=1@1
         < one eds xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/id?a=1&b=2 v=1 n=1
         ! u xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/id?a=1&b=2@1
         ! v xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/id?a=1&b=2@1
         + w eds xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/id?c=1&c=2
         < one eds xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/id?a=1&b=2 xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/id?c=2 v=1 n=1",
    );
}

#[test]
fn a_name_nobody_is_responsible_for_is_an_error_and_no_request() {
    // C-053, C-018, C-079, K5
    client(
        "% server one
         % authority a one
         + u cds xdstp://gone/envoy.config.cluster.v3.Cluster/x
         ! u - none authority
         + v rds xdstp://a/envoy.config.listener.v3.Listener/id
         ! v - none name
         + w cds xdstp://a/x
         ! w - none name",
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
    // C-067
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
    // C-070: rejected, deleted, refused, with and without a value
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
    // C-070
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
fn deletion_is_judged_over_the_authorities_of_the_server() {
    // C-077, C-078, K7
    client(
        "% server one fail_on_data_errors
         % server two fail_on_data_errors
         % authority a one
         % authority b one
         % authority c two
         + u lds xdstp://a/envoy.config.listener.v3.Listener/x
         < one open
         + v lds xdstp://b/envoy.config.listener.v3.Listener/x
         + w lds xdstp://c/envoy.config.listener.v3.Listener/x
         < two open
         > one open
         < one lds xdstp://a/envoy.config.listener.v3.Listener/x xdstp://b/envoy.config.listener.v3.Listener/x node
         > two open
         < two lds xdstp://c/envoy.config.listener.v3.Listener/x node
         > two lds v=1 n=1 xdstp://c/envoy.config.listener.v3.Listener/x@1
         < two lds xdstp://c/envoy.config.listener.v3.Listener/x v=1 n=1
         ! w xdstp://c/envoy.config.listener.v3.Listener/x@1
         > one lds v=1 n=1 xdstp://a/envoy.config.listener.v3.Listener/x@1 xdstp://b/envoy.config.listener.v3.Listener/x@1
         < one lds xdstp://a/envoy.config.listener.v3.Listener/x xdstp://b/envoy.config.listener.v3.Listener/x v=1 n=1
         ! u xdstp://a/envoy.config.listener.v3.Listener/x@1
         ! v xdstp://b/envoy.config.listener.v3.Listener/x@1
         > one lds v=2 n=2 xdstp://a/envoy.config.listener.v3.Listener/x@1
         < one lds xdstp://a/envoy.config.listener.v3.Listener/x xdstp://b/envoy.config.listener.v3.Listener/x v=2 n=2
         ! v xdstp://b/envoy.config.listener.v3.Listener/x none missing",
    );
}

#[test]
fn servers_of_different_authorities_are_independent() {
    // C-078
    client(
        "% server one
         % server two
         % authority #old one
         % authority t two
         + u eds a
         < one open
         + v eds xdstp://t/envoy.config.endpoint.v3.ClusterLoadAssignment/b
         < two open
         > one end refused
         ! u a none unreachable
         > two open
         < two eds xdstp://t/envoy.config.endpoint.v3.ClusterLoadAssignment/b node
         > two eds v=1 n=1 xdstp://t/envoy.config.endpoint.v3.ClusterLoadAssignment/b@1
         < two eds xdstp://t/envoy.config.endpoint.v3.ClusterLoadAssignment/b v=1 n=1
         ! v xdstp://t/envoy.config.endpoint.v3.ClusterLoadAssignment/b@1",
    );
}

#[test]
fn a_cluster_that_reports_to_its_server_is_news_from_another_one() {
    // C-082, K8
    client(
        "% server one
         % server two
         + u cds a
         < one open
         > one open
         < one cds a node
         > one cds v=1 n=1 a@1(self)
         < one cds a v=1 n=1
         ! u a@1
         > one cds v=2 n=2 a@1(self)
         < one cds a v=2 n=2
         + v cds b
         < one cds a b v=2 n=2
         > one end
         ~ 1s
         < one open
         > one end refused
         < two open
         > two open
         < two cds a b node
         > two cds v=1 n=1 a@1(self)
         < two cds a b v=1 n=1
         ! u a@1",
    );
}

#[test]
fn fallback_needs_trouble_and_something_that_is_missing() {
    // C-087, C-090: with everything cached there is only an ambient error
    client(
        "% server one
         % server two
         + u eds a
         < one open
         > one open
         < one eds a node
         > one eds v=1 n=1 a@1
         < one eds a v=1 n=1
         ! u a@1
         > one end
         ~ 1s
         < one open
         > one end refused
         ! u a but unreachable
         + v eds b
         < two open
         ! u a fine",
    );
}

#[test]
fn what_is_known_not_to_exist_is_not_missing() {
    // C-087
    client(
        "% server one
         % server two
         + u eds a
         < one open
         > one open
         < one eds a node
         > one eds v=1 n=1 !a=NOT_FOUND
         < one eds a v=1 n=1
         ! u a none NOT_FOUND
         > one end
         ~ 1s
         < one open
         > one end refused
         ~ 2s
         < one open",
    );
}

#[test]
fn watchers_hear_of_trouble_when_every_server_has_failed() {
    // C-090
    client(
        "% server one
         % server two
         % server three
         + u eds a
         < one open
         > one end refused
         < two open
         > two end refused
         < three open
         > three end refused
         ! u a none unreachable",
    );
}

#[test]
fn the_better_server_is_used_as_soon_as_it_delivers() {
    // C-088, C-089
    client(
        "% server one
         % server two
         + u eds a
         < one open
         + v eds b
         > one end refused
         < two open
         > two open
         < two eds a b node
         > two eds v=5 n=1 a@1 b@1
         < two eds a b v=5 n=1
         ! u a@1
         ! v b@1
         ~ 1s
         < one open
         > one open
         < one eds a b node
         > one eds v=1 n=1 a@2
         < two close
         < one eds a b v=1 n=1
         ! u a@2
         > one eds v=2 n=2 b@1
         < one eds a b v=2 n=2",
    );
}

#[test]
fn an_authority_may_fall_back_on_reachability_alone() {
    // C-091
    client(
        "% server one
         % server two
         % authority #old one two reachability
         + u eds a
         < one open
         > one open
         < one eds a node
         > one eds v=1 n=1 a@1
         < one eds a v=1 n=1
         ! u a@1
         > one end
         ~ 1s
         < one open
         > one end refused
         < two open",
    );
}

#[test]
fn a_group_hears_of_its_members_and_of_its_end() {
    // C-033, C-056
    client(
        "% server one
         + w cds *
         < one open
         > one open
         < one cds node
         > one cds v=1 n=1 a@1 b@1
         < one cds v=1 n=1
         ! w a@1
         ! w b@1
         ! w settled
         > one cds v=2 n=2 b@2 c@1
         < one cds v=2 n=2
         ! w a none missing
         ! w b@2
         ! w c@1
         + x cds *
         ! x b@2
         ! x c@1
         ! x settled",
    );
}

#[test]
fn a_group_of_nothing_is_told_so() {
    // C-065
    client(
        "% server one
         + w eds *
         < one open
         > one open
         < one eds * node
         ~ 15s
         ! w settled",
    );
}

#[test]
fn a_collection_hears_of_those_in_it() {
    // C-041
    client(
        "% server one delta
         % authority a one
         + w cds xdstp://a/envoy.config.cluster.v3.Cluster/edge/*
         < one open
         > one open
         < one cds +xdstp://a/envoy.config.cluster.v3.Cluster/edge/* node
         > one cds n=1 xdstp://a/envoy.config.cluster.v3.Cluster/edge/x@1 xdstp://a/envoy.config.cluster.v3.Cluster/other/x@1
         < one cds n=1
         ! w xdstp://a/envoy.config.cluster.v3.Cluster/edge/x@1
         ! w settled
         > one cds n=2 -xdstp://a/envoy.config.cluster.v3.Cluster/edge/x
         < one cds n=2
         ! w xdstp://a/envoy.config.cluster.v3.Cluster/edge/x none missing",
    );
}

#[test]
fn a_group_hears_of_servers_that_cannot_be_reached() {
    // C-067
    client(
        "% server one
         + w cds *
         < one open
         > one end refused
         ! w * but unreachable
         ~ 1s
         < one open
         > one open
         < one cds node
         > one cds v=1 n=1 a@1
         < one cds v=1 n=1
         ! w * fine
         ! w a@1
         ! w settled",
    );
}
