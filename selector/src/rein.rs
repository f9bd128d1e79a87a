//! Rein: CUBIC first; then by how the round trips spread, Westwood, BBR or CUBIC.
//!
//! K. Chen et al., "One Rein to Rule Them All: A Framework for Datacenter-to-User Congestion
//! Control", APNet 2020, sections 3.2, 4.2.2 and 5.2. The paper's rules, over the first N round
//! trips sampled:
//!   - the coefficient of variation (COV) and the range, (max - min) / min, are above thresholds:
//!     the path is WiFi, and Westwood suits it;
//!   - else by the 95th percentile: a small buffer suits BBR, a large one CUBIC.
//!
//! Differs from the paper, which gives no numbers:
//!   - COV is of the variation *within half a round trip*. WiFi's jitter is fast, from sample to
//!     sample; a buffer that slow start and CUBIC's sawtooth fill and drain is slow, over many
//!     round trips. Over all samples, a buffer of four BDPs (RTT from one to five times the base)
//!     has a COV above 0.3 and a range of 4, and would be called WiFi. The threshold is therefore
//!     another one, 0.1 (0.3 would be one for all samples): see below;
//!   - what varies by less than a millisecond is the noise of hosts, not a radio;
//!   - the buffer is measured in BDPs, (p95 - min) / min, which transfers between paths, where the
//!     paper has milliseconds of its testbed (`large_buffer_rtt_p95_ms` is there for those);
//!   - a buffer is called small only once it has been full: a loss, a mark or a timeout was
//!     reported. Without one the sample goes on, up to a bound, and then the arm stays;
//!   - round trips of reports that the application limited are not sampled: they show no queue,
//!     and delayed ACKs look like jitter;
//!   - evaluated again every 30 s, where the paper decides once.
//!
//! How well it tells, on the small network of tests/classes.rs. Wired: the COV within half a round
//! trip is 0.07 at most in 288 decisions, and on 140 further wired paths (0.3 to 6 BDPs of buffer,
//! up to four competitors) none is called WiFi. Radio: of 60 flows each (six links, ten seeds that
//! did not set the threshold), so many are called WiFi at the first decision:
//!
//! ```text
//! mean and std of the jitter, in base RTTs    1 BDP of buffer   4 BDPs
//! 0.75 and 1.0   (correlation 20 ms)                60             59
//! 0.75 and 0.75  (10 ms)                            59             58
//! 0.5 and 0.5    (10 ms)                            57             40
//! 0.25 and 0.25  (10 ms)                            42              3
//! ```
//!
//! Known to fail: a flow that never sees the empty path, as others keep the queue full before it
//! starts, takes the standing queue for the base RTT, and a large buffer for a small one.

use crate::arm_runner::ArmRunner;
use crate::policy::{Policy, PolicyInfo};
use crate::rtt_sample::{RttSample, micros};
use crate::{ConfigError, check};
use remuda_algorithms::Reason;
use remuda_algorithms::filter::Windowed;
use remuda_algorithms::recovery::congested;
use remuda_algorithms::units::Time;
use remuda_algorithms::{Measurement, PathState, Proposal, Why, bbr, cubic, westwood};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Its line in [`crate::POLICIES`].
pub const POLICY: PolicyInfo = PolicyInfo {
    name: "rein",
    summary: "cubic first; westwood on WiFi, bbr on small buffers (Rein)",
    build: |config, loaded| Box::new(ArmRunner::new(Rein::new(config.rein.clone()), loaded)),
};

/// When to propose again what the guard has vetoed: its least dwell time (guard.rs in the agent).
const RETRY: Duration = Duration::from_secs(5);
/// The base RTT is the least of five minutes, as Linux' `tcp_min_rtt_wlen`: CUBIC may not empty
/// a large buffer for much longer than a sample.
const BASE_WINDOW: Duration = Duration::from_secs(300);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReinConfig {
    /// A decision needs so many RTT samples (the paper's N) ...
    pub sample_count: u64,
    /// ... and so many round trips: on a fast path 200 samples are two round trips of slow start.
    pub sample_round_trips: u64,
    /// A sample that is too small by then, or without a sign of congestion, ends after so many
    /// seconds.
    pub sample_max_secs: u64,
    /// How many seconds after a decision the next one is made.
    pub reevaluate_secs: u64,
    /// WiFi: standard deviation of the RTT within half round trips, over the mean, above this ratio
    /// (the paper's CTH) ...
    pub wifi_rtt_cov_ratio: f64,
    /// ... and the largest RTT less the smallest, over the smallest, above this ratio (the paper's
    /// RTH) ...
    pub wifi_rtt_range_ratio: f64,
    /// ... and the standard deviation within half round trips above so many microseconds.
    pub wifi_rtt_std_us: u64,
    /// A buffer is large if its 95th percentile of queue is so many BDPs or more.
    pub large_buffer_queue_bdps: f64,
    /// A buffer is also large if the 95th percentile of the RTT is so many milliseconds or more:
    /// the paper's own rule, for paths whose RTT is known. Absent: not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large_buffer_rtt_p95_ms: Option<u64>,
}

