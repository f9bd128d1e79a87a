//! The datapath as the agent sees it: it takes orders and gives events. [`crate::messages`] does
//! the same with CCP messages, for an agent in another process.

use crate::admission::{self, Admission, Refused};
use crate::cgroups::{CgroupChange, Cgroups};
use crate::destinations::{Destinations, Reached, RememberedStart};
use crate::error::tried;
use crate::kernel::{self, Mapped, OpsMember};
use crate::layout::{self, FLOWS_MAX, Shared};
use crate::load::{fixed_name, load_object, map, program};
use crate::namespaces::{self, Finder};
use crate::native;
use crate::natives::{self, Natives};
use crate::reconcile::{Announced, Walk};
use crate::records::Records;
use crate::slots::{Run, Slots};
use crate::sockets::Sockets;
use crate::splice::splice;
use crate::{Error, announce};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, RingBuffer, RingBufferBuilder};
use remuda_wire::to_agent::Hello;
use remuda_wire::to_datapath::Update;
use remuda_wire::{Event, Order, PROTOCOL_VERSION, Program, Report, ToDatapath, capability};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::ptr::{read_volatile, write_volatile};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How many records one drain takes, so that a flood of reports cannot keep the agent from its
/// heartbeat.
pub const DRAIN_RECORDS_MAX: usize = 256;

/// How to load the datapath.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name sockets ask for with `TCP_CONGESTION`; 1 to 15 characters.
    pub name: String,
    /// The kernel's own algorithm that flows go back to when the agent leaves.
    pub native: String,
    /// When the last heartbeat is older than this, flows enter fallback.
    pub heartbeat_timeout: Duration,
    /// The largest window, in segments.
    pub cwnd_max_pkts: u32,
    /// The largest pacing rate, in bytes per second.
    pub rate_max_bytes_per_sec: u64,
    /// Initial window, in segments, of flows taken over by cgroup; `None` leaves the kernel's.
    pub initial_cwnd_pkts: Option<u32>,
    /// The most flows at once, 1 to [`FLOWS_MAX`]. Any further socket runs `native`.
    pub flows_max: u32,
    /// Who may have flows, and how many.
    pub admission: Admission,
    /// How many destinations may be remembered; 0 counts as 1.
    pub destinations_max: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "remuda".to_owned(),
            native: "cubic".to_owned(),
            heartbeat_timeout: Duration::from_millis(150),
            cwnd_max_pkts: 100_000,
            rate_max_bytes_per_sec: 12_500_000_000,
            initial_cwnd_pkts: None,
            flows_max: 8_192,
            admission: Admission::default(),
            destinations_max: 32_768,
        }
    }
}

/// The outcome of a walk over the sockets of every network namespace.
#[derive(Debug)]
pub struct Walked {
    /// The number of flows that changed their algorithm.
    pub changed: u64,
    /// The number of flows for which the kernel refused the change.
    pub refused: u64,
    /// [`Error::Namespaces`] if some namespaces were not walked to the end: a user can make the
    /// walk through a namespace fail, and the flows of all others have changed.
    pub missed: Option<Error>,
}

struct Installed {
    program: Program,
    /// The same program for the VM, which runs it for flows under the kernel's own algorithms.
    decoded: remuda_vm::Program,
    index: u32,
    /// The BPF program's descriptor, for [`Datapath::program`].
    fd: OwnedFd,
}

/// Takes the datapath's events. It gets the datapath as well, so that it can answer at once.
pub type Sink<'a> = dyn FnMut(&mut Datapath, Event<'_>) + 'a;

/// Linux TCP of this host, as a CCP datapath.
pub struct Datapath {
    // Fields drop in order: rings and links before the object whose maps they use.
    reports: RingBuffer<'static>,
    events: RingBuffer<'static>,
    /// The maps of both rings: the events', then the reports'.
    rings: [MapHandle; 2],
    links: Vec<Link>,
    cgroups: Cgroups,
    slots: Slots,
    shared: Mapped<Shared>,
    table: MapHandle,
    object: Object,
    member: OpsMember,
    records: Arc<Mutex<Records>>,
    /// The records of the drain in progress; empty between two drains.
    taken: Records,
    installed: HashMap<u32, Installed>,
    version: u32,
    announced: Announced,
    walk: Walk,
    /// For each flow, the last program that the agent ordered (its uid) and the register values
    /// that came with the order.
    told: HashMap<u32, (u32, Vec<Update>)>,
    natives: Natives,
    /// Whether the kernel accepted the iterator over the flows when the object was loaded.
    can_look: bool,
    /// The iterator over the flows; attached when the first flow goes to one of the kernel's own
    /// algorithms.
    looker: Option<Link>,
    looked_ns: u64,
    finder: Finder,
    destinations: Destinations,
    greeted: bool,
    settings: Settings,
}

