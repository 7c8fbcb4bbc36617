//! `chancery serve`: from the command line to a server that runs, and to its end.
//!
//! ```text
//!   flags, chancery.yaml --> Config --+--> Directory --load--> Catalog -------+
//!                                     |        |                              v
//!                                     |     ChangeApplier -- Revision --> Audiences --> Store
//!                                     |                                                   |
//!                                     +--> listeners ----------------------------------> Server
//! ```
//!
//! No client is served before the whole directory was read once. Only the admin interface answers
//! earlier, and says that the server is not ready.

mod allocator;
mod audiences;
mod certificate_warnings;
mod change_applier;
mod derived_limits;
mod descriptors;
mod faulty;
mod first;
mod gate;
mod grouping;
mod held;
mod keeping;
mod listeners;
mod metrics;
mod reference_warnings;
mod referring;
mod reloads;
mod rules;
mod seen_grpc;
mod signals;
mod strays;
mod unruled;
mod unused_allowances;

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use chancery_catalog::Catalog;
use chancery_proto::document::RuleCheck;
use chancery_proto::schema::Schema;
use chancery_server::{Audiences, Csds, LoadBounds, LoadReports, Server, Tls};
use chancery_sources::{Directory, LayerChecks};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::sync::{Notify, watch};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub(crate) use self::audiences::{say_without_files, without_files};
pub(crate) use self::certificate_warnings::CertificateWarnings;
use self::change_applier::ChangeApplier;
pub(crate) use self::faulty::FaultyRow;
pub(crate) use self::first::{exists, schema};
pub(crate) use self::grouping::{Decider, Grouping};
use self::keeping::Started;
use self::listeners::Listeners;
use self::metrics::LoadMetrics;
pub(crate) use self::reference_warnings::{
    DANGLING_REFERENCE, DUPLICATES, NOTHING_TO_REMOVE, ReferenceWarnings, UNAPPLIED,
    UNUSED_RESOURCE, code_of_clash, code_of_cycle, concerns, outcome_of,
};
use self::reloads::Reloads;
use self::signals::OperatorSignal;
pub(crate) use self::signals::Signals;
use crate::admin::{
    self, Access, Admin, AdminHosts, AdminTls, ClientStatusPage, Confirmations, LoadReportsPage,
    LoadStatus, MetricsPage, NodesPage, Readiness, ReadinessState, StatusPages, Tokens, Turn,
};
use crate::check::codes::UNSUPPORTED_RULE;
use crate::config::{self, Config, ListenAddress, ServeFlags};
use crate::exit::Failure;
use crate::gate::LoadGate;
use crate::logging;

/// The number of tasks that run before a busy thread looks at its sockets. A change is sent to a
/// thousand clients before the first of their answers is read, so the last client gets it a third
/// sooner.
const TASKS_BETWEEN_READS: u32 = 1024;

/// Runs the server as the flags say, until a signal stops it.
pub(crate) fn run(flags: &ServeFlags) -> Result<(), Failure> {
    allocator::set();
    ListenAddress::check_distinct(&flags.listen).map_err(|error| {
        Failure::misuse(format!("{error}: `--listen` or `CHANCERY_LISTEN` has it"))
    })?;
    exists(&flags.dir)?;
    let started = keeping::configuration(flags)?;
    let config = &started.config;
    if flags.print_config {
        return first::print(config);
    }
    descriptors::raise();
    if flags.print_limits {
        return derived_limits::print(config);
    }
    let dropped = Counter::default();
    logging::start(&config.log, dropped.clone()).context("cannot write log lines to stderr")?;
    if config.limits.max_cache_bytes.is_some() {
        warn!("`limits.max-cache-bytes` has no effect any more: remove it");
    }
    let schema = schema(&config.descriptor_sets)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .event_interval(TASKS_BETWEEN_READS)
        .enable_all()
        .build();
    let runtime = runtime.context("cannot start the threads of the server")?;
    let ended = runtime.block_on(serve(flags, started, schema, &dropped));
    // A task that still runs was cut on purpose, or reads a directory that does not answer.
    runtime.shutdown_background();
    ended
}

/// The parts that are made before the server runs.
struct Parts {
    server: Server,
    listeners: Listeners,
    admin: Arc<Admin>,
    applier: Arc<ChangeApplier>,
    /// The checks of the directory, as `chancery.yaml` has them now.
    checks: watch::Receiver<LayerChecks>,
    directory: Directory,
    /// Is told when somebody waits for the directory to be read again.
    reread: Arc<Notify>,
}

