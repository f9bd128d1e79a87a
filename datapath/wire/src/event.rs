//! The exchange between datapath and agent, as values instead of bytes.
//!
//! Within one process, an [`Event`] goes to the agent and an [`Order`] to the datapath as they are.
//! Only at a socket or a device are they turned into messages and back: [`Event::encode`] and
//! [`Order::encode`] write messages, [`Order::of`] and [`Inbox`] read them.

use crate::to_agent::{
    Create, FIELDS_MAX, FlowInfo, Hello, Signals, State, encode_measure, encode_ready, encode_state,
};
use crate::to_datapath::{
    ToDatapath, Update, encode_change_prog, encode_native, encode_update_fields,
};
use crate::{Error, ToAgent};
use std::collections::HashMap;

/// Offset of the fields in a `MEASURE`, after header, program number and count.
const MEASURE_FIELDS_AT: usize = 16;
/// Flows of one datapath that may be described and not created yet; further descriptions are
/// refused.
const DESCRIBED_MAX: usize = 100_000;

/// A report of a flow's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report<'a> {
    /// The datapath's number of the flow.
    pub sid: u32,
    /// The agent's number of the program that reported.
    pub uid: u32,
    /// The program's report registers, in the order in which it declares them.
    pub fields: &'a [u64],
    /// The optional primitives; `None` if the datapath does not send them.
    pub signals: Option<Signals>,
}

/// What a server sent between two requests of its peer, from its first byte's departure to the
/// acknowledgement of its last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// When it ended, by the datapath's monotonic clock, in microseconds.
    pub at_us: u64,
    /// How long it took, in microseconds.
    pub took_us: u64,
    pub bytes: u64,
    /// Smoothed round trip at its end, in microseconds.
    pub srtt_us: u32,
    /// Least round trip, in microseconds; 0 if it is not known.
    pub rtt_min_us: u32,
    /// Segments marked lost while it lasted.
    pub lost_pkts: u32,
    /// The peer's receive window when it began, in bytes.
    pub rwnd_bytes: u32,
    /// The congestion window when it began, in segments.
    pub started_cwnd_pkts: u32,
    pub mss_bytes: u32,
    /// 1 is the first response of its connection.
    pub number: u32,
}

/// An event of a datapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The datapath's name, capabilities and limits.
    Hello(&'a Hello),
    /// The datapath starts or restarts. It has no programs, and announces each live flow after this
    /// event.
    Ready,
    /// A flow starts, or is announced again.
    Created {
        /// The datapath's number of the flow.
        sid: u32,
        create: &'a Create,
        /// `None` if the datapath sends only CCP's own messages.
        info: Option<&'a FlowInfo>,
    },
    Report(Report<'a>),
    /// The flow was taken over by the datapath's own control, or given back to the agent.
    State {
        /// The datapath's number of the flow.
        sid: u32,
        state: State,
        /// The window in force, in bytes.
        cwnd_bytes: u32,
        /// The time by the datapath's monotonic clock, in microseconds.
        at_us: u64,
    },
    /// A response of a flow has ended. No message carries it, so only a datapath in the agent's own
    /// process tells of responses.
    Response {
        /// The datapath's number of the flow.
        sid: u32,
        response: Response,
    },
    Closed {
        /// The datapath's number of the flow.
        sid: u32,
    },
}

impl Event<'_> {
    /// Writes this event as messages, and passes each to `sink` in order. `out` is a buffer.
    pub fn encode(&self, out: &mut Vec<u8>, sink: &mut dyn FnMut(&[u8])) {
        match *self {
            Self::Hello(hello) => hello.encode(out),
            Self::Ready => encode_ready(out, 0),
            Self::Created { sid, create, info } => {
                if let Some(info) = info {
                    info.encode(out, sid);
                    sink(out);
                }
                create.encode(out, sid);
            }
            Self::Report(Report { sid, uid, fields, signals }) => {
                if let Some(signals) = signals {
                    signals.encode(out, sid);
                    sink(out);
                }
                encode_measure(out, sid, uid, fields);
            }
            Self::State { sid, state, cwnd_bytes, at_us } => {
                encode_state(out, sid, state, (cwnd_bytes, at_us));
            }
            Self::Response { .. } => return,
            Self::Closed { sid } => encode_measure(out, sid, 0, &[]),
        }
        sink(out);
    }
}

