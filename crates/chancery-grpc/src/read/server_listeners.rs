//! Listeners of servers, read and checked (C-142). Not here: whether the address is the one that a server is
//! bound to, which the server itself knows.

use std::net::SocketAddr;

use bytes::Bytes;
use chancery_calls::filters::FilterChain;
use chancery_calls::serving::{
    ArrivedConnection, ChainMatch, FilterChains, SourceType, TransportMatch,
};
use chancery_client::ResourceType;
use envoy_types::pb::envoy::config::core::v3::CidrRange;
use envoy_types::pb::envoy::config::listener::v3 as lds;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use lds::filter_chain_match::ConnectionSourceType;
use prost::Message;

use super::addresses::{address_range, listening, port};
use super::downstream::{self, DownstreamTls};
use super::fault::{At, Fault};
use super::filters::Side;
use super::listeners::{Listener, RouteSource, read_manager};
use super::surroundings::Surroundings;
use super::{opened, quoted};

/// The listener of a server.
#[derive(Debug)]
pub(crate) struct ServerListener {
    /// The address that the server has to be bound to. Port 0 stands for any.
    pub(crate) address: SocketAddr,
    chains: Vec<ServerChain>,
    /// The places of the chains by their conditions.
    choice: FilterChains<usize>,
}

/// The way of the calls on some connections.
#[derive(Clone, Debug)]
pub(crate) struct ServerChain {
    pub(crate) routes: RouteSource,
    pub(crate) filters: FilterChain,
    /// TLS, which counts if the program leaves its security to the control plane.
    pub(crate) tls: Option<DownstreamTls>,
}

impl ServerListener {
    /// Returns all filter chains.
    pub(crate) fn chains(&self) -> &[ServerChain] {
        &self.chains
    }

    /// Returns the place of the chain of a connection among [`chains`](Self::chains); `None` if it is to be
    /// closed.
    pub(crate) fn choose(&self, connection: &ArrivedConnection) -> Option<usize> {
        self.choice.choose(connection).copied()
    }

    /// Returns true if a server that is bound to this address has this listener.
    pub(crate) fn is_for(&self, bound: SocketAddr) -> bool {
        let is_same_port = [0, bound.port()].contains(&self.address.port());
        is_same_port && self.address.ip().to_canonical() == bound.ip().to_canonical()
    }
}

impl ResourceType for ServerListener {
    const TYPE_URL: &'static str = "envoy.config.listener.v3.Listener";

    fn decode(_: &str, body: &Bytes) -> Result<Self, String> {
        decode(body, &Surroundings::default())
    }
}

/// Decodes a listener whose providers have to be those of the bootstrap.
pub(super) fn decode(body: &Bytes, surroundings: &Surroundings) -> Result<ServerListener, String> {
    let listener: lds::Listener = Message::decode(body.clone()).map_err(|it| it.to_string())?;
    Ok(read(&listener, surroundings)?)
}

fn read(listener: &lds::Listener, surroundings: &Surroundings) -> Result<ServerListener, Fault> {
    if listener.api_listener.is_some() {
        return Err("it must not be set in the listener of a server").at("api_listener");
    }
    for (field, is_set) in [
        ("listener_filters", !listener.listener_filters.is_empty()),
        ("use_original_dst", listener.use_original_dst.as_ref().is_some_and(|it| it.value)),
        ("filter_chain_matcher", listener.filter_chain_matcher.is_some()),
    ] {
        if is_set {
            return Err(UNSUPPORTED).at(field);
        }
    }
    let address = listener.address.as_ref().ok_or("it must be set").at("address")?;
    let address = listening(address).at("address")?;
    let (mut chains, mut matches) = (Vec::new(), Vec::new());
    for (at, message) in listener.filter_chains.iter().enumerate() {
        let (conditions, chain) =
            matched_chain(message, surroundings).at(format_args!("filter_chains[{at}]"))?;
        matches.push((conditions, chains.len()));
        chains.push(chain);
    }
    let default = listener.default_filter_chain.as_ref().map(|message| {
        let chain = chain(message, surroundings).at("default_filter_chain")?;
        chains.push(chain);
        Ok::<_, Fault>(chains.len() - 1)
    });
    let choice = FilterChains::new(matches, default.transpose()?);
    let choice = choice.map_err(|error| error.to_string()).at("filter_chains")?;
    if choice.is_empty() {
        return Err("no connection can have a filter chain").at("filter_chains");
    }
    Ok(ServerListener { address, chains, choice })
}

