//! All flows of the agent, of all datapaths, behind one lock.
//!
//! The run loop's thread steps the flows; the control socket's thread lists them and says what it
//! wants. What must reach a datapath happens only in the run loop's thread: the other one asks for
//! a *poke*, which the run loop delivers to the flow like a report.

mod prefer;

use crate::catalogue::{self, Kind};
use crate::companions::Companions;
use crate::config::Config;
use crate::events::{Event, Recorder};
use crate::flow::{Actuator, Context, Flow, Guarded, socket_name};
use crate::ipc::Peer;
use crate::online::Online;
use crate::prefer::{Preferences, Wants};
use crate::samples::Basket;
use crate::{Error, clock, decode};
use remuda_algorithms::units::Bytes;
use remuda_algorithms::{Abilities, Measurement, Why, native};
use remuda_selector::antelope::memory::{Memory, Network};
use remuda_wire::capability;
use remuda_wire::to_agent::{FlowInfo, Hello, Signals, State};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

/// A flow as its datapath numbers it.
pub type Key = (Peer, u32);

/// One row of `remuda flows`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The agent's number of the flow.
    pub id: u32,
    /// The datapath it runs in.
    pub datapath: String,
    pub local: String,
    pub remote: String,
    /// What drives it: an arm or a policy.
    pub driver: String,
    /// The arm that has it.
    pub arm: String,
    pub program: String,
    pub cwnd_pkts: u64,
    /// Pacing rate, in Mbit/s; `None` if the datapath derives it from the window.
    pub rate_mbit_per_sec: Option<f64>,
    /// Largest delivery rate of the last 10 s, in Mbit/s.
    pub delivery_mbit_per_sec: Option<f64>,
    /// Smoothed RTT, in milliseconds.
    pub srtt_ms: Option<f64>,
    /// Minimum RTT of the last 10 s, in milliseconds.
    pub rtt_min_ms: Option<f64>,
    pub lost_pkts: u64,
    /// Payload acknowledged, in bytes.
    pub acked_bytes: u64,
    pub reports: u64,
    pub switches: u64,
    /// `driven`, or `fallback` while its datapath controls it.
    pub state: String,
    /// What it is wanted to be good at.
    #[serde(default)]
    pub wants: Wants,
    /// Why it has the arm it has.
    pub why: String,
    /// From what that was derived. A feature with the name of an arm is what that arm is expected
    /// to earn, or to cost.
    pub features: Vec<(String, String)>,
    /// For how long it has had that arm, in seconds.
    pub arm_for_s: f64,
    /// What the guard did last; `None` if it has let all pass.
    pub guarded: Option<Guarded>,
}

/// Which flows an operator means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// One, by the agent's number.
    Flow(u32),
    /// Every running one, and those to come.
    All,
    New,
}

/// Counts of the whole agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Flows that started or were taken over.
    pub created: u64,
    pub closed: u64,
    pub reports: u64,
    /// Reports of a program the flow no longer runs, or with fields missing.
    pub stale_reports: u64,
    pub refused: u64,
}

pub struct Host {
    /// The configuration in force.
    pub config: Config,
    pub counts: Counts,
    /// What suited the destinations of flows.
    pub memory: Memory,
    /// Flows that the kernel would not take back at the end.
    pub flows_left: u64,
    pub samples: Basket,
    /// Which model is in force, and how it does; none where no other can be. Its lock is never
    /// taken with the host's held.
    pub online: Option<Arc<Mutex<Online>>>,
    recorder: Box<dyn Recorder>,
    flows: HashMap<Key, Flow>,
    keys: HashMap<u32, Key>,
    /// Flows whose sockets' cookies are known.
    cookies: HashMap<u64, Key>,
    announced: HashMap<Key, FlowInfo>,
    companions: Companions,
    preferences: Preferences,
    /// The datapaths that can run algorithms of their host's own.
    abilities: HashMap<Peer, Abilities>,
    /// What new flows got last that no author brought.
    default_of_ours: String,
    next_id: u32,
    pokes: Vec<Key>,
}

fn mbit_per_sec(rate: remuda_algorithms::units::Rate) -> f64 {
    rate.bytes_per_sec() as f64 * 8.0 / 1e6
}

