//! The walk over a message that finds what versions of Envoy do not know.
//!
//! Envoy 1.36 and 1.40 were asked, and a test asks them again: a field that an Envoy does not know is
//! ignored and counted, and all that stands in it. If it is the one field of a oneof that must be set, the
//! message is refused, and so is one with a value of an enum that is not defined. An extension that is not
//! in the Envoy, or whose type it does not know, is refused, unless it is said to be optional; of load
//! balancing policies the first that is known is taken. An `Any` that is no extension is opened by nobody.
//!
//! Not here: the data ([`crate::clients`]).

use chancery_core::TypeUrl;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage, Value,
};

use super::check::Check;
use super::name::RuleName;
use super::place::{Place, PlaceStep};
use super::plan::{FieldPlan, MessagePlan, OneofPlan, Plans, Shape, TAKES_FIRST};
use super::violation::{Violation, path_text};
use super::{MAX_VIOLATIONS, Violations};
use crate::any;
use crate::clients::{Clients, Table, Versions};
use crate::walk::{message_in, messages_in, value_in};

/// The walk over one message.
pub(super) struct VersionWalk<'r> {
    plans: &'r Plans,
    table: &'static Table,
    wanted: Versions,
    most: usize,
    found: Violations,
}

/// The number of messages in each other to which the walk goes.
const MAX_MESSAGES: usize = any::MAX_DEPTH + 100;

impl<'r> VersionWalk<'r> {
    /// Finds what the versions of these clients do not know. So many violations are described at most.
    pub(super) fn check(
        plans: &'r Plans,
        message: &DynamicMessage,
        clients: Clients,
        most: usize,
    ) -> Violations {
        let (table, wanted) = (Table::known(), clients.versions());
        let mut walk = Self { plans, table, wanted, most, found: Violations::default() };
        if !wanted.is_none() {
            let root = Place { around: None, step: PlaceStep::Root, owner: message, field: None };
            walk.message(message, &root, 0);
        }
        walk.found
    }

    fn message(&mut self, message: &DynamicMessage, at: &Place<'_>, depth: usize) {
        if depth >= MAX_MESSAGES {
            return;
        }
        if any::is_any(&message.descriptor()) {
            if let Some(content) = any::open(message) {
                let at = Place { around: Some(at), step: PlaceStep::Content, ..*at };
                self.message(&content, &at, depth + 1);
            }
            return;
        }
        let descriptor = message.descriptor();
        let parts = self.table.parts_of(descriptor.full_name());
        for (field, value) in message.fields() {
            let step = PlaceStep::Field(&field);
            let at = Place { around: Some(at), step, owner: message, field: Some(&field) };
            let part = parts.iter().find(|(name, _)| *name == field.name());
            if let Some((_, has)) = part.filter(|(_, has)| self.is_lacked(*has)) {
                self.unknown_field(&descriptor, &field, *has, &at);
                continue;
            }
            self.extensions(message, &field, value, &at);
            self.values(&descriptor, &field, value, &at, depth);
        }
    }

