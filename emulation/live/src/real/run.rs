//! Runs a scenario on real TCP: its links between two network namespaces, and one socket pair for
//! each flow.
//!
//! Named drivers are arms and policies that an agent runs; `native:` drivers are the kernel's
//! algorithms. Flows that start with the scenario are connected before its time begins, as in the
//! simulator; later flows connect when they start. A flow is ended at its stop time or at the end
//! of the scenario, and bytes that arrive later do not count. Drivers and settings that only the
//! simulator supports are refused (`plan.rs`).

use crate::real::Error;
use crate::real::agents::Agents;
use crate::real::flow::{self, Ends, Shared, Socket};
use crate::real::plan::{Plan, PlannedFlow};
use crate::{Clock, Nanos, PathStats, Testbed};
use remuda_scenarios::Scenario;
use remuda_scenarios::outcome::{
    Engine, FlowOutcome, FlowSample, LinkOutcome, LinkSample, Outcome,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// In the same form as the simulator's outcome.
    pub outcome: Outcome,
    /// Packets lost by the host instead of the links. If it is above zero, the run is disturbed.
    pub lost_by_host: u64,
}

/// A flow and its state.
struct Slot {
    flow: PlannedFlow,
    arm: Arc<str>,
    ends: Option<Ends>,
    shared: Arc<Shared>,
    is_started: bool,
    /// The flow's state when it was ended.
    last: Option<Socket>,
}

#[derive(Default)]
struct Samples {
    flows: Vec<FlowSample>,
    links: Vec<LinkSample>,
}

/// How often the main thread checks whether the run should stop.
const LOOK: Duration = Duration::from_millis(100);

/// Runs a scenario. `agents` must have one agent for each arm and policy in it. Returns `None` if
/// `stopped` was set before the end.
///
/// # Errors
///
/// Errors of [`check`](crate::real::check()), of the system, of the testbed, and of a flow's
/// sockets.
pub fn run(
    scenario: &Scenario,
    agents: &Agents,
    stopped: &AtomicBool,
) -> Result<Option<Run>, Error> {
    let plan = Plan::of(scenario, |driver| agents.reached(driver))?;
    let mut testbed = Testbed::new(&plan.path)?;
    if plan.ecn {
        for end in [testbed.client(), testbed.server()] {
            end.set_sysctl("net.ipv4.tcp_ecn", "1")?;
        }
    }
    agents.forget()?;
    let mut slots = Vec::new();
    for flow in plan.flows.clone() {
        let at_once = flow.start == Duration::ZERO;
        let ends = at_once.then(|| Ends::connect(&flow, &testbed)).transpose()?;
        let (arm, shared) = (flow.arm().into(), Arc::default());
        slots.push(Slot { flow, arm, ends, shared, is_started: false, last: None });
    }
    testbed.reset_stats()?;
    let clock = Clock::start();
    let mut samples = Samples::default();
    let stats = thread::scope(|scope| {
        let with = (&testbed, clock, stopped);
        let stats = play(&plan, &mut slots, &mut samples, with, scope);
        // Also after an error, because the threads do not end by themselves.
        for slot in &mut slots {
            slot.cut(clock);
        }
        stats
    })?;
    let Some(stats) = stats else { return Ok(None) };
    for slot in &slots {
        if let Some(error) = slot.shared.take_error() {
            return Err(Error::doing(format!("run flow {}", slot.flow.spec.name))(error));
        }
    }
    Ok(Some(Run {
        lost_by_host: lost_by_host(&stats),
        outcome: outcome(scenario, &plan, &slots, samples, &stats),
    }))
}