/// An order of the agent to a datapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order<'a> {
    /// Store this program, a whole `INSTALL`, under the number in it.
    Install(&'a [u8]),
    /// Run this program for the flow; `updates` are initial values of registers.
    Run {
        /// The datapath's number of the flow.
        sid: u32,
        /// The agent's number of the program.
        uid: u32,
        updates: &'a [Update],
    },
    /// Set registers of the program that the flow runs.
    Update {
        /// The datapath's number of the flow.
        sid: u32,
        updates: &'a [Update],
    },
    /// Run one of the host's own algorithms for the flow, until the next `Run`. The flow's present
    /// program continues to measure.
    Native {
        /// The datapath's number of the flow.
        sid: u32,
        /// The host's name of the algorithm.
        name: &'a str,
        /// Slow-start threshold at the start, in bytes; 0 keeps the present one.
        ssthresh_bytes: u32,
    },
}

impl<'a> Order<'a> {
    /// Writes this order as a message into `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Install(install) => {
                out.clear();
                out.extend(install);
            }
            Self::Run { sid, uid, updates } => encode_change_prog(out, sid, uid, updates),
            Self::Update { sid, updates } => encode_update_fields(out, sid, updates),
            Self::Native { sid, name, ssthresh_bytes } => {
                encode_native(out, sid, name, ssthresh_bytes);
            }
        }
    }

    /// The order in `message`, which was parsed as `parsed`; `None` for a heartbeat or a resync.
    pub fn of(message: &'a [u8], parsed: &'a ToDatapath) -> Option<Self> {
        Some(match parsed {
            ToDatapath::Install(_) => Self::Install(message),
            ToDatapath::UpdateFields { sid, updates } => Self::Update { sid: *sid, updates },
            ToDatapath::ChangeProg { sid, uid, updates } => {
                Self::Run { sid: *sid, uid: *uid, updates }
            }
            ToDatapath::Native { sid, name, ssthresh_bytes } => {
                Self::Native { sid: *sid, name, ssthresh_bytes: *ssthresh_bytes }
            }
            ToDatapath::Heartbeat | ToDatapath::Resync => return None,
        })
    }

    /// The flow of this order; `None` for `Install`.
    pub fn sid(&self) -> Option<u32> {
        match *self {
            Self::Install(_) => None,
            Self::Run { sid, .. } | Self::Update { sid, .. } | Self::Native { sid, .. } => {
                Some(sid)
            }
        }
    }
}

/// Combines the messages of one datapath into events: a `FLOW` belongs to the next `CREATE` of that
/// flow, a `SIGNALS` to the next `MEASURE`.
#[derive(Debug, Default)]
pub struct Inbox {
    described: HashMap<u32, Box<FlowInfo>>,
    signals: Option<(u32, Signals)>,
    fields: Vec<u64>,
}

