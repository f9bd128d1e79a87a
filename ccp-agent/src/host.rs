//! The agent's state behind one lock: flows, and the orders of operators and applications.
//!
//! The run loop's thread handles messages of datapaths. The control socket's thread lists flows and
//! notes orders. Only the run loop sends to a datapath: the control thread adds a flow to the list
//! of *pokes*, and the run loop then carries out that flow's orders.

mod peers;
mod prefer;
#[cfg(test)]
mod rig;
mod rules;

use crate::admission::{RefusedRow, RefusedSockets};
use crate::catalogue::Kind;
use crate::clock::{self, Clock};
use crate::counts::Counts;
use crate::datapath::{Agent, Key, Obey, Peer, Refusals};
use crate::events::{Event, Recorder};
use crate::flow::{Driver, Flow, Life, Row, Start};
use crate::flows::{Flows, Step};
use crate::iw::Iw;
use crate::iw::collector::Collector;
use crate::learning::Trust;
use crate::metrics::Snapshot;
use crate::online::Online;
use crate::prefer::Preferences;
use crate::rules::{Book, Group, Reach, Ruled};
use crate::samples::buffer::SampleBuffer;
use crate::{Config, Error, Setup, programs};
use peers::{Peers, Refused};
use remuda_algorithms::units::Bytes;
use remuda_algorithms::{Abilities, Why, native};
use remuda_selector::antelope::memory::{LeftOutRow, Memory, Network};
use remuda_wire::to_agent::{Create, FlowInfo, Hello};
use remuda_wire::{Event as DatapathEvent, Order, Response, capability};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The flows that an operator's order is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// One flow, by the agent's number.
    Flow(u32),
    /// Every running flow, and every new one.
    All,
    New,
}

/// What flows did not teach since the agent started, by user and reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotLearned {
    /// How often a flow had found out what suits its destination.
    pub destinations: Vec<LeftOutRow>,
    pub samples: Vec<LeftOutRow>,
}

pub struct Host {
    /// The configuration in force, and what is loaded and connected.
    pub setup: Setup,
    pub counts: Counts,
    pub samples: SampleBuffer,
    /// The model in force and how well it predicts; `None` where models are not replaced. Take its
    /// lock before the host's, never while holding the host's.
    pub online: Option<Arc<Mutex<Online>>>,
    /// Records of responses, on their way to the learner of initial windows.
    pub responses: Collector,
    /// The learner of initial windows, if it runs. Take its lock before the host's, never while
    /// holding the host's.
    pub iw: Option<Arc<Mutex<Iw>>>,
    recorder: Box<dyn Recorder>,
    trust: Trust,
    refused_sockets: RefusedSockets,
    flows: Flows,
    /// The agent's flow numbers.
    ids: HashMap<Key, u32>,
    keys: HashMap<u32, Key>,
    /// Flow numbers by socket cookie, for flows whose cookie is known.
    cookies: HashMap<u64, u32>,
    preferences: Preferences,
    rules: Book,
    peers: Peers,
    /// The default driver of the configuration.
    configured_default: String,
    /// The default driver to go back to when the author of the current default leaves.
    default_of_ours: String,
    next_id: u32,
    pokes: Vec<u32>,
    clock: Clock,
}

/// Describes a flow whose datapath sends no `FLOW` message, by the IPv4 addresses of `CREATE`.
fn info_of_create(create: &Create) -> FlowInfo {
    let [local, local_port, remote, remote_port] = create.addresses;
    let end = |address: u32, port: u32| {
        (IpAddr::V4(Ipv4Addr::from(address)), u16::try_from(port).unwrap_or(0))
    };
    FlowInfo {
        requested: create.cong_alg.clone(),
        ..FlowInfo::between(end(local, local_port), end(remote, remote_port))
    }
}

/// What the rules of an agent of this configuration reach.
fn reach(config: &Config) -> Reach {
    Reach {
        name: config.agent.name.clone(),
        takes_default: config.agent.take_default,
        attached: config.cgroups(),
    }
}

