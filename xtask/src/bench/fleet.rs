//! Directories of a whole fleet: clusters with endpoint sets, listeners with route configurations,
//! and a `chancery.yaml` that says what the gate does.
//!
//! They are the same in each run. Not here: directories of clusters alone (`directory`).

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The numbers of resources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FleetSize {
    /// Clusters, each with an endpoint set.
    pub(crate) clusters: usize,
    /// Listeners, each with a route configuration of ten routes.
    pub(crate) routes: usize,
}

/// The judgement of loads in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Off,
    Enforced,
}

impl Gate {
    fn config(self) -> &'static str {
        match self {
            Self::Off => "gate: {messages: off, loss: off, dangling: off}\n",
            Self::Enforced => "gate: {messages: enforce, loss: enforce, dangling: enforce}\n",
        }
    }
}

const TEAMS: usize = 100;
const ROUTES_EACH: usize = 10;

/// Writes a fleet into an empty directory, a hundred files of each kind, and returns the file of one
/// endpoint set, which stands alone in it.
pub(crate) fn write(dir: &Path, size: FleetSize, gate: Gate) -> Result<PathBuf> {
    crate::parts::clear(dir)?;
    fs::create_dir_all(dir)?;
    write_gate(dir, gate)?;
    for team in 0..TEAMS {
        let of_team = |all: usize| (team..all).step_by(TEAMS);
        let path = dir.join(format!("team-{team:02}"));
        fs::create_dir_all(&path)?;
        let sets = of_team(size.clusters).filter(|index| *index != 0);
        put(&path.join("clusters.yaml"), of_team(size.clusters).map(cluster).collect())?;
        put(&path.join("endpoints.yaml"), sets.map(endpoints).collect())?;
        put(&path.join("listeners.yaml"), of_team(size.routes).map(listener).collect())?;
        let routes = of_team(size.routes).map(|index| route(index, size.clusters)).collect();
        put(&path.join("routes.yaml"), routes)?;
    }
    let changed = dir.join("changed.yaml");
    put(&changed, endpoints(0))?;
    Ok(changed)
}

/// Says what the gate does, in a directory that is there.
pub(crate) fn write_gate(dir: &Path, gate: Gate) -> Result<()> {
    put(&dir.join("chancery.yaml"), gate.config().to_owned())
}

fn put(path: &Path, text: String) -> Result<()> {
    fs::write(path, text).with_context(|| path.display().to_string())
}

fn cluster(index: usize) -> String {
    format!(
        "---
\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: service-{index:06}
type: EDS
connect_timeout: 1s
eds_cluster_config: {{eds_config: {{ads: {{}}, resource_api_version: V3}}}}
"
    )
}

fn endpoints(index: usize) -> String {
    let mut text = format!(
        "---
\"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
cluster_name: service-{index:06}
endpoints:
- lb_endpoints:
"
    );
    for host in 1..=3 {
        let port = 8000 + index % 1000;
        let address = format!("{{address: 10.0.{host}.{}, port_value: {port}}}", index % 250 + 1);
        let _ = writeln!(text, "  - endpoint: {{address: {{socket_address: {address}}}}}");
    }
    text
}

fn listener(index: usize) -> String {
    let filters = "type.googleapis.com/envoy.extensions.filters";
    format!(
        "---
\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener
name: listener-{index:06}
address: {{socket_address: {{address: 127.0.0.1, port_value: {}}}}}
filter_chains:
- filters:
  - name: envoy.filters.network.http_connection_manager
    typed_config:
      \"@type\": {filters}.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: listener-{index:06}
      rds: {{route_config_name: route-{index:06}, config_source: {{ads: {{}}, resource_api_version: V3}}}}
      http_filters:
      - name: envoy.filters.http.router
        typed_config: {{\"@type\": {filters}.http.router.v3.Router}}
",
        10_000 + index
    )
}

fn route(index: usize, clusters: usize) -> String {
    let mut text = format!(
        "---
\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: route-{index:06}
virtual_hosts:
- name: all
  domains: [\"*\"]
  routes:
"
    );
    for route in 0..ROUTES_EACH {
        let cluster = (index * ROUTES_EACH + route) % clusters;
        let _ = writeln!(
            text,
            "  - {{match: {{prefix: /{route}/}}, route: {{cluster: service-{cluster:06}}}}}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_has_all_its_resources_and_one_set_alone() {
        let dir = std::env::temp_dir().join(format!("xtask-fleet-{}", std::process::id()));
        let changed =
            write(&dir, FleetSize { clusters: 250, routes: 120 }, Gate::Enforced).unwrap();
        assert!(fs::read_to_string(&changed).unwrap().contains("cluster_name: service-000000\n"));
        let mut all = fs::read_to_string(&changed).unwrap();
        for team in 0..TEAMS {
            for file in ["clusters", "endpoints", "listeners", "routes"] {
                let path = dir.join(format!("team-{team:02}/{file}.yaml"));
                all += &fs::read_to_string(path).unwrap();
            }
        }
        let count = |text: &str| all.matches(text).count();
        assert_eq!((count("v3.Cluster\n"), count("v3.ClusterLoadAssignment\n")), (250, 250));
        assert_eq!((count("v3.Listener\n"), count("v3.RouteConfiguration\n")), (120, 120));
        crate::parts::clear(&dir).unwrap();
    }
}
