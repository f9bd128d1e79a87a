//! Rein: CUBIC first; then by how the round trips spread, an arm that suits the path.
//!
//! K. Chen et al., "One Rein to Rule Them All: A Framework for Datacenter-to-User Congestion
//! Control", APNet 2020, sections 3.2, 4.2.2 and 5.2. The paper's rules, over the first N round
//! trips sampled:
//!   - the coefficient of variation (COV) and the range, (max - min) / min, are above thresholds:
//!     the path is WiFi;
//!   - else by the 95th percentile: the buffer is small or large.
//!
//! The arm of each class, and why; docs/rein.md has the measurements:
//!
//! ```text
//! class         found a queue   arm     default preference
//! WiFi                          bbr3    models rate and RTT, so jitter is no queue to it
//! small buffer                  c2tcp   CUBIC that grows faster while RTTs are short
//! large buffer  no              cubic   a flow that begins with others gets its share by losses
//! large buffer  yes             lingbo  CUBIC stays behind flows that filled the buffer before
//! preference for throughput: bbr from the start; on a large buffer without a queue, cubic
//! ```
//!
//! Differs from the paper, which gives no numbers:
//!   - it has Westwood for WiFi and BBR for small buffers. Here Westwood is slower than CUBIC
//!     beside a CUBIC, and BBR takes most of what the CUBIC had; so BBR needs the preference;
//!   - COV is of the variation *within half a round trip*. WiFi's jitter is fast, from sample to
//!     sample; a buffer that slow start and CUBIC's sawtooth fill and drain is slow, over many
//!     round trips. It is the lower quartile of the half round trips, which leaves out slow start
//!     and losses: see `rtt_sample.rs`;
//!   - what varies by less than a millisecond is the noise of hosts, and what varies by less than
//!     half of the time of a segment at the flow's rate is their order in the queue, not a radio;
//!   - the buffer is measured in BDPs, (p95 - min) / min, which transfers between paths. Only where
//!     others kept a queue when the flow began (`first_rounds.rs`), and no earlier flow has seen
//!     the empty path, the least RTT says nothing of the BDP, and the 95th percentile in
//!     milliseconds decides, as in the paper;
//!   - a buffer is called small only once it has been full: a loss, a mark or a timeout was
//!     reported. Without one the sample goes on, up to a bound, and then the arm stays;
//!   - round trips of reports that the application limited are not sampled: they show no queue,
//!     and delayed ACKs look like jitter;
//!   - evaluated again every 30 s, where the paper decides once.
//!
//! Known to fail: a small buffer on a path with a base RTT near or above the bound in milliseconds,
//! with a queue that stood there before, is called large.

