//! Decides whether the simulator agrees with real TCP.

use crate::sim_to_real::measure::{Figures, Measured, Side, of};
use crate::stats::Spread;
use remuda_scenarios::Scenario;

/// Largest relative difference of the goodput from the live value.
pub const GOODPUT_TOLERANCE: f64 = 0.05;
/// Largest relative difference of the queueing delay's 95th percentile from the live value,
pub const DELAY_TOLERANCE: f64 = 0.10;
pub const DELAY_TOLERANCE_MS: f64 = 2.0;
/// Largest factor, up or down, between the numbers of segments sent again,
pub const RETRANSMITTED_FACTOR: f64 = 1.5;
/// unless the counts differ by fewer than this: a short run may have a single event more or less.
pub const RETRANSMITTED_FLOOR_PKTS: f64 = 10.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    Goodput,
    /// 95th percentile of the queueing delay, in milliseconds.
    Delay,
    Retransmitted,
}

impl Figure {
    pub const ALL: [Self; 3] = [Self::Goodput, Self::Delay, Self::Retransmitted];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::Delay => "delay",
            Self::Retransmitted => "retransmitted",
        }
    }

    fn of(self, figures: &Figures) -> f64 {
        match self {
            Self::Goodput => figures.goodput_mbit_per_sec,
            Self::Delay => figures.queueing_p95_ms,
            Self::Retransmitted => figures.retransmitted_pkts as f64,
        }
    }

    /// Whether `sim` is within the bound around `live`.
    pub fn is_within(self, sim: f64, live: f64) -> bool {
        let apart = (sim - live).abs();
        match self {
            Self::Goodput => apart <= GOODPUT_TOLERANCE * live,
            Self::Delay => apart <= (DELAY_TOLERANCE * live).max(DELAY_TOLERANCE_MS),
            Self::Retransmitted => {
                apart < RETRANSMITTED_FLOOR_PKTS
                    || (sim <= live * RETRANSMITTED_FACTOR && live <= sim * RETRANSMITTED_FACTOR)
            }
        }
    }
}

/// The simulator compared with one live side, in one figure.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// The simulator's median over rounds divided by the live value of each round; `None` if one of
    /// these values is zero.
    pub ratio: Option<Spread>,
    /// Whether the medians are within bounds.
    pub is_met: bool,
}

/// One figure of all sides.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub figure: Figure,
    /// Medians over rounds: the kernel's side, ours, the simulator's.
    pub medians: [f64; 3],
    /// The comparison with the kernel's side, and with ours.
    pub against: [Comparison; 2],
}

#[derive(Clone, Debug)]
pub struct Verdict {
    pub scenario: String,
    /// In the order of [`Figure::ALL`].
    pub rows: Vec<Row>,
    /// Number of runs that other work disturbed.
    pub disturbed: usize,
}

impl Verdict {
    /// The verdict on a scenario's runs; `None` if a side has no run.
    pub fn of(scenario: &Scenario, measured: &[Measured]) -> Option<Self> {
        let values = |side, figure: Figure| -> Vec<f64> {
            of(measured, scenario, side).into_values().map(|figures| figure.of(figures)).collect()
        };
        let row = |figure| {
            let [kernel, ours, sim] =
                [Side::Kernel, Side::Ours, Side::Sim].map(|side| values(side, figure));
            let median = |values: &[f64]| Some(Spread::of_any(values.iter().copied())?.median);
            let medians = [median(&kernel)?, median(&ours)?, median(&sim)?];
            let compared = |live: &[f64], median: f64| Comparison {
                ratio: (!live.contains(&0.0))
                    .then(|| Spread::of_any(live.iter().map(|live| medians[2] / live)))
                    .flatten(),
                is_met: figure.is_within(medians[2], median),
            };
            let against = [compared(&kernel, medians[0]), compared(&ours, medians[1])];
            Some(Row { figure, medians, against })
        };
        let is_disturbed =
            |it: &&Measured| it.key.scenario == scenario.name && it.ran.is_disturbed();
        Some(Self {
            scenario: scenario.name.clone(),
            rows: Figure::ALL.into_iter().map(row).collect::<Option<_>>()?,
            disturbed: measured.iter().filter(is_disturbed).count(),
        })
    }

    /// The figures outside their bounds, against a live side: 0 is the kernel's, 1 is ours.
    pub fn missed(&self, against: usize) -> Vec<Figure> {
        let missed = self.rows.iter().filter(|row| !row.against[against].is_met);
        missed.map(|row| row.figure).collect()
    }

    /// Whether everything is within bounds, against both live sides.
    pub fn is_met(&self) -> bool {
        self.missed(0).is_empty() && self.missed(1).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim_to_real::measure::{Key, Ran};

    #[test]
    fn bounds_are_those_promised() {
        for (figure, sim, live, want) in [
            (Figure::Goodput, 10.5, 10.0, true),
            (Figure::Goodput, 9.49, 10.0, false),
            (Figure::Delay, 110.0, 100.0, true),
            (Figure::Delay, 111.0, 100.0, false),
            (Figure::Delay, 4.0, 2.0, true),
            (Figure::Delay, 4.1, 2.0, false),
            (Figure::Retransmitted, 150.0, 100.0, true),
            (Figure::Retransmitted, 100.0, 150.0, true),
            (Figure::Retransmitted, 151.0, 100.0, false),
            (Figure::Retransmitted, 0.0, 9.0, true),
            (Figure::Retransmitted, 0.0, 10.0, false),
            (Figure::Retransmitted, 20.0, 11.0, true),
        ] {
            assert_eq!(figure.is_within(sim, live), want, "{figure:?} {sim} for {live}");
        }
    }

    #[test]
    fn a_verdict_is_of_medians_and_says_the_spread() {
        let text = "duration_s = 1\n[links.down]\ndelay_ms = 1\n[links.up]\n[[flows]]\n";
        let scenario = Scenario::parse(text, "x").expect("a scenario");
        let measured = |side, seed, goodput_mbit_per_sec, retransmitted_pkts| Measured {
            key: Key { scenario: "x".to_owned(), duration_s: 1.0, seed, side, in_guest: false },
            ran: Ran {
                figures: Figures { goodput_mbit_per_sec, queueing_p95_ms: 5.0, retransmitted_pkts },
                lost_by_host: u64::from(seed == 2),
                stolen: 0.0,
            },
        };
        let mut all = vec![measured(Side::Sim, 1, 10.0, 0)];
        assert!(Verdict::of(&scenario, &all).is_none(), "no live side");
        for (seed, goodput) in [(1, 10.2), (2, 5.0), (3, 10.4)] {
            all.push(measured(Side::Kernel, seed, goodput, 0));
            all.push(measured(Side::Ours, seed, goodput + 1.0, 3));
        }
        let verdict = Verdict::of(&scenario, &all).expect("all sides");
        assert_eq!(verdict.rows[0].medians, [10.2, 11.2, 10.0]);
        assert_eq!((verdict.missed(0), verdict.missed(1)), (vec![], vec![Figure::Goodput]));
        let ratio = verdict.rows[0].against[0].ratio.expect("none is zero");
        assert_eq!((ratio.low, ratio.high), (10.0 / 10.4, 2.0));
        assert!(verdict.rows[2].against[0].ratio.is_none(), "a ratio to nothing");
        assert_eq!((verdict.disturbed, verdict.is_met()), (2, false));
    }
}
