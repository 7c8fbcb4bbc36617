//! Changes at a steady rate, made whether the clients keep up or not.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::options::Churn;
use crate::percentiles::Percentiles;
use crate::report::{ChurnFigures, Report};
use crate::run::{Run, WaitEnd};
use crate::run_settings::RunSettings;
use crate::table::{CPU_PER_MESSAGE, Column, PEAK, REMARK, STREAMS, maybe, short};
use crate::trigger::Trigger;

/// Runs the scenario: changes are made for a while, and then the last one is waited for.
pub(crate) async fn run(churn: &Churn, settings: RunSettings<'_>) -> Result<Report, Error> {
    let mut trigger = Trigger::ready(&churn.change, settings.clients.timeout).await?;
    let (mut run, mut waited) = Run::subscribed(settings).await?;
    let mut meter = run.start_meter();
    let (mut publishes, mut took) = (0, Duration::ZERO);
    if waited == WaitEnd::Reached {
        (waited, publishes, took) = changes(churn, &mut run, &mut trigger).await;
    }
    meter.stop_clock();
    if waited == WaitEnd::Reached {
        waited = run.wait_receipts("after the last change").await;
    }
    run.wait_idle().await;
    let receipts = run.measurements.state().take_receipts();
    let awaited = run.workload.readers.awaited();
    let mut report = run.report(waited, &meter, publishes);
    let (deliveries, made) = (receipts.len() as f64, publishes.max(1) as f64);
    report.churn = Some(ChurnFigures {
        rate: churn.rate,
        reached: publishes as f64 / took.as_secs_f64().max(f64::EPSILON),
        publishes,
        deliveries_per_publish: deliveries / made,
        coalescing: made * awaited as f64 / deliveries.max(1.0),
    });
    report.receipt_ms = Percentiles::of(receipts);
    Ok(report)
}

/// The columns of the scenario's table.
pub(crate) const COLUMNS: &[Column] = &[
    STREAMS,
    ("rate/s", |report| maybe(report.churn.as_ref().map(|churn| churn.rate))),
    ("reached/s", |report| maybe(report.churn.as_ref().map(|churn| churn.reached))),
    ("publishes", |report| report.rounds.to_string()),
    ("deliveries/publish", |report| {
        maybe(report.churn.as_ref().map(|churn| churn.deliveries_per_publish))
    }),
    ("coalescing", |report| maybe(report.churn.as_ref().map(|churn| churn.coalescing))),
    ("median ms", |report| maybe(report.receipt_ms.map(|times| times.p50))),
    ("p99 ms", |report| maybe(report.receipt_ms.map(|times| times.p99))),
    ("max ms", |report| maybe(report.receipt_ms.map(|times| times.max))),
    CPU_PER_MESSAGE,
    PEAK,
    ("driver", |report| short(report.driver.share * 100.0) + "%"),
    REMARK,
];

/// Makes the changes; returns how it ended, how many there were and the time they took.
///
/// Each change has its time, counted from the beginning; one that is late is made at once.
async fn changes(
    churn: &Churn,
    run: &mut Run,
    trigger: &mut Trigger,
) -> (WaitEnd, usize, Duration) {
    let began = Instant::now();
    let mut made = 0;
    let waited = loop {
        let due = Duration::from_secs_f64(made as f64 / churn.rate);
        if due >= churn.duration || began.elapsed() >= churn.duration {
            break WaitEnd::Reached;
        }
        if run.pause(due.saturating_sub(began.elapsed())).await == WaitEnd::Interrupted {
            break WaitEnd::Interrupted;
        }
        if let Err(error) = trigger.make_change(&run.measurements).await {
            run.errors.push(format!("change {}: {error}", made + 1));
            break WaitEnd::TimedOut;
        }
        made += 1;
        run.progress.show(&format!("{made} changes, {:.0?}", began.elapsed()));
    };
    (waited, made, began.elapsed())
}