impl Host {
    pub fn new(setup: impl Into<Setup>, recorder: Box<dyn Recorder>) -> Self {
        Self::with_clock(setup, recorder, Clock::Monotonic)
    }

    /// A host that takes the time from `clock`.
    pub fn with_clock(setup: impl Into<Setup>, recorder: Box<dyn Recorder>, clock: Clock) -> Self {
        let setup = setup.into();
        let config = &setup.config;
        Self {
            configured_default: config.agent.default.clone(),
            default_of_ours: config.agent.default.clone(),
            preferences: Preferences::new(&config.prefer),
            rules: Book::new(&config.rules, reach(config)),
            flows: Flows::new(config),
            // The configuration is checked, so every name in it is that of a user.
            trust: config.learning.resolve().unwrap_or_default(),
            samples: SampleBuffer::new(config.learning.user_samples_per_min_max),
            responses: Collector::new(&config.iw),
            iw: None,
            refused_sockets: RefusedSockets::default(),
            setup,
            counts: Counts::default(),
            online: None,
            recorder,
            ids: HashMap::new(),
            keys: HashMap::new(),
            cookies: HashMap::new(),
            peers: Peers::default(),
            next_id: 1,
            pokes: Vec::new(),
            clock,
        }
    }

    /// Numbers flows on from `newest`, so that a log has each number once.
    pub fn number_after(&mut self, newest: u32) {
        self.next_id = newest.wrapping_add(1).max(1);
    }

    pub fn memory(&self) -> &Memory {
        self.flows.memory()
    }

    pub fn memory_mut(&mut self) -> &mut Memory {
        self.flows.memory_mut()
    }

    pub fn record(&mut self, event: &Event) {
        self.recorder.record(None, event);
    }

    /// Handles a datapath's `HELLO`.
    fn greeted(&mut self, peer: &Peer, hello: &Hello) {
        let datapath = format!("{peer} {}", hello.name);
        let lacks = capability::missing(hello.capabilities);
        self.recorder.record(None, &Event::DatapathReady { datapath, lacks });
        self.peers.greeted(peer, hello);
    }

    /// Whether there is an arm or policy of this name that a datapath of these abilities can run
    /// and that is not denied.
    fn is_usable(&self, name: &str, abilities: Abilities) -> bool {
        // Looking up a kernel algorithm may load a module. So do it only for a datapath that can
        // use one.
        let is_possible = abilities.native || native::kernel_name(name).is_none();
        let is_denied = self.setup.config.guard.denies(name);
        is_possible && !is_denied && self.setup.kind_of(name).is_ok()
    }

    /// The rule that counts for a flow; what drives the flow: the rule's driver, what its socket
    /// asks for, or the default; and why. A rule whose driver cannot drive the flow does not count.
    fn driven_by(&mut self, info: &FlowInfo, abilities: Abilities) -> (Option<Ruled>, String, Why) {
        let ruled = self.rules.of(info);
        let named = ruled.as_ref().and_then(|ruled| Some((ruled, ruled.driver()?)));
        let unusable = named.filter(|(_, driver)| !self.is_usable(driver, abilities));
        if let (Some((ruled, driver)), None) = (named, unusable) {
            let (driver, why) = (driver.to_owned(), Why::because(ruled.to_string()));
            return (Some(ruled.clone()), driver, why);
        }
        let why = match (&ruled, unusable) {
            (_, Some((rule, it))) => format!("{rule} names {it}, which cannot drive this flow"),
            (Some(control), None) => control.to_string(),
            (None, None) => "the agent's default".to_owned(),
        };
        let (requested, default) = (&info.requested, &self.setup.config.agent.default);
        let driver = if self.is_usable(requested, abilities) { requested } else { default };
        let (driver, counts) = (driver.clone(), unusable.is_none());
        (ruled.filter(|_| counts), driver, Why::because(why))
    }

