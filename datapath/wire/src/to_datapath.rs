//! Messages from the agent to a datapath.

use crate::program::{self, CWND, Program, RATE, Register};
use crate::{Error, Kind, Reader, begin, close, open, put_name};

/// libccp reads the count in an `UPDATE_FIELDS` as a signed byte.
const UPDATES_MAX: u32 = 127;
const UPDATE_BYTES: usize = 13;
/// Linux' `TCP_CA_NAME_MAX`.
const NATIVE_NAME_BYTES: usize = 16;

/// A new value of a control register, of Cwnd (in bytes) or of Rate (in bytes per second).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    pub register: Register,
    pub value: u64,
}

/// A checked message to a datapath.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToDatapath {
    /// See [`Kind::Install`].
    Install(Program),
    /// See [`Kind::UpdateFields`].
    UpdateFields {
        /// The datapath's number of the flow.
        sid: u32,
        updates: Vec<Update>,
    },
    /// See [`Kind::ChangeProg`].
    ChangeProg {
        /// The datapath's number of the flow.
        sid: u32,
        /// The agent's number of the program.
        uid: u32,
        /// Initial values of registers.
        updates: Vec<Update>,
    },
    /// See [`Kind::Native`]. The next [`Self::ChangeProg`] ends it.
    Native {
        /// The datapath's number of the flow.
        sid: u32,
        /// The host's name of the algorithm.
        name: String,
        /// Slow-start threshold at the start, in bytes; 0 keeps the present one.
        ssthresh_bytes: u32,
    },
    /// See [`Kind::Heartbeat`].
    Heartbeat,
    /// See [`Kind::Resync`].
    Resync,
}

impl ToDatapath {
    pub fn parse(message: &[u8]) -> Result<Self, Error> {
        let (kind, sid, mut r) = open(message)?;
        let bytes = message.len();
        let parsed = match kind {
            k if k == Kind::Install as u16 => Self::Install(Program::parse(&mut r, bytes)?),
            k if k == Kind::UpdateFields as u16 => {
                Self::UpdateFields { sid, updates: parse_updates(&mut r, bytes)? }
            }
            k if k == Kind::ChangeProg as u16 => {
                let uid = r.u32()?;
                Self::ChangeProg { sid, uid, updates: parse_updates(&mut r, bytes)? }
            }
            k if k == Kind::Native as u16 => Self::parse_native(sid, &mut r)?,
            k if k == Kind::Heartbeat as u16 => Self::Heartbeat,
            k if k == Kind::Resync as u16 => Self::Resync,
            other => return Err(Error::Type(other)),
        };
        r.end("bytes after the body")?;
        Ok(parsed)
    }

    fn parse_native(sid: u32, r: &mut Reader<'_>) -> Result<Self, Error> {
        let ssthresh_bytes = r.u32()?;
        let name = r.name::<NATIVE_NAME_BYTES>("the host's algorithm")?;
        if name.is_empty() {
            return Err(Error::Name("the host's algorithm"));
        }
        Ok(Self::Native { sid, name, ssthresh_bytes })
    }
}

fn parse_updates(r: &mut Reader<'_>, bytes: usize) -> Result<Vec<Update>, Error> {
    let count = r.u32()?;
    if count > UPDATES_MAX || count as usize * UPDATE_BYTES != r.left.len() {
        return Err(Error::Count { what: "updates", count: count.into(), bytes });
    }
    (0..count).map(|_| parse_update(r)).collect()
}

fn parse_update(r: &mut Reader<'_>) -> Result<Update, Error> {
    let (kind, index, value) = (r.u8()?, r.u32()?, r.u64()?);
    let (register, _) = program::register(kind, index)?;
    match register {
        Register::Control(_) | Register::Implicit(CWND | RATE) => Ok(Update { register, value }),
        _ => {
            let rule = "only control registers, Cwnd and Rate can be set";
            Err(Error::Register { kind, index, rule })
        }
    }
}

/// Encodes a `HEARTBEAT` or a `RESYNC`; these have no body.
pub fn encode_bare(out: &mut Vec<u8>, kind: Kind) {
    begin(out, kind, 0);
    close(out);
}

fn put_updates(out: &mut Vec<u8>, updates: &[Update]) {
    let sent = &updates[..updates.len().min(UPDATES_MAX as usize)];
    out.extend((sent.len() as u32).to_le_bytes());
    for Update { register, value } in sent {
        let (kind, index) = program::place(*register);
        out.push(kind);
        out.extend(index.to_le_bytes());
        out.extend(value.to_le_bytes());
    }
}

/// Encodes an `UPDATE_FIELDS` with the first 127 updates at most.
pub fn encode_update_fields(out: &mut Vec<u8>, sid: u32, updates: &[Update]) {
    begin(out, Kind::UpdateFields, sid);
    put_updates(out, updates);
    close(out);
}

/// Encodes a `CHANGE_PROG` with the first 127 updates at most.
pub fn encode_change_prog(out: &mut Vec<u8>, sid: u32, uid: u32, updates: &[Update]) {
    begin(out, Kind::ChangeProg, sid);
    out.extend(uid.to_le_bytes());
    put_updates(out, updates);
    close(out);
}