fn ms(span: std::time::Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// Of a flow whose datapath has no `FLOW` message: the IPv4 of its `CREATE`, in whatever order.
fn info_of_create(create: &remuda_wire::to_agent::Create) -> FlowInfo {
    let [local, local_port, remote, remote_port] = create.addresses;
    let end = |address: u32, port: u32| {
        (IpAddr::V4(Ipv4Addr::from(address)), u16::try_from(port).unwrap_or(0))
    };
    FlowInfo {
        local: end(local, local_port),
        remote: end(remote, remote_port),
        mark: 0,
        cgroup_id: 0,
        ssthresh_bytes: 0,
        srtt_us: 0,
        rtt_min_us: 0,
        ecn: false,
        requested: create.cong_alg.clone(),
        cookie: 0,
    }
}

fn abilities(bits: u32) -> Abilities {
    let has = |bit| bits & bit != 0;
    Abilities {
        native: has(capability::NATIVE),
        pacing: has(capability::PACING),
        marks: has(capability::MARKS),
    }
}

impl Host {
    pub fn new(config: Config, recorder: Box<dyn Recorder>) -> Self {
        Self {
            default_of_ours: config.agent.default.clone(),
            preferences: Preferences::new(&config.prefer),
            memory: Memory::new(&config.memory),
            config,
            counts: Counts::default(),
            flows_left: 0,
            samples: Basket::default(),
            online: None,
            recorder,
            flows: HashMap::new(),
            keys: HashMap::new(),
            cookies: HashMap::new(),
            announced: HashMap::new(),
            companions: Companions::default(),
            abilities: HashMap::new(),
            next_id: 1,
            pokes: Vec::new(),
        }
    }

    /// Records an event of the agent itself.
    pub fn record(&mut self, event: &Event) {
        self.recorder.record(None, event);
    }

    /// Counts and records a message that was refused.
    pub fn refuse(&mut self, from: &Peer, reason: String) {
        self.counts.refused += 1;
        let refused = Event::Refused { from: from.to_string(), reason };
        self.recorder.record(None, &refused);
    }

    /// No program reports more often than this, in microseconds: the configured interval, or longer
    /// with many flows, so that all together keep below `reports_per_sec_max`.
    fn report_us(&self) -> u32 {
        let agent = &self.config.agent;
        let spread = self.flows.len() as u64 * 1_000_000 / agent.reports_per_sec_max;
        // in steps of a tenth, lest every new flow changes it for all
        let spread = spread / 10_000 * 10_000;
        u32::try_from((agent.report_interval_ms_min * 1_000).max(spread)).unwrap_or(u32::MAX)
    }

    /// A datapath says what it can do.
    pub fn greeted(&mut self, peer: &Peer, hello: &Hello) {
        let datapath = format!("{peer} {}", hello.name);
        let lacks = capability::missing(hello.capabilities);
        self.recorder.record(None, &Event::DatapathReady { datapath, lacks });
        self.abilities.insert(peer.clone(), abilities(hello.capabilities));
    }

    /// What a datapath can; one that has not greeted is CCP's own.
    fn abilities_of(&self, peer: &Peer) -> Abilities {
        self.abilities.get(peer).copied().unwrap_or_default()
    }

    /// Who the next `CREATE` of this flow is about.
    pub fn announce(&mut self, key: Key, info: FlowInfo) {
        self.announced.insert(key, info);
    }

    /// A flow starts, or is taken over.
    pub fn create(
        &mut self,
        key: &Key,
        create: &remuda_wire::to_agent::Create,
        actuator: &mut dyn Actuator,
    ) {
        self.close(key); // the same number again: the old flow is gone
        let info = self.announced.remove(key).unwrap_or_else(|| info_of_create(create));
        let abilities = self.abilities_of(&key.0);
        // To ask the kernel for an algorithm may load a module: not for whoever has no use for it.
        let usable = abilities.native || native::kernel_name(&create.cong_alg).is_none();
        let asked = usable && catalogue::kind_of(&create.cong_alg, &self.config).is_ok();
        let mut driver =
            if asked { create.cong_alg.clone() } else { self.config.agent.default.clone() };
        let mut built = catalogue::build(&driver, &self.config);
        if built.is_err() {
            driver.clone_from(&self.default_of_ours); // its author has just left
            built = catalogue::build(&driver, &self.config);
        }
        let controller = match built {
            Ok(controller) => controller,
            Err(error) => return self.refuse(&key.0, error.to_string()),
        };
        let mss = Bytes(create.mss_bytes.max(1).into());
        let cwnd = Bytes(create.init_cwnd_bytes.into());
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1).max(1);
        self.counts.created += 1;
        let now_ns = clock::monotonic_ns();
        let wish = self.preferences.wishes.take(key, info.cookie, now_ns);
        let (wants, by) = self.preferences.of(id, &info, wish);
        if info.cookie != 0 {
            self.cookies.insert(info.cookie, key.clone());
        }
        let mut flow = Flow::new(id, info, (cwnd, mss), (driver, controller), now_ns / 1_000);
        flow.path.datapath = abilities;
        flow.wish = wish;
        flow.prefer_from_start(wants, by);
        flow.recall(&mut self.memory, clock::monotonic_s());
        let report_us = self.report_us();
        let recorder = &mut *self.recorder;
        flow.start(&mut Context { config: &self.config, recorder, actuator, report_us });
        self.keys.insert(id, key.clone());
        self.flows.insert(key.clone(), flow);
    }

    /// Optional primitives of the report that comes next.
    pub fn signal(&mut self, key: &Key, signals: Signals) {
        if let Some(flow) = self.flows.get_mut(key) {
            flow.signals = Some(signals);
        }
    }

    /// A flow changed hands between us and its datapath, at that moment of the monotonic clock
    /// (us).
    pub fn state(&mut self, key: &Key, change: (State, u64), cwnd: Bytes) {
        if let Some(flow) = self.flows.get_mut(key)
            && flow.on_state(change, cwnd, &mut *self.recorder)
        {
            self.pokes.push(key.clone());
        }
    }

    /// A report, field by name.
    pub fn report(
        &mut self,
        key: &Key,
        field: impl Fn(&'static str) -> Option<u64>,
        actuator: &mut dyn Actuator,
    ) {
        let report_us = self.report_us();
        let Some(flow) = self.flows.get_mut(key) else {
            return;
        };
        self.counts.reports += 1;
        let to = flow.info.remote.0;
        flow.companions = self.companions.beside(to, &flow.driver, flow.id, clock::monotonic_us());
        let recorder = &mut self.samples.beside(&mut *self.recorder);
        let mut ctx = Context { config: &self.config, recorder, actuator, report_us };
        let taken = if flow.is_foreign() {
            let fields: Option<Vec<u64>> =
                flow.own_fields().iter().map(|name| field(name)).collect();
            fields.map(|fields| flow.on_foreign_report(&fields, &mut ctx))
        } else {
            let m = decode::measurement(field, flow.own_fields(), flow.signals.as_ref());
            m.map(|m| flow.on_report(&m, &mut ctx))
        };
        match taken {
            Some(()) => {
                flow.jump_in_time(&mut self.memory, clock::monotonic_s(), &mut ctx);
                flow.leave_in_time(&mut self.memory, clock::monotonic_s(), &mut *self.recorder)
            }
            None => self.counts.stale_reports += 1,
        }
    }

    /// Arms whose authors have left are no more: what new flows get is then what it was before.
    pub fn authors_went(&mut self) {
        let arms = self.config.authors.remove_ended();
        if arms.is_empty() {
            return;
        }
        self.recorder.record(None, &Event::AuthorWent { arms: arms.clone() });
        if arms.contains(&self.config.agent.default.as_str()) {
            let to = self.default_of_ours.clone();
            let from = std::mem::replace(&mut self.config.agent.default, to.clone());
            self.recorder.record(None, &Event::DefaultChanged { from, to });
        }
        self.answered(&arms);
    }

    /// Flows of these arms may have an answer: they are poked.
    pub fn answered(&mut self, arms: &[&'static str]) {
        let due = self.flows.iter().filter(|(_, flow)| arms.contains(&flow.arm()));
        self.pokes.extend(due.map(|(key, _)| key.clone()));
    }

    /// A poke that the run loop delivers.
    pub fn poke(&mut self, key: &Key, actuator: &mut dyn Actuator) {
        let report_us = self.report_us();
        if let Some(flow) = self.flows.get_mut(key) {
            let recorder = &mut *self.recorder;
            flow.on_poke(&mut Context { config: &self.config, recorder, actuator, report_us });
        }
    }

    pub fn close(&mut self, key: &Key) {
        if let Some(mut flow) = self.flows.remove(key) {
            self.counts.closed += 1;
            self.keys.remove(&flow.id);
            if self.cookies.get(&flow.info.cookie) == Some(key) {
                self.cookies.remove(&flow.info.cookie);
            }
            self.preferences.ended(flow.id);
            self.companions.ended(flow.info.remote.0, flow.id);
            flow.leave_for_good(&mut self.memory, clock::monotonic_s(), &mut *self.recorder);
            flow.end(&mut *self.recorder);
            if flow.is_sampled {
                self.samples.end(flow.id);
            }
        }
    }

    /// What the flows leave when the agent does.
    pub fn leave_all(&mut self) {
        let now_s = clock::monotonic_s();
        for flow in self.flows.values_mut() {
            flow.leave_for_good(&mut self.memory, now_s, &mut *self.recorder);
        }
    }

    /// Forgets the destinations in that network, or all. Returns how many addresses and networks
    /// that were.
    pub fn forget(&mut self, of: Option<&Network>) -> usize {
        let destinations = match of {
            Some(network) => self.memory.forget(network),
            None => self.memory.forget_all(),
        };
        let of = of.map_or_else(|| "all".to_owned(), ToString::to_string);
        self.record(&Event::Forgot { of, destinations: destinations as u64 });
        destinations
    }

    /// Gives a destination an initial window of its own, in segments; 0: none.
    pub fn set_initial_cwnd(&mut self, of: Network, pkts: u32) -> Result<(), Error> {
        let done = self.memory.set_initial_cwnd(of, pkts, clock::monotonic_s());
        done.map_err(|error| Error::Refused(error.to_string()))?;
        self.record(&Event::InitialCwndSet { of: of.to_string(), initial_cwnd_pkts: pkts });
        Ok(())
    }

    /// Every flow of a datapath that begins anew, or is gone.
    pub fn close_flows(&mut self, peer: &Peer) {
        let gone: Vec<Key> = self.flows.keys().filter(|key| key.0 == *peer).cloned().collect();
        for key in &gone {
            self.close(key);
        }
        self.announced.retain(|key, _| key.0 != *peer);
    }

    /// A datapath is gone.
    pub fn close_all(&mut self, peer: &Peer) {
        self.close_flows(peer);
        self.abilities.remove(peer);
    }

    /// Whether the flow is known.
    pub fn knows(&self, key: &Key) -> bool {
        self.flows.contains_key(key)
    }

    /// The flows to poke, once each.
    pub fn take_pokes(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.pokes)
    }

    /// An operator's order. Returns how many running flows it concerns.
    pub fn set(&mut self, target: Target, name: &str) -> Result<usize, Error> {
        let kind = catalogue::kind_of(name, &self.config)?;
        let what = if kind == Kind::Arm { "pinned by an operator" } else { "an operator's policy" };
        let keys: Vec<Key> = match target {
            Target::New => Vec::new(),
            Target::All => self.flows.keys().cloned().collect(),
            Target::Flow(id) => {
                let key = self.keys.get(&id).ok_or_else(|| Error::no_flow(id))?;
                vec![key.clone()]
            }
        };
        if !matches!(target, Target::Flow(_)) {
            let from = std::mem::replace(&mut self.config.agent.default, name.to_owned());
            if !self.config.authors.names().contains(&name) {
                name.clone_into(&mut self.default_of_ours);
            }
            let changed = Event::DefaultChanged { from, to: name.to_owned() };
            self.recorder.record(None, &changed);
        }
        for key in &keys {
            if let Some(flow) = self.flows.get_mut(key) {
                flow.wanted = Some((name.to_owned(), Why::because(what)));
            }
        }
        self.pokes.extend(keys.iter().cloned());
        Ok(keys.len())
    }

    /// The live flows, in the order they came.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.flows.iter().map(|(key, flow)| row(&key.0, flow)).collect();
        rows.sort_by_key(|row| row.id);
        rows
    }
}

