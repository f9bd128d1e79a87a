//! The order of flows.

use ccp_agent::flow::Row;
use clap::ValueEnum;
use std::cmp::Ordering;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// The agent's number of the flow
    Flow,
    /// The remote address, as text
    Peer,
    /// The delivery rate of the last 10 s
    Rate,
    /// The congestion window, in segments
    Cwnd,
    /// The smoothed round trip time
    Rtt,
    /// How many segments were lost
    Lost,
    /// Time since the flow came
    Age,
    /// Time since bytes were acknowledged
    Idle,
}

/// The largest first; what is unknown comes last.
fn largest(one: Option<f64>, other: Option<f64>) -> Ordering {
    let known = |it: Option<f64>| it.unwrap_or(f64::NEG_INFINITY);
    known(other).total_cmp(&known(one))
}

impl Sort {
    pub fn sort(self, rows: &mut [Row]) {
        rows.sort_by(|one, other| self.compare(one, other).then(one.id.cmp(&other.id)));
    }

    fn compare(self, one: &Row, other: &Row) -> Ordering {
        match self {
            Self::Flow => Ordering::Equal,
            Self::Peer => one.remote.cmp(&other.remote),
            Self::Rate => largest(one.delivery_mbit_per_sec, other.delivery_mbit_per_sec),
            Self::Cwnd => other.cwnd_pkts.cmp(&one.cwnd_pkts),
            Self::Rtt => largest(one.srtt_ms, other.srtt_ms),
            Self::Lost => other.lost_pkts.cmp(&one.lost_pkts),
            Self::Age => other.age_s.total_cmp(&one.age_s),
            Self::Idle => one.idle_s.total_cmp(&other.idle_s),
        }
    }
}