// SAFETY: libbpf's objects are not tied to a thread; everything here is used through &mut self, and
// what the kernel shares is accessed by volatile operations.
unsafe impl Send for Datapath {}

fn ring(map: &MapHandle, records: &Arc<Mutex<Records>>) -> Result<RingBuffer<'static>, Error> {
    let records = Arc::clone(records);
    let mut builder = RingBufferBuilder::new();
    builder
        .add(map, move |record: &[u8]| {
            records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
            0
        })
        .map_err(tried("a ring buffer"))?;
    builder.build().map_err(tried("a ring buffer"))
}

impl Datapath {
    /// Loads everything and attaches nothing. `now_ns` is CLOCK_MONOTONIC.
    pub fn load(settings: Settings, now_ns: u64) -> Result<Self, Error> {
        libbpf_rs::set_print(None);
        let member = kernel::ops_member("cong_control")?;
        if member.parameters != 4 {
            return Err(Error::OldKernel(member.parameters));
        }
        if !(1..=FLOWS_MAX).contains(&settings.flows_max) {
            return Err(Error::FlowsMax(settings.flows_max));
        }
        native::check(&settings.native)?;
        settings.admission.check()?;
        let (object, can_look) = load_object(&settings)?;
        settings.admission.write_users(&map(&object, "remuda_users")?)?;
        let records = Arc::new(Mutex::new(Records::default()));
        let entries = settings.flows_max as usize;
        let slots = Mapped::new(map(&object, "remuda_slots")?.as_fd(), entries)?;
        let infos = Mapped::new(map(&object, "remuda_infos")?.as_fd(), entries)?;
        let destinations = Destinations::new(map(&object, "remuda_destinations")?);
        let rings = [map(&object, "remuda_events")?, map(&object, "remuda_reports")?];
        let datapath = Self {
            reports: ring(&rings[1], &records)?,
            events: ring(&rings[0], &records)?,
            rings,
            links: Vec::new(),
            cgroups: Cgroups::default(),
            slots: Slots::new(slots, infos),
            shared: Mapped::new(map(&object, "remuda_shared")?.as_fd(), 1)?,
            table: map(&object, "remuda_programs")?,
            object,
            member,
            records,
            taken: Records::default(),
            installed: HashMap::new(),
            version: 0,
            announced: Announced::new(settings.flows_max),
            walk: Walk::default(),
            told: HashMap::new(),
            natives: Natives::new(fixed_name(&settings.name)?),
            can_look,
            looker: None,
            looked_ns: 0,
            finder: Finder::default(),
            destinations,
            greeted: false,
            settings,
        };
        datapath.beat(now_ns);
        Ok(datapath)
    }

    /// Registers the algorithm: from now on sockets can ask for it by name.
    pub fn attach(&mut self) -> Result<(), Error> {
        let mut ops = self
            .object
            .maps_mut()
            .find(|map| map.name() == OsStr::new("remuda_ops"))
            .ok_or(Error::Template("remuda_ops"))?;
        let what = format!("registering the algorithm {:?}", self.settings.name);
        self.links.push(ops.attach_struct_ops().map_err(tried(what))?);
        Ok(())
    }

    /// Takes over every new TCP socket of a cgroup (v2), from its handshake on. Returns
    /// [`CgroupChange::Attached`], or [`CgroupChange::Gone`] if there is no such directory yet.
    pub fn attach_cgroup(&mut self, cgroup: &Path) -> Result<CgroupChange, Error> {
        self.cgroups.add(cgroup, &program(&self.object, "remuda_assign")?)
    }

    /// Attaches to those of the cgroups that were missing or have been removed and made again. Call
    /// it a few times a second.
    pub fn follow_cgroups(&mut self) -> Result<Vec<CgroupChange>, Error> {
        Ok(self.cgroups.follow(&program(&self.object, "remuda_assign")?))
    }

    /// Takes back every flow that a former agent of the same name left behind, in every network
    /// namespace.
    pub fn adopt(&mut self) -> Result<Walked, Error> {
        self.retarget("remuda_adopt")
    }

    /// Gives every flow back to the kernel's own algorithm. The flows for which the kernel refused
    /// the change stay in the datapath's fallback.
    pub fn let_go(&mut self) -> Result<Walked, Error> {
        self.retarget("remuda_let_go")
    }

    fn retarget(&mut self, iterator: &'static str) -> Result<Walked, Error> {
        let before = self.counters();
        let missed = match namespaces::walk_sockets(&self.socket_iterator(iterator)?) {
            Ok(()) => None,
            Err(error @ Error::Namespaces { .. }) => Some(error),
            Err(error) => return Err(error),
        };
        let after = self.counters();
        let changed = after.adopted - before.adopted;
        Ok(Walked { changed, refused: after.adopt_errors - before.adopt_errors, missed })
    }

