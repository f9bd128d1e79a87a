//! What the link needs to know of a packet.

/// Something that crosses a link: a frame from a TUN device, or a simulated segment.
pub trait Packet {
    /// Its length in bytes, from the IP header on.
    fn bytes(&self) -> u32;

    /// Marks it "congestion experienced" if its sender speaks ECN; whether it bears the mark now.
    fn mark_ce(&mut self) -> bool {
        false
    }

    /// The flow it belongs to: the same number for all packets of one flow, most likely another
    /// one for those of another; zero if that is not known. FQ-CoDel asks, and a log.
    fn flow(&self) -> u64 {
        0
    }
}

/// A packet that is nothing but its length, for tests and probes.
impl Packet for u32 {
    fn bytes(&self) -> u32 {
        *self
    }
}
