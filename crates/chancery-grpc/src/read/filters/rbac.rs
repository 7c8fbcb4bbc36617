//! RBAC (C-129; gRFC A41), which servers have, and routes for them.

use std::sync::Arc;

use chancery_calls::filters::FilterConfig;
use chancery_calls::filters::rbac::{
    Audit, AuditCondition, AuditLogger, Permission, Principal, Rbac, RbacAction, RbacHeader,
    RbacPolicy,
};
use chancery_calls::matching::TextMatcher;
use chancery_core::TypeUrl;
use envoy_types::pb::envoy::config::rbac::v3 as rbac;
use envoy_types::pb::envoy::config::route::v3::HeaderMatcher;
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3 as filter;
use envoy_types::pb::envoy::r#type::matcher::v3::{PathMatcher, path_matcher};
use rbac::permission::Rule;
use rbac::principal::Identifier;
use rbac::rbac::audit_logging_options::{AuditCondition as AuditConditions, AuditLoggerConfig};

use super::super::addresses::address_range;
use super::super::fault::{At, Fault};
use super::super::typed_struct::TypedStruct;
use super::super::{matchers, quoted};
use crate::audit;
use crate::extend::FilterMessage;

/// Reads the rules of a listener. Without any, every call is permitted.
pub(super) fn read(message: filter::Rbac) -> Result<FilterConfig, Fault> {
    let rules = message.rules.as_ref().map(rules).transpose().at("rules")?;
    let rules = rules.unwrap_or_else(|| Rbac::new(RbacAction::Ignore, []));
    Ok(FilterConfig::Rbac(Arc::new(rules)))
}

/// Reads the rules of a route.
pub(super) fn of_route(message: filter::RbacPerRoute) -> Result<FilterConfig, Fault> {
    match message.rbac {
        Some(rbac) => read(rbac).at("rbac"),
        None => Ok(FilterConfig::Disabled),
    }
}

/// Reads the logs of a filter. One that is not known, and has to be written, is not left out in silence (gRFC A59).
fn logs(message: &rbac::rbac::AuditLoggingOptions) -> Result<Audit, Fault> {
    let condition = match AuditConditions::try_from(message.audit_condition) {
        Ok(AuditConditions::None) => AuditCondition::Never,
        Ok(AuditConditions::OnDeny) => AuditCondition::Denied,
        Ok(AuditConditions::OnAllow) => AuditCondition::Permitted,
        Ok(AuditConditions::OnDenyAndAllow) => AuditCondition::Always,
        Err(_) => return Err("it is no condition that is known").at("audit_condition"),
    };
    let loggers = message.logger_configs.iter().enumerate();
    let loggers = loggers.filter_map(|(at, config)| {
        logger(config).at(format_args!("logger_configs[{at}]")).transpose()
    });
    Ok(Audit { condition, loggers: loggers.collect::<Result<_, Fault>>()? })
}

/// Reads a log. There is none if it is unknown and optional.
fn logger(message: &AuditLoggerConfig) -> Result<Option<Arc<dyn AuditLogger>>, Fault> {
    let config = message.audit_logger.as_ref().and_then(|it| it.typed_config.as_ref());
    let Some(config) = config else {
        return Err("it must be set").at("audit_logger.typed_config");
    };
    let read = match TypedStruct::opened(config).transpose()? {
        Some(fields) => {
            let json = fields.fields().to_string();
            audit::read(fields.name(), FilterMessage::Json(&json))
        }
        None => {
            let name = TypeUrl::message_name_in(&config.type_url);
            audit::read(name, FilterMessage::Protobuf(&config.value))
        }
    };
    match read {
        Some(read) => Ok(Some(read.map_err(|why| quoted(&why).into_owned())?)),
        None if message.is_optional => Ok(None),
        None => {
            let type_url = quoted(&config.type_url);
            Err(format!("`{type_url}` is no known audit logger, and not optional").into())
        }
    }
}

fn rules(message: &rbac::Rbac) -> Result<Rbac, Fault> {
    let audit = message.audit_logging_options.as_ref().map(logs).transpose();
    let audit = audit.at("audit_logging_options")?.unwrap_or_default();
    let action = match rbac::rbac::Action::try_from(message.action) {
        Ok(rbac::rbac::Action::Allow) => RbacAction::Allow,
        Ok(rbac::rbac::Action::Deny) => RbacAction::Deny,
        Ok(rbac::rbac::Action::Log) => RbacAction::Ignore,
        Err(_) => return Err("it must be `ALLOW`, `DENY` or `LOG`").at("action"),
    };
    let mut policies: Vec<_> = message.policies.iter().collect();
    policies.sort_unstable_by_key(|(name, _)| *name); // The same resource has the same first fault.
    let policies = policies.into_iter().map(|(name, it)| {
        let path = format!("policies[{}]", quoted(name));
        Ok((Box::from(name.as_str()), policy(it).at(path)?))
    });
    let policies = policies.collect::<Result<Vec<_>, Fault>>()?;
    Ok(Rbac::new(action, policies).with_audit(audit))
}

