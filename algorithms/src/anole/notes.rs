//! What Anole says of its stages, for the event log, and what it counts.
//!
//! A note is plain numbers until somebody asks for it: a flow whose events nobody records pays for
//! no text.

use super::inference::Inferred;
use crate::arm::Stage;
use crate::proposal::{Reason, Why};
use std::collections::VecDeque;

/// Notes that are kept until somebody asks; older ones are dropped.
const KEPT_MAX: usize = 8;

/// Whose rate the flow has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    Classic,
    Learned,
    /// Neither: inferred, or by acceleration.
    #[default]
    Inferred,
}

impl Owner {
    pub fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Learned => "learned",
            Self::Inferred => "inferred",
        }
    }
}

/// Counts since the flow was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    pub cycles: u64,
    pub learned_calls: u64,
    /// Seconds that the rates of each were in force: classic, learned, inferred.
    pub seconds: [f64; 3],
}

/// What happened to the flow, with its figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Note {
    /// Slow start is over.
    Started { classic: f64, learned: Option<f64> },
    /// The slots of an evaluation begin.
    Evaluation { low: f64, high: Option<f64>, step: Option<f64> },
    /// An evaluation has ended: what is sent until the next.
    Probing { facts: Facts },
    /// A candidate is left out.
    Deprecated { who: Owner, name: &'static str, facts: Facts },
    /// A candidate is back.
    Active { who: Owner, name: &'static str },
    /// A queue is drained.
    Draining { ratio: f64, rate: f64 },
    /// The flow lowers its rate because other flows share the path.
    Yielding { share: f64, rate: f64 },
    /// All rates are below what the path takes.
    Climbing { from: f64, step: f64 },
    /// A climb has ended at that rate, because more was too much.
    Limited { rate: f64, excess: f64 },
    /// The rate was halved after a retransmission timeout.
    TimedOut { rate: f64 },
}

/// What an evaluation found. Rates are in Mbit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Facts {
    pub rate: f64,
    pub owner: Owner,
    pub why: Chosen,
    /// Rate and utility of the candidates and of the rate before.
    pub classic: Option<(f64, f64)>,
    pub learned: Option<(f64, f64)>,
    pub previous: Option<(f64, f64)>,
    /// Confidence of classic and learned arm.
    pub confidence: [f64; 2],
    pub inferred: Option<Inferred>,
    pub tally: Tally,
}

/// Why an evaluation chose as it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chosen {
    /// Nothing could be judged.
    #[default]
    Nothing,
    /// The rate of the highest utility.
    Best,
    /// Both candidates do badly.
    Inferred,
    /// The rate before was too high, and its share is more than what a candidate has.
    Share,
    /// The rate in force is more than its share, though it was not before.
    Crowded,
    /// The slots held too little to tell them apart.
    Merged,
}

impl Chosen {
    fn text(self) -> &'static str {
        match self {
            Self::Nothing => "the slots were limited by the application or brought nothing back",
            Self::Best => "it has the highest utility",
            Self::Inferred => "neither candidate is acceptable, so the rate is inferred",
            Self::Share => "the rate before was too high, and this is its share",
            Self::Crowded => "the rate before is more than the path takes now",
            Self::Merged => "fewer than 8 ACKs or 3 reports a slot, so the slots were merged",
        }
    }
}

/// The notes that nobody has asked for.
#[derive(Clone, Debug)]
pub struct Notes(VecDeque<Note>);

impl Default for Notes {
    fn default() -> Self {
        Self(VecDeque::with_capacity(KEPT_MAX))
    }
}

impl Notes {
    pub fn push(&mut self, note: Note) {
        if self.0.len() == KEPT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(note);
    }

    /// The oldest, as a stage.
    pub fn pop(&mut self) -> Option<Stage> {
        self.0.pop_front().map(|note| note.stage())
    }
}

fn mbit(name: &'static str, value: f64) -> Reason {
    (name, format!("{value:.3}"))
}

