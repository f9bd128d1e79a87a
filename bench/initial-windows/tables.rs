//! The tables of the page, from the measured days.

use crate::day::{Measured, Recorded, Seen};
use crate::policies::{POLICIES, Policy};
use remuda_bench::initial_windows::scene::{GROUPS, groups};
use remuda_bench::stats::target::{Row, Target};
use remuda_bench::stats::{Mean, percentile, sorted};
use std::fmt::Write;

/// The percentiles of figure 9b.
const PERCENTS: [f64; 5] = [50.0, 80.0, 90.0, 95.0, 99.0];

/// The days of every policy, in the order of [`POLICIES`]; of each, one day for each seed.
pub struct Days(pub Vec<Vec<Measured>>);

/// Which responses of a connection a table counts.
type Which = fn(&Seen) -> bool;

fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) =
        values.into_iter().fold((0.0, 0.0), |(sum, count), it| (sum + it, count + 1.0));
    sum / count
}

fn mean_ms(day: &Measured, which: impl Fn(&Seen) -> bool) -> f64 {
    mean(day.seen.iter().filter(|seen| which(seen)).map(|seen| seen.took_ms))
}

fn percentile_ms(day: &Measured, which: Which, percent: f64) -> f64 {
    let counted = day.seen.iter().filter(|seen| which(seen));
    percentile(&sorted(counted.map(|seen| seen.took_ms)), percent)
}

fn percent(of: &Mean) -> String {
    Mean { mean: of.mean * 100.0, low: of.low * 100.0, high: of.high * 100.0 }.text(1)
}

impl Days {
    fn of(&self, policy: Policy) -> &[Measured] {
        let at = POLICIES.iter().position(|it| *it == policy);
        &self.0[at.expect("every policy is measured")]
    }

    /// The relative difference between `of` of the policy and that of IW10, by seed.
    fn over_standard(&self, policy: Policy, of: impl Fn(&Measured) -> f64) -> Vec<f64> {
        let pairs = self.of(policy).iter().zip(self.of(Policy::Fixed(10)));
        pairs.map(|(own, standard)| of(own) / of(standard) - 1.0).collect()
    }

    /// How much shorter the mean response time is than IW10's, by seed, as a share of it.
    fn gains(&self, policy: Policy, which: impl Fn(&Seen) -> bool + Copy) -> Vec<f64> {
        let over = self.over_standard(policy, |day| mean_ms(day, which));
        over.into_iter().map(|it| -it).collect()
    }

    /// The rows with targets. `label` says whether flows jump.
    pub fn rows(&self, label: &str) -> Vec<Row> {
        let first: Which = Seen::is_first;
        let whiches: [(&str, Which); 3] = [
            ("a connection for each response", |seen| !seen.keeps_alive),
            ("connections kept open, every response", |seen| seen.keeps_alive),
            ("connections kept open, first responses", |seen| seen.keeps_alive && seen.is_first()),
        ];
        let mut rows = Vec::new();
        let mut push = |what: &str, paper, target, values: &[f64]| {
            let what = format!("{label}: {what}");
            rows.push(Row { id: "C3", what, paper, target, got: Mean::of(values) });
        };
        for (name, which) in whiches {
            let what = format!("mean response time below IW10's, share; {name}");
            push(&what, "0.29", Target::AtLeast(0.2), &self.gains(Policy::Learned, which));
        }
        let (own, best) = (self.gains(Policy::Learned, first), self.gains(Policy::Optimum, first));
        let shares: Vec<f64> = own.iter().zip(&best).map(|(own, best)| own / best).collect();
        push("share of the optimum's gain", "closest to it", Target::AtLeast(0.9), &shares);
        let pairs = self.of(Policy::Learned).iter().zip(self.of(Policy::Ungrouped));
        let below: Vec<f64> =
            pairs.map(|(own, one)| 1.0 - mean_ms(own, first) / mean_ms(one, first)).collect();
        push(
            "mean response time below that without grouping, share",
            "above 0",
            Target::AtLeast(0.0),
            &below,
        );
        let p99 = self.over_standard(Policy::Learned, |day| percentile_ms(day, first, 99.0));
        let p99: Vec<f64> = p99.into_iter().map(|it| 1.0 + it).collect();
        push("p99 response time over IW10's", "0.95", Target::AtMost(1.0), &p99);
        for policy in [Policy::Fixed(200), Policy::Ungrouped, Policy::Optimum] {
            let what = format!("{policy}: mean response time below IW10's, share");
            push(&what, "", Target::Shown, &self.gains(policy, first));
        }
        rows
    }

    /// Figure 9b: percentiles of the first responses of all seeds together.
    pub fn percentiles(&self) -> String {
        let heads: String = PERCENTS.iter().map(|it| format!(" p{it} |")).collect();
        let mut text = format!("| policy | responses | mean |{heads}\n|---|---|---|");
        text += &"---|".repeat(PERCENTS.len());
        for (policy, days) in POLICIES.iter().zip(&self.0) {
            let first = days.iter().flat_map(|day| &day.seen).filter(|seen| seen.is_first());
            let all = sorted(first.map(|seen| seen.took_ms));
            let _ = write!(text, "\n| {policy} | {} | {:.0} |", all.len(), mean(all.clone()));
            for percent in PERCENTS {
                let _ = write!(text, " {:.0} |", percentile(&all, percent));
            }
        }
        text + "\n"
    }

