//! What every algorithm is to the rest of the program: an [`Arm`], and what is known of it before
//! it has a flow, an [`ArmInfo`].

use crate::interned::interned;
use crate::loaded::Loaded;
use crate::measurement::Measurement;
use crate::path::PathState;
use crate::proposal::Why;
use crate::signals;
use crate::units::{Bytes, Rate, Time};

/// Enough to grow a window smoothly, and few enough for a thousand flows.
pub const REPORTS_PER_ROUND: u32 = 4;
/// Enough where a quarter of a round trip is too late: a window that doubles, a rate that probes.
pub const REPORTS_PER_ROUND_MANY: u32 = 16;

/// How many control registers a program may have of its own. CCP's `bbr` has five.
pub const OWN_REGISTERS_MAX: usize = 16;

/// The name of a datapath program, `algorithm/program`. It is unique in the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProgramId(pub &'static str);

/// What the datapath should do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub cwnd: Bytes,
    /// The pacing rate; `None` leaves pacing to the datapath, as window-based algorithms do.
    pub rate: Option<Rate>,
}

/// Values for control registers of an arm's own program, by name. Takes memory only once it has
/// some, and keeps that memory for the next values.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Registers(Vec<(&'static str, u32)>);

impl Clone for Registers {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }

    fn clone_from(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }
}

impl Registers {
    pub const NONE: Self = Self(Vec::new());

    /// Adds one; beyond [`OWN_REGISTERS_MAX`] it is not taken.
    pub fn push(&mut self, name: &'static str, value: u32) {
        if self.0.len() < OWN_REGISTERS_MAX {
            self.0.push((name, value));
        }
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn as_slice(&self) -> &[(&'static str, u32)] {
        &self.0
    }
}

/// Whether an arm takes a flow as it is now, or gives it away (FreeBSD's `tfb_tcp_handoff_ok`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    /// Later: ask again at the next report.
    Defer(&'static str),
    /// Never: the path lacks what it needs.
    Refuse(&'static str),
}

/// Another stage of an arm that has stages, and why it began: for the event log.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Its name in the log.
    pub name: &'static str,
    pub why: Why,
}

/// Makes an arm for a flow. The arm drives nothing until [`Arm::resume`].
pub type Make = fn(&Loaded) -> Box<dyn Arm>;
/// The same for an arm that is known by its name; `None` if its weights are not loaded.
pub type MakeNamed = fn(&str, &Loaded) -> Option<Box<dyn Arm>>;

/// The median queue of an arm that has a path alone. The buffer of the path holds four
/// bandwidth-delay products (BDPs).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Queue {
    /// Less than half a BDP.
    Short,
    /// From half a BDP to two.
    Bounded,
    /// More than two BDPs: the arm fills the buffer.
    Full,
}

/// The facts of an arm. What describes an arm is a field here, so that no policy and no command
/// lists arms by name.
#[derive(Clone, Copy, Debug)]
pub struct ArmInfo {
    /// The name in commands, configuration, logs and models.
    pub name: &'static str,
    /// One line for `remuda programs` and help texts.
    pub summary: &'static str,
    /// The datapath program that must run for its measurements.
    pub program: ProgramId,
    /// Its text, in CCP's language; empty if the arm's author has installed it.
    pub program_text: &'static str,
    /// The report fields that the program declares beside the shared signals, in order: what
    /// [`Measurement::own`] holds.
    pub own_fields: &'static [&'static str],
    /// How often in a round trip the program should report; the host may make it less.
    pub reports_per_round: u32,
    /// The algorithm of the host's own that the flow runs, by the host's name; the program then
    /// only measures. See [`crate::native`].
    pub native: Option<&'static str>,
    /// It refuses a path without ECN.
    pub needs_ecn: bool,
    /// Its decisions have a rate of their own, beside the window.
    pub paces: bool,
    /// It sends less where many packets are lost.
    pub answers_losses: bool,
    /// The queue that the arm leaves; `None` if nobody has measured it. A test measures every
    /// built-in arm that needs no table.
    pub queue: Option<Queue>,
    /// It follows the path; otherwise it reacts to nothing, and is for measurements only.
    pub adapts: bool,
    /// The name in [`Loaded`] of the table or the weights without which it takes no flow.
    pub loads: Option<&'static str>,
    /// Set for an arm of a user's own weights, which `loads` names: makes it by its name.
    pub make_named: Option<MakeNamed>,
    /// `None` if something else makes it, as an author's process does.
    pub make: Option<Make>,
}

