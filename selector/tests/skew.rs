//! Training and inference see the same features: whatever is reported of a flow, what the sampler
//! writes down for training is, to the bit, what Antelope decides by.

use proptest::prelude::*;
use remuda_algorithms::units::{Bytes, Packets, Rate, Time};
use remuda_algorithms::{Loaded, Measurement, PathState, RttSamples, Sample};
use remuda_selector::antelope::config::AntelopeConfig;
use remuda_selector::features::{COUNT, schema};
use remuda_selector::{ArmRunner, PolicyConfig, policy};
use std::time::Duration;

const MSS: Bytes = Bytes(1_448);

fn policies() -> (Box<ArmRunner>, Box<ArmRunner>) {
    // Both run CUBIC throughout: a dry run changes nothing.
    let first = "cubic".to_owned();
    let antelope =
        AntelopeConfig { dry_run: true, first: Some(first), decide_ms: 1, ..Default::default() };
    let config = PolicyConfig { antelope, ..PolicyConfig::default() };
    let build = |name| (policy(name).expect("a policy").build)(&config, &Loaded::default());
    (build("sampler"), build("antelope"))
}

/// Samples, with features as bits: a NaN is like itself.
fn bits(samples: &[Sample]) -> Vec<(Sample, Vec<u32>)> {
    let bits = |sample: &Sample| {
        let features = sample.features.iter().map(|value| value.to_bits()).collect();
        (Sample { features: Box::default(), ..sample.clone() }, features)
    };
    samples.iter().map(bits).collect()
}

prop_compose! {
    fn report()(
        rtts_us in prop::option::of((1_000u64..400_000, 0u64..100_000, 1u64..40)),
        bytes in 0u64..2_000_000,
        lost in prop_oneof![4 => Just(0u64), 1 => 1u64..50],
        flags in any::<[bool; 3]>(),
        rate in 0u64..100_000_000,
        companions in prop_oneof![Just(0u32), 0u32..200],
    ) -> Measurement {
        let span = Duration::from_micros;
        let rtt = rtts_us.map(|(least, more, count)| RttSamples {
            last: span(least + more / 2),
            min: span(least),
            max: span(least + more),
            sum_us: (least + more / 2) * count,
            sq_sum_us2: (least + more / 2).pow(2) * count,
            count,
        });
        Measurement {
            acked: Bytes(bytes),
            delivered: Bytes(bytes),
            lost: Packets(lost),
            rtt,
            timed_out: flags[0] && lost > 0,
            app_limited: flags[1],
            in_recovery: flags[2],
            delivery_rate: Rate::from_bytes_per_sec(rate),
            in_flight: Bytes(bytes / 2),
            cwnd: Bytes(bytes.max(20_000)),
            mss: MSS,
            companions,
            ..Measurement::QUIET
        }
    }
}

proptest! {
    #[test]
    fn training_and_inference_see_the_same_features(
        reports in prop::collection::vec((report(), 1u64..200), 1..200),
    ) {
        let (mut sampler, mut antelope) = policies();
        let path = PathState::new(MSS, Packets(10).to_bytes(MSS));
        sampler.resume(&path, Time::ZERO);
        antelope.resume(&path, Time::ZERO);
        let (mut written, mut seen) = (Vec::new(), Vec::new());
        let mut now_ms = 0;
        for (m, after_ms) in &reports {
            now_ms += after_ms;
            let now = Time(Duration::from_millis(now_ms));
            sampler.on_measurement(m, now);
            antelope.on_measurement(m, now);
            written.extend(sampler.sample());
            seen.extend(antelope.sample());
            // What a decision says it was derived from is what it was derived from.
            let Some(proposal) = antelope.proposal() else { continue };
            prop_assert_eq!(proposal.to, "cubic");
            for (name, value) in &proposal.why.features {
                let Some(feature) = schema().features.iter().find(|it| it.name == *name) else {
                    continue;
                };
                let value: f32 = value.parse().expect("a number");
                prop_assert!((feature.range[0]..=feature.range[1]).contains(&value), "{}", name);
            }
        }
        prop_assert_eq!(bits(&written), bits(&seen));
        prop_assert!(written.iter().all(|sample| sample.features.len() == COUNT));
    }
}
