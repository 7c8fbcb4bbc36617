//! Four Envoys in three groups before one server, and requests through each of them.
//!
//! ```text
//!   edge-1   group edge
//!   edge-2   group canary, which extends edge
//!   edge-3   group edge, with endpoints of its own
//!   mesh-1   group mesh, by its metadata
//! ```
//!
//! The listeners of edge are sockets in the working directory of each Envoy, so that all have the same.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use super::load::{Door, Load, Probe};
use super::tree::{SECRETS, Tree};
use crate::support::backend::Backend;
use crate::support::bootstrap::{Bootstrap, Transport};
use crate::support::chancery::Chancery;
use crate::support::clients::RealClients;
use crate::support::envoy::{Envoy, VERSIONS};
use crate::support::ports::Port;
use crate::support::tls::{CertificateAndKey, CertificateAuthority};
use crate::support::wait;

/// The nodes, with the cluster and the metadata that they state.
const NODES: [(&str, &str, &str); 4] = [
    ("edge-1", "edge", "role: edge"),
    ("edge-2", "edge", "role: edge"),
    ("edge-3", "edge", "role: edge"),
    ("mesh-1", "inner", "role: mesh"),
];

/// The fleet under load.
pub(super) struct Fleet {
    pub(super) tree: Tree,
    pub(super) chancery: Chancery,
    pub(super) envoys: Vec<Envoy>,
    pub(super) loads: Vec<Load>,
    clients: RealClients,
    /// The number of times that the directory was restored.
    ticks: usize,
    /// The updates that each Envoy rejected so far.
    rejected: [u64; NODES.len()],
    /// The ports of mesh-1: in the clear, over TLS, and of the database.
    pub(super) doors: [Port; 3],
    pub(super) backends: Vec<(&'static str, Backend)>,
    pub(super) authority: Arc<CertificateAuthority>,
    /// The certificate that replaced the first one, as clients see it.
    renewed: RefCell<Vec<u8>>,
    /// It ends last.
    dir: tempfile::TempDir,
}

/// The names of backends, which are those of the values in the files.
const BACKENDS: [&str; 9] =
    ["web-1", "web-2", "web-3", "api-1", "api-2", "audit-1", "db-1", "spare-1", "spare-2"];

impl Fleet {
    /// Starts all of it, and returns when every Envoy answers as it should.
    pub(super) fn start(clients: &RealClients) -> Self {
        let dir = tempfile::tempdir().expect("there is a temporary directory");
        let backends: Vec<_> = BACKENDS.map(|name| (name, Backend::start(name))).into();
        let doors = [Port::reserve(), Port::reserve(), Port::reserve()];
        let authority = Arc::new(CertificateAuthority::new(&dir.path().join("tls")));
        let tree = Tree::new(dir.path(), &values(&backends, &doors, &authority));
        let chancery = Chancery::serve(tree.directory());
        let (envoys, loads) = (Vec::new(), Vec::new());
        let clients = clients.clone();
        let rejected = [0; NODES.len()];
        let mut fleet = Self {
            tree,
            chancery,
            envoys,
            loads,
            clients,
            ticks: 0,
            rejected,
            doors,
            backends,
            authority,
            renewed: RefCell::default(),
            dir,
        };
        fleet.envoys = (0..NODES.len()).map(|at| fleet.envoy(at)).collect();
        fleet.loads =
            (0..NODES.len()).map(|at| Load::start(NODES[at].0, fleet.probes(at))).collect();
        for at in 0..NODES.len() {
            fleet.envoys[at].is_live();
            // The first requests come before the first configuration.
            fleet.loads[at].without(|| {});
            fleet.loads[at].take_failures();
        }
        fleet
    }

    /// The port of a backend.
    pub(super) fn port(&self, name: &str) -> u16 {
        let found = self.backends.iter().find(|(known, _)| *known == name);
        found.expect("there is such a backend").1.port()
    }

    /// Makes the directory what it was at first, with another cluster `tick-N`, and waits until every Envoy has
    /// that cluster: so all that came before it has arrived. What was brought by a slip is taken away by that.
    pub(super) fn restore(&mut self) {
        self.ticks += 1;
        let name = format!("tick-{}", self.ticks);
        let cluster = format!(
            "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: {name}\n\
             type: STATIC\nconnect_timeout: 1s\nload_assignment:\n  cluster_name: {name}\n  endpoints:\n  \
             - lb_endpoints:\n    - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, \
             port_value: {}}}}}}}\n",
            self.port("spare-1")
        );
        self.tree.restore();
        self.tree.write("tick.yaml", &cluster);
        let tick = format!("\"{name}\"");
        wait::holds(&format!("{name} to be loaded"), || {
            self.chancery.page("/api/v1/config").contains(&tick)
        });
        wait::holds(&format!("every Envoy to have {name}"), || {
            self.chancery.confirm_if_held();
            self.envoys.iter().all(|envoy| envoy.has_cluster(&name))
        });
        wait::holds("nothing to be wrong", || self.chancery.page("/ready") == "ready\n");
        self.loads.iter().for_each(Load::goes_on);
    }

    /// Starts one of the Envoys again, which has to come up and to answer.
    pub(super) fn restart(&mut self, at: usize) {
        let new = self.envoy_of(at);
        let Self { envoys, loads, .. } = self;
        loads[at].without(|| {
            let (command, bootstrap, admin) = new;
            drop(envoys.remove(at));
            let dir = self.dir.path();
            let mut envoy = Envoy::start_with(command, dir, &bootstrap, admin, 0);
            envoy.is_live();
            envoys.insert(at, envoy);
        });
    }

