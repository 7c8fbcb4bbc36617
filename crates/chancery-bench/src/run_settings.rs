//! The settings of one run: options become subscriptions, requests and a workload.
//!
//! Options that contradict each other are found here, before anything is connected. Not here: the
//! options (`options`), the bytes of requests (`xds::plan`), and the steps of the run (`run`).

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::address::Address;
use super::error::Error;
use super::load::{self, ReportPlan};
use super::names::names;
use super::options::{Clients, LoadClients, NameCount, Options, Scenario, Wildcard};
use super::report::{DriverFigures, Report};
use super::tls::TlsClient;
use super::workload::{Readers, Workload};
use super::xds::{Expect, PlannedSubscription, Protocol, RequestPlan};

/// The settings of one run.
#[derive(Clone, Debug)]
pub(crate) struct RunSettings<'a> {
    pub(crate) scenario: &'static str,
    pub(crate) clients: &'a Clients,
    /// Cancelled when the run has to end early.
    pub(crate) interrupted: &'a CancellationToken,
    /// The number of clients.
    pub(crate) streams: usize,
    pub(crate) protocol: Protocol,
    pub(crate) subscriptions: Vec<PlannedSubscription>,
    /// The clients send their first requests when the gate is opened, and not once they are
    /// connected.
    pub(crate) gated: bool,
    /// Names and versions of resources are recorded.
    pub(crate) recording: bool,
    /// The reports of clients that report their calls, and subscribe to nothing.
    pub(crate) load: Option<&'a LoadClients>,
}

impl<'a> RunSettings<'a> {
    /// The settings of a run with so many clients.
    ///
    /// # Errors
    /// The options contradict each other.
    pub(crate) fn new(
        options: &'a Options,
        streams: usize,
        interrupted: &'a CancellationToken,
    ) -> Result<Self, Error> {
        let Options { scenario, clients } = options;
        let usual = match scenario {
            Scenario::WholeState(_) => Protocol::Sotw,
            _ => Protocol::Delta,
        };
        let protocol = clients.protocol.unwrap_or(usual);
        Ok(Self {
            scenario: scenario.name(),
            clients,
            interrupted,
            streams,
            protocol,
            subscriptions: subscriptions(clients, protocol).map_err(Error::Options)?,
            gated: false,
            recording: false,
            load: None,
        })
    }

    /// Looks up the server.
    ///
    /// # Errors
    /// Its name is not known.
    pub(crate) async fn address(&self) -> Result<Address, Error> {
        let server = &self.clients.server;
        let resolved = server.resolve().await;
        resolved.map_err(|source| Error::Lookup { server: server.clone(), source })
    }

    /// Encodes the requests and reads the files of TLS.
    ///
    /// # Errors
    /// The options contradict each other, or a file cannot be used.
    pub(crate) fn workload(&self, address: Address) -> Result<Workload, Error> {
        let Self { clients, .. } = self;
        let plan = self.plan().map_err(Error::Options)?;
        let reports = self.load.map(|load| self.reports(load)).transpose();
        let tls =
            clients.tls.as_ref().map(|files| TlsClient::new(files, &clients.server)).transpose()?;
        Ok(Workload {
            plan: Arc::new(plan),
            reports: reports.map_err(Error::Options)?,
            address,
            tls,
            readers: Readers {
                clients: self.streams,
                stalled: clients.stalled as usize,
                slow: clients.slow.map_or(0, |slow| slow.count as usize),
            },
            slow_rate: clients.slow.map_or(1, |slow| slow.bytes_per_second),
            connections: clients.connections.map_or(self.streams, |number| number as usize),
            threads: clients.threads as usize,
            nacking: clients.nack as usize,
            silent: clients.no_ack,
            max_frame_size: clients.max_frame_size,
            timeout: clients.timeout,
            recording: self.recording,
        })
    }

    fn plan(&self) -> Result<RequestPlan, String> {
        let (subscriptions, node) = (self.subscriptions.clone(), self.clients.node.clone());
        let authority = (self.clients.tls.is_some(), self.clients.server.authority());
        if self.load.is_some() {
            return Ok(RequestPlan::other(load::METHOD, node, authority));
        }
        match self.clients.per_type {
            true => RequestPlan::per_type(self.protocol, subscriptions, node, authority),
            false => Ok(RequestPlan::aggregated(self.protocol, subscriptions, node, authority)),
        }
    }

    fn reports(&self, load: &LoadClients) -> Result<Arc<ReportPlan>, String> {
        let clusters = names(&self.clients.name_pattern, load.clusters)?;
        Ok(Arc::new(ReportPlan { clusters, localities: load.localities }))
    }

    /// A report that says what was asked for, and nothing of what came.
    pub(crate) fn report(&self) -> Report {
        let asked = || self.subscriptions.iter().filter(|subscription| !subscription.probe);
        Report {
            scenario: self.scenario,
            server: self.clients.server.to_string(),
            label: self.clients.label.clone(),
            protocol: self.protocol,
            aggregated: !self.clients.per_type,
            types: asked().map(|subscription| subscription.url.short().to_owned()).collect(),
            names: asked().map(|subscription| subscription.names.len() as u32).collect(),
            streams: self.streams,
            connections: 0,
            threads: self.clients.threads as usize,
            rounds: 0,
            messages: 0,
            payload_bytes: 0,
            resources: 0,
            resource_bytes: 0,
            wire_bytes: 0,
            wall_s: 0.0,
            process: None,
            driver: DriverFigures { cpu_s: 0.0, share: 0.0, bound: false },
            latency_ms: None,
            receipt_ms: None,
            first_answer_ms: None,
            churn: None,
            load: None,
            held: None,
            interrupted: false,
            errors: Vec::new(),
        }
    }
}

/// The subscriptions of every client.
fn subscriptions(
    clients: &Clients,
    protocol: Protocol,
) -> Result<Vec<PlannedSubscription>, String> {
    let mut subscriptions = Vec::new();
    for (at, url) in clients.types.iter().enumerate() {
        if clients.types[..at].contains(url) {
            return Err(format!("`{}` is asked for twice", url.short()));
        }
        let of_type = |named: &&NameCount| named.url.as_ref().is_none_or(|named| named == url);
        let asked = clients.names.iter().rev().find(of_type);
        let everything = match clients.wildcard {
            Wildcard::Auto if url.rules().legacy_wildcard => Vec::new(),
            Wildcard::Empty => Vec::new(),
            Wildcard::Auto | Wildcard::Star => vec!["*".to_owned()],
        };
        let list = asked.map(|named| names(&clients.name_pattern, named.count)).transpose()?;
        let known = || list.as_ref().filter(|_| protocol == Protocol::Delta).map(Vec::len);
        let expect = clients.expect.or_else(|| known().map(|known| known as u32));
        let expect = expect.map_or(Expect::Response, Expect::Resources);
        let names = list.unwrap_or(everything);
        let (url, initial_versions) = (url.clone(), Vec::new());
        subscriptions.push(PlannedSubscription {
            url,
            names,
            initial_versions,
            expect,
            probe: false,
        });
    }
    Ok(subscriptions)
}
