//! The table's lines: the paper's figure, the target, our result. A line meets its target if its
//! central value does; the interval beside it shows the uncertainty.

mod networks;
mod others;

use crate::antelope::card::Card;
use crate::antelope::measure::{Measured, Settings};
use remuda_matrix::Interval;

/// The target of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// No target: the value is only shown.
    Shown,
    AtLeast(f64),
    AtMost(f64),
    Above(f64),
    /// From the first to the second value.
    Within(f64, f64),
}

impl Target {
    /// Whether a value meets the target; `None` without a target.
    pub fn is_met_by(self, value: f64) -> Option<bool> {
        match self {
            Self::Shown => None,
            Self::AtLeast(least) => Some(value >= least),
            Self::AtMost(most) => Some(value <= most),
            Self::Above(bound) => Some(value > bound),
            Self::Within(least, most) => Some((least..=most).contains(&value)),
        }
    }

    fn words(self) -> String {
        match self {
            Self::Shown => "–".to_owned(),
            Self::AtLeast(least) => format!("at least {least}"),
            Self::AtMost(most) => format!("at most {most}"),
            Self::Above(bound) => format!("above {bound}"),
            Self::Within(least, most) => format!("{least} to {most}"),
        }
    }
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The row of `docs/antelope.md`, A1 to A10.
    pub row: &'static str,
    pub what: String,
    pub paper: String,
    pub target: String,
    pub got: String,
    /// Whether the target is met; `None` without a target.
    pub met: Option<bool>,
}

impl Line {
    /// A line for a value with its number of digits.
    fn of(
        (row, what, paper): (&'static str, String, &str),
        target: Target,
        (value, digits): (Option<Interval>, usize),
    ) -> Self {
        let got = value.map_or_else(|| "none".to_owned(), |value| with_bounds(value, digits));
        let met = match value {
            Some(value) => target.is_met_by(value.middle),
            None => (target != Target::Shown).then_some(false),
        };
        Self { row, what, paper: paper.to_owned(), target: target.words(), got, met }
    }
}

/// For example `0.97 (0.95 to 0.99)`.
pub fn with_bounds(value: Interval, digits: usize) -> String {
    let Interval { middle, bounds } = value;
    let bounds = bounds.map(|[low, high]| format!(" ({low:.digits$} to {high:.digits$})"));
    format!("{middle:.digits$}{}", bounds.unwrap_or_default())
}

/// The measurements and their settings.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    pub measured: &'a Measured,
    pub settings: &'a Settings,
}

impl Table<'_> {
    /// Rows A1 to A10 from the simulator.
    pub fn lines(&self, card: Option<&Card>) -> Vec<Line> {
        let mut lines = self.wan();
        lines.extend(self.datacenter());
        lines.extend(self.cellular());
        lines.extend(self.overall());
        lines.extend(self.cubic_comes());
        lines.push(self.fairness());
        lines.push(self.friendliness());
        lines.extend(self.modes());
        lines.push(cost());
        lines.push(training(card));
        lines
    }

    /// Rows A1, A3, A5, A7 and A8 from real TCP.
    pub fn live_lines(&self) -> Vec<Line> {
        let mut lines = self.wan();
        lines.extend(self.cellular());
        lines.extend(self.cubic_comes());
        lines.push(self.friendliness());
        lines.extend(self.modes());
        lines
    }
}

fn cost() -> Line {
    Line {
        row: "A9",
        what: "what it costs".to_owned(),
        paper: "2 to 4.8 % of the processors, 140 ms a prediction".to_owned(),
        target: "p99 of a prediction below 1 ms, below 3 % of a core for 100 flows".to_owned(),
        got: "see below, what it costs".to_owned(),
        met: None,
    }
}

fn training(card: Option<&Card>) -> Line {
    Line {
        row: "A10",
        what: "training set".to_owned(),
        paper: "12 to 8000 Mbit/s, 1 to 100 ms, 0.1 to 6 BDP; more than 30 environments".to_owned(),
        target: "more than 30 environments, and others held out".to_owned(),
        got: card.map_or_else(|| "no model".to_owned(), Card::words),
        met: Some(card.is_some_and(|card| {
            let (trained, held_out) = card.counts();
            trained > 30 && held_out > 0
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_decides_and_what_is_missing_is_not_met() {
        let value = Interval { middle: 0.96, bounds: Some([0.9, 1.0]) };
        let line = |target, value| Line::of(("A1", "goodput".to_owned(), "1"), target, (value, 2));
        let met = line(Target::AtLeast(0.95), Some(value));
        assert_eq!((met.met, met.got.as_str()), (Some(true), "0.96 (0.90 to 1.00)"));
        assert_eq!(line(Target::AtMost(0.95), Some(value)).met, Some(false));
        assert_eq!(line(Target::Above(0.96), Some(value)).met, Some(false));
        assert_eq!(line(Target::Within(0.4, 0.6), None).met, Some(false));
        assert_eq!(line(Target::Shown, Some(value)).met, None);
        assert_eq!(line(Target::Shown, None).got, "none");
    }
}
