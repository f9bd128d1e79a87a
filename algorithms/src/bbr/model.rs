//! BBR's model of the path: bandwidth, minimum RTT, and how ACKs bunch up.

use crate::filter::Windowed;
use crate::measurement::Measurement;
use crate::path::PathState;
use crate::units::{Bytes, Gain, Packets, Rate, Time};
use std::time::Duration;

/// tcp_bbr.c `bbr_min_rtt_win_sec`.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// tcp_bbr.c `bbr_quantization_budget`: one burst in the sender's queue, one in its offload
/// engine, one in the receiver's.
const BURSTS: u64 = 3;
/// tcp_bbr.c `bbr_tso_segs_goal`: a burst is what is sent in about a millisecond, 64 KiB and
/// 127 segments at most, two segments at least, or one below 1.2 Mbit/s (`bbr_min_tso_rate`).
const BURST_TIME: Duration = Duration::from_millis(1);
const BURST_MAX: Bytes = Bytes(64 * 1024);
const BURST_MAX_SEGMENTS: Packets = Packets(127);
const BURST_MIN: Packets = Packets(2);
const SLOW_BURST_MIN: Packets = Packets(1);
const SLOW: Rate = Rate::from_bytes_per_sec(150_000);
/// tcp_bbr.c `bbr_extra_acked_win_rtts`: two windows of five rounds.
const AGGREGATION_ROUNDS: u32 = 5;
/// tcp_bbr.c `bbr_extra_acked_max_us`: what is allowed for bunched ACKs is 100 ms at most.
const AGGREGATION_MAX: Duration = Duration::from_millis(100);

/// RFC 5681 section 4.2: an ACK covers two full segments at least.
const ACKED_AT_ONCE: Packets = Packets(2);

fn burst(rate: Rate, mss: Bytes) -> Bytes {
    let least = if rate < SLOW { SLOW_BURST_MIN } else { BURST_MIN };
    let burst = (rate * BURST_TIME).min(BURST_MAX).min(BURST_MAX_SEGMENTS.to_bytes(mss));
    burst.max(least.to_bytes(mss))
}

/// What BBR knows of the path.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    bw: Option<Windowed<Rate>>,
    bw_window: u64,
    /// Samples up to this round are of PROBE_RTT: lower bounds.
    probed_until_round: u64,
    min_rtt: Option<Duration>,
    min_rtt_at: Time,
    delivered: Bytes,
    aggregation: Aggregation,
}

/// More was acknowledged than the bandwidth explains: the ACKs of the rest will be late.
#[derive(Clone, Copy, Debug, Default)]
struct Aggregation {
    epoch: Duration,
    epoch_acked: Bytes,
    extra: [Bytes; 2],
    current: usize,
    rounds: u32,
}

impl Model {
    /// Taking over (docs/hand-off.md): the bandwidth filter starts from the path's delivery rate.
    /// The minimum RTT is the one of five minutes, as the one of ten seconds may be of a standing
    /// queue; and it is good for ten more seconds, in which BBR drains the queue itself (both as
    /// `bbr_init`). The bandwidth is the maximum of the last `bw_window` rounds, or of whatever
    /// [`Self::update_bw`] counts.
    pub fn resume(path: &PathState, bw_window: u64, now: Time) -> Self {
        Self {
            bw: path.delivery_rate().map(|rate| Windowed::max(bw_window, 0, rate)),
            bw_window,
            probed_until_round: 0,
            min_rtt: path.rtt_min_long(),
            min_rtt_at: now,
            delivered: Bytes(0),
            aggregation: Aggregation::default(),
        }
    }

    /// The bandwidth of the bottleneck; zero if it is not known.
    pub fn bw(&self) -> Rate {
        self.bw.map_or(Rate::default(), |bw| bw.get())
    }

    /// The minimum round trip, if one was sampled.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }

    pub fn delivered(&self) -> Bytes {
        self.delivered
    }