use crate::arm_runner::ArmRunner;
use crate::first_rounds::FirstRounds;
use crate::policy::{Policy, PolicyInfo};
use crate::rtt_sample::{RttSample, micros};
use crate::{ConfigError, check};
use remuda_algorithms::Reason;
use remuda_algorithms::filter::Windowed;
use remuda_algorithms::recovery::congested;
use remuda_algorithms::units::{Bytes, Time};
use remuda_algorithms::{
    Measurement, PathState, Preference, Proposal, Why, bbr, bbr3, c2tcp, cubic, lingbo,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Its line in [`crate::POLICIES`].
pub const POLICY: PolicyInfo = PolicyInfo {
    name: "rein",
    summary: "cubic first; then c2tcp, lingbo, bbr3 or cubic, by the class of the path (Rein)",
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
    /// ... and the standard deviation within half round trips above so many microseconds ...
    pub wifi_rtt_std_us: u64,
    /// ... and above the time of so many segments at the flow's highest delivery rate.
    pub wifi_rtt_std_pkts: f64,
    /// A buffer is large if its 95th percentile of queue is so many BDPs or more.
    pub large_buffer_queue_bdps: f64,
    /// Where a queue hid the base RTT, a buffer is large if the 95th percentile of the RTT is so
    /// many milliseconds or more.
    pub large_buffer_rtt_p95_ms: u64,
}

impl Default for ReinConfig {
    /// The project's choice; docs/rein.md has what other thresholds would do.
    fn default() -> Self {
        Self {
            sample_count: 200,
            sample_round_trips: 10,
            sample_max_secs: 30,
            reevaluate_secs: 30,
            wifi_rtt_cov_ratio: 0.015,
            wifi_rtt_range_ratio: 0.3,
            wifi_rtt_std_us: 1_000,
            wifi_rtt_std_pkts: 0.5,
            large_buffer_queue_bdps: 1.5,
            large_buffer_rtt_p95_ms: 150,
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
        let pkts = self.wifi_rtt_std_pkts;
        check(is_ratio(pkts), "rein.wifi_rtt_std_pkts", pkts, ratio)?;
        let bdps = self.large_buffer_queue_bdps;
        check(is_ratio(bdps), "rein.large_buffer_queue_bdps", bdps, ratio)?;
        let p95_ms = self.large_buffer_rtt_p95_ms;
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

    /// The arm that suits it, and why. `greedy` is a preference for throughput.
    fn arm(self, found_queue: bool, greedy: bool) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Unknown => None,
            Self::LargeBuffer if !found_queue => {
                Some((cubic::ARM.name, "it gets a share of a deep queue that fills from empty"))
            }
            _ if greedy => Some((bbr::ARM.name, "throughput counts, and others may lose theirs")),
            Self::Wifi => Some((bbr3::ARM.name, "it takes no jitter for a queue")),
            Self::SmallBuffer => Some((c2tcp::ARM.name, "it grows faster while queues are short")),
            Self::LargeBuffer => {
                Some((lingbo::ARM.name, "cubic stays behind flows that filled the buffer before"))
            }
        }
    }
}

/// The arms that Rein picks from.
const ARMS_OF_REIN: [&str; 5] =
    [cubic::ARM.name, bbr::ARM.name, bbr3::ARM.name, c2tcp::ARM.name, lingbo::ARM.name];

/// Whether throughput counts so much more than delay that the flow may take what others lose.
fn is_greedy(wants: Preference) -> bool {
    wants.throughput * (1.0 - wants.delay) >= 0.5
}

/// Rein, for one flow.
pub struct Rein {
    config: ReinConfig,
    sample: RttSample,
    sample_start: Time,
    /// The sample has seen a sign of congestion.
    congested: bool,
    base: Option<Windowed<Duration>>,
    first_rounds: FirstRounds,
    mss: Bytes,
    greedy: bool,
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
        self.first_rounds = FirstRounds::new(path.rtt_min_long(), now);
        self.mss = path.mss;
        self.greedy = is_greedy(path.wants);
        self.start_sample(now);
        if self.greedy { bbr::ARM.name } else { cubic::ARM.name }
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

    fn prefer(&mut self, wants: Preference) {
        self.greedy = is_greedy(wants);
        // Decide anew by what the sample holds already.
        self.next_at = Time::ZERO;
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
            first_rounds: FirstRounds::new(None, Time::ZERO),
            mss: Bytes(0),
            greedy: false,
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
        self.first_rounds.add(m, now);
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
        let is_long = p95_ms >= u128::from(config.large_buffer_rtt_p95_ms);
        if self.cov_within() > config.wifi_rtt_cov_ratio
            && sample.range() > config.wifi_rtt_range_ratio
            && sample.std_within_us() > config.wifi_rtt_std_us as f64
            && sample.std_within_us() > config.wifi_rtt_std_pkts * self.segment_us()
        {
            Class::Wifi
        } else if self.queue_bdps() >= config.large_buffer_queue_bdps
            || (is_long && self.found_queue() && !self.first_rounds.knows_shorter())
        {
            Class::LargeBuffer
        } else if self.congested {
            Class::SmallBuffer
        } else {
            Class::Unknown
        }
    }

    fn base(&self) -> Duration {
        self.base.map_or(Duration::ZERO, |base| base.get())
    }

    /// Whether others kept a queue when the flow began.
    fn found_queue(&self) -> bool {
        self.first_rounds.found_queue(self.base(), self.mss)
    }

    /// Standard deviation of the RTT within half round trips, over the mean.
    fn cov_within(&self) -> f64 {
        self.sample.std_within_us() / self.sample.mean_us().max(1.0)
    }

    /// The time of a segment at the flow's highest delivery rate; 0 before a rate is known.
    fn segment_us(&self) -> f64 {
        match self.first_rounds.rate_max().bytes_per_sec() {
            0 => 0.0,
            rate => self.mss.0 as f64 * 1e6 / rate as f64,
        }
    }

    /// The queue's 95th percentile, (p95 - min) * B, in BDPs, min * B.
    fn queue_bdps(&self) -> f64 {
        let base_us = micros(self.base());
        let p95_us = micros(self.sample.p95());
        p95_us.saturating_sub(base_us) as f64 / base_us.max(1) as f64
    }

    fn decide(&mut self, current: &'static str, now: Time) {
        let class = self.class();
        let choice = class.arm(self.found_queue(), self.greedy);
        let (to, reason) = choice.map_or((current, None), |(to, reason)| (to, Some(reason)));
        self.proposal = Some(Proposal::new(to, self.why(class, current, to, reason)));
        let next =
            if to == current { Duration::from_secs(self.config.reevaluate_secs) } else { RETRY };
        self.next_at = now + next;
        self.start_sample(now);
    }

    fn why(&self, class: Class, current: &str, to: &str, reason: Option<&str>) -> Why {
        let percent = self.cov_within() * 100.0;
        let bdps = self.queue_bdps();
        let p95_ms = self.sample.p95().as_millis();
        let found = self.found_queue();
        let seen = match class {
            Class::Wifi => format!("WiFi: RTT varies by {percent:.0} % within half a round trip"),
            Class::LargeBuffer if found => {
                format!("large buffer, with a queue when the flow began: RTT {p95_ms} ms at p95")
            }
            Class::LargeBuffer => format!("large buffer: {bdps:.1} BDPs queued at p95"),
            Class::SmallBuffer => format!("small buffer: full with {bdps:.1} BDPs queued at p95"),
            Class::Unknown => format!("buffer never full: {bdps:.1} BDPs queued at p95"),
        };
        let stays = if to == current { "stays with" } else { "changes to" };
        let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
        Why { text: format!("{seen}; {stays} {to}{reason}"), features: self.features(class) }
    }

    fn features(&self, class: Class) -> Vec<Reason> {
        let ms = |span: Duration| format!("{:.1}", span.as_secs_f64() * 1e3);
        vec![
            ("rtt_cov", format!("{:.3}", self.cov_within())),
            ("rtt_cov_overall", format!("{:.3}", self.sample.cov())),
            ("rtt_std_ms", format!("{:.2}", self.sample.std_within_us() / 1e3)),
            ("segment_ms", format!("{:.2}", self.segment_us() / 1e3)),
            ("rtt_range", format!("{:.2}", self.sample.range())),
            ("rtt_p95_ms", ms(self.sample.p95())),
            ("rtt_min_ms", ms(self.base())),
            ("queue_bdps", format!("{:.2}", self.queue_bdps())),
            ("found_queue", self.found_queue().to_string()),
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
        // 5.8 ms a segment, and twice as much in flight as an empty path of 40 ms holds.
        let (delivery_rate, in_flight) = (Rate::from_bytes_per_sec(250_000), Bytes(20_000));
        Measurement { rtt: Some(rtt), delivery_rate, in_flight, ..Measurement::QUIET }
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
        check(&[60, 61, 62, 63, 64], true, Some(("small_buffer", "c2tcp")));
        check(&[95, 96, 97, 98, 97], true, Some(("small_buffer", "c2tcp")));
        check(&[110, 111, 112, 113, 112], true, Some(("large_buffer", "cubic")));
        check(&[182, 183, 184, 185, 186], false, Some(("large_buffer", "cubic")));
        check(&[42, 60, 110, 45, 70], false, Some(("wifi", "bbr3")));
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
        assert_eq!(decided.iter().map(|d| d.to).collect::<Vec<_>>(), ["c2tcp"; 3]);
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
        assert!(first.cwnd <= path.cwnd);
        assert_eq!((rein.arm(), rein.running().program()), (c2tcp::ARM.name, c2tcp::ARM.program));
        assert_eq!(feed(&mut rein, &m, 1_010..31_000), []);
        assert_eq!(feed(&mut rein, &m, 31_000..31_100)[0].to, "c2tcp");
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

    /// The first decision of a flow whose round trips rise from 150 to 200 ms before it fills the
    /// pipe. `known_ms` is the round trip of an earlier flow.
    fn behind_a_queue(known_ms: Option<u64>, config: ReinConfig) -> Option<(String, &'static str)> {
        let mut path = path();
        if let Some(ms) = known_ms {
            path.observe(&report(&[ms]), Time::ZERO);
        }
        let mut rein = ArmRunner::new(Rein::new(config), &Loaded::default());
        rein.resume(&path, at_ms(1));
        for (at, rtt_ms, kb) in [(200, 150, 15), (400, 158, 30), (600, 170, 60), (800, 190, 110)] {
            let (in_flight, rtt) = (Bytes(kb * 1_000), Duration::from_millis(rtt_ms));
            let delivery_rate = in_flight / rtt;
            rein.on_measurement(
                &Measurement { in_flight, delivery_rate, ..report(&[rtt_ms]) },
                at_ms(at),
            );
        }
        let m = Measurement { lost: Packets(1), ..report(&[196, 197, 198, 198]) };
        let decided = feed(&mut rein, &m, 1_000..6_000);
        let first = decided.first()?;
        let class = first.why.features.iter().find(|(name, _)| *name == "class");
        Some((class.expect("a class").1.clone(), first.to))
    }

    #[test]
    fn behind_a_queue_the_round_trip_itself_decides() {
        let of = |known_ms, ms| {
            let config = ReinConfig { large_buffer_rtt_p95_ms: ms, ..ReinConfig::default() };
            behind_a_queue(known_ms, config).expect("a decision")
        };
        assert_eq!(of(None, 150), ("large_buffer".to_owned(), "lingbo"));
        assert_eq!(of(None, 250), ("small_buffer".to_owned(), "c2tcp"));
        assert_eq!(of(Some(110), 150), ("small_buffer".to_owned(), "c2tcp"), "the base is known");
        assert_eq!(of(Some(40), 250), ("large_buffer".to_owned(), "lingbo"), "so is this one");
    }

    #[test]
    fn a_preference_for_throughput_begins_with_bbr() {
        let mut path = path();
        path.wants = Preference::THROUGHPUT;
        let mut rein = ArmRunner::new(Rein::new(ReinConfig::default()), &Loaded::default());
        rein.resume(&path, Time::ZERO);
        assert_eq!(rein.arm(), "bbr");
        rein.on_measurement(&report(&[40]), at_ms(5));
        let m = Measurement { lost: Packets(1), ..report(&[60, 61, 62]) };
        assert_eq!(feed(&mut rein, &m, 10..4_000)[0].to, "bbr");
        rein.prefer(Preference::DEFAULT);
        assert_eq!(feed(&mut rein, &m, 4_000..8_000)[0].to, "c2tcp", "it decides anew");
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
            ReinConfig { large_buffer_rtt_p95_ms: 0, ..ReinConfig::default() },
        ] {
            config.validate().expect_err("out of range");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_reported_the_arm_is_one_of_five(
            reports in prop::collection::vec(
                (any::<[u64; 8]>(), any::<[bool; 4]>(), prop::option::of(0usize..6)),
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
                let arms = ["cubic", "bbr", "bbr3", "c2tcp", "lingbo", "reno"];
                if let Some(proposal) = rein.proposal() {
                    prop_assert!(arms[..5].contains(&proposal.to));
                }
                if let Some(to) = to {
                    rein.hand_off(&mut path);
                    // An arm may also refuse the path.
                    prop_assert!(to < 5 || rein.switch_to(arms[to], &path, now).is_err());
                }
                prop_assert!(arms[..5].contains(&rein.arm()));
            }
        }
    }
}
