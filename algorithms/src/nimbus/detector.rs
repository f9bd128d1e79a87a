//! Whether the cross traffic is elastic: whether it answers this flow's pulses.
//!
//! Elastic traffic gives way to a pulse and comes back a round trip later, so its rate has a peak
//! at the pulses' frequency; traffic that does not look at the queue has none.
//!
//! The frequencies that matter are some forty of 512: they are summed one by one, with sines of
//! libm, so that the same history gives the same bits on any machine.

use crate::units::Time;
use std::collections::VecDeque;
use std::f64::consts::TAU;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(10);
/// As many steps as the transform takes: the power of two above five seconds (section 4).
const POINTS: usize = 512;
/// Cross traffic answers a pulse two round trips after the sender has it: so much history more.
const MORE: usize = 512;
/// How often the transform is made.
const INTERVAL: Duration = Duration::from_millis(50);
/// Weight of a new value: the authors' 0.01 each 5 ms.
const WEIGHT: f64 = 0.1;
/// Before this, nothing is known; before that, nothing is decided.
const FIRST_LOOK: Duration = Duration::from_secs(10);
const FIRST_VERDICT: Duration = Duration::from_secs(15);
/// The authors' thresholds: elastic above, inelastic below.
const ELASTIC: f64 = 2.25;
const INELASTIC: f64 = 2.0;
/// Cross traffic below this share of the link is none; above that one, the link is theirs.
const NO_CROSS: f64 = 0.1;
const ALL_CROSS: f64 = 0.9;
const ALL_CROSS_VALUE: f64 = 6.0;
/// A peak below this share of the pulse's own is weak.
const WEAK: f64 = 0.25;
const WEAK_VALUE: f64 = 3.0;
/// The pulses do not show in what is delivered: no verdict.
const PULSE_MIN: f64 = 2.0;
const UNKNOWN_VALUE: f64 = 3.0;

/// One step of the history, in bytes a second and seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// The cross traffic's rate.
    pub cross: f64,
    /// What the link delivers to others.
    pub others: f64,
    pub rtt_s: f64,
    /// What is delivered to this flow.
    pub delivered: f64,
}

/// What the detector says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Elastic,
    Inelastic,
}

/// The detector of one flow.
#[derive(Clone, Debug)]
pub struct Detector {
    history: VecDeque<Sample>,
    started: Time,
    next_step: Time,
    next_look: Time,
    elasticity: f64,
}

impl Detector {
    pub fn new(now: Time) -> Self {
        Self {
            history: VecDeque::new(),
            started: now,
            next_step: now,
            next_look: now,
            elasticity: 1.0,
        }
    }

    /// The history goes on with this sample, until now.
    pub fn push(&mut self, sample: Sample, now: Time) {
        if now - self.next_step > STEP * (POINTS + MORE) as u32 {
            self.history.clear(); // a long silence is no history
            self.next_step = now;
        }
        while self.next_step <= now {
            if self.history.len() == POINTS + MORE {
                self.history.pop_front();
            }
            self.history.push_back(sample);
            let next = self.next_step + STEP;
            if next == self.next_step {
                break; // the end of time
            }
            self.next_step = next;
        }
    }

    /// What was delivered so long ago, or as long as it goes back.
    pub fn delivered_before(&self, span: Duration) -> Option<f64> {
        let steps = usize::try_from(span.as_millis() / STEP.as_millis()).unwrap_or(usize::MAX);
        let at = self.history.len().saturating_sub(steps.max(1));
        self.history.get(at).map(|sample| sample.delivered)
    }

    /// The verdict, with pulses of `frequency` in Hz on a link of `link` bytes a second.
    pub fn verdict(&mut self, frequency: f64, link: f64, now: Time) -> Option<Verdict> {
        if now < self.next_look || now - self.started < FIRST_LOOK {
            return None;
        }
        self.next_look = now + INTERVAL;
        self.look(frequency, link)?;
        if now - self.started < FIRST_VERDICT {
            return None;
        }
        match self.elasticity {
            e if e > ELASTIC => Some(Verdict::Elastic),
            e if e < INELASTIC => Some(Verdict::Inelastic),
            _ => None,
        }
    }

