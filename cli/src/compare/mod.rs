//! `remuda compare`: whether a rule is better for this host's traffic than what its control group
//! runs.
//!
//! ```text
//! event log ─▶ closed flows ─▶ outcome of each ─▶ comparison by rule ─▶ table
//! ```

pub mod outcome;
mod show;

use crate::{Failure, RunDirArgs, event_log};
use ccp_agent::confidence::Comparison;
use ccp_agent::interval::Interval;
use ccp_agent::rules::Group;
use ccp_agent::run_dir;
use clap::{Args, ValueEnum};
use outcome::{Flow, MEASURES, Measure};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The probability that any interval of a rule misses its mean, at any look, is at most this.
const ALPHA: f64 = 0.05;

/// Compare the flows of each rule with those of its control group.
#[derive(Debug, Args)]
pub struct CompareArgs {
    #[command(flatten)]
    run_dir: RunDirArgs,
    /// What to tell flows apart by
    #[arg(long, value_enum, default_value_t = By::Rule)]
    by: By,
    /// Read this event log instead of the agent's; may be given several times, the oldest first
    #[arg(long, value_name = "FILE")]
    events: Vec<PathBuf>,
    /// Print one JSON object for each rule and measure
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    /// By rule: its flows beside those of its control group
    Rule,
}

/// What one measure says of one rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub rule: String,
    pub measure: &'static str,
    /// Flows of the rule and of its control group that the measure is of.
    pub flows: u64,
    pub control_flows: u64,
    /// The rule's mean less that of the control group, with the interval of 95 % that holds at
    /// every look. For measures on a log scale: the relative change; 0.1 means 10 % more.
    pub difference: Interval,
    /// Whether more is better.
    pub more_is_better: bool,
    /// Roughly how many pairs of flows more it takes until the interval excludes 0.
    pub pairs_left: Option<u64>,
    /// The difference has changed with time, so that one interval cannot say it.
    pub drifts: bool,
}

/// The comparisons of one rule, one for each measure.
struct Compared(Vec<Comparison>);

impl Compared {
    fn new() -> Self {
        let alpha = ALPHA / MEASURES.len() as f64;
        Self(MEASURES.iter().map(|it| Comparison::new(it.least, it.most, alpha)).collect())
    }

    fn add(&mut self, flow: &Flow) {
        let is_control = flow.group == Group::Control;
        for (measure, comparison) in MEASURES.iter().zip(&mut self.0) {
            if let Some(outcome) = (measure.of)(flow) {
                comparison.add(is_control, outcome);
            }
        }
    }

    fn rows(&self, rule: &str) -> Vec<Row> {
        let row = |(measure, comparison): (&Measure, &Comparison)| {
            let [flows, control_flows] = comparison.counts();
            let Interval { mean, least, most } = comparison.difference();
            let share = |it: f64| if measure.is_logarithm { it.exp_m1() } else { it };
            Row {
                rule: rule.to_owned(),
                measure: measure.name,
                flows,
                control_flows,
                difference: Interval { mean: share(mean), least: share(least), most: share(most) },
                more_is_better: measure.more_is_better,
                pairs_left: comparison.pairs_left(),
                drifts: comparison.drifts(),
            }
        };
        let rows = MEASURES.iter().zip(&self.0).map(row);
        rows.filter(|row| row.flows > 0 || row.control_flows > 0).collect()
    }
}

/// Calls `take` with each flow of a rule that has ended. Returns how many lines are not events.
fn read(path: &Path, mut take: impl FnMut(&Flow)) -> Result<u64, Failure> {
    event_log::read(path, |line| match Flow::parse(line) {
        Ok(flow) => {
            flow.iter().for_each(&mut take);
            true
        }
        Err(_) => false,
    })
}

