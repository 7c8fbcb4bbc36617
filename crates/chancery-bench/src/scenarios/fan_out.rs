//! One change to many streams: rounds of a change and its receipts.

use crate::error::Error;
use crate::meter::Meter;
use crate::options::Rounds;
use crate::percentiles::{Percentiles, percentile};
use crate::report::{Latency, Report};
use crate::run::{Run, WaitEnd};
use crate::run_settings::RunSettings;
use crate::table::{
    CPU_PER_MESSAGE, Column, DRIVER, MESSAGES, PAYLOAD, PEAK, REMARK, ROUNDS, STREAMS, maybe,
};
use crate::trigger::Trigger;

/// Runs the scenario: the rounds of the warm-up, and then those that are measured.
pub(crate) async fn run(rounds: &Rounds, settings: RunSettings<'_>) -> Result<Report, Error> {
    let mut trigger = Trigger::ready(&rounds.change, settings.clients.timeout).await?;
    let (mut run, mut waited) = Run::subscribed(settings).await?;
    let mut meter = run.start_meter();
    let mut latencies = RoundLatencies::default();
    for round in 0..rounds.warmup + rounds.rounds {
        if waited != WaitEnd::Reached || run.measurements.state().alive == 0 {
            break;
        }
        if round == rounds.warmup {
            run.wait_idle().await;
            meter = run.start_meter();
        }
        run.progress.show(&format!("round {} of {}", round + 1, rounds.warmup + rounds.rounds));
        if run.pause(rounds.gap).await == WaitEnd::Interrupted {
            waited = WaitEnd::Interrupted;
            break;
        }
        waited = run_round(&mut run, &mut trigger, &mut meter, round + 1).await;
        let receipts = run.measurements.state().take_receipts();
        if waited == WaitEnd::Reached && round >= rounds.warmup {
            latencies.add(receipts);
        }
    }
    meter.stop_clock();
    // The server still has the acknowledgements of the last round to read.
    run.wait_idle().await;
    let mut report = run.report(waited, &meter, latencies.firsts.len());
    (report.latency_ms, report.receipt_ms) =
        (latencies.percentiles(), Percentiles::of(latencies.all));
    Ok(report)
}

/// The columns of the scenario's table.
pub(crate) const COLUMNS: &[Column] = &[
    STREAMS,
    ROUNDS,
    MESSAGES,
    PAYLOAD,
    CPU_PER_MESSAGE,
    PEAK,
    ("first ms", |report| maybe(report.latency_ms.as_ref().map(|latency| latency.first.p50))),
    ("median ms", |report| maybe(report.latency_ms.as_ref().map(|latency| latency.median.p50))),
    ("last ms", |report| maybe(report.latency_ms.as_ref().map(|latency| latency.last.p50))),
    ("p99 ms", |report| maybe(report.receipt_ms.map(|times| times.p99))),
    DRIVER,
    REMARK,
];

/// The latencies of the rounds: to the first, the median and the last stream, and all of them.
#[derive(Debug, Default)]
struct RoundLatencies {
    firsts: Vec<u64>,
    medians: Vec<u64>,
    lasts: Vec<u64>,
    all: Vec<u64>,
}

impl RoundLatencies {
    fn add(&mut self, mut receipts: Vec<u64>) {
        receipts.sort_unstable();
        let (Some(first), Some(last)) = (receipts.first(), receipts.last()) else { return };
        self.firsts.push(*first);
        self.medians.push(percentile(&receipts, 50));
        self.lasts.push(*last);
        self.all.append(&mut receipts);
    }

    fn percentiles(&self) -> Option<Latency> {
        let of = |times: &Vec<u64>| Percentiles::of(times.clone());
        let (first, median, last) = (of(&self.firsts)?, of(&self.medians)?, of(&self.lasts)?);
        Some(Latency { first, median, last })
    }
}

/// One round: a change, until all clients have received it.
async fn run_round(
    run: &mut Run,
    trigger: &mut Trigger,
    meter: &mut Meter,
    round: usize,
) -> WaitEnd {
    meter.begin_part();
    if let Err(error) = trigger.make_change(&run.measurements).await {
        run.errors.push(format!("round {round}: {error}"));
        return WaitEnd::TimedOut;
    }
    let waited = run.wait_receipts(&format!("in round {round}")).await;
    meter.end_part();
    waited
}
