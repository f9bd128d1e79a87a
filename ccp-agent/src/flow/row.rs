//! A flow as `remuda flows` shows it.

use super::{Flow, Guarded, Life, socket_name};
use crate::prefer::Wants;
use crate::rules::Group;
use remuda_algorithms::Measurement;
use remuda_algorithms::units::{Bytes, Rate};
use remuda_wire::to_agent::{FlowInfo, Origin};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// One row of `remuda flows`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The agent's number of the flow.
    pub id: u32,
    /// The datapath it runs in.
    pub datapath: String,
    pub local: String,
    pub remote: String,
    /// The user that it counts for.
    #[serde(default)]
    pub uid: u32,
    /// The cookie of its network namespace; 0 is the agent's own.
    #[serde(default)]
    pub netns: u64,
    /// The id of its socket's cgroup; 0 if unknown.
    #[serde(default)]
    pub cgroup_id: u64,
    /// The socket's `SO_MARK`.
    #[serde(default)]
    pub mark: u32,
    /// What drives it: an arm or a policy.
    pub driver: String,
    /// The arm that has it.
    pub arm: String,
    /// The name of the rule that counts for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Whether it gets that rule's driver, or is in its control group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Group>,
    pub program: String,
    pub cwnd_pkts: u64,
    /// Pacing rate, in Mbit/s; `None` if the datapath derives it from the window.
    pub rate_mbit_per_sec: Option<f64>,
    /// Largest delivery rate of the last 10 s, in Mbit/s.
    pub delivery_mbit_per_sec: Option<f64>,
    /// Smoothed RTT, in milliseconds.
    pub srtt_ms: Option<f64>,
    /// Minimum RTT of the last 10 s, in milliseconds.
    pub rtt_min_ms: Option<f64>,
    pub lost_pkts: u64,
    /// Payload acknowledged, in bytes.
    pub acked_bytes: u64,
    pub reports: u64,
    pub switches: u64,
    /// `driven`, or `fallback` while its datapath controls it.
    pub state: String,
    /// What it is wanted to be good at.
    #[serde(default)]
    pub wants: Wants,
    /// Why it has the arm it has.
    pub why: String,
    /// From what that was derived. A feature with the name of an arm is what that arm is expected
    /// to earn, or to cost.
    pub features: Vec<(String, String)>,
    /// For how long it has had that arm, in seconds.
    pub arm_for_s: f64,
    /// What the guard did last; `None` if it has let all pass.
    pub guarded: Option<Guarded>,
    /// For how long the agent has had it, in seconds.
    #[serde(default)]
    pub age_s: f64,
    /// For how long none of its bytes were acknowledged, in seconds.
    #[serde(default)]
    pub idle_s: f64,
}

impl Row {
    /// What rules and filters look at; `None` if the row's addresses cannot be parsed.
    pub fn info(&self) -> Option<FlowInfo> {
        let socket = |text: &str| -> Option<(IpAddr, u16)> {
            let address: SocketAddr = text.parse().ok()?;
            Some((address.ip(), address.port()))
        };
        Some(FlowInfo {
            mark: self.mark,
            cgroup_id: self.cgroup_id,
            origin: Origin { uid: self.uid, netns: self.netns, is_of_host: true },
            ..FlowInfo::between(socket(&self.local)?, socket(&self.remote)?)
        })
    }
}

fn mbit_per_sec(rate: Rate) -> f64 {
    rate.bytes_per_sec() as f64 * 8.0 / 1e6
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

impl Flow {
    /// Its life until `now_us` of the monotonic clock.
    pub fn life(&self, now_us: u64) -> Life {
        let age = Duration::from_micros(now_us.saturating_sub(self.started_us));
        self.noted.life(age, self.reported_at.0)
    }

    /// A flow of the datapath of that name, as it is at `now_us` of the monotonic clock.
    pub fn row(&self, datapath: &str, now_us: u64) -> Row {
        let Measurement { cwnd, .. } = self.last;
        let cwnd = if cwnd == Bytes(0) { self.decision.cwnd } else { cwnd };
        let features = self.why.features.iter();
        let ago_s = |at: Duration| {
            let age = Duration::from_micros(now_us.saturating_sub(self.started_us));
            age.saturating_sub(at).as_secs_f64()
        };
        Row {
            id: self.id,
            datapath: datapath.to_owned(),
            local: socket_name(self.info.local).to_string(),
            remote: socket_name(self.info.remote).to_string(),
            uid: self.info.origin.uid,
            netns: self.info.origin.netns,
            cgroup_id: self.info.cgroup_id,
            mark: self.info.mark,
            driver: self.driver.clone(),
            arm: self.arm().to_owned(),
            rule: self.ruled.as_ref().map(|ruled| ruled.name.to_string()),
            group: self.ruled.as_ref().map(|ruled| ruled.group),
            program: self.program.map(|program| program.0.to_owned()).unwrap_or_default(),
            cwnd_pkts: cwnd.to_packets(self.path.mss).0,
            rate_mbit_per_sec: self.decision.rate.map(mbit_per_sec),
            delivery_mbit_per_sec: self.path.delivery_rate().map(mbit_per_sec),
            srtt_ms: self.path.srtt.map(ms),
            rtt_min_ms: self.path.rtt_min().map(ms),
            lost_pkts: self.totals.lost_pkts,
            acked_bytes: self.totals.acked_bytes,
            reports: self.totals.reports,
            switches: self.totals.switches,
            state: if self.fell_back { "fallback" } else { "driven" }.to_owned(),
            wants: self.wants,
            why: self.why.text.clone(),
            features: features.map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
            arm_for_s: ago_s(self.arm_since.0),
            guarded: self.last_intervention.as_ref().map(|it| Guarded {
                against: it.against.clone(),
                undone: it.undone,
                reason: it.reason.clone(),
                ago_s: ago_s(it.at.0),
            }),
            age_s: ago_s(Duration::ZERO),
            idle_s: ago_s(self.totals.acked_at.0),
        }
    }
}
