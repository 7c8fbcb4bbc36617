//! A client where two things meet: errors and reconnects, fallback and silence, groups and names.
//!
//! Each test names the rows of the catalogue it proves. The language of the scripts is that of
//! [`chancery_testkit::script`].

use chancery_testkit::script::client;

#[test]
fn a_version_is_forgotten_with_the_resources_it_was_of() {
    // C-031, C-050: a server that takes the version for what the client has would say nothing
    client(
        "% server one
         + w cds *
         < one open
         > one open
         < one cds node
         > one cds v=1 n=1 a@1
         < one cds v=1 n=1
         ! w a@1
         ! w settled
         - w
         < one cds * v=1 n=1
         < one cds v=1 n=1
         ~ 5m
         < one close
         + w cds *
         < one open
         > one open
         < one cds node",
    );
}

#[test]
fn a_delta_stream_does_not_begin_with_what_something_is_wrong_with() {
    // C-040, C-047: if it is what the server has by now, it has to say so
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
         > one end
         ~ 1s
         < one open
         > one open
         < one cds +a node
         > one cds n=1 a@1
         < one cds n=1
         ! u a fine",
    );
}

#[test]
fn whoever_asks_again_and_again_does_not_connect_again_and_again() {
    // C-069
    client(
        "% server one
         + u eds a
         < one open
         > one end refused
         ! u a none unreachable
         - u
         + u eds a
         ! u a none unreachable
         - u
         ~ 10s
         + u eds a
         < one open
         ! u a none unreachable
         > one end refused
         ~ 1599ms
         ~ 1ms
         < one open
         - u
         ~ 1s
         > one end refused
         ~ 299s
         + u eds a
         < one open",
    );
}

#[test]
fn the_silence_of_a_server_that_is_not_believed_means_nothing() {
    // C-065, C-088
    client(
        "% server one
         % server two
         + u eds a
         < one open
         > one end refused
         < two open
         ~ 1s
         < one open
         > one open
         < one eds a node
         ~ 10s
         > two open
         < two eds a node
         ~ 14s
         > two eds v=1 n=1 a@1
         < two eds a v=1 n=1
         ! u a@1",
    );
}

#[test]
fn a_better_server_that_speaks_is_believed_when_the_worse_one_is_lost() {
    // C-089, C-090, C-065
    client(
        "% server one
         % server two
         + u eds a
         < one open
         > one end refused
         < two open
         > two open
         < two eds a node
         > two eds v=1 n=1 a@1
         < two eds a v=1 n=1
         ! u a@1
         ~ 1s
         < one open
         > one open
         < one eds a node
         > one eds v=1 n=1
         < one eds a v=1 n=1
         + w eds c
         < one eds a c v=1 n=1
         < two eds a c v=1 n=1
         ~ 1s
         > two end
         < two open
         > two end refused
         ~ 14s
         ~ 1s
         ! w c none missing",
    );
}

#[test]
fn what_nobody_asked_for_is_no_sign_of_life() {
    // C-035, C-067, C-069
    client(
        "% server one
         + w cds b
         < one open
         > one end refused
         ! w b none unreachable
         ~ 1s
         < one open
         > one open
         < one cds b node
         > one eds v=1 n=1 x@1
         > one end
         ~ 1599ms
         ~ 1ms
         < one open",
    );
}

#[test]
fn trouble_with_the_stream_of_one_type_is_not_that_of_another() {
    // C-042, C-067
    client(
        "% server one per-type
         + u cds a
         < one/cds open
         + v eds b
         < one/eds open
         > one/cds open
         < one cds a node
         > one cds v=1 n=1 a@1
         < one cds a v=1 n=1
         ! u a@1
         > one/eds end unimplemented
         ! v b none unreachable
         > one cds v=2 n=2 a@2
         < one cds a v=2 n=2
         ! u a@2
         + w eds b
         ! w b none unreachable",
    );
}

#[test]
fn an_authority_without_servers_is_nobody() {
    // C-011, C-053
    client(
        "% server one
         % authority a
         + w cds xdstp://a/envoy.config.cluster.v3.Cluster/x
         ! w - none authority",
    );
}
