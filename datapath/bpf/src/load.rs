//! Loads the BPF object, with sizes and constants from the settings.

use crate::Error;
use crate::admission::own_netns;
use crate::error::tried;
use crate::layout::{Config, NAME_BYTES};
use crate::settings::Settings;
use libbpf_rs::{ErrorKind, MapCore, MapHandle, Object, ObjectBuilder, OpenObject, ProgramMut};
use std::ffi::OsStr;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/remuda.bpf.o"));

/// A slot counts for a user and for a cgroup.
const ACCOUNTS_OF_SLOT: u32 = 2;

/// Checks that `name` can name an algorithm: 1 to 15 printable characters. The kernel cuts longer
/// names.
pub fn check_name(name: &str) -> Result<(), Error> {
    let fits = !name.is_empty() && name.len() < NAME_BYTES;
    if fits && name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    Err(Error::Name(name.to_owned()))
}

/// Checks that the kernel takes `name` for an algorithm of a BPF program.
fn check_own_name(name: &str) -> Result<(), Error> {
    check_name(name)?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.".contains(&byte);
    name.bytes().all(fits).then_some(()).ok_or_else(|| Error::OwnName(name.to_owned()))
}

/// A name as the kernel has it, filled up with zeros.
pub fn fixed_name(name: &str) -> Result<[u8; NAME_BYTES], Error> {
    check_name(name)?;
    let mut fixed = [0; NAME_BYTES];
    fixed[..name.len()].copy_from_slice(name.as_bytes());
    Ok(fixed)
}

fn configure(open: &mut OpenObject, settings: &Settings) -> Result<(), Error> {
    check_own_name(&settings.name)?;
    let name = fixed_name(&settings.name)?;
    let config = Config {
        heartbeat_timeout_ns: u64::try_from(settings.heartbeat_timeout.as_nanos())
            .unwrap_or(u64::MAX),
        rate_max_bytes_per_sec: settings.rate_max_bytes_per_sec,
        cwnd_max_pkts: settings.cwnd_max_pkts,
        assign_initial_cwnd_pkts: settings.initial_cwnd_pkts.unwrap_or(0),
        flows_max: settings.flows_max,
        is_restricted: settings.admission.users.is_some().into(),
        own_netns: own_netns()?,
        user_percent: settings.admission.user_percent,
        cgroup_percent: settings.admission.cgroup_percent,
        measures_responses: settings.measures_responses.into(),
        padding: 0,
        name,
        native: fixed_name(&settings.native)?,
    };
    // SAFETY: a plain struct of integers without padding, for its own size.
    let bytes = unsafe {
        std::slice::from_raw_parts((&raw const config).cast::<u8>(), size_of::<Config>())
    };
    for mut map in open.maps_mut() {
        let is = |suffix: &str| map.name().to_string_lossy().ends_with(suffix);
        if is(".rodata.config") {
            map.set_initial_value(bytes).map_err(tried("the configuration"))?;
        } else if map.name() == OsStr::new("remuda_ops") {
            // kernel_types.h puts the name first
            let initial = map.initial_value_mut().ok_or(Error::Template("remuda_ops"))?;
            initial[..NAME_BYTES].copy_from_slice(&name);
        } else if map.name() == OsStr::new("remuda_destinations") {
            let most = settings.destinations_max.max(1);
            map.set_max_entries(most).map_err(tried("the map of destinations"))?;
        } else if map.name() == OsStr::new("remuda_accounts") {
            let most = ACCOUNTS_OF_SLOT * settings.flows_max;
            map.set_max_entries(most).map_err(tried("the accounts of users and cgroups"))?;
        } else if ["remuda_slots", "remuda_infos", "remuda_free"]
            .map(OsStr::new)
            .contains(&map.name())
        {
            map.set_max_entries(settings.flows_max).map_err(tried("the table of flows"))?;
        }
    }
    Ok(())
}

/// Loads the object. Returns whether the kernel accepts the iterator over the flows. Some hosts
/// refuse every iterator over a map. On such a host, everything but native arms works, and nothing
/// needs `remuda_vacate`, which frees the slots of native flows.
pub fn load_object(settings: &Settings) -> Result<(Object, bool), Error> {
    let load = |looks: bool| {
        let mut open = ObjectBuilder::default()
            .open_memory(OBJECT)
            .map_err(tried("opening the BPF object"))?;
        configure(&mut open, settings)?;
        if !looks {
            for name in ["remuda_look", "remuda_vacate"] {
                let found = open.progs_mut().find(|program| program.name() == OsStr::new(name));
                found.ok_or(Error::Template(name))?.set_autoload(false);
            }
        }
        open.load().map_err(tried("loading the BPF object"))
    };
    match load(true) {
        Err(Error::Kernel { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
            Ok((load(false)?, false))
        }
        loaded => Ok((loaded?, true)),
    }
}

pub fn program<'a>(object: &'a Object, name: &'static str) -> Result<ProgramMut<'a>, Error> {
    let found = object.progs_mut().find(|program| program.name() == OsStr::new(name));
    found.ok_or(Error::Template(name))
}

pub fn map(object: &Object, name: &str) -> Result<MapHandle, Error> {
    let found = object.maps().find(|map| map.name() == OsStr::new(name));
    let map = found.ok_or(Error::Template("a map is missing"))?;
    MapHandle::try_from(&map).map_err(tried(format!("map {name}")))
}