    fn values(
        &mut self,
        within: &MessageDescriptor,
        field: &FieldDescriptor,
        value: &Value,
        at: &Place<'_>,
        depth: usize,
    ) {
        match value {
            Value::Message(message) => self.message(message, at, depth + 1),
            Value::EnumNumber(number) => self.enum_value(within, field, *number, at),
            Value::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    let at = Place { around: Some(at), step: PlaceStep::Index(index), ..*at };
                    self.values(within, field, item, &at, depth);
                    // Nobody opens those behind the first one.
                    if field.full_name() == TAKES_FIRST[0] {
                        break;
                    }
                }
            }
            Value::Map(entries) => {
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                for (key, value) in entries {
                    let at = Place { around: Some(at), step: PlaceStep::Key(key), ..*at };
                    if let Value::Message(message) = value {
                        self.message(message, &at, depth + 1);
                    }
                }
            }
            _ => {}
        }
    }

    fn unknown_field(
        &mut self,
        within: &MessageDescriptor,
        field: &FieldDescriptor,
        has: Versions,
        at: &Place<'_>,
    ) {
        let lacking = self.wanted.without(has);
        let oneof = self.plan(within).and_then(|plan| {
            let mut required = plan.oneofs.iter();
            required.find(|oneof| oneof.fields.iter().any(|known| known == field))
        });
        let envoy = self.unknown_to(lacking, has);
        match oneof {
            Some(OneofPlan { name, .. }) => self.report(at, RuleName::VERSION_ONEOF, || {
                format!("{envoy}; what lacks a `{name}` without it is rejected")
            }),
            None => {
                self.report(at, RuleName::VERSION_FIELD, || format!("{envoy}, and so ignored"));
            }
        }
    }

    fn enum_value(
        &mut self,
        within: &MessageDescriptor,
        field: &FieldDescriptor,
        number: i32,
        at: &Place<'_>,
    ) {
        let kind = field.kind();
        let Kind::Enum(of) = &kind else { return };
        let Some(value) = of.get_value(number) else { return };
        let parts = self.table.parts_of(of.full_name());
        let Some((name, has)) = parts.iter().find(|(name, _)| *name == value.name()) else {
            return;
        };
        if !self.is_lacked(*has) {
            return;
        }
        let plan = self
            .plan(within)
            .and_then(|plan| plan.fields.iter().find(|plan| plan.field.number() == field.number()));
        let envoy = self.unknown_to(self.wanted.without(*has), *has);
        match plan.is_some_and(is_defined_only) {
            true => self.report(at, RuleName::VERSION_VALUE, || {
                format!("`{name}` {envoy}, and so rejected")
            }),
            false => self.report(at, RuleName::VERSION_FIELD, || {
                format!("`{name}` {envoy}, which may take it for another value")
            }),
        }
    }

    /// Checks the extensions that a field names by their types.
    fn extensions(
        &mut self,
        owner: &DynamicMessage,
        field: &FieldDescriptor,
        value: &Value,
        at: &Place<'_>,
    ) {
        match (field.name(), value) {
            ("typed_config", Value::Message(config))
                if !is_optional(owner) && !is_of_policy(at) =>
            {
                self.extension(config, at);
            }
            (
                "typed_per_filter_config" | "typed_extension_protocol_options",
                Value::Map(entries),
            ) => {
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                for (key, config) in entries {
                    let Some(config) = config.as_message() else { continue };
                    let at = Place { around: Some(at), step: PlaceStep::Key(key), ..*at };
                    self.filter_config(config, &at);
                }
            }
            ("policies", Value::List(_)) if field.full_name() == TAKES_FIRST[0] => {
                self.policies(owner, at);
            }
            _ => {}
        }
    }

    /// Checks the configuration of a filter for a route, which may stand in a wrapper.
    fn filter_config(&mut self, config: &DynamicMessage, at: &Place<'_>) {
        let url = any::type_url(config).unwrap_or_default();
        if TypeUrl::message_name_in(&url) != FILTER_CONFIG {
            return self.extension(config, at);
        }
        let Some(wrapper) = any::open(config) else { return };
        if let Some(inner) = message_in(&wrapper, "config").filter(|_| !is_optional(&wrapper)) {
            self.extension(inner, at);
        }
    }

    fn extension(&mut self, config: &DynamicMessage, at: &Place<'_>) {
        let url = any::type_url(config).unwrap_or_default();
        let name = TypeUrl::message_name_in(&url);
        if is_of_no_extension(name) {
            return;
        }
        let of_type = self.table.of_type(name);
        if self.is_lacked(of_type) {
            let envoy = self.unknown_to(self.wanted.without(of_type), of_type);
            return self.report(at, RuleName::VERSION_TYPE, || {
                format!("the type `{name}` {envoy}, and so rejected")
            });
        }
        match self.table.of_extension(name) {
            Some(has) if self.is_lacked(has) => {
                let envoy = self.unknown_to(self.wanted.without(has), has);
                self.report(at, RuleName::VERSION_EXTENSION, || {
                    format!("the extension of `{name}` {envoy}, and so rejected")
                });
            }
            None if is_of_contrib(config, name) => {
                self.report(at, RuleName::VERSION_CONTRIB, || {
                    format!(
                        "the extension of `{name}` is only in an Envoy that is built with `contrib`; \
                         any other rejects it"
                    )
                });
            }
            _ => {}
        }
    }

    /// Checks that each version knows one of the load balancing policies.
    fn policies(&mut self, owner: &DynamicMessage, at: &Place<'_>) {
        let mut lacking = self.wanted;
        for policy in messages_in(owner, "policies") {
            let config = message_in(policy, "typed_extension_config")
                .and_then(|config| message_in(config, "typed_config"));
            let url = config.and_then(any::type_url).unwrap_or_default();
            let name = TypeUrl::message_name_in(&url);
            match self.table.of_extension(name) {
                Some(has) => lacking = lacking.without(has),
                // A policy of somebody else may be in a build of somebody else.
                None => lacking = Versions::NONE,
            }
        }
        if !lacking.is_none() {
            let envoys = self.listed(lacking);
            self.report(at, RuleName::VERSION_EXTENSION, || {
                format!(
                    "none of the policies is known to Envoy {envoys}, so the cluster is rejected"
                )
            });
        }
    }

    fn plan(&self, message: &MessageDescriptor) -> Option<&'r MessagePlan> {
        Some(&self.plans.all[self.plans.of(message.full_name())?])
    }

    fn is_lacked(&self, has: Versions) -> bool {
        !self.wanted.without(has).is_none()
    }

    /// The middle of a sentence, as in `is not known to Envoy 1.35 and 1.36 (but to 1.37 and later)`.
    fn unknown_to(&self, lacking: Versions, has: Versions) -> String {
        let first = self.table.listed(has).next();
        let later = first.filter(|first| Some(first) != self.table.names().first());
        let later = later.map(|first| format!(" (but to {first} and later)")).unwrap_or_default();
        format!("is not known to Envoy {}{later}", self.listed(lacking))
    }

    /// The names of versions, as in `1.35, 1.36 and 1.37`.
    fn listed(&self, versions: Versions) -> String {
        let names: Vec<_> = self.table.listed(versions).collect();
        match names.as_slice() {
            [more @ .., last] if !more.is_empty() => format!("{} and {last}", more.join(", ")),
            all => all.concat(),
        }
    }

    fn report(&mut self, at: &Place<'_>, rule: RuleName, describe: impl FnOnce() -> String) {
        let (list, more, most) = match rule.is_warning() {
            true => (&mut self.found.warnings, &mut self.found.more_warnings, MAX_VIOLATIONS),
            false => (&mut self.found.first, &mut self.found.more, self.most),
        };
        if list.len() >= most {
            *more += 1;
            return;
        }
        let (steps, message) = (at.steps(), describe());
        let path = path_text(&steps);
        list.push(Violation { path, rule, message, found: None, is_unset: false, steps });
    }
}

