//! The page docs/anole.md.

use super::measure::{Driver, Run, runs};
use super::rows::BUFFERS;
use super::scene::Scene;
use crate::Error;
use crate::stats::target::{self, Row};
use crate::stats::{Mean, Origin};
use remuda_algorithms::anole::config::{AnoleConfig, NONE};
use std::fmt::Write;
use std::ops::RangeInclusive;

const HEAD: &str = "\
# The arm `anole` compared with its paper

`make anole-table` writes this page. Everything is simulated, with the arm's own program and
controller: one bottleneck, a drop-tail buffer of 2 BDPs unless said, runs of 30 s. A figure is the
mean over the seeds, with the 95 % interval of the mean (Student's t) where it varies; a target is
met only if the whole interval is beyond it. Ratios are of runs of the same seed. The rows were
looked at while the arm was written, so they are development rows: nothing here is held out.

`anole` embeds a classic and a learned arm (`arms.anole.classic` and `arms.anole.learned`:
[algorithms.md](algorithms.md)), and sends at the better one's rate or at an inferred one. The
heads of `algorithms/src/anole/` say how it differs from F. Han et al., *Anole: A Pragmatic Blend of
Classic and Learning-Based Algorithms in Congestion Control*, IEEE Transactions on Computers 2025.
The paper's learned arm is Sage; here it is whichever the first line below names, so rows that
depend on it are not the paper's.

";

/// The page with its rows, and the tables below them.
pub fn page(
    rows: &[Row],
    figures: &str,
    config: &AnoleConfig,
    seeds: &RangeInclusive<u64>,
) -> String {
    let mut page = HEAD.to_owned();
    let _ = write!(
        page,
        "Classic arm `{}`, learned arm `{}`, seeds {} to {}.\n{}.\n\n{}",
        config.classic,
        config.learned,
        seeds.start(),
        seeds.end(),
        Origin::here(),
        target::table(rows)
    );
    page + figures
}

fn cell(runs: &[Run]) -> String {
    let of = |of: fn(&Run) -> f64| Mean::of(&runs.iter().map(of).collect::<Vec<_>>());
    format!("{}, {} ms", of(Run::goodput).text(1), of(Run::delay_p95).text(1))
}

/// Figure 2: how long a decision lasts.
fn decisions(config: &AnoleConfig, seeds: &RangeInclusive<u64>) -> Result<String, Error> {
    let mut text = "\n## Figure 2: one decision\n\n\
        | path | decisions | RTTs a decision | calls of the learned arm |\n|---|---|---|---|\n"
        .to_owned();
    for scene in [Scene::normal(), Scene::loss(0.1), Scene::long()] {
        let got = runs(&scene, &Driver::anole(config), seeds)?;
        let of = |at: usize| {
            Mean::of(&got.iter().map(|run| run.tally.unwrap_or_default()[at]).collect::<Vec<_>>())
        };
        let rtts = got.iter().map(|run| {
            let rtt_s = run.outcome.flows[0].rtt_mean_ms.unwrap_or(1.0) / 1e3;
            super::scene::END_S / rtt_s / run.tally.unwrap_or_default()[0].max(1.0)
        });
        let rtts = Mean::of(&rtts.collect::<Vec<_>>());
        let (cycles, calls) = (of(0).text(0), of(1).text(0));
        let _ = writeln!(text, "| {} | {cycles} | {} | {calls} |", scene.name, rtts.text(1));
    }
    Ok(text)
}

/// Figure 6 and the buffers of figure 8: goodput and delay beside other arms.
fn beside_others(config: &AnoleConfig, seeds: &RangeInclusive<u64>) -> Result<String, Error> {
    let mut drivers = vec![Driver::anole(config)];
    let others = [&config.classic, &config.learned].into_iter().filter(|name| *name != NONE);
    drivers.extend(others.map(|name| Driver::arm(name)));
    drivers.push(Driver::arm("bbr"));
    let names: Vec<_> = drivers.iter().map(|driver| driver.name.as_str()).collect();
    let head = format!("| path | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    let mut text = format!(
        "\n## Figures 6 and 8: goodput in Mbit/s, p95 of the one-way delay\n\nThe paper's real \
         paths are simulated here: 48 Mbit/s with a round trip of 90 ms and 0.1 % loss, a\npath \
         that jitters as Wi-Fi does, and 4 Mbit/s.\n\n{head}"
    );
    let buffers = BUFFERS.into_iter().map(Scene::buffer);
    for scene in Scene::real_world().into_iter().chain(buffers) {
        let _ = write!(text, "| {} |", scene.name);
        for driver in &drivers {
            let _ = write!(text, " {} |", cell(&runs(&scene, driver, seeds)?));
        }
        text.push('\n');
    }
    Ok(text)
}

/// Figure 11: whose rate was in force.
fn shares(config: &AnoleConfig, seeds: &RangeInclusive<u64>) -> Result<String, Error> {
    let many = *seeds.start()..=seeds.start() + 99;
    let mut text = "\n## Figure 11: shares of time, 100 seeds\n\nOf the time of probing, climbing \
        and acceleration, in percent; the paper's in brackets, with Sage.\n\n\
        | path | classic | learned | inferred |\n|---|---|---|---|\n"
        .to_owned();
    let papers = [["36", "62", "2"], ["7", "80", "13"], ["35", "23", "40"]];
    for (scene, paper) in [Scene::normal(), Scene::loss(0.1), Scene::long()].iter().zip(papers) {
        let got = runs(scene, &Driver::anole(config), &many)?;
        let _ = write!(text, "| {} |", scene.name);
        for (at, paper) in paper.into_iter().enumerate() {
            let share = got.iter().map(|run| {
                let [_, _, classic, learned, inferred] = run.tally.unwrap_or_default();
                let all = (classic + learned + inferred).max(1e-9);
                [classic, learned, inferred][at] / all * 100.0
            });
            let share = Mean::of(&share.collect::<Vec<_>>());
            let _ = write!(text, " {} ({paper}) |", share.text(0));
        }
        text.push('\n');
    }
    Ok(text)
}

/// What each part is worth.
fn ablations(config: &AnoleConfig, seeds: &RangeInclusive<u64>) -> Result<String, Error> {
    let with = |change: fn(&mut AnoleConfig)| {
        let mut config = config.clone();
        change(&mut config);
        config
    };
    let parts = [
        ("the whole", config.clone()),
        ("without inference", with(|config| config.inference = false)),
        ("without deprecation", with(|config| config.deprecation = false)),
        ("without the learned arm", with(|config| NONE.clone_into(&mut config.learned))),
    ];
    let scenes = [Scene::normal(), Scene::loss(1.0), Scene::long(), Scene::step()];
    let names: Vec<_> = scenes.iter().map(|scene| scene.name.as_str()).collect();
    let mut text = format!(
        "\n## Ablations: goodput in Mbit/s, p95 of the one-way delay\n\n| anole | {} |\n|---|{}\n",
        names.join(" | "),
        "---|".repeat(names.len())
    );
    for (name, config) in parts {
        let _ = write!(text, "| {name} |");
        for scene in &scenes {
            let _ = write!(text, " {} |", cell(&runs(scene, &Driver::anole(&config), seeds)?));
        }
        text.push('\n');
    }
    Ok(text)
}

/// The tables below the rows.
pub fn figures(config: &AnoleConfig, seeds: &RangeInclusive<u64>) -> Result<String, Error> {
    Ok([
        decisions(config, seeds)?,
        beside_others(config, seeds)?,
        shares(config, seeds)?,
        ablations(config, seeds)?,
    ]
    .concat())
}
