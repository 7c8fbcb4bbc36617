//! Attacks by files: emptied, of another kind than a file, with faults by the thousand, and many.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::attack::Attack;
use crate::memory;
use crate::setup::{Setup, cluster};
use crate::stage::{PATIENCE, PAUSE, Stage, until};
use crate::wire::CDS;
use crate::wire::grpc::READS;
use crate::wire::message::{Delta, Fields, Sotw, fields, node_of};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "zero-bytes",
        about: "files of every format are cut to zero bytes, as by a full disk",
        setup: every_format,
        run: |stage| Box::pin(zero_bytes(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "config-emptied",
        about: "`chancery.yaml`, which refuses strangers, is cut to zero bytes",
        setup: |setup| setup.config = REFUSES.to_owned(),
        run: |stage| Box::pin(config_emptied(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "fifo-resource",
        about: "a file of resources becomes a FIFO while the server runs",
        setup: |setup| setup.file("groups/other/a.json", cluster("a", 1, 0)),
        run: |stage| Box::pin(fifo(stage, "groups/other/a.json")),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "fifo-config",
        about: "`chancery.yaml` becomes a FIFO while the server runs",
        setup: |setup| setup.config = "unmatched: base\n".to_owned(),
        run: |stage| Box::pin(fifo(stage, "chancery.yaml")),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "fifo-term",
        about: "the server is told to stop while a file of resources is a FIFO",
        setup: fifo_term_setup,
        run: |stage| Box::pin(fifo_term(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "faults-24000",
        about: "a file of another group gets 24,000 faults, again and again",
        setup: |setup| setup.file("groups/other/bad.json", cluster("a", 1, 0)),
        run: |stage| Box::pin(faults(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "faults-million",
        about: "a file with a million faults is there at the start",
        setup: million_setup,
        run: |stage| Box::pin(million(stage)),
        growth: 600,
        in_ci: false,
    },
    Attack {
        name: "event-storm",
        about: "files of another group are written without end",
        setup: |_| {},
        run: |stage| Box::pin(event_storm(stage)),
        growth: 200,
        in_ci: true,
    },
    Attack {
        name: "idle-files",
        about: "100,000 files lie there and do not change",
        setup: idle_files_setup,
        run: |stage| Box::pin(idle_files(stage)),
        growth: 400,
        in_ci: false,
    },
    Attack {
        name: "quoted-outside",
        about: "a symlink to a file outside of the directory, which is no configuration",
        setup: outside_setup,
        run: |stage| Box::pin(outside(stage)),
        growth: 100,
        in_ci: true,
    },
];

/// A file of each format for the group `edge`, with a cluster each.
fn every_format(setup: &mut Setup) {
    let yaml = format!("\"@type\": {CDS}\nname: yaml\n");
    setup.file("groups/edge/a.yaml", yaml);
    setup.file("groups/edge/b.json", cluster("json", 1, 0));
    let text = format!("resources {{ [{CDS}] {{ name: \"text\" }} }}\n");
    setup.file("groups/edge/c.pb_text", text);
    let binary = Fields::of(|response| {
        response.message(2, |any| {
            any.text(1, CDS);
            any.message(2, |cluster| cluster.text(1, "binary"));
        });
    });
    setup.file("groups/edge/d.pb", binary);
}

async fn zero_bytes(stage: &Stage) -> Result<String> {
    let connection = stage.http2(READS).await?;
    let first = Delta { node: Some(node_of("edge")), ..Delta::first("", CDS, [""; 0]) };
    let mut call = connection.delta(&first).await?;
    let response = call.message_within(PATIENCE).await?;
    // The four files, and the two clusters of the innocent clients.
    ensure!(fields(&response, 2).len() == 6, "it has {} clusters", fields(&response, 2).len());
    for file in ["a.yaml", "b.json", "c.pb_text", "d.pb"] {
        stage.write(&format!("groups/edge/{file}"), "")?;
        let removed = async {
            loop {
                let response = call.message().await?;
                call.send(&Delta::ack(&response).encode())?;
                if !fields(&response, 6).is_empty() {
                    return anyhow::Ok(());
                }
            }
        };
        tokio::select! {
            outcome = removed => {
                outcome?;
                bail!("the cluster of `{file}` was removed from the client");
            }
            known = stage.metric_reaches("chancery_faults", 1.0, Duration::from_secs(10)) => known?,
        }
    }
    stage.metric_reaches("chancery_faults", 4.0, Duration::from_secs(10)).await?;
    Ok("four faults, and nothing is removed".to_owned())
}

/// A configuration under which only the innocent clients are served.
const REFUSES: &str = "groups:\n- name: known\n  match:\n    id: innocent\nunmatched: refuse\n";

async fn config_emptied(stage: &Stage) -> Result<String> {
    let connection = stage.http2(READS).await?;
    let ask = || async {
        let mut call = connection.sotw(&Sotw::first("stranger", CDS, ["innocent"])).await?;
        call.message_within(PATIENCE).await.map(drop)
    };
    ensure!(ask().await.is_err(), "the stranger is served before");
    stage.write("chancery.yaml", "")?;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(10) {
        ensure!(ask().await.is_err(), "the stranger is served after {:?}", begin.elapsed());
        if stage.metric("chancery_config_faulty").await? > 0.0 {
            return Ok("it is a fault, and the stranger stays refused".to_owned());
        }
        sleep(PAUSE).await;
    }
    bail!("the stranger is refused, and the fault is not told")
}

/// Replaces a file by a FIFO.
pub(super) fn make_fifo(stage: &Stage, path: &str) -> Result<()> {
    let beside = stage.dir().join(".fifo");
    let made = Command::new("mkfifo").arg(&beside).status()?;
    ensure!(made.success(), "`mkfifo` failed");
    Ok(fs::rename(beside, stage.dir().join(path))?)
}

async fn fifo(stage: &Stage, path: &str) -> Result<String> {
    make_fifo(stage, path)?;
    let metric = if path == "chancery.yaml" { "chancery_config_faulty" } else { "chancery_faults" };
    let told = stage.metric_reaches(metric, 1.0, Duration::from_secs(10)).await;
    // The innocent editors go on meanwhile; a reader that hangs makes them wait for ever.
    let served = stage.serves_others().await;
    // Whoever waits for a writer of it is woken.
    fs::remove_file(stage.dir().join(path))?;
    told.and(served).map(|()| "it is a fault".to_owned())
}

fn fifo_term_setup(setup: &mut Setup) {
    setup.is_alone = true;
    setup.limit("drain: 100ms");
    setup.file("groups/other/a.json", cluster("a", 1, 0));
}

async fn fifo_term(stage: &Stage) -> Result<String> {
    stage.is_ready().await?;
    make_fifo(stage, "groups/other/a.json")?;
    // The fault shows that the server has looked at it.
    let told = stage.metric_reaches("chancery_faults", 1.0, Duration::from_secs(10)).await;
    stage.signal("TERM")?;
    let (status, took) = stage.wait_for_end(Duration::from_secs(15)).await?;
    told?;
    ensure!(status.success(), "it ended with {status}");
    Ok(format!("ended after {:.1} s", took.as_secs_f64()))
}

async fn faults(stage: &Stage) -> Result<String> {
    let count = stage.scale(24_000, 2_000);
    let begin = Instant::now();
    let mut written = 0;
    while begin.elapsed() < stage.seconds() {
        written += 1;
        let fault =
            |at: usize| format!("{{\"@type\": \"{CDS}\", \"name\": \"n\", \"no{at}\": {written}}}");
        let all: Vec<_> = (0..count).map(fault).collect();
        stage.write("groups/other/bad.json", format!("[{}]", all.join(",\n")))?;
        sleep(Duration::from_secs(1)).await;
    }
    stage.metric_reaches("chancery_faults", 1.0, PATIENCE).await?;
    Ok(format!("{written} × {count} faults"))
}

fn million_setup(setup: &mut Setup) {
    setup.is_alone = true;
    setup.file("bad.yaml", "- 1\n".repeat(1_000_000));
}

async fn million(stage: &Stage) -> Result<String> {
    let (status, took) = stage.wait_for_end(Duration::from_secs(60)).await?;
    ensure!(status.code() == Some(1), "it ended with {status}");
    stage.log.is_whole().await?;
    let printed = stage.log.text().len();
    ensure!(printed > 0, "it does not say why it ended");
    ensure!(printed < 1 << 20, "it printed {printed} bytes");
    Ok(format!("ended after {:.1} s with {printed} bytes", took.as_secs_f64()))
}

/// Tells threads to stop when it is dropped, however the attack ends.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn event_storm(stage: &Stage) -> Result<String> {
    let stop = Stop(Arc::default());
    let mut writers = JoinSet::new();
    for writer in 0..2 {
        let dir = stage.dir().join(format!("groups/other-{writer}"));
        fs::create_dir_all(&dir)?;
        let is_over = Arc::clone(&stop.0);
        writers.spawn_blocking(move || write_on(&dir, &is_over));
    }
    sleep(2 * stage.seconds()).await;
    drop(stop);
    let mut written = 0;
    while let Some(writer) = writers.join_next().await {
        written += writer??;
    }
    ensure!(written > 100, "{written} files were written");
    Ok(format!("{written} writes"))
}

/// Writes files until it is over, and returns their number.
fn write_on(dir: &Path, is_over: &AtomicBool) -> Result<u64> {
    let mut written = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        let name = format!("f{}", written % 200);
        fs::write(dir.join(format!("{name}.json")), cluster(&name, 1 + written % 900, 100))?;
        written += 1;
        thread::sleep(Duration::from_micros(200));
    }
    Ok(written)
}

fn idle_files_setup(setup: &mut Setup) {
    setup.is_alone = true;
    for at in 0..99_000 {
        let path = format!("groups/g{}/f{at}.json", at / 1_000);
        setup.file(&path, cluster(&format!("f{at}"), 1, 0));
    }
}

/// The part of a core that idle files may cost.
const IDLE: f64 = 0.1;

async fn idle_files(stage: &Stage) -> Result<String> {
    let begin = Instant::now();
    stage.is_ready().await?;
    let ready = begin.elapsed();
    // The work of the start ends after it is ready.
    let quiet = async || Ok(part_of_a_core(stage, Duration::from_secs(1)).await? <= IDLE);
    until(PATIENCE, "the server is idle", quiet).await?;
    let part = part_of_a_core(stage, 4 * stage.seconds()).await?;
    ensure!(part <= IDLE, "{:.0} % of a core", part * 100.0);
    Ok(format!("{:.1} % of a core; ready after {:.1} s", part * 100.0, ready.as_secs_f64()))
}

/// The CPU time that the server takes in this time, as a part of it.
async fn part_of_a_core(stage: &Stage, time: Duration) -> Result<f64> {
    let (begin, before) = (Instant::now(), memory::cpu(stage.pid()).context("its CPU time")?);
    sleep(time).await;
    let used = memory::cpu(stage.pid()).context("its CPU time")?.saturating_sub(before);
    Ok(used.as_secs_f64() / begin.elapsed().as_secs_f64())
}

fn outside_setup(setup: &mut Setup) {
    setup.is_alone = true;
    setup.links.push(("users.yaml".to_owned(), "/etc/passwd".to_owned()));
}

async fn outside(stage: &Stage) -> Result<String> {
    stage.log.has("users.yaml").await?;
    // It may serve on without that file, and then nothing more is printed about it.
    let ended = stage.wait_for_end(Duration::from_secs(5)).await;
    if ended.is_ok() {
        stage.log.is_whole().await?;
    }
    ensure!(!stage.log.text().contains("root:x:"), "a line of the file is printed");
    Ok("it is named, and no line of it is printed".to_owned())
}
