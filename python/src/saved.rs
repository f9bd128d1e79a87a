//! The state of an environment as bytes: how its episode was drawn, and the actions since.
//!
//! A simulation is not copied. As the seed decides every draw, repeating the actions gives the same
//! episode; that takes as long as the episode took.

use crate::env::{Env, Step};
use crate::error::Error;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The first byte; another layout gets another number.
const LAYOUT: u8 = 1;
/// Layout, flags, seed, stream, position, packets.
const HEAD_BYTES: usize = 1 + 1 + 32 + 8 + 16 + 8;
const IS_OVER: u8 = 1;
const HAS_EPISODE: u8 = 2;

/// What an environment was doing.
#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    /// The random state from which the episode was drawn; without an episode, that of the next.
    pub rng: ChaCha8Rng,
    /// Packets of the episodes before this one.
    pub packets_before: u64,
    /// The actions of the episode so far, one for each flow and step; `None` before the first
    /// reset.
    pub actions: Option<Vec<f32>>,
    /// Whether the episode is over and the next step starts another.
    pub is_over: bool,
}

impl Saved {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut flags = if self.is_over { IS_OVER } else { 0 };
        if self.actions.is_some() {
            flags |= HAS_EPISODE;
        }
        let mut bytes = vec![LAYOUT, flags];
        bytes.extend(self.rng.get_seed());
        bytes.extend(self.rng.get_stream().to_le_bytes());
        bytes.extend(self.rng.get_word_pos().to_le_bytes());
        bytes.extend(self.packets_before.to_le_bytes());
        bytes.extend(self.actions.iter().flatten().flat_map(|action| action.to_le_bytes()));
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        Self::parse(bytes).ok_or(Error::Saved)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let [LAYOUT, flags, fields @ ..] = head else { return None };
        let (seed, fields) = fields.split_first_chunk::<32>()?;
        let (stream, fields) = fields.split_first_chunk()?;
        let (position, fields) = fields.split_first_chunk()?;
        let packets = fields.first_chunk()?;
        let mut rng = ChaCha8Rng::from_seed(*seed);
        rng.set_stream(u64::from_le_bytes(*stream));
        rng.set_word_pos(u128::from_le_bytes(*position));
        let (actions, remainder) = rest.as_chunks::<4>();
        let actions: Vec<f32> = actions.iter().map(|action| f32::from_le_bytes(*action)).collect();
        let has_episode = flags & HAS_EPISODE != 0;
        let is_sound = *flags <= IS_OVER | HAS_EPISODE
            && remainder.is_empty()
            && (has_episode || actions.is_empty());
        is_sound.then(|| Self {
            rng,
            packets_before: u64::from_le_bytes(*packets),
            actions: has_episode.then_some(actions),
            is_over: flags & IS_OVER != 0,
        })
    }
}

impl Env {
    pub fn save(&self, is_over: bool) -> Saved {
        let (rng, packets_before, actions) = self.course_so_far();
        Saved { rng, packets_before, actions, is_over }
    }

    /// Repeats the episode. On an error the environment waits for a reset.
    pub fn restore(&mut self, saved: &Saved) -> Result<(), Error> {
        self.start_over(saved.rng.clone(), saved.packets_before);
        let Some(actions) = &saved.actions else { return Ok(()) };
        let flows = self.flows();
        if !actions.len().is_multiple_of(flows) {
            return Err(Error::Saved);
        }
        let mut observations = vec![0.0; self.observation_len() * flows];
        let mut steps = vec![Step::default(); flows];
        self.reset(None, &mut observations)?;
        let mut each = actions.chunks_exact(flows);
        each.try_for_each(|actions| self.step_all(actions, &mut observations, &mut steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn env() -> Env {
        Env::new(Config { episode_steps: Some(12), ..Config::default() }).unwrap()
    }

    /// Steps, resets when an episode is over, and returns all that is seen.
    fn play(env: &mut Env, steps: usize) -> Vec<(Vec<f32>, u64)> {
        let mut observation = vec![0.0; env.observation_len()];
        let mut seen = Vec::new();
        for step in 0..steps {
            let action = (step % 5) as f32 / 4.0 - 0.5;
            if env.step(action, &mut observation).is_err() {
                env.reset(None, &mut observation).unwrap();
            }
            seen.push((observation.clone(), env.packets_sent()));
        }
        seen
    }

    #[test]
    fn a_copy_sees_what_the_original_sees() {
        for steps in [0, 1, 7, 12, 13, 30] {
            let mut original = env();
            let mut observation = vec![0.0; original.observation_len()];
            original.reset(Some(9), &mut observation).unwrap();
            play(&mut original, steps);
            let bytes = original.save(false).to_bytes();
            let mut copy = env();
            copy.restore(&Saved::from_bytes(&bytes).unwrap()).unwrap();
            assert_eq!(copy.observation(), original.observation(), "after {steps} steps");
            assert_eq!(copy.metrics(), original.metrics(), "after {steps} steps");
            assert_eq!(play(&mut copy, 30), play(&mut original, 30), "after {steps} steps");
        }
        let mut copy = env();
        copy.restore(&env().save(true)).unwrap();
        assert_eq!(play(&mut copy, 30), play(&mut env(), 30), "before the first reset");
    }

    #[test]
    fn what_is_no_saved_state_is_refused() {
        let bytes = env().save(true).to_bytes();
        assert!(Saved::from_bytes(&bytes).is_ok());
        for end in 0..bytes.len() {
            assert!(Saved::from_bytes(&bytes[..end]).is_err(), "{end}");
        }
        let mut other = bytes.clone();
        other[0] = 2;
        assert!(Saved::from_bytes(&other).is_err(), "another layout");
        assert!(Saved::from_bytes(&[&bytes[..], &[0; 4]].concat()).is_err(), "no episode");
        other.clone_from(&bytes);
        other[1] |= HAS_EPISODE;
        let nan = [&other[..], &f32::NAN.to_le_bytes()].concat();
        let error = env().restore(&Saved::from_bytes(&nan).unwrap()).unwrap_err().to_string();
        assert!(error.starts_with("the action is NaN"), "{error}");
    }
}
