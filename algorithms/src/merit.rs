//! Merit: the one figure by which arms are trained, tried, compared and ranked.
//!
//! `merit = goodput^g / delay^d * (1 - loss)^5 * (1 - harm)^h`; for transfers of a fixed size
//! `merit = completed / slowdown * (1 - loss)^5 * (1 - harm)^h`.
//!
//! - **goodput**: over what the flow could have had: the capacity, or an equal share of the
//!   capacity beside neighbours. Where harm is known, goodput counts up to the limit in the table
//!   below.
//! - **delay**: mean delay over the delay of the path without a queue, 1 or more.
//! - **loss**: segments lost over segments sent.
//! - **harm**: the share of what neighbours should have that they do not get, as a mean over the
//!   neighbours. Harm is 0 if every neighbour has its equal share, and 1 if none gets anything.
//! - **completed**: the share of transfers that ended; **slowdown**: the 95th percentile of
//!   completion time over the time on an idle path.
//!
//! All terms are factors, so that what a path does to every arm alike, such as random loss, cancels
//! out in a comparison on that path. Without loss and harm, and by the default preference, merits
//! compare as goodput squared over mean delay do: the first league of ccBench, and Remuda's merit
//! up to commit b1bd1fe. The exponents by preference (zeta for throughput, theta for delay, each 0
//! to 1):
//!
//! | exponent          | formula                | default | delay | throughput |
//! | ----------------- | ---------------------- | ------- | ----- | ---------- |
//! | g                 | 1 + zeta               | 2       | 1     | 2          |
//! | d                 | theta * (2 - zeta)     | 1       | 2     | 0          |
//! | h                 | 2 - zeta * (1 - theta) | 2       | 2     | 1          |
//! | limit of goodput  | 1 + zeta * (1 - theta) | 1       | 1     | 2          |
//!
//! With h = 2 and a limit of 1, no share above an equal one pays. With h = 1 and a limit of 2, a
//! flow beside one neighbour does best at 4/3 of an equal share. Loss has the exponent 5: an arm
//! that loses 4 % has to deliver 10 % more than one that loses none.

use crate::preference::Preference;
use std::fmt;

/// The exponent of the share that is not lost.
const LOSS_EXPONENT: f64 = 5.0;
/// No share is less than this, so that a merit is above 0 and has a logarithm.
const LEAST: f64 = 0.01;
/// The same for goodput, which differs more between arms.
const GOODPUT_LEAST: f64 = 1e-4;
/// More goodput, in what the flow could have had, counts as this if harm is unknown.
const GOODPUT_MAX: f64 = 100.0;
/// A longer delay, in delays of the empty path, counts as this.
const DELAY_MAX: f64 = 1e4;

/// What a caller has observed of flows over some span. `None` is what it cannot observe.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// Goodput over what the flow could have had.
    pub goodput: Option<f64>,
    /// Mean delay over the least delay of the path.
    pub delay: Option<f64>,
    /// Segments lost over segments sent, 0 to 1.
    pub loss: Option<f64>,
    /// The share of what neighbours should have that they do not get, 0 to 1.
    pub harm: Option<f64>,
    /// Set for transfers of a fixed size: it counts in place of goodput and delay.
    pub transfers: Option<Transfers>,
}

/// How transfers of a fixed size went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfers {
    /// The share that ended, 0 to 1.
    pub completed: f64,
    /// The 95th percentile of completion time over the time on an idle path; `None` if none ended.
    pub slowdown_p95: Option<f64>,
}

/// A merit, and the names of the terms that the caller could not observe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Merit {
    /// Above 0. Values of two runs compare only if they have the same terms.
    pub value: f64,
    pub missing: Missing,
}

impl Merit {
    /// The natural logarithm, which is the reward of training. At least -65.
    pub fn ln(&self) -> f64 {
        self.value.ln()
    }
}

/// The terms that a caller could not observe. An unknown term is left out of the product and does
/// not count as 0: a merit without harm says nothing about harm to neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    pub goodput: bool,
    pub delay: bool,
    pub loss: bool,
    pub harm: bool,
}

impl Missing {
    /// Names of the missing terms.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [
            (self.goodput, "goodput"),
            (self.delay, "delay"),
            (self.loss, "loss"),
            (self.harm, "harm"),
        ];
        all.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, name)| name)
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().collect::<Vec<_>>().join(", "))
    }
}

/// The exponents and the limit of the table above.
struct Weights {
    goodput: f64,
    delay: f64,
    harm: f64,
    share_max: f64,
}

impl Weights {
    fn of(wants: Preference) -> Self {
        let Preference { throughput, delay } = wants;
        let greed = throughput * (1.0 - delay);
        Self {
            goodput: 1.0 + throughput,
            delay: delay * (2.0 - throughput),
            harm: 2.0 - greed,
            share_max: 1.0 + greed,
        }
    }
}

/// The merit of what was observed, for an application that wants `wants`. A value out of its range
/// counts as the nearest value of the range; a value that is not a number counts as not observed.
pub fn merit(observed: &Observed, wants: Preference) -> Merit {
    let weights = Weights::of(wants);
    let known = |value: Option<f64>| value.filter(|it| !it.is_nan());
    let (loss, harm) = (known(observed.loss), known(observed.harm));
    let kept = |lost: Option<f64>, exponent| lost.map_or(1.0, |it| factor(1.0 - it).powf(exponent));
    let shared = kept(loss, LOSS_EXPONENT) * kept(harm, weights.harm);
    let missing = Missing { loss: loss.is_none(), harm: harm.is_none(), ..Missing::default() };
    if let Some(Transfers { completed, slowdown_p95 }) = observed.transfers {
        let quick = known(slowdown_p95).map_or(0.0, |it| 1.0 / it.max(1.0));
        return Merit { value: factor(completed) * factor(quick) * shared, missing };
    }
    let (goodput, delay) = (known(observed.goodput), known(observed.delay));
    let share_max = if harm.is_some() { weights.share_max } else { GOODPUT_MAX };
    let carried =
        goodput.map_or(1.0, |it| it.clamp(GOODPUT_LEAST, share_max).powf(weights.goodput));
    let waited = delay.map_or(1.0, |it| it.clamp(1.0, DELAY_MAX).powf(weights.delay));
    let missing = Missing { goodput: goodput.is_none(), delay: delay.is_none(), ..missing };
    Merit { value: carried / waited * shared, missing }
}

