//! LingBo: a window for the distribution of RTT_min, not for its least value.
//!
//! "Meet challenges of RTT Jitter, A Hybrid Internet Congestion Control Algorithm". Perception
//! (perception.rs) learns the mean and the standard deviation of the RTT without a queue; every
//! 100 ms a network, which has learned from an expert that knows the path
//! (`python/remuda/training/lingbo.py`), changes the window by a share a of it, -1 to 1:
//!
//! ```text
//! window' = window (1 + a)     of which the expert's is     rate (mean + alpha std) / (1 - loss)
//! ```
//!
//! alpha is the application's preference: 3 for throughput, 0 for delay alone. The weights are
//! those of `algorithms/models`, or those loaded as [`WEIGHTS`].
//!
//! Differs from the paper:
//!   - equation 1 and the two rules derived from it have std / mean where the paper has std / dur,
//!     which is right only where both are 100 ms;
//!   - decisions are max(100 ms, half a round trip) apart;
//!   - a flow starts with slow start, not with a window of two, until HyStart++ sees the RTT grow;
//!   - the inputs have no units (state.rs), and are means of the interval, not moving averages;
//!   - two segments are added at each decision. A product alone keeps the ratio of two windows
//!     for good; the sum makes flows on one path even (as in FAST TCP), and finds new capacity;
//!   - perception starts again only if no sample was as low as the mean for ten seconds, or where
//!     the path has become shorter; it does not believe the network alone (perception.rs);
//!   - a timeout halves the window; the paper's transport has none;
//!   - losses beside a queue that the jitter does not explain take 0.3 of the window, which then
//!     hardly grows for five seconds: the paper's leaves nothing to a CUBIC flow beside it where
//!     the buffer is shallow;
//!   - losses well above the usual share of the path take as much, with a queue or without
//!     (losses.rs). Equation 1 divides by 1 - loss, so that flows which overfill a short buffer
//!     would grow their windows for the losses that they cause, and lose nearly all they send;
//!   - a window is at most 2.5 times that of equation 1 with the usual losses;
//!   - where the queue is longer than alpha and two more standard deviations explain, and RTT_min
//!     is known to hold, the window is at most what is delivered in a round trip of that length.
//!     The network was trained with an RTT_min that is a few per cent wrong, and keeps a queue;
//!   - the standard deviation of RTT_min is at most 1.25 times that of the round trips between two
//!     decisions, because a flow that joins takes the changes of a standing queue for jitter;
//!   - a first look takes 40 samples, where the paper says nothing: eight packets in a row are as
//!     good as one where the delay changes slowly;
//!   - where an input is outside the range of the training, equation 1 decides, with what was
//!     measured, at most half the window at a time; the event log has it;
//!   - takes a known path over at its BDP, and looks at RTT_min when the queue has drained.

pub mod losses;
pub mod perception;
pub mod state;

use crate::arm::{
    Arm, ArmInfo, Decision, ProgramId, Queue, REPORTS_PER_ROUND_MANY, Readiness, Stage,
};
use crate::hystart::HyStart;
use crate::loaded::{Loadable, Loaded, Slot};
use crate::measurement::{CwndUse, Measurement};
use crate::network::{Network, State, Validity};
use crate::path::PathState;
use crate::preference::Preference;
use crate::proposal::Why;
use crate::recovery::{Recovery, congested, episode_rtt};
use crate::round::Round;
use crate::units::{Bytes, Rate, Time};
use crate::window;
use losses::{Losses, Segments};
use perception::{Perception, RttMin};
use state::{History, INPUTS, Interval, NAMES};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The name of its weights among what is loaded.
pub const WEIGHTS: &str = "lingbo";
/// The name of its settings among what is loaded.
pub const SETTINGS: &str = "lingbo settings";
/// The kind of its networks.
pub const KIND: &str = "lingbo";
pub const OUTPUTS: [&str; 1] = ["action"];

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "lingbo",
    summary: "a learned window for paths whose round trip jitters (LingBo)",
    program: ProgramId("lingbo/report"),
    reports_per_round: REPORTS_PER_ROUND_MANY,
    paces: true,
    answers_losses: false,
    make: Some(|loaded| Box::new(LingBo::new(loaded))),
    queue: Some(Queue::Short),
    ..ArmInfo::DEFAULT
};