fn matched_chain(
    message: &lds::FilterChain,
    surroundings: &Surroundings,
) -> Result<(ChainMatch, ServerChain), Fault> {
    let conditions = message.filter_chain_match.as_ref().map(chain_match).transpose();
    Ok((conditions.at("filter_chain_match")?.unwrap_or_default(), chain(message, surroundings)?))
}

/// Reads the conditions of a chain. Those that gRPC ignores although they make a chain match less are
/// rejected: ignored, they would let in whom the chain is not for.
fn chain_match(message: &lds::FilterChainMatch) -> Result<ChainMatch, Fault> {
    for (field, is_set) in [
        ("address_suffix", !message.address_suffix.is_empty()),
        ("suffix_len", message.suffix_len.is_some()),
        ("direct_source_prefix_ranges", !message.direct_source_prefix_ranges.is_empty()),
    ] {
        if is_set {
            return Err(UNSUPPORTED).at(field);
        }
    }
    let source_type = match ConnectionSourceType::try_from(message.source_type) {
        Ok(ConnectionSourceType::Any) => SourceType::Any,
        Ok(ConnectionSourceType::SameIpOrLoopback) => SourceType::SameIpOrLoopback,
        Ok(ConnectionSourceType::External) => SourceType::External,
        Err(_) => {
            return Err("it must be `ANY`, `SAME_IP_OR_LOOPBACK` or `EXTERNAL`").at("source_type");
        }
    };
    let ports = message.source_ports.iter().enumerate();
    let ports = ports.map(|(at, it)| port(*it).at(format_args!("source_ports[{at}]")));
    Ok(ChainMatch {
        destinations: ranges(&message.prefix_ranges, "prefix_ranges")?,
        transport: match message.transport_protocol.as_str() {
            "" => TransportMatch::Any,
            "raw_buffer" => TransportMatch::RawBuffer,
            _ => TransportMatch::Other,
        },
        source_type,
        sources: ranges(&message.source_prefix_ranges, "source_prefix_ranges")?,
        source_ports: ports.collect::<Result<_, _>>()?,
        is_impossible: message.destination_port.as_ref().is_some_and(|port| port.value != 0)
            || !message.server_names.is_empty()
            || !message.application_protocols.is_empty(),
    })
}

fn ranges(
    messages: &[CidrRange],
    field: &str,
) -> Result<Vec<chancery_calls::matching::AddressRange>, Fault> {
    let all = messages.iter().enumerate();
    all.map(|(at, it)| address_range(it).at(format_args!("{field}[{at}]"))).collect()
}

/// Reads a chain. A connection manager is all that gRPC knows in one, and it ends the chain.
fn chain(message: &lds::FilterChain, surroundings: &Surroundings) -> Result<ServerChain, Fault> {
    let [filter] = &*message.filters else {
        return Err("there must be one filter, an `HttpConnectionManager`").at("filters");
    };
    let Listener { routes, filters, .. } = manager(filter).at("filters[0]")?;
    let socket = message.transport_socket.as_ref();
    let tls = socket.map(|socket| downstream::read(socket, surroundings)).transpose();
    Ok(ServerChain { routes, filters, tls: tls.at("transport_socket")? })
}

fn manager(filter: &lds::Filter) -> Result<Listener, Fault> {
    if filter.name.is_empty() {
        return Err("it must be set").at("name");
    }
    let config = match &filter.config_type {
        Some(lds::filter::ConfigType::TypedConfig(config)) => Some(config),
        Some(lds::filter::ConfigType::ConfigDiscovery(_)) | None => None,
    };
    let Some(manager) = config.and_then(opened::<hcm::HttpConnectionManager>) else {
        let found = config.map_or_else(Default::default, |it| quoted(&it.type_url));
        let why = format!("it must be an `HttpConnectionManager` of v3, and is `{found}`");
        return Err(why).at("typed_config");
    };
    let manager = manager.map_err(Fault::from).and_then(|it| read_manager(&it, Side::Server));
    manager.at("typed_config")
}