impl Default for ReinConfig {
    /// The project's choice; for the COV see the head of this file.
    fn default() -> Self {
        Self {
            sample_count: 200,
            sample_round_trips: 10,
            sample_max_secs: 30,
            reevaluate_secs: 30,
            wifi_rtt_cov_ratio: 0.1,
            wifi_rtt_range_ratio: 1.5,
            wifi_rtt_std_us: 1_000,
            large_buffer_queue_bdps: 1.5,
            large_buffer_rtt_p95_ms: None,
        }
    }
}

impl ReinConfig {
    pub fn validate(&self) -> Result<(), ConfigError> {
        let natural = "must be 1 to 1000000";
        let is_natural = |value: u64| (1..=1_000_000).contains(&value);
        let (count, round_trips) = (self.sample_count, self.sample_round_trips);
        check(is_natural(count), "rein.sample_count", count, natural)?;
        check(is_natural(round_trips), "rein.sample_round_trips", round_trips, natural)?;
        let (most, again) = (self.sample_max_secs, self.reevaluate_secs);
        check(is_natural(most), "rein.sample_max_secs", most, natural)?;
        check(is_natural(again), "rein.reevaluate_secs", again, natural)?;
        let ratio = "must be above 0 and at most 100";
        let is_ratio = |value: f64| value > 0.0 && value <= 100.0;
        let (cov, range) = (self.wifi_rtt_cov_ratio, self.wifi_rtt_range_ratio);
        check(is_ratio(cov), "rein.wifi_rtt_cov_ratio", cov, ratio)?;
        check(is_ratio(range), "rein.wifi_rtt_range_ratio", range, ratio)?;
        let std_us = self.wifi_rtt_std_us;
        check(std_us <= 1_000_000, "rein.wifi_rtt_std_us", std_us, "must be 0 to 1000000")?;
        let bdps = self.large_buffer_queue_bdps;
        check(is_ratio(bdps), "rein.large_buffer_queue_bdps", bdps, ratio)?;
        let p95_ms = self.large_buffer_rtt_p95_ms.unwrap_or(1);
        check(is_natural(p95_ms), "rein.large_buffer_rtt_p95_ms", p95_ms, natural)
    }
}

/// What the round trips say of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Wifi,
    LargeBuffer,
    SmallBuffer,
    /// The buffer has not been filled.
    Unknown,
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Self::Wifi => "wifi",
            Self::LargeBuffer => "large_buffer",
            Self::SmallBuffer => "small_buffer",
            Self::Unknown => "unknown",
        }
    }

    /// The arm that suits it.
    fn arm(self) -> Option<&'static str> {
        match self {
            Self::Wifi => Some(westwood::ARM.name),
            Self::LargeBuffer => Some(cubic::ARM.name),
            Self::SmallBuffer => Some(bbr::ARM.name),
            Self::Unknown => None,
        }
    }
}

/// The arms that Rein picks from.
const ARMS_OF_REIN: [&str; 3] = [cubic::ARM.name, bbr::ARM.name, westwood::ARM.name];

/// Rein, for one flow.
pub struct Rein {
    config: ReinConfig,
    sample: RttSample,
    sample_start: Time,
    /// The sample has seen a sign of congestion.
    congested: bool,
    base: Option<Windowed<Duration>>,
    /// No decision is made before.
    next_at: Time,
    proposal: Option<Proposal>,
}

impl Policy for Rein {
    fn begin(&mut self, path: &PathState, now: Time) -> &'static str {
        *self = Self::new(self.config.clone());
        let at_us = micros(now.0);
        let window = micros(BASE_WINDOW);
        self.base = path.rtt_min_long().map(|min| Windowed::min(window, at_us, min));
        self.start_sample(now);
        cubic::ARM.name
    }

    fn observe(&mut self, m: &Measurement, arm: &'static str, now: Time) {
        self.note(m, now);
        if self.is_due(now) {
            self.decide(arm, now);
        }
    }

    fn proposal(&mut self) -> Option<Proposal> {
        self.proposal.take()
    }

    fn taken(&mut self, _arm: &'static str, now: Time) {
        self.next_at = now + Duration::from_secs(self.config.reevaluate_secs);
        self.start_sample(now);
    }

    fn picks(&self, arm: &str) -> bool {
        ARMS_OF_REIN.contains(&arm)
    }
}