impl ArmInfo {
    /// What most arms share: the shared signals, reported by round trip; a window, no rate.
    pub const DEFAULT: Self = Self {
        name: "",
        summary: "",
        program: ProgramId(""),
        program_text: signals::REPORT_EACH_ROUND,
        own_fields: &[],
        reports_per_round: REPORTS_PER_ROUND,
        native: None,
        needs_ecn: false,
        paces: false,
        answers_losses: true,
        queue: None,
        adapts: true,
        loads: None,
        make_named: None,
        make: None,
    };

    /// Builds the arm for a flow, with nothing loaded.
    pub fn build(&self) -> Option<Box<dyn Arm>> {
        self.build_with(&Loaded::default())
    }

    /// Builds the arm for a flow; `None` if something else must make it.
    pub fn build_with(&self, loaded: &Loaded) -> Option<Box<dyn Arm>> {
        if let Some(make) = self.make_named {
            return make(self.name, loaded);
        }
        self.make.map(|make| make(loaded))
    }

    /// The same facts for good, for an arm that comes at run time and is made by something else.
    /// The caller bounds how many there are: none is ever freed, and equal ones share one place.
    pub fn leaked(self) -> &'static Self {
        &interned(MadeElsewhere(Self { make: None, ..self })).0
    }
}

struct MadeElsewhere(ArmInfo);

impl PartialEq for MadeElsewhere {
    fn eq(&self, other: &Self) -> bool {
        let texts =
            |it: &ArmInfo| (it.name, it.summary, it.program, it.program_text, it.own_fields);
        let facts = |it: &ArmInfo| (it.native, it.loads, it.reports_per_round, it.queue);
        let flags = |it: &ArmInfo| {
            [it.needs_ecn, it.paces, it.answers_losses, it.adapts, it.make_named.is_some()]
        };
        let (a, b) = (&self.0, &other.0);
        texts(a) == texts(b) && facts(a) == facts(b) && flags(a) == flags(b)
    }
}

/// One algorithm on one flow. Pure: no clock, no I/O, no randomness of its own. An arm may own
/// other arms and pass every call on to them.
pub trait Arm: Send {
    fn info(&self) -> &'static ArmInfo;

    /// Starts a flow, or takes one over. The first decision after a switch never raises the window
    /// above `path.cwnd` (the guard checks it).
    fn resume(&mut self, path: &PathState, now: Time) -> Decision;

    /// Takes in one report and decides.
    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision;

    /// Writes what it knows of the path, for the next arm.
    fn hand_off(&self, path: &mut PathState);

    /// Whether it takes the flow as it is now.
    fn can_resume(&self, path: &PathState) -> Readiness {
        let info = self.info();
        if info.native.is_some() && !path.datapath.native {
            Readiness::Refuse("its datapath runs no algorithm of the kernel's own")
        } else if info.needs_ecn && !path.datapath.marks {
            Readiness::Refuse("its datapath does not count ECN marks")
        } else if info.needs_ecn && !path.ecn {
            Readiness::Refuse("the peers did not agree on ECN")
        } else {
            Readiness::Ready
        }
    }

    /// Whether this is a moment at which the flow can be handed over. An arm defers in a state that
    /// says nothing of the path, such as slow start.
    fn can_hand_off(&self) -> Readiness {
        Readiness::Ready
    }

    /// When [`Self::on_wake`] is to be called, though no report may come then. The host calls it at
    /// most once a millisecond, and asks for the next moment after each report and each wake.
    fn wake_at(&self) -> Option<Time> {
        None
    }

    /// The time of [`Self::wake_at`] has come. `None` leaves the last decision in force.
    fn on_wake(&mut self, _now: Time) -> Option<Decision> {
        None
    }

    /// The oldest stage that began since the last call and was not asked for. An arm keeps a few at
    /// most, and drops the oldest if nobody asks.
    fn stage(&mut self) -> Option<Stage> {
        None
    }

    /// The program that must run now. It changes only in arms that own others, or an author's
    /// programs.
    fn program(&self) -> ProgramId {
        self.info().program
    }

    /// The report fields of that program beside the shared signals: see [`ArmInfo::own_fields`].
    fn own_fields(&self) -> &[&'static str] {
        self.info().own_fields
    }

    /// How often that program should report now.
    fn reports_per_round(&self) -> u32 {
        self.info().reports_per_round
    }

    /// Adds what that program's own control registers are to hold. They are set together with the
    /// window and the rate.
    fn registers(&self, _registers: &mut Registers) {}
}
