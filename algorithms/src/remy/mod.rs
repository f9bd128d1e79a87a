//! Remy: a computer made the rules; this follows them.
//!
//! K. Winstein, H. Balakrishnan, "TCP ex Machina: Computer-Generated Congestion Control", SIGCOMM
//! 2013. A table maps what the sender remembers (smoothed intervals of sending and of ACKs, the
//! ratio of round trips) to a multiple and an increment of the window, for each ACK, and the least
//! interval between segments. The table is a file that Remy writes (tree.rs): `arms.remy_table` in
//! the agent's configuration. Without one, this arm takes no flow.
//!
//! Differs from the paper:
//!   - the memory is folded ACK by ACK in the datapath; the table is looked up by report, and its
//!     action taken once for each segment acknowledged;
//!   - an ACK of several segments counts as so many ACKs, evenly spaced;
//!   - after a timeout the memory is empty, and the window what the table says of that;
//!   - takes a known path over with a memory made of its delivery rate and round trips.

pub mod tree;

use crate::arm::{Arm, ArmInfo, Decision, ProgramId, REPORTS_PER_ROUND_MANY, Readiness};
use crate::loaded::Slot;
use crate::measurement::Measurement;
use crate::path::PathState;
use crate::recovery::{Recovery, congested, episode_rtt};
use crate::units::{Bytes, Rate, Time};
use crate::window;
use crate::{report_each_round, signals};
use std::time::Duration;
use tree::{Memory, Tree};

/// The shared signals, and the smoothed intervals. CCP's language has one field left for the three:
/// 21 bits each, in microseconds, [`GAP_BITS`].
pub const PROGRAM: &str = concat!(
    signals!(report: "(volatile gaps 0)", control: "(last_ack_us 0)
    (last_sent_us 0)
    (sent_us 0)
    (gap_ns 0)
    (send_ns 0)
    (ack_ns 0)
    (slow_ns 0)
    (packed 0)"),
    "(when (&& (> Ack.packets_acked 0) (> last_ack_us 0))
    (:= gap_ns (/ (* (- Ack.now last_ack_us) 1000) Ack.packets_acked))
    (:= ack_ns (/ (+ (* ack_ns 7) gap_ns) 8))
    (:= slow_ns (/ (+ (* slow_ns 255) gap_ns) 256))
    (fallthrough)
)
(when (&& (&& (> Ack.packets_acked 0) (< Flow.rtt_sample_us 2000000000)) (> last_sent_us 0))
    (:= sent_us (+ last_sent_us Flow.rtt_sample_us))
    (:= gap_ns (- (max Ack.now sent_us) sent_us))
    (:= gap_ns (/ (* gap_ns 1000) Ack.packets_acked))
    (:= send_ns (/ (+ (* send_ns 7) gap_ns) 8))
    (fallthrough)
)
(when (> Ack.packets_acked 0)
    (:= last_ack_us Ack.now)
    (fallthrough)
)
(when (&& (> Ack.packets_acked 0) (< Flow.rtt_sample_us 2000000000))
    (:= last_sent_us (- Ack.now Flow.rtt_sample_us))
    (fallthrough)
)
(when true
    (:= packed (min (/ slow_ns 1000) 2000000))
    (:= packed (+ (* packed 2097152) (min (/ send_ns 1000) 2000000)))
    (:= Report.gaps (+ (* packed 2097152) (min (/ ack_ns 1000) 2000000)))
    (fallthrough)
)
",
    report_each_round!()
);

/// The name of its table among those loaded.
pub const TABLE: &str = "remy";
const OWN_FIELDS: &[&str] = &["Report.gaps"];
/// Of each of the three.
const GAP_BITS: u32 = 21;

/// Its line in [`crate::ARMS`].
pub const ARM: ArmInfo = ArmInfo {
    name: "remy",
    summary: "follows a rule table that Remy has computed (needs one)",
    program: ProgramId("remy/memory"),
    program_text: PROGRAM,
    own_fields: OWN_FIELDS,
    reports_per_round: REPORTS_PER_ROUND_MANY,
    paces: true,
    answers_losses: false,
    loads: Some(TABLE),
    make: Some(|loaded| Box::new(Remy::new(loaded.slot(TABLE)))),
    ..ArmInfo::DEFAULT
};

/// The largest window of a table (whisker.cc).
const WINDOW_MAX: f64 = 1e6;
/// More segments than these are no report.
const ACTIONS_MAX: u64 = 10_000;
/// The table's intervals have a least one, so that a rate is not without bounds.
const INTERSEND_MS_MIN: f64 = 0.001;

/// Remy, for one flow.
#[derive(Clone, Debug)]
pub struct Remy {
    table: Option<Slot<Tree>>,
    path: PathState,
    memory: Memory,
    recovery: Recovery,
    window: f64,
    cwnd: Bytes,
    rate: Option<Rate>,
}

