//! Bytes that are taken from the front of a slice.

/// Takes at most `most` bytes from the front of `input`.
pub(crate) fn take<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    taken
}

/// Random changes to valid bytes, for tests that must not panic whatever they read.
#[cfg(test)]
pub(crate) struct Damage(u64);

#[cfg(test)]
impl Damage {
    /// Changes that follow from a seed, which is not zero.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Changes so many bytes.
    pub(crate) fn apply(&mut self, bytes: &mut [u8], times: usize) {
        for _ in 0..times {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            let at = (self.0 >> 8) as usize % bytes.len();
            bytes[at] = self.0 as u8;
        }
    }
}
