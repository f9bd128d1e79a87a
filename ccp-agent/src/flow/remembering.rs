//! What a flow takes over from those before it to the same destination, and what it leaves.
//!
//! Algorithm 2 of Antelope, at the flow's end of it: the memory itself is
//! [`remuda_selector::antelope::memory`].

use super::Flow;
use super::jump::Jump;
use crate::events::{Event, Recorder};
use crate::guard::Guard;
use remuda_algorithms::units::{Bytes, Time};
use remuda_selector::antelope::memory::{Memory, Remembered};
use std::time::Duration;

/// A flow that lasts is asked this often: those that begin meanwhile need not wait for its end.
const ASK_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Remembering {
    /// What it began with.
    recalled: Option<Remembered>,
    asked: Time,
    /// Something was reported since.
    is_new: bool,
    /// What it has left last.
    left: Option<&'static str>,
}

impl Flow {
    /// Before the flow starts: its controller learns which arm memory has of the destination.
    /// `now_s` is of the memory's clock.
    pub fn look_up_destination(&mut self, memory: &mut Memory, now_s: u64) {
        let recalled = memory.remembered(self.remote(), now_s);
        self.path.remembered_arm = recalled.map(|it| it.arm);
        self.remembering.recalled = recalled;
    }

    /// Before it starts, where it was known before its handshake: the round trips that this has
    /// told, smoothed and smallest, in microseconds. Its time counts from then.
    pub fn established(&mut self, (srtt_us, rtt_min_us): (u32, u32), started_us: u64) {
        (self.info.srtt_us, self.info.rtt_min_us) = (srtt_us, rtt_min_us);
        let (cwnd, mss, wants) = (self.path.cwnd, self.path.mss, self.path.wants);
        self.path = super::path_of(&self.info, cwnd, mss);
        self.path.wants = wants;
        self.started_us = started_us;
    }

    /// Before it starts: it has another initial window than was thought.
    pub fn begin_with(&mut self, cwnd: Bytes) {
        self.jump = Jump::of(cwnd, self.path.mss);
        self.path.cwnd = cwnd;
        self.decision.cwnd = cwnd;
        self.guard = Guard::new(cwnd, Time::ZERO);
    }

    /// Before its controller begins anew: what it has found out of the path it need not find out
    /// again.
    pub(super) fn begin_with_own_verdict(&mut self) {
        let found = self.controller.verdict().map(|verdict| verdict.arm);
        self.path.remembered_arm = found.or(self.path.remembered_arm);
    }

    /// The event of what was recalled.
    pub(super) fn record_recalled(&self, recorder: &mut dyn Recorder) {
        if let Some(Remembered { arm, weight, of }) = self.remembering.recalled {
            let recalled = Event::Recalled { arm: arm.to_owned(), weight, of: of.to_string() };
            recorder.record(Some(self.id), &recalled);
        }
    }

    /// After a report: leaves the arm that suits its path, if it is time to.
    pub fn leave_in_time(&mut self, memory: &mut Memory, now_s: u64, recorder: &mut dyn Recorder) {
        self.remembering.is_new = true;
        if self.reported_at - self.remembering.asked >= ASK_INTERVAL {
            self.leave(memory, now_s, recorder);
        }
    }

    /// At its end, or at that of the agent.
    pub fn leave_for_good(&mut self, memory: &mut Memory, now_s: u64, recorder: &mut dyn Recorder) {
        self.end_jump(memory);
        self.leave(memory, now_s, recorder);
    }

