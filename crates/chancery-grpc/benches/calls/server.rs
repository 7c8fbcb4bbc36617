//! The server that is called, in a process of its own, so that its CPU time is not the client's.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Stdio};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::Result;
use crate::process::own;

/// The server, until this is dropped.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start() -> Result<Self> {
        let mut process = own(&["serve"])?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = process.stdout.take().ok_or("no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        Ok(Self { address: line.trim().parse()?, process })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends when its input does.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Answers calls at all addresses of loopback, until nobody is at the other end of its input.
pub(crate) async fn serve() -> Result<()> {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
    println!("{}", SocketAddr::from((Ipv4Addr::LOCALHOST, listener.local_addr()?.port())));
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        tokio::spawn(
            hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(socket), service_fn(echo)),
        );
    }
}

async fn echo(request: Request<Incoming>) -> std::result::Result<Response<EchoBody>, Infallible> {
    let message =
        request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = Full::new(message).with_trailers(async move { Some(Ok(trailers)) });
    let mut response = Response::new(body.boxed_unsync());
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    Ok(response)
}

type EchoBody = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;
