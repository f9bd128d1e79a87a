//! Links, flows and timers under one clock.

use crate::Error;
use crate::control::Control;
use crate::decisions::Staged;
use crate::flow::TcpFlow;
use crate::packet::{Kind, Packet};
use crate::recording::Recording;
use crate::series::Series;
use crate::setup;
use crate::timers::{Event, Timers};
use crate::unresponsive::Unresponsive;
use ccp_agent::{Config, Setup};
use remuda_algorithms::units::Bytes;
use remuda_algorithms::{Decision, Measurement, Sample};
use remuda_link::{Fate, Link, Nanos};
use remuda_scenarios::{Scenario, outcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const NEVER: u64 = u64::MAX;

/// A flow of either kind.
#[derive(Debug)]
pub enum Flow {
    Tcp(Box<TcpFlow>),
    /// One that does not listen.
    Unresponsive(Box<Unresponsive>),
}

/// The links, and when each has something to say.
#[derive(Debug)]
pub struct Links {
    pub all: Vec<Link<Packet>>,
    next_ns: Vec<u64>,
}

impl Links {
    pub fn new(all: Vec<Link<Packet>>) -> Self {
        let next_ns = vec![NEVER; all.len()];
        Self { all, next_ns }
    }

    fn push(&mut self, link: u16, packet: Packet, now_ns: u64) {
        let link = usize::from(link);
        self.all[link].push(packet, Nanos(now_ns));
        // What comes last to a link that keeps order changes nothing about what leaves it next.
        if self.next_ns[link] == NEVER || !self.all[link].keeps_order() {
            self.note(link);
        }
    }

    fn note(&mut self, link: usize) {
        self.next_ns[link] = self.all[link].next_event().map_or(NEVER, |at| at.0);
    }

    /// The link that is next, the first of several.
    fn next(&self) -> (u64, usize) {
        let mut first = (NEVER, 0);
        for (link, at_ns) in self.next_ns.iter().enumerate() {
            if *at_ns < first.0 {
                first = (*at_ns, link);
            }
        }
        first
    }
}

/// A scenario under way.
///
/// It is driven by [`run_until`](Self::run_until); between two calls, external flows may be told
/// what to do, and asked what they measured.
#[derive(Debug)]
pub struct Simulation {
    scenario: Scenario,
    links: Links,
    flows: Vec<Flow>,
    timers: Timers,
    series: Series,
    now_ns: u64,
    end_ns: u64,
    events: u64,
    /// Flows that have not come to their end.
    unfinished: usize,
}

impl Simulation {
    /// Builds it. Reads the traces.
    pub fn new(scenario: &Scenario) -> Result<Self, Error> {
        Self::with_setup(scenario, &Arc::new(Setup::default()))
    }

    /// Ready to run, with an agent of that setup.
    pub fn with_setup(scenario: &Scenario, setup: &Arc<Setup>) -> Result<Self, Error> {
        let (links, flows) = setup::build(scenario, setup)?;
        let mut timers = Timers::default();
        for (index, flow) in (0..).zip(&flows) {
            let (spec, start_ns) = match flow {
                Flow::Tcp(tcp) => (&tcp.spec, tcp.start_ns),
                Flow::Unresponsive(open) => (&open.spec, open.start_ns),
            };
            timers.set(start_ns, Event::Start, index);
            if let Some(stop_s) = spec.stop_s {
                timers.set((stop_s * 1e9) as u64, Event::Stop, index);
            }
        }
        let series = Series::new(scenario.sample_ms);
        if let Some(first_ns) = series.interval_ns() {
            timers.set(first_ns, Event::Sample, 0);
        }
        let end_ns = scenario.duration().0;
        let links = Links::new(links);
        Ok(Self {
            scenario: scenario.clone(),
            unfinished: flows.len(),
            links,
            flows,
            timers,
            series,
            now_ns: 0,
            end_ns,
            events: 0,
        })
    }

    pub fn now(&self) -> Nanos {
        Nanos(self.now_ns)
    }

    /// What the policy of that flow saw of its arms so far: training data. Empty for arms.
    pub fn samples(&self, flow: usize) -> &[Sample] {
        let Some(Flow::Tcp(tcp)) = self.flows.get(flow) else { return &[] };
        match &tcp.control {
            Control::Datapath(datapath) => datapath.agent().samples(),
            _ => &[],
        }
    }

    /// What the agent's event log would have of that flow: [`ccp_agent::events::Event::Closed`];
    /// `None` until the flow has ended.
    pub fn closed(&self, flow: usize) -> Option<&ccp_agent::events::Event> {
        let Some(Flow::Tcp(tcp)) = self.flows.get(flow) else { return None };
        match &tcp.control {
            Control::Datapath(datapath) => datapath.agent().decisions().closed.as_ref(),
            _ => None,
        }
    }

    /// The stages that the arms of that flow entered so far; empty for arms without stages.
    pub fn stages(&self, flow: usize) -> &[Staged] {
        let Some(Flow::Tcp(tcp)) = self.flows.get(flow) else { return &[] };
        match &tcp.control {
            Control::Datapath(datapath) => datapath.agent().stages(),
            _ => &[],
        }
    }

    /// Keeps, from now on, what enters the flows' agents and the orders that leave them.
    pub fn record(&mut self) -> Recording {
        let recording = Recording::default();
        for flow in &mut self.flows {
            if let Flow::Tcp(tcp) = flow
                && let Control::Datapath(datapath) = &mut tcp.control
            {
                datapath.record(recording.clone());
            }
        }
        recording
    }

    /// When it is over at the latest.
    pub fn end(&self) -> Nanos {
        Nanos(self.end_ns)
    }

    /// Whether its time is up, or every flow has come to its end.
    pub fn is_over(&self) -> bool {
        self.now_ns >= self.end_ns || self.unfinished == 0
    }

    /// How many flows there are.
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// Data packets sent by all flows.
    pub fn packets_sent(&self) -> u64 {
        let sent = |flow: &Flow| match flow {
            Flow::Tcp(tcp) => tcp.sender.counts.sent_pkts,
            Flow::Unresponsive(open) => open.sent_pkts.into(),
        };
        self.flows.iter().map(sent).sum()
    }

    /// Events worked off: what the cost of a simulation is in proportion to.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Works off all that happens up to and at `until`, but nothing after the end, or after that of
    /// the last flow: in how many slices it runs changes nothing.
    pub fn run_until(&mut self, until: Nanos) {
        self.run_some(until, u64::MAX);
    }

    /// As [`run_until`](Self::run_until), but no more than so many events. Says whether `until`
    /// was reached, or the end.
    pub fn run_some(&mut self, until: Nanos, events_max: u64) -> bool {
        let until_ns = until.0.min(self.end_ns);
        let events_end = self.events.saturating_add(events_max);
        while self.unfinished > 0 {
            if self.events >= events_end {
                return false;
            }
            let (link_ns, link) = self.links.next();
            let timer_ns = self.timers.next_ns();
            let at_ns = link_ns.min(timer_ns);
            if at_ns > until_ns {
                break;
            }
            self.now_ns = self.now_ns.max(at_ns);
            self.events += 1;
            if link_ns <= timer_ns {
                self.serve_link(link);
            } else if let Some((event, flow)) = self.timers.take() {
                self.fire(event, flow);
            }
        }
        if self.unfinished > 0 {
            self.now_ns = self.now_ns.max(until_ns);
        }
        true
    }

    fn serve_link(&mut self, link: usize) {
        let outcome = self.links.all[link].pop(Nanos(self.now_ns));
        self.links.note(link);
        if let Some(outcome) = &outcome
            && matches!(outcome.fate, Fate::Delivered { .. })
        {
            self.deliver(&outcome.packet);
        }
    }

    /// A packet has crossed a link: on to the next one of its route, or to its end.
    fn deliver(&mut self, packet: &Packet) {
        let hop = usize::from(packet.hop) + 1;
        let next = match &self.flows[packet.flow as usize] {
            Flow::Tcp(tcp) if packet.kind.goes_back() => tcp.back.get(hop),
            Flow::Tcp(tcp) => tcp.route.get(hop),
            Flow::Unresponsive(open) => open.route.get(hop),
        };
        match next {
            Some(link) => {
                let packet = Packet { hop: packet.hop + 1, ..*packet };
                self.links.push(*link, packet, self.now_ns);
            }
            None => self.arrive(packet),
        }
    }

    fn arrive(&mut self, packet: &Packet) {
        match (&mut self.flows[packet.flow as usize], packet.kind) {
            (Flow::Tcp(_), Kind::Ack) => self.acknowledge(packet),
            (Flow::Tcp(tcp), Kind::Syn) => {
                let answer = tcp.asked(self.now_ns, &mut self.timers);
                self.launch(answer);
            }
            (Flow::Tcp(_), Kind::Established) => {
                self.with_tcp(packet.flow, |tcp, now_ns, timers, out| {
                    tcp.established(packet, now_ns, timers, out);
                });
            }
            (Flow::Tcp(tcp), _) => {
                let ack = tcp.arrive(packet, self.now_ns, &mut self.timers);
                self.launch(ack);
            }
            (Flow::Unresponsive(open), _) => open.arrived_pkts += 1,
        }
    }

    /// An ACK, or a packet of a handshake, goes to the first link of its way.
    fn launch(&mut self, packet: Option<Packet>) {
        let Some(packet) = packet else { return };
        let Flow::Tcp(tcp) = &self.flows[packet.flow as usize] else { return };
        let way = if packet.kind.goes_back() { &tcp.back } else { &tcp.route };
        match way.first() {
            Some(link) => self.links.push(*link, packet, self.now_ns),
            None => self.arrive(&packet),
        }
    }

    fn acknowledge(&mut self, ack: &Packet) {
        self.with_tcp(ack.flow, |tcp, now_ns, timers, out| {
            tcp.acknowledge(ack, now_ns, timers, out);
        });
    }

    /// Lets a TCP flow act; what it sends goes to the first link of its route.
    fn with_tcp(
        &mut self,
        flow: u32,
        act: impl FnOnce(&mut TcpFlow, u64, &mut Timers, &mut dyn FnMut(Packet)),
    ) {
        let Self { flows, links, timers, now_ns, .. } = self;
        let Flow::Tcp(tcp) = &mut flows[flow as usize] else { return };
        let first = tcp.route[0];
        let mut out = |packet| links.push(first, packet, *now_ns);
        let was_over = tcp.is_over();
        act(tcp, *now_ns, timers, &mut out);
        if !was_over && tcp.is_over() {
            self.unfinished -= 1;
            tcp.control.end(*now_ns);
        }
    }

    fn fire(&mut self, event: Event, flow: u32) {
        let now_ns = self.now_ns;
        match event {
            Event::Start => self.start(flow),
            Event::Unresponsive => self.send_unresponsive(flow),
            Event::Sample => self.sample(),
            Event::Stop => self.stop(flow),
            Event::Loss => self.with_tcp(flow, |tcp, now, timers, out| {
                tcp.loss_timer(now, timers, out);
            }),
            Event::Pace => self.with_tcp(flow, |tcp, now, timers, out| {
                tcp.pace_timer(now, timers, out);
            }),
            Event::Wake => {
                self.with_tcp(flow, |tcp, now, timers, _| tcp.wake_timer(now, timers));
            }
            Event::App => self.with_tcp(flow, |tcp, now, timers, out| tcp.write(now, timers, out)),
            Event::Ack | Event::Access => {
                let Flow::Tcp(tcp) = &mut self.flows[flow as usize] else { return };
                let ack = match event {
                    Event::Ack => tcp.delayed_ack(now_ns, &mut self.timers),
                    _ => tcp.leave_access(now_ns, &mut self.timers),
                };
                self.launch(ack);
            }
            Event::Handshake => {
                let Flow::Tcp(tcp) = &mut self.flows[flow as usize] else { return };
                let again = tcp.handshake_timer(now_ns, &mut self.timers);
                self.launch(again);
            }
        }
    }

    fn start(&mut self, flow: u32) {
        match &mut self.flows[flow as usize] {
            Flow::Tcp(tcp) if tcp.is_established_before() => {
                self.with_tcp(flow, |tcp, now, timers, out| tcp.start(now, timers, out));
            }
            Flow::Tcp(tcp) => {
                let syn = tcp.ask(self.now_ns, &mut self.timers);
                self.launch(Some(syn));
            }
            Flow::Unresponsive(_) => self.send_unresponsive(flow),
        }
    }

    fn stop(&mut self, flow: u32) {
        match &mut self.flows[flow as usize] {
            Flow::Tcp(_) => self.with_tcp(flow, |tcp, now_ns, _, _| tcp.stop(now_ns)),
            Flow::Unresponsive(open) => {
                self.unfinished -= usize::from(!open.is_over());
                open.stop_ns = Some(self.now_ns);
            }
        }
    }

    fn send_unresponsive(&mut self, flow: u32) {
        let Flow::Unresponsive(open) = &mut self.flows[flow as usize] else { return };
        if open.is_over() {
            return;
        }
        let (packet, next_ns) = open.send(self.now_ns);
        self.unfinished -= usize::from(open.is_over());
        self.timers.set(next_ns, Event::Unresponsive, flow);
        self.links.push(open.route[0], packet, self.now_ns);
    }

    fn sample(&mut self) {
        for link in &mut self.links.all {
            link.advance(Nanos(self.now_ns));
        }
        self.series.look(self.now_ns, &self.flows, &self.links.all);
        if let Some(interval_ns) = self.series.interval_ns() {
            self.timers.set(self.now_ns + interval_ns, Event::Sample, 0);
        }
    }

    fn tcp(&self, flow: usize) -> Option<&TcpFlow> {
        match self.flows.get(flow)? {
            Flow::Tcp(tcp) => Some(tcp),
            Flow::Unresponsive(_) => None,
        }
    }

    /// For a flow whose driver is `external`: what is in force from now on. Of others, nothing.
    pub fn decide(&mut self, flow: usize, decision: Decision) {
        let Ok(index) = u32::try_from(flow) else { return };
        if self.tcp(flow).is_none() {
            return;
        }
        let has_started = self.tcp(flow).is_some_and(TcpFlow::has_started);
        self.with_tcp(index, |tcp, now_ns, timers, out| {
            tcp.control.decide(&mut tcp.sender, decision);
            if has_started {
                tcp.send(now_ns, timers, out);
            }
        });
    }

    /// Also measures a flow that an arm drives, for [`take_measurement`](Self::take_measurement).
    /// `timed_out` stays false in what it measures.
    pub fn watch(&mut self, flow: usize) {
        if let Some(Flow::Tcp(tcp)) = self.flows.get_mut(flow) {
            tcp.watch = Some(Box::default());
        }
    }

    /// Gives a flow that an arm drives to another arm or policy with its next report, as `switches`
    /// of a scenario do. An order that has not been carried out is replaced.
    pub fn order(&mut self, flow: usize, to: &str) {
        if let Some(Flow::Tcp(tcp)) = self.flows.get_mut(flow)
            && let Control::Datapath(datapath) = &mut tcp.control
        {
            datapath.order(to);
        }
    }

    /// For a flow whose driver is `external`, or that is watched: what was measured since the last
    /// call.
    pub fn take_measurement(&mut self, flow: usize) -> Measurement {
        match self.flows.get_mut(flow) {
            Some(Flow::Tcp(tcp)) => match &mut tcp.watch {
                Some(watch) => watch.take(&tcp.sender),
                None => tcp.control.take_measurement(&tcp.sender),
            },
            _ => Measurement::QUIET,
        }
    }

    /// The flow's smoothed RTT.
    pub fn srtt(&self, flow: usize) -> Option<Nanos> {
        self.tcp(flow)?.sender.rtt().smoothed_ns().map(Nanos)
    }

    /// The flow's minimum RTT.
    pub fn rtt_min(&self, flow: usize) -> Option<Nanos> {
        self.tcp(flow)?.sender.rtt().min_ns().map(Nanos)
    }

    /// Payload of the flow known to have arrived, SACKed segments among it (`tp->delivered`).
    pub fn delivered(&self, flow: usize) -> Bytes {
        self.tcp(flow).map_or(Bytes(0), |tcp| {
            Bytes(u64::from(tcp.sender.delivered_pkts()) * u64::from(tcp.sender.mss_bytes))
        })
    }

    pub fn cwnd(&self, flow: usize) -> Bytes {
        self.tcp(flow).map_or(Bytes(0), |tcp| {
            Bytes(u64::from(tcp.sender.cwnd_pkts) * u64::from(tcp.sender.mss_bytes))
        })
    }

    /// What has come of it so far.
    pub fn outcome(&self) -> outcome::Outcome {
        crate::summary::outcome(
            &self.scenario,
            &self.flows,
            (&self.links.all, self.now_ns),
            &self.series,
        )
    }
}

/// Runs a scenario to its end.
pub fn run(scenario: &Scenario) -> Result<outcome::Outcome, Error> {
    let mut simulation = Simulation::new(scenario)?;
    while !simulation.is_over() {
        let next = simulation.now() + Nanos::from_millis(1_000);
        simulation.run_until(next);
    }
    Ok(simulation.outcome())
}

/// How much is simulated between two looks at `stopped`.
const STEP: Nanos = Nanos::from_millis(100);
/// And how many events at most: a fast link has that many in much less than a step.
const STEP_EVENTS_MAX: u64 = 1_000_000;

/// What the text of an agent's configuration file sets up, with the tables and models that it
/// names. Relative paths are of the current folder.
///
/// # Errors
///
/// The text breaks a rule, or a file cannot be read.
pub fn configured(text: &str) -> Result<Arc<Setup>, Error> {
    let refuse = |error: ccp_agent::Error| Error::Config { rule: error.to_string() };
    let setup = Setup::from(Config::parse(text, "`config`").map_err(refuse)?);
    setup.config.arms.name_weights().map_err(refuse)?;
    setup.load().map_err(refuse)?;
    Ok(Arc::new(setup))
}

/// As [`run`], with an agent of that setup. `None` if `stopped` is set before it is over;
/// `advanced` hears of each so many simulated milliseconds.
pub fn run_unless(
    stopped: &AtomicBool,
    (scenario, setup): (&Scenario, &Arc<Setup>),
    mut advanced: impl FnMut(u64),
) -> Result<Option<outcome::Outcome>, Error> {
    let mut simulation = Simulation::with_setup(scenario, setup)?;
    let end = simulation.end();
    let mut at = Nanos::ZERO;
    while at < end && !simulation.is_over() {
        if stopped.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let until = (at + STEP).min(end);
        if simulation.run_some(until, STEP_EVENTS_MAX) {
            advanced(until.as_millis() - at.as_millis());
            at = until;
        }
    }
    advanced(end.as_millis() - at.as_millis());
    Ok(Some(simulation.outcome()))
}
