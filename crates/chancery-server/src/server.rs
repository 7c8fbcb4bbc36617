//! The server as a program uses it: it is put together, serves on its listeners, and stops in
//! order.
//!
//! Everything that runs belongs to `serve` and ends with it. Not here: the connections of a
//! listener (`acceptor`), the end of one connection (`connection::lifetime`), the response to a
//! request (`service`), and the snapshots (`store`).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use chancery_proto::schema::Schema;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tonic_health::ServingStatus;
use tonic_health::server::{HealthReporter, HealthService};
use tracing::info;

use crate::acceptor::Acceptor;
use crate::config::Config;
use crate::csds::Csds;
use crate::event::Observer;
use crate::listen::Listener;
use crate::load_reports::LoadReports;
use crate::metrics::Metrics;
use crate::places::Places;
use crate::policy::Policy;
use crate::server_state::{ServerParts, ServerState};
use crate::service::Services;
use crate::status::StatusBook;
use crate::store::Store;
use crate::tower_service::{Admission, TowerService};

/// An xDS management server over a store of snapshots.
pub struct Server {
    parts: ServerParts,
    services: Vec<TowerService>,
}

/// The reason why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Reflection cannot show the descriptors of [`Server::with_schema`]: they are at fault.
    #[error("the descriptors cannot be shown by reflection")]
    Reflection(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Server {
    /// A server that shows each client the snapshot of the audience that `policy` chooses.
    pub fn new(store: Arc<Store>, policy: impl Policy, config: Config) -> Self {
        let (policy, observers) = (Box::new(policy), Vec::new());
        let (metrics, schema) = (Metrics::default(), Schema::bundled());
        Self {
            parts: ServerParts {
                store,
                policy,
                observers,
                config,
                metrics,
                schema,
                load_reports: None,
                csds: None,
            },
            services: Vec::new(),
        }
    }

    /// Counts into the metrics of the caller.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.parts.metrics = metrics;
        self
    }

    /// Adds an observer of all streams. There may be several; each event goes to them in the order
    /// in which they were added.
    #[must_use]
    pub fn with_observer(mut self, observer: impl Observer) -> Self {
        self.parts.observers.push(Box::new(observer));
        self
    }

    /// Uses a schema with more messages than the bundled ones.
    #[must_use]
    pub fn with_schema(mut self, schema: Schema) -> Self {
        self.parts.schema = schema;
        self
    }

    /// Takes load reports (LRS) on the same listeners, into a book of which the program keeps a clone. The
    /// [`Policy`] says how often each client reports
    /// ([`load_reporting`](Policy::load_reporting)).
    #[must_use]
    pub fn with_load_reports(mut self, reports: LoadReports) -> Self {
        self.parts.load_reports = Some(reports);
        self
    }

    /// Tells of its clients by CSDS on the same listeners, to those that the value lets in
    /// ([`CsdsReaders`](crate::CsdsReaders)).
    #[must_use]
    pub fn with_csds(mut self, csds: Csds) -> Self {
        self.parts.csds = Some(csds);
        self
    }

    /// The book of what its clients want and hold. It is that of its store.
    pub fn status(&self) -> StatusBook {
        self.parts.store.status()
    }

    /// Adds a gRPC service of the program's own, which is served on the same listeners.
    ///
    /// Any service of tonic will do, such as those it generates, alone or in tower layers. The server
    /// promises this:
    ///
    /// - Requests over HTTP/2 with a gRPC media type and a path below `/NAME/` go to the service, with
    ///   streams in both directions and trailers. Discovery comes first; then the services of the
    ///   program, in the order in which they were added; then health and reflection, which the program
    ///   can replace so. Reflection shows the server's own services only.
    /// - A call is a stream of its connection: past
    ///   [`Limits::max_streams_per_connection`](crate::Limits::max_streams_per_connection) the client
    ///   waits. It is also one of the [`Limits::max_streams`](crate::Limits::max_streams) of the server,
    ///   past which its status is `RESOURCE_EXHAUSTED`. It counts until its body is dropped. The service
    ///   itself limits the size of its messages.
    /// - The extensions of a request hold an `Arc<`[`Peer`](crate::Peer)`>`, the other end of the
    ///   connection. No policy is asked and no observer is told.
    /// - When the connection drains, new calls get the status `UNAVAILABLE`, and so do streams that
    ///   have nothing to send. A call that has not begun its response has until
    ///   [`Times::grace`](crate::Times::grace) to do so.
    ///
    /// The service runs in the task of the connection. It must not block, and what takes long belongs
    /// into a task of its own; a panic ends the connection.
    #[must_use]
    pub fn with_service<S, B>(mut self, service: S) -> Self
    where
        S: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<B>,
                Error = Infallible,
            >,
        S: tonic::server::NamedService + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.services.push(TowerService::new(service, Admission::Limited));
        self
    }

    /// Serves on all `listeners` until `stop` is done, and then ends in order: no more
    /// connections are accepted; clients are sent GOAWAY, one after the other within
    /// [`Times::drain`](crate::Times::drain); their streams end, those without an answer after their
    /// first one; and what is left after [`Times::grace`](crate::Times::grace) is cut (S-139).
    ///
    /// # Errors
    /// When the server cannot start.
    pub async fn serve(
        self,
        listeners: Vec<Listener>,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        let stopping = CancellationToken::new();
        let times = self.parts.config.times.clone();
        self.parts.store.status().set_bounds(self.parts.config.status.clone());
        let shared = Arc::new(ServerState::new(self.parts));
        let health = HealthReporter::new();
        let services = Arc::new(services(&shared, &health, self.services)?);
        set_health(&services, &health, ServingStatus::Serving).await;
        let mut tasks = JoinSet::new();
        let handshakes = Places::new(shared.config.limits.max_handshakes);
        for listener in listeners {
            info!("serving on {listener}");
            let acceptor = Acceptor {
                services: Arc::clone(&services),
                tls: listener.tls.clone(),
                handshakes: handshakes.clone(),
                stop: stopping.clone(),
            };
            tasks.spawn(acceptor.run(listener));
        }
        tokio::select! {
            () = stop => {}
            () = regular_work(&shared) => {}
            () = show_budget(&shared) => {}
        }
        stopping.cancel();
        set_health(&services, &health, ServingStatus::NotServing).await;
        let last = Instant::now() + times.drain + times.grace + Duration::from_secs(3);
        while let Ok(Some(_)) = timeout_at(last, tasks.join_next()).await {}
        shared.log_limiter.log_summaries(Instant::now(), true);
        Ok(())
    }
}

