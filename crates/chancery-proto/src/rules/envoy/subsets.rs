//! Subsets of the hosts of a cluster.

use std::collections::BTreeSet;

use prost_reflect::{DynamicMessage, Value};

use super::Below::Field;
use super::{Checks, Found};
use crate::rules::name::RuleName;
use crate::walk::{texts_in, value_in};

pub(super) const CHECKS: Checks =
    &[("envoy.config.cluster.v3.Cluster.LbSubsetConfig.LbSubsetSelector", selector)];

/// The fallback to fewer keys, as in `LbSubsetSelectorFallbackPolicy`.
const KEYS_SUBSET: i32 = 4;

fn selector(selector: &DynamicMessage, found: &mut Found<'_>) {
    let policy = value_in(selector, "fallback_policy").and_then(Value::as_enum_number);
    let texts = |field| texts_in(selector, field).collect::<BTreeSet<_>>();
    let (keys, fewer) = (texts("keys"), texts("fallback_keys_subset"));
    if keys.is_empty() {
        return;
    }
    let sentence = match policy == Some(KEYS_SUBSET) {
        true if fewer.is_empty() => "must not be empty, because `fallback_policy` is `KEYS_SUBSET`",
        true if fewer == keys => "must not be all `keys`",
        true if !fewer.is_subset(&keys) => "must be some of the `keys`",
        false if !fewer.is_empty() => "must be left out unless `fallback_policy` is `KEYS_SUBSET`",
        _ => return,
    };
    found.says(&[Field("fallback_keys_subset")], RuleName::SUBSET, sentence);
}
