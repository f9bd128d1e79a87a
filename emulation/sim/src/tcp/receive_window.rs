//! The growth of the receive window, because it triggers ACKs.
//!
//! The window never limits the sender here. But Linux sends an ACK at once for each segment that
//! raises the window (net/ipv4/tcp_input.c `tcp_grow_window`: `icsk_ack.quick |= 1`). So a flow in
//! slow start gets twice as many ACKs as a steady one, and algorithms that read ACK trains see
//! other trains. Buffers are tuned as in `tcp_rcv_space_adjust`: once in a round trip, to twice the
//! bytes that arrived in it, and more for a sender that doubles its window.
//!
//! Differs from Linux: counts segments; the application reads at once; there is no memory pressure.

/// The first window of a Linux receiver with the default `tcp_rmem`, in bytes.
const FIRST_BYTES: u32 = 65_535;
/// `TCP_INIT_CWND`: before the first round trip ends, the previous one counts as this many
/// segments.
const FIRST_ROUND_PKTS: u32 = 10;
/// `net.ipv4.tcp_rmem[2]`: the kernel's default, in bytes.
const BUFFER_MAX_BYTES: u32 = 32 << 20;
/// The increase of the window for one segment (`tcp_grow_window`).
const PKTS_PER_RAISE: u32 = 2;

#[derive(Clone, Copy, Debug)]
pub struct ReceiveWindow {
    /// The offered window in segments (`rcv_ssthresh`).
    open_pkts: u32,
    /// The room in the buffer in segments (`window_clamp`).
    room_pkts: u32,
    room_max_pkts: u32,
    /// The most segments that arrived in one round trip (`rcvq_space.space`).
    round_pkts: u32,
    /// The next expected segment when the round trip began.
    round_began_at: u32,
    round_due_ns: u64,
}

impl ReceiveWindow {
    /// A window for segments of `mss_bytes`.
    pub fn new(mss_bytes: u32) -> Self {
        let mss_bytes = mss_bytes.max(1);
        let first_pkts = FIRST_BYTES / mss_bytes;
        Self {
            open_pkts: first_pkts,
            room_pkts: first_pkts,
            room_max_pkts: BUFFER_MAX_BYTES / mss_bytes,
            round_pkts: FIRST_ROUND_PKTS,
            round_began_at: 0,
            round_due_ns: 0,
        }
    }

    /// A segment has arrived. Returns whether it raises the window.
    pub fn rises(&mut self) -> bool {
        if self.open_pkts >= self.room_pkts {
            return false;
        }
        self.open_pkts = self.room_pkts.min(self.open_pkts + PKTS_PER_RAISE);
        true
    }

    /// Whether a round trip has ended, so that [`tune`](Self::tune) is due.
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.round_due_ns
    }

    /// Tunes the buffer after a round trip. `expected` is the next expected segment, and `rtt_ns`
    /// is the receiver's RTT from timestamps.
    pub fn tune(&mut self, expected: u32, rtt_ns: u64, now_ns: u64) {
        let came_pkts = expected - self.round_began_at;
        if came_pkts > self.round_pkts && self.round_due_ns > 0 {
            let (came, before) = (u128::from(came_pkts), u128::from(self.round_pkts));
            let room = 2 * came + 4 * came * (came - before) / before;
            let room_pkts = u32::try_from(room).unwrap_or(u32::MAX).min(self.room_max_pkts);
            self.room_pkts = self.room_pkts.max(room_pkts);
            self.round_pkts = came_pkts;
        }
        self.round_began_at = expected;
        self.round_due_ns = now_ns + rtt_ns.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT_NS: u64 = 40_000_000;

    fn raises(window: &mut ReceiveWindow, segments: u32) -> u32 {
        (0..segments).map(|_| u32::from(window.rises())).sum()
    }

    #[test]
    fn it_rises_while_the_sender_doubles_and_rests_once_it_does_not() {
        let mut window = ReceiveWindow::new(1448);
        assert!(window.is_due(0));
        window.tune(0, RTT_NS, 0);
        assert!(!window.is_due(RTT_NS - 1));
        window.tune(10, RTT_NS, RTT_NS);
        assert_eq!(raises(&mut window, 20), 0, "ten segments are no more than the initial round");
        window.tune(30, RTT_NS, 2 * RTT_NS);
        // The new room is 2 * 20 + 4 * 20 * 10 / 10 = 120 segments; 45 are already offered.
        assert_eq!(raises(&mut window, 40), 38);
        window.tune(70, RTT_NS, 3 * RTT_NS);
        assert_eq!(raises(&mut window, 80), 60);
        window.tune(110, RTT_NS, 4 * RTT_NS);
        assert_eq!(raises(&mut window, 80), 0);
    }

    #[test]
    fn its_room_has_an_end() {
        let mut window = ReceiveWindow::new(1448);
        window.tune(0, RTT_NS, 0);
        window.tune(u32::MAX, RTT_NS, RTT_NS);
        assert_eq!(window.room_pkts, BUFFER_MAX_BYTES / 1448);
    }
}
