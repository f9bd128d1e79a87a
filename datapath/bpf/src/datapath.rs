//! The datapath as the agent sees it: it takes orders and gives events. [`crate::messages`] does
//! the same with CCP messages, for an agent in another process.

use crate::admission::{self, Refused};
use crate::broker::{Client, Unreached};
use crate::cgroups::CgroupChange;
use crate::destinations::{Destinations, Reached, RememberedStart};
use crate::iterator;
use crate::kernel::Mapped;
use crate::layout::{self, Shared};
use crate::load::fixed_name;
use crate::maps::{Map, Ring};
use crate::native;
use crate::natives::Natives;
use crate::privileged::Privileged;
use crate::privileges::{Handles, Privileges, Registered, Started, Walked};
use crate::reconcile::{Announced, Walk};
use crate::settings::{Plan, Settings};
use crate::slots::{Run, Slots};
use crate::sockets::Sockets;
use crate::{Error, announce};
use remuda_wire::to_agent::Hello;
use remuda_wire::to_datapath::Update;
use remuda_wire::{Event, Order, PROTOCOL_VERSION, Program, Report, ToDatapath, capability};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::ptr::{read_volatile, write_volatile};
use std::sync::Arc;

/// How many records one drain takes, so that a flood of reports cannot keep the agent from its
/// heartbeat.
pub const DRAIN_RECORDS_MAX: usize = 256;

struct Installed {
    program: Program,
    /// The same program for the VM, which runs it for flows under the kernel's own algorithms.
    decoded: remuda_vm::Program,
    index: u32,
}

/// Takes the datapath's events. It gets the datapath as well, so that it can answer at once.
pub type Sink<'a> = dyn FnMut(&mut Datapath, Event<'_>) + 'a;

/// Linux TCP of this host, as a CCP datapath.
pub struct Datapath {
    events: Ring,
    reports: Ring,
    slots: Slots,
    shared: Mapped<Shared>,
    flows: Arc<Map>,
    refusals: Map,
    destinations: Destinations,
    /// What needs privileges, here or in another process.
    privileges: Box<dyn Privileges>,
    installed: HashMap<u32, Installed>,
    announced: Announced,
    walk: Walk,
    /// For each flow, the last program that the agent ordered (its uid) and the register values
    /// that came with the order.
    told: HashMap<u32, (u32, Vec<Update>)>,
    natives: Natives,
    /// Whether the kernel accepted the iterator over the flows when the object was loaded.
    can_look: bool,
    /// The link of the iterator over the flows; attached when the first flow goes to one of the
    /// kernel's own algorithms.
    looker: Option<OwnedFd>,
    looked_ns: u64,
    greeted: bool,
    flows_max: u32,
    name: String,
}

impl Datapath {
    /// Loads everything and attaches nothing. `now_ns` is CLOCK_MONOTONIC.
    pub fn load(settings: Settings, now_ns: u64) -> Result<Self, Error> {
        let privileged = Privileged::load(settings, now_ns)?;
        Self::over(privileged.handles()?, Box::new(privileged))
    }

    /// Loads and attaches everything that `plan` names. `now_ns` is CLOCK_MONOTONIC.
    pub fn start(plan: &Plan, now_ns: u64) -> Result<(Self, Started), Error> {
        let (privileged, started) = Privileged::start(plan, now_ns)?;
        Ok((Self::over(privileged.handles()?, Box::new(privileged))?, started))
    }

    /// Asks the broker at `socket` to load and attach everything. This process needs no privilege.
    pub fn connect(socket: &Path) -> Result<(Self, Started), Error> {
        let (client, handles, started) = Client::connect(socket)?;
        Ok((Self::over(handles, Box::new(client))?, started))
    }

    /// As [`Self::connect`], for the datapath that takes the place of one whose broker has gone.
    pub fn reconnect(socket: &Path, registered: Registered) -> Result<(Self, Started), Unreached> {
        let (client, handles, started) = Client::reconnect(socket, registered)?;
        let over = Self::over(handles, Box::new(client));
        let unreached = |error| Unreached { error, registered: Registered::default() };
        over.map(|datapath| (datapath, started)).map_err(unreached)
    }