const UNSUPPORTED: &str = "gRPC does not support this field";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::support::{any, fault_of, filter, read, router};
    use super::*;

    const MANAGER: &str =
        "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";

    fn manager(fields: Value) -> Value {
        let routes = json!({"virtualHosts": [{"name": "v", "domains": ["*"]}]});
        let mut manager = json!({"routeConfig": routes, "httpFilters": [router()]});
        manager.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({"name": "m", "typedConfig": any(MANAGER, manager)})
    }

    fn chain() -> Value {
        json!({"filters": [manager(json!({}))]})
    }

    fn address(address: &str, port: u32) -> Value {
        json!({"socketAddress": {"address": address, "portValue": port}})
    }

    /// A listener with a default chain and these fields.
    fn listener(fields: Value) -> Value {
        let mut listener =
            json!({"name": "l", "address": address("10.0.0.1", 80), "defaultFilterChain": chain()});
        listener.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        listener
    }

    fn fault(fields: Value) -> String {
        fault_of::<ServerListener>(&listener(fields))
    }

    /// Returns the reason for which the default chain is rejected, from its own path on.
    fn chain_fault(chain: Value) -> String {
        let fault = fault(json!({"defaultFilterChain": chain}));
        let path = "default_filter_chain.";
        fault.strip_prefix(path).unwrap_or_else(|| panic!("{fault:?}")).to_owned()
    }

    /// Returns the place of the chain of a connection to 10.0.0.1, where these are the conditions of chains.
    fn chosen(conditions: &[Value], peer: &str) -> Option<usize> {
        let chains = conditions.iter().map(|it| {
            let mut chain = chain();
            chain["filterChainMatch"] = it.clone();
            chain
        });
        let fields = json!({"filterChains": chains.collect::<Vec<_>>()});
        let listener = read::<ServerListener>(&listener(fields)).unwrap();
        let local = "10.0.0.1".parse().unwrap();
        listener.choose(&ArrivedConnection { local, peer: peer.parse().unwrap() })
    }

    #[test]
    fn a_listener_has_an_address() {
        // C-142
        let read = read::<ServerListener>(&listener(json!({}))).unwrap();
        assert!(read.is_for("10.0.0.1:80".parse().unwrap()));
        assert!(read.is_for("[::ffff:10.0.0.1]:80".parse().unwrap()));
        assert!(!read.is_for("10.0.0.1:81".parse().unwrap()));
        assert!(!read.is_for("0.0.0.0:80".parse().unwrap()));
        assert_eq!(fault(json!({"address": null})), "address: it must be set");
        let pipe = json!({"pipe": {"path": "/a"}});
        let why =
            "address.socket_address: it must be set, because a server listens at no other kind";
        assert_eq!(fault(json!({"address": pipe})), why);
        let mut udp = address("10.0.0.1", 80);
        udp["socketAddress"]["protocol"] = json!("UDP");
        let why = "address.socket_address.protocol: it must be `TCP`";
        assert_eq!(fault(json!({"address": udp})), why);
        let why = "address.socket_address.address: `localhost` is no IP address";
        assert_eq!(fault(json!({"address": address("localhost", 80)})), why);
        let named = json!({"socketAddress": {"address": "10.0.0.1", "namedPort": "http"}});
        let why = "address.socket_address.port_value: it must be set";
        assert_eq!(fault(json!({"address": named})), why);
    }

    #[test]
    fn port_0_stands_for_any() {
        // C-142
        let fields = json!({"address": address("10.0.0.1", 0)});
        let read = read::<ServerListener>(&listener(fields)).unwrap();
        assert!(read.is_for("10.0.0.1:80".parse().unwrap()));
        assert!(!read.is_for("10.0.0.2:80".parse().unwrap()));
    }

    #[test]
    fn what_servers_do_not_have_is_rejected() {
        // C-142
        let unsupported = |field: &str| format!("{field}: gRPC does not support this field");
        let inspector = any("extensions.filters.listener.tls_inspector.v3.TlsInspector", json!({}));
        let inspector = json!([{"name": "f", "typedConfig": inspector}]);
        assert_eq!(fault(json!({"listenerFilters": inspector})), unsupported("listener_filters"));
        assert_eq!(fault(json!({"useOriginalDst": true})), unsupported("use_original_dst"));
        assert_eq!(fault(json!({"useOriginalDst": false})), "");
        let api = json!({"apiListener": {"apiListener": any(MANAGER, json!({}))}});
        assert!(fault(api).starts_with("api_listener: "));
        let hops = chain_fault(json!({"filters": [manager(json!({"xffNumTrustedHops": 1}))]}));
        assert_eq!(hops, "filters[0].typed_config.xff_num_trusted_hops: it must be 0");
    }

    #[test]
    fn a_chain_has_one_connection_manager_and_nothing_else() {
        // C-142
        let one = "filters: there must be one filter, an `HttpConnectionManager`";
        let good = manager(json!({}));
        assert_eq!(chain_fault(json!({})), one);
        assert_eq!(chain_fault(json!({"filters": [good, good]})), one);
        let tcp = any(
            "extensions.filters.network.tcp_proxy.v3.TcpProxy",
            json!({"statPrefix": "s", "cluster": "c"}),
        );
        let why = "filters[0].typed_config: it must be an `HttpConnectionManager` of v3, and is \
                   `type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy`";
        assert_eq!(chain_fault(json!({"filters": [{"name": "t", "typedConfig": tcp}]})), why);
        let mut nameless = good;
        nameless["name"] = json!("");
        assert_eq!(chain_fault(json!({"filters": [nameless]})), "filters[0].name: it must be set");
        let bare = manager(json!({"httpFilters": []}));
        let why = "filters[0].typed_config.http_filters: there are no HTTP filters";
        assert_eq!(chain_fault(json!({"filters": [bare]})), why);
        // Each chain is looked at.
        let chains = json!([chain(), {"filterChainMatch": {"sourcePorts": [1]}}]);
        assert_eq!(fault(json!({"filterChains": chains})), format!("filter_chains[1].{one}"));
    }

    #[test]
    fn servers_have_rbac_and_no_filters_of_clients() {
        // C-129, C-142
        let with = |filter: Value| json!({"filters": [manager(json!({"httpFilters": [filter, router()]}))]});
        let rbac = with(filter("f", "rbac.v3.RBAC", json!({})));
        assert_eq!(fault(json!({"defaultFilterChain": rbac})), "");
        for kind in ["fault.v3.HTTPFault", "stateful_session.v3.StatefulSession"] {
            let mut listed = filter("f", kind, json!({}));
            let why = chain_fault(with(listed.clone()));
            assert!(why.contains("the HTTP filter `f` is of the unknown type"), "{why}");
            listed["isOptional"] = json!(true);
            assert_eq!(fault(json!({"defaultFilterChain": with(listed)})), "");
        }
    }

    #[test]
    fn some_connection_has_a_chain() {
        // C-142, C-143
        let none = "filter_chains: no connection can have a filter chain";
        assert_eq!(fault(json!({"defaultFilterChain": null})), none);
        let mut impossible = chain();
        impossible["filterChainMatch"] = json!({"destinationPort": 80});
        let only = json!({"defaultFilterChain": null, "filterChains": [impossible]});
        assert_eq!(fault(only), none);
    }

    #[test]
    fn conditions_are_read() {
        // C-143
        let range = |prefix: &str, bits: u32| json!([{"addressPrefix": prefix, "prefixLen": bits}]);
        let conditions = [
            json!({"prefixRanges": range("10.0.0.0", 8), "sourceType": "EXTERNAL"}),
            json!({"prefixRanges": range("10.0.0.0", 8), "sourceType": "SAME_IP_OR_LOOPBACK"}),
            json!({"prefixRanges": range("10.0.0.0", 8), "sourcePrefixRanges": range("10.0.0.9", 32), "sourceType": "EXTERNAL"}),
            json!({"prefixRanges": range("10.0.0.0", 8), "sourcePrefixRanges": range("10.0.0.9", 32), "sourcePorts": [7], "sourceType": "EXTERNAL"}),
        ];
        assert_eq!(chosen(&conditions, "10.0.0.2:1"), Some(0));
        assert_eq!(chosen(&conditions, "10.0.0.1:1"), Some(1));
        assert_eq!(chosen(&conditions, "127.0.0.1:1"), Some(1));
        assert_eq!(chosen(&conditions, "10.0.0.9:1"), Some(2));
        assert_eq!(chosen(&conditions, "10.0.0.9:7"), Some(3));
        // The default chain comes last.
        let elsewhere = [json!({"prefixRanges": range("11.0.0.0", 8)})];
        assert_eq!(chosen(&elsewhere, "10.0.0.2:1"), Some(1));
        let plain = [json!({"transportProtocol": "raw_buffer"}), json!({})];
        assert_eq!(chosen(&plain, "10.0.0.2:1"), Some(0));
        for impossible in [
            json!({"destinationPort": 80}),
            json!({"serverNames": ["a"]}),
            json!({"applicationProtocols": ["h2"]}),
            json!({"transportProtocol": "tls"}),
        ] {
            assert_eq!(chosen(&[impossible], "10.0.0.2:1"), Some(1));
        }
    }

    #[test]
    fn conditions_that_mean_nothing_or_the_same_are_rejected() {
        // C-142, C-143
        let with = |conditions: Value| {
            let mut chain = chain();
            chain["filterChainMatch"] = conditions;
            chain
        };
        let range = |prefix: &str, bits: u32| json!([{"addressPrefix": prefix, "prefixLen": bits}]);
        let path = "filter_chains[0].filter_chain_match";
        for (conditions, expected) in [
            (
                json!({"prefixRanges": range("a", 8)}),
                "prefix_ranges[0].address_prefix: `a` is no IP address",
            ),
            (
                json!({"sourcePrefixRanges": range("", 8)}),
                "source_prefix_ranges[0].address_prefix: `` is no IP address",
            ),
            (
                json!({"directSourcePrefixRanges": range("10.0.0.0", 8)}),
                "direct_source_prefix_ranges: gRPC does not support this field",
            ),
            (
                json!({"addressSuffix": "1", "suffixLen": 8}),
                "address_suffix: gRPC does not support this field",
            ),
        ] {
            let fault = fault(json!({"filterChains": [with(conditions)]}));
            assert_eq!(fault, format!("{path}.{expected}"));
        }
        let one = with(json!({"prefixRanges": range("10.1.2.3", 8)}));
        let same = with(json!({"prefixRanges": range("10.4.5.6", 8)}));
        let fault = fault(json!({"filterChains": [one, same]}));
        let why = "filter_chains: filter chains 0 and 1 match the same connections: ";
        assert!(fault.starts_with(why), "{fault}");
    }

    #[test]
    fn routes_are_inline_or_come_from_the_stream() {
        // C-142, C-144
        let rds = |source: Value| {
            let rds = json!({"routeConfigName": "r", "configSource": source});
            json!({"filters": [manager(json!({"rds": rds, "routeConfig": null}))]})
        };
        let fields = json!({"defaultFilterChain": rds(json!({"ads": {}}))});
        let found = read::<ServerListener>(&listener(fields)).unwrap();
        assert!(matches!(&found.chains()[0].routes, RouteSource::Rds(name) if name == "r"));
        let found = read::<ServerListener>(&listener(json!({}))).unwrap();
        assert!(matches!(&found.chains()[0].routes, RouteSource::Inline(_)));
        let file = json!({"pathConfigSource": {"path": "/a"}});
        let why = "filters[0].typed_config.rds.config_source: it must be `ads` or `self`";
        assert_eq!(chain_fault(rds(file)), why);
    }
}
