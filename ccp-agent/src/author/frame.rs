//! The protocol between the agent and an author's process. The author's side is
//! `python/remuda/_serve.py`.
//!
//! A frame is one datagram of a SOCK_SEQPACKET socket: one byte for its kind, then little-endian
//! integers. The agent checks a frame whole before it uses any of it.

use remuda_algorithms::CwndUse;
use remuda_algorithms::units::{Bytes, Rate, Time};
use remuda_algorithms::{Decision, Measurement, PathState};
use serde::Deserialize;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use thiserror::Error;

/// The version that both sides must have.
pub const PROTOCOL_VERSION: u32 = 2;
pub const FRAME_BYTES_MAX: usize = 65_536;
/// A longer traceback is cut at its beginning.
const FAILED_BYTES_MAX: usize = 16 << 10;

const HELLO: u8 = 1;
const DECISION: u8 = 2;
const FAILED: u8 = 3;
const RESUME: u8 = 10;
const MEASURE: u8 = 11;
const CLOSE: u8 = 12;

/// Stands for an unknown value, and the next one for a register that was never set.
const NONE: u64 = u64::MAX;
const NONE_REGISTER: u32 = u32::MAX;

/// Why a frame was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    #[error("a frame of kind {kind} with {bytes} bytes")]
    Length { kind: u8, bytes: usize },
    /// The first byte is not the kind of any frame that an author may send.
    #[error("a frame of kind {0}: only 1, 2 and 3 come from an author")]
    Kind(u8),
    #[error("the announcement of arms: {0}")]
    Hello(String),
}

/// The announcement of an author's arms.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// [`PROTOCOL_VERSION`] of the author's side.
    pub version: u32,
    pub arms: Vec<ArmSpec>,
}

/// An arm in the announcement.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArmSpec {
    pub name: String,
    /// One line that describes the arm.
    pub summary: String,
    /// Parts of a program around the shared signals: declarations of report fields, declarations of
    /// control registers, clauses, and the rule when to report.
    pub report: String,
    /// See `report`.
    pub control: String,
    /// See `report`.
    pub rules: String,
    /// See `report`.
    pub report_rule: String,
    /// Reports in a round trip.
    pub reports_per_round: u32,
    /// The programs of the arm; a flow starts with the first.
    pub programs: Vec<ProgramSpec>,
}

/// A program in the announcement.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramSpec {
    /// The name without the arm's; the agent calls the program `ARM/NAME`.
    pub name: String,
    /// The whole text; empty for a program built around the shared signals.
    pub text: String,
    /// The program's own report fields, without `Report.`.
    pub own: Vec<String>,
    pub registers: Vec<String>,
}

/// A decision for a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub flow: u32,
    pub seq: u32,
    pub decision: Decision,
    /// The state that the next arm would get if it took over now.
    pub handed: Handed,
    /// The program to run, by its position in the announcement.
    pub program: usize,
    /// Values of the control registers in the order of their declaration; `None` was never set.
    pub registers: Vec<Option<u32>>,
}

/// The state that an author hands to the next arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    pub cwnd: Bytes,
    pub ssthresh: Option<Bytes>,
    pub rate: Option<Rate>,
}

/// A frame from an author.
#[derive(Clone, Debug, PartialEq)]
pub enum FromAuthor {
    Hello(Hello),
    Answer(Answer),
    /// An exception with its traceback, for a flow; flow 0 means the whole file.
    Failed(u32, String),
}

struct Reader<'a> {
    left: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.left.split_first_chunk::<N>()?;
        self.left = tail;
        Some(*head)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }
}

fn known(value: u64) -> Option<u64> {
    (value != NONE).then_some(value)
}

impl FromAuthor {
    pub fn parse(frame: &[u8]) -> Result<Self, FrameError> {
        let wrong =
            FrameError::Length { kind: frame.first().copied().unwrap_or(0), bytes: frame.len() };
        let Some((kind, body)) = frame.split_first() else { return Err(wrong) };
        match *kind {
            HELLO => {
                let hello: Hello = serde_json::from_slice(body)
                    .map_err(|error| FrameError::Hello(error.to_string()))?;
                Ok(Self::Hello(hello))
            }
            DECISION => answer(body).map(Self::Answer).ok_or(wrong),
            FAILED => {
                let Some((flow, text)) = body.split_first_chunk::<4>() else { return Err(wrong) };
                let text = &text[text.len().saturating_sub(FAILED_BYTES_MAX)..];
                let text = String::from_utf8_lossy(text).into_owned();
                Ok(Self::Failed(u32::from_le_bytes(*flow), text))
            }
            other => Err(FrameError::Kind(other)),
        }
    }
}

