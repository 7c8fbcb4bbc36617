//! The fields that no value of a node may fill: names of secrets, secrets, paths of files, and the name of the
//! resource.
//!
//! A node says of itself what it likes (S-137). So it must not choose which secret it is given or which file
//! is read, also where only it would read that.

use chancery_core::Api;
use prost_reflect::{FieldDescriptor, MessageDescriptor};

use super::convert::is_text;
use super::path::PathFault;
use crate::facts::refers_to;
use crate::sensitive::{is_ruled, is_secret};

/// Fails for a field that may not be filled. `is_root` says that it is one of the resource itself.
pub(super) fn check(
    message: &MessageDescriptor,
    field: &FieldDescriptor,
    is_root: bool,
) -> Result<(), PathFault> {
    match reason(message, field, is_root) {
        Some(reason) => Err(PathFault {
            is_unknown: false,
            message: format!("`{}` {reason}", field.name()),
            hint: Some("write it in the files of the node (`nodes/ID/`)".to_owned()),
        }),
        None => Ok(()),
    }
}

fn reason(
    message: &MessageDescriptor,
    field: &FieldDescriptor,
    is_root: bool,
) -> Option<&'static str> {
    let is_text = is_text(&field.kind());
    if is_secret(message) || is_ruled(message, field) {
        return Some("is or holds a secret, which no node may state");
    }
    if is_root && is_text && crate::resource::naming_field(message).as_ref() == Some(field) {
        return Some("is the name of the resource, which no node may state");
    }
    if refers_to(message.full_name(), field.name(), Api::Sds) {
        return Some("is the name of a secret, which no node may state");
    }
    (is_text && is_file(message, field)).then_some("is a path of a file, which no node may state")
}

/// Returns true for a text that is a path of a file, or of a directory or socket, or stands for one.
fn is_file(message: &MessageDescriptor, field: &FieldDescriptor) -> bool {
    let of = (message.full_name(), field.name());
    FILES.contains(&of) || looks_like_file(field.name()) && !NO_FILES.contains(&of)
}

/// Returns true for a name that paths of files have.
fn looks_like_file(name: &str) -> bool {
    let words = ["filename", "dir", "socket"];
    let endings = ["directory", "file", "path", "paths"];
    let is_of_file = |word: &str| endings.iter().any(|ending| word.ends_with(ending));
    name.split('_').any(|word| words.contains(&word) || is_of_file(word))
}

/// The fields whose names do not say that a file is read. A module and a library are files that are loaded, and a
/// variable of the environment holds what a file might.
const FILES: [(&str, &str); 6] = [
    ("envoy.config.trace.v2.DynamicOtConfig", "library"),
    ("envoy.config.trace.v3.DynamicOtConfig", "library"),
    ("envoy.extensions.wasm.v3.EnvironmentVariables", "host_env_keys"),
    ("envoy.config.core.v3.DataSource", "environment_variable"),
    ("envoy.extensions.dynamic_modules.v3.DynamicModuleConfig", "name"),
    (
        "envoy.extensions.filters.http.grpc_json_transcoder.v3.GrpcJsonTranscoder",
        "proto_descriptor",
    ),
];

/// The fields with such a name that have no path of a file: those of HTTP, and templates of them.
const NO_FILES: [(&str, &str); 23] = [
    ("envoy.extensions.filters.http.a2a.v3.MethodParsingConfig", "paths"),
    ("envoy.config.core.v3.HealthCheck.HttpHealthCheck", "path"),
    ("envoy.config.route.v3.RouteMatch", "path"),
    ("envoy.config.route.v3.RouteMatch", "path_separated_prefix"),
    ("envoy.config.route.v3.RouteAction", "path_rewrite"),
    ("envoy.config.route.v3.RouteAction.HashPolicy.Cookie", "path"),
    ("envoy.config.route.v3.RedirectAction", "path_redirect"),
    ("envoy.config.route.v3.RedirectAction", "path_rewrite"),
    ("envoy.extensions.clusters.mcp_multicluster.v3.ClusterConfig.McpCluster", "path"),
    ("envoy.extensions.filters.http.ext_authz.v3.HttpService", "path_prefix"),
    ("envoy.extensions.filters.http.ext_authz.v3.HttpService", "path_override"),
    (
        "envoy.extensions.filters.http.file_server.v3.FileServerConfig.PathMapping",
        "request_path_prefix",
    ),
    ("envoy.extensions.filters.http.mcp.v3.ParserConfig.AttributeExtractionRule", "path"),
    ("envoy.extensions.filters.http.mcp_json_rest_bridge.v3.McpServerInfo", "path"),
    (
        "envoy.extensions.filters.http.mcp_json_rest_bridge.v3.HttpRule.ParameterBinding",
        "argument_path",
    ),
    ("envoy.extensions.filters.http.mcp_router.v3.McpRouter.McpCluster", "path"),
    ("envoy.extensions.filters.http.oauth2.v3.CookieConfig", "path"),
    ("envoy.extensions.filters.network.reverse_tunnel.v3.ReverseTunnel", "request_path"),
    ("envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.TunnelingConfig", "post_path"),
    ("envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig.UdpTunnelingConfig", "post_path"),
    ("envoy.type.http.v3.Cookie", "path"),
    ("envoy.extensions.path.match.uri_template.v3.UriTemplateMatchConfig", "path_template"),
    (
        "envoy.extensions.path.rewrite.uri_template.v3.UriTemplateRewriteConfig",
        "path_template_rewrite",
    ),
];

