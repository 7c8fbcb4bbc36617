//! Fields and values that Envoy's API has given up.
//!
//! A deprecated one is still accepted, and Envoy logs a warning. One that is disallowed by default
//! (`envoy.annotations.disallowed_by_default`) is refused, unless the runtime of that Envoy says
//! otherwise. The values of a list are not looked at, as in Envoy.
//!
//! The mark `[#not-implemented-hide:]`, which stands in comments, says nothing here: it hides a field
//! from the documentation, and many of these fields work, some for gRPC alone
//! (`ca_certificate_provider_instance`).

use std::collections::HashMap;

use prost_reflect::{DescriptorPool, EnumDescriptor, ExtensionDescriptor, FieldDescriptor};

use super::name::RuleName;

/// The state of something deprecated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deprecation {
    /// Accepted, with a warning.
    Warned,
    /// Refused, unless somebody allows it at run time.
    Refused,
}

/// The deprecated values of an enum, by their numbers.
pub(super) type DeprecatedValues = Vec<(i32, Deprecation)>;

/// Reads what is deprecated from the options of a pool.
pub(super) struct DeprecationReader {
    field: Option<ExtensionDescriptor>,
    value: Option<ExtensionDescriptor>,
    enums: HashMap<String, DeprecatedValues>,
}

impl DeprecationReader {
    pub(super) fn new(pool: &DescriptorPool) -> Self {
        Self {
            field: pool.get_extension_by_name("envoy.annotations.disallowed_by_default"),
            value: pool.get_extension_by_name("envoy.annotations.disallowed_by_default_enum"),
            enums: HashMap::new(),
        }
    }

    pub(super) fn of_field(&self, field: &FieldDescriptor) -> Option<Deprecation> {
        let options = field.field_descriptor_proto().options.as_ref()?;
        options.deprecated().then(|| {
            let is_refused = self.field.as_ref().is_some_and(|extension| {
                field.options().get_extension(extension).as_bool() == Some(true)
            });
            Deprecation::of(is_refused)
        })
    }

    /// The deprecated values of the enum of a field that has one value.
    pub(super) fn of_values(&mut self, field: &FieldDescriptor) -> DeprecatedValues {
        let kind = field.kind();
        let Some(of) = kind.as_enum().filter(|_| !field.is_list()) else { return Vec::new() };
        if let Some(known) = self.enums.get(of.full_name()) {
            return known.clone();
        }
        let values = self.values(of);
        self.enums.insert(of.full_name().to_owned(), values.clone());
        values
    }

    fn values(&self, of: &EnumDescriptor) -> DeprecatedValues {
        let deprecated = of.values().filter(|value| {
            let options = value.enum_value_descriptor_proto().options.as_ref();
            options.is_some_and(|options| options.deprecated())
        });
        let values = deprecated.map(|value| {
            let is_refused = self.value.as_ref().is_some_and(|extension| {
                value.options().get_extension(extension).as_bool() == Some(true)
            });
            (value.number(), Deprecation::of(is_refused))
        });
        values.collect()
    }
}

impl Deprecation {
    fn of(is_refused: bool) -> Self {
        if is_refused { Self::Refused } else { Self::Warned }
    }

    pub(super) fn of_field(self) -> (RuleName, String) {
        match self {
            Self::Warned => (
                RuleName::FIELD_DEPRECATED,
                "is deprecated: a later Envoy may refuse it".to_owned(),
            ),
            Self::Refused => (
                RuleName::FIELD_DISALLOWED,
                "is deprecated, and Envoy refuses it by default: remove it".to_owned(),
            ),
        }
    }

    /// The rule and the sentence of a value, which the field may have because nobody set another.
    pub(super) fn of_value(self, name: &str, is_default: bool) -> (RuleName, String) {
        let has = if is_default { "has by default" } else { "has" };
        match self {
            Self::Warned => (
                RuleName::ENUM_DEPRECATED,
                format!("{has} the value `{name}`, which is deprecated; set another"),
            ),
            Self::Refused => (
                RuleName::ENUM_DISALLOWED,
                format!("{has} the value `{name}`, which Envoy refuses by default; set another"),
            ),
        }
    }
}
