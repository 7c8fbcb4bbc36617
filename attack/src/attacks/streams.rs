//! Streams that an attacker holds, from one address or from many, and how they end.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use tokio::time::sleep;

use crate::stage::Stage;
use crate::wire::ATTACKER;
use crate::wire::grpc::{Call, Http2};

/// Connections of an attacker and their streams.
pub(super) struct Held {
    connections: Vec<Http2>,
    calls: Vec<Call>,
    /// The reasons of streams that could not be opened.
    refused: Vec<String>,
}

impl Held {
    /// Connects from so many addresses, with this window for each stream.
    pub(super) async fn connect(stage: &Stage, peers: u8, window: u32) -> Result<Self> {
        let mut connections = Vec::new();
        for peer in 0..peers {
            let from = if peers == 1 { ATTACKER } else { peer_address(peer) };
            connections.push(Http2::connect(from, stage.xds(), window).await?);
        }
        Ok(Self::of(connections))
    }

    /// Sends bytes on so many new streams, which take turns at the connections.
    pub(super) async fn ask(&mut self, streams: usize, path: &str, bytes: &Bytes) {
        for _ in 0..streams {
            let at = (self.calls.len() + self.refused.len()) % self.connections.len();
            match self.connections[at].asks(path, bytes.clone()).await {
                Ok(call) => self.calls.push(call),
                Err(refusal) => self.refused.push(refusal.to_string()),
            }
        }
    }

    /// Streams over these connections, of which there are none yet.
    pub(super) fn of(connections: Vec<Http2>) -> Self {
        Self { connections, calls: Vec::new(), refused: Vec::new() }
    }

    pub(super) fn calls(&mut self) -> &mut [Call] {
        &mut self.calls
    }

    /// Holds them for this time, while others are served; returns how each has ended by then.
    pub(super) async fn hold(mut self, stage: &Stage, time: Duration) -> Result<Ends> {
        sleep(time).await;
        stage.serves_others().await?;
        let mut ends = Ends::of(self.refused);
        for call in &mut self.calls {
            ends.add(call.end(Duration::from_millis(1)).await);
        }
        Ok(ends)
    }
}

/// The address of one of many attackers.
pub(super) fn peer_address(peer: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1, peer + 1)
}

/// The numbers of streams with each end, or `open`. Ends that differ in a number are the same.
#[derive(Debug, Default)]
pub(super) struct Ends(BTreeMap<String, usize>);

impl Ends {
    pub(super) fn of(ends: impl IntoIterator<Item = String>) -> Self {
        let mut counts = Self::default();
        ends.into_iter().for_each(|end| counts.add(end));
        counts
    }

    fn add(&mut self, end: String) {
        let words = end.split(|char: char| char.is_ascii_digit()).filter(|word| !word.is_empty());
        *self.0.entry(words.collect::<Vec<_>>().join("#")).or_default() += 1;
    }

    /// The number of those whose end begins so.
    pub(super) fn count(&self, beginning: &str) -> usize {
        let those = self.0.iter().filter(|(end, _)| end.starts_with(beginning));
        those.map(|(_, count)| count).sum()
    }

    /// Fails if fewer than this end so.
    pub(super) fn at_least(&self, count: usize, beginning: &str) -> Result<()> {
        let there = self.count(beginning);
        ensure!(there >= count, "{there} and not {count} end with {beginning}: {self}");
        Ok(())
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each: Vec<_> = self.0.iter().map(|(end, count)| format!("{count} × {end}")).collect();
        f.write_str(&each.join(", "))
    }
}
