//! The Envoy matrix: every way Envoy can be told to fetch its configuration, on two versions.
//!
//! Each test is one bootstrap, run with both versions at once, each with a daemon and a directory
//! of its own. It becomes LIVE, traffic flows, one edit of the directory takes effect, and nothing
//! Envoy was sent was refused.

mod load;
mod on_demand;
mod reconnect;
mod transports;
mod types;
mod xdstp;

use std::path::Path;
use std::thread;

use crate::support::backend::Backend;
use crate::support::bootstrap::{Bootstrap, Transport};
use crate::support::chancery::{Chancery, Directory};
use crate::support::clients::{RealClients, clients};
use crate::support::envoy::{Envoy, VERSIONS};
use crate::support::ports::Port;
use crate::support::resources::{Source, cluster, endpoints, listener, rds, routes};

/// The parts of every case: a directory to work in, two backends, a port for Envoy's listener.
struct Rig {
    clients: RealClients,
    version: &'static str,
    dir: tempfile::TempDir,
    one: Backend,
    two: Backend,
    edge: Port,
}

/// Runs a case with both versions of Envoy; the thread that fails is named after its version.
fn on_both_versions(case: impl Fn(&Rig) + Sync) {
    let Some(clients) = clients() else { return };
    thread::scope(|scope| {
        for version in VERSIONS {
            let rig = Rig {
                clients: clients.clone(),
                version,
                dir: tempfile::tempdir().expect("there is a temporary directory"),
                one: Backend::start("one"),
                two: Backend::start("two"),
                edge: Port::reserve(),
            };
            let named = thread::Builder::new().name(format!("Envoy {version}"));
            let case = &case;
            named.spawn_scoped(scope, move || case(&rig)).expect("a thread can be started");
        }
    });
}

impl Rig {
    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn envoy(&self, bootstrap: &Bootstrap) -> Envoy {
        Envoy::start(&self.clients, self.version, self.path(), bootstrap, self.edge.number())
    }

    fn listener(&self, routes: &str) -> String {
        listener("l1", self.edge.number(), routes, "")
    }

    /// Listener, routes, cluster and endpoints, each from the source, leading to backend one.
    fn plain(&self, source: Source) -> Directory {
        let directory = Directory::new(self.path(), "config");
        directory.write("lds.yaml", &self.listener(&rds("r1", source)));
        directory.write("rds.yaml", &routes("r1", "svc-a"));
        directory.write("cds.yaml", &cluster("svc-a", source));
        directory.write("eds.yaml", &endpoints("svc-a", &[self.one.port()]));
        directory
    }

    /// The plain case: LIVE, traffic, a change, no refusal.
    fn follows(&self, directory: &Directory, bootstrap: &Bootstrap) -> Envoy {
        let mut envoy = self.envoy(bootstrap);
        envoy.is_live();
        envoy.answers_from("one");
        directory.write("eds.yaml", &endpoints("svc-a", &[self.two.port()]));
        envoy.answers_from("two");
        envoy.refused_nothing();
        envoy
    }

    /// The plain case over one aggregated stream of a kind, with a change to the bootstrap.
    fn ads(&self, kind: &str, change: impl Fn(Bootstrap) -> Bootstrap) {
        let directory = self.plain(Source::Ads);
        let chancery = Chancery::serve(&directory);
        let bootstrap = Bootstrap::ads(kind).server("xds", chancery.port(), Transport::H2c);
        self.follows(&directory, &change(bootstrap));
    }
}
