//! xDS-enabled servers of every implementation, which run until they are dropped.

use std::path::Path;
use std::process::Command;

use chancery_grpc::ServerBuilder;
use http::{Request, Response};
use serde_json::Value;
use tokio::runtime::Runtime;
use tonic::body::Body;
use tonic::codegen::Service;

use super::runtime;
use crate::support::ports::Port;
use crate::support::process::Process;

/// A server of one implementation, until this is dropped.
pub(super) enum Running {
    Program(#[expect(dead_code, reason = "it runs as long as this is there")] Process),
    Ours(#[expect(dead_code, reason = "as above")] Runtime),
}

/// A server of `chancery-grpc` with this service.
pub(super) fn ours<S, B>(port: &Port, bootstrap: &Value, service: S) -> Running
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<tonic::codegen::StdError>,
    S::Future: Send,
    B: tonic::codegen::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<tonic::codegen::StdError>,
{
    let runtime = runtime();
    let bootstrap = bootstrap.to_string().parse().expect("a bootstrap");
    let _guard = runtime.enter();
    let server = ServerBuilder::new(&port.address()).bootstrap(bootstrap).build();
    let server = server.expect("the port is free");
    runtime.spawn(server.serve(service));
    Running::Ours(runtime)
}

/// A program with a bootstrap, once it says that it has started.
pub(super) fn program(dir: &Path, name: &str, mut command: Command, bootstrap: &Value) -> Running {
    let path = dir.join(format!("bootstrap-server-{name}.json"));
    std::fs::write(&path, bootstrap.to_string()).expect("the directory is ours");
    command.env("GRPC_XDS_BOOTSTRAP", path);
    let process = Process::start(dir, &format!("server-{name}"), &mut command);
    process.says("started");
    Running::Program(process)
}
