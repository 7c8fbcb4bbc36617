//! A client of several servers: authorities and fallback.
//!
//! Each test names the rules it proves (`docs/rules`). The language of the scripts is that of
//! [`chancery_testkit::script`].

use chancery_testkit::script::client;

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
    // C-052, C-088, C-089
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
fn what_is_missing_from_a_server_that_answers_is_asked_of_no_other() {
    // C-087
    client(
        "% server one
         % server two
         + u eds a
         < one open
         > one open
         < one eds a node
         ~ 15s
         ! u a none missing
         + v eds b
         < one eds a b
         ~ 1h
         ! v b none missing
         > one eds v=1 n=1 a@1
         < one eds a b v=1 n=1
         ! u a@1",
    );
}

#[test]
fn an_authority_that_moves_to_another_server_loses_no_watcher() {
    // C-052: two authorities share a server, and one of them has another to go to
    client(
        "% server one
         % server two
         % authority a one two
         % authority b one
         + u eds xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x
         < one open
         + v eds xdstp://b/envoy.config.endpoint.v3.ClusterLoadAssignment/x
         > one end refused
         < two open
         ! v xdstp://b/envoy.config.endpoint.v3.ClusterLoadAssignment/x none unreachable
         > two open
         < two eds xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x node
         > two eds v=1 n=1 xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x@1
         < two eds xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x v=1 n=1
         ! u xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x@1
         + w eds xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/y
         < two eds xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/y v=1 n=1
         ~ 1s
         < one open
         > one open
         < one eds xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/y xdstp://b/envoy.config.endpoint.v3.ClusterLoadAssignment/x node
         > one eds v=7 n=1 xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x@2 xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/y@2 xdstp://b/envoy.config.endpoint.v3.ClusterLoadAssignment/x@2
         < two close
         < one eds xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/y xdstp://b/envoy.config.endpoint.v3.ClusterLoadAssignment/x v=7 n=1
         ! u xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x@2
         ! v xdstp://b/envoy.config.endpoint.v3.ClusterLoadAssignment/x@2
         ! w xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/y@2",
    );
}

#[test]
fn what_is_said_by_who_is_not_believed_does_not_count_and_is_asked_for_again() {
    // C-088, C-089: the better server takes one away and refuses everything before it delivers
    client(
        "% server one delta
         % server two delta
         + u cds a
         < one open
         + v cds b
         + w cds *
         > one end refused
         < two open
         > two open
         < two cds +* +a +b node
         > two cds n=1 a@1 b@1
         < two cds n=1
         ! u a@1
         ! v b@1
         ! w a@1
         ! w b@1
         ! w complete
         ~ 1s
         < one open
         > one open
         < one cds +* +a +b node
         > one cds n=1 -b !*=PERMISSION_DENIED
         < one cds n=1
         > one cds n=2 a@2
         < two close
         < one cds +* +b n=2
         ! u a@2
         ! w a@2
         > one cds n=3 -b !*=PERMISSION_DENIED
         < one cds n=3
         ! v b but missing
         ! w * but PERMISSION_DENIED
         ! w b none missing",
    );
}

#[test]
fn members_that_only_the_fallback_has_go_when_the_better_server_has_had_its_time() {
    // C-088, C-089: delta has no word for what a server never had
    client(
        "% server one delta
         % server two delta
         + w cds *
         < one open
         > one end refused
         < two open
         > two open
         < two cds node
         > two cds n=1 a@1 b@1
         < two cds n=1
         ! w a@1
         ! w b@1
         ! w complete
         ~ 1s
         < one open
         > one open
         < one cds node
         > one cds n=1 a@2
         < two close
         < one cds n=1
         ! w a@2
         ~ 14s
         > one cds n=2 c@1
         < one cds n=2
         ! w c@1
         ~ 1s
         ! w b none missing
         + x cds *
         ! x a@2
         ! x c@1
         ! x complete",
    );
}

#[test]
fn a_value_of_the_fallback_is_doubted_when_the_better_server_has_had_its_time() {
    // C-088, C-089, C-065: it stays, and whoever has it hears why it may be old
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
         > two eds v=1 n=1 a@1 b@1
         < two eds a b v=1 n=1
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
         ~ 14s
         ~ 1s
         ! v b but missing
         > one eds v=2 n=2 b@2
         < one eds a b v=2 n=2
         ! v b@2",
    );
}

#[test]
fn a_version_does_not_stand_for_what_another_server_gave() {
    // C-031, C-089: a server that compares versions would have nothing to say
    client(
        "% server one
         % server two
         + u eds a
         < one open
         > one open
         < one eds a node
         > one eds v=3 n=1 a@1
         < one eds a v=3 n=1
         ! u a@1
         + v eds b
         < one eds a b v=3 n=1
         > one end
         ~ 1s
         < one open
         > one end refused
         < two open
         > two open
         < two eds a b node
         > two eds v=9 n=1 b@1
         < two eds a b v=9 n=1
         ! v b@1
         ~ 1600ms
         < one open
         > one open
         < one eds a b node
         > one eds v=3 n=1 a@1
         < two close
         < one eds a b v=3 n=1
         > one end age
         ~ 1s
         < one open
         > one open
         < one eds a b node
         > one eds v=3 n=1 a@1 b@2
         < one eds a b v=3 n=1
         ! v b@2
         > one end age
         ~ 1s
         < one open
         > one open
         < one eds a b v=3 node",
    );
}

