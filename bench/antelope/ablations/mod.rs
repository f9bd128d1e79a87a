//! The value of each part of the policy: the whole policy compared with the policy without that
//! part.
//!
//! The parts, the places where each is measured and the figures that judge each were fixed before
//! the first run, from the purpose of the part. Whole and variant run the same environments and
//! seeds, and are compared pair by pair (`bench/antelope/pairs.rs`).

mod page;

pub use page::text;

use crate::antelope::Error;
use crate::antelope::figures::Figures;
use crate::antelope::head_to_head;
use crate::antelope::measure::{Keep, Settings};
use crate::antelope::pairs::{Pairs, interval, means, ratio};
use crate::antelope::scene::{Files, Scene};
use ccp_agent::Config;
use ccp_agent::guard::HandOff;
use remuda_matrix::{Interval, Job, Only, Plan, Progress};
use remuda_samples::draw;
use remuda_scenarios::outcome::Outcome;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Short requests on a drawn path: their number, the seconds between two starts, and their size.
const REQUESTS: u32 = 14;
const REQUESTS_APART_S: f64 = 2.0;
const REQUEST_BYTES: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Course {
    /// A scene of the table, with every seed.
    Scene(Scene),
    Drawn,
    /// The drawn environments, with short requests one after the other in place of a flow without
    /// an end.
    Requests,
}

/// A place where a part is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ground {
    course: Course,
    /// Counts only the drawn environments whose names begin with this; empty: all of them.
    kind: &'static str,
}

impl Ground {
    const fn of(course: Course) -> Self {
        Self { course, kind: "" }
    }

    /// The name on the page.
    pub fn name(&self) -> String {
        match self.course {
            Course::Scene(scene) => scene.name(),
            Course::Requests => "drawn, short requests".to_owned(),
            Course::Drawn if self.kind.is_empty() => "drawn".to_owned(),
            Course::Drawn => format!("drawn, {}", self.kind),
        }
    }
}

/// A figure by which a part is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// Goodput over mean delay.
    Power,
    Goodput,
    Resent,
}

/// A part that can be left out.
#[derive(Debug)]
pub struct Part {
    /// The name of the part on the page.
    pub name: &'static str,
    /// The settings that leave the part out.
    pub settings: &'static [&'static str],
    without: fn(&mut Config),
    /// The places where the part should matter.
    pub grounds: &'static [Ground],
    /// The figures that the part should improve.
    pub judges: &'static [Judge],
}

const SHORT: &[Ground] = &[
    Ground::of(Course::Scene(Scene::Wan(Files::Short))),
    Ground::of(Course::Scene(Scene::Datacenter(Files::Short))),
    Ground::of(Course::Requests),
];
const CHANGING: &[Ground] = &[
    Ground::of(Course::Drawn),
    Ground { course: Course::Drawn, kind: draw::STEPS },
    Ground::of(Course::Scene(Scene::CubicComes)),
    Ground::of(Course::Scene(Scene::Cell(0))),
];
const SMOOTH: &[Judge] = &[Judge::Power, Judge::Resent];

pub const PARTS: &[Part] = &[
    Part {
        name: "the IP level",
        settings: &["memory.enabled = false"],
        without: |config| config.memory.enabled = false,
        grounds: SHORT,
        judges: &[Judge::Power, Judge::Goodput],
    },
    Part {
        name: "jumps",
        settings: &["memory.resumed_cwnd_pkts_max = 0"],
        without: |config| config.memory.resumed_cwnd_pkts_max = 0,
        grounds: SHORT,
        judges: &[Judge::Power, Judge::Goodput],
    },
    Part {
        name: "warm hand-off",
        settings: &["guard.hand_off = \"cold\""],
        without: |config| config.guard.hand_off = HandOff::Cold,
        grounds: CHANGING,
        judges: SMOOTH,
    },
    Part {
        name: "dwell",
        settings: &["guard.dwell_ms_min = 0", "guard.dwell_rtts_min = 0"],
        without: without_dwell,
        grounds: CHANGING,
        judges: SMOOTH,
    },
    Part {
        name: "agreement",
        settings: &["policy.antelope.agreements = 1"],
        without: |config| config.policy.antelope.agreements = 1,
        grounds: CHANGING,
        judges: SMOOTH,
    },
    Part {
        name: "dwell, agreement, bound of switches",
        settings: &[
            "guard.dwell_ms_min = 0",
            "guard.dwell_rtts_min = 0",
            "policy.antelope.agreements = 1",
            "guard.switches_per_minute_max = 1000",
        ],
        without: without_brakes,
        grounds: CHANGING,
        judges: SMOOTH,
    },
];