    fn look(&mut self, frequency: f64, link: f64) -> Option<()> {
        let start = self.history.len().checked_sub(POINTS + 100)?;
        let (mut cross, mut others) = ([0.0; POINTS], [0.0; POINTS]);
        let window = self.history.range(start..start + POINTS);
        for (i, sample) in window.enumerate() {
            let rtts = 2.0 * sample.rtt_s / STEP.as_secs_f64();
            let shifted = start + i + rtts.min(MORE as f64) as usize;
            (cross[i], others[i]) = (self.history.get(shifted)?.cross, sample.others);
        }
        let recent = &cross[POINTS * 3 / 4..];
        let mean = recent.iter().sum::<f64>() / recent.len() as f64;
        if mean < NO_CROSS * link {
            self.elasticity = 0.0;
        } else if mean > ALL_CROSS * link {
            self.pull(ALL_CROSS_VALUE);
        }
        let (near, beside) =
            ((frequency - 0.5, frequency + 0.5), (frequency + 1.5, 2.0 * frequency - 0.5));
        let (peak, other) = (peak(&cross, near), peak(&cross, beside));
        let (pulse, noise) = (self::peak(&others, near), self::peak(&others, beside));
        let mut elasticity = peak / other.max(f64::MIN_POSITIVE);
        if peak < WEAK * pulse {
            elasticity = elasticity.min(WEAK_VALUE) * (peak / pulse / WEAK).min(1.0);
        }
        self.pull(elasticity.min(100.0));
        if pulse < PULSE_MIN * noise {
            self.pull(UNKNOWN_VALUE);
        }
        Some(())
    }

    fn pull(&mut self, value: f64) {
        self.elasticity += WEIGHT * (value - self.elasticity);
    }
}

/// The largest magnitude of the transform above the first and up to the second frequency, in Hz.
fn peak(values: &[f64], (above, up_to): (f64, f64)) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let hz = 1.0 / (values.len() as f64 * STEP.as_secs_f64());
    let (first, last) = ((above / hz) as usize + 1, (up_to / hz) as usize);
    (first..=last).map(|bin| magnitude(values, mean, bin)).fold(0.0, f64::max)
}

fn magnitude(values: &[f64], mean: f64, bin: usize) -> f64 {
    // Goertzel's recurrence.
    let coefficient = 2.0 * libm::cos(TAU * bin as f64 / values.len() as f64);
    let (mut last, mut before) = (0.0, 0.0);
    for value in values {
        (last, before) = (value - mean + coefficient * last - before, last);
    }
    libm::sqrt((last * last + before * before - coefficient * last * before).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty seconds in which the cross traffic's rate is that; the pulse is this flow's.
    fn verdict(cross: impl Fn(f64) -> f64) -> Option<Verdict> {
        let mut detector = Detector::new(Time::ZERO);
        let mut last = None;
        for ms in (0..20_000).step_by(10) {
            let t = ms as f64 / 1e3;
            let pulse = libm::sin(TAU * 5.0 * t);
            let sample = Sample {
                cross: cross(t),
                others: 50.0 + 10.0 * pulse,
                rtt_s: 0.04,
                delivered: 1.0,
            };
            let now = Time(Duration::from_millis(ms));
            detector.push(sample, now);
            last = detector.verdict(5.0, 100.0, now).or(last);
        }
        last
    }

    #[test]
    fn traffic_that_answers_the_pulses_is_elastic() {
        let answers = |t: f64| 50.0 - 8.0 * libm::sin(TAU * 5.0 * (t - 0.08));
        assert_eq!(verdict(answers), Some(Verdict::Elastic));
    }

    #[test]
    fn traffic_that_does_not_is_inelastic() {
        let hums = |t: f64| 50.0 + 3.0 * libm::sin(TAU * 7.3 * t) + libm::sin(TAU * 1.1 * t);
        assert_eq!(verdict(hums), Some(Verdict::Inelastic));
        assert_eq!(verdict(|_| 0.0), Some(Verdict::Inelastic));
    }

    #[test]
    fn the_magnitude_of_a_sine_is_half_its_length() {
        let sine: Vec<f64> = (0..512).map(|i| libm::sin(TAU * 26.0 * i as f64 / 512.0)).collect();
        assert!((magnitude(&sine, 0.0, 26) - 256.0).abs() < 1e-6);
        assert!(magnitude(&sine, 0.0, 40) < 1e-6);
    }
}
