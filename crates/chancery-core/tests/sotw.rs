//! The SotW protocol, one rule at a time, as conversations with one stream.
//!
//! Each test names the rules it proves (`docs/rules`). The language of the scripts is that of
//! [`chancery_testkit::script`].

use chancery_core::{Scope, TypeUrl, Variant};
use chancery_testkit::script::{check, sotw};

#[test]
fn each_type_has_a_subscription_of_its_own() {
    // S-002
    sotw(
        "= cds a@1; eds a@1 b@1
          > cds
          < cds v=1 n=1 a@1
          > eds a b
          < eds v=1 n=2 a@1 b@1
          > cds nack error=no
          ! nacked cds v=1 n=1 error=no
          > eds ack
          = eds a@2
          < eds v=2 n=3 a@2
          > eds ack",
    );
}

#[test]
fn a_type_nobody_has_costs_the_client_nothing_else() {
    // S-007
    sotw(
        "= cds a@1
          > cds
          < cds v=1 n=1 a@1
          > cds ack
          > foo.Bar x
          = cds a@2
          < cds v=2 n=2 a@2
          > cds ack
          = foo.Bar x@1
          < foo.Bar v=1 n=3 x@1",
    );
}

#[test]
fn a_type_nobody_registered_is_served_like_any_other() {
    // S-009
    sotw(
        "= foo.Bar x@1
          > foo.Bar
          < foo.Bar v=1 n=1 x@1
          > foo.Bar ack
          = foo.Bar y@1
          < foo.Bar v=2 n=2 y@1",
    );
}

#[test]
fn an_aggregated_stream_needs_a_type_in_each_request() {
    // S-006
    sotw(
        "= cds a@1
          > -
          ! closed a request on an aggregated stream names no `type_url`",
    );
}

#[test]
fn a_stream_of_one_type_needs_none_and_refuses_another() {
    // S-006
    let eds = || Scope::Only(TypeUrl::new("envoy.config.endpoint.v3.ClusterLoadAssignment"));
    check(
        Variant::Sotw,
        eds(),
        "= eds a@1
         > - a
         < eds v=1 n=1 a@1",
    );
    check(
        Variant::Sotw,
        eds(),
        "= eds a@1
         > cds a
         ! closed a request for `type.googleapis.com/envoy.config.cluster.v3.Cluster` was sent to \
           the service of `type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment`",
    );
}

#[test]
fn the_first_message_says_who_the_client_is() {
    // S-023
    sotw(
        "= cds a@1; eds a@1
          > cds node=envoy-1
          ! identified envoy-1
          < cds v=1 n=1 a@1
          > eds a node=-
          < eds v=1 n=2 a@1",
    );
}

#[test]
fn a_first_message_without_a_usable_node_leaves_the_choice_to_the_driver() {
    // S-024, T-32
    sotw(
        "> cds node=-
          ! anonymous",
    );
    sotw(
        "> cds node=
          ! anonymous",
    );
}

#[test]
fn a_later_node_may_change_its_parameters_and_not_its_identity() {
    // S-025
    sotw(
        "= cds a@1
          > cds node=envoy-1
          ! identified envoy-1
          < cds v=1 n=1 a@1
          > cds ack node=envoy-2
          ! ignored envoy-2
          > cds ack node=envoy-1
          > cds ack node=envoy-1 param=t:shard:2
          ! parameters envoy-1
          > cds ack node=envoy-1 param=t:shard:2",
    );
}

#[test]
fn a_nonce_is_never_used_twice_on_a_stream() {
    // S-028: data, resends and heartbeats
    sotw(
        "% features=ttl,wrapped
          = cds a@1(ttl=9s)
          > cds
          < cds v=1 n=1 a@1(ttl) wrapped
          > cds ack
          ~ 4s
          < cds v=1 n=2 a@1(ttl) wrapped
          > cds ack
          = cds a@2(ttl=9s)
          < cds v=2 n=3 a@2(ttl) wrapped",
    );
}

#[test]
fn a_first_request_is_served_whatever_nonce_it_carries() {
    // S-029, T-02
    sotw(
        "= cds a@1
          > cds n=old-7 v=gone
          < cds v=1 n=1 a@1",
    );
    sotw(
        "= eds a@1
          > eds a n=1 v=gone
          < eds v=1 n=1 a@1
          > eds ack",
    );
}

#[test]
fn a_version_belongs_to_one_type_and_changes_with_its_content() {
    // S-030: one route changes; clusters have nothing to do with it
    sotw(
        "= cds a@1; rds r@1
          > cds
          < cds v=1 n=1 a@1
          > cds ack
          > rds r
          < rds v=1 n=2 r@1
          > rds ack
          = rds r@2
          < rds v=2 n=3 r@2",
    );
}

