//! Many environments at once, on several threads. Each has one row for each flow that it drives.
//!
//! The result does not depend on which thread steps which environment: each has its own seed and
//! simulation.

use crate::config::Config;
use crate::env::{Env, METRICS, Metrics, Step};
use crate::error::{Error, hold_length};
use crate::saved::Saved;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::fmt;
use std::sync::Arc;

/// A larger number is probably a mistake.
const THREADS_MAX: usize = 1_024;
/// Each needs a few kilobytes at least.
const ENVS_MAX: usize = 1_000_000;

/// When an environment whose episode is over starts the next one (`gymnasium`'s names).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Autoreset {
    /// In the following step: its action is ignored, and its reward is 0.
    #[default]
    NextStep,
    /// In the same step: it returns the first observation of the next episode, and keeps the last
    /// one of the old episode apart.
    SameStep,
    /// Never: the caller resets the environment.
    Disabled,
}

/// Where a step of all environments writes its results: one row for each.
#[derive(Debug)]
pub struct Batch<'a> {
    /// Observations, one after the other.
    pub observations: &'a mut [f32],
    pub rewards: &'a mut [f64],
    /// 1 in the step in which the flow has delivered all its data.
    pub terminated: &'a mut [u8],
    /// 1 if the episode has reached its longest duration.
    pub truncated: &'a mut [u8],
    /// [`METRICS`] of each row.
    pub metrics: &'a mut [f64],
}

/// One environment among many.
struct Slot {
    env: Env,
    is_over: bool,
    /// The last observations and figures of an episode that has just ended.
    last: Option<(Vec<f32>, Vec<Metrics>)>,
    /// The results of the last step.
    steps: Vec<Step>,
}

/// Many environments of one configuration.
pub struct Envs {
    slots: Vec<Slot>,
    autoreset: Autoreset,
    observation_len: usize,
    flows: usize,
    pool: Option<ThreadPool>,
}

impl fmt::Debug for Envs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let envs = self.slots.len();
        f.debug_struct("Envs").field("envs", &envs).field("autoreset", &self.autoreset).finish()
    }
}

/// The rows of one environment in a [`Batch`].
struct Rows<'a> {
    observations: &'a mut [f32],
    rewards: &'a mut [f64],
    terminated: &'a mut [u8],
    truncated: &'a mut [u8],
    metrics: &'a mut [f64],
}

impl Envs {
    /// Creates `count` environments, stepped by `threads` threads: 1 is the caller's own.
    pub fn new(
        config: Config,
        count: usize,
        threads: usize,
        autoreset: Autoreset,
    ) -> Result<Self, Error> {
        let range = |key, value, max, rule| {
            if (1..=max).contains(&value) { Ok(()) } else { Err(Error::invalid(key, value, rule)) }
        };
        range("num_envs", count, ENVS_MAX, "must be from 1 to 1000000")?;
        range("threads", threads, THREADS_MAX, "must be from 1 to 1024")?;
        let config = Arc::new(config);
        let flows = config.flows;
        let slot = |_| {
            let env = Env::sharing(Arc::clone(&config))?;
            Ok(Slot { env, is_over: true, last: None, steps: vec![Step::default(); flows] })
        };
        let slots: Vec<Slot> = (0..count).map(slot).collect::<Result<_, Error>>()?;
        let pool = (threads > 1).then(|| ThreadPoolBuilder::new().num_threads(threads).build());
        let rule = "the system cannot start threads; use threads=1";
        let pool = pool.transpose().map_err(|_| Error::invalid("threads", threads, rule))?;
        let observation_len = slots[0].env.observation_len();
        Ok(Self { slots, autoreset, observation_len, flows, pool })
    }

    /// The number of environments.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// The number of rows: one for each flow of each environment.
    pub fn rows(&self) -> usize {
        self.count() * self.flows
    }

    /// How many numbers an observation has.
    pub fn observation_len(&self) -> usize {
        self.observation_len
    }

