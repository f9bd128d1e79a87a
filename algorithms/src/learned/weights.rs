//! What an arm reads of the card of its weights: how to observe and how to act, as in training.

use super::observation::{Feature, Features};
use crate::network::Network;
use thiserror::Error;

/// The kind of a network whose output is an action on the window.
pub const KIND: &str = "window";
const OUTPUT: &str = "action";
/// As in the settings of the training environments.
const ACTION_SCALE_MAX: f64 = 10.0;
const STEP_RTTS: (f64, f64) = (0.1, 100.0);
const ADDED_PKTS: (f64, f64) = (0.0, 100.0);
const HISTORY_MAX: usize = 1_000;

/// Why a valid network cannot set a window: its card differs from what the arm needs.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Unfit {
    #[error("the card's kind is {0:?}: an arm of one's own follows networks of kind {KIND:?}")]
    Kind(String),
    #[error("the card's outputs are {0:?}: there must be one, {OUTPUT:?}")]
    Outputs(Vec<String>),
    #[error(
        "the card's inputs[{index}] is {name:?}: inputs are the features of each step in the order \
         of the environment, the oldest step first, each with count 1; {want:?} should be here"
    )]
    Inputs { index: usize, name: String, want: &'static str },
    #[error("the card has {0} inputs: there must be 8 or 12 features for each of 1 to 1000 steps")]
    History(usize),
    #[error("the card's hyperparameters.{key} is {value}: it must be a number {rule}")]
    Setting { key: &'static str, value: String, rule: &'static str },
}

/// How to observe and to act, as in training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    pub features: Features,
    /// The steps in an observation.
    pub history: usize,
    /// How much an action of 1 changes: the factor is 1 plus this.
    pub action_scale: f64,
    /// How many segments each step adds to the window beside the factor: with the same factors,
    /// flows that share a bottleneck come to equal windows.
    pub added_pkts: f64,
    /// The length of a step, in shortest round trips.
    pub step_rtts: f64,
}

impl Plan {
    /// The plan of a network's card; an error names what an arm cannot follow.
    pub fn of(network: &Network) -> Result<Self, Unfit> {
        let card = network.card();
        if card.kind != KIND {
            return Err(Unfit::Kind(card.kind.clone()));
        }
        if card.outputs != [OUTPUT] {
            return Err(Unfit::Outputs(card.outputs.clone()));
        }
        let (inputs, features) = (network.inputs_len(), features_of(network)?);
        let history = inputs / features.list().len();
        if history == 0 || history > HISTORY_MAX || !inputs.is_multiple_of(features.list().len()) {
            return Err(Unfit::History(inputs));
        }
        let number = |key, or, (low, high): (f64, f64), rule| {
            let Some(value) = card.hyperparameters.get(key) else { return Ok(or) };
            let fits = |it: &f64| (low..=high).contains(it);
            value.as_f64().filter(fits).ok_or_else(|| Unfit::Setting {
                key,
                value: value.to_string(),
                rule,
            })
        };
        let scale = (1e-6, ACTION_SCALE_MAX);
        Ok(Self {
            features,
            history,
            action_scale: number("action_scale", 0.25, scale, "from 1e-6 to 10")?,
            added_pkts: number("added_pkts", 0.0, ADDED_PKTS, "from 0 to 100")?,
            step_rtts: number("step_rtts", 1.0, STEP_RTTS, "from 0.1 to 100")?,
        })
    }

    /// Whether a network that was loaded while flows run can be followed by this plan.
    pub fn fits(&self, network: &Network) -> bool {
        Self::of(network).is_ok_and(|plan| plan == *self)
    }
}

/// The set whose names repeat in the inputs; an error names the first that does not.
fn features_of(network: &Network) -> Result<Features, Unfit> {
    let (ratios, inputs) = (Features::Ratios.list().len(), network.inputs_len());
    let first_size = Features::Sizes.list()[ratios].name;
    let is_sizes = ratios < inputs && network.input_name(ratios) == first_size;
    let features = if is_sizes { Features::Sizes } else { Features::Ratios };
    let wanted = features.list().iter().cycle().map(|feature: &Feature| feature.name);
    for (index, want) in (0..inputs).zip(wanted) {
        let name = network.input_name(index);
        if name != want {
            return Err(Unfit::Inputs { index, name: name.to_owned(), want });
        }
    }
    Ok(features)
}