fn answer(body: &[u8]) -> Option<Answer> {
    let mut r = Reader { left: body };
    let (flow, seq) = (r.u32()?, r.u32()?);
    let rate = |value: u64| known(value).map(Rate::from_bytes_per_sec);
    let decision = Decision { cwnd: Bytes(r.u64()?), rate: rate(r.u64()?) };
    let (cwnd, ssthresh) = (Bytes(r.u64()?), known(r.u64()?).map(Bytes));
    let handed = Handed { cwnd, ssthresh, rate: rate(r.u64()?) };
    let (program, count) = (r.byte()?, r.byte()?);
    let set = |value: u32| (value != NONE_REGISTER).then_some(value);
    let registers = (0..count).map(|_| r.u32().map(set)).collect::<Option<Vec<_>>>()?;
    r.left.is_empty().then_some(Answer {
        flow,
        seq,
        decision,
        handed,
        program: program.into(),
        registers,
    })
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(NONE - 1)
}

/// Whether the first byte says that this frame is an announcement.
pub fn is_hello(frame: &[u8]) -> bool {
    frame.first() == Some(&HELLO)
}

/// Whether the first byte says that this is a frame made by [`resume`].
pub fn is_resume(frame: &[u8]) -> bool {
    frame.first() == Some(&RESUME)
}

/// The frame that gives a flow to the author's arm number `arm`.
pub fn resume((flow, seq, arm): (u32, u32, u32), path: &PathState, now: Time) -> Vec<u8> {
    let time = |span: Option<Duration>| span.map_or(NONE, micros);
    let rate = |rate: Option<Rate>| rate.map_or(NONE, |rate| rate.bytes_per_sec());
    let mut out = vec![RESUME];
    for word in [flow, seq, arm] {
        out.extend(word.to_le_bytes());
    }
    for word in [
        micros(now.0),
        path.mss.0,
        path.cwnd.0,
        rate(path.rate),
        path.ssthresh.map_or(NONE, |ssthresh| ssthresh.0),
        time(path.srtt),
        micros(path.rttvar),
        path.in_flight.0,
        time(path.rtt_min()),
        time(path.rtt_min_long()),
        time(path.rtt_max()),
        rate(path.delivery_rate()),
    ] {
        out.extend(word.to_le_bytes());
    }
    out.push(u8::from(path.ecn) | u8::from(path.app_limited) << 1);
    let unknown = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let (local, remote) = path.ends.unwrap_or((unknown, unknown));
    for end in [local, remote] {
        let address = match end.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        out.extend(address.octets());
        out.extend(end.port().to_le_bytes());
    }
    out
}

/// The frame of a report, with the own fields of the arm's program number `program`. It may stand
/// for several reports of the datapath: counts are then sums, extremes are the most extreme, and
/// other values are the last.
pub fn measure(
    (flow, seq): (u32, u32),
    m: &Measurement,
    (program, own): (usize, &[u64]),
    now: Time,
) -> Vec<u8> {
    let mut out = vec![MEASURE];
    for word in [flow, seq] {
        out.extend(word.to_le_bytes());
    }
    let rtt = m.rtt.map_or([0; 6], |rtt| {
        let (last, min, max) = (micros(rtt.last), micros(rtt.min), micros(rtt.max));
        [last, min, max, rtt.sum_us, rtt.sq_sum_us2, rtt.count]
    });
    let head = [micros(now.0), m.acked.0, m.delivered.0, m.lost.0, m.ecn_marked.0];
    let (send, delivery) = (m.send_rate.bytes_per_sec(), m.delivery_rate.bytes_per_sec());
    let tail = [send, delivery, m.in_flight.0, m.cwnd.0];
    for word in head.iter().chain(&rtt).chain(&tail) {
        out.extend(word.to_le_bytes());
    }
    out.push(
        u8::from(m.timed_out)
            | u8::from(m.app_limited) << 1
            | u8::from(m.in_recovery) << 2
            | (match m.cwnd_use {
                None => 0,
                Some(CwndUse::Little) => 1,
                Some(CwndUse::Half) => 2,
                Some(CwndUse::Full) => 3,
            }) << 3,
    );
    let count = own.len().min(u8::MAX.into());
    out.push(u8::try_from(program).unwrap_or(u8::MAX));
    out.push(count as u8);
    for word in &own[..count] {
        out.extend(word.to_le_bytes());
    }
    out
}

