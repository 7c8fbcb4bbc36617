//! A load report that is read cluster by cluster, as a server reads it.
//!
//! Two bytes can be a cluster, and a locality, of which each takes a hundred times as much when it is
//! decoded. So no report is decoded as a whole: whoever reads it holds one cluster at a time, and may let
//! others run between two. A cluster with too many parts is passed over, and the rest is read.

use std::sync::Arc;

use bytes::Bytes;
use chancery_core::Node;
use chancery_core::server::RequestLimits;
use chancery_core::server::load::ClusterStats;
use prost::Message;

use super::decode_request::merge_node;
use super::fields::{Fields, Outcome};
use super::load::WireClusterStats;
use super::{DecodeError, Malformed};
use crate::request_size::RequestSize;

/// A `LoadStatsRequest` of which a part is read.
#[derive(Debug)]
pub struct LoadReportParts {
    message: Bytes,
    /// The place up to which it is read.
    at: usize,
}

/// The next part of a report.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadPart {
    /// The calls to a cluster.
    Cluster(ClusterStats),
    /// A cluster with more than [`LoadReportParts::MOST`] localities, endpoints, metrics and categories.
    TooLarge,
}

impl LoadReportParts {
    /// The most localities, endpoints, metrics and categories of drops of one cluster, together. Whoever reads a report lets
    /// nobody else run meanwhile.
    pub const MOST: usize = 4_000;

    /// A report of which nothing is read.
    pub fn new(message: Bytes) -> Self {
        Self { message, at: 0 }
    }

    /// The size of the report in bytes.
    pub fn size(&self) -> usize {
        self.message.len()
    }

    /// The node in it, wherever it stands.
    ///
    /// # Errors
    /// Fails if the bytes are no such message, or the node exceeds the limits.
    pub fn node(&self, limits: &RequestLimits) -> Result<Option<Arc<Node>>, DecodeError> {
        let mut size = RequestSize::new(limits);
        let mut node = None;
        let mut fields = Fields(&self.message);
        let mut read = || -> Outcome<()> {
            while let Some((number, value)) = fields.next()? {
                if number == NODE {
                    merge_node(&mut node, value, &mut size)?;
                }
            }
            Ok(())
        };
        read().map_err(no_report)?;
        Ok(node.map(|node| Arc::new(node.into())))
    }

    /// The next cluster; `None` if there is no other.
    ///
    /// # Errors
    /// Fails if the bytes are no such message.
    pub fn next_part(&mut self) -> Result<Option<LoadPart>, DecodeError> {
        self.read().map_err(no_report)
    }

    fn read(&mut self) -> Outcome<Option<LoadPart>> {
        let mut fields = Fields(self.message.get(self.at..).unwrap_or_default());
        while let Some((number, value)) = fields.next()? {
            if number != CLUSTER_STATS {
                continue;
            }
            self.at = self.message.len() - fields.0.len();
            if parts(value)? > Self::MOST {
                return Ok(Some(LoadPart::TooLarge));
            }
            let stats = WireClusterStats::decode(value)?;
            return Ok(Some(LoadPart::Cluster(stats.into())));
        }
        self.at = self.message.len();
        Ok(None)
    }
}

/// The number of messages in a `ClusterStats`.
fn parts(cluster: &[u8]) -> Outcome<usize> {
    let mut count = 0;
    let mut fields = Fields(cluster);
    while let Some((number, value)) = fields.next()? {
        count += usize::from([LOCALITY_STATS, DROPPED_REQUESTS].contains(&number));
        if number == LOCALITY_STATS {
            count += parts_of_locality(value)?;
        }
    }
    Ok(count)
}

/// The number of messages in an `UpstreamLocalityStats`.
fn parts_of_locality(locality: &[u8]) -> Outcome<usize> {
    let mut count = 0;
    let mut fields = Fields(locality);
    while let Some((number, value)) = fields.next()? {
        count += usize::from([LOAD_METRIC_STATS, ENDPOINT_STATS].contains(&number));
        if number == ENDPOINT_STATS {
            let mut inner = Fields(value);
            while let Some((number, _)) = inner.next()? {
                count += usize::from(number == LOAD_METRIC_STATS);
            }
        }
    }
    Ok(count)
}

fn no_report(source: Malformed) -> DecodeError {
    DecodeError { expected: "LoadStatsRequest", source }
}

/// The numbers of fields, which the messages in `load` have too.
const NODE: u32 = 1;
const CLUSTER_STATS: u32 = 2;
const LOCALITY_STATS: u32 = 2;
const DROPPED_REQUESTS: u32 = 5;
const LOAD_METRIC_STATS: u32 = 5;
const ENDPOINT_STATS: u32 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    /// A field with bytes.
    fn field(number: u8, value: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2];
        prost::encoding::encode_varint(value.len() as u64, &mut bytes);
        bytes.extend_from_slice(value);
        bytes
    }

    fn read(message: Vec<u8>) -> Vec<LoadPart> {
        let mut parts = LoadReportParts::new(message.into());
        std::iter::from_fn(|| parts.next_part().unwrap()).collect()
    }

    #[test]
    fn a_cluster_with_too_many_parts_is_passed_over_and_the_rest_is_read() {
        let name = field(1, b"a");
        let localities = |count: usize| [name.clone(), field(2, b"").repeat(count)].concat();
        let metrics = field(2, &field(5, b"").repeat(LoadReportParts::MOST));
        let drops = field(5, b"").repeat(LoadReportParts::MOST + 1);
        let endpoints = field(2, &field(7, &field(5, b"").repeat(LoadReportParts::MOST)));
        let clusters = [
            localities(LoadReportParts::MOST),
            localities(LoadReportParts::MOST + 1),
            metrics,
            drops,
            endpoints,
        ];
        let mut message: Vec<u8> = clusters.iter().flat_map(|it| field(2, it)).collect();
        message.extend(field(2, &name));
        let found = read(message);
        assert!(matches!(&found[0], LoadPart::Cluster(stats) if &*stats.key.cluster == "a"));
        assert!(found[1..5].iter().all(|part| *part == LoadPart::TooLarge));
        assert!(matches!(&found[5], LoadPart::Cluster(stats) if &*stats.key.cluster == "a"));
    }

    #[test]
    fn a_node_is_found_wherever_it_stands_and_within_its_limit() {
        // S-110
        let node = field(1, &field(1, b"n"));
        let message = [field(2, &field(1, b"a")), node].concat();
        let parts = LoadReportParts::new(message.into());
        let limits = |max_node_bytes| RequestLimits { max_node_bytes, ..RequestLimits::NONE };
        assert_eq!(parts.node(&limits(3)).unwrap().unwrap().id, "n");
        assert!(parts.node(&limits(2)).unwrap_err().is_limit());
    }
}