#[cfg(test)]
mod tests {
    use prost_reflect::Kind;

    use super::*;
    use crate::Schema;

    #[test]
    fn fields_that_are_told_apart_by_name_exist() {
        let schema = Schema::bundled();
        for (message, name) in FILES.iter().chain(&NO_FILES) {
            let found = schema.message(message).and_then(|it| it.get_field_by_name(name));
            let field = found.unwrap_or_else(|| panic!("{message} has no {name}"));
            assert_eq!(field.kind(), Kind::String, "{message} {name}");
        }
        assert!(NO_FILES.iter().all(|(_, name)| looks_like_file(name)));
        assert!(FILES.iter().all(|(_, name)| !looks_like_file(name)));
    }

    #[test]
    fn secrets_and_every_other_path_of_the_bundled_descriptors_are_forbidden() {
        // A new field with such a name is taken for a file until somebody says otherwise.
        let files = [
            ("envoy.config.core.v3.Pipe", "path"),
            ("envoy.config.core.v3.WatchedDirectory", "path"),
            ("envoy.config.core.v3.DataSource", "filename"),
            ("envoy.config.core.v3.PathConfigSource", "path"),
            ("envoy.config.core.v3.ConfigSource", "path"),
            ("envoy.extensions.access_loggers.file.v3.FileAccessLog", "path"),
            ("envoy.extensions.transport_sockets.tls.v3.TlsKeyLog", "path"),
            ("envoy.config.tap.v3.FilePerTapSink", "path_prefix"),
            ("envoy.config.core.v3.SocketAddress", "network_namespace_filepath"),
            ("envoy.extensions.filters.http.lua.v3.Lua", "package_paths"),
            ("envoy.extensions.filters.http.lua.v3.LuaPerRoute", "package_cpaths"),
            (
                "envoy.extensions.filters.http.file_system_buffer.v3.FileSystemBufferFilterConfig",
                "storage_buffer_path",
            ),
            ("envoy.config.trace.v3.DynamicOtConfig", "library"),
            ("envoy.extensions.wasm.v3.EnvironmentVariables", "host_env_keys"),
            ("envoy.extensions.transport_sockets.tls.v3.TlsCertificate", "private_key"),
            ("envoy.extensions.transport_sockets.tls.v3.Secret", "name"),
        ];
        for (message, name) in files {
            let message = Schema::bundled().message(message).unwrap();
            let field = message.get_field_by_name(name).unwrap();
            assert!(check(&message, &field, false).is_err(), "{} {name}", message.full_name());
        }
    }

    #[test]
    fn a_text_whose_name_may_mean_a_file_is_forbidden_or_said_to_be_none() {
        let words = ["path", "file", "dir", "env", "librar"];
        let mut undecided = Vec::new();
        for message in Schema::bundled().pool().all_messages() {
            for field in message.fields().filter(|field| is_text(&field.kind())) {
                let of = (message.full_name(), field.name());
                let may_be = words.iter().any(|word| field.name().contains(word));
                let is_decided = NO_FILES.contains(&of) || field.name().contains("redirect");
                if may_be && !is_decided && check(&message, &field, false).is_ok() {
                    undecided.push(format!("{} {}", of.0, of.1));
                }
            }
        }
        assert_eq!(undecided, Vec::<String>::new());
    }
}
