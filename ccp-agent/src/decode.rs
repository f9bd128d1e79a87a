//! A report becomes a measurement, a decision becomes register values. Units are converted here and
//! nowhere else.

use remuda_algorithms::signals::FIELDS;
use remuda_algorithms::units::{Bytes, Packets, Rate};
use remuda_algorithms::{CwndUse, OWN_FIELDS_MAX};
use remuda_algorithms::{Decision, Measurement, RttSamples};
use remuda_wire::to_agent::Signals;
use std::time::Duration;

/// Reads a report: field by name, the program's own (`own`) after the shared ones. `None` is a
/// report of another program, which is not decoded.
pub fn measurement(
    field: impl Fn(&'static str) -> Option<u64>,
    own: &[&'static str],
    signals: Option<&Signals>,
) -> Option<Measurement> {
    let mut values = [0; FIELDS.len()];
    for (value, name) in values.iter_mut().zip(FIELDS) {
        *value = field(name)?;
    }
    let mut rest = [0; OWN_FIELDS_MAX];
    for (value, name) in rest.iter_mut().zip(own) {
        *value = field(name)?;
    }
    Some(fields(&values, &rest, signals))
}

/// Reads a report whose fields stand in the order of [`FIELDS`]; then come the program's own.
pub fn fields(
    values: &[u64; FIELDS.len()],
    rest: &[u64],
    signals: Option<&Signals>,
) -> Measurement {
    let mut own = [0; OWN_FIELDS_MAX];
    for (value, field) in own.iter_mut().zip(rest) {
        *value = *field;
    }
    let [acked, lost, ecn, timed_out, rtts @ .., send, delivery, in_flight, cwnd, train] = *values;
    let [last, min, max, sum_us, sq_sum_us2, count] = rtts;
    let rtt = (count > 0).then(|| RttSamples {
        last: Duration::from_micros(last),
        min: Duration::from_micros(min),
        max: Duration::from_micros(max),
        sum_us,
        sq_sum_us2,
        count,
    });
    let in_force = |s: &Signals| u64::from(s.cwnd_pkts) * u64::from(s.mss_bytes);
    Measurement {
        acked: Bytes(acked),
        delivered: Bytes(acked),
        lost: Packets(lost),
        ecn_marked: Packets(ecn),
        timed_out: timed_out != 0,
        rtt,
        send_rate: Rate::from_bytes_per_sec(send),
        delivery_rate: Rate::from_bytes_per_sec(delivery),
        in_flight: Bytes(in_flight),
        app_limited: signals.is_some_and(|s| s.app_limited),
        in_recovery: signals.is_some_and(|s| s.in_recovery),
        undone: signals.is_some_and(|s| s.undone),
        restarted: signals.is_some_and(|s| s.restarted),
        cwnd: Bytes(signals.map_or(cwnd, in_force)),
        mss: Bytes(signals.map_or(0, |s| s.mss_bytes.into())),
        ack_train: Duration::from_micros(train),
        cwnd_use: signals.map(cwnd_use),
        companions: 0,
        own,
    }
}

/// What is known of a report of a program without the shared signals: what came before it, and what
/// came before the one before.
pub fn foreign(signals: Option<&Signals>, last: Option<&Signals>) -> Measurement {
    let Some(s) = signals else { return Measurement::QUIET };
    let mss = Bytes(s.mss_bytes.into());
    let lost = last.map_or(0, |last| s.lost_pkts.wrapping_sub(last.lost_pkts));
    let delivered = last.map_or(Bytes(0), |last| delivered_since(last.delivered_pkts, s));
    let span_us = last.map_or(0, |last| s.now_us.saturating_sub(last.now_us));
    let rate = u128::from(delivered.0) * 1_000_000 / u128::from(span_us.max(1));
    let rate = u64::try_from(rate).unwrap_or(u64::MAX);
    Measurement {
        acked: delivered,
        delivered,
        lost: Packets(lost.into()),
        rtt: (s.srtt_us > 0).then(|| RttSamples::one(Duration::from_micros(s.srtt_us.into()))),
        delivery_rate: Rate::from_bytes_per_sec(if span_us > 0 { rate } else { 0 }),
        app_limited: s.app_limited,
        in_recovery: s.in_recovery,
        undone: s.undone,
        restarted: s.restarted,
        cwnd: Packets(s.cwnd_pkts.into()).to_bytes(mss),
        mss,
        cwnd_use: Some(cwnd_use(s)),
        ..Measurement::QUIET
    }
}

/// What was delivered since a report that counted `before_pkts` in the flow's life.
pub fn delivered_since(before_pkts: u32, signals: &Signals) -> Bytes {
    let pkts = signals.delivered_pkts.wrapping_sub(before_pkts);
    Packets(pkts.into()).to_bytes(Bytes(signals.mss_bytes.into()))
}

fn cwnd_use(signals: &Signals) -> CwndUse {
    match (signals.cwnd_full, signals.cwnd_half) {
        (true, _) => CwndUse::Full,
        (false, true) => CwndUse::Half,
        (false, false) => CwndUse::Little,
    }
}

/// The values of the registers `Cwnd` and `Rate`. A rate of 0 leaves pacing to the datapath; a
/// value beyond the wire's 32 bits saturates.
pub fn registers(decision: Decision) -> (u32, u32) {
    let cwnd = u32::try_from(decision.cwnd.0).unwrap_or(u32::MAX);
    let rate = decision.rate.map_or(0, |rate| rate.to_register().max(1));
    (cwnd, rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(name: &str) -> u64 {
        FIELDS.iter().position(|field| *field == name).expect("a field") as u64 + 1
    }

    #[test]
    fn every_field_lands_where_its_name_says() {
        let m = measurement(|name| Some(position(name)), &[], None).expect("all fields are there");
        assert_eq!(m.acked, Bytes(1));
        assert_eq!((m.lost, m.ecn_marked, m.timed_out), (Packets(2), Packets(3), true));
        let rtt = m.rtt.expect("samples");
        assert_eq!((rtt.last, rtt.min), (Duration::from_micros(5), Duration::from_micros(6)));
        assert_eq!((rtt.max, rtt.sum_us), (Duration::from_micros(7), 8));
        assert_eq!((rtt.sq_sum_us2, rtt.count), (9, 10));
        assert_eq!(m.send_rate.bytes_per_sec(), 11);
        assert_eq!(m.delivery_rate.bytes_per_sec(), 12);
        assert_eq!((m.in_flight, m.cwnd), (Bytes(13), Bytes(14)));
        assert_eq!(m.ack_train, Duration::from_micros(15));
    }

    #[test]
    fn without_samples_there_is_no_rtt_and_without_fields_no_measurement() {
        assert_eq!(measurement(|_| Some(0), &[], None).expect("fields").rtt, None);
        assert!(measurement(|_| None, &[], None).is_none());
    }

    #[test]
    fn the_programs_own_fields_follow_and_must_be_there() {
        let field = |name: &'static str| (name != "Report.absent").then_some(7);
        let m = measurement(field, &["Report.a"], None).expect("all fields are there");
        assert_eq!(m.own, [7]);
        assert!(measurement(field, &["Report.absent"], None).is_none());
    }

    #[test]
    fn registers_saturate_and_no_rate_is_zero() {
        let fast =
            Decision { cwnd: Bytes(u64::MAX), rate: Some(Rate::from_bytes_per_sec(u64::MAX)) };
        assert_eq!(registers(fast), (u32::MAX, u32::MAX));
        assert_eq!(registers(Decision { cwnd: Bytes(5), rate: None }), (5, 0));
    }
}
