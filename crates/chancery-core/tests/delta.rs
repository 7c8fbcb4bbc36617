//! The delta protocol, one rule at a time, as conversations with one stream.
//!
//! Each test names the rules it proves (`docs/rules`). The language of the scripts is that of
//! [`chancery_testkit::script`].

use chancery_core::{Scope, TypeUrl, Variant};
use chancery_testkit::script::{check, delta};

#[test]
fn each_type_hands_over_its_own_versions() {
    // S-003
    delta(
        "= cds a@1 b@1; eds a@1 b@1; lds a@1 b@1
           > cds init=a:1
           < cds n=1 b@1
           > eds +a +b init=b:1
           < eds n=2 a@1
           > lds init=a:1 init=b:1 init=c:1
           < lds n=3 -c",
    );
}

#[test]
fn a_rejection_of_one_type_leaves_the_others_alone() {
    // S-002, S-003
    delta(
        "= cds a@1; eds a@1
           > cds
           < cds n=1 a@1
           > eds +a
           < eds n=2 a@1
           > cds nack error=no
           ! nacked cds n=1 error=no
           > eds ack
           = eds a@2
           < eds n=3 a@2",
    );
}

#[test]
fn a_stream_of_one_type_needs_no_type_in_its_requests() {
    // S-004, S-006
    for api in ["vhds", "leds"] {
        let type_url = TypeUrl::known().find(|known| known.short() == api).unwrap();
        let script = format!("= {api} r/a@1\n> - +r/a\n< {api} n=1 r/a@1");
        check(Variant::Delta, Scope::Only(type_url), &script);
    }
}

#[test]
fn a_type_nobody_has_answers_its_names_as_absent() {
    // S-007, S-009
    delta(
        "= cds a@1
           > foo.Bar +x
           < foo.Bar n=1 -x !x=NOT_FOUND
           > cds
           < cds n=2 a@1
           > cds ack
           > foo.Bar ack
           = cds a@2; foo.Bar x@1
           < cds n=3 a@2
           < foo.Bar n=4 x@1",
    );
}

#[test]
fn an_acknowledgement_may_change_the_subscription_too() {
    // S-073
    delta(
        "= eds a@1 b@1
           > eds +a
           < eds n=1 a@1
           > eds +b ack
           ! acked eds n=1
           < eds n=2 b@1
           > eds ack
           ! acked eds n=2",
    );
}

#[test]
fn requests_without_a_nonce_only_change_the_subscription() {
    // S-073, T-34
    delta(
        "% watch=acked,nacked,stale
           = eds a@1 b@1 c@1
           > eds +a
           < eds n=1 a@1
           > eds +b
           < eds n=2 b@1
           > eds ack=1
           ! acked eds n=1
           > eds ack=2
           ! acked eds n=2
           > eds +c
           < eds n=3 c@1",
    );
}

#[test]
fn a_stale_nonce_does_not_lose_the_names() {
    // S-074
    delta(
        "= eds a@1 b@1
           > eds +a
           < eds n=1 a@1
           > eds ack
           = eds a@2
           < eds n=2 a@2
           > eds +b n=other
           ! stale eds n=other
           < eds n=3 b@1",
    );
}

#[test]
fn what_was_rejected_with_a_name_that_was_dropped_is_tried_at_the_next_change() {
    // S-033, S-034: nobody can tell whether `b` was at fault, and `b` is not watched any more
    delta(
        "= eds a@1 b@1
           > eds +a +b
           < eds n=1 a@1 b@1
           > eds nack error=b is bad
           > eds -b
           = eds b@2
           < eds n=2 a@1
           > eds nack error=no
           = eds b@3",
    );
    delta(
        "= eds a@1 b@1
           > eds +*
           < eds n=1 a@1 b@1
           > eds +a -*
           < eds n=2 a@1
           > eds nack=1 error=b is bad
           > eds ack=2
           = eds b@2",
    );
}

#[test]
fn what_is_under_way_when_everything_is_asked_for_again_is_removed_if_it_goes() {
    // S-051, S-080: the response arrives when the client wants everything again
    delta(
        "= cds a@1 b@1
           > cds +*
           < cds n=1 a@1 b@1
           | > cds +c -*
           | > cds +*
           | = cds -b
           | > cds ack=1
           .
           < cds n=2 a@1 -b -c !c=NOT_FOUND",
    );
}

#[test]
fn what_was_rejected_with_a_name_that_was_dropped_and_changed_is_tried_again() {
    // S-033, S-034
    delta(
        "= eds a@1 b@1
           > eds +a +b
           < eds n=1 a@1 b@1
           > eds -b
           = eds b@2
           > eds nack error=b is bad
           < eds n=2 a@1",
    );
}

#[test]
fn what_is_accepted_after_a_rejection_is_refreshed() {
    // S-087, S-088
    delta(
        "% features=ttl
           = eds a@1(ttl=9s) b@1
           > eds +a +b
           < eds n=1 a@1(ttl) b@1
           > eds nack error=b is bad
           > eds +a
           < eds n=2 a@1(ttl)
           > eds ack
           ~ 3s
           < eds n=3 a@1(ttl,heartbeat)",
    );
}

#[test]
fn a_name_subscribed_again_is_sent_again() {
    // S-075
    delta(
        "= eds a@1
           > eds +a
           < eds n=1 a@1
           > eds ack
           > eds +a
           < eds n=2 a@1
           > eds ack
           = eds -a
           < eds n=3 -a !a=NOT_FOUND
           > eds ack
           > eds +a
           < eds n=4 -a",
    );
}

