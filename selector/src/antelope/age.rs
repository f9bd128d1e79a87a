//! What a flow's age may say.
//!
//! In the training a flow lasts half a minute, and neighbours come within 20 s. So models take a
//! flow's age for a sign of neighbours. On recorded 3G paths, which no other flow used, the score
//! of `learned` fell from 0.7 to 0.2 as the flow became 25 s old, and the flow left it. Neighbours
//! that fill a queue lose packets, and so does a flow beside them. So where nothing is lost, a flow
//! older than 15 s counts as one of 15 s.

use crate::features::{Features, schema};
use std::sync::OnceLock;

/// An older flow without losses counts as one of this age, in seconds.
const YOUNG_S: f32 = 15.0;
/// Below this percentage nothing is lost.
const NO_LOSS_PERCENT: f32 = 0.01;

/// Where the features lie that grow with a flow's age, and the percentage that is lost.
struct Places {
    age_s: usize,
    arm_s: usize,
    delivered: usize,
    lost: usize,
}

fn places() -> &'static Places {
    static PLACES: OnceLock<Places> = OnceLock::new();
    PLACES.get_or_init(|| {
        let of = |name| {
            let at = schema().features.iter().position(|it| it.name == name);
            at.expect("a test looks each of them up")
        };
        Places {
            age_s: of("age_s"),
            arm_s: of("arm_s"),
            delivered: of("delivered_mbytes"),
            lost: of("lost_percent_long"),
        }
    })
}

/// The features with which a model is asked for scores. What an old flow without losses has
/// delivered becomes what it has delivered in [`YOUNG_S`] on average.
pub(super) fn without_age(features: &Features) -> Features {
    let at = places();
    let mut young = *features;
    let values = &mut young.0;
    if values[at.lost] >= NO_LOSS_PERCENT {
        return young;
    }
    if values[at.age_s] > YOUNG_S {
        values[at.delivered] *= YOUNG_S / values[at.age_s];
        values[at.age_s] = YOUNG_S;
    }
    if values[at.arm_s] > YOUNG_S {
        values[at.arm_s] = YOUNG_S;
    }
    young
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::COUNT;

    /// Age, time of the arm, MB delivered, after [`without_age`].
    fn of(age_s: f32, arm_s: f32, lost_percent: f32) -> [f32; 3] {
        let mut features = Features([f32::NAN; COUNT]);
        let at = places();
        features.0[at.age_s] = age_s;
        features.0[at.arm_s] = arm_s;
        features.0[at.delivered] = 90.0;
        features.0[at.lost] = lost_percent;
        let young = without_age(&features).0;
        [young[at.age_s], young[at.arm_s], young[at.delivered]]
    }

    #[test]
    fn an_old_flow_without_losses_counts_as_one_of_15_s() {
        assert_eq!(of(60.0, 45.0, 0.0), [15.0, 15.0, 22.5]);
        assert_eq!(of(60.0, 3.0, f32::NAN), [15.0, 3.0, 22.5], "no loss is known");
        assert_eq!(of(10.0, 3.0, 0.0), [10.0, 3.0, 90.0], "it is young");
        assert_eq!(of(60.0, 45.0, 0.5), [60.0, 45.0, 90.0], "something is lost");
    }
}
