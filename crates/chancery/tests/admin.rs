//! The admin interface when others want to keep it from answering.

use std::fs;
use std::io::Write;
use std::net::TcpStream;

use crate::daemon::Server;

/// A directory with so many clusters that an answer about them fills a socket.
fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let cluster = |n: usize| {
        format!(
            "- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: a-cluster-with-a-long-name-{n}\n"
        )
    };
    let file: String = (0..60_000).map(cluster).collect();
    fs::write(dir.path().join("clusters.yaml"), file).unwrap();
    dir
}

/// Connections to the admin interface that send this and read nothing.
fn idle(server: &Server, count: usize, sent: &str) -> Vec<TcpStream> {
    let connections = (0..count).map(|_| {
        let mut stream = server.dial(server.admin);
        stream.write_all(sent.as_bytes()).unwrap();
        stream
    });
    connections.collect()
}

#[test]
fn connections_that_say_nothing_or_read_nothing_keep_nobody_out() {
    let dir = directory();
    let server = Server::start(&dir, &[]);
    for sent in
        ["", "GET /ready HTTP/1.1\r\n", "GET /api/v1/config HTTP/1.1\r\nhost: localhost\r\n\r\n"]
    {
        let held = idle(&server, 200, sent);
        assert_eq!(server.admin("/healthz").0, 200, "beside {} of {sent:?}", held.len());
        assert_eq!(server.admin("/ready").0, 200);
        assert!(server.admin("/api/v1/config").1.contains("a-cluster-with-a-long-name-59999"));
    }
}
