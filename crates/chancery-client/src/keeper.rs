//! The keeper: the task that owns all other tasks of a client, two for each server and one for the
//! cache on disk, and that gives the machine the time.
//!
//! No task ends unnoticed: if one panics, every watch gets an error (C-074).

use std::sync::Arc;

use tokio::task::{JoinError, JoinSet};

use crate::disk_cache::ClosedDiskCache;
use crate::driver::ServerDriver;
use crate::engine::Engine;
use crate::grpc::ReportStream;

/// Runs until the client is dropped.
pub(crate) async fn run(
    engine: Arc<Engine>,
    servers: Vec<ServerDriver>,
    reports: Vec<ReportStream>,
    disk_cache: Option<ClosedDiskCache>,
) {
    let _last = GiveUpOnDrop(Arc::clone(&engine));
    let mut tasks = JoinSet::new();
    if let Some(disk_cache) = disk_cache {
        // The cache is read before the first request to a server.
        let mut opening = JoinSet::new();
        opening.spawn(disk_cache.open(Arc::clone(&engine)));
        match opening.join_next().await {
            Some(Ok(Some(open))) => {
                tasks.spawn(open.run(Arc::clone(&engine)));
            }
            Some(Err(error)) => return engine.give_up(&why(Err(error))),
            Some(Ok(None)) | None => {}
        }
    }
    for server in servers {
        tasks.spawn(server.run(Arc::clone(&engine)));
    }
    for report in reports {
        tasks.spawn(report.run());
    }
    loop {
        tokio::select! {
            Some(ended) = tasks.join_next() => {
                return engine.give_up(&why(ended));
            }
            () = engine.wait_for_deadline() => {}
        }
    }
}

/// Breaks the client when it is dropped, also if the keeper itself panics.
struct GiveUpOnDrop(Arc<Engine>);

impl Drop for GiveUpOnDrop {
    fn drop(&mut self) {
        self.0.give_up("the task that keeps the client came to an end");
    }
}

fn why(ended: Result<(), JoinError>) -> String {
    match ended {
        Err(error) if error.is_panic() => panicked(error.into_panic().as_ref()),
        Err(_) => "the runtime shuts down".to_owned(),
        Ok(()) => "a task of the client ended too early; this is a defect of the client".to_owned(),
    }
}

fn panicked(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("a task of the client panicked: {}", text.unwrap_or("it did not say why"))
}
