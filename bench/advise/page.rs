//! The page of verdicts.

use crate::stats::sorted;
use remuda::Verdict;

/// A path with the verdict on it and the truth.
#[derive(Clone, Debug)]
pub struct Judged {
    pub path: String,
    pub neighbours: String,
    /// Flows in the log.
    pub flows: usize,
    pub verdict: Verdict,
    /// The true gain of the verdict's arm in percent, and its standard error in points.
    pub truth: Option<(f64, f64)>,
}

impl Judged {
    fn interval(&self) -> Option<(f64, f64)> {
        match self.verdict {
            Verdict::Gain { least_percent, most_percent, .. } => {
                Some((least_percent, most_percent))
            }
            Verdict::CannotSay { .. } => None,
        }
    }

    /// Whether the interval has the true gain; `None` without a verdict.
    pub fn covers(&self) -> Option<bool> {
        let ((least, most), (gain, _)) = (self.interval()?, self.truth?);
        Some((least..=most).contains(&gain))
    }

    /// Whether the sign is right; `None` if the verdict names none.
    pub fn sign(&self) -> Option<bool> {
        let ((least, most), (gain, _)) = (self.interval()?, self.truth?);
        let has_sign = least > 0.0 || most < 0.0;
        has_sign.then_some((least > 0.0) == (gain > 0.0))
    }

    fn row(&self) -> String {
        let verdict = match &self.verdict {
            Verdict::Gain { arm, least_percent, most_percent, .. } => {
                format!("{arm} {least_percent:+.0} to {most_percent:+.0} %")
            }
            Verdict::CannotSay { why, flows_missing } => {
                let missing = flows_missing.map(|count| format!("{count} flows more"));
                format!("cannot say: {}", missing.as_ref().unwrap_or(why))
            }
        };
        let truth = self
            .truth
            .map_or(String::new(), |(gain, error)| format!("{gain:+.1} ± {:.1} %", 1.96 * error));
        let covers = match self.covers() {
            None => "",
            Some(true) => "yes",
            Some(false) => "**no**",
        };
        let Self { path, neighbours, flows, .. } = self;
        format!("| {path} | {neighbours} | {flows} | {verdict} | {truth} | {covers} |\n")
    }
}

fn line(what: &str, got: &str, target: &str, is_met: bool) -> String {
    let met = if is_met { "yes" } else { "**no**" };
    format!("| {what} | {got} | {target} | {met} |\n")
}

/// The figures beside their targets, and one row for each path.
pub fn tables(all: &[Judged]) -> String {
    let said: Vec<&Judged> = all.iter().filter(|it| it.covers().is_some()).collect();
    let covered = said.iter().filter(|it| it.covers() == Some(true)).count();
    let signs: Vec<bool> = all.iter().filter_map(Judged::sign).collect();
    let right = signs.iter().filter(|is_right| **is_right).count();
    let widths = sorted(said.iter().filter_map(|it| it.interval()).map(|(a, b)| b - a));
    let width = widths.get(widths.len() / 2).copied().unwrap_or(f64::INFINITY);
    let silent = all.len() - said.len();
    let of = |part: usize, whole: usize| {
        format!("{part} of {whole} ({:.0} %)", 100.0 * part as f64 / whole.max(1) as f64)
    };
    let mut text = "| figure | got | target | met |\n|---|---|---|---|\n".to_owned();
    text += &line(
        "95 % intervals that have the true gain",
        &of(covered, said.len()),
        "≥ 90 %",
        10 * covered >= 9 * said.len(),
    );
    text += &line("median width, in points", &format!("{width:.0}"), "≤ 30", width <= 30.0);
    text += &line(
        "verdicts with a sign whose sign is right",
        &of(right, signs.len()),
        "≥ 90 %",
        10 * right >= 9 * signs.len(),
    );
    text += &line(
        "paths of which it cannot say",
        &of(silent, all.len()),
        "at most a third",
        3 * silent <= all.len(),
    );
    text += "\n| path | neighbours | flows | verdict | true gain | covered |\n";
    text += "|---|---|---|---|---|---|\n";
    text.extend(all.iter().map(Judged::row));
    text
}