    pub fn env(&self, index: usize) -> Option<&Env> {
        self.slots.get(index).map(|slot| &slot.env)
    }

    /// The last observation and figures of a row's episode that the last step ended and replaced.
    pub fn last_of(&self, row: usize) -> Option<(&[f32], &Metrics)> {
        let (observations, metrics) = self.slots.get(row / self.flows)?.last.as_ref()?;
        let (flow, len) = (row % self.flows, self.observation_len);
        Some((&observations[flow * len..][..len], &metrics[flow]))
    }

    /// The present observation and figures of a row.
    pub fn present_of(&self, row: usize) -> Option<(&[f32], Metrics)> {
        let env = self.env(row / self.flows)?;
        Some((env.observation_of(row % self.flows), env.metrics_of(row % self.flows)))
    }

    /// Data packets that all flows of all episodes have sent.
    pub fn packets_sent(&self) -> u64 {
        self.slots.iter().map(|slot| slot.env.packets_sent()).sum()
    }

    /// The state of each environment.
    pub fn save(&self) -> Vec<Saved> {
        self.slots.iter().map(|slot| slot.env.save(slot.is_over)).collect()
    }

    /// Repeats the episode of each environment. On an error the environments wait for a reset.
    pub fn restore(&mut self, saved: &[Saved]) -> Result<(), Error> {
        hold_length("saved", saved.len(), self.count())?;
        let restore = |(index, (slot, saved)): (usize, (&mut Slot, &Saved))| {
            (slot.last, slot.is_over) = (None, saved.is_over);
            slot.env.restore(saved).map_err(|error| within(index, error))
        };
        match &self.pool {
            None => self.slots.iter_mut().zip(saved).enumerate().try_for_each(restore),
            Some(pool) => pool
                .install(|| self.slots.par_iter_mut().zip(saved).enumerate().try_for_each(restore)),
        }
    }

    /// Starts an episode in each environment where `mask` is not 0, from its seed if it has one.
    /// The other rows get their current observations.
    pub fn reset(
        &mut self,
        seeds: &[Option<u64>],
        mask: Option<&[u8]>,
        observations: &mut [f32],
        metrics: &mut [f64],
    ) -> Result<(), Error> {
        let count = self.count();
        hold_length("seed", seeds.len(), count)?;
        hold_length("reset_mask", mask.map_or(count, <[u8]>::len), count)?;
        hold_length("observations", observations.len(), self.rows() * self.observation_len)?;
        hold_length("metrics", metrics.len(), self.rows() * METRICS.len())?;
        let reset =
            |(index, slot, observations, metrics): (usize, &mut Slot, &mut [f32], &mut [f64])| {
                slot.last = None;
                if mask.is_none_or(|mask| mask[index] != 0) {
                    slot.is_over = false;
                    slot.env
                        .reset(seeds[index], observations)
                        .map_err(|error| within(index, error))?;
                }
                slot.write(observations, metrics);
                Ok(())
            };
        let (len, wide) = (self.observation_len * self.flows, METRICS.len() * self.flows);
        match &self.pool {
            None => {
                let rows = observations.chunks_mut(len).zip(metrics.chunks_mut(wide));
                let slots = self.slots.iter_mut().enumerate().zip(rows);
                slots.map(|((index, slot), (o, m))| (index, slot, o, m)).try_for_each(reset)
            }
            Some(pool) => pool.install(|| {
                let rows = observations.par_chunks_mut(len).zip(metrics.par_chunks_mut(wide));
                let slots = self.slots.par_iter_mut().enumerate().zip(rows);
                slots.map(|((index, slot), (o, m))| (index, slot, o, m)).try_for_each(reset)
            }),
        }
    }

