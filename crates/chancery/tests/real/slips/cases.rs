//! The slips.

use super::tree::{
    CANARY, CLUSTERS, ENDPOINTS, FILTERS, HTTP, MESH, NODE, ROUTES, SECRETS, SERVER, STATUS, Tree,
};
use super::{Slip, live, slip};

/// Files that are cut short, damaged, moved or removed.
pub(super) const FILES: &[Slip] = &[
    slip("an empty file", |t| t.write(ENDPOINTS, ""), &["endpoints.yaml", "says nothing"]),
    slip(
        "a file with a comment alone",
        |t| t.write(CLUSTERS, "# gone\n"),
        &["clusters.yaml", "[]"],
    ),
    slip("endpoints cut after 1 line", |t| t.cut(ENDPOINTS, 1), &["endpoints.yaml:1"]),
    slip("endpoints cut after 2 lines", |t| t.cut(ENDPOINTS, 2), &["held back", "endpoints.yaml"]),
    slip("endpoints cut after 3 lines", |t| t.cut(ENDPOINTS, 3), &["held back", "endpoints.yaml"]),
    slip("endpoints cut after 4 lines", |t| t.cut(ENDPOINTS, 4), &["held back", "endpoints.yaml"]),
    slip("endpoints cut after 5 lines", |t| t.cut(ENDPOINTS, 5), &["held back", "`api`"]),
    slip("endpoints cut after 7 lines", |t| t.cut(ENDPOINTS, 7), &["held back", "`api`"]),
    slip("endpoints cut after 8 lines", |t| t.cut(ENDPOINTS, 8), &["endpoints.yaml:8"]),
    slip("endpoints cut after 9 lines", |t| t.cut(ENDPOINTS, 9), &["held back", "`api`"]),
    slip("endpoints cut after 11 lines", |t| t.cut(ENDPOINTS, 11), &["held back", "`api`"]),
    slip("endpoints cut after 12 lines", |t| t.cut(ENDPOINTS, 12), &["held back", "`audit`"]),
    slip("endpoints cut after 15 lines", |t| t.cut(ENDPOINTS, 15), &["held back", "`audit`"]),
    slip("clusters cut after 5 lines", |t| t.cut(CLUSTERS, 5), &["held back", "`api`"]),
    slip(
        "clusters cut after 13 lines",
        |t| t.cut(CLUSTERS, 13),
        &["held back", "no endpoints left in 1 endpoint set: `api`", "`db`", "listeners.yaml:53"],
    ),
    slip(
        "clusters cut after 24 lines",
        |t| t.cut(CLUSTERS, 24),
        &["held back", "`db` (", "clusters.yaml:22)"],
    ),
    slip(
        "routes cut after its name",
        |t| t.cut(ROUTES, 2),
        &["held back", "`edge` (", "routes.yaml:1)"],
    ),
    slip("a listener cut in half", |t| t.cut(HTTP, 10), &["http.yaml"]),
    slip(
        "a half-written line",
        |t| t.replace_first(CLUSTERS, "connect_timeout: 1s", "connect_tim"),
        &["clusters.yaml:5"],
    ),
    slip(
        "markers of a merge conflict",
        |t| {
            t.replace_first(
                CLUSTERS,
                "  type: EDS\n",
                "<<<<<<< HEAD\n  type: EDS\n=======\n  type: STATIC\n>>>>>>> b\n",
            );
        },
        &["clusters.yaml:4", "line 3 is a marker of a merge conflict"],
    ),
    slip(
        "a tab",
        |t| t.replace_first(ENDPOINTS, "  endpoints:", "\tendpoints:"),
        &["endpoints.yaml:2"],
    ),
    slip(
        "a key twice",
        |t| t.replace_first(CLUSTERS, "  type: EDS\n", "  type: EDS\n  type: STATIC\n"),
        &["clusters.yaml:4"],
    ),
    slip(
        "a resource twice",
        |t| {
            t.append(CLUSTERS, "- {\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: web, connect_timeout: 9s}\n")
        },
        &["clusters.yaml:", "remove one of the two"],
    ),
    slip(
        "a copy of a file",
        |t| t.write("groups/edge/routes-old.yaml", t.text(ROUTES)),
        &["routes"],
    ),
    slip(
        "a backup that is read",
        |t| t.write("groups/edge/listeners/http-backup.yaml", t.text(HTTP)),
        &["http"],
    ),
    slip(
        "a wrong extension",
        |t| t.rename(ROUTES, "groups/edge/routes.yaml.bak"),
        &["held back", "routes.yaml.bak"],
    ),
    slip("a file that is removed", |t| t.remove(CLUSTERS), &["held back"]),
    slip("endpoints that are removed", |t| t.remove(ENDPOINTS), &["held back"]),
    slip("routes that are removed", |t| t.remove(ROUTES), &["held back"]),
    slip("a filter that is removed", |t| t.remove(FILTERS), &["held back", "mark"]),
    slip("a secret that is removed", |t| t.remove(SECRETS), &["held back", "mesh"]),
    slip("a listener that is removed", |t| t.remove(HTTP), &["held back", "http.yaml"]),
    slip("another listener that is removed", |t| t.remove(STATUS), &["held back", "status.yaml"]),
    slip(
        "a symlink that leads nowhere",
        |t| t.link(ROUTES, "../../no/such/file.yaml"),
        &["routes.yaml: the symlink leads nowhere", "bring its target back"],
    ),
    slip("a symlink to a directory above", |t| t.link(ROUTES, ".."), &["routes.yaml"]),
    slip(
        "a directory in place of a file",
        |t| {
            t.remove(ROUTES);
            t.write("groups/edge/routes.yaml/a.yaml", "[]\n");
        },
        &["routes.yaml"],
    ),
    slip(
        "JSON with the name of YAML that is cut",
        |t| t.write(ROUTES, "{\"resources\": ["),
        &["routes.yaml:2"],
    ),
    slip("bytes that are no text", |t| t.write(ROUTES, "\u{0}\u{1}\u{2}"), &["routes.yaml"]),
];