    /// Builds the driver of a new flow.
    fn driver(&self, name: String) -> Result<(String, Driver), Error> {
        match Driver::build(&name, &self.setup) {
            Ok(controller) => Ok((name, controller)),
            // The author of the default has left since.
            Err(_) => {
                let driver = self.default_of_ours.clone();
                Driver::build(&driver, &self.setup).map(|controller| (driver, controller))
            }
        }
    }

    /// Handles a flow that starts or is taken over.
    fn create(&mut self, key: Key, create: &Create, info: Option<&FlowInfo>, step: Now<'_>) {
        self.close(&key); // a reused number: the old flow has ended
        if self.peers.is_full(&key.0) {
            return self.refuse_flow(&key.0, step.now_us);
        }
        let mut info = info.cloned().unwrap_or_else(|| info_of_create(create));
        if info.requested.is_empty() {
            // A datapath that describes the flow may name the algorithm in its `CREATE` alone.
            info.requested.clone_from(&create.cong_alg);
        }
        let abilities = self.peers.abilities(&key.0);
        let (ruled, name, why) = self.driven_by(&info, abilities);
        let (driver, controller) = match self.driver(name) {
            Ok(driven) => driven,
            Err(error) => return self.refused(&key.0, error.to_string()),
        };
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1).max(1);
        self.counts.created += 1;
        let wish = self.preferences.wishes.take(&key, info.cookie, step.now_us * 1_000);
        let (wants, by) = self.preferences.of(id, &info, wish);
        if let Some(ruled) = &ruled {
            self.rules.count(ruled);
        }
        if info.cookie != 0 {
            self.cookies.insert(info.cookie, id);
        }
        let (uid, is_believed) = (info.origin.uid, self.trust.believes(&key.0, &info.origin));
        self.recorder.begin(id, uid);
        self.samples.begin(id, uid, is_believed);
        let start = Start {
            id,
            is_believed,
            sid: key.1,
            info,
            cwnd: Bytes(create.init_cwnd_bytes.into()),
            mss: Bytes(create.mss_bytes.max(1).into()),
            abilities,
            at_us: step.now_us,
        };
        let mut flow = Flow::new(start, driver, controller);
        flow.set_wish(wish);
        flow.prefer_from_start(wants, by);
        flow.rule_from_start(ruled, why);
        self.peers.started(&key.0);
        self.keys.insert(id, key.clone());
        self.ids.insert(key, id);
        let Self { flows, setup, recorder, .. } = self;
        flows.start(flow, step.with(setup, &mut **recorder));
    }

    /// Counts a flow that its datapath has no right to.
    fn refuse_flow(&mut self, peer: &Peer, now_us: u64) {
        self.counts.flows_refused += 1;
        let Some(Refused { flows_max, refused }) = self.peers.refuse(peer, now_us) else { return };
        let datapath = peer.to_string();
        tracing::warn!(datapath, flows_max, refused, "more flows than the datapath may have");
        self.record(&Event::FlowsRefused { datapath, flows_max, refused });
    }

    /// Handles a report. Returns false if this agent does not know the flow.
    fn report(&mut self, key: &Key, report: &remuda_wire::Report<'_>, step: Now<'_>) -> bool {
        let Some(id) = self.ids.get(key) else {
            self.counts.stale_reports += 1;
            return false;
        };
        self.counts.reports += 1;
        let Self { flows, setup, recorder, samples, .. } = self;
        let mut recorder = samples.recorder(&mut **recorder);
        if !flows.report(*id, report, step.with(setup, &mut recorder)) {
            self.counts.stale_reports += 1;
        }
        true
    }

    /// Removes the arms of authors that have left. If one was the default, new flows get the
    /// former default.
    pub fn authors_went(&mut self) {
        let arms = self.setup.authors.remove_ended();
        if arms.is_empty() {
            return;
        }
        self.recorder.record(None, &Event::AuthorWent { arms: arms.clone() });
        if arms.contains(&self.setup.config.agent.default.as_str()) {
            let to = self.default_of_ours.clone();
            let from = std::mem::replace(&mut self.setup.config.agent.default, to.clone());
            self.recorder.record(None, &Event::DefaultChanged { from, to });
        }
        self.answered(&arms);
    }

    /// Pokes the flows of these arms, because their author may have answered.
    pub fn answered(&mut self, arms: &[&'static str]) {
        let due = self.flows.iter().filter(|flow| arms.contains(&flow.arm()));
        self.pokes.extend(due.map(Flow::id));
    }

    /// Carries out the orders noted for flows since the last call. `reach(peer, act)` calls `act`
    /// with the datapath of `peer`.
    pub fn poke(
        &mut self,
        mut reach: impl FnMut(&Peer, &mut dyn FnMut(&mut dyn Obey)),
        now_us: u64,
    ) {
        for id in std::mem::take(&mut self.pokes) {
            let Some(key) = self.keys.get(&id).cloned() else { continue };
            reach(&key.0, &mut |datapath| {
                self.ordering(datapath, &key.0, |host, orders| {
                    let Self { flows, setup, recorder, .. } = host;
                    flows.poke(id, Now { now_us, orders }.with(setup, &mut **recorder));
                });
            });
        }
    }

    /// For how long the run loop may let reports wait, so that it answers several at once. Zero
    /// means that the run loop should answer at once.
    pub fn pause(&mut self, now_us: u64) -> Duration {
        self.flows.pause(now_us)
    }

    /// When the next flow is to be woken, in microseconds of the monotonic clock.
    pub fn wake_us(&self) -> Option<u64> {
        self.flows.wake_us()
    }

    /// Wakes the flows whose arms' timers are due. `reach` is that of [`Self::poke`].
    pub fn wake(
        &mut self,
        mut reach: impl FnMut(&Peer, &mut dyn FnMut(&mut dyn Obey)),
        now_us: u64,
    ) {
        // No flow is due twice in one call: a flow's wakes lie a millisecond apart.
        while let Some(id) = self.flows.take_due(now_us) {
            let Some(key) = self.keys.get(&id).cloned() else { continue };
            reach(&key.0, &mut |datapath| {
                self.ordering(datapath, &key.0, |host, orders| {
                    let Self { flows, setup, recorder, .. } = host;
                    flows.wake(id, Now { now_us, orders }.with(setup, &mut **recorder));
                });
            });
        }
    }

    /// Runs `act` with a function that sends orders to `peer`, and records each refused order.
    fn ordering(
        &mut self,
        datapath: &mut dyn Obey,
        peer: &Peer,
        act: impl FnOnce(&mut Self, &mut crate::flow::Orders<'_>),
    ) {
        let mut refused = Vec::new();
        act(self, &mut |order| {
            if let Err(reason) = datapath.order(peer, order) {
                let is_change = matches!(order, Order::Run { .. } | Order::Native { .. });
                refused.push((order.sid().filter(|_| is_change), reason));
            }
        });
        for (sid, reason) in refused {
            self.refused(peer, reason);
            let id = sid.and_then(|sid| self.ids.get(&(peer.clone(), sid)).copied());
            if let Some(flow) = id.and_then(|id| self.flows.get_mut(id)) {
                flow.refuse_last_order();
                self.pokes.push(flow.id());
            }
        }
    }

    fn close(&mut self, key: &Key) {
        let Some(id) = self.ids.remove(key) else { return };
        self.peers.ended(&key.0);
        self.keys.remove(&id);
        self.preferences.ended(id);
        let Some(flow) = self.flows.end(id, self.clock.now_us(), &mut *self.recorder) else {
            return;
        };
        self.counts.closed += 1;
        if self.cookies.get(&flow.info().cookie) == Some(&id) {
            self.cookies.remove(&flow.info().cookie);
        }
        self.recorder.end(id);
        self.samples.forget(id);
        if flow.is_sampled() {
            self.samples.end(id);
        }
    }

    /// Says what is due in the event log.
    pub fn keep_house(&mut self) {
        self.refused_sockets.report(self.clock.now_us(), &mut *self.recorder);
        self.recorder.keep_house();
    }

    /// The sockets that the BPF datapath did not take as flows.
    pub fn refused_sockets(&self) -> Vec<RefusedRow> {
        self.refused_sockets.rows()
    }

    /// What flows did not teach, because of whose flows they were.
    pub fn not_learned(&self) -> NotLearned {
        NotLearned {
            destinations: self.memory().left_out().rows(),
            samples: self.samples.not_learned().rows(),
        }
    }

    /// Records how all flows end when the agent stops.
    pub fn leave_all(&mut self) {
        self.flows.leave_all(self.clock.now_us(), &mut *self.recorder);
    }

    /// Deletes the memory of the destinations in `of`, or of all. Returns how many addresses and
    /// networks were deleted.
    pub fn forget(&mut self, of: Option<&Network>) -> usize {
        let destinations = match of {
            Some(network) => self.memory_mut().forget(network),
            None => self.memory_mut().forget_all(),
        };
        let of = of.map_or_else(|| "all".to_owned(), ToString::to_string);
        self.record(&Event::Forgot { of, destinations: destinations as u64 });
        destinations
    }

    /// Records a response for the learner of initial windows.
    fn responded(&mut self, key: &Key, response: &Response) {
        let Some(flow) = self.ids.get(key).and_then(|id| self.flows.get(*id)) else { return };
        if let Some(record) = flow.record_of(response, clock::wall().as_secs()) {
            self.responses.put(record, flow.is_believed());
        }
    }

    /// Sets the initial window of flows to a prefix, in segments; 0 removes the setting.
    pub fn set_initial_cwnd(&mut self, of: Network, pkts: u32) -> Result<(), Error> {
        let done = self.memory_mut().set_initial_cwnd(of, pkts);
        done.map_err(|error| Error::Refused(error.to_string()))?;
        self.record(&Event::InitialCwndSet { of: of.to_string(), initial_cwnd_pkts: pkts });
        Ok(())
    }

    /// Closes all flows of a datapath that restarts or is gone.
    fn close_flows(&mut self, peer: &Peer) {
        let gone: Vec<Key> = self.ids.keys().filter(|key| key.0 == *peer).cloned().collect();
        for key in &gone {
            self.close(key);
        }
    }

    /// Gives flows another driver by an operator's order. Returns how many running flows change.
    pub fn set(&mut self, target: Target, name: &str) -> Result<usize, Error> {
        let kind = self.setup.kind_of(name)?;
        if self.setup.config.guard.denies(name) {
            let fix = "fix: remove it from guard.deny, and reload the configuration";
            return Err(Error::Refused(format!("guard.deny has {name:?}\n{fix}")));
        }
        let what = if kind == Kind::Arm { "pinned by an operator" } else { "an operator's policy" };
        let ids: Vec<u32> = match target {
            Target::New => Vec::new(),
            Target::All => self.keys.keys().copied().collect(),
            Target::Flow(id) if self.keys.contains_key(&id) => vec![id],
            Target::Flow(id) => return Err(Error::no_flow(id)),
        };
        if !matches!(target, Target::Flow(_)) {
            let from = std::mem::replace(&mut self.setup.config.agent.default, name.to_owned());
            if !self.setup.authors.names().contains(&name) {
                name.clone_into(&mut self.default_of_ours);
            }
            let changed = Event::DefaultChanged { from, to: name.to_owned() };
            self.recorder.record(None, &changed);
        }
        let why = Why::because(what);
        for id in &ids {
            if let Some(flow) = self.flows.get_mut(*id) {
                flow.pin();
            }
            self.flows.want(*id, name, &why);
        }
        self.pokes.extend(&ids);
        Ok(ids.len())
    }

    /// The default driver of the configuration, and the one of ours that is in force.
    pub fn defaults(&self) -> (&str, &str) {
        (&self.configured_default, &self.default_of_ours)
    }

    /// What a scrape of the metrics shows.
    pub fn snapshot(&self) -> Snapshot {
        let destinations = self.memory().len() as u64;
        let mut shown = Snapshot { counts: self.counts, destinations, ..Snapshot::default() };
        for (rule, [flows, control_flows]) in self.rules.counts() {
            shown.rule(rule, Group::Rule).started += flows;
            shown.rule(rule, Group::Control).started += control_flows;
        }
        for flow in self.flows.iter() {
            let rule = flow.ruled().map(|ruled| (&*ruled.name, ruled.group));
            shown.flow(flow.arm(), flow.fell_back(), rule);
        }
        shown.totals(self.flows.totals());
        shown
    }

    /// The running flows, in the order in which they started.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.flows.iter().map(|flow| self.row(flow)).collect();
        rows.sort_by_key(|row| row.id);
        rows
    }

    fn row(&self, flow: &Flow) -> Row {
        let datapath = self.keys.get(&flow.id()).map(|key| key.0.to_string());
        flow.row(&datapath.unwrap_or_default(), self.clock.now_us())
    }

    /// A running flow and its life so far.
    pub fn explain(&self, id: u32) -> Result<(Row, Life), Error> {
        let flow = self.flows.get(id).ok_or_else(|| Error::no_flow(id))?;
        Ok((self.row(flow), flow.life(self.clock.now_us())))
    }
}