/// Encodes a `NATIVE`. A name longer than 15 bytes is cut.
pub fn encode_native(out: &mut Vec<u8>, sid: u32, name: &str, ssthresh_bytes: u32) {
    begin(out, Kind::Native, sid);
    out.extend(ssthresh_bytes.to_le_bytes());
    put_name(out, name, NATIVE_NAME_BYTES);
    close(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PROGRAM: &str = "(def (Report (volatile acked 0) (rtt 0)) (ctl 7))
        (when (> Micros ctl) (:= Micros 0) (:= Report.acked (/ Ack.bytes_acked 2)) (report))";

    fn install(source: &str) -> Vec<u8> {
        let (bin, _) = portus::lang::compile(source.as_bytes(), &[]).unwrap();
        let (events, instructions) = (bin.events.len(), bin.instrs.len());
        let mut out = Vec::new();
        begin(&mut out, Kind::Install, 0);
        for word in [9, events, instructions] {
            out.extend(u32::try_from(word).unwrap().to_le_bytes());
        }
        out.extend(bin.serialize().unwrap());
        close(&mut out);
        out
    }

    fn updates(kind: Kind, fields: &[(u8, u32, u64)]) -> Vec<u8> {
        let mut out = Vec::new();
        begin(&mut out, kind, 5);
        if kind == Kind::ChangeProg {
            out.extend(9u32.to_le_bytes());
        }
        out.extend(u32::try_from(fields.len()).unwrap().to_le_bytes());
        for (kind, index, value) in fields {
            out.push(*kind);
            out.extend(index.to_le_bytes());
            out.extend(value.to_le_bytes());
        }
        close(&mut out);
        out
    }

    #[test]
    fn what_portus_compiles_is_read_back() {
        let Ok(ToDatapath::Install(program)) = ToDatapath::parse(&install(PROGRAM)) else {
            panic!("an install");
        };
        assert_eq!((program.uid, program.report_fields(), program.events.len()), (9, 2, 1));
        assert_eq!(program.defines.len(), 3);
        assert_eq!(program.events[0].condition.len(), 1);
    }

    #[test]
    fn no_cut_of_an_install_is_one() {
        let whole = install(PROGRAM);
        for cut in 0..whole.len() {
            assert!(ToDatapath::parse(&whole[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_division_by_the_constant_zero_is_refused() {
        let message =
            install("(def (Report (acked 0))) (when true (:= Report.acked (/ 1 0)) (report))");
        let error = ToDatapath::parse(&message).unwrap_err();
        assert!(error.to_string().contains("divides by the constant 0"), "{error}");
    }

    #[test]
    fn a_report_without_fields_is_refused() {
        let error = ToDatapath::parse(&install("(def (ctl 0)) (when true (report))")).unwrap_err();
        assert!(error.to_string().contains("without fields"), "{error}");
    }

    #[test]
    fn counts_beyond_the_message_are_refused_before_they_are_used() {
        let mut message = install(PROGRAM);
        message[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(ToDatapath::parse(&message), Err(Error::Count { what: "events", .. })));
    }

    #[test]
    fn updates_reach_control_cwnd_and_rate_and_nothing_else() {
        let good = updates(Kind::UpdateFields, &[(0, 3, 1), (2, 4, 2_896), (2, 5, 1_000)]);
        let Ok(ToDatapath::UpdateFields { sid: 5, updates: got }) = ToDatapath::parse(&good) else {
            panic!("an update");
        };
        assert_eq!(got[1], Update { register: Register::Implicit(CWND), value: 2_896 });
        for bad in [(2, 3, 0), (5, 0, 0), (4, 0, 0), (0, 100_000, 0), (9, 0, 0)] {
            let message = updates(Kind::ChangeProg, &[bad]);
            assert!(matches!(ToDatapath::parse(&message), Err(Error::Register { .. })), "{bad:?}");
        }
    }

    #[test]
    fn a_native_names_its_algorithm_whole_and_no_cut_of_it_is_one() {
        let mut out = Vec::new();
        encode_native(&mut out, 7, "cubic", 2_896);
        let want = ToDatapath::Native { sid: 7, name: "cubic".to_owned(), ssthresh_bytes: 2_896 };
        assert_eq!(ToDatapath::parse(&out), Ok(want));
        for cut in 0..out.len() {
            assert!(ToDatapath::parse(&out[..cut]).is_err(), "cut at {cut}");
        }
        encode_native(&mut out, 7, "", 0);
        let refused = Err(Error::Name("the host's algorithm"));
        assert_eq!(ToDatapath::parse(&out), refused, "without a name");
        encode_native(&mut out, 7, "reno", 0);
        out[12..].fill(b'x');
        assert_eq!(ToDatapath::parse(&out), refused, "without an end");
    }

    proptest! {
        #[test]
        fn no_mutation_of_a_message_panics(at in 0usize..400, byte: u8, kind in 0u16..14) {
            for mut message in [install(PROGRAM), updates(Kind::ChangeProg, &[(0, 1, 2)])] {
                let at = at % message.len();
                message[at] = byte;
                let _ = ToDatapath::parse(&message);
                message[..2].copy_from_slice(&kind.to_le_bytes());
                let _ = ToDatapath::parse(&message);
            }
        }
    }
}
