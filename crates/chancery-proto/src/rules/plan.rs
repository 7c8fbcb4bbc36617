//! Plans: the rules of each message type, read once from the options of a pool.
//!
//! A plan has the fields that something is to be checked of, or that lead to a message with such
//! fields; all others are passed by. Not here: the options of a field (`options`), and the walk over
//! a message (`walk`).

use std::collections::HashMap;

use prost_reflect::{
    DescriptorPool, DynamicMessage, ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor,
};

use super::check::Check;
use super::deprecation::{DeprecatedValues, Deprecation, DeprecationReader};
use super::envoy::{self, EnvoyCheck};
use super::lengths::Lengths;
use super::options::{FieldOptions, KindOptions, Reading, is_wrapper};
use crate::any;

/// The plans of all messages of a pool.
pub(super) struct Plans {
    pub(super) all: Vec<MessagePlan>,
    by_name: HashMap<String, usize>,
    /// The rules that cannot be enforced: the field and the rule.
    pub(super) unsupported: Vec<(String, String)>,
}

/// The plan of one message type.
#[derive(Default)]
pub(super) struct MessagePlan {
    pub(super) is_any: bool,
    /// The fields with something to check, by their numbers.
    pub(super) fields: Vec<FieldPlan>,
    /// Those of them that break a rule by their absence.
    pub(super) absent: Vec<usize>,
    /// The oneofs of which a field must be set.
    pub(super) oneofs: Vec<OneofPlan>,
    /// The rules that Envoy has in its code.
    pub(super) envoy: &'static [EnvoyCheck],
    /// True if Envoy does not check the rules of the descriptors.
    pub(super) is_unchecked: bool,
}

pub(super) struct OneofPlan {
    pub(super) name: String,
    pub(super) fields: Vec<FieldDescriptor>,
}

pub(super) struct FieldPlan {
    pub(super) field: FieldDescriptor,
    pub(super) required: bool,
    pub(super) shape: Shape,
    /// True if whoever reads the list opens the first item that it knows, and no `Any` behind it.
    pub(super) takes_first: bool,
    pub(super) deprecation: Option<Deprecation>,
    /// The values of an enum that are deprecated.
    pub(super) deprecated_values: DeprecatedValues,
}

pub(super) enum Shape {
    One(ValuePlan),
    List { lengths: Lengths, unique: bool, ignore_empty: bool, item: ValuePlan },
    Map { lengths: Lengths, ignore_empty: bool, key: ValuePlan, value: ValuePlan },
}

/// The plan of one value: of a field, an item, a key, or a value in a map.
#[derive(Default)]
pub(super) struct ValuePlan {
    pub(super) check: Option<Box<Check>>,
    /// True if the check is about the scalar in a wrapper.
    pub(super) is_wrapped: bool,
    /// The type URLs of an `Any`.
    pub(super) any: Option<AnyRules>,
    /// The plan of the message.
    pub(super) message: Option<usize>,
}

pub(super) struct AnyRules {
    pub(super) one_of: Vec<String>,
    pub(super) none_of: Vec<String>,
}

impl Plans {
    /// Reads the rules of all messages.
    pub(super) fn new(pool: &DescriptorPool) -> Self {
        let messages: Vec<_> = pool.all_messages().collect();
        let names = messages.iter().enumerate();
        let by_name = names.map(|(at, message)| (message.full_name().to_owned(), at)).collect();
        let mut planner = Planner {
            by_name: &by_name,
            reading: Reading::default(),
            deprecations: DeprecationReader::new(pool),
            pool,
        };
        let mut all: Vec<_> = messages.iter().map(|message| planner.message(message)).collect();
        let unsupported = planner.reading.unsupported;
        prune(&mut all);
        Self { all, by_name, unsupported }
    }

    /// The plan of a message type, if there is anything to check.
    pub(super) fn of(&self, name: &str) -> Option<usize> {
        let at = *self.by_name.get(name)?;
        self.all[at].is_live().then_some(at)
    }
}

impl MessagePlan {
    fn is_live(&self) -> bool {
        self.is_any || !self.fields.is_empty() || !self.oneofs.is_empty() || !self.envoy.is_empty()
    }
}

impl FieldPlan {
    fn has_rules(&self) -> bool {
        self.required
            || self.deprecation.is_some()
            || !self.deprecated_values.is_empty()
            || match &self.shape {
                Shape::One(value) => value.has_rules(),
                Shape::List { lengths, unique, item, .. } => {
                    !lengths.is_none() || *unique || item.has_rules()
                }
                Shape::Map { lengths, key, value, .. } => {
                    !lengths.is_none() || key.has_rules() || value.has_rules()
                }
            }
    }

    /// The plan of the messages in the field.
    fn message(&self) -> Option<usize> {
        match &self.shape {
            Shape::One(value) | Shape::List { item: value, .. } | Shape::Map { value, .. } => {
                value.message
            }
        }
    }