#[test]
fn versions_on_the_first_message_spare_what_the_client_has() {
    // S-076, S-078, T-12: nothing it has, all that changed, and the removal of what is gone
    delta(
        "= cds a@1 b@2
           > cds init=a:1 init=b:1 init=c:1
           < cds n=1 b@2 -c
           > cds ack
           ~ 1m",
    );
    delta(
        "= eds a@1 b@2
           > eds +a +b +c init=a:1 init=b:1 init=c:1
           < eds n=1 b@2 -c !c=NOT_FOUND",
    );
    delta(
        "= cds a@1 b@2; eds a@1
           > cds init=a:1 init=b:2
           > eds +a init=a:1
           ~ 1m
           = eds a@2
           < eds n=1 a@2",
    );
}

#[test]
fn versions_on_a_later_message_mean_nothing() {
    // S-077
    delta(
        "= eds a@1 b@1
           > eds +a
           < eds n=1 a@1
           > eds ack
           > eds +b init=b:1
           < eds n=2 b@1",
    );
}

#[test]
fn every_stream_starts_blank() {
    // S-077, S-011
    delta(
        "= eds a@1 b@1
           > eds +a +b
           < eds n=1 a@1 b@1
           > eds ack
           ---
           > eds +b
           < eds n=1 b@1
           > eds ack
           = eds a@2",
    );
}

#[test]
fn a_first_nonce_of_an_older_stream_means_nothing() {
    // S-029, T-02
    delta(
        "= cds a@1
           > cds n=old-7
           < cds n=1 a@1
           > cds ack",
    );
}

#[test]
fn a_first_message_without_names_is_a_wildcard_even_with_versions() {
    // S-052, T-11: that is how Envoy reconnects
    delta(
        "= cds a@1 b@1
           > cds init=a:1 init=gone:1
           < cds n=1 b@1 -gone
           > cds ack
           = cds c@1
           < cds n=2 c@1",
    );
}

#[test]
fn a_reconnect_that_names_what_it_knows_is_no_wildcard() {
    // T-11: the old form states a subscription to names, and is served as one
    delta(
        "= cds a@1 b@1
           > cds +a +b init=a:1 init=b:1
           = cds c@1
           = cds a@2
           < cds n=1 a@2",
    );
}

#[test]
fn only_what_changed_is_sent() {
    // S-079, S-061
    delta(
        "= cds a@1 b@1 c@1
           > cds
           < cds n=1 a@1 b@1 c@1
           > cds ack
           = cds b@2
           < cds n=2 b@2
           > cds ack
           = cds b@2",
    );
}

#[test]
fn a_deletion_is_said_once_and_creation_is_pushed() {
    // S-080, S-047
    delta(
        "= cds a@1; eds a@1
           > cds
           < cds n=1 a@1
           > cds ack
           > eds +a
           < eds n=2 a@1
           > eds ack
           = cds -a
           < cds n=3 -a
           > cds ack
           ~ 1m
           = cds a@1
           < cds n=4 a@1
           > cds ack
           = eds -a
           < eds n=5 -a !a=NOT_FOUND
           > eds ack
           = eds a@1
           < eds n=6 a@1",
    );
}

#[test]
fn a_missing_name_is_listed_as_removed_and_remembered() {
    // S-067, S-068, S-069, S-047, T-13, T-19
    delta(
        "= eds a@1; rds r@1
           > eds +z
           < eds n=1 -z !z=NOT_FOUND
           > eds ack
           ~ 1m
           = eds z@1
           < eds n=2 z@1
           > rds +unreferenced
           < rds n=3 -unreferenced !unreferenced=NOT_FOUND",
    );
}

#[test]
fn an_error_is_told_once_until_the_resource_came() {
    // S-068
    delta(
        "= lds l@1
           > lds +l +z
           < lds n=1 l@1 -z !z=NOT_FOUND
           > lds ack
           = lds l@2
           < lds n=2 l@2
           > lds ack
           = lds l@3
           < lds n=3 l@3
           > lds ack
           = lds z@1
           < lds n=4 z@1
           > lds ack
           = lds -z
           < lds n=5 -z !z=NOT_FOUND",
    );
}

#[test]
fn a_wildcard_has_no_errors() {
    // S-071
    delta(
        "= cds a@1
           > cds +*
           < cds n=1 a@1
           > cds ack
           = cds -a
           < cds n=2 -a",
    );
}

#[test]
fn only_unsubscribing_is_not_answered() {
    // S-081
    delta(
        "= cds a@1; eds a@1
           > eds +a
           < eds n=1 a@1
           > eds ack
           > eds -a
           > eds -nope
           = eds a@2
           ~ 1m
           > cds -nope
           > cds +a
           < cds n=2 a@1",
    );
}

#[test]
fn unsubscribing_beside_a_wildcard_is_answered() {
    // S-081: the client cannot tell whether the resource stays
    delta(
        "= cds a@1
           > cds +* +a +z
           < cds n=1 a@1 -z !z=NOT_FOUND
           > cds ack
           > cds -a
           < cds n=2 a@1
           > cds ack
           > cds -z
           < cds n=3 -z
           > cds ack
           > cds -nope
           = cds a@2
           < cds n=4 a@2",
    );
}

