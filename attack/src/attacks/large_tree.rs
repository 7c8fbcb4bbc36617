//! Attacks in a large directory: many files at once, and small things that have all of it read again.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::time::sleep;

use crate::attack::Attack;
use crate::setup::{Setup, cluster};
use crate::stage::{PATIENCE, SOON, Stage, until};
use crate::wire::EDS;

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "files-at-once",
        about: "eight files of 9 MB with two million endpoints each appear at the same moment",
        setup: |setup| {
            some_files(setup, 100);
            setup.edits_wait = true;
        },
        run: |stage| Box::pin(at_once(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "hard-links",
        about: "a file of 8 MB appears under 100 names at the same moment",
        setup: |setup| {
            some_files(setup, 100);
            setup.edits_wait = true;
        },
        run: |stage| Box::pin(hard_links(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "large-tree-noise",
        about: "a file that is no configuration comes and goes among 60,000 others",
        setup: |setup| some_files(setup, setup.scale(60_000, 3_000)),
        run: |stage| Box::pin(noise(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "large-tree-broken-link",
        about: "a symlink that leads nowhere is put among 60,000 files",
        setup: |setup| some_files(setup, setup.scale(60_000, 3_000)),
        run: |stage| Box::pin(broken_link(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "tree-renamed",
        about: "a group with 10,000 files is renamed again and again",
        setup: |setup| some_files(setup, setup.scale(10_000, 1_000)),
        run: |stage| Box::pin(renamed(stage)),
        growth: 300,
        in_ci: true,
    },
    Attack {
        name: "many-directories",
        about: "40,000 empty directories are made, and a symlink that leads nowhere",
        setup: |_| {},
        run: |stage| Box::pin(directories(stage)),
        growth: 300,
        in_ci: false,
    },
];

/// So many files with a cluster each, in directories of a thousand, for groups that nobody is in.
fn some_files(setup: &mut Setup, count: usize) {
    for at in 0..count {
        let path = format!("groups/many-{}/f-{at}.json", at / 1_000);
        setup.file(&path, cluster(&format!("f-{at}"), 1, 0));
    }
}

/// Fills a directory that is not read, and puts it in the place of a group as a whole.
fn appear(stage: &Stage, group: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let beside = stage.dir().join(format!(".{group}"));
    fs::create_dir_all(&beside)?;
    fill(&beside)?;
    Ok(fs::rename(beside, stage.dir().join("groups").join(group))?)
}

/// A little less than a file may have where a process may use 600 MB.
const LARGE: usize = 9 << 20;

async fn at_once(stage: &Stage) -> Result<String> {
    let head = format!("{{\"@type\": \"{EDS}\", \"clusterName\": \"x\", \"endpoints\": [{{}}");
    let one = format!("{head}{}]}}", ", {}".repeat((LARGE - head.len() - 10) / 4));
    appear(stage, "bombs", |at| {
        for file in 0..8 {
            fs::write(
                at.join(format!("b-{file}.json")),
                one.replacen("\"x\"", &format!("\"x{file}\""), 1),
            )?;
        }
        Ok(())
    })?;
    is_refused(stage, "bombs").await
}

/// Holds if the whole directory is refused as long as a group is there, others are served what was
/// loaded before, and the directory is loaded again when the group is removed.
async fn is_refused(stage: &Stage, group: &str) -> Result<String> {
    stage.metric_reaches("chancery_faults", 1.0, PATIENCE).await?;
    sleep(stage.seconds()).await;
    stage.serves_others().await?;
    fs::remove_dir_all(stage.dir().join("groups").join(group))?;
    let is_loaded = until(SOON, "the directory is loaded again", async || {
        Ok(stage.metric("chancery_faults").await? == 0.0)
    });
    is_loaded.await?;
    Ok("the directory is refused, and loaded again without the group".to_owned())
}

async fn hard_links(stage: &Stage) -> Result<String> {
    let all: Vec<_> = (0..80).map(|at| cluster(&format!("b-{at}"), 1, 100_000)).collect();
    appear(stage, "linked", |at| {
        let first = at.join("0.json");
        fs::write(&first, format!("[{}]", all.join(",\n")))?;
        for link in 1..100 {
            fs::hard_link(&first, at.join(format!("{link}.json")))?;
        }
        Ok(())
    })?;
    is_refused(stage, "linked").await
}

/// Does something again and again on a thread of its own, while the innocent clients ask.
async fn meanwhile(
    time: Duration,
    pause: Duration,
    mut work: impl FnMut(u64) -> Result<()> + Send + 'static,
) -> Result<u64> {
    let is_over = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&is_over);
    let thread = thread::spawn(move || {
        let mut done = 0;
        while !stop.load(Ordering::Relaxed) {
            work(done)?;
            done += 1;
            thread::sleep(pause);
        }
        anyhow::Ok(done)
    });
    sleep(time).await;
    is_over.store(true, Ordering::Relaxed);
    thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?
}

async fn noise(stage: &Stage) -> Result<String> {
    let path = stage.dir().join("groups/many-0/notes.txt");
    let times = meanwhile(4 * stage.seconds(), Duration::from_millis(20), move |_| {
        fs::write(&path, "")?;
        Ok(fs::remove_file(&path)?)
    });
    let times = times.await?;
    stage.serves_others().await?;
    ensure!(times > 10, "it came {times} times");
    Ok(format!("it came and went {times} times"))
}

async fn broken_link(stage: &Stage) -> Result<String> {
    symlink("nowhere.json", stage.dir().join("groups/many-0/link.json"))?;
    stage.metric_reaches("chancery_faults", 1.0, PATIENCE).await?;
    sleep(4 * stage.seconds()).await;
    stage.serves_others().await?;
    Ok("it is a fault, and others are served".to_owned())
}

async fn renamed(stage: &Stage) -> Result<String> {
    let groups = stage.dir().join("groups");
    let times = meanwhile(3 * stage.seconds(), Duration::from_millis(50), move |at| {
        let names = ["many-0", "other"].map(|name| groups.join(name));
        let (from, to) = if at % 2 == 0 { (0, 1) } else { (1, 0) };
        Ok(fs::rename(&names[from], &names[to])?)
    });
    let times = times.await?;
    stage.serves_others().await?;
    ensure!(times > 10, "it was renamed {times} times");
    Ok(format!("it was renamed {times} times"))
}

async fn directories(stage: &Stage) -> Result<String> {
    let count = stage.scale(40_000, 2_000);
    let top = stage.dir().join("groups/other");
    fs::create_dir_all(&top)?;
    let begin = Instant::now();
    for at in 0..count {
        fs::create_dir_all(top.join(format!("d-{}/e-{at}", at / 200)))?;
    }
    let took = begin.elapsed();
    symlink("nowhere.json", top.join("link.json"))?;
    stage.metric_reaches("chancery_faults", 1.0, PATIENCE).await?;
    sleep(3 * stage.seconds()).await;
    stage.serves_others().await?;
    Ok(format!("{count} directories were made in {:.1} s", took.as_secs_f64()))
}
