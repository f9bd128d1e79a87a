//! How BBR finds its share after it has taken over a flow from an arm that was left with little.
//!
//! Beside others that keep a queue, the arm before may have yielded to them. Probing for a quarter
//! more in each eighth round trip would then take a minute, since the round trips are long. So the
//! flow climbs: a round trip at a higher rate, a round trip at the measured rate, and again while
//! most of the increase is delivered.
//!
//! On a path that loses packets without a queue, the arm before may have answered each loss. If a
//! step is delivered there without a queue, the link is not full, and STARTUP fills it.
//!
//! Not in BBR, which begins a flow with STARTUP.

use crate::measurement::Measurement;
use crate::path::PathState;
use crate::units::{Bytes, Gain, Rate};
use std::time::Duration;

/// The guard limits the rate for so many round trips after a switch (`settle_rtts`).
const SETTLING_ROUNDS: u32 = 8;
/// In this round after a switch, BBR has drained what the arm before had queued, and BBR has not
/// yet queued much itself.
const DRAINED_ROUND: u32 = 2;
/// A round trip whose minimum is so much of that of the path shows a queue.
const QUEUE_PERCENT: u32 = 150;
/// The first step is that of PROBE_BW. Later steps are larger.
const FIRST_STEP: Gain = Gain(1_250);
const STEP: Gain = Gain(1_500);
/// A step has found more if so much of its increase is delivered. In a queue, a step of STEP
/// delivers it while the flow has up to a third of the link.
const DELIVERED: Gain = Gain(600);
/// A step that loses more says nothing: the queue of the others has overflowed.
const LOSS_MAX: Gain = Gain(20);
/// If a path loses so much without a queue, an arm that answers losses has little of the link.
const PATH_LOSS_MIN: Gain = Gain(10);
/// What a path loses varies: a round trip may lose this many times as much, and two packets.
const PATH_LOSS_VARIES: Gain = Gain(1_500);
/// After so many steps that found nothing the climb ends.
const TRIES: u32 = 3;
/// Rounds between such a step and the next one.
const WAIT_ROUNDS: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// After the switch, for so many rounds.
    Settling(u32),
    /// After a step that found nothing, for so many rounds.
    Waiting(u32),
    /// A round at this gain.
    Step(Gain),
    /// The round in which the data of that step arrives.
    Look(Gain),
    Over,
}

/// What the end of a round means for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Nothing,
    /// A step begins, behind a queue of others with this minimum RTT.
    Queue(Duration),
    /// The link is not full.
    Room,
    /// A step ends, and none follows for now.
    Ended,
}

/// What keeps an arm from its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeptBy {
    /// The queue of others, seen when BBR had drained its own.
    Queue,
    /// The losses of the path.
    Losses,
}

/// The climb of one flow.
#[derive(Clone, Copy, Debug)]
pub struct Climb {
    phase: Phase,
    tries: u32,
    /// What may have kept the arm before from its share.
    kept_by: Option<KeptBy>,
    /// What was lost and what was sent without a queue, since the switch.
    path_lost: Bytes,
    path_sent: Bytes,
    /// The path's minimum RTT at the switch.
    min_rtt: Duration,
    /// The bandwidth before the step.
    bw: Rate,
    /// Of the round so far.
    rtt: Option<Duration>,
    lost: Bytes,
    delivered: Bytes,
    mss: Bytes,
}

impl Climb {
    /// On the path of a flow that is taken over. A new flow does not climb: its handshake has
    /// measured a round trip, but no rate.
    pub fn resume(path: &PathState) -> Self {
        match (path.delivery_rate(), path.rtt_min_long()) {
            (Some(_), Some(min_rtt)) => Self::new(Phase::Settling(SETTLING_ROUNDS), min_rtt),
            _ => Self::over(),
        }
    }

    /// A climb that is over before it begins.
    pub fn over() -> Self {
        Self::new(Phase::Over, Duration::ZERO)
    }

    fn new(phase: Phase, min_rtt: Duration) -> Self {
        Self {
            phase,
            tries: TRIES,
            kept_by: None,
            path_lost: Bytes(0),
            path_sent: Bytes(0),
            min_rtt,
            bw: Rate::default(),
            rtt: None,
            lost: Bytes(0),
            delivered: Bytes(0),
            mss: Bytes(0),
        }
    }

