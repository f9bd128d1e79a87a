//! A simulated packet: a segment, or the ACK that answers some.

pub use remuda_scenarios::HEADER_BYTES;

/// The size of one SACK block (RFC 2018), in bytes.
const SACK_BLOCK_BYTES: u32 = 8;
const SACK_OPTION_BYTES: u32 = 4;
/// The options of a SYN beside the timestamp, in bytes: MSS, SACK permitted, window scale.
const SYN_OPTIONS_BYTES: u32 = 8;
/// Beside timestamps, an ACK has room for three SACK blocks (RFC 2018 section 3).
pub const SACK_BLOCKS: usize = 3;

/// Segments from `start` up to, but not including, `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    pub start: u32,
    pub end: u32,
}

impl Range {
    /// Whether the range contains no segment.
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// Whether every segment of `other` is in this range.
    pub fn covers(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Whether segment `seq` is in this range.
    pub fn contains(self, seq: u32) -> bool {
        self.start <= seq && seq < self.end
    }
}

/// The clock of timestamps, in microseconds modulo 2^32.
pub fn clock_us(now_ns: u64) -> u32 {
    (now_ns / 1_000) as u32
}

/// Whether a timestamp is older than another one.
pub fn is_older(timestamp_us: u32, than_us: u32) -> bool {
    (timestamp_us.wrapping_sub(than_us) as i32) < 0
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A segment of a TCP flow.
    Data,
    Ack,
    /// The receiver asks for a connection.
    Syn,
    SynAck,
    /// The receiver's ACK of the SYN-ACK.
    Established,
    /// A packet of a sender that does not react to congestion.
    Unresponsive,
}

impl Kind {
    /// Whether the packet travels from the receiver to the sender.
    pub fn goes_back(self) -> bool {
        matches!(self, Self::Ack | Self::Syn | Self::Established)
    }
}

/// A packet in flight. Segments are numbered from 0, and each has the flow's MSS.
// Aligned so that each copy from queue to queue is done in the same machine words.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
pub struct Packet {
    pub flow: u32,
    /// The number of the segment; in an ACK, the number of the next expected segment.
    pub seq: u32,
    /// In an ACK: how many segments have arrived with an ECN mark since the start of the flow.
    pub ce_pkts: u32,
    /// In an ACK: ranges that have arrived out of order, the latest first (RFC 2018).
    pub sacks: [Range; SACK_BLOCKS],
    /// The length of the packet from the IP header on.
    pub bytes: u32,
    /// The timestamp of RFC 7323, in simulated microseconds modulo 2^32. In a segment or a SYN-ACK,
    /// when the packet was sent; in an ACK or the answer to a SYN-ACK, the timestamp that it
    /// echoes.
    pub sent_us: u32,
    /// The index, in the packet's route, of the link that the packet crosses now.
    pub hop: u8,
    pub kind: Kind,
    /// The packet may be marked instead of dropped (ECN-capable transport).
    pub ect: bool,
    pub ce: bool,
}

impl Packet {
    /// A segment sent at `now_ns`.
    pub fn data((flow, seq): (u32, u32), bytes: u32, ect: bool, now_ns: u64) -> Self {
        let sent_us = clock_us(now_ns);
        Self { flow, seq, bytes, sent_us, ect, kind: Kind::Data, ..Self::EMPTY }
    }

    /// A packet of a handshake.
    pub fn of_handshake(flow: u32, kind: Kind, now_ns: u64) -> Self {
        let options = if kind == Kind::Established { 0 } else { SYN_OPTIONS_BYTES };
        let bytes = HEADER_BYTES + options;
        Self { flow, bytes, sent_us: clock_us(now_ns), kind, ..Self::EMPTY }
    }

    /// The ACK of this SYN-ACK, with the SYN-ACK's timestamp.
    pub fn established(&self) -> Self {
        Self { sent_us: self.sent_us, ..Self::of_handshake(self.flow, Kind::Established, 0) }
    }

    /// How long the packet was in flight, in microseconds, if it arrives at `now_ns`.
    pub fn took_us(&self, now_ns: u64) -> u64 {
        clock_us(now_ns).wrapping_sub(self.sent_us).into()
    }

    pub fn ack(flow: u32, expected: u32, sacks: [Range; SACK_BLOCKS], ce_pkts: u32) -> Self {
        let blocks = sacks.iter().filter(|range| !range.is_empty()).count() as u32;
        let options = if blocks > 0 { SACK_OPTION_BYTES + blocks * SACK_BLOCK_BYTES } else { 0 };
        let bytes = HEADER_BYTES + options;
        Self { flow, seq: expected, sacks, ce_pkts, bytes, kind: Kind::Ack, ..Self::EMPTY }
    }

    const EMPTY: Self = Self {
        flow: 0,
        seq: 0,
        ce_pkts: 0,
        sacks: [Range { start: 0, end: 0 }; SACK_BLOCKS],
        bytes: 0,
        sent_us: 0,
        hop: 0,
        kind: Kind::Data,
        ect: false,
        ce: false,
    };
}

impl Packet {
    /// RFC 2883: the segments that this ACK reports as arrived twice. The first block is such a
    /// report if it lies below the next expected segment or within the second block.
    pub fn came_twice(&self) -> Option<Range> {
        let [first, second, _] = self.sacks;
        let is_second = first.end <= self.seq || (!second.is_empty() && second.covers(first));
        (!first.is_empty() && is_second).then_some(first)
    }
}

impl remuda_link::Packet for Packet {
    fn bytes(&self) -> u32 {
        self.bytes
    }

    fn mark_ce(&mut self) -> bool {
        self.ce |= self.ect;
        self.ect
    }

    fn flow(&self) -> u64 {
        u64::from(self.flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_tells_how_long_it_took_beyond_the_clocks_end() {
        let sent_ns = (u64::from(u32::MAX) - 1) * 1_000;
        let packet = Packet::data((0, 0), 1_500, false, sent_ns);
        assert_eq!(packet.took_us(sent_ns + 40_000_000), 40_000);
        assert_eq!(size_of::<Packet>(), 48, "this many bytes are copied from queue to queue");
    }
}