/// Starts and ends each flow at its time, and takes samples. Returns the links' counters at the
/// end.
fn play<'scope, 'env>(
    plan: &'env Plan,
    slots: &mut [Slot],
    samples: &mut Samples,
    (testbed, clock, stopped): (&'env Testbed, Clock, &AtomicBool),
    scope: &'scope thread::Scope<'scope, 'env>,
) -> Result<Option<PathStats>, Error> {
    let mut sample_at = plan.sample;
    loop {
        if stopped.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let now = clock.elapsed();
        if now >= plan.duration {
            return Ok(Some(testbed.stats()?));
        }
        for slot in slots.iter_mut().filter(|slot| !slot.is_started && slot.flow.start <= now) {
            slot.is_started = true;
            let (flow, shared, ends) =
                (slot.flow.clone(), Arc::clone(&slot.shared), slot.ends.take());
            scope.spawn(move || flow::drive(&flow, ends, testbed, &shared, clock));
        }
        for slot in slots.iter_mut().filter(|slot| slot.flow.stop <= now) {
            slot.cut(clock);
        }
        if let Some(at) = sample_at.filter(|at| *at <= now) {
            sample(at, slots, samples, &testbed.stats()?, plan);
            sample_at = plan.sample.map(|every| at + every);
        }
        let starts = slots.iter().filter(|slot| !slot.is_started).map(|slot| slot.flow.start);
        let stops = slots.iter().filter(|slot| slot.last.is_none()).map(|slot| slot.flow.stop);
        let next = starts.chain(stops).chain(sample_at).chain([plan.duration]).min();
        let left = next.unwrap_or(plan.duration).saturating_sub(clock.elapsed());
        thread::sleep(left.min(LOOK));
    }
}

impl Slot {
    /// Records the flow's final state and ends the flow. Does nothing the second time.
    fn cut(&mut self, clock: Clock) {
        if self.last.is_none() {
            self.last = Some(self.shared.look(clock));
            self.shared.end();
        }
    }
}

fn sample(at: Duration, slots: &[Slot], samples: &mut Samples, stats: &PathStats, plan: &Plan) {
    let t_s = at.as_secs_f64();
    for (flow, slot) in (0..).zip(slots) {
        let Some(info) = slot.shared.tcp_info().filter(|_| slot.last.is_none()) else { continue };
        let pacing = info.tcpi_pacing_rate;
        samples.flows.push(FlowSample {
            t_s,
            flow,
            arm: Arc::clone(&slot.arm),
            cwnd_pkts: info.tcpi_snd_cwnd.into(),
            // All bits set: the flow is not paced.
            pacing_mbit_per_sec: (pacing != u64::MAX).then_some(pacing as f64 * 8.0 / 1e6),
            srtt_ms: (info.tcpi_rtt > 0).then_some(f64::from(info.tcpi_rtt) / 1e3),
            in_flight_pkts: flow::in_flight_pkts(&info),
            delivered_bytes: slot.shared.received_bytes(),
            retransmitted_pkts: info.tcpi_total_retrans.into(),
        });
    }
    for (link, name) in (0..).zip(&plan.links) {
        let link_stats = &plan.direction(stats, name).link;
        samples.links.push(LinkSample {
            t_s,
            link,
            queue_packets: link_stats.queue_packets,
            queue_bytes: link_stats.queue_bytes,
        });
    }
}

fn lost_by_host(stats: &PathStats) -> u64 {
    [&stats.up, &stats.down].into_iter().map(|it| it.lost_before_link + it.lost_after_link).sum()
}

fn outcome(
    scenario: &Scenario,
    plan: &Plan,
    slots: &[Slot],
    samples: Samples,
    stats: &PathStats,
) -> Outcome {
    let flows =
        (0..).zip(slots).map(|(flow, slot)| flow_outcome(flow, slot, &samples, plan, stats));
    let flows: Vec<_> = flows.collect();
    Outcome {
        scenario: scenario.name.clone(),
        engine: Engine::Live,
        seed: scenario.seed,
        duration_s: plan.duration.as_secs_f64(),
        packets: flows.iter().map(|flow| flow.sent_pkts).sum(),
        flows,
        links: plan.links.iter().map(|name| link_outcome(name, plan, stats)).collect(),
        flow_samples: samples.flows,
        link_samples: samples.links,
    }
}

/// The outcome of a flow. The kernel reports the minimum RTT and a smoothed RTT; the mean is that
/// of the sampled smoothed RTT. The kernel has no total of segments marked lost, so `lost_pkts` is
/// the number of retransmissions. One-way delays are those of all packets that the link carried in
/// the flow's direction.
fn flow_outcome(
    flow: u32,
    slot: &Slot,
    samples: &Samples,
    plan: &Plan,
    stats: &PathStats,
) -> FlowOutcome {
    let one_way = if slot.flow.is_upload { &stats.up } else { &stats.down }.one_way_delay;
    let one_way_ms = |value_ms: f64| (one_way.packets > 0).then_some(value_ms);
    let socket = slot.last.clone().unwrap_or_default();
    let started = socket.started.unwrap_or(slot.flow.start);
    let finished = socket.finished;
    let end = finished.unwrap_or(slot.flow.stop.min(plan.duration));
    let life_s = end.saturating_sub(started).as_secs_f64();
    let goodput = if life_s > 0.0 { socket.received as f64 * 8.0 / 1e6 / life_s } else { 0.0 };
    let rtts = samples.flows.iter().filter(|it| it.flow == flow).filter_map(|it| it.srtt_ms);
    let (count, sum) = rtts.fold((0.0, 0.0), |(count, sum), rtt| (count + 1.0, sum + rtt));
    let info = socket.info;
    let of = |field: fn(&libc::tcp_info) -> u64| info.as_ref().map_or(0, field);
    let rtt_us_min = of(|info| info.tcpi_min_rtt.into());
    FlowOutcome {
        flow,
        name: slot.flow.spec.name.clone(),
        driver: slot.flow.spec.driver.to_string(),
        arm: slot.arm.to_string(),
        start_s: started.as_secs_f64(),
        end_s: finished.map(|at| at.as_secs_f64()),
        delivered_bytes: socket.received,
        goodput_mbit_per_sec: goodput,
        sent_pkts: of(|info| info.tcpi_data_segs_out.into()),
        retransmitted_pkts: of(|info| info.tcpi_total_retrans.into()),
        lost_pkts: of(|info| info.tcpi_total_retrans.into()),
        timeouts: of(|info| info.tcpi_total_rto.into()),
        ecn_marked_pkts: of(|info| info.tcpi_delivered_ce.into()),
        rtt_min_ms: (rtt_us_min > 0 && rtt_us_min < u32::MAX.into())
            .then_some(rtt_us_min as f64 / 1e3),
        rtt_mean_ms: (count > 0.0).then_some(sum / count),
        rtt_p50_ms: None,
        rtt_p95_ms: None,
        rtt_p99_ms: None,
        one_way_mean_ms: one_way_ms(one_way.mean_ms),
        one_way_p50_ms: one_way_ms(one_way.p50_ms),
        one_way_p95_ms: one_way_ms(one_way.p95_ms),
        one_way_p99_ms: one_way_ms(one_way.p99_ms),
        reports: 0,
        switches: Vec::new(),
        decisions: Vec::new(),
        decisions_left_out: 0,
    }
}

fn link_outcome(name: &str, plan: &Plan, stats: &PathStats) -> LinkOutcome {
    let link = &plan.direction(stats, name).link;
    let queueing = &link.queueing_delay;
    LinkOutcome {
        name: name.to_owned(),
        packets_in: link.packets_in,
        packets_out: link.packets_out,
        bytes_out: link.bytes_out,
        dropped_pkts: link.dropped.total(),
        marked_pkts: link.ecn_marked,
        queueing_mean_ms: queueing.mean_ms,
        queueing_p50_ms: queueing.p50_ms,
        queueing_p95_ms: queueing.p95_ms,
        queueing_p99_ms: queueing.p99_ms,
        queueing_max_ms: queueing.max_ms,
        queue_packets_max: link.queue_packets_max,
    }
}

pub(crate) fn span(moment: Nanos) -> Duration {
    moment.into()
}
