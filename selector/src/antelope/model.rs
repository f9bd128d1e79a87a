//! A model: for each mode and arm, boosted trees that predict how well the arm would do.
//!
//! A model is one file of JSON: what it was trained for (schema, modes, arms), the trees as XGBoost
//! saves them, and a card that says of what it was made and how good it is. `selector/training`
//! writes it; `selector/models/README.md` describes it.
//!
//! A score is an arm's reward as a share of the best arm's on the same path at the same time: 1 is
//! as well as can be, 0 not at all. A model may have several ensembles for a score, each trained on
//! other environments: their mean is the score.
//!
//! A flow has the home arm of the model until the model prefers another arm. The trainer picks the
//! home arm: by default the arm of the best mean score over all kinds of paths of the training. The
//! shipped model has `learned`, which misses least on the development sets. For every other arm
//! `doubts` predict a squared error: of the difference between that arm's score and the home arm's,
//! on kinds of paths that the scores were not trained on. The root of this prediction is the
//! uncertainty of the score. A model without doubts takes the standard deviation of its ensembles.
//!
//! Differs from the paper (Zhou et al., Antelope, ICNP 2021, section IV-A), which predicts rewards:
//! to pick the arm of the largest mean share is to lose the least, where the largest mean reward is
//! that of the arm which is best on the easiest paths. Weights between the paper's three modes mix
//! their scores. Beside one model an arm there is one model for all arms, which gets the arm as
//! further features, 1 or 0 each ([`Kind::Joint`]).
//!
//! Beside scores there are values ([`value`]), which a running agent can hold against what comes;
//! and in a model that was trained on live flows, what those have taught ([`Model::lineage`]).

pub mod value;

pub use remuda_algorithms::loaded::digest_of;
pub use value::{Lineage, Norm, Value};

use crate::features::{COUNT, Features, SchemaHash, schema};
use crate::trees::{self, Ensemble, Saved};
use remuda_algorithms::{Loadable, Preference};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use value::{SavedByArm, SavedOnline, Values};

/// The form of the file.
pub const FORMAT: u32 = 3;
/// A longer file is no model.
pub const BYTES_MAX: usize = 64 << 20;
/// Arms of a model.
const ARMS_MAX: usize = 32;
/// Ensembles of a score.
const MEMBERS_MAX: usize = 16;
/// The model that the agent has without being given one.
const SHIPPED: &str = include_str!("../../models/antelope.json");

/// Why a file is no model that can be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not JSON, or not of the form.
    #[error("it is not a model of antelope: {0}")]
    Form(#[from] serde_json::Error),
    /// Of another form, as an earlier or a later program has it.
    #[error(
        "its format is {theirs}, and this program's {FORMAT}\n\
         fix: train it anew with this program, `make train-antelope`"
    )]
    Format { theirs: u32 },
    /// Trained on other features than this program has.
    #[error(
        "its schema is {theirs}, and this program's {ours}: it was trained on other features\n\
         fix: train it anew with this program, `make train-antelope`"
    )]
    Schema { theirs: String, ours: String },
    /// An ensemble that cannot be used.
    #[error("{part}: {source}")]
    Trees {
        /// Which part of the file it is.
        part: String,
        source: trees::Error,
    },
    /// What this program makes of the trees is not what XGBoost did.
    #[error("checks: check {number} is {ours}, and was {theirs} where the model was trained")]
    Check {
        number: usize,
        /// What we make of it.
        ours: f32,
        theirs: f32,
    },
    /// What breaks another rule.
    #[error("{what}: {rule}")]
    Rule {
        what: String,
        /// What it must be.
        rule: &'static str,
    },
}

/// How the arm enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Each arm has ensembles of its own, as in the paper.
    PerArm,
    /// One for all, which gets the arm as features.
    Joint,
}

/// What a model says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    pub name: String,
    /// Of what it was trained: seeds and counts.
    pub data: String,
    /// The commit of the programs that collected and trained.
    pub commit: String,
    /// The seed of the training.
    pub seed: u64,
    pub environments_trained: u64,
    /// Environments held out, which gave the scores.
    pub environments_held_out: u64,
    pub rows: u64,
    /// Measured on the environments held out, by name: shares of the best arm's reward.
    pub scores: BTreeMap<String, f64>,
    /// Where it is not to be trusted.
    pub limits: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: u32,
    policy: String,
    schema_version: u32,
    schema_hash: String,
    kind: Kind,
    arms: Vec<String>,
    home: String,
    modes: Modes<BTreeMap<String, Vec<Saved>>>,
    doubts: Option<Modes<BTreeMap<String, Saved>>>,
    /// Absent in format 1.
    values: Option<SavedByArm>,
    online: Option<SavedOnline>,
    checks: Vec<Check>,
    card: Card,
}