/// Section 4.2: the least time between two decisions.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Section 4.3: alpha is 0 to 3, and 3 in the evaluation.
const ALPHA_MAX: f64 = 3.0;
/// Segments added at each decision.
const OWN_PKTS: f64 = 2.0;
/// The pacing rate is the window per mean RTT_min times this, so that windows are no bursts.
const PACING_GAIN: f64 = 1.5;
/// In slow start: twice the window, as it doubles in a round trip.
const PACING_GAIN_STARTING: f64 = 2.0;
/// The most that equation 1 alone takes from a window or adds to it at once, as a share.
const FALLBACK_STEP_MAX: f64 = 0.5;
/// The buffer counts as full if packets are lost while the queue is this much longer, in means of
/// RTT_min, than the jitter explains.
const FULL_QUEUE: f64 = 0.1;
/// The share of the window that a full buffer takes, at most once in two round trips: CUBIC's
/// (RFC 9438).
const FULL_CUT: f64 = 0.3;
/// For so long after a full buffer the network does not grow the window, and other flows can take
/// what it left.
const YIELD: Duration = Duration::from_secs(5);
/// The segments added at each decision meanwhile, if the flow has caused losses itself. Fifty flows
/// that add [`OWN_PKTS`] each would fill a short buffer again at once.
const YIELDING_PKTS: f64 = OWN_PKTS / 16.0;
/// A window is at most so many times that of equation 1, and may be as large as
/// [`CEILING_MIN_PKTS`].
const CEILING: f64 = 2.5;
const CEILING_MIN_PKTS: f64 = 10.0;
/// After a take-over, perception waits for so many smoothed round trips until the queue has
/// drained. One is too few: the smoothed round trip lags behind a queue that grows, and the rest of
/// that queue would become a part of RTT_min.
const DRAIN_ROUNDS: u32 = 3;
/// The queue that a window may keep beyond alpha standard deviations: so many standard deviations
/// more, and so many means of RTT_min.
const SLACK_STDS: f64 = 2.0;
const SLACK_MEANS: f64 = 0.05;
/// The standard deviation of RTT_min is at most so many times that of the round trips between two
/// decisions. The queue of other flows changes over seconds. A flow that joins takes these changes
/// for jitter of the path, and would keep a longer queue than the other flows for good.
const STD_PER_JITTER: f64 = 1.25;
/// RTT_min holds if a sample was as low as its mean so recently. Without one, the path may have
/// become longer, and what looks like a queue may be none.
const HOLDS: Duration = Duration::from_secs(1);
/// What the fallback adds where no queue shows what the path holds.
const FALLBACK_GROWTH: f64 = 0.25;

/// What an operator can change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// RTT_min is its least sample, without a spread, as in DuGu. For comparisons.
    pub single_rtt_min: bool,
}

impl Loadable for Settings {
    fn digest(&self) -> &str {
        if self.single_rtt_min { "single RTT_min" } else { "default" }
    }
}

/// The weights that come with this crate.
pub fn shipped() -> Arc<Network> {
    static SHIPPED: OnceLock<Arc<Network>> = OnceLock::new();
    let weights = include_bytes!("../../models/lingbo.safetensors");
    let card = include_str!("../../models/lingbo.json");
    let parse = || Network::parse(weights, card).expect("a test reads the shipped weights");
    Arc::clone(SHIPPED.get_or_init(|| Arc::new(parse())))
}

/// Whether this arm can run with these weights; the error names what is different.
pub fn check(network: &Network) -> Result<(), crate::network::error::NetworkError> {
    network.expect(KIND, &NAMES, &OUTPUTS)
}

/// LingBo, for one flow.
#[derive(Clone, Debug)]
pub struct LingBo {
    weights: Slot<Network>,
    settings: Settings,
    path: PathState,
    alpha: f64,
    perception: Perception,
    history: History,
    network: State,
    round: Round,
    recovery: Recovery,
    losses: Losses,
    /// `None` once slow start is over.
    starting: Option<HyStart>,
    cwnd_pkts: f64,
    interval: Totals,
    /// The stage that was not asked for yet.
    stage: Option<Stage>,
    /// The last evaluation had an input outside the range of the training.
    outside: bool,
    /// A full buffer takes nothing from the window again before this moment.
    cut_until: Time,
    /// The end of [`YIELD`], and what the window grows by at each decision until then.
    yields_until: Time,
    yielding_pkts: f64,
}

