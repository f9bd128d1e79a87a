//! The CCP wire protocol, with Remuda's additions.
//!
//! Types 0 to 5 are exactly those of portus 0.9 and libccp 1.2. Types from 6 on are Remuda's;
//! portus and libccp ignore them. Integers are little-endian. A message is one datagram: `u16 type,
//! u16 length (of the whole), u32 sid`, then the body.
//!
//! Every parser here checks the whole message before it returns: lengths, counts, register kinds
//! and indexes, opcodes. The caller can use the result without further checks.
//!
//! Differs from libccp: a message that libccp would read out of bounds, or truncate, is an
//! [`Error`] here.

pub mod capability;
pub mod event;
pub mod program;
pub mod to_agent;
pub mod to_datapath;

pub use event::{Event, Inbox, Order, Report, Response};
pub use program::{Instruction, Op, Program, Register};
pub use to_agent::ToAgent;
pub use to_datapath::ToDatapath;

use thiserror::Error;

/// Length of a message's header.
pub const HEADER_BYTES: usize = 8;
/// libccp's `BIGGEST_MSG_SIZE`; libccp has this number, not 32,768.
pub const MESSAGE_BYTES_MAX: usize = 32_678;
/// The version of Remuda's own messages, sent in `HELLO`.
pub const PROTOCOL_VERSION: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// Datapath → agent: a flow starts.
    Create = 0,
    /// Datapath → agent: a report; without fields, the end of the flow.
    Measure = 1,
    /// Agent → datapath: a program.
    Install = 2,
    /// Agent → datapath: new register values.
    UpdateFields = 3,
    /// Agent → datapath: the flow runs another program.
    ChangeProg = 4,
    /// Datapath → agent: it has started.
    Ready = 5,
    /// Datapath → agent: name, capabilities, limits. Remuda's.
    Hello = 6,
    /// Datapath → agent: addresses and more about a flow, before its `CREATE`. Remuda's.
    Flow = 7,
    /// Agent → datapath: the agent is alive. Remuda's.
    Heartbeat = 8,
    /// Agent → datapath: announce every live flow again. Remuda's.
    Resync = 9,
    /// Datapath → agent: optional primitives, before the `MEASURE` they belong to. Remuda's.
    Signals = 10,
    /// Datapath → agent: a flow fell back, was given back, or did not change. Remuda's.
    State = 11,
    /// Agent → datapath: run one of the host's own algorithms for the flow. Remuda's.
    Native = 12,
}

/// Why a message was refused. No part of it has taken effect.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The message is too short or too long, or its header gives another length.
    #[error("message of {actual} bytes: {rule}")]
    Length { actual: usize, rule: &'static str },
    /// This side does not accept messages of this type.
    #[error("message type {0} is not for this side")]
    Type(u16),
    /// A count does not fit the length.
    #[error("{what}: {count} do not fit a message of {bytes} bytes")]
    Count {
        what: &'static str,
        /// The count in the message.
        count: u64,
        /// Length of the message.
        bytes: usize,
    },
    /// A name that is not NUL-terminated printable ASCII.
    #[error("{0} is not NUL-terminated printable ASCII")]
    Name(&'static str),
    /// A register that does not exist, or may not be written.
    #[error("register kind {kind} index {index}: {rule}")]
    Register {
        /// The kind as on the wire.
        kind: u8,
        /// The index as on the wire.
        index: u32,
        rule: &'static str,
    },
    /// A program that cannot be run.
    #[error("program {uid}: {rule}")]
    Program {
        /// The agent's number of the program.
        uid: u32,
        rule: String,
    },
}

/// A cursor over a message; it never reads past the end.
struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (head, tail) = self
            .left
            .split_first_chunk::<N>()
            .ok_or(Error::Length { actual: self.left.len(), rule: "the body ends too early" })?;
        self.left = tail;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.take::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, Error> {
        Ok(u16::from_le_bytes(self.take()?))
    }

    fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    /// Reads a field of N bytes that holds a NUL-terminated printable name.
    fn name<const N: usize>(&mut self, what: &'static str) -> Result<String, Error> {
        let field = self.take::<N>()?;
        let end = field.iter().position(|b| *b == 0).ok_or(Error::Name(what))?;
        let name = std::str::from_utf8(&field[..end]).map_err(|_| Error::Name(what))?;
        if name.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(name.to_owned())
        } else {
            Err(Error::Name(what))
        }
    }

    fn end(&self, rule: &'static str) -> Result<(), Error> {
        if self.left.is_empty() {
            Ok(())
        } else {
            Err(Error::Length { actual: self.left.len(), rule })
        }
    }
}

/// Checks the header, and returns type, sid and a reader of the body.
fn open(message: &[u8]) -> Result<(u16, u32, Reader<'_>), Error> {
    let actual = message.len();
    if actual < HEADER_BYTES {
        return Err(Error::Length { actual, rule: "a header has 8 bytes" });
    }
    if actual > MESSAGE_BYTES_MAX {
        return Err(Error::Length { actual, rule: "a message has at most 32678 bytes" });
    }
    let mut reader = Reader { left: message };
    let kind = reader.u16()?;
    let length = reader.u16()?;
    let sid = reader.u32()?;
    if usize::from(length) != actual {
        return Err(Error::Length { actual, rule: "the header's length is the datagram's" });
    }
    Ok((kind, sid, reader))
}

/// Starts a message in `out`; [`close`] fills in the length.
fn begin(out: &mut Vec<u8>, kind: Kind, sid: u32) {
    out.clear();
    out.extend((kind as u16).to_le_bytes());
    out.extend([0, 0]);
    out.extend(sid.to_le_bytes());
}

fn close(out: &mut [u8]) {
    let length = u16::try_from(out.len()).expect("our own messages are shorter than 64 KiB");
    out[2..4].copy_from_slice(&length.to_le_bytes());
}

/// Appends `name` in a field of `field` bytes, cut to fit and padded with NULs.
fn put_name(out: &mut Vec<u8>, name: &str, field: usize) {
    let kept = name.len().min(field - 1);
    out.extend(&name.as_bytes()[..kept]);
    out.resize(out.len() + field - kept, 0);
}