#[test]
fn a_stated_version_comes_back_verbatim() {
    // S-030: an opaque string
    sotw(
        "= cds v=\u{e9}/1? a@1
          > cds
          < cds v=\u{e9}/1? n=1 a@1
          > cds ack
          = cds v=2 a@2
          < cds v=2 n=2 a@2",
    );
}

#[test]
fn a_rejection_is_known_by_its_error_alone() {
    // S-032: the version is the accepted one, and it is a NACK all the same
    sotw(
        "= eds A@1 B@1
          > eds A
          < eds v=1 n=1 A@1
          > eds ack
          > eds A B n=1 v=1
          < eds v=1 n=2 B@1
          > eds A B n=2 v=1 error=B is bad
          ! nacked eds v=1 n=2 error=B is bad",
    );
}

#[test]
fn what_was_rejected_is_not_sent_again_until_it_changes() {
    // S-033, T-04, T-35
    sotw(
        "= cds a@1
          > cds
          < cds v=1 n=1 a@1
          > cds nack error=bad
          ~ 60s
          > cds nack error=bad
          ~ 60s
          = cds a@2
          < cds v=2 n=2 a@2
          > cds nack error=bad
          ~ 60s
          = cds a@1
          < cds v=1 n=3 a@1",
    );
    sotw(
        "= eds a@1
          > eds a
          < eds v=1 n=1 a@1
          > eds nack error=bad
          ~ 60s
          = eds b@1
          = eds a@2
          < eds v=2 n=2 a@2",
    );
}

#[test]
fn once_a_part_of_a_rejected_response_changes_all_of_it_is_worth_another_try() {
    // S-033, S-035: nobody can tell which resource was at fault, nor what the client holds
    sotw(
        "= eds a@1 b@1
          > eds a b
          < eds v=1 n=1 a@1 b@1
          > eds ack
          = eds a@2 b@2
          < eds v=2 n=2 a@2 b@2
          > eds nack error=a is bad
          = eds a@3
          < eds v=3 n=3 a@3 b@2
          > eds ack
          = eds a@4
          < eds v=4 n=4 a@4",
    );
}

#[test]
fn names_in_an_answer_are_a_subscription_like_any_other() {
    // S-036
    sotw(
        "= eds a@1 b@1
          > eds a
          < eds v=1 n=1 a@1
          > eds a b ack
          < eds v=1 n=2 b@1
          > eds b nack error=no
          = eds a@2
          = eds b@2
          < eds v=2 n=3 b@2",
    );
}

#[test]
fn the_first_request_with_the_nonce_of_a_response_in_flight_answers_it() {
    // S-037: the client asked twice before it read the first answer, and answers both in order
    sotw(
        "% watch=acked,nacked,skipped,stale
          = eds a@1 b@1
          > eds a
          < eds v=1 n=1 a@1
          > eds a b n= v=
          < eds v=1 n=2 b@1
          > eds a b ack=1
          ! acked eds v=1 n=1
          > eds a b ack=1
          > eds a b nack=1
          > eds ack
          ! acked eds v=1 n=2
          > eds ack
          = eds a@2
          < eds v=2 n=3 a@2
          > eds n=2
          > eds nack error=no
          ! nacked eds v=2 n=3 error=no
          > eds nack error=no",
    );
}

#[test]
fn a_whole_state_in_flight_is_answered_by_its_own_nonce_too() {
    // S-037, S-056
    sotw(
        "% watch=acked,nacked,skipped,stale
          = cds a@1 b@1
          > cds a
          < cds v=1 n=1 a@1
          > cds a b n= v=
          < cds v=1 n=2 a@1 b@1
          > cds a b ack=1
          ! acked cds v=1 n=1
          > cds ack=2
          ! acked cds v=1 n=2",
    );
}

#[test]
fn a_response_that_a_later_answer_skips_has_no_verdict() {
    // S-037
    sotw(
        "% watch=acked,nacked,skipped,stale
          = eds a@1 b@1
          > eds a
          < eds v=1 n=1 a@1
          > eds a b n= v=
          < eds v=1 n=2 b@1
          > eds a b ack=2
          ! skipped eds n=1
          ! acked eds v=1 n=2
          > eds a b n=1
          ! stale eds n=1
          = eds a@2
          < eds v=2 n=3 a@2",
    );
}

#[test]
fn the_names_of_a_superseded_request_are_read_all_the_same() {
    // S-038, T-01: pushes keep crossing with the client's requests
    sotw(
        "= eds a@1 b@1
          > eds a
          < eds v=1 n=1 a@1
          > eds ack
          = eds a@2
          < eds v=2 n=2 a@2
          > eds a b n=1
          < eds v=2 n=3 b@1",
    );
}

