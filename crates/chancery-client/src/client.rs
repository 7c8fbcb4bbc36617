//! The client as a program uses it: it makes all parts, and its methods lead to them.
//!
//! It decides nothing about the protocol, which the machine of the core does, and moves no bytes,
//! which the tasks do. Not here: the tasks (`keeper`), the state that clones and watches share
//! (`session`), the events of a watch (`watch`), and the clients of several targets (`clients`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::client::load::LoadKey;
use chancery_core::client::{AuthorityKey, CachedResource, ErrorKind, ServerId, WatchError};
use chancery_core::{Resource, ResourceName, TypeUrl};
use chancery_proto::reply::Reader;
use chancery_proto::schema::Schema;
use chancery_proto::wire::ClientConfig;
use tokio::time::timeout;
use tracing::warn;

use crate::bootstrap::{Bootstrap, BootstrapError, Service, XdsServer};
use crate::disk_cache::ClosedDiskCache;
use crate::driver::ServerDriver;
use crate::engine::Engine;
use crate::event_log::EventLog;
use crate::grpc::ReportStream;
use crate::keeper;
use crate::load::{Load, LoadError};
use crate::metrics::Metrics;
use crate::options::Options;
use crate::report_driver::ReportDrivers;
use crate::resource::{Decoders, Received, ResourceType};
use crate::server_context::ServerContext;
use crate::service_paths::ServicePaths;
use crate::session::Session;
use crate::status::{self, WatchedResource};
use crate::watch::{Event, RawWatch, Watch, XdsConfigWatch};

/// An xDS client. Cloning it is cheap, and all clones are one client. Its connections end when the
/// last clone and the last watch are dropped.
#[derive(Clone)]
pub struct Client(Arc<Session>);

impl Client {
    /// Makes a client. Nothing is connected before something is watched.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use chancery_client::{Bootstrap, Client, Event, Options, TypeUrl};
    ///
    /// let client = Client::new(&Bootstrap::discover(None)?, Options::default())?;
    /// let mut clusters = client.watch_raw(&TypeUrl::new("envoy.config.cluster.v3.Cluster"), "*");
    /// while let Some(event) = clusters.next().await {
    ///     if let Event::Changed { name, value: Ok(cluster) } = event {
    ///         println!("{name} is at version {}", cluster.version);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the bootstrap cannot be used.
    ///
    /// # Panics
    /// Outside of a runtime of tokio.
    pub fn new(bootstrap: &Bootstrap, options: Options) -> Result<Self, BootstrapError> {
        bootstrap.check()?;
        let protocol = |server: &XdsServer| options.protocol(server);
        let plan = bootstrap.plan_with(protocol, options.settings.clone());
        let schema = Schema::bundled();
        let paths = ServicePaths::new(&schema);
        let decoders = Arc::new(Decoders::default());
        let reader = Reader::new(schema)
            .with_decoder(Arc::clone(&decoders) as _)
            .for_grpc(options.grpc_validation);
        let drivers = plan.setup.servers().zip(&plan.servers).map(|((id, setup), server)| {
            ServerDriver::new(ServerContext {
                id,
                server: server.clone(),
                variant: setup.protocol.variant(),
                reader: reader.clone(),
                paths: paths.clone(),
                options: options.clone(),
            })
        });
        let drivers = drivers.collect();
        let disk_cache = options
            .disk_cache
            .clone()
            .map(|cache| ClosedDiskCache::new(cache, &plan.setup, reader));
        let node = bootstrap.node_for(Service::LoadReports);
        let event_log = Arc::new(EventLog::new(plan.setup.clone()));
        let report_drivers = ReportDrivers::new(&plan.servers, node, &options.settings, &event_log);
        let reports = report_drivers
            .iter()
            .map(|(server, driver)| ReportStream::new(server, Arc::clone(driver), options.clone()));
        let reports = reports.collect();
        let engine = Arc::new(Engine::new(plan.setup, event_log, options.reject));
        let keeper = tokio::spawn(keeper::run(Arc::clone(&engine), drivers, reports, disk_cache));
        Ok(Self(Arc::new(Session { engine, decoders, report_drivers, keeper })))
    }

