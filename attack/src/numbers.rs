//! Numbers that look random and are the same in each run.

/// The source of the numbers.
#[derive(Clone, Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) const fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[3]
    }

    /// A number below this.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }
}
