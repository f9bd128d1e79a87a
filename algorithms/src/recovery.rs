//! Which losses belong to which reduction: one reduction a recovery episode.
//!
//! RFC 5681 section 3.2 and RFC 6582: losses of one window of data are one sign of congestion. An
//! episode lasts as long as the datapath says that it is repairing what it lost, and a round trip
//! if the datapath says nothing of the kind.
//!
//! Differs from RFC 6582: `recover` is a moment, not a sequence number, since a report has none.

use crate::measurement::Measurement;
use crate::path::PathState;
use crate::units::{Packets, Time};
use std::time::Duration;

/// A recovery repairs a loss in a round trip or two, a lost retransmission in a few more. After so
/// many the datapath's flag is stuck, or hides new losses: it is not believed any longer.
const TRUSTED_RTTS: u32 = 10;
/// And not before the least timeout of RFC 6298 section 2.4 has passed.
const TRUSTED_MIN: Duration = Duration::from_secs(1);
/// No sample may freeze a flow for longer than this: RFC 6298 section 2.5 allows a maximum of 60 s
/// for the timeout, and a round trip above a sixth of that is a measuring error.
const RTT_MAX: Duration = Duration::from_secs(10);

/// The episode that the last reduction started.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    until: Time,
    /// Since the last reduction, every report said that the datapath is in recovery.
    repairing: bool,
    /// The datapath has reported that it is in recovery, so it will also report the end.
    heard: bool,
    /// Until this moment the datapath's flag "in recovery" is believed.
    trusted_until: Time,
}

impl Recovery {
    /// Takes over the episode of the path, if it is in one.
    pub fn resume(path: &PathState, now: Time) -> Self {
        Self {
            until: path.recovery_until,
            repairing: now < path.recovery_until,
            heard: false,
            trusted_until: path.recovery_until + TRUSTED_MIN,
        }
    }

    /// Losses reported before this belong to the reduction already made.
    pub fn until(&self) -> Time {
        self.until
    }

    /// Whether a loss that `m` reports belongs to the reduction already made.
    pub fn covers(&self, m: &Measurement, now: Time) -> bool {
        if self.heard && !m.in_recovery {
            return false;
        }
        now < self.until || (self.repairing && m.in_recovery && now < self.trusted_until)
    }

    /// Whether `m` is the first report after the repair. Its cumulative ACK covers all that was
    /// received out of order meanwhile, so it says nothing about the speed of the path.
    pub fn ends_with(&self, m: &Measurement, now: Time) -> bool {
        self.repairing && !self.covers(m, now)
    }

    /// Starts an episode: a reduction was made.
    pub fn enter(&mut self, rtt: Duration, now: Time) {
        let rtt = rtt.min(RTT_MAX);
        self.until = now + rtt;
        self.repairing = true;
        self.heard = false;
        self.trusted_until = now + rtt.saturating_mul(TRUSTED_RTTS).max(TRUSTED_MIN);
    }

    /// Ends the episode: the datapath has found it spurious.
    pub fn cancel(&mut self, now: Time) {
        self.until = self.until.min(now);
        self.repairing = false;
        self.heard = false;
    }

    /// Takes in one report, after it was acted upon.
    pub fn observe(&mut self, m: &Measurement, now: Time) {
        self.repairing = self.repairing && self.covers(m, now);
        self.heard = self.repairing && (self.heard || m.in_recovery);
    }
}

/// Whether a report carries a sign of congestion: a loss, or a mark (RFC 3168 section 6.1.2: to be
/// answered as a loss).
pub fn congested(m: &Measurement) -> bool {
    m.has_loss() || m.ecn_marked > Packets(0)
}

/// The round trip that an episode lasts: the larger of the smoothed one and the last report's.
pub fn episode_rtt(path: &PathState, m: &Measurement) -> Duration {
    let sampled = m.rtt.map_or(Duration::ZERO, |rtt| rtt.max);
    path.srtt.unwrap_or_default().max(sampled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    const RTT: Duration = Duration::from_millis(40);

    fn at_ms(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    fn in_recovery(in_recovery: bool) -> Measurement {
        Measurement { in_recovery, ..Measurement::QUIET }
    }

    fn entered_at(ms: u64) -> Recovery {
        let mut recovery = Recovery::resume(&PathState::new(Bytes(1448), Bytes(14_480)), at_ms(ms));
        recovery.enter(RTT, at_ms(ms));
        recovery
    }

    #[test]
    fn an_episode_is_over_when_the_datapath_says_so() {
        let mut recovery = entered_at(100);
        recovery.observe(&in_recovery(true), at_ms(100));
        assert!(recovery.covers(&in_recovery(true), at_ms(110)));
        assert!(!recovery.covers(&in_recovery(false), at_ms(120)));
        assert!(recovery.ends_with(&in_recovery(false), at_ms(120)));
        recovery.observe(&in_recovery(false), at_ms(120));
        assert!(!recovery.ends_with(&in_recovery(false), at_ms(130)));
    }

    #[test]
    fn an_episode_lasts_a_round_trip_without_the_datapaths_help() {
        let recovery = entered_at(100);
        assert!(recovery.covers(&in_recovery(false), at_ms(139)));
        assert!(!recovery.covers(&in_recovery(false), at_ms(140)));
    }

    #[test]
    fn an_episode_lasts_as_long_as_the_repair() {
        let mut recovery = entered_at(100);
        recovery.observe(&in_recovery(true), at_ms(200));
        assert!(recovery.covers(&in_recovery(true), at_ms(300)));
        recovery.observe(&in_recovery(false), at_ms(310));
        assert!(!recovery.covers(&in_recovery(true), at_ms(320)));
    }

    #[test]
    fn a_stuck_flag_is_not_believed_for_ever() {
        let recovery = entered_at(100);
        assert!(recovery.covers(&in_recovery(true), at_ms(1_099)));
        assert!(!recovery.covers(&in_recovery(true), at_ms(1_100)));
    }

    #[test]
    fn an_absurd_round_trip_does_not_freeze_the_flow() {
        let mut recovery = entered_at(0);
        recovery.enter(Duration::MAX, at_ms(0));
        assert!(!recovery.covers(&in_recovery(false), Time(RTT_MAX)));
    }
}