/// What the reports since the last decision add up to.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    since: Time,
    delivered: Bytes,
    lost_pkts: u64,
    rtt_sum_us: u64,
    rtt_sq_sum_us2: u64,
    rtt_count: u64,
    /// The most of the window that was used.
    used: Option<CwndUse>,
}

impl Arm for LingBo {
    fn info(&self) -> &'static ArmInfo {
        &ARM
    }

    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        let mut path = window::sane(path);
        let known = path.bdp().filter(|_| path.srtt.is_some());
        if let Some(bdp) = known {
            path.cwnd = window::bound(&path, path.cwnd.min(bdp));
        }
        let mut perception = Perception::new(now, self.settings.single_rtt_min);
        if let Some(srtt) = path.srtt.filter(|_| known.is_some()) {
            // The queue of a predecessor drains first.
            perception.probe(now, DRAIN_ROUNDS * srtt);
        }
        self.network.reset();
        self.perception = perception;
        self.history = History::default();
        self.alpha = alpha_of(path.wants);
        self.round = Round::default();
        self.recovery = Recovery::resume(&path, now);
        self.losses = Losses::new(now);
        self.starting = (known.is_none() && path.ssthresh.is_none()).then(HyStart::default);
        self.cwnd_pkts = path.cwnd.0 as f64 / path.mss.0 as f64;
        self.interval = Totals { since: now, ..Totals::default() };
        (self.stage, self.outside) = (None, false);
        (self.cut_until, self.yields_until, self.yielding_pkts) = (now, now, OWN_PKTS);
        // No rate is no rate to keep below.
        let most = path.rate.filter(|rate| *rate > Rate::default());
        self.path = path;
        let Decision { cwnd, rate } = self.decision();
        Decision { cwnd, rate: rate.map(|rate| most.map_or(rate, |most| rate.min(most))) }
    }

    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        self.path.observe(m, now);
        self.interval.add(m, self.cwnd(), self.path.mss);
        let round_ended = self.round.observe(m, self.path.mss);
        if let Some(rtt) = &m.rtt {
            let was_draining = self.perception.is_draining();
            self.perception.observe(rtt, round_ended, now);
            if was_draining && !self.perception.is_draining() {
                // The first decision looks at what came after the queue.
                self.interval = Totals { since: now, ..Totals::default() };
            }
        }
        self.note_losses(m, now);
        if m.restarted {
            let left = m.cwnd.0 as f64 / self.path.mss.0 as f64;
            self.cwnd_pkts = self.cwnd_pkts.min(left);
        }
        match self.starting {
            Some(hystart) => self.slow_start(hystart, m, round_ended, now),
            None if now - self.interval.since >= self.interval_min() => self.decide(now),
            None => {}
        }
        self.decision()
    }

    fn hand_off(&self, path: &mut PathState) {
        path.cwnd = self.cwnd();
        path.rate = None;
        path.ssthresh = path.ssthresh.or(path.bdp().map(|bdp| bdp.max(self.cwnd())));
        path.recovery_until = self.recovery.until();
    }

    fn can_hand_off(&self) -> Readiness {
        if self.starting.is_some() {
            Readiness::Defer("the flow is in slow start")
        } else {
            Readiness::Ready
        }
    }

    fn stage(&mut self) -> Option<Stage> {
        self.stage.take()
    }
}

/// Section 4.3: how many standard deviations the queue should absorb.
fn alpha_of(wants: Preference) -> f64 {
    if wants.delay <= 0.0 {
        return ALPHA_MAX;
    }
    ALPHA_MAX * (wants.throughput / wants.delay).clamp(0.0, 1.0)
}

