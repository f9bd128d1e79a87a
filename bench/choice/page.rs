//! The page: what the policy misses by suite, on paths that change, and where it is far behind.

use crate::behind::{self, Behind};
use crate::changing;
use crate::environment::{Environment, Run};
use remuda::spread;
use remuda_bench::stats::Origin;
use remuda_matrix::{Drawn, Interval, Row, bootstrap};
use std::collections::BTreeSet;
use std::fmt::Write as _;

pub struct About<'a> {
    pub policy: &'a str,
    /// The fixed arm that was chosen on the paths of the training.
    pub chosen: &'a str,
    pub command: &'a str,
    /// Suites that count apart.
    pub apart: &'a [String],
}

impl About<'_> {
    /// The environments that count together.
    fn together<'a>(&self, all: &'a [Environment]) -> Vec<&'a Environment> {
        all.iter().filter(|it| !self.apart.contains(&it.suite)).collect()
    }
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let count = values.clone().count();
    (count > 0).then(|| values.sum::<f64>() / count as f64)
}

fn by_merit(row: &Row) -> f64 {
    row.merit
}

fn by_former_merit(row: &Row) -> f64 {
    row.former_merit
}

/// The mean of a figure, with its interval.
fn mean_of(values: &[f64]) -> Interval {
    let of = |drawn: &[Drawn]| vec![mean(drawn.iter().map(|it| values[it.environment]))];
    bootstrap(&vec![1; values.len()], of).pop().unwrap_or_default()
}

/// What the policy misses over what another misses, with its interval.
fn ratio_of(own: &[f64], other: &[f64]) -> Interval {
    let of = |drawn: &[Drawn]| {
        let sum = |of: &[f64]| drawn.iter().map(|it| of[it.environment]).sum::<f64>();
        let (own, other) = (sum(own), sum(other));
        vec![(other > 0.0).then(|| own / other)]
    };
    bootstrap(&vec![1; own.len()], of).pop().unwrap_or_default()
}

/// What a run of each environment misses, 0 to 1.
fn missed<'a>(
    environments: &[&'a Environment],
    run: impl Fn(&'a Environment) -> Option<&'a Run>,
    merit: fn(&Row) -> f64,
) -> Vec<f64> {
    let of = |it: &&'a Environment| Some(it.missed(run(it)?, merit));
    environments.iter().filter_map(of).collect()
}

/// The fixed arm that misses least of these environments.
fn best_arm(environments: &[&Environment]) -> String {
    let arms = environments.first().map_or(&[][..], |it| &it.arms);
    let names = arms.iter().map(|run| run.row.driver.as_str());
    let of = |name: &str| {
        mean(missed(environments, |it| it.arm(name), by_merit).into_iter()).unwrap_or(1.0)
    };
    names.min_by(|a, b| of(a).total_cmp(&of(b))).unwrap_or_default().to_owned()
}

fn line(name: &str, of: &[&Environment], about: &About<'_>) -> String {
    let own = missed(of, |it| Some(&it.policy), by_merit);
    let former = missed(of, |it| Some(&it.policy), by_former_merit);
    let best = best_arm(of);
    let [fixed, chosen] =
        [best.as_str(), about.chosen].map(|name| missed(of, |it| it.arm(name), by_merit));
    let percent = |values: &[f64]| spread(mean_of(values), 100.0);
    format!(
        "| {name} | {} | {} | {} | {best} | {} | {} | {} | {} |\n",
        of.len(),
        percent(&own),
        percent(&former),
        percent(&fixed),
        spread(ratio_of(&own, &fixed), 1.0),
        percent(&chosen),
        spread(ratio_of(&own, &chosen), 1.0),
    )
}

fn suites(all: &[Environment], about: &About<'_>) -> String {
    let About { policy, chosen, .. } = about;
    let mut text = format!(
        "## By suite\n\n| suite | paths | {policy} misses, % | by the merit of b1bd1fe, % \
         | the best fixed arm, % | which | {policy} over it | {chosen}, % | {policy} over it |\n\
         |---|---|---|---|---|---|---|---|---|\n"
    );
    text += &line("**together**", &about.together(all), about);
    let names: BTreeSet<&str> = all.iter().map(|it| it.suite.as_str()).collect();
    for name in names {
        let of: Vec<&Environment> = all.iter().filter(|it| it.suite == name).collect();
        let apart = if about.apart.iter().any(|it| it == name) { ", apart" } else { "" };
        text += &line(&format!("`{name}`{apart}"), &of, about);
    }
    text
}

fn changes(all: &[Environment], about: &About<'_>) -> String {
    let all = about.together(all).into_iter();
    let found: Vec<_> = all.filter_map(|it| Some((it, changing::of(it)?))).collect();
    if found.is_empty() {
        return String::new();
    }
    let figure = |of: &dyn Fn(&(&Environment, changing::Changing)) -> f64| {
        spread(mean_of(&found.iter().map(of).collect::<Vec<_>>()), 100.0)
    };
    let by_run = |(it, _): &(&Environment, changing::Changing)| {
        let best = it.best_arm().map_or(0.0, |run| run.row.merit);
        if best > 0.0 { it.policy.row.merit / best } else { 1.0 }
    };
    format!(
        "\n## Paths that change\n\n{} of these paths change while a flow runs. Figures are \
         merits in percent of that of\nthe path's best single arm, means over paths.\n\n\
         | | % |\n|---|---|\n\
         | {}, by the merit of the whole run | {} |\n| {}, by the merit of its course | {} |\n\
         | the oracle that may switch, by the merit of its course | {} |\n",
        found.len(),
        about.policy,
        figure(&by_run),
        about.policy,
        figure(&|(_, it)| it.policy),
        figure(&|(_, it)| it.switching),
    )
}

fn far_behind(all: &[Environment], about: &About<'_>) -> String {
    let with_course = all.iter().filter(|it| it.policy.course.is_some()).count();
    let mut found: Vec<Behind<'_>> = all.iter().filter_map(behind::of).collect();
    found.sort_by(|a, b| a.worst.2.total_cmp(&b.worst.2));
    let About { policy, .. } = about;
    let mut text = format!(
        "\n## Less than half for long\n\nOn {} of {with_course} paths {policy} has, over a span of \
         10 s (or 50 round trips if that is longer),\nless than half of the merit of the arm that \
         is best over the run. The worst span of each, and the\npolicy's last word until then; the \
         lowest share first.\n\n| path | best arm | seconds in such spans | worst span, s \
         | share there | {policy}'s arm there | its last word until then |\n\
         |---|---|---|---|---|---|---|\n",
        found.len()
    );
    for it in &found {
        let Behind { environment, best, seconds, worst: (from_s, to_s, share), arm, why } = it;
        let Environment { suite, name, .. } = environment;
        let _ = writeln!(
            text,
            "| {suite}/{name} | {best} | {seconds:.0} | {from_s:.0} to {to_s:.0} | {share:.2} \
             | {arm} | {why} |"
        );
    }
    text
}

/// The tables, with their origin.
pub fn text(all: &[Environment], about: &About<'_>) -> String {
    let About { command, .. } = about;
    let head = format!("{}, one seed. Command:\n\n```\n{command}\n```\n\n", Origin::here());
    head + &suites(all, about) + &changes(all, about) + &far_behind(all, about)
}
