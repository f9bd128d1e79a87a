//! What the flows of a path could have had in a step, and what they got.

use crate::path::Course;
use remuda_algorithms::units::Bytes;
use remuda_scenarios::Nanos;
use remuda_sim::Simulation;

/// The weight of what a neighbour got before, at each step. In a single step even a fair neighbour
/// gets some packets more or less.
const MEMORY: f64 = 0.875;

/// One flow of the path.
#[derive(Clone, Copy, Debug)]
pub struct Party {
    /// Its index in the simulation.
    pub place: usize,
    pub start: Nanos,
    pub end: Nanos,
    /// Whether it takes all that it can get. Others have a fixed size, or a slow application.
    pub is_greedy: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Got {
    delivered: Bytes,
    /// In the last step, in bytes.
    last: f64,
    /// Of the last steps, and what was due in them.
    kept: f64,
    due: f64,
    /// Whether it has competed in the last step.
    competes: bool,
}

/// The shares of a step.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    got: Vec<Got>,
    /// The payload that the path could carry in the last step.
    pub capacity_bytes: f64,
    /// What each competing flow could have had.
    pub due_bytes: f64,
}

impl Sharing {
    /// Starts again, with so many flows.
    pub fn restart(&mut self, parties: usize) {
        self.got.clear();
        self.got.resize(parties, Got::default());
        (self.capacity_bytes, self.due_bytes) = (0.0, 0.0);
    }

    /// Takes in the step that began at `from`. Capacity is what greedy flows could take.
    pub fn take(&mut self, simulation: &Simulation, course: &Course, from: Nanos) {
        let to = from + course.step;
        self.capacity_bytes = course.payload_between(from, to);
        self.due_bytes = self.capacity_bytes;
        if course.parties.len() < 2 {
            return;
        }
        let (mut taken, mut competing) = (0.0, 0u32);
        for (got, party) in self.got.iter_mut().zip(&course.parties) {
            let delivered = simulation.delivered(party.place);
            got.last = (delivered - got.delivered).0 as f64;
            got.delivered = delivered;
            // A flow that has just started has not had the time to get its share.
            let since = party.start + course.warm_up();
            got.competes =
                party.is_greedy && since <= from && party.start < from && to <= party.end;
            if got.competes {
                competing += 1;
            } else {
                taken += got.last;
            }
        }
        self.due_bytes = (self.capacity_bytes - taken).max(0.0) / f64::from(competing.max(1));
        for got in self.got.iter_mut().filter(|it| it.competes) {
            got.kept = MEMORY * got.kept + got.last;
            got.due = MEMORY * got.due + self.due_bytes;
        }
    }

    /// What other competing flows than that one lack of an equal share, from 0 to 1.
    pub fn harm(&self, place: usize, course: &Course) -> f64 {
        let others = self.got.iter().zip(&course.parties);
        let others = others.filter(|(got, it)| got.competes && it.place != place && got.due > 0.0);
        let (mut sum, mut count) = (0.0, 0u32);
        for (got, _) in others {
            sum += (1.0 - got.kept / got.due).clamp(0.0, 1.0);
            count += 1;
        }
        sum / f64::from(count.max(1))
    }
}