/// What a loss of this share of the sent bytes adds to the natural logarithm of a merit; at most 0.
pub fn ln_of_loss(share: f64) -> f64 {
    LOSS_EXPONENT * (1.0 - share).clamp(LEAST, 1.0).ln()
}

/// How much the natural logarithm of a merit changes if the natural logarithms of goodput and delay
/// change by these amounts.
pub fn ln_change(ln_goodput: f64, ln_delay: f64, wants: Preference) -> f64 {
    let weights = Weights::of(wants);
    weights.goodput * ln_goodput - weights.delay * ln_delay
}

fn factor(value: f64) -> f64 {
    value.clamp(LEAST, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Observed = Observed {
        goodput: Some(0.8),
        delay: Some(1.6),
        loss: Some(0.0),
        harm: None,
        transfers: None,
    };

    fn value(observed: &Observed, wants: Preference) -> f64 {
        merit(observed, wants).value
    }

    #[test]
    fn alone_and_without_loss_it_is_goodput_squared_over_delay() {
        assert!((value(&ALONE, Preference::DEFAULT) - 0.4).abs() < 1e-12);
        assert!((value(&ALONE, Preference::DELAY) - 0.8 / 2.56).abs() < 1e-12);
        assert!((value(&ALONE, Preference::THROUGHPUT) - 0.64).abs() < 1e-12);
    }

    #[test]
    fn a_change_of_goodput_and_delay_changes_the_merit_as_it_says() {
        let later = Observed { goodput: Some(0.4), delay: Some(3.2), ..ALONE };
        for wants in [Preference::DEFAULT, Preference::DELAY, Preference::THROUGHPUT] {
            let ln = (value(&later, wants) / value(&ALONE, wants)).ln();
            assert!((ln - ln_change(0.5f64.ln(), 2f64.ln(), wants)).abs() < 1e-12, "{wants:?}");
        }
    }

    #[test]
    fn loss_costs_and_what_all_lose_cancels_out() {
        let lossy = |loss, goodput| Observed { loss: Some(loss), goodput: Some(goodput), ..ALONE };
        let of = |loss, goodput| value(&lossy(loss, goodput), Preference::DEFAULT);
        assert!(of(0.04, 0.8) < of(0.0, 0.73));
        assert!(of(0.04, 0.8) > of(0.0, 0.72));
        let alike = of(0.3, 0.6) / of(0.3, 0.3);
        assert!((alike - of(0.0, 0.6) / of(0.0, 0.3)).abs() < 1e-12);
    }

    #[test]
    fn beside_one_neighbour_an_equal_share_is_best_and_four_thirds_for_throughput() {
        let best = |wants| {
            let of = |percent: u32| {
                let share = f64::from(percent) / 100.0;
                let harm = Some((share - 1.0).max(0.0));
                value(&Observed { goodput: Some(share), harm, ..ALONE }, wants)
            };
            (1..=200).max_by(|a, b| of(*a).total_cmp(&of(*b))).expect("200 shares")
        };
        assert_eq!(best(Preference::DEFAULT), 100);
        assert_eq!(best(Preference::DELAY), 100);
        assert_eq!(best(Preference::THROUGHPUT), 133);
    }

    #[test]
    fn a_term_that_is_not_observed_is_named() {
        let alone = merit(&ALONE, Preference::DEFAULT);
        assert_eq!(alone.missing.to_string(), "harm");
        let nothing = merit(&Observed::default(), Preference::DEFAULT);
        assert_eq!(nothing.missing.to_string(), "goodput, delay, loss, harm");
        let unknown = Observed { harm: Some(f64::NAN), ..ALONE };
        assert_eq!(merit(&unknown, Preference::DEFAULT), alone);
    }

    #[test]
    fn transfers_are_judged_by_their_slowdown() {
        let of = |completed, slowdown_p95| {
            let transfers = Some(Transfers { completed, slowdown_p95 });
            value(&Observed { transfers, ..ALONE }, Preference::DEFAULT)
        };
        assert!((of(0.5, Some(2.0)) - 0.25).abs() < 1e-12);
        assert!(of(0.0, None) > 0.0 && of(0.0, None) < 0.001);
    }

    #[test]
    fn any_values_give_a_merit_with_a_logarithm() {
        let odd = [f64::NEG_INFINITY, -1.0, 0.0, 0.5, 1.0, 7.0, f64::INFINITY, f64::NAN];
        for (goodput, delay) in odd.iter().flat_map(|a| odd.iter().map(move |b| (*a, *b))) {
            for (loss, harm) in odd.iter().flat_map(|a| odd.iter().map(move |b| (*a, *b))) {
                let observed = Observed {
                    goodput: Some(goodput),
                    delay: Some(delay),
                    loss: Some(loss),
                    harm: Some(harm),
                    transfers: None,
                };
                let got = merit(&observed, Preference::DEFAULT);
                assert!(got.value > 0.0 && got.ln() > -65.0, "{observed:?}: {got:?}");
            }
        }
    }
}
