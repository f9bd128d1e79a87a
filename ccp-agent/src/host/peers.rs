//! What the host knows of each datapath: what it can do, and how many flows it may have.

use crate::datapath::Peer;
use remuda_algorithms::Abilities;
use remuda_wire::capability;
use remuda_wire::to_agent::Hello;
use std::collections::HashMap;

/// The most flows of a datapath whose `HELLO` names no number, or that sends none.
const FLOWS_MAX: u32 = 65_536;
/// The most flows that a `HELLO` may name: what the kernel module can have.
const FLOWS_HELLO_MAX: u32 = 1 << 20;
/// The shortest time between two events about refused flows of one datapath.
const RECORD_INTERVAL_US: u64 = 60_000_000;

#[derive(Debug, Default)]
struct Known {
    /// `None` before a `HELLO`.
    hello: Option<(Abilities, u32)>,
    flows: u32,
    /// Flows refused since the last event about them.
    refused: u64,
    recorded_us: Option<u64>,
}

/// Flows that were refused, for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub flows_max: u32,
    pub refused: u64,
}

#[derive(Debug, Default)]
pub struct Peers {
    known: HashMap<Peer, Known>,
}

fn abilities(bits: u32) -> Abilities {
    let has = |bit| bits & bit != 0;
    Abilities {
        native: has(capability::NATIVE),
        pacing: has(capability::PACING),
        marks: has(capability::MARKS),
    }
}

impl Known {
    fn flows_max(&self) -> u32 {
        self.hello.map_or(FLOWS_MAX, |(_, flows_max)| flows_max)
    }
}

impl Peers {
    pub fn greeted(&mut self, peer: &Peer, hello: &Hello) {
        let flows_max = match hello.flows_max {
            0 => FLOWS_MAX,
            flows_max => flows_max.min(FLOWS_HELLO_MAX),
        };
        let known = self.known.entry(peer.clone()).or_default();
        known.hello = Some((abilities(hello.capabilities), flows_max));
    }

    /// What a datapath can do. One without a `HELLO` speaks plain CCP, and gets the default.
    pub fn abilities(&self, peer: &Peer) -> Abilities {
        let hello = self.known.get(peer).and_then(|known| known.hello);
        hello.map_or_else(Abilities::default, |(abilities, _)| abilities)
    }

    /// Whether the datapath has as many flows as it may have. The BPF datapath always has room: its
    /// own table is the limit, and the end of a flow may come after the start of the next one.
    pub fn is_full(&self, peer: &Peer) -> bool {
        let known = self.known.get(peer).filter(|_| *peer != Peer::Bpf);
        known.is_some_and(|known| known.flows >= known.flows_max())
    }

    /// Counts a flow that is not taken. Returns what to record, when that is due.
    pub fn refuse(&mut self, peer: &Peer, now_us: u64) -> Option<Refused> {
        let known = self.known.entry(peer.clone()).or_default();
        known.refused += 1;
        let is_due = known
            .recorded_us
            .is_none_or(|recorded| now_us.saturating_sub(recorded) >= RECORD_INTERVAL_US);
        if !is_due {
            return None;
        }
        known.recorded_us = Some(now_us);
        let refused = std::mem::take(&mut known.refused);
        Some(Refused { flows_max: known.flows_max(), refused })
    }

    pub fn started(&mut self, peer: &Peer) {
        self.known.entry(peer.clone()).or_default().flows += 1;
    }

    pub fn ended(&mut self, peer: &Peer) {
        if let Some(known) = self.known.get_mut(peer) {
            known.flows = known.flows.saturating_sub(1);
        }
    }

    /// The datapath is gone, and its flows with it.
    pub fn lost(&mut self, peer: &Peer) {
        self.known.remove(peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::datapath::{Agent, Obey};
    use crate::events::{Event, Recorder};
    use crate::host::Host;
    use crate::lock::lock;
    use remuda_wire::to_agent::Create;
    use remuda_wire::{Event as FromDatapath, Order, Report};
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};

    fn hello(flows_max: u32) -> Hello {
        Hello { flows_max, ..Hello::default() }
    }

    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<Vec<Event>>>);