#[test]
fn requests_before_the_first_response_replace_each_other() {
    // S-039
    sotw(
        "= eds a@1 b@1 c@1
          | > eds a
          | > eds a b
          | > eds a b c
          . 
          < eds v=1 n=1 a@1 b@1 c@1
          > eds ack",
    );
    sotw(
        "= cds a@1 b@1 c@1
          | > cds a
          | > cds a b
          | > cds b c
          .
          < cds v=1 n=1 b@1 c@1",
    );
}

#[test]
fn a_pure_acknowledgement_is_never_answered() {
    // S-040, S-106
    sotw(
        "= cds a@1; eds a@1
          > cds
          < cds v=1 n=1 a@1
          > cds ack
          > cds ack
          > cds ack
          > eds a
          < eds v=1 n=2 a@1
          > eds ack
          > eds ack
          ~ 10m",
    );
}

#[test]
fn changes_are_sent_without_being_asked_for() {
    // S-041, T-14
    sotw(
        "= cds a@1
          > cds
          < cds v=1 n=1 a@1
          > cds ack
          = cds a@2
          < cds v=2 n=2 a@2
          > cds ack
          = cds a@2
          = cds a@3
          < cds v=3 n=3 a@3
          > cds ack
          = cds a@4
          < cds v=4 n=4 a@4",
    );
}

#[test]
fn at_most_one_response_of_a_type_is_unanswered() {
    // S-042, S-107: later changes are merged into the next
    sotw(
        "= eds a@1 b@1
          > eds a b
          < eds v=1 n=1 a@1 b@1
          = eds a@2
          = eds a@3 b@2
          > eds ack
          < eds v=2 n=2 a@3 b@2
          > eds ack",
    );
}

#[test]
fn asking_for_more_releases_a_missing_acknowledgement() {
    // S-042, T-03: the client forgets to answer after it unsubscribed
    sotw(
        "= eds a@1 b@1
          > eds a
          < eds v=1 n=1 a@1
          > eds [] n=1
          = eds a@2
          > eds b n=
          < eds v=2 n=2 b@1
          > eds a b n=
          < eds v=2 n=3 a@2",
    );
}

#[test]
fn time_releases_a_missing_acknowledgement() {
    // S-042, S-109
    sotw(
        "% ack_wait=10s
          = eds a@1
          > eds a
          < eds v=1 n=1 a@1
          = eds a@2
          ~ 9s
          ~ 1s
          < eds v=2 n=2 a@2",
    );
}

#[test]
fn a_late_acknowledgement_is_one() {
    // S-109
    sotw(
        "% ack_wait=1m
          = eds a@1
          > eds a
          < eds v=1 n=1 a@1
          ~ 30s
          > eds ack
          ! acked eds v=1 n=1 after=30s",
    );
}

#[test]
fn a_reconnecting_client_that_wants_everything_and_has_it_is_sent_nothing() {
    // S-043, S-031
    sotw(
        "= cds a@1
          > cds
          < cds v=1 n=1 a@1
          > cds ack
          ---
          > cds v=1
          = cds a@2
          < cds v=2 n=1 a@2
          ---
          > cds v=1
          < cds v=2 n=1 a@2",
    );
}

#[test]
fn a_reconnecting_client_is_always_sent_what_it_names() {
    // S-043, T-24
    sotw(
        "= eds a@1; cds a@1
          > eds a
          < eds v=1 n=1 a@1
          > cds a
          < cds v=1 n=2 a@1
          ---
          > eds a v=1
          < eds v=1 n=1 a@1
          > cds a v=1
          < cds v=1 n=2 a@1",
    );
}

#[test]
fn the_newest_names_replace_the_older_ones() {
    // S-044
    sotw(
        "= eds a@1 b@1 c@1
          > eds a b
          < eds v=1 n=1 a@1 b@1
          > eds b c ack
          < eds v=1 n=2 c@1
          > eds ack
          = eds a@2
          = eds b@2
          < eds v=2 n=3 b@2
          > eds ack
          = eds c@2
          < eds v=3 n=4 c@2",
    );
}

#[test]
fn taking_names_out_needs_no_response() {
    // S-044
    sotw(
        "= cds a@1 b@1; eds a@1 b@1
          > cds a b
          < cds v=1 n=1 a@1 b@1
          > eds a b
          < eds v=1 n=2 a@1 b@1
          > cds a ack
          > eds a ack
          ~ 1m",
    );
}

#[test]
fn exactly_what_is_asked_for_is_sent() {
    // S-045, T-06, T-08
    sotw(
        "= cds a@1 b@1 c@1 d@1; eds a@1 b@1 c@1 d@1; lds a@1 b@1 c@1; rds a@1 b@1
          > cds a b c
          < cds v=1 n=1 a@1 b@1 c@1
          > eds a
          < eds v=1 n=2 a@1
          > lds c
          < lds v=1 n=3 c@1
          > rds b
          < rds v=1 n=4 b@1",
    );
}

