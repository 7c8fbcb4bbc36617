//! The audit of verdicts (gRFC A59): which of them are told, and to whom. Not here: how a log is written.

use std::fmt::Debug;
use std::sync::Arc;

use super::{ArrivedCall, PeerIdentity, Verdict};

/// The verdicts of a filter that are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditCondition {
    /// None.
    #[default]
    Never,
    /// Those about calls that are not permitted.
    Denied,
    /// Those about calls that are permitted.
    Permitted,
    /// All.
    Always,
}

/// A log of verdicts.
pub trait AuditLogger: Debug + Send + Sync + 'static {
    /// Takes a verdict. It is called on the way of a call, and must not block.
    fn log(&self, event: &AuditEvent<'_>);
}

/// A verdict about a call, as a log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditEvent<'a> {
    /// The path of the method, as `/orders.v1.Orders/Get`.
    pub method: &'a str,
    /// The SPIFFE ID in the certificate of the peer; empty if it has none.
    pub principal: &'a str,
    /// The name of the filter.
    pub filter: &'a str,
    /// The policy that matched; empty if none did.
    pub policy: &'a str,
    /// True if the filter lets the call pass. One after it may not.
    pub is_permitted: bool,
}

/// The logs of a filter.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    /// The verdicts that they are told.
    pub condition: AuditCondition,
    /// The logs.
    pub loggers: Vec<Arc<dyn AuditLogger>>,
}

impl Audit {
    /// Tells the logs of a verdict of the filter of this name, if they are to hear of it.
    pub(super) fn tell(&self, filter: &str, call: &ArrivedCall<'_>, verdict: &Verdict<'_>) {
        let is_wanted = match self.condition {
            AuditCondition::Never => false,
            AuditCondition::Denied => !verdict.is_permitted,
            AuditCondition::Permitted => verdict.is_permitted,
            AuditCondition::Always => true,
        };
        if !is_wanted {
            return;
        }
        let event = AuditEvent {
            method: call.path,
            principal: spiffe_id(&call.identity).unwrap_or_default(),
            filter,
            policy: verdict.policy.unwrap_or_default(),
            is_permitted: verdict.is_permitted,
        };
        self.loggers.iter().for_each(|logger| logger.log(&event));
    }
}

fn spiffe_id<'a>(identity: &PeerIdentity<'a>) -> Option<&'a str> {
    let PeerIdentity::Tls(Some(certificate)) = identity else { return None };
    certificate.uris.iter().map(String::as_str).find(|uri| uri.starts_with("spiffe://"))
}

/// Logs are equal if they are the same.
impl PartialEq for Audit {
    fn eq(&self, other: &Self) -> bool {
        let mut pairs = self.loggers.iter().zip(&other.loggers);
        self.condition == other.condition
            && self.loggers.len() == other.loggers.len()
            && pairs.all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

impl Eq for Audit {}
