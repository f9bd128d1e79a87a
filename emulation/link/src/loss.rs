//! Loss at random: independent, or in bursts.

use crate::chance::Chance;
use crate::schedule::{Cursor, Schedule};
use crate::time::Nanos;
use rand_chacha::ChaCha8Rng;

/// A Gilbert–Elliott channel: a good and a bad state, each with its own loss.
///
/// For each packet the state may change first (good to bad with `good_to_bad_percent`, bad to good
/// with `bad_to_good_percent`); then the packet is lost with the probability of the new state. The
/// channel starts good. In the long run p / (p + r) of the packets meet the bad state, and a stay
/// there lasts 1 / r packets on average (p, r: the two transition probabilities).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Probability, per packet, to leave the good state.
    pub good_to_bad_percent: f64,
    /// Probability, per packet, to leave the bad state.
    pub bad_to_good_percent: f64,
    /// Loss while good; 0 in Gilbert's model.
    pub loss_good_percent: f64,
    /// Loss while bad; 100 in the simple Gilbert model.
    pub loss_bad_percent: f64,
}

#[derive(Clone, Debug)]
enum Model {
    None,
    Independent(Chance),
    Changing(Box<Cursor<f64>>),
    Bursty { to_bad: Chance, to_good: Chance, in_good: Chance, in_bad: Chance, bad: bool },
}

/// Decides which packets are lost before the queue.
#[derive(Clone, Debug)]
pub struct Loss {
    model: Model,
    rng: Box<ChaCha8Rng>,
}

impl Loss {
    /// Loses each packet independently with this probability.
    pub fn independent(percent: f64, rng: ChaCha8Rng) -> Self {
        let model = if percent > 0.0 {
            Model::Independent(Chance::from_percent(percent))
        } else {
            Model::None
        };
        Self { model, rng: Box::new(rng) }
    }

    /// Loses each packet independently, with a probability that changes over time, in percent.
    pub fn changing(percent: Schedule<f64>, rng: ChaCha8Rng) -> Self {
        Self { model: Model::Changing(Box::new(Cursor::new(percent))), rng: Box::new(rng) }
    }

    pub fn gilbert_elliott(channel: GilbertElliott, rng: ChaCha8Rng) -> Self {
        let model = Model::Bursty {
            to_bad: Chance::from_percent(channel.good_to_bad_percent),
            to_good: Chance::from_percent(channel.bad_to_good_percent),
            in_good: Chance::from_percent(channel.loss_good_percent),
            in_bad: Chance::from_percent(channel.loss_bad_percent),
            bad: false,
        };
        Self { model, rng: Box::new(rng) }
    }

    /// Whether the next packet, which arrives at `now`, is lost. `now` must not decrease from call
    /// to call.
    #[inline]
    pub fn is_lost(&mut self, now: Nanos) -> bool {
        match &mut self.model {
            Model::None => false,
            Model::Independent(chance) => chance.draw(&mut self.rng),
            Model::Changing(percent) => Chance::from_percent(percent.at(now)).draw(&mut self.rng),
            Model::Bursty { to_bad, to_good, in_good, in_bad, bad } => {
                let flip = if *bad { *to_good } else { *to_bad };
                *bad ^= flip.draw(&mut self.rng);
                let loss = if *bad { *in_bad } else { *in_good };
                loss.draw(&mut self.rng)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn lost(loss: &mut Loss, packets: usize) -> Vec<bool> {
        (0..packets).map(|ms| loss.is_lost(Nanos::from_millis(ms as u64))).collect()
    }

    fn share(lost: &[bool]) -> f64 {
        lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
    }

    fn rng(seed: u64) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(seed)
    }

    #[test]
    fn the_share_of_independent_loss_is_the_one_asked_for() {
        for percent in [0.0, 1.0, 5.0, 50.0, 100.0] {
            let share = share(&lost(&mut Loss::independent(percent, rng(1)), 200_000));
            assert!((share * 100.0 - percent).abs() < 0.5, "{share} for {percent} %");
        }
    }

    #[test]
    fn bursts_have_the_length_and_the_share_of_the_model() {
        let channel = GilbertElliott {
            good_to_bad_percent: 1.0,
            bad_to_good_percent: 25.0,
            loss_good_percent: 0.0,
            loss_bad_percent: 100.0,
        };
        let lost = lost(&mut Loss::gilbert_elliott(channel, rng(2)), 400_000);
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let mean = lost.iter().filter(|lost| **lost).count() as f64 / bursts as f64;
        assert!((share(&lost) - 1.0 / 26.0).abs() < 0.003, "share {}", share(&lost));
        assert!((mean - 4.0).abs() < 0.2, "mean burst {mean}");
    }

    #[test]
    fn loss_is_that_of_the_moment() {
        let steps = vec![(Nanos::from_millis(1_000), 100.0), (Nanos::from_millis(2_000), 10.0)];
        let mut loss = Loss::changing(Schedule::new(0.0, steps, None), rng(5));
        let lost = lost(&mut loss, 50_000);
        assert_eq!((share(&lost[..1_000]), share(&lost[1_000..2_000])), (0.0, 1.0));
        assert!((share(&lost[2_000..]) - 0.1).abs() < 0.01);
    }

    #[test]
    fn the_seed_decides() {
        let once = lost(&mut Loss::independent(10.0, rng(3)), 1_000);
        assert_eq!(once, lost(&mut Loss::independent(10.0, rng(3)), 1_000));
        assert_ne!(once, lost(&mut Loss::independent(10.0, rng(4)), 1_000));
    }
}