    pub(crate) fn of(session: Arc<Session>) -> Self {
        Self(session)
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.0
    }

    /// Watches a resource as a value of `T`. The name may be `*`, for all resources of the type, or
    /// the glob of a collection, `xdstp://AUTHORITY/TYPE/PATH/*`, which needs delta streams
    /// ([`Options::variant`](crate::Options::variant)).
    ///
    /// There is no `Result`, so that a program handles all errors of a watch in one place, where it
    /// handles its events. An error of the name is the first and only event, [`Event::Failed`]. To
    /// check a name beforehand, use [`Bootstrap::resource`].
    pub fn watch<T: ResourceType>(&self, name: &str) -> Watch<T> {
        let type_url = TypeUrl::new(T::TYPE_URL);
        self.0.decoders.add::<T>(&type_url);
        Watch::new(self.watch_raw(&type_url, name))
    }

    /// Decodes resources of this type as `T` from now on, also those that are watched as bytes or
    /// followed. What `T` refuses is rejected. [`decoded`](crate::resource::decoded) returns the value.
    pub fn decode_as<T: ResourceType>(&self) {
        self.0.decoders.add::<T>(&TypeUrl::new(T::TYPE_URL));
    }

    /// Decodes resources of this type by a function, which may know more than a resource says. Everything
    /// else is as for [`decode_as`](Self::decode_as), and of several decoders of a type the first counts.
    ///
    /// The function runs on the tasks of the client, with whatever server has sent: it must not block, and
    /// its error is as that of [`ResourceType::decode`].
    pub fn decode_with<T: ResourceType>(
        &self,
        decode: impl Fn(&str, &Bytes) -> Result<T, String> + Send + Sync + 'static,
    ) {
        self.0.decoders.add_function(&TypeUrl::new(T::TYPE_URL), decode);
    }

    /// Watches a resource as bytes. Everything else is as for [`watch`](Self::watch).
    pub fn watch_raw(&self, type_url: &TypeUrl, name: &str) -> RawWatch {
        RawWatch::new(Arc::clone(&self.0), type_url.clone(), name)
    }

    /// Watches a listener and all it leads to, as a channel to a target needs it.
    pub fn follow(&self, listener: ResourceName) -> XdsConfigWatch {
        XdsConfigWatch::new(Arc::clone(&self.0), Schema::bundled(), listener)
    }

    /// Returns a resource without watching it any further. It waits until the resource arrives,
    /// until its server has had the time to send it
    /// ([`missing_after`](crate::options::Settings::missing_after)), or until an attempt has
    /// reached no server. With [`Options::disk_cache`](crate::Options::disk_cache) the resource may
    /// be one of an earlier run.
    ///
    /// # Errors
    /// If there is none ([`WatchError::is_missing`]), if it cannot be used, or if no server can be
    /// reached; and for `*` and globs, which stand for many resources.
    pub async fn get<T: ResourceType>(&self, name: &str) -> Result<Received<T>, Arc<WatchError>> {
        if name == "*" || ResourceName::read(name).is_ok_and(|name| name.is_glob()) {
            let text =
                format!("`{name}` stands for many resources, and one is asked for; watch it");
            let kind = ErrorKind::Name;
            return Err(Arc::new(WatchError {
                kind,
                text: text.into(),
                server: None,
                is_nameless: false,
            }));
        }
        let mut watch = self.watch::<T>(name);
        loop {
            match watch.next().await {
                Some(Event::Changed { value, .. }) => return value,
                Some(Event::Failed { error }) => return Err(error),
                Some(Event::Ambient { .. } | Event::Complete) => {}
                None => return Err(Arc::new(WatchError::broken("the client has come to an end"))),
            }
        }
    }