async fn serve(
    flags: &ServeFlags,
    started: Started,
    schema: Schema,
    dropped: &Counter,
) -> Result<(), Failure> {
    let Started { config, file, fault } = started;
    fault.iter().for_each(keeping::say_fault);
    let mut signals = Signals::new().context("cannot listen to signals")?;
    let gate = LoadGate::new(&config, schema.clone());
    let catalog = Catalog::gated(gate.clone());
    catalog.extend(config.groups.lineage().clone(), config::FILE);
    catalog.limit_values(config.limits.max_node_values.get());
    let (admin, server_metrics, metrics) = admin(catalog.clone(), &gate, &config, dropped)?;
    // This failure is returned later: the faults of the directory help the operator more.
    let watched = listeners::bind_admin(&config).and_then(|bound| watch(bound, &admin));
    let Some(()) = keeping::look(flags, &config, &gate, &mut signals).await? else { return Ok(()) };
    gate::say_mode(&config.gate, gate.warns_for());
    let mut source = config.source(&flags.dir);
    source.checks = gate.due(source.checks);
    let directory = Directory::new(source, schema.clone());
    let directory = directory.with_catalog(catalog);
    let told = gate.clone();
    let directory = directory.telling_allowances(move |comments| told.set_comments(comments));
    let (directory, past) = keeping::begin(directory, flags, &config, &gate, &schema)?;
    if config.gate.rules() != RuleCheck::Off && !config.allow.allow(UNSUPPORTED_RULE) {
        first::warn_of_rules(&schema);
    }
    let loaded = first::load(directory, config.allow_partial, &mut signals).await?;
    let Some((directory, report)) = loaded else { return Ok(()) };
    let closing = watched?;
    let listeners = tokio::select! {
        bound = listeners::bind(&config) => bound?,
        () = signals.stop() => return Ok(()),
    };

    let keeper = keeping::keeper(past, &metrics)?;
    let wanted_rules = Grouping::new(&config);
    let waiting = keeping::waiting_rules(keeper.as_ref(), &wanted_rules);
    let rules = waiting.as_ref().map_or(wanted_rules, |(in_force, _)| in_force.clone());
    let audiences = Audiences::new(directory.catalog(), rules);
    gate.ask_for_users(gate::users(&audiences));
    gate.ask_for_nodes(gate::nodes(&audiences));
    let (wanted, checks) = watch::channel(gate.due(config.checks()));
    let applier = ChangeApplier::new(
        audiences.clone(),
        Arc::clone(&admin),
        metrics,
        wanted,
        file,
        &config,
        gate,
    );
    let applier = applier.keeping(keeper, waiting.map(|(_, waiting)| waiting), fault.as_ref());
    let applier = Arc::new(applier);
    applier.loaded(&report);
    admin.confirmations.apply_by(gate::confirmer(&applier));
    admin.nodes.tell_of(audiences.clone());
    admin.status.tell_of(audiences.clone());
    let store = audiences.store();
    let csds = Csds::new(store.status(), &schema, config.csds.into());
    admin.client_status.tell_of(csds.clone());
    let server = Server::new(store, audiences, server_config(&config))
        .with_metrics(server_metrics)
        .with_load_reports(admin.load_reports.reports())
        .with_csds(csds)
        .with_schema(schema);
    let reread = Arc::<Notify>::default();
    let rereading = Arc::clone(&reread);
    admin.status.rereads.read_by(&flags.dir, move || rereading.notify_one());
    let parts = Parts { server, listeners, admin, applier, checks, directory, reread };
    let ended = run_parts(parts, &mut signals).await;
    closing.cancel();
    ended
}

/// The settings of the server, with no more connections than there are descriptors for.
fn server_config(config: &Config) -> chancery_server::Config {
    let mut server = config.server();
    let wanted = server.limits.max_connections;
    let taken = descriptors::taken(wanted, descriptors::connections());
    server.limits.max_connections = taken;
    // Nobody asked for the default, and most fleets are far below it.
    let is_unasked = wanted == chancery_server::Limits::default().max_connections;
    if taken < wanted && !(is_unasked && taken >= MANY_CONNECTIONS) {
        info!(
            connections = taken,
            "fewer connections than `limits.max-connections` ({wanted}), because the limit of open \
             files (`ulimit -n`) allows no more"
        );
    }
    let of_one = server.limits.of_one_peer().connections;
    if of_one > taken / 2 {
        warn!(
            connections = taken,
            "so few connections that one client may have {of_one}, and all others the other {}; raise \
             `ulimit -n` or `limits.max-connections`",
            taken - of_one
        );
    }
    server
}

/// The number of connections that most fleets do not reach.
const MANY_CONNECTIONS: usize = 10_000;

