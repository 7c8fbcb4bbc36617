//! Our client before the servers of other projects: go-control-plane, rust-control-plane and
//! Sovereign, alone and beside Chancery.
//!
//! They are asked for clusters and endpoints of a few lines, because the client must not care what a
//! resource is.

mod fallback;
mod federation;
mod go;
mod rust;
mod sovereign;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::clients::{RealClients, clients};

/// A directory to work in, and the programs.
struct Rig {
    clients: RealClients,
    dir: TempDir,
}

impl Rig {
    /// Nothing, if the servers are not installed.
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().expect("there is a temporary directory");
        clients().map(|clients| Self { clients, dir })
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a bootstrap.
    fn bootstrap(&self, bootstrap: &Value) -> PathBuf {
        let path = self.path().join("bootstrap.json");
        fs::write(&path, bootstrap.to_string()).expect("the directory is ours");
        path
    }
}

/// A server as a bootstrap names it.
fn server(address: &str) -> Value {
    json!({"server_uri": address, "channel_creds": [{"type": "insecure"}]})
}

/// Clusters by their names, and the seconds that tell their versions apart.
fn clusters(all: &[(&str, u32)]) -> Value {
    let cluster = |(name, seconds): &(&str, u32)| {
        json!({
            "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            "name": name,
            "connect_timeout": format!("{seconds}s"),
        })
    };
    all.iter().map(cluster).collect()
}

/// The same, and endpoints by the names of their clusters.
fn with_endpoints(clusters: Value, names: &[&str]) -> Value {
    let mut all = clusters;
    let list = all.as_array_mut().expect("it was made as one");
    list.extend(names.iter().map(|name| {
        json!({
            "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            "cluster_name": name,
        })
    }));
    all
}

/// The time for a server to give what is asked for, where it will not: long enough for a loaded
/// machine to give what there is.
const PATIENCE: [&str; 2] = ["--timeout", "2s"];
