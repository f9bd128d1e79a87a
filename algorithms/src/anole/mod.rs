//! Anole: the better of a classic and a learned arm, or a rate inferred from both.
//!
//! F. Han et al., "Anole: A Pragmatic Blend of Classic and Learning-Based Algorithms in Congestion
//! Control", IEEE Transactions on Computers 2025, sections III and IV.
//!
//! ```text
//! config.rs      which arms it embeds, and the ablations
//! candidate.rs   an embedded arm, asked for its rate
//! slots.rs       which ACK belongs to which rate, and the program
//! utility.rs     what a rate was worth (equations 1, 2)
//! evaluation.rs  what a cycle decides; inference.rs: equations 3 to 7 and 10
//! confidence.rs  which candidate is left out (algorithm 2)
//! drain.rs, speed.rs, wireless.rs, notes.rs
//! cycle.rs       the stages of a cycle (algorithm 1)
//! ```
//!
//! Differs from the paper as the heads of these files say.

pub mod candidate;
pub mod confidence;
pub mod config;
pub mod cycle;
pub mod drain;
pub mod evaluation;
pub mod inference;
pub mod notes;
pub mod slots;
pub mod speed;
pub mod utility;
pub mod wireless;

use crate::arm::{
    Arm, ArmInfo, Decision, ProgramId, Queue, REPORTS_PER_ROUND_MANY, Readiness, Registers, Stage,
};
use crate::loaded::Loaded;
use crate::measurement::Measurement;
use crate::path::PathState;
use crate::pcc::monitor::OWN_FIELDS;
use crate::units::Time;
use config::{AnoleConfig, SETTINGS};
use cycle::Cycle;

pub use config::{Refusal, embeddable};

const PROGRAM: &str = crate::four_boundaries!();

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "anole",
    summary: "the better of a classic and a learned arm, or an inferred rate (Anole)",
    program: ProgramId("anole/slots"),
    program_text: PROGRAM,
    own_fields: OWN_FIELDS,
    reports_per_round: REPORTS_PER_ROUND_MANY,
    paces: true,
    make: Some(|loaded| Box::new(Anole::new(loaded))),
    queue: Some(Queue::Short),
    ..ArmInfo::DEFAULT
};

/// Anole, for one flow.
pub struct Anole(Cycle);

impl Anole {
    /// One that has no flow yet, with the settings that are loaded, or the defaults.
    pub fn new(loaded: &Loaded) -> Self {
        let settings = loaded.slot::<AnoleConfig>(SETTINGS).map(|slot| slot.get());
        match settings {
            Some(config) => Self(Cycle::new(&config, loaded)),
            None => Self(Cycle::new(&AnoleConfig::default(), loaded)),
        }
    }
}

impl Arm for Anole {
    fn info(&self) -> &'static ArmInfo {
        &ARM
    }

    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        self.0.resume(path, now)
    }

    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        self.0.on_measurement(m, now)
    }

    fn hand_off(&self, path: &mut PathState) {
        self.0.hand_off(path);
    }

    /// Anole can resume on a path if both candidates can.
    fn can_resume(&self, path: &PathState) -> Readiness {
        self.0.can_resume(path)
    }

    fn can_hand_off(&self) -> Readiness {
        self.0.can_hand_off()
    }

    fn wake_at(&self) -> Option<Time> {
        self.0.wake_at()
    }

    fn on_wake(&mut self, now: Time) -> Option<Decision> {
        self.0.on_wake(now)
    }

    fn stage(&mut self) -> Option<Stage> {
        self.0.stage()
    }

    fn registers(&self, registers: &mut Registers) {
        self.0.registers(registers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcc::link::Link;

    #[test]
    fn fills_a_link_with_a_short_queue() {
        let mut link = Link::new(48, 50, 600_000);
        link.run(&mut *ARM.build().expect("it has a maker"), 30_000);
        assert!(link.filled(10_000) > 0.87, "{}", link.filled(10_000));
        assert!(link.queue_ms(10_000) < 10.0, "{}", link.queue_ms(10_000));
    }

    #[test]
    fn random_loss_does_not_stop_it() {
        let mut link = Link::new(48, 50, 600_000);
        link.loss = 0.01;
        link.run(&mut *ARM.build().expect("it has a maker"), 30_000);
        assert!(link.filled(10_000) > 0.78, "{}", link.filled(10_000));
    }
}
