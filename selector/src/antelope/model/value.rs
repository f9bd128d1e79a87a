//! What an arm makes of a path from here on, and what live flows have taught of it.
//!
//! A value is of the arm that has the flow for the next [`SPAN`]: throughput, less what is lost,
//! and one-way delay, as logarithms over what the path is known to hold ([`Norm`]). So what comes
//! of a flow can be held against what was predicted, which cannot be done with a share of the best
//! arm's reward: nobody sees the other arms.
//!
//! An online model has two kinds of corrections to the values of its parent: one shared by all
//! arms, of what is alike for all arms, and one an arm, of which there are as many as there were
//! live rows for. Only the latter move scores ([`Online::factor`]).

use super::{Error, refuse};
use crate::features::{COUNT, Features};
use crate::trees::{Ensemble, Saved};
use remuda_algorithms::merit::ln_change;
use remuda_algorithms::{Preference, Seen};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a value is about: so much time from the state on.
pub const SPAN: Duration = Duration::from_secs(12);
/// Less throughput than this is none, in Mbit/s: its logarithm is still a number.
const MBIT_PER_SEC_MIN: f64 = 1e-3;
/// Corrections move a score by this factor at most, up or down.
const FACTOR_MAX: f32 = 4.0;
/// Hexadecimal digits of a digest: of 32 bytes.
const DIGEST_DIGITS: usize = 64;

/// Throughput and delay of the same.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Two<T> {
    pub throughput: T,
    pub delay: T,
}

impl<T> Two<T> {
    fn map<U>(&self, f: impl Fn(&T) -> U) -> Two<U> {
        Two { throughput: f(&self.throughput), delay: f(&self.delay) }
    }

    fn try_map<U, E>(&self, f: impl Fn(&'static str, &T) -> Result<U, E>) -> Result<Two<U>, E> {
        Ok(Two { throughput: f("throughput", &self.throughput)?, delay: f("delay", &self.delay)? })
    }
}

/// As a file has it, by arm.
pub(super) type SavedByArm = Two<BTreeMap<String, Saved>>;

/// As a file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedOnline {
    parent: String,
    rows: u64,
    flows: u64,
    shared: Two<Saved>,
    corrections: SavedByArm,
}

/// What an arm makes, or has made, of a path, beside what the path is known to hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// Natural logarithm of throughput less what is lost, over the largest delivery rate so far.
    pub ln_throughput: f32,
    /// Natural logarithm of the one-way delay over half of the smallest round trip so far.
    pub ln_delay: f32,
}

/// What the path is known to hold: what values are beside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    rate_max_mbit_per_sec: f64,
    one_way_min_ms: f64,
}

impl Norm {
    /// As of a data unit; none where its round trip or rate is not known.
    pub fn of(features: &Features) -> Option<Self> {
        let known = |name| features.get(name).map(f64::from);
        let rate_max_mbit_per_sec = known("rate_max_mbit_per_sec")?;
        let one_way_min_ms = known("rtt_min_ms")? / 2.0;
        (one_way_min_ms > 0.0).then_some(Self { rate_max_mbit_per_sec, one_way_min_ms })
    }

    /// What has come of a span.
    pub fn value(&self, seen: &Seen) -> Value {
        let got = seen.throughput_mbit_per_sec - seen.lost_mbit_per_sec;
        let rate = |mbit_per_sec: f64| mbit_per_sec.max(MBIT_PER_SEC_MIN);
        let one_way_ms = (seen.rtt_mean_ms - self.one_way_min_ms).max(self.one_way_min_ms);
        Value {
            ln_throughput: (rate(got) / rate(self.rate_max_mbit_per_sec)).ln() as f32,
            ln_delay: (one_way_ms / self.one_way_min_ms).ln() as f32,
        }
    }

    /// The natural logarithm of the merit of a span, without the harm to neighbours, beside that of
    /// 1 Mbit/s and 1 ms.
    pub fn ln_merit(&self, seen: &Seen, wants: Preference) -> f64 {
        let Value { ln_throughput, ln_delay } = self.value(seen);
        let ln_rate = self.rate_max_mbit_per_sec.max(MBIT_PER_SEC_MIN).ln();
        ln_change(
            f64::from(ln_throughput) + ln_rate,
            f64::from(ln_delay) + self.one_way_min_ms.ln(),
            wants,
        )
    }
}

/// From what an online model was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// The digest of the model whose values it corrects.
    pub parent: String,
    /// Live rows that it was trained on.
    pub rows: u64,
    /// Of so many flows.
    pub flows: u64,
}

