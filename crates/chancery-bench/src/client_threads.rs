//! The threads that run the clients: each has a runtime of its own and a share of the connections.
//!
//! Not here: how a connection reads and writes ([`Connection`]), and what is sent on it
//! ([`XdsSession`], [`LoadSession`]).

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::address::{self, Address};
use super::connection::{Connection, Session, Socket};
use super::load::LoadSession;
use super::measurements::Measurements;
use super::tls::TlsClient;
use super::workload::Workload;
use super::xds::XdsSession;

/// The clients at work. They are disconnected when this is dropped.
#[derive(Debug)]
pub(crate) struct ClientThreads {
    threads: Vec<JoinHandle<()>>,
    stop: CancellationToken,
    gate: watch::Sender<bool>,
}

impl ClientThreads {
    /// Connects all clients. They send their first requests as soon as they are connected, or, if
    /// they are `gated`, when the gate is opened.
    ///
    /// # Errors
    /// A thread cannot be started.
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

    /// Lets all clients send their first requests.
    pub(crate) fn open_gate(&self) {
        self.gate.send_replace(true);
    }
}

impl Drop for ClientThreads {
    fn drop(&mut self) {
        self.stop.cancel();
        for thread in self.threads.drain(..) {
            thread.join().ok(); // All it could tell is in the measurements.
        }
    }
}

/// One of the threads.
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
        let slow = !self.workload.readers.is_awaited(number);
        let permit = connecting.acquire().await;
        let ended = match &self.workload.address {
            Address::Tcp(address) => match self.in_time(address::tcp(*address, slow)).await {
                Ok(io) => self.connect_tls(io, &clients, permit).await,
                Err(why) => Err(why),
            },
            Address::Unix(path) => match self.in_time(address::unix(path)).await {
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
        let Some(TlsClient { connector, name }) = &self.workload.tls else {
            return self.serve(io, clients, permit).await;
        };
        let io = self.in_time(connector.connect(name.clone(), io)).await?;
        self.serve(io, clients, permit).await
    }

    async fn serve<I: Socket, P>(&self, io: I, clients: &[u32], permit: P) -> Result<(), String> {
        let (plan, measurements) =
            (Arc::clone(&self.workload.plan), Arc::clone(&self.measurements));
        let (most, mut preface) = (self.workload.max_frame_size, Vec::new());
        if let Some(reports) = &self.workload.reports {
            let (plans, all) = ((plan, Arc::clone(reports)), self.workload.readers.clients);
            let session = LoadSession::open(plans, measurements, most, all, &mut preface);
            let mut connection = self.ready(io, session, preface, clients, permit).await?;
            self.open_clients(clients, |client| {
                connection.with_session(|session, out| session.open_client(client, out))
            });
            if let Err(why) = report_on(&mut connection).await {
                connection.close(&why);
            }
            return Ok(());
        }
        let mut session = XdsSession::open(plan, measurements, most, &mut preface);
        if self.workload.recording {
            session.record_versions();
        }
        let mut connection = self.ready(io, session, preface, clients, permit).await?;
        self.open_clients(clients, |client| {
            let ack_mode = self.workload.ack_mode(client);
            connection.with_session(|session, out| session.open_client(client, ack_mode, out))
        });
        let Err(why) = self.read_on(&mut connection, clients[0] as usize).await else {
            return Ok(());
        };
        connection.close(&why);
        Ok(())
    }

    /// Waits until the server has said its settings and the gate is open.
    async fn ready<I: Socket, S: Session, P>(
        &self,
        io: I,
        session: S,
        preface: Vec<u8>,
        clients: &[u32],
        permit: P,
    ) -> Result<Connection<I, S>, String> {
        let mut connection = Connection::new(io, session, preface);
        let settled =
            tokio::time::timeout(self.workload.timeout, connection.wait_for_settings()).await;
        settled.map_err(|_| "the server accepted the connection and said nothing".to_owned())??;
        drop(permit);
        self.measurements.clients_connected(clients.len());
        self.gate.clone().wait_for(|open| *open).await.ok();
        Ok(connection)
    }

    fn open_clients(&self, clients: &[u32], mut open: impl FnMut(u32) -> Result<(), String>) {
        for client in clients {
            if let Err(why) = open(*client) {
                self.measurements.client_lost(*client, &why);
            }
        }
    }

    /// Reads responses in the manner of this connection's first client; a client that stalls or is
    /// slow has no others beside it.
    async fn read_on<I: Socket>(
        &self,
        connection: &mut Connection<I, XdsSession>,
        client: usize,
    ) -> Result<(), String> {
        if self.workload.readers.stalls(client) {
            connection.run(|session, _| session.answered()).await?;
            return std::future::pending().await;
        }
        if self.workload.readers.is_slow(client) {
            return connection.run_slowly(self.workload.slow_rate).await;
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

/// Sends reports when they are due, until the connection fails.
async fn report_on<I: Socket>(connection: &mut Connection<I, LoadSession>) -> Result<(), String> {
    loop {
        let due = connection.with_session(|session, _| session.due());
        let until = due.unwrap_or_else(|| Instant::now() + LONGEST_SLEEP);
        tokio::select! {
            ended = connection.run(|session, _| session.due() != due) => ended?,
            () = sleep_until(until) => {
                connection.with_session(|session, out| session.send_due(Instant::now(), out));
            }
        }
    }
}

/// The time after which a client that is to report nothing looks again.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// The number of tasks that run before the runtime polls for I/O; a fan-out wakes thousands of
/// them.
const TASKS: u32 = 512;

/// The number of connections that are made at the same time; with more of them the queue of the
/// server's listener would overflow.
const CONNECTING: usize = 64;
