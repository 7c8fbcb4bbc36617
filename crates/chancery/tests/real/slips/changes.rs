//! Right changes: none is held back, and each arrives at the Envoys it is for.

use super::fleet::Fleet;
use super::tree::{
    CANARY, CLUSTERS, ENDPOINTS, FILTERS, HTTP, MESH, MESH_ROUTES, NODE, ROUTES, SECRETS, SERVER,
    STATUS,
};

/// A right change, and how it is seen that it has arrived.
pub(super) struct RightChange {
    pub(super) name: &'static str,
    pub(super) make: fn(&Fleet),
    pub(super) has_arrived: fn(&Fleet) -> bool,
}

const fn change(
    name: &'static str,
    make: fn(&Fleet),
    has_arrived: fn(&Fleet) -> bool,
) -> RightChange {
    RightChange { name, make, has_arrived }
}

/// The nodes, by their places in the fleet.
const EDGE_1: usize = 0;
const EDGE_2: usize = 1;
const EDGE_3: usize = 2;
const MESH_1: usize = 3;

const CDS: &str = "- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n";
const EDS: &str =
    "- \"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\n";
const RDS: &str = "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\n";

/// A cluster with EDS.
fn cluster(name: &str) -> String {
    format!(
        "{CDS}  name: {name}\n  type: EDS\n  connect_timeout: 1s\n  \
         eds_cluster_config: {{eds_config: {{ads: {{}}, resource_api_version: V3}}}}\n"
    )
}

/// The endpoints of a cluster: backends by name.
fn endpoints(fleet: &Fleet, cluster: &str, backends: &[&str]) -> String {
    let one = |name: &&str| {
        let port = fleet.port(name);
        format!(
            "    - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}\n"
        )
    };
    let all: String = backends.iter().map(one).collect();
    format!("{EDS}  cluster_name: {cluster}\n  endpoints:\n  - lb_endpoints:\n{all}")
}

/// The first endpoint set of the directory, and the others.
fn others(fleet: &Fleet) -> String {
    let text = fleet.tree.text(ENDPOINTS);
    text[text.rfind("- \"@type\"").expect("it has several")..].to_owned()
}

/// The endpoints of the directory, with other ones for web and api.
fn rescale(fleet: &Fleet, web: &[&str], api: &[&str]) {
    let text = endpoints(fleet, "web", web) + &endpoints(fleet, "api", api) + &others(fleet);
    fleet.tree.write(ENDPOINTS, &text);
}

/// Returns true if an Envoy has so many endpoints in a cluster.
fn has_endpoints(fleet: &Fleet, at: usize, cluster: &str, count: usize) -> bool {
    let page = fleet.envoys[at].admin("/clusters").unwrap_or_default();
    let is_one = |line: &&str| {
        line.starts_with(&format!("{cluster}::")) && line.contains("::health_flags::")
    };
    page.lines().filter(is_one).count() == count
}

/// Returns true if the configuration of an Envoy has a text.
fn has(fleet: &Fleet, at: usize, text: &str) -> bool {
    fleet.envoys[at].admin("/config_dump").unwrap_or_default().contains(text)
}

fn lacks(fleet: &Fleet, at: usize, text: &str) -> bool {
    let page = fleet.envoys[at].admin("/config_dump").unwrap_or_default();
    !page.is_empty() && !page.contains(text)
}

/// Returns true if an Envoy was told that a backend is gone. One that is healthy stays until it is not.
fn lacks_endpoint(fleet: &Fleet, at: usize, backend: &str) -> bool {
    let page = fleet.envoys[at].admin("/clusters").unwrap_or_default();
    let start = format!("web::127.0.0.1:{}::health_flags", fleet.port(backend));
    let line = page.lines().find(|line| line.starts_with(&start));
    !page.is_empty() && line.is_none_or(|line| line.contains("pending_dynamic_removal"))
}

/// The line of a header that routes add.
fn header(key: &str) -> String {
    format!("name: edge\nrequest_headers_to_add:\n- header: {{key: {key}, value: \"yes\"}}\n")
}