fn policy(message: &rbac::Policy) -> Result<RbacPolicy, Fault> {
    let has_condition = message.condition.is_some() || message.checked_condition.is_some();
    if has_condition {
        return Err("a policy must have no `condition` and no `checked_condition`".into());
    }
    Ok(RbacPolicy {
        permissions: permissions(&message.permissions, "permissions")?,
        principals: principals(&message.principals, "principals")?,
    })
}

fn permissions(list: &[rbac::Permission], field: &str) -> Result<Vec<Permission>, Fault> {
    let all = list.iter().enumerate();
    all.map(|(at, it)| permission(it).at(format_args!("{field}[{at}]"))).collect()
}

#[expect(deprecated, reason = "gRPC knows no newer field for metadata")]
fn permission(message: &rbac::Permission) -> Result<Permission, Fault> {
    Ok(match message.rule.as_ref().ok_or("a permission must say something")? {
        Rule::Any(_) => Permission::Any,
        Rule::AndRules(all) => Permission::And(permissions(&all.rules, "and_rules.rules")?),
        Rule::OrRules(some) => Permission::Or(permissions(&some.rules, "or_rules.rules")?),
        Rule::NotRule(rule) => Permission::Not(Box::new(permission(rule).at("not_rule")?)),
        Rule::Header(it) => Permission::Header(header(it).at("header")?),
        Rule::UrlPath(it) => Permission::UrlPath(url_path(it).at("url_path")?),
        Rule::DestinationIp(range) => {
            Permission::DestinationIp(address_range(range).at("destination_ip")?)
        }
        Rule::DestinationPort(port) => Permission::DestinationPort(*port),
        Rule::Metadata(it) => Permission::Metadata { is_inverted: it.invert },
        Rule::RequestedServerName(name) => {
            Permission::RequestedServerName(matchers::text(name).at("requested_server_name")?)
        }
        Rule::DestinationPortRange(_)
        | Rule::Matcher(_)
        | Rule::UriTemplate(_)
        | Rule::SourcedMetadata(_) => {
            return Err("gRPC does not know this kind of permission".into());
        }
    })
}

fn principals(list: &[rbac::Principal], field: &str) -> Result<Vec<Principal>, Fault> {
    let all = list.iter().enumerate();
    all.map(|(at, it)| principal(it).at(format_args!("{field}[{at}]"))).collect()
}

#[expect(deprecated, reason = "gRPC still reads the older field for addresses")]
fn principal(message: &rbac::Principal) -> Result<Principal, Fault> {
    Ok(match message.identifier.as_ref().ok_or("a principal must say something")? {
        Identifier::Any(_) => Principal::Any,
        Identifier::AndIds(all) => Principal::And(principals(&all.ids, "and_ids.ids")?),
        Identifier::OrIds(some) => Principal::Or(principals(&some.ids, "or_ids.ids")?),
        Identifier::NotId(id) => Principal::Not(Box::new(principal(id).at("not_id")?)),
        Identifier::Authenticated(it) => {
            let name = it.principal_name.as_ref().map(matchers::text).transpose();
            Principal::Authenticated(name.at("authenticated.principal_name")?)
        }
        Identifier::SourceIp(range) => Principal::RemoteIp(address_range(range).at("source_ip")?),
        Identifier::DirectRemoteIp(range) => {
            Principal::RemoteIp(address_range(range).at("direct_remote_ip")?)
        }
        Identifier::RemoteIp(range) => Principal::RemoteIp(address_range(range).at("remote_ip")?),
        Identifier::Header(it) => Principal::Header(header(it).at("header")?),
        Identifier::UrlPath(it) => Principal::UrlPath(url_path(it).at("url_path")?),
        Identifier::Metadata(it) => Principal::Metadata { is_inverted: it.invert },
        Identifier::FilterState(_) | Identifier::SourcedMetadata(_) | Identifier::Custom(_) => {
            return Err("gRPC does not know this kind of principal".into());
        }
    })
}

fn header(message: &HeaderMatcher) -> Result<RbacHeader, Fault> {
    Ok(RbacHeader::new(matchers::header(message)?).map_err(|it| it.to_string())?)
}

