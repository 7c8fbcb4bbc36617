//! Resources that are made of another one: the rules that the new message has to keep, and what stays of the
//! old one.
//!
//! Not here: what differs in the message (`patch`, `values`).

use std::sync::Arc;

use chancery_core::{Resource, ResourceName, TypeUrl};
use prost_reflect::DynamicMessage;

use crate::document::{Checks, RuleCheck};
use crate::lint;
use crate::resource::{ResourceError, Wrapper, resource};
use crate::rules::{Depth, Violation};
use crate::schema::Schema;

/// The first rule that a message breaks.
pub(crate) struct Broken {
    /// The path of the field at fault.
    pub(crate) path: String,
    /// The rule in a sentence, and a few of the others with their paths.
    pub(crate) sentence: String,
    /// The number of violations that are not told.
    pub(crate) more: usize,
}

/// Checks the rules that a file with this message would have to keep, where they are faults.
pub(crate) fn check(
    schema: &Schema,
    type_url: &TypeUrl,
    checks: Checks,
    message: &DynamicMessage,
) -> Result<(), Broken> {
    let Checks { rules, clients } = checks;
    let is_only = lint::is_only_for_grpc(type_url, message);
    if rules == RuleCheck::Fault && clients.rejects_with_grpc(is_only) {
        let mut found = lint::grpc_findings(type_url, message).into_iter();
        if let Some(found) = found.find(|finding| finding.is_rejected_by_all) {
            let lint::Warning { path, text: sentence, .. } = found.warning;
            return Err(Broken { path, sentence, more: 0 });
        }
    }
    let is_for_envoy = clients.has_envoy() && !is_only;
    if rules != RuleCheck::Fault || !is_for_envoy {
        return Ok(());
    }
    let mut found = schema.rules().check_first(message, Depth::Whole, MOST_TOLD);
    found.add(schema.rules().check_first_versions(message, clients, MOST_TOLD));
    let more = found.count().saturating_sub(MOST_TOLD);
    let mut first = found.first.into_iter().take(MOST_TOLD);
    let Some(Violation { path, message: mut sentence, .. }) = first.next() else { return Ok(()) };
    for Violation { path, message, .. } in first {
        sentence += &format!("; `{path}` {message}");
    }
    Err(Broken { path, sentence, more })
}

/// The broken rules that are told. Who sees one alone repairs them one after the other.
const MOST_TOLD: usize = 4;

/// The resource with this message, and with the TTL and the aliases of the one that it is made of.
pub(crate) fn remade(
    type_url: &TypeUrl,
    name: &ResourceName,
    of: &Resource,
    message: &DynamicMessage,
) -> Result<Arc<Resource>, ResourceError> {
    let wrapper = Wrapper {
        name: Some(name.as_str().to_owned()),
        ttl: of.ttl(),
        aliases: of.aliases().iter().map(|alias| alias.as_str().to_owned()).collect(),
    };
    resource(type_url, message, wrapper).map(Arc::new)
}
