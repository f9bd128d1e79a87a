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
//! A model knows how far to trust itself. Its home arm is the one that a flow has where nothing
//! speaks for another: that of the best mean score over the families of paths that it was trained
//! on. For every other arm `doubts` predict the squared error of that arm's score less the home
//! arm's, as it was on families that the scores were not trained on. The root is the uncertainty of
//! the score; without doubts it is the standard deviation of the ensembles.
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
    /// One standard deviation of what this arm has more or less than the home arm; 0 of that.
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

    /// The same, in place of what the list has: a list that is used again takes no memory.
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
pub(super) mod tests {
    use super::*;
    use crate::trees::leaf;
    use serde_json::{Value, json};

    /// bbr and vegas, whose scores do not depend on the path.
    pub fn constant(default: [f32; 2], throughput: [f32; 2], delay: [f32; 2]) -> Arc<Model> {
        let one = |value: f32| vec![leaf(value, COUNT)];
        let mode = |[bbr, vegas]: [f32; 2]| json!({ "bbr": one(bbr), "vegas": one(vegas) });
        let mut document = document();
        document["modes"] = json!({
            "default": mode(default), "throughput": mode(throughput), "delay": mode(delay)
        });
        Arc::new(parse(&document).expect("a model"))
    }

    /// bbr, at home, and vegas, of whose gain so much is doubted.
    pub fn doubted(default: [f32; 2], doubt: f32) -> Arc<Model> {
        let mut document = document();
        let mode = |bbr, vegas| json!({ "bbr": [leaf(bbr, COUNT)], "vegas": [leaf(vegas, COUNT)] });
        document["modes"]["default"] = mode(default[0], default[1]);
        let squared = json!({ "vegas": leaf(doubt * doubt, COUNT) });
        document["doubts"] = json!({ "default": squared, "throughput": squared, "delay": squared });
        Arc::new(parse(&document).expect("a model"))
    }

    #[test]
    fn doubts_are_of_every_arm_but_the_home_arm() {
        let model = doubted([0.8, 0.6], 0.3);
        assert_eq!(model.home(), "bbr");
        let said = model.predict(&NOTHING, Preference::DEFAULT);
        assert_eq!(said[0].uncertainty, 0.0);
        assert!((said[1].uncertainty - 0.3).abs() < 1e-6);
        let both = json!({ "bbr": leaf(0.1, COUNT), "vegas": leaf(0.1, COUNT) });
        for (doubts, want) in [
            (both, "doubts.default: it must have an entry for each arm except the home arm"),
            (json!({ "bbr": leaf(0.1, COUNT) }), "doubts.default.vegas: it is missing"),
        ] {
            let mut document = document();
            document["doubts"] =
                json!({ "default": doubts, "throughput": doubts, "delay": doubts });
            assert!(parse(&document).unwrap_err().to_string().starts_with(want), "{want}");
        }
        let mut document = document();
        document["home"] = json!("cubic");
        assert!(parse(&document).unwrap_err().to_string().starts_with("home = cubic"));
    }

    /// bbr: .8 in default, 1 for throughput, .5 for delay; vegas: .6, .2 and 1, of two ensembles.
    fn document() -> Value {
        let one = |value: f32| vec![leaf(value, COUNT)];
        let two = |value: f32| vec![leaf(value - 0.1, COUNT), leaf(value + 0.1, COUNT)];
        let mode = |bbr, vegas| json!({ "bbr": one(bbr), "vegas": two(vegas) });
        let each = |bbr, vegas| json!({ "bbr": leaf(bbr, COUNT), "vegas": leaf(vegas, COUNT) });
        json!({
            "format": 3, "policy": "antelope", "home": "bbr", "doubts": null,
            "schema_version": schema().version, "schema_hash": SchemaHash::ours().to_string(),
            "kind": "per_arm", "arms": ["bbr", "vegas"], "checks": [],
            "card": {
                "name": "t", "data": "", "commit": "", "seed": 1, "environments_trained": 1,
                "environments_held_out": 1, "rows": 1, "scores": {}, "limits": ""
            },
            "modes": {
                "default": mode(0.8, 0.6), "throughput": mode(1.0, 0.2), "delay": mode(0.5, 1.0)
            },
            "values": { "throughput": each(-0.5, -0.75), "delay": each(0.5, 0.25) }
        })
    }

    fn parse(document: &Value) -> Result<Model, Error> {
        Model::parse(&document.to_string())
    }

    const NOTHING: Features = Features([f32::NAN; COUNT]);

    #[test]
    fn the_shipped_model_is_whole_small_and_of_this_schema() {
        let model = Model::shipped();
        assert!(SHIPPED.len() < 4_000_000, "{} bytes", SHIPPED.len());
        assert!(model.arms().contains(&"bbr") && model.arms().len() > 4);
        let scores = &model.card().scores;
        assert!(scores["default"] > scores["default_best_fixed_arm"], "{scores:?}");
        let said = model.predict(&NOTHING, Preference::DEFAULT);
        assert!(said.iter().all(|score| score.mean.is_finite()));
    }

