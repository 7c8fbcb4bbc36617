//! One run of `chancery bench` on the second core, and the figures in its JSON.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use super::server::{DRIVER_CORE, bound};

/// The bound on the time of a run; a run that takes longer is killed.
const LIMIT: Duration = Duration::from_secs(300);

/// The figures of a run: their names here, and their paths in the driver's JSON.
const FIGURES: [(&str, &str); 31] = [
    ("streams", "/streams"),
    ("rounds", "/rounds"),
    ("messages", "/messages"),
    ("payload_bytes", "/payload_bytes"),
    ("resource_bytes", "/resource_bytes"),
    ("wall_s", "/wall_s"),
    ("cpu_s", "/process/cpu_s"),
    ("cpu_us_per_message", "/process/cpu_us_per_message"),
    ("rss_before", "/process/rss_before"),
    ("rss_start", "/process/rss_start"),
    ("rss_peak", "/process/rss_peak"),
    ("rss_after", "/process/rss_after"),
    ("rss_per_stream", "/process/rss_per_stream"),
    ("first_ms", "/latency_ms/first/p50"),
    ("median_ms", "/latency_ms/median/p50"),
    ("last_ms", "/latency_ms/last/p50"),
    ("receipt_p50_ms", "/receipt_ms/p50"),
    ("receipt_p99_ms", "/receipt_ms/p99"),
    ("answer_p50_ms", "/first_answer_ms/p50"),
    ("answer_p90_ms", "/first_answer_ms/p90"),
    ("answer_last_ms", "/first_answer_ms/max"),
    ("settle_p50_ms", "/settle_ms/p50"),
    ("settle_last_ms", "/settle_ms/max"),
    ("connect_s", "/connect_s"),
    ("reports", "/load/reports"),
    ("reports_per_s", "/load/reports_per_s"),
    ("cpu_us_per_report", "/load/cpu_us_per_report"),
    ("core_share", "/load/core_share"),
    ("driver_cpu_s", "/driver/cpu_s"),
    ("driver_share", "/driver/share"),
    ("driver_bound", "/driver/bound"),
];

/// Runs the driver to its end, and returns its whole report and the figures that are kept.
pub(crate) fn run(
    chancery: &Path,
    dir: &Path,
    words: &[String],
) -> Result<(Value, Map<String, Value>)> {
    let json = dir.join("run.json");
    fs::remove_file(&json).ok();
    let mut all = vec!["bench".to_owned()];
    all.extend(words.iter().cloned());
    all.extend(["--json".to_owned(), json.to_string_lossy().into_owned()]);
    finish(bound(DRIVER_CORE, chancery, &all))?;
    let text = fs::read_to_string(&json).context("the driver wrote no JSON")?;
    let value: Value = serde_json::from_str(&text).context("the driver's JSON")?;
    if let Some(error) = value["errors"].as_array().and_then(|errors| errors.first()) {
        bail!("the driver reports {error}");
    }
    let kept = figures(&value);
    Ok((value, kept))
}

fn figures(value: &Value) -> Map<String, Value> {
    let found = FIGURES.iter().filter_map(|(name, pointer)| {
        let figure = value.pointer(pointer).filter(|figure| !figure.is_null())?;
        Some(((*name).to_owned(), figure.clone()))
    });
    found.collect()
}

/// Clients that stay connected until this is dropped.
pub(crate) struct HeldClients(Child);

impl HeldClients {
    /// Starts the driver.
    pub(crate) fn start(chancery: &Path, words: &[String]) -> Result<Self> {
        let mut all = vec!["bench".to_owned()];
        all.extend(words.iter().cloned());
        let mut command = bound(DRIVER_CORE, chancery, &all);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(command.spawn().context("cannot start the driver")?))
    }
}

impl Drop for HeldClients {
    fn drop(&mut self) {
        // It may have ended already, and nothing can be done if it cannot be killed.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Waits for the end of the driver, and kills it if it does not end.
fn finish(mut command: Command) -> Result<()> {
    let (mut said, says) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(says.try_clone()?).stderr(says);
    let mut child = command.spawn().context("cannot start the driver")?;
    drop(command); // It holds the ends that say, and what is said ends when the driver does.
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        said.read_to_string(&mut text).ok();
        sender.send(text)
    });
    let text = ended.recv_timeout(LIMIT);
    if text.is_err() {
        child.kill().ok();
    }
    let status = child.wait()?;
    match text {
        Err(_) => bail!("the driver was not done after {} s", LIMIT.as_secs()),
        Ok(_) if status.success() => Ok(()),
        Ok(text) => {
            let last = text.lines().rfind(|line| !line.is_empty());
            bail!("the driver ended with {status}: {}", last.unwrap_or("no word"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_are_found_and_those_that_are_not_there_left_out() {
        let value = json!({"streams": 3, "process": {"cpu_s": 0.5, "cpu_us_per_message": null}});
        let found = figures(&value);
        assert_eq!(Value::Object(found), json!({"streams": 3, "cpu_s": 0.5}));
    }
}