    fn over(handles: Handles, privileges: Box<dyn Privileges>) -> Result<Self, Error> {
        let Handles { maps, name, can_look } = handles;
        let [slots, infos, shared, events, reports, refusals, destinations, flows] = maps;
        let slots = Map::new(slots, "the map of slots")?;
        let flows_max = slots.entries() as u32;
        Ok(Self {
            events: Ring::new(Map::new(events, "the ring of events")?)?,
            reports: Ring::new(Map::new(reports, "the ring of reports")?)?,
            slots: Slots::new(slots.mapped()?, Map::new(infos, "the map of infos")?.mapped()?),
            shared: Map::new(shared, "the map of counters")?.mapped()?,
            flows: Arc::new(Map::new(flows, "the map of flows")?),
            refusals: Map::new(refusals, "the map of refused sockets")?,
            destinations: Destinations::new(Map::new(destinations, "the map of destinations")?),
            privileges,
            installed: HashMap::new(),
            announced: Announced::new(flows_max),
            walk: Walk::default(),
            told: HashMap::new(),
            natives: Natives::new(fixed_name(&name)?),
            can_look,
            looker: None,
            looked_ns: 0,
            greeted: false,
            flows_max,
            name,
        })
    }

    /// The name that sockets give to `TCP_CONGESTION`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the broker has gone. Flows go on, and nothing that needs privileges can be asked.
    pub fn is_orphaned(&mut self) -> bool {
        self.privileges.are_lost()
    }

    /// Takes out what keeps the algorithm registered while there is no broker. The flows run on.
    pub fn release(&mut self) -> Registered {
        self.privileges.release()
    }

    /// Takes back what [`Self::release`] took out.
    pub fn retain(&mut self, registered: Registered) {
        self.privileges.retain(registered);
    }

    /// Registers the algorithm: from now on sockets can ask for it by name.
    pub fn attach(&mut self) -> Result<(), Error> {
        self.privileges.attach()
    }

    /// Takes over every new TCP socket of a cgroup (v2), from its handshake on. Returns
    /// [`CgroupChange::Attached`], or [`CgroupChange::Gone`] if there is no such directory yet.
    pub fn attach_cgroup(&mut self, cgroup: &Path) -> Result<CgroupChange, Error> {
        self.privileges.attach_cgroup(cgroup)
    }

    /// Attaches to those of the cgroups that were missing or have been removed and made again. Call
    /// it a few times a second.
    pub fn follow_cgroups(&mut self) -> Result<Vec<CgroupChange>, Error> {
        self.privileges.follow_cgroups()
    }

    /// Takes back every flow that a former agent of the same name left behind, in every network
    /// namespace.
    pub fn adopt(&mut self) -> Result<Walked, Error> {
        self.privileges.adopt()
    }

    /// Gives every flow back to the kernel's own algorithm, after the host's default. The flows for
    /// which the kernel refused the change stay in the datapath's fallback.
    pub fn let_go(&mut self) -> Result<Walked, Error> {
        self.privileges.let_go()
    }

    /// Writes the agent's heartbeat. `now_ns` is CLOCK_MONOTONIC.
    pub fn beat(&self, now_ns: u64) {
        // SAFETY: the only entry; one aligned word, which the kernel side only reads.
        unsafe { write_volatile(&raw mut (*self.shared.entry(0)).heartbeat_ns, now_ns) };
    }

    /// How many flows were announced and have not ended.
    pub fn flows(&self) -> usize {
        self.announced.len()
    }

    /// The most flows at once.
    pub fn flows_max(&self) -> u32 {
        self.flows_max
    }

    /// The sockets that were refused, by user, cgroup and reason.
    pub fn refusals(&self) -> Result<Vec<Refused>, Error> {
        admission::refusals(&self.refusals)
    }

    /// The kernel side's counters.
    pub fn counters(&self) -> Shared {
        // SAFETY: the only entry; words are torn from each other at worst, which counters allow.
        unsafe { read_volatile(self.shared.entry(0)) }
    }