/// Gives the address of one listener to another one, and the other way round.
fn swap_addresses(tree: &Tree) {
    let text = tree.text(MESH);
    let ports: Vec<&str> =
        text.lines().filter_map(|it| it.split_once("port_value: ")).map(|(_, it)| it).collect();
    let swapped = text.replacen(ports[0], "FIRST", 1).replacen(ports[1], ports[0], 1);
    tree.write(MESH, &swapped.replacen("FIRST", ports[1], 1));
}

/// Changes that an Envoy takes when it starts, and not while it runs.
pub(super) const IN_PLACE: &[Slip] = &[
    slip(
        "a secret of another kind",
        |t| {
            let kind = "generic_secret: {secret: {inline_string: x}}";
            let start = t.text(SECRETS).split("tls_certificate").next().unwrap_or_default();
            t.write(SECRETS, &format!("{start}{kind}\n"));
        },
        &["held back", "secrets.yaml:1", "`tls_certificate` becomes `generic_secret`"],
    ),
    slip(
        "another number of sockets",
        |t| {
            t.replace_first(
                MESH,
                "  filter_chains:",
                "  enable_reuse_port: false\n  filter_chains:",
            )
        },
        &["held back", "listeners.yaml:1: lds `mesh`: `enable_reuse_port` changes"],
    ),
    slip(
        "listeners that change addresses",
        swap_addresses,
        &["held back", "lds `mesh` takes an address that ", "lds `mesh-tls` gives up"],
    ),
    slip(
        "a filter of another type",
        |t| {
            let of = "type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer";
            let start = t.text(FILTERS).split("typed_config").next().unwrap_or_default();
            let typed = format!("typed_config: {{\"@type\": {of}, max_request_bytes: 9}}");
            t.write(FILTERS, &format!("{start}{typed}\n"));
        },
        &["held back", "filters.yaml:1: ecds `mark` is a `", "does not have in `type_urls`"],
    ),
];