#[test]
fn a_name_added_at_the_current_version_is_sent_at_once() {
    // S-046, T-05
    sotw(
        "= eds a@1 b@1
          > eds a
          < eds v=1 n=1 a@1
          > eds ack
          > eds a b n=1 v=1
          < eds v=1 n=2 b@1
          > eds ack
          > eds a n=2 v=1
          > eds a b n=2 v=1
          < eds v=1 n=3 b@1",
    );
}

#[test]
fn a_name_that_does_not_exist_is_remembered() {
    // S-047
    sotw(
        "= eds a@1; lds l@1
          > eds z
          ~ 1m
          = eds z@1
          < eds v=1 n=1 z@1
          > lds y
          < lds v=1 n=2 !y=NOT_FOUND
          > lds ack
          = lds y@1
          < lds v=2 n=3 y@1",
    );
}

#[test]
fn an_empty_list_after_names_means_nothing_any_more() {
    // S-048, T-09, T-21
    sotw(
        "= eds a@1; cds a@1
          > eds a
          < eds v=1 n=1 a@1
          > eds [] ack
          > cds a
          < cds v=1 n=2 a@1
          > cds [] ack
          = eds a@2 b@1; cds a@2 b@1
          > eds [] n=1
          ~ 1m",
    );
}

#[test]
fn an_empty_list_means_everything_until_something_was_named() {
    // S-050, S-051: the example of the protocol's own text
    sotw(
        "= cds A@1 B@1
          > cds
          < cds v=1 n=1 A@1 B@1
          > cds * A ack
          < cds v=1 n=2 A@1 B@1
          > cds ack
          = cds B@2
          < cds v=2 n=3 A@1 B@2
          > cds A ack
          = cds B@3
          = cds A@2
          < cds v=3 n=4 A@2
          > cds [] ack
          = cds A@3 B@4
          ~ 1m",
    );
}

#[test]
fn a_star_subscribes_to_everything() {
    // S-049, S-051, T-10
    sotw(
        "= eds a@1 b@1
          > eds *
          < eds v=1 n=1 a@1 b@1
          > eds ack
          = eds c@1
          < eds v=2 n=2 c@1
          > eds a ack
          < eds v=2 n=3 a@1
          > eds ack
          = eds b@2
          = eds a@2
          < eds v=3 n=4 a@2",
    );
}

#[test]
fn what_an_empty_first_request_means_depends_on_the_type() {
    // S-053
    sotw(
        "= eds a@1; rds a@1; sds a@1; vhds r/a@1
          > eds
          > rds
          > sds
          ~ 1m
          = eds a@2",
    );
    sotw(
        "% legacy_wildcard=eds:on
          = eds a@1
          > eds
          < eds v=1 n=1 a@1",
    );
    sotw(
        "% legacy_wildcard=cds:off
          = cds a@1
          > cds
          > cds a
          < cds v=1 n=1 a@1",
    );
}

#[test]
fn a_first_wildcard_is_answered_even_if_nothing_matches() {
    // S-054, T-28
    sotw(
        "= eds a@1
          > cds
          < cds v=1 n=1
          > cds ack
          > lds *
          < lds v=1 n=2
          > lds ack
          ~ 10m",
    );
}

#[test]
fn a_full_state_holds_everything_that_is_subscribed_to() {
    // S-056, T-08
    sotw(
        "= cds a@1 b@1 c@1 d@1
          > cds a b c
          < cds v=1 n=1 a@1 b@1 c@1
          > cds ack
          = cds b@2
          < cds v=2 n=2 a@1 b@2 c@1
          > cds ack
          = cds -b
          < cds v=3 n=3 a@1 c@1 !b=NOT_FOUND
          > cds ack
          = cds d@2",
    );
}

#[test]
fn nothing_is_sent_before_there_is_a_snapshot() {
    // S-057, T-22: a replica that is not ready, or not again, waits
    sotw(
        "> cds
          > lds
          > eds a
          ~ 1m
          = cds a@1; eds a@1
          < cds v=1 n=1 a@1
          < eds v=1 n=2 a@1
          < lds v=1 n=3",
    );
}

#[test]
fn an_empty_full_state_deletes_everything() {
    // S-057
    sotw(
        "= cds a@1
          > cds
          < cds v=1 n=1 a@1
          > cds ack
          = cds []
          < cds v=2 n=2",
    );
}

#[test]
fn types_that_are_no_full_state_are_sent_in_parts() {
    // S-058, S-061, T-08
    sotw(
        "= eds a@1 b@1 c@1; rds r@1 s@1
          > eds a b c
          < eds v=1 n=1 a@1 b@1 c@1
          > eds ack
          = eds b@2
          < eds v=2 n=2 b@2
          > eds ack
          > rds r s
          < rds v=1 n=3 r@1 s@1
          > rds ack
          = eds -b; rds -s
          ~ 1m
          = eds b@3
          < eds v=3 n=4 b@3",
    );
}

