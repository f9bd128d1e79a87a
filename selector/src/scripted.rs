//! What the tests of the policies share: scripted measurements, and what holds of any.

use crate::arm_runner::ArmRunner;
use crate::candidates::place;
use crate::policy::Policy;
use proptest::prelude::*;
use remuda_algorithms::units::{Bytes, Packets, Rate, Time};
use remuda_algorithms::{ARMS, Measurement, PathState, Proposal, RttSamples};
use std::time::Duration;

pub const MSS: Bytes = Bytes(1_448);
/// How often [`drive`] reports.
pub const REPORT_MS: u64 = 10;

pub fn at(ms: u64) -> Time {
    Time(Duration::from_millis(ms))
}

pub fn path() -> PathState {
    PathState::new(MSS, Packets(10).to_bytes(MSS))
}

/// A path to a destination of which an arm is remembered.
pub fn suits(arm: &'static str) -> PathState {
    let mut path = path();
    path.remembered_arm = Some(arm);
    path
}

/// So many bytes delivered, at about 4 ACKs, with that round trip.
pub fn report(bytes: u64, rtt_ms: u64) -> Measurement {
    let one = RttSamples::one(Duration::from_millis(rtt_ms));
    let rtt =
        RttSamples { sum_us: one.sum_us * 4, sq_sum_us2: one.sq_sum_us2 * 4, count: 4, ..one };
    Measurement {
        acked: Bytes(bytes),
        delivered: Bytes(bytes),
        rtt: Some(rtt),
        delivery_rate: Bytes(bytes) / Duration::from_millis(REPORT_MS),
        in_flight: Packets(20).to_bytes(MSS),
        cwnd: Packets(20).to_bytes(MSS),
        mss: MSS,
        ..Measurement::QUIET
    }
}

/// Reports `of(arm, ms)` every 10 ms and carries out each proposal at once: the arms, each with the
/// second at which it took the flow.
pub fn drive<C: Policy>(
    policy: &mut ArmRunner<C>,
    secs: u64,
    of: impl Fn(&'static str, u64) -> Measurement,
) -> Vec<(u64, &'static str)> {
    let mut arms = vec![(0, policy.arm())];
    proposals(policy, secs, of, |ms, proposal, from| {
        if proposal.to != from {
            arms.push((ms / 1_000, proposal.to));
        }
    });
    arms
}

/// The same; `each` sees every proposal, with the arm in charge before it.
pub fn proposals<C: Policy>(
    policy: &mut ArmRunner<C>,
    secs: u64,
    of: impl Fn(&'static str, u64) -> Measurement,
    mut each: impl FnMut(u64, &Proposal, &'static str),
) {
    let mut path = path();
    for ms in (REPORT_MS..=secs * 1_000 - REPORT_MS).step_by(REPORT_MS as usize) {
        let m = of(policy.arm(), ms);
        path.observe(&m, at(ms));
        policy.on_measurement(&m, at(ms));
        let Some(proposal) = policy.proposal() else { continue };
        each(ms, &proposal, policy.arm());
        if proposal.to != policy.arm() {
            policy.hand_off(&mut path);
            policy.switch_to(proposal.to, &path, at(ms)).expect("it is one of its arms");
        }
    }
}

/// A report of any values, at any time; and an arm to change to, if any.
pub type Anything = (Measurement, Time, Option<usize>);

prop_compose! {
    fn anything()(
        [a, b, c, d, e, f, g, at] in any::<[u64; 8]>(),
        [timed_out, app_limited, in_recovery, has_rtt] in any::<[bool; 4]>(),
        to in prop::option::weighted(0.1, 0..ARMS.len()),
    ) -> Anything {
        let small = |value: u64| Duration::from_micros(value % 1_000_000);
        let samples = RttSamples {
            last: small(a),
            min: small(b),
            max: Duration::from_micros(c),
            sum_us: d,
            sq_sum_us2: e,
            count: f,
        };
        let m = Measurement {
            acked: Bytes(g),
            delivered: Bytes(g),
            lost: Packets(a % 3),
            timed_out,
            app_limited,
            in_recovery,
            rtt: has_rtt.then_some(samples),
            delivery_rate: Rate::from_bytes_per_sec(b),
            in_flight: Bytes(c),
            ..Measurement::QUIET
        };
        (m, Time(Duration::from_micros(at % 100_000_000)), to)
    }
}

/// Reports of any values; in half of the cases sane ones at sane times, by which policies learn.
pub fn whatever_is_reported() -> impl Strategy<Value = Vec<Anything>> {
    let sane = (1u64..100_000, 1u64..200, prop::option::weighted(0.1, 0..ARMS.len()));
    let sane = prop::collection::vec(sane, 0..200).prop_map(|all| {
        let of = |(step, (bytes, rtt_ms, to)): (u64, _)| (report(bytes, rtt_ms), at(step * 50), to);
        (1..).zip(all).map(of).collect()
    });
    prop_oneof![prop::collection::vec(anything(), 0..80), sane]
}

/// What holds of a policy over the candidates, whatever is reported.
pub fn holds<C: Policy>(
    mut policy: ArmRunner<C>,
    reports: &[Anything],
) -> Result<(), TestCaseError> {
    let mut path = path();
    policy.resume(&path, Time::ZERO);
    for (m, now, to) in reports {
        path.observe(m, *now);
        let decision = policy.on_measurement(m, *now);
        prop_assert!(decision.cwnd >= Packets(2).to_bytes(MSS));
        if let Some(proposal) = policy.proposal() {
            prop_assert!(place(proposal.to).is_some(), "{proposal:?}");
            for (name, value) in &proposal.why.features {
                let numbers = value.split(' ').filter_map(|part| part.parse::<f64>().ok());
                prop_assert!(numbers.into_iter().all(f64::is_finite), "{name} = {value}");
            }
        }
        if let Some(verdict) = policy.verdict() {
            prop_assert!(place(verdict.arm).is_some(), "{verdict:?}");
            prop_assert!((0.0..=1.0).contains(&verdict.score), "{verdict:?}");
        }
        if let Some(to) = to {
            let to = ARMS[*to].name;
            policy.hand_off(&mut path);
            let done = policy.switch_to(to, &path, *now);
            prop_assert!(done.is_err() || place(to).is_some(), "{to}");
        }
        prop_assert!(place(policy.arm()).is_some());
    }
    Ok(())
}
