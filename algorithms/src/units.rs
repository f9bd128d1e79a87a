//! Units. A quantity that crosses a module boundary has one of these types, or `Duration`.
//!
//! Operators are pure and saturate: no input of a datapath can make them panic or wrap.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub};
use std::time::Duration;

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// A number of bytes of payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A number of segments of one maximum segment size each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Packets(pub u64);

/// A rate of payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate {
    bytes_per_sec: u64,
}

/// A dimensionless factor in thousandths: `Gain(2_885)` is 2.885.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gain(pub u64);

/// A moment, counted from the start of the flow. The agent or the simulator reads the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub Duration);

fn clamp_u64(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}

impl Time {
    /// The start of the flow.
    pub const ZERO: Self = Self(Duration::ZERO);
}

impl Add<Duration> for Time {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }
}

impl Sub for Time {
    type Output = Duration;
    /// How long after `earlier` this is; zero if it is not after.
    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Packets {
    /// This many full segments, in bytes.
    pub const fn to_bytes(self, mss: Bytes) -> Bytes {
        Bytes(self.0.saturating_mul(mss.0))
    }
}

impl Bytes {
    /// Whole segments that fit, rounding down; zero for an `mss` of zero.
    pub const fn to_packets(self, mss: Bytes) -> Packets {
        match self.0.checked_div(mss.0) {
            Some(pkts) => Packets(pkts),
            None => Packets(0),
        }
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        Self(self.0.saturating_sub(rhs.0))
    }
}

impl Add for Packets {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Packets {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Gain {
    pub const ONE: Self = Self(1_000);
}

impl Mul<Gain> for Bytes {
    type Output = Self;
    fn mul(self, gain: Gain) -> Self {
        Self(clamp_u64(u128::from(self.0) * u128::from(gain.0) / 1_000))
    }
}

impl Mul<Gain> for Rate {
    type Output = Self;
    fn mul(self, gain: Gain) -> Self {
        let wide = u128::from(self.bytes_per_sec) * u128::from(gain.0) / 1_000;
        Self::from_bytes_per_sec(clamp_u64(wide))
    }
}

impl Rate {
    /// From bytes per second.
    pub const fn from_bytes_per_sec(bytes_per_sec: u64) -> Self {
        Self { bytes_per_sec }
    }

    /// In bytes per second.
    pub const fn bytes_per_sec(self) -> u64 {
        self.bytes_per_sec
    }

    /// The value libccp's `Rate` register takes. The wire has 32 bits for it, so rates above
    /// 4.29 GB/s (34 Gbit/s) saturate.
    pub fn to_register(self) -> u32 {
        u32::try_from(self.bytes_per_sec).unwrap_or(u32::MAX)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mbit_per_sec = self.bytes_per_sec as f64 * 8.0 / 1e6;
        write!(f, "{mbit_per_sec:.2} Mbit/s")
    }
}

impl Mul<Duration> for Rate {
    type Output = Bytes;
    /// What this rate moves in `span`.
    #[expect(clippy::suspicious_arithmetic_impl, reason = "a rate per second times nanoseconds")]
    fn mul(self, span: Duration) -> Bytes {
        let wide = u128::from(self.bytes_per_sec).saturating_mul(span.as_nanos()) / NANOS_PER_SEC;
        Bytes(clamp_u64(wide))
    }
}

impl Div<Duration> for Bytes {
    type Output = Rate;
    /// A span of zero gives a rate of zero: no time has passed, so nothing is known.
    #[expect(
        clippy::suspicious_arithmetic_impl,
        reason = "bytes per nanosecond, scaled to seconds"
    )]
    fn div(self, span: Duration) -> Rate {
        let scaled = u128::from(self.0) * NANOS_PER_SEC;
        Rate::from_bytes_per_sec(clamp_u64(scaled.checked_div(span.as_nanos()).unwrap_or(0)))
    }
}

impl Div<Rate> for Bytes {
    type Output = Duration;
    /// How long this takes at `rate`; at a rate of zero, `u64::MAX` nanoseconds (584 years).
    #[expect(clippy::suspicious_arithmetic_impl, reason = "nanoseconds of a rate per second")]
    fn div(self, rate: Rate) -> Duration {
        let nanos =
            (u128::from(self.0) * NANOS_PER_SEC).checked_div(u128::from(rate.bytes_per_sec));
        Duration::from_nanos(nanos.map_or(u64::MAX, clamp_u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_rate_times_a_span_is_bytes_and_back() {
        let rate = Rate::from_bytes_per_sec(3_000_000);
        let span = Duration::from_millis(40);
        assert_eq!(rate * span, Bytes(120_000));
        assert_eq!(Bytes(120_000) / span, rate);
        assert_eq!(Bytes(120_000) / rate, span);
        assert_eq!(Bytes(1) / Rate::default(), Duration::from_nanos(u64::MAX));
        assert_eq!(Bytes(1) / Duration::ZERO, Rate::default());
    }

    #[test]
    fn rates_beyond_the_wire_saturate() {
        assert_eq!(Rate::from_bytes_per_sec(5_000_000_000).to_register(), u32::MAX);
    }

    proptest! {
        #[test]
        fn no_operator_panics(a: u64, b: u64, nanos: u64, gain: u64) {
            let span = Duration::from_nanos(nanos);
            let _ = (Bytes(a) + Bytes(b), Bytes(a) - Bytes(b), Bytes(a) / span);
            let _ = (Packets(a).to_bytes(Bytes(b)), Bytes(a).to_packets(Bytes(b)));
            let rate = Rate::from_bytes_per_sec(a);
            let _ = (Bytes(b) / rate, rate * span, rate * Gain(gain));
            let _ = (Bytes(b) * Gain(gain), rate.to_register());
            let _ = Time(span) + Duration::MAX;
        }
    }
}
