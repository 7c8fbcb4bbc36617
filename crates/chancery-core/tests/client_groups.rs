//! Groups that a client watches: everything of a type, and the collections of an authority.
//!
//! Each test names the rules it proves (`docs/rules`). The language of the scripts is that of
//! [`chancery_testkit::script`].

use chancery_testkit::script::client;

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
         ! w complete
         > one cds v=2 n=2 b@2 c@1
         < one cds v=2 n=2
         ! w a none missing
         ! w b@2
         ! w c@1
         + x cds *
         ! x b@2
         ! x c@1
         ! x complete",
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
         ! w complete",
    );
}

#[test]
fn a_collection_is_not_asked_for_over_state_of_the_world() {
    // C-027
    client(
        "% server one
         % authority a one
         + w cds xdstp://a/envoy.config.cluster.v3.Cluster/edge/*
         ! w - none name",
    );
    client(
        "% server one refresh=5s
         % authority a one
         + w cds xdstp://a/envoy.config.cluster.v3.Cluster/edge/*
         < one/cds open",
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
         ! w complete
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
         ! w complete",
    );
}

#[test]
fn a_member_of_everything_that_is_under_an_authority_has_its_time_to_live() {
    // C-045
    client(
        "% server one delta
         % authority a one
         + w cds *
         < one open
         > one open
         < one cds node
         > one cds n=1 xdstp://a/envoy.config.cluster.v3.Cluster/x@1(ttl=10s)
         < one cds n=1
         ! w xdstp://a/envoy.config.cluster.v3.Cluster/x@1
         ! w complete
         ~ 10s
         ! w xdstp://a/envoy.config.cluster.v3.Cluster/x none missing",
    );
}

#[test]
fn everything_begins_with_what_is_held_by_name() {
    // C-041, C-048: a delta server does not send again what the client has
    client(
        "% server one delta
         + u cds a
         < one open
         > one open
         < one cds +a node
         > one cds n=1 a@1
         < one cds n=1
         ! u a@1
         + w cds *
         < one cds +*
         ! w a@1
         > one cds n=2 b@1
         < one cds n=2
         ! w b@1
         ! w complete
         > one cds n=3 -a
         < one cds n=3
         ! u a but missing
         ! w a none missing",
    );
}

#[test]
fn a_collection_begins_with_what_is_held_by_name() {
    // C-041, C-048
    client(
        "% server one delta
         % authority a one
         + u cds xdstp://a/envoy.config.cluster.v3.Cluster/edge/x
         < one open
         + v cds xdstp://a/envoy.config.cluster.v3.Cluster/other/x
         > one open
         < one cds +xdstp://a/envoy.config.cluster.v3.Cluster/edge/x +xdstp://a/envoy.config.cluster.v3.Cluster/other/x node
         > one cds n=1 xdstp://a/envoy.config.cluster.v3.Cluster/edge/x@1 xdstp://a/envoy.config.cluster.v3.Cluster/other/x@1
         < one cds n=1
         ! u xdstp://a/envoy.config.cluster.v3.Cluster/edge/x@1
         ! v xdstp://a/envoy.config.cluster.v3.Cluster/other/x@1
         + w cds xdstp://a/envoy.config.cluster.v3.Cluster/edge/*
         < one cds +xdstp://a/envoy.config.cluster.v3.Cluster/edge/*
         ! w xdstp://a/envoy.config.cluster.v3.Cluster/edge/x@1",
    );
}

#[test]
fn a_member_that_was_never_good_goes_with_its_absence() {
    // C-056
    client(
        "% server one
         + w cds *
         < one open
         > one open
         < one cds node
         > one cds v=1 n=1 a@1 b@!bad
         < one cds n=1 error=`b`: bad
         ! w a@1
         ! w b none rejected
         ! w complete
         > one cds v=2 n=2 a@1
         < one cds v=2 n=2
         + x cds *
         ! x a@1
         ! x complete",
    );
}