impl Rein {
    /// One that has no flow yet.
    pub fn new(config: ReinConfig) -> Self {
        Self {
            config,
            sample: RttSample::new(Time::ZERO),
            sample_start: Time::ZERO,
            congested: false,
            base: None,
            next_at: Time::ZERO,
            proposal: None,
        }
    }

    fn start_sample(&mut self, now: Time) {
        self.sample = RttSample::new(now);
        self.sample_start = now;
        self.congested = false;
    }

    fn note(&mut self, m: &Measurement, now: Time) {
        self.congested = self.congested || congested(m) || m.timed_out;
        let Some(rtt) = m.rtt else {
            return;
        };
        let (at_us, window) = (micros(now.0), micros(BASE_WINDOW));
        self.base.get_or_insert(Windowed::min(window, at_us, rtt.min)).update(at_us, rtt.min);
        if !m.app_limited {
            self.sample.add(&rtt, now);
        }
    }

    /// Whether the sample is large enough and shows what it must, or has lasted long enough.
    fn is_due(&self, now: Time) -> bool {
        let (sample, config) = (&self.sample, &self.config);
        if now < self.next_at || sample.count() == 0 {
            return false;
        }
        let enough =
            sample.count() >= config.sample_count && sample.rounds() >= config.sample_round_trips;
        let late = now - self.sample_start >= Duration::from_secs(config.sample_max_secs);
        late || (enough && self.class() != Class::Unknown)
    }

    fn class(&self) -> Class {
        let (sample, config) = (&self.sample, &self.config);
        let p95_ms = sample.p95().as_millis();
        if sample.cov_within() > config.wifi_rtt_cov_ratio
            && sample.range() > config.wifi_rtt_range_ratio
            && sample.std_within_us() > config.wifi_rtt_std_us as f64
        {
            Class::Wifi
        } else if self.queue_bdps() >= config.large_buffer_queue_bdps
            || config.large_buffer_rtt_p95_ms.is_some_and(|large| p95_ms >= u128::from(large))
        {
            Class::LargeBuffer
        } else if self.congested {
            Class::SmallBuffer
        } else {
            Class::Unknown
        }
    }

    /// The queue's 95th percentile, (p95 - min) * B, in BDPs, min * B.
    fn queue_bdps(&self) -> f64 {
        let base_us = micros(self.base.map_or(Duration::ZERO, |base| base.get()));
        let p95_us = micros(self.sample.p95());
        p95_us.saturating_sub(base_us) as f64 / base_us.max(1) as f64
    }

    fn decide(&mut self, current: &'static str, now: Time) {
        let class = self.class();
        let to = class.arm().unwrap_or(current);
        self.proposal = Some(Proposal::new(to, self.why(class, current, to)));
        let next =
            if to == current { Duration::from_secs(self.config.reevaluate_secs) } else { RETRY };
        self.next_at = now + next;
        self.start_sample(now);
    }

    fn why(&self, class: Class, current: &str, to: &str) -> Why {
        let percent = self.sample.cov_within() * 100.0;
        let bdps = self.queue_bdps();
        let seen = match class {
            Class::Wifi => format!("WiFi: RTT varies by {percent:.0} % within half a round trip"),
            Class::LargeBuffer => format!("large buffer: {bdps:.1} BDPs queued at p95"),
            Class::SmallBuffer => format!("small buffer: full with {bdps:.1} BDPs queued at p95"),
            Class::Unknown => format!("buffer never full: {bdps:.1} BDPs queued at p95"),
        };
        let stays = if to == current { "stays with" } else { "changes to" };
        Why { text: format!("{seen}; {stays} {to}"), features: self.features(class) }
    }

