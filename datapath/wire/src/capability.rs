//! The capability bits of `HELLO`: what a datapath measures and does, where datapaths differ.
//!
//! The table of primitives and datapaths is in docs/wire-protocol.md; a test compares the bits with
//! it.

/// The datapath can run the host's own algorithms: it accepts `NATIVE`.
pub const NATIVE: u32 = 1 << 8;
/// The datapath enforces a pacing rate.
pub const PACING: u32 = 1 << 9;
/// The datapath counts each ECN mark. Without this bit, an ACK with any marks counts as one.
pub const MARKS: u32 = 1 << 10;
/// The datapath knows each packet sent, acknowledged and lost. Without this bit, it knows bytes
/// only.
pub const PACKETS: u32 = 1 << 11;
/// `bytes_pending` includes what the application has written. Without this bit, it is the bytes in
/// flight.
pub const PENDING: u32 = 1 << 12;
/// The optional primitives in `SIGNALS`, bits 0 to 7.
pub const SIGNALS: u32 = 0xff;

/// Every bit, with its name in documents and events.
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

/// The capabilities of CCP's own datapaths, which send no `HELLO`: the fifteen primitives and a
/// rate.
pub const CCP: u32 = PACING | MARKS | PACKETS | PENDING;

/// The names of the bits that are not set.
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
