//! The activity of the server, by which a run sees that the server is idle.

use std::time::Duration;

/// The CPU time the server has used and the bytes it has sent, at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activity {
    /// The CPU time, or zero if the server's process is not known.
    pub(crate) cpu: Duration,
    pub(crate) wire: u64,
}

impl Activity {
    /// Returns true if the server has done something since an earlier moment.
    fn has_grown_since(self, before: Self) -> bool {
        self.cpu.saturating_sub(before.cpu) > IDLE_CPU || self.wire != before.wire
    }
}

/// Looks at the activity of the server, one after the other.
#[derive(Debug)]
pub(crate) struct IdleLooks {
    last: Activity,
    idle: u32,
}

impl IdleLooks {
    /// Begins with the activity up to now.
    pub(crate) fn new(now: Activity) -> Self {
        Self { last: now, idle: 0 }
    }

    /// Adds the activity up to now.
    pub(crate) fn look(&mut self, now: Activity) {
        self.idle = if now.has_grown_since(self.last) { 0 } else { self.idle + 1 };
        self.last = now;
    }

    /// The number of the last looks, in a row, that saw an idle server.
    pub(crate) fn idle(&self) -> u32 {
        self.idle
    }
}

/// The CPU time that an idle server may use between two looks, for its timers and the like.
const IDLE_CPU: Duration = Duration::from_micros(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_idle_until_the_server_sends_or_computes() {
        let activity = |cpu, wire| Activity { cpu: Duration::from_micros(cpu), wire };
        let mut looks = IdleLooks::new(activity(0, 0));
        looks.look(activity(300, 0));
        looks.look(activity(600, 0));
        assert_eq!(looks.idle(), 2);
        looks.look(activity(600, 1));
        assert_eq!(looks.idle(), 0);
        looks.look(activity(600, 1));
        looks.look(activity(901, 1));
        assert_eq!(looks.idle(), 0);
    }
}
