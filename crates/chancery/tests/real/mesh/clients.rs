//! Clients that make batches of calls: programs of other implementations, and channels of `chancery-grpc`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use chancery_client::Bootstrap;
use chancery_grpc::{Channel, ChannelBuilder};
use http::uri::PathAndQuery;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tonic::metadata::{MetadataKey, MetadataMap, MetadataValue};

use super::codec::BytesCodec;
use super::runtime;
use crate::support::process::Process;
use crate::support::wait;

/// A client.
pub(super) struct Client {
    pub(super) name: &'static str,
    kind: Kind,
}

enum Kind {
    Program { process: Process, answers: usize },
    Ours { runtime: Runtime, bootstrap: Box<Bootstrap>, channels: BTreeMap<String, Channel> },
}

/// The end of one call: the code, the answer or the reason, and the cookies that are set, if the client tells them.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) code: u32,
    pub(super) text: String,
    pub(super) cookies: Vec<String>,
}

impl Outcome {
    /// Returns the name of the backend, or the code of the failure.
    pub(super) fn backend(&self) -> Result<&str, u32> {
        self.word(0)
    }

    /// Returns a word of the answer, or the code of the failure.
    pub(super) fn word(&self, at: usize) -> Result<&str, u32> {
        match self.code {
            0 => Ok(self.text.split(' ').nth(at).unwrap_or_default()),
            code => Err(code),
        }
    }
}

impl Client {
    /// A program that is told batches.
    pub(super) fn program(
        name: &'static str,
        dir: &Path,
        mut command: Command,
        bootstrap: &Value,
    ) -> Self {
        let path = dir.join(format!("bootstrap-{name}.json"));
        std::fs::write(&path, bootstrap.to_string()).expect("the directory is ours");
        let process = Process::start_told(dir, name, command.env("GRPC_XDS_BOOTSTRAP", path));
        Self { name, kind: Kind::Program { process, answers: 0 } }
    }

    /// Channels in this process.
    pub(super) fn ours(bootstrap: &Value) -> Self {
        let runtime = runtime();
        let bootstrap = Box::new(bootstrap.to_string().parse().expect("a bootstrap"));
        Self {
            name: "Chancery",
            kind: Kind::Ours { runtime, bootstrap, channels: BTreeMap::new() },
        }
    }

    /// Makes calls, and returns how they ended.
    pub(super) fn calls(&mut self, batch: &Value) -> Vec<Outcome> {
        match &mut self.kind {
            Kind::Program { process, answers } => {
                process.tell(&batch.to_string());
                *answers += 1;
                let line = wait::until("the calls to end", || {
                    let output = process.output();
                    output
                        .lines()
                        .filter(|line| line.starts_with("[["))
                        .nth(*answers - 1)
                        .map(str::to_owned)
                });
                outcomes(&line)
            }
            Kind::Ours { runtime, bootstrap, channels } => {
                let target = text(batch, "target");
                let channel = channels.entry(target.clone()).or_insert_with(|| {
                    let _guard = runtime.enter();
                    let builder =
                        ChannelBuilder::new(&target).bootstrap(Bootstrap::clone(bootstrap));
                    builder.build().expect("a channel")
                });
                runtime.block_on(make(channel, batch))
            }
        }
    }
}

impl Client {
    /// Makes one call after another until one ends as it should: a server may begin to serve late.
    #[track_caller]
    pub(super) fn until(&mut self, batch: &Value, is_right: impl Fn(&Outcome) -> bool) -> Outcome {
        self.until_all(batch, |outcomes| is_right(&outcomes[0])).remove(0)
    }

    /// Makes the calls of a batch again and again until they end as they should.
    #[track_caller]
    pub(super) fn until_all(
        &mut self,
        batch: &Value,
        are_right: impl Fn(&[Outcome]) -> bool,
    ) -> Vec<Outcome> {
        let name = self.name;
        wait::until(&format!("calls of {name} to end as they should"), || {
            let outcomes = self.calls(batch);
            are_right(&outcomes).then_some(outcomes)
        })
    }
}

/// Reads a line of outcomes. One that is still being written is read again.
fn outcomes(line: &str) -> Vec<Outcome> {
    let all: Vec<Vec<Value>> = serde_json::from_str(line).expect("a list of outcomes");
    let of = |outcome: Vec<Value>| {
        let code = outcome[0].as_u64().and_then(|code| u32::try_from(code).ok());
        let text = outcome[1].as_str().unwrap_or_default().to_owned();
        let cookies = outcome.get(2).and_then(Value::as_array).into_iter().flatten();
        let cookies = cookies.map(|it| it.as_str().expect("a text").to_owned()).collect();
        Outcome { code: code.expect("a code"), text, cookies }
    };
    all.into_iter().map(of).collect()
}

async fn make(channel: &Channel, batch: &Value) -> Vec<Outcome> {
    let number = |field: &str| batch[field].as_u64().and_then(|it| usize::try_from(it).ok());
    let turns = Arc::new(Semaphore::new(number("at_once").expect("a number")));
    let calls = (0..number("count").expect("a number")).map(|_| {
        let (channel, batch, turns) = (channel.clone(), batch.clone(), Arc::clone(&turns));
        tokio::spawn(async move {
            let _turn = turns.acquire().await;
            call(channel, &batch).await
        })
    });
    let mut outcomes = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        outcomes.push(call.await.expect("no panic"));
    }
    outcomes
}

async fn call(channel: Channel, batch: &Value) -> Outcome {
    let mut request = tonic::Request::new(Bytes::from_static(b"call"));
    let timeout = batch["timeout"].as_f64().expect("a number");
    request.set_timeout(std::time::Duration::from_secs_f64(timeout));
    for pair in batch["metadata"].as_array().expect("a list") {
        let name = MetadataKey::from_bytes(pair[0].as_str().expect("a text").as_bytes());
        let value = MetadataValue::try_from(pair[1].as_str().expect("a text"));
        request.metadata_mut().append(name.expect("a name"), value.expect("a value"));
    }
    let path = PathAndQuery::try_from(text(batch, "path")).expect("a path");
    let mut client = tonic::client::Grpc::new(channel);
    let answered = async {
        client.ready().await?;
        client.unary(request, path, BytesCodec).await
    };
    match answered.await {
        Ok(answer) => {
            let text = String::from_utf8_lossy(answer.get_ref()).into_owned();
            Outcome { code: 0, text, cookies: cookies(answer.metadata()) }
        }
        Err(status) => {
            let code = u32::try_from(status.code() as i32).expect("a code");
            let text = status.message().to_owned();
            Outcome { code, text, cookies: cookies(status.metadata()) }
        }
    }
}

fn cookies(metadata: &MetadataMap) -> Vec<String> {
    let cookies = metadata.get_all("set-cookie").iter();
    cookies.map(|value| value.to_str().expect("a text").to_owned()).collect()
}

fn text(batch: &Value, field: &str) -> String {
    batch[field].as_str().expect("a text").to_owned()
}