#[test]
fn a_version_does_not_stand_for_another_authority() {
    // C-031, C-076, C-078: two was asked by one authority, and is the fallback of the other
    client(
        "% server one
         % server two
         % authority #old one two
         % authority t two
         + u eds xdstp://t/envoy.config.endpoint.v3.ClusterLoadAssignment/x
         < two open
         > two open
         < two eds xdstp://t/envoy.config.endpoint.v3.ClusterLoadAssignment/x node
         > two eds v=3 n=1 xdstp://t/envoy.config.endpoint.v3.ClusterLoadAssignment/x@1
         < two eds xdstp://t/envoy.config.endpoint.v3.ClusterLoadAssignment/x v=3 n=1
         ! u xdstp://t/envoy.config.endpoint.v3.ClusterLoadAssignment/x@1
         > two end age
         + v eds a
         < one open
         > one end refused
         ~ 1s
         < one open
         < two open
         > two open
         < two eds a xdstp://t/envoy.config.endpoint.v3.ClusterLoadAssignment/x node",
    );
}

#[test]
fn a_delta_server_that_comes_back_has_to_say_what_it_has() {
    // C-040, C-089: if it were told what the client has, it would have nothing to deliver
    client(
        "% server one delta
         % server two delta
         + u eds a
         < one open
         > one open
         < one eds +a node
         > one eds n=1 a@1
         < one eds n=1
         ! u a@1
         + v eds b
         < one eds +b
         > one end
         ~ 1s
         < one open
         > one end refused
         < two open
         ~ 1600ms
         < one open
         > one open
         < one eds +a +b node
         > one eds n=1 a@1
         < two close
         < one eds n=1
         > one end
         ~ 1s
         < one open
         > one open
         < one eds +a +b init=a:1 node",
    );
}

#[test]
fn a_stream_that_nobody_needs_says_nothing_of_its_server() {
    // C-089: what was said while another type was in trouble has to be said again
    client(
        "% server one per-type
         % server two
         % authority #old one two reachability
         + u eds a
         < one/eds open
         + v cds b
         < one/cds open
         + w rds c
         < one/rds open
         > one/eds end refused
         < two open
         > one/cds end refused
         > one/rds end refused
         > two open
         < two cds b node
         < two eds a
         < two rds c
         - w
         < two rds
         > two eds v=1 n=1 a@2
         < two eds a v=1 n=1
         ! u a@2
         ~ 1s
         < one/cds open
         < one/eds open
         > one/eds open
         < one eds a node
         > one eds v=1 n=1 a@1
         < one eds a v=1 n=1
         > one/cds open
         < one cds b node
         > one cds v=1 n=1 !b=NOT_FOUND
         < one cds b v=1 n=1
         < one eds v=1 n=1
         < one eds a v=1 n=1
         > one eds v=1 n=2 a@1
         < two close
         < one cds v=1 n=1
         < one cds b v=1 n=1
         < one eds a v=1 n=2
         ! u a@1",
    );
}

#[test]
fn a_version_is_not_claimed_while_another_server_is_believed() {
    // C-040, C-088, C-089: everything is watched under another authority, and holds it too
    client(
        "% server one delta
         % server two
         % authority #old one
         % authority b one two
         + w cds *
         < one open
         + u cds xdstp://b/envoy.config.cluster.v3.Cluster/x
         > one open
         < one cds +* +xdstp://b/envoy.config.cluster.v3.Cluster/x node
         > one cds n=1 xdstp://b/envoy.config.cluster.v3.Cluster/x@1
         < one cds n=1
         ! w xdstp://b/envoy.config.cluster.v3.Cluster/x@1
         ! w complete
         ! u xdstp://b/envoy.config.cluster.v3.Cluster/x@1
         > one end
         ~ 1s
         < one open
         > one end refused
         ! w * but unreachable
         ! u xdstp://b/envoy.config.cluster.v3.Cluster/x but unreachable
         + v eds xdstp://b/envoy.config.endpoint.v3.ClusterLoadAssignment/y
         < two open
         ! u xdstp://b/envoy.config.cluster.v3.Cluster/x fine
         ~ 2s
         < one open
         > one open
         < one cds +* +xdstp://b/envoy.config.cluster.v3.Cluster/x init=xdstp://b/envoy.config.cluster.v3.Cluster/x: node
         < one eds +xdstp://b/envoy.config.endpoint.v3.ClusterLoadAssignment/y",
    );
}

/// C-088, C-089: a server that was given up and is back is not told what the client has of it, so what
/// it does not say again is gone.
#[test]
fn a_member_that_is_gone_when_its_server_is_back_is_removed() {
    client(
        "% server one delta
         % server two delta
         + w eds *
         < one open
         > one open
         < one eds +* node
         > one eds n=1 a@1 b@1
         < one eds n=1
         ! w a@1
         ! w b@1
         ! w complete
         > one end gone
         + v cds x
         ~ 1s
         < one open
         > one end refused
         < two open
         > two end refused
         ! w * but unreachable
         ! v x none unreachable
         ~ 1s
         < one open
         < two open
         > one open
         < one cds +x node
         < one eds +*
         > one eds n=1 a@1
         < two close
         < one eds n=1
         ! w * fine
         ~ 15s
         ! w b none missing
         ! v x none missing",
    );
}
