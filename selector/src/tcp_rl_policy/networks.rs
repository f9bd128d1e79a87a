//! The two networks of the policy: the actor that picks an arm, and the network that tells whether
//! the path has changed.

use super::state;
use remuda_algorithms::network::error::NetworkError;
use remuda_algorithms::{Loadable, Network};
use std::sync::{Arc, OnceLock};
use thiserror::Error;

/// The kind on the card of an actor.
pub const ACTOR: &str = "tcp_rl";
/// The kind on the card of a network that tells changes.
pub const CHANGE: &str = "tcp_rl_change";
/// The inputs of the actor beside a state and the arm: how much throughput and delay count.
const WANTS: [&str; 2] = ["want_throughput", "want_delay"];
/// The output of a network that tells changes: the probability.
const CHANGED: &str = "changed";
/// More arms than these no policy has.
const ARMS_MAX: usize = 32;

/// Both networks, checked to be of one kind and to have the same arms.
#[derive(Clone, Debug, PartialEq)]
pub struct Networks {
    pub actor: Arc<Network>,
    pub change: Arc<Network>,
    arms: Vec<&'static str>,
    digest: String,
}

/// Why two valid networks cannot drive this policy.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Unfit {
    #[error("the actor's card: {0}")]
    Actor(NetworkError),
    #[error("the card of the network that tells changes: {0}")]
    Change(NetworkError),
    #[error("the actor's card has {0} outputs: it must have 1 to {ARMS_MAX}, each an arm")]
    Count(usize),
    #[error("the actor's card has the output {0:?}: each must be an arm, and named once")]
    Arm(String),
}

impl Unfit {
    /// Whether the actor is at fault; otherwise the network that tells changes is.
    pub fn is_of_actor(&self) -> bool {
        !matches!(self, Self::Change(_))
    }
}

impl Networks {
    /// Checks that the networks are of this policy and have the same arms.
    pub fn of(actor: Arc<Network>, change: Arc<Network>) -> Result<Self, Unfit> {
        let outputs = &actor.card().outputs;
        if !(1..=ARMS_MAX).contains(&outputs.len()) {
            return Err(Unfit::Count(outputs.len()));
        }
        let mut arms = Vec::with_capacity(outputs.len());
        for name in outputs {
            let known = remuda_algorithms::arm(name).map(|arm| arm.name);
            match known.filter(|arm| !arms.contains(arm)) {
                Some(arm) => arms.push(arm),
                None => return Err(Unfit::Arm(name.clone())),
            }
        }
        let single = |names: Vec<String>| names.into_iter().map(|name| (name, 1)).collect();
        let expect = |network: &Network, kind, names: Vec<String>, outputs: &[&str]| {
            let inputs: Vec<(String, usize)> = single(names);
            let inputs: Vec<(&str, usize)> =
                inputs.iter().map(|(name, count)| (name.as_str(), *count)).collect();
            network.expect(kind, &inputs, outputs)
        };
        let named = |prefix: &'static str, names: &[&str]| {
            names.iter().map(|name| format!("{prefix}{name}")).collect::<Vec<_>>()
        };
        let of_arms = named("arm_", &arms);
        let inputs = [named("", &state::NAMES), named("", &WANTS), of_arms.clone()].concat();
        expect(&actor, ACTOR, inputs, &arms).map_err(Unfit::Actor)?;
        let inputs = [named("last_", &state::NAMES), named("", &state::NAMES), of_arms].concat();
        expect(&change, CHANGE, inputs, &[CHANGED]).map_err(Unfit::Change)?;
        let digest = format!("{} {}", actor.digest(), change.digest());
        Ok(Self { actor, change, arms, digest })
    }

    /// The networks that come with the program, read once.
    pub fn shipped() -> Arc<Self> {
        static SHIPPED: OnceLock<Arc<Networks>> = OnceLock::new();
        let parse = || {
            let read = |weights: &[u8], card| {
                Arc::new(Network::parse(weights, card).expect("a test reads the shipped weights"))
            };
            let actor = read(
                include_bytes!("../../models/tcp_rl.safetensors"),
                include_str!("../../models/tcp_rl.json"),
            );
            let change = read(
                include_bytes!("../../models/tcp_rl_change.safetensors"),
                include_str!("../../models/tcp_rl_change.json"),
            );
            Arc::new(Self::of(actor, change).expect("a test checks the shipped weights"))
        };
        Arc::clone(SHIPPED.get_or_init(parse))
    }

    /// The arms that the actor picks from, in the order of its outputs.
    pub fn arms(&self) -> &[&'static str] {
        &self.arms
    }

    pub fn place(&self, arm: &str) -> Option<usize> {
        self.arms.iter().position(|it| *it == arm)
    }
}

impl Loadable for Networks {
    fn digest(&self) -> &str {
        &self.digest
    }
}
