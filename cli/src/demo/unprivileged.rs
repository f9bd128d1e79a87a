//! Without root: the same downloads under the kernel's own algorithms, in a user namespace.
//!
//! There this process may make network namespaces and TUN devices, but load no BPF program: the
//! agent, its arms and rein have to stay away.

use super::paths::Plan;
use ccp_agent::control::{policy_rows, program_rows};
use std::fs;
use std::io;

/// Linux' algorithms that the demonstration compares, where the kernel has them.
const WANTED: [&str; 4] = ["cubic", "bbr", "westwood", "reno"];

/// Whether this process runs as root.
pub fn is_root() -> bool {
    // SAFETY: reads a number and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// What is said first.
pub const NOTICE: &str = "\
remuda demo: this is not root, so no BPF program can be loaded: no agent, no rein, no arm of ours.
fix: sudo remuda demo
What can run without: the same downloads under this kernel's own algorithms.";

/// Becomes root of a user namespace of its own. The process must have one thread only.
pub fn enter_user_namespace() -> io::Result<()> {
    // SAFETY: both read a number and cannot fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: no pointers; no other thread runs that could share what is given up.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // user_namespaces(7): a process may map its group only after it gave up setgroups.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {gid} 1"))
}

/// The plan for this kernel's own algorithms.
pub fn plan(plan: Plan) -> Plan {
    let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    Plan { drivers: natives(&known.unwrap_or_default()), ..plan }
}

fn natives(known: &str) -> Vec<String> {
    let is_known = |name: &&&str| known.split_whitespace().any(|it| it == **name);
    WANTED.iter().filter(is_known).map(|name| (*name).to_owned()).collect()
}

/// What root would see, where nothing can run.
pub fn herd() -> Result<String, ccp_agent::Error> {
    let mut text = "the herd, which `sudo remuda demo` would run:\n".to_owned();
    for row in program_rows()? {
        text += &format!("  {:<10} {}\n", row.arm, row.summary);
    }
    for (name, summary) in policy_rows() {
        text += &format!("  {name:<10} {summary}\n");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_kernel_has_is_run() {
        assert_eq!(natives("reno bbr cubic dctcp"), ["cubic", "bbr", "reno"]);
        assert_eq!(natives(""), Vec::<String>::new());
    }

    #[test]
    fn the_herd_lists_arms_and_policies() {
        let text = herd().expect("the programs are ours");
        assert!(text.contains("westwood") && text.contains("rein"), "{text}");
    }
}