/// The number of bytes of a question to health and reflection, which is a name.
const MAX_QUESTION: usize = 16 * 1024;

fn services(
    shared: &Arc<ServerState>,
    health: &HealthReporter,
    mut others: Vec<TowerService>,
) -> Result<Services, ServeError> {
    let (schema, v2) = (&shared.schema, shared.config.v2);
    let descriptors = schema.service_descriptors(v2);
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(&descriptors)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let unusable = |error: tonic_reflection::server::Error| ServeError::Reflection(Box::new(error));
    let health = HealthService::from_health_reporter(health.clone());
    let health = tonic_health::pb::health_server::HealthServer::new(health);
    let health = health.max_decoding_message_size(MAX_QUESTION);
    others.push(TowerService::new(health, Admission::Always));
    let v1 = reflection().build_v1().map_err(unusable)?.max_decoding_message_size(MAX_QUESTION);
    others.push(TowerService::new(v1, Admission::Always));
    let v1alpha = reflection().build_v1alpha().map_err(unusable)?;
    let v1alpha = v1alpha.max_decoding_message_size(MAX_QUESTION);
    others.push(TowerService::new(v1alpha, Admission::Always));
    Ok(Services::new(shared, others))
}

/// Sets the health of the server as a whole, under the empty name, and of each discovery service.
async fn set_health(services: &Services, health: &HealthReporter, status: ServingStatus) {
    let ServerState { schema, config, .. } = &*services.shared;
    health.set_service_status("", status).await;
    for service in schema.services(config.v2) {
        health.set_service_status(service.name, status).await;
    }
}

/// Counts the resources and the nodes at an interval, and logs how many lines were left out. Counting at each
/// publication would cost too much, because it walks over all types of all audiences. Never ends.
async fn regular_work(shared: &ServerState) {
    const EVERY: Duration = Duration::from_secs(5);
    loop {
        shared.metrics.count_resources(&shared.store);
        shared.metrics.count_nodes(shared.book());
        shared.metrics.count_rejected(shared.book());
        shared.log_limiter.log_summaries(Instant::now(), false);
        tokio::time::sleep(EVERY).await;
    }
}

/// Shows what is held for clients and whether the last load has landed, at an interval. Rejections are shown as soon,
/// because alerts are about them: so nodes are counted here too when there was one. Never ends.
async fn show_budget(shared: &ServerState) {
    const EVERY: Duration = Duration::from_secs(1);
    let mut verdicts = 0;
    loop {
        let now = shared.book().verdicts();
        if std::mem::replace(&mut verdicts, now) != now {
            shared.metrics.count_nodes(shared.book());
            shared.metrics.count_rejected(shared.book());
        }
        shared.metrics.show_budget(&shared.budget);
        shared.metrics.show_landing(shared.book());
        if let Some(reports) = &shared.load_reports {
            shared.metrics.show_load(reports.size());
        }
        tokio::time::sleep(EVERY).await;
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("config", &self.parts.config).finish_non_exhaustive()
    }
}
