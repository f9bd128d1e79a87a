//! Errors of the BPF datapath.

use libbpf_rs::ErrorKind;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why the datapath or the kernel refused an operation.
#[derive(Debug, Error)]
pub enum Error {
    /// A message that does not parse; nothing of it took effect.
    #[error(transparent)]
    Message(#[from] remuda_wire::Error),
    /// libbpf or the kernel refused an operation.
    #[error("{what}: {source}\nfix: {}", fix_of(source))]
    Kernel { what: String, source: libbpf_rs::Error },
    /// The kernel has no type information.
    #[error("the kernel offers no BTF ({0})\nfix: a kernel with CONFIG_DEBUG_INFO_BTF=y")]
    NoBtf(io::Error),
    /// This kernel's `tcp_congestion_ops` lacks a member that the datapath needs.
    #[error(
        "tcp_congestion_ops has no {0} here\n\
        fix: Linux 6.10 or later; or the kernel module, with --no-bpf"
    )]
    NoMember(String),
    /// The kernel's `cong_control` has another number of parameters.
    #[error(
        "cong_control takes {0} parameters here, not 4\n\
        fix: Linux 6.10 or later; or the kernel module, with --no-bpf"
    )]
    OldKernel(u32),
    /// The verifier refused a compiled program.
    #[error("the verifier refused a program:\n{0}")]
    Verifier(String),
    /// The kernel refused a compiled program for another cause than what the program does.
    #[error("the kernel refused to load program {name:?}: {source}\nfix: {fix}")]
    Load { name: String, source: io::Error, fix: &'static str },
    /// The iterator over the sockets failed in some network namespaces. It has run in all others.
    #[error(
        "the flows of {failed} of {visited} network namespaces were not all visited; the first \
         error: {source}\nfix: raise LimitNOFILE if there are too many open files; flows that were \
         not visited stay in the datapath's fallback"
    )]
    Namespaces { failed: usize, visited: usize, source: io::Error },
    /// The loaded object differs from what this crate expects of bpf/program.h.
    #[error("the program template: {0}")]
    Template(&'static str),
    /// A map could not be mapped into memory.
    #[error("mapping a BPF map: {0}")]
    Mmap(io::Error),
    /// A name that the kernel would cut or that is not printable.
    #[error("{0:?} cannot name an algorithm: a name has 1 to 15 printable characters")]
    Name(String),
    /// A name that the kernel refuses for an algorithm of a BPF program.
    #[error(
        "{0:?} cannot name the agent's algorithm: the kernel takes letters, digits, _ and . only\n\
         fix: give the agent another --name"
    )]
    OwnName(String),
    /// The kernel does not have an algorithm that the configuration or the agent names.
    #[error(
        "the kernel has no algorithm {name:?} ({source})\n\
         fix: for agent.native and for native arms, name one of these: {available}; or load its \
         module as root: modprobe tcp_{name}"
    )]
    NoNative { name: String, available: String, source: io::Error },
    /// This process may not use an algorithm that the kernel has.
    #[error(
        "only a process with CAP_NET_ADMIN may use the kernel's algorithm {name:?} ({source})\n\
         fix: run as root or with that capability, or add {name:?} to \
         net.ipv4.tcp_allowed_congestion_control (sysctl)"
    )]
    NativeForbidden { name: String, source: io::Error },
    /// The name of an agent, this one or another, where a kernel algorithm must be named.
    #[error(
        "{name:?} is the name of an agent or of another BPF program, not an algorithm of the \
         kernel's own\nfix: name one of these: {available}"
    )]
    NotNative { name: String, available: String },
    /// Another process or a module has registered the agent's name.
    #[error(
        "this kernel already has an algorithm {0:?}: of another agent, of `remuda datapath`, or of \
         a module\nfix: end that one, or give this one another --name"
    )]
    NameTaken(String),
    /// `flows_max` beyond what a table can hold.
    #[error("flows_max = {0}: it must lie in 1..={max}", max = crate::layout::FLOWS_MAX)]
    FlowsMax(u32),
    /// More users are named than the map of users holds.
    #[error(
        "{0} users are named for admission: at most {max}\n\
         fix: name fewer users and groups",
        max = crate::layout::USERS
    )]
    Users(usize),
    /// The host refuses the iterator that measures flows under the kernel's own algorithms.
    #[error(
        "this host refuses BPF iterators over a map (iter/bpf_sk_storage_map), and nothing else \
         measures a flow under one of the kernel's own algorithms\n\
         fix: configure no native arms on this host; all other arms work"
    )]
    NoLooker,
    /// The path is not a cgroup v2 directory.
    #[error(
        "{0} is not a cgroup v2 directory\n\
         fix: one below the mount of type cgroup2 (findmnt -t cgroup2)"
    )]
    NoCgroup(String),
    /// The program table is full.
    #[error("program {0}: all {max} program slots are taken", max = crate::layout::PROGRAMS - 1)]
    ProgramsFull(u32),
    /// A program that was never installed.
    #[error("program {0} is not installed")]
    NoProgram(u32),
    /// Bytes that are not an `INSTALL`, where a program is to be installed.
    #[error("not a program")]
    NotAProgram,
    /// A flow that was given none, and is to be looked at.
    #[error("flow {0:#x} has no program yet, so nothing would measure it")]
    NoProgramYet(u32),
    /// A program that the VM does not take.
    #[error(transparent)]
    Refused(#[from] remuda_vm::Refusal),
    /// A flow that is not, or no longer, there.
    #[error("flow {0:#x} is not live")]
    NoFlow(u32),
    /// The broker refused a request, and nothing has changed.
    #[error("the broker refused {what}: {text}")]
    Broker { what: &'static str, text: String },
    /// There is no broker, or it does not answer.
    #[error(
        "no broker answers at {path}: {source}\n\
         fix: start it (systemctl start remuda-broker, or `remuda broker` as root), and run the \
         agent as the user that it names"
    )]
    NoBroker { path: PathBuf, source: io::Error },
    /// A file of the host, such as a sysctl or a cgroup.
    #[error("{path}: {source}")]
    File { path: String, source: io::Error },
}

/// What to do about an error of the kernel.
fn fix_of(source: &libbpf_rs::Error) -> &'static str {
    // SAFETY: no arguments, and it cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    match source.kind() {
        ErrorKind::PermissionDenied if is_root => {
            "this root may not: a container or a security module takes CAP_BPF, CAP_NET_ADMIN or \
             CAP_PERFMON away, or forbids BPF; `remuda doctor` says which capability is missing"
        }
        ErrorKind::PermissionDenied => {
            "run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON; `remuda doctor` says \
             what else is missing"
        }
        ErrorKind::OutOfMemory => "free memory, or lower agent.flows_max",
        _ if source.to_string().contains("Too many open files") => {
            "raise the limit on file descriptors (LimitNOFILE= of the unit, or `ulimit -n`)"
        }
        _ => "`remuda doctor` says what this host lacks",
    }
}

/// Says what was tried when libbpf fails.
pub(crate) fn tried(what: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> Error {
    let what = what.into();
    move |source| Error::Kernel { what, source }
}
