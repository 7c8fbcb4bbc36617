//! The report that all clients send, encoded once.

use std::sync::Arc;
use std::time::Duration;

use crate::xds::proto::{field, varint};

/// The reports of a run.
#[derive(Clone, Debug)]
pub(crate) struct ReportPlan {
    /// The names of the clusters, which are all that a client knows.
    pub(crate) clusters: Vec<String>,
    /// The number of localities of each cluster.
    pub(crate) localities: u32,
}

/// The calls that a report has for each locality: all, and those that went well or not.
pub(crate) const CALLS: u64 = SUCCEEDED + FAILED;
const SUCCEEDED: u64 = 90;
const FAILED: u64 = 10;
const IN_PROGRESS: u64 = 2;

/// The method of the service.
pub(crate) const METHOD: &str = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats";

/// The feature of a client that reports all it knows if it is asked to.
const SENDS_ALL: &[u8] = b"envoy.lrs.supports_send_all_clusters";

const PREFIX: usize = 5;

impl ReportPlan {
    /// The first message of a client, with this `Node`: it says who the client is.
    pub(super) fn first(mut node: Vec<u8>) -> Arc<[u8]> {
        let mut message = Vec::new();
        field(&mut node, 10, SENDS_ALL);
        field(&mut message, 1, &node);
        framed(&message)
    }

    /// A report on that much time.
    pub(super) fn report(&self, interval: Duration) -> Arc<[u8]> {
        let mut message = Vec::new();
        self.clusters.iter().for_each(|name| field(&mut message, 2, &self.cluster(name, interval)));
        framed(&message)
    }

    /// `ClusterStats`.
    fn cluster(&self, name: &str, interval: Duration) -> Vec<u8> {
        let mut stats = Vec::new();
        field(&mut stats, 1, name.as_bytes());
        (0..self.localities).for_each(|at| field(&mut stats, 2, &calls(at)));
        let mut time = Vec::new();
        number(&mut time, 1, interval.as_secs());
        number(&mut time, 2, u64::from(interval.subsec_nanos()));
        field(&mut stats, 4, &time);
        stats
    }
}

/// `UpstreamLocalityStats`.
fn calls(locality: u32) -> Vec<u8> {
    let (mut stats, mut place) = (Vec::new(), Vec::new());
    field(&mut place, 1, b"bench");
    field(&mut place, 2, format!("zone-{locality}").as_bytes());
    field(&mut stats, 1, &place);
    let numbers = [(2, SUCCEEDED), (3, IN_PROGRESS), (4, FAILED), (8, CALLS)];
    numbers.iter().for_each(|(at, value)| number(&mut stats, *at, *value));
    stats
}

fn number(out: &mut Vec<u8>, at: u32, value: u64) {
    varint(out, u64::from(at << 3));
    varint(out, value);
}

/// A message with the prefix of gRPC.
fn framed(message: &[u8]) -> Arc<[u8]> {
    let mut frame = Vec::with_capacity(PREFIX + message.len());
    frame.push(0);
    frame.extend_from_slice(&(message.len() as u32).to_be_bytes());
    frame.extend_from_slice(message);
    frame.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xds::proto::fields;

    #[test]
    fn a_report_has_all_clusters_with_their_localities() {
        let plan = ReportPlan { clusters: vec!["a".into(), "b".into()], localities: 3 };
        let report = plan.report(Duration::from_millis(1500));
        assert_eq!(usize::from(report[4]) + PREFIX, report.len());
        let clusters: Vec<_> = fields(&report[PREFIX..]).collect();
        assert_eq!(clusters.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 2]);
        let of_first: Vec<_> = fields(clusters[0].1).collect();
        assert_eq!(of_first[0], (1, &b"a"[..]));
        assert_eq!(of_first.iter().filter(|(number, _)| *number == 2).count(), 3);
        let time = [8, 1, 16, 0x80, 0xca, 0xb5, 0xee, 1];
        assert_eq!(of_first.last(), Some(&(4, &time[..])));
    }

    #[test]
    fn the_first_message_is_a_node_that_can_report_all() {
        let first = ReportPlan::first(b"\x0a\x01n".to_vec());
        let (number, node) = fields(&first[PREFIX..]).next().unwrap();
        assert_eq!((number, fields(node).last()), (1, Some((10, SENDS_ALL))));
    }
}
