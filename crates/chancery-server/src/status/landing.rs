//! The landing of a load: who counts, who has it, and who never will. `docs/status.md` has the definition.

use std::sync::Arc;

use super::fleet::{Candidate, Fleet};
use super::gone::GoneStream;
use super::stream_status::{StreamState, StreamStatus};

/// The landing of a load at one moment.
#[derive(Clone, Debug)]
pub struct Landing {
    fleet: Arc<Fleet>,
    load: u64,
    landed: usize,
    /// The places of those that count and have not landed.
    waiting: Vec<usize>,
    /// The places of those that went within the grace and had not landed.
    gone: Vec<usize>,
}

/// The outcome of a landing so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// All that count have acknowledged the load, or a newer one.
    Landed,
    /// A newer load was shown, and some that count have neither.
    Superseded,
    /// All that have not landed have rejected something or are silent.
    Never,
    /// Something is under way.
    Waiting,
}

impl Landing {
    pub(super) fn new(
        fleet: Arc<Fleet>,
        load: u64,
        counts: impl Fn(Candidate<'_>) -> bool,
    ) -> Self {
        let (mut landed, mut waiting, mut gone) = (0, Vec::new(), Vec::new());
        for (at, stream) in fleet.streams.iter().enumerate() {
            let Some(audience) = stream.audience.as_ref().filter(|_| stream.counts) else {
                continue;
            };
            let node = stream.node.as_deref();
            let cluster = node.map_or("", |node| &*node.cluster);
            let node = node.map(|node| &*node.id);
            if !counts(Candidate { node, cluster, audience }) {
                continue;
            }
            if stream.landed >= load && !stream.is_asking {
                landed += 1;
            } else {
                waiting.push(at);
            }
        }
        for (at, stream) in fleet.gone.iter().enumerate() {
            let (node, cluster) = (Some(&*stream.node), &*stream.cluster);
            if fleet.awaits(stream, load)
                && counts(Candidate { node, cluster, audience: &stream.audience })
            {
                gone.push(at);
            }
        }
        Self { fleet, load, landed, waiting, gone }
    }

    /// The load.
    pub fn load(&self) -> u64 {
        self.load
    }

    /// All streams at the moment of this.
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// The number of streams that count, those that are gone included.
    pub fn counted(&self) -> usize {
        self.landed + self.waiting.len() + self.gone.len()
    }

    /// The number of streams on which the load has landed.
    pub fn landed(&self) -> usize {
        self.landed
    }

    /// The open streams on which it has not landed.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = &StreamStatus> {
        self.waiting.iter().map(|at| &self.fleet.streams[*at])
    }

    /// Those of them on which it cannot land unless something changes: their clients rejected something, or
    /// are silent.
    pub fn never(&self) -> impl Iterator<Item = &StreamStatus> {
        self.waiting().filter(|stream| self.is_stuck(stream))
    }

    /// The streams that are gone and may come back.
    pub fn gone(&self) -> impl ExactSizeIterator<Item = &GoneStream> {
        self.gone.iter().map(|at| &self.fleet.gone[*at])
    }

    /// The newer load, if one was shown.
    pub fn superseded_by(&self) -> Option<u64> {
        (self.fleet.load > self.load).then_some(self.fleet.load)
    }

    /// The outcome so far. If nobody counts, a load that was shown has landed.
    pub fn outcome(&self) -> Outcome {
        if self.fleet.load < self.load {
            return Outcome::Waiting;
        }
        if self.waiting.is_empty() && self.gone.is_empty() {
            return Outcome::Landed;
        }
        // Streams that had it and ask for their audience again are about to say whether they stay.
        let lacks_it = self.waiting().any(|stream| stream.landed < self.load);
        if self.superseded_by().is_some() && (lacks_it || !self.gone.is_empty()) {
            return Outcome::Superseded;
        }
        let mut waiting = self.waiting();
        if self.gone.is_empty() && waiting.all(|stream| self.is_stuck(stream)) {
            return Outcome::Never;
        }
        Outcome::Waiting
    }

    /// Returns true if the load cannot land on a stream unless something changes. A client that has something
    /// to answer may still accept it.
    fn is_stuck(&self, stream: &StreamStatus) -> bool {
        match stream.state {
            StreamState::Silent => true,
            StreamState::Rejected => stream.seen >= self.load && stream.unanswered.is_none(),
            StreamState::InStep | StreamState::Pending => false,
        }
    }
}
