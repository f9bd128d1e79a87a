//! What is known of the path, whichever arm learned it. It belongs to the flow, not to the arm.
//!
//! It is all that survives a switch. An algorithm's private state dies with its owner; starting a
//! flow and taking one over are the same call, [`crate::Arm::resume`].

use crate::arm::Decision;
use crate::filter::Windowed;
use crate::lost_without_queue::LostWithoutQueue;
use crate::measurement::Measurement;
use crate::preference::Preference;
use crate::round::Round;
use crate::units::{Bytes, Packets, Rate, Time};
use core::net::SocketAddr;
use std::time::Duration;

/// A minimum RTT older than this may be of another path (BBR and Copa use 10 s).
const RTT_MIN_WINDOW: Duration = Duration::from_secs(10);
/// Linux' `net.ipv4.tcp_min_rtt_wlen`.
const RTT_MIN_LONG_WINDOW: Duration = Duration::from_secs(300);
/// RFC 6298 section 2: weight of a new sample in the smoothed RTT is 1/8, in its variance 1/4.
const SRTT_WEIGHT: u32 = 8;
const RTTVAR_WEIGHT: u32 = 4;
/// A flow is young for so many round trips.
const YOUNG_ROUNDS: u64 = 30;
/// After a switch of a young flow, the guard limits the rate for so many round trips.
pub const SETTLE_RTTS_OF_YOUNG: u32 = 3;
/// RFC 5681 section 3.1: a window below two segments cannot be acknowledged without delay.
pub const CWND_MIN: Packets = Packets(2);

/// Abilities that not every datapath has: docs/wire-protocol.md has the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// It runs algorithms of its host's own ([`crate::native`]).
    pub native: bool,
    /// It enforces a pacing rate. Otherwise a rate becomes a window: [`PathState::enforceable`].
    pub pacing: bool,
    /// It counts each ECN mark.
    pub marks: bool,
}

impl Default for Abilities {
    /// Those of CCP's own datapaths.
    fn default() -> Self {
        Self { native: false, pacing: true, marks: true }
    }
}

/// The state of one flow's path.
#[derive(Clone, Debug)]
pub struct PathState {
    pub mss: Bytes,
    /// The window in force.
    pub cwnd: Bytes,
    /// The pacing rate in force; `None` if the datapath derives it from the window.
    pub rate: Option<Rate>,
    /// `None` until the path has shown its first loss.
    pub ssthresh: Option<Bytes>,
    /// Smoothed RTT (RFC 6298).
    pub srtt: Option<Duration>,
    /// RTT variance (RFC 6298).
    pub rttvar: Duration,
    /// The most bytes in flight in the last report.
    pub in_flight: Bytes,
    /// Losses reported before this belong to the reduction already made, by any arm.
    pub recovery_until: Time,
    /// The window at the last reduction, and when that was.
    pub w_max: Option<(Bytes, Time)>,
    /// The peers negotiated ECN.
    pub ecn: bool,
    /// The last report was limited by the application.
    pub app_limited: bool,
    /// What the flow's datapath can.
    pub datapath: Abilities,
    /// This end's address and the other's; `None` if the datapath does not know them.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// What its application wants.
    pub wants: Preference,
    /// The arm that memory has of the flow's destination; `None` if it has none.
    pub remembered_arm: Option<&'static str>,
    /// The arm that handed the flow off answers each loss.
    pub answered_losses: bool,
    rtt_min: Option<Windowed<Duration>>,
    rtt_min_long: Option<Windowed<Duration>>,
    rtt_min_of_data: Option<Windowed<Duration>>,
    rtt_max: Option<Windowed<Duration>>,
    delivery_rate_max: Option<Windowed<Rate>>,
    round: Round,
    lost_without_queue: LostWithoutQueue,
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// Adds a round trip to the least of a window.
fn least(of: &mut Option<Windowed<Duration>>, window: Duration, at_us: u64, rtt: Duration) {
    of.get_or_insert(Windowed::min(micros(window), at_us, rtt)).update(at_us, rtt);
}

impl PathState {
    /// A path of which only the window and segment size are known.
    pub fn new(mss: Bytes, cwnd: Bytes) -> Self {
        Self {
            mss,
            cwnd,
            rate: None,
            ssthresh: None,
            srtt: None,
            rttvar: Duration::ZERO,
            in_flight: Bytes(0),
            recovery_until: Time::ZERO,
            w_max: None,
            ecn: false,
            app_limited: false,
            datapath: Abilities::default(),
            ends: None,
            wants: Preference::DEFAULT,
            remembered_arm: None,
            answered_losses: false,
            rtt_min: None,
            rtt_min_long: None,
            rtt_min_of_data: None,
            rtt_max: None,
            delivery_rate_max: None,
            round: Round::default(),
            lost_without_queue: LostWithoutQueue::default(),
        }
    }

