//! What the agent asks of a controller, and what a controller leaves to its successor.
//!
//! A controller drives one flow: an algorithm (an *arm*) or a policy over arms. Both implement
//! [`Controller`], so they are interchangeable per flow and at run time.

use crate::path::PathState;
use crate::preference::Preference;
use crate::sample::{Sample, Verdict};
use crate::units::{Bytes, Gain, Packets, Rate, Time};
use std::time::Duration;

/// A window of which so much was in flight was used: what is in flight is seen after an ACK.
const CWND_FULL: Gain = Gain(850);

/// Enough to grow a window smoothly, and few enough for a thousand flows.
pub const REPORTS_PER_ROUND: u32 = 4;
/// Enough where a quarter of a round trip is too late: a window that doubles, a rate that probes.
pub const REPORTS_PER_ROUND_MANY: u32 = 16;

/// How many report fields a program may have of its own: CCP's language has 16, of which the shared
/// signals take 15.
pub const OWN_FIELDS_MAX: usize = 1;
/// How many control registers a program may have of its own: as many as CCP's language has.
pub const OWN_REGISTERS_MAX: usize = 16;

/// The name of a datapath program, `algorithm/program`. It is unique in the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProgramId(pub &'static str);

/// The round trips of one report: enough for mean, spread and range without a list of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttSamples {
    pub last: Duration,
    pub min: Duration,
    pub max: Duration,
    /// Sum of all samples, in microseconds.
    pub sum_us: u64,
    /// Sum of the squares of all samples, in square microseconds.
    pub sq_sum_us2: u64,
    /// How many samples; at least 1.
    pub count: u64,
}

impl RttSamples {
    pub fn one(rtt: Duration) -> Self {
        let rtt_us = u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX);
        Self {
            last: rtt,
            min: rtt,
            max: rtt,
            sum_us: rtt_us,
            sq_sum_us2: rtt_us.saturating_mul(rtt_us),
            count: 1,
        }
    }

    pub fn mean(&self) -> Duration {
        Duration::from_micros(self.sum_us / self.count.max(1))
    }
}

/// How much of its window a sender used (Linux' `tcp_cwnd_validate`). Growing a window that is not
/// used is unsafe (RFC 7661).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CwndUse {
    Little,
    /// Half at least: enough in slow start, as the window has just been raised.
    Half,
    /// All: the window held it back.
    Full,
}

/// One datapath report, decoded. The agent fills it; controllers only read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// Bytes newly acknowledged, cumulatively, since the last report.
    pub acked: Bytes,
    /// Bytes newly delivered, cumulatively or out of order (Linux' `rs->acked_sacked`), since the
    /// last report: what a round trip and a bandwidth are counted by, as the cumulative ACK stands
    /// still while a loss is repaired. In whole segments; `acked` if the datapath does not tell.
    pub delivered: Bytes,
    /// Segments newly marked lost since the last report.
    pub lost: Packets,
    /// Segments newly delivered with an ECN mark since the last report.
    pub ecn_marked: Packets,
    /// A retransmission timeout fired since the last report.
    pub timed_out: bool,
    /// Round trips sampled since the last report; `None` if there was no valid sample.
    pub rtt: Option<RttSamples>,
    /// The largest send rate sampled since the last report.
    pub send_rate: Rate,
    /// The largest delivery rate sampled since the last report: for each sample, the lower of the
    /// rates at which its packets were sent and acknowledged (draft-cheng-iccrg-delivery-rate).
    pub delivery_rate: Rate,
    /// The most bytes that were in flight since the last report.
    pub in_flight: Bytes,
    /// The sender had nothing to send for part of the report; its rates are lower bounds.
    pub app_limited: bool,
    /// The datapath is repairing losses (RFC 6675, RFC 8985) or a timeout.
    pub in_recovery: bool,
    /// The window the datapath had when it reported.
    pub cwnd: Bytes,
    /// Size of a segment, which grows with the path's MTU; 0 if the datapath does not tell.
    pub mss: Bytes,
    /// The longest run of ACKs that were at most 2 ms apart (Linux' `hystart_ack_delta_us`), up to
    /// the report: how long the bottleneck took for the packets of one burst.
    pub ack_train: Duration,
    /// How much of its window the sender used; `None` if the datapath does not tell, and it is to
    /// be guessed from what is in flight.
    pub cwnd_use: Option<CwndUse>,
    /// Other flows of this host to the same network, /24 or /56, that are busy and driven alike.
    pub companions: u32,
    /// The program's own report fields, in the order of [`Controller::own_fields`].
    pub own: [u64; OWN_FIELDS_MAX],
}

