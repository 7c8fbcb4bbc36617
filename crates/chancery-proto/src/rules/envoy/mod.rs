//! The rules that Envoy enforces in its code, and that no descriptor states.
//!
//! Each was found by asking an Envoy 1.40 (`--mode validate`), and a test asks it again: what is a
//! violation here is refused there. What Envoy accepts is no violation, however useless it is.
//!
//! Not here: the rules of the descriptors, and what depends on other resources or on Envoy's build.

mod addresses;
mod clusters;
mod durations;
mod extensions;
mod listeners;
mod regex;
mod routes;
mod tls;

pub(crate) use self::listeners::passes_requests_on;

use std::collections::HashMap;
use std::sync::LazyLock;

use prost_reflect::{DynamicMessage, Kind, ReflectMessage};

use super::name::RuleName;
use super::violation::Step;

/// The rules of one type of message.
pub(super) type EnvoyCheck = fn(&DynamicMessage, &mut Found<'_>);

/// A step below the message that is checked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Below {
    Field(&'static str),
    Index(usize),
}

use Below::{Field, Index};

/// A violation, before anybody knows whether it is described.
pub(super) struct Broken<'a> {
    pub(super) below: &'a [Below],
    pub(super) rule: RuleName,
    pub(super) describe: &'a dyn Fn() -> String,
}

/// The place for what is found in one message.
pub(super) struct Found<'a> {
    /// True if the message is a resource, and not a part of one.
    pub(super) is_resource: bool,
    pub(super) report: &'a mut dyn FnMut(Broken<'_>),
}

impl Found<'_> {
    fn broken(&mut self, below: &[Below], rule: RuleName, describe: impl Fn() -> String) {
        (self.report)(Broken { below, rule, describe: &describe });
    }

    fn says(&mut self, below: &[Below], rule: RuleName, sentence: &'static str) {
        self.broken(below, rule, || sentence.to_owned());
    }
}

/// The rules of a type of message, by its name.
pub(super) fn check_of(name: &str) -> Option<EnvoyCheck> {
    CHECKS.get(name).copied()
}

static CHECKS: LazyLock<HashMap<&str, EnvoyCheck>> = LazyLock::new(|| {
    let parts = [
        routes::CHECKS,
        clusters::CHECKS,
        listeners::CHECKS,
        addresses::CHECKS,
        durations::CHECKS,
        extensions::CHECKS,
        tls::CHECKS,
    ];
    parts.into_iter().flatten().copied().collect()
});

/// The checks of one file: the name of a message, and its rules.
type Checks = &'static [(&'static str, EnvoyCheck)];

/// The steps of a path below a message.
pub(super) fn steps(message: &DynamicMessage, below: &[Below]) -> Vec<Step> {
    let mut descriptor = Some(message.descriptor());
    let mut steps = Vec::new();
    for step in below {
        match step {
            Index(index) => steps.push(Step::Index(*index)),
            Field(name) => {
                let field = descriptor.and_then(|it| it.get_field_by_name(name));
                descriptor = match field.as_ref().map(prost_reflect::FieldDescriptor::kind) {
                    Some(Kind::Message(message)) => Some(message),
                    _ => None,
                };
                steps.extend(field.map(Step::Field));
            }
        }
    }
    steps
}