    /// Puts a resource of an earlier run into the cache, for programs that kept one elsewhere than
    /// in an [`Options::disk_cache`](crate::Options::disk_cache). Watches get it at once. It counts
    /// as sent by the first server of its authority: a delta server is told its version, and sends
    /// nothing if that is still current. A resource for which no server is responsible is dropped.
    pub fn restore(&self, type_url: &TypeUrl, resource: Resource) {
        self.0.engine.update(|machine, now| {
            let authority = AuthorityKey::of(resource.name());
            let servers = machine.setup().authorities().get(&authority);
            let Some(server) = servers.and_then(|it| it.servers.first()).copied() else { return };
            let version = resource.version().to_string().into();
            let (resource, reading) = (Arc::new(resource), None);
            let cached = CachedResource {
                resource,
                decoded: reading,
                version,
                last_updated: now,
                server,
                expires: None,
            };
            machine.restore(type_url.clone(), cached);
        });
    }

    /// Counts the calls to a cluster, for a server of the bootstrap. `service` is the name under
    /// which the endpoints of the cluster are found; it is empty if that is the cluster's own name.
    /// Counters with the same arguments are one counter.
    ///
    /// # Errors
    /// If the bootstrap has no such server, or if it is not one of gRPC.
    pub fn load(
        &self,
        server: &XdsServer,
        cluster: &str,
        service: &str,
    ) -> Result<Load, LoadError> {
        let driver = self.0.report_drivers.find(server);
        let driver =
            driver.inspect_err(|error| warn!(cluster, "loads are not reported: {error}"))?;
        let key = LoadKey { cluster: cluster.into(), service: service.into() };
        Ok(Load::new(Arc::clone(&self.0), Arc::clone(driver), key))
    }

    /// Returns the server that a resource came from
    /// ([`Received::server_id`](crate::Received::server_id)), or that an error is about
    /// ([`WatchError::server`]). A cluster whose `lrs_server` is `self` reports its load to the
    /// server that the cluster came from.
    pub fn server(&self, server: ServerId) -> Option<&XdsServer> {
        self.0.report_drivers.server(server.index())
    }

    /// Returns the server that is responsible for a name now: the first of its authority, or the
    /// one that the client has fallen back to.
    pub fn server_of(&self, name: &str) -> Option<&XdsServer> {
        let authority = AuthorityKey::of(&ResourceName::read(name).ok()?);
        let server = self.0.engine.inspect(|machine| machine.active_server(&authority))?;
        self.server(server)
    }

    /// Returns the errors that hold of a resource that is watched now: why there is none, or why it may
    /// be older than what its server has, which may have sent a version that was rejected; and why its
    /// servers cannot be reached. None of them means that nothing is wrong.
    pub fn errors_of(&self, type_url: &TypeUrl, name: &ResourceName) -> Vec<Arc<WatchError>> {
        self.0.engine.inspect(|machine| machine.errors_of(type_url, name).cloned().collect())
    }

    /// Returns the time until the next attempt to reach a server, such as the one that an error is
    /// about. `None` means that an attempt is being made, or that the server is reachable.
    pub fn next_attempt(&self, server: ServerId) -> Option<Duration> {
        let (engine, now) = (&self.0.engine, self.0.engine.now());
        let at = engine.inspect(|machine| machine.next_attempt(server))?;
        Some(at.0.saturating_sub(now.0))
    }

    /// Closes the client in an orderly way. It sends what servers have not got yet, such as the
    /// answers to their last responses and the calls that were counted since the last load report,
    /// and then ends its streams. All watches end. Returns true if all servers have ended their
    /// streams within this time. A client that is dropped resets its streams instead.
    pub async fn close(self, patience: Duration) -> bool {
        self.0.begin_close();
        let is_quiet = timeout(patience, self.0.streams_ended()).await.is_ok();
        self.0.engine.end_watches();
        is_quiet
    }

    /// Returns the state of all that is watched in the form of CSDS: with bodies, but without their
    /// secrets. A [`StatusServer`](crate::status::StatusServer) serves it to tools.
    pub fn status(&self) -> ClientConfig {
        status::client_config(&self.0.engine, "")
    }

    /// Returns the metrics that gRPC clients export, under the names of gRPC.
    pub fn metrics(&self) -> Metrics {
        self.0.engine.metrics()
    }

    /// Returns all resources that are watched, in their present state.
    pub fn resources(&self) -> Vec<WatchedResource> {
        status::resources(&self.0.engine)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
