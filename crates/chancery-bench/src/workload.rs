//! The clients of a run: how many there are, how they read, and the connections they share.

use std::sync::Arc;
use std::time::Duration;

use super::address::Address;
use super::load::ReportPlan;
use super::tls::TlsClient;
use super::xds::{AckMode, RequestPlan};

/// The clients of a run and what each of them does.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) plan: Arc<RequestPlan>,
    /// The clients report their calls, and subscribe to nothing.
    pub(crate) reports: Option<Arc<ReportPlan>>,
    pub(crate) address: Address,
    pub(crate) tls: Option<TlsClient>,
    pub(crate) readers: Readers,
    /// The number of bytes that a slow reader reads in a second.
    pub(crate) slow_rate: u32,
    /// The number of connections of all clients that are waited for.
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    /// The number of clients that reject every response.
    pub(crate) nacking: usize,
    /// No client answers any response.
    pub(crate) silent: bool,
    pub(crate) max_frame_size: u32,
    pub(crate) timeout: Duration,
    /// Names and versions of resources are recorded.
    pub(crate) recording: bool,
}

/// The number of clients, and how they read: the first ones stall, the next ones are slow.
///
/// A client that stalls stops reading after its first answers. Neither it nor a slow one is waited
/// for after that, and each has a connection of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readers {
    pub(crate) clients: usize,
    pub(crate) stalled: usize,
    pub(crate) slow: usize,
}

impl Readers {
    /// Returns true if this client stops reading after its first answers.
    pub(crate) fn stalls(self, client: usize) -> bool {
        client < self.stalled.min(self.clients)
    }

    /// Returns true if this client reads slowly.
    pub(crate) fn is_slow(self, client: usize) -> bool {
        !self.stalls(client) && !self.is_awaited(client)
    }

    /// Returns true if this client has to receive every change.
    pub(crate) fn is_awaited(self, client: usize) -> bool {
        client >= self.unawaited()
    }

    /// The number of clients that stall or are slow.
    pub(crate) fn unawaited(self) -> usize {
        (self.stalled + self.slow).min(self.clients)
    }

    /// The number of clients that have to receive every change.
    pub(crate) fn awaited(self) -> usize {
        self.clients - self.unawaited()
    }
}

impl Workload {
    /// The number of connections of all clients.
    pub(crate) fn connection_count(&self) -> usize {
        self.readers.unawaited() + self.shared()
    }

    /// The clients on one connection.
    pub(crate) fn clients_on(&self, connection: usize) -> Vec<u32> {
        if !self.readers.is_awaited(connection) {
            return vec![connection as u32];
        }
        let clients = (connection..self.readers.clients).step_by(self.shared());
        clients.map(|client| client as u32).collect()
    }

    /// The way in which a client acknowledges responses.
    pub(crate) fn ack_mode(&self, client: u32) -> AckMode {
        let place = (client as usize).checked_sub(self.readers.unawaited());
        match place {
            _ if self.silent => AckMode::Silent,
            Some(place) if place < self.nacking => AckMode::Nacks,
            _ => AckMode::Acks,
        }
    }

    /// The number of connections that the awaited clients share.
    fn shared(&self) -> usize {
        self.connections.clamp(1, self.readers.clients.max(1)).min(self.readers.awaited())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xds::Node;
    use crate::xds::Protocol;

    fn workload(clients: usize, connections: usize, stalled: usize) -> Workload {
        let node = Node { id: "n".into(), cluster: String::new(), metadata: Vec::new() };
        Workload {
            plan: Arc::new(RequestPlan::aggregated(
                Protocol::Delta,
                Vec::new(),
                node,
                (false, "a"),
            )),
            reports: None,
            address: Address::Unix("/nowhere".into()),
            tls: None,
            readers: Readers { clients, stalled, slow: 1 },
            slow_rate: 10,
            connections,
            threads: 1,
            nacking: 1,
            silent: false,
            max_frame_size: 0,
            timeout: Duration::ZERO,
            recording: false,
        }
    }

    #[test]
    fn every_client_is_on_one_connection_and_slow_ones_are_alone() {
        let workload = workload(10, 3, 2);
        assert_eq!(workload.connection_count(), 6);
        let clients: Vec<_> = (0..6).map(|connection| workload.clients_on(connection)).collect();
        assert_eq!(clients, [vec![0], vec![1], vec![2], vec![3, 6, 9], vec![4, 7], vec![5, 8]]);
        assert_eq!(workload.ack_mode(2), AckMode::Acks);
        assert_eq!(workload.ack_mode(3), AckMode::Nacks);
        assert_eq!(workload.ack_mode(4), AckMode::Acks);
    }

    #[test]
    fn there_are_no_more_connections_than_clients() {
        assert_eq!(workload(5, 100, 0).connection_count(), 5);
        assert_eq!(workload(1, 100, 7).connection_count(), 1);
    }
}
