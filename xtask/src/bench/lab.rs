//! The runs of a comparison: all sides take turns, several times.
//!
//! So a change of the machine's speed concerns all sides alike. Each run has a fresh server, and a
//! side that fails once is left out. Not here: one run of the driver (`driver`), the choice of
//! scenarios (`goals`), and the ratios of the figures (`figures`).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use super::driver;
use super::figures::{Comparison, Series};
use super::options::BenchOptions;
use super::programs::Programs;
use super::server::ServerProcess;
use super::side::Side;

/// Everything a comparison needs.
pub(crate) struct Lab {
    pub(crate) root: PathBuf,
    pub(crate) programs: Programs,
    pub(crate) options: BenchOptions,
    /// The directory for the files that a run writes.
    pub(crate) dir: PathBuf,
}

/// The run, which is the same for every side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scenario {
    pub(crate) verb: &'static str,
    /// The flags of the driver.
    pub(crate) driver: String,
    /// The flags of the server.
    pub(crate) server: String,
    /// True if the driver makes changes.
    pub(crate) changes: bool,
    /// The name of the varied quantity, and its value.
    pub(crate) x: Option<(&'static str, f64)>,
}

impl Lab {
    pub(crate) fn new(root: &Path, programs: Programs, options: &BenchOptions) -> Result<Self> {
        let dir = root.join("target/bench/run");
        fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        Ok(Self { root: root.to_path_buf(), programs, options: options.clone(), dir })
    }

    /// The full amount, or with `--quick` the small one that shows that the run works.
    pub(crate) fn or_quick<T>(&self, full: T, quick: T) -> T {
        if self.options.quick { quick } else { full }
    }

    /// Returns true if a comparison belongs into the document. Half of one would replace a whole
    /// one.
    pub(crate) fn is_documented(&self, comparison: &Comparison) -> bool {
        comparison.complete && !self.options.quick
    }

    /// Returns true if one of these goals was asked for.
    pub(crate) fn wants(&self, goals: &[&str]) -> bool {
        goals.iter().any(|goal| self.options.wants(goal))
    }

    /// Compares the sides in one scenario, with the command lines of Chancery.
    pub(crate) fn compare(&self, title: &str, sides: &[Side], scenario: &Scenario) -> Comparison {
        let mut comparison = Comparison::new(title);
        comparison.commands = Self::commands(Side::Chancery, scenario);
        comparison.series = self.measure(sides, scenario);
        comparison
    }

    /// Measures all sides in turn, once for each run. A side that fails once is left out from then
    /// on.
    pub(crate) fn measure(&self, sides: &[Side], scenario: &Scenario) -> Vec<Series> {
        let jobs: Vec<_> = sides.iter().map(|side| (*side, scenario.clone())).collect();
        self.measure_each(&jobs)
    }

    /// Measures all sides in turn, each with a scenario of its own.
    pub(crate) fn measure_each(&self, jobs: &[(Side, Scenario)]) -> Vec<Series> {
        let of = |(side, scenario): &(Side, Scenario)| Series {
            side: side.name().to_owned(),
            x: scenario.x,
            ..Series::default()
        };
        let mut all: Vec<Series> = jobs.iter().map(of).collect();
        for round in 1..=self.options.runs {
            for (series, (side, scenario)) in all.iter_mut().zip(jobs) {
                if series.failed.is_none() {
                    self.measure_once(round, *side, scenario, series);
                }
            }
        }
        all
    }

    fn measure_once(&self, round: usize, side: Side, scenario: &Scenario, series: &mut Series) {
        let x = scenario.x.map(|(name, x)| format!(" {x} {name}")).unwrap_or_default();
        let runs = self.options.runs;
        let label = format!("run {round}/{runs} {} {}{x}", scenario.verb, side.name());
        match self.run(side, scenario) {
            Ok((_, figures)) => {
                println!("   {label}: {}", summary(&figures));
                series.runs.push(figures);
            }
            Err(fault) => {
                println!("   {label}: FAILED: {fault:#}");
                series.failed = Some(format!("{fault:#}"));
            }
        }
    }

