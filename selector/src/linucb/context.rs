//! What LinUCB knows of a flow when it decides: the features of its last data unit, as a vector of
//! length 1.
//!
//! Features span decades, from microseconds to minutes. Each is counted from the lower end of its
//! range in the schema, or from 0 if that is below, on a logarithmic scale that puts the farther
//! end at 1:
//!
//! ```text
//! z = sign(v - o) ln(1 + |v - o|) / ln(1 + span)
//! ```
//!
//! What is not known is 0. A constant 1 is added, for what an arm does anywhere. The whole is then
//! scaled to length 1, which the bound of the paper supposes.

use crate::features::{COUNT, Feature, Features, schema};

/// How many numbers a context has: one a feature, and the constant.
pub const LENGTH: usize = COUNT + 1;

pub type Context = [f64; LENGTH];

fn scaled(value: f32, feature: &Feature) -> f64 {
    let [least, most] = feature.range.map(f64::from);
    let origin = least.max(0.0);
    let span = (most - origin).max(origin - least);
    let beyond = f64::from(value) - origin;
    let z = beyond.signum() * beyond.abs().ln_1p() / span.ln_1p();
    if z.is_finite() { z.clamp(-1.0, 1.0) } else { 0.0 }
}

/// The context that these features are.
pub fn context(features: &Features) -> Context {
    let mut x = [1.0; LENGTH];
    for ((to, value), feature) in x.iter_mut().zip(features.0).zip(&schema().features) {
        *to = scaled(value, feature);
    }
    let length = x.iter().map(|z| z * z).sum::<f64>().sqrt();
    x.map(|z| z / length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(name: &str) -> &'static Feature {
        schema().features.iter().find(|it| it.name == name).expect(name)
    }

    #[test]
    fn each_feature_is_on_a_logarithmic_scale_of_its_range() {
        for (name, value, want) in [
            ("rtt_mean_ms", 0.0, 0.0),
            ("rtt_mean_ms", 60_000.0, 1.0),
            ("rtt_over_min", 1.0, 0.0),
            ("rtt_over_min", 1_000.0, 1.0),
            ("rtt_slope", -100.0, -1.0),
            ("rtt_slope", 0.0, 0.0),
            ("app_limited", 1.0, 1.0),
            ("app_limited", f32::NAN, 0.0),
        ] {
            let got = scaled(value, of(name));
            assert!((got - want).abs() < 1e-12, "{name} {value}: {got}");
        }
        let half = scaled(244.95, of("rtt_mean_ms"));
        assert!((0.49..0.51).contains(&half), "the geometric middle: {half}");
    }

    #[test]
    fn of_nothing_known_the_constant_is_left() {
        let x = context(&Features([f32::NAN; COUNT]));
        assert!(x[..COUNT].iter().all(|z| *z == 0.0) && x[COUNT] == 1.0);
    }

    proptest! {
        #[test]
        fn it_has_length_1_whatever_the_features(
            values in prop::collection::vec(any::<f32>(), COUNT),
        ) {
            let x = context(&Features(values.try_into().expect("as many")));
            let length: f64 = x.iter().map(|z| z * z).sum();
            prop_assert!((length - 1.0).abs() < 1e-9, "{length}");
        }
    }
}