    /// What Linux' `setsockopt` leaves of it: segment size, window, threshold, ECN and RTTs.
    pub fn cold(&self) -> Self {
        Self {
            ssthresh: self.ssthresh,
            srtt: self.srtt,
            rttvar: self.rttvar,
            rtt_min_long: self.rtt_min_long,
            rtt_min_of_data: self.rtt_min_of_data,
            rtt_min: self.rtt_min_long,
            ecn: self.ecn,
            datapath: self.datapath,
            ends: self.ends,
            wants: self.wants,
            remembered_arm: self.remembered_arm,
            ..Self::new(self.mss, self.cwnd)
        }
    }

    /// Learns from one report. Time does not go backwards.
    pub fn observe(&mut self, m: &Measurement, now: Time) {
        self.in_flight = m.in_flight;
        self.app_limited = m.app_limited;
        if m.mss > Bytes(0) {
            self.mss = m.mss;
        }
        let at = micros(now.0);
        if let Some(rtt) = m.rtt {
            self.observe_rtt(rtt.mean(), rtt.min, rtt.max, at);
            least(&mut self.rtt_min_of_data, RTT_MIN_LONG_WINDOW, at, rtt.min);
        }
        let has_round_ended = self.round.observe(m, self.mss);
        if let Some(rtt_min) = self.rtt_min_of_data() {
            self.lost_without_queue.observe(m, rtt_min, self.mss, has_round_ended);
        }
        let rate = m.delivery_rate;
        let known = self.delivery_rate();
        if rate > Rate::default() && (!m.app_limited || known.is_none_or(|k| rate > k)) {
            let filter = self.delivery_rate_max.get_or_insert(Windowed::max(
                micros(RTT_MIN_WINDOW),
                at,
                rate,
            ));
            filter.update(at, rate);
        }
    }

    /// Takes in round trips learned elsewhere, such as from the kernel when a flow is adopted.
    pub fn observe_rtt(&mut self, mean: Duration, min: Duration, max: Duration, at_us: u64) {
        match self.srtt {
            None => {
                self.srtt = Some(mean);
                self.rttvar = mean / 2;
            }
            Some(srtt) => {
                let error = srtt.abs_diff(mean);
                self.rttvar = self.rttvar - self.rttvar / RTTVAR_WEIGHT + error / RTTVAR_WEIGHT;
                self.srtt = Some(srtt - srtt / SRTT_WEIGHT + mean / SRTT_WEIGHT);
            }
        }
        least(&mut self.rtt_min, RTT_MIN_WINDOW, at_us, min);
        least(&mut self.rtt_min_long, RTT_MIN_LONG_WINDOW, at_us, min);
        let short = micros(RTT_MIN_WINDOW);
        self.rtt_max.get_or_insert(Windowed::max(short, at_us, max)).update(at_us, max);
    }

    /// Minimum RTT of the last 10 s.
    pub fn rtt_min(&self) -> Option<Duration> {
        self.rtt_min.map(|f| f.get())
    }

    /// When [`Self::rtt_min`] was sampled.
    pub fn rtt_min_at(&self) -> Option<Time> {
        self.rtt_min.map(|f| Time(Duration::from_micros(f.taken_at())))
    }

    /// Minimum RTT of the last 300 s.
    pub fn rtt_min_long(&self) -> Option<Duration> {
        self.rtt_min_long.map(|f| f.get())
    }

    /// The same, of reports alone: a handshake's packets are short, and the least of full segments
    /// is longer by what the path takes to send one.
    pub fn rtt_min_of_data(&self) -> Option<Duration> {
        self.rtt_min_of_data.map(|f| f.get())
    }

    /// Maximum RTT of the last 10 s.
    pub fn rtt_max(&self) -> Option<Duration> {
        self.rtt_max.map(|f| f.get())
    }

    /// Maximum delivery rate of the last 10 s; samples that the application limited count only if
    /// they exceed what is known.
    pub fn delivery_rate(&self) -> Option<Rate> {
        self.delivery_rate_max.map(|f| f.get())
    }