/// Messages that Envoy would reject.
pub(super) const MESSAGES: &[Slip] = &[
    slip(
        "a health check without thresholds",
        |t| t.replace(CLUSTERS, "    healthy_threshold: 1\n", ""),
        &["clusters.yaml:7", "healthy_threshold"],
    ),
    slip(
        "a timeout without a unit",
        |t| t.replace_first(CLUSTERS, "connect_timeout: 1s", "connect_timeout: 1"),
        &["clusters.yaml:4"],
    ),
    slip(
        "a timeout of nothing",
        |t| t.replace_first(CLUSTERS, "connect_timeout: 1s", "connect_timeout: 0s"),
        &["clusters.yaml:4"],
    ),
    slip(
        "a negative timeout",
        |t| t.replace_first(CLUSTERS, "connect_timeout: 1s", "connect_timeout: -1s"),
        &["clusters.yaml:4"],
    ),
    slip(
        "milliseconds",
        |t| t.replace_first(CLUSTERS, "connect_timeout: 1s", "connect_timeout: 500ms"),
        &["clusters.yaml:4"],
    ),
    slip(
        "an unknown discovery type",
        |t| t.replace_first(CLUSTERS, "type: EDS", "type: ESD"),
        &["clusters.yaml:3", "EDS"],
    ),
    slip(
        "another discovery type",
        |t| t.replace_first(CLUSTERS, "type: EDS", "type: STATIC"),
        &["clusters.yaml:"],
    ),
    slip(
        "a field with a slip",
        |t| t.replace_first(CLUSTERS, "connect_timeout", "conect_timeout"),
        &["clusters.yaml:4", "did you mean `connect_timeout`"],
    ),
    slip(
        "a field of another message",
        |t| t.replace_first(ROUTES, "    route:\n", "    route:\n      name: a\n"),
        &["routes.yaml:9"],
    ),
    slip(
        "a port of 0",
        |t| t.port(ENDPOINTS, "0"),
        &["held back", "endpoints.yaml:1", "port_value: is 0"],
    ),
    slip(
        "a port that is too large",
        |t| t.replace_first(ENDPOINTS, "port_value: ", "port_value: 7"),
        &["endpoints.yaml:5"],
    ),
    slip("a port that is a text", |t| t.port(ENDPOINTS, "http"), &["endpoints.yaml:5"]),
    slip(
        "a name in place of an address",
        |t| t.replace_first(ENDPOINTS, "address: 127.0.0.1", "address: web.internal"),
        &["endpoints.yaml:5"],
    ),
    slip(
        "an address of five parts",
        |t| t.replace_first(ENDPOINTS, "address: 127.0.0.1", "address: 127.0.0.0.1"),
        &["endpoints.yaml:5"],
    ),
    slip(
        "the same domain twice",
        |t| t.replace(ROUTES, "api.example", "web.example"),
        &["routes.yaml:12"],
    ),
    slip(
        "the same domain twice in a host",
        |t| t.replace(ROUTES, "[web.example]", "[web.example, web.example]"),
        &["routes.yaml"],
    ),
    slip(
        "no domain",
        |t| t.replace(ROUTES, "domains: [web.example]", "domains: []"),
        &["routes.yaml:5"],
    ),
    slip(
        "a host without a name",
        |t| t.replace(ROUTES, "- name: web\n", "- name: ''\n"),
        &["routes.yaml:4"],
    ),
    slip(
        "a route without a match",
        |t| t.replace_first(ROUTES, "match: {prefix: /}", "match: {}"),
        &["routes.yaml:7"],
    ),
    slip(
        "a route without an action",
        |t| {
            t.replace(ROUTES, "    route:\n      cluster: web\n      request_mirror_policies: [{cluster: audit}]\n", "")
        },
        &["routes.yaml:7"],
    ),
    slip(
        "weights that are all 0",
        |t| t.replace(ROUTES, "weight: 90", "weight: 0"),
        &["routes.yaml:1"],
    ),
    slip(
        "an expression with a slip",
        |t| t.replace_first(ROUTES, "match: {prefix: /}", "match: {safe_regex: {regex: '/(a'}}"),
        &["routes.yaml:7"],
    ),
    slip(
        "the type of a filter with a slip",
        |t| t.replace(HTTP, "router.v3.Router\n", "router.v3.Ruter\n"),
        &["http.yaml:"],
    ),
    slip(
        "the type of another message",
        |t| t.replace(HTTP, "filters.http.router.v3.Router\n", "filters.http.buffer.v3.Buffer\n"),
        &["http.yaml:"],
    ),
    slip(
        "a type URL without its beginning",
        |t| t.replace_first(HTTP, "type.googleapis.com/envoy.config", "envoy.config"),
        &["http.yaml:1"],
    ),
    slip(
        "no router",
        |t| {
            t.replace(HTTP, "      - name: envoy.filters.http.router\n        typed_config:\n          \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router\n", "")
        },
        &["held back", "http.yaml:1", "envoy.filters.http.router"],
    ),
    slip(
        "the router not last",
        |t| {
            t.append(HTTP, "      - name: late\n        typed_config:\n          \"@type\": type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer\n          max_request_bytes: 1000\n")
        },
        &["http.yaml:"],
    ),
    slip("no filter chain", |t| t.cut(HTTP, 4), &["http.yaml"]),
    slip(
        "a listener without an address",
        |t| t.replace(HTTP, "address:\n  pipe: {path: http.sock}\n", ""),
        &["http.yaml:"],
    ),
    slip(
        "two listeners with one address",
        |t| t.replace(STATUS, "status.sock", "http.sock"),
        &["held back", "http.sock"],
    ),
    slip(
        "two listeners with one port",
        |t| {
            t.replace(MESH, "  name: mesh-tls\n", "  name: mesh-tls\n  address:\n    socket_address: {address: 127.0.0.1, port_value: 1}\n  #")
        },
        &["listeners.yaml:"],
    ),
    slip(
        "a config source with a slip",
        |t| {
            t.replace(
                HTTP,
                "config_source: {ads: {}, resource_api_version: V3}\n      http",
                "config_source: {asd: {}, resource_api_version: V3}\n      http",
            )
        },
        &["http.yaml:13", "did you mean `ads`"],
    ),
    slip(
        "an empty config source",
        |t| t.replace_first(CLUSTERS, "{ads: {}, resource_api_version: V3}", "{}"),
        &["clusters.yaml:5"],
    ),
    slip(
        "a field moved to the left",
        |t| {
            t.replace_first(
                CLUSTERS,
                "    unhealthy_threshold: 3\n    healthy",
                "  unhealthy_threshold: 3\n    healthy",
            )
        },
        &["clusters.yaml:"],
    ),
    slip(
        "a field moved to the right",
        |t| {
            t.replace_first(
                CLUSTERS,
                "  connect_timeout: 1s\n  eds",
                "    connect_timeout: 1s\n  eds",
            )
        },
        &["clusters.yaml:4"],
    ),
    slip(
        "a list in place of a map",
        |t| t.replace_first(CLUSTERS, "eds_cluster_config: {", "eds_cluster_config: [{"),
        &["clusters.yaml:6"],
    ),
    slip(
        "a header without a name",
        |t| t.replace(CANARY, "key: x-canary", "key: ''"),
        &["routes.yaml:4"],
    ),
    slip(
        "a header with a space",
        |t| t.replace(CANARY, "key: x-canary", "key: \"x canary\\n\""),
        &["routes.yaml:4"],
    ),
    slip(
        "another indentation of endpoints",
        |t| {
            t.replace_first(ENDPOINTS, "  - lb_endpoints:\n    - end", "  - lb_endpoints:\n  - end")
        },
        &["endpoints.yaml:6"],
    ),
    slip(
        "a status that is none",
        |t| t.replace(STATUS, "status: 200", "status: 20"),
        &["status.yaml"],
    ),
];