fn without_dwell(config: &mut Config) {
    (config.guard.dwell_ms_min, config.guard.dwell_rtts_min) = (0, 0);
}

fn without_brakes(config: &mut Config) {
    without_dwell(config);
    config.policy.antelope.agreements = 1;
    config.guard.switches_per_minute_max = 1_000;
}

/// The result for a part at a place.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub part: usize,
    pub ground: Ground,
    /// Number of environments, and number of seeds of each.
    pub counts: (usize, usize),
    /// Power without the part over that of the whole.
    pub power: Interval,
    pub goodput: Interval,
    pub delay: Interval,
    /// Share of segments sent again, in per cent: of the whole and of the variant, and the
    /// difference.
    pub resent: ([f64; 2], Interval),
    /// Changes of arm a minute, of the whole and of the variant.
    pub switches: [f64; 2],
}

impl Finding {
    /// Of the part's judges: those that are worse without the part, and those that are better.
    pub fn verdicts(&self) -> [Vec<Judge>; 2] {
        let side = |judge: &Judge| {
            let (it, even, more_is_better) = match judge {
                Judge::Power => (self.power, 1.0, true),
                Judge::Goodput => (self.goodput, 1.0, true),
                Judge::Resent => (self.resent.1, 0.0, false),
            };
            let [low, high] = it.bounds.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
            let (below, above) = (high < even, low > even);
            if more_is_better { (below, above) } else { (above, below) }
        };
        let judges = PARTS[self.part].judges.iter();
        let of = |pick: fn((bool, bool)) -> bool| {
            judges.clone().filter(|judge| pick(side(judge))).copied().collect()
        };
        [of(|(worse, _)| worse), of(|(_, better)| better)]
    }

    fn of(part: usize, ground: Ground, pairs: &[Pairs]) -> Self {
        let counts: Vec<usize> = pairs.iter().map(Vec::len).collect();
        let resent: fn(&Figures) -> f64 = |it| it.resent_percent;
        let mean = |of: fn(&Figures) -> f64| {
            let each = pairs.iter().map(|seeds| {
                let all = seeds.iter().map(|(whole, without)| [of(whole), of(without)]);
                means(&all.collect::<Vec<_>>())
            });
            means(&each.collect::<Vec<_>>())
        };
        Self {
            part,
            ground,
            counts: (counts.len(), counts.first().copied().unwrap_or(0)),
            power: interval(pairs, |it| ratio(it, Figures::power), libm::exp),
            goodput: interval(pairs, |it| ratio(it, |it| it.goodput_mbit_per_sec), libm::exp),
            delay: interval(pairs, |it| ratio(it, |it| it.delay_mean_ms), libm::exp),
            resent: (
                mean(resent),
                interval(pairs, |it| Some(resent(&it.1) - resent(&it.0)), |mean| mean),
            ),
            switches: mean(Figures::switches_per_min),
        }
    }
}

/// Suites of drawn environments, and the seeds of each environment.
pub type Held<'a> = (&'a [String], RangeInclusive<u64>);

