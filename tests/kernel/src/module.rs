//! tcp_remuda itself: loaded, asked, unloaded.

use nix::errno::Errno;
use nix::kmod::{DeleteModuleFlags, ModuleInitFlags, delete_module, finit_module};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Its name, as the kernel has it.
pub const NAME: &str = "tcp_remuda";
/// What it says of itself.
pub const PROC: &str = "/proc/net/tcp_remuda";

/// Where a guest has it.
pub fn path() -> PathBuf {
    std::env::var_os("REMUDA_MODULE").map_or_else(|| "/modules/tcp_remuda.ko".into(), PathBuf::from)
}

/// Loads it, with parameters as `insmod` takes them.
pub fn load(parameters: &str) -> Result<(), Errno> {
    let file = File::open(path()).expect("the image has the module");
    let parameters = CString::new(parameters).expect("no NUL in a parameter");
    finit_module(file, &parameters, ModuleInitFlags::empty())
}

/// Unloads it, if nobody uses it.
pub fn unload() -> Result<(), Errno> {
    let name = CString::new(NAME).expect("no NUL in a name");
    delete_module(&name, DeleteModuleFlags::O_NONBLOCK)
}

/// Whether it is loaded.
pub fn is_loaded() -> bool {
    Path::new(PROC).exists()
}

/// What it counts, by name.
pub fn counters() -> BTreeMap<String, u64> {
    let text = fs::read_to_string(PROC).expect("it is loaded");
    let pair = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    text.lines().map(|line| pair(line).expect("a name and a number")).collect()
}

/// One of them; what has not happened yet is 0.
pub fn counter(name: &str) -> u64 {
    counters().get(name).copied().unwrap_or(0)
}