impl Note {
    fn stage(&self) -> Stage {
        let (name, text, features) = match *self {
            Self::Started { classic, learned } => {
                let mut features = vec![mbit("classic_mbit_per_sec", classic)];
                features.extend(learned.map(|rate| mbit("learned_mbit_per_sec", rate)));
                ("started", "slow start of the classic arm is over".to_owned(), features)
            }
            Self::Evaluation { low, high, step } => {
                let mut features = vec![mbit("low_mbit_per_sec", low)];
                features.extend(high.map(|rate| mbit("high_mbit_per_sec", rate)));
                features.extend(step.map(|rate| mbit("step_mbit_per_sec", rate)));
                ("evaluation", "the last cycle is over".to_owned(), features)
            }
            Self::Probing { facts } => {
                let text = format!("{} rate: {}", facts.owner.name(), facts.why.text());
                ("probing", text, facts.features())
            }
            Self::Deprecated { who, name, facts } => {
                let text = format!(
                    "{name}, the {} arm, has been far from the best utility: its confidence is \
                     below 0.6",
                    who.name()
                );
                ("acceleration", text, facts.features())
            }
            Self::Active { who, name } => {
                let text = format!("{name}, the {} arm, has been left out for 4 RTT", who.name());
                ("activation", text, Vec::new())
            }
            Self::Draining { ratio, rate } => {
                let text = format!("the round trip is {ratio:.2} times the least");
                ("draining", text, vec![mbit("rate_mbit_per_sec", rate)])
            }
            Self::Yielding { share, rate } => {
                let text = format!(
                    "other flows share the path: this flow has {:.0} % of it, and lowers its rate",
                    share * 100.0
                );
                ("yielding", text, vec![mbit("rate_mbit_per_sec", rate)])
            }
            Self::Climbing { from, step } => {
                let text = "situation IV: all rates are below what the path takes".to_owned();
                let features =
                    vec![mbit("from_mbit_per_sec", from), mbit("step_mbit_per_sec", step)];
                ("climbing", text, features)
            }
            Self::TimedOut { rate } => {
                let text = "a retransmission timeout: the rate is halved".to_owned();
                ("limited", text, vec![mbit("rate_mbit_per_sec", rate)])
            }
            Self::Limited { rate, excess } => {
                let text = format!("the rate sent was {:.1} % too high", excess * 100.0);
                ("limited", text, vec![mbit("rate_mbit_per_sec", rate)])
            }
        };
        Stage { name, why: Why { text, features } }
    }
}

impl Facts {
    fn features(&self) -> Vec<Reason> {
        let mut all = vec![mbit("rate_mbit_per_sec", self.rate)];
        let rates = [
            ("classic_mbit_per_sec", "classic_utility", self.classic),
            ("learned_mbit_per_sec", "learned_utility", self.learned),
            ("previous_mbit_per_sec", "previous_utility", self.previous),
        ];
        for (rate_name, utility_name, of) in rates {
            if let Some((rate, utility)) = of {
                all.push(mbit(rate_name, rate));
                all.push((utility_name, format!("{utility:.2}")));
            }
        }
        let [classic, learned] = self.confidence;
        all.push(("classic_confidence", format!("{classic:.2}")));
        all.push(("learned_confidence", format!("{learned:.2}")));
        if let Some(inferred) = self.inferred {
            all.push(("situation", inferred.situation.name().to_owned()));
            all.push(mbit("inferred_mbit_per_sec", inferred.rate));
            all.extend(inferred.capacity.map(|rate| mbit("capacity_mbit_per_sec", rate)));
        }
        all.push(("owner", self.owner.name().to_owned()));
        all.push(("cycles", self.tally.cycles.to_string()));
        all.push(("learned_calls", self.tally.learned_calls.to_string()));
        let [classic, learned, inferred] = self.tally.seconds;
        all.push(("classic_s", format!("{classic:.3}")));
        all.push(("learned_s", format!("{learned:.3}")));
        all.push(("inferred_s", format!("{inferred:.3}")));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_dropped_and_a_note_says_why() {
        let mut notes = Notes::default();
        for ratio in 0..20 {
            notes.push(Note::Draining { ratio: f64::from(ratio), rate: 1.0 });
        }
        let first = notes.pop().expect("eight are kept");
        assert_eq!(first.name, "draining");
        assert_eq!(first.why.text, "the round trip is 12.00 times the least");
        assert_eq!(std::iter::from_fn(|| notes.pop()).count(), KEPT_MAX - 1);
        let facts = Facts { why: Chosen::Inferred, ..Facts::default() };
        notes.push(Note::Probing { facts });
        let stage = notes.pop().expect("one");
        assert!(stage.why.text.starts_with("inferred rate: neither"), "{stage:?}");
        assert!(stage.why.features.iter().any(|(name, _)| *name == "learned_calls"));
    }
}
