//! How much a link could have carried in a span of time. A flow's utilisation is measured against
//! it.

use crate::schedule::Schedule;
use crate::time::Nanos;
use crate::trace::{OPPORTUNITY_BYTES, TUN_HEADER_BYTES, Trace};
use crate::varying::SpeedClock;
use std::sync::Arc;

/// The IP bytes of one opportunity: a full packet.
const OPPORTUNITY_IP_BYTES: f64 = (OPPORTUNITY_BYTES - TUN_HEADER_BYTES) as f64;

/// The limits of a link: its rate or trace, its outages, its policer.
#[derive(Clone, Debug)]
pub struct Capacity {
    pub(crate) limit: CapacityLimit,
    pub(crate) outages: Option<Schedule<bool>>,
    pub(crate) policer_bits_per_sec: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) enum CapacityLimit {
    Unlimited,
    Rate(Schedule<u64>),
    Trace { trace: Arc<Trace>, once: bool },
}

impl Capacity {
    /// The IP bytes the link could carry from `from` to `to`; `None` if nothing limits it. A
    /// policer's burst is not counted. On a trace, the policer's rate is compared over the whole
    /// span; with a rate, at every moment.
    pub fn bytes(&self, from: Nanos, to: Nanos) -> Option<f64> {
        let span_s = (to - from).0 as f64 / 1e9;
        let policed = self.policer_bits_per_sec.map(|rate| rate as f64 / 8.0 * span_s);
        let linked = match &self.limit {
            CapacityLimit::Unlimited => None,
            CapacityLimit::Rate(rate) => Some(self.of_rate(rate, from, to)),
            CapacityLimit::Trace { trace, once } => Some(self.of_trace(trace, *once, from, to)),
        };
        linked.into_iter().chain(policed).reduce(f64::min)
    }

    fn of_rate(&self, rate: &Schedule<u64>, from: Nanos, to: Nanos) -> f64 {
        let mut clock = SpeedClock::new(Some(rate.clone()), self.outages.clone());
        let policed = self.policer_bits_per_sec.unwrap_or(u64::MAX);
        let mut bits = 0.0;
        let mut at = from;
        while at < to {
            let (bits_per_sec, until) = clock.bits_per_sec(at);
            let next = until.min(to);
            bits += bits_per_sec.min(policed) as f64 * (next - at).0 as f64 / 1e9;
            at = next;
        }
        bits / 8.0
    }

    fn of_trace(&self, trace: &Trace, once: bool, from: Nanos, to: Nanos) -> f64 {
        let mut outages = SpeedClock::new(Some(Schedule::constant(1)), self.outages.clone());
        let period = trace.period();
        let mut count = 0u64;
        // The last moment of a round is also the start of the next.
        let before = (from.0 / period.0).saturating_sub(1);
        let mut base = if once { Nanos::ZERO } else { Nanos(before * period.0) };
        while base < to {
            let stamps = trace.timestamps_ms();
            let at = |stamp: &u32| base + Nanos::from_millis(u64::from(*stamp));
            let first = stamps.partition_point(|stamp| at(stamp) < from);
            for at in stamps[first..].iter().map(at).take_while(|at| *at < to) {
                count += u64::from(outages.bits_per_sec(at).0 > 0);
            }
            base = base + period;
            if once {
                break;
            }
        }
        count as f64 * OPPORTUNITY_IP_BYTES
    }
}

#[cfg(test)]
mod tests {
    use crate::{Direction, LinkSpec, Nanos};

    fn bytes(text: &str, from_s: f64, to_s: f64) -> Option<f64> {
        let spec: LinkSpec = toml::from_str(text).unwrap();
        let seconds = |s: f64| Nanos::from_millis_f64(s * 1e3);
        spec.capacity(Direction::Down).unwrap().bytes(seconds(from_s), seconds(to_s))
    }

    #[test]
    fn a_rate_its_steps_and_outages() {
        let rate = "rate_mbit_per_sec = 12\n";
        assert_eq!(bytes(rate, 1.0, 3.0), Some(3e6));
        let steps = format!("{rate}rate_steps = [{{ at_s = 2, rate_mbit_per_sec = 24 }}]\n");
        assert_eq!(bytes(&steps, 1.0, 3.0), Some(1.5e6 + 3e6));
        let out = format!("{steps}outages = [{{ at_s = 2.5, duration_s = 1 }}]\n");
        assert_eq!(bytes(&out, 1.0, 3.0), Some(1.5e6 + 1.5e6));
        let again = format!("{steps}rate_steps_period_s = 4\n");
        assert_eq!(bytes(&again, 4.0, 8.0), Some(3e6 + 6e6));
        assert_eq!(bytes("delay_ms = 1", 0.0, 1.0), None);
    }

    #[test]
    fn a_policer_is_a_limit_too() {
        let policer = "policer = { rate_mbit_per_sec = 6, burst_bytes = 3000 }\n";
        assert_eq!(bytes(policer, 0.0, 2.0), Some(1.5e6));
        let slower = format!("rate_mbit_per_sec = 3\n{policer}");
        assert_eq!(bytes(&slower, 0.0, 2.0), Some(0.75e6));
        let out = "rate_mbit_per_sec = 12\noutages = [{ at_s = 0, duration_s = 1 }]\n".to_owned();
        let out = out + policer;
        assert_eq!(bytes(&out, 0.0, 2.0), Some(0.75e6), "the lesser at every moment");
    }

    #[test]
    fn a_trace_counts_its_opportunities() {
        let ten = "generator = { kind = 'periodic', packets = 10, interval_ms = 200 }\n";
        assert_eq!(bytes(ten, 0.0, 2.0), Some(9.0 * 15_000.0), "the one at 2 s is not in it");
        assert_eq!(bytes(ten, 1.0, 3.0), Some(10.0 * 15_000.0));
        let out = format!("{ten}outages = [{{ at_s = 1.1, duration_s = 0.4 }}]\n");
        assert_eq!(bytes(&out, 1.0, 3.0), Some(8.0 * 15_000.0));
    }
}
