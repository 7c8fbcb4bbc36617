//! The commands to a server under test, as lines over TCP.
//!
//! `change` publishes the next change and is answered `ok` when the call that publishes it has
//! returned; `quit` ends the program. One connection at a time, on a thread of its own.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

/// The listener for commands.
#[derive(Debug)]
pub struct Control {
    listener: TcpListener,
}

impl Control {
    /// Listens on a free port of loopback.
    ///
    /// # Errors Returns an error if no port is free.
    pub fn new() -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind((Ipv4Addr::LOCALHOST, 0))? })
    }

    /// Prints on stdout that the server serves, with its addresses, and with the payload of a
    /// change in bytes if that is certain. The driver's count can then be checked.
    ///
    /// # Errors Returns an error if stdout is closed.
    pub fn ready(&self, xds: SocketAddr, payload: Option<usize>) -> io::Result<()> {
        let control = self.listener.local_addr()?;
        let mut out = io::stdout().lock();
        let payload = payload.map(|bytes| format!(" payload={bytes}")).unwrap_or_default();
        writeln!(out, "ready xds={xds} control={control}{payload}")?;
        out.flush()
    }

    /// Executes commands until `quit`.
    ///
    /// # Errors Returns an error if no connection can be accepted any more, or a change cannot be
    /// made.
    pub fn execute(&self, mut change: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        loop {
            let (stream, _) = self.listener.accept()?;
            stream.set_nodelay(true)?;
            if execute_connection(&stream, &mut change)? {
                return Ok(());
            }
        }
    }
}

/// Executes the commands of one connection. Returns true after `quit`, and false if the other side
/// just goes away.
fn execute_connection(
    stream: &TcpStream,
    change: &mut impl FnMut() -> io::Result<()>,
) -> io::Result<bool> {
    let mut out = stream;
    for line in BufReader::new(stream).lines() {
        match line.as_deref().map(str::trim) {
            Ok("change") => {
                change()?;
                if out.write_all(b"ok\n").is_err() {
                    return Ok(false);
                }
            }
            Ok("quit") => return Ok(true),
            Ok(_) => {
                out.write_all(b"unknown command; there are `change` and `quit`\n").ok();
            }
            Err(_) => return Ok(false),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_change_is_answered_when_it_is_made_and_quit_ends() {
        let control = Control::new().unwrap();
        let address = control.listener.local_addr().unwrap();
        let executing = std::thread::spawn(move || {
            let mut changes = 0;
            control.execute(|| {
                changes += 1;
                Ok(())
            })?;
            io::Result::Ok(changes)
        });
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        for _ in 0..3 {
            stream.write_all(b"change\n").unwrap();
            assert_eq!(lines.next().unwrap().unwrap(), "ok");
        }
        stream.write_all(b"quit\n").unwrap();
        assert_eq!(executing.join().unwrap().unwrap(), 3);
    }
}
