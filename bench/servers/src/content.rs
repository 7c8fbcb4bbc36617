//! The resources every server under test holds: the same names, the same bodies, the same order of
//! changes.
//!
//! A body is about as long as asked for, and as long after a change as before. Endpoints fill EDS,
//! and a text without meaning fills the other types. A change is another port, or other digits at
//! the start of that text. `bench/go-control-plane` and `bench/rust-control-plane` build the same
//! messages with the types of their libraries.

use std::str::FromStr;

use anyhow::bail;

use crate::protobuf::Fields;

/// A resource type the servers hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceKind {
    /// Clusters whose endpoints come over ADS under the same name.
    Cds,
    /// The endpoints.
    Eds,
    /// Listeners whose routes come over ADS under the same name.
    Lds,
    /// The routes, each to the cluster of the same name.
    Rds,
}

/// The order of changes: the resource that changes next, and its new generation.
#[derive(Clone, Debug)]
pub struct Changes {
    resources: usize,
    stride: usize,
    next: usize,
    generation: u32,
}

impl ResourceKind {
    /// The type URL.
    pub fn type_url(self) -> &'static str {
        match self {
            Self::Cds => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Self::Eds => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            Self::Lds => "type.googleapis.com/envoy.config.listener.v3.Listener",
            Self::Rds => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        }
    }

    /// The type its resources refer to, under their own name.
    pub fn refers_to(self) -> Option<Self> {
        match self {
            Self::Cds => Some(Self::Eds),
            Self::Lds => Some(Self::Rds),
            Self::Rds => Some(Self::Cds),
            Self::Eds => None,
        }
    }
}

impl FromStr for ResourceKind {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self, anyhow::Error> {
        Ok(match name {
            "cds" => Self::Cds,
            "eds" => Self::Eds,
            "lds" => Self::Lds,
            "rds" => Self::Rds,
            _ => bail!("unknown type `{name}`; there are cds, eds, lds and rds"),
        })
    }
}

/// The name of a resource.
pub fn name(index: usize) -> String {
    format!("bench-{index:06}")
}

/// A resource of about `bytes` bytes; another generation has another content of the same size.
pub fn body(kind: ResourceKind, index: usize, generation: u32, bytes: usize) -> Vec<u8> {
    if kind == ResourceKind::Eds {
        return endpoints(&name(index), index, generation, bytes);
    }
    let least = with_text(kind, &name(index), &format!("{generation:010}"));
    let room = bytes.saturating_sub(least.len());
    with_text(kind, &name(index), &format!("{generation:010}{}", "x".repeat(room)))
}

/// The bytes of one endpoint in the encoded message, and those of the rest of the message.
const ENDPOINT: usize = 28;
const AROUND_ENDPOINTS: usize = 20;

/// Ports from here on are as long on the wire as any other.
const FIRST_PORT: u32 = 16_384;

fn endpoints(name: &str, index: usize, generation: u32, bytes: usize) -> Vec<u8> {
    let count = (bytes.saturating_sub(AROUND_ENDPOINTS) / ENDPOINT).max(1);
    Fields::of(|assignment| {
        assignment.text(1, name);
        assignment.message(2, |locality| {
            for number in 0..count {
                let changed = if number == 0 { generation } else { 0 };
                locality.message(2, |endpoint| lb_endpoint(endpoint, index + number, changed));
            }
        });
    })
}

fn lb_endpoint(fields: &mut Fields, number: usize, generation: u32) {
    let [low, middle, high] = [number, number / 100, number / 10_000].map(|part| 100 + part % 100);
    let port = FIRST_PORT + generation % (65_536 - FIRST_PORT);
    fields.message(1, |endpoint| {
        endpoint.message(1, |address| {
            address.message(1, |socket| {
                socket.text(2, &format!("10.{high}.{middle}.{low}"));
                socket.number(3, u64::from(port));
            });
        });
    });
}

fn with_text(kind: ResourceKind, name: &str, text: &str) -> Vec<u8> {
    Fields::of(|fields| {
        fields.text(1, name);
        match kind {
            ResourceKind::Cds => cluster(fields, text),
            ResourceKind::Lds => listener(fields, name, text),
            ResourceKind::Rds | ResourceKind::Eds => routes(fields, name, text),
        }
    })
}

/// `Cluster`: `type: EDS`, the configuration of EDS, `alt_stat_name`.
fn cluster(fields: &mut Fields, text: &str) {
    fields.number(2, 3);
    fields.message(3, |eds| eds.message(1, over_ads));
    fields.text(28, text);
}

/// `Listener`: an API listener with `rds`, and `stat_prefix`.
fn listener(fields: &mut Fields, name: &str, text: &str) {
    let manager = Fields::of(|manager| {
        manager.text(2, "bench");
        manager.message(3, |rds| {
            rds.message(1, over_ads);
            rds.text(2, name);
        });
        manager.message(5, |filter| {
            filter.text(1, "router");
            filter.any(4, ROUTER, &[]);
        });
    });
    fields.message(19, |api| api.any(1, CONNECTION_MANAGER, &manager));
    fields.text(28, text);
}

const CONNECTION_MANAGER: &str = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";

/// `RouteConfiguration`: one virtual host, one route to the cluster of the same name.
fn routes(fields: &mut Fields, name: &str, text: &str) {
    fields.message(2, |host| {
        host.text(1, text);
        host.text(2, "*");
        host.message(3, |route| {
            route.message(1, |matched| matched.text(1, "/"));
            route.message(2, |action| action.text(1, name));
        });
    });
}

/// `ConfigSource`: `ads`, in version 3.
fn over_ads(source: &mut Fields) {
    source.bytes(3, &[]);
    source.number(6, 2);
}

impl Changes {
    /// Changes over this many resources, which reach each of them before one comes again.
    pub fn new(resources: usize) -> Self {
        let resources = resources.max(1);
        let stride = (7_919..).find(|stride| divisor(*stride, resources) == 1).unwrap_or(1);
        Self { resources, stride, next: 0, generation: 0 }
    }
}

/// The index of a resource, and its next generation.
impl Iterator for Changes {
    type Item = (usize, u32);

    fn next(&mut self) -> Option<(usize, u32)> {
        self.next = (self.next + self.stride) % self.resources;
        self.generation += 1;
        Some((self.next, self.generation))
    }
}

fn divisor(one: usize, other: usize) -> usize {
    if other == 0 { one } else { divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [ResourceKind; 4] =
        [ResourceKind::Cds, ResourceKind::Eds, ResourceKind::Lds, ResourceKind::Rds];

    #[test]
    fn a_body_is_about_as_long_as_asked_for() {
        for kind in KINDS {
            for bytes in [320, 1_100, 5_000] {
                let found = body(kind, 42, 0, bytes).len();
                assert!(found.abs_diff(bytes) <= ENDPOINT, "{kind:?}: {found} of {bytes}");
            }
        }
    }

    #[test]
    fn a_change_keeps_the_size() {
        for kind in KINDS {
            let before = body(kind, 42, 0, 600);
            let after = body(kind, 42, 77, 600);
            assert_ne!(before, after);
            assert_eq!(before.len(), after.len());
        }
    }

    #[test]
    fn changes_reach_every_resource_before_one_comes_again() {
        for resources in [1, 2, 100, 7_919, 10_000] {
            let mut reached: Vec<_> =
                Changes::new(resources).take(resources).map(|(index, _)| index).collect();
            reached.sort_unstable();
            assert_eq!(reached, (0..resources).collect::<Vec<_>>());
        }
    }
}
