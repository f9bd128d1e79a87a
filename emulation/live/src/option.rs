//! Parses options of `remuda link` whose values have several numbers.

use remuda_link::{
    AggregationSpec, DelayStep, GilbertElliottSpec, OutageSpec, PolicerSpec, RateStep,
    ReorderingSpec,
};

/// RED's thresholds for the average queue length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedRange {
    /// No packet is dropped while the average is below this.
    pub min_packets: u64,
    /// The average at which the drop probability reaches `percent_max`.
    pub max_packets: u64,
    /// `None`: 10 percent.
    pub percent_max: Option<f64>,
}

pub(crate) fn rate_step(text: &str) -> Result<RateStep, String> {
    let (at_s, rate_mbit_per_sec) = pair(text, "a moment in s and a rate in Mbit/s", "10,24")?;
    Ok(RateStep { at_s, rate_mbit_per_sec })
}

pub(crate) fn delay_step(text: &str) -> Result<DelayStep, String> {
    let (at_s, delay_ms) = pair(text, "a moment in s and a delay in ms", "10,50")?;
    Ok(DelayStep { at_s, delay_ms })
}

pub(crate) fn outage(text: &str) -> Result<OutageSpec, String> {
    let (at_s, duration_s) = pair(text, "a moment and a duration in s", "10,0.5")?;
    Ok(OutageSpec { at_s, duration_s })
}

pub(crate) fn reordering(text: &str) -> Result<ReorderingSpec, String> {
    let (percent, extra_ms) = pair(text, "a share in percent and a time in ms", "1,5")?;
    Ok(ReorderingSpec { percent, extra_ms })
}

pub(crate) fn policer(text: &str) -> Result<PolicerSpec, String> {
    let (what, example) = ("a rate in Mbit/s and a burst in bytes", "10,30000");
    let (rate_mbit_per_sec, burst) = pair(text, what, example)?;
    let burst_bytes = whole(burst).ok_or_else(|| wrong(what, example))?;
    Ok(PolicerSpec { rate_mbit_per_sec, burst_bytes })
}

pub(crate) fn aggregation(text: &str) -> Result<AggregationSpec, String> {
    let what = "an interval in ms, and a number of packets or none";
    let example = "100 or 200,10";
    let wrong = || wrong(what, example);
    match numbers(text).as_deref() {
        Some([interval_ms]) => Ok(AggregationSpec { interval_ms: *interval_ms, packets_max: None }),
        Some([interval_ms, packets]) => {
            let packets_max = Some(whole(*packets).ok_or_else(wrong)?);
            Ok(AggregationSpec { interval_ms: *interval_ms, packets_max })
        }
        _ => Err(wrong()),
    }
}

pub(crate) fn red(text: &str) -> Result<RedRange, String> {
    let what = "two thresholds in packets, and a percentage or none";
    let example = "5,15 or 5,15,10";
    let wrong = || wrong(what, example);
    let (min, max, percent_max) = match numbers(text).as_deref() {
        Some([min, max]) => (*min, *max, None),
        Some([min, max, percent]) => (*min, *max, Some(*percent)),
        _ => return Err(wrong()),
    };
    let min_packets = whole(min).ok_or_else(wrong)?;
    Ok(RedRange { min_packets, max_packets: whole(max).ok_or_else(wrong)?, percent_max })
}

pub(crate) fn gilbert_elliott(text: &str) -> Result<GilbertElliottSpec, String> {
    let channel = |p: f64, r: f64, bad: f64, good: f64| GilbertElliottSpec {
        good_to_bad_percent: p,
        bad_to_good_percent: r,
        loss_bad_percent: bad,
        loss_good_percent: good,
    };
    match numbers(text).as_deref() {
        Some([p, r]) => Ok(channel(*p, *r, 100.0, 0.0)),
        Some([p, r, bad]) => Ok(channel(*p, *r, *bad, 0.0)),
        Some([p, r, bad, good]) => Ok(channel(*p, *r, *bad, *good)),
        _ => Err(wrong("two to four percentages", "1,25 or 1,25,100,0")),
    }
}

fn pair(text: &str, what: &str, example: &str) -> Result<(f64, f64), String> {
    match numbers(text).as_deref() {
        Some([first, second]) => Ok((*first, *second)),
        _ => Err(wrong(what, example)),
    }
}

/// Parses numbers separated by commas; `None` if one is not a number.
fn numbers(text: &str) -> Option<Vec<f64>> {
    text.split(',').map(|number| number.trim().parse().ok()).collect()
}

fn whole(number: f64) -> Option<u64> {
    let fits = number >= 0.0 && number < u64::MAX as f64 && number.fract() == 0.0;
    fits.then_some(number as u64)
}

fn wrong(what: &str, example: &str) -> String {
    format!("must be {what}, separated by commas, such as {example}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_what_they_stand_for() {
        assert_eq!(rate_step("10,24"), Ok(RateStep { at_s: 10.0, rate_mbit_per_sec: 24.0 }));
        assert_eq!(delay_step("1.5, 50"), Ok(DelayStep { at_s: 1.5, delay_ms: 50.0 }));
        assert_eq!(outage("10,.5"), Ok(OutageSpec { at_s: 10.0, duration_s: 0.5 }));
        assert_eq!(reordering("1,5"), Ok(ReorderingSpec { percent: 1.0, extra_ms: 5.0 }));
        let burst_bytes = 30_000;
        assert_eq!(policer("10,3e4"), Ok(PolicerSpec { rate_mbit_per_sec: 10.0, burst_bytes }));
        let interval_ms = 200.0;
        let group = |packets_max| Ok(AggregationSpec { interval_ms, packets_max });
        assert_eq!((aggregation("200"), aggregation("200,10")), (group(None), group(Some(10))));
        let range = |percent_max| Ok(RedRange { min_packets: 5, max_packets: 15, percent_max });
        assert_eq!((red("5,15"), red("5,15,2")), (range(None), range(Some(2.0))));
    }

    #[test]
    fn what_is_wrong_is_said_with_an_example() {
        let rule = "must be a moment and a duration in s, separated by commas, such as 10,0.5";
        for text in ["", "1", "1,", "1,x", "1,2,3", "1:2"] {
            assert_eq!(outage(text), Err(rule.to_owned()), "{text}");
        }
        assert!(policer("10,1.5").is_err() && policer("10,-1").is_err());
        assert!(aggregation("1,2,3").is_err() && aggregation("1,2.5").is_err());
        assert!(red("5").is_err() && red("5,1.5").is_err());
        assert!(gilbert_elliott("1").is_err() && gilbert_elliott("1,2,3,4,5").is_err());
    }
}