fn row(peer: &Peer, flow: &Flow) -> Row {
    let features = flow.why.features.iter();
    let Measurement { cwnd, .. } = flow.last;
    let cwnd = if cwnd == Bytes(0) { flow.decision.cwnd } else { cwnd };
    Row {
        id: flow.id,
        datapath: peer.to_string(),
        local: socket_name(flow.info.local).to_string(),
        remote: socket_name(flow.info.remote).to_string(),
        driver: flow.driver.clone(),
        arm: flow.arm().to_owned(),
        program: flow.program().map(|program| program.0.to_owned()).unwrap_or_default(),
        cwnd_pkts: cwnd.to_packets(flow.path.mss).0,
        rate_mbit_per_sec: flow.decision.rate.map(mbit_per_sec),
        delivery_mbit_per_sec: flow.path.delivery_rate().map(mbit_per_sec),
        srtt_ms: flow.path.srtt.map(ms),
        rtt_min_ms: flow.path.rtt_min().map(ms),
        lost_pkts: flow.totals.lost_pkts,
        acked_bytes: flow.totals.acked_bytes,
        reports: flow.totals.reports,
        switches: flow.totals.switches,
        state: if flow.fell_back { "fallback" } else { "driven" }.to_owned(),
        wants: flow.wants,
        why: flow.why.text.clone(),
        features: features.map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        arm_for_s: flow.arm_for().as_secs_f64(),
        guarded: flow.guarded(),
    }
}