    /// Figures 10 and 11, and which windows were best. `optimum` has those of the sweep.
    pub fn by_group(&self, optimum: &[Vec<u32>]) -> String {
        let mut text = "| group | IW10, ms | gain, % | optimum's gain, % | alone | jitter | \
                        window | optimum's windows |\n|---|---|---|---|---|---|---|---|\n"
            .to_owned();
        for (number, group) in groups().iter().enumerate() {
            let which = move |seen: &Seen| seen.is_first() && seen.group == number;
            let standard = mean(self.of(Policy::Fixed(10)).iter().map(|day| mean_ms(day, which)));
            let gain = Mean::of(&self.gains(Policy::Learned, which));
            let best = Mean::of(&self.gains(Policy::Optimum, which));
            let (region, isp) = (group.region, group.isp);
            // The subnet is a group of its own, or is in one of the wider groups.
            let names = [
                format!("{region}/{isp}/{number}"),
                format!("{region}/{isp} others"),
                format!("{region} others"),
                "all others".to_owned(),
            ];
            let days = self.of(Policy::Learned).iter();
            let learned = days.filter_map(|day| {
                names.iter().find_map(|name| day.learned.iter().find(|it| it.name == *name))
            });
            let learned: Vec<_> = learned.collect();
            let own = learned.iter().filter(|it| it.name == names[0]).count();
            let jitter = match learned.len() {
                0 => "no group".to_owned(),
                _ => format!("{:.2}", mean(learned.iter().map(|it| it.jitter))),
            };
            let windows = |all: Vec<u32>| match (all.iter().min(), all.iter().max()) {
                (Some(least), Some(most)) if least == most => least.to_string(),
                (Some(least), Some(most)) => format!("{least} to {most}"),
                _ => "-".to_owned(),
            };
            let best_own = windows(learned.iter().filter_map(|it| it.best_pkts).collect());
            let of_sweep = windows(optimum[number].clone());
            let (gain, best) = (percent(&gain), percent(&best));
            let _ = writeln!(
                text,
                "| {region} {isp} | {standard:.0} | {gain} | {best} | {own} | {jitter} | \
                 {best_own} | {of_sweep} |"
            );
        }
        text
    }

    /// Figure 12: what each policy gains and costs over IW10, in per cent.
    pub fn costs(&self) -> String {
        let mut text = "| policy | response time | throughput | round trip | lost segments |\n\
                        |---|---|---|---|---|\n"
            .to_owned();
        let first: Which = Seen::is_first;
        let throughput = |day: &Measured| {
            let first = day.seen.iter().filter(|seen| seen.is_first());
            mean(first.map(|seen| seen.bytes as f64 / seen.took_ms))
        };
        let rtt = |day: &Measured| mean_by_group(&day.recorded, |it| it.srtt_ms);
        for (policy, days) in POLICIES.iter().zip(&self.0) {
            let lost: Vec<f64> =
                days.iter().map(|day| mean(day.recorded.iter().map(|it| it.lost_share))).collect();
            let change = |values: Vec<f64>| percent(&Mean::of(&values));
            let _ = writeln!(
                text,
                "| {policy} | {} | {} | {} | {} |",
                change(self.over_standard(*policy, |day| mean_ms(day, first))),
                change(self.over_standard(*policy, throughput)),
                change(self.over_standard(*policy, rtt)),
                percent(&Mean::of(&lost)),
            );
        }
        text
    }

    /// A sentence: in how many responses IW10 and IW200 were in force, in percent, and the smallest
    /// receive window of a client, in bytes.
    pub fn check(&self) -> String {
        let shares = [10, 200].map(|pkts| {
            let all = self.of(Policy::Fixed(pkts)).iter().flat_map(|day| &day.recorded);
            mean(all.map(|it| f64::from(u8::from(it.cwnd_pkts == pkts)))) * 100.0
        });
        let all = self.0.iter().flatten().flat_map(|day| &day.recorded);
        let least = all.map(|it| it.peer_window_bytes).min().unwrap_or(0);
        let [ten, most] = shares;
        format!(
            "Of the recorded first responses, {ten:.1} % began with 10 segments under IW10\n\
             and {most:.1} % with 200 under IW200. The least receive window of a client was\n\
             {least} bytes before the first data.\n"
        )
    }
}

/// The mean over the groups of the mean of each, so that each group counts the same.
fn mean_by_group(recorded: &[Recorded], of: impl Fn(&Recorded) -> f64) -> f64 {
    let group = |number: usize| mean(recorded.iter().filter(|it| it.group == number).map(&of));
    mean((0..GROUPS).map(group))
}

/// What jumps alone are worth: IW10 with them, below IW10 without them.
pub fn of_jumps(without: &Days, with: &Days) -> Row {
    let first: Which = Seen::is_first;
    let standard = |days: &Days| -> Vec<f64> {
        days.of(Policy::Fixed(10)).iter().map(|day| mean_ms(day, first)).collect()
    };
    let pairs = standard(with).into_iter().zip(standard(without));
    let gains: Vec<f64> = pairs.map(|(with, without)| 1.0 - with / without).collect();
    let what = "IW10 with jumps: mean response time below that without, share".to_owned();
    Row { id: "C3", what, paper: "", target: Target::Shown, got: Mean::of(&gains) }
}
