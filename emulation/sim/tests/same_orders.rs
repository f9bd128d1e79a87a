//! The same events into the agent and into the simulator give the same orders.
//!
//! A simulation of each arm and policy, and of two arms with a timer, records the events that enter
//! its flow engine and the orders that leave. The agent's own host takes the same events from a
//! datapath, by a clock that stands where the event says, and must give the same orders, event by
//! event.

mod climber;
mod recorded;

use ccp_agent::clock::Clock;
use ccp_agent::datapath::{Agent, Datapath, Obey, Peer};
use ccp_agent::events::{Event, Recorder};
use ccp_agent::host::Host;
use ccp_agent::{Setup, catalogue};
use remuda_sim::recording::{Entered, Entry};
use remuda_wire::{Event as Said, Order, Report};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PEER: Peer = Peer::Bpf;

/// A datapath that says what was recorded, and keeps the orders that it gets.
#[derive(Default)]
struct Replay {
    events: VecDeque<Entry>,
    orders: Vec<String>,
}

impl Obey for Replay {
    fn order(&mut self, _peer: &Peer, order: &Order<'_>) -> Result<(), String> {
        self.orders.push(format!("{order:?}"));
        Ok(())
    }

    fn resync(&mut self, peer: &Peer) {
        panic!("the agent does not know a flow of {peer}");
    }
}

impl Datapath for Replay {
    fn reaches(&self, peer: &Peer) -> bool {
        *peer == PEER
    }

    fn beat(&mut self, _now_ns: u64) {}

    /// One event, so that its orders can be told from those of the next.
    fn drain(&mut self, agent: &mut dyn Agent, _now_ns: u64) -> bool {
        let Some(Entry { sid, entered, .. }) = self.events.pop_front() else { return false };
        let event = match &entered {
            Entered::Created { create, info } => Said::Created { sid, create, info: Some(info) },
            Entered::Report { uid, fields, signals } => {
                Said::Report(Report { sid, uid: *uid, fields, signals: Some(*signals) })
            }
            Entered::Closed => Said::Closed { sid },
            Entered::Wake => return true, // no event: the host wakes its flows by the clock
        };
        agent.event(self, &PEER, event);
        true
    }

    fn poll_fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }
}

struct Nothing;

impl Recorder for Nothing {
    fn record(&mut self, _flow: Option<u32>, _event: &Event) {}
}

/// Feeds the events to an agent's host, and compares the orders of each.
fn replay(driver: &str, setup: &Setup, entries: Vec<Entry>) {
    let now_us = Arc::new(AtomicU64::new(0));
    let clock = Clock::Manual(Arc::clone(&now_us));
    let mut host = Host::with_clock(setup.clone(), Box::new(Nothing), clock);
    let mut datapath = Replay { events: entries.clone().into(), ..Replay::default() };
    for (index, entry) in entries.iter().enumerate() {
        now_us.store(entry.at_us, Ordering::Relaxed);
        datapath.drain(&mut host, entry.at_us * 1_000);
        if entry.entered == Entered::Wake {
            assert!(
                host.wake_us().is_some_and(|at_us| at_us <= entry.at_us),
                "{driver}: {entry:?}"
            );
            host.wake(|_, act| act(&mut datapath), entry.at_us);
        }
        host.poke(|_, act| act(&mut datapath), entry.at_us);
        let orders = std::mem::take(&mut datapath.orders);
        assert_eq!(orders, entry.orders, "{driver}, event {index}: {entry:?}");
    }
    assert_eq!(host.counts.stale_reports, 0, "{driver}");
}

#[test]
fn the_same_events_into_agent_and_simulator_give_the_same_orders() {
    climber::add();
    let setup = recorded::setup();
    for driver in catalogue::names() {
        let entries = recorded::events(driver, &setup);
        let of = |is: fn(&Entered) -> bool| entries.iter().filter(|it| is(&it.entered)).count();
        let reports = of(|it| matches!(it, Entered::Report { .. }));
        let created = of(|it| matches!(it, Entered::Created { .. }));
        let orders: usize = entries.iter().map(|it| it.orders.len()).sum();
        let wakes = of(|it| *it == Entered::Wake);
        println!("{driver}: {reports} reports, {wakes} wakes, {orders} orders");
        assert_eq!(
            wakes > 100,
            ["anole", "climber", "hasty"].contains(&driver),
            "{driver}: {wakes}"
        );
        assert!(created == 2 && reports > 100, "{driver}: {created}, {reports}");
        assert!(orders > if driver == "fixed" { 1 } else { 50 }, "{driver}: {orders}");
        replay(driver, &setup, entries);
    }
}
