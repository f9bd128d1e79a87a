//! The demonstration without root: the same downloads by the kernel's own algorithms, in a user
//! namespace.
//!
//! In a user namespace this process may create network namespaces and TUN devices, but may not load
//! BPF programs. So the agent, its arms and rein cannot run.

use super::paths::Plan;
use ccp_agent::control::{policy_rows, program_rows};
use std::fs;
use std::io;

/// The kernel's algorithms to compare, if the kernel has them.
const WANTED: [&str; 4] = ["cubic", "bbr", "westwood", "reno"];

pub fn is_root() -> bool {
    // SAFETY: reads a number and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Printed before anything else.
pub const NOTICE: &str = "\
remuda demo: not root, so no BPF program can be loaded: no agent, no rein and no arm can run.
fix: sudo remuda demo
Without root, the same downloads run by this kernel's own algorithms:";

/// Becomes root of a new user namespace. The process must have only one thread.
pub fn enter_user_namespace() -> io::Result<()> {
    // SAFETY: both read a number and cannot fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: no pointers; no other thread runs that could share the old namespace.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // user_namespaces(7): a process may map its group only after it has denied setgroups.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {gid} 1"))
}

/// The same plan with the kernel's own algorithms as drivers.
pub fn plan(plan: Plan) -> Plan {
    let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    Plan { drivers: natives(&known.unwrap_or_default()), ..plan }
}

fn natives(known: &str) -> Vec<String> {
    let is_known = |name: &&&str| known.split_whitespace().any(|it| it == **name);
    WANTED.iter().filter(is_known).map(|name| (*name).to_owned()).collect()
}

/// Lists the arms and policies that root could run.
pub fn arms_and_policies() -> Result<String, ccp_agent::Error> {
    let mut text = "arms and policies, which `sudo remuda demo` can run:\n".to_owned();
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
    fn the_list_has_arms_and_policies() {
        let text = arms_and_policies().expect("the programs are ours");
        assert!(text.contains("westwood") && text.contains("rein"), "{text}");
    }
}
