//! A token bucket.

/// Holds at most a number of tokens, and gains them at a constant rate. A new bucket is full.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    per_ns: f64,
    most: f64,
    left: f64,
    filled_ns: u64,
}

impl Bucket {
    /// A bucket that gains `per_sec` tokens a second and holds `most`. Times are of a clock that
    /// does not step.
    pub fn full(per_sec: f64, most: f64, now_ns: u64) -> Self {
        Self { per_ns: per_sec / 1e9, most, left: most, filled_ns: now_ns }
    }

    /// Adds the tokens of the time since the last call.
    pub fn fill(&mut self, now_ns: u64) {
        let gained = now_ns.saturating_sub(self.filled_ns) as f64 * self.per_ns;
        self.left = (self.left + gained).min(self.most);
        self.filled_ns = now_ns;
    }

    pub fn has_one(&self) -> bool {
        self.left >= 1.0
    }

    /// A full bucket is as good as a new one.
    pub fn is_full(&self) -> bool {
        self.left >= self.most
    }

    /// Takes a token; call this only if there is one.
    pub fn take_one(&mut self) {
        self.left -= 1.0;
    }
}
