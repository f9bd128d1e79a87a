//! What this host can do, and what the agent on it says.

use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::{Config, Error, clock};
use remuda_bpf::{Attachments, Datapath, DefaultAlgorithm, Settings};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

/// From include/uapi/linux/capability.h: the bits of capabilities.
const CAPABILITIES: [(&str, u32); 3] = [("NET_ADMIN", 12), ("PERFMON", 38), ("BPF", 39)];
const CAP_SYS_ADMIN: u32 = 21;

/// How one thing is.
pub enum Verdict {
    Good(String),
    /// An optional feature is missing. Contains its state and the fix.
    Lacks(String, &'static str),
    /// The agent cannot run. Contains the state and the fix.
    Bad(String, &'static str),
}

use Verdict::{Bad, Good, Lacks};

pub fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn kernel() -> Verdict {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    match remuda_bpf::ops_member("cong_control") {
        Ok(member) if member.parameters == 4 => {
            Good(format!("{release}; BTF, cong_control with 4 parameters"))
        }
        Ok(member) => Bad(
            format!("{release}: cong_control has {} parameters", member.parameters),
            "Linux 6.10 or later",
        ),
        Err(error) => Bad(
            format!("{release}: {}", error.to_string().replace("\nfix: ", "; fix: ")),
            "a kernel with CONFIG_DEBUG_INFO_BTF=y, CONFIG_BPF_SYSCALL=y and CONFIG_INET",
        ),
    }
}

fn capabilities() -> Verdict {
    let status = read("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    let has = |bit: u32| effective & (1 << bit) != 0;
    let missing: Vec<&str> =
        CAPABILITIES.iter().filter(|(_, bit)| !has(*bit)).map(|(name, _)| *name).collect();
    if missing.is_empty() || has(CAP_SYS_ADMIN) {
        Good("CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON".to_owned())
    } else {
        Bad(
            format!("without CAP_{}", missing.join(", CAP_")),
            "run as root, or give the binary those capabilities with setcap",
        )
    }
}

fn jit() -> Verdict {
    match read("/proc/sys/net/core/bpf_jit_enable").as_deref() {
        Some("1" | "2") => Good("on".to_owned()),
        Some(_) => {
            Lacks("off: programs are interpreted".to_owned(), "sysctl net.core.bpf_jit_enable=1")
        }
        None => Lacks("unknown".to_owned(), "a kernel with CONFIG_BPF_JIT=y"),
    }
}

fn load() -> Verdict {
    let settings = Settings {
        name: format!("doctor{}", std::process::id() % 1_000_000),
        ..Settings::default()
    };
    match Datapath::load(settings, clock::monotonic_ns()) {
        Ok(_) => Good("loads and verifies".to_owned()),
        Err(error) => Bad(
            error.to_string().replace("\nfix: ", "; fix: ").lines().next().unwrap_or("").to_owned(),
            "the lines above; if they are good, report this kernel",
        ),
    }
}

/// The module's counters, if it is loaded: a name and a number on each line.
fn module_counters() -> Option<String> {
    read("/proc/net/tcp_remuda")
}

fn module(counters: Option<&str>) -> Verdict {
    let Some(counters) = counters else {
        return Lacks(
            "tcp_remuda is not loaded".to_owned(),
            "only where BPF cannot: datapath/kernel/README.md",
        );
    };
    let count = |name: &str| {
        let of = |line: &str| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned);
        counters.lines().find_map(of).unwrap_or_default()
    };
    let agent = if count("agent") == "1" { "an agent uses it" } else { "no agent uses it" };
    Good(format!("tcp_remuda: {agent}, {} flows of {}", count("flows"), count("flows_max")))
}

fn natives() -> Verdict {
    let known = read("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let native = Config::default().agent.native;
    if known.split_whitespace().any(|name| name == native) {
        Good(known)
    } else {
        Lacks(
            format!("{known}: without {native}, which flows return to"),
            "modprobe tcp_cubic, or `native = \"reno\"` in the configuration",
        )
    }
}

fn default_algorithm(asked: &Result<Answer, Error>) -> Verdict {
    let name = Config::default().agent.name;
    match DefaultAlgorithm::current() {
        Ok(current) if current == name && asked.is_err() => Lacks(
            format!("{current}, but no agent runs: new flows are in its fallback"),
            "start the agent, or sysctl net.ipv4.tcp_congestion_control=cubic",
        ),
        Ok(current) => Good(current),
        Err(error) => Lacks(error.to_string(), "mount /proc"),
    }
}

/// Where cgroup v2 is mounted.
fn cgroup_mount() -> Option<String> {
    read("/proc/mounts")?.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let path = words.next()?;
        (words.next() == Some("cgroup2")).then(|| path.to_owned())
    })
}

fn cgroups() -> Verdict {
    match cgroup_mount() {
        Some(path) => Good(format!("v2 at {path}")),
        None => Lacks(
            "no cgroup v2".to_owned(),
            "mount -t cgroup2 none /sys/fs/cgroup/unified, to select flows by cgroup",
        ),
    }
}

/// The most directories of cgroups that are looked at for their ids.
const CGROUPS_LOOKED_AT: usize = 20_000;

/// The paths of the cgroups with these ids, as far as they are found.
fn paths_of(ids: &BTreeSet<u64>) -> BTreeMap<u64, PathBuf> {
    let mut found = BTreeMap::new();
    let mut folders: Vec<PathBuf> = cgroup_mount().into_iter().map(Into::into).collect();
    for _ in 0..CGROUPS_LOOKED_AT {
        let Some(folder) = folders.pop().filter(|_| found.len() < ids.len()) else { break };
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if ids.contains(&entry.ino()) {
                found.insert(entry.ino(), entry.path());
            }
            folders.push(entry.path());
        }
    }
    found
}

