//! Secrets in resources of any type: a stranger is refused, and nothing is left out of what it is
//! sent (S-137).
//!
//! Not here: resources of SDS, which are answered with an error each (`sotw.rs`).

use chancery_testkit::script::{delta, sotw};

const WHY: &str = "holds a secret, which is sent only over mutual TLS, a Unix socket or loopback, \
                   unless `secrets-anywhere` is set";

/// Puts the end of the refusal where a script says `WHY`.
fn told(script: &str) -> String {
    script.replace("WHY", WHY)
}

const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const LDS: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";

#[test]
fn a_stranger_that_asks_for_all_clusters_is_refused_because_of_one() {
    // S-137, S-056: a state without `s` would delete it
    for ask in ["cds", "cds *"] {
        sotw(&told(&format!(
            "% secrets=off
             = cds a@1 s@1(secret)
             > {ask}
             ! closed `s` of `{CDS}` WHY"
        )));
    }
    for ask in ["cds", "cds +*", "cds +* +a"] {
        delta(&told(&format!(
            "% secrets=off
             = cds a@1 s@1(secret)
             > {ask}
             ! closed `s` of `{CDS}` WHY"
        )));
    }
}

#[test]
fn a_stranger_is_given_whatever_it_names_but_the_secret() {
    // S-137
    sotw(&told(&format!(
        "% secrets=off
         = cds a@1 b@1 s@1(secret)
         > cds a
         < cds v=1 n=1 a@1
         > cds ack
         > cds a b n=1 v=1
         < cds v=1 n=2 a@1 b@1
         > cds a b s n=2 v=1
         ! closed `s` of `{CDS}` WHY"
    )));
    delta(&told(&format!(
        "% secrets=off
         = eds a@1; cds a@1 s@1(secret)
         > cds +a
         < cds n=1 a@1
         > cds ack
         > eds +a
         < eds n=2 a@1
         > cds +s
         ! closed `s` of `{CDS}` WHY"
    )));
}

#[test]
fn a_secret_is_refused_under_an_alias_a_host_and_in_a_collection() {
    // S-137, S-091, S-092, S-117
    let host = "type.googleapis.com/envoy.config.route.v3.VirtualHost";
    delta(&told(&format!(
        "% secrets=off
         = cds s@1(secret,alias=other)
         > cds +other
         ! closed `s` of `{CDS}` WHY"
    )));
    delta(&told(&format!(
        "% secrets=off
         = vhds r/s@1(secret,host=*.x.com)
         > vhds +r/a.x.com
         ! closed `r/s` of `{host}` WHY"
    )));
    let member = "xdstp://x/envoy.config.cluster.v3.Cluster/e";
    delta(&told(&format!(
        "% secrets=off
         = cds {member}/a@1 {member}/s@1(secret)
         > cds +{member}/*
         ! closed `{member}/s` of `{CDS}` WHY"
    )));
}

#[test]
fn an_edit_that_puts_a_secret_into_a_resource_ends_the_streams_of_strangers() {
    // S-137
    sotw(&told(&format!(
        "% secrets=off
         = lds a@1 l@1
         > lds
         < lds v=1 n=1 a@1 l@1
         > lds ack
         = lds l@2(secret)
         ! closed `l` of `{LDS}` WHY
         ---
         > lds
         ! closed `l` of `{LDS}` WHY
         ---
         = lds l@3
         > lds
         < lds v=2 n=1 a@1 l@3"
    )));
    delta(&told(&format!(
        "% secrets=off
         = lds a@1 l@1
         > lds
         < lds n=1 a@1 l@1
         > lds ack
         = lds l@2(secret)
         ! closed `l` of `{LDS}` WHY"
    )));
}

#[test]
fn a_secret_that_the_stranger_did_not_ask_for_is_nothing_to_it() {
    // S-137: another type, another name
    sotw(
        "% secrets=off
         = cds a@1; lds l@1(secret)
         > cds
         < cds v=1 n=1 a@1
         > cds ack
         = lds l@2(secret)
         ~ 1m",
    );
    delta(
        "% secrets=off
         = cds a@1 s@1(secret)
         > cds +a
         < cds n=1 a@1
         > cds ack
         = cds s@2(secret) a@2
         < cds n=2 a@2",
    );
}

#[test]
fn an_unsubscribed_secret_ends_nothing() {
    // S-137: the name is taken back before there is anything under it
    delta(
        "% secrets=off
         = cds a@1
         > cds +a +s
         < cds n=1 a@1 -s !s=NOT_FOUND
         > cds ack
         > cds -s
         = cds s@1(secret)
         ~ 1m",
    );
}

#[test]
fn a_client_that_may_have_secrets_gets_them_in_any_type() {
    // S-137
    sotw(
        "= cds a@1 s@1(secret)
         > cds
         < cds v=1 n=1 a@1 s@1",
    );
    delta(
        "= cds a@1 s@1(secret)
         > cds
         < cds n=1 a@1 s@1",
    );
}

#[test]
fn a_secret_in_an_extension_is_a_secret() {
    // S-137: ECDS and unknown types follow the same rule
    let ecds = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig";
    sotw(&told(&format!(
        "% secrets=off
         = ecds e@1(secret)
         > ecds e
         ! closed `e` of `{ecds}` WHY"
    )));
}
