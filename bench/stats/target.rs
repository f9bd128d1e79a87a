//! Rows of a table that compares figures with targets.

use super::Mean;
use std::fmt;

/// What a figure must be. It is met only if the whole interval is beyond it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
    Within(f64, f64),
    /// A figure for comparison, which has no target.
    Shown,
}

impl Target {
    /// `None` for a figure without a target.
    pub fn is_met(&self, got: &Mean) -> Option<bool> {
        match *self {
            Self::AtLeast(least) => Some(got.low >= least),
            Self::AtMost(most) => Some(got.high <= most),
            Self::Within(least, most) => Some(got.low >= least && got.high <= most),
            Self::Shown => None,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::AtLeast(least) => write!(f, "≥ {least}"),
            Self::AtMost(most) => write!(f, "≤ {most}"),
            Self::Within(least, most) => write!(f, "{least} to {most}"),
            Self::Shown => Ok(()),
        }
    }
}

/// A line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// The row of the paper's own list.
    pub id: &'static str,
    /// What is measured, and its unit.
    pub what: String,
    /// The paper's own figure, or what it says in words.
    pub paper: &'static str,
    pub target: Target,
    pub got: Mean,
}

impl Row {
    /// The line in Markdown.
    pub fn line(&self) -> String {
        let Self { id, what, paper, target, got } = self;
        let met = match target.is_met(got) {
            None => "",
            Some(true) => "yes",
            Some(false) => "**no**",
        };
        format!("| {id} | {what} | {paper} | {target} | {} | {met} |\n", got.text(3))
    }
}

/// How many targets are met, and how many there are.
pub fn count(rows: &[Row]) -> (usize, usize) {
    let verdicts = rows.iter().filter_map(|row| row.target.is_met(&row.got));
    verdicts.fold((0, 0), |(met, all), is_met| (met + usize::from(is_met), all + 1))
}

/// `12 of 13 targets met.`, and the table in Markdown.
pub fn table(rows: &[Row]) -> String {
    let (met, all) = count(rows);
    let lines: String = rows.iter().map(Row::line).collect();
    format!(
        "{met} of {all} targets met.\n\n\
         | row | figure | paper | target | got | met |\n|---|---|---|---|---|---|\n{lines}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_by_the_whole_interval() {
        let got = Mean { mean: 2.0, low: 1.0, high: 3.0 };
        for (target, is_met) in [
            (Target::AtLeast(1.0), Some(true)),
            (Target::AtLeast(2.0), Some(false)),
            (Target::AtMost(3.0), Some(true)),
            (Target::AtMost(2.0), Some(false)),
            (Target::Within(1.0, 3.0), Some(true)),
            (Target::Within(1.5, 3.0), Some(false)),
            (Target::Shown, None),
        ] {
            assert_eq!(target.is_met(&got), is_met, "{target}");
        }
    }
}
