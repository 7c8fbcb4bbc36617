//! Whole lives of a client, as text: watches, several servers, and what becomes of both.
//!
//! The lines are those of [`super`], seen from the other end: `>` is what a server says, `<` is
//! what the client says to it, `!` is what a watcher hears.
//!
//! ```
//! chancery_testkit::script::client("
//!     % server one
//!     + w cds a
//!     < one open
//!     > one open
//!     < one cds a node
//!     > one cds v=1 n=1 a@7
//!     < one cds a v=1 n=1
//!     ! w a@7
//!     > one end gone
//!     ~ 1s
//!     < one open
//! ");
//! ```
//!
//! | line | meaning |
//! |---|---|
//! | `% server s …` | there is a server; words: `delta`, `per-type`, `refresh=10s` (it is polled), `fail_on_data_errors`, `resource_timer_is_transient_error` |
//! | `% authority a s1 s2 …` | whom an authority asks; `#old` has all servers unless it is stated; the word `reachability` is the other way to fall back |
//! | `% missing_after=15s …` | settings, also `timeout_after`, `patience`, `idle`, `backoff`, `backoff_max`, `factor`, `burst`, `interval`; chance is off |
//! | `+ w cds a` | a watch, called `w`; with `slow` at the end it hears nothing by itself |
//! | `- w` | the watch ends |
//! | `. w` | a slow watcher takes all there is, and applies it |
//! | `> s open`, `> s end text` | the stream is there; it ended. A stream of one type is `s/cds` |
//! | `> s cds v=1 n=1 a@1 …` | a response. `a@1` is a resource, `a@!text` and `@!text` one that cannot be used (`_` for blanks), `a@1(beat)` one without a body, `-a` is removed, `!a=NOT_FOUND` an entry of the errors |
//! | `| s cds v=1 n=1 a@1 …` | the same while the wire is busy: the client says nothing before the next line of another kind |
//! | `> s/cds unchanged`, `> s/cds unusable text` | a poll was answered: with nothing new, or with nothing that can be used |
//! | `= cds a@1` | the first server gave `a` in an earlier run |
//! | `~ 5s` | time passes |
//! | `< s open`, `< s close` | what the driver is told to do |
//! | `< s cds a b v=1 n=1 node error=text` | a request: names, or `+a -b init=a:1` in delta; words that would be empty are left out; `node` if it says who asks |
//! | `! w a@1`, `! w a none KIND`, `! w a but KIND`, `! w a fine`, `! w complete` | what a watcher hears: a value, no value, trouble with a value that stays, the end of trouble, the end of what a collection had |
//! | `! s reads` | a stream that waited for slow watchers may be read again |

mod life;
mod line;

use super::{ScriptError, compare, is_outcome, lines, render};
use life::Life;
use line::Line;

/// Plays a script with a client.
///
/// # Panics
/// If the client takes another course.
#[track_caller]
pub fn client(script: &str) {
    let played = match transcript(script) {
        Ok(played) => played,
        Err(fault) => panic!("{fault}"),
    };
    let wanted: String = lines(script).map(|line| render::spaced(line) + "\n").collect();
    assert!(played == wanted, "the client took another course\n{}", compare(&wanted, &played));
}

/// The script's own lines, with what really came of them.
fn transcript(script: &str) -> Result<String, ScriptError> {
    let parse = |text: &str| {
        let fault = |fault| ScriptError { line: text.to_owned(), fault };
        Line::parse(text).map_err(fault)
    };
    let inputs: Vec<_> = lines(script).filter(|text| !is_outcome(text)).collect();
    let parsed = inputs.iter().map(|text| parse(text)).collect::<Result<Vec<_>, _>>()?;
    let mut life = Life::new(&parsed);
    for (text, line) in inputs.iter().zip(parsed) {
        let fault = |fault| ScriptError { line: (*text).to_owned(), fault };
        life.play(text, line).map_err(fault)?;
    }
    Ok(life.finish())
}