/// What is registered and attached, by any process, and what no agent answers for.
fn attached(asked: &Result<Answer, Error>) -> Verdict {
    let Attachments { algorithms, cgroups } = Attachments::look();
    let own = match asked {
        Ok(Answer::Status(status)) => status.name.as_str(),
        _ => "",
    };
    let names = algorithms.iter().map(|name| match name == own {
        true => format!("{name} (this agent's)"),
        false => format!("{name} (of another process)"),
    });
    let paths = paths_of(&cgroups);
    let folders = cgroups.iter().map(|id| match paths.get(id) {
        Some(path) => path.display().to_string(),
        None => format!("the removed cgroup {id}"),
    });
    let all: Vec<String> = names.chain(folders).collect();
    let text = if all.is_empty() { "nothing".to_owned() } else { all.join(", ") };
    let of_default = Config::default().agent.name;
    if asked.is_err() && algorithms.contains(&of_default) {
        let fix = "start the agent, or end the process that holds it (`bpftool link` shows it)";
        return Lacks(format!("{text}: no agent answers"), fix);
    }
    Good(text)
}

fn tun() -> Verdict {
    if Path::new("/dev/net/tun").exists() {
        Good("/dev/net/tun".to_owned())
    } else {
        Lacks("no /dev/net/tun".to_owned(), "modprobe tun, for `remuda link` and the demo")
    }
}

fn agent(run_dir: &Path, asked: &Result<Answer, Error>) -> Verdict {
    match asked {
        Ok(Answer::Status(status)) => Good(format!(
            "version {}, process {}, {} flows, new ones by {}",
            status.version, status.pid, status.flows, status.default
        )),
        Err(Error::Hangs { pid, limit_s, .. }) => Bad(
            format!("process {pid} has not answered within {limit_s} s: it is stopped, or hangs"),
            "kill -CONT PID if it is stopped; else kill -KILL PID, and start it again",
        ),
        Err(Error::NotAllowed { path }) => {
            Lacks(format!("{path} is another user's"), "run as root, or as the agent's user")
        }
        Err(Error::NoAgent { .. }) => {
            Lacks(format!("none in {}", run_dir.display()), "remuda agent --policy rein")
        }
        Ok(_) => Lacks("it gave another answer".to_owned(), "the same version of both"),
        Err(error) => Lacks(error.to_string().replace("\nfix: ", "; fix: "), "see there"),
    }
}

/// Names rules that no flow can match, or not yet.
fn rules(run_dir: &Path) -> Verdict {
    let fix = "`remuda rule list` shows them, `remuda rule test` which one wins for a flow";
    match ask(run_dir, &Request::Rules {}) {
        Ok(Answer::Rules { rules, .. }) => {
            let noted: Vec<String> = rules
                .iter()
                .filter_map(|it| Some(format!("{}: {}", it.name, it.notes.first()?)))
                .collect();
            let unused = rules.iter().filter(|it| it.flows + it.control_flows == 0).count();
            let text = format!("{} rules, {unused} without a flow so far", rules.len());
            match &noted[..] {
                [] => Good(text),
                [first] => Lacks(format!("{text}; {first}"), fix),
                [first, others @ ..] => {
                    Lacks(format!("{text}; {first}; {} more notes", others.len()), fix)
                }
            }
        }
        _ => Good("unknown without an agent".to_owned()),
    }
}

/// The checks of this host and its agent, by name.
pub fn all(run_dir: &Path) -> Vec<(&'static str, Verdict)> {
    let asked = ask(run_dir, &Request::Status {});
    vec![
        ("kernel", kernel()),
        ("capabilities", capabilities()),
        ("BPF JIT", jit()),
        ("datapath", load()),
        ("module", module(module_counters().as_deref())),
        ("native algorithms", natives()),
        ("default algorithm", default_algorithm(&asked)),
        ("cgroups", cgroups()),
        ("attached", attached(&asked)),
        ("TUN devices", tun()),
        ("agent", agent(run_dir, &asked)),
        ("rules", rules(run_dir)),
    ]
}

/// Whether `tcp_remuda` is loaded: it does not need what BPF needs.
pub fn has_module() -> bool {
    module_counters().is_some()
}