#[test]
fn scoped_routes_are_a_full_state() {
    // S-059
    sotw(
        "= srds a@1 b@1 c@1
          > srds
          < srds v=1 n=1 a@1 b@1 c@1
          > srds ack
          = srds b@2
          < srds v=2 n=2 a@1 b@2 c@1",
    );
}

#[test]
fn a_client_that_names_nothing_of_what_there_is_is_told_of_once() {
    // S-053
    sotw(
        "= eds a@1 b@1; cds x@1
          > cds
          < cds v=1 n=1 x@1
          > eds
          ! unnamed eds 2
          > eds
          = eds a@2 b@1
          > rds
          = rds r@1
          ! unnamed rds 1
          = rds r@2 s@1",
    );
}

#[test]
fn a_client_that_names_nothing_of_what_it_may_not_have_is_not_told_of() {
    // S-053, S-137
    sotw(
        "% secrets=off watch=unnamed
          = sds s@1
          > sds",
    );
}

#[test]
fn a_client_that_named_something_before_there_was_anything_is_not_told_of() {
    // S-053, T-20: nor is one that asks for virtual hosts, which begins so
    sotw(
        "% watch=unnamed
          > eds
          > eds a
          > vhds
          = eds a@1; vhds r/x@1
          < eds v=1 n=1 a@1
          < vhds v=1 n=2",
    );
}

/// Envoy's rate limit service forgets each limit that is not in the newest response.
#[test]
fn rate_limits_are_a_full_state() {
    // S-059
    sotw(
        "= ratelimit.config.ratelimit.v3.RateLimitConfig a@1 b@1
          > ratelimit.config.ratelimit.v3.RateLimitConfig
          < ratelimit.config.ratelimit.v3.RateLimitConfig v=1 n=1 a@1 b@1
          > ratelimit.config.ratelimit.v3.RateLimitConfig ack
          = ratelimit.config.ratelimit.v3.RateLimitConfig b@2
          < ratelimit.config.ratelimit.v3.RateLimitConfig v=2 n=2 a@1 b@2
          > ratelimit.config.ratelimit.v3.RateLimitConfig ack
          = ratelimit.config.ratelimit.v3.RateLimitConfig -a
          < ratelimit.config.ratelimit.v3.RateLimitConfig v=3 n=3 b@2",
    );
}

#[test]
fn a_resource_deleted_and_created_again_is_said_once() {
    // S-060
    sotw(
        "= eds a@1; cds a@1
          > eds a
          < eds v=1 n=1 a@1
          > cds
          < cds v=1 n=2 a@1
          = eds -a; cds -a
          = eds a@2; cds a@2
          > eds ack
          < eds v=2 n=3 a@2
          > cds ack
          < cds v=2 n=4 a@2",
    );
}

#[test]
fn content_that_comes_back_before_it_was_sent_is_not_sent() {
    // S-106
    sotw(
        "= eds a@1
          > eds a
          < eds v=1 n=1 a@1
          = eds a@2
          = eds a@1
          > eds ack
          ~ 1m",
    );
}

#[test]
fn names_survive_byte_for_byte() {
    // S-062
    sotw(
        "= eds [::]:80@1 a%2Fb?z=1&a=2@1
          > eds [::]:80 a%2Fb?z=1&a=2
          < eds v=1 n=1 [::]:80@1 a%2Fb?z=1&a=2@1",
    );
}

#[test]
fn an_xdstp_name_is_found_in_any_spelling_and_answered_in_the_one_asked_for() {
    // S-114, S-115
    sotw(
        "= eds xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/a?k=1&l=2@1
          > eds xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/a?l=2&k=1
          < eds v=1 n=1 xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/a?l=2&k=1@1
          > eds ack
          = eds xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/a?k=1&l=2@2
          < eds v=2 n=2 xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/a?l=2&k=1@2
          > eds xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/a?k=1
          ~ 1m",
    );
}

#[test]
fn a_missing_name_is_no_error_of_the_stream() {
    // S-066, S-068, S-069, S-072: the rest is sent; the reason rides along
    sotw(
        "= eds a@1; lds l@1
          > eds a missing
          < eds v=1 n=1 a@1 !missing=NOT_FOUND
          > eds ack
          > lds l missing
          < lds v=1 n=2 l@1 !missing=NOT_FOUND
          > lds ack
          = lds l@2
          < lds v=2 n=3 l@2
          > lds ack
          = lds missing@1
          < lds v=3 n=4 l@2 missing@1
          > lds ack
          = lds -missing
          < lds v=2 n=5 l@2 !missing=NOT_FOUND",
    );
    sotw(
        "= eds a@1
          > eds missing
          ~ 1m",
    );
}

