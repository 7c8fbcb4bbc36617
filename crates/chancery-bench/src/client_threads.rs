//! The threads of a run: each has a runtime of its own and a share of the connections.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, Socket};
use super::measurements::Measurements;
use super::server::{self, Address};
use super::tls::Tls;
use super::xds::{AckMode, Plan, Session};

/// What the clients are to do.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) plan: Arc<Plan>,
    pub(crate) address: Address,
    pub(crate) tls: Option<Tls>,
    pub(crate) clients: usize,
    /// Over so many connections; not counting those of clients that read slowly or not at all.
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    /// So many stop reading once they have their first answers.
    pub(crate) stalled: usize,
    /// So many read slowly, this many bytes in a second.
    pub(crate) slow: (usize, u32),
    /// So many reject what they get.
    pub(crate) nacking: usize,
    /// Nobody answers anything.
    pub(crate) silent: bool,
    pub(crate) largest_frame: u32,
    pub(crate) timeout: Duration,
    /// Responses are read for names and versions.
    pub(crate) recording: bool,
}

/// The clients at work. Ends with [`ClientThreads::stop`], or when it is dropped.
#[derive(Debug)]
pub(crate) struct ClientThreads {
    threads: Vec<JoinHandle<()>>,
    stop: CancellationToken,
    gate: watch::Sender<bool>,
}

impl Workload {
    /// How many connections there will be.
    pub(crate) fn connection_count(&self) -> usize {
        self.unawaited() + self.shared()
    }

    /// Clients nothing is expected of, which have a connection each.
    pub(crate) fn unawaited(&self) -> usize {
        (self.stalled + self.slow.0).min(self.clients)
    }

    /// Those of them that stall, and all of them.
    pub(crate) fn stalled_and_unawaited(&self) -> (usize, usize) {
        (self.stalled.min(self.clients), self.unawaited())
    }

    fn shared(&self) -> usize {
        self.connections.clamp(1, self.clients.max(1)).min(self.clients - self.unawaited())
    }

    /// The clients on one connection.
    fn clients_on(&self, connection: usize) -> Vec<u32> {
        let unawaited = self.unawaited();
        if connection < unawaited {
            return vec![connection as u32];
        }
        (connection..self.clients).step_by(self.shared()).map(|client| client as u32).collect()
    }

    fn ack_mode(&self, client: u32) -> AckMode {
        let client = client as usize;
        let unawaited = self.unawaited();
        match () {
            () if self.silent => AckMode::Silent,
            () if client >= unawaited && client < unawaited + self.nacking => AckMode::Nacks,
            () => AckMode::Acks,
        }
    }
}

impl ClientThreads {
    /// Connects all clients. They say their first requests when they are connected, or, with a
    /// gate, when it is opened.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn start(
        workload: &Workload,
        measurements: &Arc<Measurements>,
        gated: bool,
    ) -> io::Result<Self> {
        let (gate, _) = watch::channel(!gated);
        let stop = CancellationToken::new();
        let mut all = Self { threads: Vec::new(), stop, gate };
        for number in 0..workload.threads {
            let thread = ClientThread {
                workload: workload.clone(),
                measurements: Arc::clone(measurements),
                gate: all.gate.subscribe(),
                stop: all.stop.clone(),
                number,
            };
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().event_interval(TASKS).build()?;
            let name = format!("clients-{number}");
            let run = move || runtime.block_on(thread.run());
            all.threads.push(thread::Builder::new().name(name).spawn(run)?);
        }
        Ok(all)
    }

    /// Lets the first requests be said.
    pub(crate) fn open_gate(&self) {
        self.gate.send_replace(true);
    }

    /// Closes all connections.
    pub(crate) fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.cancel();
        for thread in self.threads.drain(..) {
            thread.join().ok(); // It has nothing to tell that is not on the measurements.
        }
    }
}

impl Drop for ClientThreads {
    fn drop(&mut self) {
        self.end();
    }
}

/// The part of one thread.
struct ClientThread {
    workload: Workload,
    measurements: Arc<Measurements>,
    gate: watch::Receiver<bool>,
    stop: CancellationToken,
    number: usize,
}

impl ClientThread {
    async fn run(self) {
        let stop = self.stop.clone();
        let (number, all) = (self.number, self.workload.connection_count());
        let (threads, thread) = (self.workload.threads, Arc::new(self));
        let connecting = Arc::new(Semaphore::new(CONNECTING));
        let mut tasks = JoinSet::new();
        for connection in (number..all).step_by(threads) {
            let (thread, connecting) = (Arc::clone(&thread), Arc::clone(&connecting));
            tasks.spawn(async move { thread.connection(connection, &connecting).await });
        }
        stop.cancelled().await;
    }