impl Measurement {
    /// A report in which nothing happened.
    pub const QUIET: Self = Self {
        acked: Bytes(0),
        delivered: Bytes(0),
        lost: Packets(0),
        ecn_marked: Packets(0),
        timed_out: false,
        rtt: None,
        send_rate: Rate::from_bytes_per_sec(0),
        delivery_rate: Rate::from_bytes_per_sec(0),
        in_flight: Bytes(0),
        app_limited: false,
        in_recovery: false,
        cwnd: Bytes(0),
        mss: Bytes(0),
        ack_train: Duration::ZERO,
        cwnd_use: None,
        companions: 0,
        own: [0; OWN_FIELDS_MAX],
    };

    /// This report and the next one, as one.
    #[must_use]
    pub fn and(&self, next: &Self) -> Self {
        let rtt = match (self.rtt, next.rtt) {
            (Some(a), Some(b)) => Some(RttSamples {
                last: b.last,
                min: a.min.min(b.min),
                max: a.max.max(b.max),
                sum_us: a.sum_us.saturating_add(b.sum_us),
                sq_sum_us2: a.sq_sum_us2.saturating_add(b.sq_sum_us2),
                count: a.count.saturating_add(b.count),
            }),
            (a, b) => b.or(a),
        };
        Self {
            acked: self.acked + next.acked,
            delivered: self.delivered + next.delivered,
            lost: self.lost + next.lost,
            ecn_marked: self.ecn_marked + next.ecn_marked,
            timed_out: self.timed_out || next.timed_out,
            rtt,
            send_rate: self.send_rate.max(next.send_rate),
            delivery_rate: self.delivery_rate.max(next.delivery_rate),
            in_flight: self.in_flight.max(next.in_flight),
            app_limited: self.app_limited || next.app_limited,
            in_recovery: next.in_recovery,
            cwnd: next.cwnd,
            mss: next.mss,
            ack_train: self.ack_train.max(next.ack_train),
            cwnd_use: self.cwnd_use.max(next.cwnd_use),
            companions: next.companions,
            own: next.own,
        }
    }

    /// How much of a window of `cwnd` the sender used: as the datapath says, or by what was in
    /// flight, with two segments of slack, as TSO leaves some unused.
    pub fn cwnd_use(&self, cwnd: Bytes, mss: Bytes) -> CwndUse {
        let in_flight = self.in_flight + Packets(2).to_bytes(mss);
        let guessed = if in_flight >= cwnd * CWND_FULL {
            CwndUse::Full
        } else if in_flight + in_flight >= cwnd {
            CwndUse::Half
        } else {
            CwndUse::Little
        };
        self.cwnd_use.unwrap_or(guessed)
    }
}

/// What the datapath should do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub cwnd: Bytes,
    /// The pacing rate; `None` leaves pacing to the datapath, as window-based algorithms do.
    pub rate: Option<Rate>,
}

