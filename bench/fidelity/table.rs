//! Ratios and their table, as Markdown: it goes into the docs as it is.

use crate::run::{Figures, PAUSES, REORDERING, Round, Scenario, Trouble};
use crate::{Args, DELAY_TOLERANCE, GOODPUT_TOLERANCE, TROUBLE_TOLERANCE};
use remuda_bench::stats::Spread;
use remuda_live::STOLEN_MAX;
use std::fmt::Write;

/// A queue of this length is noise: a few packets' time at the bottleneck.
const DELAY_FLOOR_MS: f64 = 1.0;

#[derive(Clone, Debug)]
pub struct Verdict {
    scenario: Scenario,
    rounds: usize,
    goodput: [f64; 2],
    delay_ms: [f64; 2],
    retransmitted: [f64; 2],
    goodput_ratio: Spread,
    delay_ratio: Spread,
    /// The kernel's own against itself.
    control_ratio: Option<Spread>,
    /// Runs of all, of which too much was stolen.
    disturbed: (usize, usize),
}

impl Verdict {
    pub fn of(scenario: Scenario, rounds: &[Round]) -> Self {
        let medians = |figure: fn(&Figures) -> f64| {
            let kernel = Spread::of(rounds.iter().map(|round| figure(&round.kernel))).median;
            let ours = Spread::of(rounds.iter().map(|round| figure(&round.ours))).median;
            [kernel, ours]
        };
        let ratio = |figure: fn(&Figures) -> f64| {
            Spread::of(rounds.iter().map(|round| figure(&round.ours) / figure(&round.kernel)))
        };
        let sides = |round: &Round| [Some(round.kernel), Some(round.ours), round.again];
        let runs = rounds.iter().flat_map(sides).flatten();
        let delay = |figures: &Figures| figures.queueing_p95_ms.max(DELAY_FLOOR_MS);
        let control = |round: &Round| Some(delay(&round.again?) / delay(&round.kernel));
        Self {
            scenario,
            rounds: rounds.len(),
            goodput: medians(|f| f.goodput_mbit_per_sec),
            delay_ms: medians(|f| f.queueing_p95_ms),
            retransmitted: medians(|f| f.retransmitted_pkts.into()),
            goodput_ratio: ratio(|f| f.goodput_mbit_per_sec),
            delay_ratio: ratio(delay),
            control_ratio: Spread::of_any(rounds.iter().filter_map(control)),
            disturbed: (runs.clone().filter(|run| run.stolen > STOLEN_MAX).count(), runs.count()),
        }
    }

    /// Whether both medians lie within their bounds.
    pub fn met(&self) -> bool {
        if self.scenario.trouble != Trouble::None {
            let [kernel, ours] = self.retransmitted;
            return (self.goodput_ratio.median - 1.0).abs() <= TROUBLE_TOLERANCE
                && (ours - kernel).abs() <= TROUBLE_TOLERANCE * kernel;
        }
        (self.goodput_ratio.median - 1.0).abs() <= GOODPUT_TOLERANCE
            && (self.delay_ratio.median - 1.0).abs() <= DELAY_TOLERANCE
    }
}

/// The table's head, with what makes it repeatable.
pub fn head(args: &Args) -> String {
    let Args { seconds, seed, .. } = args;
    format!(
        "{seconds} s a run, seeds from {seed}.\n\
         Bounds: goodput within {} %, 95th percentile of the queueing delay within {} %, where a\n\
         delay below {DELAY_FLOOR_MS} ms counts as {DELAY_FLOOR_MS} ms. With reordering or\n\
         pauses: goodput and segments sent again within {} %.\n\n\
         | arm | Mbit/s | buffer | rounds | goodput kernel / ours (Mbit/s) | ratio (spread) | \
         p95 queue kernel / ours (ms) | ratio (spread) | kernel's again | \
         retransmitted kernel / ours | disturbed runs | |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|",
        GOODPUT_TOLERANCE * 100.0,
        DELAY_TOLERANCE * 100.0,
        TROUBLE_TOLERANCE * 100.0
    )
}

/// One line of it.
pub fn row(v: &Verdict) -> String {
    let (s, rounds) = (&v.scenario, v.rounds);
    let beside = match s.mark_above_packets() {
        Some(packets) => format!(", marks above {packets} packets"),
        None if s.loss_percent > 0.0 => format!(" + {} % loss", s.loss_percent),
        None if s.trouble == Trouble::Reordering => {
            format!(", {} % {} ms late", REORDERING.percent, REORDERING.extra_ms)
        }
        None if s.trouble == Trouble::Idle => format!(", {:?} pauses", PAUSES.pause),
        None => String::new(),
    };
    let spread = |r: &Spread| match rounds {
        1 => format!("{:.3}", r.median),
        _ => format!("{:.3} ({:.3}–{:.3})", r.median, r.low, r.high),
    };
    let mut out =
        format!("| {} | {} | {} BDP{beside} | {rounds} ", s.arm, s.rate_mbit_per_sec, s.buffer_bdp);
    let [kernel, ours] = v.goodput;
    let _ = write!(out, "| {kernel:.2} / {ours:.2} | {} ", spread(&v.goodput_ratio));
    let [kernel, ours] = v.delay_ms;
    let _ = write!(out, "| {kernel:.1} / {ours:.1} | {} ", spread(&v.delay_ratio));
    let control = v.control_ratio.as_ref().map(spread).unwrap_or_default();
    let [kernel, ours] = v.retransmitted;
    let met = if v.met() { "met" } else { "**missed**" };
    let (disturbed, runs) = v.disturbed;
    let _ = write!(out, "| {control} | {kernel:.0} / {ours:.0} | {disturbed} of {runs} | {met} |");
    out
}
