//! The names of the rules, which are stable: people switch rules off by them.

use std::fmt;

/// The name of a rule, as in `string.min_len`. All kinds of numbers share the names of `number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleName(&'static str);

/// The names of the limits of one kind of value.
#[derive(Debug)]
pub(super) struct LimitNames {
    pub(super) constant: RuleName,
    pub(super) lt: RuleName,
    pub(super) lte: RuleName,
    pub(super) gt: RuleName,
    pub(super) gte: RuleName,
    pub(super) outside: RuleName,
    pub(super) one_of: RuleName,
    pub(super) none_of: RuleName,
}

macro_rules! names {
    ($($name:ident = $text:literal;)+) => {
        impl RuleName {
            $(pub(crate) const $name: Self = Self($text);)+

            /// All rules.
            pub const ALL: &[Self] = &[$(Self::$name),+];
        }
    };
}

names! {
    REQUIRED = "message.required";
    ONEOF = "oneof.required";
    NUMBER_CONST = "number.const";
    NUMBER_LT = "number.lt";
    NUMBER_LTE = "number.lte";
    NUMBER_GT = "number.gt";
    NUMBER_GTE = "number.gte";
    NUMBER_OUTSIDE = "number.outside";
    NUMBER_IN = "number.in";
    NUMBER_NOT_IN = "number.not_in";
    DURATION_VALID = "duration.valid";
    DURATION_CONST = "duration.const";
    DURATION_LT = "duration.lt";
    DURATION_LTE = "duration.lte";
    DURATION_GT = "duration.gt";
    DURATION_GTE = "duration.gte";
    DURATION_OUTSIDE = "duration.outside";
    DURATION_IN = "duration.in";
    DURATION_NOT_IN = "duration.not_in";
    TIMESTAMP_VALID = "timestamp.valid";
    TIMESTAMP_CONST = "timestamp.const";
    TIMESTAMP_LT = "timestamp.lt";
    TIMESTAMP_LTE = "timestamp.lte";
    TIMESTAMP_GT = "timestamp.gt";
    TIMESTAMP_GTE = "timestamp.gte";
    TIMESTAMP_OUTSIDE = "timestamp.outside";
    BOOL_CONST = "bool.const";
    ENUM_DEFINED_ONLY = "enum.defined_only";
    ENUM_CONST = "enum.const";
    ENUM_IN = "enum.in";
    ENUM_NOT_IN = "enum.not_in";
    STRING_CONST = "string.const";
    STRING_IN = "string.in";
    STRING_NOT_IN = "string.not_in";
    STRING_LEN = "string.len";
    STRING_MIN_LEN = "string.min_len";
    STRING_MAX_LEN = "string.max_len";
    STRING_LEN_BYTES = "string.len_bytes";
    STRING_MIN_BYTES = "string.min_bytes";
    STRING_MAX_BYTES = "string.max_bytes";
    STRING_PREFIX = "string.prefix";
    STRING_SUFFIX = "string.suffix";
    STRING_CONTAINS = "string.contains";
    STRING_NOT_CONTAINS = "string.not_contains";
    STRING_PATTERN = "string.pattern";
    STRING_WELL_KNOWN_REGEX = "string.well_known_regex";
    STRING_FORMAT = "string.format";
    BYTES_CONST = "bytes.const";
    BYTES_IN = "bytes.in";
    BYTES_NOT_IN = "bytes.not_in";
    BYTES_LEN = "bytes.len";
    BYTES_MIN_LEN = "bytes.min_len";
    BYTES_MAX_LEN = "bytes.max_len";
    BYTES_PREFIX = "bytes.prefix";
    BYTES_SUFFIX = "bytes.suffix";
    BYTES_CONTAINS = "bytes.contains";
    BYTES_PATTERN = "bytes.pattern";
    BYTES_FORMAT = "bytes.format";
    ANY_IN = "any.in";
    ANY_NOT_IN = "any.not_in";
    REPEATED_MIN_ITEMS = "repeated.min_items";
    REPEATED_MAX_ITEMS = "repeated.max_items";
    REPEATED_UNIQUE = "repeated.unique";
    MAP_MIN_PAIRS = "map.min_pairs";
    MAP_MAX_PAIRS = "map.max_pairs";
    FIELD_DISALLOWED = "field.disallowed";
    FIELD_DEPRECATED = "field.deprecated";
    ENUM_DISALLOWED = "enum.disallowed";
    ENUM_DEPRECATED = "enum.deprecated";
}

impl RuleName {
    /// Returns true if Envoy accepts what breaks the rule, with a warning.
    pub fn is_warning(self) -> bool {
        matches!(self, Self::FIELD_DEPRECATED | Self::ENUM_DEPRECATED)
    }

    /// The name.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

pub(super) static NUMBER: LimitNames = LimitNames {
    constant: RuleName::NUMBER_CONST,
    lt: RuleName::NUMBER_LT,
    lte: RuleName::NUMBER_LTE,
    gt: RuleName::NUMBER_GT,
    gte: RuleName::NUMBER_GTE,
    outside: RuleName::NUMBER_OUTSIDE,
    one_of: RuleName::NUMBER_IN,
    none_of: RuleName::NUMBER_NOT_IN,
};

pub(super) static DURATION: LimitNames = LimitNames {
    constant: RuleName::DURATION_CONST,
    lt: RuleName::DURATION_LT,
    lte: RuleName::DURATION_LTE,
    gt: RuleName::DURATION_GT,
    gte: RuleName::DURATION_GTE,
    outside: RuleName::DURATION_OUTSIDE,
    one_of: RuleName::DURATION_IN,
    none_of: RuleName::DURATION_NOT_IN,
};

/// A timestamp has no lists.
pub(super) static TIMESTAMP: LimitNames = LimitNames {
    constant: RuleName::TIMESTAMP_CONST,
    lt: RuleName::TIMESTAMP_LT,
    lte: RuleName::TIMESTAMP_LTE,
    gt: RuleName::TIMESTAMP_GT,
    gte: RuleName::TIMESTAMP_GTE,
    outside: RuleName::TIMESTAMP_OUTSIDE,
    ..NUMBER
};

/// An enum has no bounds.
pub(super) static ENUM: LimitNames = LimitNames {
    constant: RuleName::ENUM_CONST,
    one_of: RuleName::ENUM_IN,
    none_of: RuleName::ENUM_NOT_IN,
    ..NUMBER
};