impl Totals {
    fn add(&mut self, m: &Measurement, cwnd: Bytes, mss: Bytes) {
        self.delivered += m.delivered;
        self.lost_pkts = self.lost_pkts.saturating_add(m.lost.0);
        if let Some(rtt) = &m.rtt {
            self.rtt_sum_us = self.rtt_sum_us.saturating_add(rtt.sum_us);
            self.rtt_sq_sum_us2 = self.rtt_sq_sum_us2.saturating_add(rtt.sq_sum_us2);
            self.rtt_count = self.rtt_count.saturating_add(rtt.count);
        }
        self.used = self.used.max(Some(m.cwnd_use(cwnd, mss)));
    }

    fn rtt_std(&self) -> Duration {
        let count = self.rtt_count.max(1) as f64;
        let mean_us = self.rtt_sum_us as f64 / count;
        let variance = self.rtt_sq_sum_us2 as f64 / count - mean_us * mean_us;
        Duration::from_micros(variance.max(0.0).sqrt() as u64)
    }
}

impl LingBo {
    /// One that has no flow yet, with the weights and the settings that are loaded.
    pub fn new(loaded: &Loaded) -> Self {
        let fits = |slot: &Slot<Network>| check(&slot.get()).is_ok();
        let weights = loaded.slot(WEIGHTS).filter(fits).unwrap_or_else(|| Slot::new(shipped()));
        let settings = loaded.slot::<Settings>(SETTINGS);
        let settings = settings.map_or_else(Settings::default, |slot| (*slot.get()).clone());
        let path = window::no_path();
        Self {
            network: State::new(&weights.get()),
            perception: Perception::new(Time::ZERO, settings.single_rtt_min),
            weights,
            settings,
            alpha: ALPHA_MAX,
            history: History::default(),
            round: Round::default(),
            recovery: Recovery::resume(&path, Time::ZERO),
            losses: Losses::new(Time::ZERO),
            starting: Some(HyStart::default()),
            cwnd_pkts: path.cwnd.0 as f64 / path.mss.0 as f64,
            interval: Totals::default(),
            stage: None,
            outside: false,
            cut_until: Time::ZERO,
            yields_until: Time::ZERO,
            yielding_pkts: OWN_PKTS,
            path,
        }
    }

    fn cwnd(&self) -> Bytes {
        window::bound(&self.path, Bytes((self.cwnd_pkts * self.path.mss.0 as f64) as u64))
    }

    fn decision(&self) -> Decision {
        let cwnd = self.cwnd();
        let rtt = self.perception.rtt_min().map(|it| it.mean).or(self.path.srtt);
        let gain = if self.starting.is_some() { PACING_GAIN_STARTING } else { PACING_GAIN };
        let rate = rtt.filter(|rtt| !rtt.is_zero()).map(|rtt| {
            let rate = cwnd.0 as f64 * gain / rtt.as_secs_f64();
            Rate::from_bytes_per_sec((rate as u64).max(1))
        });
        Decision { cwnd, rate }
    }

    /// Section 6's correction: no decision before half a round trip has passed.
    fn interval_min(&self) -> Duration {
        INTERVAL_MIN.max(self.path.srtt.unwrap_or_default() / 2)
    }

    /// Losses end slow start and, after a timeout, halve the window. Otherwise they are counted,
    /// and the network sees them as one of its inputs.
    fn note_losses(&mut self, m: &Measurement, now: Time) {
        let is_new = m.timed_out || (congested(m) && !self.recovery.covers(m, now));
        if is_new {
            self.recovery.enter(episode_rtt(&self.path, m), now);
            if self.starting.take().is_some() {
                // The window is a multiple of what the path holds.
                let bdp = self.path.bdp().unwrap_or(self.cwnd()).min(self.cwnd());
                self.cwnd_pkts = bdp.0 as f64 / self.path.mss.0 as f64;
                self.keep_bounds();
                // The first decision looks at what the new window does.
                self.interval = Totals { since: now, ..Totals::default() };
            }
        }
        self.recovery.observe(m, now);
        if self.starting.is_none() && !m.timed_out {
            // A timeout reports all that was in flight as lost.
            let delivered_pkts = m.delivered.0 as f64 / self.path.mss.0 as f64;
            let segments = Segments { delivered_pkts, lost_pkts: m.lost.0 as f64 };
            let jitter = self.perception.rtt_min().map_or(0.0, |it| self.jitter(it));
            self.losses.observe(segments, jitter, self.path.srtt.unwrap_or_default(), now);
        }
        if m.timed_out {
            self.cwnd_pkts /= 2.0;
            self.keep_bounds();
        }
    }