fn jobs(course: Course, settings: &Settings, held: &Held<'_>) -> Result<Vec<Job>, Error> {
    if let Course::Scene(scene) = course {
        let of = |seed| scene.job((&settings.driver, "\"default\""), seed, settings.extent);
        let all = settings.seeds.clone().map(of).collect::<Result<Vec<_>, _>>();
        return Ok(all.map_err(remuda_matrix::Error::from)?);
    }
    let suites = held.0.iter().map(|name| head_to_head::suite(name)).collect::<Result<Vec<_>, _>>();
    let drivers = [settings.driver.clone()];
    let mut jobs = Plan::of(&suites?, &Only::default(), &drivers, held.1.clone())?.jobs;
    for job in jobs.iter_mut().filter(|_| course == Course::Requests) {
        // The tested flow is the last one.
        if let Some(flow) = job.scenario.flows.last_mut() {
            (flow.count, flow.stagger_s) = (REQUESTS, REQUESTS_APART_S);
            flow.bytes = Some(REQUEST_BYTES);
        }
    }
    Ok(jobs)
}

/// Each course that some part uses, with the indices of these parts.
fn courses() -> BTreeMap<Course, Vec<usize>> {
    let mut courses: BTreeMap<Course, Vec<usize>> = BTreeMap::new();
    for (part, of) in PARTS.iter().enumerate() {
        for ground in of.grounds {
            let parts = courses.entry(ground.course).or_default();
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
    }
    courses
}

/// The figures of a course's runs, in the order of its jobs: without a part (its index), or of the
/// whole (`None`).
type Figured = BTreeMap<(Course, Option<usize>), Vec<Figures>>;

/// Runs the whole policy, and the policy without each part at the places of that part.
///
/// # Errors
///
/// The errors of [`crate::antelope::measure::simulate`].
pub fn run(
    settings: &Settings,
    held: &Held<'_>,
    keep: &Keep,
    how: (usize, &AtomicBool),
    mut progress: impl FnMut(&Progress),
) -> Result<Vec<Finding>, Error> {
    let mut plans: BTreeMap<Course, Plan> = BTreeMap::new();
    let mut cases = Vec::new();
    for (course, parts) in courses() {
        plans.insert(course, Plan { jobs: jobs(course, settings, held)? });
        cases.push((course, None));
        cases.extend(parts.into_iter().map(|part| (course, Some(part))));
    }
    let all = cases.iter().map(|(course, _)| plans[course].jobs.len()).sum();
    let mut before = Progress { all, ..Progress::default() };
    let mut figured = Figured::new();
    for (course, part) in cases {
        let mut latest = before.clone();
        let summed = |it: &Progress| {
            (latest.done, latest.kept) = (before.done + it.done, before.kept + it.kept);
            (latest.failed, latest.unkept) = (before.failed + it.failed, it.unkept.clone());
            progress(&latest);
        };
        let figures = simulate(&plans[&course], part, keep, how, summed)?;
        if figures.len() < plans[&course].jobs.len() {
            return Err(Error::Stopped { done: before.done + figures.len(), all });
        }
        figured.insert((course, part), figures);
        before = latest;
    }
    Ok(findings(&figured, &plans))
}

/// Runs a plan without a part; returns what was done until it was stopped.
fn simulate(
    plan: &Plan,
    part: Option<usize>,
    keep: &Keep,
    how: (usize, &AtomicBool),
    progress: impl FnMut(&Progress),
) -> Result<Vec<Figures>, Error> {
    let mut config = Config::default();
    if let Some(part) = part {
        (PARTS[part].without)(&mut config);
    }
    // The key of a run does not contain the agent's settings, so the name of the store does.
    let store = keep.store(&format!("antelope-table ablations {config:?}"))?;
    let of = |job: &Job, outcome: &Outcome| Ok(Figures::of(job, outcome));
    let with = (store.as_ref(), &Arc::new(config.into()));
    let done = remuda_matrix::measure(plan, with, how, progress, of);
    Ok(done.into_iter().flatten().collect::<Result<Vec<_>, _>>()?)
}

fn findings(figured: &Figured, plans: &BTreeMap<Course, Plan>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (part, of) in PARTS.iter().enumerate() {
        for ground in of.grounds {
            let course = ground.course;
            let both = figured[&(course, None)].iter().zip(&figured[&(course, Some(part))]);
            let mut pairs: BTreeMap<&str, Pairs> = BTreeMap::new();
            for (job, (whole, without)) in plans[&course].jobs.iter().zip(both) {
                let name = job.environment.name.as_str();
                if name.starts_with(ground.kind) {
                    let pair = (whole.clone(), without.clone());
                    pairs.entry(name).or_default().push(pair);
                }
            }
            let pairs: Vec<Pairs> = pairs.into_values().collect();
            // No environment of this kind was drawn, so there is no result.
            if !pairs.is_empty() {
                findings.push(Finding::of(part, *ground, &pairs));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::antelope::scene::Extent;

    fn figures(goodput_mbit_per_sec: f64, delay_mean_ms: f64, resent_percent: f64) -> Figures {
        Figures { goodput_mbit_per_sec, delay_mean_ms, resent_percent, ..Figures::default() }
    }

    /// A finding about the second part, whose omission multiplies the power by `power`.
    pub(super) fn finding(power: f64) -> Finding {
        let pair = (figures(10.0, 20.0, 1.0), figures(10.0, 20.0 / power, 1.0));
        Finding::of(2, CHANGING[0], &vec![vec![pair]; 8])
    }

    #[test]
    fn every_part_changes_its_settings_and_no_other_does_the_same() {
        let mut seen = vec![format!("{:?}", Config::default())];
        for part in PARTS {
            let mut config = Config::default();
            (part.without)(&mut config);
            config.validate(&[]).expect(part.name);
            let text = format!("{config:?}");
            assert!(!seen.contains(&text), "{}", part.name);
            seen.push(text);
        }
    }

    #[test]
    fn a_ratio_is_of_pairs_and_its_sign_decides() {
        // Environments of very different rates; each has half the power without the part.
        let pair = |nth: usize| {
            let rate = 10f64.powi(nth as i32 % 4);
            vec![(figures(rate, 20.0, 1.0), figures(rate, 40.0, 1.0 + nth as f64 / 10.0))]
        };
        let pairs: Vec<Pairs> = (1..=12).map(pair).collect();
        assert_eq!(PARTS[2].name, "warm hand-off");
        let it = Finding::of(2, CHANGING[0], &pairs);
        assert!((it.power.middle - 0.5).abs() < 1e-12, "{it:?}");
        assert!((it.goodput.middle - 1.0).abs() < 1e-12 && (it.delay.middle - 2.0).abs() < 1e-12);
        assert!((it.resent.1.middle - 0.65).abs() < 1e-12, "{it:?}");
        assert_eq!(it.verdicts(), [vec![Judge::Power, Judge::Resent], vec![]]);
        let back = |pairs: &Pairs| pairs.iter().map(|(a, b)| (b.clone(), a.clone())).collect();
        let back: Vec<Pairs> = pairs.iter().map(back).collect();
        let it = Finding::of(2, CHANGING[0], &back);
        assert_eq!(it.verdicts(), [vec![], vec![Judge::Power, Judge::Resent]]);
        let same: Vec<Pairs> =
            pairs.iter().map(|it| vec![(it[0].0.clone(), it[0].0.clone())]).collect();
        assert_eq!(Finding::of(2, CHANGING[0], &same).verdicts(), [vec![], vec![]]);
    }

    #[test]
    fn requests_of_a_drawn_path_are_all_tested() {
        let settings = Settings {
            driver: "rein".to_owned(),
            arms: Vec::new(),
            against: Vec::new(),
            remembering: Vec::new(),
            seeds: 1..=1,
            extent: Extent::Full,
        };
        let suites = ["drawn:1000000..1000020".to_owned()];
        let jobs = jobs(Course::Requests, &settings, &(&suites, 1..=1)).expect("they are some");
        for job in &jobs {
            let flows = job.scenario.flows_expanded();
            let tested = job.environment.tested_flows(&job.scenario);
            // Flows alike may run beside the requests; they have no end.
            let requests = tested.iter().filter(|flow| flows[**flow].bytes.is_some());
            let requests: Vec<_> = requests.map(|flow| &flows[*flow]).collect();
            assert_eq!(requests.len(), REQUESTS as usize, "{}", job.name());
            assert!(requests.iter().all(|flow| flow.bytes == Some(REQUEST_BYTES)));
            let last = requests.last().expect("a flow");
            assert!(last.start_s < job.scenario.duration_s);
        }
    }
}