    fn message_mut(&mut self) -> &mut Option<usize> {
        match &mut self.shape {
            Shape::One(value) | Shape::List { item: value, .. } | Shape::Map { value, .. } => {
                &mut value.message
            }
        }
    }

    /// The state of a value of the enum, if it is deprecated.
    pub(super) fn value_deprecation(&self, number: i32) -> Option<Deprecation> {
        let all = &self.deprecated_values;
        all.iter().find(|(deprecated, _)| *deprecated == number).map(|(_, state)| *state)
    }

    /// Returns true if a message without the field breaks a rule.
    fn is_broken_by_absence(&self) -> bool {
        if self.field.containing_oneof().is_some() {
            return false;
        }
        let misses = |lengths: &Lengths| lengths.exact.or(lengths.least).unwrap_or(0) > 0;
        let default = self.field.default_value();
        if default.as_enum_number().is_some_and(|number| self.value_deprecation(number).is_some()) {
            return true;
        }
        match &self.shape {
            _ if self.required => true,
            Shape::One(ValuePlan { check: Some(check), .. }) => {
                let mut broken = false;
                if !matches!(self.field.kind(), Kind::Message(_)) {
                    check.judge(&default, &mut |_| broken = true);
                }
                broken
            }
            Shape::One(_) => false,
            Shape::List { lengths, ignore_empty, .. }
            | Shape::Map { lengths, ignore_empty, .. } => !ignore_empty && misses(lengths),
        }
    }
}

impl ValuePlan {
    /// Returns true if there is anything to look at.
    pub(super) fn has_work(&self) -> bool {
        self.has_rules() || self.message.is_some()
    }

    fn has_rules(&self) -> bool {
        self.check.is_some() || self.any.is_some()
    }
}

/// Leaves out the fields that lead to nothing to check. Messages contain themselves and each other,
/// so it begins with those that have rules, and goes on to those that contain one of them.
fn prune(all: &mut [MessagePlan]) {
    let mut is_live: Vec<bool> = all
        .iter()
        .map(|plan| {
            plan.is_any
                || !plan.envoy.is_empty()
                || !plan.oneofs.is_empty()
                || plan.fields.iter().any(FieldPlan::has_rules)
        })
        .collect();
    let mut containers: Vec<Vec<usize>> = vec![Vec::new(); all.len()];
    for (at, plan) in all.iter().enumerate() {
        for inner in plan.fields.iter().filter_map(FieldPlan::message) {
            containers[inner].push(at);
        }
    }
    let mut rest: Vec<usize> = (0..all.len()).filter(|at| is_live[*at]).collect();
    while let Some(at) = rest.pop() {
        for container in &containers[at] {
            if !std::mem::replace(&mut is_live[*container], true) {
                rest.push(*container);
            }
        }
    }
    for plan in all {
        let leads = |field: &FieldPlan| field.message().is_some_and(|inner| is_live[inner]);
        plan.fields.retain(|field| field.has_rules() || leads(field));
        for inner in plan.fields.iter_mut().map(FieldPlan::message_mut) {
            *inner = inner.filter(|inner| is_live[*inner]);
        }
        plan.fields.sort_by_key(|field| field.field.number());
        let absent = plan.fields.iter().enumerate();
        plan.absent =
            absent.filter(|(_, field)| field.is_broken_by_absence()).map(|(at, _)| at).collect();
    }
}

/// Makes the plans.
struct Planner<'p> {
    by_name: &'p HashMap<String, usize>,
    pool: &'p DescriptorPool,
    reading: Reading,
    deprecations: DeprecationReader,
}