#[test]
fn an_operator_may_have_clients_told_of_missing_names_at_once() {
    // S-068, S-128
    sotw(
        "% report_missing
          = eds a@1
          > eds missing
          < eds v=1 n=1 !missing=NOT_FOUND
          > eds ack
          = eds missing@1
          < eds v=2 n=2 missing@1",
    );
}

#[test]
fn a_wildcard_has_no_errors() {
    // S-071
    sotw(
        "= cds a@1
          > cds *
          < cds v=1 n=1 a@1
          > cds ack
          = cds -a
          < cds v=2 n=2",
    );
}

#[test]
fn resources_are_wrapped_for_those_who_said_so() {
    // S-085, S-026
    sotw(
        "= cds a@1
          > cds features=wrapped
          < cds v=1 n=1 a@1 wrapped",
    );
    sotw(
        "= cds a@1(ttl=9s)
          > cds features=ttl
          < cds v=1 n=1 a@1
          > cds ack
          ~ 1m",
    );
}

#[test]
fn a_ttl_is_refreshed_by_the_same_version() {
    // S-087: the body stays out where its absence deletes nothing
    sotw(
        "% features=ttl,wrapped
          = cds a@1(ttl=9s) b@1; eds a@1(ttl=9s) b@1
          > cds
          < cds v=1 n=1 a@1(ttl) b@1 wrapped
          > cds ack
          > eds a b
          < eds v=1 n=2 a@1(ttl) b@1 wrapped
          > eds ack
          ~ 3s
          < cds v=1 n=3 a@1(ttl) b@1 wrapped
          < eds v=1 n=4 a@1(ttl,heartbeat) wrapped
          > cds ack
          > eds ack
          ~ 3s
          < cds v=1 n=5 a@1(ttl) b@1 wrapped
          < eds v=1 n=6 a@1(ttl,heartbeat) wrapped",
    );
}

#[test]
fn envoy_is_sent_its_bodies_with_every_heartbeat() {
    // S-087: it takes an entry without a body for a deletion
    sotw(
        "% features=ttl,wrapped agent=envoy/1.40.0
          = eds a@1(ttl=9s)
          > eds a
          < eds v=1 n=1 a@1(ttl) wrapped
          > eds ack
          ~ 3s
          < eds v=1 n=2 a@1(ttl) wrapped",
    );
}

#[test]
fn a_heartbeat_before_an_update_says_that_the_update_is_missing() {
    // S-043, S-087: a client that came back with the version of the whole would be sent nothing
    sotw(
        "% features=ttl,wrapped
          = cds x@1; rds r@1(ttl=9s)
          > cds
          < cds v=1 n=1 x@1 wrapped
          > cds ack
          > rds *
          < rds v=1 n=2 r@1(ttl) wrapped
          > rds ack
          = cds y@1; rds r@2->cds:y
          < cds v=2 n=3 x@1 y@1 wrapped
          ~ 3s
          < rds v=752056405cf64d46bf44aa2c62d9e09b~part n=4 r@1(ttl,heartbeat) wrapped",
    );
}

#[test]
fn a_client_that_may_have_lost_it_gets_what_has_a_ttl() {
    // S-088, T-33
    sotw(
        "% features=ttl,wrapped
          = cds a@1(ttl=9s)
          > cds
          < cds v=1 n=1 a@1(ttl) wrapped
          > cds ack
          ---
          > cds v=1
          < cds v=1 n=1 a@1(ttl) wrapped",
    );
}

#[test]
fn a_client_that_stops_reading_gets_the_newest_state_once() {
    // S-107, S-108: no queue
    sotw(
        "= eds a@1
          > eds a
          < eds v=1 n=1 a@1
          > eds ack
          | = eds a@2
          | = eds a@3
          | = eds a@4
          .
          < eds v=2 n=2 a@4",
    );
}

#[test]
fn large_states_are_split_where_the_protocol_allows() {
    // S-110
    sotw(
        "% max_bytes=1000
          = eds a@1(size=400) b@1(size=400) c@1(size=400); cds a@1(size=600) b@1(size=600)
          > eds a b c
          < eds v=1 n=1 a@1
          > eds ack
          < eds v=1 n=2 b@1
          > eds ack
          < eds v=1 n=3 c@1
          > eds ack
          > cds
          < cds v=1 n=4 a@1 b@1",
    );
}

