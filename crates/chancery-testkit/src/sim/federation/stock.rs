//! The resources that an earlier run left, of the first server of each authority, of which some are
//! gone or other meanwhile, and watchers of groups who were told of them then.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::client::{AuthorityKey, CachedResource, ServerId};
use chancery_core::{Resource, ResourceName, TypeUrl};

use super::Federation;
use super::audience::{BelievedResource, View};
use super::plan::{self, NAMES, TYPES, type_url};
use crate::client::Fault;

impl Federation {
    /// Restores what is left, and begins to watch some of the groups it is in. Slow watchers
    /// believe that it is there, as a program does that goes on where it ended.
    pub(super) fn resume(&mut self) -> Result<(), Fault> {
        for at in 0..self.plan.authorities.len() {
            let authority = &self.plan.authorities[at];
            let (key, server) = (authority.key.clone(), authority.servers[0]);
            let has_groups = self.plan.has_groups(authority);
            for short in TYPES {
                let url = type_url(short);
                let view = self.restore(&key, server, &url);
                if has_groups && self.rng.chance(50) {
                    let is_slow = self.plan.dangers.slow;
                    let view = if is_slow { view } else { View::default() };
                    let wait = if is_slow { Duration::from_secs(40) } else { Duration::ZERO };
                    let reads_from = self.now + self.rng.time(wait);
                    let group = plan::group(&key, &url);
                    self.watch_as(key.clone(), url, group, view, reads_from)?;
                }
            }
        }
        Ok(())
    }

    /// The resources that the earlier run told of one type.
    fn restore(&mut self, key: &AuthorityKey, server: ServerId, url: &TypeUrl) -> View {
        let mut view = View::default();
        for number in 0..NAMES {
            if self.rng.chance(50) {
                continue;
            }
            let name = plan::name(key, url, number);
            let resource = self.left(server, url, &name);
            self.note(|| format!("= {} {name}", url.short()));
            self.referee.left(server, url, &resource);
            let known =
                BelievedResource { value: Some((resource.body().clone(), server)), error: None };
            view.resources.insert(resource.name().shared(), known);
            let (version, at) = (resource.version().to_string().into(), self.now);
            let (resource, expires) = (Arc::new(resource), None);
            let held = CachedResource {
                resource,
                decoded: None,
                version,
                last_updated: at,
                server,
                expires,
            };
            self.client.restore(url.clone(), held);
        }
        view
    }

    /// A resource as it is now, or as it is no more.
    fn left(&mut self, server: ServerId, url: &TypeUrl, name: &str) -> Resource {
        let host = &self.hosts[server.index()];
        let same = host.snapshot.set(url).get(name).filter(|_| self.rng.chance(50));
        let same = same.filter(|_| matches!(host.usable_body(url, name), Some(Ok(_))));
        match same {
            Some(resource) => {
                let version = resource.version().to_string();
                Resource::clone(resource).with_version(&version)
            }
            None => {
                let body = Bytes::from(format!("{} {name} earlier", url.short()));
                let name = ResourceName::parse(name).expect("names of the plan are well formed");
                Resource::new(name, body).with_version("earlier")
            }
        }
    }
}
