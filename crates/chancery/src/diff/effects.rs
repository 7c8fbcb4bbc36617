//! The things that clients do about a change, as far as they are known: each sentence has its row in
//! `docs/rules`.

use super::change::Change;

/// The consequences of a change.
pub(super) fn of(change: &Change) -> &'static [&'static str] {
    match (change.key.type_url.short(), &change.before, &change.after) {
        // S-099.
        ("cds", _, Some(after)) if has_endpoint_set(after) => {
            &["Envoy warms the cluster until its endpoints come"]
        }
        // C-145.
        ("lds", Some(_), Some(_)) => {
            &["gRPC servers drain the connections of the listener, 10 minutes by default"]
        }
        // C-145 and S-097.
        ("rds", Some(_), Some(_)) => {
            &["gRPC servers drain no connections for it, and Envoy does not warm routes"]
        }
        // C-120.
        ("eds", Some(_), Some(_)) => {
            &["gRPC clients keep connections to endpoints that stay, and drain those that go"]
        }
        _ => &[],
    }
}

fn has_endpoint_set(cluster: &chancery_core::Resource) -> bool {
    cluster.facts().links.iter().any(|link| link.type_url.short() == "eds")
}