#[test]
fn a_group_hears_why_it_is_not_given() {
    // C-071
    client(
        "% server one
         + w cds *
         < one open
         > one open
         < one cds node
         > one cds v=1 n=1 !*=PERMISSION_DENIED
         < one cds v=1 n=1
         ! w * but PERMISSION_DENIED
         ! w complete
         + x cds *
         ! x * but PERMISSION_DENIED
         ! x complete
         > one cds v=2 n=2 a@1
         < one cds v=2 n=2
         ! w * fine
         ! w a@1
         ! x * fine
         ! x a@1",
    );
}

#[test]
fn a_group_hears_of_a_resource_once_whatever_its_aliases() {
    // C-041
    client(
        "% server one delta
         + u vhds r/www
         < one open
         + w vhds *
         > one open
         < one vhds +* +r/www node
         > one vhds n=1 r/www.example.com@1(alias=r/www)
         < one vhds n=1
         ! u r/www@1
         ! w r/www.example.com@1
         ! w complete",
    );
}

/// C-071, C-056: who watches everything hears that it is gone, as of what is absent.
#[test]
fn a_member_that_is_not_found_is_one_no_more() {
    client(
        "% server one
         + u cds a
         < one open
         + w cds *
         > one open
         < one cds * a node
         > one cds v=1 n=1 a@1
         < one cds * a v=1 n=1
         ! u a@1
         ! w a@1
         ! w complete
         > one cds v=2 n=2 !a=NOT_FOUND
         < one cds * a v=2 n=2
         ! u a but NOT_FOUND
         ! w a none missing",
    );
}

/// C-040, C-041: a server says that a member is gone to whoever claims to have it.
#[test]
fn a_member_that_cannot_be_claimed_is_claimed_without_a_version() {
    client(
        "% server one delta
         % authority a one
         + w eds xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/*
         < one open
         > one open
         < one eds +xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/* node
         > one eds n=1 xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x@1
         < one eds n=1
         ! w xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x@1
         ! w complete
         > one eds n=2 xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x@!bad
         < one eds n=2 error=`xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x`: bad
         ! w xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x but rejected
         > one end age
         ~ 1s
         < one open
         > one open
         < one eds +xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/* init=xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x: node
         > one eds n=1 -xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x
         < one eds n=1
         ! w xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x none missing",
    );
}

#[test]
fn what_its_server_has_taken_away_is_no_member() {
    // C-041, C-048: who watches it by its name goes on with it
    client(
        "% server one delta
         + u cds a
         < one open
         > one open
         < one cds +a node
         > one cds n=1 a@1
         < one cds n=1
         ! u a@1
         > one cds n=2 -a
         < one cds n=2
         ! u a but missing
         + w cds *
         < one cds +*
         > one cds n=3 b@1
         < one cds n=3
         ! w b@1
         ! w complete",
    );
}

#[test]
fn a_group_that_comes_in_parts_is_complete_with_the_last() {
    // S-110, C-065: each part has the time of an answer, and a part alone is no answer
    let script = |variant: &str, answers: [&str; 5]| {
        let [asked, first, second, third, fourth] = answers;
        client(&format!(
            "% server one{variant}
             + w eds *
             < one open
             > one open
             < one eds {asked} node
             > one eds v=1~part n=1 a@1
             < one eds {first} n=1
             ! w a@1
             ~ 14s
             > one eds v=1~part n=2 b@1
             < one eds {second} n=2
             ! w b@1
             ~ 14s
             > one eds v=1 n=3 c@1
             < one eds {third} n=3
             ! w c@1
             ! w complete
             > one eds v=2~part n=4 d@1
             < one eds {fourth} n=4
             ! w d@1
             ~ 1m"
        ));
    };
    script("", ["*", "* v=1~part", "* v=1~part", "* v=1", "* v=2~part"]);
    script(" delta", ["+*", "", "", "", ""]);
}

#[test]
fn a_group_of_which_only_a_part_came_is_not_taken_for_whole() {
    // S-110, C-065
    client(
        "% server one delta
         + w cds *
         < one open
         > one open
         < one cds node
         > one cds v=1~part n=1 a@1
         < one cds n=1
         ! w a@1
         ~ 15s
         ! w * but late
         ! w complete
         > one cds v=1 n=2 b@1
         < one cds n=2
         ! w * fine
         ! w b@1",
    );
}