#[test]
fn what_is_unsubscribed_beside_a_new_wildcard_is_kept_although_its_response_is_rejected() {
    // S-081, S-098: the client may hold what it had accepted by name
    delta(
        "= cds a@1 b@1; rds r@1->cds:a
          > cds +a
          < cds n=1 a@1
          > cds ack
          > rds +r
          < rds n=2 r@1
          > rds ack
          > cds +* -a
          < cds n=3 a@1 b@1
          > cds nack error=b is bad
          = cds b@2 -a; rds r@2
          < cds n=4 a@1 b@2
          < rds n=5 r@2
          > cds ack
          > rds ack
          < cds n=6 -a",
    );
}

#[test]
fn subscriptions_of_a_message_are_applied_before_its_unsubscriptions() {
    // S-082: `*` in both lists is how on-demand clients start empty
    delta(
        "= cds a@1 b@1
           > cds +* -*
           = cds b@2
           > cds +a
           < cds n=1 a@1
           > cds ack
           = cds b@3
           > cds +b -b
           ~ 1m",
    );
}

#[test]
fn a_star_and_names_add_up() {
    // S-049, S-051, T-10: a running wildcard lasts until `*` is unsubscribed
    delta(
        "= cds A@1 B@1
           > cds
           < cds n=1 A@1 B@1
           > cds ack
           > cds +A
           < cds n=2 A@1
           > cds ack
           = cds B@2
           < cds n=3 B@2
           > cds ack
           > cds -*
           = cds B@3
           = cds A@2
           < cds n=4 A@2
           > cds ack
           > cds -A
           = cds A@3
           ~ 1m",
    );
}

#[test]
fn a_wildcard_asked_for_later_brings_everything() {
    // S-049, S-051
    delta(
        "= cds a@1 b@1
           > cds +a
           < cds n=1 a@1
           > cds ack
           > cds +*
           < cds n=2 b@1
           > cds ack
           > cds +*
           < cds n=3 a@1 b@1
           > cds ack
           > cds
           ~ 1m",
    );
}

#[test]
fn a_first_wildcard_is_answered_even_if_nothing_matches() {
    // S-054, T-28
    delta(
        "= eds a@1
           > cds
           < cds n=1
           > cds ack
           > lds +*
           < lds n=2
           > eds
           ~ 1m",
    );
}

#[test]
fn what_an_empty_first_request_means_depends_on_the_type() {
    // S-053
    delta(
        "= eds a@1; rds a@1; sds a@1
           > eds
           > rds
           > sds
           ~ 1m
           > eds +a
           < eds n=1 a@1",
    );
    delta(
        "% legacy_wildcard=eds:on
           = eds a@1
           > eds
           < eds n=1 a@1",
    );
}

#[test]
fn what_was_rejected_is_not_sent_again_until_it_changes() {
    // S-033, S-034, T-04, T-35: the text is there to be shown
    delta(
        "= cds a@1 b@1
           > cds
           < cds n=1 a@1 b@1
           > cds nack error=a is bad
           ! nacked cds n=1 error=a is bad
           ~ 60s
           = cds a@2
           < cds n=2 a@2 b@1
           > cds ack",
    );
}

#[test]
fn what_the_client_holds_is_booked_from_the_response_it_names() {
    // S-083
    delta(
        "= eds a@1 b@1 d@1
           > eds +a +d
           < eds n=1 a@1 d@1
           > eds +b
           < eds n=2 b@1
           > eds ack=1
           > eds nack=2 error=b is bad
           = eds a@2
           < eds n=3 a@2
           > eds ack
           = eds b@2
           < eds n=4 b@2
           > eds nack error=b is bad
           = eds b@1
           < eds n=5 b@1",
    );
}

#[test]
fn at_most_one_response_of_a_type_is_unanswered() {
    // S-042, S-107
    delta(
        "= cds a@1
           > cds
           < cds n=1 a@1
           = cds a@2
           = cds a@3 b@1
           = cds c@1 -b
           > cds ack
           < cds n=2 a@3 c@1",
    );
}

#[test]
fn a_resource_deleted_and_created_again_is_said_once() {
    // S-060
    delta(
        "= cds a@1
           > cds
           < cds n=1 a@1
           = cds -a
           = cds a@2
           > cds ack
           < cds n=2 a@2
           = cds -a
           = cds a@2
           > cds ack
           ~ 1m",
    );
}

#[test]
fn a_ttl_is_told_to_those_who_keep_one() {
    // S-086: and again on every full send, for a send without it cancels the client's timer
    delta(
        "= lds a@1(ttl=10s)
           > lds
           < lds n=1 a@1",
    );
    delta(
        "% features=ttl
           = lds a@1(ttl=10s)
           > lds
           < lds n=1 a@1(ttl)
           > lds ack
           = lds a@2(ttl=10s)
           < lds n=2 a@2(ttl)
           > lds ack
           = lds a@3
           < lds n=3 a@3
           > lds ack
           ~ 1m",
    );
    delta(
        "% agent=envoy/1.40.0
           = lds a@1(ttl=10s)
           > lds
           < lds n=1 a@1(ttl)",
    );
}

#[test]
fn a_heartbeat_is_the_same_version_without_a_body() {
    // S-087: in time for two to be lost, and never a content change
    delta(
        "% features=ttl
           = lds a@1(ttl=9s) b@1
           > lds
           < lds n=1 a@1(ttl) b@1
           > lds ack
           ~ 2s
           ~ 1s
           < lds n=2 a@1(ttl,heartbeat)
           > lds ack
           ~ 3s
           < lds n=3 a@1(ttl,heartbeat)
           > lds ack
           = lds -a
           < lds n=4 -a
           > lds ack
           ~ 1m",
    );
}