/// Names of what is not there, and what others need that goes.
pub(super) const NAMES: &[Slip] = &[
    slip(
        "a route to a cluster that is not there",
        |t| t.replace(ROUTES, "cluster: web\n", "cluster: wbe\n"),
        &["held back", "`wbe`", "`web`", "routes.yaml:"],
    ),
    slip(
        "a weighted cluster that is not there",
        |t| t.replace(ROUTES, "{name: api,", "{name: apis,"),
        &["held back", "`apis`", "`api`"],
    ),
    slip(
        "a mirror that is not there",
        |t| t.replace(ROUTES, "{cluster: audit}", "{cluster: audits}"),
        &["held back", "`audits`"],
    ),
    slip(
        "endpoints of a cluster with a slip",
        |t| t.replace_first(ENDPOINTS, "cluster_name: web", "cluster_name: wbe"),
        &["held back", "`wbe`", "endpoints.yaml:"],
    ),
    slip(
        "an endpoint set in other letters",
        |t| t.replace(ENDPOINTS, "cluster_name: api", "cluster_name: API"),
        &["held back", "`API`"],
    ),
    slip(
        "a cluster that is renamed alone",
        |t| t.replace(CLUSTERS, "name: api\n", "name: api-v2\n"),
        &["held back", "`api`"],
    ),
    slip(
        "a secret that is renamed",
        |t| t.replace(SECRETS, "name: mesh\n", "name: mesh-2026\n"),
        &["held back", "`mesh`", "`mesh-2026`"],
    ),
    slip(
        "a listener with another secret",
        |t| t.replace(MESH, "- name: mesh\n            sds", "- name: mehs\n            sds"),
        &["held back", "`mehs`"],
    ),
    slip(
        "a listener with other routes",
        |t| t.replace(HTTP, "route_config_name: edge", "route_config_name: egde"),
        &["held back", "`egde`", "`edge`"],
    ),
    slip(
        "routes that are renamed",
        |t| t.replace(ROUTES, "name: edge\n", "name: edge-routes\n"),
        &["held back", "`edge"],
    ),
    slip(
        "a filter that is renamed",
        |t| t.replace(FILTERS, "name: mark\n", "name: marks\n"),
        &["held back", "`mark`"],
    ),
    slip(
        "a filter with another name",
        |t| t.replace(HTTP, "- name: mark\n", "- name: makr\n"),
        &["held back", "`makr`"],
    ),
    slip(
        "a database that is renamed",
        |t| t.replace(CLUSTERS, "  name: db\n", "  name: database\n"),
        &["held back", "`db`"],
    ),
    slip(
        "a cluster that is removed and its route kept",
        |t| t.cut(CLUSTERS, 21),
        &["held back", "`db`", "listeners.yaml:53"],
    ),
    slip(
        "`endpoints: []`",
        |t| {
            t.write(ENDPOINTS, "- {\"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment, cluster_name: web, endpoints: []}\n- {\"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment, cluster_name: api, endpoints: []}\n");
        },
        &["held back", "`web`", "endpoints.yaml"],
    ),
    slip(
        "an empty list in place of endpoints",
        |t| t.write(ENDPOINTS, "[]\n"),
        &["held back", "`web`"],
    ),
    slip("an empty list in place of clusters", |t| t.write(CLUSTERS, "[]\n"), &["held back"]),
    slip(
        "a node that is left without endpoints",
        |t| {
            t.write(NODE, "{\"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment, cluster_name: web}\n")
        },
        &["held back from node `edge-3`", "`web`"],
    ),
    slip(
        "a node that has a wrong port",
        |t| t.replace(NODE, "port_value: ", "port_value: 9"),
        &["endpoints.yaml"],
    ),
    slip(
        "a cluster with the name of another service",
        |t| t.replace_first(CLUSTERS, "name: api\n", "name: web\n"),
        &["clusters.yaml"],
    ),
    slip(
        "a service name with a slip",
        |t| {
            t.replace_first(
                CLUSTERS,
                "eds_cluster_config: {eds",
                "eds_cluster_config: {service_name: wbe, eds",
            )
        },
        &["held back", "`wbe`"],
    ),
    slip(
        "half of a merge: the route without its cluster",
        |t| t.replace(ROUTES, "cluster: web\n", "cluster: web-v2\n"),
        &["held back", "`web-v2`"],
    ),
    slip(
        "half of a merge: the cluster without its endpoints",
        |t| {
            t.replace(CLUSTERS, "name: web\n", "name: web-v2\n");
            t.replace(ROUTES, "cluster: web\n", "cluster: web-v2\n");
        },
        &["held back", "web-v2"],
    ),
];

