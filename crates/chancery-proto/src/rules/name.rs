//! The names of the rules, which are stable: people switch rules off by them.

use std::fmt;

/// The name of a rule, as in `string.min_len`. All kinds of numbers share the names of `number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleName {
    name: &'static str,
    code: &'static str,
}

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
    ($($name:ident = $text:literal, $code:literal;)+) => {
        impl RuleName {
            $(pub(crate) const $name: Self = Self { name: $text, code: $code };)+

            /// All rules.
            pub const ALL: &[Self] = &[$(Self::$name),+];
        }
    };
}

names! {
    REQUIRED = "message.required", "rule/message-required";
    ONEOF = "oneof.required", "rule/oneof-required";
    NUMBER_CONST = "number.const", "rule/number-const";
    NUMBER_LT = "number.lt", "rule/number-lt";
    NUMBER_LTE = "number.lte", "rule/number-lte";
    NUMBER_GT = "number.gt", "rule/number-gt";
    NUMBER_GTE = "number.gte", "rule/number-gte";
    NUMBER_OUTSIDE = "number.outside", "rule/number-outside";
    NUMBER_IN = "number.in", "rule/number-in";
    NUMBER_NOT_IN = "number.not_in", "rule/number-not-in";
    DURATION_VALID = "duration.valid", "rule/duration-valid";
    DURATION_CONST = "duration.const", "rule/duration-const";
    DURATION_LT = "duration.lt", "rule/duration-lt";
    DURATION_LTE = "duration.lte", "rule/duration-lte";
    DURATION_GT = "duration.gt", "rule/duration-gt";
    DURATION_GTE = "duration.gte", "rule/duration-gte";
    DURATION_OUTSIDE = "duration.outside", "rule/duration-outside";
    DURATION_IN = "duration.in", "rule/duration-in";
    DURATION_NOT_IN = "duration.not_in", "rule/duration-not-in";
    TIMESTAMP_VALID = "timestamp.valid", "rule/timestamp-valid";
    TIMESTAMP_CONST = "timestamp.const", "rule/timestamp-const";
    TIMESTAMP_LT = "timestamp.lt", "rule/timestamp-lt";
    TIMESTAMP_LTE = "timestamp.lte", "rule/timestamp-lte";
    TIMESTAMP_GT = "timestamp.gt", "rule/timestamp-gt";
    TIMESTAMP_GTE = "timestamp.gte", "rule/timestamp-gte";
    TIMESTAMP_OUTSIDE = "timestamp.outside", "rule/timestamp-outside";
    BOOL_CONST = "bool.const", "rule/bool-const";
    ENUM_DEFINED_ONLY = "enum.defined_only", "rule/enum-defined-only";
    ENUM_CONST = "enum.const", "rule/enum-const";
    ENUM_IN = "enum.in", "rule/enum-in";
    ENUM_NOT_IN = "enum.not_in", "rule/enum-not-in";
    STRING_CONST = "string.const", "rule/string-const";
    STRING_IN = "string.in", "rule/string-in";
    STRING_NOT_IN = "string.not_in", "rule/string-not-in";
    STRING_LEN = "string.len", "rule/string-len";
    STRING_MIN_LEN = "string.min_len", "rule/string-min-len";
    STRING_MAX_LEN = "string.max_len", "rule/string-max-len";
    STRING_LEN_BYTES = "string.len_bytes", "rule/string-len-bytes";
    STRING_MIN_BYTES = "string.min_bytes", "rule/string-min-bytes";
    STRING_MAX_BYTES = "string.max_bytes", "rule/string-max-bytes";
    STRING_PREFIX = "string.prefix", "rule/string-prefix";
    STRING_SUFFIX = "string.suffix", "rule/string-suffix";
    STRING_CONTAINS = "string.contains", "rule/string-contains";
    STRING_NOT_CONTAINS = "string.not_contains", "rule/string-not-contains";
    STRING_PATTERN = "string.pattern", "rule/string-pattern";
    STRING_WELL_KNOWN_REGEX = "string.well_known_regex", "rule/string-well-known-regex";
    STRING_FORMAT = "string.format", "rule/string-format";
    BYTES_CONST = "bytes.const", "rule/bytes-const";
    BYTES_IN = "bytes.in", "rule/bytes-in";
    BYTES_NOT_IN = "bytes.not_in", "rule/bytes-not-in";
    BYTES_LEN = "bytes.len", "rule/bytes-len";
    BYTES_MIN_LEN = "bytes.min_len", "rule/bytes-min-len";
    BYTES_MAX_LEN = "bytes.max_len", "rule/bytes-max-len";
    BYTES_PREFIX = "bytes.prefix", "rule/bytes-prefix";
    BYTES_SUFFIX = "bytes.suffix", "rule/bytes-suffix";
    BYTES_CONTAINS = "bytes.contains", "rule/bytes-contains";
    BYTES_PATTERN = "bytes.pattern", "rule/bytes-pattern";
    BYTES_FORMAT = "bytes.format", "rule/bytes-format";
    ANY_IN = "any.in", "rule/any-in";
    ANY_NOT_IN = "any.not_in", "rule/any-not-in";
    REPEATED_MIN_ITEMS = "repeated.min_items", "rule/repeated-min-items";
    REPEATED_MAX_ITEMS = "repeated.max_items", "rule/repeated-max-items";
    REPEATED_UNIQUE = "repeated.unique", "rule/repeated-unique";
    MAP_MIN_PAIRS = "map.min_pairs", "rule/map-min-pairs";
    MAP_MAX_PAIRS = "map.max_pairs", "rule/map-max-pairs";
    FIELD_DISALLOWED = "field.disallowed", "rule/field-disallowed";
    FIELD_DEPRECATED = "field.deprecated", "rule/field-deprecated";
    ENUM_DISALLOWED = "enum.disallowed", "rule/enum-disallowed";
    ENUM_DEPRECATED = "enum.deprecated", "rule/enum-deprecated";
    DUPLICATE_DOMAIN = "envoy.duplicate_domain", "envoy/duplicate-domain";
    DIRECT_RESPONSE_SIZE = "envoy.direct_response_size", "envoy/direct-response-size";
    WEIGHTED_CLUSTER = "envoy.weighted_cluster", "envoy/weighted-cluster";
    REWRITES = "envoy.rewrites", "envoy/rewrites";
    DURATION = "envoy.duration", "envoy/duration";
    RETRY_BACK_OFF = "envoy.retry_back_off", "envoy/retry-back-off";
    REGEX = "envoy.regex", "envoy/regex";
    HEADER = "envoy.header", "envoy/header";
    IP_ADDRESS = "envoy.ip_address", "envoy/ip-address";
    EXTENSION_CONFIG = "envoy.extension_config", "envoy/extension-config";
    EXTENSION_TYPE = "envoy.extension_type", "envoy/extension-type";
    ENDPOINT = "envoy.endpoint", "envoy/endpoint";
    SUBSET = "envoy.subset", "envoy/subset";
    CLUSTER_PLUGIN = "envoy.cluster_plugin", "envoy/cluster-plugin";
    VIRTUAL_CLUSTER = "envoy.virtual_cluster", "envoy/virtual-cluster";
    UPGRADE = "envoy.upgrade", "envoy/upgrade";
    JWT_PROVIDER = "envoy.jwt_provider", "envoy/jwt-provider";
    LUA = "envoy.lua", "envoy/lua";
    EXT_AUTHZ = "envoy.ext_authz", "envoy/ext-authz";
    PROTOCOL_OPTIONS = "envoy.protocol_options", "envoy/protocol-options";
    FILL_INTERVAL = "envoy.fill_interval", "envoy/fill-interval";
    TCP_PROXY = "envoy.tcp_proxy", "envoy/tcp-proxy";
    RUNTIME = "envoy.runtime", "envoy/runtime";
    SCOPE = "envoy.scope", "envoy/scope";
    CLUSTER_TYPE = "envoy.cluster_type", "envoy/cluster-type";
    LB_POLICY = "envoy.lb_policy", "envoy/lb-policy";
    RING_SIZE = "envoy.ring_size", "envoy/ring-size";
    TABLE_SIZE = "envoy.table_size", "envoy/table-size";
    EJECTION_TIME = "envoy.ejection_time", "envoy/ejection-time";
    GRPC_HEALTH_CHECK = "envoy.grpc_health_check", "envoy/grpc-health-check";
    HEALTH_CHECK_NAME = "envoy.health_check_name", "envoy/health-check-name";
    DROP_OVERLOAD = "envoy.drop_overload", "envoy/drop-overload";
    MIRROR_POLICY = "envoy.mirror_policy", "envoy/mirror-policy";
    STATUS_RANGE = "envoy.status_range", "envoy/status-range";
    HEX = "envoy.hex", "envoy/hex";
    ALPN = "envoy.alpn", "envoy/alpn";
    LISTENER = "envoy.listener", "envoy/listener";
    FILTER_CHAIN = "envoy.filter_chain", "envoy/filter-chain";
    FILTER_ORDER = "envoy.filter_order", "envoy/filter-order";
    CONNECTION_MANAGER = "envoy.connection_manager", "envoy/connection-manager";
    TLS_CERTIFICATE = "envoy.tls_certificate", "envoy/tls-certificate";
    TLS_AUTHORITY = "envoy.tls_authority", "envoy/tls-authority";
    PEM = "envoy.pem", "envoy/pem";
    GRPC_REJECTED = "grpc.rejected", "grpc/rejected";
    GRPC_IGNORED = "grpc.ignored", "grpc/ignored";
    VERSION_FIELD = "envoy-version.field", "envoy-version/field";
    VERSION_ONEOF = "envoy-version.oneof", "envoy-version/oneof";
    VERSION_VALUE = "envoy-version.value", "envoy-version/value";
    VERSION_TYPE = "envoy-version.type", "envoy-version/type";
    VERSION_EXTENSION = "envoy-version.extension", "envoy-version/extension";
    VERSION_CONTRIB = "envoy-version.contrib", "envoy-version/contrib";
}

impl RuleName {
    /// Returns true if Envoy accepts what breaks the rule, with a warning.
    pub fn is_warning(self) -> bool {
        [
            Self::FIELD_DEPRECATED,
            Self::ENUM_DEPRECATED,
            Self::VERSION_FIELD,
            Self::VERSION_CONTRIB,
            Self::GRPC_IGNORED,
        ]
        .contains(&self)
    }

    /// The name.
    pub fn as_str(self) -> &'static str {
        self.name
    }

    /// The code of a finding about the rule, as in `rule/string-min-len`.
    pub fn code(self) -> &'static str {
        self.code
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_the_name_as_codes_are_written() {
        for rule in RuleName::ALL {
            let name = rule.as_str();
            // Those that Envoy has in its code are a class of their own.
            let code = match name.split_once('.') {
                Some((class @ ("envoy" | "envoy-version" | "grpc"), name)) => {
                    format!("{class}/{name}")
                }
                _ => format!("rule/{name}"),
            };
            assert_eq!(rule.code(), code.replace(['.', '_'], "-"));
        }
    }
}
