//! The clusters to which a route leads, by one name or by weights (C-098). Not here: plugins that choose a cluster.

use prost_reflect::{DynamicMessage, Value};

use super::{ALL, CORE, Findings, GO, Side, overrides};
use crate::walk::{message_in, messages_in, text_in, value_in};

/// Adds what is found in the clusters of an action.
pub(super) fn lint(at: &str, action: &DynamicMessage, side: Side, found: &mut Findings) {
    if action.has_field_by_name("cluster") && text_in(action, "cluster").is_empty() {
        found.rejected(CORE, format!("{at}.cluster"), "must not be empty");
    }
    let Some(weighted) = message_in(action, "weighted_clusters") else { return };
    let mut total = 0;
    for (index, cluster) in messages_in(weighted, "clusters").enumerate() {
        let path = format!("{at}.weighted_clusters.clusters[{index}]");
        let weight = message_in(cluster, "weight").and_then(|it| value_in(it, "value"));
        let weight = weight.and_then(Value::as_u32).unwrap_or_default();
        total += u64::from(weight);
        if text_in(cluster, "name").is_empty() {
            let why = match text_in(cluster, "cluster_header") {
                "" => "must not be empty",
                _ => "must be set: a cluster cannot come from a header",
            };
            found.rejected(CORE, format!("{path}.name"), why);
        }
        // gRPC Go does not look at a cluster of no weight.
        if weight == 0 {
            found.sparing(GO, |found| overrides::lint(&path, cluster, side, found));
        } else {
            overrides::lint(&path, cluster, side, found);
        }
    }
    let path = format!("{at}.weighted_clusters");
    if total == 0 {
        found.rejected(ALL, path, "the weights add up to 0");
    } else if total > u64::from(u32::MAX) {
        let why = format!("the weights add up to {total}, and to more than {}", u32::MAX);
        found.rejected(ALL, path, &why);
    }
}