    /// Executes a step in each environment. If an action is not finite, fails before any
    /// environment has stepped.
    pub fn step(&mut self, actions: &[f32], batch: Batch<'_>) -> Result<(), Error> {
        let (rows, len, flows) = (self.rows(), self.observation_len, self.flows);
        hold_length("actions", actions.len(), rows)?;
        hold_length("observations", batch.observations.len(), rows * len)?;
        hold_length("rewards", batch.rewards.len(), rows)?;
        hold_length("terminated", batch.terminated.len(), rows)?;
        hold_length("truncated", batch.truncated.len(), rows)?;
        hold_length("metrics", batch.metrics.len(), rows * METRICS.len())?;
        let env = &self.slots[0].env;
        for (index, action) in actions.iter().enumerate() {
            env.check(*action).map_err(|error| within(index, error))?;
        }
        if self.autoreset == Autoreset::Disabled
            && let Some(index) = self.slots.iter().position(|slot| slot.is_over)
        {
            return Err(within(index, Error::Over));
        }
        let autoreset = self.autoreset;
        let step = |(index, (slot, rows)): (usize, (&mut Slot, Rows<'_>))| {
            let actions = &actions[index * flows..][..flows];
            slot.step(actions, rows, autoreset).map_err(|error| within(index, error))
        };
        match &self.pool {
            None => {
                self.slots.iter_mut().zip(batch.rows(len, flows)).enumerate().try_for_each(step)
            }
            Some(pool) => pool.install(|| {
                let rows = batch.rows_in_parallel(len, flows);
                self.slots.par_iter_mut().zip(rows).enumerate().try_for_each(step)
            }),
        }
    }
}

fn within(index: usize, source: Error) -> Error {
    Error::In { index, source: Box::new(source) }
}

impl<'a> Batch<'a> {
    fn rows(self, len: usize, flows: usize) -> impl Iterator<Item = Rows<'a>> {
        let flags = self.terminated.chunks_mut(flows).zip(self.truncated.chunks_mut(flows));
        let given = self.rewards.chunks_mut(flows).zip(flags);
        let metrics = self.metrics.chunks_mut(METRICS.len() * flows);
        self.observations.chunks_mut(len * flows).zip(metrics).zip(given).map(Rows::of)
    }

    fn rows_in_parallel(
        self,
        len: usize,
        flows: usize,
    ) -> impl IndexedParallelIterator<Item = Rows<'a>> {
        let truncated = self.truncated.par_chunks_mut(flows);
        let flags = self.terminated.par_chunks_mut(flows).zip(truncated);
        let given = self.rewards.par_chunks_mut(flows).zip(flags);
        let metrics = self.metrics.par_chunks_mut(METRICS.len() * flows);
        self.observations.par_chunks_mut(len * flows).zip(metrics).zip(given).map(Rows::of)
    }
}

type Flags<'a> = (&'a mut [u8], &'a mut [u8]);
type Parts<'a> = ((&'a mut [f32], &'a mut [f64]), (&'a mut [f64], Flags<'a>));

impl<'a> Rows<'a> {
    fn of(parts: Parts<'a>) -> Self {
        let ((observations, metrics), (rewards, (terminated, truncated))) = parts;
        Self { observations, rewards, terminated, truncated, metrics }
    }
}

impl Slot {
    fn step(&mut self, actions: &[f32], rows: Rows<'_>, when: Autoreset) -> Result<(), Error> {
        self.last = None;
        if self.is_over {
            self.steps.fill(Step::default());
            self.env.reset(None, rows.observations)?;
        } else {
            self.env.step_all(actions, rows.observations, &mut self.steps)?;
        }
        self.is_over = self.env.is_over();
        if self.is_over && when == Autoreset::SameStep {
            let metrics = (0..self.env.flows()).map(|flow| self.env.metrics_of(flow)).collect();
            self.last = Some((rows.observations.to_vec(), metrics));
            self.env.reset(None, rows.observations)?;
            self.is_over = false;
        }
        for (index, step) in self.steps.iter().enumerate() {
            rows.rewards[index] = step.reward;
            rows.terminated[index] = u8::from(step.terminated);
            rows.truncated[index] = u8::from(step.truncated);
        }
        self.write_metrics(rows.metrics);
        Ok(())
    }

