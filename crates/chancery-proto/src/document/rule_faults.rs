//! The rules that the resources of a text break, as faults or warnings with places.
//!
//! A broken rule is a warning where those for whom the resource is accept it all the same: Envoy does
//! where it warns itself, and gRPC does not know these rules, so a resource that only gRPC can use has
//! warnings alone. Not here: the rules (`crate::rules`), and the lookup of a place in a tree (`places`).

use chancery_core::{ResourceName, TypeUrl};
use prost_reflect::DynamicMessage;

use super::collect::Location;
use super::{BrokenRule, Checks, Fault, MAX_FAULTS, RuleCheck, Warning, places};
use crate::lint;
use crate::rules::{Depth, MAX_VIOLATIONS, RuleName, Rules, Violation, Violations};
use crate::syntax::TreeNode;

/// The broken rules of one text, of which the first are described.
#[derive(Default)]
pub(super) struct RuleFaults {
    /// Each with the value that the field has, which may be quoted or not.
    first: Vec<(BrokenRule, Option<String>)>,
    more: usize,
    /// The number of warnings whose places were looked up.
    placed: usize,
}

/// A resource whose body is checked.
pub(super) struct CheckedResource<'a> {
    pub(super) type_url: &'a TypeUrl,
    pub(super) name: &'a ResourceName,
    pub(super) body: &'a DynamicMessage,
    /// True if the body stands in a wrapper.
    pub(super) wrapped: bool,
}

impl RuleFaults {
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Checks the body of the resource at this place. Returns what is only worth a warning.
    pub(super) fn check(
        &mut self,
        rules: &Rules,
        checks: Checks,
        resource: &CheckedResource<'_>,
        place: &Location<'_, '_>,
    ) -> Vec<Warning> {
        let CheckedResource { type_url, name, body, wrapped } = *resource;
        let Checks { rules: check, clients } = checks;
        let room = match check {
            RuleCheck::Off => return Vec::new(),
            RuleCheck::Warn => MAX_VIOLATIONS,
            // One at least, which may be a warning.
            RuleCheck::Fault => (MAX_FAULTS - self.first.len()).max(1),
        };
        let is_for_envoy = clients.has_envoy() && !lint::is_only_for_grpc(type_url, body);
        let mut found = if is_for_envoy {
            rules.check_first(body, Depth::Whole, room)
        } else {
            rules.check_first_of_grpc(body, room)
        };
        found.add(rules.check_first_versions(body, clients, room));
        if check == RuleCheck::Fault && is_for_envoy && !found.is_empty() {
            self.more += std::mem::take(&mut found.more);
            for violation in std::mem::take(&mut found.first) {
                if self.first.len() >= MAX_FAULTS {
                    self.more += 1;
                    continue;
                }
                let (fault, value) = fault(&violation, wrapped, place.node, place);
                let (type_url, name) = (type_url.clone(), name.clone());
                let broken = BrokenRule { type_url, name, rule: violation.rule, fault };
                self.first.push((broken, value));
            }
        }
        self.warnings(found, wrapped, place)
    }

    /// Takes the reasons for which all clients reject a resource.
    pub(super) fn reject(
        &mut self,
        (type_url, name): (&TypeUrl, &ResourceName),
        reasons: Vec<Warning>,
        wrapped: bool,
        place: &Location<'_, '_>,
    ) {
        for Warning { path, text, code, position } in reasons {
            if self.first.len() >= MAX_FAULTS {
                self.more += 1;
                continue;
            }
            let mut fault = Fault::new(text).under(place.below(wrapped, &path)).of_code(code);
            fault.position = position;
            let (type_url, name) = (type_url.clone(), name.clone());
            let broken = BrokenRule { type_url, name, rule: RuleName::GRPC_REJECTED, fault };
            self.first.push((broken, None));
        }
    }

