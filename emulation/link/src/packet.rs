//! The interface of a packet that crosses a link.

/// Something that crosses a link: a frame from a TUN device, or a simulated segment.
pub trait Packet {
    /// Its length in bytes, from the IP header on.
    fn bytes(&self) -> u32;

    /// Marks the packet "congestion experienced" if its sender uses ECN. Returns whether the packet
    /// is marked now.
    fn mark_ce(&mut self) -> bool {
        false
    }

    /// The flow of the packet: the same number for all packets of one flow, and most likely
    /// different numbers for different flows. Zero if the flow is not known. FQ-CoDel and the log
    /// use it.
    fn flow(&self) -> u64 {
        0
    }
}

/// A packet that has a length only, for tests and probes.
impl Packet for u32 {
    fn bytes(&self) -> u32 {
        *self
    }
}
