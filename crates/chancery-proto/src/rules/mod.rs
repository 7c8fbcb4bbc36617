//! The rules of the messages: what Envoy's API says a field must be, read from the descriptors.
//!
//! Envoy states rules of its messages as options of [protoc-gen-validate] (`min_len`, `gt`,
//! `required`, `defined_only` …), and rejects a resource that breaks one. [`Rules`] checks all of
//! them, in Envoy's messages and in those of a user, with the meaning that the Go and C++ code of
//! protoc-gen-validate has; a differential test holds it against the Go code.
//!
//! ```text
//!   options of the pool --options, plan--> plans --walk(message)--> Violations
//! ```
//!
//! The plans are made once for a [`Schema`](crate::Schema), when somebody checks first, and checking
//! takes no lock. A check finds every violation, through lists, maps, oneofs, wrappers and each `Any`
//! of a known type, in one walk whose cost is that of the message. It never shows a text or the value
//! of a sensitive field.
//!
//! If versions of Envoy are named for which a resource is, what they do not know is found in the same way, and
//! has names of rules too (`versions`).
//!
//! Deprecated fields and values are told as well: as violations where Envoy refuses them by default, and
//! as warnings where it does not.
//!
//! ```
//! use chancery_proto::Schema;
//! use chancery_proto::rules::Depth;
//! use prost_reflect::DynamicMessage;
//!
//! let schema = Schema::bundled();
//! let cluster = schema.message("envoy.config.cluster.v3.Cluster").expect("it is built in");
//! let found = schema.rules().check(&DynamicMessage::new(cluster), Depth::Whole);
//! assert_eq!(found.first[0].to_string(), "name: must not be empty");
//! assert_eq!(found.first[0].rule.code(), "rule/string-min-len");
//! ```
//!
//! Envoy has rules in its code that no descriptor states, as that a domain is there once; those that were
//! found by asking it are checked as well (`envoy`).
//!
//! Not here: who rejects what (`chancery check` and others decide), and where a violation stands in a
//! file ([`crate::document`]).
//!
//! [protoc-gen-validate]: https://github.com/bufbuild/protoc-gen-validate

mod check;
mod deprecation;
mod envoy;
mod fields;
mod formats;
mod lengths;
mod limits;
mod name;
mod options;
mod pattern;
mod place;
mod plan;
mod text;
mod unique;
mod versions;
mod violation;
mod walk;

#[cfg(test)]
mod tests;

use std::fmt;

use chancery_core::re2::{self, Alphabet, PatternFault};
use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage};

pub(crate) use self::envoy::passes_requests_on;
pub use self::name::RuleName;
pub(crate) use self::pattern::compile_whole;
pub(crate) use self::place::key_text;
use self::plan::Plans;
use self::versions::VersionWalk;
pub(crate) use self::violation::Step;
pub use self::violation::Violation;
use self::walk::RuleWalk;
use crate::clients::Clients;
use crate::syntax::MAX_FAULTS;

/// The rules of all messages of a [`Schema`](crate::Schema).
pub struct Rules {
    plans: Plans,
}

/// The depth of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// The message, and what is in each `Any` of a known type. Envoy checks the content of an `Any`
    /// when it opens it.
    #[default]
    Whole,
    /// The message alone, as the generated code of protoc-gen-validate looks at it.
    Own,
}

/// The violations of one message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Violations {
    /// The first violations, [`MAX_VIOLATIONS`] at most.
    pub first: Vec<Violation>,
    /// The number of the others.
    pub more: usize,
    /// The first uses of what is deprecated and still accepted, [`MAX_VIOLATIONS`] at most.
    pub warnings: Vec<Violation>,
    /// The number of the other ones.
    pub more_warnings: usize,
}

/// Returns true for a pattern that the RE2 of gRPC can parse, which has no bound on sets of Unicode.
pub(crate) fn is_pattern(pattern: &str) -> bool {
    matches!(re2::translated(pattern, Alphabet::Unicode), Ok(_) | Err(PatternFault::TooLarge))
}

/// The number of violations of one message that are described.
pub const MAX_VIOLATIONS: usize = MAX_FAULTS;

/// A rule that this engine cannot enforce, which only a descriptor set of a user can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedRule {
    /// The full name of the field.
    pub field: String,
    /// The rule.
    pub rule: String,
}

impl Rules {
    /// Reads the rules of all messages of a pool.
    pub(crate) fn new(pool: &DescriptorPool) -> Self {
        Self { plans: Plans::new(pool) }
    }

    /// Finds everything in a message that breaks a rule.
    pub fn check(&self, message: &DynamicMessage, depth: Depth) -> Violations {
        self.check_first(message, depth, MAX_VIOLATIONS)
    }

    /// The same, with so many violations described. The others are counted.
    pub(crate) fn check_first(
        &self,
        message: &DynamicMessage,
        depth: Depth,
        most: usize,
    ) -> Violations {
        self.check_first_for(message, depth, (most, false))
    }

    /// The same of a message that no Envoy gets, but for what Envoy says of load balancing policies: gRPC has
    /// others.
    pub(crate) fn check_first_of_grpc(&self, message: &DynamicMessage, most: usize) -> Violations {
        self.check_first_for(message, Depth::Whole, (most, true))
    }

    fn check_first_for(
        &self,
        message: &DynamicMessage,
        depth: Depth,
        how: (usize, bool),
    ) -> Violations {
        match self.plans.of(message.descriptor().full_name()) {
            Some(plan) => RuleWalk::check(&self.plans, depth, message, plan, how),
            None => Violations::default(),
        }
    }

    /// Finds everything in a message that versions of Envoy do not know which are among the clients.
    pub fn check_versions(&self, message: &DynamicMessage, clients: Clients) -> Violations {
        self.check_first_versions(message, clients, MAX_VIOLATIONS)
    }

    /// The same, with so many violations described. The others are counted.
    pub(crate) fn check_first_versions(
        &self,
        message: &DynamicMessage,
        clients: Clients,
        most: usize,
    ) -> Violations {
        VersionWalk::check(&self.plans, message, clients, most)
    }

    /// The rules that are not enforced. There are none in the bundled descriptors.
    pub fn unsupported(&self) -> Vec<UnsupportedRule> {
        let all = self.plans.unsupported.iter();
        all.map(|(field, rule)| UnsupportedRule { field: field.clone(), rule: rule.clone() })
            .collect()
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rules({} messages)", self.plans.all.len())
    }
}

impl fmt::Display for UnsupportedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the rule of `{}` is not checked: {}", self.field, self.rule)
    }
}

impl Violations {
    /// The number of all violations, without the warnings.
    pub fn count(&self) -> usize {
        self.first.len() + self.more
    }

    /// Adds those of another check of the same message.
    pub(crate) fn add(&mut self, other: Self) {
        self.first.extend(other.first);
        self.more += other.more;
        self.warnings.extend(other.warnings);
        self.more_warnings += other.more_warnings;
    }

    /// Returns true if there are none. There may be warnings.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }
}