    fn socket_iterator(&self, name: &'static str) -> Result<Link, Error> {
        let iterator = program(&self.object, name)?;
        iterator.attach().map_err(tried("attaching the socket iterator"))
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
        self.settings.flows_max
    }

    /// The sockets that were refused, by user, cgroup and reason.
    pub fn refusals(&self) -> Result<Vec<Refused>, Error> {
        admission::refusals(&map(&self.object, "remuda_refusals")?)
    }

    /// The kernel side's counters.
    pub fn counters(&self) -> Shared {
        // SAFETY: the only entry; words are torn from each other at worst, which counters allow.
        unsafe { read_volatile(self.shared.entry(0)) }
    }

    /// Descriptors that become readable when there is something to drain.
    pub fn poll_fds(&self) -> [BorrowedFd<'_>; 2] {
        self.rings.each_ref().map(AsFd::as_fd)
    }

    /// The BPF program that runs at every ACK. It enters the flow's own program by tail call, so
    /// the kernel's run-time statistics (`BPF_ENABLE_STATS`) count both together.
    pub fn dispatcher(&self) -> Result<BorrowedFd<'_>, Error> {
        let found = program(&self.object, "remuda_cong_control")?;
        // SAFETY: the object owns the descriptor, and lives as long as the borrow of self.
        Ok(unsafe { BorrowedFd::borrow_raw(found.as_fd().as_raw_fd()) })
    }

    /// The descriptor of the BPF program compiled from the CCP program `uid`; `None` if it is not
    /// installed.
    pub fn program(&self, uid: u32) -> Option<BorrowedFd<'_>> {
        self.installed.get(&uid).map(|installed| installed.fd.as_fd())
    }

    /// A lookup from a socket to its flow.
    pub fn sockets(&self) -> Result<Sockets, Error> {
        Ok(Sockets::new(map(&self.object, "remuda_flows")?))
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
                flows_max: self.settings.flows_max,
                name: format!("linux-tcp-bpf/{}", self.settings.name),
            };
            sink(self, Event::Hello(&hello));
            sink(self, Event::Ready);
        }
        // Lifecycle first: a flow is announced before its reports.
        self.events.consume_raw_n(DRAIN_RECORDS_MAX);
        self.reports.consume_raw_n(DRAIN_RECORDS_MAX);
        let mut taken = std::mem::take(&mut self.taken);
        std::mem::swap(
            &mut taken,
            &mut *self.records.lock().unwrap_or_else(PoisonError::into_inner),
        );
        let mut count = 0;
        for record in taken.iter() {
            self.translate(record, sink);
            count += 1;
        }
        taken.clear();
        self.taken = taken;
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
            let create = announce::create(&info, &self.settings.name);
            let info = announce::flow(&info, &self.settings.name);
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
        let looks = natives::look(looker)?;
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
            let walker = self.socket_iterator("remuda_recall")?;
            self.finder.walk(&walker, &seen.recall_from, now_ns)?;
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
        admission::vacate(&program(&self.object, "remuda_vacate")?, sid)
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
        if name == self.settings.name {
            return Err(Error::NotNative(name.to_owned()));
        }
        if !self.can_look {
            return Err(Error::NoLooker);
        }
        native::check(name)?;
        let fixed = fixed_name(name)?;
        let (uid, updates) = self.told.get(&sid).ok_or(Error::NoProgramYet(sid))?;
        let program = &self.installed.get(uid).ok_or(Error::NoProgram(*uid))?.decoded;
        let mut machine = remuda_vm::Machine::new();
        machine.change(program, updates, 0);
        if self.looker.is_none() {
            self.looker = Some(self.attach_looker()?);
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

    fn attach_looker(&mut self) -> Result<Link, Error> {
        let flows = map(&self.object, "remuda_flows")?;
        let look = program(&self.object, "remuda_look")?;
        look.attach_iter(flows.as_fd()).map_err(tried("attaching the iterator over the flows"))
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
        let index = match self.installed.get(&uid) {
            Some(known) if known.program == program => return Ok(()),
            Some(known) => known.index,
            None => self.free_index().ok_or(Error::ProgramsFull(uid))?,
        };
        let decoded = remuda_vm::Program::from_install(message)?;
        self.version = self.version.wrapping_add(1).max(1);
        let template = self::program(&self.object, "remuda_template")?;
        let insns = splice(template.insns(), &program, self.version)?;
        let fd = kernel::load_program(&format!("ccp_{uid}"), &insns, self.member)?;
        self.table
            .update(&index.to_ne_bytes(), &fd.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
            .map_err(tried(format!("installing program {uid}")))?;
        self.installed.insert(uid, Installed { program, decoded, index, fd });
        Ok(())
    }

    fn free_index(&self) -> Option<u32> {
        let taken: HashSet<u32> = self.installed.values().map(|known| known.index).collect();
        (1..layout::PROGRAMS as u32).find(|index| !taken.contains(index))
    }
}