    /// Whether the arm before has probably left the path empty: that arm answered each loss, and
    /// the path loses by chance.
    pub fn is_left_empty(&self) -> bool {
        self.answered_losses && self.lost_without_queue.is_seen()
    }

    /// Whether the flow has begun at most 30 round trips ago. Such a flow may have far less than
    /// its share: its first arm may have ended slow start too early, and if others kept a queue
    /// before the flow began, no round trip of the flow shows that queue.
    pub fn is_young(&self) -> bool {
        self.round.count() <= YOUNG_ROUNDS
    }

    /// Bandwidth-delay product: [`Self::delivery_rate`] times [`Self::rtt_min`].
    pub fn bdp(&self) -> Option<Bytes> {
        Some(self.delivery_rate()? * self.rtt_min()?)
    }

    /// The least window any controller may leave a flow with.
    pub fn cwnd_floor(&self) -> Bytes {
        CWND_MIN.to_bytes(self.mss)
    }

    /// A decision as the flow's datapath can carry it out. Where nothing paces, a rate becomes the
    /// window that it fills in a smoothed round trip (Little's law), below the window decided.
    pub fn enforceable(&self, decision: Decision) -> Decision {
        let (Some(rate), Some(srtt), false) = (decision.rate, self.srtt, self.datapath.pacing)
        else {
            return decision;
        };
        let fills = (rate * srtt).max(self.cwnd_floor());
        Decision { cwnd: decision.cwnd.min(fills), rate: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::RttSamples;

    const MSS: Bytes = Bytes(1448);

    fn report(rtt_ms: u64, rate: u64, app_limited: bool) -> Measurement {
        Measurement {
            rtt: Some(RttSamples::one(Duration::from_millis(rtt_ms))),
            delivery_rate: Rate::from_bytes_per_sec(rate),
            app_limited,
            ..Measurement::QUIET
        }
    }

    fn at(secs: u64) -> Time {
        Time(Duration::from_secs(secs))
    }

    #[test]
    fn a_segment_has_the_size_that_was_told_last() {
        let mut path = PathState::new(MSS, Bytes(14_480));
        let sizes = [0, 1_200, 0, 1_452].into_iter().map(|mss| {
            path.observe(&Measurement { mss: Bytes(mss), ..Measurement::QUIET }, at(1));
            path.mss.0
        });
        assert!(sizes.eq([1_448, 1_200, 1_200, 1_452]));
    }

    #[test]
    fn the_bandwidth_delay_product_needs_both() {
        let mut path = PathState::new(MSS, Bytes(14_480));
        assert_eq!(path.bdp(), None);
        path.observe(&report(40, 3_000_000, false), at(1));
        assert_eq!(path.bdp(), Some(Bytes(120_000)));
    }

    #[test]
    fn an_app_limited_sample_does_not_hide_what_the_path_can_do() {
        let mut path = PathState::new(MSS, Bytes(14_480));
        path.observe(&report(40, 3_000_000, false), at(1));
        path.observe(&report(40, 1_000, true), at(2));
        assert_eq!(path.delivery_rate(), Some(Rate::from_bytes_per_sec(3_000_000)));
        path.observe(&report(40, 4_000_000, true), at(3));
        assert_eq!(path.delivery_rate(), Some(Rate::from_bytes_per_sec(4_000_000)));
    }

    #[test]
    fn the_handshakes_round_trip_is_not_that_of_data() {
        let mut path = PathState::new(MSS, Bytes(14_480));
        let rtt = Duration::from_millis(40);
        path.observe_rtt(rtt, rtt, rtt, 0);
        assert_eq!((path.rtt_min_long(), path.rtt_min_of_data()), (Some(rtt), None));
        path.observe(&report(41, 1, false), at(1));
        assert_eq!(path.rtt_min_long(), Some(rtt));
        assert_eq!(path.rtt_min_of_data(), Some(Duration::from_millis(41)));
    }

    #[test]
    fn an_old_minimum_leaves_the_short_window_first() {
        let mut path = PathState::new(MSS, Bytes(14_480));
        for (secs, rtt_ms) in [(1, 20), (4, 60), (8, 70), (12, 80)] {
            path.observe(&report(rtt_ms, 1, false), at(secs));
        }
        assert_eq!(path.rtt_min(), Some(Duration::from_millis(60)));
        assert_eq!(path.rtt_min_long(), Some(Duration::from_millis(20)));
    }
}