    /// The violations as warnings. Of one text, the first have their places.
    fn warnings(
        &mut self,
        found: Violations,
        wrapped: bool,
        place: &Location<'_, '_>,
    ) -> Vec<Warning> {
        let more = found.more + found.more_warnings;
        let mut warnings = Vec::new();
        for violation in found.first.into_iter().chain(found.warnings) {
            let node = place.node.filter(|_| self.placed < MAX_FAULTS);
            self.placed += usize::from(node.is_some());
            let (fault, _) = fault(&violation, wrapped, node, place);
            let Fault { position, message: text, code, .. } = fault;
            warnings.push(Warning { path: violation.path, text, code, position });
        }
        if let Some(last) = warnings.last().filter(|_| more > 0) {
            let text = format!("breaks rules in {more} more places");
            let (path, code) = (String::new(), last.code);
            warnings.push(Warning { path, text, code, position: None });
        }
        warnings
    }

    /// The broken rules by their places, and the number of those that are left out.
    pub(super) fn into_told(self, confidential: bool) -> (Vec<BrokenRule>, usize) {
        let told = self.first.into_iter().map(|(mut broken, value)| {
            if confidential {
                broken.fault = broken.fault.confidential();
            } else if let Some(value) = value {
                broken.fault.message = format!("{}, found {value}", broken.fault.message);
            }
            broken
        });
        let mut told: Vec<_> = told.collect();
        told.sort_by_key(|broken| broken.fault.position);
        (told, self.more)
    }
}

/// A violation as a fault of the text, and the value that may be quoted. Its place is looked up in
/// the node.
fn fault(
    violation: &Violation,
    wrapped: bool,
    node: Option<&TreeNode<'_>>,
    place: &Location<'_, '_>,
) -> (Fault, Option<String>) {
    let found = node.map(|node| places::find(node, place.dialect, wrapped, &violation.steps));
    // A text can set a field to the value that it has anyway.
    let is_missing = violation.is_unset && found.is_none_or(|found| !found.whole);
    let message = match is_missing && !says_that_it_is_missing(violation.rule) {
        true => format!("is not set, and {}", violation.message),
        false => violation.message.clone(),
    };
    let path = place.below(wrapped, &violation.path);
    let mut fault = Fault::new(message).under(path).of_code(violation.rule.code());
    fault.position = found.map(|found| found.position);
    (fault, violation.found.clone().filter(|_| !is_missing))
}

/// Returns true for the rules whose sentences say that a field is not set.
fn says_that_it_is_missing(rule: RuleName) -> bool {
    [RuleName::REQUIRED, RuleName::ONEOF, RuleName::ENUM_DISALLOWED, RuleName::ENUM_DEPRECATED]
        .contains(&rule)
}

#[cfg(test)]
mod tests {
    use super::super::{Format, Parsed, Renderer, parse, parse_checked};
    use super::*;
    use crate::clients::Clients;
    use crate::schema::Schema;

    const CHECKS: Checks = Checks { rules: RuleCheck::Fault, clients: Clients::ENVOY };

    fn checked(format: Format, text: &str) -> Parsed {
        let parsed = parse_checked(&Schema::bundled(), format, text.as_bytes(), CHECKS);
        assert_eq!(parsed.faults, []);
        parsed
    }

    /// The places and sentences of all broken rules.
    fn told(format: Format, text: &str) -> Vec<String> {
        let parsed = checked(format, text);
        parsed.violations.iter().map(|it| it.fault.to_string()).collect()
    }

    const LISTENER: &str = "\
- \"@type\": type.googleapis.com/envoy.config.listener.v3.Listener
  name: a
  filterChains:
  - filters:
    - name: hcm
      typed_config:
        \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
        stat_prefix: ''
        route_config: {virtual_hosts: [{name: a, domains: []}]}
    - name: b
      typedConfig: &raw
        \"@type\": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
        cluster: x
        max_connect_attempts: 0
  address: {pipe: {path: /run/a.sock}}
";

