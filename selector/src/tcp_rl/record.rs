//! What the server measures of one response: the paper's table III.

use core::net::IpAddr;
use core::time::Duration;
use remuda_algorithms::units::{Bytes, Rate};
use serde::{Deserialize, Serialize};

/// RFC 6928's initial window, in segments: what flows get that no group is known for.
pub const STANDARD_PKTS: u32 = 10;
/// The longest name of a congestion-control arm, in bytes.
const ARM_BYTES_MAX: usize = 32;
/// A response that takes longer waits for its application, not for the network.
const RESPONSE_US_MAX: u64 = 3_600_000_000;
/// RFC 6298 section 2.4 lets a sender round its timeout up to no less than this.
const SRTT_US_MAX: u32 = 60_000_000;
const SIZE_BYTES_MAX: u64 = 1 << 40;
/// 10 Tbit/s: no sender's interface is faster, so a clock was wrong.
const RATE_BYTES_PER_SEC_MAX: f64 = 1.25e12;
/// The wall clocks of two hosts may differ by so many seconds.
const AHEAD_S_MAX: u64 = 300;
/// The largest initial window that the datapath sets, in segments.
pub(super) const CWND_PKTS_MAX: u32 = 1_000;

/// One response, from its first byte queued to its last byte acknowledged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// When the response ended, by the wall clock, in seconds since 1970.
    pub ended_unix_s: u64,
    pub peer: IpAddr,
    /// The user whose socket it was.
    pub uid: u32,
    pub size_bytes: u64,
    pub response_us: u64,
    /// The smoothed round trip at the end.
    pub srtt_us: u32,
    /// The share of the segments that were lost, 0 to 1.
    pub lost_share: f64,
    pub mss_bytes: u32,
    /// The peer's receive window before the first data packet; 0 if it is not known.
    pub peer_window_bytes: u32,
    /// The initial window that the flow had, in segments.
    pub initial_cwnd_pkts: u32,
    /// The congestion-control arm at the end.
    pub arm: String,
}

/// A record that cannot be true.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} = {value}: {rule}")]
pub struct RecordError {
    pub field: &'static str,
    pub value: String,
    pub rule: &'static str,
}

impl Record {
    /// Checks each field. `now_unix_s` is the wall clock.
    pub fn check(&self, now_unix_s: u64) -> Result<(), RecordError> {
        let refuse = |field, value: String, rule| Err(RecordError { field, value, rule });
        let latest_s = now_unix_s.saturating_add(AHEAD_S_MAX);
        let shares = 0.0..=1.0;
        if self.ended_unix_s > latest_s {
            refuse("ended_unix_s", self.ended_unix_s.to_string(), "it lies in the future")
        } else if !(1..=SIZE_BYTES_MAX).contains(&self.size_bytes) {
            refuse("size_bytes", self.size_bytes.to_string(), "it must lie in 1..=2^40")
        } else if !(1..=RESPONSE_US_MAX).contains(&self.response_us) {
            refuse("response_us", self.response_us.to_string(), "it must lie in 1..=3600000000")
        } else if !(1..=SRTT_US_MAX).contains(&self.srtt_us) {
            refuse("srtt_us", self.srtt_us.to_string(), "it must lie in 1..=60000000")
        } else if self.throughput_bytes_per_sec() > RATE_BYTES_PER_SEC_MAX {
            refuse("response_us", self.response_us.to_string(), "no link is that fast")
        } else if !shares.contains(&self.lost_share) {
            refuse("lost_share", self.lost_share.to_string(), "it must lie in 0..=1")
        } else if !(1..=u32::from(u16::MAX)).contains(&self.mss_bytes) {
            refuse("mss_bytes", self.mss_bytes.to_string(), "it must lie in 1..=65535")
        } else if !(1..=CWND_PKTS_MAX).contains(&self.initial_cwnd_pkts) {
            let value = self.initial_cwnd_pkts.to_string();
            refuse("initial_cwnd_pkts", value, "it must lie in 1..=1000")
        } else if !(1..=ARM_BYTES_MAX).contains(&self.arm.len()) {
            refuse("arm", format!("{:?}", self.arm), "it must have 1 to 32 bytes")
        } else {
            Ok(())
        }
    }

    pub fn throughput(&self) -> Rate {
        Bytes(self.size_bytes) / Duration::from_micros(self.response_us)
    }

    pub(super) fn throughput_bytes_per_sec(&self) -> f64 {
        self.size_bytes as f64 * 1e6 / self.response_us as f64
    }

    /// 1 / RTT, in 1/s.
    pub(super) fn inverse_rtt_per_sec(&self) -> f64 {
        1e6 / f64::from(self.srtt_us)
    }

    /// Whether the flow began with a table's window of `pkts` segments, or with as much of it as
    /// the peer's receive window takes.
    pub fn began_with(&self, pkts: u32) -> bool {
        let takes = match self.peer_window_bytes / self.mss_bytes {
            0 => u32::MAX,
            takes => takes.max(STANDARD_PKTS),
        };
        self.initial_cwnd_pkts == pkts.min(takes)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn record(peer: &str, at_s: u64, pkts: u32, rate: f64, srtt_ms: f64) -> Record {
        Record {
            ended_unix_s: at_s,
            peer: peer.parse().expect("an address"),
            uid: 0,
            size_bytes: 120_000,
            response_us: (120_000.0 / rate * 1e6) as u64,
            srtt_us: (srtt_ms * 1e3) as u32,
            lost_share: 0.0,
            mss_bytes: 1_448,
            peer_window_bytes: 0,
            initial_cwnd_pkts: pkts,
            arm: "cubic".to_owned(),
        }
    }

    #[test]
    fn an_impossible_record_is_refused_by_field_and_rule() {
        let good = record("192.0.2.7", 1_000, 10, 1e6, 40.0);
        assert_eq!(good.check(1_000), Ok(()));
        let cases: [(Record, &str); 9] = [
            (Record { ended_unix_s: 1_301, ..good.clone() }, "ended_unix_s = 1301: it lies"),
            (Record { size_bytes: 0, ..good.clone() }, "size_bytes = 0"),
            (Record { response_us: 0, ..good.clone() }, "response_us = 0"),
            (Record { srtt_us: 0, ..good.clone() }, "srtt_us = 0"),
            (Record { size_bytes: 1 << 30, response_us: 1, ..good.clone() }, "no link is"),
            (Record { lost_share: f64::NAN, ..good.clone() }, "lost_share = NaN"),
            (Record { initial_cwnd_pkts: 10_000, ..good.clone() }, "initial_cwnd_pkts = 10000"),
            (Record { mss_bytes: 0, ..good.clone() }, "mss_bytes = 0"),
            (Record { arm: String::new(), ..good.clone() }, "arm = \"\""),
        ];
        for (record, part) in cases {
            let error = record.check(1_000).expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_window_is_as_large_as_the_peer_takes() {
        let of = |pkts, peer_window_bytes| Record {
            peer_window_bytes,
            ..record("192.0.2.7", 0, pkts, 1e6, 40.0)
        };
        assert!(of(50, 0).began_with(50) && !of(44, 0).began_with(50));
        assert!(of(45, 65_535).began_with(50) && !of(50, 65_535).began_with(50));
        assert!(of(10, 5_000).began_with(50), "a small window is the kernel's own concern");
    }
}