impl Agent for Host {
    fn event(&mut self, datapath: &mut dyn Obey, peer: &Peer, event: DatapathEvent<'_>) {
        let now_us = self.clock.now_us();
        let key = |sid| (peer.clone(), sid);
        match event {
            DatapathEvent::Hello(hello) => {
                self.greeted(peer, hello);
                datapath.greeted(peer);
            }
            DatapathEvent::Ready => {
                self.close_flows(peer); // the datapath announces its live flows next
                self.ordering(datapath, peer, |host, orders| match programs::installs() {
                    Ok(installs) => installs.for_each(|install| orders(&Order::Install(install))),
                    Err(error) => host.refused(peer, error.to_string()),
                });
            }
            DatapathEvent::Created { sid, create, info } => {
                self.ordering(datapath, peer, |host, orders| {
                    host.create(key(sid), create, info, Now { now_us, orders });
                });
            }
            DatapathEvent::Report(report) => {
                let mut is_known = true;
                self.ordering(datapath, peer, |host, orders| {
                    is_known = host.report(&key(report.sid), &report, Now { now_us, orders });
                });
                // A full datapath would only announce the flows that are not taken.
                if !is_known && !self.peers.is_full(peer) {
                    datapath.resync(peer);
                }
            }
            DatapathEvent::State { sid, state, cwnd_bytes, at_us } => {
                let Some(id) = self.ids.get(&key(sid)).copied() else { return };
                let cwnd = Bytes(cwnd_bytes.into());
                if self.flows.state(id, state, at_us, cwnd, &mut *self.recorder) {
                    self.pokes.push(id);
                }
            }
            DatapathEvent::Response { sid, response } => self.responded(&key(sid), &response),
            DatapathEvent::Closed { sid } => self.close(&key(sid)),
        }
    }

    fn refused(&mut self, peer: &Peer, reason: String) {
        self.counts.refused += 1;
        self.recorder.record(None, &Event::Refused { from: peer.to_string(), reason });
    }

    fn lost(&mut self, peer: &Peer, reason: String) {
        self.close_flows(peer);
        self.peers.lost(peer);
        self.record(&Event::DatapathLost { datapath: peer.to_string(), reason });
    }

    fn sockets_refused(&mut self, refusals: Refusals) {
        self.counts.sockets_refused = refusals.sockets;
        self.refused_sockets.update(refusals);
    }
}

/// The time of a step, and the function that takes its orders.
struct Now<'a> {
    now_us: u64,
    orders: &'a mut crate::flow::Orders<'a>,
}

impl<'a> Now<'a> {
    fn with<'s>(self, setup: &'s Setup, recorder: &'s mut dyn Recorder) -> Step<'s>
    where
        'a: 's,
    {
        Step { setup, recorder, orders: self.orders, now_us: self.now_us }
    }
}