/// A frame to an author, as an author in this process reads it.
#[derive(Clone, Debug, PartialEq)]
pub enum ToAuthor {
    Resume(Resume),
    Measure {
        flow: u32,
        seq: u32,
        /// The arm's program that reported, by its number.
        program: usize,
        own: Vec<u64>,
    },
    /// The flow has ended, or another arm drives it.
    Close(u32),
}

/// The fields of a [`resume`] that CCP's `CREATE` needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Resume {
    pub flow: u32,
    pub seq: u32,
    pub mss: Bytes,
    pub cwnd: Bytes,
    /// IPv4 address and port of the local and the remote end, in host order; an address is 0 if it
    /// is unknown or IPv6.
    pub ends: [u32; 4],
}

fn ipv4_end(r: &mut Reader<'_>) -> Option<[u32; 2]> {
    let address = Ipv6Addr::from(r.take::<16>()?).to_ipv4_mapped();
    let port = u16::from_le_bytes(r.take()?);
    Some([address.map_or(0, u32::from), port.into()])
}

impl ToAuthor {
    /// Parses a frame; `None` if it is not a frame to an author.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let (kind, body) = frame.split_first()?;
        let mut r = Reader { left: body };
        let flow = r.u32()?;
        match *kind {
            RESUME => {
                let (seq, _arm) = (r.u32()?, r.u32()?);
                let words = (0..12).map(|_| r.u64()).collect::<Option<Vec<_>>>()?;
                let _flags = r.byte()?;
                let [local, remote] = [ipv4_end(&mut r)?, ipv4_end(&mut r)?];
                let ends = [local[0], local[1], remote[0], remote[1]];
                let (mss, cwnd) = (Bytes(words[1]), Bytes(words[2]));
                Some(Self::Resume(Resume { flow, seq, mss, cwnd, ends }))
            }
            MEASURE => {
                let seq = r.u32()?;
                for _ in 0..15 {
                    r.u64()?;
                }
                let (_flags, program, count) = (r.byte()?, r.byte()?, r.byte()?);
                let own = (0..count).map(|_| r.u64()).collect::<Option<Vec<_>>>()?;
                Some(Self::Measure { flow, seq, program: program.into(), own })
            }
            CLOSE => Some(Self::Close(flow)),
            _ => None,
        }
    }
}

/// The frame of a decision made by an author in this process.
pub fn decision(answer: &Answer) -> Vec<u8> {
    let rate = |rate: Option<Rate>| rate.map_or(NONE, |rate| rate.bytes_per_sec());
    let mut out = vec![DECISION];
    out.extend([answer.flow, answer.seq].iter().flat_map(|word| word.to_le_bytes()));
    let (decided, handed) = (answer.decision, answer.handed);
    for word in [
        decided.cwnd.0,
        rate(decided.rate),
        handed.cwnd.0,
        handed.ssthresh.map_or(NONE, |ssthresh| ssthresh.0),
        rate(handed.rate),
    ] {
        out.extend(word.to_le_bytes());
    }
    out.push(u8::try_from(answer.program).unwrap_or(u8::MAX));
    out.push(u8::try_from(answer.registers.len()).unwrap_or(u8::MAX));
    for value in &answer.registers {
        out.extend(value.unwrap_or(NONE_REGISTER).to_le_bytes());
    }
    out
}

/// The frame that says why an author in this process cannot go on with a flow.
pub fn failed(flow: u32, why: &str) -> Vec<u8> {
    [&[FAILED], flow.to_le_bytes().as_slice(), why.as_bytes()].concat()
}

