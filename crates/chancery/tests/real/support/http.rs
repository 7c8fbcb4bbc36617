//! Just enough of an HTTP/1.1 client: one request after another on one connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longer than any answer a test accepts.
const TIMEOUT: Duration = Duration::from_secs(10);

/// One answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: String,
    /// True if the server will close the connection after it.
    pub(crate) last: bool,
}

/// A connection that is kept open.
#[derive(Debug)]
pub(crate) struct Connection<S = TcpStream> {
    stream: BufReader<S>,
}

impl Connection {
    pub(crate) fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { stream: BufReader::new(stream) })
    }
}

impl Connection<UnixStream> {
    /// Opens one to a socket of the file system.
    pub(crate) fn open_unix(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { stream: BufReader::new(stream) })
    }
}

impl<S: Read + Write> Connection<S> {
    /// Asks for a path; headers are whole lines without their ends.
    pub(crate) fn get(&mut self, path: &str, headers: &[&str]) -> io::Result<Reply> {
        let host = headers.iter().any(|line| line.to_lowercase().starts_with("host:"));
        let mut head = format!("GET {path} HTTP/1.1\r\n");
        if !host {
            head += "Host: localhost\r\n";
        }
        for line in headers {
            head += &format!("{line}\r\n");
        }
        head += "\r\n";
        self.stream.get_mut().write_all(head.as_bytes())?;
        self.reply()
    }

    /// Posts a document of JSON to a path.
    pub(crate) fn post(&mut self, path: &str, body: &str) -> io::Result<Reply> {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        self.stream.get_mut().write_all(head.as_bytes())?;
        self.reply()
    }

    fn reply(&mut self) -> io::Result<Reply> {
        let head = self.head()?;
        let status = head.first().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let status = status.ok_or_else(|| invalid("no status"))?;
        let field = |name: &str| {
            head.iter().find_map(|line| {
                line.to_lowercase().strip_prefix(name).map(|v| v.trim().to_owned())
            })
        };
        let last = field("connection:").is_some_and(|value| value == "close");
        let body = if field("transfer-encoding:").is_some_and(|value| value == "chunked") {
            self.chunks()?
        } else {
            let length = field("content-length:").and_then(|value| value.parse().ok()).unwrap_or(0);
            self.bytes(length)?
        };
        Ok(Reply { status, body: String::from_utf8_lossy(&body).into_owned(), last })
    }

    fn head(&mut self) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(lines);
            }
            lines.push(line);
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }

    fn bytes(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let length =
                usize::from_str_radix(&self.line()?, 16).map_err(|_| invalid("no chunk"))?;
            body.extend(self.bytes(length)?);
            self.line()?;
            if length == 0 {
                return Ok(body);
            }
        }
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Asks once, on a connection of its own; nothing if there was no whole answer.
pub(crate) fn get(port: u16, path: &str, headers: &[&str]) -> Option<Reply> {
    Connection::open(port).ok()?.get(path, headers).ok()
}

/// Posts a document of JSON once, on a connection of its own; nothing if there was no whole answer.
pub(crate) fn post(port: u16, path: &str, body: &str) -> Option<Reply> {
    Connection::open(port).ok()?.post(path, body).ok()
}
