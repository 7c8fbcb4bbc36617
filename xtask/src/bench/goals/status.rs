//! G20: the cost of saying how 10,000 nodes stand.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Map, Value};

use crate::bench::directory::Daemon;
use crate::bench::driver::HeldClients;
use crate::bench::figures::{Comparison, Figure, Goal, Series};
use crate::bench::fleet::{self, FleetSize, Gate};
use crate::bench::lab::{Lab, words};
use crate::bench::specs::spec;
use crate::bench::usage::Usage;

const NODES: u32 = 10_000;
const FLEET: FleetSize = FleetSize { clusters: 100, routes: 100 };

const SUMMARY: Figure = Figure { name: "summary_cpu_ms", unit: "ms", per: 1.0 };
const NODE: Figure = Figure { name: "node_cpu_ms", unit: "ms", per: 1.0 };
const ASKED: Figure = Figure { name: "asked_bytes_per_node", unit: "KB", per: 1e3 };

/// The bytes that the server keeps of a stream for those who may ask: a test of `chancery-server` says
/// that it is no more.
const CARD_KB: f64 = 0.5;

/// The number of questions of one kind, and the pause between them: an answer serves those who ask within
/// 20 ms of it.
const QUESTIONS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

pub(super) fn compare(lab: &Lab) -> Result<Comparison> {
    let mut comparison = Comparison::new("The states of 10,000 nodes");
    let nodes = lab.or_quick(NODES, NODES / 20);
    // Two streams share a connection, so that 20,000 open files are enough for each process.
    let connections = nodes / 2;
    let flags = format!(
        "idle --protocol delta --types cds,eds,lds,rds --names eds=100 --name-pattern service-{{:06}} \
         --streams {nodes} --connections {connections} --duration 10m --timeout 120s"
    );
    comparison.commands.push("taskset -c 0 target/release/chancery serve DIR".to_owned());
    comparison
        .commands
        .push(format!("taskset -c 1 target/release/chancery bench {flags} --server ADDR"));
    let dir = lab.dir.join("status-fleet");
    fleet::write(&dir, FLEET, Gate::Enforced)?;
    let mut series = Series { side: "Chancery".to_owned(), ..Series::default() };
    for round in 1..=lab.options.runs {
        let mut daemon = Daemon::start(&lab.programs.chancery, &dir)?;
        daemon.ready()?;
        let mut all = words(&flags);
        all.extend(["--server".to_owned(), daemon.server.xds.clone()]);
        let _clients = HeldClients::start(&lab.programs.chancery, &all)?;
        daemon.wait_streams(nodes)?;
        let run = asked(&daemon, nodes)?;
        println!("   run {round} {}: {}", series.side, Value::from(run.clone()));
        series.runs.push(run);
    }
    let plain = |part, values| Some(Goal::plain(spec("G20", part)?, values, ""));
    let memory = series.of_each_run(ASKED).iter().map(|kilobytes| kilobytes + CARD_KB).collect();
    comparison.goals.extend(plain("summary", series.of_each_run(SUMMARY)));
    comparison.goals.extend(plain("node", series.of_each_run(NODE)));
    comparison.goals.extend(plain("memory", memory));
    comparison.series = vec![series];
    Ok(comparison)
}

/// Asks for the states of all nodes, and then for single nodes.
fn asked(daemon: &Daemon, nodes: u32) -> Result<Map<String, Value>> {
    let usage = Usage(daemon.server.pid());
    let idle = cpu_of(usage, 0.0, || Ok(()))?;
    let (before, _) = usage.memory()?;
    let summary = cpu_of(usage, idle, || {
        let summary: Value = serde_json::from_str(&daemon.page("/api/v1/status?limit=100")?)?;
        match summary["count"].as_u64() == Some(nodes.into()) {
            true => Ok(()),
            false => bail!("the summary is of {} nodes", summary["count"]),
        }
    })?;
    let mut number = 0;
    let node = cpu_of(usage, idle, || {
        number += nodes / (QUESTIONS + 1);
        let node: Value =
            serde_json::from_str(&daemon.page(&format!("/api/v1/nodes/bench-{number}"))?)?;
        match node["streams"][0]["types"].as_array().map(Vec::len) {
            Some(4) => Ok(()),
            _ => bail!("node {number} does not have four types: {node}"),
        }
    })?;
    let (_, peak) = usage.memory()?;
    let each = peak.saturating_sub(before) as f64 / f64::from(nodes);
    let figures = [(SUMMARY, summary * 1e3), (NODE, node * 1e3), (ASKED, each)];
    Ok(figures
        .map(|(figure, value)| (figure.name.to_owned(), Value::from(value)))
        .into_iter()
        .collect())
}

/// The CPU time of the server for one question, without what it uses meanwhile anyway.
fn cpu_of(usage: Usage, idle: f64, mut ask: impl FnMut() -> Result<()>) -> Result<f64> {
    let before = usage.cpu()?;
    for _ in 0..QUESTIONS {
        ask()?;
        sleep(PAUSE);
    }
    Ok(((usage.cpu()? - before) / f64::from(QUESTIONS) - idle).max(0.0))
}