    #[test]
    fn weights_between_the_modes_mix_their_scores() {
        let model = parse(&document()).unwrap();
        let at = |throughput, delay| {
            let said = model.predict(&NOTHING, Preference { throughput, delay });
            let hundredths = |value: f32| (value * 100.0).round() as i32;
            said.iter().map(|it| hundredths(it.mean)).collect::<Vec<_>>()
        };
        assert_eq!(at(1.0, 1.0), [80, 60]);
        assert_eq!(at(0.5, 0.5), [80, 60], "what counts is how they compare");
        assert_eq!(at(1.0, 0.0), [100, 20]);
        assert_eq!(at(1.0, 0.5), [90, 40]);
        assert_eq!(at(0.0, 1.0), [50, 100]);
        assert_eq!(at(0.25, 1.0), [58, 90]);
        assert_eq!(at(0.0, 0.0), [80, 60], "no preference is the default one");
        let said = model.predict(&NOTHING, Preference::DEFAULT);
        assert_eq!(said[0].uncertainty, 0.0);
        assert!((said[1].uncertainty - 0.1).abs() < 1e-6);
    }

    #[test]
    fn a_joint_model_gets_the_arm_as_features() {
        let mut joint = document();
        joint["kind"] = json!("joint");
        // The second arm's feature, COUNT + 1, is 1 for vegas alone.
        let tree = json!({
            "left_children": [1, -1, -1], "right_children": [2, -1, -1],
            "split_indices": [COUNT + 1, 0, 0], "split_conditions": [0.5, 0.25, 0.75],
            "default_left": [0, 0, 0]
        });
        let mut of = leaf(0.0, COUNT + 2);
        *of.pointer_mut("/learner/gradient_booster/model/trees/0").unwrap() = tree;
        for mode in ["default", "throughput", "delay"] {
            joint["modes"][mode] = json!({ "all": [of] });
        }
        let model = parse(&joint).unwrap();
        assert_eq!(model.kind(), Kind::Joint);
        let said = model.predict(&NOTHING, Preference::DEFAULT);
        assert_eq!((said[0].mean, said[1].mean), (0.25, 0.75));
    }

    /// [`document`], with vegas alone corrected: throughput e^.5 times as large, delay e^-.25.
    fn taught() -> Value {
        let mut document = document();
        let (shared, vegas) = (leaf(-4.0, COUNT), |value| json!({ "vegas": leaf(value, COUNT) }));
        document["online"] = json!({
            "parent": "0a".repeat(32), "rows": 7, "flows": 3,
            "shared": { "throughput": shared, "delay": shared },
            "corrections": { "throughput": vegas(0.5), "delay": vegas(-0.25) }
        });
        document
    }

    #[test]
    fn a_value_is_the_arms_and_what_live_flows_have_taught_of_it() {
        let value = |document: &Value, arm: &str| {
            let of = parse(document).unwrap().value(&NOTHING, arm);
            of.map(|it| (it.ln_throughput, it.ln_delay))
        };
        assert_eq!(value(&document(), "bbr"), Some((-0.5, 0.5)));
        assert_eq!(value(&taught(), "bbr"), Some((-4.5, -3.5)));
        assert_eq!(value(&taught(), "vegas"), Some((-4.25, -4.0)));
        assert_eq!(value(&taught(), "reno"), None);
        let model = parse(&taught()).unwrap();
        let lineage = Lineage { parent: "0a".repeat(32), rows: 7, flows: 3 };
        assert_eq!(
            (model.lineage(), parse(&document()).unwrap().lineage()),
            (Some(&lineage), None)
        );
    }

    #[test]
    fn corrections_of_an_arm_move_its_score_by_what_is_wanted_and_not_far() {
        let at = |document: &Value, throughput, delay| {
            let model = parse(document).unwrap();
            model.predict(&NOTHING, Preference { throughput, delay })
        };
        for (throughput, delay, want) in [(1.0, 1.0, 0.75f32), (1.0, 0.0, 0.5), (0.0, 1.0, 0.25)] {
            let (was, is) = (at(&document(), throughput, delay), at(&taught(), throughput, delay));
            assert_eq!(was[0], is[0], "bbr has no correction of its own");
            let near = |one: f32, other: f32| assert!((one - other).abs() < 1e-6, "{one} {other}");
            near(is[1].mean, was[1].mean * want.exp());
            near(is[1].uncertainty, was[1].uncertainty * want.exp());
        }
        for (correction, want) in [(9.0, 4.0), (-9.0, 0.25)] {
            let mut document = taught();
            document["online"]["corrections"]["throughput"]["vegas"] = leaf(correction, COUNT);
            let is = at(&document, 1.0, 0.0)[1].mean;
            assert!((is - 0.2 * want).abs() < 1e-6, "{is}");
        }
    }

