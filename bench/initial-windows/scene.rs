//! Nine groups of users behind links that change by the hour, and their visits.
//!
//! A group is an ISP in a region, as in section VII of the paper, which publishes neither the rates
//! nor the round trips of its groups. So these are ours: the region gives the round trip to a
//! server in Beijing, and the ISP the rate and the loss. In the busy hours of the evening each link
//! has less rate, longer round trips and more loss. A day is as short as the caller says.

use crate::antelope::requests::Draws;
use remuda_link::{DelayStep, LinkSpec, LossStep, PathSpec, QueueSpec, RateStep};
use std::f64::consts::PI;

/// The paper's groups change by the hour.
pub const DAY_HOURS: usize = 24;
/// The mean size of a response, in bytes: the paper's search page.
pub const MEAN_BYTES: f64 = 120_000.0;
/// The standard deviation of the logarithm of a size.
const SIZES_SIGMA: f64 = 0.5;
/// How many files the server has.
const FILES: usize = 32;
/// The seed of the sizes and of the hours: the same in every run.
const SCENE_SEED: u64 = 36;
/// Responses that one user asks for, one after the other.
pub const REQUESTS: usize = 3;
/// How long a user looks at a response before the next request.
pub const THINKS_S: f64 = 0.1;
/// Users of each group that come in a second: a load of 2.9 Mbit/s.
const VISITS_PER_S: f64 = 1.0;
/// How far the rate falls, and how far round trip and loss grow, at the busiest hour, in shares.
const BUSY: (f64, f64, f64) = (0.35, 0.25, 2.0);
/// The busiest hour, by the clock of Beijing.
const BUSIEST_HOUR: f64 = 21.0;
/// One standard deviation of what an hour's rate differs from the pattern, in shares.
const RATE_NOISE: f64 = 0.1;

/// The users of one ISP in one region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    pub region: &'static str,
    pub isp: &'static str,
    /// The best of the day.
    pub rate_mbit_per_sec: f64,
    /// The best of the day.
    pub rtt_ms: f64,
    /// The least of the day.
    pub loss_percent: f64,
    /// How much later the region's evening is.
    hours_later: f64,
}

/// Region, round trip in ms, and how many hours later its evening is.
const REGIONS: [(&str, f64, f64); 3] =
    [("Beijing", 30.0, 0.0), ("Guangdong", 60.0, 0.0), ("Xinjiang", 100.0, 2.0)];
/// ISP, Mbit/s, ms that its access adds to a round trip, and loss in per cent. CMNET is mobile.
const ISPS: [(&str, f64, f64, f64); 3] =
    [("CMNET", 8.0, 20.0, 0.1), ("UNICOM", 16.0, 0.0, 0.02), ("CHINANET", 32.0, 0.0, 0.0)];
/// How many groups there are.
pub const GROUPS: usize = REGIONS.len() * ISPS.len();

/// All groups; the place in this list is the number of a group.
pub fn groups() -> [Group; GROUPS] {
    std::array::from_fn(|number| {
        let (region, region_rtt_ms, hours_later) = REGIONS[number / ISPS.len()];
        let (isp, rate_mbit_per_sec, isp_rtt_ms, loss_percent) = ISPS[number % ISPS.len()];
        let rtt_ms = region_rtt_ms + isp_rtt_ms;
        Group { region, isp, rate_mbit_per_sec, rtt_ms, loss_percent, hours_later }
    })
}

/// The state of a group's link for one hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hour {
    pub rate_mbit_per_sec: f64,
    pub rtt_ms: f64,
    pub loss_percent: f64,
}

/// What one user asks for: [`REQUESTS`] responses, with [`THINKS_S`] between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// Since the start of the day.
    pub start_s: f64,
    /// All responses come over one connection; else, each over a connection of its own.
    pub keeps_alive: bool,
    pub sizes: [usize; REQUESTS],
}

/// A day of `hours` scaled hours, which are spread evenly over the real day's 24.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Day {
    pub hours: usize,
    pub hour_s: f64,
}

/// A draw of the standard normal distribution (Box and Muller).
fn normal(draws: &mut Draws) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - draws.share()));
    radius * libm::cos(2.0 * PI * draws.share())
}

/// The sizes of the server's files, in bytes, ascending: a lognormal distribution, scaled so that
/// their mean is [`MEAN_BYTES`].
pub fn sizes() -> [usize; FILES] {
    let mut draws = Draws::new(SCENE_SEED, 0);
    let all: [f64; FILES] = std::array::from_fn(|_| libm::exp(SIZES_SIGMA * normal(&mut draws)));
    let scale = MEAN_BYTES * FILES as f64 / all.iter().sum::<f64>();
    let mut sizes = all.map(|size| (size * scale).round() as usize);
    sizes.sort_unstable();
    sizes
}

impl Day {
    pub fn seconds(&self) -> f64 {
        self.hours as f64 * self.hour_s
    }

    /// The hour of a moment of the day; the last one holds on after the day.
    pub fn hour_at(&self, at_s: f64) -> usize {
        ((at_s / self.hour_s).max(0.0) as usize).min(self.hours - 1)
    }