/// Returns true if no other values of an enum are allowed than the defined ones.
fn is_defined_only(plan: &FieldPlan) -> bool {
    let (Shape::One(value) | Shape::List { item: value, .. } | Shape::Map { value, .. }) =
        &plan.shape;
    matches!(value.check.as_deref(), Some(Check::Enum(rules)) if rules.defined.is_some())
}

/// Returns true for what an Envoy leaves out that does not know it.
fn is_optional(owner: &DynamicMessage) -> bool {
    value_in(owner, "is_optional").and_then(Value::as_bool).unwrap_or_default()
}

/// Returns true for the configuration of one of several load balancing policies, which are judged
/// together.
fn is_of_policy(at: &Place<'_>) -> bool {
    at.around.is_some_and(|around| around.owner.descriptor().full_name() == POLICY)
}

/// Returns true for types that say nothing of the extension: those of protobuf, and a structure that names
/// another type.
fn is_of_no_extension(name: &str) -> bool {
    name.starts_with("google.") || name.ends_with(".TypedStruct")
}

/// Returns true for a type of Envoy's that only a build with `contrib` knows.
fn is_of_contrib(any: &DynamicMessage, name: &str) -> bool {
    let found = any.descriptor().parent_pool().get_message_by_name(name);
    found.is_some_and(|message| message.parent_file().name().starts_with("contrib/envoy/"))
}

const FILTER_CONFIG: &str = "envoy.config.route.v3.FilterConfig";
const POLICY: &str = "envoy.config.cluster.v3.LoadBalancingPolicy.Policy";