/// A row of features, and what XGBoost's own evaluation of an ensemble said of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    mode: String,
    arm: String,
    /// A `null` is not known.
    features: Vec<Option<f32>>,
    says: f32,
}

/// Something of each of the paper's modes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Modes<T> {
    default: T,
    throughput: T,
    delay: T,
}

impl<T> Modes<T> {
    fn try_map<U, E>(self, f: impl Fn(&'static str, T) -> Result<U, E>) -> Result<Modes<U>, E> {
        Ok(Modes {
            default: f("default", self.default)?,
            throughput: f("throughput", self.throughput)?,
            delay: f("delay", self.delay)?,
        })
    }
}

/// What is predicted of an arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    pub arm: &'static str,
    /// The share of the best arm's reward.
    pub mean: f32,
    /// One standard deviation of the difference to the home arm's score; 0 for the home arm.
    pub uncertainty: f32,
}

/// A model, checked and laid out.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    kind: Kind,
    arms: Vec<&'static str>,
    /// The place of the home arm.
    home: usize,
    /// For each mode, and each arm (one entry if joint), the ensembles.
    modes: Modes<Vec<Vec<Ensemble>>>,
    /// For each mode and each arm except the home arm.
    doubts: Option<Modes<Vec<Option<Ensemble>>>>,
    values: Values,
    card: Card,
    digest: String,
}

impl Loadable for Model {
    fn digest(&self) -> &str {
        &self.digest
    }
}

fn refuse(what: impl Into<String>, rule: &'static str) -> Error {
    Error::Rule { what: what.into(), rule }
}

fn known_arms(names: &[String]) -> Result<Vec<&'static str>, Error> {
    let mut arms: Vec<&'static str> = Vec::new();
    for name in names {
        let arm = remuda_algorithms::arm(name);
        let arm = arm.ok_or_else(|| refuse(format!("arms: {name}"), "it must be an arm"))?;
        if arms.contains(&arm.name) {
            return Err(refuse(format!("arms: {name}"), "an arm must be there once"));
        }
        arms.push(arm.name);
    }
    if arms.is_empty() || arms.len() > ARMS_MAX {
        return Err(refuse(format!("{} arms", arms.len()), "it must have 1 to 32"));
    }
    Ok(arms)
}

impl Model {
    /// The one that the agent has without being given one.
    pub fn shipped() -> Arc<Self> {
        static MODEL: OnceLock<Arc<Model>> = OnceLock::new();
        let read = || Arc::new(Self::parse(SHIPPED).expect("a test parses it"));
        Arc::clone(MODEL.get_or_init(read))
    }

