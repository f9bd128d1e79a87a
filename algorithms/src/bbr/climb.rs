//! How BBR finds its share after it has taken over a flow from an arm that was left with little.
//!
//! Beside others that keep a queue, the arm before may have yielded to them. Probing for a quarter
//! more in each eighth round trip would then take a minute, since the round trips are long. So the
//! flow climbs: a round trip at a higher rate, a round trip at the measured rate, and again while
//! most of the increase is delivered.
//!
//! A young flow may have far less than its share, whatever its round trips show: if others kept a
//! queue before the flow began, the flow has seen no round trip without that queue. If most of a
//! first step is delivered, BBR goes on with STARTUP, as a new flow would.
//!
//! Not in BBR, which begins a flow with STARTUP.

use crate::measurement::Measurement;
use crate::path::{PathState, SETTLE_RTTS_OF_YOUNG};
use crate::units::{Bytes, Gain, Rate};
use std::time::Duration;

/// The guard limits the rate for so many round trips after a switch (`settle_rtts`), unless the
/// flow is young: then for [`SETTLE_RTTS_OF_YOUNG`].
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
    /// A young flow has less than its share.
    Room,
    /// A step ends, and none follows for now.
    Ended,
}

/// The climb of one flow.
#[derive(Clone, Copy, Debug)]
pub struct Climb {
    phase: Phase,
    tries: u32,
    is_young: bool,
    /// When BBR had drained its own queue, the queue of others stood.
    is_behind: bool,
    /// The path's minimum RTT at the switch.
    min_rtt: Duration,
    /// The bandwidth before the step.
    bw: Rate,
    /// Of the round so far.
    rtt: Option<Duration>,
    lost: Bytes,
    delivered: Bytes,
}

impl Climb {
    /// On the path of a flow that is taken over. A new flow does not climb: its handshake has
    /// measured a round trip, but no rate.
    pub fn resume(path: &PathState) -> Self {
        let (Some(_), Some(min_rtt)) = (path.delivery_rate(), path.rtt_min_long()) else {
            return Self::over();
        };
        let is_young = path.is_young();
        let settling = if is_young { SETTLE_RTTS_OF_YOUNG } else { SETTLING_ROUNDS };
        Self { is_young, min_rtt, phase: Phase::Settling(settling), ..Self::over() }
    }

    /// A climb that is over before it begins.
    pub fn over() -> Self {
        Self {
            phase: Phase::Over,
            tries: TRIES,
            is_young: false,
            is_behind: false,
            min_rtt: Duration::ZERO,
            bw: Rate::default(),
            rtt: None,
            lost: Bytes(0),
            delivered: Bytes(0),
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
        self.lost += m.lost.to_bytes(mss);
        self.delivered += m.delivered;
    }

    /// A round has ended, with that bandwidth in force.
    pub fn end_round(&mut self, bw: Rate) -> Found {
        let sent = self.lost + self.delivered;
        let is_lossy = self.lost > sent * LOSS_MAX;
        (self.lost, self.delivered) = (Bytes(0), Bytes(0));
        let Some(rtt) = self.rtt.take() else { return Found::Nothing };
        let has_queue = rtt.saturating_mul(100) >= self.min_rtt.saturating_mul(QUEUE_PERCENT);
        let step = |gain| {
            let found = if has_queue { Found::Queue(rtt) } else { Found::Nothing };
            (Phase::Step(gain), found)
        };
        let (phase, found) = match self.phase {
            Phase::Over => (Phase::Over, Found::Nothing),
            Phase::Settling(0) if self.is_young => step(FIRST_STEP),
            Phase::Settling(0) if self.is_behind && has_queue => step(FIRST_STEP),
            Phase::Settling(0) => (Phase::Over, Found::Nothing),
            Phase::Settling(left) => {
                if left + DRAINED_ROUND == SETTLING_ROUNDS {
                    self.is_behind = has_queue;
                }
                (Phase::Settling(left - 1), Found::Nothing)
            }
            Phase::Waiting(0) => step(FIRST_STEP),
            Phase::Waiting(left) => (Phase::Waiting(left - 1), Found::Nothing),
            Phase::Step(gain) if !is_lossy => (Phase::Look(gain), Found::Nothing),
            Phase::Look(gain) if !is_lossy && bw >= self.bw * enough(gain) => {
                if self.is_young {
                    (Phase::Over, Found::Room)
                } else {
                    step(STEP)
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

/// What a step of that gain must deliver, over what was delivered before it.
fn enough(gain: Gain) -> Gain {
    Gain(Gain::ONE.0 + (gain.0 - Gain::ONE.0) * DELIVERED.0 / Gain::ONE.0)
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

    /// A flow of so many round trips that is taken over.
    fn taken_over(rounds: u32) -> Climb {
        let mut path = path(10);
        let m = Measurement {
            rtt: Some(RttSamples::one(MIN_RTT)),
            delivered: MSS,
            delivery_rate: RATE,
            ..Measurement::QUIET
        };
        (1..=rounds).for_each(|round| path.observe(&m, Time(MIN_RTT * round)));
        Climb::resume(&path)
    }

    /// A climb whose rounds, one after the other, have these minimum round trips.
    fn after(rtts_ms: &[u64]) -> Climb {
        let mut climb = taken_over(50);
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
    fn a_young_flow_starts_up_if_a_step_arrives_and_else_tries_three_times() {
        for (delivered, want) in [(1_200, Some(Found::Room)), (1_100, None)] {
            let mut climb = taken_over(5);
            let mut bw = RATE;
            let found: Vec<Found> = (0..30)
                .map(|_| {
                    // What is sent in a step arrives in the round after it.
                    let looks = matches!(climb.phase, Phase::Look(_));
                    bw = if looks { RATE * Gain(delivered) } else { RATE };
                    round(&mut climb, 42, bw, 0)
                })
                .collect();
            assert_eq!(found.iter().find(|it| **it == Found::Room).copied(), want, "{found:?}");
            let ended = found.iter().filter(|it| **it == Found::Ended).count();
            assert_eq!((ended, climb.phase), (if want.is_some() { 0 } else { 3 }, Phase::Over));
        }
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
