//! Policies: each picks one algorithm for a flow, and changes it in mid-flow.
//!
//! One file, one policy. A new one edits two places: its file, and its line in [`POLICIES`]; if it
//! can be configured, also its table in [`PolicyConfig`].

pub mod antelope;
pub mod arm_runner;
pub mod candidates;
pub mod draw;
pub mod epsilon_greedy;
pub mod features;
mod first_rounds;
pub mod linucb;
pub mod policy;
pub mod prefix_map;
pub mod random;
pub mod rein;
pub mod rtt_sample;
pub mod sampling;
#[cfg(test)]
mod scripted;
pub mod span_totals;
pub mod tcp_rl;
pub mod tcp_rl_policy;
pub mod trees;
pub mod turn;

pub use arm_runner::ArmRunner;
pub use candidates::CANDIDATES;
pub use policy::{Policy, PolicyInfo};

use remuda_algorithms::ARMS;
use remuda_algorithms::list::{Refusal, is_name};
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Every policy, one line each.
#[rustfmt::skip]
pub const POLICIES: &[PolicyInfo] = &[
    rein::POLICY,
    antelope::policy::POLICY,
    tcp_rl_policy::POLICY,
    antelope::sampler::POLICY,
    random::POLICY,
    epsilon_greedy::POLICY,
    linucb::POLICY,
];

static ADDED: Mutex<Vec<&'static PolicyInfo>> = Mutex::new(Vec::new());

/// Adds a policy of another crate, equal to the others from then on: commands, scenarios and the
/// agent know its name. Call it before anything looks a policy up.
pub fn add(policy: &'static PolicyInfo) -> Result<(), Refusal> {
    let name = policy.name;
    if !is_name(name) {
        return Err(Refusal::Name(name.to_owned()));
    }
    if self::policy(name).is_some() || ARMS.iter().any(|arm| arm.name == name) {
        return Err(Refusal::Taken(name.to_owned()));
    }
    added().push(policy);
    Ok(())
}

fn added() -> MutexGuard<'static, Vec<&'static PolicyInfo>> {
    ADDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All policies: [`POLICIES`], and those that a program built on these crates has added.
pub fn policies() -> Vec<&'static PolicyInfo> {
    POLICIES.iter().chain(added().iter().copied()).collect()
}

/// The policy of that name.
pub fn policy(name: &str) -> Option<&'static PolicyInfo> {
    policies().into_iter().find(|policy| policy.name == name)
}

/// The settings of all policies, a table each. Defaults are the papers'; where a paper has none,
/// the policy's file says why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyConfig {
    /// Rein: by how RTTs spread.
    pub rein: rein::ReinConfig,
    /// Antelope: by boosted trees.
    pub antelope: antelope::config::AntelopeConfig,
    /// TCP-RL: by a recurrent actor, and a network that notices changes.
    pub tcp_rl: tcp_rl_policy::TcpRlConfig,
    /// The collector of Antelope's training data: its plan.
    pub sampler: antelope::sampler::SamplerConfig,
    /// Random: another arm every dwell.
    pub random: random::RandomConfig,
    /// Epsilon-greedy: the arm of the least cost.
    pub epsilon_greedy: epsilon_greedy::EpsilonGreedyConfig,
    /// LinUCB: the arm of the highest bound.
    pub linucb: linucb::LinUcbConfig,
}

impl PolicyConfig {
    /// Checks every value. To be called once, after parsing: a policy takes its settings as given.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.rein.validate()?;
        self.antelope.validate()?;
        self.tcp_rl.validate()?;
        self.sampler.validate()?;
        self.random.validate()?;
        self.epsilon_greedy.validate()?;
        self.linucb.validate()
    }
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{key} = {value}: {rule}")]
pub struct ConfigError {
    /// The key, with its table.
    pub key: &'static str,
    /// What it was set to.
    pub value: String,
    /// What it must be.
    pub rule: &'static str,
}

/// Nothing if `holds`, else the error that names key, value and rule.
fn check(
    holds: bool,
    key: &'static str,
    value: impl ToString,
    rule: &'static str,
) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError { key, value: value.to_string(), rule }) }
}

/// A dwell, in milliseconds: not so short that nothing is seen of an arm, and an hour at most.
fn check_dwell(key: &'static str, dwell_ms: u64) -> Result<(), ConfigError> {
    check((100..=3_600_000).contains(&dwell_ms), key, dwell_ms, "must be 100 to 3600000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_names_of_their_own() {
        for (i, policy) in POLICIES.iter().enumerate() {
            assert!(POLICIES[..i].iter().all(|other| other.name != policy.name));
            assert!(remuda_algorithms::arm(policy.name).is_none(), "{} is an arm", policy.name);
        }
        assert!(policy("rein").is_some());
    }

    #[test]
    fn the_defaults_are_valid_and_survive_a_file() {
        let config = PolicyConfig::default();
        config.validate().expect("defaults");
        let text = toml::to_string(&config).expect("to TOML");
        assert_eq!(toml::from_str::<PolicyConfig>(&text).expect("from TOML"), config);
        assert_eq!(toml::from_str::<PolicyConfig>("").expect("from nothing"), config);
    }

    #[test]
    fn an_unknown_key_is_refused() {
        for text in ["[rain]\n", "[rein]\nsample_cuont = 3\n"] {
            let error = toml::from_str::<PolicyConfig>(text).expect_err(text);
            assert!(error.to_string().contains("unknown field"), "{error}");
        }
    }
}
