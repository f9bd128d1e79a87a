//! A report takes no memory: from the event of a datapath through host, flow engine, decoding,
//! controller and guard to the order, nothing is allocated once a flow has warmed up.
//!
//! The reports are those of a simulation. The allocator of this process counts.

mod recorded;

use ccp_agent::catalogue;
use ccp_agent::clock::Clock;
use ccp_agent::datapath::{Agent, Obey, Peer};
use ccp_agent::events::{Event, Recorder};
use ccp_agent::host::Host;
use remuda_sim::recording::Entered;
use remuda_wire::{Event as Said, Order, Report};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts what each thread allocates.
struct Counting;

fn count() {
    ALLOCATIONS.with(|count| count.set(count.get() + 1));
}

// SAFETY: each call goes to the system's allocator as it came; the counter is a thread's own and
// needs no memory.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as the trait says; the caller keeps the contract.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as the trait says; the caller keeps the contract.
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and `at` came from `System`.
        unsafe { System.dealloc(at, layout) }
    }

    // SAFETY: as the trait says; the caller keeps the contract.
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `realloc`, and `at` came from `System`.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Reports of each flow that do not count: buffers find their size.
const WARM_UP: u64 = 500;
/// Bounded buffers grow with need, by doubling: the guard's of a flow's last 256 reports, that of
/// `nimbus` of ten seconds. They may double this often after the warm-up.
const GROWTHS_MAX: u64 = 4;
/// These take no memory at all.
const STRICT: [&str; 5] = ["reno", "cubic", "bbr", "copa", "rein"];
/// Drivers whose decisions take memory, where others' take none: `verus` draws its curve once a
/// second, `anole` names its stages; policies leave samples and reasons, and build the next arm.
const AT_DECISIONS: [&str; 8] =
    ["verus", "anole", "antelope", "tcp_rl", "sampler", "random", "epsilon_greedy", "linucb"];
/// At how many reports in a hundred at most.
const AT_DECISIONS_PERCENT_MAX: u64 = 5;

/// Takes orders as the BPF datapath's slots do: values, no bytes.
#[derive(Default)]
struct Slots {
    orders: u64,
    sum: u64,
}

impl Obey for Slots {
    fn order(&mut self, _peer: &Peer, order: &Order<'_>) -> Result<(), String> {
        self.orders += 1;
        if let Order::Run { updates, .. } | Order::Update { updates, .. } = *order {
            self.sum = updates.iter().fold(self.sum, |sum, it| sum.wrapping_add(it.value));
        }
        Ok(())
    }
}

/// Counts events, which policies may make at their decisions.
#[derive(Clone, Default)]
struct Count(Arc<AtomicU64>);

impl Recorder for Count {
    fn record(&mut self, _flow: Option<u32>, _event: &Event) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a driver's reports took after the warm-up.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    reports: u64,
    orders: u64,
    /// Reports that took memory, and made no event.
    allocated: u64,
    /// Reports that took memory, and made an event: the guard changes a decision, a policy decides,
    /// a flow leaves its opinion of a destination.
    with_event: u64,
}

fn taken(driver: &str) -> Taken {
    let setup = recorded::setup();
    let entries = recorded::events(driver, &setup);
    let now_us = Arc::new(AtomicU64::new(0));
    let clock = Clock::Manual(Arc::clone(&now_us));
    let events = Count::default();
    let mut host = Host::with_clock((*setup).clone(), Box::new(events.clone()), clock);
    let mut slots = Slots::default();
    let mut seen = HashMap::<u32, u64>::new();
    let mut taken = Taken::default();
    for entry in &entries {
        now_us.store(entry.at_us, Ordering::Relaxed);
        let sid = entry.sid;
        let event = match &entry.entered {
            Entered::Created { create, info } => Said::Created { sid, create, info: Some(info) },
            Entered::Report { uid, fields, signals } => {
                *seen.entry(sid).or_default() += 1;
                Said::Report(Report { sid, uid: *uid, fields, signals: Some(*signals) })
            }
            Entered::Closed => Said::Closed { sid },
            Entered::Wake => continue,
        };
        let is_report = matches!(event, Said::Report(_));
        let (events_before, orders_before) = (events.0.load(Ordering::Relaxed), slots.orders);
        let before = ALLOCATIONS.get();
        host.event(&mut slots, &Peer::Bpf, event);
        let allocations = ALLOCATIONS.get() - before;
        if is_report && seen.get(&sid).is_some_and(|reports| *reports > WARM_UP) {
            let made_event = events.0.load(Ordering::Relaxed) > events_before;
            taken.reports += 1;
            taken.orders += slots.orders - orders_before;
            taken.allocated += u64::from(allocations > 0 && !made_event);
            taken.with_event += u64::from(allocations > 0 && made_event);
        }
    }
    assert_eq!(host.counts.stale_reports, 0, "{driver}");
    taken
}

#[test]
fn a_report_allocates_nothing() {
    for driver in catalogue::names() {
        let taken = taken(driver);
        println!("{driver}: {taken:?}");
        let Taken { reports, orders, allocated, with_event } = taken;
        assert!(reports > 500, "{driver}: {taken:?}");
        let holds = ["fixed", "remy"].contains(&driver); // remy's table ends at a window
        assert!(orders > 0 || holds, "{driver}: {taken:?}");
        // Each stage of `anole` is an event, two or three in five round trips.
        let rare = if driver == "anole" { 20 } else { 100 };
        assert!(with_event * rare <= reports, "{driver}: events are rare: {taken:?}");
        let most = match driver {
            _ if STRICT.contains(&driver) => 0,
            _ if AT_DECISIONS.contains(&driver) => reports * AT_DECISIONS_PERCENT_MAX / 100,
            _ => GROWTHS_MAX,
        };
        assert!(allocated <= most, "{driver}: {taken:?}");
    }
}
