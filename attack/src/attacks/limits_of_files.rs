//! The limits of files: their size and their number, at the limit and one past it.

use std::fs;

use anyhow::{Context, Result, ensure};
use tokio::time::sleep;

use crate::attack::Attack;
use crate::setup::{Setup, cluster};
use crate::stage::{PATIENCE, SOON, Stage, until};
use crate::wire::CDS;
use crate::wire::grpc::{Call, Http2, READS};
use crate::wire::message::{Delta, fields, node_of, text};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "limit-file-bytes",
        about: "a file has as many bytes as it may have, and then one more",
        setup: |setup| setup.limit("max-file-bytes: 4096"),
        run: |stage| Box::pin(file_bytes(stage)),
        growth: 100,
        in_ci: true,
    },
    Attack {
        name: "limit-files",
        about: "the directory has as many files as it may have, then one more, and then 200",
        setup: files_setup,
        run: |stage| Box::pin(files(stage)),
        growth: 100,
        in_ci: true,
    },
];

/// A client of the group `other` that is told of every change of its clusters.
struct Watcher {
    call: Call,
    _connection: Http2,
}

impl Watcher {
    async fn start(stage: &Stage) -> Result<Self> {
        let connection = stage.http2(READS).await?;
        let node = Some(node_of("other"));
        let request = Delta { node, ..Delta::first("", CDS, [""; 0]) };
        let call = connection.delta(&request).await?;
        Ok(Self { call, _connection: connection })
    }

    /// Waits until it is sent a cluster, and fails if it is told that one is removed.
    async fn is_sent(&mut self, name: &str) -> Result<()> {
        loop {
            let response = self.call.message_within(SOON).await?;
            ensure!(fields(&response, 6).is_empty(), "a cluster was removed from the client");
            self.call.send(&Delta::ack(&response).encode())?;
            if fields(&response, 2).iter().any(|resource| text(resource, 3) == name) {
                return Ok(());
            }
        }
    }
}

/// Waits until there are so many faults, one of which names a file.
async fn is_fault(stage: &Stage, count: u64, named: &str) -> Result<()> {
    until(SOON, &format!("`{named}` is a fault"), async || {
        let config = stage.config().await?;
        let is_named = config["faults"].to_string().contains(named);
        Ok(config["fault_count"].as_u64() == Some(count) && is_named)
    })
    .await
}

/// A cluster as a file of so many bytes.
fn file_of(name: &str, bytes: usize) -> String {
    let bare = cluster(name, 1, 0).len();
    cluster(name, 1, bytes - bare)
}

const BIG: &str = "groups/other/big.json";

async fn file_bytes(stage: &Stage) -> Result<String> {
    let mut watcher = Watcher::start(stage).await?;
    watcher.is_sent("innocent").await?;
    // A fault of this group holds up nobody else.
    stage.write(BIG, file_of("big", 4_096))?;
    watcher.is_sent("big").await.context("a file at the limit")?;
    stage.write(BIG, file_of("big", 4_097))?;
    stage.write("groups/other/bigger.json", file_of("bigger", 1 << 20))?;
    is_fault(stage, 2, BIG).await?;
    stage.serves_others().await?;
    fs::remove_file(stage.dir().join("groups/other/bigger.json"))?;
    stage.write(BIG, file_of("big", 4_095))?;
    watcher.is_sent("big").await.context("a file that is smaller again")?;
    Ok("it is served at the limit, and a fault past it; nothing is removed".to_owned())
}

fn files_setup(setup: &mut Setup) {
    setup.is_alone = true;
    setup.limit("max-files: 10");
    // The two of innocent clients are there too.
    for at in 0..7 {
        setup.file(&format!("f{at}.json"), cluster(&format!("f{at}"), 1, 0));
    }
}

async fn files(stage: &Stage) -> Result<String> {
    stage.is_ready().await?;
    let mut watcher = Watcher::start(stage).await?;
    watcher.is_sent("innocent").await?;
    stage.write("tenth.json", cluster("tenth", 1, 0))?;
    watcher.is_sent("tenth").await.context("as many files as there may be")?;
    stage.write("groups/more/eleventh.json", cluster("more", 1, 0))?;
    stage.metric_reaches("chancery_faults", 1.0, SOON).await.context("one file more")?;
    for at in 0..200 {
        stage.write(&format!("groups/more/{at}.json"), cluster("more", 1, 0))?;
    }
    // The server looks at all of them meanwhile.
    sleep(stage.seconds()).await;
    ensure!(stage.metric("chancery_faults").await? >= 1.0, "200 files more are no fault");
    fs::remove_dir_all(stage.dir().join("groups"))?;
    let repaired = async || Ok(stage.metric("chancery_faults").await? < 1.0);
    until(PATIENCE, "the fault is repaired", repaired).await?;
    stage.write("tenth.json", cluster("tenth", 2, 0))?;
    watcher.is_sent("tenth").await.context("after the fault is repaired")?;
    Ok("ten are served, more are a fault, and nothing is removed".to_owned())
}