impl Inbox {
    /// Handles one message, or refuses it as a whole. Passes an event to `sink` if the message
    /// completes one.
    pub fn take(&mut self, message: &[u8], sink: impl FnOnce(Event<'_>)) -> Result<(), Error> {
        match ToAgent::parse(message)? {
            ToAgent::Hello(hello) => sink(Event::Hello(&hello)),
            ToAgent::Ready { .. } => {
                self.described.clear();
                self.signals = None;
                sink(Event::Ready);
            }
            ToAgent::Flow { sid, info } => self.describe(sid, info, message.len())?,
            ToAgent::Create { sid, create } => {
                let info = self.described.remove(&sid);
                sink(Event::Created { sid, create: &create, info: info.as_deref() });
            }
            ToAgent::Signals { sid, signals } => self.signals = Some((sid, signals)),
            ToAgent::Measure { sid, fields: 0, .. } => {
                self.described.remove(&sid);
                sink(Event::Closed { sid });
            }
            ToAgent::Measure { sid, uid, .. } => {
                let of_flow = self.signals.take().filter(|(of, _)| *of == sid);
                let words = message[MEASURE_FIELDS_AT..].chunks_exact(8);
                self.fields.clear();
                self.fields.extend(
                    words.map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))),
                );
                let signals = of_flow.map(|(_, signals)| signals);
                sink(Event::Report(Report { sid, uid, fields: &self.fields, signals }));
            }
            ToAgent::State { sid, state, cwnd_bytes, at_us } => {
                sink(Event::State { sid, state, cwnd_bytes, at_us });
            }
        }
        Ok(())
    }

    fn describe(&mut self, sid: u32, info: Box<FlowInfo>, bytes: usize) -> Result<(), Error> {
        let is_new = !self.described.contains_key(&sid);
        if is_new && self.described.len() >= DESCRIBED_MAX {
            let count = self.described.len() as u64;
            return Err(Error::Count { what: "flows described and not created", count, bytes });
        }
        self.described.insert(sid, info);
        Ok(())
    }
}

const _: () = assert!(FIELDS_MAX * 8 + MEASURE_FIELDS_AT <= crate::MESSAGE_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Register;

    fn messages(event: Event<'_>) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        event.encode(&mut Vec::new(), &mut |message| all.push(message.to_vec()));
        all
    }

    #[test]
    fn an_event_is_the_same_behind_an_edge() {
        let hello = Hello { version: 1, name: "test".to_owned(), ..Hello::default() };
        let create = Create { init_cwnd_bytes: 14_480, mss_bytes: 1_448, ..Create::default() };
        let signals = Some(Signals { now_us: 7, cwnd_pkts: 10, ..Signals::default() });
        let events = [
            Event::Hello(&hello),
            Event::Ready,
            Event::Created { sid: 5, create: &create, info: None },
            Event::Report(Report { sid: 5, uid: 1, fields: &[1, u64::MAX], signals }),
            Event::Report(Report { sid: 5, uid: 1, fields: &[3], signals: None }),
            Event::State { sid: 5, state: State::FellBack, cwnd_bytes: 9, at_us: 8 },
            Event::Closed { sid: 5 },
        ];
        let mut inbox = Inbox::default();
        for event in events {
            let mut same = 0;
            for message in messages(event) {
                inbox
                    .take(&message, |read| {
                        assert_eq!(read, event);
                        same += 1;
                    })
                    .expect("our own messages are well formed");
            }
            assert_eq!(same, 1, "{event:?}");
        }
    }

    #[test]
    fn signals_of_another_flow_are_not_the_reports() {
        let signals = Some(Signals { now_us: 7, ..Signals::default() });
        let mut inbox = Inbox::default();
        let first = &messages(Event::Report(Report { sid: 5, uid: 1, fields: &[1], signals }))[0];
        inbox.take(first, |event| panic!("{event:?}")).expect("it is well formed");
        let other = &messages(Event::Report(Report { sid: 6, uid: 1, fields: &[1], signals }))[1];
        inbox
            .take(other, |event| {
                let want = Report { sid: 6, uid: 1, fields: &[1], signals: None };
                assert_eq!(event, Event::Report(want));
            })
            .expect("it is well formed");
        assert!(inbox.take(&[0; 3], |event| panic!("{event:?}")).is_err());
    }

    #[test]
    fn an_order_is_the_same_behind_an_edge() {
        let updates = [Update { register: Register::Control(3), value: 9 }];
        let orders = [
            Order::Run { sid: 1, uid: 2, updates: &updates },
            Order::Update { sid: 1, updates: &updates },
            Order::Native { sid: 1, name: "cubic", ssthresh_bytes: 3 },
        ];
        let mut message = Vec::new();
        for order in orders {
            order.encode(&mut message);
            let parsed = ToDatapath::parse(&message).expect("our own messages are well formed");
            assert_eq!(Order::of(&message, &parsed), Some(order));
            assert_eq!(order.sid(), Some(1));
        }
    }
}
