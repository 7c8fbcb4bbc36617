//! The content of the bundled descriptors, and the addition of others.

use prost_reflect::Kind;

use super::*;

fn service(schema: &Schema, name: &str) -> Service {
    let services = schema.services(true);
    services.into_iter().find(|service| service.name == name).unwrap()
}

#[test]
fn v3_v2_contrib_and_the_types_around_them_are_known() {
    let schema = Schema::bundled();
    for name in [
        "envoy.config.cluster.v3.Cluster",
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "envoy.api.v2.Cluster",
        "envoy.config.filter.network.http_connection_manager.v2.HttpConnectionManager",
        "envoy.extensions.filters.http.squash.v3.Squash",
        "xds.type.v3.TypedStruct",
        "udpa.type.v1.TypedStruct",
        "xds.service.orca.v3.OrcaLoadReportRequest",
        "google.protobuf.Struct",
    ] {
        assert!(schema.message(name).is_some(), "{name}");
    }
    for type_url in TypeUrl::known() {
        assert!(schema.message(type_url.as_str()).is_some(), "{type_url}");
    }
    assert!(schema.message("type.googleapis.com/foo.Bar").is_none());
}

#[test]
fn annotations_survive_the_build() {
    let schema = Schema::bundled();
    let cluster = schema.message("envoy.config.cluster.v3.Cluster").unwrap();
    let versioning = "udpa.annotations.versioning";
    let old = text_option(schema.pool(), &cluster.options(), versioning, "previous_message_type");
    assert_eq!(old.as_deref(), Some("envoy.api.v2.Cluster"));
    let rules = schema.pool().get_extension_by_name("validate.rules").unwrap();
    let timeout = cluster.get_field_by_name("connect_timeout").unwrap();
    assert!(timeout.options().has_extension(&rules));
}

/// The crate of the descriptors is older than Envoy 1.40.
#[test]
fn fields_that_the_newest_envoy_has_are_known_with_their_rules() {
    let schema = Schema::bundled();
    let field = |message: &str, field: &str| {
        schema.message(message).unwrap().get_field_by_name(field).unwrap()
    };
    assert_eq!(field("envoy.config.core.v3.HealthCheck", "name").number(), 27);
    let realm = field("envoy.extensions.filters.http.basic_auth.v3.BasicAuth", "realm");
    let rules = schema.pool().get_extension_by_name("validate.rules").unwrap();
    assert!(realm.options().has_extension(&rules));
    let tag = field("envoy.type.tracing.v3.CustomTag", "value_type");
    assert_eq!(tag.kind().as_enum().unwrap().values().len(), 5);
    // Before 1.40 was published it was called `api_protocol`.
    let manager = "envoy.extensions.filters.http.ai_protocol_manager.v3.RequestPerRoute";
    let protocol = field(manager, "llm_protocol");
    assert_eq!(protocol.kind().as_enum().unwrap().full_name(), "envoy.type.ai.v3.LLMProtocol");
    assert!(schema.message(manager).unwrap().get_field_by_name("api_protocol").is_none());
    let new = "envoy.extensions.router.cluster_specifiers.priority_group.v3.PriorityGroup";
    assert!(schema.message(new).is_some());
}

#[test]
fn the_services_are_those_of_appendix_a() {
    // S-001, S-004: the names are those of the descriptors; VHDS and LEDS are delta only.
    let listed: Vec<_> = Schema::bundled().services(false).iter().map(row).collect();
    let expected = [
        "ClusterDiscoveryService cds StreamClusters DeltaClusters FetchClusters=clusters",
        "AggregatedDiscoveryService - StreamAggregatedResources DeltaAggregatedResources",
        "EndpointDiscoveryService eds StreamEndpoints DeltaEndpoints FetchEndpoints=endpoints",
        "LocalityEndpointDiscoveryService leds DeltaLocalityEndpoints",
        "ExtensionConfigDiscoveryService ecds StreamExtensionConfigs DeltaExtensionConfigs \
         FetchExtensionConfigs=extension_configs",
        "ListenerDiscoveryService lds DeltaListeners StreamListeners FetchListeners=listeners",
        "RouteDiscoveryService rds StreamRoutes DeltaRoutes FetchRoutes=routes",
        "ScopedRoutesDiscoveryService srds StreamScopedRoutes DeltaScopedRoutes \
         FetchScopedRoutes=scoped-routes",
        "VirtualHostDiscoveryService vhds DeltaVirtualHosts",
        "RuntimeDiscoveryService rtds StreamRuntime DeltaRuntime FetchRuntime=runtime",
        "SecretDiscoveryService sds DeltaSecrets StreamSecrets FetchSecrets=secrets",
    ];
    assert_eq!(listed, expected);
}