    #[test]
    fn a_violation_in_yaml_points_at_the_value_or_at_the_message_that_lacks_it() {
        assert_eq!(
            told(Format::Yaml, LISTENER),
            [
                "line 5, column 7: [0].filter_chains[0].filters[0]: must be the last filter, because it \
                 ends the chain",
                "line 8, column 22: [0].filter_chains[0].filters[0].typed_config.stat_prefix: must not \
                 be empty",
                "line 9, column 50: [0].filter_chains[0].filters[0].typed_config.route_config.\
                 virtual_hosts[0].domains: must not be empty",
                "line 11, column 7: [0].filter_chains[0].filters[1].typed_config.stat_prefix: is not \
                 set, and must not be empty",
                "line 14, column 31: [0].filter_chains[0].filters[1].typed_config.max_connect_attempts: \
                 must be at least 1, found 0",
            ]
        );
    }

    #[test]
    fn a_violation_in_json_has_its_place_too() {
        let text = r#"{ "@type": "t/envoy.config.cluster.v3.Cluster", "name": "a",
  "connectTimeout": "0s", "load_assignment": {} }"#;
        assert_eq!(
            told(Format::Json, text),
            [
                "line 2, column 21: connect_timeout: must be greater than 0s, found 0s",
                "line 2, column 27: load_assignment.cluster_name: is not set, and must not be empty",
            ]
        );
    }

    #[test]
    fn a_violation_in_protobuf_text_has_its_place_too() {
        let text = "\
resources {
  [type.googleapis.com/envoy.config.cluster.v3.Cluster] {
    name: \"a\"
    connect_timeout { seconds: 0 }
    load_assignment { cluster_name: \"a\" endpoints { priority: 1 } endpoints { priority: 500 } }
    typed_extension_protocol_options {
      key: \"x\"
      value { [type.googleapis.com/envoy.config.core.v3.Address] { } }
    }
  }
}
";
        assert_eq!(
            told(Format::Text, text),
            [
                "line 4, column 5: resources[0].connect_timeout: must be greater than 0s, found 0s",
                "line 5, column 89: resources[0].load_assignment.endpoints[1].priority: must be at most \
                 128, found 500",
                "line 8, column 15: resources[0].typed_extension_protocol_options[\"x\"].address: is \
                 required: set `socket_address`, `pipe` or `envoy_internal_address`",
            ]
        );
    }

    #[test]
    fn a_wrapper_is_looked_into() {
        let text = "{ \"@type\": t/envoy.service.discovery.v3.Resource, name: a,\n\
                    resource: { \"@type\": t/envoy.config.cluster.v3.Cluster,\n  lb_policy: RANDOM,\n\
                    connect_timeout: -1s } }";
        let lines = told(Format::Yaml, text);
        assert_eq!(lines[0], "line 2, column 1: resource.name: is not set, and must not be empty");
        assert!(lines[1].starts_with("line 4, column 18: resource.connect_timeout"), "{lines:?}");
    }

    #[test]
    fn a_binary_file_has_paths_and_no_places() {
        let schema = Schema::bundled();
        let response = schema.message("envoy.service.discovery.v3.DiscoveryResponse").unwrap();
        let text = "resources { [t/envoy.config.cluster.v3.Cluster] { name: 'a' lb_policy: 99 } }";
        let response = DynamicMessage::parse_text_format(response, text).unwrap();
        let bytes = prost::Message::encode_to_vec(&response);
        let parsed = parse_checked(&schema, Format::Binary, &bytes, CHECKS);
        let fault = &parsed.violations[0].fault;
        assert_eq!(fault.to_string(), "resources[0].lb_policy: must be a value of `LbPolicy`");
        assert!(fault.confidential);
    }

    #[test]
    fn a_text_that_may_hold_secrets_is_not_quoted() {
        let text = "\"@type\": t/envoy.config.cluster.v3.Cluster\nname: a\nconnect_timeout: 0s\n\
                    metadata: {filter_metadata: {a: {password: x}}}\n";
        let parsed = checked(Format::Yaml, text);
        let fault = &parsed.violations[0].fault;
        assert!(fault.confidential);
        assert_eq!(fault.message, "must be greater than 0s");
        assert!(!Renderer::new("a.yaml", Some(text)).render(fault).contains("0s\n  |"));
    }

    #[test]
    fn what_only_grpc_can_use_has_warnings() {
        // S-063
        let hcm = "\"@type\": t/envoy.extensions.filters.network.http_connection_manager.v3.\
                   HttpConnectionManager";
        let api = format!("api_listener: {{api_listener: {{{hcm}}}}}");
        let filter =
            format!("filter_chains: [{{filters: [{{name: a, typed_config: {{{hcm}}}}}]}}]");
        let server = "grpc/server?xds.resource.listening_address=0.0.0.0:80";
        let provider = "{ca_certificate_provider_instance: {instance_name: a}}";
        let tls = |context: &str| {
            let url = "t/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
            format!(
                "connect_timeout: 0s\ntransport_socket: {{name: tls, typed_config: {{\"@type\": {url}, \
                 common_tls_context: {{validation_context: {context}}}}}}}"
            )
        };
        for (kind, name, rest, is_only_for_grpc) in [
            ("listener.v3.Listener", "a", &api, true),
            ("listener.v3.Listener", "a", &filter, false),
            ("listener.v3.Listener", server, &filter, true),
            ("listener.v3.Listener", "0.0.0.0:80", &filter, false),
            ("cluster.v3.Cluster", "a", &tls(provider), true),
            ("cluster.v3.Cluster", "a", &tls("{}"), false),
        ] {
            let url = format!("type.googleapis.com/envoy.config.{kind}");
            let text = format!("\"@type\": {url}\nname: {name:?}\n{rest}\n");
            let parsed = checked(Format::Yaml, &text);
            let warned = parsed.resources[0].warnings.iter().any(|it| it.code.starts_with("rule/"));
            let told = (parsed.violations.is_empty(), warned);
            assert_eq!(told, (is_only_for_grpc, is_only_for_grpc), "{text}");
        }
    }

    #[test]
    fn what_envoy_says_of_policies_is_not_told_where_only_grpc_gets_them() {
        // S-126
        let policies = |list: &str| {
            format!(
                "{{policies: [{{typed_extension_config: {{name: a, typed_config: {{\"@type\": \
                 t/envoy.extensions.load_balancing_policies.{list}}}}}}}]}}"
            )
        };
        let inner = policies("round_robin.v3.RoundRobin");
        let localities =
            policies(&format!("wrr_locality.v3.WrrLocality, endpoint_picking_policy: {inner}"));
        let aggregate = "cluster_type: {name: envoy.clusters.aggregate, typed_config: {\"@type\": \
                         t/envoy.extensions.clusters.aggregate.v3.ClusterConfig, clusters: [b]}}";
        let eds = "type: EDS\neds_cluster_config: {eds_config: {ads: {}}}\nload_balancing_policy: ";
        for rest in [aggregate.to_owned(), format!("{eds}{localities}")] {
            let text = format!("\"@type\": t/envoy.config.cluster.v3.Cluster\nname: a\n{rest}\n");
            let told = |clients: Clients| {
                let checks = Checks { rules: RuleCheck::Fault, clients };
                let text = text.as_bytes();
                let parsed = parse_checked(&Schema::bundled(), Format::Yaml, text, checks);
                let broken = parsed.violations.iter().map(|it| it.fault.message.clone());
                let warned = parsed.resources.iter().flat_map(|it| &it.warnings);
                broken.chain(warned.map(ToString::to_string)).collect::<Vec<_>>()
            };
            let grpc: Clients = "grpc".parse().unwrap();
            assert_eq!(told(grpc), Vec::<String>::new(), "{text}");
            for clients in [Clients::ENVOY, Clients::ENVOY.and(grpc)] {
                let told = told(clients);
                assert!(told.len() == 1 && told[0].contains("Envoy"), "{told:?} {text}");
            }
        }
    }

    #[test]
    fn where_rules_are_only_warned_of_they_are_no_faults() {
        let cluster = "\"@type\": t/envoy.config.cluster.v3.Cluster\nname: a\n";
        let text = format!("{cluster}connect_timeout: 0s\nhttp_protocol_options: {{}}\n");
        let warned = |rules| {
            let checks = Checks { rules, ..CHECKS };
            let parsed = parse_checked(&Schema::bundled(), Format::Yaml, text.as_bytes(), checks);
            let lines = parsed.resources[0]
                .warnings
                .iter()
                .map(|it| format!("{} {it}", it.position.map_or(0, |at| at.line)));
            (parsed.violations.len(), lines.collect::<Vec<_>>())
        };
        let deprecated =
            "4 http_protocol_options: is deprecated: a later Envoy may refuse it".to_owned();
        let zero = "3 connect_timeout: must be greater than 0s".to_owned();
        assert_eq!(warned(RuleCheck::Off), (0, vec![]));
        assert_eq!(warned(RuleCheck::Fault), (1, vec![deprecated.clone()]));
        assert_eq!(warned(RuleCheck::Warn), (0, vec![zero, deprecated]));
    }

    #[test]
    fn deprecations_take_no_place_of_a_violation() {
        let cluster = "- \"@type\": t/envoy.config.cluster.v3.Cluster\n  name: c";
        let old: String =
            (0..150).map(|at| format!("{cluster}{at}\n  http_protocol_options: {{}}\n")).collect();
        let parsed = checked(Format::Yaml, &format!("{old}{cluster}\n  connect_timeout: 0s\n"));
        assert_eq!((parsed.violations.len(), parsed.more_violations), (1, 0));
        let placed = parsed.resources.iter().flat_map(|it| &it.warnings);
        assert_eq!(placed.filter(|it| it.position.is_some()).count(), MAX_FAULTS);
    }

    #[test]
    fn of_one_resource_with_very_many_warnings_the_last_one_counts_the_others() {
        let endpoints = "{priority: 500}, ".repeat(150);
        let text = format!(
            "\"@type\": t/envoy.config.endpoint.v3.ClusterLoadAssignment\ncluster_name: a\n\
             endpoints: [{endpoints}]\n"
        );
        let checks = Checks { rules: RuleCheck::Warn, ..CHECKS };
        let parsed = parse_checked(&Schema::bundled(), Format::Yaml, text.as_bytes(), checks);
        let rules = parsed.resources[0].warnings.iter().filter(|it| it.code == "rule/number-lte");
        let rules: Vec<_> = rules.map(ToString::to_string).collect();
        assert_eq!(rules.len(), MAX_VIOLATIONS + 1);
        assert_eq!(rules[MAX_VIOLATIONS], "breaks rules in 50 more places");
    }

    #[test]
    fn nothing_is_checked_unless_it_is_asked_for_and_the_resources_stay() {
        let schema = Schema::bundled();
        let parsed = parse(&schema, Format::Yaml, LISTENER.as_bytes());
        assert!(parsed.violations.is_empty());
        let checked = checked(Format::Yaml, LISTENER);
        assert_eq!(checked.resources.len(), parsed.resources.len());
        assert_eq!(checked.violations[1].rule.code(), "rule/string-min-len");
        assert_eq!(checked.violations[0].name.as_str(), "a");
    }

    #[test]
    fn of_many_violations_the_first_are_told_and_all_are_counted() {
        let cluster = "- \"@type\": t/envoy.config.cluster.v3.Cluster\n  name: c";
        let text: String =
            (0..150).map(|at| format!("{cluster}{at}\n  connect_timeout: 0s\n")).collect();
        let parsed = checked(Format::Yaml, &text);
        assert_eq!((parsed.violations.len(), parsed.more_violations), (MAX_FAULTS, 50));
    }
}