/// What live flows have taught.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Online {
    pub lineage: Lineage,
    shared: Two<Ensemble>,
    /// In the order of the model's arms.
    corrections: Two<Vec<Option<Ensemble>>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Values {
    /// In the order of the model's arms.
    by_arm: Two<Vec<Ensemble>>,
    pub online: Option<Online>,
}

fn ensemble(part: impl FnOnce() -> String, saved: &Saved) -> Result<Ensemble, Error> {
    Ensemble::new(saved, COUNT).map_err(|source| Error::Trees { part: part(), source })
}

impl Values {
    pub fn read(
        arms: &[&'static str],
        saved: &SavedByArm,
        online: Option<&SavedOnline>,
    ) -> Result<Self, Error> {
        let by_arm = saved.try_map(|of, saved| {
            if saved.len() != arms.len() {
                return Err(refuse(format!("values.{of}"), "it must have an entry for each arm"));
            }
            let read = |arm: &&'static str| {
                let part = || format!("values.{of}.{arm}");
                ensemble(part, saved.get(*arm).ok_or_else(|| refuse(part(), "it is missing"))?)
            };
            arms.iter().map(read).collect::<Result<Vec<_>, _>>()
        })?;
        let online = online.map(|saved| Online::read(arms, saved)).transpose()?;
        Ok(Self { by_arm, online })
    }

    /// Of the arm at that place.
    pub fn of(&self, at: usize, features: &Features) -> Value {
        let says = |ensemble: &Ensemble| ensemble.predict(&features.0);
        let mut value = self.by_arm.map(|arms| says(&arms[at]));
        if let Some(online) = &self.online {
            let (shared, own) = (online.shared.map(says), online.correction(at, features));
            value.throughput += shared.throughput + own.throughput;
            value.delay += shared.delay + own.delay;
        }
        Value { ln_throughput: value.throughput, ln_delay: value.delay }
    }

    /// The ensemble that a check names, whose arm has that place if it names one.
    pub fn named(&self, mode: &str, at: Option<usize>) -> Option<&Ensemble> {
        let (kind, of) = mode.split_once('_')?;
        let online = self.online.as_ref();
        match (kind, of, at) {
            ("value", "throughput", Some(at)) => self.by_arm.throughput.get(at),
            ("value", "delay", Some(at)) => self.by_arm.delay.get(at),
            ("correction", "throughput", Some(at)) => online?.corrections.throughput[at].as_ref(),
            ("correction", "delay", Some(at)) => online?.corrections.delay[at].as_ref(),
            ("shared", "throughput", None) => Some(&online?.shared.throughput),
            ("shared", "delay", None) => Some(&online?.shared.delay),
            _ => None,
        }
    }
}

impl Online {
    fn read(arms: &[&'static str], saved: &SavedOnline) -> Result<Self, Error> {
        let parent = &saved.parent;
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if parent.len() != DIGEST_DIGITS || !parent.bytes().all(is_digit) {
            return Err(refuse("online.parent", "it must be 64 digits of a SHA-256, lower case"));
        }
        let shared =
            saved.shared.try_map(|of, saved| ensemble(|| format!("online.shared.{of}"), saved))?;
        let corrections = saved.corrections.try_map(|of, saved| {
            let part = |arm: &str| format!("online.corrections.{of}.{arm}");
            if let Some(other) = saved.keys().find(|name| !arms.contains(&name.as_str())) {
                return Err(refuse(part(other), "it must be one of the model's arms"));
            }
            let read = |arm: &&'static str| {
                saved.get(*arm).map(|saved| ensemble(|| part(arm), saved)).transpose()
            };
            arms.iter().map(read).collect::<Result<Vec<_>, _>>()
        })?;
        let (rows, flows) = (saved.rows, saved.flows);
        Ok(Self { lineage: Lineage { parent: parent.clone(), rows, flows }, shared, corrections })
    }

    /// The arm's own correction; 0 where it has none.
    fn correction(&self, at: usize, features: &Features) -> Two<f32> {
        let says = |ensemble: &Ensemble| ensemble.predict(&features.0);
        self.corrections.map(|arms| arms[at].as_ref().map_or(0.0, says))
    }

    /// By what an application that wants that multiplies the arm's score: e to the power of what
    /// the corrections make of the logarithm of throughput and delay, each with its weight; a
    /// quarter to four. What is shared by all arms changes no order, and is left out.
    pub fn factor(&self, at: usize, features: &Features, wants: Preference) -> f32 {
        let Two { throughput, delay } = self.correction(at, features);
        let ln = wants.throughput as f32 * throughput - wants.delay as f32 * delay;
        // Sums of finite leaves may be infinite, and then their difference no number.
        if ln.is_nan() { 1.0 } else { ln.clamp(-FACTOR_MAX.ln(), FACTOR_MAX.ln()).exp() }
    }
}