    /// `gain` times the bandwidth-delay product, if it is known.
    pub fn bdp(&self, gain: Gain) -> Option<Bytes> {
        Some(self.bw?.get() * self.min_rtt? * gain)
    }

    /// What should be in flight: `gain` BDPs, and the bursts at both ends. RFC 6928's ten segments
    /// if the BDP is not known.
    pub fn inflight(&self, gain: Gain, rate: Rate, mss: Bytes) -> Bytes {
        let bdp = self.bdp(gain).unwrap_or(Packets(10).to_bytes(mss));
        bdp + Packets(BURSTS).to_bytes(burst(rate, mss))
    }

    /// tcp_bbr.c `bbr_packets_in_net_at_edt`, while probing: what was in flight before the ACK that
    /// the datapath saw it after, and the burst that is about to be sent.
    pub fn in_net_while_probing(in_flight: Bytes, rate: Rate, mss: Bytes) -> Bytes {
        in_flight + ACKED_AT_ONCE.to_bytes(mss) + burst(rate, mss)
    }

    /// Samples that the application limited count only if they exceed what is known; those of
    /// PROBE_RTT, and of the round after it, are limited by us.
    pub fn update_bw(&mut self, m: &Measurement, round: u64, probing_rtt: bool) {
        let limited = m.app_limited || probing_rtt || round <= self.probed_until_round;
        let sample = m.delivery_rate;
        if sample == Rate::default() || (limited && sample < self.bw()) {
            return;
        }
        let first = Windowed::max(self.bw_window, round, sample);
        self.bw.get_or_insert(first).update(round, sample);
    }

    /// Whether the minimum was older than its window. It is then the newest sample.
    pub fn update_min_rtt(&mut self, m: &Measurement, now: Time) -> bool {
        let expired = self.min_rtt.is_some() && now - self.min_rtt_at > MIN_RTT_WINDOW;
        if let Some(rtt) = m.rtt
            && (expired || self.min_rtt.is_none_or(|min| rtt.min < min))
        {
            self.min_rtt = Some(rtt.min);
            self.min_rtt_at = now;
        }
        expired
    }

    /// Another minimum is in force.
    pub fn set_min_rtt(&mut self, min_rtt: Duration) {
        self.min_rtt = Some(min_rtt);
    }

    /// This is the minimum of the round trips from here on.
    pub fn find_min_rtt(&mut self, min_rtt: Duration, now: Time) {
        (self.min_rtt, self.min_rtt_at) = (Some(min_rtt), now);
    }

    /// PROBE_RTT is over: its minimum is good for another window.
    pub fn refresh_min_rtt(&mut self, round: u64, now: Time) {
        self.min_rtt_at = now;
        self.probed_until_round = round.saturating_add(1);
    }

    /// How much more than the BDP may be in flight, as ACKs bunch up.
    pub fn extra_acked(&self) -> Bytes {
        let [a, b] = self.aggregation.extra;
        a.max(b).min(self.bw() * AGGREGATION_MAX)
    }

    /// tcp_bbr.c `bbr_update_ack_aggregation`. A report's bytes arrived since the last report, so
    /// an epoch starts there.
    pub fn update_aggregation(
        &mut self,
        m: &Measurement,
        round_started: bool,
        since_last: Duration,
        cwnd: Bytes,
    ) {
        self.delivered += m.delivered;
        let bw = self.bw();
        let state = &mut self.aggregation;
        if round_started {
            state.next_round();
        }
        if m.delivered > Bytes(0) {
            state.observe(m.delivered, bw, since_last, cwnd);
        } else {
            state.epoch = state.epoch.saturating_add(since_last);
        }
    }
}

impl Aggregation {
    fn next_round(&mut self) {
        self.rounds += 1;
        if self.rounds >= AGGREGATION_ROUNDS {
            self.rounds = 0;
            self.current = 1 - self.current;
            self.extra[self.current] = Bytes(0);
        }
    }

