//! Inputs that are nearly right: a seed chooses one of the corpus and what is done to it.

use chancery_testkit::sim::Rng;

/// Mutations of a corpus.
pub(crate) struct Mutator<'a> {
    rng: Rng,
    corpus: &'a [Vec<u8>],
}

/// The bytes that parsers look for, and numbers at the edge of what fits.
const TOKENS: [&[u8]; 24] = [
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
];

/// No input grows beyond this.
const LIMIT: usize = 1 << 14;

impl<'a> Mutator<'a> {
    pub(crate) fn new(seed: u64, corpus: &'a [Vec<u8>]) -> Self {
        Self { rng: Rng::new(seed), corpus }
    }

    /// The input of this seed.
    pub(crate) fn mutate(&mut self) -> Vec<u8> {
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
