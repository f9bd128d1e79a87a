//! What only a process with privileges can do: load the BPF object and programs, register the
//! algorithm, attach to cgroups, visit the sockets of other network namespaces, and set the host's
//! default algorithm.
//!
//! A [`crate::Datapath`] has one in its own process, or asks a broker ([`crate::broker`]).

use crate::Error;
use crate::admission;
use crate::cgroups::{CgroupChange, Cgroups};
use crate::default_algorithm::DefaultAlgorithm;
use crate::error::tried;
use crate::kernel::{self, Mapped, OpsMember};
use crate::layout::{self, FLOWS_MAX, Shared};
use crate::load::{load_object, map, program};
use crate::maps::read_only;
use crate::namespaces::{self, Finder};
use crate::native;
use crate::privileges::{Handles, MAPS, Privileges, Started, Walked};
use crate::settings::{Plan, Settings};
use crate::splice::splice;
use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, MapHandle, Object};
use remuda_wire::{Program, ToDatapath};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::ptr::{read_volatile, write_volatile};

struct Loaded {
    program: Program,
    index: u32,
    fd: OwnedFd,
}

/// The loaded object, and everything that is attached.
pub struct Privileged {
    // Fields drop in order: links before the object whose programs they use.
    default_algorithm: Option<DefaultAlgorithm>,
    links: Vec<Link>,
    cgroups: Cgroups,
    shared: Mapped<Shared>,
    table: MapHandle,
    loaded: HashMap<u32, Loaded>,
    object: Object,
    member: OpsMember,
    version: u32,
    can_look: bool,
    finder: Finder,
    settings: Settings,
}

// SAFETY: libbpf's objects are not tied to a thread; everything here is used through &mut self, and
// what the kernel shares is accessed by volatile operations.
unsafe impl Send for Privileged {}

impl Privileged {
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
        let privileged = Self {
            default_algorithm: None,
            links: Vec::new(),
            cgroups: Cgroups::default(),
            shared: Mapped::new(map(&object, "remuda_shared")?.as_fd(), 1)?,
            table: map(&object, "remuda_programs")?,
            loaded: HashMap::new(),
            object,
            member,
            version: 0,
            can_look,
            finder: Finder::default(),
            settings,
        };
        // SAFETY: the only entry; one aligned word, which the kernel side only reads.
        unsafe {
            write_volatile(&raw mut (*privileged.shared.entry(0)).heartbeat_ns, now_ns);
        }
        Ok(privileged)
    }

    /// Loads and attaches everything that `plan` names, and takes over the flows of a former agent
    /// of the same name. `now_ns` is CLOCK_MONOTONIC.
    pub fn start(plan: &Plan, now_ns: u64) -> Result<(Self, Started), Error> {
        let name = &plan.settings.name;
        let mut privileged = Self::load(plan.settings.clone(), now_ns)?;
        privileged.attach()?;
        let mended = DefaultAlgorithm::mend(name, &plan.settings.native)?;
        let Walked { changed: adopted, missed, .. } = privileged.adopt()?;
        let mut warnings = Vec::new();
        warnings.extend(missed.map(|error| format!("adopting flows of a former agent: {error}")));
        for cgroup in &plan.cgroups {
            if let change @ CgroupChange::Gone(_) = privileged.attach_cgroup(cgroup)? {
                warnings.push(change.to_string());
            }
        }
        if plan.takes_default {
            privileged.default_algorithm = Some(DefaultAlgorithm::take(name)?);
        }
        Ok((privileged, Started { adopted, mended, warnings }))
    }

    /// Descriptors for a datapath, in this process or another one.
    pub fn handles(&self) -> Result<Handles, Error> {
        let duplicate = |name: &str| {
            let owned = map(&self.object, name)?.as_fd().try_clone_to_owned();
            owned.map_err(|error| tried(format!("map {name}"))(error.into()))
        };
        let maps = MAPS.map(duplicate).into_iter().collect::<Result<Vec<_>, Error>>()?;
        let maps = maps.try_into().map_err(|_| Error::Template("a map is missing"))?;
        Ok(Handles { maps, name: self.settings.name.clone(), can_look: self.can_look })
    }

    /// The jump table, to be kept and not written: the kernel empties it when no process has it.
    pub fn table(&self) -> Result<OwnedFd, Error> {
        read_only(self.table.as_fd()).map_err(tried("a descriptor of the jump table"))
    }

    /// The links that keep the algorithm registered and the cgroups attached. As long as any
    /// process has them, new sockets find the algorithm.
    pub fn links(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.links.iter().map(AsFd::as_fd).chain(self.cgroups.links())
    }

    fn counters(&self) -> Shared {
        // SAFETY: the only entry; words are torn from each other at worst, which counters allow.
        unsafe { read_volatile(self.shared.entry(0)) }
    }

    fn retarget(&mut self, iterator: &'static str) -> Result<Walked, Error> {
        let before = self.counters();
        let missed = match namespaces::walk_sockets(&self.socket_iterator(iterator)?) {
            Ok(()) => None,
            Err(error @ Error::Namespaces { .. }) => Some(error),
            Err(error) => return Err(error),
        };
        let after = self.counters();
        let changed = after.adopted.wrapping_sub(before.adopted);
        let refused = after.adopt_errors.wrapping_sub(before.adopt_errors);
        Ok(Walked { changed, refused, missed })
    }

    fn socket_iterator(&self, name: &'static str) -> Result<Link, Error> {
        let iterator = program(&self.object, name)?;
        iterator.attach().map_err(tried("attaching the socket iterator"))
    }

    fn free_index(&self) -> Option<u32> {
        let taken: HashSet<u32> = self.loaded.values().map(|known| known.index).collect();
        (1..layout::PROGRAMS as u32).find(|index| !taken.contains(index))
    }
}