fn url_path(message: &PathMatcher) -> Result<TextMatcher, Fault> {
    let Some(path_matcher::Rule::Path(path)) = &message.rule else {
        return Err("it must be set").at("path");
    };
    matchers::text(path).at("path")
}

#[cfg(test)]
mod tests {
    use chancery_calls::matching::AddressRange;
    use serde_json::{Value, json};

    use super::super::super::support::{any, filter, listed, override_of};
    use super::*;

    fn per_route(fields: Value) -> Value {
        any("extensions.filters.http.rbac.v3.RBACPerRoute", fields)
    }

    /// The rules with one policy of the name `p`.
    fn with_policy(policy: Value) -> Value {
        per_route(json!({"rbac": {"rules": {"policies": {"p": policy}}}}))
    }

    fn rbac_of(config: &Value) -> Rbac {
        match override_of(config) {
            Ok(FilterConfig::Rbac(rbac)) => Rbac::clone(&rbac),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the reason for which a policy is rejected.
    fn fault(policy: Value) -> String {
        let fault = override_of(&with_policy(policy)).unwrap_err();
        let path = ".typed_per_filter_config[f].rbac.rules.policies[p]";
        fault.strip_prefix(path).unwrap_or_else(|| panic!("{fault}")).to_owned()
    }

    #[test]
    fn actions_are_to_allow_to_deny_or_to_ignore() {
        // gRFC A41
        for (action, expected) in
            [("ALLOW", RbacAction::Allow), ("DENY", RbacAction::Deny), ("LOG", RbacAction::Ignore)]
        {
            let rbac = rbac_of(&per_route(json!({"rbac": {"rules": {"action": action}}})));
            assert_eq!(rbac, Rbac::new(expected, []));
        }
        assert_eq!(rbac_of(&per_route(json!({"rbac": {}}))), Rbac::new(RbacAction::Ignore, []));
        let none = override_of(&per_route(json!({}))).unwrap();
        assert!(matches!(none, FilterConfig::Disabled));
    }

    #[test]
    fn a_log_that_has_to_be_written_is_not_left_out() {
        // gRFC A59
        let with = |condition: &str, is_optional: bool, log: &str| {
            let logger = json!({"name": "log", "typedConfig": any(log, json!({}))});
            let loggers = json!([{"auditLogger": logger, "isOptional": is_optional}]);
            let options = json!({"auditCondition": condition, "loggerConfigs": loggers});
            override_of(&per_route(json!({"rbac": {"rules": {"auditLoggingOptions": options}}})))
        };
        let known = "extensions.rbac.audit_loggers.stream.v3.StdoutAuditLog";
        for condition in ["NONE", "ON_DENY", "ON_ALLOW", "ON_DENY_AND_ALLOW"] {
            with(condition, false, known).unwrap();
        }
        let unknown = "type.v3.Percent";
        with("ON_DENY", true, unknown).unwrap();
        let fault = with("ON_DENY", false, unknown).unwrap_err();
        let path = "rbac.rules.audit_logging_options.logger_configs[0]";
        assert_eq!(
            fault,
            format!(
                ".typed_per_filter_config[f].{path}: `type.googleapis.com/envoy.{unknown}` is no \
                 known audit logger, and not optional"
            )
        );
    }

    #[test]
    fn all_rules_are_read() {
        // gRFC A41
        let (exact, range) =
            (json!({"exact": "a"}), json!({"addressPrefix": "10.0.0.0", "prefixLen": 8}));
        let path = json!({"path": exact});
        let header = json!({"name": "Host", "exactMatch": "a"});
        let permissions = json!([
            {"any": true}, {"andRules": {"rules": [{"any": true}]}},
            {"orRules": {"rules": [{"any": true}]}}, {"notRule": {"any": true}}, {"header": header},
            {"urlPath": path}, {"destinationIp": range}, {"destinationPort": 80},
            {"metadata": {"filter": "f", "path": [{"key": "k"}], "value": {"boolMatch": true}, "invert": true}},
            {"requestedServerName": exact},
        ]);
        let principals = json!([
            {"any": true}, {"andIds": {"ids": [{"any": true}]}}, {"orIds": {"ids": [{"any": true}]}},
            {"notId": {"any": true}}, {"authenticated": {}},
            {"authenticated": {"principalName": exact}}, {"sourceIp": range},
            {"directRemoteIp": range}, {"remoteIp": range}, {"header": header}, {"urlPath": path},
            {"metadata": {"filter": "f", "path": [{"key": "k"}], "value": {"boolMatch": true}}},
        ]);
        let policy = json!({"permissions": permissions, "principals": principals});
        let (a, net) = (TextMatcher::exact("a"), AddressRange::new([10, 0, 0, 0].into(), 8));
        let host = matchers::header(&HeaderMatcher {
            name: ":authority".to_owned(),
            header_match_specifier: Some(
                envoy_types::pb::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier::StringMatch(
                    envoy_types::pb::envoy::r#type::matcher::v3::StringMatcher {
                        match_pattern: Some(
                            envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern::Exact("a".to_owned()),
                        ),
                        ignore_case: false,
                    },
                ),
            ),
            ..HeaderMatcher::default()
        });
        let host = RbacHeader::new(host.unwrap()).unwrap();
        let expected = RbacPolicy {
            permissions: vec![
                Permission::Any,
                Permission::And(vec![Permission::Any]),
                Permission::Or(vec![Permission::Any]),
                Permission::Not(Box::new(Permission::Any)),
                Permission::Header(host.clone()),
                Permission::UrlPath(a.clone()),
                Permission::DestinationIp(net),
                Permission::DestinationPort(80),
                Permission::Metadata { is_inverted: true },
                Permission::RequestedServerName(a.clone()),
            ],
            principals: vec![
                Principal::Any,
                Principal::And(vec![Principal::Any]),
                Principal::Or(vec![Principal::Any]),
                Principal::Not(Box::new(Principal::Any)),
                Principal::Authenticated(None),
                Principal::Authenticated(Some(a.clone())),
                Principal::RemoteIp(net),
                Principal::RemoteIp(net),
                Principal::RemoteIp(net),
                Principal::Header(host),
                Principal::UrlPath(a),
                Principal::Metadata { is_inverted: false },
            ],
        };
        let expected = Rbac::new(RbacAction::Allow, [("p".into(), expected)]);
        assert_eq!(rbac_of(&with_policy(policy)), expected);
    }

    #[test]
    fn rules_that_servers_do_not_know_are_rejected() {
        // gRFC A41
        let condition = ": a policy must have no `condition` and no `checked_condition`";
        assert_eq!(fault(json!({"condition": {}})), condition);
        assert_eq!(fault(json!({"checkedCondition": {}})), condition);
        let header = |name: &str| json!({"header": {"name": name, "presentMatch": true}});
        let extension =
            json!({"name": "m", "typedConfig": any("config.cluster.v3.Cluster", json!({}))});
        let unknown = ": gRPC does not know this kind of permission";
        for (rule, expected) in [
            (json!({}), ": a permission must say something"),
            (json!({"matcher": extension}), unknown),
            (json!({"uriTemplate": extension}), unknown),
            (json!({"destinationPortRange": {"start": 1, "end": 2}}), unknown),
            (json!({"urlPath": {}}), ".url_path.path: it must be set"),
            (
                json!({"notRule": {"andRules": {"rules": [{}]}}}),
                ".not_rule.and_rules.rules[0]: a permission must say something",
            ),
            (
                json!({"destinationIp": {"addressPrefix": "a"}}),
                ".destination_ip.address_prefix: `a` is no IP address",
            ),
            (
                header(":scheme"),
                ".header: an RBAC policy has a matcher of the header `:scheme`, and gRPC allows none",
            ),
            (
                header("Grpc-Timeout"),
                ".header: an RBAC policy has a matcher of the header `grpc-timeout`, and gRPC allows none",
            ),
        ] {
            let fault = fault(json!({"permissions": [rule]}));
            assert_eq!(fault, format!(".permissions[0]{expected}"));
        }
        let state = json!({"key": "k", "stringMatch": {"exact": "a"}});
        for (id, expected) in [
            (json!({}), ": a principal must say something"),
            (json!({"filterState": state}), ": gRPC does not know this kind of principal"),
            (
                json!({"authenticated": {"principalName": {}}}),
                ".authenticated.principal_name: a text must be compared with something",
            ),
        ] {
            let fault = fault(json!({"principals": [id]}));
            assert_eq!(fault, format!(".principals[0]{expected}"));
        }
    }

    #[test]
    fn clients_do_not_know_it() {
        // C-093
        let mut rbac = filter("f", "rbac.v3.RBAC", json!({}));
        let fault = listed(&rbac).unwrap_err();
        assert!(fault.starts_with(": the HTTP filter `f` is of the unknown type"), "{fault}");
        rbac["isOptional"] = json!(true);
        assert!(matches!(listed(&rbac), Ok(FilterConfig::Router)));
    }
}