/// Changes of endpoints, clusters and routes.
pub(super) const TRAFFIC: &[RightChange] = &[
    change(
        "from 3 to 5 endpoints",
        |f| rescale(f, &["web-1", "web-2", "web-3", "spare-1", "spare-2"], &["api-1", "api-2"]),
        |f| has_endpoints(f, EDGE_1, "web", 5),
    ),
    change(
        "from 3 to 2 endpoints",
        |f| rescale(f, &["web-1", "web-2"], &["api-1", "api-2"]),
        |f| lacks_endpoint(f, EDGE_1, "web-3"),
    ),
    change(
        "from 3 to 1 endpoint",
        |f| rescale(f, &["web-1"], &["api-1"]),
        |f| lacks_endpoint(f, EDGE_1, "web-2") && has_endpoints(f, MESH_1, "api", 1),
    ),
    change(
        "all endpoints on other hosts",
        |f| rescale(f, &["spare-1", "spare-2"], &["spare-1"]),
        |f| f.answers(EDGE_1, "web.example", "from spare-"),
    ),
    change(
        "blue and green: endpoints change places",
        |f| rescale(f, &["api-1", "api-2"], &["web-1", "web-2"]),
        |f| {
            f.answers(EDGE_1, "web.example", "from api-")
                && f.answers(MESH_1, "api.example", "from web-")
        },
    ),
    change(
        "blue and green: another cluster",
        |f| {
            f.tree.append(CLUSTERS, &cluster("web-green"));
            f.tree.append(ENDPOINTS, &endpoints(f, "web-green", &["spare-1"]));
            f.tree.replace(ROUTES, "cluster: web\n", "cluster: web-green\n");
        },
        |f| f.answers(EDGE_1, "web.example", "from spare-1"),
    ),
    change(
        "weights",
        |f| f.tree.replace(ROUTES, "{name: web, weight: 0}", "{name: web, weight: 10}"),
        |f| has(f, EDGE_1, "\"weight\": 10"),
    ),
    change(
        "all weight on the other one",
        |f| {
            f.tree.replace(ROUTES, "weight: 90", "weight: 0 ");
            f.tree.replace(ROUTES, "{name: web, weight: 0}", "{name: web, weight: 5}");
        },
        |f| f.answers(EDGE_1, "api.example", "from web-"),
    ),
    change(
        "a new service",
        |f| {
            f.tree.append(CLUSTERS, &cluster("shop"));
            f.tree.append(ENDPOINTS, &endpoints(f, "shop", &["spare-1"]));
            f.tree.append(ROUTES, "- name: shop\n  domains: [shop.example]\n  routes:\n  - {match: {prefix: /}, route: {cluster: shop}}\n");
        },
        |f| f.answers(EDGE_1, "shop.example", "from spare-1"),
    ),
    change(
        "a new service in a file of its own",
        |f| {
            f.tree.write(
                "services/shop.yaml",
                &(cluster("shop") + &endpoints(f, "shop", &["spare-1"])),
            );
            f.tree.append(ROUTES, "- name: shop\n  domains: [shop.example]\n  routes:\n  - {match: {prefix: /}, route: {cluster: shop}}\n");
        },
        |f| f.answers(EDGE_1, "shop.example", "from spare-1"),
    ),
    change(
        "a new cluster before its endpoints",
        |f| f.tree.append(CLUSTERS, &cluster("later")),
        |f| has(f, EDGE_1, "\"later\""),
    ),
    change(
        "the end of a mirror, with its cluster",
        |f| {
            f.tree.replace(ROUTES, "      request_mirror_policies: [{cluster: audit}]\n", "");
            let text = f.tree.text(CLUSTERS);
            let (at, end) = (text.find("- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: audit"), text.rfind("- \"@type\""));
            f.tree.write(
                CLUSTERS,
                &text.replace(&text[at.expect("it is there")..end.expect("as above")], ""),
            );
            let text = f.tree.text(ENDPOINTS);
            f.tree.write(ENDPOINTS, &text.replace(&others(f), ""));
        },
        |f| lacks(f, EDGE_1, "\"audit\""),
    ),
    change(
        "a service that is retired",
        |f| {
            f.tree.cut(MESH, 42);
            f.tree.cut(CLUSTERS, 21);
        },
        |f| !f.envoys[MESH_1].has_cluster("db"),
    ),
    change(
        "a cluster that is renamed with all that names it",
        |f| {
            f.tree.replace(CLUSTERS, "name: api\n", "name: orders\n");
            f.tree.replace(ENDPOINTS, "cluster_name: api\n", "cluster_name: orders\n");
            f.tree.replace(ROUTES, "{name: api,", "{name: orders,");
            f.tree.replace(CANARY, "{cluster: api}", "{cluster: orders}");
            f.tree.replace(MESH_ROUTES, "{cluster: api}", "{cluster: orders}");
        },
        |f| f.envoys.iter().all(|it| it.has_cluster("orders") && !it.has_cluster("api")),
    ),
    change(
        "a timeout",
        |f| f.tree.replace_first(CLUSTERS, "connect_timeout: 1s", "connect_timeout: 3s"),
        |f| has(f, MESH_1, "\"connect_timeout\": \"3s\""),
    ),
    change(
        "all timeouts",
        |f| f.tree.replace(CLUSTERS, "connect_timeout: 1s", "connect_timeout: 2s"),
        |f| has(f, EDGE_2, "\"connect_timeout\": \"2s\""),
    ),
    change(
        "retries",
        |f| {
            f.tree.replace(
                ROUTES,
                "      cluster: web\n",
                "      cluster: web\n      retry_policy: {retry_on: 5xx, num_retries: 3}\n",
            )
        },
        |f| has(f, EDGE_1, "\"num_retries\": 3"),
    ),
    change(
        "a timeout of a route",
        |f| {
            f.tree.replace(
                ROUTES,
                "      cluster: web\n",
                "      cluster: web\n      timeout: 7s\n",
            )
        },
        |f| has(f, EDGE_3, "\"timeout\": \"7s\""),
    ),
    change(
        "a route in front",
        |f| {
            f.tree.replace_first(ROUTES, "  - match: {prefix: /}\n", "  - match: {path: /health}\n    direct_response: {status: 200}\n  - match: {prefix: /}\n")
        },
        |f| has(f, EDGE_1, "\"/health\""),
    ),
    change(
        "a header for requests",
        |f| f.tree.replace(ROUTES, "name: edge\n", &header("x-new")),
        |f| f.answers(EDGE_1, "web.example", "x-new: yes"),
    ),
    change(
        "another domain beside",
        |f| f.tree.replace(ROUTES, "[web.example]", "[web.example, www.example]"),
        |f| f.answers(EDGE_1, "www.example", "from web-"),
    ),
    change(
        "a host for all other domains",
        |f| {
            f.tree.append(ROUTES, "- name: rest\n  domains: ['*']\n  routes:\n  - {match: {prefix: /}, redirect: {host_redirect: web.example}}\n")
        },
        |f| has(f, EDGE_1, "host_redirect"),
    ),
    change(
        "another policy for balancing",
        |f| {
            f.tree.replace_first(
                CLUSTERS,
                "  type: EDS\n",
                "  type: EDS\n  lb_policy: LEAST_REQUEST\n",
            )
        },
        |f| has(f, EDGE_1, "LEAST_REQUEST"),
    ),
    change(
        "limits of a cluster",
        |f| {
            f.tree.replace_first(
                CLUSTERS,
                "  type: EDS\n",
                "  type: EDS\n  circuit_breakers: {thresholds: [{max_connections: 777}]}\n",
            )
        },
        |f| has(f, EDGE_1, "777"),
    ),
    change(
        "endpoints in place of EDS",
        |f| {
            f.tree.replace(CLUSTERS, &cluster("audit"), &format!("{CDS}  name: audit\n  type: STATIC\n  connect_timeout: 4s\n  load_assignment:\n    cluster_name: audit\n    endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {}}}}}}}}}]}}]\n", f.port("audit-1")))
        },
        |f| has(f, EDGE_1, "\"connect_timeout\": \"4s\""),
    ),
    change(
        "EDS in place of endpoints",
        |f| {
            f.tree.cut(CLUSTERS, 21);
            f.tree.append(CLUSTERS, &cluster("db"));
            f.tree.append(ENDPOINTS, &endpoints(f, "db", &["db-1"]));
        },
        |f| has(f, MESH_1, "\"db-1\"") || has_endpoints(f, MESH_1, "db", 1),
    ),
];

