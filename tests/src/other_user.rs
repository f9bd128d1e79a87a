//! Another user of the host, without any right of root.

use std::io::Error;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

/// `nobody`, wherever there is one.
pub const UID: u32 = 65_534;

/// Runs `work` as that user, in a thread that ends with it: credentials are a thread's, as the
/// kernel has them, and only libc gives them to a whole process.
pub fn as_other_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            for call in [libc::SYS_setresgid, libc::SYS_setresuid] {
                // SAFETY: three plain numbers; it changes this thread alone, which gains nothing.
                let done = unsafe { libc::syscall(call, UID, UID, UID) };
                assert_eq!(done, 0, "{}", Error::last_os_error());
            }
            work()
        });
        worker.join().expect("the other user's work ends well")
    })
}

/// The command runs as that user.
pub fn of_other_user(command: &mut Command) -> &mut Command {
    command.uid(UID).gid(UID)
}
