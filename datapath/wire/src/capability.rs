//! The bits of `HELLO`: what a datapath measures and does, of what not every datapath can.
//!
//! docs/wire-protocol.md has a table of primitives and datapaths; a test holds the bits to it.

/// A datapath runs algorithms of its host's own: it takes a `NATIVE`.
pub const NATIVE: u32 = 1 << 8;
/// A pacing rate is enforced.
pub const PACING: u32 = 1 << 9;
/// Each mark is counted. Without it, an ACK that brings any counts as one.
pub const MARKS: u32 = 1 << 10;
/// Each packet is known when it is sent, acknowledged and lost. Without it, bytes are.
pub const PACKETS: u32 = 1 << 11;
/// `bytes_pending` has what the application has written. Without it, what is in flight.
pub const PENDING: u32 = 1 << 12;
/// The optional primitives of `SIGNALS`, bits 0 to 7.
pub const SIGNALS: u32 = 0xff;

/// Every bit, by the name that it has in documents and events.
pub const NAMES: [(u32, &str); 13] = [
    (1, "smoothed RTT"),
    (1 << 1, "minimum RTT"),
    (1 << 2, "segments delivered"),
    (1 << 3, "segments lost"),
    (1 << 4, "app-limited"),
    (1 << 5, "recovery state"),
    (1 << 6, "window in force"),
    (1 << 7, "mss"),
    (NATIVE, "native algorithms"),
    (PACING, "pacing rate"),
    (MARKS, "ECN marks"),
    (PACKETS, "packets"),
    (PENDING, "bytes pending"),
];

/// What CCP's own datapaths have, which say nothing: the fifteen primitives, and a rate.
pub const CCP: u32 = PACING | MARKS | PACKETS | PENDING;

/// The names of what is not there.
pub fn missing(bits: u32) -> Vec<&'static str> {
    NAMES.iter().filter(|(bit, _)| bits & bit == 0).map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_has_one_name_and_what_is_missing_is_named() {
        let all = NAMES.iter().fold(0, |all, (bit, _)| {
            assert_eq!(all & bit, 0, "{bit:#x} twice");
            all | bit
        });
        assert_eq!(all, SIGNALS | NATIVE | CCP);
        assert!(missing(all).is_empty());
        assert_eq!(missing(all & !PACING & !MARKS), ["pacing rate", "ECN marks"]);
    }
}
