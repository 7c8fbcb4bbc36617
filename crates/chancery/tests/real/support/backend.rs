//! HTTP servers inside the test: each answers with its name and with the request it got.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::ports::Port;
use super::wait;

/// A server that answers `from NAME`, and then the head of the request.
#[derive(Debug)]
pub(crate) struct Backend {
    port: Port,
    stopped: Arc<AtomicBool>,
}

impl Backend {
    pub(crate) fn start(name: &str) -> Self {
        let port = Port::reserve();
        // A child that another test is just starting may hold a copy of the socket that tried it.
        let listener = wait::until("a reserved port to be free", || {
            TcpListener::bind(("127.0.0.1", port.number())).ok()
        });
        let stopped = Arc::new(AtomicBool::new(false));
        let (name, stop) = (name.to_owned(), Arc::clone(&stopped));
        thread::spawn(move || accept(&listener, &name, &stop));
        Self { port, stopped }
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port.number()
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        // Wakes the thread, which sees that it is to stop; if that fails, it has stopped already.
        TcpStream::connect(("127.0.0.1", self.port())).ok();
    }
}

fn accept(listener: &TcpListener, name: &str, stop: &AtomicBool) {
    for stream in listener.incoming() {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let name = name.to_owned();
        // It ends with its connection, which the proxy closes.
        thread::spawn(move || serve(stream, &name));
    }
}

/// Answers one request after another until the other side closes.
fn serve(stream: TcpStream, name: &str) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    loop {
        let mut body = format!("from {name}\n");
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim_end().is_empty() {
                break;
            }
            body += &line;
        }
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.get_mut().write_all((head + &body).as_bytes())?;
    }
}