    /// The file of [`Self::shipped`].
    pub fn shipped_text() -> &'static str {
        SHIPPED
    }

    /// Reads a file's text, whole or not at all.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let file: File = serde_json::from_str(text)?;
        if file.format != FORMAT {
            return Err(Error::Format { theirs: file.format });
        }
        if file.policy != "antelope" {
            return Err(refuse(format!("policy = {}", file.policy), "it must be antelope"));
        }
        let ours = SchemaHash::ours().to_string();
        if file.schema_hash != ours || file.schema_version != schema().version {
            return Err(Error::Schema { theirs: file.schema_hash, ours });
        }
        let arms = known_arms(&file.arms)?;
        let (kind, card) = (file.kind, file.card);
        let modes = file.modes.try_map(|mode, of| ensembles(kind, &arms, mode, &of))?;
        let home = arms.iter().position(|arm| *arm == file.home);
        let rule = "it must be one of the model's arms";
        let home = home.ok_or_else(|| refuse(format!("home = {}", file.home), rule))?;
        let read = |mode, of: BTreeMap<_, _>| doubts_of(&arms, home, mode, &of);
        let doubts = file.doubts.map(|doubts| doubts.try_map(read)).transpose()?;
        let saved = file.values.ok_or_else(|| refuse("values", "it is missing"))?;
        let values = Values::read(&arms, &saved, file.online.as_ref())?;
        let digest = digest_of(text);
        let model = Self { kind, arms, home, modes, doubts, values, card, digest };
        for (number, check) in file.checks.iter().enumerate() {
            model.check(number, check)?;
        }
        Ok(model)
    }

    /// Refuses the model unless it predicts for this check what XGBoost predicted, bit for bit.
    /// `number` is the place of the check in the file, for the error.
    fn check(&self, number: usize, check: &Check) -> Result<(), Error> {
        let rule = "it must have a mode, an arm and the features of this model";
        let broken = || refuse(format!("checks: check {number}"), rule);
        let values: Vec<f32> = check.features.iter().map(|it| it.unwrap_or(f32::NAN)).collect();
        let features = Features(values.try_into().map_err(|_| broken())?);
        let ours = self.named(&check.mode, &check.arm, &features).ok_or_else(broken)?;
        let theirs = check.says;
        let is_same = ours.to_bits() == theirs.to_bits();
        if is_same { Ok(()) } else { Err(Error::Check { number, ours, theirs }) }
    }

    /// The prediction of the ensemble that a check names; `None` if the model has no such ensemble.
    fn named(&self, mode: &str, arm: &str, features: &Features) -> Option<f32> {
        let at = self.at(arm);
        let modes = match mode {
            "default" => &self.modes.default,
            "throughput" => &self.modes.throughput,
            "delay" => &self.modes.delay,
            "doubt_default" => return self.doubted(at, |of| &of.default, features),
            "doubt_throughput" => return self.doubted(at, |of| &of.throughput, features),
            "doubt_delay" => return self.doubted(at, |of| &of.delay, features),
            // What all arms share has no arm's name, and what is an arm's has no other.
            _ if at.is_none() && !arm.is_empty() => return None,
            _ => return Some(self.values.named(mode, at)?.predict(&features.0)),
        };
        let (row, width, of) = self.asked(modes, at?, features);
        Some(of[0].predict(&row[..width]))
    }

    /// The prediction of the ensemble of doubts that a check names.
    fn doubted(
        &self,
        at: Option<usize>,
        of: impl Fn(&Modes<Vec<Option<Ensemble>>>) -> &Vec<Option<Ensemble>>,
        features: &Features,
    ) -> Option<f32> {
        Some(of(self.doubts.as_ref()?)[at?].as_ref()?.predict(&features.0))
    }

    /// The arm of a flow for which nothing speaks for another.
    pub fn home(&self) -> &'static str {
        self.arms[self.home]
    }

    fn at(&self, arm: &str) -> Option<usize> {
        self.arms.iter().position(|known| *known == arm)
    }

    /// What it says of itself.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// The arms that it knows.
    pub fn arms(&self) -> &[&'static str] {
        &self.arms
    }

    /// How the arm enters.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// [`digest_of`] its file: which model it is.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// From what it was made, if live flows have taught it something.
    pub fn lineage(&self) -> Option<&Lineage> {
        self.values.online.as_ref().map(|online| &online.lineage)
    }

    /// What the arm would make of a path of these features over the next [`value::SPAN`]; none of
    /// an arm that it does not know.
    pub fn value(&self, features: &Features, arm: &str) -> Option<Value> {
        Some(self.values.of(self.at(arm)?, features))
    }

    /// How well each arm would do on a path of these features, for an application that wants that,
    /// in the order of [`Self::arms`].
    pub fn predict(&self, features: &Features, wants: Preference) -> Vec<Score> {
        let mut scores = Vec::new();
        self.predict_into(features, wants, &mut scores);
        scores
    }

    /// Writes the same scores into `scores`. The list of an earlier call saves an allocation.
    pub fn predict_into(&self, features: &Features, wants: Preference, scores: &mut Vec<Score>) {
        let wants = if wants.is_valid() { wants } else { Preference::DEFAULT };
        // Between two of the three modes, whichever weight is larger.
        let doubts = self.doubts.as_ref();
        let (corner, doubts_of_corner, share) = if wants.throughput >= wants.delay {
            let doubts = doubts.map(|of| &of.throughput);
            (&self.modes.throughput, doubts, wants.delay / wants.throughput)
        } else {
            let doubts = doubts.map(|of| &of.delay);
            (&self.modes.delay, doubts, wants.throughput / wants.delay)
        };
        let doubts = doubts.map(|of| &of.default);
        let share = share.clamp(0.0, 1.0) as f32;
        let score = |(at, arm): (usize, &&'static str)| {
            let of = |modes: &[Vec<Ensemble>], doubts: Option<&Vec<Option<Ensemble>>>, weight| {
                if weight == 0.0 {
                    return (0.0, 0.0);
                }
                let (mean, spread) = self.of_mode(modes, at, features);
                let doubt = |of: &Option<Ensemble>| {
                    of.as_ref().map_or(0.0, |it| it.predict(&features.0).max(0.0).sqrt())
                };
                (mean, doubts.map_or(spread, |of| doubt(&of[at])))
            };
            let both = of(&self.modes.default, doubts, share);
            let one = of(corner, doubts_of_corner, 1.0 - share);
            let online = self.values.online.as_ref();
            let factor = online.map_or(1.0, |online| online.factor(at, features, wants));
            let mix = |both: f32, one: f32| factor * (share * both + (1.0 - share) * one);
            Score { arm, mean: mix(both.0, one.0), uncertainty: mix(both.1, one.1) }
        };
        scores.clear();
        scores.extend(self.arms.iter().enumerate().map(score));
    }

    /// The row that the ensembles are asked about for the arm at that place, its length, and they.
    fn asked<'a>(
        &self,
        modes: &'a [Vec<Ensemble>],
        at: usize,
        features: &Features,
    ) -> ([f32; COUNT + ARMS_MAX], usize, &'a [Ensemble]) {
        let mut row = [0.0; COUNT + ARMS_MAX];
        row[..COUNT].copy_from_slice(&features.0);
        match self.kind {
            Kind::PerArm => (row, COUNT, &modes[at]),
            Kind::Joint => {
                row[COUNT + at] = 1.0;
                (row, COUNT + self.arms.len(), &modes[0])
            }
        }
    }

    /// Mean and standard deviation of what the ensembles of a mode say of the arm at that place.
    fn of_mode(&self, modes: &[Vec<Ensemble>], at: usize, features: &Features) -> (f32, f32) {
        let (row, width, of) = self.asked(modes, at, features);
        let says = of.iter().map(|ensemble| ensemble.predict(&row[..width]));
        let (sum, squares) = says.fold((0.0, 0.0), |(sum, sq), it| (sum + it, sq + it * it));
        let count = of.len() as f32;
        let mean = sum / count;
        (mean, (squares / count - mean * mean).max(0.0).sqrt())
    }
}

