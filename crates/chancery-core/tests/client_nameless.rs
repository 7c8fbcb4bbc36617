//! Responses with a resource that nobody can name: who may have asked for it hears that it was
//! rejected, and nothing is taken for missing (C-056, C-063, C-064).
//!
//! Each test names the rules it proves (`docs/rules`). The language of the scripts is that of
//! [`chancery_testkit::script`].

use chancery_testkit::script::client;

#[test]
fn a_watch_of_everything_hears_that_a_resource_without_a_name_was_rejected() {
    // C-055, C-063, C-064: it is not told in full before a response has names alone
    client(
        "% server one
         + w cds *
         < one open
         > one open
         < one cds node
         > one cds v=1 n=1 a@1 @!garbage
         < one cds n=1 error=garbage
         ! w * but rejected
         ! w a@1
         + x cds *
         ! x * but rejected
         ! x a@1
         ~ 1h
         > one cds v=2 n=2 a@1 b@1
         < one cds v=2 n=2
         ! w * fine
         ! w b@1
         ! w complete
         ! x * fine
         ! x b@1
         ! x complete",
    );
}

#[test]
fn an_empty_group_is_not_taken_for_one_that_was_told() {
    // C-064: nothing but the resource without a name came
    for words in ["", "per-type"] {
        let stream = if words.is_empty() { "one" } else { "one/lds" };
        client(&format!(
            "% server one {words}
             + w lds *
             < {stream} open
             > {stream} open
             < one lds node
             > one lds v=1 n=1 @!garbage @!more
             < one lds n=1 error=garbage; more
             ! w * but rejected
             > one lds v=1 n=2 @!garbage @!more
             < one lds n=2 error=garbage; more
             > one lds v=2 n=3
             < one lds v=2 n=3
             ! w * fine
             ! w complete"
        ));
    }
}

#[test]
fn a_collection_hears_of_it_in_delta() {
    // C-041, C-064
    client(
        "% server one delta
         % authority a one
         + w cds xdstp://a/envoy.config.cluster.v3.Cluster/edge/*
         < one open
         + x cds *
         > one open
         < one cds +* +xdstp://a/envoy.config.cluster.v3.Cluster/edge/* node
         > one cds n=1 @!garbage
         < one cds n=1 error=garbage
         ! w xdstp://a/envoy.config.cluster.v3.Cluster/edge/* but rejected
         ! x * but rejected
         > one cds n=2 xdstp://a/envoy.config.cluster.v3.Cluster/edge/y@1
         < one cds n=2
         ! w xdstp://a/envoy.config.cluster.v3.Cluster/edge/* fine
         ! w xdstp://a/envoy.config.cluster.v3.Cluster/edge/y@1
         ! w complete
         ! x * fine
         ! x xdstp://a/envoy.config.cluster.v3.Cluster/edge/y@1
         ! x complete",
    );
}

#[test]
fn a_watcher_without_a_value_hears_of_it_and_recovers() {
    // C-063, C-064, C-065: `b` was named by the response, and `c` is held
    for (words, ask, first, second, third) in [
        ("", "a b c node", "a b c v=1 n=1", "a b c v=1 n=2 error=garbage", "a b c v=3 n=3"),
        ("delta", "+a +b +c node", "n=1", "n=2 error=garbage", "n=3"),
    ] {
        client(&format!(
            "% server one {words}
             + u eds a
             < one open
             + v eds b
             + w eds c
             > one open
             < one eds {ask}
             > one eds v=1 n=1 c@1
             < one eds {first}
             ! w c@1
             > one eds v=2 n=2 b@1 @!garbage
             < one eds {second}
             ! u a none rejected
             ! v b@1
             + x eds a
             ! x a none rejected
             ~ 1h
             > one eds v=3 n=3 a@1
             < one eds {third}
             ! u a@1
             ! x a@1"
        ));
    }
}

#[test]
fn the_time_of_a_name_begins_again_when_everything_has_a_name() {
    // C-056, C-064, C-065: the nameless one was not `a`, which may be seen by its absence after that
    client(
        "% server one
         + u cds a
         < one open
         > one open
         < one cds a node
         ~ 14s
         > one cds v=1 n=1 @!garbage
         < one cds a n=1 error=garbage
         ! u a none rejected
         ~ 1h
         > one cds v=2 n=2
         < one cds a v=2 n=2
         ~ 14s
         ~ 1s
         ! u a none missing",
    );
}

#[test]
fn a_resource_that_came_too_late_may_be_the_nameless_one() {
    // C-064, C-066
    for (words, wait, kind) in
        [("", "15s", "missing"), ("resource_timer_is_transient_error", "30s", "late")]
    {
        client(&format!(
            "% server one {words}
             + u eds a
             < one open
             > one open
             < one eds a node
             ~ {wait}
             ! u a none {kind}
             > one eds v=1 n=1 @!garbage
             < one eds a n=1 error=garbage
             ! u a none rejected
             > one eds v=1 n=2 @!other
             < one eds a n=2 error=other
             ! u a none rejected"
        ));
    }
}

#[test]
fn what_was_said_of_a_name_is_more_than_that_it_may_be_nameless() {
    // C-063, C-071
    client(
        "% server one
         + u eds a
         < one open
         + v eds b
         > one open
         < one eds a b node
         > one eds v=1 n=1 a@!bad !b=PERMISSION_DENIED @!garbage
         < one eds a b n=1 error=`a`: bad; garbage
         ! u a none rejected
         ! v b none PERMISSION_DENIED
         > one eds v=2 n=2 @!garbage
         < one eds a b n=2 error=garbage",
    );
}

#[test]
fn a_nameless_resource_is_no_reason_not_to_ask_another_server() {
    // C-064, C-087
    client(
        "% server one
         % server two
         + u cds a
         < one open
         + w cds *
         > one open
         < one cds * a node
         > one cds v=1 n=1 @!garbage
         < one cds * a n=1 error=garbage
         ! u a none rejected
         ! w * but rejected
         > one end
         ~ 1s
         < one open
         > one end refused
         < two open
         > two open
         < two cds * a node
         > two cds v=1 n=1 a@1
         < two cds * a v=1 n=1
         ! u a@1
         ! w * fine
         ! w a@1
         ! w complete",
    );
}

#[test]
fn polls_hear_of_nameless_resources() {
    // C-043, C-044, C-064
    client(
        "% server one refresh=5s
         + u cds a
         < one/cds open
         + w cds *
         > one/cds open
         < one cds * a node
         > one cds v=1 @!garbage
         ! u a none rejected
         ! w * but rejected
         ~ 5s
         < one cds * a node error=garbage
         > one cds v=2 a@1
         ! u a@1
         ! w * fine
         ! w a@1
         ! w complete",
    );
}