    /// Descriptors that become readable when there is something to drain.
    pub fn poll_fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.events.as_fd(), self.reports.as_fd()]
    }

    /// The BPF program that runs at every ACK. It enters the flow's own program by tail call, so
    /// the kernel's run-time statistics (`BPF_ENABLE_STATS`) count both together.
    pub fn dispatcher(&self) -> Result<BorrowedFd<'_>, Error> {
        self.privileges.dispatcher()
    }

    /// The descriptor of the BPF program compiled from the CCP program `uid`; `None` if it is not
    /// installed.
    pub fn program(&self, uid: u32) -> Option<BorrowedFd<'_>> {
        self.privileges.program(self.installed.get(&uid)?.index)
    }

    /// A lookup from a socket to its flow.
    pub fn sockets(&self) -> Sockets {
        Sockets::new(Arc::clone(&self.flows))
    }

    /// The uid of an installed program with the same registers and clauses as the program of this
    /// `INSTALL`. The two uids may differ.
    pub fn installed_like(&self, install: &[u8]) -> Option<u32> {
        let Ok(ToDatapath::Install(wanted)) = ToDatapath::parse(install) else { return None };
        let alike = |it: &Program| it.defines == wanted.defines && it.events == wanted.events;
        let found = self.installed.iter().find(|(_, installed)| alike(&installed.program));
        found.map(|(uid, _)| *uid)
    }

    /// Sets how new flows to a network begin. A longer prefix that contains the flow's destination
    /// goes first, and the agent's first order for the flow replaces both.
    pub fn set_destination(
        &mut self,
        to: impl Into<Reached>,
        remembered: RememberedStart,
    ) -> Result<(), Error> {
        let program = match remembered.program_uid {
            Some(uid) => self.installed.get(&uid).ok_or(Error::NoProgram(uid))?.index,
            None => 0,
        };
        self.destinations.set(to.into(), program, remembered.initial_cwnd_pkts)
    }

    /// Removes what [`Self::set_destination`] set for a network, if anything.
    pub fn forget_destination(&mut self, to: impl Into<Reached>) -> Result<(), Error> {
        self.destinations.forget(to.into())
    }

    /// When the flow last took words from its slot, in nanoseconds of CLOCK_MONOTONIC.
    pub fn applied_ns(&self, sid: u32) -> u64 {
        self.slots.applied_ns(sid)
    }

    /// Hands the waiting records to `sink` as events, and returns how many records there were. One
    /// call takes a bounded number, so call again until it returns 0.
    pub fn drain(&mut self, sink: &mut Sink<'_>) -> usize {
        if !self.greeted {
            self.greeted = true;
            let hello = Hello {
                version: PROTOCOL_VERSION,
                capabilities: self.capabilities(),
                programs_max: layout::PROGRAMS as u32 - 1,
                flows_max: self.flows_max,
                name: format!("linux-tcp-bpf/{}", self.name),
            };
            sink(self, Event::Hello(&hello));
            sink(self, Event::Ready);
        }
        // Lifecycle first: a flow is announced before its reports.
        let events = self.events.take(DRAIN_RECORDS_MAX);
        let reports = self.reports.take(DRAIN_RECORDS_MAX);
        let mut count = 0;
        for record in events.iter().chain(reports.iter()) {
            self.translate(record, sink);
            count += 1;
        }
        self.events.reuse(events);
        self.reports.reuse(reports);
        count
    }

    fn translate(&mut self, record: &[u8], sink: &mut Sink<'_>) {
        let Some(event) = layout::read::<layout::Event>(record) else {
            return;
        };
        match event.kind {
            layout::CREATED => self.announce(event.sid, sink),
            layout::CLOSED => self.retire(event.sid, sink),
            _ if !self.announced.contains(&event.sid) => {}
            layout::REPORT => announce::report(record, |report| sink(self, Event::Report(report))),
            layout::RESPONSE => {
                if let Some(response) = announce::response(record) {
                    sink(self, response);
                }
            }
            kind => {
                match kind {
                    layout::NATIVE_REFUSED if self.slots.native_state(event.sid).wants_native => {
                        self.natives.remove(event.sid);
                    }
                    layout::RECALL_REFUSED => self.stuck(event.sid),
                    layout::FELL_BACK | layout::RESTORED => {}
                    _ => return,
                }
                sink(self, announce::state(&event));
            }
        }
    }

    fn announce(&mut self, sid: u32, sink: &mut Sink<'_>) {
        let Some(info) = self.slots.info(sid) else {
            return; // the flow has already ended
        };
        if let Some(before) = self.announced.predecessor(sid) {
            self.retire(before, sink); // its slot now belongs to another flow
        }
        if self.announced.insert(sid) {
            let create = announce::create(&info, &self.name);
            let info = announce::flow(&info, &self.name);
            sink(self, Event::Created { sid, create: &create, info: Some(&info) });
        }
    }

    fn retire(&mut self, sid: u32, sink: &mut Sink<'_>) {
        self.natives.remove(sid);
        self.told.remove(&sid);
        if self.announced.remove(&sid) {
            sink(self, Event::Closed { sid });
        }
    }

    /// If a look is due, reads the flows that run the kernel's own algorithms, and hands their
    /// reports and ends to `sink`. While [`Self::looks`] is true, call this at least once each
    /// [`crate::LOOK_INTERVAL`]; with many flows, looks are due less often. `now_ns` is
    /// CLOCK_MONOTONIC.
    pub fn look(&mut self, now_ns: u64, sink: &mut Sink<'_>) -> Result<(), Error> {
        let interval = self.natives.look_interval(self.announced.len());
        let due = u128::from(now_ns.saturating_sub(self.looked_ns)) >= interval.as_nanos();
        let Some(looker) = self.looker.as_ref().filter(|_| due && self.looks()) else {
            return Ok(());
        };
        self.looked_ns = now_ns;
        let looks = iterator::records(looker.as_fd()).map_err(|source| Error::File {
            path: "the iterator over the flows".to_owned(),
            source,
        })?;
        let slots = &self.slots;
        let seen = self.natives.observe(&looks, |sid| slots.native_state(sid));
        for (sid, uid, signals, fields) in seen.reports {
            let report = Report { sid, uid, fields: &fields, signals: Some(signals) };
            sink(self, Event::Report(report));
        }
        for sid in seen.reassigned {
            self.let_stray(sid, sink);
        }
        for sid in seen.returned {
            self.announce(sid, sink);
        }
        for sid in seen.ended {
            self.retire(sid, sink);
            self.free_slot(sid)?;
        }
        if !seen.recall_from.is_empty() {
            self.privileges.recall(&seen.recall_from, now_ns)?;
        }
        Ok(())
    }

    /// The application has given the flow another algorithm, so the datapath reports the flow as
    /// closed. The flow may come back, so it keeps its slot, and the slot names its program again.
    fn let_stray(&mut self, sid: u32, sink: &mut Sink<'_>) {
        if self.announced.remove(&sid) {
            sink(self, Event::Closed { sid });
        }
        if let Some((uid, _)) = self.told.remove(&sid)
            && let Some(known) = self.installed.get(&uid)
        {
            // An error means that the flow has ended, and then there is nothing to write.
            let _ = self.slots.write(sid, Some(Run::Program(known.index)), &[]);
        }
    }

    fn free_slot(&mut self, sid: u32) -> Result<(), Error> {
        self.privileges.vacate(sid)
    }

    /// Whether this host can measure flows under the kernel's own algorithms. Only then can these
    /// algorithms be arms.
    pub fn runs_native_arms(&self) -> bool {
        self.can_look
    }

    /// Whether the flow runs one of the kernel's own algorithms.
    pub fn is_native(&self, sid: u32) -> bool {
        self.slots.native_state(sid).is_native
    }

    /// Whether [`Self::look`] has flows to read.
    pub fn looks(&self) -> bool {
        !self.natives.is_empty()
    }

    /// The kernel refused to change the flow's algorithm, so the slot names the algorithm that the
    /// flow runs.
    fn stuck(&mut self, sid: u32) {
        if let Some(name) = self.natives.keep_current(sid) {
            // An error means that the flow has ended, and then there is nothing to write.
            let _ = self.slots.write(sid, Some(Run::Native(name, 0)), &[]);
        }
    }

    fn go_native(&mut self, sid: u32, name: &str, ssthresh_bytes: u32) -> Result<(), Error> {
        let info = self.slots.info(sid).ok_or(Error::NoFlow(sid))?;
        if name == self.name {
            return Err(native::not_native(name));
        }
        if !self.can_look {
            return Err(Error::NoLooker);
        }
        self.privileges.check_native(name)?;
        let fixed = fixed_name(name)?;
        let (uid, updates) = self.told.get(&sid).ok_or(Error::NoProgramYet(sid))?;
        let program = &self.installed.get(uid).ok_or(Error::NoProgram(*uid))?.decoded;
        let mut machine = remuda_vm::Machine::new();
        machine.change(program, updates, 0);
        if self.looker.is_none() {
            self.looker = Some(self.privileges.looker()?);
        }
        let ssthresh_pkts = ssthresh_bytes / info.mss_bytes.max(1);
        self.slots.write(sid, Some(Run::Native(fixed, ssthresh_pkts)), &[])?;
        self.natives.add(sid, fixed, machine);
        Ok(())
    }

    fn capabilities(&self) -> u32 {
        let without = if self.can_look { 0 } else { capability::NATIVE };
        announce::CAPABILITIES & !without
    }

    /// Finds flows whose lifecycle events the ring has lost, by comparing slots with what was
    /// announced. Without lost events it reads nothing. Call it every 200 ms: a table of 8,192
    /// slots is compared in one call, a larger one in five. Returns whether the call ended early
    /// and the next one should follow at once.
    pub fn reconcile(&mut self, sink: &mut Sink<'_>) -> bool {
        let counters = self.counters();
        let slots = &self.slots;
        let found = self.walk.step(&counters, &self.announced, |index| slots.occupant_sid(index));
        for sid in found.ended {
            self.retire(sid, sink);
        }
        for sid in found.started {
            if !self.natives.is_reassigned(sid) {
                self.announce(sid, sink);
            }
        }
        found.has_more
    }

    /// Carries out one order, or returns an error and changes nothing.
    pub fn order(&mut self, order: &Order<'_>) -> Result<(), Error> {
        match *order {
            Order::Install(install) => self.install(install),
            Order::Update { sid, updates }
                if self.natives.has(sid) && self.slots.native_state(sid).wants_native =>
            {
                self.natives.update(sid, updates);
                Ok(())
            }
            Order::Update { sid, updates } => self.slots.write(sid, None, updates),
            Order::Run { sid, uid, updates } => {
                let index = self.installed.get(&uid).ok_or(Error::NoProgram(uid))?.index;
                self.slots.write(sid, Some(Run::Program(index)), updates)?;
                self.told.insert(sid, (uid, updates.to_vec()));
                self.natives.recall(sid);
                Ok(())
            }
            Order::Native { sid, name, ssthresh_bytes } => {
                self.go_native(sid, name, ssthresh_bytes)
            }
        }
    }

    /// Makes the next calls greet the agent and announce every live flow again, as for a new agent.
    pub fn resync(&mut self) {
        self.announced.clear();
        self.walk.restart();
        self.greeted = false;
    }

    fn install(&mut self, message: &[u8]) -> Result<(), Error> {
        let ToDatapath::Install(program) = ToDatapath::parse(message)? else {
            return Err(Error::NotAProgram);
        };
        let uid = program.uid;
        if self.installed.get(&uid).is_some_and(|known| known.program == program) {
            return Ok(());
        }
        let decoded = remuda_vm::Program::from_install(message)?;
        let index = self.privileges.install(message)?;
        self.installed.insert(uid, Installed { program, decoded, index });
        Ok(())
    }
}
