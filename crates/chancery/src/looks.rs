//! The looks of a command at a server: one, or with `--watch` one after the other until it is ended.
//!
//! Not here: what is shown, and that it is not shown again when nothing has changed, which commands decide.

use std::thread;
use std::time::Duration;

use crate::config::Span;
use crate::exit::Failure;

/// The looks that flags ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    /// The time between two of them; `None` if there is one.
    every: Option<Duration>,
}

impl Looks {
    /// One look, or with `watch` one after each time `every`.
    ///
    /// # Errors
    /// If that is shorter than the server should be asked.
    pub(crate) fn new(watch: bool, every: Span, least: Duration) -> Result<Self, Failure> {
        if every.0 < least {
            return Err(Failure::misuse(format!("`--every` is at least {}", Span(least))));
        }
        Ok(Self { every: watch.then_some(every.0) })
    }

    /// Returns true if there is more than one.
    pub(crate) fn are_many(self) -> bool {
        self.every.is_some()
    }

    /// Looks. `look` is told if it is the first time, and returns false if nobody reads on.
    ///
    /// # Errors
    /// If a look fails.
    pub(crate) fn run(
        self,
        mut look: impl FnMut(bool) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let mut is_first = true;
        while look(is_first)? {
            let Some(every) = self.every else { break };
            is_first = false;
            thread::sleep(every);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_look_or_there_are_looks_until_nobody_reads() {
        let least = Duration::from_millis(1);
        for (watch, expected) in [(false, 1), (true, 3)] {
            let looks = Looks::new(watch, Span(least), least).unwrap();
            let mut seen = Vec::new();
            let looked = looks.run(|is_first| {
                seen.push(is_first);
                Ok(seen.len() < 3)
            });
            assert!(looked.is_ok() && seen.len() == expected, "{seen:?}");
            assert!(seen[0] && !seen[1..].contains(&true), "{seen:?}");
        }
        let failed = Looks::new(true, Span(least), least).unwrap().run(|_| Err(Failure::told()));
        assert!(failed.is_err());
        let odd = Looks::new(true, Span(least), Duration::from_secs(1)).unwrap_err();
        assert!(odd.to_string().ends_with("`--every` is at least 1s"), "{odd}");
    }
}