/// Nodes that would get the files of others, or none.
pub(super) const GROUPS: &[Slip] = &[
    slip(
        "a canary that does not extend",
        |t| t.replace(SERVER, "  extends: edge\n", ""),
        &["held back", "group `canary` extends nothing now", "http.yaml"],
    ),
    slip(
        "a canary that extends another group",
        |t| t.replace(SERVER, "extends: edge", "extends: mesh"),
        &["held back", "group `canary` extends `mesh` now"],
    ),
    slip(
        "a canary that extends nothing there is",
        |t| t.replace(SERVER, "extends: edge", "extends: egde"),
        &["held back", "chancery.yaml: group `egde`", "did you mean `edge`"],
    ),
    slip(
        "a group that extends itself",
        |t| t.replace(SERVER, "extends: edge", "extends: canary"),
        &["chancery.yaml:3"],
    ),
    slip(
        "an empty list of ids",
        |t| t.replace(SERVER, "id: [edge-2]", "id: []"),
        &["chancery.yaml:"],
    ),
    slip(
        "an empty match",
        |t| t.replace(SERVER, "  match:\n    id: [edge-2]\n", "  match: {}\n"),
        &["chancery.yaml:"],
    ),
    slip(
        "no match",
        |t| t.replace(SERVER, "  match:\n    id: [edge-2]\n", ""),
        &["chancery.yaml:"],
    ),
    slip(
        "a pattern that is too wide",
        |t| t.replace(SERVER, "[edge-2]", "['*']"),
        &["held back", "mesh-1"],
    ),
    slip(
        "a cluster with a slip",
        |t| t.replace(SERVER, "cluster: edge\n", "cluster: egde\n"),
        &["held back", "edge-1"],
    ),
    slip(
        "metadata with a slip",
        |t| t.replace(SERVER, "{role: mesh}", "{rol: mesh}"),
        &["held back", "mesh-1"],
    ),
    slip(
        "a value with a slip",
        |t| t.replace(SERVER, "{role: mesh}", "{role: mehs}"),
        &["held back", "mesh-1"],
    ),
    slip(
        "a rule that is removed",
        |t| t.replace(SERVER, "- name: mesh\n  match:\n    metadata: {role: mesh}\n", ""),
        &["held back", "mesh-1"],
    ),
    slip("no rules", |t| t.write(SERVER, "groups: []\nlimits: {settle: 50ms}\n"), &["held back"]),
    slip(
        "a key with a slip",
        |t| t.replace(SERVER, "groups:", "gruops:"),
        &["chancery.yaml:2", "gruops"],
    ),
    slip("a key twice", |t| t.append(SERVER, "groups: []\n"), &["chancery.yaml:"]),
    slip("an empty chancery.yaml", |t| t.write(SERVER, ""), &["chancery.yaml"]),
    slip("a chancery.yaml that is removed", |t| t.remove(SERVER), &["chancery.yaml is gone"]),
    slip("a chancery.yaml that is cut", |t| t.cut(SERVER, 6), &["chancery.yaml"]),
    slip(
        "a group's name with a slip in its rule",
        |t| t.replace(SERVER, "- name: mesh", "- name: mehs"),
        &["held back", "mesh-1"],
    ),
    slip("a group directory that is removed", |t| t.remove("groups/mesh"), &["held back", "mesh"]),
    slip(
        "the directory of what is extended is removed",
        |t| t.remove("groups/edge"),
        &["held back", "edge"],
    ),
    slip(
        "a group directory that is renamed",
        |t| t.rename("groups/mesh", "groups/mehs"),
        &["held back", "`groups/mehs/`", "did you mean `groups/mesh/`"],
    ),
    slip(
        "unmatched nodes that are refused by slip",
        |t| {
            t.replace(SERVER, "limits:", "unmatched: refuse\nlimits:");
            t.replace(SERVER, "{role: mesh}", "{role: msh}");
        },
        &["held back", "mesh-1"],
    ),
];

