//! Attacks by files: emptied, of another kind than a file, with faults by the thousand, and many.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::time::sleep;

use crate::attack::Attack;
use crate::memory;
use crate::setup::{Setup, cluster};
use crate::stage::{PATIENCE, PAUSE, Stage};
use crate::wire::grpc::READS;
use crate::wire::message::{Delta, Fields, Sotw, fields, text};
use crate::wire::{ADS_DELTA, ADS_SOTW, CDS};

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

/// A member of the group `edge`.
fn member() -> Vec<u8> {
    Fields::of(|node| {
        node.text(1, "member");
        node.text(2, "edge");
    })
}

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
    let mut call = connection.stream(ADS_DELTA).await?;
    let first = Delta { node: Some(member()), ..Delta::first("", CDS, [""; 0]) };
    call.send(&first.encode())?;
    let response = call.message_within(PATIENCE).await?;
    // The four files, and the two clusters of the innocent clients.
    ensure!(fields(&response, 2).len() == 6, "it has {} clusters", fields(&response, 2).len());
    for file in ["a.yaml", "b.json", "c.pb_text", "d.pb"] {
        stage.write(&format!("groups/edge/{file}"), "")?;
        let removed = async {
            loop {
                let response = call.message().await?;
                let nonce = text(&response, 5);
                let ack = Delta { type_url: CDS.to_owned(), nonce, ..Delta::default() };
                call.send(&ack.encode())?;
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
        let mut call = connection.stream(ADS_SOTW).await?;
        call.send(&Sotw::first("stranger", CDS, ["innocent"]).encode())?;
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
fn make_fifo(stage: &Stage, path: &str) -> Result<()> {
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
    sleep(Duration::from_secs(2)).await;
    fs::remove_file(stage.dir().join(path))?;
    told.map(|()| "it is a fault".to_owned())
}

fn fifo_term_setup(setup: &mut Setup) {
    setup.is_alone = true;
    setup.limit("drain: 100ms");
    setup.file("groups/other/a.json", cluster("a", 1, 0));
}

async fn fifo_term(stage: &Stage) -> Result<String> {
    stage.is_ready()?;
    make_fifo(stage, "groups/other/a.json")?;
    sleep(Duration::from_millis(1_500)).await;
    stage.signal("TERM")?;
    let (status, took) = stage.wait_for_end(Duration::from_secs(15))?;
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
    let (status, took) = stage.wait_for_end(Duration::from_secs(60))?;
    ensure!(status.code() == Some(1), "it ended with {status}");
    sleep(Duration::from_millis(300)).await;
    let printed = stage.log().len();
    ensure!(printed < 1 << 20, "it printed {printed} bytes");
    Ok(format!("ended after {:.1} s with {printed} bytes", took.as_secs_f64()))
}

async fn event_storm(stage: &Stage) -> Result<String> {
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            let dir = stage.dir().join(format!("groups/other-{writer}"));
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                let mut written = 0_u64;
                while !stop.load(Ordering::Relaxed) && fs::create_dir_all(&dir).is_ok() {
                    let name = format!("f{}", written % 200);
                    let text = cluster(&name, 1 + written % 900, 100);
                    fs::write(dir.join(format!("{name}.json")), text).ok();
                    written += 1;
                    thread::sleep(Duration::from_micros(200));
                }
                written
            })
        })
        .collect();
    sleep(2 * stage.seconds()).await;
    stop.store(true, Ordering::Relaxed);
    let written: u64 = writers.into_iter().filter_map(|writer| writer.join().ok()).sum();
    Ok(format!("{written} writes"))
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
    stage.is_ready()?;
    let ready = begin.elapsed();
    sleep(Duration::from_secs(5)).await;
    let (begin, before) = (Instant::now(), memory::cpu(stage.pid()).context("its CPU time")?);
    sleep(4 * stage.seconds()).await;
    let used = memory::cpu(stage.pid()).context("its CPU time")?.saturating_sub(before);
    let part = used.as_secs_f64() / begin.elapsed().as_secs_f64();
    ensure!(part <= IDLE, "{:.0} % of a core", part * 100.0);
    Ok(format!("{:.1} % of a core; ready after {:.1} s", part * 100.0, ready.as_secs_f64()))
}

fn outside_setup(setup: &mut Setup) {
    setup.is_alone = true;
    setup.links.push(("users.yaml".to_owned(), "/etc/passwd".to_owned()));
}

async fn outside(stage: &Stage) -> Result<String> {
    let begin = Instant::now();
    while stage.log().is_empty() && begin.elapsed() < PATIENCE {
        sleep(PAUSE).await;
    }
    stage.wait_for_end(Duration::from_secs(10)).ok();
    let log = String::from_utf8_lossy(&stage.log()).into_owned();
    ensure!(!log.contains("root:x:"), "a line of the file is printed");
    Ok("no line of it is printed".to_owned())
}