fn ensembles(
    kind: Kind,
    arms: &[&'static str],
    mode: &'static str,
    of: &BTreeMap<String, Vec<Saved>>,
) -> Result<Vec<Vec<Ensemble>>, Error> {
    let (names, width) = match kind {
        Kind::PerArm => (arms.to_vec(), COUNT),
        Kind::Joint => (vec!["all"], COUNT + arms.len()),
    };
    if of.len() != names.len() {
        return Err(refuse(format!("modes.{mode}"), "it must have an entry for each arm"));
    }
    let read = |arm: &&'static str| {
        let what = || format!("modes.{mode}.{arm}");
        let saved = of.get(*arm).ok_or_else(|| refuse(what(), "it is missing"))?;
        if saved.is_empty() || saved.len() > MEMBERS_MAX {
            return Err(refuse(what(), "it must have 1 to 16 ensembles"));
        }
        let each = saved.iter().map(|saved| Ensemble::new(saved, width));
        let each = each.collect::<Result<Vec<_>, _>>();
        each.map_err(|source| Error::Trees { part: what(), source })
    };
    names.iter().map(read).collect()
}

/// The doubts of a mode, in the order of the arms.
fn doubts_of(
    arms: &[&'static str],
    home: usize,
    mode: &'static str,
    of: &BTreeMap<String, Saved>,
) -> Result<Vec<Option<Ensemble>>, Error> {
    if of.len() + 1 != arms.len() {
        let rule = "it must have an entry for each arm except the home arm";
        return Err(refuse(format!("doubts.{mode}"), rule));
    }
    let read = |(at, arm): (usize, &&'static str)| {
        if at == home {
            return Ok(None);
        }
        let what = || format!("doubts.{mode}.{arm}");
        let saved = of.get(*arm).ok_or_else(|| refuse(what(), "it is missing"))?;
        let ensemble = Ensemble::new(saved, COUNT);
        ensemble.map(Some).map_err(|source| Error::Trees { part: what(), source })
    };
    arms.iter().enumerate().map(read).collect()
}

#[cfg(test)]
pub(super) mod tests;
