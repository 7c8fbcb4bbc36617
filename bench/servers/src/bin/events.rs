//! Readers of `/api/v1/events` of a daemon, which count what comes until their input ends.
//!
//! HTTP/1.0 is spoken, so that the body of an answer is the events and nothing else. Not here: who makes
//! the events.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};

/// The events that all readers saw, and those that they were told to have missed.
#[derive(Default)]
struct Counts {
    events: AtomicU64,
    missed: AtomicU64,
}

fn main() -> Result<()> {
    let (admin, readers) = flags(std::env::args().skip(1))?;
    let counts = Arc::new(Counts::default());
    for _ in 0..readers {
        let reader = begin(admin)?;
        let counts = Arc::clone(&counts);
        thread::spawn(move || read(reader, &counts));
    }
    say(&format!("ready xds={admin}"))?;
    io::stdin().read_to_end(&mut Vec::new())?;
    let [events, missed] =
        [&counts.events, &counts.missed].map(|count| count.load(Ordering::Relaxed));
    say(&format!("events={events} missed={missed}"))
}

fn say(line: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush().context("cannot say anything")
}

fn flags(mut words: impl Iterator<Item = String>) -> Result<(SocketAddr, usize)> {
    let (mut admin, mut readers) = (None, 10);
    while let Some(flag) = words.next() {
        let value = words.next().with_context(|| format!("`{flag}` needs a value"))?;
        match &*flag {
            "--admin" => admin = Some(value.parse().context("`--admin`")?),
            "--readers" => readers = value.parse().context("`--readers`")?,
            _ => bail!("unknown flag `{flag}`"),
        }
    }
    Ok((admin.context("`--admin IP:PORT` is missing")?, readers))
}

/// Asks for events, and returns when the answer has begun.
fn begin(admin: SocketAddr) -> Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect(admin)?;
    stream.write_all(b"GET /api/v1/events HTTP/1.0\r\nhost: localhost\r\n\r\n")?;
    let mut reader = BufReader::with_capacity(65_536, stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    if !line.contains(" 200 ") {
        bail!("the events are answered with `{}`", line.trim());
    }
    while !line.starts_with("retry:") {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            bail!("the answer ended before the events");
        }
    }
    Ok(reader)
}

/// Counts events until the answer ends.
fn read(reader: impl BufRead, counts: &Counts) {
    for line in reader.split(b'\n').map_while(Result::ok) {
        match missed(&line) {
            Some(missed) => drop(counts.missed.fetch_add(missed, Ordering::Relaxed)),
            None if line.starts_with(b"event: ") && line != b"event: missed" => {
                counts.events.fetch_add(1, Ordering::Relaxed);
            }
            None => {}
        }
    }
}

/// The number of missed events, if the line tells of some.
fn missed(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?.strip_prefix("data: ")?;
    let (_, rest) = line.split_once("\"missed\":")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_and_missed_ones_are_counted() {
        let body = "retry: 1000\nid: a-1\n\nid: a-2\nevent: rejected\ndata: {\"id\":\"a-2\"}\n\n\
                    id: a-2\nevent: missed\ndata: {\"event\":\"missed\",\"missed\":512}\n\n\
                    : nothing happened\n\nid: a-600\nevent: loaded\ndata: {}\n\n";
        let counts = Counts::default();
        read(body.as_bytes(), &counts);
        assert_eq!((counts.events.into_inner(), counts.missed.into_inner()), (2, 512));
    }

    #[test]
    fn a_wrong_flag_is_told() {
        let parse = |words: &str| flags(words.split_whitespace().map(str::to_owned));
        assert_eq!(parse("--admin 127.0.0.1:1 --readers 3").unwrap().1, 3);
        assert!(parse("--readers 3").is_err() && parse("--typo 3").is_err());
    }
}
