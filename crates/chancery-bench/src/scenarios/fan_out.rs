//! One change to many streams: rounds of trigger and receipt, and what they add up to.

use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::meter::Meter;
use crate::options::{Clients, Rounds};
use crate::percentiles::{Percentiles, percentile};
use crate::report::{Latency, Report, Table, maybe, megabytes, short};
use crate::run::{Run, RunSettings, WaitEnd, got_nothing};
use crate::trigger::Trigger;

/// Runs all rounds with so many clients.
pub(crate) async fn run(
    rounds: &Rounds,
    clients: &Clients,
    settings: RunSettings,
    interrupted: &CancellationToken,
) -> Result<Report, Error> {
    let mut trigger = Trigger::ready(&rounds.change, clients.timeout).await?;
    let mut run = Run::open(clients, settings, interrupted).await?;
    let mut waited = run.wait_connected().await?;
    if waited == WaitEnd::Reached {
        waited = run.wait_first_answers().await;
    }
    run.wait_idle().await;
    let mut meter = run.start_meter();
    let mut found = Found::default();
    for round in 0..rounds.warmup + rounds.rounds {
        if waited != WaitEnd::Reached || run.measurements.state().alive == 0 {
            break;
        }
        if round == rounds.warmup {
            run.wait_idle().await;
            meter = run.start_meter();
        }
        run.progress.say(&format!("round {} of {}", round + 1, rounds.warmup + rounds.rounds));
        if run.pause(rounds.gap).await == WaitEnd::Interrupted {
            waited = WaitEnd::Interrupted;
            break;
        }
        waited = one(&mut run, &mut trigger, &mut meter, round + 1).await;
        let receipts = run.measurements.state().take_receipts();
        if waited == WaitEnd::Reached && round >= rounds.warmup {
            found.add(receipts);
        }
    }
    meter.stop_clock();
    // Whoever sent the last response still has its acknowledgements to read.
    run.wait_idle().await;
    let mut report = run.report(waited, &meter, found.firsts.len());
    (report.latency_ms, report.receipt_ms) = (found.latency(), Percentiles::of(found.all));
    Ok(report)
}

/// One row for each run.
pub(crate) fn table(reports: &[Report]) -> Table {
    let mut table = Table::new(&[
        "streams",
        "rounds",
        "messages",
        "MB",
        "server µs/msg",
        "peak MB",
        "first ms",
        "median ms",
        "last ms",
        "p99 ms",
        "driver",
        "",
    ]);
    for report in reports {
        let process = report.process.as_ref();
        let latency = report.latency_ms.as_ref();
        table.row(vec![
            report.streams.to_string(),
            report.rounds.to_string(),
            report.messages.to_string(),
            short(megabytes(report.payload_bytes)),
            maybe(process.and_then(|process| process.cpu_us_per_message)),
            maybe(process.map(|process| megabytes(process.rss_peak))),
            maybe(latency.map(|latency| latency.first.p50)),
            maybe(latency.map(|latency| latency.median.p50)),
            maybe(latency.map(|latency| latency.last.p50)),
            maybe(report.receipt_ms.map(|times| times.p99)),
            report.driver.percent(),
            report.driver.mark().to_owned(),
        ]);
    }
    table
}

/// Times of the rounds: to the first, the median and the last stream, and all of them.
#[derive(Debug, Default)]
struct Found {
    firsts: Vec<u64>,
    medians: Vec<u64>,
    lasts: Vec<u64>,
    all: Vec<u64>,
}

impl Found {
    fn add(&mut self, mut receipts: Vec<u64>) {
        receipts.sort_unstable();
        let (Some(first), Some(last)) = (receipts.first(), receipts.last()) else { return };
        self.firsts.push(*first);
        self.medians.push(percentile(&receipts, 50));
        self.lasts.push(*last);
        self.all.append(&mut receipts);
    }

    fn latency(&self) -> Option<Latency> {
        let of = |times: &Vec<u64>| Percentiles::of(times.clone());
        let (first, median, last) = (of(&self.firsts)?, of(&self.medians)?, of(&self.lasts)?);
        Some(Latency { first, median, last })
    }
}

/// One change, until everybody has it.
async fn one(run: &mut Run, trigger: &mut Trigger, meter: &mut Meter, round: usize) -> WaitEnd {
    meter.begin_part();
    if let Err(error) = trigger.pull(&run.measurements).await {
        run.errors.push(format!("round {round}: {error}"));
        return WaitEnd::TimedOut;
    }
    let waited = wait_receipts(run, &format!("in round {round}")).await;
    meter.end_part();
    waited
}

/// Waits until everybody has the last change; says who has not.
pub(crate) async fn wait_receipts(run: &mut Run, when: &str) -> WaitEnd {
    let clients = run.workload.readers.clients;
    let waited = run
        .wait(run.workload.timeout, |state| {
            (state.behind == 0, format!("{when}: {} of {clients} streams wait", state.behind))
        })
        .await;
    if waited == WaitEnd::TimedOut {
        let told = got_nothing(&run.measurements.state().clients_behind(), clients);
        run.errors.push(format!("{when} {told} within {:?}", run.workload.timeout));
    }
    waited
}