#[test]
fn heartbeats_go_on_while_an_answer_is_late() {
    // S-087
    delta(
        "% features=ttl
           = lds a@1(ttl=9s)
           > lds
           < lds n=1 a@1(ttl)
           ~ 3s
           < lds n=2 a@1(ttl,heartbeat)
           ~ 3s
           < lds n=3 a@1(ttl,heartbeat)",
    );
}

#[test]
fn a_client_that_may_have_lost_it_gets_the_body_first() {
    // S-088, T-33
    delta(
        "% features=ttl
           = lds a@1(ttl=9s) b@1
           > lds init=a:1 init=b:1
           < lds n=1 a@1(ttl)
           > lds ack
           ~ 3s
           < lds n=2 a@1(ttl,heartbeat)",
    );
}

#[test]
fn virtual_hosts_have_no_heartbeats() {
    // S-089: without a body it would read as an alias that cannot be resolved
    delta(
        "% features=ttl
           = vhds r/a@1(ttl=9s)
           > vhds +r/a
           < vhds n=1 r/a@1
           > vhds ack
           ~ 1m",
    );
}

#[test]
fn a_host_is_found_by_its_aliases_and_domains() {
    // S-091, S-092: answered by its own name, with the name that was asked for as an alias
    delta(
        "= vhds r/b@1(alias=r/also,host=b.example,host=*.x.com)
           > vhds +r/also
           < vhds n=1 r/b@1(alias=r/also)
           > vhds ack
           > vhds +r/foo.x.com
           < vhds n=2 r/b@1(alias=r/also,alias=r/foo.x.com)
           > vhds ack
           = vhds r/b@2(alias=r/also,host=b.example,host=*.x.com)
           < vhds n=3 r/b@2(alias=r/also,alias=r/foo.x.com)
           > vhds ack
           > vhds -r/also -r/foo.x.com
           = vhds r/b@3(alias=r/also)",
    );
}

#[test]
fn an_alias_outside_vhds_is_found_too() {
    // S-091
    delta(
        "= eds a@1(alias=also)
           > eds +also
           < eds n=1 a@1(alias=also)
           > eds ack
           = eds a@2(alias=also)
           < eds n=2 a@2(alias=also)
           > eds ack
           = eds -a
           < eds n=3 -a !also=NOT_FOUND",
    );
}

#[test]
fn an_unknown_host_is_answered_at_once() {
    // S-093: an alias without a body, on which Envoy fails the request that waits
    delta(
        "= vhds r/a@1(host=a.example)
           > vhds +r/nope
           < vhds n=1 r/nope(alias=r/nope,unresolved)
           > vhds ack
           = vhds r/nope@1(host=nope)
           < vhds n=2 r/nope@1
           > vhds ack
           = vhds -r/nope
           < vhds n=3 -r/nope",
    );
}

#[test]
fn a_virtual_host_stream_starts_with_a_base_set() {
    // S-053, T-20: one host of each route configuration completed on demand, and nothing else
    delta(
        "= rds r@1(vhds=1) s@1 t@1(vhds=1); vhds r/a@1 r/b@1 s/a@1 u/a@1
           > vhds
           < vhds n=1 r/a@1
           > vhds ack
           = vhds r/b@2 s/a@2
           = vhds r/a@2
           < vhds n=2 r/a@2",
    );
    delta(
        "= vhds u/a@1
           > vhds
           < vhds n=1",
    );
}

#[test]
fn a_changed_vhds_field_brings_the_hosts_again() {
    // S-094
    delta(
        "= rds r@1(vhds=1); vhds r/a@1 r/b@1
           > vhds +r/a
           < vhds n=1 r/a@1
           > vhds ack
           = rds r@2(vhds=1)
           ~ 1s
           = rds r@3(vhds=2)
           < vhds n=2 r/a@1",
    );
    delta(
        "= rds r@1(vhds=1); vhds r/a@1
           > rds +r
           < rds n=1 r@1
           > rds ack
           > vhds +r/a
           < vhds n=2 r/a@1
           > vhds ack
           = rds r@2(vhds=2)
           < rds n=3 r@2
           < vhds n=4 r/a@1",
    );
}

#[test]
fn clusters_on_demand_are_answered_at_once() {
    // S-095
    delta(
        "= cds a@1->eds:a b@1; eds a@1
           > cds +a
           < cds n=1 a@1
           > cds +unknown
           < cds n=2 -unknown !unknown=NOT_FOUND
           > cds ack=1
           > cds ack=2
           > eds +a
           < eds n=3 a@1
           > eds ack
           > cds +*
           < cds n=4 b@1",
    );
}