    /// The window is a number of segments within what [`window::bound`] allows.
    fn keep_bounds(&mut self) {
        let mss = self.path.mss.0 as f64;
        let bounded = self.cwnd().0 as f64 / mss;
        let least = self.path.cwnd_floor().0 as f64 / mss;
        let most = window::CWND_MAX.0 as f64 / mss;
        self.cwnd_pkts = if self.cwnd_pkts.is_finite() {
            self.cwnd_pkts.clamp(least, most.max(least))
        } else {
            bounded
        };
    }

    fn slow_start(&mut self, mut hystart: HyStart, m: &Measurement, ended: bool, now: Time) {
        let cwnd = self.cwnd();
        if m.cwnd_use(cwnd, self.path.mss) >= CwndUse::Half {
            self.cwnd_pkts += m.delivered.min(cwnd).0 as f64 / self.path.mss.0 as f64;
            self.keep_bounds();
        }
        self.perception.drop_pending();
        // Conservative slow start, by which HyStart++ looks whether a queue really stands, is left
        // out: the network sees that, and where no queue stands, lets the window grow as fast.
        let is_over = hystart.observe(m.rtt, ended) || hystart.divisor() > 1;
        self.starting = (!is_over).then_some(hystart);
        // The first decision looks at the last round trip of slow start, not at all of it.
        if ended {
            self.interval = Totals { since: now, ..Totals::default() };
        }
    }

    /// Asks the network for the next window, as in algorithm 1 of the paper.
    fn decide(&mut self, now: Time) {
        let totals = self.interval;
        if totals.rtt_count == 0 || !self.perception.is_ready() {
            return;
        }
        self.interval = Totals { since: now, ..Totals::default() };
        let mss = self.path.mss.0 as f64;
        self.history.push(Interval {
            span: now - totals.since,
            rtt: Duration::from_micros(totals.rtt_sum_us / totals.rtt_count),
            rtt_std: totals.rtt_std(),
            delivered_pkts: totals.delivered.0 as f64 / mss,
            lost_pkts: totals.lost_pkts as f64,
            cwnd_pkts: self.cwnd_pkts,
        });
        let Some(seen) = self.rtt_min() else { return };
        if self.perception.is_stale(now) {
            // Equation 4, with the mean for dur: half of the BDP.
            self.cwnd_pkts /= 2.0 * (1.0 + self.alpha * seen.std);
            self.keep_bounds();
            self.perception.probe(now, self.path.srtt.unwrap_or(seen.mean));
            return;
        }
        let mut action = self.action(seen);
        if self.perception.is_pending() {
            if action >= self.alpha * seen.std {
                if self.perception.accept(now) {
                    action = self.rtt_min().map_or(action, |seen| self.action(seen));
                }
            } else {
                self.perception.end();
            }
        }
        if self.perception.shortened(now) {
            action = self.rtt_min().map_or(action, |seen| self.action(seen));
        }
        if now - self.perception.low_at() < HOLDS {
            action = action.min(self.most(seen));
        }
        let mut growth_pkts = OWN_PKTS;
        if now < self.yields_until {
            action = action.min(0.0);
            growth_pkts = self.yielding_pkts;
        }
        let causes_losses = self.losses.are_own(self.cwnd_pkts, self.jitter(seen));
        if (causes_losses || self.is_full(seen)) && now >= self.cut_until {
            action = action.min(-FULL_CUT);
            self.cut_until = now + 2 * self.history.last().rtt;
            self.yields_until = now + YIELD;
            self.yielding_pkts = OWN_PKTS;
            if causes_losses {
                self.losses.cut();
                self.yielding_pkts = YIELDING_PKTS;
                growth_pkts = 0.0;
            }
        }
        let next = self.cwnd_pkts * (1.0 + action) + growth_pkts;
        let next = next.min(self.ceiling(seen));
        // A window that is not used does not grow (RFC 7661).
        let is_used = totals.used >= Some(CwndUse::Half);
        self.cwnd_pkts = if is_used { next } else { next.min(self.cwnd_pkts) };
        self.keep_bounds();
    }

