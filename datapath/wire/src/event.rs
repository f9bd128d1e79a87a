//! What a datapath and the agent exchange, as values instead of bytes.
//!
//! In one process an [`Event`] goes up and an [`Order`] comes down as they are. Only an edge, a
//! socket or a device, turns them into messages and back: [`Event::encode`] and [`Order::encode`]
//! write them, [`Order::of`] and [`Inbox`] read them.

use crate::to_agent::{
    Create, FIELDS_MAX, FlowInfo, Hello, Signals, State, encode_measure, encode_ready, encode_state,
};
use crate::to_datapath::{
    ToDatapath, Update, encode_change_prog, encode_native, encode_update_fields,
};
use crate::{Error, ToAgent};
use std::collections::HashMap;

/// A `MEASURE` is a header, the program and the count (16 bytes), and then its fields.
const MEASURE_FIELDS_AT: usize = 16;
/// Flows of one datapath that may be described before they are created; more are refused.
const DESCRIBED_MAX: usize = 100_000;

/// One report of a flow's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report<'a> {
    /// The datapath's number of the flow.
    pub sid: u32,
    /// The agent's number of the program that reported.
    pub uid: u32,
    /// The program's report registers, in the order in which it declares them.
    pub fields: &'a [u64],
    /// The optional primitives; `None` if the datapath has none.
    pub signals: Option<Signals>,
}

/// What a datapath says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Its name, capabilities and limits.
    Hello(&'a Hello),
    /// It starts, or starts anew: it has no programs, and announces each live flow behind this.
    Ready,
    /// A flow starts, or is announced again.
    Created {
        /// The datapath's number of the flow.
        sid: u32,
        create: &'a Create,
        /// `None` if the datapath speaks CCP alone.
        info: Option<&'a FlowInfo>,
    },
    Report(Report<'a>),
    /// A flow changed hands between the agent and the datapath's own control.
    State {
        /// The datapath's number of the flow.
        sid: u32,
        state: State,
        /// Window in force, in bytes.
        cwnd_bytes: u32,
        /// When, by the datapath's monotonic clock, in microseconds.
        at_us: u64,
    },
    Closed {
        /// The datapath's number of the flow.
        sid: u32,
    },
}

impl Event<'_> {
    /// Hands the messages that say the same to `sink`, in their order. `out` is room to write in.
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
            Self::Closed { sid } => encode_measure(out, sid, 0, &[]),
        }
        sink(out);
    }
}

/// What the agent wants of a datapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order<'a> {
    /// Keep this program, under the number in it: a whole `INSTALL`.
    Install(&'a [u8]),
    /// The flow runs this program, from these values of its registers.
    Run {
        /// The datapath's number of the flow.
        sid: u32,
        /// The agent's number of the program.
        uid: u32,
        updates: &'a [Update],
    },
    /// New values of registers of the program that the flow runs.
    Update {
        /// The datapath's number of the flow.
        sid: u32,
        updates: &'a [Update],
    },
    /// The flow runs an algorithm of its host's own until its next program, which goes on
    /// measuring the flow.
    Native {
        /// The datapath's number of the flow.
        sid: u32,
        /// The algorithm, as the host names it.
        name: &'a str,
        /// Slow-start threshold to start with, in bytes; 0 leaves it.
        ssthresh_bytes: u32,
    },
}

impl<'a> Order<'a> {
    /// The message that says the same, into `out`.
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

    /// The order that `message`, parsed as `parsed`, is; `None` for a heartbeat or a resync.
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

    /// The flow that it is about; `None` of a program.
    pub fn sid(&self) -> Option<u32> {
        match *self {
            Self::Install(_) => None,
            Self::Run { sid, .. } | Self::Update { sid, .. } | Self::Native { sid, .. } => {
                Some(sid)
            }
        }
    }
}

/// Puts one datapath's messages together to events: a `FLOW` belongs to the `CREATE` that comes
/// next of its flow, a `SIGNALS` to the next `MEASURE`.
#[derive(Debug, Default)]
pub struct Inbox {
    described: HashMap<u32, Box<FlowInfo>>,
    signals: Option<(u32, Signals)>,
    fields: Vec<u64>,
}

impl Inbox {
    /// Takes in one message, whole or not at all, and hands the event that it completes to `sink`.
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