#[test]
fn a_glob_brings_its_members_and_follows_them() {
    // S-117, S-115
    delta(
        "= cds xdstp://x/envoy.config.cluster.v3.Cluster/e/a@1 \
               xdstp://x/envoy.config.cluster.v3.Cluster/f/a@1
           > cds +xdstp://x/envoy.config.cluster.v3.Cluster/e/*
           < cds n=1 xdstp://x/envoy.config.cluster.v3.Cluster/e/a@1
           > cds ack
           = cds xdstp://x/envoy.config.cluster.v3.Cluster/e/b@1 \
               xdstp://x/envoy.config.cluster.v3.Cluster/f/b@1
           < cds n=2 xdstp://x/envoy.config.cluster.v3.Cluster/e/b@1
           > cds ack
           = cds xdstp://x/envoy.config.cluster.v3.Cluster/e/b@2
           < cds n=3 xdstp://x/envoy.config.cluster.v3.Cluster/e/b@2
           > cds ack
           = cds -xdstp://x/envoy.config.cluster.v3.Cluster/e/b
           < cds n=4 -xdstp://x/envoy.config.cluster.v3.Cluster/e/b
           > cds ack
           > cds -xdstp://x/envoy.config.cluster.v3.Cluster/e/*
           = cds -xdstp://x/envoy.config.cluster.v3.Cluster/e/a",
    );
}

#[test]
fn an_empty_glob_is_listed_as_removed() {
    // S-117, S-071: under the glob's own name
    delta(
        "= cds a@1
           > cds +xdstp://x/envoy.config.cluster.v3.Cluster/e/*
           < cds n=1 -xdstp://x/envoy.config.cluster.v3.Cluster/e/* \
                !xdstp://x/envoy.config.cluster.v3.Cluster/e/*=NOT_FOUND
           > cds ack
           = cds xdstp://x/envoy.config.cluster.v3.Cluster/e/a@1
           < cds n=2 xdstp://x/envoy.config.cluster.v3.Cluster/e/a@1",
    );
}

#[test]
fn overlapping_globs_share_their_members() {
    // S-117: unsubscribing one glob leaves what another, or a name, still asks for
    delta(
        "= cds xdstp://x/envoy.config.cluster.v3.Cluster/e/a@1 \
               xdstp://x/envoy.config.cluster.v3.Cluster/e/b@1
           > cds +xdstp://x/envoy.config.cluster.v3.Cluster/e/* \
                 +xdstp://x/envoy.config.cluster.v3.Cluster/e/a
           < cds n=1 xdstp://x/envoy.config.cluster.v3.Cluster/e/a@1 \
                xdstp://x/envoy.config.cluster.v3.Cluster/e/b@1
           > cds ack
           > cds -xdstp://x/envoy.config.cluster.v3.Cluster/e/*
           = cds xdstp://x/envoy.config.cluster.v3.Cluster/e/b@2
           = cds xdstp://x/envoy.config.cluster.v3.Cluster/e/a@2
           < cds n=2 xdstp://x/envoy.config.cluster.v3.Cluster/e/a@2",
    );
}

#[test]
fn a_glob_that_is_unsubscribed_before_the_response_is_not_in_it() {
    // S-117, S-081: neither beside a wildcard nor beside another spelling of the glob
    let glob = "xdstp://x/envoy.config.cluster.v3.Cluster/e/*";
    delta(&format!(
        "> cds +* +{glob} -{glob}
           = cds a@1
           < cds n=1 a@1",
    ));
    delta(&format!(
        "= cds xdstp://x/envoy.config.cluster.v3.Cluster/e/a@1
           > cds +*
           < cds n=1 xdstp://x/envoy.config.cluster.v3.Cluster/e/a@1
           > cds ack
           > cds +{glob} -{glob}
           < cds n=2 xdstp://x/envoy.config.cluster.v3.Cluster/e/a@1",
    ));
    delta(&format!(
        "= cds a@1
           > cds +{glob}?k=1&l=2 +{glob}?l=2&k=1 -{glob}?k=1&l=2
           < cds n=1 -{glob}?l=2&k=1 !{glob}?l=2&k=1=NOT_FOUND",
    ));
}

#[test]
fn a_glob_reconnects_with_the_versions_of_its_members() {
    // S-117, S-076
    delta(
        "= cds xdstp://x/envoy.config.cluster.v3.Cluster/e/a@1 \
               xdstp://x/envoy.config.cluster.v3.Cluster/e/b@2
           > cds +xdstp://x/envoy.config.cluster.v3.Cluster/e/* \
                 init=xdstp://x/envoy.config.cluster.v3.Cluster/e/a:1 \
                 init=xdstp://x/envoy.config.cluster.v3.Cluster/e/b:1 \
                 init=xdstp://x/envoy.config.cluster.v3.Cluster/e/c:1
           < cds n=1 xdstp://x/envoy.config.cluster.v3.Cluster/e/b@2 \
                -xdstp://x/envoy.config.cluster.v3.Cluster/e/c",
    );
}

#[test]
fn authorities_share_a_stream_and_an_unknown_one_is_absent() {
    // S-116
    delta(
        "= cds xdstp://x/envoy.config.cluster.v3.Cluster/a@1 \
               xdstp://y/envoy.config.cluster.v3.Cluster/a@1
           > cds +xdstp://x/envoy.config.cluster.v3.Cluster/a \
                 +xdstp://y/envoy.config.cluster.v3.Cluster/a \
                 +xdstp://z/envoy.config.cluster.v3.Cluster/a
           < cds n=1 xdstp://x/envoy.config.cluster.v3.Cluster/a@1 \
                xdstp://y/envoy.config.cluster.v3.Cluster/a@1 \
                -xdstp://z/envoy.config.cluster.v3.Cluster/a \
                !xdstp://z/envoy.config.cluster.v3.Cluster/a=NOT_FOUND",
    );
}

