//! Tells that the path has changed: by the paper's network, or by one of two tests beside it.
//!
//! The network compares the states of two steps of one arm. Its first finding is confirmed against
//! the same earlier step, so that a change that lasts is found again. CUSUM (E. S. Page,
//! "Continuous Inspection Schemes", Biometrika 1954) and ADWIN (A. Bifet and R. Gavaldà, "Learning
//! from Time-Changing Data with Adaptive Windowing", SDM 2007) read three series with a value for
//! each sample of half a second: the logarithms of throughput and round trip, and the loss.

use super::config::{DetectorKind, TcpRlConfig};
use super::networks::Networks;
use super::state::State;
use remuda_algorithms::network::State as Memory;
use remuda_algorithms::{Seen, Validity};
use std::collections::VecDeque;

/// The series of the two tests: ln throughput, ln round trip, loss.
const SERIES: usize = 3;
/// What each series is divided by: a factor of e in rate or delay counts as much as 10 % of loss.
const SPANS: [f64; SERIES] = [1.0, 1.0, 0.1];
/// CUSUM's mean is that of so many samples: one step.
const CUSUM_SAMPLES: u32 = 10;
/// Deviations below this do not add up: arms vary by a quarter from sample to sample.
const CUSUM_SLACK: f64 = 0.25;
/// Sums above this are a change.
const CUSUM_LIMIT: f64 = 3.0;
/// ADWIN's confidence: a false cut in 500 windows at most.
const ADWIN_DELTA: f64 = 0.002;
/// ADWIN compares halves of at least so many samples.
const ADWIN_LEAST: usize = 5;
/// The longest window of ADWIN: two minutes.
const ADWIN_MOST: usize = 240;

/// What a step says of the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    /// The probability of a change by the network; for a test, 1 after an alarm, else 0.
    pub probability: f64,
    /// The path counts as changed.
    pub is_change: bool,
}

const NOTHING: Finding = Finding { probability: 0.0, is_change: false };

/// What finds changes, for one flow and as long as one arm has it.
#[derive(Clone, Debug)]
pub struct Detector {
    kind: DetectorKind,
    changed_above: f64,
    agreements: u32,
    /// The step with which the next one is compared.
    last: Option<State>,
    found: u32,
    memory: Memory,
    cusums: [Cusum; SERIES],
    adwins: [Adwin; SERIES],
    alarmed: bool,
}

impl Detector {
    pub fn new(config: &TcpRlConfig) -> Self {
        Self {
            kind: config.detector,
            changed_above: config.changed_above,
            agreements: config.agreements,
            last: None,
            found: 0,
            memory: Memory::default(),
            cusums: Default::default(),
            adwins: Default::default(),
            alarmed: false,
        }
    }

    /// Another arm has the flow, or an alarm was answered: what came before does not count.
    pub fn restart(&mut self) {
        (self.last, self.found, self.alarmed) = (None, 0, false);
        self.cusums = Default::default();
        self.adwins.iter_mut().for_each(Adwin::clear);
    }

    /// Takes in a sample of half a second.
    pub fn sample(&mut self, seen: &Seen) {
        let sent = seen.throughput_mbit_per_sec + seen.lost_mbit_per_sec;
        let loss = if sent > 0.0 { seen.lost_mbit_per_sec / sent } else { 0.0 };
        let series = [
            libm::log(seen.throughput_mbit_per_sec.max(1e-3)),
            libm::log(seen.rtt_mean_ms.max(1e-3)),
            loss,
        ];
        for (index, (value, span)) in series.into_iter().zip(SPANS).enumerate() {
            let value = value / span;
            self.alarmed |= match self.kind {
                DetectorKind::Cusum => self.cusums[index].add(value),
                DetectorKind::Adwin => self.adwins[index].add(value),
                DetectorKind::Learned | DetectorKind::None => false,
            };
        }
    }

    /// Takes in a step of the arm at that place of the networks' list.
    pub fn step(&mut self, now: &State, place: usize, networks: &Networks) -> Finding {
        match self.kind {
            DetectorKind::None => NOTHING,
            DetectorKind::Cusum | DetectorKind::Adwin => {
                let alarm = std::mem::take(&mut self.alarmed);
                Finding { probability: if alarm { 1.0 } else { 0.0 }, is_change: alarm }
            }
            DetectorKind::Learned => self.compare(now, place, networks),
        }
    }

    fn compare(&mut self, now: &State, place: usize, networks: &Networks) -> Finding {
        let Some(last) = self.last else {
            self.last = Some(*now);
            return NOTHING;
        };
        let mut inputs = Vec::with_capacity(networks.change.inputs_len());
        inputs.extend(last.inputs());
        inputs.extend(now.inputs());
        inputs.extend((0..networks.arms().len()).map(|at| f32::from(u8::from(at == place))));
        let mut output = [0.0];
        let validity = networks.change.evaluate(&inputs, &mut self.memory, &mut output);
        // Outside the range of the training the probability means nothing.
        let is_known = validity == Validity::Inside;
        let probability = if is_known { f64::from(output[0]) } else { 0.0 };
        if probability > self.changed_above {
            self.found += 1;
        } else {
            (self.found, self.last) = (0, Some(*now));
        }
        Finding { probability, is_change: self.found >= self.agreements }
    }
}

