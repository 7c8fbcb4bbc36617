//! An HTTP/1.1 server that does what a test says, and shows what it was asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// The treatment of a request.
pub(crate) enum Does {
    /// It is answered with these bytes.
    Says(String),
    /// It is answered, and the connection is closed without a word.
    Leaves(String),
    /// It is never answered.
    Hangs,
}

/// A request, as it was received.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// The server. It ends when it is dropped.
pub(crate) struct Http {
    pub(crate) port: u16,
    asked: mpsc::UnboundedReceiver<Asked>,
    _task: JoinSet<()>,
}

impl Http {
    /// Does to the request of each number what `does` says.
    pub(crate) async fn start(
        does: impl Fn(usize, &Value) -> Does + Send + Sync + 'static,
    ) -> Self {
        Self::start_tls(None, does).await
    }

    /// The same over TLS.
    pub(crate) async fn start_tls(
        tls: Option<TlsAcceptor>,
        does: impl Fn(usize, &Value) -> Does + Send + Sync + 'static,
    ) -> Self {
        let (listener, port) = listen().await;
        let (tell, asked) = mpsc::unbounded_channel();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            let number = Arc::new(AtomicUsize::new(0));
            let does = Arc::new(does);
            while let Ok((io, _)) = listener.accept().await {
                let (does, number, tell) = (Arc::clone(&does), Arc::clone(&number), tell.clone());
                let tls = tls.clone();
                connections.spawn(async move {
                    let mut io: Box<dyn Io> = match tls {
                        None => Box::new(io),
                        Some(tls) => match tls.accept(io).await {
                            Ok(io) => Box::new(io),
                            Err(_) => return,
                        },
                    };
                    while let Some(asked) = read(&mut *io).await {
                        let at = number.fetch_add(1, Ordering::SeqCst);
                        let what = does(at, &asked.body);
                        let _ = tell.send(asked);
                        match what {
                            Does::Says(text) => io.write_all(text.as_bytes()).await.unwrap(),
                            Does::Leaves(text) => {
                                io.write_all(text.as_bytes()).await.unwrap();
                                return;
                            }
                            Does::Hangs => std::future::pending().await,
                        }
                    }
                });
            }
        });
        Self { port, asked, _task: task }
    }

    /// The next request.
    pub(crate) async fn asked(&mut self) -> Asked {
        crate::within::within(self.asked.recv()).await.unwrap()
    }

    pub(crate) fn uri(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// A response with a body.
pub(crate) fn said(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// A `DiscoveryResponse` of clusters, with another field to tell versions apart by.
pub(crate) fn response(version: &str, clusters: &[(&str, &str)]) -> String {
    let resources: Vec<_> = clusters
        .iter()
        .map(|(name, other)| {
            serde_json::json!({
                "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
                "name": name, "altStatName": other,
            })
        })
        .collect();
    let body = serde_json::json!({"versionInfo": version, "resources": resources});
    said("200 OK", &body.to_string())
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

async fn read(io: &mut dyn Io) -> Option<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(io.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    io.read_exact(&mut body).await.ok()?;
    Some(Asked { head, body: serde_json::from_slice(&body).unwrap() })
}

/// A free port below the range of outgoing connections.
pub(crate) async fn listen() -> (TcpListener, u16) {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    // Away from the servers of the testkit, and never twice the same.
    let start = (std::process::id() + 6_000) % 12_000 + STARTED.fetch_add(1, Ordering::SeqCst) * 7;
    for step in 0..12_000 {
        let port = u16::try_from(20_000 + (start + step * 7) % 12_000).unwrap();
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)).await {
            return (listener, port);
        }
    }
    panic!("every port from 20000 on is taken");
}
