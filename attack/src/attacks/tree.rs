//! Attacks by the content of files and the form of the directory: bombs, churn and odd things.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::time::sleep;

use crate::attack::Attack;
use crate::setup::cluster;
use crate::stage::{PATIENCE, Stage};
use crate::wire::CDS;
use crate::wire::grpc::READS;
use crate::wire::message::{Sotw, fields, node_of};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "file-bomb-json",
        about: "a file of another group is 9 MB of `[0,0,0,…`",
        setup: |_| {},
        run: |stage| Box::pin(bomb(stage, "json", "[0", ",0", "]")),
        growth: 400,
        in_ci: true,
    },
    Attack {
        name: "file-bomb-yaml",
        about: "a file of another group is 9 MB of `---` lines",
        // A file without resources is a fault only if it had some.
        setup: |setup| setup.file("groups/other/bomb.yaml", cluster("bomb", 1, 0)),
        run: |stage| Box::pin(bomb(stage, "yaml", "---\n", "---\n", "")),
        growth: 400,
        in_ci: true,
    },
    Attack {
        name: "file-bomb-flow",
        about: "a file of another group is 9 MB of `[0,0,0,…` in YAML",
        setup: |_| {},
        run: |stage| Box::pin(bomb(stage, "yaml", "[0", ",0", "]")),
        growth: 400,
        in_ci: true,
    },
    Attack {
        name: "big-file-churn",
        about: "a file of another group with 8 MB of clusters is written again every second",
        setup: |_| {},
        run: |stage| Box::pin(big_churn(stage)),
        growth: 450,
        in_ci: true,
    },
    Attack {
        name: "hup-storm",
        about: "the process is told to read everything again, without end",
        setup: |setup| setup.clusters(10_000, 100),
        run: |stage| Box::pin(hup_storm(stage)),
        growth: 200,
        in_ci: true,
    },
    Attack {
        name: "odd-files",
        about: "a sparse file of 1 TB, loops of symlinks, deep directories, and odd texts",
        setup: |_| {},
        run: |stage| Box::pin(odd(stage)),
        growth: 200,
        in_ci: true,
    },
];

/// The bytes of a bomb: a little less than a file may have where a process may use 600 MB.
const LARGE: usize = 9 << 20;

async fn bomb(stage: &Stage, format: &str, head: &str, part: &str, tail: &str) -> Result<String> {
    let bytes = LARGE;
    let text = format!("{head}{}{tail}", part.repeat(bytes / part.len()));
    let begin = Instant::now();
    stage.write(&format!("groups/other/bomb.{format}"), text)?;
    stage.metric_reaches("chancery_faults", 1.0, PATIENCE).await?;
    let took = begin.elapsed();
    stage.serves_others().await?;
    Ok(format!("{} MB are a fault after {:.1} s", bytes >> 20, took.as_secs_f64()))
}

async fn big_churn(stage: &Stage) -> Result<String> {
    let count = 80;
    let begin = Instant::now();
    let mut written = 0;
    while begin.elapsed() < 2 * stage.seconds() {
        written += 1;
        let all: Vec<_> =
            (0..count).map(|at| cluster(&format!("b-{at}"), written, 100_000)).collect();
        stage.write("groups/other/big.json", format!("[{}]", all.join(",\n")))?;
        sleep(Duration::from_secs(1)).await;
    }
    stage.serves_others().await?;
    let connection = stage.http2(READS).await?;
    let request = Sotw { node: Some(node_of("other")), ..Sotw::first("", CDS, ["b-0"]) };
    let response = connection.sotw(&request).await?.message_within(PATIENCE).await?;
    ensure!(fields(&response, 2).len() == 1, "the group has no cluster of the file");
    Ok(format!("written {written} times"))
}

async fn hup_storm(stage: &Stage) -> Result<String> {
    let (begin, mut sent) = (Instant::now(), 0);
    while begin.elapsed() < 2 * stage.seconds() {
        stage.signal("HUP")?;
        sent += 1;
    }
    stage.log.has("told to read everything again").await?;
    stage.serves_others().await?;
    Ok(format!("{sent} signals"))
}

/// The texts of files that are odd, and true if each is a fault.
fn odd_texts() -> [(&'static str, String, bool); 6] {
    let text = cluster("odd", 1, 0);
    let twice = text.replacen("\"name\"", "\"name\": \"other\", \"name\"", 1);
    [
        ("bom.json", format!("\u{feff}{text}"), false),
        ("crlf.yaml", format!("\"@type\": {CDS}\r\nname: crlf\r\n"), false),
        ("twice.json", twice, true),
        ("twice.yaml", format!("\"@type\": {CDS}\nname: a\nname: b\n"), true),
        ("zero.json", format!("{text}\0\0\0\0"), true),
        ("utf16.yaml", "\u{0}n\u{0}a\u{0}m\u{0}e".to_owned(), true),
    ]
}

async fn odd(stage: &Stage) -> Result<String> {
    let top = stage.dir().join("groups/other");
    fs::create_dir_all(&top)?;
    let mut count = 0.0;
    let sparse = fs::File::create(top.join("sparse.json"))?;
    sparse.set_len(1 << 40).context("a sparse file of 1 TB")?;
    count += 1.0;
    stage.metric_reaches("chancery_faults", count, PATIENCE).await?;
    for (name, text, is_fault) in odd_texts() {
        stage.write(&format!("groups/other/{name}"), text)?;
        if is_fault {
            count += 1.0;
            let told = stage.metric_reaches("chancery_faults", count, PATIENCE).await;
            told.with_context(|| name.to_owned())?;
        }
    }
    symlink(&top, top.join("loop"))?;
    symlink("itself.json", top.join("itself.json"))?;
    let mut deep = top;
    for _ in 0..200 {
        deep.push("deep");
    }
    fs::create_dir_all(&deep)?;
    fs::write(deep.join("deep.json"), cluster("deep", 1, 0))?;
    stage.serves_others().await?;
    let faults = stage.config().await?["faults"].to_string();
    for (name, _, is_fault) in odd_texts() {
        ensure!(faults.contains(name) == is_fault, "`{name}` is a fault: {}", !is_fault);
    }
    Ok(format!("{} faults, and others are served", stage.metric("chancery_faults").await?))
}
