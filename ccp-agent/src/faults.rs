//! Lets the file system calls of a test fail, one after the other.
//!
//! The work of a test runs in a thread whose file system calls the kernel first shows to a second
//! thread (seccomp user notification). That thread lets the kernel go on, or answers in its place
//! with an error. So every call that the work makes fails once, whatever the work is, and the code
//! under test has no part for tests.

use std::io::Error;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::mpsc;
use std::thread;

/// A way in which descriptors or the disk can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `EMFILE` at opening a file.
    NoDescriptor,
    /// `ENOSPC` at writing, or at making a name.
    NoSpace,
    /// `EIO` at any call.
    Broken,
    /// Half of the bytes are written. Later writes fail, and if the fault lasts, all later calls.
    ShortWrite,
}

const FAULTS: [Fault; 4] = [Fault::NoDescriptor, Fault::NoSpace, Fault::Broken, Fault::ShortWrite];

/// The calls that open files, write to them and cut them.
const FILE_CALLS: [libc::c_long; 5] =
    [libc::SYS_openat, libc::SYS_write, libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_ftruncate];
/// The calls that make names.
#[cfg(target_arch = "x86_64")]
const NAME_CALLS: [libc::c_long; 7] = [
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_link,
    libc::SYS_linkat,
];
#[cfg(not(target_arch = "x86_64"))]
const NAME_CALLS: [libc::c_long; 3] = [libc::SYS_mkdirat, libc::SYS_renameat2, libc::SYS_linkat];
/// The calls that delete names.
#[cfg(target_arch = "x86_64")]
const DELETE_CALLS: [libc::c_long; 2] = [libc::SYS_unlink, libc::SYS_unlinkat];
#[cfg(not(target_arch = "x86_64"))]
const DELETE_CALLS: [libc::c_long; 1] = [libc::SYS_unlinkat];
/// A test in which this many calls of one run are let fail has a loop without an end.
const CALLS_MAX: usize = 1_000;

/// One failure: what fails, at which call, and whether all later calls fail too.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    pub fault: Fault,
    pub at: usize,
    pub lasts: bool,
}

impl Fault {
    fn concerns(self, data: &libc::seccomp_data) -> bool {
        let call = libc::c_long::from(data.nr);
        // Standard output and error are left alone: the test prints there.
        let is_write = call == libc::SYS_write && data.args[0] > 2;
        let is_open = call == libc::SYS_openat;
        let makes = is_open && data.args[2] & libc::O_CREAT as u64 != 0;
        match self {
            Self::NoDescriptor => is_open,
            Self::NoSpace => {
                is_write || makes || NAME_CALLS.contains(&call) || call == libc::SYS_fsync
            }
            Self::Broken => is_write || call != libc::SYS_write,
            Self::ShortWrite => is_write,
        }
    }

    fn errno(self) -> libc::c_int {
        match self {
            Self::NoDescriptor => libc::EMFILE,
            Self::NoSpace | Self::ShortWrite => libc::ENOSPC,
            Self::Broken => libc::EIO,
        }
    }
}

/// Makes the kernel show the calls of this thread at the descriptor that is returned.
fn show_calls() -> OwnedFd {
    let jump = |code: u32, k: u32, jt: usize, jf: u8| libc::sock_filter {
        code: u16::try_from(code).expect("a code has 16 bits"),
        jt: u8::try_from(jt).expect("a short program"),
        jf,
        k,
    };
    let mut program = vec![jump(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    let calls = [&FILE_CALLS[..], &NAME_CALLS, &DELETE_CALLS].concat();
    for (n, call) in calls.iter().enumerate() {
        let call = u32::try_from(*call).expect("a number of a call");
        let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        program.push(jump(equal, call, calls.len() - n, 0));
    }
    program.push(jump(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0));
    program.push(jump(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_USER_NOTIF, 0, 0));
    let length = u16::try_from(program.len()).expect("a short program");
    let program = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    // SAFETY: plain numbers; it changes this thread alone.
    let done = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(done, 0, "{}", Error::last_os_error());
    // SAFETY: the program and its instructions live during the call.
    let listener = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    };
    assert!(listener >= 0, "seccomp: {}", Error::last_os_error());
    // SAFETY: just opened, and nobody else's.
    unsafe { OwnedFd::from_raw_fd(libc::c_int::try_from(listener).expect("a descriptor")) }
}

/// Answers each call until the thread that makes them has ended. Returns whether the failure came.
fn answer_calls(listener: &OwnedFd, failure: Failure) -> bool {
    let fd = listener.as_raw_fd();
    let (mut seen, mut has_failed) = (0, false);
    loop {
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, as said.
        unsafe { libc::poll(&raw mut poll, 1, -1) };
        if poll.revents & libc::POLLIN == 0 {
            return has_failed; // the thread has ended
        }
        // SAFETY: a plain struct, which must be all zeros.
        let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the request's own struct.
        if unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) } != 0 {
            continue;
        }
        // SAFETY: as above.
        let mut answer: libc::seccomp_notif_resp = unsafe { std::mem::zeroed() };
        answer.id = call.id;
        let Failure { fault, at, lasts } = failure;
        let is_concerned = fault.concerns(&call.data);
        let is_short = fault == Fault::ShortWrite;
        let is_first = is_concerned && seen == at;
        let is_later = match is_short {
            true => has_failed && (is_concerned || lasts && Fault::Broken.concerns(&call.data)),
            false => has_failed && lasts && is_concerned,
        };
        seen += usize::from(is_concerned);
        has_failed |= is_first;
        if is_first && is_short {
            answer.val = write_half(&call.data);
        } else if is_first || is_later {
            answer.error = -fault.errno();
        } else {
            answer.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        }
        // SAFETY: the request's own struct.
        unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer) };
    }
}

/// Writes half of what a call writes, from the same memory to the same descriptor.
fn write_half(data: &libc::seccomp_data) -> i64 {
    let (fd, bytes) = (data.args[0] as libc::c_int, data.args[2] as usize / 2);
    // SAFETY: the caller waits in its own write of these bytes, and both threads share descriptors.
    unsafe { libc::write(fd, data.args[1] as *const libc::c_void, bytes) as i64 }
}

/// Runs `work` with a failure. Returns its result, and whether the failure came.
fn with_failure<T: Send>(failure: Failure, work: impl FnOnce() -> T + Send) -> (T, bool) {
    thread::scope(|scope| {
        let (to, from) = mpsc::channel();
        let worker = scope.spawn(move || {
            to.send(show_calls()).expect("the other thread waits for it");
            work()
        });
        let listener = from.recv().expect("the kernel shows calls (seccomp)");
        let has_failed = answer_calls(&listener, failure);
        (worker.join().expect("no failure of a file ends the thread"), has_failed)
    })
}

/// For each fault and each call: makes something by `begin`, runs `act` with the failure, and hands
/// both to `check`. Returns the number of failures.
pub fn each<S: Send, T: Send>(
    begin: impl Fn() -> S,
    act: impl Fn(&mut S) -> T + Sync,
    check: impl Fn(S, T, Failure),
) -> usize {
    let mut failures = 0;
    for (fault, lasts) in FAULTS.into_iter().flat_map(|fault| [(fault, false), (fault, true)]) {
        for at in 0..CALLS_MAX {
            let failure = Failure { fault, at, lasts };
            let mut state = begin();
            let (done, has_failed) = with_failure(failure, || act(&mut state));
            check(state, done, failure);
            if !has_failed {
                break; // the work makes no more calls than that
            }
            failures += 1;
            assert!(at + 1 < CALLS_MAX, "{fault:?}");
        }
    }
    failures
}