impl Arm for Remy {
    fn info(&self) -> &'static ArmInfo {
        &ARM
    }

    fn can_resume(&self, _path: &PathState) -> Readiness {
        match self.table {
            Some(_) => Readiness::Ready,
            None => Readiness::Refuse("no rule table is loaded: set arms.remy_table"),
        }
    }

    fn resume(&mut self, path: &PathState, now: Time) -> Decision {
        *self = Self::over(self.table.take(), path, now);
        Decision { cwnd: self.cwnd, rate: None }
    }

    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision {
        self.path.observe(m, now);
        if m.timed_out || (congested(m) && !self.recovery.covers(m, now)) {
            self.recovery.enter(episode_rtt(&self.path, m), now);
        }
        self.recovery.observe(m, now);
        if m.timed_out {
            self.memory = Memory::default();
            self.window = 0.0;
            self.act(1);
        } else if let Some(rtt) = m.rtt {
            let [gaps, ..] = m.own;
            let us = |at: u32| gaps >> (at * GAP_BITS) & ((1 << GAP_BITS) - 1);
            let ms = |at| us(at) as f64 / 1e3;
            let min = self.path.rtt_min_long().unwrap_or(rtt.min).max(Duration::from_micros(1));
            self.memory = Memory {
                send_ewma_ms: ms(1),
                rec_ewma_ms: ms(0),
                rtt_ratio: rtt.last.as_secs_f64() / min.as_secs_f64(),
                slow_rec_ewma_ms: ms(2),
            };
            self.act(m.delivered.to_packets(self.path.mss).0);
        }
        Decision { cwnd: self.cwnd, rate: self.rate }
    }

    fn hand_off(&self, path: &mut PathState) {
        path.cwnd = self.cwnd;
        path.rate = self.rate;
        path.ssthresh = path.bdp().or(path.ssthresh).or(self.path.ssthresh);
        path.recovery_until = self.recovery.until();
    }
}

impl Remy {
    /// One that has no flow yet, by this table.
    pub fn new(table: Option<Slot<Tree>>) -> Self {
        Self::over(table, &window::no_path(), Time::ZERO)
    }

    fn over(table: Option<Slot<Tree>>, path: &PathState, now: Time) -> Self {
        let path = window::sane(path);
        let mss = path.mss.0 as f64;
        let known = path.delivery_rate().zip(path.srtt).zip(path.rtt_min_long());
        let memory = known.map_or(Memory::default(), |((rate, srtt), min)| {
            let gap_ms = mss * 1e3 / rate.bytes_per_sec().max(1) as f64;
            Memory {
                send_ewma_ms: gap_ms,
                rec_ewma_ms: gap_ms,
                rtt_ratio: srtt.as_secs_f64() / min.as_secs_f64().max(1e-6),
                slow_rec_ewma_ms: gap_ms,
            }
        });
        Self {
            table,
            memory,
            recovery: Recovery::resume(&path, now),
            window: path.cwnd.0 as f64 / mss,
            cwnd: path.cwnd,
            rate: None,
            path,
        }
    }

    /// The rule of the memory, once for each segment.
    fn act(&mut self, packets: u64) {
        let Some(table) = &self.table else { return };
        let action = table.get().action(&self.memory);
        for _ in 0..packets.min(ACTIONS_MAX) {
            let next = self.window * action.window_multiple + action.window_increment;
            self.window = next.clamp(0.0, WINDOW_MAX);
        }
        let mss = self.path.mss.0 as f64;
        self.cwnd = window::bound(&self.path, Bytes((self.window * mss) as u64));
        let rate = mss * 1e3 / action.intersend_ms.max(INTERSEND_MS_MIN);
        self.rate = Some(Rate::from_bytes_per_sec((rate as u64).max(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::{OWN_FIELDS_MAX, RttSamples};
    use crate::script::{MSS, path};
    use crate::units::Packets;

    fn remy() -> Remy {
        let table = tree::divided_at(1.5, (1, 1.0, 0.5), (0, 0.9, 2.0));
        Remy::new(Some(Slot::new(Tree::parse(&table).expect("a table"))))
    }

    fn report(rtt_ms: u64, packets: u64) -> Measurement {
        let rtt = Some(RttSamples::one(Duration::from_millis(rtt_ms)));
        Measurement { rtt, delivered: Packets(packets).to_bytes(MSS), ..Measurement::QUIET }
    }

    #[test]
    fn the_memory_is_unpacked() {
        let mut remy = remy();
        remy.resume(&path(10), Time::ZERO);
        let mut own = [0; OWN_FIELDS_MAX];
        own[0] = (7_000 << 42) | (500 << 21) | 250;
        remy.on_measurement(&Measurement { own, ..report(60, 1) }, Time::ZERO);
        let Memory { send_ewma_ms, rec_ewma_ms, slow_rec_ewma_ms, .. } = remy.memory;
        assert_eq!((send_ewma_ms, rec_ewma_ms, slow_rec_ewma_ms), (0.5, 0.25, 7.0));
    }

    #[test]
    fn the_rule_is_applied_for_each_segment() {
        let mut remy = remy();
        remy.resume(&path(10), Time::ZERO);
        let grown = remy.on_measurement(&report(40, 5), Time(Duration::from_millis(10)));
        assert_eq!(grown.cwnd, Packets(15).to_bytes(MSS));
        assert_eq!(grown.rate, Some(MSS / Duration::from_micros(500)));
        // 15 times 0.9 twice
        let cut = remy.on_measurement(&report(80, 2), Time(Duration::from_millis(20)));
        assert_eq!(cut.cwnd.to_packets(MSS), Packets(12));
    }

    #[test]
    fn without_a_table_it_takes_no_flow() {
        assert!(matches!(Remy::new(None).can_resume(&path(10)), Readiness::Refuse(_)));
        assert_eq!(remy().can_resume(&path(10)), Readiness::Ready);
    }

    #[test]
    fn a_timeout_empties_the_memory() {
        let mut remy = remy();
        remy.resume(&path(100), Time::ZERO);
        let timeout = Measurement { timed_out: true, ..Measurement::QUIET };
        let cwnd = remy.on_measurement(&timeout, Time(Duration::from_millis(10))).cwnd;
        assert_eq!(cwnd, path(100).cwnd_floor());
    }
}