    /// The link of group `number` in that hour.
    pub fn hour(&self, number: usize, hour: usize) -> Hour {
        let group = groups()[number];
        let mut draws = Draws::new(SCENE_SEED, 1 + number as u64);
        let real_hour = hour * DAY_HOURS / self.hours;
        let noises: [f64; DAY_HOURS] = std::array::from_fn(|_| normal(&mut draws));
        let phase = (real_hour as f64 - BUSIEST_HOUR - group.hours_later) / DAY_HOURS as f64;
        let busy = f64::midpoint(1.0, libm::cos(2.0 * PI * phase));
        let noise = libm::exp(RATE_NOISE * noises[real_hour]);
        Hour {
            rate_mbit_per_sec: group.rate_mbit_per_sec * (1.0 - BUSY.0 * busy) * noise,
            rtt_ms: group.rtt_ms * (1.0 + BUSY.1 * busy),
            loss_percent: group.loss_percent * (1.0 + BUSY.2 * busy),
        }
    }

    /// The link of group `number` in both directions, with a buffer of one product of the group's
    /// rate and round trip. The day begins `lead_s` after the start of the link.
    pub fn path(&self, number: usize, lead_s: f64, seed: u64) -> PathSpec {
        let group = groups()[number];
        let first = self.hour(number, 0);
        let later = || {
            (1..self.hours)
                .map(|hour| (lead_s + hour as f64 * self.hour_s, self.hour(number, hour)))
        };
        let delay = |(at_s, hour): (f64, Hour)| DelayStep { at_s, delay_ms: hour.rtt_ms / 2.0 };
        let up = LinkSpec {
            delay_ms: first.rtt_ms / 2.0,
            delay_steps: later().map(delay).collect(),
            ..LinkSpec::default()
        };
        let buffer_bytes = group.rate_mbit_per_sec * 1e6 / 8.0 * group.rtt_ms / 1e3;
        let rate = |(at_s, hour): (f64, Hour)| RateStep {
            at_s,
            rate_mbit_per_sec: hour.rate_mbit_per_sec,
        };
        let loss = |(at_s, hour): (f64, Hour)| LossStep { at_s, loss_percent: hour.loss_percent };
        let down = LinkSpec {
            rate_mbit_per_sec: Some(first.rate_mbit_per_sec),
            rate_steps: later().map(rate).collect(),
            loss_percent: first.loss_percent,
            loss_steps: later().map(loss).collect(),
            queue: QueueSpec::droptail_bytes(buffer_bytes as u64),
            seed: seed * GROUPS as u64 + number as u64,
            ..up.clone()
        };
        PathSpec { up, down, ..PathSpec::default() }
    }

    /// The visits to group `number` in order of their starts: random arrivals (Poisson), every
    /// other one of which keeps its connection.
    pub fn visits(&self, number: usize, seed: u64) -> Vec<Visit> {
        let mut draws = Draws::new(seed, 100 + number as u64);
        let files = sizes();
        let (mut all, mut start_s) = (Vec::new(), 0.0);
        loop {
            start_s -= libm::log(1.0 - draws.share()) / VISITS_PER_S;
            if start_s >= self.seconds() {
                return all;
            }
            let keeps_alive = all.len() % 2 == 1;
            let sizes = std::array::from_fn(|_| files[(draws.share() * FILES as f64) as usize]);
            all.push(Visit { start_s, keeps_alive, sizes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Day = Day { hours: 24, hour_s: 1.0 };

    #[test]
    fn the_files_differ_and_have_the_papers_mean() {
        let sizes = sizes();
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]), "{sizes:?}");
        let mean = sizes.iter().sum::<usize>() as f64 / FILES as f64;
        assert!((mean - MEAN_BYTES).abs() < 1.0, "{mean}");
    }

    #[test]
    fn evenings_are_slow_and_the_paths_are_valid() {
        for number in 0..GROUPS {
            let (night, evening) = (DAY.hour(number, 9), DAY.hour(number, 21));
            assert!(night.rtt_ms < evening.rtt_ms && night.loss_percent <= evening.loss_percent);
            let path = DAY.path(number, 2.0, 1);
            path.down.validate().expect("a link");
            path.up.validate().expect("a link");
            assert_eq!(path.down.rate_steps[0].at_s, 3.0);
            // A day of fewer hours has some of the same.
            let short = Day { hours: 8, hour_s: 1.0 };
            assert_eq!(short.hour(number, 7), DAY.hour(number, 21));
        }
    }

    #[test]
    fn visits_are_those_of_the_seed() {
        let all = DAY.visits(3, 7);
        assert_eq!(all, DAY.visits(3, 7));
        assert_ne!(all, DAY.visits(4, 7));
        let per_s = all.len() as f64 / DAY.seconds();
        assert!((per_s / VISITS_PER_S - 1.0).abs() < 0.5, "{per_s}");
        assert!(all.iter().all(|it| (0.0..DAY.seconds()).contains(&it.start_s)));
        assert_eq!([0.0, 0.99, 1.0, 99.0].map(|at_s| DAY.hour_at(at_s)), [0, 0, 1, 23]);
    }
}