/// Two-sided cumulative sums of what exceeds the slack around the mean of the first samples.
#[derive(Clone, Copy, Debug, Default)]
struct Cusum {
    count: u32,
    mean: f64,
    above: f64,
    below: f64,
}

impl Cusum {
    /// Takes in a value. Returns whether the mean has changed.
    fn add(&mut self, value: f64) -> bool {
        if self.count < CUSUM_SAMPLES {
            self.count += 1;
            self.mean += (value - self.mean) / f64::from(self.count);
            return false;
        }
        let off = value - self.mean;
        self.above = (self.above + off - CUSUM_SLACK).max(0.0);
        self.below = (self.below - off - CUSUM_SLACK).max(0.0);
        self.above.max(self.below) > CUSUM_LIMIT
    }
}

/// A window that drops its older part once the two parts' means differ beyond chance.
#[derive(Clone, Debug, Default)]
struct Adwin(VecDeque<f64>);

impl Adwin {
    fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes in a value. Returns whether the older part was dropped.
    fn add(&mut self, value: f64) -> bool {
        if self.0.len() == ADWIN_MOST {
            self.0.pop_front();
        }
        self.0.push_back(value);
        let Some(cut) = self.cut() else { return false };
        self.0.drain(..cut);
        true
    }

    /// Where the window is to be cut: section 2.2's bound with the variance of the window.
    fn cut(&self) -> Option<usize> {
        let count = self.0.len();
        if count < 2 * ADWIN_LEAST {
            return None;
        }
        let sum: f64 = self.0.iter().sum();
        let mean = sum / count as f64;
        let squares: f64 = self.0.iter().map(|value| (value - mean) * (value - mean)).sum();
        let variance = squares / count as f64;
        let log = libm::log(2.0 * count as f64 / ADWIN_DELTA);
        let mut older = 0.0;
        for (at, value) in self.0.iter().enumerate().take(count - ADWIN_LEAST) {
            older += value;
            let (first, second) = ((at + 1) as f64, (count - at - 1) as f64);
            if at + 1 < ADWIN_LEAST {
                continue;
            }
            let harmonic = 1.0 / (1.0 / first + 1.0 / second);
            let bound = libm::sqrt(2.0 / harmonic * variance * log) + 2.0 / 3.0 / harmonic * log;
            if (older / first - (sum - older) / second).abs() > bound {
                return Some(at + 1);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(throughput_mbit_per_sec: f64, rtt_mean_ms: f64) -> Seen {
        Seen { span_s: 0.5, throughput_mbit_per_sec, lost_mbit_per_sec: 0.0, rtt_mean_ms }
    }

    /// The seconds from a change of the path to the alarm.
    fn alarm_s(kind: DetectorKind, before: Seen, after: Seen) -> Option<f64> {
        let mut detector = Detector::new(&TcpRlConfig { detector: kind, ..Default::default() });
        for nth in 0..60 {
            let noise = 1.0 + 0.05 * f64::from(nth % 3 - 1);
            let throughput = before.throughput_mbit_per_sec * noise;
            detector.sample(&seen(throughput, before.rtt_mean_ms));
            assert!(!detector.alarmed, "{kind:?}: a false alarm at sample {nth}");
        }
        (1..=60).find_map(|nth: u32| {
            detector.sample(&after);
            detector.alarmed.then(|| f64::from(nth) / 2.0)
        })
    }

    #[test]
    fn both_tests_find_a_change_and_no_noise() {
        for kind in [DetectorKind::Cusum, DetectorKind::Adwin] {
            let far = alarm_s(kind, seen(10.0, 20.0), seen(100.0, 160.0));
            assert!(far.is_some_and(|it| it <= 15.0), "{kind:?}: {far:?}");
            assert_eq!(alarm_s(kind, seen(10.0, 20.0), seen(10.5, 20.0)), None, "{kind:?}");
        }
        assert_eq!(alarm_s(DetectorKind::None, seen(10.0, 20.0), seen(99.0, 90.0)), None);
    }

    #[test]
    fn what_an_arm_did_before_it_lost_the_flow_does_not_count() {
        let config = TcpRlConfig { detector: DetectorKind::Cusum, ..Default::default() };
        let mut detector = Detector::new(&config);
        (0..20).for_each(|_| detector.sample(&seen(10.0, 20.0)));
        detector.restart();
        (0..60).for_each(|_| detector.sample(&seen(100.0, 160.0)));
        assert!(!detector.alarmed);
    }
}