impl CompareArgs {
    pub fn run(self) -> Result<(), Failure> {
        let By::Rule = self.by;
        let own = || event_log::logs(&self.run_dir.run_dir);
        let logs = if self.events.is_empty() { own() } else { self.events };
        if logs.is_empty() {
            let path = run_dir::event_log(&self.run_dir.run_dir);
            return Err(format!(
                "{}: there is no event log\nfix: give the agent's --run-dir, or --events FILE",
                path.display()
            )
            .into());
        }
        let mut rules: BTreeMap<String, Compared> = BTreeMap::new();
        for path in &logs {
            let odd = read(path, |flow| {
                rules.entry(flow.rule.clone()).or_insert_with(Compared::new).add(flow);
            })?;
            if odd > 0 {
                eprintln!("remuda: {}: {odd} lines are not events", path.display());
            }
        }
        let rows: Vec<Row> = rules.iter().flat_map(|(rule, it)| it.rows(rule)).collect();
        if self.json {
            for row in &rows {
                println!("{}", serde_json::to_string(row)?);
            }
        } else {
            print!("{}", show::text(&rows));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(rule: &str, group: &str, seconds: f64, bytes: u64) -> String {
        let closed = json!({
            "event": "closed", "rule": rule, "rule_use": "bbr", "rule_on": "mark 1",
            "rule_changed": false, "group": group, "duration_ms": seconds * 1e3,
            "acked_bytes": bytes, "lost_pkts": 1, "rtt_ms": 40.0, "mss_bytes": 1000,
        });
        closed.to_string()
    }

    fn compared(lines: &[String]) -> (Vec<Row>, u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        std::fs::write(&path, lines.join("\n")).unwrap();
        let mut all = Compared::new();
        let odd = read(&path, |flow| all.add(flow)).unwrap();
        (all.rows("web"), odd)
    }

    #[test]
    fn a_rule_that_is_faster_is_found_with_its_gain() {
        let lines: Vec<String> = (0..1_600)
            .map(|at| {
                let control = at % 2 == 0;
                let seconds = if control { 1.2 } else { 1.0 } + f64::from(at % 7) * 0.02;
                line("web", if control { "control" } else { "rule" }, seconds, 2_000_000)
            })
            .collect();
        let (rows, odd) = compared(&lines);
        assert_eq!(odd, 0);
        let goodput = rows.iter().find(|row| row.measure == "goodput").expect("a row");
        assert_eq!((goodput.flows, goodput.control_flows), (800, 800));
        let Interval { mean, least, most } = goodput.difference;
        assert!(0.0 < least && least < mean && mean < most && most < 0.4, "{goodput:?}");
        assert!((mean - 0.19).abs() < 0.02 && goodput.pairs_left.is_none(), "{goodput:?}");
        let time = rows.iter().find(|row| row.measure == "time of 1 to 10 MB").expect("a row");
        assert!(time.difference.most < 0.0 && !time.more_is_better, "{time:?}");
        assert!(rows.iter().all(|row| row.measure != "time up to 100 kB"), "{rows:?}");
        let rtt = rows.iter().find(|row| row.measure == "round trip").expect("a row");
        assert!(rtt.difference.least < 0.0 && 0.0 < rtt.difference.most, "{rtt:?}");
    }

    #[test]
    fn lines_that_are_no_events_are_counted_and_others_passed_over() {
        let lines = [
            "{\"event\": \"created\", \"flow\": 1}".to_owned(),
            line("web", "rule", 1.0, 1_000),
            json!({ "event": "closed", "acked_bytes": 5 }).to_string(),
            "{".to_owned(),
            "[]".to_owned(),
            json!({ "event": "closed", "rule": "web", "group": "none" }).to_string(),
            json!({ "event": "closed", "rule": "web", "group": "rule", "rule_changed": true })
                .to_string(),
        ];
        let (rows, odd) = compared(&lines);
        assert_eq!(odd, 3);
        assert!(rows.iter().all(|row| (row.flows, row.control_flows) == (1, 0)), "{rows:?}");
    }
}
