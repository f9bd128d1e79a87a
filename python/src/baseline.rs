//! The rewards of an episode with somebody else at the helm: an arm, or an oracle.

use crate::config::{Config, Control};
use crate::env::{Env, METRICS, Metrics, Step};
use crate::error::Error;
use crate::path::Helm;
use std::sync::Arc;

/// The name of what knows the link's schedule.
pub const ORACLE: &str = "oracle";

/// An episode of a baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    /// How many flows are driven.
    pub flows: usize,
    /// One for each step and flow; 0 where the flow does not run.
    pub rewards: Vec<f64>,
    /// The figures of each step and flow.
    pub metrics: Vec<Metrics>,
}

/// The episode that `seed` draws in environments of `config`, with all its driven flows driven by
/// `driver`: an arm, a policy, a constant window (`window:100`), or [`ORACLE`]. The oracle knows
/// the schedule of the link: it sends at the rate at which the link will carry its packets, or at
/// an equal share of it.
pub fn baseline(config: &Config, driver: &str, seed: u64) -> Result<Baseline, Error> {
    let mut config = config.clone();
    if config.control == Control::Arm {
        (config.control, config.arms) = (Control::Window, Vec::new());
    }
    let helm = if driver == ORACLE { Helm::Oracle } else { Helm::Arm(driver.to_owned()) };
    let mut env = Env::steered(Arc::new(config), helm)?;
    let flows = env.flows();
    let mut observations = vec![0.0; env.observation_len() * flows];
    let (actions, mut steps) = (vec![0.0; flows], vec![Step::default(); flows]);
    let mut all = Baseline { flows, rewards: Vec::new(), metrics: Vec::new() };
    env.reset(Some(seed), &mut observations)?;
    while !env.is_over() {
        env.step_all(&actions, &mut observations, &mut steps)?;
        all.rewards.extend(steps.iter().map(|step| step.reward));
        all.metrics.extend((0..flows).map(|flow| env.metrics_of(flow)));
    }
    Ok(all)
}

impl Baseline {
    /// The mean reward of the steps in which a flow ran.
    pub fn mean(&self) -> f64 {
        let active = METRICS.iter().position(|name| *name == "active").unwrap_or(0);
        let ran = self.rewards.iter().zip(&self.metrics).filter(|(_, it)| it[active] > 0.0);
        let (mut sum, mut count) = (0.0, 0u32);
        for (reward, _) in ran {
            sum += reward;
            count += 1;
        }
        sum / f64::from(count.max(1))
    }
}
