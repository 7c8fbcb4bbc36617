//! The walk over a message that finds what breaks a rule.
//!
//! The path is a chain of places on the stack, so a message without violations costs no memory. An
//! `Any` is opened up to the depth to which all of this crate opens one, and the messages in it are
//! as deep as a decoder allows, so the recursion has a bound.

use std::collections::HashMap;

use prost_reflect::{DynamicMessage, Kind, Value};

use super::check::Check;
use super::envoy::{self, Broken, EnvoyCheck, Found};
use super::lengths::{LengthNames, Lengths};
use super::name::RuleName;
use super::place::{Place, PlaceStep};
use super::plan::{AnyRules, FieldPlan, MessagePlan, Plans, Shape, ValuePlan};
use super::unique::Item;
use super::violation::{Violation, path_text};
use super::{Depth, MAX_VIOLATIONS, Violations};
use crate::any;

/// The walk over one message.
pub(super) struct RuleWalk<'r> {
    plans: &'r Plans,
    depth: Depth,
    /// The number of violations that are described.
    most: usize,
    /// True if no Envoy gets the message, and gRPC does.
    is_for_grpc: bool,
    found: Violations,
}

/// The number of messages in each other to which the walk goes: those of an `Any` in the last one
/// that is opened, as deep as a decoder goes.
const MAX_MESSAGES: usize = any::MAX_DEPTH + 100;

impl<'r> RuleWalk<'r> {
    /// Checks a message by a plan.
    pub(super) fn check(
        plans: &'r Plans,
        depth: Depth,
        message: &DynamicMessage,
        plan: usize,
        (most, is_for_grpc): (usize, bool),
    ) -> Violations {
        let mut walk = Self { plans, depth, most, is_for_grpc, found: Violations::default() };
        let root = Place { around: None, step: PlaceStep::Root, owner: message, field: None };
        walk.message(message, plan, &root, 0);
        walk.found
    }

    fn message(&mut self, message: &DynamicMessage, plan: usize, at: &Place<'_>, depth: usize) {
        let plan = &self.plans.all[plan];
        if plan.is_any {
            return self.content(message, at, depth);
        }
        if depth >= MAX_MESSAGES {
            return;
        }
        if plan.is_unchecked && self.depth == Depth::Whole {
            return self.envoy(plan.envoy, message, at);
        }
        let whole = self.depth;
        if envoy::is_unread(message) {
            self.depth = Depth::Own;
        }
        let mut planned = plan.fields.iter().peekable();
        for (field, value) in message.fields() {
            let number = field.number();
            while planned.next_if(|plan| plan.field.number() < number).is_some() {}
            if let Some(plan) = planned.next_if(|plan| plan.field.number() == number) {
                self.field(plan, message, value, at, depth);
            }
        }
        self.absent(plan, message, at);
        self.depth = whole;
        if self.depth == Depth::Whole {
            self.envoy(plan.envoy, message, at);
        }
    }

