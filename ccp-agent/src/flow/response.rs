//! The first response of a connection, as a record for the learner of initial windows.
//!
//! Later responses begin with a window that the connection has already grown, so they say nothing
//! of the initial one.

use super::Flow;
use remuda_selector::tcp_rl::record::Record;
use remuda_wire::Response;

impl Flow {
    /// Whether what it finds out is remembered.
    pub fn is_believed(&self) -> bool {
        self.is_believed
    }

    /// `None` unless it is the first response of the connection. `ended_unix_s` is the wall clock.
    pub fn record_of(&self, response: &Response, ended_unix_s: u64) -> Option<Record> {
        let lost = u64::from(response.lost_pkts) * u64::from(response.mss_bytes);
        let sent = response.bytes.saturating_add(lost).max(1);
        (response.number == 1).then(|| Record {
            ended_unix_s,
            peer: self.info.remote.0.to_canonical(),
            uid: self.info.origin.uid,
            size_bytes: response.bytes,
            response_us: response.took_us,
            srtt_us: response.srtt_us,
            lost_share: lost as f64 / sent as f64,
            mss_bytes: response.mss_bytes,
            peer_window_bytes: response.rwnd_bytes,
            initial_cwnd_pkts: response.started_cwnd_pkts,
            arm: self.arm().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::remembering::tests::{Rig, nothing};
    use super::*;

    #[test]
    fn the_first_response_of_a_connection_is_a_record() {
        let rig = Rig::starting(1, "::ffff:198.51.100.7", nothing(), 20);
        let first = Response {
            at_us: 2_000_000,
            took_us: 120_000,
            bytes: 99 * 1_448,
            srtt_us: 40_000,
            rtt_min_us: 38_000,
            lost_pkts: 1,
            rwnd_bytes: 64_240,
            started_cwnd_pkts: 20,
            mss_bytes: 1_448,
            number: 1,
        };
        let record = rig.flow.record_of(&first, 7).expect("it is the first");
        assert_eq!(record.check(7), Ok(()));
        assert_eq!((record.size_bytes, record.response_us), (99 * 1_448, 120_000));
        assert_eq!((record.initial_cwnd_pkts, record.peer_window_bytes), (20, 64_240));
        assert_eq!(record.peer.to_string(), "198.51.100.7");
        assert!((record.lost_share - 0.01).abs() < 1e-12);
        assert_eq!(rig.flow.record_of(&Response { number: 2, ..first }, 7), None);
    }
}