/// Runs until a signal. The first one ends the server in order, the second one at once.
async fn run_parts(parts: Parts, signals: &mut Signals) -> Result<(), Failure> {
    let Parts { server, listeners, admin, applier, mut checks, directory, reread } = parts;
    let Listeners { all, tls } = listeners;
    let (notified, keeping) = (Arc::clone(&applier), Arc::clone(&applier));
    let following = directory.follow(move |report| notified.loaded(report));
    let following = following.context("cannot follow the directory")?;
    applier.pass_by(following.passer());
    let stop = CancellationToken::new();
    tokio::spawn(watch_certificates(Arc::clone(&applier), stop.clone()));
    let looking = tokio::spawn(watch_config(applier, stop.clone()));
    let certificates = tls.map(|tls| Reloads::start(move || reload_certificates(&tls)));
    admin.readiness.advance(ReadinessState::Ready);

    let mut served = std::pin::pin!(server.serve(all, stop.clone().cancelled_owned()));
    let ended = loop {
        tokio::select! {
            biased;
            signal = signals.next() => match signal {
                OperatorSignal::Reload => {
                    info!("told to read everything again");
                    admin.status.rereads.ask();
                    // Files that do not answer must not hold up the next signal.
                    certificates.iter().for_each(Reloads::ask);
                }
                OperatorSignal::Stop if stop.is_cancelled() => {
                    warn!("told to stop again: cutting what is left");
                    break Ok(());
                }
                OperatorSignal::Stop => {
                    info!("stopping");
                    admin.readiness.advance(ReadinessState::Draining);
                    stop.cancel();
                }
            },
            () = reread.notified() => following.reload(),
            Ok(()) = checks.changed() => following.set_checks(checks.borrow_and_update().clone()),
            ended = &mut served => break ended.context("cannot serve").map_err(Failure::from),
        }
    };
    looking.abort();
    if !following.stop_within(STOP_WAIT) {
        warn!("the directory does not answer; a read of it is given up");
    }
    keeping.settle(STOP_WAIT);
    info!("stopped");
    ended
}

/// The admin interface and all metrics.
fn admin(
    catalog: Catalog,
    gate: &LoadGate,
    config: &Config,
    dropped: &Counter,
) -> Result<(Arc<Admin>, chancery_server::Metrics, LoadMetrics), Failure> {
    let mut registry = Registry::default();
    let server_metrics = chancery_server::Metrics::registered(&mut registry);
    let metrics = LoadMetrics::registered(&mut registry, dropped);
    let readiness = Readiness::default();
    let hosts = AdminHosts::new(&config.admin_hosts);
    let loaded = LoadStatus::new(catalog);
    let confirmations = Confirmations::new(gate.clone());
    let metrics_page = MetricsPage::new(registry);
    let nodes = NodesPage::default();
    let load_reports = LoadReportsPage::new(LoadReports::new(LoadBounds::default()));
    let admin = Admin {
        readiness,
        loaded,
        metrics: metrics_page,
        hosts,
        access: Access::new(config.admin_tokens.clone().map(Tokens::load).transpose()?),
        tls: config
            .admin_tls
            .clone()
            .map(AdminTls::load)
            .transpose()
            .map_err(listeners::no_admin_tls)?,
        confirmations,
        nodes,
        load_reports,
        status: StatusPages::default(),
        client_status: ClientStatusPage::default(),
        turn: Turn::default(),
    };
    Ok((Arc::new(admin), server_metrics, metrics))
}

/// Serves the admin interface until the token is cancelled.
fn watch(listener: Option<TcpListener>, admin: &Arc<Admin>) -> Result<CancellationToken, Failure> {
    let closing = CancellationToken::new();
    if let Some(listener) = listener {
        let most = descriptors::for_admin();
        let started = admin::start(listener, Arc::clone(admin), most, closing.clone());
        started.context("cannot start the admin interface")?;
    }
    Ok(closing)
}

/// Checks at an interval if `chancery.yaml` has changed.
async fn watch_config(applier: Arc<ChangeApplier>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // A state directory that does not answer holds up nothing else.
    let confirming = Arc::clone(&applier);
    let confirming = Reloads::start(move || confirming.check_confirm_file());
    for number in 1_u32.. {
        if stop.run_until_cancelled(ticks.tick()).await.is_none() {
            break;
        }
        confirming.ask();
        let applier = Arc::clone(&applier);
        let looks_at_nodes = number.is_multiple_of(LOOKS_AT_NODES);
        let keeps_users = number.is_multiple_of(KEEPS_USERS);
        // Reading blocks, for long if the file is on another machine.
        let checking = tokio::task::spawn_blocking(move || {
            applier.check_config();
            applier.check_gate();
            if keeps_users {
                applier.keep_users();
            }
            if looks_at_nodes {
                applier.check_groups();
                applier.look_for_grpc();
            }
        });
        checking.await.ok();
    }
}

/// Checks at an interval if certificates in resources have come to their end.
async fn watch_certificates(applier: Arc<ChangeApplier>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(EVERY_CERTIFICATE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let applier = Arc::clone(&applier);
        tokio::task::spawn_blocking(move || applier.check_certificates()).await.ok();
    }
}

/// The time between two looks at the clock for certificates, which are warned of for days.
const EVERY_CERTIFICATE: Duration = Duration::from_secs(600);

/// Reads the certificates again, and says what came of it.
fn reload_certificates(tls: &Tls) {
    match tls.reload() {
        Ok(()) => info!("the certificates were read again"),
        Err(error) => {
            let error = anyhow::Error::from(error);
            warn!("certificates were not replaced, the old ones stay: {error:#}");
        }
    }
}

/// The time that a read of the directory may take when the server ends.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// The interval of these checks. A change has to outlast some of them, so a change of
/// `chancery.yaml` alone takes effect after 0.6 s.
const EVERY: Duration = Duration::from_millis(200);

/// Once in so many of these checks, it is noted which groups have nodes.
const KEEPS_USERS: u32 = 50;
/// Once in so many of them, the clusters of nodes are compared with groups that have none.
const LOOKS_AT_NODES: u32 = 25;