#[test]
fn a_name_of_another_type_or_with_a_directive_is_absent() {
    // S-116, S-119, S-070
    delta(
        "= cds a@1
           > cds +xdstp://x/foo.Bar/a +xdstp://x/envoy.config.cluster.v3.Cluster/a#entry=b
           < cds n=1 -xdstp://x/foo.Bar/a \
                -xdstp://x/envoy.config.cluster.v3.Cluster/a#entry=b \
                !xdstp://x/foo.Bar/a=INVALID_ARGUMENT \
                !xdstp://x/envoy.config.cluster.v3.Cluster/a#entry=b=INVALID_ARGUMENT",
    );
}

#[test]
fn an_xdstp_name_is_answered_in_the_spelling_asked_for() {
    // S-114
    delta(
        "= cds xdstp://x/envoy.config.cluster.v3.Cluster/a?k=1&l=2@1
           > cds +xdstp://x/envoy.config.cluster.v3.Cluster/a?l=2&k=1
           < cds n=1 xdstp://x/envoy.config.cluster.v3.Cluster/a?l=2&k=1@1
           > cds ack
           = cds -xdstp://x/envoy.config.cluster.v3.Cluster/a?k=1&l=2
           < cds n=2 -xdstp://x/envoy.config.cluster.v3.Cluster/a?l=2&k=1 \
                !xdstp://x/envoy.config.cluster.v3.Cluster/a?l=2&k=1=NOT_FOUND",
    );
}

#[test]
fn large_answers_are_split_without_repeating_a_name() {
    // S-110, T-26
    delta(
        "% max_bytes=1000
           = cds v=x a@1(size=400) b@1(size=400) c@1(size=400)
           > cds
           < cds v=x~part n=1 a@1
           > cds ack
           < cds v=x~part n=2 b@1
           > cds ack
           < cds v=x n=3 c@1
           > cds ack
           ~ 1m",
    );
}

#[test]
fn a_split_answer_is_overtaken_by_what_changes_meanwhile() {
    // S-107, S-110
    delta(
        "% max_bytes=1000
           = cds v=x a@1(size=600) b@1(size=600) c@1(size=600)
           > cds
           < cds v=x~part n=1 a@1
           = cds v=y b@2(size=600) -c
           > cds ack
           < cds v=y n=2 b@2
           > cds ack
           ~ 1m",
    );
}

#[test]
fn a_part_of_everything_says_that_more_comes() {
    // S-110: nothing else in the protocol says so, also if nothing is left of the rest by then
    let site = |id, version| {
        format!("xdstp://x/envoy.config.cluster.v3.Cluster/s/{id}@{version}(size=600)")
    };
    let (a, b) = (site("a", 1), site("b", 1));
    for (subscription, one, other) in [
        ("", "a@1(size=600)", "b@1(size=600)"),
        (" +xdstp://x/envoy.config.cluster.v3.Cluster/s/*", a.as_str(), b.as_str()),
    ] {
        let sent = |entry: &str| entry.replace("(size=600)", "");
        let (first, rest) = (sent(one), sent(other));
        delta(&format!(
            "% max_bytes=1000
             = cds v=x {one} {other}
             > cds{subscription}
             < cds v=x~part n=1 {first}
             > cds ack
             < cds v=x n=2 {rest}"
        ));
        delta(&format!(
            "% max_bytes=1000
             = cds v=x {one} {other}
             > cds{subscription}
             < cds v=x~part n=1 {first}
             = cds v=y -{}
             > cds ack
             < cds v=y n=2
             > cds ack
             ~ 1m",
            rest.trim_end_matches("@1"),
        ));
    }
}

#[test]
fn a_subscription_has_at_most_so_many_names() {
    // S-110: at the limit, and one past it
    delta(
        "% max_names=2
           = eds a@1 b@1 c@1
           > eds +a +b
           < eds n=1 a@1 b@1
           > eds -a
           > eds +c
           < eds n=2 c@1
           > eds +a
           ! closed with those of `type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment` the stream names 3 resources; 2 are allowed",
    );
}