    /// The pacing gain; `None` unless the flow climbs.
    pub fn gain(&self) -> Option<Gain> {
        match self.phase {
            Phase::Step(gain) => Some(gain),
            Phase::Look(_) => Some(Gain::ONE),
            Phase::Settling(_) | Phase::Waiting(_) | Phase::Over => None,
        }
    }

    /// Takes in one report.
    pub fn observe(&mut self, m: &Measurement, mss: Bytes) {
        if let Some(rtt) = m.rtt {
            self.rtt = Some(self.rtt.map_or(rtt.min, |min| min.min(rtt.min)));
        }
        self.mss = mss;
        self.lost += m.lost.to_bytes(mss);
        self.delivered += m.delivered;
    }

    /// The share that the path loses without a queue.
    fn path_loss(&self) -> Gain {
        Gain(self.path_lost.0.saturating_mul(Gain::ONE.0) / self.path_sent.0.max(1))
    }

    /// What keeps an arm from its share while there is a queue or none.
    fn keeper(&self, has_queue: bool) -> Option<KeptBy> {
        if has_queue {
            return Some(KeptBy::Queue);
        }
        (self.path_loss() >= PATH_LOSS_MIN).then_some(KeptBy::Losses)
    }

    /// Whether a round of that much lost more than the path does by itself.
    fn is_lossy(&self, sent: Bytes) -> bool {
        let by_itself = match self.kept_by {
            Some(KeptBy::Losses) => {
                sent * self.path_loss() * PATH_LOSS_VARIES + self.mss + self.mss
            }
            _ => Bytes(0),
        };
        self.lost > sent * LOSS_MAX + by_itself
    }

    /// What a step of that gain must deliver, over what was delivered before it.
    fn enough(&self, gain: Gain) -> Gain {
        let more = (gain.0 - Gain::ONE.0) * DELIVERED.0 / Gain::ONE.0;
        let kept = match self.kept_by {
            Some(KeptBy::Losses) => Gain::ONE.0.saturating_sub(self.path_loss().0),
            _ => Gain::ONE.0,
        };
        Gain((Gain::ONE.0 + more) * kept / Gain::ONE.0)
    }