    fn observe(&mut self, acked: Bytes, bw: Rate, since_last: Duration, cwnd: Bytes) {
        if self.epoch_acked <= bw * self.epoch {
            (self.epoch, self.epoch_acked) = (Duration::ZERO, Bytes(0));
        }
        self.epoch = self.epoch.saturating_add(since_last);
        self.epoch_acked += acked;
        let extra = (self.epoch_acked - bw * self.epoch).min(cwnd);
        self.extra[self.current] = self.extra[self.current].max(extra);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::RttSamples;

    const MSS: Bytes = Bytes(1_448);
    const RATE: Rate = Rate::from_bytes_per_sec(3_000_000);

    fn unknown() -> Model {
        Model::resume(&PathState::new(MSS, Bytes(14_480)), 10, Time::ZERO)
    }

    fn sample(rate: u64, app_limited: bool) -> Measurement {
        Measurement {
            delivery_rate: Rate::from_bytes_per_sec(rate),
            app_limited,
            ..Measurement::QUIET
        }
    }

    fn rtt(ms: u64) -> Measurement {
        Measurement { rtt: Some(RttSamples::one(Duration::from_millis(ms))), ..Measurement::QUIET }
    }

    #[test]
    fn the_bandwidth_is_the_maximum_of_ten_rounds() {
        let mut model = unknown();
        for (round, rate, want) in [(1, 30, 30), (5, 20, 30), (11, 10, 30), (12, 10, 20)] {
            model.update_bw(&sample(rate, false), round, false);
            assert_eq!(model.bw().bytes_per_sec(), want, "round {round}");
        }
    }

    #[test]
    fn a_sample_that_something_limited_counts_only_upwards() {
        let mut model = unknown();
        model.update_bw(&sample(30, false), 0, false);
        model.update_bw(&sample(10, true), 30, false);
        model.update_bw(&sample(10, false), 30, true);
        assert_eq!(model.bw().bytes_per_sec(), 30);
        model.update_bw(&sample(40, true), 30, false);
        assert_eq!(model.bw().bytes_per_sec(), 40);
    }

    #[test]
    fn the_minimum_rtt_expires_after_ten_seconds() {
        let at = |ms| Time(Duration::from_millis(ms));
        let mut model = unknown();
        assert!(!model.update_min_rtt(&rtt(40), at(1)));
        assert!(!model.update_min_rtt(&rtt(50), at(10_001)));
        assert_eq!(model.min_rtt(), Some(Duration::from_millis(40)));
        assert!(model.update_min_rtt(&rtt(50), at(10_002)));
        assert_eq!(model.min_rtt(), Some(Duration::from_millis(50)));
    }

    #[test]
    fn a_steady_stream_of_acks_allows_nothing_extra() {
        let mut model = unknown();
        model.update_bw(&sample(RATE.bytes_per_sec(), false), 0, false);
        let tick = Duration::from_millis(10);
        let steady = Measurement { delivered: RATE * tick, ..Measurement::QUIET };
        for _ in 0..100 {
            model.update_aggregation(&steady, false, tick, Bytes(240_000));
        }
        assert_eq!(model.extra_acked(), Bytes(0));
    }

    #[test]
    fn bunched_acks_allow_what_came_early() {
        let mut model = unknown();
        model.update_bw(&sample(RATE.bytes_per_sec(), false), 0, false);
        let tick = Duration::from_millis(10);
        let bunch = Measurement { delivered: Bytes(90_000), ..Measurement::QUIET };
        model.update_aggregation(&bunch, false, tick, Bytes(240_000));
        assert_eq!(model.extra_acked(), Bytes(60_000));
        for round in 0..10 {
            assert!(model.extra_acked() > Bytes(0), "forgotten in round {round}");
            model.update_aggregation(&Measurement::QUIET, true, tick, Bytes(240_000));
        }
        assert_eq!(model.extra_acked(), Bytes(0));
    }
}
