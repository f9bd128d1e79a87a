//! Processor time: which time is counted for a flow, and which is not.
//!
//! Counted: all threads of this process (sender, receiver, and the measuring thread, which sleeps),
//! the agent's threads, and `ksoftirqd`. On a veth pair a softirq carries each packet to its
//! receiver and each ACK to its sender. Without `CONFIG_IRQ_TIME_ACCOUNTING` the kernel charges a
//! softirq to the thread that it interrupts, so nearly all of that time is in the first term; a
//! softirq that interrupts a thread of another process is not counted. The busy time of the whole
//! machine includes those softirqs, all other processes and the time that a hypervisor took. It is
//! printed, but has no bound. The rest of it, beyond the flow's own time, shows whether other work
//! disturbed a run.

use crate::Fallible;
use std::fs;
use std::time::Duration;

/// A run in which others used more than this part of one processor is disturbed. A softirq of the
/// flow on an idle processor counts as other work, too.
const OTHERS_MAX: f64 = 0.2;

/// `USER_HZ`: the unit of /proc/stat.
const TICK_NS: u64 = 10_000_000;

#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    pub own_ns: u64,
    /// Time of the agent, if there is one.
    pub agent_ns: u64,
    /// Time of the kernel's threads that run softirqs.
    pub ksoftirqd_ns: u64,
    /// Busy time of the whole machine, without idle and I/O wait, but with stolen time.
    pub machine_ns: u64,
}

/// Time of all threads of a process, from their schedstat files.
fn process_ns(pid: &str) -> Fallible<u64> {
    let mut total = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between the listing and the reading.
        if let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) {
            total += text.split(' ').next().unwrap_or_default().parse::<u64>()?;
        }
    }
    Ok(total)
}

/// Time of this process, including threads that have ended.
pub fn own_ns() -> u64 {
    // SAFETY: a struct of integers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: a valid out-pointer.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

fn ksoftirqd_pids() -> Fallible<Vec<String>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let comm = fs::read_to_string(path.join("comm")).unwrap_or_default();
        if comm.starts_with("ksoftirqd/") {
            pids.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    Ok(pids)
}

/// Reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal, …
fn machine_ns(stat: &str) -> u64 {
    let line = stat.lines().next().unwrap_or_default();
    let columns: Vec<u64> =
        line.split_whitespace().skip(1).filter_map(|c| c.parse().ok()).collect();
    let busy = [0, 1, 2, 5, 6, 7].iter().filter_map(|column| columns.get(*column));
    busy.sum::<u64>() * TICK_NS
}

#[derive(Debug)]
pub struct Meter {
    agent: Option<String>,
    ksoftirqd: Vec<String>,
}

impl Meter {
    /// `agent` is the id of the agent's process, if its time counts.
    pub fn new(agent: Option<u32>) -> Fallible<Self> {
        Ok(Self { agent: agent.map(|pid| pid.to_string()), ksoftirqd: ksoftirqd_pids()? })
    }

    /// The times since each process started.
    pub fn read(&self) -> Fallible<Cpu> {
        let mut ksoftirqd_ns = 0;
        for pid in &self.ksoftirqd {
            ksoftirqd_ns += process_ns(pid)?;
        }
        Ok(Cpu {
            own_ns: own_ns(),
            agent_ns: self.agent.as_deref().map_or(Ok(0), process_ns)?,
            ksoftirqd_ns,
            machine_ns: machine_ns(&fs::read_to_string("/proc/stat")?),
        })
    }
}

impl Cpu {
    /// The times used since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            own_ns: self.own_ns - before.own_ns,
            agent_ns: self.agent_ns - before.agent_ns,
            ksoftirqd_ns: self.ksoftirqd_ns - before.ksoftirqd_ns,
            machine_ns: self.machine_ns - before.machine_ns,
        }
    }

    /// The time that counts for the flow.
    pub fn flow_ns(self) -> u64 {
        self.own_ns + self.agent_ns + self.ksoftirqd_ns
    }

    /// The time of others, as a part of one processor.
    pub fn others(self, elapsed: Duration) -> f64 {
        self.machine_ns.saturating_sub(self.flow_ns()) as f64 / elapsed.as_nanos() as f64
    }

    /// Whether other work left the flow undisturbed.
    pub fn is_quiet(self, elapsed: Duration) -> bool {
        self.others(elapsed) <= OTHERS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_time_is_not_busy_and_stolen_time_is_somebody_elses() {
        assert_eq!(machine_ns("cpu  1 2 3 1000 1000 4 5 6 0 0\ncpu0 9"), 21 * TICK_NS);
    }

    #[test]
    fn a_process_has_used_some_time() {
        assert!(process_ns("self").expect("it reads") > 0);
    }
}