impl Planner<'_> {
    fn message(&mut self, message: &MessageDescriptor) -> MessagePlan {
        if any::is_any(message) {
            return MessagePlan { is_any: true, ..MessagePlan::default() };
        }
        let flag = |name| {
            message.descriptor_proto().options.as_ref()?;
            let extension = self.pool.get_extension_by_name(name)?;
            message.options().get_extension(&extension).as_bool()
        };
        let is_off =
            flag("validate.disabled") == Some(true) || flag("validate.ignored") == Some(true);
        if is_off || message.is_map_entry() {
            return MessagePlan::default();
        }
        let rules = self.pool.get_extension_by_name("validate.rules");
        let required = self.pool.get_extension_by_name("validate.required");
        let oneofs = message.oneofs().filter(|oneof| {
            let has_options = oneof.oneof_descriptor_proto().options.is_some();
            has_options
                && required.as_ref().is_some_and(|required| {
                    oneof.options().get_extension(required).as_bool() == Some(true)
                })
        });
        let oneofs = oneofs.map(|oneof| OneofPlan {
            name: oneof.name().to_owned(),
            fields: oneof.fields().collect(),
        });
        let oneofs = oneofs.collect();
        let fields = message.fields().map(|field| {
            let (required, shape) = self.shape(&field, rules.as_ref());
            let deprecation = self.deprecations.of_field(&field);
            let deprecated_values = self.deprecations.of_values(&field);
            let takes_first = TAKES_FIRST.contains(&field.full_name());
            FieldPlan { field, required, shape, takes_first, deprecation, deprecated_values }
        });
        let fields = fields.collect();
        let envoy = envoy::checks_of(message.full_name());
        let is_unchecked = envoy::UNCHECKED.contains(&message.full_name());
        MessagePlan { oneofs, fields, envoy, is_unchecked, ..MessagePlan::default() }
    }

    /// The plan of the values of a field, and true if it must be set.
    fn shape(
        &mut self,
        field: &FieldDescriptor,
        rules: Option<&ExtensionDescriptor>,
    ) -> (bool, Shape) {
        let options = rules.and_then(|rules| options_of(field, rules));
        let (kind, place) = (field.kind(), field.full_name().to_owned());
        if let (true, Some(entry)) = (field.is_map(), kind.as_message()) {
            let key = entry.map_entry_key_field().kind();
            let value = entry.map_entry_value_field().kind();
            let options = options.map(|options| self.reading.field(&options, &value, &place));
            let options = options.map(|options| options.kind);
            let (lengths, ignore_empty, keys, values) = match options {
                Some(KindOptions::Map { lengths, ignore_empty, keys, values }) => {
                    (lengths, ignore_empty, keys, values)
                }
                options => {
                    self.refuse(options, &place);
                    (Lengths::default(), false, None, None)
                }
            };
            let key = self.value(keys.as_ref(), &key, &place).1;
            let value = match UNREAD.contains(&&*place) {
                true => ValuePlan::default(),
                false => self.value(values.as_ref(), &value, &place).1,
            };
            return (false, Shape::Map { lengths, ignore_empty, key, value });
        }
        if field.is_list() {
            let options = options.map(|options| self.reading.field(&options, &kind, &place));
            let options = options.map(|options| options.kind);
            let (lengths, unique, ignore_empty, items) = match options {
                Some(KindOptions::List { lengths, unique, ignore_empty, items }) => {
                    (lengths, unique, ignore_empty, items)
                }
                options => {
                    self.refuse(options, &place);
                    (Lengths::default(), false, false, None)
                }
            };
            let item = self.value(items.as_ref(), &kind, &place).1;
            return (false, Shape::List { lengths, unique, ignore_empty, item });
        }
        let (required, value) = self.value(options.as_ref(), &kind, &place);
        (required, Shape::One(value))
    }

    /// The plan of a value, and true if it must be set.
    fn value(
        &mut self,
        options: Option<&DynamicMessage>,
        kind: &Kind,
        place: &str,
    ) -> (bool, ValuePlan) {
        let options = options.map(|options| self.reading.field(options, kind, place));
        let FieldOptions { skip, required, kind: rules } = options.unwrap_or_default();
        let is_wrapped = is_wrapper(kind);
        let message = kind.as_message().filter(|_| !skip && !is_wrapped);
        let message = message.and_then(|message| self.by_name.get(message.full_name()).copied());
        let mut plan = ValuePlan { is_wrapped, message, ..ValuePlan::default() };
        match rules {
            KindOptions::None => {}
            KindOptions::Check(check) => plan.check = Some(check),
            KindOptions::Any { one_of, none_of } => {
                let has_rules = !one_of.is_empty() || !none_of.is_empty();
                plan.any = has_rules.then_some(AnyRules { one_of, none_of });
                // Envoy has these rules on a message of its own, which is not looked into then.
                plan.message = message.filter(|_| kind.as_message().is_some_and(any::is_any));
            }
            other => self.refuse(Some(other), place),
        }
        // Only a message can be missing; a scalar has its default.
        (required && kind.as_message().is_some(), plan)
    }

    /// Notes rules that are those of another kind of field.
    fn refuse(&mut self, options: Option<KindOptions>, place: &str) {
        if !matches!(options, None | Some(KindOptions::None)) {
            let rule = "rules for another kind of field".to_owned();
            self.reading.unsupported.push((place.to_owned(), rule));
        }
    }
}

/// The maps whose values are data that somebody may read, and that Envoy does not read by itself.
const UNREAD: [&str; 2] = [
    "envoy.config.core.v3.Metadata.typed_filter_metadata",
    "envoy.api.v2.core.Metadata.typed_filter_metadata",
];

/// The lists of alternatives, of which Envoy takes the first that it knows.
pub(super) const TAKES_FIRST: [&str; 1] = ["envoy.config.cluster.v3.LoadBalancingPolicy.policies"];

/// The rules of a field. Most fields have no options at all, and decoding them is what costs.
fn options_of(field: &FieldDescriptor, rules: &ExtensionDescriptor) -> Option<DynamicMessage> {
    field.field_descriptor_proto().options.as_ref()?;
    let options = field.options();
    let is_set = options.has_extension(rules);
    is_set.then(|| options.get_extension(rules).as_message().cloned()).flatten()
}