    impl Recorder for Heard {
        fn record(&mut self, _flow: Option<u32>, event: &Event) {
            lock(&self.0).push(event.clone());
        }
    }

    /// A datapath that counts how often it is asked to announce its flows again.
    #[derive(Default)]
    struct Asked(usize);

    impl Obey for Asked {
        fn order(&mut self, _peer: &Peer, _order: &Order<'_>) -> Result<(), String> {
            Ok(())
        }

        fn resync(&mut self, _peer: &Peer) {
            self.0 += 1;
        }
    }

    #[test]
    fn flows_beyond_the_hello_are_counted_and_recorded_once_whatever_the_datapath() {
        let unix = Peer::Unix(Arc::new(PathBuf::from("/datapath")));
        for peer in [unix, Peer::Module, Peer::Netlink] {
            let (heard, mut asked) = (Heard::default(), Asked::default());
            let mut host = Host::new(Config::default(), Box::new(heard.clone()));
            host.event(&mut asked, &peer, FromDatapath::Hello(&hello(3)));
            let create = Create { init_cwnd_bytes: 14_480, mss_bytes: 1_448, ..Create::default() };
            let created = |sid| FromDatapath::Created { sid, create: &create, info: None };
            (1..=100).for_each(|sid| host.event(&mut asked, &peer, created(sid)));
            assert_eq!((host.rows().len(), host.counts.flows_refused), (3, 97));
            let is_refusal = |event: &&Event| matches!(event, Event::FlowsRefused { .. });
            assert_eq!(lock(&heard.0).iter().filter(is_refusal).count(), 1);
            let report =
                |sid| FromDatapath::Report(Report { sid, uid: 1, fields: &[], signals: None });
            host.event(&mut asked, &peer, report(50));
            assert_eq!(asked.0, 0, "it would announce all of them again");
            host.event(&mut asked, &peer, FromDatapath::Closed { sid: 2 });
            host.event(&mut asked, &peer, report(50));
            assert_eq!(asked.0, 1, "there is room now");
            host.event(&mut asked, &peer, created(50));
            assert_eq!((host.rows().len(), host.counts.flows_refused), (3, 97));
        }
    }

    #[test]
    fn a_datapath_has_the_flows_of_its_hello_and_no_more() {
        let mut peers = Peers::default();
        for (flows_max, want) in [(3, 3), (0, FLOWS_MAX), (u32::MAX, FLOWS_HELLO_MAX)] {
            peers.greeted(&Peer::Module, &hello(flows_max));
            assert_eq!(peers.known[&Peer::Module].flows_max(), want);
        }
        peers.greeted(&Peer::Module, &hello(2));
        assert!(!peers.is_full(&Peer::Module));
        (0..2).for_each(|_| peers.started(&Peer::Module));
        assert!(peers.is_full(&Peer::Module) && !peers.is_full(&Peer::Netlink));
        peers.ended(&Peer::Module);
        assert!(!peers.is_full(&Peer::Module));
        peers.greeted(&Peer::Bpf, &hello(1));
        peers.started(&Peer::Bpf);
        assert!(!peers.is_full(&Peer::Bpf), "its own table is the limit");
    }

    #[test]
    fn without_a_hello_there_is_a_limit_too() {
        let mut peers = Peers::default();
        (0..FLOWS_MAX).for_each(|_| peers.started(&Peer::Netlink));
        assert!(peers.is_full(&Peer::Netlink));
        peers.lost(&Peer::Netlink);
        assert!(!peers.is_full(&Peer::Netlink));
    }

    #[test]
    fn refused_flows_are_counted_and_recorded_once_a_minute() {
        let mut peers = Peers::default();
        let recorded: Vec<Refused> =
            (0..300_000).filter_map(|n| peers.refuse(&Peer::Module, n * 1_000)).collect();
        assert_eq!(recorded.len(), 5);
        assert_eq!((recorded[0].refused, recorded[1].refused), (1, 60_000));
        assert_eq!(recorded[0].flows_max, FLOWS_MAX);
    }
}