    /// Checks the rules that Envoy has in its code.
    fn envoy(&mut self, checks: &[EnvoyCheck], message: &DynamicMessage, at: &Place<'_>) {
        let is_resource = matches!(at.step, PlaceStep::Root);
        let mut report = |Broken { below, rule, describe }: Broken<'_>| {
            // Of policies Envoy and gRPC say the opposite of each other.
            if self.is_for_grpc && rule == RuleName::LB_POLICY {
                return;
            }
            if self.found.first.len() >= self.most {
                self.found.more += 1;
                return;
            }
            let mut steps = at.steps();
            steps.extend(envoy::steps(message, below));
            self.found.first.push(Violation {
                path: path_text(&steps),
                rule,
                message: describe(),
                found: None,
                is_unset: false,
                steps,
            });
        };
        for check in checks {
            check(message, &mut Found { is_resource, report: &mut report });
        }
    }

    /// Checks the message in an `Any` of a known type.
    fn content(&mut self, any: &DynamicMessage, at: &Place<'_>, depth: usize) {
        if self.depth == Depth::Own || depth >= any::MAX_DEPTH {
            return;
        }
        let url = any::type_url(any).unwrap_or_default();
        let Some(plan) = self.plans.of(chancery_core::TypeUrl::message_name_in(&url)) else {
            return;
        };
        if let Some(content) = any::open(any) {
            let at = Place { around: Some(at), step: PlaceStep::Content, ..*at };
            self.message(&content, plan, &at, depth + 1);
        }
    }

    fn absent(&mut self, plan: &MessagePlan, message: &DynamicMessage, at: &Place<'_>) {
        for plan in plan.absent.iter().filter_map(|at| plan.fields.get(*at)) {
            if !message.has_field(&plan.field) {
                let step = PlaceStep::Field(&plan.field);
                let at = Place { around: Some(at), step, owner: message, field: Some(&plan.field) };
                self.absent_field(plan, &at);
            }
        }
        for oneof in &plan.oneofs {
            if !oneof.fields.iter().any(|field| message.has_field(field)) {
                let step = PlaceStep::Oneof(&oneof.name);
                let at = Place { around: Some(at), step, owner: message, field: None };
                self.report(&at, RuleName::ONEOF, None, || {
                    let names = oneof.fields.iter().map(|field| format!("`{}`", field.name()));
                    format!("is required: set {}", super::limits::listed(names))
                });
            }
        }
    }

    fn absent_field(&mut self, plan: &FieldPlan, at: &Place<'_>) {
        let default = plan.field.default_value();
        self.deprecated_value(plan, &default, at);
        match &plan.shape {
            Shape::One(value) => {
                if plan.required {
                    self.report(at, RuleName::REQUIRED, None, || "is required".to_owned());
                }
                if let Some(check) = &value.check
                    && !matches!(plan.field.kind(), Kind::Message(_))
                {
                    check.judge(&default, &mut |rule| {
                        self.report(at, rule, None, || check.describe(rule));
                    });
                }
            }
            Shape::List { lengths, .. } => self.lengths(*lengths, &ITEMS, 0, at),
            Shape::Map { lengths, .. } => self.lengths(*lengths, &PAIRS, 0, at),
        }
    }

    fn field(
        &mut self,
        plan: &FieldPlan,
        owner: &DynamicMessage,
        value: &Value,
        at: &Place<'_>,
        depth: usize,
    ) {
        let (step, field) = (PlaceStep::Field(&plan.field), Some(&plan.field));
        let at = Place { around: Some(at), step, owner, field };
        if let Some(deprecation) = plan.deprecation {
            let (rule, sentence) = deprecation.of_field();
            self.report(&at, rule, None, || sentence);
        }
        self.deprecated_value(plan, value, &at);
        match (&plan.shape, value) {
            (Shape::One(plan), value) => self.value(plan, value, &at, depth),
            (Shape::List { lengths, unique, item, .. }, Value::List(items)) => {
                self.lengths(*lengths, &ITEMS, items.len(), &at);
                if *unique {
                    self.unique(items, &at);
                }
                let whole = self.depth;
                if item.has_work() {
                    // Of alternatives, those behind the first one that Envoy knows are not opened.
                    let is_first = |value: &Value| value.as_message().is_some_and(envoy::is_policy);
                    let first = items.iter().position(is_first);
                    for (index, value) in items.iter().enumerate() {
                        let step = PlaceStep::Index(index);
                        if plan.takes_first && first != Some(index) {
                            self.depth = Depth::Own;
                        }
                        self.value(item, value, &Place { around: Some(&at), step, ..at }, depth);
                        self.depth = whole;
                    }
                }
                self.depth = whole;
            }
            (Shape::Map { lengths, key, value, .. }, Value::Map(entries)) => {
                self.lengths(*lengths, &PAIRS, entries.len(), &at);
                if key.has_work() || value.has_work() {
                    let mut entries: Vec<_> = entries.iter().collect();
                    entries.sort_unstable_by_key(|(key, _)| *key);
                    for (name, content) in entries {
                        let step = PlaceStep::Key(name);
                        let at = Place { around: Some(&at), step, ..at };
                        if key.check.is_some() {
                            self.value(key, &name.clone().into(), &at, depth);
                        }
                        self.value(value, content, &at, depth);
                    }
                }
            }
            _ => {}
        }
    }

    fn deprecated_value(&mut self, plan: &FieldPlan, value: &Value, at: &Place<'_>) {
        if plan.deprecated_values.is_empty() {
            return;
        }
        let Some(number) = value.as_enum_number() else { return };
        let kind = plan.field.kind();
        let named = kind.as_enum().and_then(|of| of.get_value(number));
        if let Some((deprecation, value)) = plan.value_deprecation(number).zip(named) {
            let is_default = at.is_unset();
            let (rule, sentence) = deprecation.of_value(value.name(), is_default);
            self.report(at, rule, None, || sentence);
        }
    }

    fn value(&mut self, plan: &ValuePlan, value: &Value, at: &Place<'_>, depth: usize) {
        if let Some(check) = &plan.check {
            match value {
                Value::Message(wrapper) if plan.is_wrapped => {
                    if let Some(inner) = wrapper.get_field_by_number(1) {
                        self.judge(check, &inner, at);
                    }
                }
                value => self.judge(check, value, at),
            }
        }
        let Value::Message(message) = value else { return };
        if let Some(rules) = &plan.any {
            self.type_url(rules, message, at);
        }
        if let Some(plan) = plan.message {
            self.message(message, plan, at, depth + 1);
        }
    }

    fn judge(&mut self, check: &Check, value: &Value, at: &Place<'_>) {
        check.judge(value, &mut |rule| {
            self.report(at, rule, Some((check, value)), || check.describe(rule));
        });
    }

    fn type_url(&mut self, rules: &AnyRules, any: &DynamicMessage, at: &Place<'_>) {
        let url = any::type_url(any).unwrap_or_default();
        let list =
            |urls: &[String]| super::limits::listed(urls.iter().map(|url| format!("`{url}`")));
        if !rules.one_of.is_empty() {
            if !rules.one_of.contains(&url) {
                self.report(at, RuleName::ANY_IN, None, || {
                    format!("must be of the type {}", list(&rules.one_of))
                });
            }
        } else if rules.none_of.contains(&url) {
            self.report(at, RuleName::ANY_NOT_IN, None, || {
                format!("must not be of the type {}", list(&rules.none_of))
            });
        }
    }

    fn lengths(&mut self, lengths: Lengths, of: &Counted, count: usize, at: &Place<'_>) {
        if !lengths.is_none() {
            lengths.judge(count, &of.names, &mut |rule| {
                self.report(at, rule, None, || lengths.describe(of.one, of.many));
            });
        }
    }

    /// Looks for items that are there twice.
    fn unique(&mut self, items: &[Value], at: &Place<'_>) {
        let mut seen = HashMap::with_capacity(items.len());
        for (index, value) in items.iter().enumerate() {
            let Some(item) = Item::of(value) else { continue };
            let first = *seen.entry(item).or_insert(index);
            if first != index {
                let step = PlaceStep::Index(index);
                let at = Place { around: Some(at), step, ..*at };
                self.report(&at, RuleName::REPEATED_UNIQUE, None, || {
                    format!("must be there once: it is the same as [{first}]")
                });
            }
        }
    }

    /// Notes a broken rule. Of a message with many of them, the first are described.
    fn report(
        &mut self,
        at: &Place<'_>,
        rule: RuleName,
        value: Option<(&Check, &Value)>,
        describe: impl FnOnce() -> String,
    ) {
        let (list, more, most) = match rule.is_warning() {
            true => (&mut self.found.warnings, &mut self.found.more_warnings, MAX_VIOLATIONS),
            false => (&mut self.found.first, &mut self.found.more, self.most),
        };
        if list.len() >= most {
            *more += 1;
            return;
        }
        let steps = at.steps();
        let is_unset = at.is_unset();
        let found = value.filter(|(_, value)| !at.hides(value));
        list.push(Violation {
            path: path_text(&steps),
            rule,
            message: describe(),
            found: found.and_then(|(check, value)| check.found(value)),
            is_unset,
            steps,
        });
    }
}

/// The names of a count of items.
struct Counted {
    names: LengthNames,
    one: &'static str,
    many: &'static str,
}

const ITEMS: Counted = Counted {
    names: LengthNames {
        exact: RuleName::REPEATED_MIN_ITEMS,
        least: RuleName::REPEATED_MIN_ITEMS,
        most: RuleName::REPEATED_MAX_ITEMS,
    },
    one: "item",
    many: "items",
};

const PAIRS: Counted = Counted {
    names: LengthNames {
        exact: RuleName::MAP_MIN_PAIRS,
        least: RuleName::MAP_MIN_PAIRS,
        most: RuleName::MAP_MAX_PAIRS,
    },
    one: "entry",
    many: "entries",
};
