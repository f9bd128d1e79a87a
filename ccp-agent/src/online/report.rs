//! The output of `remuda model`.

use super::Online;
use super::scores::Score;
use super::shadow::Shadow;
use crate::clock;
use crate::interval::Interval;
use remuda_selector::antelope::model::Model;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRow {
    pub name: String,
    /// The SHA-256 of the model's file.
    pub digest: String,
    /// The digest of the model from which this one was trained on live flows; `None` if it was not.
    pub parent: Option<String>,
    /// A description of the training data.
    pub data: String,
    /// Live samples that it was trained on.
    pub rows: u64,
    /// Live flows of those samples.
    pub flows: u64,
}

impl ModelRow {
    fn of(model: &Model) -> Self {
        let (card, lineage) = (model.card(), model.lineage());
        Self {
            name: card.name.clone(),
            digest: model.digest().to_owned(),
            parent: lineage.map(|it| it.parent.clone()),
            data: card.data.clone(),
            rows: lineage.map_or(0, |it| it.rows),
            flows: lineage.map_or(0, |it| it.flows),
        }
    }
}

/// A change of the mean error of the model in force.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriftRow {
    /// Mean error of the logarithm of power, over all flows before the drift.
    pub usual: f64,
    /// The same since the drift began.
    pub now: f64,
    /// Flows since the drift began.
    pub flows: u64,
}

/// A model whose predictions are compared with those of the model in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShadowRow {
    /// `candidate` or `previous`.
    pub role: String,
    pub model: ModelRow,
    /// The errors of this model.
    pub score: Score,
    /// By how much its error is lower than that of the model in force, each squared error s as
    /// s / (1 + s): the mean over the flows that have ended or lasted a minute, with an interval
    /// that holds at every look.
    pub gain: Option<Interval>,
    /// Flows that this gain is of.
    pub gain_flows: u64,
    /// Roughly how many flows more it takes to tell the two apart; `None` if nobody can say.
    pub flows_left: Option<u64>,
    /// Whether its last judgement has been.
    pub is_judged: bool,
}

impl ShadowRow {
    fn of(role: &str, shadow: &Shadow) -> Self {
        Self {
            role: role.to_owned(),
            model: ModelRow::of(&shadow.model),
            score: shadow.scores.score(),
            gain: shadow.paired.interval(),
            gain_flows: shadow.paired.flows(),
            flows_left: shadow.paired.flows_left(),
            is_judged: shadow.is_judged,
        }
    }
}

/// The model in force and its scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The model in force.
    pub model: ModelRow,
    /// Whether it is the configured or shipped model.
    pub is_base: bool,
    /// Seconds since the model came into force, by the wall clock.
    pub in_force_s: u64,
    /// Errors of the model since it came into force and this agent started; `None` if models are
    /// not compared.
    pub score: Option<Score>,
    /// The last drift since then.
    pub drift: Option<DriftRow>,
    /// The models that may take over.
    pub shadows: Vec<ShadowRow>,
}

impl Report {
    /// The report of an agent that does not compare models.
    pub fn unwatched(model: &Model) -> Self {
        Self {
            model: ModelRow::of(model),
            is_base: true,
            in_force_s: 0,
            score: None,
            drift: None,
            shadows: Vec::new(),
        }
    }
}

impl Online {
    pub fn report(&self) -> Report {
        let model = self.slot.get();
        let drift = self.drifted.map(|it| DriftRow { usual: it.usual, now: it.now, flows: it.of });
        let shadows = [("candidate", &self.candidate), ("previous", &self.previous)];
        let rows = shadows
            .into_iter()
            .filter_map(|(role, shadow)| shadow.as_ref().map(|shadow| ShadowRow::of(role, shadow)));
        Report {
            model: ModelRow::of(&model),
            is_base: model.digest() == self.base.digest(),
            in_force_s: clock::wall().as_secs().saturating_sub(self.since_unix_s),
            score: Some(self.scores.score()),
            drift,
            shadows: rows.collect(),
        }
    }
}
