//! Mutations of inputs that are nearly right: what a decoder is tried with.
//!
//! A seed chooses one input of a corpus and what is done to it, so a failure can be repeated.
//!
//! | variable | meaning |
//! |---|---|
//! | `CHANCERY_FUZZ_RUNS` | mutations for each target, 2000 by default |
//! | `CHANCERY_FUZZ_SEED` | the first seed, 0 by default; a failure says which one to begin with |
//!
//! Not here: the corpora, and what must hold of what is decoded, which are the tests' own.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::sim::Rng;

/// Tries a target with each input of its corpus as it is, and with mutations of them.
///
/// The name of the target is that of the test, in the test program `fuzz` of `package`.
///
/// # Panics
/// Panics if the corpus is empty, if a variable is no number, and as `attempt` does.
#[expect(clippy::print_stderr, reason = "a test says which input breaks it")]
pub fn fuzz(package: &str, target: &str, corpus: &[Vec<u8>], mut attempt: impl FnMut(&[u8])) {
    assert!(!corpus.is_empty(), "there is a corpus for `{target}`");
    let mut attempt = |what: &str, input: &[u8]| {
        let outcome = catch_unwind(AssertUnwindSafe(|| attempt(input)));
        if let Err(panic) = outcome {
            eprintln!("{target}: {what} breaks it:\n{}", input.escape_ascii());
            eprintln!(
                "again: CHANCERY_FUZZ_RUNS=1 CHANCERY_FUZZ_SEED={what} cargo test -p {package} \
                 --test fuzz {target}"
            );
            resume_unwind(panic);
        }
    };
    corpus.iter().for_each(|input| attempt("0", input));
    let (first, runs) = (number("CHANCERY_FUZZ_SEED", 0), number("CHANCERY_FUZZ_RUNS", 2000));
    for seed in first..first.saturating_add(runs) {
        attempt(&seed.to_string(), &Mutator::new(seed, corpus).mutate());
    }
    eprintln!("{target}: {runs} mutations of {} texts", corpus.len());
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Mutations of a corpus.
struct Mutator<'a> {
    rng: Rng,
    corpus: &'a [Vec<u8>],
}

/// The bytes that parsers look for, and numbers at the edge of what fits.
const TOKENS: [&[u8]; 30] = [
    b"xdstp://",
    b"xds:",
    b"%s",
    b"%",
    b"%00",
    b"%C3%A9",
    b"/",
    b"//",
    b"?",
    b"a=1&a=2",
    b"#",
    b"*",
    b"\"",
    b"{",
    b"}",
    b"null",
    b"-1",
    b"1e999",
    b"\\u0000",
    b"\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\x0a\x00",
    b"\xe2\x80\xae",
    b"99999999999999999999",
    b"@type",
    b": ",
    b"- ",
    b"&a",
    b"*a",
    b"\n    ",
];

/// No input grows beyond this.
const LIMIT: usize = 1 << 14;

impl<'a> Mutator<'a> {
    fn new(seed: u64, corpus: &'a [Vec<u8>]) -> Self {
        Self { rng: Rng::new(seed), corpus }
    }

    /// The input of this seed.
    fn mutate(&mut self) -> Vec<u8> {
        let mut input = self.rng.one_of(self.corpus).clone();
        for _ in 0..=self.rng.below(6) {
            self.once(&mut input);
            input.truncate(LIMIT);
        }
        input
    }

    fn once(&mut self, input: &mut Vec<u8>) {
        let (from, to) = self.range(input.len());
        match self.rng.below(8) {
            0 if from < input.len() => input[from] ^= 1 << self.rng.below(8),
            1 if from < input.len() => input[from] = self.rng.draw() as u8,
            2 => drop(input.drain(from..to)),
            3 => {
                let again = input[from..to].to_vec();
                input.splice(to..to, again);
            }
            4 => input.truncate(from),
            5 => {
                let token = *self.rng.one_of(&TOKENS);
                input.splice(from..to, token.iter().copied());
            }
            6 => {
                let token = *self.rng.one_of(&TOKENS);
                input.splice(from..from, token.iter().copied());
            }
            _ => {
                let other = self.rng.one_of(self.corpus).clone();
                let (begin, end) = self.range(other.len());
                input.splice(from..to, other[begin..end].iter().copied());
            }
        }
    }

    /// A part of so many bytes; most are short.
    fn range(&mut self, len: usize) -> (usize, usize) {
        let mut below = |end: usize| {
            let end = u64::try_from(end).unwrap_or(u64::MAX).saturating_add(1);
            usize::try_from(self.rng.below(end)).unwrap_or(0)
        };
        let from = below(len);
        let most = if below(3) == 0 { len - from } else { (len - from).min(8) };
        (from, from + below(most))
    }
}
