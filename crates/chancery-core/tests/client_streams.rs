//! A client's streams: requests, answers, names, flow, and when a server is let go.
//!
//! Each test names the rules it proves (`docs/rules`). The language of the scripts is that of
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
    // C-038, C-062
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
fn a_watcher_nobody_reads_costs_the_others_time_and_no_more() {
    // C-038
    client(
        "% server one
         % patience=5s
         + v eds a slow
         < one open
         > one open
         < one eds a node
         > one eds v=1 n=1 a@1
         < one eds a v=1 n=1
         ~ 4s
         ~ 1s
         ! one reads
         > one eds v=2 n=2 a@2
         < one eds a v=2 n=2
         . v
         ! v a@2
         ! one reads",
    );
}

#[test]
fn news_that_are_not_true_any_more_hold_nothing_back() {
    // C-038: the watcher is told nothing, so there is nothing that it could apply
    client(
        "% server one delta
         + w cds * slow
         < one open
         > one open
         < one cds node
         > one cds n=1 b@1
         < one cds n=1
         . w
         ! w b@1
         ! w complete
         ! one reads
         > one cds n=2 a@1(ttl=1s)
         < one cds n=2
         ~ 1s
         . w
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
fn a_stream_asks_no_more_often_than_it_may() {
    // C-045
    client(
        "% server one
         % burst=2
         % interval=10s
         + u eds a
         < one open
         > one open
         < one eds a node
         + v cds b
         < one cds b
         + w lds c
         > one eds v=1 n=1 a@1
         ! u a@1
         ~ 9s
         ~ 1s
         < one eds a v=1 n=1
         ~ 10s
         ! v b none missing
         < one lds c
         > one end
         < one open
         > one open
         ~ 9s
         ~ 1s
         < one cds b node
         ~ 10s
         < one eds a v=1",
    );
}

#[test]
fn a_server_that_repeats_what_was_rejected_is_not_answered_without_end() {
    // C-062, C-063
    let again = |nonce: u32| format!("> one eds v=1 n={nonce} a@!bad\n");
    let rejection = |nonce: u32| format!("< one eds a n={nonce} error=`a`: bad\n");
    let first = "% server one\n+ u eds a\n< one open\n> one open\n< one eds a node\n";
    let mut script = first.to_owned() + &again(1) + &rejection(1) + "! u a none rejected\n";
    for nonce in 2..=100 {
        script += &(again(nonce) + &rejection(nonce));
    }
    script += &(again(101) + "~ 99ms\n~ 1ms\n" + &rejection(101));
    // Responses that come meanwhile are answered in turn.
    script += &(again(102) + "> one eds v=2 n=103 a@1\n! u a@1\n");
    script += &("~ 100ms\n".to_owned() + &rejection(102) + "< one eds a v=2 n=103\n");
    client(&script);
}

#[test]
fn a_client_may_wait_for_as_long_as_it_takes() {
    // C-045
    client(
        "% server one
         % missing_after=0s
         + u eds a
         < one open
         > one open
         < one eds a node
         ~ 100000s
         > one eds v=1 n=1 a@1
         < one eds a v=1 n=1
         ! u a@1",
    );
}