    fn write(&self, observations: &mut [f32], metrics: &mut [f64]) {
        for (flow, row) in observations.chunks_exact_mut(self.env.observation_len()).enumerate() {
            row.copy_from_slice(self.env.observation_of(flow));
        }
        self.write_metrics(metrics);
    }

    fn write_metrics(&self, metrics: &mut [f64]) {
        for (flow, row) in metrics.chunks_exact_mut(METRICS.len()).enumerate() {
            row.copy_from_slice(&self.env.metrics_of(flow));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Paths, Range, Ranges};

    const COUNT: usize = 5;
    const STEPS: u32 = 6;

    fn config() -> Config {
        let ranges = Ranges { rtt_ms: Range { low: 10.0, high: 30.0 }, ..Ranges::default() };
        let paths = Paths::Drawn(ranges);
        Config { paths, episode_steps: Some(STEPS), history: 2, ..Config::default() }
    }

    /// All results of a step.
    #[derive(Clone, Debug, PartialEq)]
    struct Seen {
        observations: Vec<f32>,
        rewards: Vec<f64>,
        truncated: Vec<u8>,
        metrics: Vec<f64>,
    }

    struct Run {
        envs: Envs,
        seen: Seen,
    }

    impl Run {
        fn new(threads: usize, autoreset: Autoreset) -> Self {
            let mut envs = Envs::new(config(), COUNT, threads, autoreset).unwrap();
            let mut seen = Seen {
                observations: vec![0.0; COUNT * envs.observation_len()],
                rewards: vec![0.0; COUNT],
                truncated: vec![0; COUNT],
                metrics: vec![0.0; COUNT * METRICS.len()],
            };
            let seeds: Vec<_> = (0..COUNT as u64).map(|seed| Some(100 + seed)).collect();
            envs.reset(&seeds, None, &mut seen.observations, &mut seen.metrics).unwrap();
            Self { envs, seen }
        }

        fn step(&mut self, actions: &[f32]) -> Result<Seen, Error> {
            let mut terminated = vec![0; COUNT];
            let batch = Batch {
                observations: &mut self.seen.observations,
                rewards: &mut self.seen.rewards,
                terminated: &mut terminated,
                truncated: &mut self.seen.truncated,
                metrics: &mut self.seen.metrics,
            };
            self.envs.step(actions, batch)?;
            Ok(self.seen.clone())
        }
    }

    #[test]
    fn each_does_what_it_would_do_alone() {
        let mut run = Run::new(1, Autoreset::NextStep);
        let mut alone = Env::new(config()).unwrap();
        let mut observation = vec![0.0; alone.observation_len()];
        alone.reset(Some(102), &mut observation).unwrap();
        for _ in 0..STEPS {
            let seen = run.step(&[0.0, 0.1, 0.2, 0.3, 0.4]).unwrap();
            let step = alone.step(0.2, &mut observation).unwrap();
            let len = alone.observation_len();
            assert_eq!(seen.observations[2 * len..3 * len], observation);
            assert_eq!((seen.rewards[2], seen.truncated[2] != 0), (step.reward, step.truncated));
            assert_eq!(seen.metrics[2 * METRICS.len()..3 * METRICS.len()], alone.metrics());
        }
        let seen = run.step(&[0.0; COUNT]).unwrap();
        assert_eq!((seen.rewards[2], seen.truncated[2]), (0.0, 0), "the step after is a reset");
        alone.reset(None, &mut observation).unwrap();
        let len = alone.observation_len();
        assert_eq!(seen.observations[2 * len..3 * len], observation);
    }

    #[test]
    fn threads_change_nothing() {
        for autoreset in [Autoreset::NextStep, Autoreset::SameStep] {
            let (mut one, mut three) = (Run::new(1, autoreset), Run::new(3, autoreset));
            assert_eq!(one.seen, three.seen);
            for step in 0..20 {
                let actions = [0.1 * (step % 7) as f32 - 0.3; COUNT];
                assert_eq!(one.step(&actions).unwrap(), three.step(&actions).unwrap());
            }
        }
    }

    #[test]
    fn the_same_step_keeps_the_last_observation_apart() {
        let (mut next, mut same) =
            (Run::new(1, Autoreset::NextStep), Run::new(1, Autoreset::SameStep));
        for _ in 1..STEPS {
            assert_eq!(next.step(&[0.0; COUNT]).unwrap(), same.step(&[0.0; COUNT]).unwrap());
            assert!(same.envs.last_of(0).is_none());
        }
        let (ended, begun) = (next.step(&[0.0; COUNT]).unwrap(), same.step(&[0.0; COUNT]).unwrap());
        assert_eq!((&ended.truncated, &ended.rewards), (&begun.truncated, &begun.rewards));
        let len = same.envs.observation_len();
        for index in 0..COUNT {
            let (observation, metrics) = same.envs.last_of(index).unwrap();
            assert_eq!(observation, &ended.observations[index * len..][..len]);
            assert_eq!(metrics, &ended.metrics[index * METRICS.len()..][..METRICS.len()]);
        }
        let after = next.step(&[0.0; COUNT]).unwrap();
        assert_eq!(after.observations, begun.observations);
        assert_eq!(after.metrics, begun.metrics);
        same.step(&[0.0; COUNT]).unwrap();
        assert!(same.envs.last_of(0).is_none(), "it is returned once");
        while same.envs.last_of(0).is_none() {
            same.step(&[0.0; COUNT]).unwrap();
        }
        let Seen { observations, metrics, .. } = &mut same.seen;
        same.envs.reset(&[None; COUNT], None, observations, metrics).unwrap();
        assert!(same.envs.last_of(0).is_none(), "and not after a reset");
    }

    #[test]
    fn without_autoreset_only_the_masked_start_anew() {
        let mut run = Run::new(2, Autoreset::Disabled);
        for _ in 0..STEPS {
            run.step(&[0.0; COUNT]).unwrap();
        }
        let error = run.step(&[0.0; COUNT]).unwrap_err().to_string();
        assert!(error.starts_with("environment 0: no episode runs"), "{error}");
        let before = run.seen.clone();
        let Seen { observations, metrics, .. } = &mut run.seen;
        let mask = [0, 1, 0, 0, 0];
        run.envs.reset(&[None; COUNT], Some(&mask), observations, metrics).unwrap();
        let len = run.envs.observation_len();
        for index in 0..COUNT {
            let row = index * len..(index + 1) * len;
            let is_same = run.seen.observations[row.clone()] == before.observations[row];
            assert_eq!(is_same, index != 1, "environment {index}");
        }
    }

    #[test]
    fn misuse_is_refused_by_name() {
        for (count, threads, want) in [
            (0, 1, "`num_envs` is 0: must be from 1"),
            (1, 0, "`threads` is 0: must be from 1"),
            (1, 1_025, "`threads` is 1025"),
        ] {
            let error = Envs::new(config(), count, threads, Autoreset::NextStep).unwrap_err();
            assert!(error.to_string().starts_with(want), "{error}");
        }
        let mut run = Run::new(1, Autoreset::NextStep);
        let before = run.envs.env(0).unwrap().metrics();
        let error = run.step(&[0.0, 0.0, f32::INFINITY, 0.0, 0.0]).unwrap_err().to_string();
        assert_eq!(error, "environment 2: the action is inf: must be a finite number");
        assert_eq!(run.envs.env(0).unwrap().metrics(), before, "none has stepped");
        let error = run.step(&[0.0]).unwrap_err().to_string();
        assert_eq!(error, "`actions` has 1 values: must have 5");
    }
}
