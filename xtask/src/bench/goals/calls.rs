//! G23: unary calls through a channel of `chancery-grpc`, beside tonic's own and those of gRPC for Go.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use crate::bench::figures::{Comparison, Figure, Series};
use crate::bench::lab::Lab;
use crate::steps::cargo;

/// The sides, with their names in the answer of the bench.
const SIDES: [(&str, &str); 3] =
    [("Chancery", "chancery-grpc"), ("tonic", "tonic"), ("grpc-go", "grpc-go")];

const CPU: Figure = Figure { name: "cpu_us_per_call", unit: "µs", per: 1.0 };
const P99: Figure = Figure { name: "p99_us", unit: "µs", per: 1.0 };

pub(super) fn compare(lab: &Lab) -> Result<Comparison> {
    let mut comparison = Comparison::new("Unary calls, 64 at a time");
    let calls = lab.or_quick("200000", "5000");
    let go = go_client(lab)?;
    comparison.commands.push(format!(
        "cargo bench -p chancery-grpc --bench calls -- {calls} 64 target/real/grpc-go"
    ));
    let mut series = SIDES.map(|(side, _)| Series { side: side.to_owned(), ..Series::default() });
    for round in 1..=lab.options.runs {
        let figures = answer(lab, &[calls, "64", &go])?;
        println!("   run {round}: {}", Value::from(figures.clone()));
        for (series, (side, name)) in series.iter_mut().zip(SIDES) {
            let run = figures.get(name).and_then(Value::as_object);
            series.runs.push(run.with_context(|| format!("no figures of {side}"))?.clone());
        }
    }
    comparison.series = series.into();
    comparison.ratio(("G23", "tonic cpu"), 0, 1, CPU);
    comparison.ratio(("G23", "tonic p99"), 0, 1, P99);
    comparison.ratio(("G23", "go cpu"), 0, 2, CPU);
    Ok(comparison)
}

/// Returns the path of the client of gRPC for Go.
pub(super) fn go_client(lab: &Lab) -> Result<String> {
    let go = lab.root.join("target/real/grpc-go");
    if !go.exists() {
        bail!("the client of gRPC for Go is not there: `cargo xtask fetch`");
    }
    Ok(go.to_string_lossy().into_owned())
}

/// Runs the bench of channels, which answers with one line of JSON.
pub(super) fn answer(lab: &Lab, words: &[&str]) -> Result<Map<String, Value>> {
    let bench = ["bench", "--quiet", "--locked", "-p", "chancery-grpc", "--bench", "calls"];
    let mut command = cargo(&lab.root, &bench);
    command.arg("--target-dir").arg(lab.root.join("target")).arg("--").args(words);
    let output = command.output()?;
    if !output.status.success() {
        bail!(
            "the calls ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next_back().context("the calls say nothing")?;
    serde_json::from_str(line).with_context(|| line.to_owned())
}
