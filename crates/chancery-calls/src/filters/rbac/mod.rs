//! RBAC on servers (C-129): who may make which call.
//!
//! ```text
//!   Rbac -> RbacPolicy -> Permission   what the call is about
//!                      -> Principal    who makes it
//!        -> Audit                      who hears of the verdict
//! ```
//!
//! A policy matches a call that one of its permissions and one of its principals match. Not here: how
//! certificates are read, and policies with CEL conditions, which readers reject.

mod audit;
mod call;
mod header;
mod permission;
mod policy;
mod principal;

pub use audit::{Audit, AuditCondition, AuditEvent, AuditLogger};
pub use call::{ArrivedCall, PeerCertificate, PeerIdentity};
pub use header::{ForbiddenHeader, RbacHeader};
pub use permission::Permission;
pub use policy::{Rbac, RbacAction, RbacPolicy, Verdict};
pub use principal::Principal;
