//! `remuda model`

use crate::table::{figure, table};
use crate::{Failure, RunDirArgs};
use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::online::{DriftRow, ModelRow, Report, Score, ShadowRow};
use clap::{Args, ValueEnum};

/// How many digits of a digest are shown; enough to distinguish models.
const DIGITS: usize = 12;

/// Show antelope's model, how well it predicts, and the candidates; or return to an earlier model.
///
/// Errors are natural logarithms of the measured value minus that of the prediction: 0.1 is about a
/// tenth. A gain is by how much a model's error is lower than that of the model in force on the
/// same flows, each squared error s as s / (1 + s), with an interval that holds at every look.
#[derive(Debug, Args)]
pub struct ModelArgs {
    #[command(flatten)]
    run_dir: RunDirArgs,
    /// Return, for new and running flows, to the previous model, or to the configured or shipped
    /// one
    #[arg(value_enum)]
    to: Option<To>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum To {
    /// The model that was in force before; drops a candidate
    Back,
    /// The configured or shipped model; drops a candidate
    Base,
}

fn named(model: &ModelRow) -> String {
    let digest: String = model.digest.chars().take(DIGITS).collect();
    format!("{} {digest}", model.name)
}

fn taught(model: &ModelRow) -> String {
    match &model.parent {
        None => format!("of {}", model.data),
        Some(parent) => {
            let parent: String = parent.chars().take(DIGITS).collect();
            let ModelRow { rows, flows, .. } = model;
            format!("taught by {rows} rows of {flows} live flows what {parent} missed")
        }
    }
}

fn scored(score: &Score) -> String {
    match score.predictions {
        0 => "no flow has scored it yet".to_owned(),
        predictions => {
            let (flows, square) = (score.flows, score.square);
            format!("{flows} flows, {predictions} predictions, squared error {square:.3}")
        }
    }
}

fn drifted(drift: &DriftRow) -> String {
    let DriftRow { usual, now, flows } = drift;
    format!("the error of power was {usual:.2} and is {now:.2}, on {flows} flows")
}

fn shadow(row: &ShadowRow) -> String {
    let gain = row.gain.map_or_else(
        || "no gain known".to_owned(),
        |it| format!("gain {:.3} ({:.3} to {:.3})", it.mean, it.least, it.most),
    );
    let next = match row.flows_left {
        _ if row.is_judged => "not judged any more".to_owned(),
        Some(flows) => format!("some {flows} flows more to tell them apart"),
        None => "judged after each flow".to_owned(),
    };
    format!("{}, {}; {}; {gain}; {next}", named(&row.model), taught(&row.model), scored(&row.score))
}

fn print(report: &Report) {
    let origin = if report.is_base { "configured or shipped" } else { "took over" };
    println!("in force: {}, {}", named(&report.model), taught(&report.model));
    println!("since: {} s ({origin})", report.in_force_s);
    match &report.score {
        None => println!("scores: none; online.enabled or samples.enabled is false, or has failed"),
        Some(score) => println!("scores: {}", scored(score)),
    }
    println!("drift: {}", report.drift.as_ref().map_or_else(|| "none".to_owned(), drifted));
    for row in &report.shadows {
        println!("{}: {}", row.role, shadow(row));
    }
    let arms = report.score.as_ref().map(|score| score.arms.as_slice()).unwrap_or_default();
    if arms.is_empty() {
        return;
    }
    let mut out =
        table(&["arm", "predictions", "error of throughput", "error of delay", "squared error"]);
    for row in arms {
        let [throughput, delay, square] =
            [row.throughput, row.delay, row.square].map(|it| figure(Some(it)));
        out.add_row([row.arm.clone(), row.predictions.to_string(), throughput, delay, square]);
    }
    println!("{out}");
}

impl ModelArgs {
    pub fn run(self) -> Result<(), Failure> {
        let request = match self.to {
            None => Request::Model {},
            Some(To::Back) => Request::ModelBack {},
            Some(To::Base) => Request::ModelBase {},
        };
        match ask(&self.run_dir.run_dir, &request)? {
            Answer::Model(report) if self.json => println!("{}", serde_json::to_string(&report)?),
            Answer::Model(report) => print(&report),
            other => return Err(format!("the agent answered {other:?}").into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_is_fits_into_a_line() {
        let base = ModelRow {
            name: "antelope".to_owned(),
            digest: "0123456789abcdef".repeat(4),
            parent: None,
            data: "6000 environments".to_owned(),
            rows: 0,
            flows: 0,
        };
        assert_eq!(named(&base), "antelope 0123456789ab");
        assert_eq!(taught(&base), "of 6000 environments");
        let online = ModelRow { parent: Some("f".repeat(64)), rows: 900, flows: 40, ..base };
        let want = "taught by 900 rows of 40 live flows what ffffffffffff missed";
        assert_eq!(taught(&online), want);
        assert_eq!(scored(&Score::default()), "no flow has scored it yet");
        let row = ShadowRow {
            role: "candidate".to_owned(),
            model: online,
            score: Score { flows: 3, predictions: 5, square: 0.25, arms: Vec::new() },
            gain: None,
            gain_flows: 2,
            flows_left: Some(30),
            is_judged: false,
        };
        let line = shadow(&row);
        assert!(line.contains("3 flows, 5 predictions, squared error 0.250; no gain known"));
        assert!(line.ends_with("some 30 flows more to tell them apart"), "{line}");
    }
}