impl Privileges for Privileged {
    fn attach(&mut self) -> Result<(), Error> {
        let mut ops = self
            .object
            .maps_mut()
            .find(|map| map.name() == OsStr::new("remuda_ops"))
            .ok_or(Error::Template("remuda_ops"))?;
        let what = format!("registering the algorithm {:?}", self.settings.name);
        let link = ops.attach_struct_ops().map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => Error::NameTaken(self.settings.name.clone()),
            _ => tried(what)(source),
        })?;
        self.links.push(link);
        Ok(())
    }

    fn attach_cgroup(&mut self, cgroup: &Path) -> Result<CgroupChange, Error> {
        self.cgroups.add(cgroup, &program(&self.object, "remuda_assign")?)
    }

    fn follow_cgroups(&mut self) -> Result<Vec<CgroupChange>, Error> {
        Ok(self.cgroups.follow(&program(&self.object, "remuda_assign")?))
    }

    fn adopt(&mut self) -> Result<Walked, Error> {
        self.retarget("remuda_adopt")
    }

    fn let_go(&mut self) -> Result<Walked, Error> {
        self.default_algorithm = None; // first, so that no new flow comes
        self.retarget("remuda_let_go")
    }

    fn install(&mut self, message: &[u8]) -> Result<u32, Error> {
        let ToDatapath::Install(program) = ToDatapath::parse(message)? else {
            return Err(Error::NotAProgram);
        };
        let uid = program.uid;
        let index = match self.loaded.get(&uid) {
            Some(known) if known.program == program => return Ok(known.index),
            Some(known) => known.index,
            None => self.free_index().ok_or(Error::ProgramsFull(uid))?,
        };
        self.version = self.version.wrapping_add(1).max(1);
        let template = self::program(&self.object, "remuda_template")?;
        let insns = splice(template.insns(), &program, self.version)?;
        let fd = kernel::load_program(&format!("ccp_{uid}"), &insns, self.member)?;
        self.table
            .update(&index.to_ne_bytes(), &fd.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
            .map_err(tried(format!("installing program {uid}")))?;
        self.loaded.insert(uid, Loaded { program, index, fd });
        Ok(index)
    }

    fn looker(&mut self) -> Result<OwnedFd, Error> {
        let what = "attaching the iterator over the flows";
        let flows = map(&self.object, "remuda_flows")?;
        let look = program(&self.object, "remuda_look")?;
        let link = look.attach_iter(flows.as_fd()).map_err(tried(what))?;
        link.as_fd().try_clone_to_owned().map_err(|error| tried(what)(error.into()))
    }

    fn recall(&mut self, namespaces: &HashSet<u32>, now_ns: u64) -> Result<(), Error> {
        let walker = self.socket_iterator("remuda_recall")?;
        self.finder.walk(&walker, namespaces, now_ns)
    }

    fn vacate(&mut self, sid: u32) -> Result<(), Error> {
        admission::vacate(&program(&self.object, "remuda_vacate")?, sid)
    }

    fn check_native(&mut self, name: &str) -> Result<(), Error> {
        native::check(name)
    }

    fn program(&self, index: u32) -> Option<BorrowedFd<'_>> {
        let found = self.loaded.values().find(|known| known.index == index);
        found.map(|known| known.fd.as_fd())
    }

    fn dispatcher(&self) -> Result<BorrowedFd<'_>, Error> {
        let found = program(&self.object, "remuda_cong_control")?;
        // SAFETY: the object owns the descriptor, and lives as long as the borrow of self.
        Ok(unsafe { BorrowedFd::borrow_raw(found.as_fd().as_raw_fd()) })
    }
}