/// Changes of listeners, secrets, files and groups.
pub(super) const SHAPE: &[RightChange] = &[
    change("another certificate", |f| f.renew(), |f| f.presents_new()),
    change(
        "a new listener",
        |f| {
            f.tree.write(
                "groups/edge/listeners/extra.yaml",
                &f.tree
                    .text(STATUS)
                    .replace("status.sock", "extra.sock")
                    .replace("name: status", "name: extra"),
            )
        },
        |f| f.home(EDGE_3).join("extra.sock").exists(),
    ),
    change(
        "a listener for another one",
        |f| {
            f.tree.remove(STATUS);
            f.tree.write(
                "groups/edge/listeners/state.yaml",
                &f.tree.text(STATUS).replace("name: status\n", "name: state\n"),
            );
        },
        |f| has(f, EDGE_1, "\"state\""),
    ),
    change(
        "a listener of several is retired",
        |f| f.tree.cut(MESH, 42),
        |f| {
            lacks(f, MESH_1, "\"name\": \"db\",\n         \"active_state\"")
                || lacks(f, MESH_1, "TcpProxy")
        },
    ),
    change(
        "another filter",
        |f| f.tree.replace(FILTERS, "key: x-marked", "key: x-marked-too"),
        |f| f.answers(EDGE_1, "web.example", "x-marked-too: yes"),
    ),
    change(
        "one filter more",
        |f| {
            f.tree.replace(HTTP, "      - name: envoy.filters.http.router", "      - name: buffer\n        typed_config: {\"@type\": type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer, max_request_bytes: 65536}\n      - name: envoy.filters.http.router")
        },
        |f| has(f, EDGE_1, "65536"),
    ),
    change(
        "a filter that is removed with its use",
        |f| {
            let text = f.tree.text(HTTP);
            let (at, end) = (
                text.find("      - name: mark").expect("it is there"),
                text.find("      - name: envoy.filters").expect("as above"),
            );
            f.tree.write(HTTP, &text.replace(&text[at..end], ""));
            f.tree.remove(FILTERS);
        },
        |f| !f.answers(EDGE_1, "web.example", "x-marked"),
    ),
    change(
        "an access log",
        |f| {
            f.tree.replace(HTTP, "      stat_prefix: edge\n", "      stat_prefix: edge\n      access_log: [{name: out, typed_config: {\"@type\": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: /dev/null}}]\n")
        },
        |f| has(f, EDGE_1, "/dev/null"),
    ),
    change(
        "comments and empty lines",
        |f| {
            f.tree.write(ROUTES, &f.tree.text(ROUTES).replace('\n', "\n\n# a comment\n"));
            f.tree.replace(ROUTES, "name: edge\n", &header("x-comment"));
        },
        |f| f.answers(EDGE_1, "web.example", "x-comment: yes"),
    ),
    change(
        "JSON in place of YAML",
        |f| {
            f.tree.remove(FILTERS);
            f.tree.write("groups/edge/filters.json", "{\"@type\": \"type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig\", \"name\": \"mark\", \"typed_config\": {\"@type\": \"type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation\", \"mutations\": {\"request_mutations\": [{\"append\": {\"header\": {\"key\": \"x-json\", \"value\": \"yes\"}}}]}}}");
        },
        |f| f.answers(EDGE_1, "web.example", "x-json: yes"),
    ),
    change(
        "a file that is renamed",
        |f| {
            f.tree.rename(HTTP, "groups/edge/http.yaml");
            f.tree.replace(ROUTES, "name: edge\n", &header("x-renamed"));
        },
        |f| f.answers(EDGE_1, "web.example", "x-renamed: yes"),
    ),
    change(
        "a directory that is renamed",
        |f| {
            f.tree.rename("groups/edge/listeners", "groups/edge/lds");
            f.tree.replace(ROUTES, "name: edge\n", &header("x-moved"));
        },
        |f| f.answers(EDGE_1, "web.example", "x-moved: yes"),
    ),
    change(
        "a file that is split",
        |f| {
            let text = f.tree.text(ENDPOINTS);
            f.tree.write(ENDPOINTS, &text.replace(&others(f), ""));
            f.tree.write("endpoints/audit.yaml", &others(f));
            f.tree.replace(ROUTES, "name: edge\n", &header("x-split"));
        },
        |f| f.answers(EDGE_1, "web.example", "x-split: yes"),
    ),
    change(
        "files that become one",
        |f| {
            f.tree.write("all.yaml", &(f.tree.text(CLUSTERS).to_owned() + f.tree.text(ENDPOINTS)));
            f.tree.remove(CLUSTERS);
            f.tree.remove(ENDPOINTS);
            f.tree.replace(ROUTES, "name: edge\n", &header("x-one"));
        },
        |f| f.answers(EDGE_1, "web.example", "x-one: yes"),
    ),
    change(
        "routes from a group to the top",
        |f| {
            f.tree.rename(ROUTES, "edge-routes.yaml");
            f.tree.replace("edge-routes.yaml", "name: edge\n", &header("x-top"));
        },
        |f| f.answers(EDGE_1, "web.example", "x-top: yes"),
    ),
    change(
        "a cluster from the top to its group",
        |f| {
            let text = f.tree.text(CLUSTERS);
            let at = text.rfind("- \"@type\"").expect("it is there");
            f.tree.write("groups/mesh/db.yaml", &text[at..].replace("1s", "6s"));
            f.tree.write(CLUSTERS, &text[..at]);
        },
        |f| has(f, MESH_1, "\"connect_timeout\": \"6s\""),
    ),
    change(
        "the end of a canary: its directory is removed",
        |f| f.tree.remove("groups/canary"),
        |f| {
            !f.answers(EDGE_2, "web.example", "x-canary")
                && f.answers(EDGE_2, "web.example", "x-marked")
        },
    ),
    change(
        "the end of a canary: it was good",
        |f| f.tree.rename(CANARY, ROUTES),
        |f| {
            f.answers(EDGE_1, "web.example", "x-canary: yes")
                && f.answers(EDGE_2, "web.example", "x-canary: yes")
        },
    ),
    change(
        "the end of a canary: its rule goes too",
        |f| {
            f.tree.remove("groups/canary");
            f.tree.replace(
                SERVER,
                "- name: canary\n  extends: edge\n  match:\n    id: [edge-2]\n",
                "",
            );
        },
        |f| {
            !f.answers(EDGE_2, "web.example", "x-canary")
                && f.answers(EDGE_2, "web.example", "x-marked")
        },
    ),
    change(
        "one node more in a canary",
        |f| f.tree.replace(SERVER, "[edge-2]", "[edge-2, edge-1]"),
        |f| f.answers(EDGE_1, "web.example", "x-canary: yes"),
    ),
    change(
        "a new group that extends another",
        |f| {
            f.tree.write(
                "groups/trial/routes.yaml",
                &f.tree.text(CANARY).replace("x-canary", "x-trial"),
            );
            f.tree.replace(
                SERVER,
                "groups:\n",
                "groups:\n- name: trial\n  extends: edge\n  match: {id: edge-1}\n",
            );
        },
        |f| f.answers(EDGE_1, "web.example", "x-trial: yes"),
    ),
    change(
        "a new group without nodes",
        |f| {
            f.tree.write(
                "groups/batch/routes.yaml",
                &format!("{RDS}name: batch\nvirtual_hosts: []\n"),
            )
        },
        |f| f.chancery.page("/api/v1/config").contains("\"batch\""),
    ),
    change(
        "a rule by region too",
        |f| {
            f.tree.replace(SERVER, "    cluster: edge\n", "    cluster: edge\n    region: r1\n");
            f.tree.replace(ROUTES, "name: edge\n", &header("x-region"));
        },
        |f| f.answers(EDGE_1, "web.example", "x-region: yes"),
    ),
    change(
        "files of its own for a node",
        |f| f.tree.write("nodes/edge-1/endpoints.yaml", &endpoints(f, "web", &["spare-1"])),
        |f| f.answers(EDGE_1, "web.example", "from spare-1"),
    ),
    change(
        "a node without files of its own",
        |f| f.tree.remove(NODE),
        |f| has_endpoints(f, EDGE_3, "web", 3),
    ),
    change(
        "another secret, with the listener",
        |f| {
            f.tree.replace(SECRETS, "name: mesh\n", "name: mesh-2\n");
            f.tree.replace(
                MESH,
                "- name: mesh\n            sds",
                "- name: mesh-2\n            sds",
            );
        },
        |f| has(f, MESH_1, "\"mesh-2\""),
    ),
    change(
        "a setting of the gate",
        |f| {
            f.tree.append(SERVER, "gate: {loss-percent: 60}\n");
            f.tree.replace(ROUTES, "name: edge\n", &header("x-gate"));
        },
        |f| f.answers(EDGE_1, "web.example", "x-gate: yes"),
    ),
];