    /// Puts another certificate in place of that of the mesh.
    pub(super) fn renew(&self) {
        let CertificateAndKey { certificate, key, der } = self.authority.identity("mesh");
        self.renewed.replace(der);
        let secret = format!(
            "\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\n\
             name: mesh\ntls_certificate:\n  certificate_chain: {{inline_string: {certificate:?}}}\n  \
             private_key: {{inline_string: {key:?}}}\n"
        );
        self.tree.write(SECRETS, &secret);
    }

    /// Returns true if the mesh presents that certificate.
    pub(super) fn presents_new(&self) -> bool {
        let [_, tls, _] = &self.doors;
        self.authority.ask(tls.number()).is_some_and(|(_, der)| der == *self.renewed.borrow())
    }

    /// Returns true if a node answers a request for a host, with these words.
    pub(super) fn answers(&self, at: usize, host: &'static str, words: &'static str) -> bool {
        let [mesh, ..] = &self.doors;
        let door = match NODES[at].0 {
            "mesh-1" => Door::Tcp(mesh.number()),
            _ => Door::Unix(self.home(at).join("http.sock")),
        };
        Probe { door, host, with: &[], without: &[] }.reply().is_some_and(|it| it.contains(words))
    }

    /// The directory of an Envoy.
    pub(super) fn home(&self, at: usize) -> PathBuf {
        self.dir.path().join(NODES[at].0)
    }

    fn envoy(&self, at: usize) -> Envoy {
        let (command, bootstrap, admin) = self.envoy_of(at);
        Envoy::start_with(command, self.dir.path(), &bootstrap, admin, 0)
    }

    fn envoy_of(&self, at: usize) -> (std::process::Command, String, Port) {
        let (id, cluster, metadata) = NODES[at];
        let admin = Port::reserve();
        let kind = if at.is_multiple_of(2) { "GRPC" } else { "DELTA_GRPC" };
        let bootstrap = Bootstrap::ads(kind).server("xds", self.chancery.port(), Transport::H2c);
        let bootstrap = bootstrap.yaml(id, admin.number());
        let bootstrap = bootstrap.replacen("cluster: edge", &format!("cluster: {cluster}"), 1);
        let bootstrap = bootstrap.replacen("purpose: test", metadata, 1);
        let home = self.home(at);
        fs::create_dir_all(&home).expect("the directory is ours");
        let mut command = self.clients.envoy(VERSIONS[0]);
        command.current_dir(home);
        (command, bootstrap, admin)
    }

    /// The requests that one of the nodes has to answer.
    fn probes(&self, at: usize) -> Vec<Probe> {
        let [mesh, tls, db] = &self.doors;
        if NODES[at].0 == "mesh-1" {
            let tls = Door::Tls(tls.number(), Arc::clone(&self.authority));
            return vec![
                probe(Door::Tcp(mesh.number()), "api.example", &["from api-"], &["x-marked"]),
                probe(tls, "api.example", &[], &[]),
                probe(Door::Tcp(db.number()), "db.example", &["from db-1"], &[]),
            ];
        }
        let (http, status) = (self.home(at).join("http.sock"), self.home(at).join("status.sock"));
        let (with, without): (&[&str], &[&str]) = match NODES[at].0 {
            "edge-2" => (&["from web-", "x-canary: yes", "x-marked: yes"], &[]),
            "edge-3" => (&["from web-3", "x-marked: yes"], &["x-canary"]),
            _ => (&["from web-", "x-marked: yes"], &["x-canary"]),
        };
        vec![
            probe(Door::Unix(http.clone()), "web.example", with, without),
            probe(Door::Unix(http), "api.example", &["from api-", "x-marked: yes"], &[]),
            probe(Door::Unix(status), "status.example", &["all is well"], &[]),
        ]
    }

    /// The failures since this was asked: requests that failed, and updates that an Envoy rejected.
    pub(super) fn take_failures(&mut self) -> Vec<String> {
        let mut failures: Vec<_> = self.loads.iter().flat_map(Load::take_failures).collect();
        for (at, envoy) in self.envoys.iter().enumerate() {
            let rejected = envoy.stat("update_rejected");
            if rejected > self.rejected[at] {
                failures.push(format!("{} rejected an update", NODES[at].0));
            }
            self.rejected[at] = rejected;
        }
        failures
    }
}

fn probe(
    door: Door,
    host: &'static str,
    with: &'static [&'static str],
    without: &'static [&'static str],
) -> Probe {
    Probe { door, host, with, without }
}

/// The values in the files.
fn values(
    backends: &[(&str, Backend)],
    doors: &[Port; 3],
    authority: &CertificateAuthority,
) -> Vec<(&'static str, String)> {
    let port = |name: &str| {
        let found = backends.iter().find(|(known, _)| *known == name);
        found.map(|(_, backend)| backend.port().to_string()).unwrap_or_default()
    };
    let identity = authority.identity("mesh");
    let text = |pem: &str| format!("{pem:?}");
    let [mesh, tls, db] = doors.each_ref().map(|door| door.number().to_string());
    vec![
        ("$WEB1", port("web-1")),
        ("$WEB2", port("web-2")),
        ("$WEB3", port("web-3")),
        ("$API1", port("api-1")),
        ("$API2", port("api-2")),
        ("$AUDIT1", port("audit-1")),
        ("$DB1", port("db-1")),
        ("$MESH", mesh),
        ("$TLS", tls),
        ("$DB", db),
        ("$CERTIFICATE", text(&identity.certificate)),
        ("$KEY", text(&identity.key)),
    ]
}
