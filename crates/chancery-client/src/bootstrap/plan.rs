//! A bootstrap as the machine takes it: servers by number, authorities by key.

use std::sync::Arc;

use chancery_core::client::{AuthorityKey, Fallback, Protocol, ServerId, Settings, Setup};

use super::{Bootstrap, Service, XdsServer};

/// A bootstrap with its servers numbered.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The setup of the machine.
    pub setup: Setup,
    /// The servers by their number, each of them once.
    pub servers: Vec<XdsServer>,
}

impl Bootstrap {
    /// Numbers the servers. Servers that are equal get one number, and so one connection (C-076).
    pub fn plan(&self, protocol: Protocol, settings: Settings) -> Plan {
        self.plan_with(|_| protocol, settings)
    }

    /// Does the same, with a protocol for each server.
    pub fn plan_with(&self, protocol: impl Fn(&XdsServer) -> Protocol, settings: Settings) -> Plan {
        let node = Arc::new(self.node_for(Service::Discovery));
        let mut plan = Plan { setup: Setup::new(node, settings), servers: Vec::new() };
        plan.authority(self, AuthorityKey::Old, &protocol, Fallback::Needed);
        for (name, entry) in &self.authorities {
            let key = AuthorityKey::Named(Arc::clone(name));
            plan.authority(self, key, &protocol, entry.fallback);
        }
        plan
    }
}

impl Plan {
    fn authority(
        &mut self,
        bootstrap: &Bootstrap,
        key: AuthorityKey,
        protocol: &impl Fn(&XdsServer) -> Protocol,
        fallback: Fallback,
    ) {
        let servers = bootstrap.servers_of(&key).iter();
        let servers = servers.map(|server| self.server(server, protocol(server))).collect();
        self.setup.authority(key, servers, fallback);
    }

    fn server(&mut self, server: &XdsServer, protocol: Protocol) -> ServerId {
        let id = self.setup.server(server.key(), protocol);
        if id.index() == self.servers.len() {
            self.servers.push(server.clone());
        }
        id
    }
}
