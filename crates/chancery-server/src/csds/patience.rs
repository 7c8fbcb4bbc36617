//! The time that an answer spends on streams that leave its questions unanswered: those of clients that take nothing
//! cannot tell of themselves, and however many there are, the others are told in time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::status::{LookQuery, Looks, StatusBook, StreamDetails};

/// The streams that left the last questions unanswered.
#[derive(Debug, Default)]
pub(super) struct Deaf(BTreeSet<u64>);

/// The time that one answer still has for streams that do not answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// For those that were never asked, or answered.
    unknown: Duration,
    /// For those that left the last question unanswered.
    deaf: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { unknown: FOR_UNKNOWN, deaf: FOR_DEAF }
    }
}

impl Patience {
    /// Asks streams. Those that are known to be deaf are asked apart, so that nobody waits for them for long.
    pub(super) async fn look(
        &mut self,
        book: &StatusBook,
        streams: Vec<u64>,
        query: LookQuery,
        deaf: &mut Deaf,
    ) -> Vec<(u64, Arc<StreamDetails>)> {
        let (of_deaf, others): (Vec<u64>, Vec<u64>) =
            streams.into_iter().partition(|id| deaf.0.contains(id));
        let looks = ask(book, others, &query, &mut self.unknown).await;
        let mut answers = looks.answers;
        for id in looks.unanswered {
            // It is a memory of those that were asked last, and need not be complete.
            if deaf.0.len() >= MOST_DEAF {
                deaf.0.pop_first();
            }
            deaf.0.insert(id);
        }
        let looks = ask(book, of_deaf, &query, &mut self.deaf).await;
        let back = looks.answers.iter().map(|(id, _)| id);
        back.chain(&looks.gone).chain(&looks.polls).for_each(|id| {
            deaf.0.remove(id);
        });
        answers.extend(looks.answers);
        answers
    }
}

/// Asks streams, and takes the time from `left` if some do not answer.
async fn ask(
    book: &StatusBook,
    streams: Vec<u64>,
    query: &LookQuery,
    left: &mut Duration,
) -> Looks {
    if streams.is_empty() {
        return Looks::default();
    }
    let began = Instant::now();
    let looks = book.look(streams, query.clone(), (*left).clamp(SHORTEST, AT_ONCE)).await;
    if !looks.unanswered.is_empty() {
        *left = left.saturating_sub(began.elapsed());
    }
    looks
}

/// The time of one answer for streams of which nothing is known.
const FOR_UNKNOWN: Duration = Duration::from_secs(2);

/// The time of one answer for streams that left the last question unanswered.
const FOR_DEAF: Duration = Duration::from_millis(500);

/// The longest time for streams that are asked together.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The time for streams that are asked when all of it is spent. Others among them answer within it, mostly.
const SHORTEST: Duration = Duration::from_millis(10);

/// The streams that are remembered.
const MOST_DEAF: usize = 10_000;
