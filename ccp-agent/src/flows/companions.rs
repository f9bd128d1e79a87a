//! Which flows go the same way at the same time: to one network, driven alike, and busy.
//!
//! Flows of one host to one destination share its path. A policy that gives one of them an arm is
//! likely to give it to all, and five flows of an arm do to a queue what one does not: what a flow
//! sees of its path does not tell it whether the flows beside it act as it does; this does.
//!
//! A flow is busy if it has reported in the last two seconds, as reports come with ACKs. Who
//! another driver has does not count: it will not do the same.

use remuda_selector::antelope::memory::{Network, Remote, Route};
use std::collections::HashMap;

/// Who has not reported for so long is idle, in microseconds.
const IDLE_US: u64 = 2_000_000;
/// Who is idle is looked for so often, in microseconds: of many flows each report would be dear.
const LOOK_US: u64 = 250_000;

/// Flows of one driver to one network.
#[derive(Debug, Default)]
struct Group {
    /// When each has reported last.
    reported_us: HashMap<u32, u64>,
    looked_us: u64,
}

impl Group {
    fn report(&mut self, flow: u32, now_us: u64) -> u32 {
        self.reported_us.insert(flow, now_us);
        if now_us.saturating_sub(self.looked_us) >= LOOK_US {
            self.looked_us = now_us;
            self.reported_us.retain(|_, at_us| now_us.saturating_sub(*at_us) < IDLE_US);
        }
        u32::try_from(self.reported_us.len() - 1).unwrap_or(u32::MAX)
    }
}

/// The network around the remote end. In another network namespace it is another one.
fn around(to: &Remote) -> Route {
    Route { netns: to.netns, network: Network::around(to.address) }
}

/// The busy flows of a host.
#[derive(Debug, Default)]
pub struct Companions {
    networks: HashMap<Route, HashMap<String, Group>>,
}

impl Companions {
    /// `flow`, which goes to `to` and has that driver, reports at `now_us` of a clock that does
    /// not step: how many others are with it.
    pub fn beside(&mut self, to: impl Into<Remote>, driver: &str, flow: u32, now_us: u64) -> u32 {
        let drivers = self.networks.entry(around(&to.into())).or_default();
        match drivers.get_mut(driver) {
            Some(group) => group.report(flow, now_us),
            None => drivers.entry(driver.to_owned()).or_default().report(flow, now_us),
        }
    }

    /// That flow has ended.
    pub fn ended(&mut self, to: impl Into<Remote>, flow: u32) {
        let network = around(&to.into());
        let Some(drivers) = self.networks.get_mut(&network) else { return };
        drivers.retain(|_, group| {
            group.reported_us.remove(&flow);
            !group.reported_us.is_empty()
        });
        if drivers.is_empty() {
            self.networks.remove(&network);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    const NEAR: [&str; 2] = ["192.0.2.7", "192.0.2.9"];

    fn at(address: &str) -> IpAddr {
        address.parse().expect("an address")
    }

    #[test]
    fn those_of_one_network_and_driver_count() {
        let mut companions = Companions::default();
        let mut of = |to, driver, flow| companions.beside(at(to), driver, flow, 1_000_000);
        assert_eq!(of(NEAR[0], "antelope", 1), 0);
        assert_eq!(of(NEAR[1], "antelope", 2), 1);
        assert_eq!(of(NEAR[0], "antelope", 1), 1);
        assert_eq!(of("::ffff:192.0.2.1", "antelope", 3), 2, "the same network");
        assert_eq!(of(NEAR[0], "cubic", 4), 0, "it will not do the same");
        assert_eq!(of("198.51.100.1", "antelope", 5), 0, "another path");
        assert_eq!(of(NEAR[0], "antelope", 1), 2);
        let elsewhere = Remote { netns: 5, ..at(NEAR[0]).into() };
        assert_eq!(companions.beside(elsewhere, "antelope", 6, 1_000_000), 0, "another namespace");
    }

    #[test]
    fn who_is_idle_does_not_count_until_it_reports_again() {
        let mut companions = Companions::default();
        let mut of = |flow, now_us| companions.beside(at(NEAR[0]), "antelope", flow, now_us);
        assert_eq!((of(1, 0), of(2, 0)), (0, 1));
        assert_eq!(of(1, 1_900_000), 1);
        assert_eq!(of(1, 2_200_000), 0);
        assert_eq!(of(2, 2_300_000), 1);
    }

    #[test]
    fn who_has_ended_leaves_nothing() {
        let mut companions = Companions::default();
        for (flow, driver) in [(1, "antelope"), (2, "antelope"), (1, "cubic"), (3, "antelope")] {
            companions.beside(at(NEAR[0]), driver, flow, 0);
        }
        (1..=3).for_each(|flow| companions.ended(at(NEAR[0]), flow));
        companions.ended(at(NEAR[0]), 3);
        assert!(companions.networks.is_empty());
    }
}