#[test]
fn a_subscription_has_at_most_so_many_names() {
    // S-110: at the limit, and one past it
    sotw("% max_names=2
          = eds a@1
          > eds a b
          < eds v=1 n=1 a@1 !b=NOT_FOUND
          > eds a b c
          ! closed with those of `type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment` the stream names 3 resources; 2 are allowed");
}

#[test]
fn names_that_are_replaced_beside_a_wildcard_count_until_the_client_is_told_about_them() {
    // S-110: at the limit, and one past it
    sotw(
        "% max_names=2
          > eds * a
          > eds * b
          = eds a@1 b@1 c@1
          < eds v=1 n=1 a@1 b@1 c@1
          > eds * a c
          < eds v=1 n=2 a@1 c@1",
    );
    sotw(
        "% max_names=2
          > eds * a
          > eds * b
          > eds * c
          ! closed with those of `type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment` the stream names 3 resources; 2 are allowed",
    );
}

#[test]
fn the_types_of_a_stream_share_the_limit_of_names() {
    // S-110: at the limit, and one past it
    sotw(
        "% max_names=2
          = eds a@1
          > eds a
          < eds v=1 n=1 a@1
          > rds a
          > rds a b
          ! closed with those of `type.googleapis.com/envoy.config.route.v3.RouteConfiguration` the stream names 3 resources; 2 are allowed",
    );
}

#[test]
fn the_names_of_a_stream_have_at_most_so_many_bytes() {
    // S-110: at the limit, and one past it
    sotw("% max_name_bytes=5
          = eds aaa@1
          > eds aaa
          < eds v=1 n=1 aaa@1
          > rds bb
          > rds bbc
          ! closed with those of `type.googleapis.com/envoy.config.route.v3.RouteConfiguration` the names of the stream have 6 bytes; 5 are allowed");
}

#[test]
fn a_stream_asks_for_at_most_so_many_types() {
    // T-25: at the limit, and one past it
    sotw(
        "% max_types=2
          = cds a@1
          > cds
          < cds v=1 n=1 a@1
          > eds a
          > rds a
          ! closed the stream asks for more than 2 types",
    );
}

#[test]
fn thirty_types_on_one_stream_are_served() {
    // T-25
    let mut script = String::from("= foo.T0 a@1\n");
    for number in 1..30 {
        script += &format!("= foo.T{number} a@1\n");
    }
    for number in 0..30 {
        script += &format!("> foo.T{number}\n< foo.T{number} v=1 n={} a@1\n", number + 1);
    }
    sotw(&script);
}

#[test]
fn secrets_are_withheld_from_peers_that_must_not_have_them() {
    // S-137, S-070
    sotw(
        "% secrets=off report_missing
          = sds s@1; eds a@1
          > sds s
          < sds v=1 n=1 !s=PERMISSION_DENIED
          > sds ack
          > eds a
          < eds v=1 n=2 a@1
          = sds s@2
          ~ 1m",
    );
}

#[test]
fn a_rejection_that_crosses_with_a_newer_response_counts() {
    // S-037, S-033
    sotw(
        "= eds a@1 b@1 c@1
          > eds a b
          < eds v=1 n=1 a@1 b@1
          > eds a b c n= v=
          < eds v=1 n=2 c@1
          > eds a b c n=1 v= error=a is bad
          ! nacked eds v=1 n=1 error=a is bad
          > eds ack
          = eds a@2
          < eds v=2 n=3 a@2 b@1
          > eds ack
          = eds b@2
          < eds v=3 n=4 b@2",
    );
}

#[test]
fn a_part_of_everything_has_another_version_than_all_of_it() {
    // S-043, S-110: a client that lost its stream after the first part would never get the rest
    sotw(
        "% max_bytes=1000
          = rds v=x a@1(size=600) b@1(size=600)
          > rds *
          < rds v=x~part n=1 a@1
          > rds ack
          < rds v=x n=2 b@1
          ---
          > rds * v=x~part
          < rds v=x~part n=1 a@1
          > rds ack
          < rds v=x n=2 b@1
          > rds ack
          ---
          > rds * v=x",
    );
}

#[test]
fn names_that_do_not_exist_hold_nothing_up() {
    // S-058, S-110: they take no room in a response that cannot speak of them
    sotw(
        "% max_bytes=300
          = eds z@1
          > eds a b c d e f g h z
          < eds v=1 n=1 z@1 !a=NOT_FOUND !b=NOT_FOUND",
    );
}

#[test]
fn a_heartbeat_nothing_needs_any_more_is_not_sent() {
    // S-087, S-106
    sotw(
        "% features=ttl,wrapped
          = cds a@1 b@1(ttl=9s)
          > cds a b
          < cds v=1 n=1 a@1 b@1(ttl) wrapped
          > cds a ack
          ~ 1m",
    );
}

#[test]
fn a_name_dropped_before_it_was_sent_is_not_sent() {
    // S-039, S-044
    sotw(
        "= eds a@1 b@1
          | > eds a b
          | > eds a
          .
          < eds v=1 n=1 a@1",
    );
}

#[test]
fn an_empty_list_after_a_star_means_nothing_any_more() {
    // S-048, S-050: `*` is a name too
    sotw(
        "= cds a@1
          > cds *
          < cds v=1 n=1 a@1
          > cds [] ack
          = cds a@2
          ~ 1m",
    );
}

#[test]
fn errors_that_do_not_fit_ride_on_a_later_response() {
    // S-110, S-068
    sotw(
        "% max_bytes=250
          = cds a@1
          > cds a m1 m2 m3
          < cds v=1 n=1 a@1 !m1=NOT_FOUND !m2=NOT_FOUND
          > cds ack
          = cds a@2
          < cds v=2 n=2 a@2 !m3=NOT_FOUND
          > cds ack
          = cds a@3
          < cds v=3 n=3 a@3",
    );
}

#[test]
fn a_wildcard_brings_what_was_not_named_before() {
    // S-049, S-033: and not again what was
    sotw(
        "= eds v=x a@1 b@1
          > eds b
          < eds v=x n=1 b@1
          > eds nack error=b is bad
          > eds * c
          < eds v=x~part n=2 a@1 !c=NOT_FOUND",
    );
}

#[test]
fn a_wildcard_does_not_bring_what_was_given_before_and_is_gone() {
    // S-049, S-098: the client had unsubscribed it, so no removal waits
    sotw(
        "= cds x@1->eds:a; eds a@1 b@1
          > cds
          < cds v=1 n=1 x@1
          > eds a
          < eds v=1 n=2 a@1
          > eds
          = eds b@2 -a
          > eds *
          < eds v=2 n=3 b@2",
    );
}

#[test]
fn a_rejected_whole_state_speaks_for_the_unanswered_ones_before_it() {
    // S-035, S-099: only the newest is ever answered
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
          > cds nack error=z is bad
          = cds z@2
          < cds v=4 n=6 x@2 y@1 z@2
          < eds v=1 n=7 x@1",
    );
}

#[test]
fn what_was_not_there_and_is_not_asked_for_any_more_is_not_at_fault() {
    // S-033: c is back, and the client that rejected x has not asked for it
    sotw(
        "= cds c@1
          > cds c
          < cds v=1 n=1 c@1
          > cds c ack
          = cds -c
          < cds v=2 n=2 !c=NOT_FOUND
          > cds n=1
          = cds c@2 x@1
          > cds x
          < cds v=3 n=3 x@1
          > cds x nack error=x is bad
          = cds x@2
          < cds v=4 n=4 x@2",
    );
}

#[test]
fn only_a_changed_subscription_is_told() {
    // S-140: an answer that repeats its names changes nothing
    sotw(
        "= eds a@1
          > eds a
          ! subscribed eds 1
          < eds v=1 n=1 a@1
          > eds ack
          > eds * ack
          ! subscribed eds * 0
          < eds v=1 n=2
          > eds ack
          > eds a ack
          ! subscribed eds 1
          < eds v=1 n=3 a@1",
    );
}

#[test]
fn a_returning_client_that_names_things_beside_a_star_is_answered() {
    // S-043, S-051: the version was not given for these names
    sotw(
        "= cds a@1
          > cds * a
          < cds v=1 n=1 a@1
          > cds ack
          ---
          > cds * a v=1
          < cds v=1 n=1 a@1",
    );
}

#[test]
fn a_star_taken_back_before_its_answer_has_none() {
    // S-039, S-048
    sotw(
        "= eds b@1
          | > cds *
          | > cds []
          .
          ~ 1m",
    );
}

#[test]
fn a_name_beside_a_star_brings_itself_alone() {
    // S-051, S-058
    sotw(
        "= eds a@1 b@1
          > eds *
          < eds v=1 n=1 a@1 b@1
          > eds ack
          > eds * a ack
          < eds v=1 n=2 a@1
          > eds ack
          > eds * ack
          ~ 1m",
    );
}

#[test]
fn a_later_node_without_an_id_claims_nothing() {
    // S-025
    sotw(
        "% watch=ignored
          = cds a@1
          > cds
          < cds v=1 n=1 a@1
          > cds ack node=",
    );
}

#[test]
fn everything_that_is_asked_for_again_before_the_first_answer_is_sent() {
    // S-043, S-046: what the client had, it may have dropped since
    sotw(
        "
           > cds * v=7
           > cds x v=7
           > cds * v=7
           = cds v=7 a@1
           < cds v=7 n=1 a@1
        ",
    );
}

#[test]
fn a_client_that_rejected_a_part_does_not_come_back_as_one_that_has_the_whole() {
    // S-043, S-110
    sotw(
        "% max_bytes=1000
         = sds v=x a@1(size=600) b@1(size=600)
         > sds *
         < sds v=x~part n=1 a@1
         > sds nack
         < sds v=x~part n=2 b@1
         > sds ack
         ---
         > sds * v=x~part
         < sds v=x~part n=1 a@1
         > sds ack
         < sds v=x n=2 b@1
         > sds ack",
    );
}