    /// A round has ended, with that bandwidth in force.
    pub fn end_round(&mut self, bw: Rate) -> Found {
        let sent = self.lost + self.delivered;
        let is_lossy = self.is_lossy(sent);
        let lost = std::mem::take(&mut self.lost);
        self.delivered = Bytes(0);
        let Some(rtt) = self.rtt.take() else { return Found::Nothing };
        let has_queue = rtt.saturating_mul(100) >= self.min_rtt.saturating_mul(QUEUE_PERCENT);
        if !has_queue && matches!(self.phase, Phase::Settling(_)) {
            self.path_lost += lost;
            self.path_sent += sent;
        }
        let first = match self.kept_by {
            Some(KeptBy::Losses) => (Phase::Step(STEP), Found::Nothing),
            _ => (Phase::Step(FIRST_STEP), Found::Queue(rtt)),
        };
        let (phase, found) = match self.phase {
            Phase::Over => (Phase::Over, Found::Nothing),
            Phase::Settling(0) if self.kept_by.is_none() => (Phase::Over, Found::Nothing),
            Phase::Settling(0) if self.kept_by == self.keeper(has_queue) => first,
            Phase::Settling(0) => (Phase::Over, Found::Nothing),
            Phase::Settling(left) => {
                if left + DRAINED_ROUND == SETTLING_ROUNDS {
                    self.kept_by = self.keeper(has_queue);
                }
                (Phase::Settling(left - 1), Found::Nothing)
            }
            Phase::Waiting(0) => first,
            Phase::Waiting(left) => (Phase::Waiting(left - 1), Found::Nothing),
            Phase::Step(gain) if !is_lossy => (Phase::Look(gain), Found::Nothing),
            Phase::Look(gain) if !is_lossy && bw >= self.bw * self.enough(gain) => {
                match self.kept_by {
                    Some(KeptBy::Losses) if has_queue => (Phase::Over, Found::Ended),
                    Some(KeptBy::Losses) => (Phase::Over, Found::Room),
                    _ => (Phase::Step(STEP), Found::Queue(rtt)),
                }
            }
            Phase::Step(_) | Phase::Look(_) => {
                self.tries -= 1;
                let is_last = self.tries == 0;
                (if is_last { Phase::Over } else { Phase::Waiting(WAIT_ROUNDS) }, Found::Ended)
            }
        };
        if matches!(phase, Phase::Step(_)) {
            self.bw = bw;
        }
        self.phase = phase;
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::RttSamples;
    use crate::script::{MSS, path};
    use crate::units::Packets;
    use crate::units::Time;

    const MIN_RTT: Duration = Duration::from_millis(40);
    const RATE: Rate = Rate::from_bytes_per_sec(100_000);

    /// A round of a hundred segments with that minimum round trip.
    fn round(climb: &mut Climb, rtt_ms: u64, bw: Rate, lost: u64) -> Found {
        let rtt = Some(RttSamples::one(Duration::from_millis(rtt_ms)));
        let delivered = Packets(100).to_bytes(MSS);
        let m = Measurement { rtt, delivered, lost: Packets(lost), ..Measurement::QUIET };
        climb.observe(&m, MSS);
        climb.end_round(bw)
    }

    /// A climb whose rounds, one after the other, have these minimum round trips.
    fn after(rtts_ms: &[u64]) -> Climb {
        let mut taken_over = path(10);
        let m = Measurement {
            rtt: Some(RttSamples::one(MIN_RTT)),
            delivery_rate: RATE,
            ..Measurement::QUIET
        };
        taken_over.observe(&m, Time(MIN_RTT));
        let mut climb = Climb::resume(&taken_over);
        for rtt_ms in rtts_ms {
            round(&mut climb, *rtt_ms, RATE, 0);
        }
        climb
    }

    #[test]
    fn behind_the_queue_of_others_it_steps_up_while_most_of_a_step_arrives() {
        let mut climb = after(&[200; 8]);
        assert_eq!(climb.gain(), None, "it has settled only now");
        let behind = Found::Queue(Duration::from_millis(200));
        assert_eq!(round(&mut climb, 200, RATE, 0), behind);
        let mut gains = vec![climb.gain()];
        let mut bw = RATE;
        // The data of a step arrives in the round after it.
        for delivered in [1_000, 1_240, 1_000, 1_350, 1_000, 1_290] {
            bw = bw * Gain(delivered);
            round(&mut climb, 200, bw, 0);
            gains.push(climb.gain());
        }
        let [step, next, look] = [FIRST_STEP, STEP, Gain::ONE].map(Some);
        assert_eq!(gains, [step, look, next, look, next, look, None]);
    }

    #[test]
    fn a_path_without_a_queue_of_others_is_not_climbed() {
        assert_eq!(after(&[42; 30]).gain(), None);
        // What the arm before had queued drains; what comes later may be BBR's own.
        let own = [100, 100, 42, 100, 100, 100, 100, 100, 100, 100];
        assert!((1..=own.len()).all(|rounds| after(&own[..rounds]).gain().is_none()));
    }

    #[test]
    fn where_the_path_loses_without_a_queue_a_step_that_arrives_shows_room() {
        let lossy = |rounds: u32| {
            let mut climb = after(&[]);
            (0..rounds).for_each(|_| assert_eq!(round(&mut climb, 41, RATE, 10), Found::Nothing));
            climb
        };
        let mut climb = lossy(9);
        assert_eq!(climb.gain(), Some(STEP));
        round(&mut climb, 41, RATE, 14);
        // A tenth of the step is lost, as of everything else.
        assert_eq!(round(&mut climb, 41, RATE * Gain(1_350), 14), Found::Room);
        assert_eq!(climb.gain(), None);
        // On a full link nothing more arrives, and what was sent is queued.
        let mut climb = lossy(9);
        round(&mut climb, 55, RATE, 14);
        assert_eq!(round(&mut climb, 62, RATE * Gain(1_020), 14), Found::Ended);
    }

    #[test]
    fn a_new_flow_does_not_climb() {
        let mut new = path(10);
        new.observe_rtt(MIN_RTT, MIN_RTT, MIN_RTT, 0);
        let mut climb = Climb::resume(&new);
        assert!((0..30).all(|_| round(&mut climb, 200, RATE, 0) == Found::Nothing));
    }

    #[test]
    fn it_ends_after_three_steps_that_found_nothing() {
        for lost in [0, 5] {
            let mut climb = after(&[200; 9]);
            let found: Vec<Found> = (0..30).map(|_| round(&mut climb, 200, RATE, lost)).collect();
            let ended = found.iter().filter(|it| **it == Found::Ended).count();
            assert_eq!((ended, climb.phase), (3, Phase::Over), "{lost} lost: {found:?}");
        }
    }
}
