//! Changes at a steady rate, made whether or not anybody keeps up.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::error::Error;
use super::fan_out::missed;
use super::figures::Spread;
use super::options::{Churn, Clients};
use super::report::{ChurnFigures, Report, Table, maybe, megabytes, short};
use super::stage::{Scene, Stage, Waited};
use super::trigger::Trigger;

/// Makes changes for a while, with so many clients.
pub(crate) async fn run(
    churn: &Churn,
    clients: &Clients,
    scene: Scene,
    interrupted: &CancellationToken,
) -> Result<Report, Error> {
    let mut trigger = Trigger::ready(&churn.change, clients.timeout).await?;
    let mut stage = Stage::open(clients, scene, interrupted).await?;
    let mut waited = stage.connected().await?;
    if waited == Waited::Held {
        waited = stage.answered().await;
    }
    stage.quiet().await;
    let mut meter = stage.meter();
    let (mut publishes, mut took) = (0, Duration::ZERO);
    if waited == Waited::Held {
        (waited, publishes, took) = changes(churn, &mut stage, &mut trigger).await;
    }
    meter.stop_clock();
    if waited == Waited::Held {
        waited = missed(&mut stage, "after the last change").await;
    }
    stage.quiet().await;
    let receipts = stage.measurements.state().take_receipts();
    let awaited = stage.workload.clients - stage.workload.unawaited();
    let mut report = stage.report(waited, &meter, publishes);
    let (deliveries, made) = (receipts.len() as f64, publishes.max(1) as f64);
    report.churn = Some(ChurnFigures {
        rate: churn.rate,
        reached: publishes as f64 / took.as_secs_f64().max(f64::EPSILON),
        publishes,
        deliveries_per_publish: deliveries / made,
        coalescing: made * awaited as f64 / deliveries.max(1.0),
    });
    report.receipt_ms = Spread::of(receipts);
    Ok(report)
}

/// One row for each run.
pub(crate) fn table(reports: &[Report]) -> Table {
    let mut table = Table::new(&[
        "streams",
        "rate/s",
        "reached/s",
        "publishes",
        "deliveries/publish",
        "coalescing",
        "median ms",
        "p99 ms",
        "max ms",
        "server µs/msg",
        "peak MB",
        "driver",
        "",
    ]);
    for report in reports {
        let (process, receipt) = (report.process.as_ref(), report.receipt_ms);
        let churn = report.churn.as_ref();
        table.row(vec![
            report.streams.to_string(),
            maybe(churn.map(|churn| churn.rate)),
            maybe(churn.map(|churn| churn.reached)),
            report.rounds.to_string(),
            maybe(churn.map(|churn| churn.deliveries_per_publish)),
            maybe(churn.map(|churn| churn.coalescing)),
            maybe(receipt.map(|spread| spread.p50)),
            maybe(receipt.map(|spread| spread.p99)),
            maybe(receipt.map(|spread| spread.max)),
            maybe(process.and_then(|process| process.cpu_us_per_message)),
            maybe(process.map(|process| megabytes(process.rss_peak))),
            short(report.driver.share * 100.0) + "%",
            report.driver.mark().to_owned(),
        ]);
    }
    table
}

/// Each change has its time, counted from the beginning; one that is late is made at once.
async fn changes(
    churn: &Churn,
    stage: &mut Stage,
    trigger: &mut Trigger,
) -> (Waited, usize, Duration) {
    let began = Instant::now();
    let mut made = 0;
    let waited = loop {
        let due = Duration::from_secs_f64(made as f64 / churn.rate);
        if due >= churn.duration || began.elapsed() >= churn.duration {
            break Waited::Held;
        }
        if stage.pause(due.saturating_sub(began.elapsed())).await == Waited::Interrupted {
            break Waited::Interrupted;
        }
        if let Err(error) = trigger.pull(&stage.measurements).await {
            stage.errors.push(format!("change {}: {error}", made + 1));
            break Waited::TimedOut;
        }
        made += 1;
        stage.progress.say(&format!("{made} changes, {:.0?}", began.elapsed()));
    };
    (waited, made, began.elapsed())
}