    /// Leaves the arm that suits its path, and what it has had of it.
    fn leave(&mut self, memory: &mut Memory, now_s: u64, recorder: &mut dyn Recorder) {
        self.remembering.asked = self.reported_at;
        if !std::mem::take(&mut self.remembering.is_new) {
            return;
        }
        let Some(verdict) = self.controller.verdict() else { return };
        let (arm, score) = (verdict.arm, verdict.score);
        if !self.is_believed {
            memory.leave_out_untrusted(self.info.origin.uid);
            return;
        }
        if !memory.note(self.remote(), arm, score, now_s) {
            return;
        }
        if let Some(carried) = self.carried() {
            memory.note_carried(self.remote(), carried, now_s);
        }
        if self.remembering.left.replace(arm) != Some(arm) {
            let of = self.info.remote.0.to_canonical().to_string();
            let remembered = Event::Remembered { arm: arm.to_owned(), score, of };
            recorder.record(Some(self.id), &remembered);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::Setup;
    use crate::flow::{Context, Driver, Start};
    use remuda_algorithms::{Loaded, Measurement, PathState, Proposal, Verdict};
    use remuda_selector::antelope::memory::{MemoryConfig, WhyNot};
    use remuda_selector::{ArmRunner, Policy};
    use remuda_wire::to_agent::{FlowInfo, Signals, State};
    use std::sync::{Arc, Mutex};

    /// Stays with CUBIC, with an opinion of what would suit the path.
    struct Opinionated {
        opinion: Arc<Mutex<Option<&'static str>>>,
        remembered_arm: Arc<Mutex<Option<&'static str>>>,
    }

    impl Policy for Opinionated {
        fn begin(&mut self, path: &PathState, _now: Time) -> &'static str {
            *self.remembered_arm.lock().unwrap() = path.remembered_arm;
            "cubic"
        }
        fn observe(&mut self, _m: &Measurement, _arm: &'static str, _now: Time) {}
        fn proposal(&mut self) -> Option<Proposal> {
            None
        }
        fn taken(&mut self, _arm: &'static str, _now: Time) {}
        fn remembers(&self) -> bool {
            true
        }
        fn verdict(&self) -> Option<Verdict> {
            self.opinion.lock().unwrap().map(|arm| Verdict { arm, score: 0.5 })
        }
    }

    #[derive(Default)]
    struct Notes(Vec<String>);

    impl Recorder for Notes {
        fn record(&mut self, _flow: Option<u32>, event: &Event) {
            match event {
                Event::Recalled { arm, of, .. } => self.0.push(format!("recalled {arm} {of}")),
                Event::Remembered { arm, of, .. } => self.0.push(format!("remembered {arm} {of}")),
                Event::Retreated { .. } => self.0.push("retreated".to_owned()),
                _ => {}
            }
        }
    }

    /// A flow that has just begun, at 0 s, and what it leaves.
    pub struct Rig {
        pub flow: Flow,
        pub memory: Memory,
        /// What each report says.
        pub says: Measurement,
        notes: Notes,
        opinion: Arc<Mutex<Option<&'static str>>>,
        remembered_arm: Arc<Mutex<Option<&'static str>>>,
    }

    impl Rig {
        fn to(remote: &str, memory: Memory) -> Self {
            Self::starting(1, remote, memory, 10)
        }

        /// The flow of that number, which begins with so many segments of 1448 bytes. Its handshake
        /// took 100 ms.
        pub fn starting(id: u32, remote: &str, mut memory: Memory, cwnd_pkts: u64) -> Self {
            let (opinion, remembered_arm) = (Arc::default(), Arc::default());
            let policy = Opinionated {
                opinion: Arc::clone(&opinion),
                remembered_arm: Arc::clone(&remembered_arm),
            };
            let info = FlowInfo {
                srtt_us: 100_000,
                rtt_min_us: 100_000,
                ..FlowInfo::between(("192.0.2.1".parse().unwrap(), 1), (remote.parse().unwrap(), 2))
            };
            let start = Start {
                id,
                sid: id,
                info,
                cwnd: Bytes(cwnd_pkts * 1_448),
                mss: Bytes(1_448),
                abilities: Default::default(),
                is_believed: true,
                at_us: 0,
            };
            let driver = Driver::Policy(Box::new(ArmRunner::new(policy, &Loaded::default())));
            let mut flow = Flow::new(start, "opinionated".to_owned(), driver);
            let mut notes = Notes::default();
            flow.look_up_destination(&mut memory, 0);
            flow.start(&mut Context {
                setup: &Setup::default(),
                recorder: &mut notes,
                orders: &mut |_| (),
                now_us: 0,
                report_us: 2_000,
            });
            Self { flow, memory, notes, opinion, remembered_arm, says: Measurement::QUIET }
        }

        /// A report at that moment.
        pub fn report(&mut self, at_s: u64, opinion: &'static str) {
            *self.opinion.lock().unwrap() = Some(opinion);
            self.flow.signals = Some(Signals { now_us: at_s * 1_000_000, ..Signals::default() });
            self.flow.at_us = at_s * 1_000_000;
            let mut ctx = Context {
                setup: &Setup::default(),
                recorder: &mut self.notes,
                orders: &mut |_| (),
                now_us: 0,
                report_us: 2_000,
            };
            self.flow.take_in(&self.says, &mut ctx);
            self.flow.jump_in_time(&mut self.memory, at_s, &mut ctx);
            self.flow.leave_in_time(&mut self.memory, at_s, &mut self.notes);
        }

        /// How many notes have this text.
        pub fn heard(&self, note: &str) -> usize {
            self.notes.0.iter().filter(|it| *it == note).count()
        }

        /// It ends, and the memory is the next one's.
        pub fn end(mut self, now_s: u64) -> Memory {
            self.flow.leave_for_good(&mut self.memory, now_s, &mut self.notes);
            self.memory
        }

        fn weight(&mut self) -> f64 {
            let remote = self.flow.info.remote.0;
            self.memory.remembered(remote, 0).map_or(0.0, |it| it.weight)
        }
    }

    /// A memory of nothing.
    pub fn nothing() -> Memory {
        Memory::new(&MemoryConfig::default())
    }

    #[test]
    fn a_flow_leaves_its_opinion_each_few_seconds_and_at_its_end() {
        let mut rig = Rig::to("198.51.100.7", nothing());
        for at_s in 1..=12 {
            rig.report(at_s, "bbr");
        }
        // At 5 s and at 10 s; and what came since, at the end.
        assert!((rig.weight() - 0.95).abs() < 1e-9, "{}", rig.weight());
        rig.flow.leave_for_good(&mut rig.memory, 13, &mut rig.notes);
        assert!((rig.weight() - 1.355).abs() < 1e-9, "{}", rig.weight());
        rig.flow.leave_for_good(&mut rig.memory, 13, &mut rig.notes);
        assert!((rig.weight() - 1.355).abs() < 1e-9, "nothing has come since");
        assert_eq!(rig.notes.0, ["remembered bbr 198.51.100.7"]);
    }

    #[test]
    fn the_next_flow_knows_from_its_start_and_says_so() {
        let mut rig = Rig::to("198.51.100.7", nothing());
        assert_eq!(*rig.remembered_arm.lock().unwrap(), None);
        rig.report(1, "copa");
        let next = Rig::to("198.51.100.9", rig.end(2));
        assert_eq!(*next.remembered_arm.lock().unwrap(), Some("copa"));
        assert_eq!(next.notes.0, ["recalled copa 198.51.100.0/24"]);
    }

    #[test]
    fn a_flow_that_fell_back_begins_anew_with_what_it_has_found_out() {
        let mut rig = Rig::to("198.51.100.7", nothing());
        rig.report(1, "copa");
        let cwnd = Bytes(14_480);
        assert!(!rig.flow.on_state(State::FellBack, 0, cwnd, &mut rig.notes));
        assert!(rig.flow.on_state(State::Restored, 0, cwnd, &mut rig.notes), "it is to be poked");
        rig.flow.on_poke(&mut Context {
            setup: &Setup::default(),
            recorder: &mut rig.notes,
            orders: &mut |_| (),
            now_us: 1_000_000,
            report_us: 2_000,
        });
        assert_eq!(*rig.remembered_arm.lock().unwrap(), Some("copa"));
    }

    #[test]
    fn another_opinion_is_another_event() {
        let mut rig = Rig::to("2001:db8::1", nothing());
        for (at_s, opinion) in [(5, "bbr"), (10, "bbr"), (15, "cubic"), (20, "bbr")] {
            rig.report(at_s, opinion);
        }
        let want = ["bbr", "cubic", "bbr"].map(|arm| format!("remembered {arm} 2001:db8::1"));
        assert_eq!(rig.notes.0, want);
    }

    #[test]
    fn a_flow_that_is_not_believed_teaches_nothing_and_is_counted() {
        let mut rig = Rig::to("198.51.100.7", nothing());
        rig.flow.is_believed = false;
        rig.flow.info.origin.uid = 1_000;
        for at_s in 1..=12 {
            rig.says = Measurement { delivered: Bytes(1_000_000), ..Measurement::QUIET };
            rig.report(at_s, "bbr");
        }
        assert!(rig.notes.0.is_empty(), "{:?}", rig.notes.0);
        let memory = rig.end(13);
        assert!(memory.is_empty());
        let left_out = memory.left_out().rows();
        let [row] = left_out[..] else { panic!("{left_out:?}") };
        assert_eq!((row.uid, row.why, row.count), (1_000, WhyNot::Untrusted, 3));
    }

    #[test]
    fn this_host_itself_is_not_remembered() {
        let mut rig = Rig::to("127.0.0.1", nothing());
        rig.report(6, "bbr");
        assert!(rig.memory.is_empty() && rig.notes.0.is_empty());
    }
}
