use crate::ffi::Counters;
use std::fmt;
use thiserror::Error;

/// Why a message was refused: `enum remuda_reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[repr(u32)]
pub enum Reason {
    /// The datagram is too short or too long, or its header gives another length.
    #[error("its length is not what its header and its type say")]
    Length = 1,
    #[error("messages of this type are not for a datapath")]
    Type,
    #[error("a count is over its limit, or does not fit the length")]
    Count,
    #[error("a register does not exist: no such kind, or its index is out of range")]
    Register,
    #[error("a register may not be written here")]
    Target,
    #[error("an initial value is a constant")]
    Initial,
    #[error("no operation has this code")]
    Opcode,
    #[error("an event names instructions that are not there")]
    Event,
    #[error("Micros can only be assigned")]
    Micros,
    #[error("it divides by the constant 0")]
    Division,
    #[error("an ewma weighs in tenths")]
    Ewma,
    #[error("it reports without fields, which would end the flow")]
    NoFields,
    #[error("it reports more fields than there are report registers (32)")]
    ManyFields,
    /// The program was never installed, or has been replaced.
    #[error("this program is not installed")]
    NoProgram,
    /// The flow never existed, or has ended.
    #[error("this flow is not, or no longer, there")]
    NoFlow,
    #[error("the table of programs is full")]
    ProgramsFull,
}

const REASONS: [Reason; 16] = [
    Reason::Length,
    Reason::Type,
    Reason::Count,
    Reason::Register,
    Reason::Target,
    Reason::Initial,
    Reason::Opcode,
    Reason::Event,
    Reason::Micros,
    Reason::Division,
    Reason::Ewma,
    Reason::NoFields,
    Reason::ManyFields,
    Reason::NoProgram,
    Reason::NoFlow,
    Reason::ProgramsFull,
];

/// A refused message; no part of it has taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub struct Refusal {
    pub reason: Reason,
    /// Type of the message; `None` if the message was too short.
    pub kind: Option<u16>,
    /// Length of the message.
    pub bytes: usize,
    /// For an `INSTALL`: the index of the faulty record; events come first, then instructions.
    pub record: Option<u32>,
}

impl Refusal {
    /// Converts a code from C; `None` if `code` is 0, which means not refused.
    pub(crate) fn of(code: u32, message: &[u8], record: Option<u32>) -> Option<Self> {
        let at = code.checked_sub(1)?;
        let reason = REASONS.get(at as usize).copied().expect("C has no other reasons");
        let kind = message.first_chunk::<2>().map(|kind| u16::from_le_bytes(*kind));
        let about_a_record = (Reason::Register as u32..Reason::NoFields as u32 + 1).contains(&code);
        let record = record.filter(|_| about_a_record);
        Some(Self { reason, kind, bytes: message.len(), record })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Some(kind) => write!(f, "message of type {kind}")?,
            None => write!(f, "message")?,
        }
        write!(f, " and {} bytes", self.bytes)?;
        if let Some(record) = self.record {
            write!(f, ", record {record}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl Counters {
    /// The number of messages refused for `reason`.
    pub fn refused_for(&self, reason: Reason) -> u64 {
        self.refused[reason as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_number() {
        for (at, reason) in (1u32..).zip(REASONS) {
            assert_eq!(reason as u32, at);
        }
    }

    #[test]
    fn a_refusal_names_message_record_and_rule() {
        let refusal = Refusal::of(Reason::Division as u32, &[2, 0, 9], Some(4)).expect("it is one");
        assert_eq!(
            refusal.to_string(),
            "message of type 2 and 3 bytes, record 4: it divides by the constant 0"
        );
        let refusal = Refusal::of(Reason::Length as u32, &[2], Some(0)).expect("it is one");
        assert!(refusal.to_string().starts_with("message and 1 bytes: its length"), "{refusal}");
        assert_eq!(Refusal::of(0, &[], None), None);
    }
}
