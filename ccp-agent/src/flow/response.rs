//! A flow that has ended, as one response: a record for the learner of initial windows.
//!
//! The datapath does not measure single responses yet. So the response time is that from the start
//! of the connection to the last acknowledged byte that was reported, and includes the time that
//! the application took.

use super::Flow;
use remuda_algorithms::units::Bytes;
use remuda_selector::tcp_rl::record::Record;

fn saturated(micros: u128) -> u32 {
    u32::try_from(micros).unwrap_or(u32::MAX)
}

impl Flow {
    /// Whether what it finds out is remembered.
    pub fn is_believed(&self) -> bool {
        self.is_believed
    }

    /// `None` if it has sent nothing, or has measured no round trip.
    pub fn response(&self, ended_unix_s: u64) -> Option<Record> {
        let (size, mss) = (Bytes(self.totals.acked_bytes), self.path.mss);
        let lost = self.totals.lost_pkts.saturating_mul(mss.0);
        let sent = size.0.saturating_add(lost);
        let srtt = self.path.srtt?;
        (size > Bytes(0)).then(|| Record {
            ended_unix_s,
            peer: self.info.remote.0.to_canonical(),
            uid: self.info.origin.uid,
            size_bytes: size.0,
            response_us: u64::try_from(self.totals.acked_at.0.as_micros()).unwrap_or(u64::MAX),
            srtt_us: saturated(srtt.as_micros()),
            lost_share: lost as f64 / sent as f64,
            mss_bytes: u32::try_from(mss.0).unwrap_or(u32::MAX),
            peer_window_bytes: 0,
            initial_cwnd_pkts: self.initial_cwnd_pkts,
            arm: self.arm().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::remembering::tests::{Rig, nothing};
    use super::*;
    use remuda_algorithms::Measurement;
    use remuda_algorithms::units::Packets;

    #[test]
    fn a_flow_that_has_ended_is_one_response() {
        let mut rig = Rig::starting(1, "::ffff:198.51.100.7", nothing(), 20);
        assert_eq!(rig.flow.response(7), None, "it has sent nothing");
        let acked = Bytes(99 * 1_448);
        rig.says = Measurement { acked, lost: Packets(1), ..Measurement::QUIET };
        rig.report(1, "bbr");
        rig.says = Measurement::QUIET;
        rig.report(3, "bbr");
        let record = rig.flow.response(7).expect("it has sent");
        assert_eq!(record.check(7), Ok(()));
        assert_eq!((record.size_bytes, record.response_us), (99 * 1_448, 1_000_000));
        assert_eq!((record.initial_cwnd_pkts, record.mss_bytes), (20, 1_448));
        assert_eq!(record.peer.to_string(), "198.51.100.7");
        assert!((record.lost_share - 0.01).abs() < 1e-12);
    }
}