    async fn connection(&self, number: usize, connecting: &Semaphore) {
        let clients = self.workload.clients_on(number);
        let slow = number < self.workload.unawaited();
        let permit = connecting.acquire().await;
        let ended = match &self.workload.address {
            Address::Tcp(address) => match self.in_time(server::tcp(*address, slow)).await {
                Ok(io) => self.connect_tls(io, &clients, permit).await,
                Err(why) => Err(why),
            },
            Address::Unix(path) => match self.in_time(server::unix(path)).await {
                Ok(io) => self.connect_tls(io, &clients, permit).await,
                Err(why) => Err(why),
            },
        };
        if let Err(why) = ended {
            clients.iter().for_each(|client| self.measurements.client_lost(*client, &why));
        }
    }

    async fn connect_tls<I: Socket, P>(
        &self,
        io: I,
        clients: &[u32],
        permit: P,
    ) -> Result<(), String> {
        let Some(Tls { connector, name }) = &self.workload.tls else {
            return self.serve(io, clients, permit).await;
        };
        let connect_tls = self.in_time(connector.connect(name.clone(), io)).await?;
        self.serve(connect_tls, clients, permit).await
    }

    async fn serve<I: Socket, P>(&self, io: I, clients: &[u32], permit: P) -> Result<(), String> {
        let (plan, mut hello) = (Arc::clone(&self.workload.plan), Vec::new());
        let measurements = Arc::clone(&self.measurements);
        let mut session =
            Session::open(plan, measurements, self.workload.largest_frame, &mut hello);
        if self.workload.recording {
            session.record_versions();
        }
        let mut connection = Connection::new(io, session, hello);
        let introduced = tokio::time::timeout(self.workload.timeout, connection.introduce()).await;
        introduced
            .map_err(|_| "the server accepted the connection and said nothing".to_owned())??;
        drop(permit);
        self.measurements.clients_connected(clients.len());
        self.gate.clone().wait_for(|open| *open).await.ok();
        for client in clients {
            let ack_mode = self.workload.ack_mode(*client);
            if let Err(why) = connection.say(|session, out| session.enter(*client, ack_mode, out)) {
                self.measurements.client_lost(*client, &why);
            }
        }
        let Err(why) = self.follow(&mut connection, clients[0] as usize).await else {
            return Ok(());
        };
        connection.close(&why);
        Ok(())
    }

    /// Reads at the pace of this connection's first client, which is alone if it is not the usual.
    async fn follow<I: Socket>(
        &self,
        connection: &mut Connection<I>,
        client: usize,
    ) -> Result<(), String> {
        if client < self.workload.stalled {
            connection.run(|session, _| session.answered()).await?;
            return std::future::pending().await;
        }
        if client < self.workload.unawaited() {
            return connection.run_slowly(self.workload.slow.1).await;
        }
        connection.run(|_, _| false).await
    }

    async fn in_time<T>(&self, connect: impl Future<Output = io::Result<T>>) -> Result<T, String> {
        match tokio::time::timeout(self.workload.timeout, connect).await {
            Ok(connected) => connected.map_err(|error| format!("cannot connect: {error}")),
            Err(_) => Err("cannot connect: the server does not answer".to_owned()),
        }
    }
}

/// So many tasks run before the kernel is asked for news; a fan-out wakes thousands of them.
const TASKS: u32 = 512;

/// So many connections are being made at the same time, or the server's queue would overflow.
const CONNECTING: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xds::Node;
    use crate::xds::plan::Protocol;

    fn workload(clients: usize, connections: usize, stalled: usize) -> Workload {
        let node = Node { id: "n".into(), cluster: String::new(), metadata: Vec::new() };
        Workload {
            plan: Arc::new(Plan::aggregated(Protocol::Delta, Vec::new(), node, (false, "a"))),
            address: Address::Unix("/nowhere".into()),
            tls: None,
            clients,
            connections,
            threads: 1,
            stalled,
            slow: (1, 10),
            nacking: 1,
            silent: false,
            largest_frame: 0,
            timeout: Duration::ZERO,
            recording: false,
        }
    }

    #[test]
    fn every_client_is_on_one_connection_and_slow_ones_are_alone() {
        let workload = workload(10, 3, 2);
        assert_eq!(workload.connection_count(), 6);
        let clients_on: Vec<_> = (0..6).map(|connection| workload.clients_on(connection)).collect();
        assert_eq!(clients_on, [vec![0], vec![1], vec![2], vec![3, 6, 9], vec![4, 7], vec![5, 8]]);
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