/// Slips that nobody can tell from right changes, or by which more is served: they are told when they go live.
pub(super) const LIVE: &[Slip] = &[
    live(
        "routes cut after the first host",
        |t| t.cut(ROUTES, 10),
        &["routes.yaml:1", "the domain `api.example` no more"],
    ),
    live(
        "a domain with a slip",
        |t| t.replace(ROUTES, "[api.example]", "[ap.example]"),
        &["routes.yaml:1", "`api.example` no more; `ap.example` is new"],
    ),
    live(
        "a host that is removed",
        |t| t.replace(CANARY, "domains: [web.example]", "domains: [shop.example]"),
        &["canary/routes.yaml:1", "`web.example` no more"],
    ),
    live(
        "a listener on another port",
        |t| t.port(MESH, "1"),
        &["listeners.yaml:1", "no listener has the address"],
    ),
    live(
        "a listener of several that is removed",
        |t| t.cut(MESH, 42),
        &["listeners.yaml:53", "no listener has the address"],
    ),
    live(
        "rules in another order",
        |t| {
            t.write(SERVER, "groups:\n- name: edge\n  match: {cluster: edge}\n- name: canary\n  extends: edge\n  match: {id: edge-2}\n- name: mesh\n  match: {metadata: {role: mesh}}\nlimits: {settle: 50ms}\n")
        },
        &["chancery.yaml moves 1 node (`edge-2`) from group `canary` to group `edge`"],
    ),
    live(
        "an id with a slip",
        |t| t.replace(SERVER, "[edge-2]", "[egde-2]"),
        &["chancery.yaml moves 1 node (`edge-2`)"],
    ),
    live(
        "another id",
        |t| t.replace(SERVER, "[edge-2]", "[edge-1]"),
        &["(`edge-1`)", "(`edge-2`)"],
    ),
    live(
        "a file at the top in place of its group",
        |t| t.rename(ROUTES, "routes.yaml"),
        &["base: +rds edge; group `edge`: -rds edge"],
    ),
    live(
        "another directory in place of the group's",
        |t| t.rename("groups/edge", "group/edge"),
        &["group: its files are for every node; did you mean `groups/`"],
    ),
    live(
        "a group directory in another one",
        |t| t.rename("groups/mesh", "groups/edge/mesh"),
        &["held back", "mesh"],
    ),
    live(
        "all groups in another directory",
        |t| t.rename("groups", "group"),
        &["group: its files are for every node; did you mean `groups/`"],
    ),
    live(
        "a node's directory with a slip",
        |t| t.rename("nodes/edge-3", "nodes/egde-3"),
        &["`nodes/egde-3/`", "did you mean `nodes/edge-3/`"],
    ),
    live(
        "a node's files in the directory of groups",
        |t| t.rename("nodes/edge-3", "groups/edge-3"),
        &["edge-3"],
    ),
    live(
        "a listener for a group at the top",
        |t| t.rename(HTTP, "http.yaml"),
        &["base: +lds http; group `edge`: -lds http"],
    ),
    live(
        "half of a move: a route in one group alone",
        |t| {
            t.replace(CLUSTERS, "name: web\n", "name: shop\n");
            t.replace(ENDPOINTS, "cluster_name: web\n", "cluster_name: shop\n");
            t.replace(ROUTES, "cluster: web\n", "cluster: shop\n");
            t.replace(ROUTES, "name: web,", "name: shop,");
        },
        &[
            "held back from group `canary`",
            "nodes/edge-3/endpoints.yaml:1: nothing refers to eds `web`",
        ],
    ),
];
