//! Loads, queries and unloads tcp_remuda.

use nix::errno::Errno;
use nix::kmod::{DeleteModuleFlags, ModuleInitFlags, delete_module, finit_module};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The module's name in the kernel.
pub const NAME: &str = "tcp_remuda";
/// The file with the module's counters.
pub const PROC: &str = "/proc/net/tcp_remuda";

/// Path of the module in a guest.
pub fn path() -> PathBuf {
    std::env::var_os("REMUDA_MODULE").map_or_else(|| "/modules/tcp_remuda.ko".into(), PathBuf::from)
}

/// Loads the module, with parameters as `insmod` takes them.
pub fn load(parameters: &str) -> Result<(), Errno> {
    load_file(&path(), parameters)
}

/// Loads the module of a file.
pub fn load_file(path: &Path, parameters: &str) -> Result<(), Errno> {
    let file = File::open(path).expect("the image has the module");
    let parameters = CString::new(parameters).expect("no NUL in a parameter");
    finit_module(file, &parameters, ModuleInitFlags::empty())
}

/// Unloads the module; fails if it is in use.
pub fn unload() -> Result<(), Errno> {
    unload_named(NAME)
}

/// Unloads a module by its name in the kernel.
pub fn unload_named(name: &str) -> Result<(), Errno> {
    let name = CString::new(name).expect("no NUL in a name");
    delete_module(&name, DeleteModuleFlags::O_NONBLOCK)
}

pub fn is_loaded() -> bool {
    Path::new(PROC).exists()
}

/// The module's counters, by name.
pub fn counters() -> BTreeMap<String, u64> {
    let text = fs::read_to_string(PROC).expect("it is loaded");
    let pair = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    text.lines().map(|line| pair(line).expect("a name and a number")).collect()
}

/// One counter; 0 if the module does not list it yet.
pub fn counter(name: &str) -> u64 {
    counters().get(name).copied().unwrap_or(0)
}