    fn features(&self, class: Class) -> Vec<Reason> {
        let base = self.base.map_or(Duration::ZERO, |base| base.get());
        let ms = |span: Duration| format!("{:.1}", span.as_secs_f64() * 1e3);
        vec![
            ("rtt_cov", format!("{:.3}", self.sample.cov_within())),
            ("rtt_cov_overall", format!("{:.3}", self.sample.cov())),
            ("rtt_range", format!("{:.2}", self.sample.range())),
            ("rtt_p95_ms", ms(self.sample.p95())),
            ("rtt_min_ms", ms(base)),
            ("queue_bdps", format!("{:.2}", self.queue_bdps())),
            ("samples", self.sample.count().to_string()),
            ("class", class.name().to_owned()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use remuda_algorithms::units::{Bytes, Packets, Rate};
    use remuda_algorithms::{ARMS, Loaded, RttSamples};

    const MSS: Bytes = Bytes(1_448);

    fn at_ms(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    fn path() -> PathState {
        PathState::new(MSS, Packets(10).to_bytes(MSS))
    }

    /// The report of a quarter of a round trip that spreads evenly over `rtts_ms`.
    fn report(rtts_ms: &[u64]) -> Measurement {
        let span = |ms: Option<&u64>| Duration::from_millis(*ms.expect("a sample"));
        let rtt = RttSamples {
            last: span(rtts_ms.last()),
            min: span(rtts_ms.iter().min()),
            max: span(rtts_ms.iter().max()),
            sum_us: rtts_ms.iter().map(|ms| ms * 1_000).sum(),
            sq_sum_us2: rtts_ms.iter().map(|ms| ms * ms * 1_000_000).sum(),
            count: rtts_ms.len() as u64,
        };
        Measurement { rtt: Some(rtt), ..Measurement::QUIET }
    }

    /// Feeds a report each 10 ms from the last moment until `until_ms`: all that it decides.
    fn feed(
        rein: &mut ArmRunner<Rein>,
        m: &Measurement,
        span_ms: std::ops::Range<u64>,
    ) -> Vec<Proposal> {
        let mut decided = Vec::new();
        for ms in span_ms.step_by(10) {
            rein.on_measurement(m, at_ms(ms));
            decided.extend(rein.proposal());
        }
        decided
    }

    fn started() -> ArmRunner<Rein> {
        let mut rein = ArmRunner::new(Rein::new(ReinConfig::default()), &Loaded::default());
        rein.resume(&path(), Time::ZERO);
        // The empty path, before its queue fills.
        rein.on_measurement(&report(&[40]), at_ms(5));
        rein
    }

    /// What RTTs from 40 ms up lead to: the class and the arm of the first decision.
    fn check(rtts_ms: &[u64], loss: bool, want: Option<(&str, &str)>) {
        let mut rein = started();
        let lost = Packets(u64::from(loss));
        let m = Measurement { lost, ..report(rtts_ms) };
        let decided = feed(&mut rein, &m, 10..4_000);
        let first = decided.first().map(|decision| {
            let class = decision.why.features.iter().find(|(name, _)| *name == "class");
            (class.expect("a class").1.as_str(), decision.to)
        });
        assert_eq!(first, want, "{rtts_ms:?}");
    }

    #[test]
    fn the_rules_tell_the_classes_apart() {
        check(&[60, 61, 62, 63, 64], true, Some(("small_buffer", "bbr")));
        check(&[95, 96, 97, 98, 97], true, Some(("small_buffer", "bbr")));
        check(&[110, 111, 112, 113, 112], true, Some(("large_buffer", "cubic")));
        check(&[180, 182, 184, 186, 188], false, Some(("large_buffer", "cubic")));
        check(&[42, 60, 110, 45, 70], false, Some(("wifi", "westwood")));
    }

    #[test]
    fn a_buffer_that_was_never_full_is_not_small() {
        check(&[60, 61, 62, 63, 64], false, None);
    }

    #[test]
    fn without_congestion_the_arm_stays_and_says_why_after_the_bound() {
        let mut rein = started();
        let decided = feed(&mut rein, &report(&[60, 61, 62]), 10..31_000);
        let [decision] = &decided[..] else { panic!("{decided:?}") };
        assert_eq!(decision.to, "cubic");
        assert_eq!(
            decision.why.text,
            "buffer never full: 0.6 BDPs queued at p95; stays with cubic"
        );
    }

    #[test]
    fn a_decision_to_stay_is_made_again_every_30_seconds() {
        let mut rein = started();
        let decided = feed(&mut rein, &report(&[180, 182, 184]), 10..65_000);
        assert_eq!(decided.iter().map(|d| d.to).collect::<Vec<_>>(), ["cubic"; 3]);
    }

    #[test]
    fn what_the_guard_vetoes_is_proposed_again_after_5_seconds() {
        let mut rein = started();
        let m = Measurement { lost: Packets(1), ..report(&[60, 61, 62]) };
        let decided = feed(&mut rein, &m, 10..12_000);
        assert_eq!(decided.iter().map(|d| d.to).collect::<Vec<_>>(), ["bbr"; 3]);
        assert_eq!(rein.arm(), "cubic");
    }

    #[test]
    fn a_switch_resumes_the_new_arm_and_waits_30_seconds() {
        let mut rein = started();
        let m = Measurement { lost: Packets(1), ..report(&[60, 61, 62]) };
        let decided = feed(&mut rein, &m, 10..1_000);
        let mut path = path();
        rein.hand_off(&mut path);
        let first = rein.switch_to(decided[0].to, &path, at_ms(1_000)).expect("an arm of Rein");
        assert!(first.cwnd <= path.cwnd && first.rate.is_some());
        assert_eq!((rein.arm(), rein.running().program()), (bbr::ARM.name, bbr::ARM.program));
        assert_eq!(feed(&mut rein, &m, 1_010..31_000), []);
        assert_eq!(feed(&mut rein, &m, 31_000..31_100)[0].to, "bbr");
    }

    #[test]
    fn an_arm_that_is_not_reins_is_refused() {
        let mut rein = started();
        for other in ARMS.iter().filter(|arm| !ARMS_OF_REIN.contains(&arm.name)) {
            assert!(rein.switch_to(other.name, &path(), at_ms(10)).is_err(), "{}", other.name);
        }
        assert_eq!(rein.arm(), "cubic");
    }

    #[test]
    fn what_the_application_limits_is_not_sampled() {
        let mut rein = started();
        let m = Measurement { app_limited: true, ..report(&[42, 60, 110, 45, 70]) };
        feed(&mut rein, &m, 10..2_000);
        assert_eq!(rein.policy().sample.count(), 1);
    }

    #[test]
    fn the_papers_own_threshold_is_a_setting() {
        let config = ReinConfig { large_buffer_rtt_p95_ms: Some(60), ..ReinConfig::default() };
        let mut rein = ArmRunner::new(Rein::new(config), &Loaded::default());
        rein.resume(&path(), Time::ZERO);
        let m = Measurement { lost: Packets(1), ..report(&[62, 63, 64]) };
        assert_eq!(feed(&mut rein, &m, 10..2_000)[0].to, "cubic");
    }

    #[test]
    fn a_bad_setting_is_named_with_its_value_and_the_rule() {
        let config = ReinConfig { wifi_rtt_cov_ratio: -1.0, ..ReinConfig::default() };
        let error = config.validate().expect_err("negative");
        let want = "rein.wifi_rtt_cov_ratio = -1: must be above 0 and at most 100";
        assert_eq!(error.to_string(), want);
        for config in [
            ReinConfig { wifi_rtt_range_ratio: f64::NAN, ..ReinConfig::default() },
            ReinConfig { sample_count: 0, ..ReinConfig::default() },
            ReinConfig { reevaluate_secs: u64::MAX, ..ReinConfig::default() },
            ReinConfig { large_buffer_rtt_p95_ms: Some(0), ..ReinConfig::default() },
        ] {
            config.validate().expect_err("out of range");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_reported_the_arm_is_one_of_three(
            reports in prop::collection::vec(
                (any::<[u64; 8]>(), any::<[bool; 4]>(), prop::option::of(0usize..4)),
                0..80,
            ),
        ) {
            let config = ReinConfig { sample_round_trips: 1, ..Default::default() };
            let mut rein = ArmRunner::new(Rein::new(config), &Loaded::default());
            let mut path = path();
            rein.resume(&path, Time::ZERO);
            for ([a, b, c, d, e, f, g, at], [timed_out, app_limited, in_recovery, has_rtt], to)
                in reports
            {
                let small = |value: u64| Duration::from_micros(value % 1_000_000);
                let samples = RttSamples {
                    last: small(a),
                    min: small(b),
                    max: Duration::from_micros(c),
                    sum_us: d,
                    sq_sum_us2: e,
                    count: f,
                };
                let m = Measurement {
                    acked: Bytes(g),
                    delivered: Bytes(g),
                    lost: Packets(a % 3),
                    timed_out,
                    app_limited,
                    in_recovery,
                    rtt: has_rtt.then_some(samples),
                    delivery_rate: Rate::from_bytes_per_sec(b),
                    in_flight: Bytes(c),
                    ..Measurement::QUIET
                };
                let now = Time(Duration::from_micros(at % 100_000_000));
                path.observe(&m, now);
                let decision = rein.on_measurement(&m, now);
                prop_assert!(decision.cwnd >= Packets(2).to_bytes(MSS));
                let arms = ["cubic", "bbr", "westwood", "reno"];
                if let Some(proposal) = rein.proposal() {
                    prop_assert!(arms[..3].contains(&proposal.to));
                }
                if let Some(to) = to {
                    rein.hand_off(&mut path);
                    prop_assert_eq!(rein.switch_to(arms[to], &path, now).is_ok(), to < 3);
                }
                prop_assert!(arms[..3].contains(&rein.arm()));
            }
        }
    }
}