/// A service in one line: its name, its type, and its methods with the suffixes of their REST
/// paths.
fn row(service: &Service) -> String {
    let name = service.name.rsplit('.').next().unwrap();
    let of = service.methods[0].type_url.as_ref().map_or("-", TypeUrl::short);
    let mut row = format!("{name} {of}");
    for method in &service.methods {
        assert_eq!(method.path, format!("/{}/{}", service.name, method.name));
        let kind =
            [MethodKind::Sotw, MethodKind::Delta, MethodKind::Fetch][["Stream", "Delta", "Fetch"]
                .iter()
                .position(|is| method.name.starts_with(is))
                .unwrap()];
        assert_eq!(method.kind, kind, "{}", method.name);
        assert!(!method.v2);
        row += &format!(" {}", method.name);
        if let Some(path) = &method.rest_path {
            row += &format!("={}", path.strip_prefix("/v3/discovery:").unwrap());
        }
    }
    row
}

#[test]
fn v2_has_its_own_types_and_paths() {
    // S-010
    let schema = Schema::bundled();
    let clusters = service(&schema, "envoy.api.v2.ClusterDiscoveryService");
    let fetch = clusters.methods.iter().find(|method| method.kind == MethodKind::Fetch).unwrap();
    assert_eq!(fetch.rest_path.as_deref(), Some("/v2/discovery:clusters"));
    assert_eq!(fetch.type_url, Some(TypeUrl::new("envoy.api.v2.Cluster")));
    assert!(fetch.v2);
    let aggregated = service(&schema, "envoy.service.discovery.v2.AggregatedDiscoveryService");
    assert!(aggregated.methods.iter().all(|method| method.v2 && method.type_url.is_none()));
    let v2 = |services: &[Service]| services.iter().filter(|has| has.methods[0].v2).count();
    assert_eq!(v2(&schema.services(false)), 0);
    assert_eq!(v2(&schema.services(true)), 9);
}

#[test]
fn reflection_shows_the_discovery_services_and_nothing_else() {
    for v2 in [false, true] {
        let schema = Schema::bundled();
        let pool = DescriptorPool::decode(&schema.service_descriptors(v2)[..]).unwrap();
        let mut shown: Vec<_> = pool.services().map(|is| is.full_name().to_owned()).collect();
        shown.sort();
        let served: Vec<_> = schema.services(v2).into_iter().map(|is| is.name).collect();
        assert_eq!(shown, served);
        assert!(pool.get_message_by_name("envoy.config.cluster.v3.Cluster").is_none());
    }
}

#[test]
fn a_users_extensions_are_added_and_known_files_skipped() {
    let schema = Schema::bundled();
    let duration = schema.pool().get_file_by_name("google/protobuf/duration.proto").unwrap();
    let duration = duration.file_descriptor_proto().clone();
    let own = prost_types::FileDescriptorProto {
        name: Some("own.proto".to_owned()),
        package: Some("own".to_owned()),
        dependency: vec!["google/protobuf/duration.proto".to_owned()],
        message_type: vec![prost_types::DescriptorProto {
            name: Some("Filter".to_owned()),
            field: vec![prost_types::FieldDescriptorProto {
                name: Some("wait".to_owned()),
                number: Some(1),
                r#type: Some(prost_types::field_descriptor_proto::Type::Message.into()),
                type_name: Some(".google.protobuf.Duration".to_owned()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        syntax: Some("proto3".to_owned()),
        ..Default::default()
    };
    let set = prost_types::FileDescriptorSet { file: vec![own, duration] }.encode_to_vec();
    let wider = schema.with_descriptor_set(&set).unwrap();
    let filter = wider.message("type.googleapis.com/own.Filter").unwrap();
    assert!(matches!(filter.get_field(1).unwrap().kind(), Kind::Message(_)));
    assert!(schema.message("own.Filter").is_none(), "the original stays as it is");
}

#[test]
fn what_is_no_descriptor_set_is_refused() {
    let schema = Schema::bundled();
    assert!(schema.with_descriptor_set(b"\xff\xff").is_err());
    let lacking = prost_types::FileDescriptorProto {
        name: Some("own.proto".to_owned()),
        dependency: vec!["missing.proto".to_owned()],
        ..Default::default()
    };
    let set = prost_types::FileDescriptorSet { file: vec![lacking] }.encode_to_vec();
    let why = schema.with_descriptor_set(&set).unwrap_err();
    let source = std::error::Error::source(&why).unwrap();
    assert!(source.to_string().contains("missing.proto"), "{source}");
}
