//! What `remuda model` shows.

use super::Online;
use super::paired::Interval;
use super::scores::Score;
use super::shadow::Shadow;
use crate::clock;
use remuda_selector::antelope::model::Model;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRow {
    pub name: String,
    /// The SHA-256 of its file.
    pub digest: String,
    /// That of the model whose values it corrects, if live flows have taught it something.
    pub parent: Option<String>,
    /// Of what it was trained.
    pub data: String,
    /// Live rows that it was trained on.
    pub rows: u64,
    /// Of so many flows.
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

/// A drift of what came from what was predicted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriftRow {
    /// Mean error of the logarithm of power over all flows before.
    pub usual: f64,
    /// The same since it drifts.
    pub now: f64,
    /// Flows that showed it.
    pub flows: u64,
}

/// A model that predicts beside the one in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShadowRow {
    /// `candidate` or `previous`.
    pub role: String,
    pub model: ModelRow,
    /// How far it misses.
    pub score: Score,
    /// By how much less than the model in force, in squared error: the mean over flows.
    pub gain: Option<Interval>,
    /// It is judged when so many flows have scored it; none: no more.
    pub judged_at_flows: Option<u64>,
}

impl ShadowRow {
    fn of(role: &str, shadow: &Shadow) -> Self {
        Self {
            role: role.to_owned(),
            model: ModelRow::of(&shadow.model),
            score: shadow.scores.score(),
            gain: shadow.paired.interval(),
            judged_at_flows: shadow.look_at,
        }
    }
}

/// Which model is in force, and how it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The one in force.
    pub model: ModelRow,
    /// It is the configured or shipped one.
    pub is_base: bool,
    /// For how long it has been in force, by the wall clock, in seconds.
    pub in_force_s: u64,
    /// How far it misses, since it is in force and this agent runs; none: nothing is scored.
    pub score: Option<Score>,
    /// The last drift since then.
    pub drift: Option<DriftRow>,
    /// What may take over.
    pub shadows: Vec<ShadowRow>,
}

impl Report {
    /// Where nothing is scored, and nothing can take over.
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
    /// What there is to show.
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
