//! The interval of a gain: as wide as the errors on development paths were.
//!
//! Normalized split conformal prediction (Papadopoulos, Gammerman and Vovk, AIA 2008): the error of
//! an estimate, over a scale that is known beforehand, has a quantile on paths whose gain is known;
//! on paths drawn like these, an interval of that many scales misses the gain with a probability of
//! at most 5 %. The paths are those of `remuda-advise-table --set development`, and the parts of
//! the scale were chosen on them too.

use crate::Estimate;

/// The arm whose errors were measured.
const CALIBRATED: &str = "bbr3";
/// The 95 % quantile of its errors, in scales.
const QUANTILE: f64 = 1.57;
/// The errors of `copa` were less than twice as large. Other arms were not measured.
const OF_OTHER_ARMS: f64 = 2.0;
/// What the scale has beside the standard deviation over paths: a constant, a part for each unit of
/// misfit, and a share of the gain.
const SCALE: f64 = 0.02;
const SCALE_OF_MISFIT: f64 = 0.02;
const SCALE_OF_GAIN: f64 = 0.1;

/// The 95 % interval of the gain, in percent.
pub fn interval_percent(of: &Estimate) -> (f64, f64) {
    let scale =
        of.ln_gain_sd + SCALE + SCALE_OF_MISFIT * of.misfit + SCALE_OF_GAIN * of.ln_gain.abs();
    let of_arm = if of.arm == CALIBRATED { 1.0 } else { OF_OTHER_ARMS };
    let half = QUANTILE * of_arm * scale;
    let percent = |ln: f64| ln.exp_m1() * 100.0;
    (percent(of.ln_gain - half), percent(of.ln_gain + half))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_resembles_less_and_an_arm_that_was_not_measured_have_wider_intervals() {
        let width = |arm: &str, misfit: f64| {
            let arm = arm.to_owned();
            let of = Estimate { arm, ln_gain: 0.2, ln_gain_sd: 0.03, misfit };
            let (least, most) = interval_percent(&of);
            assert!(least < 22.0 && 22.0 < most, "{least} {most}");
            most - least
        };
        assert!(width("bbr3", 0.2) < width("bbr3", 2.0));
        assert!(width("bbr3", 0.2) < width("copa", 0.2));
    }
}
