//! Attacks by odd names of files and odd values in them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::time::sleep;

use crate::attack::Attack;
use crate::stage::{PATIENCE, Stage};
use crate::wire::CDS;

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "odd-names",
        about: "files and directories have names of control characters, of 255 bytes, and of no text",
        setup: |_| {},
        run: |stage| Box::pin(odd_names(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "odd-values",
        about: "numbers of a million digits, merge keys, tags and anchors by the thousand",
        setup: |_| {},
        run: |stage| Box::pin(odd_values(stage)),
        growth: 300,
        in_ci: true,
    },
];

async fn odd_names(stage: &Stage) -> Result<String> {
    let top = stage.dir().join("groups/other");
    fs::create_dir_all(&top)?;
    let names: [&[u8]; 8] = [
        b"new\nline.json",
        b"\x1b[2Jclear.json",
        b"\xff\xfe.json",
        b"\xe2\x80\xae.json",
        b"..json",
        b" .json",
        b"%2e%2e.yaml",
        &[b'n'; 250],
    ];
    for (at, name) in names.iter().enumerate() {
        // A fault in each, so that each is named.
        fs::write(top.join(OsStr::from_bytes(name)), format!("{{\"no{at}\": 1}}"))?;
        fs::create_dir_all(stage.dir().join("groups").join(OsStr::from_bytes(name)))?;
        fs::create_dir_all(stage.dir().join("nodes").join(OsStr::from_bytes(name)))?;
    }
    let long = [&[b'n'; 250][..], b".yaml"].concat();
    fs::write(top.join(OsStr::from_bytes(&long)), "a: b")?;
    symlink("..", top.join("up"))?;
    symlink(stage.dir(), top.join("top"))?;
    stage.metric_reaches("chancery_faults", 4.0, PATIENCE).await?;
    sleep(stage.seconds()).await;
    stage.serves_others().await?;
    let log = stage.log.text();
    ensure!(!log.contains(['\u{1b}', '\u{202e}']), "an escape is in the log");
    let config = stage.config().await?;
    Ok(format!("{} faults", config["fault_count"]))
}

async fn odd_values(stage: &Stage) -> Result<String> {
    let digits = "9".repeat(1_000_000);
    let anchors: String =
        (0..20_000).map(|at| format!("- &a{at} {{x: *a{}}}\n", at.max(1) - 1)).collect();
    let merges: String = (0..5_000).map(|at| format!("m{at}:\n  <<: *m\n  a: {at}\n")).collect();
    let yaml = |rest: String| format!("\"@type\": {CDS}\nname: odd\n{rest}");
    let files = [
        (
            "digits.json",
            format!(
                "{{\"@type\": \"{CDS}\", \"name\": \"d\", \"perConnectionBufferLimitBytes\": {digits}}}"
            ),
        ),
        (
            "exponent.json",
            format!(
                "{{\"@type\": \"{CDS}\", \"name\": \"e\", \"perConnectionBufferLimitBytes\": 1e{digits}}}"
            ),
        ),
        ("time.yaml", yaml(format!("connectTimeout: {digits}s\n"))),
        ("nan.yaml", yaml("connectTimeout: .nan\n".to_owned())),
        ("anchors.yaml", anchors),
        ("merges.yaml", format!("m: &m {{a: 1}}\n{merges}")),
        ("tags.yaml", yaml(format!("metadata: {}x\n", "!!str ".repeat(10_000)))),
        ("complex.yaml", "? [a, b]\n: c\n".repeat(10_000)),
        ("comment.json", format!("// {}\n{{}}", "x".repeat(1_000_000))),
        (
            "text.pb_text",
            format!("resources {{ [{CDS}] {{ name: \"{}\" }} }}", "\\377".repeat(500_000)),
        ),
        ("binary.pb", vec!['\u{12}'; 1_000_000].into_iter().collect()),
    ];
    let mut longest = (Duration::ZERO, "");
    for ((name, text), count) in files.iter().zip(1_u32..) {
        let begin = Instant::now();
        stage.write(&format!("groups/other/{name}"), text)?;
        let told = stage.metric_reaches("chancery_faults", f64::from(count), PATIENCE).await;
        told.with_context(|| format!("`{name}` is no fault"))?;
        longest = longest.max((begin.elapsed(), name));
    }
    stage.serves_others().await?;
    Ok(format!("{} are faults, `{}` after {:?}", files.len(), longest.1, longest.0))
}