    /// RTT_min, with a spread of at most [`STD_PER_JITTER`].
    fn rtt_min(&self) -> Option<RttMin> {
        let seen = self.perception.rtt_min()?;
        Some(RttMin { std: seen.std.min(STD_PER_JITTER * self.jitter(seen)), ..seen })
    }

    /// How much the round trip jitters, in means of RTT_min. The spread that perception knows does
    /// not count: its samples may contain the queue of slow start, or that of other flows.
    fn jitter(&self, seen: RttMin) -> f64 {
        self.history.jitter(seen)
    }

    /// The window that equation 1 allows with the usual losses, times [`CEILING`].
    fn ceiling(&self, seen: RttMin) -> f64 {
        let wanted_s = seen.mean.as_secs_f64() * (1.0 + self.alpha * seen.std);
        let rate = self.history.fastest() / (1.0 - self.losses.usual(self.jitter(seen)));
        (CEILING * rate * wanted_s).max(CEILING_MIN_PKTS)
    }

    /// The most that a window may change by where the queue is longer than [`SLACK_STDS`] and
    /// [`SLACK_MEANS`] allow; otherwise without a bound.
    fn most(&self, seen: RttMin) -> f64 {
        let allowed = (self.alpha + SLACK_STDS) * seen.std + SLACK_MEANS;
        let last = self.history.last();
        if last.queued(seen) <= allowed {
            return f64::INFINITY;
        }
        let allowed_s = seen.mean.as_secs_f64() * (1.0 + allowed);
        let share = 1.0 - self.losses.usual(self.jitter(seen));
        let window = last.delivery_rate() * allowed_s / share;
        (window / self.cwnd_pkts.max(1.0) - 1.0).max(-FALLBACK_STEP_MAX)
    }

    /// Whether the buffer was full in the last interval. Random losses come in every interval, so
    /// only losses well above the least of the last intervals count.
    fn is_full(&self, seen: RttMin) -> bool {
        let last = self.history.last();
        last.loss() > 2.0 * self.history.least_loss()
            && last.queued(seen) > (self.alpha + 1.0) * seen.std + FULL_QUEUE
    }

    /// By which share the window should change.
    fn action(&mut self, seen: RttMin) -> f64 {
        let inputs = self.history.inputs(seen, self.alpha);
        let weights = self.weights.get();
        if weights.inputs_len() != INPUTS || weights.outputs_len() != OUTPUTS.len() {
            // Another network has taken the place since; loading checks them.
            return self.fallback(seen);
        }
        let mut output = [0.0; 1];
        let validity = weights.evaluate(&inputs, &mut self.network, &mut output);
        let place = match validity {
            Validity::Inside => None,
            Validity::Outside(index) => Some((weights.input_name(index).to_owned(), inputs[index])),
            Validity::NotFinite => Some((OUTPUTS[0].to_owned(), output[0])),
        };
        let was_outside = std::mem::replace(&mut self.outside, place.is_some());
        let Some((name, value)) = place else { return f64::from(output[0]) };
        if !was_outside {
            let text = "outside the range of the training; equation 1 decides";
            let features = vec![("input", name), ("value", value.to_string())];
            let why = Why { text: text.to_owned(), features };
            self.stage = Some(Stage { name: "outside", why });
        }
        self.fallback(seen)
    }

    /// Equation 1 with what was measured, where the network cannot be asked.
    fn fallback(&self, seen: RttMin) -> f64 {
        let last = self.history.last();
        if last.queued(seen) <= seen.std {
            return FALLBACK_GROWTH;
        }
        // Losses beside a queue count as those of a full buffer: a larger window would only make
        // more of them.
        let wanted_s = seen.mean.as_secs_f64() * (1.0 + self.alpha * seen.std);
        let window = last.delivery_rate() * wanted_s;
        let change = window / self.cwnd_pkts.max(1.0) - 1.0;
        change.clamp(-FALLBACK_STEP_MAX, FALLBACK_STEP_MAX)
    }
}

#[cfg(test)]
mod tests;