/// Values for control registers of a controller's own program, by name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registers {
    values: [(&'static str, u32); OWN_REGISTERS_MAX],
    count: usize,
}

impl Registers {
    pub const NONE: Self = Self { values: [("", 0); OWN_REGISTERS_MAX], count: 0 };

    /// One more; beyond [`OWN_REGISTERS_MAX`] it is not taken.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: u32) -> Self {
        if let Some(place) = self.values.get_mut(self.count) {
            *place = (name, value);
            self.count += 1;
        }
        self
    }

    pub fn as_slice(&self) -> &[(&'static str, u32)] {
        &self.values[..self.count]
    }
}

impl PartialEq for Registers {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Registers {}

/// Whether a controller wants a flow as it is now (FreeBSD's `tfb_tcp_handoff_ok`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    /// Later: ask again at the next report.
    Defer(&'static str),
    /// Never: the path lacks what it needs.
    Refuse(&'static str),
}

/// One reason of a decision, as a name and a value: a feature, a score, a rule.
pub type Reason = (&'static str, String);

/// Why a policy picked an arm. It goes to the event log and to `remuda flows`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Why {
    /// One line for a person.
    pub text: String,
    /// What it was derived from. One with the name of an arm is what that arm is expected to earn,
    /// or to cost, as the policy says: a number, or `0.5 +- 0.1` where the policy knows how sure.
    pub features: Vec<Reason>,
}

impl Why {
    /// A reason without features.
    pub fn because(text: impl Into<String>) -> Self {
        Self { text: text.into(), features: Vec::new() }
    }
}

/// What a policy has decided: a wish to hand the flow to another arm, which the guard may veto. If
/// `to` is the arm in charge there is nothing to carry out, and `why` says why the policy stays.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The arm's name. That of the arm in charge: to stay.
    pub to: &'static str,
    pub why: Why,
    /// It is to learn something, not because the arm is thought to be better.
    pub explores: bool,
    /// The policy goes on to compare this arm with the others, so the guard undoes the switch only
    /// if next to no power is left: what has fallen may have fallen for all arms.
    pub is_watched: bool,
}

impl Proposal {
    /// Another arm that is thought to be better, or the one in charge.
    pub const fn new(to: &'static str, why: Why) -> Self {
        Self { to, why, explores: false, is_watched: false }
    }
}

/// Drives one flow. Pure: no clock, no I/O, no randomness of its own.
pub trait Controller: Send {
    /// The arm that has the flow: its own name, or for a policy that of the arm it rides.
    fn arm(&self) -> &'static str;

    /// The datapath program that must run for its measurements.
    fn program(&self) -> ProgramId;

    /// The algorithm of the host's own that the flow is to run, by the host's name; the program is
    /// then what measures it. See [`crate::native`].
    fn native(&self) -> Option<&'static str> {
        None
    }

    /// How often in a round trip the program should report; the host may make it less.
    fn reports_per_round(&self) -> u32 {
        REPORTS_PER_ROUND
    }

    /// The report fields that the program declares beside the shared signals, in order: what
    /// [`Measurement::own`] holds.
    fn own_fields(&self) -> &[&'static str] {
        &[]
    }

    /// Whether the program has none of the shared signals: [`Self::own_fields`] are all its fields,
    /// and they reach the controller by [`Self::take_fields`].
    fn is_foreign(&self) -> bool {
        false
    }

    /// Whether its program sets the window or the rate itself. Of such a program only what is newly
    /// decided is sent: to send the last decision again would undo what the program has done.
    fn steers_itself(&self) -> bool {
        false
    }

    /// All fields of the report whose measurement comes next, of a foreign program.
    fn take_fields(&mut self, _fields: &[u64]) {}

    /// A decision that was not ready when it was asked for, if there is one now.
    fn late(&mut self) -> Option<Decision> {
        None
    }

    /// Why it cannot go on, if so: it is then replaced.
    fn failure(&mut self) -> Option<String> {
        None
    }

    /// What the program's own control registers are to hold. They are set together with the window
    /// and the rate.
    fn registers(&self) -> Registers {
        Registers::NONE
    }

    /// Starts a flow, or takes one over. The first decision after a switch never raises the
    /// window above `path.cwnd` (the guard checks it).
    fn resume(&mut self, path: &PathState, now: Time) -> Decision;

    /// Takes in one report and decides.
    fn on_measurement(&mut self, m: &Measurement, now: Time) -> Decision;

    /// Whether this controller wants the flow as it is now.
    fn can_resume(&self, _path: &PathState) -> Readiness {
        Readiness::Ready
    }

    /// Whether this is a moment at which the flow can be handed over: a state that says nothing of
    /// the path, such as slow start, is waited for.
    fn can_hand_off(&self) -> Readiness {
        Readiness::Ready
    }

    /// Writes what it knows of the path for whoever comes next.
    fn hand_off(&self, path: &mut PathState);

    /// What a policy has decided since the last call, if anything: to change, or to stay. Arms
    /// decide nothing.
    fn proposal(&mut self) -> Option<Proposal> {
        None
    }

    /// Carries out a proposal that the guard let pass: `path` holds what the arm in charge handed
    /// off. A policy answers with the new arm's first decision, or with why that one does not take
    /// the path, and nothing has changed. Arms ride no others.
    fn switch_to(
        &mut self,
        _arm: &str,
        _path: &PathState,
        _now: Time,
    ) -> Result<Decision, &'static str> {
        Err("an arm rides no other")
    }

    /// The application wants something else of the flow than `path.wants` said. Arms do not choose.
    fn prefer(&mut self, _wants: Preference) {}

    /// What a policy saw of the arm since the last sample, if that is enough to learn from. Arms
    /// learn nothing.
    fn sample(&mut self) -> Option<Sample> {
        None
    }

    /// The arm that suits the flow's path best, as far as a policy has seen it: where the next flow
    /// to the same destination may begin.
    fn verdict(&self) -> Option<Verdict> {
        None
    }

    /// Whether it heeds what is remembered of destinations: its flows may jump by what flows had
    /// there.
    fn remembers(&self) -> bool {
        false
    }
}