    #[test]
    fn what_was_taught_is_held_to_its_rules() {
        let check = |mode: &str, arm: &str, says: f32| {
            let features = vec![Value::Null; COUNT];
            json!([{ "mode": mode, "arm": arm, "features": features, "says": says }])
        };
        let part = "online.corrections.delay.reno: it must be one of the model's arms";
        for (path, value, want) in [
            ("/online/parent", json!("0A".repeat(32)), "online.parent"),
            ("/online/parent", json!("00"), "online.parent: it must be 64 digits"),
            ("/online/rows", json!(-1), "not a model"),
            ("/online/shared/delay", leaf(0.0, 3), "online.shared.delay: num_feature = 3"),
            ("/online/corrections/delay", json!({ "reno": leaf(0.0, COUNT) }), part),
            ("/checks", check("shared_delay", "bbr", -4.0), "check 0: it must have a mode"),
            ("/checks", check("shared_delay", "reno", -4.0), "check 0: it must have a mode"),
            ("/checks", check("value_delay", "", 0.5), "check 0: it must have a mode"),
            ("/checks", check("correction_delay", "bbr", 0.0), "check 0: it must have a mode"),
            ("/checks", check("correction_delay", "vegas", 0.0), "check 0 is -0.25, and was 0"),
        ] {
            let mut document = taught();
            *document.pointer_mut(path).unwrap() = value;
            let error = parse(&document).unwrap_err().to_string();
            assert!(error.contains(want), "{path}: {error}");
        }
        for (mode, arm, says) in [
            ("value_throughput", "vegas", -0.75),
            ("value_delay", "bbr", 0.5),
            ("correction_throughput", "vegas", 0.5),
            ("correction_delay", "vegas", -0.25),
            ("shared_throughput", "", -4.0),
            ("shared_delay", "", -4.0),
        ] {
            let mut document = taught();
            document["checks"] = check(mode, arm, says);
            parse(&document).unwrap_or_else(|error| panic!("{mode}: {error}"));
        }
        let mut document = taught();
        document["online"] = Value::Null;
        assert!(parse(&document).unwrap().lineage().is_none());
    }

    #[test]
    fn a_digest_is_of_the_files_bytes() {
        let text = document().to_string();
        let (one, other) = (Model::parse(&text).unwrap(), Model::parse(&format!("{text}\n")));
        assert_eq!(one.digest().len(), 64);
        assert_ne!(one.digest(), other.unwrap().digest(), "the same model, and another file");
    }

    #[test]
    fn what_breaks_a_rule_is_refused_and_named() {
        let check = |says: f32| {
            json!([{
                "mode": "delay", "arm": "bbr", "features": vec![Value::Null; COUNT], "says": says
            }])
        };
        let cases = [
            ("/format", json!(1), "its format is 1, and this program's 3\nfix: train it anew"),
            ("/policy", json!("rein"), "policy = rein"),
            ("/schema_hash", json!("00"), "it was trained on other features"),
            ("/arms/0", json!("bbbr"), "arms: bbbr"),
            ("/arms/0", json!("vegas"), "must be there once"),
            ("/modes/delay/bbr", json!([]), "modes.delay.bbr: it must have 1 to 16"),
            ("/modes/delay/bbr", json!([leaf(0.0, 2)]), "modes.delay.bbr: num_feature = 2"),
            ("/modes/delay", json!({ "bbr": [] }), "modes.delay: it must have an entry for each"),
            ("/modes/delay", json!({ "bbr": [], "reno": [] }), "modes.delay"),
            ("/values", Value::Null, "values: it is missing"),
            ("/values/delay", json!({}), "values.delay: it must have an entry for each"),
            ("/values/delay/bbr", leaf(0.0, 2), "values.delay.bbr: num_feature = 2"),
            ("/values/delay/bbr", leaf(f32::NAN, COUNT), "not a model"),
            ("/checks", check(0.25), "check 0 is 0.5, and was 0.25"),
            ("/checks", json!([{ "mode": "x", "arm": "", "features": [], "says": 0 }]), "check 0"),
            ("/card/seed", json!("x"), "not a model"),
        ];
        for (path, value, want) in cases {
            let mut document = document();
            *document.pointer_mut(path).unwrap() = value;
            let error = parse(&document).unwrap_err().to_string();
            assert!(error.contains(want), "{path}: {error}");
        }
        let mut good = document();
        good["checks"] = check(0.5);
        parse(&good).unwrap();
        let text = good.to_string();
        for cut in [0, 1, text.len() / 2, text.len() - 1] {
            Model::parse(&text[..cut]).expect_err("truncated");
        }
    }
}