#[test]
fn names_that_are_unsubscribed_count_until_the_client_is_told_about_them() {
    // S-110, S-081: at the limit, and one past it; beside a wildcard, and in a collection
    delta(
        "% max_names=2
           > eds +* +a -a
           > eds +b -b
           > eds +a -a
           = eds
           < eds n=1 -a -b
           > eds ack
           > eds +c +d
           < eds n=2 -c -d !c=NOT_FOUND !d=NOT_FOUND",
    );
    delta(
        "% max_names=2
           > eds +* +a -a
           > eds +b -b
           > eds +c -c
           ! closed with those of `type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment` the stream names 3 resources; 2 are allowed",
    );
    let prefix = "xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/g";
    delta(&format!(
        "% max_names=3
           > eds +{prefix}/* +{prefix}/a -{prefix}/a
           > eds +{prefix}/b -{prefix}/b
           > eds +{prefix}/c -{prefix}/c
           ! closed with those of `type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment` the stream names 4 resources; 3 are allowed",
    ));
}

#[test]
fn a_client_that_stops_reading_gets_the_newest_state_once() {
    // S-107, S-108
    delta(
        "= cds a@1 b@1
           > cds
           < cds n=1 a@1 b@1
           > cds ack
           | = cds a@2
           | = cds a@3
           | = cds -b
           .
           < cds n=2 a@3 -b",
    );
}

#[test]
fn a_rejection_that_comes_late_brings_the_rest_again() {
    // S-033, S-083: a part of what was rejected had already been sent in a newer form
    delta(
        "% ack_wait=10s
           = eds a@1 b@1
           > eds +a +b
           < eds n=1 a@1 b@1
           = eds a@2
           ~ 10s
           < eds n=2 a@2
           > eds nack=1 error=a is bad
           > eds ack=2
           < eds n=3 b@1
           > eds ack
           ~ 1m",
    );
}

#[test]
fn what_was_unsubscribed_before_its_rejection_is_not_brought_again() {
    // S-045, S-081
    delta(
        "= eds a@1 b@1
           > eds +a +b
           < eds n=1 a@1 b@1
           > eds -b
           > eds nack=1 error=a is bad
           = eds a@2
           < eds n=2 a@2
           > eds ack
           = eds b@2",
    );
}

#[test]
fn many_names_are_followed_like_few() {
    // S-079, S-080, S-107
    let names: Vec<String> = (10..30).map(|number| format!("n{number}")).collect();
    let each =
        |form: &dyn Fn(&String) -> String| names.iter().map(form).collect::<Vec<_>>().join(" ");
    let script = format!(
        "= eds {all} other@1
         > eds {subscribed}
         < eds n=1 {all}
         > eds ack
         = eds n12@2 other@2
         < eds n=2 n12@2
         > eds ack
         = eds -n13 -other
         < eds n=3 -n13 !n13=NOT_FOUND
         > eds ack
         = eds n14@2(alias=n13)
         < eds n=4 n13@2",
        all = each(&|name| format!("{name}@1")),
        subscribed = each(&|name| format!("+{name}")),
    );
    delta(&script.replace("< eds n=4 n13@2", "< eds n=4 n14@2(alias=n13)"));
}

#[test]
fn other_changes_do_not_put_off_a_heartbeat() {
    // S-087, S-088
    delta(
        "% features=ttl
           = lds a@1(ttl=9s) b@1
           > lds
           < lds n=1 a@1(ttl) b@1
           > lds ack
           ~ 2s
           = lds b@2
           < lds n=2 b@2
           > lds ack
           ~ 1s
           < lds n=3 a@1(ttl,heartbeat)
           > lds ack
           ~ 1s
           = lds c@1(ttl=3s)
           < lds n=4 c@1(ttl)
           > lds ack
           ~ 1s
           < lds n=5 a@1(ttl,heartbeat) c@1(ttl,heartbeat)",
    );
}

#[test]
fn a_removal_of_what_was_rejected_brings_the_rest_again() {
    // S-033, S-098: the culprit was kept for a while, and is given up
    delta(
        "% removal_wait=20s
           = cds a@1 b@1; rds r@1
           > cds
           < cds n=1 a@1 b@1
           > cds ack
           > rds +r
           < rds n=2 r@1
           > rds ack
           = rds r@2; cds -b
           < rds n=3 r@2
           = cds a@2 c@1
           < cds n=4 a@2 c@1
           > cds nack error=c is bad
           = cds -c
           < cds n=5 a@2 -c
           > cds ack
           ~ 20s
           < cds n=6 -b",
    );
}

#[test]
fn what_is_spoken_of_again_is_no_change() {
    // S-033: a name asked for again says nothing new about what was rejected
    delta(
        "= eds a@1
           > eds +a +z
           < eds n=1 a@1 -z !z=NOT_FOUND
           > eds +z
           < eds n=2 -z
           > eds nack=1 error=a is bad
           > eds ack=2
           ~ 1m",
    );
}

#[test]
fn what_was_accepted_after_a_rejection_is_rejected_no_more() {
    // S-033, S-083
    delta(
        "= eds a@1 b@1
           > eds +a +b
           < eds n=1 a@1 b@1
           > eds nack error=b is bad
           > eds +a
           < eds n=2 a@1
           > eds ack
           = eds a@2
           < eds n=3 a@2
           > eds ack
           = eds b@2
           < eds n=4 b@2",
    );
}

#[test]
fn a_wildcard_stays_while_other_names_are_taken_out() {
    // S-082
    delta(
        "= cds a@1
           > cds +* -x
           < cds n=1 a@1
           > cds ack
           = cds b@1
           < cds n=2 b@1",
    );
}

#[test]
fn many_hosts_are_followed_by_their_domains() {
    // S-092: what a name means may change without a resource of that name
    let asked: Vec<String> = (10..30).map(|number| format!("+r/h{number}.x.com")).collect();
    let aliases: Vec<String> = (10..30).map(|number| format!("alias=r/h{number}.x.com")).collect();
    delta(&format!(
        "= vhds r/any@1(host=*.x.com)
         > vhds {}
         < vhds n=1 r/any@1({aliases})
         > vhds ack
         = vhds r/any@2(host=*.x.com)
         < vhds n=2 r/any@2({aliases})",
        asked.join(" "),
        aliases = aliases.join(","),
    ));
}

#[test]
fn many_names_in_other_spellings_are_followed() {
    // S-114
    let name = |number: u32, query: &str| {
        format!("xdstp://x/envoy.config.cluster.v3.Cluster/c{number}?{query}")
    };
    let each = |form: &dyn Fn(u32) -> String| (10..30).map(form).collect::<Vec<_>>().join(" ");
    delta(&format!(
        "= cds {stored}
         > cds {asked}
         < cds n=1 {given}
         > cds ack
         = cds {changed}@2
         < cds n=2 {found}@2",
        stored = each(&|number| name(number, "a=1&b=2") + "@1"),
        asked = each(&|number| format!("+{}", name(number, "b=2&a=1"))),
        given = each(&|number| name(number, "b=2&a=1") + "@1"),
        changed = name(20, "a=1&b=2"),
        found = name(20, "b=2&a=1"),
    ));
}

#[test]
fn a_response_may_be_as_large_as_allowed_and_no_larger() {
    // S-110: at the limit, and one past it
    let script = |limit: u32, answer: &str| {
        delta(&format!(
            "% max_bytes={limit}
             = eds a@1(size=400) b@1(size=400)
             > eds +a +b
             {answer}"
        ));
    };
    script(1060, "< eds n=1 a@1 b@1");
    script(1059, "< eds n=1 a@1\n> eds ack\n< eds n=2 b@1");
}

#[test]
fn a_name_may_be_unsubscribed_in_another_spelling() {
    // S-114
    for (subscribed, unsubscribed) in [("b=2&a=1", "a=1&b=2"), ("a=1&b=2", "b=2&a=1")] {
        for id in ["c", "*"] {
            let name = |query| format!("xdstp://x/envoy.config.cluster.v3.Cluster/{id}?{query}");
            delta(&format!(
                "= cds a@1
                 > cds +{} +a
                 < cds n=1 a@1 -{0} !{0}=NOT_FOUND
                 > cds ack
                 > cds -{}
                 = cds xdstp://x/envoy.config.cluster.v3.Cluster/c?a=1&b=2@1",
                name(subscribed),
                name(unsubscribed),
            ));
        }
    }
}

#[test]
fn missing_names_are_split_like_any_others() {
    // S-110, S-068: a client that asks for very many names gets no message it cannot take
    delta(
        "% max_bytes=120
           = eds a@1
           > eds +m1 +m2 +m3
           < eds n=1 -m1 -m2 !m1=NOT_FOUND !m2=NOT_FOUND
           > eds ack
           < eds n=2 -m3 !m3=NOT_FOUND",
    );
}

#[test]
fn what_was_rejected_is_not_refreshed() {
    // S-088, S-033: the client does not hold it in this form
    delta(
        "% features=ttl
           = lds a@1(ttl=9s)
           > lds
           < lds n=1 a@1(ttl)
           > lds nack error=bad
           ~ 1m",
    );
}

#[test]
fn what_is_to_be_replaced_is_refreshed_until_then() {
    // S-087: its successor waits for an answer
    delta(
        "% features=ttl ack_wait=1m
           = lds a@1(ttl=9s) b@1
           > lds
           < lds n=1 a@1(ttl) b@1
           > lds ack
           = lds b@2
           < lds n=2 b@2
           = lds a@2(ttl=9s)
           ~ 3s
           < lds n=3 a@1(ttl,heartbeat)",
    );
}

#[test]
fn asking_is_answered_whatever_else_the_message_says() {
    // S-042, S-082
    delta(
        "= eds a@1 b@1
           > eds +a
           < eds n=1 a@1
           > eds +b -x
           < eds n=2 b@1",
    );
}

#[test]
fn a_resource_that_loses_an_alias_is_not_removed() {
    // S-091, S-060
    delta(
        "= vhds r/a@1(alias=r/b,alias=r/c)
           > vhds +r/b +r/c
           < vhds n=1 r/a@1(alias=r/b,alias=r/c)
           > vhds ack
           = vhds r/a@2(alias=r/c)
           < vhds n=2 r/a@2(alias=r/c)
           > vhds ack
           = vhds -r/a
           < vhds n=3 -r/a",
    );
}

#[test]
fn members_of_a_glob_that_is_asked_for_again_before_the_first_answer_are_sent() {
    // S-075, S-117: what the client said it had, it may have dropped since
    delta(
        "
           > cds +* init=xdstp://x/envoy.config.cluster.v3.Cluster/e/a:1 init=b:1
           > cds -* +xdstp://x/envoy.config.cluster.v3.Cluster/e/*
           = cds xdstp://x/envoy.config.cluster.v3.Cluster/e/a@1 b@1
           < cds n=1 xdstp://x/envoy.config.cluster.v3.Cluster/e/a@1
        ",
    );
}

#[test]
fn what_the_client_has_and_is_gone_is_removed_whatever_it_asks_for_before_the_first_answer() {
    // S-076, S-078, S-117: who asks for more does not take back what it said it has
    delta(
        "
           > cds +xdstp://x/envoy.config.cluster.v3.Cluster/e/* \
                 init=xdstp://x/envoy.config.cluster.v3.Cluster/e/gone:1
           > cds +*
           > cds -*
           = cds xdstp://x/envoy.config.cluster.v3.Cluster/e/a@1
           < cds n=1 xdstp://x/envoy.config.cluster.v3.Cluster/e/a@1 \
                 -xdstp://x/envoy.config.cluster.v3.Cluster/e/gone
        ",
    );
    delta(
        "
           > cds +* init=gone:1
           > cds -*
           > cds +*
           = cds a@1
           < cds n=1 a@1 -gone
        ",
    );
}

#[test]
fn everything_that_is_asked_for_again_before_the_first_answer_is_sent() {
    // S-075
    delta(
        "
           > cds +* init=a:1
           > cds -*
           > cds +*
           = cds a@1
           < cds n=1 a@1
        ",
    );
}
