//! Policies, and the verdict about a call.

use std::collections::BTreeMap;

use super::{ArrivedCall, Audit, Permission, Principal};
use crate::{Code, Failure};

/// The policies of a filter, and the meaning of a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rbac {
    action: RbacAction,
    policies: BTreeMap<Box<str>, RbacPolicy>,
    audit: Audit,
}

/// The meaning of a policy that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RbacAction {
    /// Calls that a policy matches are permitted, and no others.
    Allow,
    /// Calls that a policy matches are not permitted, and all others are.
    Deny,
    /// All calls are permitted: there are no rules, or they are for a log, which gRPC does not write.
    Ignore,
}

/// A role: what may be done, and who may do it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RbacPolicy {
    /// Conditions, one of which has to hold.
    pub permissions: Vec<Permission>,
    /// Conditions, one of which has to hold too.
    pub principals: Vec<Principal>,
}

/// The verdict about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// True if the call is permitted.
    pub is_permitted: bool,
    /// The policy that matched, if one did. It is for logs, and not for the peer.
    pub policy: Option<&'a str>,
}

impl Rbac {
    /// Takes policies by their names.
    pub fn new(
        action: RbacAction,
        policies: impl IntoIterator<Item = (Box<str>, RbacPolicy)>,
    ) -> Self {
        Self { action, policies: policies.into_iter().collect(), audit: Audit::default() }
    }

    /// Lets logs hear of the verdicts (gRFC A59).
    #[must_use]
    pub fn with_audit(self, audit: Audit) -> Self {
        Self { audit, ..self }
    }

    /// Decides about a call in the filter of this name, and tells the logs. Rules that permit all calls are not
    /// told.
    pub fn judge(&self, filter: &str, call: &ArrivedCall<'_>) -> Verdict<'_> {
        let verdict = self.check(call);
        if self.action != RbacAction::Ignore {
            self.audit.tell(filter, call, &verdict);
        }
        verdict
    }

    /// Decides about a call. Of several policies that match, the first by name is told.
    pub fn check(&self, call: &ArrivedCall<'_>) -> Verdict<'_> {
        if self.action == RbacAction::Ignore {
            return Verdict { is_permitted: true, policy: None };
        }
        let matching = self.policies.iter().find(|(_, policy)| policy.matches(call));
        let policy = matching.map(|(name, _)| &**name);
        Verdict { is_permitted: policy.is_some() == (self.action == RbacAction::Allow), policy }
    }
}

impl RbacPolicy {
    fn matches(&self, call: &ArrivedCall<'_>) -> bool {
        self.permissions.iter().any(|permission| permission.matches(call))
            && self.principals.iter().any(|principal| principal.matches(call))
    }
}

impl Verdict<'_> {
    /// The status of a call that is not permitted. It does not say why: the policies are not the peer's
    /// business.
    pub fn failure(&self) -> Option<Failure> {
        let message = "the server's policy does not permit the call";
        (!self.is_permitted).then(|| Failure::new(Code::PermissionDenied, message))
    }
}