/// The frame that says that a flow has ended, or that another arm drives it.
pub fn close(flow: u32) -> Vec<u8> {
    let mut out = vec![CLOSE];
    out.extend(flow.to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decision(registers: &[u32]) -> Vec<u8> {
        let mut out = vec![DECISION];
        out.extend([7u32, 3].iter().flat_map(|word| word.to_le_bytes()));
        out.extend([14_480, NONE, 14_480, 9_000, NONE].iter().flat_map(|w: &u64| w.to_le_bytes()));
        out.extend([1, registers.len() as u8]);
        out.extend(registers.iter().flat_map(|word| word.to_le_bytes()));
        out
    }

    #[test]
    fn a_decision_is_read_whole_and_no_cut_of_it() {
        let frame = decision(&[5, NONE_REGISTER]);
        let Ok(FromAuthor::Answer(got)) = FromAuthor::parse(&frame) else { panic!("an answer") };
        assert_eq!((got.flow, got.seq, got.program), (7, 3, 1));
        assert_eq!(got.decision, Decision { cwnd: Bytes(14_480), rate: None });
        assert_eq!((got.handed.ssthresh, got.handed.rate), (Some(Bytes(9_000)), None));
        assert_eq!(got.registers, [Some(5), None]);
        for cut in 0..frame.len() {
            assert!(FromAuthor::parse(&frame[..cut]).is_err(), "cut at {cut}");
        }
        assert!(FromAuthor::parse(&[frame, vec![0]].concat()).is_err());
    }

    #[test]
    fn an_announcement_with_unknown_keys_is_refused_and_says_so() {
        let frame = [&[HELLO][..], br#"{"version": 1, "arms": [], "more": 1}"#].concat();
        let error = FromAuthor::parse(&frame).expect_err("refused").to_string();
        assert!(error.contains("more"), "{error}");
    }

    #[test]
    fn of_a_long_traceback_the_end_is_kept() {
        let text = ["x".repeat(2 * FAILED_BYTES_MAX), "ValueError: no".to_owned()].concat();
        let frame = [&[FAILED, 7, 0, 0, 0], text.as_bytes()].concat();
        let Ok(FromAuthor::Failed(7, kept)) = FromAuthor::parse(&frame) else { panic!("failed") };
        assert_eq!(kept.len(), FAILED_BYTES_MAX);
        assert!(kept.ends_with("ValueError: no"));
    }

    #[test]
    fn a_report_is_as_long_as_the_other_side_reads_it() {
        // These are struct.Struct("<BIIQ14QBBB").size and struct.Struct("<BIIIQ11QB16sH16sH").size.
        let m = Measurement::QUIET;
        assert_eq!(measure((1, 2), &m, (0, &[]), Time::ZERO).len(), 132);
        assert_eq!(measure((1, 2), &m, (0, &[1, 2]), Time::ZERO).len(), 148);
        let path = PathState::new(Bytes(1_448), Bytes(14_480));
        assert_eq!(resume((1, 2, 0), &path, Time::ZERO).len(), 146);
    }

    #[test]
    fn an_author_in_this_process_reads_what_is_written_and_writes_what_is_read() {
        let mut path = PathState::new(Bytes(1_448), Bytes(14_480));
        let ends = [([10, 0, 0, 1], 443), ([192, 168, 0, 7], 50_123)].map(SocketAddr::from);
        path.ends = Some((ends[0], ends[1]));
        let ends = [0x0a00_0001, 443, 0xc0a8_0007, 50_123];
        let (mss, cwnd) = (Bytes(1_448), Bytes(14_480));
        let want = ToAuthor::Resume(Resume { flow: 1, seq: 2, mss, cwnd, ends });
        assert_eq!(ToAuthor::parse(&resume((1, 2, 0), &path, Time::ZERO)), Some(want));
        let frame = measure((7, 3), &Measurement::QUIET, (1, &[5, 6]), Time::ZERO);
        let want = ToAuthor::Measure { flow: 7, seq: 3, program: 1, own: vec![5, 6] };
        assert_eq!(ToAuthor::parse(&frame), Some(want));
        assert_eq!(ToAuthor::parse(&close(9)), Some(ToAuthor::Close(9)));
        assert_eq!(ToAuthor::parse(&frame[..frame.len() - 1]), None);
        let answer = Answer {
            flow: 7,
            seq: 3,
            decision: Decision { cwnd, rate: Some(Rate::from_bytes_per_sec(1_000)) },
            handed: Handed { cwnd, ssthresh: Some(mss), rate: None },
            program: 1,
            registers: vec![Some(5), None],
        };
        let parsed = FromAuthor::parse(&super::decision(&answer));
        assert_eq!(parsed, Ok(FromAuthor::Answer(answer)));
        let parsed = FromAuthor::parse(&failed(7, "why"));
        assert_eq!(parsed, Ok(FromAuthor::Failed(7, "why".to_owned())));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(kind in 0u8..5, mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            bytes.insert(0, kind);
            let _ = FromAuthor::parse(&bytes);
        }
    }
}