    /// Starts a fresh server, runs the driver once, and ends the server.
    pub(crate) fn run(
        &self,
        side: Side,
        scenario: &Scenario,
    ) -> Result<(Value, Map<String, Value>)> {
        let server =
            ServerProcess::start(side.program(&self.programs)?, &words(&server(side, scenario)))?;
        let mut flags = vec![
            scenario.verb.to_owned(),
            "--server".to_owned(),
            server.xds.clone(),
            "--pid".to_owned(),
            server.pid().to_string(),
        ];
        if scenario.changes {
            flags.extend(["--trigger".to_owned(), format!("tcp:{}", server.control)]);
        }
        flags.extend(words(&scenario.driver));
        let (value, figures) = driver::run(&self.programs.chancery, &self.dir, &flags)?;
        if let Some(payload) = server.payload.filter(|_| side.exact() && scenario.changes) {
            check_payload(payload, &figures)?;
        }
        Ok((value, figures))
    }

    /// The command lines of a run, as a person would type them.
    pub(crate) fn commands(side: Side, scenario: &Scenario) -> Vec<String> {
        let program = match side {
            Side::Chancery => "target/release/bench-chancery",
            Side::Tcp | Side::TcpDraining => "target/release/bench-tcp",
            Side::H2 => "target/release/bench-h2",
            Side::GoSnapshot | Side::GoLinear => "target/bench/go-control-plane",
            Side::RustControlPlane => "target/bench/rust-control-plane",
        };
        let trigger = if scenario.changes { " --trigger tcp:CONTROL" } else { "" };
        let (verb, flags) = (scenario.verb, &scenario.driver);
        vec![
            format!("taskset -c 0 {program} {}", server(side, scenario)),
            format!(
                "taskset -c 1 target/release/chancery bench {verb} --server ADDR --pid PID{trigger} {flags}"
            ),
        ]
    }
}

fn server(side: Side, scenario: &Scenario) -> String {
    format!("--listen 127.0.0.1:0 {}{}", scenario.server, side.flags())
}

pub(crate) fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Checks that the driver counted as many bytes as the TCP loop knows it sent.
fn check_payload(payload: u64, figures: &Map<String, Value>) -> Result<()> {
    let number = |name: &str| figures.get(name).and_then(Value::as_u64).unwrap_or(0);
    let (streams, rounds) = (number("streams"), number("rounds"));
    let (messages, bytes) = (number("messages"), number("payload_bytes"));
    if messages != streams * rounds || bytes != messages * payload {
        bail!(
            "the driver counted {messages} messages of {bytes} bytes; sent were {streams} × \
             {rounds} of {payload} bytes"
        );
    }
    Ok(())
}

/// The figures that are printed for a person who waits.
fn summary(figures: &Map<String, Value>) -> String {
    const TOLD: [(&str, &str, f64); 6] = [
        ("cpu_us_per_message", "us/message", 1.0),
        ("cpu_s", "s CPU", 1.0),
        ("last_ms", "ms to the last", 1.0),
        ("rss_peak", "MB at most", 1e6),
        ("driver_share", "driver share", 1.0),
        ("wall_s", "s", 1.0),
    ];
    let found = TOLD.iter().filter_map(|(name, unit, per)| {
        let value = figures.get(*name)?.as_f64()?;
        Some(format!("{:.3} {unit}", value / per))
    });
    let bound = figures.get("driver_bound").and_then(Value::as_bool).unwrap_or(false);
    let mut all: Vec<String> = found.collect();
    if bound {
        all.push("DRIVER-BOUND".to_owned());
    }
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn figures(messages: u64, bytes: u64) -> Map<String, Value> {
        let value =
            json!({"streams": 10, "rounds": 3, "messages": messages, "payload_bytes": bytes});
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_driver_that_counts_wrongly_is_found_out() {
        check_payload(100, &figures(30, 3_000)).unwrap();
        for (messages, bytes) in [(30, 2_999), (29, 2_900), (31, 3_100)] {
            let fault = check_payload(100, &figures(messages, bytes)).unwrap_err().to_string();
            assert!(fault.ends_with("sent were 10 × 3 of 100 bytes"), "{fault}");
        }
    }

    #[test]
    fn commands_can_be_typed() {
        let scenario = Scenario {
            verb: "fan-out",
            driver: "--streams 10".to_owned(),
            server: "--types eds".to_owned(),
            changes: true,
            x: None,
        };
        let expected = [
            "taskset -c 0 target/bench/go-control-plane --listen 127.0.0.1:0 --types eds --cache linear",
            "taskset -c 1 target/release/chancery bench fan-out --server ADDR --pid PID \
             --trigger tcp:CONTROL --streams 10",
        ];
        assert_eq!(Lab::commands(Side::GoLinear, &scenario), expected);
    }
}
